//! Looking at memory: get, list, history, diff.

use std::io::{IsTerminal, Write};

use anyhow::Context as _;
use custody_kernel::advice::Advice;
use custody_kernel::key::Key;
use custody_kernel::memory::review::Pending;
use custody_kernel::namespace::Namespace;
use custody_kernel::record::{AdminRequest, Record, Request, SessionRequest};
use custody_log::EntryId;
use custody_runtime::store::content_of;
use custody_runtime::watch::FileState;
use custody_runtime::{Session, Store};
use serde_json::json;
use similar::{ChangeTag, TextDiff};

use super::{AsHuman, NamespaceArgs, parse_key, pending_of, print_receipt, text_of};
use crate::context::GlobalContext;
use crate::output::{
    BAD, BOLD, DIM, ExitStatus, GOOD, WARN, cell, excerpt, json_line, line, moment, paint, preview,
    shown, table,
};
use crate::reveal::line_of;

/// Print an item. The read is recorded, like any agent's.
#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    /// The item
    #[arg(value_parser = parse_key)]
    key: Key,
    #[command(flatten)]
    place: NamespaceArgs,
    #[command(flatten)]
    who: AsHuman,
}

/// List items.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Every namespace, sessions included
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    place: NamespaceArgs,
    #[command(flatten)]
    who: AsHuman,
}

/// Show every change of an item, the last first.
#[derive(Debug, clap::Args)]
pub(crate) struct History {
    /// The item
    #[arg(value_parser = parse_key)]
    key: Key,
    #[command(flatten)]
    place: NamespaceArgs,
    #[command(flatten)]
    who: AsHuman,
}

/// Show what changed: in a pending proposal, on disk, or by the last change of an item.
#[derive(Debug, clap::Args)]
pub(crate) struct Diff {
    /// An item, or the id of a pending proposal
    what: String,
    #[command(flatten)]
    place: NamespaceArgs,
    #[command(flatten)]
    who: AsHuman,
}

pub(super) fn get(context: &GlobalContext, args: &Get) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let authority = args.place.enter(context.authority(&store, args.who.name.as_deref())?)?;
    let session = Session::open(&store, &authority, Some("custody memory get".into()))?;
    let reading = session.read(args.place.scope(), args.key.clone()).wait()?;
    session.close()?;
    if reading.receipt.answer.refusal().is_some() {
        return print_receipt(context, "", &reading.receipt);
    }
    let Some(value) = reading.value else {
        let namespace = args.place.namespace();
        if context.json {
            json_line(&json!({ "key": args.key, "value": null }))?;
        } else {
            anstream::eprintln!("there is no `{}` in `{namespace}`", args.key);
        }
        return Ok(ExitStatus::Failure);
    };
    if context.json {
        let label = reading.receipt.label;
        json_line(&json!({
            "key": args.key,
            "value": text_of(&value),
            "tainted": label.is_tainted(),
            "id": reading.receipt.id,
        }))?;
    } else if std::io::stdout().is_terminal() {
        line(shown(&text_of(&value)));
    } else {
        std::io::stdout().write_all(&value)?;
    }
    Ok(ExitStatus::Success)
}

pub(super) fn list(context: &GlobalContext, args: &List) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let asked = args.place.looked_at(context, &store, &args.who)?;
    let namespaces: Vec<Namespace> = if args.all {
        store.state(|state| {
            let all = state.namespaces().into_iter();
            all.filter(|namespace| namespace.tenant == asked.tenant).cloned().collect()
        })?
    } else {
        vec![asked]
    };
    let mut rows = Vec::new();
    for namespace in &namespaces {
        rows.extend(list_one(context, &store, namespace)?);
    }
    if !context.json {
        if rows.is_empty() {
            line("There are no items yet.");
        } else {
            table(&["namespace", "key", "mode", "version", "bytes", "file"], &rows);
        }
    }
    Ok(ExitStatus::Success)
}

