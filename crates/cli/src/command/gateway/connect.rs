//! `custody connect`: the one change that a client needs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use custody_gateway::proxy::UserText;
use custody_policy::Policy;
use custody_runtime::Store;
use custody_runtime::store::checked_name;
use custody_service::checked_upstream;
use custody_service::settings::{ConnectionEntry, GatewaySettings};
use serde_json::json;

use super::agent_host::AgentHost;
use super::connection::{
    AgentConnection, ConnectedAgent, RotatedKey, new_key, rotate_key, take_back,
};
use super::hook::trust;
use super::service_address::ServicePlace;
use super::sign::sign;
use crate::context::GlobalContext;
use crate::output::{BOLD, ExitStatus, json_line, line, note, paint};
use crate::running_service::ServiceState;
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
    /// Give the connection a new key; the old one opens nothing from then on, and open sessions end
    #[arg(long, conflicts_with_all = ["apply", "undo", "surface", "user_text", "upstream", "tools", "address", "ca"])]
    rotate_key: bool,
    /// Do not wait for the first request
    #[arg(long)]
    no_wait: bool,
    /// How a coding agent is guarded [default: both for Claude Code, hook for the others]
    #[arg(long, value_enum)]
    surface: Option<Surface>,
    /// Have Codex trust the hooks, in place of /hooks there
    #[arg(long, requires = "apply")]
    trust: bool,
    /// Whether all text in the role of the user is the user's. Only for programs without tools
    #[arg(long, value_enum)]
    user_text: Option<TrustedUserText>,
    /// Refuse what nobody can decide here, and have the model state its calls before it reads anything but the user
    #[arg(long)]
    strict: bool,
    /// Where requests go, if not to the vendor
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// Let requests go to a link-local address or a metadata service, which no vendor has
    #[arg(long, requires = "upstream")]
    allow_link_local: bool,
    /// A file of tool manifests; see `custody policy init`
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    #[command(flatten)]
    service: ServicePlace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Host {
    /// Anthropic's coding agent
    ClaudeCode,
    /// OpenAI's coding agent
    Codex,
    /// Google's coding agent
    Gemini,
    /// GitHub's coding agent
    Copilot,
    /// The editor
    Cursor,
    /// Programs with an OpenAI client
    Openai,
    /// Programs with an Anthropic client
    Anthropic,
    /// Programs with a Google client
    Google,
}

