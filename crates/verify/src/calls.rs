//! Judging every recorded tool call again (G2): its arguments are traced in the recorded texts of its session, and the
//! recorded policies are asked again. A value that was taken out of an output is taken out again.

use std::borrow::Cow;
use std::collections::HashMap;

use custody_arguments::{Arguments, DeclaredIntents, Intent};
use custody_kernel::actions::list::page;
use custody_kernel::key::Key;
use custody_kernel::namespace::Namespace;
use custody_kernel::record::{
    AdminRequest, Answer, Author, FORMAT, Record, Request, SessionRequest,
};
use custody_kernel::state::{SignedPolicy, State};
use custody_kernel::tool::basis::{Basis, BasisKind};
use custody_kernel::tool::call::Call;
use custody_kernel::tool::extract::Extract;
use custody_kernel::tool::intent::IntentDeclaration;
use custody_log::{Digest, Seq, SessionId};
use custody_policy::{DescribedTool, InForce, Policy};
use custody_runtime::store::{Tampering, View, content_of, is_kept};
use custody_runtime::tools::{JudgedBy, take_out};

use crate::VerifyError;
use crate::indexing::IndexedTexts;

/// What a record of an extraction claims.
const VALUE: &str = "a value";

/// What was found in order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CheckedCalls {
    pub(crate) judged: u64,
    pub(crate) not_judged: u64,
}

/// Follows the log, and judges every call again.
pub(crate) struct CallVerifier<'a> {
    view: View<'a>,
    texts: IndexedTexts,
    sessions: HashMap<SessionId, SessionCalls>,
    bases: HashMap<Digest, RecordedBasis>,
    /// The policies that were in force without a basis: the owner's and those that ship.
    policies: HashMap<Digest, Policy>,
    /// The versions of those that ship.
    shipped: Vec<Digest>,
    checked: CheckedCalls,
}

/// A text that calls are judged by.
enum RecordedBasis {
    Tool(Box<DescribedTool>),
    LocalPolicy(Box<Policy>),
    Destroyed,
}

/// What is followed of an open session.
#[derive(Default)]
struct SessionCalls {
    /// What was declared for it.
    intents: DeclaredIntents,
    /// Whether a text was destroyed that the model read.
    has_purged: bool,
    /// The calls in whose outputs the manifest trusts fields, or lets values be taken out.
    calls: HashMap<Seq, Box<Call>>,
    /// The structured form of outputs, by the entries that hold them as text.
    outputs: HashMap<Vec<Seq>, Seq>,
}

/// Why a call was not judged again.
enum NotJudged {
    /// A text that it rests on was destroyed.
    Destroyed,
    Failed(VerifyError),
}

impl<E: Into<VerifyError>> From<E> for NotJudged {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl<'a> CallVerifier<'a> {
    pub(crate) fn new(view: View<'a>) -> Self {
        let (sessions, bases, policies) = (HashMap::new(), HashMap::new(), HashMap::new());
        let shipped = Policy::shipped_versions().collect();
        let (texts, checked) = (IndexedTexts::new(), CheckedCalls::default());
        Self { view, texts, sessions, bases, policies, shipped, checked }
    }

    /// Looks at the next record. `before` is what the records before it fold to, `text` the content that arrived with
    /// it.
    ///
    /// # Errors
    /// [`Tampering::Call`] for a record that claims what its texts do not give.
    pub(crate) fn observe(
        &mut self,
        before: &State,
        record: &Record,
        text: Option<&[u8]>,
    ) -> Result<(), VerifyError> {
        match (&record.by, &record.request) {
            (Author::Session(id), Request::Call(call)) => {
                let judged = self.judge(before, *id, record, call, text);
                self.count(judged)
            }
            (Author::Session(id), Request::Session(request)) if record.v == FORMAT => {
                self.follow(before, *id, record, request, text)
            }
            (_, Request::Admin(AdminRequest::EndSession { session })) => {
                self.forget(*session);
                Ok(())
            }
            (Author::Session(_) | Author::Principal(_), _) => Ok(()),
        }
    }

    pub(crate) fn finish(self) -> CheckedCalls {
        self.checked
    }

    fn forget(&mut self, session: SessionId) {
        self.sessions.remove(&session);
        self.texts.forget(session);
    }

