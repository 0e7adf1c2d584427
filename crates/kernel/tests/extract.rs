//! Closed-schema extraction as requests: off by default, narrow, counted, and no change of the graph.

mod common;

use common::{Actor, Person, Store, digest, message, write};
use custody_arguments::{ClosedShape, ToolEffect};
use custody_kernel::label::{Channel, Taint};
use custody_kernel::memory::rate::Limits;
use custody_kernel::memory::refusal::Refusal;
use custody_kernel::namespace::{Scope, Tenant};
use custody_kernel::principal::Role;
use custody_kernel::record::{AdminRequest, Answer, Request, SessionRequest, Value};
use custody_kernel::state::AskError;
use custody_kernel::tool::call::{Call, Permission, PolicyAnswer};
use custody_kernel::tool::extract::Extract;
use custody_log::{Digest, Seq, SessionId};

const POLICY: &str = "the policy's text";

/// A store in which ada's agent has heard her and called a tool of whose output the policy names `balance`.
struct Guarded {
    store: Store,
    ada: Person,
    session: SessionId,
    call: Seq,
}

impl Guarded {
    /// `signed`: whether the owner signed the policy.
    fn new(limits: Limits, signed: bool) -> Self {
        let mut store = Store::with_limits(limits);
        let ada = store.knows("ada", Role::User, &Tenant::main(), 7);
        if signed {
            let request = Request::Admin(AdminRequest::SetPolicy {
                version: digest(POLICY),
                text: Value::New(digest(POLICY)),
            });
            assert_eq!(store.by_owner(request), Answer::Done);
        }
        let session = store.open(ada.token(), 1);
        store.hears(session, Channel::User);
        let call = calls(&mut store, session);
        Self { store, ada, session, call }
    }

    fn withholds(&mut self) -> Seq {
        let request = Request::Session(SessionRequest::Withhold {
            call: self.call,
            content: Value::New(digest("output")),
        });
        assert_eq!(self.store.ask(Actor::Session(self.session), request), Answer::Done);
        self.store.last_seq()
    }

    fn takes(&mut self, output: Seq, field: &str, shape: ClosedShape) -> Result<Answer, AskError> {
        let value = Some(Value::New(digest("12.50")));
        let field = field.to_owned();
        let extract = Extract { call: self.call, output, field, shape, value };
        self.store.try_ask(
            Actor::Session(self.session),
            Request::Session(SessionRequest::Extract(Box::new(extract))),
        )
    }

    fn is_clean(&self) -> bool {
        let session = self.store.state.session(self.session);
        session.is_some_and(|session| !session.context.label().is_tainted())
    }
}

fn calls(store: &mut Store, session: SessionId) -> Seq {
    let policy = PolicyAnswer {
        version: digest(POLICY),
        answer: Permission::Allow,
        waives_floor: false,
        extracts: vec!["balance".into()],
        by: vec!["account".into()],
    };
    let call = Call {
        tool: "get_account".into(),
        effect: ToolEffect::Reads,
        known: true,
        manifest: Digest([2; 32]),
        arguments: Value::New(digest("{}")),
        leaves: Vec::new(),
        policy,
        local_policy: None,
        intent: None,
        approval: None,
    };
    let request = Request::Call(Box::new(call));
    assert_eq!(store.ask(Actor::Session(session), request), Answer::Done);
    store.last_seq()
}

/// A hundred values, seven bits.
fn percent() -> ClosedShape {
    ClosedShape::Number { min: 1, max: 100, decimals: 0 }
}

#[test]
fn a_session_that_takes_out_a_value_stays_clean_and_one_that_reads_the_output_does_not() {
    let mut guarded = Guarded::new(Limits::default(), true);
    let output = guarded.withholds();
    assert!(guarded.store.state.label(output).unwrap().is_tainted(), "the output is what it is");
    assert!(guarded.is_clean());
    assert_eq!(guarded.takes(output, "balance", percent()), Ok(Answer::Done));
    let taken = guarded.store.log.last().unwrap();
    assert_eq!((taken.label.taint(), taken.parents.as_slice()), (Taint::Clean, &[output][..]));
    assert!(guarded.is_clean());
    let session = guarded.session;
    let note = write(Scope::Session(session), "note", Value::New(digest("12.50")));
    assert_eq!(guarded.store.ask(Actor::Session(session), note), Answer::Done);
    let read = message(Channel::Tool, Some(Value::New(digest("output"))), vec![guarded.call]);
    guarded.store.observes(session, read);
    assert!(!guarded.is_clean());
}

