//! `gateway.toml`: which connections there are and what each may do. What loosens holds only if the owner signed it.
//!
//! The file is a watched item of the store. What the owner adopted is in force; what the file on disk says
//! besides holds at once where it tightens, and waits for the owner where it loosens.

use std::collections::{BTreeMap, BTreeSet};

use custody_gateway::mcp::ServerPins;
use custody_gateway::proxy::{ConnectionSettings, GuardMode, UserText};
use custody_kernel::key::Key;
use custody_kernel::memory::item::Version;
use custody_kernel::namespace::{Namespace, Tenant};
use custody_kernel::record::{AdminRequest, Request};
use custody_kernel::state::State;
use custody_log::Digest;
use custody_runtime::{Store, StoreError};
use serde::{Deserialize, Serialize};

/// The key of the item that holds the settings.
pub const SETTINGS_KEY: &str = "gateway.toml";

/// The settings as they are written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GatewaySettings {
    /// The connections, by name. Each is a principal of the store of that name.
    pub connection: BTreeMap<String, ConnectionEntry>,
    /// What the owner pinned of MCP servers, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub server: BTreeMap<String, ServerPins>,
}

/// One connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionEntry {
    /// Whether calls that are not allowed go on.
    pub mode: GuardMode,
    /// Which text in the role of the user is the user's.
    pub user_text: UserText,
    /// Whether requests are refused that nobody can decide here.
    pub strict: bool,
    /// Whether the model is asked for the calls that it means to make, before it reads anything but the user.
    pub intents: bool,
    /// Whether a hook in the host asks about calls that wait for a human.
    pub host_asks: bool,
    /// SHA-256 of the system texts that are the operator's.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub system_texts: BTreeSet<Digest>,
    /// The tools, as in a file of tool manifests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<String>,
    /// Where requests go, if not to the vendor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Whether they may go to a link-local address, which no vendor has.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_link_local: bool,
}

/// The text is not settings.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct SettingsError {
    /// The line, from 1.
    pub line: usize,
    /// The problem there.
    pub reason: String,
}

/// The settings that the owner signed are not known.
#[derive(Debug, thiserror::Error)]
pub enum SignedSettingsError {
    /// The store cannot be read.
    #[error("the record cannot be read: {0}")]
    Store(#[from] StoreError),
    /// The owner adopted a file that is no settings.
    #[error(
        "the `{SETTINGS_KEY}` that the owner adopted is not understood, {0}; correct it and adopt it again"
    )]
    Settings(#[from] SettingsError),
}

impl GatewaySettings {
    /// Reads the settings.
    ///
    /// # Errors
    /// [`SettingsError`] when they are not understood, unknown names included.
    pub fn parse(text: &str) -> Result<Self, SettingsError> {
        toml::from_str(text).map_err(|error| {
            let before = error.span().map_or(0, |span| span.start);
            let line = 1 + text.get(..before).unwrap_or_default().matches('\n').count();
            let reason = error.message().lines().next().unwrap_or_default().to_owned();
            SettingsError { line, reason }
        })
    }

    /// The settings that the owner signed last; none before that.
    ///
    /// # Errors
    /// [`SignedSettingsError`] when the store cannot be read, or what the owner signed is no settings.
    pub fn signed(store: &Store) -> Result<Option<Self>, SignedSettingsError> {
        match store.state(signed_version)? {
            Some(version) => Self::of_version(store, version),
            None => Ok(None),
        }
    }

    /// The settings in `version` of their item, if the owner adopted it.
    pub(crate) fn of_version(
        store: &Store,
        version: Version,
    ) -> Result<Option<Self>, SignedSettingsError> {
        // An item of that name that somebody wrote is not the owner's word.
        let record = store.record(version.entry)?;
        let is_adopted = matches!(record.request, Request::Admin(AdminRequest::AdoptFile { .. }));
        if !is_adopted {
            return Ok(None);
        }
        let text = store.content(version.content)?;
        Ok(Some(Self::parse(&String::from_utf8_lossy(&text))?))
    }

