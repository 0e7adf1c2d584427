//! agmi's nine edits of a store, by its own package: how many Custody refuses when it is read.
//!
//! Source: docs/threats.md §5; `integrations/agmi`.

use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use crate::report::Figure;

const ID: &str = "agmi.refused_on_read";

/// What is needed to try them.
#[derive(Debug, Clone)]
pub struct Agmi {
    /// A Python that has the package.
    pub interpreter: PathBuf,
    /// The folder of `custody_agmi`, if it is not installed.
    pub package: Option<PathBuf>,
    /// The `custody` whose store is edited, if there is one.
    pub custody: Option<PathBuf>,
}

#[derive(Deserialize)]
struct CommandOutput {
    refused_on_read: u64,
}

/// Tries all nine, if they can be tried here.
pub(super) fn figure(agmi: Option<&Agmi>) -> Figure {
    match agmi.ok_or_else(|| "it was not asked for".to_owned()).and_then(refused) {
        Ok(refused) => Figure::count(ID, refused, "edits"),
        Err(why) => Figure::unmeasured(ID, "edits", why),
    }
}

fn refused(agmi: &Agmi) -> Result<u64, String> {
    let custody = agmi.custody.as_deref().ok_or(
        "`custody`, whose store is edited, is neither beside `custody-lab` nor on PATH; build it with `cargo build --release`",
    )?;
    let mut command = Command::new(&agmi.interpreter);
    command.args(["-m", "custody_agmi", "--json", "--custody"]).arg(custody);
    if let Some(package) = &agmi.package {
        command.env("PYTHONPATH", package);
    }
    let missing = "install it with `pip install ./integrations/agmi`, and name an interpreter that has it in CUSTODY_PYTHON";
    let ran = command.output().map_err(|_| format!("agmi could not be started; {missing}"))?;
    let said = serde_json::from_slice::<CommandOutput>(&ran.stdout);
    said.map(|said| said.refused_on_read).map_err(|_| format!("agmi did not run; {missing}"))
}
