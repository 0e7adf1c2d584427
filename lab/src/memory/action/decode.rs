//! From bytes to actions.

use super::{Act, Action, ActionChannel, Judge, Known, Place, Text, Vocabulary};

/// Reads one action from the front of `bytes`; `None` at their end.
pub fn decode(bytes: &mut &[u8], vocabulary: Vocabulary, known: &Known<'_>) -> Option<Action> {
    let kinds = match vocabulary {
        Vocabulary::Mon => 16,
        Vocabulary::Extended => 28,
    };
    let mut reader = Reader { bytes, vocabulary, known };
    let kind = reader.draw()? % kinds;
    let Start { session, argument, key, place, judge } = reader.start()?;
    let act = match kind {
        0..=3 => reader.internal(argument)?,
        4..=7 => Act::Read { place, key },
        8..=13 => reader.write(session, place, key)?,
        14 | 15 => {
            let from = if argument < 128 { session } else { argument / 8 % known.sessions };
            Act::Promote { from, key }
        }
        16..=18 => Act::Delete { place, key },
        19..=21 => {
            let (proposal, detail) = reader.proposal()?;
            Act::Approve { judge, proposal, saw_it: detail % 9 != 8 }
        }
        22 => Act::Deny { judge, proposal: reader.proposal()?.0 },
        23..=25 => {
            let mode = ["open", "reviewed", "immutable", "open"][reader.draw()? % 4];
            let judge = if argument % 2 == 0 { Judge::Owner } else { judge };
            Act::SetMode { judge, place, key, mode }
        }
        _ => reader.set_clock()?,
    };
    Some(Action { session, act })
}

/// Takes bytes, and knows what they may refer to.
struct Reader<'a, 'b> {
    bytes: &'a mut &'b [u8],
    vocabulary: Vocabulary,
    known: &'a Known<'a>,
}

/// What the bytes of every action begin with, after its kind.
struct Start {
    session: usize,
    argument: usize,
    key: String,
    place: Place,
    judge: Judge,
}

impl Reader<'_, '_> {
    fn draw(&mut self) -> Option<usize> {
        let (first, rest) = self.bytes.split_first()?;
        *self.bytes = rest;
        Some(usize::from(*first))
    }

    fn start(&mut self) -> Option<Start> {
        let known = self.known;
        let session = self.draw()? % known.sessions;
        let argument = self.draw()?;
        let key = known.keys.get(argument % known.keys.len())?.to_string();
        // Mostly one's own and the shared namespace, now and then another session's.
        let place = match argument / 16 {
            0..=6 => Place::Shared,
            7..=13 => Place::Session(session),
            _ => Place::Session(argument % known.sessions),
        };
        let judge = Judge::ALL[argument / 3 % Judge::ALL.len()];
        Some(Start { session, argument, key, place, judge })
    }

    /// An entry that there is; `None` while there is none.
    fn entry(&self, at: usize) -> Option<usize> {
        (!self.known.entries.is_empty()).then(|| at % self.known.entries.len())
    }

    /// No entry, or one if `named`.
    fn entries(&mut self, named: bool) -> Option<Vec<usize>> {
        if !named {
            return Some(Vec::new());
        }
        let at = self.draw()?;
        Some(self.entry(at).into_iter().collect())
    }

    fn internal(&mut self, argument: usize) -> Option<Act> {
        let parents = self.entries(argument % 5 == 4)?;
        Some(Act::Internal { channel: channel(argument), parents })
    }

    fn write(&mut self, session: usize, place: Place, key: String) -> Option<Act> {
        let is_extended = self.vocabulary == Vocabulary::Extended;
        let detail = self.draw()?;
        let queue = is_extended && detail & 1 == 1;
        let missing = detail % 23 == 22;
        let depends_on = self.entries(detail % 4 == 2)?;
        let text = if is_extended && detail % 7 == 6 { self.spoken(session)? } else { None };
        let text = text.unwrap_or_else(|| Text::New(format!("value {}", self.known.fresh)));
        Some(Act::Write { place, key, text, depends_on, missing, queue })
    }

    /// The text of an entry, if it has one and is the session's own.
    fn spoken(&mut self, session: usize) -> Option<Option<Text>> {
        let at = self.draw()?;
        let spoken = self.entry(at).and_then(|entry| {
            let (by, text) = &self.known.entries[entry];
            let text = text.clone().filter(|_| *by == session)?;
            Some(Text::Of { entry, text })
        });
        Some(spoken)
    }

    /// Mostly one of the latest proposals, and the byte that chose it.
    fn proposal(&mut self) -> Option<(usize, usize)> {
        let detail = self.draw()?;
        let proposals = self.known.proposals;
        let proposal = match proposals.len() {
            0 => self.entry(detail)?,
            _ if detail % 16 == 15 => self.entry(detail)?,
            count => proposals[count - 1 - detail % count.min(6)],
        };
        Some((proposal, detail))
    }

    fn set_clock(&mut self) -> Option<Act> {
        let (step, now) = (self.draw()? as u64, self.known.now_ms);
        // Now and then back, which must not help anybody.
        let back = step % 8 == 7;
        Some(Act::SetClock { ms: if back { now.saturating_sub(step * 3) } else { now + step } })
    }
}

fn channel(argument: usize) -> ActionChannel {
    const CHANNELS: [ActionChannel; 16] = [
        ActionChannel::User,
        ActionChannel::System,
        ActionChannel::User,
        ActionChannel::Completion,
        ActionChannel::Completion,
        ActionChannel::ToolCall,
        ActionChannel::User,
        ActionChannel::Web,
        ActionChannel::System,
        ActionChannel::Tool,
        ActionChannel::User,
        ActionChannel::Skill,
        ActionChannel::Completion,
        ActionChannel::Retrieval,
        ActionChannel::File,
        ActionChannel::PeerAgent,
    ];
    // Untrusted channels are rarer than in that list, or soon no context is clean.
    let listed = CHANNELS[argument % CHANNELS.len()];
    match argument {
        0..96 => listed,
        _ if matches!(listed, ActionChannel::Completion | ActionChannel::ToolCall) => {
            ActionChannel::Completion
        }
        _ => ActionChannel::User,
    }
}
