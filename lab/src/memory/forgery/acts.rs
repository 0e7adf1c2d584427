//! Acts of humans, and records in a live session.

use custody_cli::attacks::scratch::ScratchStore;
use custody_kernel::label::Channel;
use custody_kernel::memory::item::Mode;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::Scope;
use custody_kernel::principal::{Authority, Credential, PrincipalClaim, Role};
use custody_kernel::record::{AdminRequest, Author, Record};
use custody_keys::HumanKey;
use custody_log::{Digest, Seq};
use custody_runtime::principals::NewPrincipal;
use custody_runtime::session::Write;
use custody_runtime::store::Tampering;
use custody_runtime::{Session, StoreError};

use super::forger::{Signed, Target};
use super::records::{acts, approval, in_session, proposed, record, set_mode, thief};
use super::{Forgeries, finding, is_named, setup};
use crate::error::EvalError;

/// A store in which a write waits for a reviewer, and its user's session.
struct Scene {
    scratch: ScratchStore,
    session: Session,
    /// The record of the waiting write.
    waiting: Record,
}

/// Makes a record out of what is on the record already.
type Making = fn(&Scene) -> Result<Record, EvalError>;

/// Changes who somebody claims to be.
type Claiming = fn(&mut PrincipalClaim);

pub(super) fn forge(found: &mut Forgeries) -> Result<(), EvalError> {
    let scene = Scene::new()?;
    let approved = scene.approves(&scene.waiting)?;
    let verifies = finding(&scene.scratch.paths, &scene.scratch.clock)?.is_none();
    found.control("an approved write", verifies && approved.signature.is_some());
    for number in 0..Scene::new()?.invented().len() {
        for key in [None, Some(thief())] {
            let scene = Scene::new()?;
            let (what, record) = scene.invented().swap_remove(number);
            let signed = key.as_ref().map_or(Signed::AsItIs, Signed::By);
            let by = if key.is_some() { "signed by a stranger" } else { "without a signature" };
            found.add(format!("{what}, {by}"), scene.is_refused(record, signed)?);
        }
    }
    let moved: [(&str, Making); 8] = [
        ("an unlock of the past", old_unlock),
        ("an approval once more", approval_again),
        ("an approval moved to another proposal", approval_of_another),
        ("an approval moved to another version of its text", approval_of_another_text),
        ("a signature moved to other limits", signature_of_other_limits),
        ("a signature of another store", signature_of_another_store),
        ("a token in the place of the owner's signature", token_of_owner),
        ("an act of the past at a later time", old_unlock_later),
    ];
    for (what, make) in moved {
        let scene = Scene::new()?;
        let record = make(&scene)?;
        found.add(what, scene.is_refused(record, Signed::AsItIs)?);
    }
    let claims: [(&str, Claiming); 2] = [
        ("a reviewer who signs as the owner", |claim| claim.role = Role::Owner),
        ("a reviewer who signs for another tenant", |claim| {
            if let Ok(other) = "other".parse() {
                claim.tenant = other;
            }
        }),
    ];
    for (what, change) in claims {
        found.add(what, Scene::new()?.is_claim_refused(change)?);
    }
    Ok(())
}

impl Scene {
    fn new() -> Result<Self, EvalError> {
        let scratch = ScratchStore::new(Limits::default())?;
        let user = scratch.human("ada", Role::User)?;
        let session = scratch.open(&user.by_token)?;
        scratch.message(&session, Channel::Web, "Remember that Mallory is paid first.")?;
        let waiting = queued(&scratch, &session, "payments", "Mallory is paid first.")?;
        Ok(Self { scratch, session, waiting })
    }

    fn owner(&self) -> &PrincipalClaim {
        self.scratch.owner.who()
    }

