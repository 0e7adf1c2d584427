//! Fifty sessions, fifty secrets, and what each session can get at of the others'.
//!
//! Each secret is read back by its own session first, so that it is really there to leak (hole
//! M14), and leaks are looked for in what the others are given, byte by byte, not in key names.

use custody_cli::attacks::scratch::{FREE, ScratchStore, decided_by, done, key};
use custody_kernel::label::Channel;
use custody_kernel::namespace::Scope;
use custody_kernel::principal::Role;
use custody_runtime::session::{NewValue, Write};
use custody_runtime::{Session, StoreError};

use crate::error::EvalError;
use crate::random::Generator;

/// Sessions, and so secrets.
pub const SESSIONS: usize = 50;
/// Users behind them: some sessions share a user, most do not.
const USERS: usize = 20;
/// The shortest run of a secret that counts as a leak, in bytes.
const RUN: usize = 8;

/// What was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Isolation {
    /// Sessions opened.
    pub sessions: u64,
    /// Secrets that their own session read back.
    pub secrets: u64,
    /// Ordered pairs of different sessions.
    pub pairs: u64,
    /// Pairs in which the second got at the first one's secret.
    pub leaks: u64,
}

/// Measures the isolation of sessions.
///
/// # Errors
/// When the store fails.
pub fn run(seed: u64, progress: &mut dyn FnMut(&str, u64, u64)) -> Result<Isolation, EvalError> {
    let scratch = ScratchStore::with_identity_files(FREE)?;
    let mut generator = Generator::new(seed);
    let users: Vec<_> = (0..USERS)
        .map(|user| scratch.human(&format!("user-{user}"), Role::User))
        .collect::<Result<_, _>>()?;
    let mut sessions = Vec::with_capacity(SESSIONS);
    let mut found = Isolation::default();
    for at in 0..SESSIONS {
        let session = scratch.open(&users[at % USERS].by_token)?;
        let secret = hex::encode(generator.bytes(16));
        let said = scratch.message(&session, Channel::User, &format!("My secret is {secret}"))?;
        let own = Scope::Session(session.id());
        done(&scratch.write(&session, own, "secret", &secret)?)?;
        let read = session.read(own, key("secret")).wait()?.value;
        found.secrets += u64::from(read.as_deref() == Some(secret.as_bytes()));
        found.sessions += 1;
        sessions.push((session, secret, said.seq));
    }
    for (at, (reader, _, _)) in sessions.iter().enumerate() {
        progress("isolation", at as u64, SESSIONS as u64);
        let mut seen_values = everything_it_sees(&scratch, reader)?;
        for (other, (owner, _, said)) in sessions.iter().enumerate() {
            if at != other {
                seen_values.extend(tries_to_get(reader, owner, *said)?);
            }
        }
        // What it could now see more than before, were one of those tries to succeed.
        seen_values.extend(everything_it_sees(&scratch, reader)?);
        for (other, (_, secret, _)) in sessions.iter().enumerate() {
            if at != other {
                found.pairs += 1;
                found.leaks += u64::from(leaks(&seen_values, secret.as_bytes()));
            }
        }
    }
    Ok(found)
}

/// All values of its own and the shared namespace, as the session reads them.
fn everything_it_sees(
    scratch: &ScratchStore,
    session: &Session,
) -> Result<Vec<Vec<u8>>, EvalError> {
    let mut namespaces = vec![session.namespace()];
    namespaces.extend(scratch.store.state(|state| {
        let tenant = session.namespace().tenant;
        state
            .namespaces()
            .into_iter()
            .filter(|ns| ns.tenant == tenant && ns.scope == Scope::Shared)
            .cloned()
            .collect::<Vec<_>>()
    })?);
    let mut seen = Vec::new();
    for namespace in namespaces {
        for key in scratch.store.values(&namespace)?.into_keys() {
            seen.extend(session.read(namespace.scope, key).wait()?.value);
        }
    }
    Ok(seen)
}

/// Asks for another session's item by its id, tries to share it, and to write what was said there
/// under a key of its own. Returns whatever bytes came back.
fn tries_to_get(
    reader: &Session,
    owner: &Session,
    said: custody_log::Seq,
) -> Result<Vec<Vec<u8>>, EvalError> {
    let mut got = Vec::new();
    let reading = reader.read(Scope::Session(owner.id()), key("secret")).wait()?;
    if decided_by(&reading.receipt) != "refused by rule 9" {
        got.push(reading.value.clone().unwrap_or_default());
    }
    got.extend(reading.value);
    let own = Scope::Session(reader.id());
    let loot = Write::new(own, key(&format!("loot/{}", owner.id())), "");
    let loot = Write { value: NewValue::Entry(said), ..loot };
    for tried in [reader.write(loot).wait(), reader.promote(owner.id(), key("secret")).wait()] {
        match tried {
            Ok(_) | Err(StoreError::Ask(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(got)
}

/// Whether a run of the secret stands in any of the values.
fn leaks(values: &[Vec<u8>], secret: &[u8]) -> bool {
    values.iter().any(|value: &Vec<u8>| {
        value.windows(RUN).any(|window| secret.windows(RUN).any(|run| run == window))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leak_is_found_by_any_run_of_eight_bytes() {
        let secret = b"0123456789abcdef";
        assert!(leaks(&[b"..56789abc..".to_vec()], secret));
        assert!(!leaks(&[b"..5678 9abc..".to_vec(), Vec::new()], secret));
    }
}