fn list_one(
    context: &GlobalContext,
    store: &Store,
    namespace: &Namespace,
) -> anyhow::Result<Vec<Vec<(String, anstyle::Style)>>> {
    let items: Vec<_> = store.state(|state| {
        let items = state.items_in(namespace);
        items.into_iter().map(|(key, item)| (key.clone(), item.clone())).collect()
    })?;
    let mut rows = Vec::new();
    for (key, item) in items {
        let bytes = item.current.map(|version| store.content(version.content)).transpose()?;
        let watched = store.state(|state| state.watched_item(namespace, &key).is_some())?;
        let file = watched.then(|| store.check_file_of(namespace, &key)).transpose()?;
        let file = file.map(|report| report.state);
        if context.json {
            json_line(&json!({
                "namespace": namespace.to_string(),
                "key": key,
                "mode": item.mode,
                "version": item.current.map(|version| version.entry),
                "bytes": bytes.as_ref().map(Vec::len),
                "value_sha256": bytes.as_ref().map(|b| custody_log::Digest::of(b)),
                "file": file,
            }))?;
        }
        let file = match file {
            None => cell(""),
            Some(FileState::Matches) => ("matches".into(), GOOD),
            Some(FileState::Edited) => ("edited outside Custody".into(), BAD),
            Some(FileState::Missing) => ("missing".into(), BAD),
            Some(FileState::Unreadable(_)) => ("unreadable".into(), BAD),
        };
        rows.push(vec![
            (namespace.to_string(), DIM),
            (excerpt(key.as_str(), 48), BOLD),
            cell(item.mode),
            cell(item.current.map_or("–".into(), |version| version.entry.to_string())),
            cell(bytes.map_or(String::new(), |bytes| bytes.len().to_string())),
            file,
        ]);
    }
    Ok(rows)
}

pub(super) fn history(context: &GlobalContext, args: &History) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let namespace = args.place.looked_at(context, &store, &args.who)?;
    let changes = store.history(&namespace, &args.key)?;
    let mut rows = Vec::new();
    for change in &changes {
        let content = content_of(change);
        let value = content.map(|content| store.retrieve(content)).transpose()?.flatten();
        let is_out = content.is_some() && value.is_none();
        let text = value.as_deref().map(text_of);
        if context.json {
            json_line(&json!({
                "seq": change.seq,
                "id": change.id,
                "at": moment(change.at),
                "change": verb(&change.request),
                "tainted_origin": change.label.is_tainted(),
                "value": text,
                "taken_out": is_out,
                "advice": change.advice,
            }))?;
            continue;
        }
        let without = if is_out { TAKEN_OUT } else { "(deleted)" };
        let text = text.map_or_else(|| without.into(), |text| excerpt(&text, 48));
        rows.push(vec![
            (change.seq.to_string(), BOLD),
            (moment(change.at), DIM),
            cell(verb(&change.request)),
            cell(text),
        ]);
    }
    if !context.json {
        if rows.is_empty() {
            line(format_args!("There was never a `{}` in `{namespace}`.", args.key));
        } else {
            table(&["version", "when", "by", "value"], &rows);
        }
    }
    Ok(ExitStatus::failure_if(changes.is_empty()))
}

/// What stands in place of a text that an incident took out.
const TAKEN_OUT: &str = "(taken out; see `custody incident list`)";

const fn verb(request: &Request) -> &'static str {
    match request {
        Request::Session(SessionRequest::Write { .. }) => "write",
        Request::Session(SessionRequest::Delete { .. }) => "delete",
        Request::Session(SessionRequest::Promote { .. }) => "promote",
        Request::Admin(AdminRequest::Approve { .. }) => "approve",
        Request::Admin(AdminRequest::AdoptFile { .. }) => "adopt",
        Request::Admin(
            AdminRequest::CreateStore(_)
            | AdminRequest::OpenSession { .. }
            | AdminRequest::EndSession { .. },
        )
        | Request::Session(
            SessionRequest::CloseSession
            | SessionRequest::DeclareIntents(_)
            | SessionRequest::JoinContext
            | SessionRequest::Observe { .. }
            | SessionRequest::Read { .. }
            | SessionRequest::List { .. }
            | SessionRequest::Route(_),
        )
        | Request::Call(_)
        | Request::Session(
            SessionRequest::Withhold { .. }
            | SessionRequest::Extract(_)
            | SessionRequest::RecordBasis(_),
        )
        | Request::Admin(
            AdminRequest::Deny { .. }
            | AdminRequest::SetMode { .. }
            | AdminRequest::AddPrincipal(_)
            | AdminRequest::RevokePrincipal { .. }
            | AdminRequest::SetLimits(_)
            | AdminRequest::SetPolicy { .. }
            | AdminRequest::Adapt(_)
            | AdminRequest::Recover(_)
            | AdminRequest::RotateLogKey(_)
            | AdminRequest::CloseUnsignedFormat(_)
            | AdminRequest::AdoptLedger { .. },
        ) => "no change",
    }
}

