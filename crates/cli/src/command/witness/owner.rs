//! The owner's half: which witnesses a store has.

use anyhow::{Context as _, ensure};
use custody_kernel::principal::Principal;
use custody_keys::HumanKey;
use custody_log::{Checkpoint, CosignerKey, LogName, Timestamp};
use custody_runtime::{Store, StoreError};
use custody_witness::{
    LatestCosigned, PinFolder, PinFolderError, WitnessPin, WitnessPins, WitnessUrl,
};
use ed25519_dalek::VerifyingKey;
use serde_json::json;

use crate::context::GlobalContext;
use crate::credential::{has_terminal, unlock};
use crate::output::{
    DIM, ExitStatus, cell, count, json_line, line, moment, paint, preview, shown, table,
};

/// Pin a witness of this store: name it, and say where it is and which key it signs with. Owner only.
///
/// Get the key from whoever runs the witness, by a way that an attacker does not control; `custody witness show` prints
/// it there. The pins are signed with the owner's key, whose passphrase is asked for on the terminal. The witness has
/// to know this store too: `custody witness add-log` on its side, with the origin and the key that this prints.
#[derive(Debug, clap::Args)]
pub(crate) struct Add {
    /// What to call it: 1 to 64 of a-z, 0-9 and `-`
    name: String,
    /// Where it is, as in `http://127.0.0.1:7780`
    #[arg(long, value_name = "URL")]
    url: WitnessUrl,
    /// Its verifier key, as in `witness.example/w1+24b5d9fe+BP0XJDha…`
    #[arg(long, value_name = "VKEY")]
    key: CosignerKey,
}

/// Pin a witness no longer. Owner only.
#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// What it is called
    name: String,
    /// Do it; without this, only show what would be removed
    #[arg(long)]
    apply: bool,
}

/// Sign an empty set of pins, whatever is there now. Owner only.
///
/// For a store that was deliberately restored from a copy and adopted: its witnesses saw more than it has, and will
/// say so for as long as they are asked. Pin new ones then, with new keys.
#[derive(Debug, clap::Args)]
pub(crate) struct Reset {
    /// Do it; without this, only say what would be lost
    #[arg(long)]
    apply: bool,
}

/// The pinned witnesses of a store, and where they are kept.
pub(crate) struct Pinned {
    pub(crate) folder: PinFolder,
    pub(crate) origin: LogName,
    /// None before the first was pinned.
    pub(crate) pins: Option<WitnessPins>,
    owner: OwnerOf,
}

struct OwnerOf {
    name: String,
    key: VerifyingKey,
}

/// Why the pins of a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PinnedError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Folder(#[from] PinFolderError),
    #[error("the store has no owner")]
    NoOwner,
    /// The owner signed the pins over records that are not there.
    #[error(
        "the owner signed the pinned witnesses over {}, and the store has {}: it was rolled back",
        count(*.signed, "record"), count(*.size, "record")
    )]
    RolledBack { signed: u64, size: u64 },
    /// The owner signed the pins over other records.
    #[error(
        "the first {} are others than those over which the owner signed the pinned witnesses: the store was forked",
        count(*.signed, "record")
    )]
    Forked { signed: u64 },
}

/// What the checkpoints of a store begin with.
pub(crate) fn origin_of(store: &Store) -> Result<LogName, StoreError> {
    Ok(store.checkpoint()?.checkpoint.origin)
}

impl Pinned {
    /// Finds out whose the store is, without reading its pins.
    fn of(store: &Store) -> Result<Self, PinnedError> {
        let owner = store.state(|state| state.owner().cloned())?.ok_or(PinnedError::NoOwner)?;
        let key = Principal::verifying_key(&owner).ok_or(PinnedError::NoOwner)?;
        let origin = origin_of(store)?;
        let folder = PinFolder::new(store.keys().path());
        let owner = OwnerOf { name: owner.name, key };
        Ok(Self { folder, origin, pins: None, owner })
    }

    /// The owner's key, unlocked with the passphrase typed on the terminal.
    fn unlock(&self, store: &Store) -> anyhow::Result<HumanKey> {
        ensure!(
            has_terminal(),
            "witnesses are pinned by the owner; run this on a terminal, where the passphrase is typed"
        );
        let key = unlock(store.keys(), &self.owner.name)?;
        ensure!(
            key.public_key().0 == self.owner.key.to_bytes(),
            "the key of `{}` is not the one that owns this store",
            self.owner.name
        );
        Ok(key)
    }
}

/// The pins of a store, as its owner signed them over records that are still there.
pub(crate) fn pinned(store: &Store) -> Result<Pinned, PinnedError> {
    let mut pinned = Pinned::of(store)?;
    pinned.pins = pinned.folder.load(&pinned.origin, &pinned.owner.key)?;
    if let Some(pins) = &pinned.pins {
        let signed = &pins.head;
        let (size, root) = store.look(|view| {
            let size = view.leaves().len() as u64;
            Ok::<_, StoreError>((size, view.root_at(signed.size)))
        })?;
        match root {
            None => return Err(PinnedError::RolledBack { signed: signed.size, size }),
            Some(root) if root != signed.root => {
                return Err(PinnedError::Forked { signed: signed.size });
            }
            Some(_) => {}
        }
    }
    Ok(pinned)
}