    /// What is in force: of each connection that the owner signed and the file still has, the tighter of both.
    /// Returns what of the file waits for the owner besides.
    pub fn in_force(&self, signed: &Self) -> (Self, Vec<String>) {
        let (mut connection, mut waiting) = (BTreeMap::new(), Vec::new());
        for (name, wanted) in &self.connection {
            match signed.connection.get(name) {
                None => waiting.push(format!("`{name}` is new")),
                Some(signed) => {
                    let in_force = signed.tightened_by(wanted);
                    if in_force != *wanted {
                        waiting.push(format!("`{name}` would allow more"));
                    }
                    connection.insert(name.clone(), in_force);
                }
            }
        }
        for (name, pins) in &self.server {
            if signed.server.get(name) != Some(pins) {
                waiting.push(format!("what is pinned of the server `{name}` is something else"));
            }
        }
        // Without its pins a server would be believed more, so those that are missing in the file stay.
        let server = signed.server.iter().map(|(name, signed)| {
            let pins =
                self.server.get(name).map_or_else(|| signed.clone(), |it| it.tightened(signed));
            (name.clone(), pins)
        });
        (Self { connection, server: server.collect() }, waiting)
    }
}

/// The version of the item that holds the settings.
pub(crate) fn signed_version(state: &State) -> Option<Version> {
    let key = SETTINGS_KEY.parse::<Key>().ok()?;
    state.item(&Namespace::shared(Tenant::main()), &key)?.current
}

impl ConnectionEntry {
    /// What is believed of the connection.
    pub fn settings(&self) -> ConnectionSettings {
        ConnectionSettings {
            mode: self.mode,
            user_text: self.user_text,
            is_strict: self.strict,
            asks_intents: self.intents,
            host_asks: self.host_asks,
            system_texts: self.system_texts.clone(),
        }
    }

    /// The entry with what `wanted` tightens of it. What has no order stays as it was signed.
    fn tightened_by(&self, wanted: &Self) -> Self {
        let tightened = wanted.settings().tightened(&self.settings());
        Self {
            mode: tightened.mode,
            user_text: tightened.user_text,
            strict: tightened.is_strict,
            intents: tightened.asks_intents,
            host_asks: tightened.host_asks,
            system_texts: tightened.system_texts,
            tools: self.tools.clone(),
            upstream: self.upstream.clone(),
            allow_link_local: self.allow_link_local && wanted.allow_link_local,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> GatewaySettings {
        GatewaySettings::parse(text).unwrap()
    }

    #[test]
    fn what_loosens_waits_and_what_tightens_holds() {
        let signed = parsed(
            "[connection.a]\nmode = 'guard'\nuser_text = 'hook'\nhost_asks = true\nupstream = 'https://one'\n\
             [connection.b]\nuser_text = 'trusted'\n[connection.gone]\n",
        );
        let file = parsed(
            "[connection.a]\nmode = 'observe'\nuser_text = 'trusted'\nupstream = 'https://two'\n\
             [connection.b]\nmode = 'guard'\nuser_text = 'never'\nstrict = true\n[connection.new]\n",
        );
        let (in_force, waiting) = file.in_force(&signed);
        let expected = parsed(
            "[connection.a]\nmode = 'guard'\nuser_text = 'hook'\nupstream = 'https://one'\n\
             [connection.b]\nmode = 'guard'\nuser_text = 'never'\nstrict = true\n",
        );
        assert_eq!(in_force, expected);
        assert_eq!(waiting, ["`a` would allow more", "`new` is new"]);
        assert_eq!(signed.in_force(&signed), (signed.clone(), vec![]));
    }

    #[test]
    fn unknown_names_and_values_are_errors_at_their_line() {
        for (text, line) in [
            ("[connection.a]\nmode = 'gaurd'\n", 2),
            ("\n[conection.a]\n", 2),
            ("[connection.a]\nuser_text = 'hook'\ntrusted = true\n", 3),
            ("[connection.a\n", 1),
        ] {
            assert_eq!(GatewaySettings::parse(text).unwrap_err().line, line, "{text}");
        }
    }
}