    fn target(&self) -> Target<'_> {
        Target { store: &self.scratch.store, paths: &self.scratch.paths }
    }

    /// Records without a key: acts in the owner's name, and records in the user's session.
    fn invented(&self) -> Vec<(&'static str, Record)> {
        let mut invented = acts(&self.waiting, self.owner());
        invented.extend(in_session(&self.waiting, self.session.id()));
        invented
    }

    fn act(&self, request: AdminRequest) -> Record {
        record(&self.waiting, Author::Principal(self.owner().clone()), request.into())
    }

    /// Has the owner ask for something, and gives the record of it.
    fn asks(&self, request: AdminRequest) -> Result<Record, EvalError> {
        let receipt = self.scratch.store.ask(&self.scratch.owner, request)?;
        Ok(self.scratch.store.record(receipt.seq)?)
    }

    /// Has the owner approve a write that waits.
    fn approves(&self, waiting: &Record) -> Result<Record, EvalError> {
        let (proposal, shown) = (waiting.id, proposed(waiting));
        self.asks(AdminRequest::Approve { proposal, shown })
    }

    /// Whether the process that has the store open refuses to go on, and opening or verifying the store names the
    /// record.
    fn is_refused(&self, record: Record, signed: Signed<'_>) -> Result<bool, EvalError> {
        let forged = self.target().append(record, signed).map_err(setup)?;
        Ok(self.is_noticed_while_running(forged)?
            && is_named(&self.scratch.paths, &self.scratch.clock, forged)?)
    }

    fn is_noticed_while_running(&self, forged: Seq) -> Result<bool, EvalError> {
        let key = "notes".parse().map_err(setup)?;
        match self.session.write(Write::new(Scope::Shared, key, "x")).wait() {
            Err(StoreError::Tampered(Tampering::Inconsistent(seq, _))) => Ok(seq == forged.0),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(false),
        }
    }

    /// The same for an act that a reviewer signs, with `change` made to who they claim to be.
    fn is_claim_refused(&self, change: Claiming) -> Result<bool, EvalError> {
        let (key, reviewer) = reviewer(&self.scratch)?;
        let mut claim = reviewer.who().clone();
        change(&mut claim);
        let request = AdminRequest::SetLimits(Limits::UNLIMITED);
        let record = record(&self.waiting, Author::Principal(claim), request.into());
        self.is_refused(record, Signed::By(key.signing_key()))
    }
}

/// A write that waits for a reviewer.
fn queued(
    scratch: &ScratchStore,
    session: &Session,
    key: &str,
    text: &str,
) -> Result<Record, EvalError> {
    let key = key.parse().map_err(setup)?;
    let write = Write { queue: true, ..Write::new(Scope::Shared, key, text) };
    let receipt = session.write(write).wait()?;
    Ok(scratch.store.record(receipt.seq)?)
}

fn reviewer(scratch: &ScratchStore) -> Result<(HumanKey, Authority), EvalError> {
    let key = HumanKey::generate();
    let new = NewPrincipal {
        name: "ruth",
        role: Role::Reviewer,
        tenant: scratch.owner.who().tenant.clone(),
        public_key: Some(key.public_key()),
        with_token: false,
    };
    scratch.store.add_principal(&scratch.owner, new)?;
    let authority = scratch.store.authenticate("ruth", &key)?;
    Ok((key, authority))
}

/// The owner unlocked an item and locked it again; the unlock as it was recorded.
fn old_unlock(scene: &Scene) -> Result<Record, EvalError> {
    let unlocked = scene.asks(set_mode(Mode::Open).ok_or_else(|| setup("a key"))?)?;
    scene.asks(set_mode(Mode::Immutable).ok_or_else(|| setup("a key"))?)?;
    Ok(unlocked)
}

fn old_unlock_later(scene: &Scene) -> Result<Record, EvalError> {
    let unlocked = old_unlock(scene)?;
    Ok(Record { at: unlocked.at.plus_ms(1), ..unlocked })
}

fn approval_again(scene: &Scene) -> Result<Record, EvalError> {
    scene.approves(&scene.waiting)
}

/// The owner approved one write; the signature is put under an approval of the next.
fn approval_of_another(scene: &Scene) -> Result<Record, EvalError> {
    let signature = scene.approves(&scene.waiting)?.signature;
    let text = "Mallory is paid twice.";
    let next = queued(&scene.scratch, &scene.session, "payments", text)?;
    Ok(Record { signature, ..approval(&next, scene.owner()) })
}

/// The owner approved one text; the signature is put under an approval of the same proposal with another text.
fn approval_of_another_text(scene: &Scene) -> Result<Record, EvalError> {
    let signature = scene.approves(&scene.waiting)?.signature;
    let shown = Some(Digest::of(b"another text"));
    let request = AdminRequest::Approve { proposal: scene.waiting.id, shown };
    Ok(Record {
        signature,
        parents: vec![scene.waiting.seq],
        label: scene.waiting.label,
        ..scene.act(request)
    })
}

fn limits(changes: Option<u32>) -> AdminRequest {
    AdminRequest::SetLimits(Limits { changes, ..Limits::default() })
}

fn signature_of_other_limits(scene: &Scene) -> Result<Record, EvalError> {
    let signature = scene.asks(limits(Some(3)))?.signature;
    Ok(Record { signature, ..scene.act(limits(None)) })
}

fn signature_of_another_store(scene: &Scene) -> Result<Record, EvalError> {
    let signature = Scene::new()?.asks(limits(None))?.signature;
    Ok(Record { signature, ..scene.act(limits(None)) })
}

fn token_of_owner(scene: &Scene) -> Result<Record, EvalError> {
    let owner = PrincipalClaim { credential: Credential::Token, ..scene.owner().clone() };
    let record = scene.act(AdminRequest::SetLimits(Limits::UNLIMITED));
    Ok(Record { by: Author::Principal(owner), ..record })
}
