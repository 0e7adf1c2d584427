//! Watched files: what is edited behind our back is reported and can be put back, and only an owner
//! makes it count.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a helper of a test may fail it")]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use common::{Scratch, hears, key, shared, skipped, writes};
use custody_kernel::label::Channel;
use custody_kernel::memory::item::Mode;
use custody_kernel::memory::refusal::Refusal;
use custody_kernel::namespace::{Scope, Tenant};
use custody_kernel::principal::{Authority, Role};
use custody_kernel::record::{AdminRequest, Answer};
use custody_runtime::StoreError;
use custody_runtime::session::Write;
use custody_runtime::store::WatchError;
use custody_runtime::watch::{FileReport, FileState, adopt_file};
use custody_verify::verify_ledger;

const SOUL: &[u8] = b"Be kind.\r\n\0\xff\xfe binary and all";

struct Watched {
    scratch: Scratch,
    path: PathBuf,
}

impl Watched {
    fn new() -> Self {
        let scratch = Scratch::new();
        let path = scratch.folder.path().canonicalize().unwrap().join("SOUL.md");
        fs::write(&path, SOUL).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let this = Self { scratch, path };
        assert_eq!(this.adopt(&this.scratch.owner).unwrap().answer, Answer::Done);
        this
    }

    fn adopt(&self, by: &Authority) -> Result<custody_runtime::store::Receipt, WatchError> {
        adopt_file(&self.scratch.store, by, key("SOUL.md"), &self.path)
    }

    fn check(&self) -> FileReport {
        let all = self.scratch.store.check_files().unwrap();
        let [report] = &all[..] else { unreachable!("one file is watched: {all:?}") };
        report.clone()
    }

    fn restore(&self) -> Result<FileReport, WatchError> {
        self.scratch.store.restore_file(&shared(), &key("SOUL.md"))
    }

    fn set_mode(&self, mode: Mode) {
        let (tenant, scope) = (Tenant::main(), Scope::Shared);
        let request = AdminRequest::SetMode { tenant, scope, key: key("SOUL.md"), mode };
        assert_eq!(
            self.scratch.store.ask(&self.scratch.owner, request).unwrap().answer,
            Answer::Done
        );
    }

    fn mode_on_disk(&self) -> u32 {
        fs::metadata(&self.path).unwrap().permissions().mode() & 0o777
    }
}

#[test]
fn an_adopted_file_is_immutable_and_matches_byte_for_byte() {
    let watched = Watched::new();
    let report = watched.check();
    assert_eq!((report.mode, report.state), (Mode::Immutable, FileState::Matches));
    assert_eq!(report.recorded.as_deref(), Some(SOUL));
    let session = watched.scratch.session_for_user("ada");
    hears(&session, Channel::User, "change your soul");
    let write = Write::new(Scope::Shared, key("SOUL.md"), "Be bad.");
    let answer = session.write(write).wait().unwrap().answer;
    assert!(matches!(answer, Answer::Refused(Refusal::Immutable { .. })), "{answer:?}");
    assert_eq!(fs::read(&watched.path).unwrap(), SOUL);
}

#[test]
fn a_file_edited_behind_our_back_is_reported_and_put_back_with_its_permissions() {
    let watched = Watched::new();
    fs::write(&watched.path, "Be bad.").unwrap();
    let report = watched.check();
    assert_eq!(report.state, FileState::Edited);
    assert_eq!(report.on_disk.as_deref(), Some(b"Be bad.".as_slice()));
    let before = watched.scratch.store.root().unwrap();
    assert_eq!(watched.restore().unwrap().state, FileState::Matches);
    assert_eq!(fs::read(&watched.path).unwrap(), SOUL);
    assert_eq!(watched.mode_on_disk(), 0o640);
    assert_eq!(watched.scratch.store.root().unwrap(), before, "the record was right all along");
}

