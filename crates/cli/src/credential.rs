//! Credentials of humans: passphrases, typed on the controlling terminal and nowhere else.
//!
//! They are never read from standard input, a file, a flag or the environment: an agent's shell has
//! all of those.

use std::fs::File;
use std::io::Write;

use anyhow::{Context as _, bail, ensure};
use custody_keys::{HumanKey, KeyFolder, NewPassphrase};
use zeroize::Zeroizing;

/// Whether there is a controlling terminal to ask on.
pub(crate) fn has_terminal() -> bool {
    terminal().is_ok()
}

fn terminal() -> std::io::Result<File> {
    File::options().read(true).write(true).open(if cfg!(windows) { "CON" } else { "/dev/tty" })
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

/// Asks for a new passphrase, twice. One that could be guessed is refused before it is typed again.
pub(crate) fn new_passphrase(name: &str) -> anyhow::Result<NewPassphrase> {
    let first = ask(&format!("New passphrase for {name}: "))?;
    let strong = NewPassphrase::for_key_of(name, first.clone())?;
    let second = ask("The same again: ")?;
    ensure!(*first == *second, "the two passphrases differ; nothing was changed, try again");
    Ok(strong)
}

/// Asks a yes-or-no question on the terminal; anything but yes is no.
pub(crate) fn confirm(question: &str) -> anyhow::Result<bool> {
    let mut terminal = terminal().context("this needs a terminal to ask on")?;
    write!(terminal, "{question} [y/N] ")?;
    let mut answer = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(terminal), &mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Waits on the terminal before the page after `page` of `pages` is shown; `q` ends the showing.
pub(crate) fn go_on(page: usize, pages: usize) -> anyhow::Result<bool> {
    let mut terminal = terminal().context("this needs a terminal to ask on")?;
    write!(terminal, "-- page {page} of {pages}: Enter for the next, q to stop -- ")?;
    let mut answer = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(terminal), &mut answer)?;
    Ok(!answer.trim().eq_ignore_ascii_case("q"))
}

fn ask(prompt: &str) -> anyhow::Result<Zeroizing<String>> {
    let terminal =
        terminal().context("a passphrase is typed on a terminal, and there is none here")?;
    read_hidden(terminal, prompt).context("could not read a passphrase from the terminal")
}

/// Reads one line that the terminal does not show.
///
/// The echo is off before the prompt appears, and what was typed before that is dropped: nobody who answers
/// the prompt, however fast, sees the answer. The line discipline stays in line mode, so that changing modes
/// loses no key. Ctrl-C ends the line instead of the program, so that the echo always comes back.
#[cfg(unix)]
fn read_hidden(mut terminal: File, prompt: &str) -> std::io::Result<Zeroizing<String>> {
    use std::io::{Error, ErrorKind, Read};

    use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};

    const CTRL_C: u8 = 3;
    // The longest line that a terminal gives.
    const MAX_LINE: usize = 4096;

    let shown = tcgetattr(&terminal)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
    hidden.local_modes.insert(LocalModes::ECHONL | LocalModes::ICANON);
    hidden.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
    tcsetattr(&terminal, OptionalActions::Flush, &hidden)?;
    let mut line = Zeroizing::new([0; MAX_LINE]);
    let read = terminal.write_all(prompt.as_bytes()).and_then(|()| terminal.read(line.as_mut()));
    tcsetattr(&terminal, OptionalActions::Now, &shown)?;
    let [typed @ .., b'\n'] = line.get(..read?).unwrap_or_default() else {
        return Err(Error::new(ErrorKind::Interrupted, "nothing was typed"));
    };
    match std::str::from_utf8(typed) {
        Ok(typed) => Ok(Zeroizing::new(typed.to_owned())),
        Err(_) => Err(Error::new(ErrorKind::InvalidData, "what was typed is not UTF-8")),
    }
}

#[cfg(not(unix))]
fn read_hidden(_: File, prompt: &str) -> std::io::Result<Zeroizing<String>> {
    rpassword::prompt_password(prompt).map(Zeroizing::new)
}
