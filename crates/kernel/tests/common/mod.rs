//! A store in memory, driven by a clock that ticks once per request.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::panic,
    clippy::unwrap_used,
    reason = "each test file uses its part"
)]

use custody_arguments::{
    ArgumentOrigin, Arguments, DeclaredIntents, IntendedValue, Intent, IntentRef, MatchedIntent,
    Parameter, TextIndex, ToolManifest, trace,
};
use custody_kernel::label::Channel;
use custody_kernel::memory::item::{ContentRef, Mode, Version};
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::{Namespace, Scope, Tenant};
use custody_kernel::principal::{Authority, Credential, Principal, Role};
use custody_kernel::record::{
    AdminRequest, Answer, Author, Genesis, ObservationKind, Record, Request, SessionRequest, Value,
    act_bytes, session_bytes,
};
use custody_kernel::signature::{LogPosition, RecordSignature};
use custody_kernel::state::{AskError, State, SubmittedRequest};
use custody_kernel::tool::call::{Call, ProposedCall};
use custody_log::{Digest, EntryId, LogKey, PrincipalId, Seq, SessionId, StoreId, Timestamp};
use ed25519_dalek::SigningKey;

pub struct Store {
    pub state: State,
    pub log: Vec<Record>,
    pub clock: u64,
    pub owner: Authority,
}

pub fn human(name: &str, role: Role, key: &SigningKey, id: u8) -> Principal {
    Principal {
        id: PrincipalId::from_random([id; 16]),
        name: name.into(),
        role,
        tenant: Tenant::main(),
        public_key: Some(Digest(key.verifying_key().to_bytes())),
        token_hash: Some(Digest::of(name.as_bytes())),
    }
}

/// The authority of a human who is present.
pub fn prove(principal: &Principal, key: &SigningKey) -> Authority {
    Authority::by_key(principal, key).unwrap()
}

/// A user named `ada`, whose token is `ada`.
pub fn user() -> (Principal, SigningKey) {
    let key = SigningKey::from_bytes(&[7; 32]);
    (human("ada", Role::User, &key, 7), key)
}

/// A registered principal, with both ways to act as them.
#[derive(Clone)]
pub struct Person {
    pub principal: Principal,
    pub key: SigningKey,
}

impl Person {
    /// Whoever `id` is; their token is their name.
    pub fn new(name: &str, role: Role, tenant: &Tenant, id: u8) -> Self {
        let key = SigningKey::from_bytes(&[id; 32]);
        let principal = Principal { tenant: tenant.clone(), ..human(name, role, &key, id) };
        Self { principal, key }
    }

    /// What an agent that works for them shows.
    pub fn token(&self) -> Authority {
        Authority::by_token(&self.principal, self.principal.name.as_bytes()).unwrap()
    }

    /// What they show themselves.
    pub fn in_person(&self) -> Authority {
        prove(&self.principal, &self.key)
    }
}

/// The commitment of a text.
pub fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

/// The rule that said no, or the word of the answer.
pub fn verdict(answer: &Answer) -> String {
    match answer {
        Answer::Refused(refusal) => refusal.rule().to_string(),
        Answer::Done | Answer::Value { .. } | Answer::NotFound | Answer::Pending { .. } => {
            answer.word().to_owned()
        }
    }
}

impl Store {
    pub fn new() -> Self {
        Self::with_limits(Limits { changes: Some(3), ..Limits::default() })
    }

    pub fn with_limits(limits: Limits) -> Self {
        Self::founded(StoreId::from_random([9; 16]), limits)
    }

    pub fn founded(store: StoreId, limits: Limits) -> Self {
        let key = SigningKey::from_bytes(&[1; 32]);
        let owner = human("owner", Role::Owner, &key, 1);
        let authority = prove(&owner, &key);
        let log_key = LogKey { public_key: Digest([2; 32]), certificate: String::new() };
        let mut this = Self { state: State::default(), log: vec![], clock: 0, owner: authority };
        let genesis = Genesis { store, owner, log_key, limits };
        assert_eq!(
            this.by_owner(Request::Admin(AdminRequest::CreateStore(Box::new(genesis)))),
            Answer::Done
        );
        this
    }

