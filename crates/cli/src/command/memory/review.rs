//! What only a human may do: approve, deny, change modes, adopt files.

use std::path::PathBuf;

use anyhow::Context as _;
use custody_kernel::key::Key;
use custody_kernel::memory::item::Mode;
use custody_kernel::memory::review::{Pending, Purpose};
use custody_kernel::namespace::{Namespace, Tenant};
use custody_kernel::record::AdminRequest;
use custody_log::EntryId;
use custody_runtime::Store;
use custody_runtime::watch::adopt_file;
use serde_json::json;

use super::show::{advice_lines, diff_lines, present, preview_diff, proposed};
use super::{AsHuman, NamespaceArgs, parse_key, parse_mode, pending_of, print_receipt, text_of};
use crate::command::session::review::{agrees, show};
use crate::context::GlobalContext;
use crate::file_error::unreadable;
use crate::output::{
    BOLD, DIM, ExitStatus, HEAD, WARN, json_line, line, moment, paint, preview, shown,
};
use crate::page;

/// List the proposals that wait for a reviewer, with what they would change.
#[derive(Debug, clap::Args)]
pub(crate) struct PendingArgs {
    #[command(flatten)]
    place: NamespaceArgs,
    #[command(flatten)]
    who: AsHuman,
}

/// Approve a pending proposal. The approval holds for exactly the content shown, once.
#[derive(Debug, clap::Args)]
pub(crate) struct Approve {
    /// The proposal
    proposal: EntryId,
    #[command(flatten)]
    who: AsHuman,
}

/// Turn a pending proposal down.
#[derive(Debug, clap::Args)]
pub(crate) struct Deny {
    /// The proposal
    proposal: EntryId,
    #[command(flatten)]
    who: AsHuman,
}

/// Make an item open, reviewed (each write waits for a reviewer) or immutable. Owner only.
#[derive(Debug, clap::Args)]
pub(crate) struct ModeArgs {
    /// The item
    #[arg(value_parser = parse_key)]
    key: Key,
    /// The new mode
    #[arg(value_parser = parse_mode, value_name = "open|reviewed|immutable")]
    mode: Mode,
    /// Do it; without this, only show what would change
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    place: NamespaceArgs,
    #[command(flatten)]
    who: AsHuman,
}

/// Take a file as it is on disk for the value of a shared item, and watch it from now on. A new item
/// starts immutable. Owner only.
#[derive(Debug, clap::Args)]
pub(crate) struct Adopt {
    /// The file
    file: PathBuf,
    /// The item [default: the file's name]
    #[arg(long, value_parser = parse_key)]
    key: Option<Key>,
    /// Do it; without this, only show what would change
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    who: AsHuman,
}

pub(super) fn pending(context: &GlobalContext, args: &PendingArgs) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let tenant = args.place.looked_at(context, &store, &args.who)?.tenant;
    let now = store.clock().now();
    let waiting: Vec<Pending> = store.state(|state| {
        state.pending().filter(|pending| pending.namespace.tenant == tenant).cloned().collect()
    })?;
    let mut shown = Vec::new();
    for pending in &waiting {
        let expired = pending.expires <= now;
        if context.json {
            let advice = store.record(pending.entry)?.advice;
            json_line(&json!({
                "proposal": pending.proposal,
                "purpose": pending.purpose,
                "namespace": pending.namespace.to_string(),
                "key": pending.key,
                "value": pending.value.map(|value| store.retrieve(value)).transpose()?.flatten().as_deref().map(text_of),
                "expires": moment(pending.expires),
                "expired": expired,
                "advice": advice,
            }))?;
        } else {
            shown.extend(described(&store, pending, expired)?);
        }
    }
    page::print(&shown)?;
    if waiting.is_empty() && !context.json {
        line("Nothing waits for a decision.");
    }
    Ok(ExitStatus::Success)
}

