//! The real `custody`, run in a home of its own: with a terminal on which lines are typed, or without.
//!
//! Passphrases are read from the controlling terminal. To type one, a test needs a pseudo-terminal that is
//! the child's controlling terminal; to be sure that there is none, the child needs a session of its own.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

pub mod gateway;
pub mod host;
pub mod naive_server;
pub mod schema;
pub mod witness;

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use custody_kernel::memory::rate::Limits;
use custody_keys::{Existing, HumanKey, KeyFolder};
use custody_runtime::clock::Clock;
use custody_runtime::{Paths, Store};
use tempfile::TempDir;

/// The program under test: `custody`, or `custody-lab` in the laboratory's tests, which use this file too.
pub const CUSTODY: &str = match (option_env!("CARGO_BIN_EXE_custody"), LABORATORY) {
    (Some(program), _) | (None, Some(program)) => program,
    (None, None) => panic!("these are tests of a program"),
};
const LABORATORY: Option<&str> = option_env!("CARGO_BIN_EXE_custody-lab");

/// The owner's passphrase in every home that is [`Home::founded`].
pub const OWNER_PASSPHRASE: &str = "correct horse battery";

/// What a prompt ends with. The next line is typed when one of these stands last on the terminal.
const PROMPTS: [&str; 2] = [": ", "[y/N] "];

/// A home folder that no other test sees.
pub struct Home {
    folder: TempDir,
}

/// How `custody` ended, and what it said.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    /// What appeared on the terminal itself: prompts.
    pub terminal: String,
}

impl Ran {
    /// Fails the test unless the exit code is `code`.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "exit code of {self:#?}");
        self
    }

    /// Fails the test unless it was refused: exit code 2, one line on standard error that says `why`, and
    /// nothing on standard output.
    #[track_caller]
    pub fn refused(&self, why: &str) {
        assert_eq!(self.code, 2, "{self:?}");
        assert!(self.stderr.contains(why), "`{why}` in {self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
    }

    /// The JSON objects on standard output, one per line.
    #[track_caller]
    pub fn json(&self) -> Vec<serde_json::Value> {
        let parse =
            |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("JSON in {self:#?}"));
        self.stdout.lines().map(parse).collect()
    }

    /// Everything it said, without what differs between runs: ids, times, digests, folders.
    pub fn text(&self, home: &Home) -> String {
        let text = format!("{}{}", self.stdout, self.stderr);
        masked(&text.replace(&home.path().display().to_string(), "HOME"))
    }
}

impl Home {
    /// An empty home: no store yet.
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A home with a store, as `custody keys init` makes it, but for an owner's key that opens in no time.
    pub fn founded() -> Self {
        let home = Self::new();
        let shown = home.alone(&["keys", "show", "--json"]).json();
        let path = |name: &str| PathBuf::from(shown[0][name].as_str().unwrap());
        let paths = Paths { store: path("store"), keys: path("keys") };
        let key = HumanKey::generate();
        KeyFolder::new(&paths.keys)
            .store_human_cheaply("owner", &key, OWNER_PASSPHRASE, Existing::Keep)
            .unwrap();
        Store::create(&paths, "owner", &key, Limits::default(), Clock::System).unwrap();
        home
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// The database of the store.
    pub fn database(&self) -> PathBuf {
        self.path().join("data/custody/custody.db")
    }

    /// The folder of the keys and the head.
    pub fn keys(&self) -> PathBuf {
        let state = self.path().join("state/custody");
        let folder = std::fs::read_dir(state).unwrap().next().unwrap().unwrap();
        folder.path()
    }

    /// Changes the database behind the store's back.
    pub fn tamper(&self, statement: &str) {
        let database = rusqlite::Connection::open(self.database()).unwrap();
        assert!(database.execute(statement, []).unwrap() > 0, "{statement} changes nothing");
    }

    /// Runs `custody ARGS` without a terminal and without input.
    pub fn alone<S: AsRef<OsStr>>(&self, args: &[S]) -> Ran {
        self.alone_with(args, &[], "")
    }

    /// Runs `custody ARGS` without a terminal, with these variables set and this input.
    pub fn alone_with<S: AsRef<OsStr>>(
        &self,
        args: &[S],
        variables: &[(&str, &str)],
        input: &str,
    ) -> Ran {
        // A session of its own has no controlling terminal, whatever terminal the tests run on.
        let mut command = Command::new("setsid");
        command.arg(CUSTODY);
        self.prepare(&mut command, args, variables);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().expect("setsid (util-linux) runs");
        give(&mut child, input);
        let (stdout, stderr) = collect(&mut child);
        end(child, stdout, stderr)
    }

    /// Runs `custody ARGS` on a terminal, typing the next of `lines` at every prompt, and nothing but
    /// Enter when there are no more.
    pub fn typing<S: AsRef<OsStr>>(&self, args: &[S], lines: &[&str]) -> Ran {
        self.typing_with(args, lines, &[], "")
    }

    /// Runs `custody ARGS` on a terminal, with these variables set and this input beside what is typed.
    pub fn typing_with<S: AsRef<OsStr>>(
        &self,
        args: &[S],
        lines: &[&str],
        variables: &[(&str, &str)],
        input: &str,
    ) -> Ran {
        self.on_a_terminal(CUSTODY, args, lines, variables, input)
    }

    /// Runs any program on a terminal, as [`Home::typing`] runs `custody`.
    pub fn typing_program<S: AsRef<OsStr>>(
        &self,
        program: &str,
        args: &[S],
        lines: &[&str],
    ) -> Ran {
        self.on_a_terminal(program, args, lines, &[], "")
    }

    fn on_a_terminal<S: AsRef<OsStr>>(
        &self,
        program: &str,
        args: &[S],
        lines: &[&str],
        variables: &[(&str, &str)],
        input: &str,
    ) -> Ran {
        let (terminal, end_of_child) = pty_process::blocking::open().unwrap();
        let mut command = Command::new(program);
        self.prepare(&mut command, args, variables);
        let mut command = pty_process::blocking::Command::from(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // The child opens its end only to ask; held here, it is not gone before that.
        let mut child = command.spawn_borrowed(&end_of_child).unwrap();
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        let typist = std::thread::spawn(move || answer_prompts(terminal, lines));
        give(&mut child, input);
        let (stdout, stderr) = collect(&mut child);
        let ran = end(child, stdout, stderr);
        drop(end_of_child);
        Ran { terminal: typist.join().unwrap(), ..ran }
    }

    fn prepare<S: AsRef<OsStr>>(
        &self,
        command: &mut Command,
        args: &[S],
        variables: &[(&str, &str)],
    ) {
        let home = self.path();
        command.args(args).current_dir(&home).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", &home);
        for (variable, folder) in [
            ("XDG_DATA_HOME", "data"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_CACHE_HOME", "cache"),
        ] {
            command.env(variable, home.join(folder));
        }
        command.envs(variables.iter().copied());
    }
}

/// Records that the calling test could not run here, and why; see `xtask/src/test.rs`. The caller returns.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    let line = format!("SKIPPED: {}: {reason}\n", thread.name().unwrap_or("a test"));
    eprint!("{line}");
    if let Some(list) = std::env::var_os("CUSTODY_SKIPPED_TESTS") {
        let mut list = std::fs::File::options().append(true).open(list).unwrap();
        list.write_all(line.as_bytes()).unwrap();
    }
}

fn give(child: &mut Child, input: &str) {
    let mut stdin = child.stdin.take().unwrap();
    // Who does not read its input may be gone before it is written.
    let _ = stdin.write_all(input.as_bytes());
}

/// Reads both outputs to their ends, while somebody else types.
fn collect(child: &mut Child) -> (JoinHandle<String>, JoinHandle<String>) {
    fn read(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        })
    }
    (read(child.stdout.take().unwrap()), read(child.stderr.take().unwrap()))
}