    /// Registers somebody.
    pub fn knows(&mut self, name: &str, role: Role, tenant: &Tenant, id: u8) -> Person {
        let person = Person::new(name, role, tenant, id);
        let request =
            Request::Admin(AdminRequest::AddPrincipal(Box::new(person.principal.clone())));
        assert_eq!(self.by_owner(request), Answer::Done);
        person
    }

    /// A store that knows the user `ada`, and a session in which her agent has heard her.
    pub fn with_ada() -> (Self, Person, SessionId) {
        let mut store = Self::with_limits(Limits::default());
        let ada = store.knows("ada", Role::User, &Tenant::main(), 7);
        let session = store.open(ada.token(), 1);
        store.hears(session, Channel::User);
        (store, ada, session)
    }

    pub fn try_ask(&mut self, by: Actor, request: Request) -> Result<Answer, AskError> {
        self.clock += 1;
        let signer = by.session_key();
        let decided = self.state.decide(submitted(by, request), Timestamp(self.clock))?;
        let answer = decided.answer().clone();
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.state.len().to_be_bytes());
        let committed =
            self.state.commit(decided, EntryId::from_random(id), vec![], signer.as_ref()).unwrap();
        self.log.push(committed.into_parts().0);
        Ok(answer)
    }

    pub fn ask(&mut self, by: Actor, request: Request) -> Answer {
        self.try_ask(by, request).unwrap()
    }

    pub fn by_owner(&mut self, request: Request) -> Answer {
        self.ask(Actor::Principal(self.owner.clone()), request)
    }

    pub fn open(&mut self, authority: Authority, id: u8) -> SessionId {
        let session = SessionId::from_random([id; 16]);
        assert_eq!(self.ask(Actor::Principal(authority), open_session(session)), Answer::Done);
        session
    }

    pub fn hears(&mut self, session: SessionId, channel: Channel) -> Seq {
        self.observes(session, message(channel, None, vec![]))
    }

    /// Hears a text, whose content can then be named.
    pub fn hears_text(&mut self, session: SessionId, channel: Channel, text: &str) -> ContentRef {
        let value = Some(Value::New(digest(text)));
        let arrival = self.observes(session, message(channel, value, vec![]));
        ContentRef { arrival, commitment: digest(text) }
    }

    /// The model says something out of its whole context.
    pub fn completes(&mut self, session: SessionId) -> Seq {
        self.observes(session, produced(ObservationKind::Completion))
    }

    pub fn observes(&mut self, session: SessionId, request: Request) -> Seq {
        assert_eq!(self.ask(Actor::Session(session), request), Answer::Done);
        self.last_seq()
    }

    pub fn reads(&mut self, session: SessionId, scope: Scope, key: &str) -> Answer {
        self.ask(
            Actor::Session(session),
            Request::Session(SessionRequest::Read { scope, key: key.parse().unwrap() }),
        )
    }

    pub fn lists(&mut self, session: SessionId, shared: bool, after: Option<&str>) -> Vec<Seq> {
        let after = after.map(|key| key.parse().unwrap());
        let request = Request::Session(SessionRequest::List { shared, after });
        assert_eq!(self.ask(Actor::Session(session), request), Answer::Done);
        self.log.last().unwrap().parents.clone()
    }

    pub fn deletes(&mut self, session: SessionId, scope: Scope, key: &str) -> Answer {
        self.ask(
            Actor::Session(session),
            Request::Session(SessionRequest::Delete { scope, key: key.parse().unwrap() }),
        )
    }

    pub fn promotes(&mut self, session: SessionId, from: SessionId, key: &str) -> Answer {
        self.ask(
            Actor::Session(session),
            Request::Session(SessionRequest::Promote { from, key: key.parse().unwrap() }),
        )
    }

    pub fn approves(&mut self, by: Authority, proposal: EntryId, text: &str) -> Answer {
        let shown = Some(digest(text));
        self.ask(Actor::Principal(by), Request::Admin(AdminRequest::Approve { proposal, shown }))
    }

    pub fn denies(&mut self, by: Authority, proposal: EntryId) -> Answer {
        self.ask(Actor::Principal(by), Request::Admin(AdminRequest::Deny { proposal }))
    }

    /// The owner sets the mode of a shared item of the main tenant.
    pub fn sets(&mut self, key: &str, mode: Mode) {
        assert_eq!(self.by_owner(set_mode(Tenant::main(), key, mode)), Answer::Done);
    }

    /// The owner puts a value into the shared namespace and locks it.
    pub fn locks(&mut self, key: &str) {
        let (tenant, path) = (Tenant::main(), key.to_owned());
        let value = Value::New(digest("the owner's words"));
        let adopt = Request::Admin(AdminRequest::AdoptFile {
            tenant,
            key: key.parse().unwrap(),
            path,
            value,
        });
        assert_eq!(self.by_owner(adopt), Answer::Done);
    }

    /// The version under `key`, if there is one.
    pub fn version(&self, namespace: &Namespace, key: &str) -> Option<Version> {
        self.state.item(namespace, &key.parse().unwrap()).and_then(|item| item.current)
    }

    /// The version under `key` in the main tenant's shared namespace.
    pub fn shared(&self, key: &str) -> Option<Version> {
        self.version(&Namespace::shared(Tenant::main()), key)
    }

    /// Writes the key's own name as its value.
    pub fn writes(&mut self, session: SessionId, scope: Scope, key: &str, queue: bool) -> Answer {
        let value = Value::New(Digest::of(key.as_bytes()));
        let key = key.parse().unwrap();
        let request = Request::Session(SessionRequest::Write {
            scope,
            key,
            value,
            depends_on: vec![],
            queue,
        });
        self.ask(Actor::Session(session), request)
    }

    pub fn last_id(&self) -> EntryId {
        self.log.last().unwrap().id
    }

    pub fn last_seq(&self) -> Seq {
        self.log.last().unwrap().seq
    }
}

