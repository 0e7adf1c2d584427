//! The sessions that are open, and closing those whose host ended without (G23).

use std::path::PathBuf;

use custody_kernel::principal::Authority;
use custody_kernel::record::AdminRequest;
use custody_kernel::state::{SessionState, State};
use custody_log::{SessionId, Timestamp};
use custody_runtime::Store;
use custody_runtime::store::Receipt;
use serde_json::json;

use super::serve;
use super::usage::{self, SessionUsage};
use crate::context::GlobalContext;
use crate::output::{
    BAD, BOLD, DIM, ExitStatus, cell, count, excerpt, json_line, line, moment, paint, table,
};
use crate::running_service::ServiceState;

/// Close sessions whose host ended without: one, or all that were idle for so long.
///
/// Whoever a session runs for closes it, with --token-file or --as, and the owner any. A closed session is never
/// continued; what it wrote stays.
#[derive(Debug, clap::Args)]
pub(super) struct Close {
    /// The session
    #[arg(required_unless_present = "idle", conflicts_with = "idle")]
    session: Option<SessionId>,
    /// Every session in which nothing was asked for so long, such as `24h` or `30m`, of those that you may close
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    idle: Option<u64>,
    /// Close as whoever this token is of
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    token_file: Option<PathBuf>,
    /// Who you are; your passphrase is asked for [default: the owner]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

fn parse_ms(text: &str) -> Result<u64, String> {
    let span: Option<jiff::SignedDuration> = text.parse().ok();
    let ms = span.and_then(|span| u64::try_from(span.as_millis()).ok());
    ms.ok_or_else(|| format!("`{}` is no time; write `24h` or `30m`", excerpt(text, 32)))
}

/// An open session, as it is listed.
struct Open {
    id: SessionId,
    session: SessionState,
    principal: String,
    usage: SessionUsage,
}

impl Open {
    /// All of them, the longest idle first.
    fn all(store: &Store) -> anyhow::Result<Vec<Self>> {
        let mut open: Vec<Self> = store.state(|state| {
            state.sessions().map(|(id, session)| Self::of(state, id, session)).collect()
        })?;
        open.sort_unstable_by_key(|open| (open.session.active_at, open.id));
        Ok(open)
    }

    fn of(state: &State, id: SessionId, session: &SessionState) -> Self {
        let known = session.who.principal.and_then(|id| state.principal_by_id(id));
        let principal = known.map_or_else(|| "nobody".to_owned(), |known| known.name.clone());
        Self { id, session: session.clone(), principal, usage: SessionUsage::default() }
    }

    /// Whether `authority` may close it, as the kernel decides.
    fn is_closed_by(&self, authority: &Authority) -> bool {
        let (who, holder) = (authority.who(), &self.session.who);
        let is_holder = who.principal.is_some() && who.principal == holder.principal;
        authority.is_owner() || (is_holder && who.tenant == holder.tenant)
    }

    fn row(&self, now: Timestamp) -> Vec<(String, anstyle::Style)> {
        let name = self.session.alias.as_deref().map_or(String::new(), |alias| excerpt(alias, 40));
        vec![
            (self.id.to_string(), BOLD),
            cell(excerpt(&self.principal, 64)),
            cell(&self.session.who.tenant),
            cell(age(self.age_ms(now))),
            cell(age(self.idle_ms(now))),
            cell(self.usage.requests()),
            cell(self.usage.tokens()),
            (name, DIM),
        ]
    }

    fn idle_ms(&self, now: Timestamp) -> u64 {
        now.0.saturating_sub(self.session.active_at.0)
    }

    fn age_ms(&self, now: Timestamp) -> u64 {
        now.0.saturating_sub(self.session.opened_at.0)
    }
}

pub(super) fn list(context: &GlobalContext) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let now = store.clock().now();
    let mut open = Open::all(&store)?;
    if let Some(first) = open.iter().map(|open| open.session.opened_at).min() {
        let used = usage::since(&store, first)?;
        for open in &mut open {
            open.usage = used.get(&open.id).copied().unwrap_or_default();
        }
    }
    ServiceState::of(context).warn_if_it_runs();
    if context.json {
        for open in &open {
            json_line(&json!({
                "session": open.id,
                "principal": open.principal,
                "tenant": open.session.who.tenant,
                "alias": open.session.alias,
                "opened": moment(open.session.opened_at),
                "age_ms": open.age_ms(now),
                "idle_ms": open.idle_ms(now),
                "usage": open.usage,
            }))?;
        }
        return Ok(ExitStatus::Success);
    }
    if open.is_empty() {
        line("No session is open.");
        return Ok(ExitStatus::Success);
    }
    let rows: Vec<_> = open.iter().map(|open| open.row(now)).collect();
    table(
        &["session", "for", "tenant", "open for", "idle for", "answered", "tokens claimed", "name"],
        &rows,
    );
    Ok(ExitStatus::Success)
}

pub(super) fn close(context: &GlobalContext, args: &Close) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let authority = match &args.token_file {
        Some(file) => serve::authority(&store, Some(file))?,
        None => context.human(&store, args.name.as_deref())?,
    };
    let receipts = match (args.session, args.idle) {
        (Some(session), _) => vec![end(&store, &authority, session)?],
        (None, idle) => close_idle(&store, &authority, idle.unwrap_or(u64::MAX))?,
    };
    let refusal = receipts.iter().find_map(|receipt| receipt.answer.refusal());
    let closed = receipts.iter().filter(|receipt| receipt.answer.is_done()).count();
    if context.json {
        let reason = refusal.map(ToString::to_string);
        json_line(&json!({ "closed": closed, "reason": reason }))?;
    } else if let Some(refusal) = refusal {
        line(paint(BAD, format_args!("refused: {refusal}")));
    } else {
        line(format_args!("closed {}", count(closed as u64, "session")));
    }
    Ok(ExitStatus::failure_if(refusal.is_some()))
}

/// Closes every session that `authority` may close and in which nothing was asked for `idle_ms`.
pub(super) fn close_idle(
    store: &Store,
    authority: &Authority,
    idle_ms: u64,
) -> anyhow::Result<Vec<Receipt>> {
    let now = store.clock().now();
    let idle = Open::all(store)?.into_iter().filter(|open| open.idle_ms(now) >= idle_ms);
    let theirs = idle.filter(|open| open.is_closed_by(authority));
    theirs.map(|open| end(store, authority, open.id)).collect()
}

fn end(store: &Store, authority: &Authority, session: SessionId) -> anyhow::Result<Receipt> {
    Ok(store.ask(authority, AdminRequest::EndSession { session })?)
}

/// A time as people say it, in its largest unit: `3 d`, `5 h`, `12 min`, `40 s`.
fn age(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min")];
    let unit = units.into_iter().find(|(unit, _)| ms >= *unit);
    let (unit, name) = unit.unwrap_or((1_000, "s"));
    format!("{} {name}", ms / unit)
}
