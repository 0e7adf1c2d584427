//! `custody principal`: who may ask for what, and how they prove it.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::{Principal, Role};
use custody_kernel::state::AskError;
use custody_keys::{Existing, HumanKey};
use custody_runtime::principals::NewPrincipal;
use custody_runtime::store::checked_name;
use custody_runtime::{PrincipalError, Store};
use serde_json::json;

use super::keys::fingerprint;
use super::memory::print_receipt;
use crate::context::GlobalContext;
use crate::credential::new_passphrase;
use crate::output::{
    BOLD, DIM, ExitStatus, cell, count, excerpt, json_line, line, paint, preview, table,
};
use crate::token_file::{self, NewTokenFile, ReservedTokenFile};

/// Register who may ask for what.
///
/// Humans prove themselves with a passphrase typed on a terminal; agents and services hold a token, which
/// opens sessions and proves no human. Only the owner registers, revokes and sets limits.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Add(Add),
    /// List everybody, and how they prove who they are
    List,
    Revoke(Revoke),
    Limits(SetLimits),
}

/// Register somebody. Owner only.
///
/// A human gets a key under a passphrase of their own, typed on this terminal after the owner's. An agent
/// or service gets a token, and with --token or --token-out a human does too. --token-out writes it to a new
/// file that nobody else can read; otherwise it is printed once, alone on standard output. Only its hash is
/// kept. Whoever holds a user's token speaks in that user's voice: keep it where agents cannot read it.
#[derive(Debug, clap::Args)]
pub(crate) struct Add {
    /// Their name: 1 to 64 of a-z, 0-9 and `-`
    name: String,
    /// The role, which bounds what they may do
    #[arg(long, value_enum)]
    role: NewRole,
    /// The tenant they act in
    #[arg(long, value_name = "TENANT", default_value_t = Tenant::main())]
    tenant: Tenant,
    /// Give a human a token too, for the agents that work for them
    #[arg(long)]
    token: bool,
    /// Write the token to this new file, with mode 0600, instead of printing it
    #[arg(long, value_name = "FILE")]
    token_out: Option<PathBuf>,
}

/// The roles that can be given away. The owner is registered when the store is created.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum NewRole {
    /// A human who may approve what others propose
    Reviewer,
    /// A human for whom agents work
    User,
    /// An agent that works for nobody in particular
    Agent,
    /// A program that brings its own users
    Service,
}

impl From<NewRole> for Role {
    fn from(role: NewRole) -> Self {
        match role {
            NewRole::Reviewer => Self::Reviewer,
            NewRole::User => Self::User,
            NewRole::Agent => Self::Agent,
            NewRole::Service => Self::Service,
        }
    }
}

/// Withdraw somebody's credentials and close their sessions. What they wrote stays. Owner only.
#[derive(Debug, clap::Args)]
pub(crate) struct Revoke {
    /// The name of the principal
    name: String,
    /// Do it; without this, only show what would be withdrawn
    #[arg(long)]
    apply: bool,
}

/// Show the limits on memory changes, proposals and extraction, or set them. Only the owner sets them.
///
/// Each principal has a window of its own in each namespace, so a flood locks out nobody but the flooder.
#[derive(Debug, clap::Args)]
pub(crate) struct SetLimits {
    /// Accepted or queued changes per window; `none` for no limit
    #[arg(long, value_name = "N|none", value_parser = parse_changes)]
    changes: Option<Changes>,
    /// Length of the window
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    window: Option<u64>,
    /// How long a queued proposal may wait for a reviewer
    #[arg(long, value_name = "HOURS", value_parser = clap::value_parser!(u64).range(1..=8_760))]
    proposal_hours: Option<u64>,
    /// How many bits one session may take out of outputs that it does not read
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(0..=65_536))]
    extracted_bits: Option<u32>,
    /// How many tool calls of one principal may wait for a human at once, over all its sessions
    #[arg(long, value_name = "N")]
    waiting_calls: Option<u32>,
    /// How many memory changes of one principal may wait for a human at once, over all its sessions
    #[arg(long, value_name = "N")]
    waiting_changes: Option<u32>,
    /// Do it; without this, only show what would change
    #[arg(long)]
    apply: bool,
}

/// A number of changes, or no limit on them.
#[derive(Debug, Clone, Copy)]
struct Changes(Option<u32>);

