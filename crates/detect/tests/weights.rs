//! What the weights cost a program that links them.

use custody_detect::screen::Screener;
use custody_detect::{RuleSet, TransformerFiles, built_in_file};

#[test]
fn no_weight_file_is_compiled_in_twice() {
    // All ways to the weights, so that the linker keeps every copy that there is.
    let overlay = TransformerFiles::built_in().overlay;
    assert!(RuleSet::built_in().count().rules > 0);
    assert!(Screener::built_in().identity().starts_with("ngrams/"));
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    for name in ["prompts.safetensors", "contents.safetensors", "full.safetensors", "rules.toml"] {
        let file = built_in_file(name).unwrap();
        let middle = &file[file.len() / 2..][..256];
        let copies = memchr::memmem::find_iter(&program, middle).count();
        assert_eq!(copies, 1, "`{name}`, of {} bytes", file.len());
    }
    assert_eq!(built_in_file("full.safetensors"), Some(overlay));
}