#[test]
fn only_an_owner_in_person_makes_an_edit_count() {
    let watched = Watched::new();
    fs::write(&watched.path, "Be kinder.").unwrap();
    let store = &watched.scratch.store;
    let (user_key, user_token) = watched.scratch.add("ada", Role::User);
    let (reviewer_key, _) = watched.scratch.add("rex", Role::Reviewer);
    let (_, agent_token) = watched.scratch.add("bot", Role::Agent);
    let others = [
        store.authenticate("ada", &user_key).unwrap(),
        store.authenticate("rex", &reviewer_key).unwrap(),
        store.authenticate_token(&user_token).unwrap(),
        store.authenticate_token(&agent_token).unwrap(),
        Authority::unproven(Tenant::main()),
    ];
    for other in others {
        let receipt = watched.adopt(&other).unwrap();
        assert_eq!(receipt.answer, Answer::Refused(Refusal::NeedsOwner), "{other:?}");
        assert_eq!(store.record(receipt.seq).unwrap().answer, receipt.answer, "and is recorded");
        assert_eq!(watched.check().state, FileState::Edited);
    }
    watched.set_mode(Mode::Open);
    assert_eq!(watched.adopt(&watched.scratch.owner).unwrap().answer, Answer::Done);
    assert_eq!(watched.check().state, FileState::Matches);
    assert_eq!(store.values(&shared()).unwrap()[&key("SOUL.md")], b"Be kinder.");
    verify_ledger(store).unwrap();
}

/// G11: not even the owner changes an immutable item without unlocking it, whatever the file became. The same bytes are
/// adopted again, from another place too.
#[test]
fn g11_an_owner_unlocks_an_immutable_item_before_another_file_is_adopted_for_it() {
    let watched = Watched::new();
    let (store, owner) = (&watched.scratch.store, &watched.scratch.owner);
    let refused = Answer::Refused(Refusal::Immutable { key: key("SOUL.md") });
    for text in ["Be kinder.", "", "Be kind\u{200B}."] {
        fs::write(&watched.path, text).unwrap();
        let receipt = watched.adopt(owner).unwrap();
        assert_eq!(receipt.answer, refused, "{text:?}");
        assert_eq!(store.record(receipt.seq).unwrap().answer, refused, "and is recorded");
        assert_eq!(store.values(&shared()).unwrap()[&key("SOUL.md")], SOUL);
        assert_eq!(watched.check().state, FileState::Edited);
    }
    let elsewhere = watched.scratch.folder.path().join("elsewhere.md");
    fs::write(&elsewhere, SOUL).unwrap();
    let moved = adopt_file(store, owner, key("SOUL.md"), &elsewhere).unwrap();
    assert_eq!(moved.answer, Answer::Done);
    assert_eq!(watched.check().state, FileState::Matches);
    fs::write(&elsewhere, "Be kinder.").unwrap();
    let changed = adopt_file(store, owner, key("SOUL.md"), &elsewhere).unwrap();
    assert_eq!(changed.answer, refused);
    for mode in [Mode::Reviewed, Mode::Open] {
        watched.set_mode(mode);
        fs::write(&elsewhere, format!("Be kinder, {mode}.")).unwrap();
        let adopted = adopt_file(store, owner, key("SOUL.md"), &elsewhere).unwrap();
        assert_eq!(adopted.answer, Answer::Done, "{mode}");
    }
    verify_ledger(store).unwrap();
}

#[test]
fn an_accepted_write_to_an_unlocked_item_replaces_its_file_whole() {
    let watched = Watched::new();
    watched.set_mode(Mode::Open);
    let session = watched.scratch.session_for_user("ada");
    hears(&session, Channel::User, "be kinder");
    let held_open = fs::File::open(&watched.path).unwrap();
    writes(&session, "SOUL.md", "Be kinder.");
    assert_eq!(fs::read(&watched.path).unwrap(), b"Be kinder.");
    assert_eq!(watched.check().state, FileState::Matches);
    assert_eq!(watched.mode_on_disk(), 0o640);
    let before = std::io::read_to_string(held_open);
    assert!(before.is_err(), "whoever was reading still reads the old file, which is not UTF-8");
    let beside: Vec<_> = fs::read_dir(watched.path.parent().unwrap()).unwrap().collect();
    assert_eq!(beside.len(), 3, "no temporary file is left: {beside:?}");
    session.delete(Scope::Shared, key("SOUL.md")).wait().unwrap();
    assert!(!watched.path.exists(), "a deleted item has no file");
    assert_eq!(watched.check().state, FileState::Matches);
}

#[test]
fn a_missing_file_is_reported_and_written_again() {
    let watched = Watched::new();
    fs::remove_file(&watched.path).unwrap();
    assert_eq!(watched.check().state, FileState::Missing);
    assert_eq!(watched.restore().unwrap().state, FileState::Matches);
    assert_eq!(watched.mode_on_disk(), 0o600, "for nobody else, since nobody knows for whom");
    fs::remove_file(&watched.path).unwrap();
    assert!(matches!(watched.adopt(&watched.scratch.owner), Err(WatchError::File { .. })));
}

