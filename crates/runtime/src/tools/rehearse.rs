//! Recorded calls, put to a policy once more: before it is in force, or to hear why.

use custody_arguments::Arguments;
use custody_kernel::actions::call::{CallContext, CallRefusal, decide_call};
use custody_kernel::record::{Author, Record, Request};
use custody_kernel::state::State;
use custody_kernel::tool::call::{Call, Permission, PolicyAnswer};
use custody_log::{Digest, Seq, SessionId, Timestamp};
use custody_policy::{Described, DescribedTool, Explanation, Manifests, Policy, Question};
use custody_store::{Store, StoreError, content_of, is_kept};

use super::GateError;
use super::judge::question;

/// How many records are read at once.
const CHUNK: u64 = 512;

/// What came of a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rehearsal {
    /// The calls that were decided again.
    pub calls: u64,
    /// Those whose arguments are not kept: they were refused then, or destroyed since.
    pub unreadable: u64,
    /// Those that would be decided otherwise, in order.
    pub changed: Vec<Changed>,
}

/// A call that would be decided otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Its entry.
    pub entry: Seq,
    /// When it was decided.
    pub at: Timestamp,
    /// The tool.
    pub tool: String,
    /// What was decided.
    pub was: Permission,
    /// What would be.
    pub now: Permission,
    /// Why it would not run, if it would not.
    pub because: Option<String>,
}

/// Decides every recorded call again as if `policy` had been in force, signed by the owner. Calls that used an
/// approval are left out: they follow from the ones that asked for it. A tool is what the record describes, or, where
/// an earlier version recorded no manifest, what `manifests` describe. Where its arguments came from is not traced
/// anew.
///
/// # Errors
/// When the record cannot be read.
pub fn rehearse(
    store: &Store,
    policy: &Policy,
    manifests: &Manifests,
) -> Result<Rehearsal, GateError> {
    let mut rehearsal = Rehearsal::default();
    go_through(store, |state, record| {
        let Some(past) = Past::of(store, state, record)? else { return Ok(()) };
        let Some(question) =
            past.question(state, manifests).filter(|_| past.call.approval.is_none())
        else {
            rehearsal.unreadable += u64::from(past.call.approval.is_none());
            return Ok(());
        };
        rehearsal.calls += 1;
        rehearsal.changed.extend(past.changed(state, record, policy.answer(&question)));
        Ok(())
    })?;
    Ok(rehearsal)
}

/// Why `policy` answers as it does to the call that was decided as `entry`. Nothing when `entry` is no call, or its
/// arguments are not kept.
///
/// # Errors
/// When the record cannot be read.
pub fn explain(
    store: &Store,
    policy: &Policy,
    manifests: &Manifests,
    entry: Seq,
) -> Result<Option<Explanation>, GateError> {
    let mut explanation = None;
    go_through(store, |state, record| {
        if record.seq == entry
            && let Some(past) = Past::of(store, state, record)?
        {
            explanation = past.question(state, manifests).map(|question| policy.explain(&question));
        }
        Ok(())
    })?;
    Ok(explanation)
}

/// Shows `each` record with the state that it was decided in.
fn go_through(
    store: &Store,
    mut each: impl FnMut(&State, &Record) -> Result<(), StoreError>,
) -> Result<(), GateError> {
    let mut state = State::default();
    let mut from = 0;
    loop {
        let records = store.stored_records(from..from + CHUNK)?;
        if records.is_empty() {
            return Ok(());
        }
        from += records.len() as u64;
        for (record, leaf) in records {
            each(&state, &record)?;
            let signature = state.fold_stored(&record, leaf).map_err(GateError::Record)?;
            signature.check().map_err(GateError::Record)?;
        }
    }
}

/// A recorded call.
struct Past<'a> {
    call: &'a Call,
    session: SessionId,
    /// The tool, if the record describes it.
    tool: Option<DescribedTool>,
    /// Nothing when they are not kept.
    arguments: Option<Arguments>,
}

impl<'a> Past<'a> {
    fn of(store: &Store, state: &State, record: &'a Record) -> Result<Option<Self>, StoreError> {
        let (Request::Call(call), Author::Session(session)) = (&record.request, &record.by) else {
            return Ok(None);
        };
        if state.session(*session).is_none() {
            return Ok(None);
        }
        let bytes = match is_kept(record) {
            true => store.retrieve(call.arguments.content(record.seq))?,
            false => None,
        };
        let arguments =
            bytes.and_then(|bytes| Arguments::parse(&String::from_utf8_lossy(&bytes)).ok());
        let tool = recorded_tool(store, state, call.manifest)?;
        Ok(Some(Self { call, session: *session, tool, arguments }))
    }

    /// What a policy was asked of it.
    fn question<'b>(&'b self, state: &'b State, manifests: &'b Manifests) -> Option<Question<'b>> {
        let tool = match &self.tool {
            Some(tool) => tool.as_described(),
            None => Described { known: self.call.known, ..manifests.tool(&self.call.tool) },
        };
        let session = state.session(self.session)?;
        let is_intended = self.call.intent.is_some();
        let arguments = self.arguments.as_ref()?;
        let question = question(state, session, tool, arguments, &self.call.leaves);
        Some(Question { is_intended, ..question })
    }

    /// The difference that another `answer` would have made.
    fn changed(&self, state: &State, record: &Record, answer: PolicyAnswer) -> Option<Changed> {
        let context = &state.session(self.session)?.context;
        let context = (!context.parents().is_empty()).then(|| context.label());
        let signed_policy = state.policy().map(|policy| policy.version);
        let intent = self.call.intent;
        let is_intended =
            intent.is_some_and(|intent| state.may_use_intent(self.session, intent, record.at));
        let then = CallContext { label: context, signed_policy, is_intended };
        let (was, _) = outcome(self.call, then);
        let signed_policy = Some(answer.version);
        let now = CallContext { label: context, signed_policy, is_intended };
        let (now, because) = outcome(&Call { policy: answer, ..self.call.clone() }, now);
        let tool = self.call.tool.clone();
        let changed = Changed { entry: record.seq, at: record.at, tool, was, now, because };
        (was != now).then_some(changed)
    }
}

/// The text of a tool that the record holds under `digest`.
fn recorded_tool(
    store: &Store,
    state: &State,
    digest: Digest,
) -> Result<Option<DescribedTool>, StoreError> {
    let Some(entry) = state.basis(digest) else { return Ok(None) };
    let Some(content) = content_of(&store.record(entry)?) else { return Ok(None) };
    let text = store.retrieve(content)?;
    Ok(text.and_then(|text| DescribedTool::parse(&String::from_utf8_lossy(&text)).ok()))
}

fn outcome(call: &Call, context: CallContext) -> (Permission, Option<String>) {
    match decide_call(call, context) {
        Ok(_) => (Permission::Allow, None),
        Err(CallRefusal::Asks(because)) => (Permission::Ask, Some(because.to_string())),
        Err(CallRefusal::Denied(because)) => (Permission::Deny, Some(because.to_string())),
    }
}
