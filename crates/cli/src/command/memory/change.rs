//! Changes that any session may ask for: put, delete, promote, rollback.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use custody_kernel::key::Key;
use custody_kernel::label::Channel;
use custody_kernel::principal::{Authority, Credential};
use custody_log::SessionId;
use custody_pipeline::DetectorAdvice;
use custody_runtime::ingress::Observation;
use custody_runtime::session::{NewValue, Write};
use custody_runtime::watch::FileState;
use custody_runtime::{Session, Store};

use super::show::preview_diff;
use super::{AsHuman, NamespaceArgs, parse_channel, parse_key, print_receipt, text_of};
use crate::context::GlobalContext;
use crate::file_error::unreadable;
use crate::output::{BOLD, ExitStatus, line, paint, preview};

/// Write an item. What you type is recorded as coming from you, or from `--from`, and decided by the
/// rules like any agent's write.
#[derive(Debug, clap::Args)]
pub(crate) struct Put {
    /// The item
    #[arg(value_parser = parse_key)]
    key: Key,
    /// The value; `-` reads standard input
    #[arg(required_unless_present = "file")]
    value: Option<String>,
    /// Read the value from a file
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    file: Option<PathBuf>,
    /// Where the value came from, if not from you: trust can only be given up
    #[arg(long, value_name = "CHANNEL", value_parser = parse_channel)]
    from: Option<Channel>,
    /// If rule 4 refuses it, let it wait for a reviewer
    #[arg(long)]
    queue: bool,
    #[command(flatten)]
    place: NamespaceArgs,
    #[command(flatten)]
    who: AsHuman,
}

/// Delete an item: a write of nothing, decided as one. Its history stays.
#[derive(Debug, clap::Args)]
pub(crate) struct Delete {
    /// The item
    #[arg(value_parser = parse_key)]
    key: Key,
    /// Do it; without this, only show what would be deleted
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    place: NamespaceArgs,
    #[command(flatten)]
    who: AsHuman,
}

/// Share an item of a session with every session of its tenant (rules 6 and 7).
#[derive(Debug, clap::Args)]
pub(crate) struct Promote {
    /// The item
    #[arg(value_parser = parse_key)]
    key: Key,
    /// The session that has it; `custody memory list --all` shows them
    #[arg(long, value_name = "SESSION")]
    session: SessionId,
    #[command(flatten)]
    who: AsHuman,
}

/// Put an item back to a recorded version: a write of the old value, decided as one. If the item's
/// watched file was edited outside Custody, put the file back instead.
#[derive(Debug, clap::Args)]
pub(crate) struct Rollback {
    /// The item
    #[arg(value_parser = parse_key)]
    key: Key,
    /// The version, by the position or id that `custody memory history` shows [default: the one before]
    #[arg(long, value_name = "VERSION")]
    to: Option<String>,
    /// If rule 4 refuses it, let it wait for a reviewer
    #[arg(long)]
    queue: bool,
    /// Do it; without this, only show what would change
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    place: NamespaceArgs,
    #[command(flatten)]
    who: AsHuman,
}

pub(super) fn put(context: &GlobalContext, args: &Put) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let text = value(args)?;
    let authority = args.place.enter(context.authority(&store, args.who.name.as_deref())?)?;
    let (session, value) = match args.from {
        // Nobody is there to have said it: the request itself is all that is known.
        None if authority.who().credential == Credential::None => {
            (asked(&store, &authority, &format!("put {}", args.key))?, NewValue::Text(text))
        }
        from => said(&store, &authority, from.unwrap_or(Channel::User), text)?,
    };
    let scope = args.place.scope();
    let write = Write { value, queue: args.queue, ..Write::new(scope, args.key.clone(), "") };
    let receipt = session.write(write).wait()?;
    let outcome = print_receipt(context, &format!("`{}` is written", args.key), &receipt);
    session.close()?;
    outcome
}

fn value(args: &Put) -> anyhow::Result<String> {
    if let Some(file) = &args.file {
        let read = std::fs::read(file);
        let bytes = read.with_context(|| unreadable(file))?;
        return utf8(bytes);
    }
    match args.value.as_deref() {
        Some("-") => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).context("could not read standard input")?;
            utf8(bytes)
        }
        Some(value) => Ok(value.to_owned()),
        None => bail!("give a value, `-` for standard input, or `--file`"),
    }
}

fn utf8(bytes: Vec<u8>) -> anyhow::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow::anyhow!("the value is not UTF-8 at byte {at}; convert it first")
    })
}