#[test]
fn a_link_in_place_of_the_file_never_matches_and_is_replaced_without_touching_its_target() {
    let watched = Watched::new();
    let target = watched.scratch.folder.path().join("target");
    fs::write(&target, SOUL).unwrap();
    fs::remove_file(&watched.path).unwrap();
    symlink(&target, &watched.path).unwrap();
    let report = watched.check();
    assert!(matches!(report.state, FileState::Unreadable(_)), "{report:?}");
    fs::write(&target, "somebody else's").unwrap();
    assert_eq!(watched.restore().unwrap().state, FileState::Matches);
    assert!(fs::symlink_metadata(&watched.path).unwrap().is_file());
    assert_eq!(fs::read(&target).unwrap(), b"somebody else's");
}

#[test]
fn a_pipe_in_place_of_the_file_stops_nobody() {
    let watched = Watched::new();
    fs::remove_file(&watched.path).unwrap();
    if !Command::new("mkfifo").arg(&watched.path).status().is_ok_and(|status| status.success()) {
        skipped("there is no `mkfifo`");
        return;
    }
    assert!(matches!(watched.check().state, FileState::Unreadable(_)));
    assert!(matches!(watched.adopt(&watched.scratch.owner), Err(WatchError::File { .. })));
    assert_eq!(watched.restore().unwrap().state, FileState::Matches);
}

#[test]
fn a_directory_in_place_of_the_file_is_reported_and_left_alone() {
    let watched = Watched::new();
    fs::remove_file(&watched.path).unwrap();
    fs::create_dir(&watched.path).unwrap();
    fs::write(watched.path.join("inside"), "x").unwrap();
    assert!(matches!(watched.check().state, FileState::Unreadable(_)));
    assert!(matches!(watched.restore(), Err(WatchError::File { .. })));
    assert!(watched.path.join("inside").exists());
    // A write is still recorded; the file follows when it can.
    watched.set_mode(Mode::Open);
    let session = watched.scratch.session_for_user("ada");
    hears(&session, Channel::User, "be kinder");
    writes(&session, "SOUL.md", "Be kinder.");
    fs::remove_dir_all(&watched.path).unwrap();
    assert_eq!(watched.check().state, FileState::Missing);
    assert_eq!(watched.restore().unwrap().recorded.as_deref(), Some(b"Be kinder.".as_slice()));
}

#[test]
fn a_file_that_may_not_be_read_is_not_known_to_match() {
    let watched = Watched::new();
    fs::set_permissions(&watched.path, Permissions::from_mode(0o000)).unwrap();
    if fs::read(&watched.path).is_ok() {
        skipped("this user may read every file");
        return;
    }
    assert!(matches!(watched.check().state, FileState::Unreadable(_)));
}

#[test]
fn a_file_that_grew_without_end_is_read_no_further_than_needed() {
    let watched = Watched::new();
    let file = fs::File::options().write(true).open(&watched.path).unwrap();
    file.set_len(1 << 40).unwrap();
    let report = watched.check();
    assert_eq!(report.state, FileState::Edited);
    let read = report.on_disk.map(|bytes| bytes.len());
    assert_eq!(read, Some(custody_runtime::store::MAX_CONTENT_BYTES + 1));
    assert!(matches!(
        watched.adopt(&watched.scratch.owner),
        Err(WatchError::Store(StoreError::TooLarge { .. }))
    ));
    assert_eq!(watched.restore().unwrap().state, FileState::Matches);
}

#[test]
fn a_name_that_is_not_text_is_not_watched_under_another_name() {
    use std::os::unix::ffi::OsStrExt;
    let watched = Watched::new();
    let path = watched.path.with_file_name(std::ffi::OsStr::from_bytes(b"soul\xff"));
    if fs::write(&path, "x").is_err() {
        skipped("this file system takes names of text only");
        return;
    }
    let adopted = adopt_file(&watched.scratch.store, &watched.scratch.owner, key("soul-2"), &path);
    assert!(matches!(adopted, Err(WatchError::File { .. })), "{adopted:?}");
}

#[test]
fn an_item_without_a_file_cannot_be_checked_or_restored() {
    let watched = Watched::new();
    let store = &watched.scratch.store;
    assert!(matches!(
        store.check_file_of(&shared(), &key("x")),
        Err(WatchError::NotWatched { .. })
    ));
    assert!(matches!(store.restore_file(&shared(), &key("x")), Err(WatchError::NotWatched { .. })));
}