    fn count(&mut self, judged: Result<(), NotJudged>) -> Result<(), VerifyError> {
        match judged {
            Ok(()) => self.checked.judged += 1,
            Err(NotJudged::Destroyed) => self.checked.not_judged += 1,
            Err(NotJudged::Failed(error)) => return Err(error),
        }
        Ok(())
    }

    fn follow(
        &mut self,
        before: &State,
        id: SessionId,
        record: &Record,
        request: &SessionRequest,
        text: Option<&[u8]>,
    ) -> Result<(), VerifyError> {
        match request {
            SessionRequest::CloseSession => {
                self.forget(id);
            }
            SessionRequest::RecordBasis(basis) => self.record(id, record.seq, basis, text)?,
            SessionRequest::DeclareIntents(declared) if record.answer == Answer::Done => {
                self.declare(id, record.seq, declared, text)?;
            }
            SessionRequest::Extract(extract) if record.answer == Answer::Done => {
                let text = self.content(record, text)?;
                let taken = self.take_again(id, record.seq, extract, text.as_deref());
                self.count(taken)?;
                self.read(id, record, text.as_deref());
            }
            SessionRequest::Observe { .. } | SessionRequest::Read { .. } => {
                let text = self.content(record, text)?;
                self.read(id, record, text.as_deref());
            }
            SessionRequest::List { shared, after } if record.answer == Answer::Done => {
                self.list(before, id, record, *shared, after.as_ref());
            }
            SessionRequest::Extract(_)
            | SessionRequest::List { .. }
            | SessionRequest::DeclareIntents(_)
            | SessionRequest::Write { .. }
            | SessionRequest::Delete { .. }
            | SessionRequest::Promote { .. }
            | SessionRequest::Route(_)
            | SessionRequest::JoinContext
            | SessionRequest::Withhold { .. } => {}
        }
        Ok(())
    }

    /// The keys that a listing showed the model.
    fn list(
        &mut self,
        before: &State,
        id: SessionId,
        record: &Record,
        shared: bool,
        after: Option<&Key>,
    ) {
        let Some(open) = before.session(id) else { return };
        let own = Namespace::session(open.who.tenant.clone(), id);
        let items = page(before, &own, shared, after).0;
        let keys: Vec<Key> = items.into_iter().map(|item| item.key.clone()).collect();
        let listing = record.clone();
        self.texts.change(id, move |texts| {
            keys.iter().for_each(|key| texts.add_listed(&listing, key.as_str()));
        });
    }

    /// What the model read with a record.
    fn read(&mut self, id: SessionId, record: &Record, text: Option<&str>) {
        if let Some(text) = text {
            let (record, text) = (record.clone(), text.to_owned());
            self.texts.change(id, move |texts| texts.add_recorded(&record, &text));
        } else if content_of(record).is_some() {
            self.sessions.entry(id).or_default().has_purged = true;
        }
    }

    fn record(
        &mut self,
        id: SessionId,
        seq: Seq,
        basis: &Basis,
        text: Option<&[u8]>,
    ) -> Result<(), VerifyError> {
        let text = text.map(String::from_utf8_lossy);
        if let (Some(digest), Some(text)) = (basis.of.digest(), &text)
            && Digest::of(text.as_bytes()) != digest
        {
            return Err(claims(seq, "a digest"));
        }
        match &basis.of {
            BasisKind::Tool { digest } => {
                let tool = text.map(|text| DescribedTool::parse(&text)).transpose();
                let tool = tool.map_err(|_| claims(seq, "a manifest"))?;
                let tool = tool.map(|tool| RecordedBasis::Tool(Box::new(tool)));
                self.bases.insert(*digest, tool.unwrap_or(RecordedBasis::Destroyed));
            }
            BasisKind::LocalPolicy { digest } => {
                let policy = text.map(|text| Policy::parse(&text)).transpose();
                let policy = policy.map_err(|_| claims(seq, "a policy"))?;
                let policy = policy.map(|policy| RecordedBasis::LocalPolicy(Box::new(policy)));
                self.bases.insert(*digest, policy.unwrap_or(RecordedBasis::Destroyed));
            }
            BasisKind::Output { call, texts } => {
                let session = self.sessions.entry(id).or_default();
                session.outputs.insert(texts.clone(), seq);
                let Some(text) = text else {
                    session.has_purged = true;
                    return Ok(());
                };
                let Some(call) = session.calls.get(call) else {
                    return Err(claims(seq, "an output"));
                };
                // What was withheld from the model is no text that a call of it can rest on.
                if let Some(RecordedBasis::Tool(tool)) = self.bases.get(&call.manifest) {
                    let output = serde_json::from_str(&text);
                    let output = output.map_err(|_| claims(seq, "an output"))?;
                    let (tool, call, texts) = (tool.clone(), call.clone(), texts.clone());
                    self.texts.change(id, move |of| {
                        of.add_output(&output, &tool.manifest, &call, &texts);
                    });
                }
            }
        }
        Ok(())
    }

