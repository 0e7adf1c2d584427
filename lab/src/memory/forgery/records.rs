//! Records that somebody writes in another's name.
//!
//! Tests of other crates use this file too; it names nothing of this one.

use custody_kernel::label::{Channel, Label, Trust};
use custody_kernel::memory::item::{Mode, Value};
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::{Scope, Tenant};
use custody_kernel::principal::{Principal, PrincipalClaim, Role};
use custody_kernel::record::{
    AdminRequest, Answer, Author, ObservationKind, Record, Request, SessionRequest,
};
use custody_log::{Digest, PrincipalId, SessionId};
use ed25519_dalek::SigningKey;

/// The key of whoever holds the log key, and of nobody in the record.
pub fn thief() -> SigningKey {
    SigningKey::from_bytes(&[66; 32])
}

/// A record of `request`, at the time of `model`, answered as if it were allowed.
pub fn record(model: &Record, by: Author, request: Request) -> Record {
    Record {
        by,
        request,
        answer: Answer::Done,
        label: Label::at_ingress(Channel::System, Trust::Trusted),
        parents: Vec::new(),
        after: None,
        content: None,
        weights: Vec::new(),
        advice: Vec::new(),
        signature: None,
        ..model.clone()
    }
}

/// The value that a write proposed; none if `record` is no write of a new text.
pub fn proposed(record: &Record) -> Option<Digest> {
    if let Request::Session(SessionRequest::Write { value: Value::New(shown), .. }) =
        &record.request
    {
        return Some(*shown);
    }
    None
}

/// An approval of the write that waits in `waiting`, for the value that it proposed.
pub fn approval(waiting: &Record, by: &PrincipalClaim) -> Record {
    let shown = proposed(waiting);
    let request = AdminRequest::Approve { proposal: waiting.id, shown };
    let content = shown.map(|shown| Value::New(shown).content(waiting.seq));
    let by = Author::Principal(by.clone());
    let record = record(waiting, by, request.into());
    Record { parents: vec![waiting.seq], label: waiting.label, content, ..record }
}

/// A change of the mode of `SOUL.md`.
pub fn set_mode(mode: Mode) -> Option<AdminRequest> {
    let key = "SOUL.md".parse().ok()?;
    Some(AdminRequest::SetMode { tenant: Tenant::main(), scope: Scope::Shared, key, mode })
}

/// Everything that only a human may do, as somebody else records it in `owner`'s name.
pub fn acts(waiting: &Record, owner: &PrincipalClaim) -> Vec<(&'static str, Record)> {
    let thief = Digest(thief().verifying_key().to_bytes());
    let mallory = Principal {
        id: PrincipalId::from_random([6; 16]),
        name: "mallory".into(),
        role: Role::Owner,
        tenant: Tenant::main(),
        public_key: Some(thief),
        token_hash: None,
    };
    let policy = AdminRequest::SetPolicy {
        version: Digest::of(b"permit(principal, action, resource);"),
        text: Value::New(Digest::of(b"salted")),
    };
    let session = SessionId::from_random([7; 16]);
    let opened = AdminRequest::OpenSession { session, alias: None, host: None, key: Some(thief) };
    let by = Author::Principal(owner.clone());
    let denial = AdminRequest::Deny { proposal: waiting.id };
    let denial = record(waiting, by.clone(), denial.into());
    let denial = Record { parents: vec![waiting.seq], label: waiting.label, ..denial };
    let others = [
        ("an unlock", set_mode(Mode::Open)),
        ("a policy", Some(policy)),
        ("a principal", Some(AdminRequest::AddPrincipal(Box::new(mallory)))),
        ("limits", Some(AdminRequest::SetLimits(Limits::UNLIMITED))),
        ("a session of the owner", Some(opened)),
    ];
    let others = others
        .into_iter()
        .filter_map(|(what, request)| Some((what, record(waiting, by.clone(), request?.into()))));
    [("an approval", approval(waiting, owner)), ("a denial", denial)]
        .into_iter()
        .chain(others)
        .collect()
}

/// What somebody else records in the live session `id`.
pub fn in_session(waiting: &Record, id: SessionId) -> Vec<(&'static str, Record)> {
    let text = Value::New(Digest::of(b"salted"));
    let write = "notes".parse().ok().map(|key| SessionRequest::Write {
        scope: Scope::Shared,
        key,
        value: text,
        depends_on: Vec::new(),
        queue: false,
    });
    let requests = [
        ("user text", Some(observed(ObservationKind::Message, Channel::User, text))),
        ("a completion", Some(observed(ObservationKind::Completion, Channel::Model, text))),
        ("a write", write),
        ("the end of the session", Some(SessionRequest::CloseSession)),
    ];
    let label = Label::at_ingress(Channel::User, Trust::Trusted);
    let requests = requests.into_iter().filter_map(|(what, request)| Some((what, request?)));
    requests
        .map(|(what, request)| {
            let record = record(waiting, Author::Session(id), request.into());
            (what, Record { label, ..record })
        })
        .collect()
}

const fn observed(kind: ObservationKind, channel: Channel, text: Value) -> SessionRequest {
    SessionRequest::Observe {
        kind,
        channel,
        lowered: false,
        content: Some(text),
        origin: None,
        parents: Vec::new(),
        part: None,
        discounted: Vec::new(),
    }
}
