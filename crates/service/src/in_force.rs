//! The settings that hold now: the tighter of what the owner signed and what the file says, read again whenever
//! either changes.

use std::path::PathBuf;
use std::time::SystemTime;

use custody_kernel::memory::item::Version;
use custody_kernel::state::State;
use custody_log::Seq;
use custody_runtime::Store;

use crate::log;
use crate::settings::{GatewaySettings, SignedSettingsError, signed_version};

/// Which settings the owner had signed at one moment of the store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SignedMoment {
    version: Option<Version>,
    /// The number of records then.
    records: u64,
}

impl SignedMoment {
    pub(crate) fn of(state: &State) -> Self {
        Self { version: signed_version(state), records: state.len() }
    }
}

/// The settings that hold now.
#[derive(Debug)]
pub(crate) struct SettingsInForce {
    file: PathBuf,
    /// The number of records when what the owner signed was last read.
    records: u64,
    /// When the file was changed and how long it was then, so that it is read once.
    seen: Option<(SystemTime, u64)>,
    /// What the file said when it was last understood.
    on_disk: Option<GatewaySettings>,
    /// The entry that holds the settings that the owner signed.
    signed: Option<(Seq, GatewaySettings)>,
    in_force: GatewaySettings,
}

impl SettingsInForce {
    pub(crate) fn new(file: PathBuf) -> Self {
        let in_force = GatewaySettings::default();
        Self { file, records: 0, seen: None, on_disk: None, signed: None, in_force }
    }

    /// The settings that hold now. What was signed at an earlier `moment` than the last one does not come back.
    pub(crate) fn now(
        &mut self,
        store: &Store,
        moment: SignedMoment,
    ) -> Result<&GatewaySettings, SignedSettingsError> {
        // Both are read, so that neither change waits for the other.
        let is_newest = moment.records >= self.records;
        let is_signed_anew = is_newest && self.read_signed(store, moment.version)?;
        self.records = self.records.max(moment.records);
        let is_edited = self.read_file();
        if is_signed_anew || is_edited {
            self.decide();
        }
        Ok(&self.in_force)
    }

    fn decide(&mut self) {
        let nothing = GatewaySettings::default();
        let signed = self.signed.as_ref().map_or(&nothing, |(_, settings)| settings);
        let (in_force, waiting) = self.on_disk.as_ref().unwrap_or(signed).in_force(signed);
        for what in waiting {
            log::note(&format!("`{}`: {what}, which waits for the owner", self.file.display()));
        }
        self.in_force = in_force;
    }

    /// Reads what the owner signed, if that is something else than before.
    fn read_signed(
        &mut self,
        store: &Store,
        version: Option<Version>,
    ) -> Result<bool, SignedSettingsError> {
        let entry = version.map(|version| version.entry);
        if entry == self.signed.as_ref().map(|(entry, _)| *entry) {
            return Ok(false);
        }
        self.signed = match version {
            None => None,
            Some(version) => {
                let settings = GatewaySettings::of_version(store, version)?.unwrap_or_default();
                Some((version.entry, settings))
            }
        };
        Ok(true)
    }

    /// Reads the file if it changed. One that is not understood leaves what held before.
    fn read_file(&mut self) -> bool {
        let data = std::fs::metadata(&self.file).ok();
        let seen = data.and_then(|data| Some((data.modified().ok()?, data.len())));
        if seen == self.seen {
            return false;
        }
        self.seen = seen;
        // A file that is not there says nothing, and what the owner signed holds.
        let Ok(text) = std::fs::read_to_string(&self.file) else { return false };
        match GatewaySettings::parse(&text) {
            Ok(settings) => {
                self.on_disk = Some(settings);
                true
            }
            Err(error) => {
                let file = self.file.display();
                log::note(&format!("`{file}` {error}; what was in force stays"));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use custody_gateway::proxy::GuardMode;
    use custody_kernel::key::Key;
    use custody_kernel::memory::item::Mode;
    use custody_kernel::memory::rate::Limits;
    use custody_kernel::namespace::{Scope, Tenant};
    use custody_kernel::record::AdminRequest;
    use custody_runtime::clock::Clock;
    use custody_runtime::scratch::Scratch;
    use custody_runtime::watch::adopt_file;

    use super::*;
    use crate::settings::SETTINGS_KEY;

    #[test]
    fn a_request_that_saw_earlier_settings_does_not_bring_them_back() {
        let scratch = Scratch::new(Limits::default(), Clock::manual(1_000)).unwrap();
        let file = scratch.folder().join(SETTINGS_KEY);
        let signed = ["observe", "guard"].map(|mode| {
            std::fs::write(&file, format!("[connection.ada]\nmode = \"{mode}\"\n")).unwrap();
            let key: Key = SETTINGS_KEY.parse().unwrap();
            let adopted = adopt_file(&scratch.store, &scratch.owner, key.clone(), &file).unwrap();
            assert_eq!(adopted.answer.refusal(), None);
            let moment = scratch.store.state(SignedMoment::of).unwrap();
            // An adopted item is changed only after its owner opened it.
            let (tenant, scope, mode) = (Tenant::main(), Scope::Shared, Mode::Open);
            let open = AdminRequest::SetMode { tenant, scope, key, mode };
            scratch.store.ask(&scratch.owner, open).unwrap();
            moment
        });
        let [earlier, later] = signed;
        let mut settings = SettingsInForce::new(scratch.folder().join("none.toml"));
        for (moment, mode) in [
            (earlier, GuardMode::Observe),
            (later, GuardMode::Guard),
            (earlier, GuardMode::Guard),
            (later, GuardMode::Guard),
        ] {
            let now = settings.now(&scratch.store, moment).unwrap();
            assert_eq!(now.connection["ada"].mode, mode);
        }
    }
}
