//! `custody memory`: read, write and review what agents remember.

mod change;
mod review;
pub(super) mod show;

use custody_kernel::key::Key;
use custody_kernel::label::Channel;
use custody_kernel::memory::item::Mode;
use custody_kernel::namespace::{Namespace, Scope, Tenant};
use custody_kernel::principal::Authority;
use custody_log::{EntryId, SessionId};
use custody_runtime::Store;
use custody_runtime::store::Receipt;
use serde_json::json;

use crate::context::GlobalContext;
use crate::output::{DIM, ExitStatus, answer_style, json_line, line, paint};

/// Read, write and review what agents remember.
///
/// Without a credential you act as an agent, and rule 5 refuses what you write. `--as NAME` asks for
/// NAME's passphrase on the terminal.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Get(show::Get),
    Put(change::Put),
    Delete(change::Delete),
    List(show::List),
    History(show::History),
    Diff(show::Diff),
    Promote(change::Promote),
    Pending(review::PendingArgs),
    Approve(review::Approve),
    Deny(review::Deny),
    Mode(review::ModeArgs),
    Rollback(change::Rollback),
    Adopt(review::Adopt),
}

pub(crate) fn run(context: &GlobalContext, command: Command) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Get(args) => show::get(context, &args),
        Command::Put(args) => change::put(context, &args),
        Command::Delete(args) => change::delete(context, &args),
        Command::List(args) => show::list(context, &args),
        Command::History(args) => show::history(context, &args),
        Command::Diff(args) => show::diff(context, &args),
        Command::Promote(args) => change::promote(context, &args),
        Command::Pending(args) => review::pending(context, &args),
        Command::Approve(args) => review::approve(context, &args),
        Command::Deny(args) => review::deny(context, &args),
        Command::Mode(args) => review::mode(context, args),
        Command::Rollback(args) => change::rollback(context, &args),
        Command::Adopt(args) => review::adopt(context, args),
    }
}

/// The option that names the human a command acts as.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AsHuman {
    /// Act as this human, whose passphrase is typed on the terminal
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// The options that name a namespace; without them it is the shared one of the tenant `main`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NamespaceArgs {
    /// The namespace of this session instead of the shared one
    #[arg(long, value_name = "SESSION")]
    session: Option<SessionId>,
    /// Another tenant than your own; the owner's to choose
    #[arg(long, value_name = "TENANT")]
    tenant: Option<Tenant>,
}

impl NamespaceArgs {
    fn scope(&self) -> Scope {
        self.session.map_or(Scope::Shared, Scope::Session)
    }

    fn namespace(&self) -> Namespace {
        let tenant = self.tenant.clone().unwrap_or_else(Tenant::main);
        Namespace { tenant, scope: self.scope() }
    }

    /// The namespace to look at. Looking into another tenant takes its owner.
    fn looked_at(
        &self,
        context: &GlobalContext,
        store: &Store,
        who: &AsHuman,
    ) -> anyhow::Result<Namespace> {
        if self.tenant.is_some() {
            self.enter(context.authority(store, who.name.as_deref())?)?;
        }
        Ok(self.namespace())
    }

    /// The authority for this tenant: only an owner may act in another than their own.
    fn enter(&self, authority: Authority) -> anyhow::Result<Authority> {
        let Some(tenant) = &self.tenant else { return Ok(authority) };
        let entered = authority.acting_in(tenant.clone());
        entered.ok_or_else(|| {
            anyhow::anyhow!(
                "only the owner acts in tenant `{tenant}`; add `--as` with the owner's name"
            )
        })
    }
}

fn parse_mode(text: &str) -> Result<Mode, String> {
    [Mode::Open, Mode::Reviewed, Mode::Immutable]
        .into_iter()
        .find(|mode| mode.as_str() == text)
        .ok_or_else(|| "use open, reviewed or immutable".to_owned())
}

fn parse_channel(text: &str) -> Result<Channel, String> {
    // The channels of a model's answers and of memory follow from how a text arrived; nobody names them.
    let named = Channel::ALL
        .into_iter()
        .filter(|channel| !matches!(channel, Channel::Model | Channel::Memory | Channel::System));
    let names: Vec<&str> = named.clone().map(Channel::as_str).collect();
    named
        .into_iter()
        .find(|channel| channel.as_str() == text)
        .ok_or_else(|| format!("use one of {}", names.join(", ")))
}

/// Prints the answer to a request and gives the exit status. `done` says what an accepted request did.
pub(crate) fn print_receipt(
    context: &GlobalContext,
    done: &str,
    receipt: &Receipt,
) -> anyhow::Result<ExitStatus> {
    let (word, refusal) = (receipt.answer.word(), receipt.answer.refusal());
    if context.json {
        json_line(&json!({
            "answer": word,
            "rule": refusal.map(|refusal| refusal.rule().to_string()),
            "reason": refusal.map(ToString::to_string),
            "id": receipt.id,
            "seq": receipt.seq,
        }))?;
    } else {
        let id = paint(DIM, receipt.id);
        match refusal {
            None if word == "pending" => {
                line(format_args!(
                    "{}: {done} once a reviewer approves. {id}",
                    paint(answer_style(word), word)
                ));
            }
            None => line(format_args!("{}: {done}. {id}", paint(answer_style(word), word))),
            Some(refusal) if word == "pending" => {
                line(format_args!(
                    "{} under {}: {refusal}. {id}",
                    paint(answer_style(word), word),
                    refusal.rule()
                ));
            }
            Some(refusal) => {
                line(format_args!(
                    "{} by {}: {refusal}. {id}",
                    paint(answer_style(word), word),
                    refusal.rule()
                ));
            }
        }
    }
    Ok(ExitStatus::failure_if(word == "refused"))
}

/// The proposal of that id, with the item it is about.
fn pending_of(
    store: &Store,
    id: EntryId,
) -> anyhow::Result<Option<custody_kernel::memory::review::Pending>> {
    Ok(store.state(|state| state.pending_by_id(id).cloned())?)
}

/// The text of a value, replacing what is not UTF-8.
fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A key, from the command line.
fn parse_key(text: &str) -> Result<Key, String> {
    text.parse().map_err(|error: custody_kernel::key::MemoryKeyError| error.to_string())
}
