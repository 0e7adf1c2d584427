//! A real store in a scratch folder.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test file uses its part")]
#![allow(
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a helper that fails fails its test"
)]

pub mod guarded;
pub mod wreck;

use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use custody_kernel::key::Key;
use custody_kernel::label::Channel;
use custody_kernel::memory::rate::Limits;
use custody_kernel::namespace::{Namespace, Scope, Tenant};
use custody_kernel::principal::{Authority, Role};
use custody_keys::HumanKey;
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::principals::NewPrincipal;
use custody_runtime::session::Write;
use custody_runtime::store::Receipt;
use custody_runtime::{OpenError, Paths, Session, Store};
use rusqlite::Connection;
use tempfile::TempDir;

pub struct Scratch {
    pub folder: TempDir,
    pub paths: Paths,
    pub owner_key: HumanKey,
    pub owner: Authority,
    pub store: Store,
    pub clock: Clock,
}

pub const FREE: Limits = Limits { proposal_ttl_ms: 1_000, ..Limits::UNLIMITED };

impl Scratch {
    pub fn new() -> Self {
        Self::with_limits(FREE)
    }

    pub fn with_limits(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths {
            store: folder.path().join("store/custody.db"),
            keys: folder.path().join("keys"),
        };
        let owner_key = HumanKey::generate();
        let clock = Clock::manual(1_000);
        let store = Store::create(&paths, "owner", &owner_key, limits, clock.clone()).unwrap();
        let owner = store.authenticate("owner", &owner_key).unwrap();
        Self { folder, paths, owner_key, owner, store, clock }
    }

    pub fn reopen(&self) -> Result<Store, OpenError> {
        Store::open(&self.paths, self.clock.clone())
    }

    /// A second connection to the database that no rule stands in front of.
    pub fn raw(&self) -> Connection {
        Connection::open(&self.paths.store).unwrap()
    }

    /// Copies database and write-ahead log as they are now; nothing may be writing.
    pub fn copy_database(&self, to: &Path) {
        std::fs::copy(&self.paths.store, to).unwrap();
        let wal = wal_of(&self.paths.store);
        if wal.exists() {
            std::fs::copy(wal, wal_of(to)).unwrap();
        }
    }

    pub fn head_path(&self) -> PathBuf {
        self.paths.keys.join("head")
    }

    /// Registers a principal with a key and a token.
    pub fn add(&self, name: &str, role: Role) -> (HumanKey, String) {
        let key = HumanKey::generate();
        let public_key = role.is_human().then(|| key.public_key());
        let tenant = Tenant::main();
        let new = NewPrincipal { name, role, tenant, public_key, with_token: true };
        let (receipt, token) = self.store.add_principal(&self.owner, new).unwrap();
        assert_eq!(receipt.answer.refusal(), None);
        (key, token.unwrap().to_string())
    }

    /// A session that an agent runs for a user.
    pub fn session_for_user(&self, name: &str) -> Session {
        let (_, token) = self.add(name, Role::User);
        let authority = self.store.authenticate_token(&token).unwrap();
        Session::open(&self.store, &authority, None).unwrap()
    }
}

/// The write-ahead log of a database.
pub fn wal_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Starts this very test program again, to run only the ignored test `child`, as `role`.
pub fn child_command(program: &str, role: &str) -> Command {
    let mut words = program.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args(["--ignored", "--exact", "child", "--nocapture", "--test-threads=1"]);
    command.env(CHILD_ROLE, role).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// What a child process is told about the store it shares.
pub fn tell(command: &mut Command, paths: &Paths, token: &str) {
    command.env("CUSTODY_TEST_STORE", &paths.store).env("CUSTODY_TEST_KEYS", &paths.keys);
    command.env("CUSTODY_TEST_TOKEN", token);
}

const CHILD_ROLE: &str = "CUSTODY_TEST_ROLE";

/// In a child: its role, the store and a session under the token; `None` in a test that was not
/// started by another one.
pub fn child() -> Option<(String, Store, Session)> {
    let var = |name: &str| std::env::var(name).ok();
    let role = var(CHILD_ROLE)?;
    let paths =
        Paths { store: var("CUSTODY_TEST_STORE")?.into(), keys: var("CUSTODY_TEST_KEYS")?.into() };
    let store = Store::open(&paths, Clock::manual(2_000)).unwrap();
    let authority = store.authenticate_token(&var("CUSTODY_TEST_TOKEN")?).unwrap();
    let session = Session::open(&store, &authority, None).unwrap();
    Some((role, store, session))
}

/// A running child, spoken to in lines. What it says to us starts with `: `.
pub struct Talk {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Talk {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub fn hear(&mut self) -> String {
        loop {
            let line = self.lines.next().expect("the child still speaks").unwrap();
            // The test harness may have begun the line.
            if let Some((_, said)) = line.split_once(": ") {
                return said.to_owned();
            }
        }
    }

    pub fn finish(mut self) {
        drop(self.child.stdin.take());
        for line in self.lines.by_ref() {
            drop(line.unwrap());
        }
        assert!(self.child.wait().unwrap().success());
    }
}

/// In a child: says one line to the parent.
pub fn answer(line: &str) {
    println!(": {line}");
}

/// In a child: the next line from the parent; `None` when it has no more to say.
pub fn listen() -> Option<String> {
    let mut line = String::new();
    (std::io::stdin().read_line(&mut line).unwrap() > 0).then(|| line.trim_end().to_owned())
}

/// Records that the calling test could not run here, and why. The caller returns.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    let line = format!("SKIPPED: {}: {reason}\n", thread.name().unwrap_or("a test"));
    eprint!("{line}");
    if let Some(list) = std::env::var_os("CUSTODY_SKIPPED_TESTS") {
        let mut list = std::fs::File::options().append(true).open(list).unwrap();
        std::io::Write::write_all(&mut list, line.as_bytes()).unwrap();
    }
}

/// Writes `text` under `key` in the shared namespace and waits until it is durable.
pub fn writes(session: &Session, key: &str, text: &str) -> Receipt {
    let write = Write::new(Scope::Shared, key.parse().unwrap(), text);
    let receipt = session.write(write).wait().unwrap();
    assert_eq!(receipt.answer.refusal(), None);
    receipt
}

pub fn hears(session: &Session, channel: Channel, text: &str) {
    session.observe(Observation::message(channel, text)).wait().unwrap();
}

pub fn key(text: &str) -> Key {
    text.parse().unwrap()
}

pub fn shared() -> Namespace {
    Namespace::shared(Tenant::main())
}
