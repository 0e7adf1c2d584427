//! A certificate as a page: what every rendering shows, before any of them spells it.
//!
//! Our own words and the certificate's data are told apart here, by type, so that no rendering can take one for the
//! other: data is always escaped and always looks like data.

/// The colour of a text: neutral, good, bad or in need of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Bad,
    Warn,
}

/// A piece of text in a cell or line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) text: String,
    pub(super) tone: Tone,
    /// From the certificate: somebody else chose it.
    pub(super) is_data: bool,
}

impl Text {
    /// Our own words.
    pub(super) fn said(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain, is_data: false }
    }

    /// Data of the certificate.
    #[expect(clippy::needless_pass_by_value, reason = "ids and numbers are given as they are")]
    pub(super) fn data(text: impl ToString) -> Self {
        Self { text: text.to_string(), tone: Tone::Plain, is_data: true }
    }

    /// Data of the certificate, or a dash if there is none.
    pub(super) fn perhaps(text: Option<impl ToString>) -> Self {
        text.map_or_else(|| Self::said("–"), Self::data)
    }

    pub(super) fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }
}

/// Rows under headings, the first so many of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) headings: Vec<&'static str>,
    pub(super) rows: Vec<Vec<Text>>,
    /// The number of rows left out.
    pub(super) left_out: usize,
}

/// A part of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Block {
    Line(Text),
    /// Names with their values.
    Facts(Vec<(&'static str, Text)>),
    Table(Table),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) blocks: Vec<Block>,
}

/// One number that a reader looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Figure {
    pub(super) number: String,
    pub(super) of: &'static str,
    pub(super) tone: Tone,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    /// Whether anybody checked any of it.
    pub(super) banner: Text,
    pub(super) title: Text,
    /// The outcome, in a word or two.
    pub(super) verdict: Text,
    /// Why it is not recovered, and what a reader must know first.
    pub(super) warnings: Vec<Text>,
    pub(super) figures: Vec<Figure>,
    pub(super) sections: Vec<Section>,
}
