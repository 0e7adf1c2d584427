//! Model hosts that can be told to unload what an incident evicts: programs of the operator's own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::str::FromStr;

use custody_incident::Incidents;
use custody_incident::adapters::{AdapterHost, Hosts, Unloading};
use custody_kernel::adapter::Name;
use custody_kernel::principal::Authority;
use custody_log::{Digest, IncidentId};
use custody_runtime::Store;

use crate::command::adapter::short;
use crate::output::{DIM, GOOD, WARN, count, excerpt, line, paint};

/// The options that name model hosts.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct AdapterHosts {
    /// A program that unloads adapters from a host. May be repeated, once for each host.
    ///
    /// It is called as `PROGRAM unload SHA256 NAME`, once for each load that is in force, and says with its exit code
    /// 0 that the host carries that load no more. A host without a program is left as unfinished; apply the same plan
    /// again to go on.
    #[arg(long = "adapter-host", value_name = "HOST=PROGRAM")]
    adapter_hosts: Vec<HostProgram>,
}

#[derive(Debug, Clone)]
struct HostProgram {
    host: Name,
    program: OsString,
}

impl FromStr for HostProgram {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, program) = text.split_once('=').unwrap_or_default();
        if program.is_empty() {
            return Err("name a host and the program that unloads from it, as in \
                `vllm-1=./unload.sh`"
                .to_owned());
        }
        let host = host.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { host, program: program.into() })
    }
}

impl AdapterHosts {
    /// Has everything unloaded that the incident evicts.
    pub(super) fn evict(
        &self,
        store: &Store,
        owner: &Authority,
        id: IncidentId,
    ) -> anyhow::Result<Vec<Unloading>> {
        let mut programs: BTreeMap<Name, Program> = BTreeMap::new();
        for HostProgram { host, program } in &self.adapter_hosts {
            programs.insert(host.clone(), Program(program.clone()));
        }
        let reached = programs.iter_mut();
        let mut hosts: Hosts<'_> = reached
            .map(|(host, program)| (host.clone(), program as &mut dyn AdapterHost))
            .collect();
        Ok(Incidents::of(store).evict(owner, id, &mut hosts)?)
    }
}

/// A program that unloads adapters.
struct Program(OsString);

impl AdapterHost for Program {
    fn unload(&mut self, weights: Digest, name: Option<&Name>) -> Result<(), String> {
        let name = name.map_or("", Name::as_str);
        let mut command = Command::new(&self.0);
        command.arg("unload").arg(weights.to_string()).arg(name).stdin(Stdio::null());
        let program = excerpt(&self.0.to_string_lossy(), 60);
        let ran =
            command.output().map_err(|error| format!("could not run `{program}`: {error}"))?;
        if ran.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ran.stderr);
        let last = said.trim().lines().last().map(|last| excerpt(last, 120)).unwrap_or_default();
        Err(format!("`{program}` ended with {}: {last}", ran.status))
    }
}

/// What was unloaded and what was not, in a line for each.
pub(super) fn print(evictions: &[Unloading]) {
    for Unloading { host, weights, name, unloaded, left, why } in evictions {
        let adapter = name.as_ref().map_or_else(|| short(*weights), ToString::to_string);
        let (adapter, host) = (excerpt(&adapter, 48), excerpt(host.as_str(), 48));
        let loads = count(*unloaded, "load");
        match why {
            None => {
                let word = paint(GOOD, "evicted");
                line(format_args!("{word}  {adapter} from {host} ({loads})"));
            }
            Some(why) => {
                let word = paint(WARN, "loaded");
                let left = count(*left, "load");
                line(format_args!("{word}   {adapter} on {host} ({left} left): {why}"));
            }
        }
    }
    if evictions.iter().any(|eviction| eviction.left > 0) {
        let again = "apply the plan again with --adapter-host HOST=PROGRAM";
        line(paint(
            DIM,
            format_args!("Unload it: {again}, or by hand and `custody adapter unload`"),
        ));
    }
}
