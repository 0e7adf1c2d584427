//! What only a human may do: let a tool call run once, or turn it down.
//!
//! A call is shown whole, with what is not the user's first: what a human approves is what they saw.

use custody_arguments::{ArgumentOrigin, RecordedArgument, TextSink};
use custody_gateway::ApprovalCode;
use custody_kernel::record::{Record, Request, SessionRequest};
use custody_kernel::tool::asked::{ApprovalStatus, AskedCall};
use custody_kernel::tool::call::Call;
use custody_log::{EntryId, Seq};
use custody_runtime::Store;
use custody_runtime::store::content_of;
use serde_json::{Value, json};

use crate::context::GlobalContext;
use crate::output::{
    BOLD, DIM, ExitStatus, HEAD, WARN, answer_style, excerpt, json_line, line, moment, note, paint,
};
use crate::reveal::{self, line_of};
use crate::running_service::ServiceState;
use crate::{credential, page};

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

pub(super) fn pending(context: &GlobalContext, args: &PendingArgs) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let now = store.clock().now();
    let asked: Vec<AskedCall> = store.state(|state| {
        let shown = state.asked_calls().filter(|asked| {
            args.all || (asked.standing == ApprovalStatus::Waiting && now < asked.expires)
        });
        shown.cloned().collect()
    })?;
    ServiceState::of(context).warn_if_it_runs();
    let mut shown = Vec::new();
    for asked in &asked {
        if context.json {
            json_line(&as_json(&store, asked)?)?;
        } else {
            shown.extend(described(&store, asked)?);
        }
    }
    page::print(&shown)?;
    if asked.is_empty() && !context.json {
        line("No tool call waits for a decision.");
    }
    Ok(ExitStatus::Success)
}

pub(super) fn approve(context: &GlobalContext, args: &Approve) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let asked = store.state(|state| state.asked_call(args.proposal).cloned())?;
    if let Some(asked) = &asked {
        show(context, &described(&store, asked)?)?;
    }
    // What is shown is what is approved.
    let shown = asked.map(|asked| asked.arguments.commitment);
    let reviewer = context.human(&store, args.name.as_deref())?;
    if shown.is_some() && !agrees("Let exactly this call run, once?")? {
        line(paint(WARN, "Nothing was approved."));
        return Ok(ExitStatus::Failure);
    }
    let receipt = store.approve(&reviewer, args.proposal, shown)?;
    print_answer(context, "approved; it runs when the agent asks again", &receipt)
}

/// Shows what a human is about to decide on, to the end: beside the result if that is for a program.
pub(in crate::command) fn show(context: &GlobalContext, lines: &[String]) -> anyhow::Result<()> {
    if context.json {
        lines.iter().for_each(note);
        return Ok(());
    }
    anyhow::ensure!(page::print(lines)?, "it was not shown to its end; nothing was approved");
    Ok(())
}

/// Asks once more, after the passphrase, which fingers type by themselves. Without a terminal nobody proved who they
/// are, and the kernel refuses.
pub(in crate::command) fn agrees(question: &str) -> anyhow::Result<bool> {
    Ok(!credential::has_terminal() || credential::confirm(question)?)
}

pub(super) fn deny(context: &GlobalContext, args: &Deny) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let reviewer = context.human(&store, args.name.as_deref())?;
    let receipt = store.deny(&reviewer, args.proposal)?;
    print_answer(context, "turned down", &receipt)
}

fn print_answer(
    context: &GlobalContext,
    done: &str,
    receipt: &custody_runtime::store::Receipt,
) -> anyhow::Result<ExitStatus> {
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
    Ok(ExitStatus::failure_if(refusal.is_some()))
}

