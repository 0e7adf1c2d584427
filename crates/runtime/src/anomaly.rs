//! MON's content anomaly check: advice on pending diffs and in the log.
//!
//! Looks for fourteen substrings and decides nothing: it runs after the decision, and no decision can
//! see what it found. Zero-width characters and look-alike letters do not hide a phrase from it
//! (M18).
//!
//! Source: docs/papers.md §2.7, "Anomaly".

use crate::normal::normalised;

/// What is looked for, in normalised text, and what is said about it.
const PHRASES: [(&str, &str); 14] = [
    ("ignore previous", "override phrase"),
    ("ignore all", "override phrase"),
    ("override", "override phrase"),
    ("bypass", "override phrase"),
    ("new instructions", "override phrase"),
    ("developer mode", "mode switch"),
    ("admin mode", "mode switch"),
    ("forward all", "data forwarding"),
    ("send to", "data forwarding"),
    ("exfiltrate", "exfiltration word"),
    ("<script", "script opener"),
    ("<!--", "comment opener"),
    ("<|im_start|>", "chat template marker"),
    ("[inst]", "chat template marker"),
];

/// What in `text` a reviewer should look at twice, each as `kind: phrase`. Empty is no clearance.
pub fn anomalies(text: &str) -> Vec<String> {
    let plain: String = normalised(text).collect();
    let found = PHRASES.iter().filter(|(phrase, _)| plain.contains(phrase));
    found.map(|(phrase, kind)| format!("{kind}: `{phrase}`")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m18_a_phrase_is_noticed_through_zero_width_and_case_and_line_breaks() {
        for text in [
            "please IGNORE ALL rules",
            "ig\u{200B}nore\n all",
            "ＩＧＮＯＲＥ all",
            "x <!-- hidden\n note -->",
        ] {
            assert!(!anomalies(text).is_empty(), "{text:?}");
        }
        assert!(anomalies("The meeting is on Tuesday.").is_empty());
    }
}