fn parse_changes(text: &str) -> Result<Changes, String> {
    match text {
        "none" => Ok(Changes(None)),
        number => {
            let number = number.parse().map_err(|_| "use a whole number, or `none`".to_owned())?;
            Ok(Changes(Some(number)))
        }
    }
}

pub(crate) fn run(context: &GlobalContext, command: Command) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Add(args) => add(context, args),
        Command::List => list(context),
        Command::Revoke(args) => revoke(context, &args),
        Command::Limits(args) => limits(context, &args),
    }
}

fn add(context: &GlobalContext, args: Add) -> anyhow::Result<ExitStatus> {
    let name = checked_name(&args.name)?;
    let role = Role::from(args.role);
    let with_token = args.token || args.token_out.is_some() || !role.is_human();
    let token_file = args.token_out.as_deref().map(NewTokenFile::at).transpose()?;
    if with_token && token_file.is_none() {
        token_file::check_standard_output()?;
    }
    let store = context.open()?;
    let is_known = store.state(|state| state.principal(&name).is_some())?;
    ensure!(!is_known, AskError::DuplicatePrincipal(name));
    let owner = context.human(&store, None)?;
    // Whoever is not the owner is refused below, and is not asked for more.
    let own_key = if role.is_human() && owner.is_owner() {
        Some((HumanKey::generate(), new_passphrase(&name)?))
    } else {
        None
    };
    let token_file = token_file.filter(|_| owner.is_owner());
    let token_file = token_file.map(NewTokenFile::reserve).transpose()?;
    let new = NewPrincipal {
        name: &name,
        role,
        tenant: args.tenant,
        public_key: own_key.as_ref().map(|(key, _)| key.public_key()),
        with_token,
    };
    let (receipt, token) = store.add_principal(&owner, new)?;
    if receipt.answer.refusal().is_some() {
        return print_receipt(context, "", &receipt);
    }
    if let Some((key, passphrase)) = own_key {
        // The kernel just said that nobody of this name is registered: a file of that name proves nothing.
        let stored = store.keys().store_human(&name, &key, &passphrase, Existing::Replace);
        stored.with_context(|| {
            format!("`{name}` is registered, but the key is lost; revoke and add `{name}` again")
        })?;
    }
    let written = match (&token, token_file) {
        (Some(token), Some(file)) => Some(write_token(&store, &name, file, token)?),
        (Some(_) | None, _) => None,
    };
    // What is in a file is not shown as well.
    let token = token.filter(|_| written.is_none());
    if context.json {
        json_line(&json!({
            "name": name,
            "role": role,
            "token": token.as_ref().map(|token| token.as_str()),
            "token_file": written,
            "id": receipt.id,
            "seq": receipt.seq,
        }))?;
        return Ok(ExitStatus::Success);
    }
    anstream::eprintln!("{} is registered as {role}. {}", paint(BOLD, &name), receipt.id);
    if let Some(path) = written {
        anstream::eprintln!("Their token is in {}, and kept only as a hash.", path.display());
    }
    if let Some(token) = token {
        anstream::eprintln!("Their token, which is not shown again and kept only as a hash:");
        line(token.as_str());
    }
    Ok(ExitStatus::Success)
}

/// Writes the token of somebody who was just registered.
fn write_token(
    store: &Store,
    name: &str,
    file: ReservedTokenFile,
    token: &str,
) -> anyhow::Result<PathBuf> {
    let path = file.write(token).with_context(|| {
        format!("`{name}` is registered, but the token is lost; revoke and add `{name}` again")
    })?;
    token_file::remember(store.keys(), name, &path)?;
    Ok(path)
}

fn list(context: &GlobalContext) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let mut principals: Vec<Principal> =
        store.state(|state| state.principals().cloned().collect())?;
    principals.sort_unstable_by(|a, b| (a.role, &a.name).cmp(&(b.role, &b.name)));
    let mut rows = Vec::new();
    for principal in &principals {
        let fingerprint = principal.public_key.as_ref().map(fingerprint);
        if context.json {
            json_line(&json!({
                "name": principal.name,
                "role": principal.role,
                "tenant": principal.tenant,
                "key": fingerprint,
                "token": principal.token_hash.is_some(),
                "id": principal.id,
            }))?;
            continue;
        }
        rows.push(vec![
            (excerpt(&principal.name, 64), BOLD),
            cell(principal.role),
            cell(&principal.tenant),
            cell(proof(principal)),
            (fingerprint.map_or(String::new(), |print| print.chars().take(16).collect()), DIM),
        ]);
    }
    if !context.json {
        table(&["name", "role", "tenant", "proves it by", "key"], &rows);
    }
    Ok(ExitStatus::Success)
}