/// Types the next of `lines` at every prompt until nobody holds the other end of the terminal. Returns what
/// appeared on it.
fn answer_prompts(mut terminal: pty_process::blocking::Pty, lines: Vec<String>) -> String {
    let mut lines = lines.into_iter();
    let (mut shown, mut answered) = (String::new(), 0);
    let mut buffer = [0; 1024];
    while let Ok(bytes @ 1..) = terminal.read(&mut buffer) {
        shown.push_str(&String::from_utf8_lossy(&buffer[..bytes]));
        if PROMPTS.iter().any(|prompt| shown[answered..].ends_with(prompt)) {
            answered = shown.len();
            let line = lines.next().unwrap_or_default();
            terminal.write_all(format!("{line}\n").as_bytes()).unwrap();
        }
    }
    shown
}

fn end(mut child: Child, stdout: JoinHandle<String>, stderr: JoinHandle<String>) -> Ran {
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    let code = child.wait().unwrap().code().unwrap_or(-1);
    Ran { code, stdout, stderr, terminal: String::new() }
}

/// Replaces ids, digests, keys and times by what they are.
fn masked(text: &str) -> String {
    let word =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '/' | '=' | ':' | '.');
    let mut masked = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let length = rest.find(|c| !word(c)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(length);
        masked.push_str(&mask(token));
        let next = after.find(word).unwrap_or(after.len());
        masked.push_str(&after[..next]);
        rest = &after[next..];
    }
    masked
}

fn mask(token: &str) -> String {
    let hex =
        |text: &str, length| text.len() == length && text.chars().all(|c| c.is_ascii_hexdigit());
    let bare = token.trim_end_matches(['.', ':']);
    let stop = &token[bare.len()..];
    if bare.starts_with("custody-log+") {
        return format!("VKEY{stop}");
    }
    for prefix in ["e-", "s-", "p-", "store-"] {
        if bare.strip_prefix(prefix).is_some_and(|digits| hex(digits, 32)) {
            return format!("{prefix}ID{stop}");
        }
    }
    // Those of fixtures are one digit over and over, and mean something.
    let is_drawn = |digits: &str| hex(digits, 32) && !digits.chars().all(|c| digits.starts_with(c));
    if bare.strip_prefix("incident-").is_some_and(is_drawn) {
        return format!("incident-ID{stop}");
    }
    if let Some((before, last)) = bare.rsplit_once('/').filter(|(_, last)| last.len() == 34) {
        return format!("{before}/{}{stop}", mask(last));
    }
    if hex(bare, 64) {
        return format!("DIGEST{stop}");
    }
    if hex(bare, 16) {
        return format!("FINGERPRINT{stop}");
    }
    if bare.strip_prefix("custody_").is_some_and(|digits| hex(digits, 64)) {
        return format!("TOKEN{stop}");
    }
    if let Some(rest) = bare.strip_prefix("HOME/state/custody/custody-") {
        let tail = rest.get(16..).unwrap_or_default();
        return format!("HOME/state/custody/KEYS{tail}{stop}");
    }
    // A detector's score: another when its weights are trained again.
    if bare.len() == 6 && bare.starts_with("0.") && bare[2..].bytes().all(|b| b.is_ascii_digit()) {
        return format!("SCORE{stop}");
    }
    if bare.len() == 24 && bare.starts_with("20") && bare.ends_with('Z') {
        return format!("TIME{stop}");
    }
    token.to_owned()
}