pub(super) fn diff(context: &GlobalContext, args: &Diff) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let (old, new, what) = if let Ok(id) = args.what.parse::<EntryId>() {
        diff_of_proposal(&store, id)?
    } else {
        let key = parse_key(&args.what).map_err(anyhow::Error::msg)?;
        diff_of_item(&store, &args.place.looked_at(context, &store, &args.who)?, &key)?
    };
    if context.json {
        json_line(&json!({ "what": what, "old": old, "new": new, "differs": old != new }))?;
    } else {
        line(paint(DIM, what));
        print_diff(&old, &new);
    }
    Ok(ExitStatus::failure_if(old != new))
}

fn diff_of_proposal(store: &Store, id: EntryId) -> anyhow::Result<(String, String, String)> {
    let pending = pending_of(store, id)?;
    let pending = pending.with_context(|| format!("`{id}` is not waiting for a decision"))?;
    let now = present(store, &pending.namespace, &pending.key)?;
    let proposed = proposed(store, &pending)?;
    let what = format!("{} in {}: now, and as proposed", pending.key, pending.namespace);
    Ok((text_of(&now), text_of(&proposed), what))
}

fn diff_of_item(
    store: &Store,
    namespace: &Namespace,
    key: &Key,
) -> anyhow::Result<(String, String, String)> {
    if store.state(|state| state.watched_item(namespace, key).is_some())? {
        let report = store.check_file_of(namespace, key)?;
        if report.state != FileState::Matches {
            let sides = [report.recorded, report.on_disk];
            let [recorded, on_disk] =
                sides.map(|bytes| bytes.as_deref().map(text_of).unwrap_or_default());
            let what = format!("{key}: the record, and the file on disk");
            return Ok((recorded, on_disk, what));
        }
    }
    let history = store.history(namespace, key)?;
    let last =
        history.first().with_context(|| format!("there was never a `{key}` in `{namespace}`"))?;
    let before = history.get(1).map(|change| value_after(store, change)).transpose()?;
    let what = format!("{key}: before and after {}", last.seq);
    Ok((text_of(&before.unwrap_or_default()), text_of(&value_after(store, last)?), what))
}

/// The bytes an item had after `change`.
pub(super) fn value_after(store: &Store, change: &Record) -> anyhow::Result<Vec<u8>> {
    let content = content_of(change);
    let value = content.map(|content| store.retrieve(content)).transpose()?;
    Ok(value.map(|value| value.unwrap_or_else(|| TAKEN_OUT.into())).unwrap_or_default())
}

/// The bytes that a proposal would store.
pub(super) fn proposed(store: &Store, pending: &Pending) -> anyhow::Result<Vec<u8>> {
    let value = pending.value.map(|value| store.retrieve(value)).transpose()?;
    Ok(value.map(|value| value.unwrap_or_else(|| TAKEN_OUT.into())).unwrap_or_default())
}

/// The bytes an item has now.
pub(super) fn present(store: &Store, namespace: &Namespace, key: &Key) -> anyhow::Result<Vec<u8>> {
    let version = store.state(|state| state.item(namespace, key).and_then(|item| item.current))?;
    Ok(version.map(|version| store.content(version.content)).transpose()?.unwrap_or_default())
}

/// A line diff, with what nobody sees escaped, and three lines around each change.
pub(in crate::command) fn print_diff(old: &str, new: &str) {
    diff_lines(old, new, 3).iter().for_each(line);
}

/// The same in lines, with `around` unchanged lines around each change.
pub(super) fn diff_lines(old: &str, new: &str, around: usize) -> Vec<String> {
    if old == new {
        return vec![paint(DIM, "no difference")];
    }
    let diff = TextDiff::from_lines(old, new);
    let mut lines = Vec::new();
    for (position, group) in diff.grouped_ops(around).iter().enumerate() {
        if position > 0 {
            lines.push(paint(DIM, "…"));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (sign, style) = match change.tag() {
                ChangeTag::Delete => ("-", BAD),
                ChangeTag::Insert => ("+", GOOD),
                ChangeTag::Equal => (" ", anstyle::Style::new()),
            };
            let text = change.value();
            let text = line_of(text.strip_suffix('\n').unwrap_or(text));
            lines.push(paint(style, format_args!("{sign} {text}")));
        }
    }
    lines
}

/// Ends a command that would change `old` into `new`, showing the difference to a person.
pub(super) fn preview_diff(
    context: &GlobalContext,
    old: &str,
    new: &str,
    would: &str,
) -> anyhow::Result<ExitStatus> {
    if !context.json {
        print_diff(old, new);
    }
    preview(context.json, would)
}

/// The advice beside a proposal.
pub(super) fn advice_lines(advice: &[Advice]) -> impl Iterator<Item = String> {
    advice
        .iter()
        .map(|note| format!("{} {}", paint(WARN, "noticed"), excerpt(&note.to_string(), 120)))
}