fn as_json(store: &Store, asked: &AskedCall) -> anyhow::Result<Value> {
    let record = store.record(asked.entry)?;
    let arguments = arguments(store, asked)?;
    let leaves = call_of(&record).map(|call| &call.leaves);
    Ok(json!({
        "proposal": asked.proposal,
        "code": ApprovalCode::of(asked.proposal).to_string(),
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

/// All that a call would do, in lines.
fn described(store: &Store, asked: &AskedCall) -> anyhow::Result<Vec<String>> {
    let record = store.record(asked.entry)?;
    let call = call_of(&record);
    let effect = call.map_or("calls", |call| call.effect.as_str());
    let mut lines = vec![
        format!(
            "{}  code {}",
            paint(HEAD, asked.proposal),
            paint(BOLD, ApprovalCode::of(asked.proposal))
        ),
        format!("{} {effect}, for {}", paint(BOLD, line_of(&asked.tool)), asked.tenant),
    ];
    lines.extend(record.answer.refusal().map(|because| paint(WARN, because)));
    let arguments = arguments(store, asked)?;
    if arguments.is_null() {
        lines.push(paint(WARN, "  its arguments were taken out; see `custody incident list`"));
    }
    let origins = call.map(|call| call.leaves.as_slice()).unwrap_or_default();
    let mut values = values(&arguments, origins);
    // Stable: within each part the values stand as in the arguments.
    values.sort_by_key(|value| value.urgency);
    let mut last = None;
    for value in &values {
        if last.replace(value.urgency) != Some(value.urgency) {
            lines.push(paint(DIM, format_args!("  {}:", value.urgency.heading())));
        }
        value.describe(store, &mut lines)?;
    }
    let until = moment(asked.expires);
    lines.push(paint(DIM, format_args!("{}, until {until}", standing(asked.standing))));
    lines.push(String::new());
    Ok(lines)
}

/// How much a reviewer has to look at a value, most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    /// It decides something, or holds what does, and is not the user's.
    NotFromUser,
    /// It decides nothing by itself.
    Plain,
    /// The user said it.
    FromUser,
}

impl Urgency {
    const fn heading(self) -> &'static str {
        match self {
            Self::NotFromUser => "not the user's words",
            Self::Plain => "text and plain values",
            Self::FromUser => "the user's words",
        }
    }
}

/// One value of a call, as a reviewer sees it.
struct ShownValue<'a> {
    path: String,
    /// Nothing where the call gives none.
    text: Option<String>,
    /// Where it came from, as often as it was traced.
    origins: Vec<&'a RecordedArgument>,
    /// The same of what its text holds.
    within: Vec<&'a RecordedArgument>,
    urgency: Urgency,
}

/// The values of `arguments`, and the sinks that are missing there.
fn values<'a>(arguments: &Value, origins: &'a [RecordedArgument]) -> Vec<ShownValue<'a>> {
    let mut flat = Vec::new();
    flatten(arguments, String::new(), &mut flat);
    let missing = origins.iter().filter(|leaf| {
        !leaf.path.contains(" > ") && !flat.iter().any(|(path, _)| *path == leaf.path)
    });
    let missing: Vec<String> = missing.map(|leaf| leaf.path.clone()).collect();
    let given = flat.into_iter().map(|(path, text)| (path, Some(text)));
    let all = given.chain(missing.into_iter().map(|path| (path, None)));
    all.map(|(path, text)| ShownValue::of(path, text, origins)).collect()
}

impl<'a> ShownValue<'a> {
    fn of(path: String, text: Option<String>, traced: &'a [RecordedArgument]) -> Self {
        let name = format!("{path} > name");
        let own = traced.iter().filter(|leaf| leaf.path == path || leaf.path == name);
        let origins: Vec<&RecordedArgument> = own.collect();
        let within = traced.iter().filter(|leaf| {
            let rest = leaf.path.strip_prefix(path.as_str());
            leaf.path != name && rest.is_some_and(|rest| rest.starts_with(" > "))
        });
        let within: Vec<&RecordedArgument> = within.collect();
        let mut all = origins.iter().chain(&within);
        let urgency = if all.any(|leaf| leaf.sink.is_some() && leaf.origin != ArgumentOrigin::User)
        {
            Urgency::NotFromUser
        } else if origins.iter().any(|leaf| leaf.origin != ArgumentOrigin::User)
            || origins.is_empty()
        {
            Urgency::Plain
        } else {
            Urgency::FromUser
        };
        Self { path, text, origins, within, urgency }
    }

