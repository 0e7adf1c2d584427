//! `custody connect`: the one change that a client needs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use custody_gateway::proxy::UserText;
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::{Authority, Role};
use custody_runtime::Store;
use custody_runtime::principals::NewPrincipal;
use custody_runtime::store::checked_name;
use custody_service::checked_upstream;
use custody_service::settings::{ConnectionEntry, GatewaySettings};
use serde_json::json;
use zeroize::Zeroizing;

use super::claude_code;
use super::serve::ADDRESS;
use super::sign::{accepted, sign};
use crate::context::GlobalContext;
use crate::output::{BOLD, ExitStatus, json_line, line, note, paint};
use crate::token_file;

/// How often is looked whether the first request came.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Connect a client: a key for it, and the one change that it needs.
///
/// The connection observes until `custody enforce`: it records what it would have done, and changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The client
    #[arg(value_enum)]
    host: Host,
    /// What the connection is called [default: as the client]
    #[arg(long)]
    name: Option<String>,
    /// Change the settings of the client; without this, only print what to change
    #[arg(long)]
    apply: bool,
    /// Take the connection and the change of the client's settings back
    #[arg(long, conflicts_with = "apply")]
    undo: bool,
    /// Do not wait for the first request
    #[arg(long)]
    no_wait: bool,
    /// How the client is guarded
    #[arg(long, value_enum, default_value_t = Surface::Both)]
    surface: Surface,
    /// Whether all text in the role of the user is the user's. Only for programs without tools
    #[arg(long, value_enum)]
    user_text: Option<TrustedUserText>,
    /// Where requests go, if not to the vendor
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// Let requests go to a link-local address or a metadata service, which no vendor has
    #[arg(long, requires = "upstream")]
    allow_link_local: bool,
    /// A file of tool manifests; see `custody policy init`
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// The address of `custody serve`
    #[arg(long, value_name = "ADDRESS", default_value = ADDRESS)]
    listen: SocketAddr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Host {
    /// Anthropic's coding agent
    ClaudeCode,
    /// Programs with an OpenAI client
    Openai,
    /// Programs with an Anthropic client
    Anthropic,
    /// Programs with a Google client
    Google,
}

impl Host {
    const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
            Self::Google => "google",
        }
    }
}

/// How a coding agent is guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Surface {
    /// Its requests come by Custody
    Proxy,
    /// Its hooks ask Custody
    Hook,
    /// Both
    Both,
}

impl Surface {
    pub(super) fn has_proxy(self) -> bool {
        self != Self::Hook
    }

