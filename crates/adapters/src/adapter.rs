//! An adapter as a whole: its files, its kind, and its tensors by the modules that they change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::configuration::Configuration;
use crate::error::AdapterError;
use crate::folder::AdapterFolder;
use crate::kind::AdapterKind;
use crate::tensors::TensorFile;

/// What PEFT writes before the name of a module.
const PREFIX: &str = "base_model.model.";

/// An adapter whose header and configuration are read. Its weights are read module by module.
#[derive(Debug)]
pub(crate) struct Adapter {
    pub(crate) folder: AdapterFolder,
    pub(crate) file: TensorFile,
    pub(crate) configuration: Option<Configuration>,
    /// The kind by its configuration, if it is known and its tensors are of that kind.
    pub(crate) kind: Option<AdapterKind>,
    pub(crate) modules: Vec<Module>,
    /// Tensors that are none of its kind's.
    pub(crate) strangers: BTreeSet<String>,
}

/// The tensors of one module of the base model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Module {
    /// The name, as the base model has it.
    pub(crate) name: String,
    /// The names of its tensors, by what stands after that of the module.
    tensors: BTreeMap<&'static str, String>,
}

impl Module {
    /// The name of its tensor that ends in `suffix`.
    pub(crate) fn tensor(&self, suffix: &str) -> Option<&str> {
        self.tensors.get(suffix).map(String::as_str)
    }

    /// The same, of one that has to be there.
    pub(crate) fn needed(&self, suffix: &str) -> Result<&str, AdapterError> {
        self.tensor(suffix).ok_or_else(|| AdapterError::Missing(format!("{}.{suffix}", self.name)))
    }
}

impl Adapter {
    /// Opens the adapter at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, AdapterError> {
        let folder = AdapterFolder::open(path)?;
        let configuration = folder.configuration.as_deref().map(Configuration::read).transpose()?;
        let file = TensorFile::open(&folder.weights)?;
        let kind = configuration.as_ref().and_then(|read| read.kind);
        let (modules, strangers) = sorted(file.tensors().keys(), kind);
        Ok(Self { folder, file, configuration, kind, modules, strangers })
    }
}

/// The tensors of `kind`, by module, and the others.
fn sorted<'a>(
    names: impl Iterator<Item = &'a String>,
    kind: Option<AdapterKind>,
) -> (Vec<Module>, BTreeSet<String>) {
    let (mut modules, mut strangers) = (BTreeMap::<String, Module>::new(), BTreeSet::new());
    let suffixes = kind.map_or(&[][..], AdapterKind::suffixes);
    for tensor in names {
        let Some((module, suffix)) = suffixes.iter().find_map(|suffix| split(tensor, suffix))
        else {
            strangers.insert(tensor.clone());
            continue;
        };
        let name = module.strip_prefix(PREFIX).unwrap_or(module).to_owned();
        let found = modules
            .entry(name.clone())
            .or_insert_with(|| Module { name, tensors: BTreeMap::new() });
        found.tensors.insert(suffix, tensor.clone());
    }
    // What layers share is part of each of them, and is no module.
    modules.remove("base_model");
    (modules.into_values().collect(), strangers)
}

/// The module before `suffix` in the name of a tensor.
fn split<'a>(tensor: &'a str, suffix: &'static str) -> Option<(&'a str, &'static str)> {
    if tensor == suffix {
        return Some(("", suffix));
    }
    let module = tensor.strip_suffix(suffix)?.strip_suffix('.')?;
    Some((module, suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_sorted_by_module_and_none_is_left_out() {
        let names = [
            "base_model.model.m.0.q_proj.lora_A.weight",
            "base_model.model.m.0.q_proj.lora_B.weight",
            "base_model.model.lm_head.weight",
            "base_model.model.m.0.q_proj.xlora_A.weight",
        ]
        .map(str::to_owned);
        let (modules, strangers) = sorted(names.iter(), Some(AdapterKind::Lora));
        assert_eq!(modules.len(), 1);
        assert_eq!(modules[0].name, "m.0.q_proj");
        assert!(
            modules[0].needed("lora_A.weight").is_ok() && modules[0].tensor("lora_E").is_none()
        );
        assert_eq!(strangers.len(), 2, "{strangers:?}");
        assert_eq!(sorted(names.iter(), None).1.len(), 4, "of an unknown kind all are");
        let shared =
            ["base_model.vera_A".to_owned(), "base_model.model.m.vera_lambda_b".to_owned()];
        let (modules, strangers) = sorted(shared.iter(), Some(AdapterKind::Vera));
        assert_eq!((modules.len(), strangers.len()), (1, 0));
    }
}
