//! What every command shares: the global options, the configuration, and the way to the store.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use custody_kernel::namespace::Tenant;
use custody_kernel::principal::Authority;
use custody_keys::KeyFolder;
use custody_log::Digest;
use custody_models::registry::ModelStore;
use custody_runtime::clock::Clock;
use custody_runtime::{OpenError, Paths, Store};
use etcetera::{BaseStrategy, choose_base_strategy};

use crate::config::Config;
use crate::{credential, new_store, output};

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct GlobalOptions {
    /// The store [default: custody/custody.db in the platform's data folder]
    #[arg(long, global = true, value_name = "PATH", env = "CUSTODY_STORE")]
    pub(crate) store: Option<PathBuf>,
    /// The folder of the signed head and the keys [default: a folder per store in the platform's
    /// state folder]
    #[arg(long, global = true, value_name = "DIR", env = "CUSTODY_KEYS")]
    pub(crate) keys: Option<PathBuf>,
    /// Never write in the folders of the store and its keys. Where they cannot be written, nothing is in any case
    #[arg(long, global = true, env = "CUSTODY_READ_ONLY")]
    pub(crate) read_only: bool,
    /// The folder of model weights [default: custody/models in the platform's data folder]
    #[arg(long, global = true, value_name = "DIR", env = "CUSTODY_MODELS")]
    pub(crate) models: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// The configuration file [default: custody/custody.toml in the platform's configuration folder]
    #[arg(long, global = true, value_name = "FILE", env = "CUSTODY_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}

/// Options and configuration, put together.
#[derive(Debug)]
pub struct GlobalContext {
    /// Whether JSON is printed.
    pub json: bool,
    pub(crate) config: Config,
    paths: Paths,
    names_store: bool,
    read_only: bool,
    models: PathBuf,
    /// Custody's own folder in the platform's data folder.
    own_data: PathBuf,
    /// Custody's own folder in the platform's configuration folder.
    own_config: PathBuf,
}

impl GlobalContext {
    /// Reads the configuration, and finds the folders that neither it nor an option names.
    ///
    /// # Errors
    /// When there is no home folder, or the configuration cannot be read.
    pub fn new(global: GlobalOptions) -> anyhow::Result<Self> {
        let folders = choose_base_strategy().context("could not find the home folder; set HOME")?;
        let own_config = folders.config_dir().join("custody");
        let own = own_config.join("custody.toml");
        let config = Config::load(global.config.as_deref(), &own)?;
        let names_store = global.store.is_some();
        let own_data = folders.data_dir().join("custody");
        let store = global
            .store
            .or_else(|| config.store.path.clone())
            .unwrap_or_else(|| own_data.join("custody.db"));
        let store = std::path::absolute(&store)
            .with_context(|| format!("`{}` is not a path", store.display()))?;
        let state = folders.state_dir().unwrap_or_else(|| folders.data_dir().join("state"));
        let keys = global
            .keys
            .or_else(|| config.store.keys.clone())
            .unwrap_or_else(|| state.join("custody").join(folder_name(&store)));
        let models = global
            .models
            .or_else(|| config.models.dir.clone())
            .unwrap_or_else(|| own_data.join("models"));
        let paths = Paths { store, keys };
        let read_only = global.read_only;
        Ok(Self {
            json: global.json,
            config,
            paths,
            names_store,
            read_only,
            models,
            own_data,
            own_config,
        })
    }

    /// The paths of the store and of its key folder.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Whether a store was named on the command line or in the environment.
    pub(crate) fn names_store(&self) -> bool {
        self.names_store
    }

    /// The models on this machine.
    pub fn models(&self) -> ModelStore {
        ModelStore::open(&self.models)
    }

    /// The folder of the benchmark data: the one named, else configured, else the user's own.
    pub fn data_folder(&self, named: Option<PathBuf>) -> PathBuf {
        named.or_else(|| self.config.data.dir.clone()).unwrap_or_else(|| self.own_data.join("data"))
    }

    /// The settings of the gateway, which the owner signs.
    pub(crate) fn gateway_settings(&self) -> PathBuf {
        self.own_config.join("gateway.toml")
    }

    /// The folder of the keys.
    pub(crate) fn key_folder(&self) -> KeyFolder {
        KeyFolder::new(&self.paths.keys)
    }

    /// Opens the store; on a terminal, offers to create it at its first use.
    pub(crate) fn open(&self) -> anyhow::Result<Store> {
        match self.open_existing() {
            Err(OpenError::NoKeys(_)) if credential::has_terminal() && !self.read_only => {
                new_store::offer(&self.paths)
            }
            opened => Ok(opened?),
        }
    }

    /// Opens the store that is there: for reading only, if that was asked for or nothing can be written.
    pub(crate) fn open_existing(&self) -> Result<Store, OpenError> {
        if !self.read_only && !is_read_only(&self.paths) {
            return Store::open(&self.paths, Clock::System);
        }
        let store = Store::open_read_only(&self.paths, Clock::System)?;
        let tail = match store.unacknowledged() {
            0 => String::new(),
            tail => format!(
                " {} behind its head cannot be acknowledged here.",
                output::count(tail, "record")
            ),
        };
        output::note(format_args!("The store is open for reading only; nothing is written.{tail}"));
        Ok(store)
    }

    /// The authority of the human of that name, whose passphrase is typed on the terminal; without a name, an
    /// unproven one.
    pub(crate) fn authority(&self, store: &Store, name: Option<&str>) -> anyhow::Result<Authority> {
        match name {
            None => Ok(Authority::unproven(Tenant::main())),
            Some(name) => {
                let key = credential::unlock(&self.key_folder(), name)?;
                Ok(store.authenticate(name, &key)?)
            }
        }
    }

    /// The authority for what only a human may do: the named one's, else the owner's. Without a terminal to type the
    /// passphrase on it is unproven, and the kernel refuses and records the attempt.
    pub(crate) fn human(&self, store: &Store, name: Option<&str>) -> anyhow::Result<Authority> {
        match name {
            None if credential::has_terminal() => self.authority(store, Some(&owner_name(store)?)),
            None => Ok(Authority::unproven(Tenant::main())),
            Some(_) if !credential::has_terminal() => Ok(Authority::unproven(Tenant::main())),
            name => self.authority(store, name),
        }
    }
}

/// Whether the database, its folder or the head cannot be written: their modes, flags or file system forbid it.
#[cfg(unix)]
fn is_read_only(paths: &Paths) -> bool {
    use rustix::fs::{Access, access};
    let folder = paths.store.parent().filter(|folder| !folder.as_os_str().is_empty());
    let head = KeyFolder::new(&paths.keys).head();
    let needed = [Some(paths.store.as_path()), folder, Some(&head)];
    needed
        .into_iter()
        .flatten()
        .any(|path| path.exists() && access(path, Access::WRITE_OK).is_err())
}

#[cfg(not(unix))]
fn is_read_only(paths: &Paths) -> bool {
    std::fs::metadata(&paths.store).is_ok_and(|metadata| metadata.permissions().readonly())
}

fn owner_name(store: &Store) -> anyhow::Result<String> {
    let owner = store.state(|state| state.owner().map(|owner| owner.name.clone()))?;
    owner.context("the store has no owner")
}

/// A name for the key folder of a store: readable, and different for different paths.
fn folder_name(store: &Path) -> String {
    let stem = store.file_stem().and_then(|stem| stem.to_str()).unwrap_or("store");
    let readable: String = stem.chars().filter(char::is_ascii_alphanumeric).take(32).collect();
    let whole = Digest::of(store.as_os_str().as_encoded_bytes()).to_string();
    format!("{readable}-{}", whole.get(..16).unwrap_or_default())
}
