//! What kind of text is screened: words to the assistant, or a document that it reads.

/// What a text is to the assistant that will read it.
///
/// A request is benign in a prompt and an injection in a document, so the two are screened with different models and
/// thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TextKind {
    /// A message to the assistant.
    Prompt,
    /// Third-party content that the assistant reads.
    Content,
    /// Not known; [`TextKind::resolve`] guesses from the structure of the text.
    Unknown,
}

impl TextKind {
    /// The kind itself; for [`TextKind::Unknown`] a guess from the structure of `text`.
    #[must_use]
    pub fn resolve(self, text: &str) -> Self {
        match self {
            Self::Unknown if looks_like_a_document(text) => Self::Content,
            Self::Unknown => Self::Prompt,
            Self::Prompt | Self::Content => self,
        }
    }
}

/// How many bytes at the beginning of a text are examined.
const EXAMINED_BYTES: usize = 4_096;

/// Whether `text` is structured like a document: structured data, an e-mail with headers, a table, markup or code.
#[must_use]
pub fn looks_like_a_document(text: &str) -> bool {
    let head = &text[..text.floor_char_boundary(EXAMINED_BYTES)];
    let head = head.trim_start_matches('\u{FEFF}').trim();
    is_structured(head)
        || has_mail_headers(head)
        || is_table(head)
        || is_markup(head)
        || is_code(head)
}

/// Whether a text is JSON, a Python literal, or a string that holds either.
fn is_structured(text: &str) -> bool {
    let inner = text.trim_start_matches(['"', '\'']);
    inner.starts_with(['{', '['])
        && [":", "',", "\",", "\"]", "']"].iter().any(|mark| inner.contains(mark))
}

/// Whether a text begins with two mail headers, or is long and begins with one in its first line.
fn has_mail_headers(text: &str) -> bool {
    let count = text
        .lines()
        .take(8)
        .flat_map(|line| line.split('|'))
        .filter(|part| is_mail_header(part))
        .count();
    count >= 2 || count == 1 && text.len() > 120 && text.lines().next().is_some_and(is_mail_header)
}

fn is_mail_header(line: &str) -> bool {
    const HEADERS: [&str; 9] = [
        "subject",
        "from",
        "to",
        "date",
        "betreff",
        "von",
        "an",
        "email_from",
        "subject of the email",
    ];
    line.split_once(':').is_some_and(|(name, rest)| {
        !rest.trim().is_empty() && HEADERS.contains(&name.trim().to_lowercase().as_str())
    })
}

/// Whether two thirds of the first twelve lines have bars or commas as a table has.
fn is_table(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(12).collect();
    let with_bars = lines.iter().filter(|line| line.matches('|').count() >= 2).count();
    let with_commas = lines
        .iter()
        .filter(|line| line.matches([',', ';', '\t']).count() >= 3 && !line.contains(". "))
        .count();
    let most = (lines.len() * 2).div_ceil(3).max(2);
    with_bars >= most || lines.len() >= 3 && with_commas >= most
}

fn is_markup(text: &str) -> bool {
    text.starts_with("<!")
        || text.starts_with("<html")
        || text.starts_with("<?xml")
        || text.matches("</").count() >= 2
}

fn is_code(text: &str) -> bool {
    const MARKS: [&str; 10] = [
        "#include",
        "import ",
        "def ",
        "fn ",
        "function ",
        "class ",
        "const ",
        "#!/",
        "    return ",
        "};",
    ];
    text.matches("```").count() >= 2
        || MARKS.iter().filter(|mark| at_line_start(text, mark)).count() >= 2
}

fn at_line_start(text: &str, mark: &str) -> bool {
    text.starts_with(mark) || text.match_indices(mark).any(|(at, _)| text[..at].ends_with('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_distinguished_from_prompts() {
        let documents = [
            "{'reviews': [{'content': 'Great doctor', 'rating': 4}]}",
            "\"{\\\"notes\\\": [\\\"a\\\", \\\"b\\\"]}\"",
            "Subject: Invoice 12\nFrom: Ann <ann@example.com>\n\nDear Bob, please find it attached.",
            "| City | People |\n| Rome | 2.8 |\n| Milan | 1.4 |",
            "<html><body><p>Hello</p></body></html>",
            "Use this:\n```\nimport os\n```\nIt works.",
            "id,name,city,price\n1,Pen,Rome,2\n2,Cup,Bonn,4",
        ];
        for text in documents {
            assert!(looks_like_a_document(text), "{text:?}");
        }
        let words = [
            "What is the capital of Peru?",
            "Please translate: the cat sat, the dog ran, the bird flew, the end.",
            "Act as a translator. You must: keep names; keep numbers; be brief.",
            "Schreibe mir ein Gedicht über den Herbst.",
            "",
        ];
        for text in words {
            assert!(!looks_like_a_document(text), "{text:?}");
        }
    }
}