const fn proof(principal: &Principal) -> &'static str {
    match (principal.public_key.is_some(), principal.token_hash.is_some()) {
        (true, true) => "passphrase, token",
        (true, false) => "passphrase",
        (false, true) => "token",
        (false, false) => "nothing",
    }
}

fn revoke(context: &GlobalContext, args: &Revoke) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    if !args.apply {
        return preview(context.json, &would_revoke(&store, &args.name)?);
    }
    let owner = context.human(&store, None)?;
    let receipt = store.revoke_principal(&owner, &args.name)?;
    print_receipt(context, &format!("`{}` can prove nothing any more", args.name), &receipt)
}

fn would_revoke(store: &Store, name: &str) -> anyhow::Result<String> {
    let (principal, sessions) = store.state(|state| {
        let principal = state.principal(name).cloned();
        let id = principal.as_ref().map(|principal| principal.id);
        let theirs = state.sessions().filter(|(_, session)| session.who.principal == id).count();
        (principal, theirs)
    })?;
    let principal = principal.ok_or_else(|| PrincipalError::Unknown(excerpt(name, 64)))?;
    ensure!(principal.role != Role::Owner, AskError::RevokeOwner);
    let (role, proof) = (principal.role, proof(&principal));
    let sessions = count(sessions as u64, "open session");
    Ok(format!("revoke `{name}` ({role}, by {proof}) and close {sessions}"))
}

fn limits(context: &GlobalContext, args: &SetLimits) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let now = store.state(|state| *state.limits())?;
    let wanted = Limits {
        changes: args.changes.map_or(now.changes, |Changes(changes)| changes),
        window_ms: args.window.map_or(now.window_ms, |seconds| seconds * 1_000),
        proposal_ttl_ms: args.proposal_hours.map_or(now.proposal_ttl_ms, |hours| hours * 3_600_000),
        extracted_bits: args.extracted_bits.unwrap_or(now.extracted_bits),
        waiting_calls: args.waiting_calls.unwrap_or(now.waiting_calls),
        waiting_changes: args.waiting_changes.unwrap_or(now.waiting_changes),
    };
    if wanted == now && !args.apply {
        return show_limits(context, &now);
    }
    if !args.apply {
        let change = format!("set the limits to {} (now {})", terse(&wanted), terse(&now));
        return preview(context.json, &change);
    }
    let owner = context.human(&store, None)?;
    let receipt = store.set_limits(&owner, wanted)?;
    print_receipt(context, &format!("the limits are {}", terse(&wanted)), &receipt)
}

fn show_limits(context: &GlobalContext, limits: &Limits) -> anyhow::Result<ExitStatus> {
    if context.json {
        json_line(limits)?;
    } else {
        line(format_args!("Per principal and namespace: {}.", terse(limits)));
    }
    Ok(ExitStatus::Success)
}

fn terse(limits: &Limits) -> String {
    let changes = match limits.changes {
        None => "any number of changes".to_owned(),
        Some(changes) => format!("{changes} changes in {}", duration(limits.window_ms)),
    };
    let (waits, bits) = (duration(limits.proposal_ttl_ms), limits.extracted_bits);
    let Limits { waiting_calls, waiting_changes, .. } = limits;
    format!(
        "{changes}, {waiting_calls} calls and {waiting_changes} changes wait at most and for {waits}, a session takes out \
         {bits} bits"
    )
}

/// `90 s`, `15 min`, `24 h`, `7 d`: the largest unit that divides it.
fn duration(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    // A day is better known as 24 h, a minute as 60 s.
    let largest = units
        .into_iter()
        .find(|(unit, _)| ms.is_multiple_of(*unit) && (ms / unit > 1 || *unit == 1_000));
    largest.map_or_else(|| format!("{ms} ms"), |(unit, name)| format!("{} {name}", ms / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_told_in_its_largest_whole_unit() {
        let cases = [
            (60_000, "60 s"),
            (90_000, "90 s"),
            (900_000, "15 min"),
            (86_400_000, "24 h"),
            (604_800_000, "7 d"),
            (1_000, "1 s"),
            (1_500, "1500 ms"),
        ];
        for (ms, expected) in cases {
            assert_eq!(duration(ms), expected);
        }
    }
}
