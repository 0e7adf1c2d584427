//! Any JSON as the arguments of a call, behind a line of the user's and a line of a stranger's.
//!
//! What is accepted has one canonical form, which is accepted as itself; and while the user has said nothing, no value
//! is the user's.
#![no_main]

use std::sync::LazyLock;

use custody_log::Seq;
use custody_arguments::{ArgumentOrigin, Arguments, TextIndex, ToolManifest, trace};
use custody_policy::Manifests;
use libfuzzer_sys::fuzz_target;

/// A described tool, with an argument of every kind, fixed values and fields among them.
static MANIFESTS: LazyLock<Manifests> = LazyLock::new(|| {
    let manifests = Manifests::parse(
        "[tools.share]\neffect = 'writes'\n[tools.share.arguments]\nto = { sink = 'recipient' }\n\
         link = { sink = 'url' }\nsum = { sink = 'amount' }\naccount = { sink = 'account' }\n\
         file = { sink = 'path', nouns = ['document'] }\nrun = { sink = 'command' }\nid = { sink = 'id' }\n\
         body = {}\nwhen = { fields = ['day', 'hour'] }\n\
         rights = { sink = 'other', values = { r = ['read'], rw = ['edit', 'write'] } }\n",
    );
    manifests.expect("it is a manifest file")
});

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut lines = text.splitn(3, '\n');
    let [said, foreign, json] = [(); 3].map(|()| lines.next().unwrap_or_default());
    let arguments = match Arguments::parse(json) {
        Ok(arguments) => arguments,
        Err(error) => return assert!(!error.to_string().contains('\n'), "an error is one line"),
    };
    let again = Arguments::parse(arguments.canonical()).expect("a canonical form is a form");
    assert_eq!(again.canonical(), arguments.canonical());
    assert_eq!(again, arguments);

    let unknown = ToolManifest::unknown();
    let tools = [MANIFESTS.tool("share").tool, &unknown];
    let mut strangers = TextIndex::default();
    strangers.add_user_text("");
    strangers.add_untrusted_text(Seq(1), foreign);
    for tool in tools {
        for leaf in trace(tool, &arguments, &strangers).into_recorded() {
            assert_ne!(leaf.origin, ArgumentOrigin::User, "nobody said `{}`", leaf.path);
        }
    }
    let mut both = strangers;
    both.add_user_text(said);
    for tool in tools {
        let traced = trace(tool, &arguments, &both);
        assert_eq!(traced, trace(tool, &again, &both), "equal arguments come from the same places");
        // Whoever names an argument that no manifest gives cannot make it the user's.
        let names = arguments.object().keys().filter(|name| !tool.arguments.contains_key(*name));
        for name in names {
            let path = format!("{name} > name");
            assert!(traced.recorded().iter().any(|leaf| leaf.path == path && leaf.origin != ArgumentOrigin::User));
        }
    }
});
