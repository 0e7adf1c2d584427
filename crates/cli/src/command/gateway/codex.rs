//! What Codex needs in its `config.toml` for its requests to come by Custody: a provider of models, and its choice.
//!
//! Codex goes on writing that file, so the rest of it stays byte for byte, and what was changed is found again by its
//! text.
//!
//! Source: Codex documentation, "Config"; tried with the version that
//! [`AgentHost`](super::agent_host::AgentHost) names.

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use toml::{Spanned, Table, Value};

use super::changed_files::TextChange;
use super::service_address::ServiceAddress;

/// What the provider is called there.
const PROVIDER: &str = "custody";
/// The provider whose requests go to OpenAI, which is Codex's own.
const VENDOR: &str = "openai";

/// What of the file is looked at.
#[derive(Debug, Deserialize)]
struct CodexConfig {
    model_provider: Option<Spanned<String>>,
    #[serde(default)]
    model_providers: Table,
}

/// The file `before`, changed so that requests come to `address` with `key`, and which texts of it changed. Where they
/// went before has to be `is_upstream_named`, if it is not OpenAI.
///
/// # Errors
/// When the file is not understood, or nobody said where requests go on to.
pub(super) fn changed(
    before: &str,
    address: &ServiceAddress,
    key: &str,
    is_upstream_named: bool,
) -> anyhow::Result<(String, Vec<TextChange>)> {
    let config: CodexConfig = toml::from_str(before).context("it is not TOML as Codex reads it")?;
    let CodexConfig { model_provider: chosen, model_providers: known } = config;
    ensure!(!known.contains_key(PROVIDER), "it has a provider `{PROVIDER}` already");
    let own = chosen.as_ref().map(|name| name.get_ref().as_str()).filter(|name| *name != VENDOR);
    if let (Some(own), false) = (own, is_upstream_named) {
        bail!("its requests go to the provider `{own}`; say where that is with --upstream");
    }
    let own = own.and_then(|name| known.get(name)).and_then(Value::as_table).cloned();
    let added = format!("\n{}", toml::to_string(&provider(own, address, key)?)?);
    let (start, mut changes) = choice(before, chosen);
    let gap = if start.is_empty() || start.ends_with('\n') { "" } else { "\n" };
    let after = format!("{start}{gap}{added}");
    changes.push(TextChange { was: String::new(), is: added });
    let read: CodexConfig = toml::from_str(&after).context("its providers are in one line")?;
    let is_chosen = read.model_provider.is_some_and(|name| name.get_ref() == PROVIDER);
    ensure!(is_chosen && read.model_providers.contains_key(PROVIDER), "it is written unusually");
    Ok((after, changes))
}

/// The table of the provider: that of the provider `own`, if the user has one, with another address and our key.
fn provider(own: Option<Table>, address: &ServiceAddress, key: &str) -> anyhow::Result<Table> {
    let mut provider = own.unwrap_or_else(|| {
        // It signs in as Codex does by itself: with the key of `codex login`, or in `CODEX_API_KEY`.
        Table::from_iter([("requires_openai_auth".to_owned(), Value::Boolean(true))])
    });
    provider.insert("name".into(), "Custody".into());
    provider.insert("base_url".into(), format!("{}/openai/v1", address.base_url()).into());
    provider.insert("wire_api".into(), "responses".into());
    let headers = provider.entry("http_headers").or_insert_with(|| Table::new().into());
    let headers = headers.as_table_mut().context("`http_headers` of its provider is no table")?;
    headers.insert("x-custody-key".into(), key.into());
    let providers = Table::from_iter([(PROVIDER.to_owned(), Value::Table(provider))]);
    Ok(Table::from_iter([("model_providers".to_owned(), Value::Table(providers))]))
}

/// The file with its provider chosen: in the line where another is, or in a new one before everything else, since no
/// such line may stand after a table.
fn choice(before: &str, chosen: Option<Spanned<String>>) -> (String, Vec<TextChange>) {
    let value = Value::from(PROVIDER).to_string();
    let Some(span) = chosen.map(|name| name.span()) else {
        let is = format!("model_provider = {value}\n");
        return (format!("{is}{before}"), vec![TextChange { was: String::new(), is }]);
    };
    let (head, tail) = (before.get(..span.start), before.get(span.end..));
    let (head, tail) = (head.unwrap_or_default(), tail.unwrap_or_default());
    let line_start = head.rfind('\n').map_or(0, |at| at + 1);
    let (rest, opening) = (head.get(..line_start), head.get(line_start..));
    let (rest, opening) = (rest.unwrap_or_default(), opening.unwrap_or_default());
    let was = format!("{opening}{}", before.get(span).unwrap_or_default());
    let is = format!("{opening}{value}");
    (format!("{rest}{is}{tail}"), vec![TextChange { was, is }])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> ServiceAddress {
        "127.0.0.1:7411".parse().unwrap()
    }

    fn read(text: &str) -> Table {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_rest_of_the_file_stays_and_what_changed_can_be_taken_back() {
        let cases = [
            "",
            "model = \"gpt-5\" # mine",
            "# first\nmodel = \"gpt-5\"\n\n[projects.\"/x\"]\ntrust_level = \"trusted\"\n",
            "model_provider   =  'openai' # mine\n[tui]\n",
            "[model_providers.azure]\nname = \"a\"\nbase_url = \"https://example.org\"",
        ];
        for before in cases {
            let (after, changes) = changed(before, &address(), "custody_x", false).unwrap();
            let provider = &read(&after)["model_providers"]["custody"];
            assert_eq!(provider["base_url"].as_str(), Some("http://127.0.0.1:7411/openai/v1"));
            assert_eq!(provider["http_headers"]["x-custody-key"].as_str(), Some("custody_x"));
            assert_eq!(read(&after)["model_provider"].as_str(), Some("custody"), "{after}");
            let undone = changes.iter().fold(after, |text, change| {
                assert_eq!(text.matches(&change.is).count(), 1, "{text}");
                text.replace(&change.is, &change.was)
            });
            assert_eq!(undone.trim_end(), before.trim_end());
        }
    }

    #[test]
    fn another_provider_needs_an_upstream_and_keeps_how_it_signs_in() {
        let before = "model_provider = \"mine\"\n[model_providers.mine]\nname = \"m\"\nenv_key = \"MINE\"\n\
                      base_url = \"http://10.0.0.7/v1\"\nhttp_headers = { a = \"b\" }\n";
        let refused = changed(before, &address(), "custody_x", false).unwrap_err();
        assert!(refused.to_string().contains("--upstream"), "{refused}");
        let (after, _) = changed(before, &address(), "custody_x", true).unwrap();
        let provider = &read(&after)["model_providers"]["custody"];
        assert_eq!(provider["env_key"].as_str(), Some("MINE"));
        assert_eq!(provider["http_headers"]["a"].as_str(), Some("b"));
        assert!(provider.get("requires_openai_auth").is_none());
    }

    #[test]
    fn what_is_not_understood_stays_as_it_is() {
        for before in ["a = ", "model_providers = { a = {} }", "[model_providers.custody]\n"] {
            assert!(changed(before, &address(), "custody_x", true).is_err(), "{before}");
        }
    }
}
