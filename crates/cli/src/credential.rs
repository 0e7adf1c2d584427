//! Credentials of humans: passphrases, typed on the controlling terminal and nowhere else.
//!
//! They are never read from standard input, a file, a flag or the environment: an agent's shell has
//! all of those.

use std::io::Write;

use anyhow::{Context as _, bail, ensure};
use custody_runtime::keys::{HumanKey, KeyFolder};
use zeroize::Zeroizing;

/// The shortest passphrase that is taken.
const MIN_PASSPHRASE_CHARS: usize = 8;

/// Whether there is a controlling terminal to ask on.
pub(crate) fn has_terminal() -> bool {
    terminal().is_ok()
}

fn terminal() -> std::io::Result<std::fs::File> {
    std::fs::File::options().read(true).write(true).open(if cfg!(windows) {
        "CON"
    } else {
        "/dev/tty"
    })
}

/// Unlocks the key of `name` with the passphrase typed on the terminal.
pub(crate) fn unlock(keys: &KeyFolder, name: &str) -> anyhow::Result<HumanKey> {
    if !keys.humans().iter().any(|known| known == name) {
        bail!(
            "there is no key for `{name}` in `{}`; see `custody principal list`",
            keys.path().display()
        );
    }
    let passphrase = ask(&format!("Passphrase of {name}: "))?;
    Ok(keys.unlock(name, &passphrase)?)
}

/// Asks for a new passphrase, twice.
pub(crate) fn new_passphrase(name: &str) -> anyhow::Result<Zeroizing<String>> {
    let first = ask(&format!("New passphrase for {name}: "))?;
    ensure!(
        first.chars().count() >= MIN_PASSPHRASE_CHARS,
        "a passphrase has at least {MIN_PASSPHRASE_CHARS} characters; choose a longer one"
    );
    let second = ask("The same again: ")?;
    ensure!(*first == *second, "the two passphrases differ; nothing was changed, try again");
    Ok(first)
}

/// Asks a yes-or-no question on the terminal; anything but yes is no.
pub(crate) fn confirm(question: &str) -> anyhow::Result<bool> {
    let mut terminal = terminal().context("this needs a terminal to ask on")?;
    write!(terminal, "{question} [y/N] ")?;
    let mut answer = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(terminal), &mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn ask(prompt: &str) -> anyhow::Result<Zeroizing<String>> {
    let typed = rpassword::prompt_password(prompt);
    typed.map(Zeroizing::new).context("a passphrase is typed on a terminal, and there is none here")
}
