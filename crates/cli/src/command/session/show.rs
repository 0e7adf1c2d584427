//! One session: whose it is, and what its models took.

use anyhow::Context as _;
use custody_kernel::record::{AdminRequest, Author, Record, Request};
use custody_log::{SessionId, Timestamp};
use custody_runtime::advice::Coverage;
use serde_json::json;

use super::usage::{SessionUsage, backwards, exchange_of};
use crate::command::ledger::describe::Names;
use crate::context::GlobalContext;
use crate::output::{BOLD, ExitStatus, excerpt, fact, json_line, line, moment, paint};

/// Show one session, open or closed: whose it is, how many requests to models were answered in it and how much of the
/// answers was decided, and what they took. Numbers of tokens are the vendors' own.
#[derive(Debug, clap::Args)]
pub(super) struct Show {
    /// The session
    session: SessionId,
}

/// What the record holds of a session.
#[derive(Debug, Default)]
struct Found {
    opened: Option<Opened>,
    usage: SessionUsage,
    /// How many answers were checked, partly checked, and not.
    coverage: [u64; 3],
    /// When something was asked in it last.
    last: Option<Timestamp>,
}

#[derive(Debug)]
struct Opened {
    at: Timestamp,
    by: Author,
    alias: Option<String>,
}

impl Found {
    /// Takes a record of the session. Whether older ones may be of it, too.
    fn take(&mut self, session: SessionId, record: &Record) -> bool {
        if let Request::Admin(AdminRequest::OpenSession { session: opened, alias, .. }) =
            &record.request
            && *opened == session
            && record.answer.refusal().is_none()
        {
            let (at, by, alias) = (record.at, record.by.clone(), alias.clone());
            self.opened = Some(Opened { at, by, alias });
            return false;
        }
        if record.by != Author::Session(session) {
            return true;
        }
        self.last.get_or_insert(record.at);
        if let Some(exchange) = exchange_of(record) {
            self.usage.add(exchange.usage.unwrap_or_default());
            let [checked, partly, not_checked] = &mut self.coverage;
            match exchange.coverage {
                Coverage::Checked => *checked += 1,
                Coverage::Partly => *partly += 1,
                Coverage::NotChecked => *not_checked += 1,
            }
        }
        true
    }
}

pub(super) fn run(context: &GlobalContext, args: &Show) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let session = args.session;
    let mut found = Found::default();
    backwards(&store, |record| found.take(session, record))?;
    let Found { opened, usage, coverage: [checked, partly, not_checked], last } = found;
    let opened = opened.with_context(|| format!("there was never a session `{session}`"))?;
    let is_open = store.state(|state| state.sessions().any(|(id, _)| id == session))?;
    let principal = Names::new(&store)?.asker(&opened.by)?;
    if context.json {
        json_line(&json!({
            "session": session,
            "principal": principal,
            "alias": opened.alias,
            "opened": moment(opened.at),
            "last": last.map(moment),
            "open": is_open,
            "coverage": { "checked": checked, "partly": partly, "not_checked": not_checked },
            "usage": usage,
        }))?;
        return Ok(ExitStatus::Success);
    }
    let alias = opened.alias.map_or(String::new(), |alias| format!("  {}", excerpt(&alias, 40)));
    line(format_args!("{}{alias}", paint(BOLD, session)));
    let state = if is_open { "open" } else { "closed" };
    fact("for", &principal);
    fact("opened", &format!("{}, {state}", moment(opened.at)));
    fact("last", &last.map_or("nothing was asked".to_owned(), moment));
    fact("answered", &usage.requests());
    fact("decided", &format!("{checked} checked, {partly} partly, {not_checked} not"));
    fact("bytes", &usage.bytes());
    let missing = usage.missing().map_or(String::new(), |missing| format!("; {missing}"));
    fact("tokens", &format!("{}, by the vendors' own count{missing}", usage.tokens()));
    Ok(ExitStatus::Success)
}
