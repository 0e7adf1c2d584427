//! The connection of a coding agent: its key, and the change of the host's settings that uses it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::{Authority, Role};
use custody_runtime::Store;
use custody_runtime::principals::NewPrincipal;
use custody_service::settings::{ConnectionEntry, GatewaySettings};
use zeroize::Zeroizing;

use super::agent_host::AgentHost;
use super::changed_files::{ChangedFile, ChangedFiles};
use super::connect::Surface;
use super::hook_command::HookRoute;
use super::hook_settings::with_hooks;
use super::service_address::ServicePlace;
use super::sign::{accepted, sign};
use super::{claude_code, codex, copilot, gemini, watched, whole_file};
use crate::context::GlobalContext;
use crate::output::note;
use crate::programs::hook_program;
use crate::token_file;

/// A coding agent that is to be guarded.
#[derive(Debug)]
pub(super) struct AgentConnection<'a> {
    pub(super) host: AgentHost,
    pub(super) name: &'a str,
    pub(super) entry: ConnectionEntry,
    /// Where `custody serve` is.
    pub(super) service: &'a ServicePlace,
    pub(super) surface: Surface,
    /// The project whose settings are changed, if not the user's.
    pub(super) project: Option<&'a Path>,
}

/// Variables of a host's environment, by their names.
pub(super) type HostVariables = Vec<(&'static str, String)>;

/// A host that is connected.
#[derive(Debug)]
pub(super) struct ConnectedAgent {
    /// Its files that were changed, that with its hooks first.
    pub(super) files: Vec<PathBuf>,
    /// What its user still has to put into its environment, which holds the key.
    pub(super) variables: HostVariables,
}

impl AgentConnection<'_> {
    /// Makes the connection, unless it is there and its key too, and changes the settings of the host.
    pub(super) fn install(
        &self,
        context: &GlobalContext,
        store: &Store,
    ) -> anyhow::Result<ConnectedAgent> {
        if self.has_variables() {
            token_file::check_standard_output()?;
        }
        let Prepared { owner, is_new, key, files } = self.prepare(context, store)?;
        let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
        ChangedFiles::apply(&kept(context, self.name), self.host.name(), files, is_new)?;
        // Not what the host or its user goes on writing.
        if let Some(path) = paths.first().filter(|_| self.has_settings()) {
            watched::adopt(store, &owner, &watched::settings_key(self.name, path)?, path)?;
        }
        Ok(ConnectedAgent { files: paths, variables: self.variables(&key) })
    }

    /// Makes the connection, and returns what to write into which file, and the host's environment.
    pub(super) fn make(
        &self,
        context: &GlobalContext,
        store: &Store,
    ) -> anyhow::Result<(Vec<ChangedFile>, HostVariables)> {
        if self.host == AgentHost::ClaudeCode || self.surface.has_proxy() {
            token_file::check_standard_output()?;
        }
        let Prepared { key, files, .. } = self.prepare(context, store)?;
        Ok((files, self.variables(&key)))
    }

    /// Makes the connection, unless it is there.
    fn prepare(&self, context: &GlobalContext, store: &Store) -> anyhow::Result<Prepared> {
        let Self { host, name, .. } = self;
        ensure!(
            !kept(context, name).exists(),
            "{} is connected already as `{name}`; run `custody connect {} --name {name} --undo` first",
            host.title(),
            host.name()
        );
        let mut settings = GatewaySettings::signed(store)?.unwrap_or_default();
        let is_new = !settings.connection.contains_key(*name);
        let key_file = key_file(context, name);
        let known = if is_new { None } else { Some(self.known_key(&key_file)?) };
        self.check(&key_file)?;
        let owner = context.human(store, None)?;
        let key = match known {
            Some(key) => key,
            None => {
                settings.connection.insert((*name).to_owned(), self.entry.clone());
                sign(store, &owner, &context.gateway_settings(), &settings)?;
                new_key(store, &owner, name)?
            }
        };
        whole_file::write(&key_file, key.as_bytes())?;
        token_file::remember(&context.key_folder(), name, &key_file)?;
        let files = self.plan(&key, &key_file)?;
        Ok(Prepared { owner, is_new, key, files })
    }

    /// The key of a connection that is there.
    fn known_key(&self, key_file: &Path) -> anyhow::Result<Zeroizing<String>> {
        let Self { host, name, .. } = self;
        if !key_file.exists() {
            bail!(
                "there is a connection `{name}` already, and its key is not here; take it back with `custody connect {} \
                 --name {name} --undo`, or give another --name",
                host.name()
            );
        }
        token_file::read(key_file)
    }

    /// Fails before anything is changed if the host's settings cannot be, or the host would ignore its hooks.
    pub(super) fn check(&self, key_file: &Path) -> anyhow::Result<()> {
        if self.host == AgentHost::ClaudeCode
            && self.surface.has_hook()
            && !claude_code::check_version()?
        {
            note("There is no `claude` here to ask for its version; its hooks hold since 2.1.295.");
        }
        self.plan("key", key_file).map(drop)
    }

    /// The host's files, and what they will hold: that with its hooks first.
    fn plan(&self, key: &str, key_file: &Path) -> anyhow::Result<Vec<ChangedFile>> {
        let settings = self.has_settings().then(|| self.settings(key, key_file)).transpose()?;
        let has_proxy = self.surface.has_proxy();
        let proxied = if has_proxy { self.proxied(key)? } else { None };
        Ok(settings.into_iter().chain(proxied).collect())
    }

    /// Whether the file with its hooks is changed.
    fn has_settings(&self) -> bool {
        self.host == AgentHost::ClaudeCode || self.surface.has_hook()
    }

    fn settings(&self, key: &str, key_file: &Path) -> anyhow::Result<ChangedFile> {
        let program = hook_program().context("could not find the `custody` program")?;
        let file = self.host.settings_file(self.project)?;
        let (address, ca) = (&self.service.address, self.service.checked_ca()?);
        let route = HookRoute { program: &program, key_file, address, ca: ca.as_deref() };
        ChangedFile::plan(&file, |before| match self.host {
            AgentHost::ClaudeCode => claude_code::changed(before, route, key, self.surface),
            AgentHost::Codex | AgentHost::Gemini | AgentHost::Copilot | AgentHost::Cursor => {
                with_hooks(self.host, before, route)
            }
        })
    }

    /// The file that sends its requests to Custody, if that is another one than the file with its hooks.
    fn proxied(&self, key: &str) -> anyhow::Result<Option<ChangedFile>> {
        let is_upstream_named = self.entry.upstream.is_some();
        let changed = match self.host {
            AgentHost::Codex => {
                let file = self.host.folder()?.join("config.toml");
                ChangedFile::edit(&file, |before| {
                    codex::changed(before, &self.service.address, key, is_upstream_named)
                })?
            }
            AgentHost::Gemini => {
                let settings = std::fs::read_to_string(self.host.settings_file(None)?);
                gemini::check(&settings.unwrap_or_default())?;
                ChangedFile::edit(&self.host.folder()?.join(".env"), |before| {
                    gemini::changed(before, &self.service.address, key, is_upstream_named)
                })?
            }
            // Those of Claude Code stand beside its hooks, those of Copilot in its environment.
            AgentHost::ClaudeCode | AgentHost::Copilot => return Ok(None),
            AgentHost::Cursor => bail!("Cursor's requests go by its vendor; use --surface hook"),
        };
        Ok(Some(changed))
    }

    /// Whether a part of what it needs stands in no file.
    fn has_variables(&self) -> bool {
        self.host == AgentHost::Copilot && self.surface.has_proxy()
    }

    fn variables(&self, key: &str) -> HostVariables {
        if self.has_variables() {
            copilot::variables(&self.service.address, key).to_vec()
        } else {
            Vec::new()
        }
    }
}