pub(super) fn delete(context: &GlobalContext, args: &Delete) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let namespace = args.place.namespace();
    if !args.apply {
        let item = store.state(|state| state.item(&namespace, &args.key).cloned())?;
        ensure!(
            item.is_some_and(|item| item.current.is_some()),
            "there is no `{}` in `{namespace}`",
            args.key
        );
        return preview(context.json, &format!("delete `{}` from {namespace}", args.key));
    }
    let authority = args.place.enter(context.authority(&store, args.who.name.as_deref())?)?;
    let session = asked(&store, &authority, &format!("delete {}", args.key))?;
    let receipt = session.delete(args.place.scope(), args.key.clone()).wait()?;
    let outcome = print_receipt(context, &format!("`{}` is deleted", args.key), &receipt);
    session.close()?;
    outcome
}

pub(super) fn promote(context: &GlobalContext, args: &Promote) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let authority = context.authority(&store, args.who.name.as_deref())?;
    let session = asked(&store, &authority, &format!("promote {}", args.key))?;
    let receipt = session.promote(args.session, args.key.clone()).wait()?;
    let outcome = print_receipt(context, &format!("`{}` is shared", args.key), &receipt);
    session.close()?;
    outcome
}

pub(super) fn rollback(context: &GlobalContext, args: &Rollback) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    if args.to.is_none()
        && let Some(outcome) = rollback_file(context, &store, args)?
    {
        return Ok(outcome);
    }
    let namespace = args.place.namespace();
    let history = store.history(&namespace, &args.key)?;
    let version = match &args.to {
        None => history.get(1),
        Some(to) => history.iter().find(|change| {
            change.id.to_string() == *to || change.seq.0.to_string() == to.trim_start_matches('#')
        }),
    };
    let version = version.with_context(|| match &args.to {
        None => format!("`{}` has no version before the present one", args.key),
        Some(to) => format!("`{}` has no version `{to}`; see `custody memory history`", args.key),
    })?;
    let old = super::show::value_after(&store, version)?;
    let now = super::show::present(&store, &namespace, &args.key)?;
    if !args.apply {
        let would = format!("put `{}` back to {}", args.key, version.seq);
        return preview_diff(context, &text_of(&now), &text_of(&old), &would);
    }
    let authority = args.place.enter(context.authority(&store, args.who.name.as_deref())?)?;
    let session = asked(&store, &authority, &format!("roll {} back to {}", args.key, version.seq))?;
    // The old version stands among the dependencies, so what it was made from is not forgotten.
    let write = Write {
        depends_on: vec![version.id],
        queue: args.queue,
        ..Write::new(args.place.scope(), args.key.clone(), utf8(old)?)
    };
    let receipt = session.write(write).wait()?;
    let outcome =
        print_receipt(context, &format!("`{}` is back at {}", args.key, version.seq), &receipt);
    session.close()?;
    outcome
}

/// Puts a watched file back when it is not what the record says; `None` when there is nothing to do.
fn rollback_file(
    context: &GlobalContext,
    store: &Store,
    args: &Rollback,
) -> anyhow::Result<Option<ExitStatus>> {
    let namespace = args.place.namespace();
    let watched = store.state(|state| state.watched_item(&namespace, &args.key).is_some())?;
    if !watched {
        return Ok(None);
    }
    let report = store.check_file_of(&namespace, &args.key)?;
    if report.state == FileState::Matches {
        return Ok(None);
    }
    let disk = report.on_disk.as_deref().map(text_of).unwrap_or_default();
    let record = report.recorded.as_deref().map(text_of).unwrap_or_default();
    if !args.apply {
        let path = crate::output::shown(&report.watched.path);
        let would = format!("put `{path}` back to the record");
        return preview_diff(context, &disk, &record, &would).map(Some);
    }
    store.restore_file(&namespace, &args.key)?;
    if context.json {
        crate::output::json_line(&serde_json::json!({ "restored": report.watched.path }))?;
    } else {
        line(format_args!("{} is back at the record.", paint(BOLD, &report.watched.path)));
    }
    Ok(Some(ExitStatus::Success))
}

/// A session in which somebody said `text`, and the value it then has. One part is one arrival, whose
/// stored row the item shares; a text that was split is stored anew.
fn said(
    store: &Store,
    authority: &Authority,
    channel: Channel,
    text: String,
) -> anyhow::Result<(Session, NewValue)> {
    let session = Session::open(store, authority, Some("custody memory put".into()))?
        .with_advisor(Arc::new(DetectorAdvice));
    let parts = session.observe(Observation::message(channel, text.clone())).wait()?;
    let value = match parts.as_slice() {
        [one] => NewValue::Entry(one.seq),
        _ => NewValue::Text(text),
    };
    Ok((session, value))
}

/// A session in which something was asked for at the keyboard, in our own words: the request then has an
/// origin, and who asks decides.
fn asked(store: &Store, authority: &Authority, what: &str) -> anyhow::Result<Session> {
    let session = Session::open(store, authority, Some("custody memory".into()))?;
    session.observe(Observation::message(Channel::System, what)).wait()?;
    Ok(session)
}
