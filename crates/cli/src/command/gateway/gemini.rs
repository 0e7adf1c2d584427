//! What Gemini CLI needs in its `.env` for its requests to come by Custody.
//!
//! Source: Gemini CLI documentation, "Configuration"; tried with the version that
//! [`AgentHost`](super::agent_host::AgentHost) names.

use anyhow::{bail, ensure};
use serde_json::Value;

use super::changed_files::TextChange;
use super::service_address::ServiceAddress;

/// Where requests go.
const BASE_URL: &str = "GOOGLE_GEMINI_BASE_URL";
/// What is sent with each.
const HEADERS: &str = "GEMINI_CLI_CUSTOM_HEADERS";
/// The ways of signing in with which requests go to another service, or in a form that the proxy does not read.
const OTHER_SIGN_INS: [&str; 3] = ["oauth-personal", "compute-default-credentials", "vertex-ai"];

/// The file `before` of variables, changed so that requests come to `address` with `key`, and which texts of it
/// changed. Where they went before has to be `is_upstream_named`, if that stands there.
///
/// # Errors
/// When nobody said where requests go on to.
pub(super) fn changed(
    before: &str,
    address: &ServiceAddress,
    key: &str,
    is_upstream_named: bool,
) -> anyhow::Result<(String, Vec<TextChange>)> {
    if let (Some(own), false) = (variable(before, BASE_URL), is_upstream_named) {
        bail!("its requests go to `{own}`; name that with --upstream");
    }
    let own = variable(before, HEADERS).map_or(String::new(), |own| format!("{own}, "));
    ensure!(!own.contains(['\'', '"', '\\', '\n']), "its {HEADERS} is written unusually");
    // Of two lines with the same name the later one holds.
    let added = format!(
        "{BASE_URL}=\"{}/gemini\"\n{HEADERS}=\"{own}x-custody-key: {key}\"\n",
        address.base_url()
    );
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let after = format!("{before}{gap}{added}");
    Ok((after, vec![TextChange { was: String::new(), is: added }]))
}

/// Fails if the environment sends requests elsewhere, which goes before the file, or the settings in `settings` have
/// Gemini sign in so that its requests cannot come by here.
///
/// # Errors
/// Says what is in the way.
pub(super) fn check(settings: &str) -> anyhow::Result<()> {
    ensure!(
        std::env::var_os(BASE_URL).is_none(),
        "{BASE_URL} is set in the environment, which goes before the file; unset it first"
    );
    let settings: Value = serde_json::from_str(settings).unwrap_or_default();
    let selected = settings["security"]["auth"]["selectedType"].as_str().unwrap_or_default();
    ensure!(
        !OTHER_SIGN_INS.contains(&selected),
        "Gemini CLI signs in by `{selected}`, and only requests with an API key can come by Custody; choose that with \
         /auth there, or use --surface hook"
    );
    Ok(())
}

/// The value of a variable in a file of them.
fn variable(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().map(|line| line.trim().trim_start_matches("export ").trim_start());
    let mut values =
        lines.filter_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix('='));
    let value = values.next_back()?.trim();
    let is_quoted = value.len() > 1
        && ["'", "\""].iter().any(|quote| value.starts_with(quote) && value.ends_with(quote));
    Some(if is_quoted { value.get(1..value.len() - 1)?.to_owned() } else { value.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(before: &str, is_upstream_named: bool) -> anyhow::Result<String> {
        Ok(changed(before, &"127.0.0.1:7411".parse().unwrap(), "custody_x", is_upstream_named)?.0)
    }

    #[test]
    fn variables_are_added_and_headers_that_were_there_are_sent_too() {
        let ours = "GOOGLE_GEMINI_BASE_URL=\"http://127.0.0.1:7411/gemini\"\n";
        let text = after("GEMINI_API_KEY=k", false).unwrap();
        let key = "GEMINI_CLI_CUSTOM_HEADERS=\"x-custody-key: custody_x\"\n";
        assert_eq!(text, format!("GEMINI_API_KEY=k\n{ours}{key}"));
        for own in
            ["export GEMINI_CLI_CUSTOM_HEADERS = 'a: b'\n", "GEMINI_CLI_CUSTOM_HEADERS=a: b\n"]
        {
            let key = "GEMINI_CLI_CUSTOM_HEADERS=\"a: b, x-custody-key: custody_x\"\n";
            assert_eq!(after(own, false).unwrap(), format!("{own}{ours}{key}"));
        }
        assert!(after("GEMINI_CLI_CUSTOM_HEADERS=a: \"b\" c\n", false).is_err());
    }

    #[test]
    fn an_address_that_was_there_has_to_be_named() {
        let own = "GOOGLE_GEMINI_BASE_URL=\"https://example.org\"\n";
        let refused = after(own, false).unwrap_err().to_string();
        assert!(refused.contains("`https://example.org`"), "{refused}");
        assert!(after(own, true).unwrap().starts_with(own));
    }

    #[test]
    fn only_an_api_key_goes_by_here() {
        let settings = "{\"security\":{\"auth\":{\"selectedType\":\"NAME\"}}}";
        assert!(check(&settings.replace("NAME", "oauth-personal")).is_err());
        for settings in [&settings.replace("NAME", "gemini-api-key"), "", "{}"] {
            assert!(check(settings).is_ok(), "{settings}");
        }
    }
}
