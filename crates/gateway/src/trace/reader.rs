//! The walk over a trace: line by line, message by message, within limits.

use std::io::BufRead;

use super::error::{TraceError, TraceProblem};
use super::form::{Form, Spoken, read_form};
use super::line::{Line, Lines};
use super::links::Links;
use super::message::{Conversation, Step};
use crate::json::{self, Budget, Numbers};

/// What a trace may cost to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceLimits {
    /// Bytes of one line, its line feed not counted. No more than this, and one
    /// byte, is ever buffered.
    pub max_line_bytes: usize,
    /// JSON values in one line, those inside tool arguments included. A small
    /// object takes a hundred times its text in memory, so bytes alone bound little.
    pub max_line_values: usize,
    /// Messages and tool calls in the whole trace.
    pub max_messages: usize,
}

impl Default for TraceLimits {
    /// 16 MiB and 200,000 values a line, 1,000,000 messages.
    fn default() -> Self {
        Self { max_line_bytes: 16 << 20, max_line_values: 200_000, max_messages: 1_000_000 }
    }
}

/// Reads a trace as a stream of [`Step`]s, in the order of the file.
///
/// A conversation is named by `conversation`, `conversation_id`, `session` or
/// `session_id` of a message, else by its line's, else by the `id` of a line with
/// `messages`. Without a name, single messages share one conversation and every other
/// line is its own.
///
/// # Errors
/// The stream ends after its first [`TraceError`]. A line that has one yields no step.
pub fn read_trace<R: BufRead>(input: R, limits: &TraceLimits) -> Trace<R> {
    Trace {
        lines: Lines::new(input, limits.max_line_bytes),
        limits: *limits,
        ready: Vec::new().into_iter(),
        links: Links::default(),
        steps: 0,
        spent: 0,
        fresh: 0,
        ended: false,
    }
}

/// The steps of one trace. Made by [`read_trace`].
#[derive(Debug)]
pub struct Trace<R> {
    lines: Lines<R>,
    limits: TraceLimits,
    /// What is left of the line read last.
    ready: std::vec::IntoIter<Step>,
    links: Links,
    steps: u64,
    /// How much of `max_messages` is used up.
    spent: usize,
    fresh: u64,
    ended: bool,
}

impl<R: BufRead> Iterator for Trace<R> {
    type Item = Result<Step, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(step) = self.ready.next() {
                return Some(Ok(step));
            }
            if self.ended {
                return None;
            }
            match self.read_line() {
                Ok(Some(steps)) => self.ready = steps.into_iter(),
                Ok(None) => self.ended = true,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl<R: BufRead> Trace<R> {
    /// The steps of the next line, or `None` at the end.
    fn read_line(&mut self) -> Result<Option<Vec<Step>>, TraceError> {
        let Some(Line { number, text }) = self.lines.next_line()? else {
            return Ok(None);
        };
        let form = parse_line(text, self.limits.max_line_values)
            .map_err(|problem| TraceError { line: number, problem })?;
        self.place(number, form).map(Some).map_err(|problem| TraceError { line: number, problem })
    }

    /// Gives each message its number, its conversation and the call it answers.
    fn place(&mut self, line: u64, form: Form) -> Result<Vec<Step>, TraceProblem> {
        let (said, unnamed) = match form {
            Form::Message(spoken) => (vec![spoken], Conversation::Default),
            Form::Conversation(said) => {
                self.fresh += 1;
                (said, Conversation::Fresh(self.fresh))
            }
        };
        self.spend(&said)?;
        let mut steps = Vec::with_capacity(said.len());
        for Spoken { conversation, message } in said {
            self.steps += 1;
            let conversation = conversation.map_or_else(|| unnamed.clone(), Conversation::Named);
            let answers = self.links.follow(&conversation, self.steps, &message);
            steps.push(Step { number: self.steps, line, conversation, answers, message });
        }
        if let Conversation::Fresh(_) = unnamed {
            self.links.forget(&unnamed);
        }
        Ok(steps)
    }

    fn spend(&mut self, said: &[Spoken]) -> Result<(), TraceProblem> {
        let cost: usize = said.iter().map(|spoken| 1 + spoken.message.tool_calls.len()).sum();
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limits.max_messages {
            return Err(TraceProblem::TooManyMessages { limit: self.limits.max_messages });
        }
        Ok(())
    }
}

fn parse_line(text: &str, max_values: usize) -> Result<Form, TraceProblem> {
    let mut budget = Budget::new(max_values);
    let value = json::parse(text, Numbers::Any, &mut budget).map_err(TraceProblem::NotJson)?;
    read_form(value, &mut budget)
}
