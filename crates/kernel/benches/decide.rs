//! One decision alone: nothing is written, nothing is read from disk.
//!
//! `cargo bench -p custody-kernel`. For scale: the original's bare check, four dictionary look-ups in
//! Python, takes 0.5 to 1.4 µs (docs/papers.md §2.5).

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use custody_kernel::label::Channel;
use custody_kernel::memory::item::Mode;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::{Scope, Tenant};
use custody_kernel::principal::{Authority, Principal, Role};
use custody_kernel::record::{AdminRequest, Genesis, ObservationKind, SessionRequest, Value};
use custody_kernel::state::{State, SubmittedRequest};
use custody_log::{Digest, EntryId, LogKey, PrincipalId, SessionId, StoreId, Timestamp};
use ed25519_dalek::SigningKey;

/// A state with `items` items, and four sessions: of a user and of an agent, clean and tainted.
struct Filled {
    state: State,
    user: SessionId,
    tainted: SessionId,
    agent: SessionId,
    clock: u64,
}

fn principal(name: &str, role: Role, id: u8, key: &SigningKey) -> Principal {
    Principal {
        id: PrincipalId::from_random([id; 16]),
        name: name.into(),
        role,
        tenant: Tenant::main(),
        public_key: Some(Digest(key.verifying_key().to_bytes())),
        token_hash: None,
    }
}

impl Filled {
    fn with(items: u64) -> Self {
        let key = SigningKey::from_bytes(&[1; 32]);
        let owner = principal("owner", Role::Owner, 1, &key);
        let authority = Authority::by_key(&owner, &key).expect("its own key");
        let id = |byte| SessionId::from_random([byte; 16]);
        let (user, tainted, agent) = (id(1), id(2), id(3));
        let mut this = Self { state: State::default(), user, tainted, agent, clock: 0 };
        let log_key = LogKey { public_key: Digest([2; 32]), certificate: String::new() };
        let store = StoreId::from_random([9; 16]);
        let limits = Limits::UNLIMITED;
        this.ask(SubmittedRequest::Admin(
            authority.clone(),
            AdminRequest::CreateStore(Box::new(Genesis { store, owner, log_key, limits })),
        ));
        let unproven = Authority::unproven(Tenant::main());
        let opened = [(user, &authority), (tainted, &authority), (agent, &unproven)];
        for (session, authority) in opened {
            let key = Some(Digest(session_key().verifying_key().to_bytes()));
            let request = AdminRequest::OpenSession { session, alias: None, host: None, key };
            this.ask(SubmittedRequest::Admin(authority.clone(), request));
        }
        this.hear(user, Channel::User);
        this.hear(tainted, Channel::Web);
        this.hear(agent, Channel::System);
        for number in 0..items {
            this.ask(SubmittedRequest::Session(user, write(&format!("item/{number}"))));
        }
        let lock = AdminRequest::SetMode {
            tenant: Tenant::main(),
            scope: Scope::Shared,
            key: "SOUL.md".parse().expect("a key"),
            mode: Mode::Immutable,
        };
        this.ask(SubmittedRequest::Admin(authority, lock));
        this
    }

    fn hear(&mut self, session: SessionId, channel: Channel) {
        let kind = ObservationKind::Message;
        let (content, origin, parents) = (None, None, vec![]);
        let request = SessionRequest::Observe {
            kind,
            channel,
            lowered: false,
            content,
            origin,
            parents,
            part: None,
            discounted: Vec::new(),
        };
        self.ask(SubmittedRequest::Session(session, request));
    }

    fn ask(&mut self, request: SubmittedRequest) {
        self.clock += 1;
        let decided = self.state.decide(request, Timestamp(self.clock)).expect("can be asked");
        let id = EntryId::from_random(u128::from(self.clock).to_be_bytes());
        let _ = self.state.commit(decided, id, vec![], Some(&session_key())).expect("follows");
    }
}

/// The key of every session here.
fn session_key() -> SigningKey {
    SigningKey::from_bytes(&[5; 32])
}

fn write(key: &str) -> SessionRequest {
    let value = Value::New(Digest([7; 32]));
    let key = key.parse().expect("a key");
    SessionRequest::Write { scope: Scope::Shared, key, value, depends_on: vec![], queue: false }
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decide_write");
    for items in [1_000, 100_000] {
        let filled = Filled::with(items);
        let middle = format!("item/{}", items / 2);
        let cases = [
            ("accept", filled.user, middle.as_str()),
            ("refuse_immutable", filled.user, "SOUL.md"),
            ("refuse_tainted", filled.tainted, middle.as_str()),
            ("refuse_untrusted", filled.agent, middle.as_str()),
        ];
        for (name, session, key) in cases {
            let now = Timestamp(filled.clock + 1);
            let asked = SubmittedRequest::Session(session, write(key));
            group.bench_with_input(BenchmarkId::new(name, items), &asked, |bencher, asked| {
                bencher.iter_batched(
                    || asked.clone(),
                    |asked| black_box(filled.state.decide(asked, now)),
                    BatchSize::SmallInput,
                );
            });
        }
    }
    group.finish();
}

fn state_hash(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("state_hash");
    for items in [1_000, 100_000] {
        let filled = Filled::with(items);
        group.bench_with_input(BenchmarkId::from_parameter(items), &filled, |bencher, filled| {
            bencher.iter(|| black_box(filled.state.state_hash()));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(50);
    targets = decisions, state_hash
}
criterion_main!(benches);
