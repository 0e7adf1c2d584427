//! Screening as advice: the result of the built-in detector, recorded with the entry that it screened.
//!
//! No decision reads advice. An incident search uses it later (docs/design.md §6.2: evidence before score).

use custody_detect::screen::Screener;
use custody_detect::text_kind::TextKind;
use custody_kernel::label::Channel;
use custody_kernel::score::Score;
use custody_runtime::advice::{Advice, Advisor, NotScreened, Screening, Version1};

/// Advises on observations with the compiled-in detector.
#[derive(Debug, Clone, Copy, Default)]
pub struct DetectorAdvice;

impl Advisor for DetectorAdvice {
    /// Texts of the system and of the model are not screened.
    fn advise(&self, text: &str, channel: Channel) -> Option<Advice> {
        let is_screened = !matches!(channel, Channel::System | Channel::Model);
        is_screened.then(|| advice(text, channel))
    }
}

/// The advice of the compiled-in detector on a text that entered on `channel`: a screening, or why there is none.
fn advice(text: &str, channel: Channel) -> Advice {
    match Screener::built_in().screen(text, kind(channel)) {
        Ok(verdict) => {
            let mut rules: Vec<String> =
                verdict.findings.into_iter().map(|finding| finding.rule).collect();
            rules.sort();
            rules.dedup();
            Advice::Screening(Screening {
                v: Version1,
                detector: "default".to_owned(),
                score: Score::at_most_one((verdict.score * 10_000.0).round() / 10_000.0),
                flagged: verdict.is_flagged,
                stage: verdict.stage.name().to_owned(),
                rules,
            })
        }
        Err(error) => Advice::NotScreened(NotScreened { v: Version1, why: error.to_string() }),
    }
}

/// The kind of text that a channel carries.
fn kind(channel: Channel) -> TextKind {
    match channel {
        Channel::System | Channel::User => TextKind::Prompt,
        Channel::Web
        | Channel::Tool
        | Channel::Skill
        | Channel::Retrieval
        | Channel::Memory
        | Channel::Model
        | Channel::File
        | Channel::PeerAgent => TextKind::Content,
    }
}
