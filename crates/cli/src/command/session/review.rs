//! What only a human may do: let a tool call run once, or turn it down.

use custody_arguments::ArgumentOrigin;
use custody_kernel::record::{Record, Request, SessionRequest};
use custody_kernel::tool::asked::{ApprovalStatus, AskedCall};
use custody_kernel::tool::call::Call;
use custody_log::EntryId;
use custody_runtime::Store;
use custody_runtime::store::content_of;
use serde_json::{Value, json};

use crate::context::Context;
use crate::output::{
    BOLD, DIM, HEAD, Outcome, WARN, answer_style, excerpt, json_line, line, moment, paint,
};

/// List the tool calls that wait for a human: what they would do, and where each value came from.
#[derive(Debug, clap::Args)]
pub(super) struct PendingArgs {
    /// Show answered and expired ones too
    #[arg(long)]
    all: bool,
}

/// Let a tool call run once. The approval holds for exactly the arguments shown, in its session, under the policy
/// in force.
#[derive(Debug, clap::Args)]
pub(super) struct Approve {
    /// The proposal
    proposal: EntryId,
    /// Who you are; your passphrase is asked for [default: the owner]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

/// Turn a tool call down, or take an approval back that was not used yet.
#[derive(Debug, clap::Args)]
pub(super) struct Deny {
    /// The proposal
    proposal: EntryId,
    /// Who you are; your passphrase is asked for [default: the owner]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

pub(super) fn pending(context: &Context, args: &PendingArgs) -> anyhow::Result<Outcome> {
    let store = context.open()?;
    let now = store.clock().now();
    let is_shown = |asked: &&AskedCall| {
        args.all || (asked.standing == ApprovalStatus::Waiting && now < asked.expires)
    };
    let asked: Vec<AskedCall> =
        store.state(|state| state.asked_calls().filter(is_shown).cloned().collect())?;
    for asked in &asked {
        if context.json {
            json_line(&as_json(&store, asked)?)?;
        } else {
            show(&store, asked)?;
        }
    }
    if asked.is_empty() && !context.json {
        line("No tool call waits for a decision.");
    }
    Ok(Outcome::Fine)
}

pub(super) fn approve(context: &Context, args: &Approve) -> anyhow::Result<Outcome> {
    let store = context.open()?;
    let asked = store.state(|state| state.asked_call(args.proposal).cloned())?;
    if let (Some(asked), false) = (&asked, context.json) {
        show(&store, asked)?;
    }
    // What is shown is what is approved.
    let shown = asked.map(|asked| asked.arguments.commitment);
    let reviewer = context.human(&store, args.name.as_deref())?;
    let receipt = store.approve(&reviewer, args.proposal, shown)?;
    tell(context, "approved; it runs when the agent asks again", &receipt)
}

pub(super) fn deny(context: &Context, args: &Deny) -> anyhow::Result<Outcome> {
    let store = context.open()?;
    let reviewer = context.human(&store, args.name.as_deref())?;
    let receipt = store.deny(&reviewer, args.proposal)?;
    tell(context, "turned down", &receipt)
}

fn tell(
    context: &Context,
    done: &str,
    receipt: &custody_runtime::store::Receipt,
) -> anyhow::Result<Outcome> {
    let refusal = receipt.answer.refusal();
    if context.json {
        let reason = refusal.map(ToString::to_string);
        json_line(&json!({
            "decision": receipt.id,
            "answer": receipt.answer.word(),
            "reason": reason,
        }))?;
    } else {
        let text = refusal.map_or_else(|| done.to_owned(), ToString::to_string);
        line(paint(answer_style(receipt.answer.word()), text));
    }
    Ok(Outcome::found_if(refusal.is_some()))
}

fn as_json(store: &Store, asked: &AskedCall) -> anyhow::Result<Value> {
    let record = store.record(asked.entry)?;
    let arguments = arguments(store, asked)?;
    let leaves = call_of(&record).map(|call| &call.leaves);
    Ok(json!({
        "proposal": asked.proposal,
        "session": asked.session,
        "tenant": asked.tenant.as_str(),
        "tool": asked.tool,
        "arguments": arguments,
        "leaves": leaves,
        "because": record.answer.refusal().map(ToString::to_string),
        "expires": moment(asked.expires),
        "standing": standing(asked.standing),
    }))
}

const fn standing(standing: ApprovalStatus) -> &'static str {
    match standing {
        ApprovalStatus::Waiting => "waiting",
        ApprovalStatus::Approved => "approved, not used yet",
        ApprovalStatus::TurnedDown => "turned down",
        ApprovalStatus::Used => "ran",
    }
}

fn show(store: &Store, asked: &AskedCall) -> anyhow::Result<()> {
    let record = store.record(asked.entry)?;
    line(paint(HEAD, asked.proposal));
    let call = call_of(&record);
    let effect = call.map_or("calls", |call| call.effect.as_str());
    line(format_args!("{} {effect}, for {}", paint(BOLD, excerpt(&asked.tool, 64)), asked.tenant));
    if let Some(because) = record.answer.refusal() {
        line(paint(WARN, because));
    }
    let arguments = arguments(store, asked)?;
    if arguments.is_null() {
        line(paint(WARN, "  its arguments were taken out; see `custody incident list`"));
    }
    for (name, value) in arguments.as_object().into_iter().flatten() {
        line(format_args!("  {}: {}", excerpt(name, 40), excerpt(&plain(value), 400)));
    }
    if let Some(call) = call {
        show_origins(store, call)?;
    }
    let until = moment(asked.expires);
    line(paint(DIM, format_args!("{}, until {until}", standing(asked.standing))));
    line("");
    Ok(())
}

/// The arguments of a call; null when an incident took them out.
fn arguments(store: &Store, asked: &AskedCall) -> anyhow::Result<Value> {
    let bytes = store.retrieve(asked.arguments)?;
    Ok(bytes.map_or(Ok(Value::Null), |bytes| serde_json::from_slice(&bytes))?)
}

fn call_of(record: &Record) -> Option<&Call> {
    if let Request::Call(call) = &record.request { Some(call) } else { None }
}

/// Where each sink came from, with the beginning of the text that it was found in.
fn show_origins(store: &Store, call: &Call) -> anyhow::Result<()> {
    for leaf in call.leaves.iter().filter(|leaf| leaf.sink.is_some()) {
        let path = excerpt(&leaf.path, 48);
        match &leaf.origin {
            ArgumentOrigin::User => line(paint(DIM, format_args!("  {path}: the user said it"))),
            ArgumentOrigin::Trusted => {
                line(paint(DIM, format_args!("  {path}: a server's own name, in a trusted field")));
            }
            ArgumentOrigin::Model => line(paint(WARN, format_args!("  {path}: nobody said it"))),
            ArgumentOrigin::Tool { from } => {
                for seq in from.iter().take(3) {
                    let source = store.record(*seq)?;
                    let said = source_text(store, &source)?;
                    line(paint(WARN, format_args!("  {path}: from untrusted entry {seq}: {said}")));
                }
            }
        }
    }
    Ok(())
}

fn source_text(store: &Store, source: &Record) -> anyhow::Result<String> {
    let origin = if let Request::Session(SessionRequest::Observe { origin, channel, .. }) =
        &source.request
    {
        origin.clone().unwrap_or_else(|| channel.to_string())
    } else {
        "memory".to_owned()
    };
    let text = match content_of(source) {
        Some(content) => match store.retrieve(content)? {
            Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            None => "(taken out)".to_owned(),
        },
        None => String::new(),
    };
    Ok(format!("{} ({})", excerpt(&text, 72), excerpt(&origin, 40)))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}
