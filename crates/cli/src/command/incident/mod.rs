//! `custody incident`: from one indicator to a signed certificate.

mod act;
mod drill;
mod hosts;
mod look;
mod open;
mod pipeline;
mod probing;
mod run;
mod show;

use custody_incident::{Found, Incidents, Indicator, RefusedStep, Settings, Vectors};
use custody_log::IncidentId;
use custody_planner::Plan;
use custody_runtime::Store;
use serde_json::json;

use crate::command::detector;
use crate::context::GlobalContext;
use crate::output::{BAD, ExitStatus, json_line, line, paint};

/// Find what a poisoned text touched, take it out, check that it is gone, and sign for it.
///
/// `run` does all of it. The other commands are its steps, each of which stands on the record: `open` names the
/// evidence, `plan` says what would be done, `contain` holds everything back meanwhile, `apply` does what the
/// plan says, `probe` looks whether anything comes back, `certify` signs.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Run(Box<run::Args>),
    Open(open::Args),
    /// List the incidents
    List,
    Show(show::Args),
    Plan(look::Args),
    Contain(act::Contain),
    Apply(act::Apply),
    Restore(act::Restore),
    Probe(act::Probe),
    Certify(act::Certify),
    Drill(drill::Args),
}

pub(crate) fn run(context: &GlobalContext, command: Command) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Run(args) => run::run(context, &args),
        Command::Open(args) => open::run(context, &args),
        Command::List => show::list(context),
        Command::Show(args) => show::run(context, &args),
        Command::Plan(args) => look::run(context, &args),
        Command::Contain(args) => act::contain(context, &args),
        Command::Apply(args) => act::apply(context, &args),
        Command::Restore(args) => act::restore(context, &args),
        Command::Probe(args) => act::probe(context, &args),
        Command::Certify(args) => act::certify(context, &args),
        Command::Drill(args) => drill::run(context, &args),
    }
}

/// Prints which step was refused, and why. The steps before it stay in force.
fn refused(
    context: &GlobalContext,
    id: IncidentId,
    step: &'static str,
    refused: &RefusedStep,
) -> anyhow::Result<ExitStatus> {
    if context.json {
        let (decision, refusal) = (refused.decision, refused.refusal.to_string());
        json_line(&json!({
            "incident": id, "step": step, "decision": decision, "refused": refusal,
        }))?;
    } else {
        line(paint(BAD, format_args!("refused to {step} {id}: {refused}")));
    }
    Ok(ExitStatus::Failure)
}

/// The indicators of what is bad.
#[derive(Debug, clap::Args)]
struct Indicators {
    /// What is bad: an entry (`e-…`, `#12`), a SHA-256, a phrase (in any spelling), `bytes:…` (exactly), a web address,
    /// `tool:…`, `host:…`, `channel:…`, `session:…`, `since:…,until:…`, `re:…` (a regular expression) or `like:…`
    /// (similar texts). May be repeated.
    #[arg(long = "indicator", short = 'i', value_name = "WHAT", required = true)]
    indicators: Vec<Indicator>,
}

impl Indicators {
    /// What they find; by similarity too, if the model for it is installed.
    fn find(&self, context: &GlobalContext, store: &Store) -> anyhow::Result<Found> {
        index(store)?;
        let is_similarity_asked =
            self.indicators.iter().any(|indicator| matches!(indicator, Indicator::Similar(_)));
        if !is_similarity_asked {
            return Ok(Incidents::of(store).find(&self.indicators)?);
        }
        let (embedder, model) = detector::embedder(context)?;
        let vectors = Vectors { embedder: &embedder, model };
        Ok(Incidents::of(store).find_with(&self.indicators, Some(vectors))?)
    }
}

/// What is done to trusted findings that may only be quoted.
#[derive(Debug, clap::Args)]
struct TrustedFindings {
    /// Destroy trusted findings too that are older than every untrusted one. Without it they are quarantined, since an
    /// attacker may have quoted them
    #[arg(long)]
    purge_trusted: bool,
}

impl TrustedFindings {
    fn settings(&self) -> Settings {
        Settings { purge_trusted: self.purge_trusted, ..Settings::default() }
    }
}

/// The option with which a plan was made, as it is typed.
const fn trusted_option(plan: &Plan) -> &'static str {
    if plan.purge_trusted { " --purge-trusted" } else { "" }
}

/// Brings the index of texts up to the record, which takes a while in a large store that was never searched.
fn index(store: &Store) -> anyhow::Result<()> {
    // Draws nothing unless standard error is a terminal.
    let bar = indicatif::ProgressBar::new_spinner().with_message("indexing texts, once");
    Incidents::of(store).index_texts(|_| bar.tick())?;
    bar.finish_and_clear();
    Ok(())
}

/// The option that names an incident; without it, the newest.
#[derive(Debug, clap::Args)]
struct IncidentArgs {
    /// The incident [default: the newest]
    incident: Option<IncidentId>,
}

impl IncidentArgs {
    /// The incident named, else the newest of the store.
    fn of(&self, store: &Store) -> anyhow::Result<IncidentId> {
        let newest = store.state(|state| {
            let all = state.incidents();
            let named = self.incident.filter(|id| state.incident(*id).is_some());
            (all.last().map(|incident| incident.id), named)
        })?;
        match (self.incident, newest) {
            (Some(id), (_, None)) => {
                anyhow::bail!("there is no incident `{id}`; see `custody incident list`")
            }
            (None, (None, _)) => anyhow::bail!(
                "there is no incident; open one with `custody incident open --indicator WHAT`"
            ),
            (_, (_, Some(id))) | (None, (Some(id), None)) => Ok(id),
        }
    }
}