    fn describe(&self, store: &Store, lines: &mut Vec<String>) -> anyhow::Result<()> {
        let path = line_of(&self.path);
        let Some(text) = &self.text else {
            lines.push(format!("  {path}: {}", paint(WARN, "not given")));
            return Ok(());
        };
        let mut shown = reveal::lines(text).into_iter();
        lines.push(format!("  {path}: {}", shown.next().unwrap_or_default()));
        // No line of a value can be taken for one of ours.
        lines.extend(shown.map(|line| format!("    | {line}")));
        for leaf in self.origins.iter().filter(|leaf| leaf.sink.is_some()) {
            let what = if leaf.path == self.path { "" } else { "its name: " };
            lines.extend(origins(store, what, &leaf.origin)?);
        }
        let found = TextSink::find(text);
        for (index, leaf) in self.within.iter().enumerate() {
            // Recorded in the order in which they are found; a record of an older version may hold others.
            let value = found.get(index).filter(|_| found.len() == self.within.len());
            let what = leaf.path.rsplit(" > ").next().unwrap_or_default();
            let value = value.map_or_else(String::new, |sink| format!(" {}", line_of(&sink.value)));
            lines.extend(origins(store, &format!("{what}{value}: "), &leaf.origin)?);
        }
        Ok(())
    }
}

/// Each single value of `value` with its path, as tracing names them.
fn flatten(value: &Value, path: String, flat: &mut Vec<(String, String)>) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                flatten(item, format!("{path}[{index}]"), flat);
            }
        }
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(member, inner, flat);
            }
        }
        // No arguments at all.
        Value::Object(_) | Value::Null if path.is_empty() => {}
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {
            flat.push((path, plain(value)));
        }
    }
}

/// The arguments of a call; null when an incident took them out.
fn arguments(store: &Store, asked: &AskedCall) -> anyhow::Result<Value> {
    let bytes = store.retrieve(asked.arguments)?;
    Ok(bytes.map_or(Ok(Value::Null), |bytes| serde_json::from_slice(&bytes))?)
}

fn call_of(record: &Record) -> Option<&Call> {
    if let Request::Call(call) = &record.request { Some(call) } else { None }
}

/// Where `what` came from, with the beginning of the text that it was found in.
fn origins(store: &Store, what: &str, origin: &ArgumentOrigin) -> anyhow::Result<Vec<String>> {
    Ok(match origin {
        ArgumentOrigin::User => vec![paint(DIM, format_args!("    {what}the user said it"))],
        ArgumentOrigin::Trusted => {
            vec![paint(DIM, format_args!("    {what}a server's own name, in a trusted field"))]
        }
        ArgumentOrigin::Model => vec![paint(WARN, format_args!("    {what}nobody said it"))],
        ArgumentOrigin::Tool { from } => {
            named_entries(store, &format!("{what}from untrusted entry"), from)?
        }
        ArgumentOrigin::Party { from } => {
            let why = format!(
                "{what}the user said it, but it wrote, or is the place of, untrusted entry"
            );
            named_entries(store, &why, from)?
        }
    })
}

/// The first of the entries that `why` ends with, each with the beginning of its text.
fn named_entries(store: &Store, why: &str, entries: &[Seq]) -> anyhow::Result<Vec<String>> {
    let lines = entries.iter().take(3).map(|seq| {
        let said = source_text(store, &store.record(*seq)?)?;
        Ok(paint(WARN, format_args!("    {why} {seq}: {said}")))
    });
    lines.collect()
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
