//! `custody cert show`: a certificate for people.

use std::path::PathBuf;

use custody_certificate::{Unverified, key_id};
use custody_log::Digest;
use serde_json::{Value, json};

use super::describe::Shown;
use super::key::KeyArgs;
use super::{html, markdown, text};
use crate::context::GlobalContext;
use crate::output::{ExitStatus, json_line, line};

/// How a certificate is written for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For a terminal
    Text,
    /// For a report or an issue
    Markdown,
    /// One page without scripts, which fetches nothing
    Html,
}

/// Show a certificate to people: the outcome, what failed, the counts, then the lists.
///
/// With the owner's public key it is verified first and shown only if it holds. Without one it is shown under a banner
/// that says that nothing was verified. Long lists are shortened, and say by how much.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The certificate; `-` is standard input
    file: PathBuf,
    /// How to write it
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Every row of every list
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    key: KeyArgs,
}

pub(super) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let key = args.key.given()?;
    let file = super::read(&args.file)?;
    let unverified = match super::opened(&file, key.as_ref()) {
        Ok(unverified) => unverified,
        Err(refusal) => return super::refused(context, &refusal),
    };
    if context.json {
        return print_json(&unverified, key.is_some());
    }
    let shown = Shown {
        certificate: unverified.certificate(),
        file: Digest::of(&file),
        key: key.as_ref().map(key_id),
        claimed_key: unverified.key_id(),
        all: args.all,
    };
    let page = shown.page();
    match args.format {
        Format::Text => text::print(&page),
        Format::Markdown => line(markdown::render(&page).trim_end()),
        Format::Html => line(html::render(&page).trim_end()),
    }
    Ok(ExitStatus::Success)
}

/// The statement as it stands in the file, with whether anybody checked it.
fn print_json(unverified: &Unverified, is_verified: bool) -> anyhow::Result<ExitStatus> {
    let statement: Value = serde_json::from_slice(unverified.payload())?;
    json_line(
        &json!({ "verified": is_verified, "key": unverified.key_id(), "statement": statement }),
    )?;
    Ok(ExitStatus::Success)
}