fn head_of(store: &Store, origin: &LogName) -> anyhow::Result<Checkpoint> {
    let (size, root) = store.root()?;
    Ok(Checkpoint { origin: origin.clone(), size, root })
}

pub(super) fn add(context: &GlobalContext, args: Add) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let mut pinned = pinned(&store)?;
    let head = head_of(&store, &pinned.origin)?;
    let mut pins = pinned.pins.take().unwrap_or_else(|| WitnessPins::new(head.clone()));
    pins.head = head;
    let name = args.name.clone();
    pins.add(WitnessPin::new(&args.name, args.url, args.key)?)?;
    let owner = pinned.unlock(&store)?;
    pinned.folder.save(&pins, owner.signing_key())?;
    let (origin, key) = (&pinned.origin, store.checkpoint()?.vkey);
    if context.json {
        json_line(&json!({ "pinned": name, "origin": origin.as_str(), "log_key": key }))?;
    } else {
        line(format_args!(
            "`{name}` is a witness of this store. On its side, unless it knows the store:"
        ));
        line(format_args!("  custody witness add-log --state DIR --origin {origin} --key {key}"));
        line("Then `custody ledger cosign` shows it the head.");
    }
    Ok(ExitStatus::Success)
}

pub(super) fn list(context: &GlobalContext) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let Pinned { folder, origin, pins, .. } = pinned(&store)?;
    let pins: Vec<WitnessPin> = pins.iter().flat_map(WitnessPins::iter).cloned().collect();
    let mut rows = Vec::new();
    for pin in &pins {
        rows.push((pin, folder.cosigned(pin, &origin)?));
    }
    if context.json {
        for (pin, cosigned) in rows {
            json_line(&json!({
                "name": pin.name(),
                "url": pin.url.to_string(),
                "key": pin.key.to_string(),
                "cosigned_size": cosigned.as_ref().map(|cosigned| cosigned.cosigned.checkpoint.size),
                "cosigned_at": cosigned.as_ref().map(cosigned_at),
            }))?;
        }
    } else if rows.is_empty() {
        line("No witness is pinned; see `custody witness add --help`.");
    } else {
        let cells: Vec<_> = rows
            .iter()
            .map(|(pin, cosigned)| {
                let last = cosigned.as_ref().map_or_else(
                    || "nothing yet".to_owned(),
                    |last| {
                        let size = count(last.cosigned.checkpoint.size, "record");
                        format!("{size}, {}", moment(cosigned_at(last)))
                    },
                );
                vec![cell(pin.name()), cell(&pin.url), cell(last), (pin.key.to_string(), DIM)]
            })
            .collect();
        table(&["witness", "url", "cosigned last", "key"], &cells);
    }
    Ok(ExitStatus::Success)
}

/// When a witness cosigned, by its clock.
pub(crate) const fn cosigned_at(latest: &LatestCosigned) -> Timestamp {
    Timestamp(latest.cosigned.time_s.saturating_mul(1000))
}

pub(super) fn remove(context: &GlobalContext, args: &Remove) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let mut pinned = pinned(&store)?;
    let pins = pinned.pins.take().filter(|pins| pins.iter().any(|pin| pin.name() == args.name));
    let mut pins = pins.with_context(|| {
        format!("there is no witness `{}`; see `custody witness list`", shown(&args.name))
    })?;
    if !args.apply {
        return preview(context.json, &format!("pin `{}` no longer", args.name));
    }
    let owner = pinned.unlock(&store)?;
    pins.remove(&args.name);
    pins.head = head_of(&store, &pinned.origin)?;
    pinned.folder.save(&pins, owner.signing_key())?;
    done(
        context,
        &json!({ "removed": args.name }),
        &format!("`{}` is a witness no longer.", args.name),
    )
}

pub(super) fn reset(context: &GlobalContext, args: &Reset) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    let pinned = Pinned::of(&store)?;
    if !args.apply {
        let would =
            "forget every pinned witness and what they cosigned, and sign that there is none";
        return preview(context.json, would);
    }
    let owner = pinned.unlock(&store)?;
    let pins = WitnessPins::new(head_of(&store, &pinned.origin)?);
    pinned.folder.save(&pins, owner.signing_key())?;
    done(context, &json!({ "reset": true }), "No witness is pinned now.")
}

fn done(
    context: &GlobalContext,
    json: &serde_json::Value,
    text: &str,
) -> anyhow::Result<ExitStatus> {
    if context.json {
        json_line(json)?;
    } else {
        line(paint(DIM, text));
    }
    Ok(ExitStatus::Success)
}
