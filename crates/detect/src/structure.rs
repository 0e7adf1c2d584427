//! What a text is built like: something a person says to an assistant, or a document an assistant reads.

/// How much of a text is looked at, in bytes: its build shows at the beginning.
const LOOKED_AT: usize = 4_096;

/// Whether `text` is built like a document: structured data, an e-mail with its headings, a table, code.
///
/// A request is innocent when a person makes it and an injection when a document does, so the two are
/// screened differently; this guess is made only where nobody says how the text entered.
pub fn looks_like_a_document(text: &str) -> bool {
    let mut end = text.len().min(LOOKED_AT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let head = text[..end].trim_start_matches('\u{FEFF}').trim();
    is_structured(head)
        || has_mail_headings(head)
        || is_table(head)
        || is_markup(head)
        || is_code(head)
}

/// JSON, a Python literal, or either inside a string.
fn is_structured(text: &str) -> bool {
    let inner = text.trim_start_matches(['"', '\'']);
    let opens = inner.starts_with(['{', '[']);
    opens && [":", "',", "\",", "\"]", "']"].iter().any(|mark| inner.contains(mark))
}

fn has_mail_headings(text: &str) -> bool {
    const HEADINGS: [&str; 9] = [
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
    let heading = |part: &str| {
        part.split_once(':').is_some_and(|(name, rest)| {
            !rest.trim().is_empty() && HEADINGS.contains(&name.trim().to_lowercase().as_str())
        })
    };
    let lines =
        || text.lines().take(8).flat_map(|line| line.split('|')).filter(|part| heading(part));
    lines().count() >= 2
        || lines().count() == 1 && text.lines().next().is_some_and(heading) && text.len() > 120
}

fn is_table(text: &str) -> bool {
    let bars = |line: &&str| line.matches('|').count() >= 2;
    let commas = |line: &&str| line.matches([',', ';', '\t']).count() >= 3 && !line.contains(". ");
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(12).collect();
    let most = |of: usize| of >= 2 && of * 3 >= lines.len() * 2;
    most(lines.iter().filter(|line| bars(line)).count())
        || lines.len() >= 3 && most(lines.iter().filter(|line| commas(line)).count())
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
    fn documents_are_told_from_words_to_an_assistant() {
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
