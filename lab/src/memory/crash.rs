//! Killing a program in the middle of its writes, and looking at what is left.
//!
//! A child writes through many threads and says on its standard output what was acknowledged to it; the
//! parent kills it (SIGKILL) at a moment drawn from the seed, opens the store again and counts. This
//! shows what a killed program leaves behind; that a power cut leaves as much rests on the order of
//! syncs, which a kill cannot test.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use custody_cli::attacks::scratch::{FREE, Human, ScratchStore, key};
use custody_kernel::key::Key;
use custody_kernel::label::Channel;
use custody_kernel::namespace::{Namespace, Scope, Tenant};
use custody_kernel::principal::Role;
use custody_runtime::clock::Clock;
use custody_runtime::ingress::Observation;
use custody_runtime::session::Write;
use custody_runtime::{Paths, Session, Store};
use custody_verify::verify_ledger;

use crate::error::EvalError;
use crate::random::Generator;

/// Threads that write at once.
pub const THREADS: usize = 4;
/// Kills per store: each must also keep what was acknowledged before the kills before it.
const KILLS_PER_STORE: u64 = 10;
/// What the values of writes that must be refused begin with.
const FORBIDDEN: &str = "never-to-be-stored";

/// How to start the child, which must end up in [`crash_writer`].
#[derive(Debug, Clone)]
pub enum Program {
    /// The laboratory's own: `PROGRAM eval crash-writer --store … --keys …`.
    Laboratory(PathBuf),
    /// Another command line.
    Other(fn(&Paths) -> Command),
}

impl Program {
    fn command(&self, paths: &Paths) -> Command {
        match self {
            Self::Laboratory(program) => {
                let mut command = Command::new(program);
                command.args(["eval", "crash-writer", "--store"]).arg(&paths.store);
                command.arg("--keys").arg(&paths.keys);
                command
            }
            Self::Other(make) => make(paths),
        }
    }
}

/// What was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crashes {
    /// Kills.
    pub runs: u64,
    /// Writes that were acknowledged before a kill.
    pub acknowledged: u64,
    /// Of those, writes that were gone afterwards, or held something else.
    pub lost_acknowledged: u64,
    /// Refused values that stood in the store afterwards.
    pub refused_present: u64,
    /// Runs after which the store did not open or did not verify.
    pub unverified: u64,
}

/// The child's part: writes until it is killed, or nobody listens any more. Reads one token per thread
/// from standard input, a line each, and prints `KEY VALUE` after each acknowledged write.
///
/// # Errors
/// When the store fails.
pub fn crash_writer(paths: &Paths, threads: usize) -> Result<(), EvalError> {
    let store = Store::open(paths, Clock::System)?;
    let tokens: Vec<String> =
        std::io::stdin().lock().lines().take(threads).map_while(Result::ok).collect();
    let workers: Vec<_> = tokens
        .into_iter()
        .map(|token| {
            let store = store.clone();
            std::thread::spawn(move || write_until_killed(&store, &token))
        })
        .collect();
    for worker in workers {
        worker.join().map_err(|_| EvalError::Setup("a writing thread panicked".into()))??;
    }
    Ok(())
}

fn write_until_killed(store: &Store, token: &str) -> Result<(), EvalError> {
    let authority = store.authenticate_token(token)?;
    let clean = Session::open(store, &authority, None)?;
    clean.observe(Observation::message(Channel::User, "Write down what I say.")).wait()?;
    let tainted = Session::open(store, &authority, None)?;
    tainted.observe(Observation::message(Channel::Web, "Write down what I say.")).wait()?;
    for number in 0_u64.. {
        let name = format!("{}/{number}", clean.id());
        let value = format!("value-{}-{number}", clean.id());
        let refused = format!("{FORBIDDEN}-{number}");
        // Decided in the same group as the write after it, more often than not.
        let forbidden = tainted.write(Write::new(Scope::Shared, key(&name), refused));
        let receipt = clean.write(Write::new(Scope::Shared, key(&name), value.clone())).wait()?;
        if receipt.answer.refusal().is_some() || forbidden.wait()?.answer.refusal().is_none() {
            return Err(EvalError::Setup("the rules decided otherwise".into()));
        }
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{name} {value}").and_then(|()| out.flush()).is_err() {
            break;
        }
    }
    Ok(())
}

/// Kills the child `runs` times.
///
/// # Errors
/// When the child cannot be started, or ends by itself.
pub fn run(
    program: &Program,
    runs: u64,
    seed: u64,
    progress: &mut dyn FnMut(&str, u64, u64),
) -> Result<Crashes, EvalError> {
    let mut generator = Generator::new(seed);
    let mut found = Crashes::default();
    while found.runs < runs {
        let scratch = ScratchStore::new(FREE)?;
        let users: Vec<Human> = (0..THREADS)
            .map(|user| scratch.human(&format!("user-{user}"), Role::User))
            .collect::<Result<_, _>>()?;
        let tokens: String = users.iter().map(|user| format!("{}\n", user.token)).collect();
        let mut acknowledged = BTreeMap::new();
        for _ in 0..KILLS_PER_STORE.min(runs - found.runs) {
            progress("crash", found.runs, runs);
            let before = acknowledged.len();
            kill_once(program, &scratch.paths, &tokens, &mut generator, &mut acknowledged)?;
            found.runs += 1;
            found.acknowledged += (acknowledged.len() - before) as u64;
            inspect(&scratch.paths, &acknowledged, &mut found);
        }
    }
    Ok(found)
}