/// Who asks.
#[derive(Debug, Clone)]
pub enum Actor {
    Session(SessionId),
    Principal(Authority),
}

impl Actor {
    /// The key that signs what they ask, if they are a session.
    pub fn session_key(&self) -> Option<SigningKey> {
        match self {
            Self::Session(session) => Some(session_key(*session)),
            Self::Principal(_) => None,
        }
    }
}

/// The key of a session. A real one is random.
pub fn session_key(session: SessionId) -> SigningKey {
    SigningKey::from_bytes(&Digest::of(session.as_bytes()).0)
}

/// Opens a session with its key.
pub fn open_session(session: SessionId) -> Request {
    let key = Some(Digest(session_key(session).verifying_key().to_bytes()));
    Request::Admin(AdminRequest::OpenSession { session, alias: None, host: None, key })
}

/// A request as whoever makes it submits it. What they cannot make cannot be submitted.
pub fn submitted(by: Actor, request: Request) -> SubmittedRequest {
    match (by, request) {
        (Actor::Session(id), Request::Session(request)) => SubmittedRequest::Session(id, request),
        (Actor::Session(id), Request::Call(call)) => {
            SubmittedRequest::Call(id, Box::new(proposed(*call)))
        }
        (Actor::Principal(authority), Request::Admin(request)) => {
            SubmittedRequest::Admin(authority, request)
        }
        (by, request) => panic!("{by:?} cannot ask {request:?}"),
    }
}

/// A call whose arguments trace to the origins that `call` has: each gets a value that its origin alone holds.
pub fn proposed(call: Call) -> ProposedCall {
    let mut manifest = ToolManifest { text_leaves: Some(false), ..ToolManifest::unknown() };
    let (mut texts, mut arguments) = (TextIndex::default(), serde_json::Map::new());
    for (number, leaf) in call.leaves.iter().enumerate() {
        let value = format!("value-{number}-of-this-argument");
        match &leaf.origin {
            ArgumentOrigin::User => texts.add_user_text(&format!("Take {value} for it.")),
            ArgumentOrigin::Tool { from } => {
                from.iter().for_each(|entry| texts.add_untrusted_text(*entry, &value));
            }
            ArgumentOrigin::Party { from } => {
                texts.add_user_text(&format!("Take {value} for it."));
                texts.add_authors(from, std::slice::from_ref(&value));
            }
            ArgumentOrigin::Trusted => texts.add_trusted_value(&value, &leaf.path),
            ArgumentOrigin::Model => {}
        }
        let taken = arguments.contains_key(&leaf.path);
        let name = if taken { format!("{}-{number}", leaf.path) } else { leaf.path.clone() };
        let parameter = Parameter { sink: leaf.sink, ..Parameter::default() };
        manifest.arguments.insert(name.clone(), parameter);
        arguments.insert(name, value.into());
    }
    let arguments = Arguments::parse(&serde_json::Value::Object(arguments).to_string()).unwrap();
    let traced = trace(&manifest, &arguments, &texts);
    let intent = call.intent.and_then(|named| matched(named, &call.tool, &manifest, &arguments));
    let Call { tool, effect, known, manifest, arguments, policy, local_policy, approval, .. } =
        call;
    ProposedCall {
        tool,
        effect,
        known,
        manifest,
        arguments,
        traced,
        policy,
        local_policy,
        intent,
        approval,
    }
}