#[test]
fn nothing_is_taken_out_unless_a_policy_that_the_owner_signed_names_the_field() {
    let refused =
        |field: &str| Ok(Answer::Refused(Refusal::NotExtractable { field: field.into() }));
    let mut unsigned = Guarded::new(Limits::default(), false);
    let output = unsigned.withholds();
    assert_eq!(unsigned.takes(output, "balance", percent()), refused("balance"));
    let mut signed = Guarded::new(Limits::default(), true);
    let output = signed.withholds();
    assert_eq!(signed.takes(output, "owner", percent()), refused("owner"));
    // A shape that cannot be counted is none.
    let endless = ClosedShape::OneOf(Vec::new());
    assert_eq!(signed.takes(output, "balance", endless), refused("balance"));
    // Refused or not shown, it is not read.
    assert!(signed.is_clean());
    // What the policy allowed of one call it did not allow of another entry.
    let page = signed.store.hears(signed.session, Channel::Web);
    assert_eq!(signed.takes(page, "balance", percent()), refused("balance"));
}

#[test]
fn another_sessions_output_is_not_this_sessions_to_take_from() {
    let mut guarded = Guarded::new(Limits::default(), true);
    let output = guarded.withholds();
    let mine = guarded.call;
    guarded.session = guarded.store.open(guarded.ada.token(), 2);
    guarded.store.hears(guarded.session, Channel::User);
    let refusal = Refusal::NotExtractable { field: "balance".into() };
    assert_eq!(guarded.takes(output, "balance", percent()), Ok(Answer::Refused(refusal.clone())));
    guarded.call = calls(&mut guarded.store, guarded.session);
    assert_ne!(guarded.call, mine);
    assert_eq!(guarded.takes(output, "balance", percent()), Ok(Answer::Refused(refusal)));
    // Nor is another tenant's, which is as unknown as one that does not exist.
    let eve = guarded.store.knows("eve", Role::User, &"other".parse().unwrap(), 9);
    guarded.session = guarded.store.open(eve.token(), 3);
    let unknown = guarded.takes(output, "balance", percent());
    assert_eq!(unknown, Err(AskError::UnknownEntry(guarded.call)));
}

#[test]
fn a_session_takes_out_so_many_bits_and_no_more_whatever_the_values_were() {
    let limits = Limits { extracted_bits: 15, ..Limits::default() };
    let mut guarded = Guarded::new(limits, true);
    let output = guarded.withholds();
    for _ in 0..2 {
        assert_eq!(guarded.takes(output, "balance", percent()), Ok(Answer::Done));
    }
    let refusal = Refusal::BitsUsedUp { field: "balance".into(), bits: 7, left: 1 };
    assert_eq!(guarded.takes(output, "balance", percent()), Ok(Answer::Refused(refusal)));
    // One that says whether the field is a single word still fits.
    let flag = ClosedShape::OneOf(vec!["open".into()]);
    assert_eq!(guarded.takes(output, "balance", flag), Ok(Answer::Done));
    assert_eq!(guarded.store.state.session(guarded.session).unwrap().extracted_bits(), 15);
}

#[test]
fn a_recount_repeats_every_extraction() {
    let mut guarded = Guarded::new(Limits::default(), true);
    let output = guarded.withholds();
    assert_eq!(guarded.takes(output, "balance", percent()), Ok(Answer::Done));
    let mut again = custody_kernel::state::State::default();
    for record in &guarded.store.log {
        again.recount(record).unwrap();
    }
    let mut forged = guarded.store.log.last().unwrap().clone();
    let Request::Session(SessionRequest::Extract(extract)) = &mut forged.request else {
        unreachable!()
    };
    extract.field = "owner".into();
    let mut before = custody_kernel::state::State::default();
    for record in &guarded.store.log[..guarded.store.log.len() - 1] {
        before.recount(record).unwrap();
    }
    assert!(before.recount(&forged).is_err(), "a field that the policy does not name");
}
