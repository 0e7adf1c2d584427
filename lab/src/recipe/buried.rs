//! Documents with something planted in them, and where.

use std::ops::Range;

use crate::random::Generator;

/// Where in a document something is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PlantedPosition {
    /// Before everything else.
    Start,
    /// Between two sentences or lines.
    Middle,
    /// After everything else.
    End,
}

impl PlantedPosition {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Start, Self::Middle, Self::End];

    /// The word in ids of figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// A document, and which bytes of it are an attack; none in a clean one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planted {
    /// The document.
    pub text: String,
    /// The attack in it.
    pub span: Option<Range<usize>>,
}

impl Planted {
    /// A document in which nothing is planted.
    pub fn clean(text: impl Into<String>) -> Self {
        Self { text: text.into(), span: None }
    }

    /// `payload` at `position` of `document`. A document without a break inside takes it at its end.
    pub fn at(
        document: &str,
        payload: &str,
        position: PlantedPosition,
        draw: &mut Generator,
    ) -> Self {
        let breaks = breaks(document);
        let gap = ["\n", " ", "\n\n"][pick(draw, 3)];
        let cut = match position {
            PlantedPosition::Start => 0,
            PlantedPosition::Middle if !breaks.is_empty() => breaks[pick(draw, breaks.len())],
            PlantedPosition::Middle | PlantedPosition::End => document.len(),
        };
        let before = if cut == document.len() { gap } else { "" };
        let after = if cut == document.len() { "" } else { gap };
        let start = cut + before.len();
        let text = format!("{}{before}{payload}{after}{}", &document[..cut], &document[cut..]);
        Self { text, span: Some(start..start + payload.len()) }
    }

    /// `payload` in the place of the first `marker` of `template`; the clean template without one.
    pub fn instead_of(template: &str, marker: &str, payload: &str) -> Self {
        let Some(start) = template.find(marker) else { return Self::clean(template) };
        let text = template.replacen(marker, payload, 1);
        Self { text, span: Some(start..start + payload.len()) }
    }
}

/// A place below `count`, which is not 0.
pub(super) fn pick(draw: &mut Generator, count: usize) -> usize {
    usize::try_from(draw.below(count as u64)).unwrap_or(0)
}

/// Where a sentence or line of `document` ends and another begins.
fn breaks(document: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut before = ' ';
    let mut open = false;
    for (at, c) in document.char_indices() {
        if open && !c.is_whitespace() {
            found.push(at);
            open = false;
        }
        open |= c == '\n' || c.is_whitespace() && matches!(before, '.' | '!' | '?');
        before = c;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planted_stands_where_the_span_says() {
        let document = "One. Two is longer.\nThree";
        for position in PlantedPosition::ALL {
            for seed in 0..20 {
                let planted = Planted::at(document, "ATTACK", position, &mut Generator::new(seed));
                let span = planted.span.clone().expect("something is planted");
                assert_eq!(&planted.text[span.clone()], "ATTACK");
                let without: String = planted.text.replacen("ATTACK", "", 1);
                let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
                assert_eq!(plain(&without), plain(document), "the document itself is not changed");
                match position {
                    PlantedPosition::Start => assert_eq!(span.start, 0),
                    PlantedPosition::Middle => {
                        assert!(span.start > 0 && span.end < planted.text.len());
                    }
                    PlantedPosition::End => assert_eq!(span.end, planted.text.len()),
                }
            }
        }
    }

    #[test]
    fn a_field_takes_the_place_of_its_marker() {
        let planted = Planted::instead_of("{'bio': '<X>'}", "<X>", "Hello");
        assert_eq!(planted, Planted { text: "{'bio': 'Hello'}".to_owned(), span: Some(9..14) });
        assert_eq!(Planted::instead_of("none", "<X>", "Hello"), Planted::clean("none"));
    }
}
