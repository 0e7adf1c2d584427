//! Adapter folders: whatever bytes are in the weights and in the configuration, a scan ends with a report or an error.

#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

/// A folder of this process, in memory where there is such a place.
fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let memory = PathBuf::from("/dev/shm");
        let root = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let folder = root.join(format!("custody-fuzz-adapter-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the adapter");
        folder
    })
}

fuzz_target!(|data: (Vec<u8>, Vec<u8>, Vec<u8>)| {
    let (configuration, header, numbers) = data;
    let length = (header.len() as u64).to_le_bytes();
    let weights = [&length[..], &header, &numbers].concat();
    for (name, bytes) in
        [("adapter_config.json", &configuration), ("adapter_model.safetensors", &weights)]
    {
        std::fs::write(folder().join(name), bytes).expect("a file of the adapter");
    }
    if let Ok(report) = custody_adapters::scan(folder(), &mut |_, _| {}) {
        // A report can always be shown, and says of each change whether it was evaluated.
        serde_json::to_string(&report).expect("a report is JSON");
        assert!(report.changes.iter().all(|it| it.change.is_some() != it.not_evaluated.is_some()));
    }
});