    /// Reads what a record declares, for the session whose calls it covers.
    fn declare(
        &mut self,
        id: SessionId,
        seq: Seq,
        declared: &IntentDeclaration,
        text: Option<&[u8]>,
    ) -> Result<(), VerifyError> {
        let session = self.sessions.entry(declared.for_session.unwrap_or(id)).or_default();
        let Some(text) = text else {
            session.has_purged = true;
            return Ok(());
        };
        let intents: Vec<Intent> =
            serde_json::from_slice(text).map_err(|_| claims(seq, "intents"))?;
        let counts = declared.terms.iter().map(|terms| terms.count);
        if !intents.iter().map(|intent| intent.count).eq(counts) {
            return Err(claims(seq, "intents"));
        }
        session.intents.add(seq, intents);
        Ok(())
    }

    /// Judges a call again, and compares what its record keeps.
    fn judge(
        &mut self,
        before: &State,
        id: SessionId,
        record: &Record,
        call: &Call,
        text: Option<&[u8]>,
    ) -> Result<(), NotJudged> {
        // An earlier version recorded nothing of what a call was judged by.
        if record.v != FORMAT {
            return Err(NotJudged::Destroyed);
        }
        let seq = record.seq;
        let text = self.content(record, text)?.ok_or(NotJudged::Destroyed)?;
        let arguments = Arguments::parse(&text).map_err(|_| claims(seq, "arguments"))?;
        if arguments.canonical() != text {
            return Err(claims(seq, "arguments").into());
        }
        let version = self.read_policy(before, record, call)?;
        let tool = match self.bases.get(&call.manifest) {
            Some(RecordedBasis::Tool(tool)) => tool,
            Some(RecordedBasis::Destroyed) => return Err(NotJudged::Destroyed),
            Some(RecordedBasis::LocalPolicy(_)) | None => {
                return Err(claims(seq, "a manifest").into());
            }
        };
        let session = self.sessions.entry(id).or_default();
        let local = local_policy(&self.bases, seq, call)?;
        let base = self.policies.get(&version).ok_or_else(|| claims(seq, "a policy"))?;
        let again = self.texts.look(id, |texts| {
            let by = JudgedBy {
                session: id,
                tool,
                manifest: call.manifest,
                texts,
                intents: &session.intents,
                policies: InForce { base, local },
                at: record.at,
            };
            by.judge(before, &arguments, call.arguments, call.approval)
        });
        let again = Call::from(again.map_err(|_| claims(seq, "a session"))?);
        let differs = difference(&again, call);
        if let Some(what) = differs {
            return Err(match session.has_purged {
                true => NotJudged::Destroyed,
                false => claims(seq, what).into(),
            });
        }
        let manifest = &tool.manifest;
        let has_fields = manifest.reads_output() || !manifest.closed_output.is_empty();
        if record.answer == Answer::Done {
            let manifest = manifest.clone();
            self.texts.change(id, move |texts| texts.add_call(seq, &manifest, &arguments));
            if has_fields {
                session.calls.insert(seq, Box::new(again));
            }
        }
        Ok(())
    }