    pub(super) fn has_hook(self) -> bool {
        self != Self::Proxy
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TrustedUserText {
    /// Believe it
    Trusted,
}

pub(crate) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let name = checked_name(args.name.as_deref().unwrap_or(args.host.name()))?;
    if args.undo {
        return undo(context, args, &store, &name);
    }
    let entry = entry(args)?;
    let mut settings = GatewaySettings::signed(&store)?.unwrap_or_default();
    ensure!(
        !settings.connection.contains_key(&name),
        "there is a connection `{name}` already; take it back with --undo, or give another --name"
    );
    if !args.apply || args.host != Host::ClaudeCode {
        token_file::check_standard_output()?;
    }
    if args.host == Host::ClaudeCode {
        check_claude_code(context, args, &name)?;
    }
    let owner = context.human(&store, None)?;
    settings.connection.insert(name.clone(), entry);
    sign(&store, &owner, &context.gateway_settings(), &settings)?;
    let key = key(&store, &owner, &name)?;
    match args.host {
        Host::ClaudeCode => connect_claude_code(context, args, &name, &key)?,
        Host::Openai | Host::Anthropic | Host::Google => print_client(context, args, &name, &key)?,
    }
    if args.no_wait || context.json { Ok(ExitStatus::Success) } else { wait(context, &name) }
}

fn entry(args: &Args) -> anyhow::Result<ConnectionEntry> {
    let is_agent = args.host == Host::ClaudeCode;
    if is_agent && args.user_text.is_some() {
        bail!(
            "Claude Code puts files and reminders into the role of the user; its hooks say what was typed"
        );
    }
    let user_text = match (args.user_text, is_agent) {
        (Some(TrustedUserText::Trusted), _) => UserText::Trusted,
        (None, true) => UserText::Hook,
        (None, false) => UserText::Never,
    };
    let tools = args.tools.as_deref().map(|file| {
        std::fs::read_to_string(file).with_context(|| crate::file_error::unreadable(file))
    });
    if let Some(upstream) = &args.upstream {
        checked_upstream(upstream, args.allow_link_local)?;
    }
    Ok(ConnectionEntry {
        user_text,
        host_asks: is_agent && args.surface.has_hook(),
        tools: tools.transpose()?,
        upstream: args.upstream.clone(),
        allow_link_local: args.allow_link_local,
        ..ConnectionEntry::default()
    })
}

/// The key of a new connection: the token of a principal of its name.
fn key(store: &Store, owner: &Authority, name: &str) -> anyhow::Result<Zeroizing<String>> {
    let (tenant, public_key, with_token) = (Tenant::main(), None, true);
    let new = NewPrincipal { name, role: Role::User, tenant, public_key, with_token };
    let (receipt, token) = store.add_principal(owner, new)?;
    accepted(&receipt)?;
    token.context("the connection has no key")
}

/// Fails before anything is changed if the settings of Claude Code cannot be.
fn check_claude_code(context: &GlobalContext, args: &Args, name: &str) -> anyhow::Result<()> {
    if args.surface.has_hook() && !claude_code::check_version()? {
        note(format_args!(
            "There is no `claude` here to ask for its version; its hooks hold since 2.1.295."
        ));
    }
    if args.apply {
        claude_code::ensure_unchanged(&kept(context, name))?;
    }
    changed_settings(args, "key").map(drop)
}

/// The settings file of Claude Code, and what it would hold.
fn changed_settings(args: &Args, key: &str) -> anyhow::Result<(PathBuf, String)> {
    let file = claude_code::settings_file()?;
    let before = std::fs::read_to_string(&file).ok();
    let text = claude_code::changed(before.as_deref(), args.listen, key, args.surface)
        .with_context(|| format!("`{}` cannot be changed", file.display()))?;
    Ok((file, text))
}

fn connect_claude_code(
    context: &GlobalContext,
    args: &Args,
    name: &str,
    key: &str,
) -> anyhow::Result<()> {
    let (file, text) = changed_settings(args, key)?;
    if args.apply {
        claude_code::write(&file, &kept(context, name), &text)?;
        anstream::eprintln!(
            "Changed {}. Tested with Claude Code {}.",
            file.display(),
            claude_code::TESTED_WITH
        );
    } else {
        anstream::eprintln!("Write this to {}, or run again with --apply:", file.display());
        line(text.trim_end());
    }
    if context.json {
        json_line(&json!({ "connection": name, "settings": file, "mode": "observe" }))?;
    }
    Ok(())
}

/// Where the client's settings are kept as they were.
fn kept(context: &GlobalContext, name: &str) -> PathBuf {
    context.gateway_settings().with_file_name(format!("before-{name}.json"))
}

fn print_client(context: &GlobalContext, args: &Args, name: &str, key: &str) -> anyhow::Result<()> {
    let (path, variable) = match args.host {
        Host::Openai => ("openai/v1", "OPENAI_BASE_URL"),
        Host::Google => ("gemini", "GOOGLE_GEMINI_BASE_URL"),
        Host::Anthropic | Host::ClaudeCode => ("anthropic", "ANTHROPIC_BASE_URL"),
    };
    let base_url = format!("http://{}/{path}", args.listen);
    if context.json {
        return json_line(
            &json!({ "connection": name, "base_url": base_url, "key": key, "mode": "observe" }),
        );
    }
    line(format_args!("{variable}={base_url}"));
    line(format_args!("and with each request the header {} {key}", paint(BOLD, "x-custody-key:")));
    Ok(())
}

/// Waits for the first session of the connection.
fn wait(context: &GlobalContext, name: &str) -> anyhow::Result<ExitStatus> {
    note(format_args!(
        "Run `custody serve`, then the client. Waiting for its first request; Ctrl-C stops waiting."
    ));
    loop {
        let store = context.open_existing()?;
        let has_come = store.state(|state| {
            let id = state.principal(name).map(|principal| principal.id);
            state.sessions().any(|(_, session)| id.is_some() && session.who.principal == id)
        })?;
        if has_come {
            line(format_args!(
                "{} is connected, and observes. Guard it with {}.",
                paint(BOLD, name),
                paint(BOLD, format_args!("custody enforce {name}"))
            ));
            return Ok(ExitStatus::Success);
        }
        drop(store);
        std::thread::sleep(LOOK_EVERY);
    }
}

fn undo(
    context: &GlobalContext,
    args: &Args,
    store: &Store,
    name: &str,
) -> anyhow::Result<ExitStatus> {
    let mut settings = GatewaySettings::signed(store)?.unwrap_or_default();
    ensure!(settings.connection.remove(name).is_some(), "there is no connection `{name}`");
    let owner = context.human(store, None)?;
    if args.host == Host::ClaudeCode && kept(context, name).exists() {
        claude_code::undo(&claude_code::settings_file()?, &kept(context, name))?;
    }
    sign(store, &owner, &context.gateway_settings(), &settings)?;
    accepted(&store.revoke_principal(&owner, name)?)?;
    line(format_args!("{} is no longer connected, and its key opens nothing.", paint(BOLD, name)));
    Ok(ExitStatus::Success)
}