/// A connection that is made, and the changes of its host's files that are not.
struct Prepared {
    owner: Authority,
    /// Whether it was made now.
    is_new: bool,
    key: Zeroizing<String>,
    files: Vec<ChangedFile>,
}

/// Puts the settings of a host back, and takes the connection back if `takes_connection`, or if it was made with
/// them.
pub(super) fn take_back(
    context: &GlobalContext,
    store: &Store,
    name: &str,
    takes_connection: bool,
) -> anyhow::Result<()> {
    let kept = kept(context, name);
    let changed = ChangedFiles::load(&kept)?;
    if let Some(changed) = &changed {
        changed.ensure_ours(&kept)?;
    }
    let owner = context.human(store, None)?;
    if let Some(changed) = &changed {
        changed.undo(&kept)?;
        for file in &changed.files {
            let key = watched::settings_key(name, &file.path)?;
            watched::release(store, &owner, &key, &file.path)?;
        }
    }
    let mut settings = GatewaySettings::signed(store)?.unwrap_or_default();
    let is_made = changed.is_some_and(|changed| changed.made_connection);
    if (takes_connection || is_made) && settings.connection.remove(name).is_some() {
        sign(store, &owner, &context.gateway_settings(), &settings)?;
        accepted(&store.revoke_principal(&owner, name)?)?;
        let key_file = key_file(context, name);
        if key_file.exists() {
            let removed = std::fs::remove_file(&key_file);
            removed.with_context(|| format!("could not remove `{}`", key_file.display()))?;
        }
        // Others' keys may be in it.
        drop(key_file.parent().map(std::fs::remove_dir));
    }
    Ok(())
}

