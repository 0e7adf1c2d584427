//! `custody ledger migrate`: going on from a store of format 1, in which no act of a human is signed.

use anyhow::{Context as _, bail};
use custody_kernel::actions::migrate::UnsignedClaims;
use custody_kernel::migration::{KeptClaims, KeptMode};
use custody_kernel::record::AdminRequest;
use custody_log::Digest;
use serde_json::json;

use crate::command::memory::print_receipt;
use crate::context::GlobalContext;
use crate::output::{ExitStatus, WARN, count, json_line, line, paint, shown};

/// Go on from a store that was written in record format 1. Owner only.
///
/// In format 1 nothing that a human did was signed: principals, modes, policies and released values are claims that a
/// holder of the log key could have written. Without --apply, list the claims that are in force. With --apply, sign
/// those that --keep names (or all with --keep-all), and let the others lapse: principals are revoked, items whose
/// mode was set become immutable, released values count as tainted, the policy that ships is in force. Proposals and
/// calls that wait lapse, and open sessions are closed. Nothing is deleted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A claim to keep, as the list names it; repeat it for each
    #[arg(long, value_name = "CLAIM")]
    keep: Vec<String>,
    /// Keep every claim that is listed
    #[arg(long, conflicts_with = "keep")]
    keep_all: bool,
    /// Do it; without this, only list the claims
    #[arg(long)]
    apply: bool,
}

pub(super) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let Some(claims) = store.state(|state| state.unsigned_claims())? else {
        bail!("the store has the present record format; there is nothing to migrate");
    };
    if !args.apply {
        list(context, &claims)?;
        return Ok(ExitStatus::Success);
    }
    let kept = if args.keep_all { claims.kept() } else { selected(&claims, &args.keep)? };
    let owner = context.human(&store, None)?;
    let receipt = store.ask(&owner, AdminRequest::CloseUnsignedFormat(Box::new(kept)))?;
    print_receipt(
        context,
        "the store goes on, and every act of a human is signed from here on",
        &receipt,
    )
}

/// Every claim with the name under which it is kept, and what it says.
fn named(claims: &UnsignedClaims) -> Vec<(String, String)> {
    let principals = claims.principals.iter().map(|principal| {
        let what = format!("{} of tenant `{}`", principal.role, principal.tenant);
        (format!("principal:{}", principal.name), what)
    });
    let modes = claims.modes.iter().map(|(namespace, key, mode)| {
        (format!("mode:{namespace}/{key}"), format!("the item is {mode}"))
    });
    let policy = claims.policy.iter().map(|version| (policy_name(version), "decides calls".into()));
    let released = claims.released.iter().map(|(namespace, key, entry)| {
        (format!("value:{entry}"), format!("`{key}` in `{namespace}` counts as clean"))
    });
    principals.chain(modes).chain(policy).chain(released).collect()
}

fn policy_name(version: &Digest) -> String {
    format!("policy:{}", version.to_string().get(..16).unwrap_or_default())
}

/// The claims that `names` selects.
fn selected(claims: &UnsignedClaims, names: &[String]) -> anyhow::Result<KeptClaims> {
    let known: Vec<String> = named(claims).into_iter().map(|(name, _)| name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        bail!("there is no claim `{}`; `custody ledger migrate` lists them", shown(unknown));
    }
    let is_kept = |name: &str| names.iter().any(|kept| kept == name);
    let principals = claims.principals.iter();
    let principals = principals.filter(|who| is_kept(&format!("principal:{}", who.name)));
    let modes = claims.modes.iter();
    let modes = modes.filter(|(namespace, key, _)| is_kept(&format!("mode:{namespace}/{key}")));
    let released =
        claims.released.iter().filter(|(_, _, entry)| is_kept(&format!("value:{entry}")));
    Ok(KeptClaims {
        principals: principals.map(|principal| principal.id).collect(),
        modes: modes
            .map(|(namespace, key, _)| KeptMode {
                tenant: namespace.tenant.clone(),
                scope: namespace.scope,
                key: key.clone(),
            })
            .collect(),
        policy: claims.policy.filter(|version| is_kept(&policy_name(version))),
        released: released.map(|(_, _, entry)| *entry).collect(),
        limits: claims.limits,
    })
}

fn list(context: &GlobalContext, claims: &UnsignedClaims) -> anyhow::Result<()> {
    let named = named(claims);
    if context.json {
        let rows = named.iter().map(|(name, what)| json!({ "claim": name, "what": what }));
        let rows: Vec<_> = rows.collect();
        return json_line(&json!({ "applied": false, "claims": rows, "waiting": claims.waiting }));
    }
    line(format_args!(
        "{}",
        paint(WARN, "This store has record format 1: no act of a human is signed.")
    ));
    line(format_args!("In force, and to be signed or to lapse:"));
    let width = named.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    for (name, what) in &named {
        line(format_args!("  {:width$}  {}", shown(name), shown(what)));
    }
    if named.is_empty() {
        line(format_args!("  nothing"));
    }
    if claims.waiting > 0 {
        let waiting = count(u64::try_from(claims.waiting).context("a count")?, "proposal");
        line(format_args!("{waiting} that wait will lapse."));
    }
    line(format_args!(
        "Go on with `custody ledger migrate --apply --keep CLAIM …`, or `--apply --keep-all`."
    ));
    Ok(())
}