/// The intent that `named` names, made to cover exactly this call.
fn matched(
    named: IntentRef,
    tool: &str,
    manifest: &ToolManifest,
    arguments: &Arguments,
) -> Option<MatchedIntent> {
    let exactly = |value: &serde_json::Value| IntendedValue::Exactly(value.clone());
    let sinks = arguments.object().iter().map(|(name, value)| (name.clone(), exactly(value)));
    let is_sink = |name: &String| manifest.arguments.get(name).is_none_or(|it| it.sink.is_some());
    let sinks = sinks.filter(|(name, _)| is_sink(name)).collect();
    let intent = Intent { tool: tool.to_owned(), sinks, count: 1 };
    let mut declared = DeclaredIntents::default();
    declared.add(named.declared, vec![intent; named.index as usize + 1]);
    declared.matching(tool, manifest, arguments, &[], |candidate| candidate == named)
}

/// Whether the log takes this request from this asker, who cannot even submit it.
pub fn is_taken(store: &Store, by: &Actor, request: &Request) -> bool {
    let by = match by {
        Actor::Session(id) => Author::Session(*id),
        Actor::Principal(authority) => Author::Principal(authority.who().clone()),
    };
    let seq = Seq(store.state.len());
    let last = store.log.last().unwrap().clone();
    let (answer, weights) = (Answer::Done, vec![]);
    let record = Record { seq, by, request: request.clone(), answer, weights, ..last };
    let record = signed(&store.state, record);
    let mut state = store.state.clone();
    state.fold(&record).is_ok() || state.recount(&record).is_ok()
}

/// `record` with the signature of whoever it names, at the end of the log.
pub fn signed(state: &State, record: Record) -> Record {
    let at = LogPosition { store: state.store().unwrap(), root: state.root(), seq: record.seq };
    let signature = match &record.by {
        Author::Session(session) => {
            let bytes = session_bytes(at, &record).unwrap();
            Some(RecordSignature::sign(&session_key(*session), &bytes))
        }
        // The keys of people here are made from their ids.
        Author::Principal(who) if who.credential == Credential::Passphrase => {
            let key = SigningKey::from_bytes(&[who.principal.unwrap().as_bytes()[0]; 32]);
            Some(RecordSignature::sign(&key, &act_bytes(at, who, &record.request).unwrap()))
        }
        Author::Principal(_) => None,
    };
    Record { signature, ..record }
}

pub fn message(channel: Channel, content: Option<Value>, parents: Vec<Seq>) -> Request {
    let (kind, origin) = (ObservationKind::Message, None);
    Request::Session(SessionRequest::Observe {
        kind,
        channel,
        lowered: false,
        content,
        origin,
        parents,
        part: None,
        discounted: Vec::new(),
    })
}

pub fn produced(kind: ObservationKind) -> Request {
    let (channel, origin, parents) = (Channel::Model, None, vec![]);
    Request::Session(SessionRequest::Observe {
        kind,
        channel,
        lowered: false,
        content: None,
        origin,
        parents,
        part: None,
        discounted: Vec::new(),
    })
}

pub fn write(scope: Scope, key: &str, value: Value) -> Request {
    Request::Session(SessionRequest::Write {
        scope,
        key: key.parse().unwrap(),
        value,
        depends_on: vec![],
        queue: false,
    })
}

pub fn set_mode(tenant: Tenant, key: &str, mode: Mode) -> Request {
    Request::Admin(AdminRequest::SetMode {
        tenant,
        scope: Scope::Shared,
        key: key.parse().unwrap(),
        mode,
    })
}