/// What became of the key of a connection.
#[derive(Debug)]
pub(super) struct RotatedKey {
    pub(super) key: Zeroizing<String>,
    /// The files of the host in which it stands instead of the old one.
    pub(super) settings: Vec<PathBuf>,
    /// The file with the key, if there is one.
    pub(super) key_file: Option<PathBuf>,
}

/// Gives a connection a new key, and puts it in the place of the old one in the settings of its host and in its key
/// file. What the owner signed of the connection stays.
pub(super) fn rotate_key(
    context: &GlobalContext,
    store: &Store,
    name: &str,
) -> anyhow::Result<RotatedKey> {
    let kept = kept(context, name);
    let changed = ChangedFiles::load(&kept)?;
    if let Some(changed) = &changed {
        changed.ensure_ours(&kept)?;
    }
    let key_file = Some(key_file(context, name)).filter(|file| file.exists());
    let owner = context.human(store, None)?;
    let (receipt, key) = store.renew_principal(&owner, name)?;
    accepted(&receipt)?;
    let key = key.context("the connection has no key")?;
    // Whatever happens from here on, doing it once more gives all of them the same key.
    let again =
        "the old key opens nothing any more, and the new one is not everywhere; rotate once more";
    // Not what the host or its user goes on writing.
    let shared: Vec<PathBuf> = changed
        .iter()
        .flat_map(|changed| &changed.files)
        .filter(|file| file.is_shared())
        .map(|file| file.path.clone())
        .collect();
    let settings = match changed {
        Some(changed) => changed.replace_key(&kept, &key).context(again)?,
        None => Vec::new(),
    };
    for file in settings.iter().filter(|file| !shared.contains(file)) {
        watched::adopt(store, &owner, &watched::settings_key(name, file)?, file).context(again)?;
    }
    if let Some(file) = &key_file {
        whole_file::write(file, key.as_bytes()).context(again)?;
    }
    Ok(RotatedKey { key, settings, key_file })
}

/// The key of a new connection: the token of a principal of its name.
pub(super) fn new_key(
    store: &Store,
    owner: &Authority,
    name: &str,
) -> anyhow::Result<Zeroizing<String>> {
    let (tenant, public_key, with_token) = (Tenant::main(), None, true);
    let new = NewPrincipal { name, role: Role::User, tenant, public_key, with_token };
    let (receipt, token) = store.add_principal(owner, new)?;
    accepted(&receipt)?;
    token.context("the connection has no key")
}

/// Where the settings of a connection's host are kept as they were.
pub(super) fn kept(context: &GlobalContext, name: &str) -> PathBuf {
    context.gateway_settings().with_file_name(format!("before-{name}.json"))
}

/// Where the key of a connection is that a program of the host reads.
pub(super) fn key_file(context: &GlobalContext, name: &str) -> PathBuf {
    context.gateway_settings().with_file_name("hooks").join(format!("{name}.key"))
}
