//! `custody ledger cosign`: showing the head to the witnesses.

use anyhow::ensure;
use custody_log::{SignedHead, consistency_proof};
use custody_runtime::StoreError;
use custody_witness::{CosignError, CosignHeadError, LatestCosigned, WitnessPin, WitnessPins};
use serde_json::json;

use crate::command::witness::{Pinned, pinned};
use crate::context::GlobalContext;
use crate::output::{BAD, ExitStatus, GOOD, chain, count, json_line, line, paint, shown};

pub(super) fn run(context: &GlobalContext) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let pinned = pinned(&store)?;
    let pins: Vec<&WitnessPin> = pinned.pins.iter().flat_map(WitnessPins::iter).collect();
    ensure!(!pins.is_empty(), "no witness is pinned; see `custody witness add --help`");
    let signed = store.checkpoint()?;
    let head = SignedHead { checkpoint: signed.checkpoint, note: signed.note };
    let mut outcome = ExitStatus::Success;
    for pin in pins {
        let cosigned = pinned.folder.cosign_head(pin, &head, |old| {
            // A store that cannot be read gives no proof, and the witness's answer is then "no proof".
            let new = head.checkpoint.size;
            let proof =
                store.look(|view| Ok::<_, StoreError>(consistency_proof(view.leaves(), old, new)));
            proof.ok().flatten()
        });
        if cosigned.is_err() {
            outcome = ExitStatus::Failure;
        }
        print(context, &pinned, pin, cosigned, &signed.vkey)?;
    }
    Ok(outcome)
}

fn print(
    context: &GlobalContext,
    pinned: &Pinned,
    pin: &WitnessPin,
    cosigned: Result<LatestCosigned, CosignHeadError>,
    log_key: &str,
) -> anyhow::Result<()> {
    let name = pin.name();
    match cosigned {
        Ok(LatestCosigned { cosigned, .. }) => {
            let size = cosigned.checkpoint.size;
            if context.json {
                return json_line(&json!({
                    "witness": name, "cosigned": true, "size": size, "time": cosigned.time_s,
                }));
            }
            let over = count(size, "record");
            line(format_args!("{}: `{name}` over {over}", paint(GOOD, "cosigned")));
        }
        Err(error) => {
            let remedy = remedy(&error, pinned, log_key);
            let why = shown(&chain(&error));
            if context.json {
                return json_line(&json!({ "witness": name, "cosigned": false, "reason": why }));
            }
            line(format_args!("{}: `{name}`: {why}{remedy}", paint(BAD, "not cosigned")));
        }
    }
    Ok(())
}

/// What to do about it, if that is known.
fn remedy(error: &CosignHeadError, pinned: &Pinned, log_key: &str) -> String {
    let origin = &pinned.origin;
    match error {
        CosignHeadError::Cosign(CosignError::UnknownLog) => {
            format!(
                "; there: custody witness add-log --state DIR --origin {origin} --key {log_key}"
            )
        }
        CosignHeadError::Cosign(CosignError::OtherKey) => format!(
            "; if the log key was rotated, there: custody witness add-log --state DIR --origin {origin} --key \
             {log_key} --replace-key"
        ),
        CosignHeadError::Cosign(CosignError::Ahead { .. } | CosignError::Forked) => {
            "; run `custody ledger verify --witness`".to_owned()
        }
        CosignHeadError::Cosign(
            CosignError::Unreachable(_)
            | CosignError::NotCosigned
            | CosignError::NoProof { .. }
            | CosignError::Status { .. },
        )
        | CosignHeadError::Keep(_) => String::new(),
    }
}