/// All that a proposal would change, in lines.
fn described(store: &Store, pending: &Pending, expired: bool) -> anyhow::Result<Vec<String>> {
    let purpose = match pending.purpose {
        Purpose::Review => "review",
        Purpose::Declassify => "declassification: it depends on untrusted text",
        Purpose::Call => "a tool call",
    };
    let until = moment(pending.expires);
    let until = if expired {
        paint(WARN, format_args!("expired {until}; propose it again"))
    } else {
        paint(DIM, format_args!("until {until}"))
    };
    let mut lines = vec![
        paint(HEAD, pending.proposal),
        format!("{} in {}, for {purpose}", paint(BOLD, &pending.key), pending.namespace),
        until,
    ];
    lines.extend(advice_lines(&store.record(pending.entry)?.advice));
    let now = present(store, &pending.namespace, &pending.key)?;
    // The whole text: what did not change is approved, too.
    lines.extend(diff_lines(&text_of(&now), &text_of(&proposed(store, pending)?), usize::MAX));
    lines.push(String::new());
    Ok(lines)
}

pub(super) fn approve(context: &GlobalContext, args: &Approve) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let pending = pending_of(&store, args.proposal)?;
    if let Some(pending) = &pending {
        show(context, &described(&store, pending, pending.expires <= store.clock().now())?)?;
    }
    // What is shown is what is approved: another content, proposed meanwhile, is not.
    let shown = pending.and_then(|pending| pending.value).map(|value| value.commitment);
    let reviewer = context.human(&store, args.who.name.as_deref())?;
    if shown.is_some() && !agrees("Store exactly this?")? {
        line(paint(WARN, "Nothing was approved."));
        return Ok(ExitStatus::Failure);
    }
    let receipt = store.approve(&reviewer, args.proposal, shown)?;
    print_receipt(context, "approved and stored", &receipt)
}

pub(super) fn deny(context: &GlobalContext, args: &Deny) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let reviewer = context.human(&store, args.who.name.as_deref())?;
    let receipt = store.deny(&reviewer, args.proposal)?;
    print_receipt(context, "turned down", &receipt)
}

pub(super) fn mode(context: &GlobalContext, args: ModeArgs) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let namespace = args.place.namespace();
    let item = store.state(|state| state.item(&namespace, &args.key).cloned())?;
    let present = item.unwrap_or_default().mode;
    if !args.apply {
        let would = format!("make `{}` {} (now {present})", args.key, args.mode);
        return preview(context.json, &would);
    }
    let owner = context.human(&store, args.who.name.as_deref())?;
    let done = format!("`{}` is {}", args.key, args.mode);
    let (tenant, scope) = (namespace.tenant, namespace.scope);
    let request = AdminRequest::SetMode { tenant, scope, key: args.key, mode: args.mode };
    let receipt = store.ask(&owner, request)?;
    print_receipt(context, &done, &receipt)
}

pub(super) fn adopt(context: &GlobalContext, args: Adopt) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let key = match args.key {
        Some(key) => key,
        None => key_of(&args.file)?,
    };
    let namespace = Namespace::shared(Tenant::main());
    if !args.apply {
        let disk = std::fs::read(&args.file).with_context(|| unreadable(&args.file))?;
        let recorded = present(&store, &namespace, &key)?;
        let path = shown(&args.file.display().to_string());
        let would = format!("adopt `{path}` as `{key}`");
        return preview_diff(context, &text_of(&recorded), &text_of(&disk), &would);
    }
    let owner = context.human(&store, args.who.name.as_deref())?;
    let receipt = adopt_file(&store, &owner, key.clone(), &args.file)?;
    print_receipt(
        context,
        &format!("`{key}` is what the file holds, and the file is watched"),
        &receipt,
    )
}

fn key_of(file: &std::path::Path) -> anyhow::Result<Key> {
    let name = file.file_name().and_then(|name| name.to_str());
    let name = name
        .with_context(|| format!("`{}` has no name to use as a key; pass --key", file.display()))?;
    parse_key(name).map_err(anyhow::Error::msg)
}
