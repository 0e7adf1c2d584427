//! Starting: a policy from an example, or tool manifests from a server's own list.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use custody_arguments::ToolName;
use custody_policy::{draft, examples};
use serde_json::{Value, json};

use crate::command::session::serve::read;
use crate::context::GlobalContext;
use crate::file_error::unwritable;
use crate::output::{BOLD, DIM, ExitStatus, count, json_line, line, note, paint};

/// Start a policy from an example, or draft tool manifests from a server's own list.
///
/// `custody policy init` lists the examples, `custody policy init money` prints one. With --tools, drafts manifests
/// from the result of MCP `tools/list` or the `tools` of an OpenAI or Anthropic request, and says what it guessed:
/// check each line, since the list is its server's word.
#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    /// The example
    #[arg(conflicts_with = "tools")]
    example: Option<String>,
    /// The list of tools, JSON
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// The name of the server whose tools they are: each is then called SERVER/TOOL
    #[arg(long, value_name = "NAME", requires = "tools", value_parser = server_name)]
    server: Option<String>,
    /// Write into this file, which must not be there yet [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the example's table of cases instead, for `custody policy test`
    #[arg(long, requires = "example")]
    cases: bool,
}

pub(super) fn run(context: &GlobalContext, args: &Init) -> anyhow::Result<ExitStatus> {
    if let Some(list) = &args.tools {
        return drafted(context, list, args.server.as_deref(), args.out.as_deref());
    }
    let Some(name) = &args.example else {
        for example in examples() {
            if context.json {
                json_line(&json!({ "name": example.name, "description": example.description }))?;
            } else {
                let name = format!("{:<12}", example.name);
                line(format_args!("{} {}", paint(BOLD, name), example.description));
            }
        }
        return Ok(ExitStatus::Success);
    };
    let Some(example) = examples().iter().find(|example| example.name == name) else {
        let names: Vec<&str> = examples().iter().map(|example| example.name).collect();
        bail!("there is no example of that name; use {}", names.join(", "));
    };
    put(if args.cases { example.cases } else { example.text }, args.out.as_deref())?;
    Ok(ExitStatus::Success)
}

/// A name that can stand before the slash of `server/tool`.
fn server_name(name: &str) -> Result<String, String> {
    ToolName::parse(name).map_err(|error| error.to_string())?;
    if name.contains(['/', '"', '\\']) {
        return Err("a server's name has no slash and no quotation mark".to_owned());
    }
    Ok(name.to_owned())
}

fn drafted(
    context: &GlobalContext,
    list: &Path,
    server: Option<&str>,
    out: Option<&Path>,
) -> anyhow::Result<ExitStatus> {
    let value: Value = serde_json::from_str(&read(list)?)
        .with_context(|| format!("`{}` is no JSON", list.display()))?;
    let mut draft =
        draft(&value).with_context(|| format!("could not draft from `{}`", list.display()))?;
    if let Some(server) = server {
        draft.toml = format!("server = \"{server}\"\n\n{}", draft.toml);
    }
    if context.json {
        // Where the file was written to is said beside it.
        out.map_or(Ok(()), |_| put(&draft.toml, out))?;
        json_line(&draft)?;
        return Ok(ExitStatus::Success);
    }
    put(&draft.toml, out)?;
    for guess in &draft.guesses {
        let argument = guess.argument.as_deref().map(|name| format!(".{name}")).unwrap_or_default();
        note(format_args!("{}{argument}: {}, {}", guess.tool, guess.guess, guess.because));
    }
    note(format_args!("{} to check.", count(draft.guesses.len() as u64, "guessed value")));
    Ok(ExitStatus::Success)
}

/// Prints `text`, or writes it into a file that is not there yet.
fn put(text: &str, out: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = out else {
        line(text.trim_end());
        return Ok(());
    };
    let mut file = std::fs::File::create_new(path).with_context(|| {
        format!("could not make `{}`; name a file that is not there", path.display())
    })?;
    file.write_all(text.as_bytes()).with_context(|| unwritable(path))?;
    note(paint(DIM, format_args!("wrote {}", path.display())));
    Ok(())
}