    /// Takes a value out of an output again.
    fn take_again(
        &self,
        id: SessionId,
        seq: Seq,
        extract: &Extract,
        text: Option<&str>,
    ) -> Result<(), NotJudged> {
        if extract.value.is_none() {
            return Ok(());
        }
        let text = text.ok_or(NotJudged::Destroyed)?;
        let session = self.sessions.get(&id).ok_or_else(|| claims(seq, VALUE))?;
        let entry =
            session.outputs.get([extract.output].as_slice()).ok_or_else(|| claims(seq, VALUE))?;
        let output = content_of(&self.view.record(*entry)?).ok_or_else(|| claims(seq, VALUE))?;
        let output = self.view.any_content(output)?.ok_or(NotJudged::Destroyed)?;
        let output = serde_json::from_slice(&output).map_err(|_| claims(seq, VALUE))?;
        let call = session.calls.get(&extract.call).ok_or_else(|| claims(seq, VALUE))?;
        let Some(RecordedBasis::Tool(tool)) = self.bases.get(&call.manifest) else {
            return Err(NotJudged::Destroyed);
        };
        let shape = tool.manifest.closed_output.get(&extract.field);
        let taken = shape
            .filter(|shape| **shape == extract.shape)
            .and_then(|shape| take_out(&output, &extract.field, shape));
        match taken {
            Some(taken) if taken.as_str() == text => Ok(()),
            Some(_) | None => Err(claims(seq, VALUE).into()),
        }
    }

    /// The content that a record names, wherever it arrived; `None` if it was destroyed or there is none.
    fn content<'t>(
        &self,
        record: &Record,
        arrived: Option<&'t [u8]>,
    ) -> Result<Option<Cow<'t, str>>, VerifyError> {
        if let Some(bytes) = arrived {
            return Ok(Some(String::from_utf8_lossy(bytes)));
        }
        let elsewhere =
            content_of(record).filter(|content| content.arrival != record.seq || is_kept(record));
        let bytes = elsewhere.map(|content| self.view.any_content(content)).transpose()?.flatten();
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned().into()))
    }

    /// Reads the policy that `call` was judged by besides a local one, unless it is known, and returns its version:
    /// that of the owner's, or of the shipped one that the call names.
    fn read_policy(
        &mut self,
        before: &State,
        record: &Record,
        call: &Call,
    ) -> Result<Digest, NotJudged> {
        let signed = before.policy();
        let named = call.policy.version;
        let mut shipped = self.shipped.iter().copied();
        let version = signed.map(|signed| signed.version).or_else(|| {
            shipped.find(|base| InForce::version_of(*base, call.local_policy) == named)
        });
        let version = version.ok_or_else(|| claims(record.seq, "a policy"))?;
        if self.policies.contains_key(&version) {
            return Ok(version);
        }
        let policy = match signed {
            Some(SignedPolicy { text, .. }) => {
                let text = self.view.any_content(text)?.ok_or(NotJudged::Destroyed)?;
                Policy::parse(&String::from_utf8_lossy(&text)).ok()
            }
            None => Policy::shipped(version),
        };
        let policy = policy.filter(|policy| policy.version() == version);
        self.policies.insert(version, policy.ok_or_else(|| claims(record.seq, "a policy"))?);
        Ok(version)
    }
}

/// The operator's own policy that `call` names, if it names one.
fn local_policy<'p>(
    bases: &'p HashMap<Digest, RecordedBasis>,
    seq: Seq,
    call: &Call,
) -> Result<Option<&'p Policy>, NotJudged> {
    let Some(digest) = call.local_policy else { return Ok(None) };
    match bases.get(&digest) {
        Some(RecordedBasis::LocalPolicy(policy)) => Ok(Some(policy)),
        Some(RecordedBasis::Destroyed) => Err(NotJudged::Destroyed),
        Some(RecordedBasis::Tool(_)) | None => Err(claims(seq, "a policy").into()),
    }
}

/// What `recorded` claims that judging it again does not give.
fn difference(again: &Call, recorded: &Call) -> Option<&'static str> {
    if again == recorded {
        None
    } else if again.leaves != recorded.leaves {
        Some("argument origins")
    } else if again.intent != recorded.intent {
        Some("an intent")
    } else if again.policy != recorded.policy {
        Some("a policy answer")
    } else {
        Some("a manifest")
    }
}

fn claims(seq: Seq, what: &'static str) -> VerifyError {
    Tampering::Call { seq: seq.0, what }.into()
}