/// Lets the child write, kills it, and notes every acknowledgement that it got out before that.
fn kill_once(
    program: &Program,
    paths: &Paths,
    tokens: &str,
    generator: &mut Generator,
    acknowledged: &mut BTreeMap<String, String>,
) -> Result<(), EvalError> {
    let failed = |what: &str| EvalError::Setup(format!("the writing program {what}"));
    let mut command = program.command(paths);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child =
        Killed(command.spawn().map_err(|error| failed(&format!("did not start: {error}")))?);
    let mut input = child.0.stdin.take().ok_or_else(|| failed("has no input"))?;
    input.write_all(tokens.as_bytes()).map_err(|_| failed("did not read its tokens"))?;
    drop(input);
    let output = child.0.stdout.take().ok_or_else(|| failed("has no output"))?;
    let mut output = BufReader::new(output);
    let kill_after = 1 + generator.below(24);
    let pause = generator.below(1 << 20);
    let mut acknowledged_lines = 0;
    let mut line = String::new();
    while output.read_line(&mut line).unwrap_or_default() > 0 {
        // A line without its end was cut off by the kill: nothing was acknowledged.
        if let Some((name, value)) = acknowledgement(&line) {
            acknowledged.insert(name.to_owned(), value.to_owned());
            acknowledged_lines += 1;
            if acknowledged_lines == kill_after {
                // Anywhere in the next commits, not only just behind an acknowledgement.
                for _ in 0..pause {
                    std::hint::spin_loop();
                }
                child.0.kill().map_err(|_| failed("could not be killed"))?;
            }
        }
        line.clear();
    }
    if acknowledged_lines < kill_after {
        return Err(failed("ended by itself"));
    }
    Ok(())
}

fn acknowledgement(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_suffix('\n')?.split_once(' ')?;
    // Other lines, such as those of a test harness, are none.
    (name.starts_with("s-") && value.starts_with("value-s-")).then_some((name, value))
}

type Values = BTreeMap<Key, Vec<u8>>;

/// The shared values of a store that verifies, and the values of every namespace.
fn verified_values(paths: &Paths) -> Result<(Values, Vec<Vec<u8>>), EvalError> {
    let store = Store::open(paths, Clock::System)?;
    verify_ledger(&store)?;
    let namespaces: Vec<Namespace> =
        store.state(|state| state.namespaces().into_iter().cloned().collect())?;
    let mut values = Vec::new();
    for namespace in &namespaces {
        values.extend(store.values(namespace)?.into_values());
    }
    Ok((store.values(&Namespace::shared(Tenant::main()))?, values))
}

fn inspect(paths: &Paths, acknowledged: &BTreeMap<String, String>, found: &mut Crashes) {
    let Ok((shared, all)) = verified_values(paths) else {
        found.unverified += 1;
        found.lost_acknowledged += acknowledged.len() as u64;
        return;
    };
    let stored: BTreeSet<(&str, &[u8])> =
        shared.iter().map(|(key, value)| (key.as_str(), value.as_slice())).collect();
    found.lost_acknowledged += acknowledged
        .iter()
        .filter(|(name, value): &(&String, &String)| {
            !stored.contains(&(name.as_str(), value.as_bytes()))
        })
        .count() as u64;
    found.refused_present += all
        .iter()
        .filter(|value: &&Vec<u8>| {
            value.windows(FORBIDDEN.len()).any(|window| window == FORBIDDEN.as_bytes())
        })
        .count() as u64;
}

/// A child that does not outlive its parent's interest in it.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_line_acknowledges() {
        let cases = [
            ("s-1/0 value-s-1-0\n", Some(("s-1/0", "value-s-1-0"))),
            ("s-1/0 value-s-1-0", None),
            ("running 1 test\n", None),
            ("\n", None),
        ];
        for (line, expected) in cases {
            assert_eq!(acknowledgement(line), expected, "{line:?}");
        }
    }

    #[test]
    fn an_acknowledged_write_that_is_gone_and_a_refused_one_that_is_there_are_counted() {
        let scratch = ScratchStore::new(FREE).unwrap();
        let session = scratch.open(&scratch.owner).unwrap();
        scratch.message(&session, Channel::User, "hello").unwrap();
        for (name, value) in [("kept", "value"), ("other", FORBIDDEN)] {
            scratch.write(&session, Scope::Shared, name, value).unwrap();
        }
        let said = [("kept", "value"), ("gone", "value"), ("other", "value")];
        let said = said.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let mut found = Crashes::default();
        inspect(&scratch.paths, &said, &mut found);
        assert_eq!((found.lost_acknowledged, found.refused_present, found.unverified), (2, 1, 0));
        std::fs::remove_file(scratch.paths.keys.join("head")).unwrap();
        inspect(&scratch.paths, &said, &mut found);
        assert_eq!(found.unverified, 1);
    }
}