impl Host {
    /// The coding agent that it is, if it is one.
    const fn agent(self) -> Option<AgentHost> {
        match self {
            Self::ClaudeCode => Some(AgentHost::ClaudeCode),
            Self::Codex => Some(AgentHost::Codex),
            Self::Gemini => Some(AgentHost::Gemini),
            Self::Copilot => Some(AgentHost::Copilot),
            Self::Cursor => Some(AgentHost::Cursor),
            Self::Openai | Self::Anthropic | Self::Google => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode | Self::Codex | Self::Gemini | Self::Copilot | Self::Cursor => {
                match self.agent() {
                    Some(agent) => agent.name(),
                    None => "agent",
                }
            }
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

    /// Whether a call that waits goes on to the hooks of `agent`: where these ask its user, and where they alone know
    /// what the user typed, because its requests do not say which conversation they belong to.
    fn asks(self, agent: AgentHost) -> bool {
        let knows_more = self == Self::Both && !agent.names_conversations();
        self.has_hook() && (agent.hook().can_ask() || knows_more)
    }
}

impl Args {
    /// How a coding agent is guarded.
    fn surface(&self, agent: AgentHost) -> Surface {
        // How the others sign in decides whether their requests can come by here, and their hooks need no such thing.
        let default = if agent == AgentHost::ClaudeCode { Surface::Both } else { Surface::Hook };
        self.surface.unwrap_or(default)
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
        return undo(context, &store, &name);
    }
    if args.rotate_key {
        return rotate(context, args.host, &store, &name);
    }
    let intents = args.strict || wants_intents(&store)?;
    let entry = ConnectionEntry { strict: args.strict, intents, ..entry(args)? };
    let mut settings = GatewaySettings::signed(&store)?.unwrap_or_default();
    ensure!(
        !settings.connection.contains_key(&name),
        "there is a connection `{name}` already; take it back with --undo, or give another --name"
    );
    match args.host.agent() {
        Some(host) => connect_agent(context, args, &store, &name, (host, entry))?,
        None => {
            token_file::check_standard_output()?;
            args.service.checked_ca()?;
            let owner = context.human(&store, None)?;
            settings.connection.insert(name.clone(), entry);
            sign(&store, &owner, &context.gateway_settings(), &settings)?;
            print_client(context, args, &name, &new_key(&store, &owner, &name)?)?;
        }
    }
    if args.no_wait || context.json { Ok(ExitStatus::Success) } else { wait(context, &name) }
}

/// Whether the policy in force lets calls run unasked only if they were declared.
fn wants_intents(store: &Store) -> anyhow::Result<bool> {
    let version = store.state(|state| state.policy().map(|policy| policy.version))?;
    let strict = custody_policy::examples().iter().find(|example| example.name == "strict");
    let strict = strict.and_then(|example| Policy::parse(example.text).ok());
    Ok(version.is_some() && version == strict.map(|policy| policy.version()))
}

fn entry(args: &Args) -> anyhow::Result<ConnectionEntry> {
    let agent = args.host.agent();
    if let (Some(agent), Some(_)) = (agent, args.user_text) {
        bail!(
            "{} puts files and reminders into the role of the user; its hooks say what was typed",
            agent.title()
        );
    }
    if let Some(agent) = agent {
        let surface = args.surface(agent);
        ensure!(
            agent.has_proxy() || !surface.has_proxy(),
            "{} is guarded by its hooks; leave --surface out",
            agent.title()
        );
        ensure!(
            !args.trust || (agent == AgentHost::Codex && surface.has_hook()),
            "only Codex asks whether hooks are trusted; leave --trust out"
        );
    }
    let user_text = match (args.user_text, agent) {
        (Some(TrustedUserText::Trusted), _) => UserText::Trusted,
        (None, Some(_)) => UserText::Hook,
        (None, None) => UserText::Never,
    };
    let tools = args.tools.as_deref().map(|file| {
        std::fs::read_to_string(file).with_context(|| crate::file_error::unreadable(file))
    });
    if let Some(upstream) = &args.upstream {
        checked_upstream(upstream, args.allow_link_local)?;
    }
    Ok(ConnectionEntry {
        user_text,
        host_asks: agent.is_some_and(|agent| args.surface(agent).asks(agent)),
        tools: tools.transpose()?,
        upstream: args.upstream.clone(),
        allow_link_local: args.allow_link_local,
        ..ConnectionEntry::default()
    })
}

/// Makes the connection of a coding agent, or shows what to write into its settings.
fn connect_agent(
    context: &GlobalContext,
    args: &Args,
    store: &Store,
    name: &str,
    (host, entry): (AgentHost, ConnectionEntry),
) -> anyhow::Result<()> {
    let (service, surface) = (&args.service, args.surface(host));
    let connection = AgentConnection { host, name, entry, service, surface, project: None };
    let ConnectedAgent { files, variables } = if args.apply {
        let connected = connection.install(context, store)?;
        note_changed(host, &connected.files);
        let hooks = connected.files.first().filter(|_| surface.has_hook());
        if let (AgentHost::Codex, Some(file)) = (host, hooks) {
            let trust = trust::ensure(context, (host, name), (file, None), args.trust)?;
            if !context.json {
                trust.print();
            }
        }
        connected
    } else {
        let (files, variables) = connection.make(context, store)?;
        for file in &files {
            anstream::eprintln!(
                "Write this to {}, or run again with --apply:",
                file.path.display()
            );
            line(file.after.trim_end());
        }
        ConnectedAgent { files: files.into_iter().map(|file| file.path).collect(), variables }
    };
    if context.json {
        let (settings, environment) = (files.first(), BTreeMap::from_iter(variables));
        let environment = Some(environment).filter(|variables| !variables.is_empty());
        return json_line(&json!({
            "connection": name, "settings": settings, "files": files, "environment": environment, "mode": "observe",
        }));
    }
    if !variables.is_empty() {
        anstream::eprintln!("Put this into the environment in which {} is started:", host.title());
    }
    for (variable, value) in variables {
        line(format_args!("export {variable}='{value}'"));
    }
    Ok(())
}

fn note_changed(host: AgentHost, files: &[PathBuf]) {
    let tested = host.tested_with();
    let tested = tested.map(|version| format!(" Tested with {} {version}.", host.title()));
    for file in files {
        anstream::eprintln!("Changed {}.{}", file.display(), tested.as_deref().unwrap_or_default());
    }
}

fn print_client(context: &GlobalContext, args: &Args, name: &str, key: &str) -> anyhow::Result<()> {
    let (path, variable) = match args.host {
        Host::Openai => ("openai/v1", "OPENAI_BASE_URL"),
        Host::Google => ("gemini", "GOOGLE_GEMINI_BASE_URL"),
        Host::Anthropic
        | Host::ClaudeCode
        | Host::Codex
        | Host::Gemini
        | Host::Copilot
        | Host::Cursor => ("anthropic", "ANTHROPIC_BASE_URL"),
    };
    let base_url = format!("{}/{path}", args.service.address.base_url());
    if context.json {
        return json_line(
            &json!({ "connection": name, "base_url": base_url, "key": key, "mode": "observe" }),
        );
    }
    line(format_args!("{variable}={base_url}"));
    line(format_args!("and with each request the header {} {key}", paint(BOLD, "x-custody-key:")));
    if let Some(ca) = args.service.checked_ca()? {
        note(format_args!(
            "The client has to believe the root in {}: SSL_CERT_FILE for Python, NODE_EXTRA_CA_CERTS for Node.",
            ca.display()
        ));
    }
    Ok(())
}

/// Waits for the first session of the connection.
fn wait(context: &GlobalContext, name: &str) -> anyhow::Result<ExitStatus> {
    note(format_args!(
        "Run `custody serve`, then the client. Waiting for its first request; Ctrl-C stops waiting."
    ));
    let mut said = ServiceState::Ready;
    loop {
        // Said once, however long it lasts.
        let service = ServiceState::of(context);
        if service != said {
            service.warn();
            said = service;
        }
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

/// Gives a connection a new key. It is shown only where Custody does not write it down itself.
fn rotate(
    context: &GlobalContext,
    host: Host,
    store: &Store,
    name: &str,
) -> anyhow::Result<ExitStatus> {
    let signed = GatewaySettings::signed(store)?.unwrap_or_default();
    ensure!(signed.connection.contains_key(name), "there is no connection `{name}`");
    token_file::check_standard_output()?;
    let RotatedKey { key, settings, key_file } = rotate_key(context, store, name)?;
    // A coding agent whose settings were only printed has the key in them, unless its hooks read the file.
    let is_shown =
        settings.is_empty() && (key_file.is_none() || host.agent() == Some(AgentHost::ClaudeCode));
    if context.json {
        let shown = is_shown.then(|| key.as_str());
        json_line(
            &json!({ "connection": name, "settings": settings, "key_file": key_file, "key": shown }),
        )?;
        return Ok(ExitStatus::Success);
    }
    line(format_args!(
        "{} has a new key; the old one opens nothing, and its open sessions ended.",
        paint(BOLD, name)
    ));
    for file in settings.iter().chain(&key_file) {
        line(format_args!("Changed {}.", file.display()));
    }
    if is_shown {
        line(format_args!(
            "Send with each request the header {} {}",
            paint(BOLD, "x-custody-key:"),
            *key
        ));
    } else {
        note(
            "Start the agent anew, and its MCP servers; where their settings hold the key, write the new one there.",
        );
    }
    Ok(ExitStatus::Success)
}

fn undo(context: &GlobalContext, store: &Store, name: &str) -> anyhow::Result<ExitStatus> {
    let settings = GatewaySettings::signed(store)?.unwrap_or_default();
    ensure!(settings.connection.contains_key(name), "there is no connection `{name}`");
    take_back(context, store, name, true)?;
    line(format_args!("{} is no longer connected, and its key opens nothing.", paint(BOLD, name)));
    Ok(ExitStatus::Success)
}
