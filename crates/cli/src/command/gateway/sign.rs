//! Changing the settings of the gateway: written to their file and adopted by the owner, so that they are signed.

use std::path::Path;

use anyhow::{Context as _, bail};
use custody_kernel::principal::Authority;
use custody_runtime::Store;
use custody_runtime::store::Receipt;
use custody_service::settings::{GatewaySettings, SETTINGS_KEY};

use super::{watched, whole_file};

/// What stands above the settings in their file.
const HEAD: &str = "# The connections of `custody serve`. What allows more than before holds only after `custody connect` or\n\
                    # `custody enforce`, which the owner signs; what allows less holds at once.\n\n";

/// Writes the settings and adopts them. The file before stays if anything fails.
pub(super) fn sign(
    store: &Store,
    owner: &Authority,
    path: &Path,
    settings: &GatewaySettings,
) -> anyhow::Result<()> {
    let before = std::fs::read(path).ok();
    whole_file::write(path, format!("{HEAD}{}", toml::to_string(settings)?).as_bytes())?;
    let adopted = watched::adopt(store, owner, &SETTINGS_KEY.parse()?, path);
    if adopted.is_err() {
        match before {
            Some(before) => whole_file::write(path, &before)?,
            None => std::fs::remove_file(path).context("could not remove the file")?,
        }
    }
    adopted
}

/// Fails with the reason of a refusal.
pub(super) fn accepted(receipt: &Receipt) -> anyhow::Result<()> {
    match receipt.answer.refusal() {
        None => Ok(()),
        Some(refusal) => bail!("refused: {refusal}"),
    }
}
