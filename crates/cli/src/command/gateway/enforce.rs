//! `custody enforce`: from observing to guarding, and back.

use anyhow::Context as _;
use custody_gateway::proxy::GuardMode;
use custody_service::settings::GatewaySettings;
use serde_json::json;

use super::sign::sign;
use crate::context::GlobalContext;
use crate::output::{BOLD, ExitStatus, json_line, line, note, paint};
use crate::running_service::ServiceState;

/// Guard a connection: from now on calls that are not allowed do not go on.
///
/// A new connection observes: it records what it would have done, and changes nothing. The owner signs this.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The connection; without it, show all of them
    name: Option<String>,
    /// Only observe again
    #[arg(long, requires = "name")]
    off: bool,
    /// Have the model state the calls that it means to make, before it reads anything but the user; these run unasked
    #[arg(long, requires = "name", value_enum, value_name = "ON|OFF")]
    intents: Option<Switch>,
    /// Refuse what nobody can decide here
    #[arg(long, requires = "name", value_enum, value_name = "ON|OFF")]
    strict: Option<Switch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

pub(crate) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let mut settings = GatewaySettings::signed(&store)?.unwrap_or_default();
    let Some(name) = &args.name else { return list(context, &settings) };
    let entry = settings.connection.get_mut(name);
    let entry =
        entry.with_context(|| format!("there is no connection `{name}`; see `custody enforce`"))?;
    let mode = if args.off { GuardMode::Observe } else { GuardMode::Guard };
    entry.mode = mode;
    for (wanted, setting) in [(args.intents, &mut entry.intents), (args.strict, &mut entry.strict)]
    {
        *setting = wanted.map_or(*setting, |wanted| wanted == Switch::On);
    }
    let owner = context.human(&store, None)?;
    sign(&store, &owner, &context.gateway_settings(), &settings)?;
    if context.json {
        json_line(&json!({ "connection": name, "mode": mode }))?;
    } else {
        line(format_args!("{} is {}.", paint(BOLD, name), mode.as_str()));
    }
    Ok(ExitStatus::Success)
}

fn list(context: &GlobalContext, signed: &GatewaySettings) -> anyhow::Result<ExitStatus> {
    let file = context.gateway_settings();
    let (in_force, waiting) = match std::fs::read_to_string(&file) {
        Ok(text) => {
            let on_disk = GatewaySettings::parse(&text);
            on_disk.with_context(|| format!("`{}`", file.display()))?.in_force(signed)
        }
        // Without the file, what the owner signed holds.
        Err(_) => (signed.clone(), Vec::new()),
    };
    let service = ServiceState::of(context);
    for (name, entry) in &in_force.connection {
        if context.json {
            let service = service.word();
            json_line(&json!({ "connection": name, "mode": entry.mode, "service": service }))?;
        } else {
            line(format_args!("{}  {}", paint(BOLD, name), entry.mode.as_str()));
        }
    }
    if in_force.connection.is_empty() && !context.json {
        line("There are no connections; make one with `custody connect`.");
    }
    if in_force.connection.is_empty() {
        service.warn_if_it_runs();
    } else {
        service.warn();
    }
    for what in waiting {
        note(format_args!("{}: {what}, which waits for the owner.", file.display()));
    }
    Ok(ExitStatus::Success)
}
