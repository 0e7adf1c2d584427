//! An agent's credential, or none, cannot do what only a human may, however it is offered.
//!
//! [`ACTS`] are the things only an owner or reviewer does, [`WAYS`] the ways in which somebody who is
//! neither can ask for them. Every act is tried in every way and must change nothing; then the owner does
//! it, so that each row is known to be something that could have happened.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Home, OWNER_PASSPHRASE, Ran};

/// The passphrase of `bob`, a reviewer who is not the owner.
const BOBS_PASSPHRASE: &str = "bob has a passphrase";

/// Something that only a human may do.
struct Act {
    name: &'static str,
    /// Makes ready what is acted on, and returns the arguments.
    prepare: fn(&Home) -> Vec<String>,
    /// Whether a refusal can be recorded: not while the store is closed.
    is_recorded: bool,
}

const ACTS: &[Act] = &[
    Act {
        name: "add an agent",
        prepare: |_| args("principal add eve --role agent"),
        is_recorded: true,
    },
    Act {
        name: "add a user",
        prepare: |_| args("principal add eve --role user --token"),
        is_recorded: true,
    },
    Act { name: "revoke", prepare: |_| args("principal revoke bob --apply"), is_recorded: true },
    Act {
        name: "set limits",
        prepare: |_| args("principal limits --changes none --apply"),
        is_recorded: true,
    },
    Act { name: "rotate the log key", prepare: |_| args("keys rotate --apply"), is_recorded: true },
    Act {
        name: "approve",
        prepare: |home| args(&format!("memory approve {}", proposed(home))),
        is_recorded: true,
    },
    Act {
        name: "deny",
        prepare: |home| args(&format!("memory deny {}", proposed(home))),
        is_recorded: true,
    },
    Act {
        name: "change a mode",
        prepare: |_| args("memory mode notes immutable --apply"),
        is_recorded: true,
    },
    Act {
        name: "unlock",
        prepare: |home| {
            let lock = args("memory mode notes immutable --apply");
            home.typing(&lock, &[OWNER_PASSPHRASE]).expect(0);
            args("memory mode notes open --apply")
        },
        is_recorded: true,
    },
    Act {
        name: "adopt a file",
        prepare: |home| {
            std::fs::write(home.path().join("SOUL.md"), "be kind\n").unwrap();
            args("memory adopt SOUL.md --apply")
        },
        is_recorded: true,
    },
    Act {
        name: "adopt a store whose head is lost",
        prepare: |home| {
            std::fs::remove_file(home.keys().join("head")).unwrap();
            args("ledger adopt --reason lost --apply")
        },
        is_recorded: false,
    },
];

/// A way to ask without being there as an owner or reviewer.
struct Way {
    name: &'static str,
    ask: fn(&Home, &[String], token: &str) -> Ran,
    /// Whether it reaches the kernel, which refuses and records it; a wrong passphrase does not.
    is_answered: bool,
}

const WAYS: &[Way] = &[
    Way { name: "without a terminal", ask: |home, args, _| home.alone(args), is_answered: true },
    Way {
        name: "without a terminal, the passphrase on standard input",
        ask: |home, args, _| home.alone_with(args, &[], &format!("{OWNER_PASSPHRASE}\n").repeat(3)),
        is_answered: true,
    },
    Way {
        name: "without a terminal, the passphrase in the environment",
        ask: |home, args, _| home.alone_with(args, &variables(OWNER_PASSPHRASE), ""),
        is_answered: true,
    },
    Way {
        name: "without a terminal, a token in the environment",
        ask: |home, args, token| home.alone_with(args, &variables(token), ""),
        is_answered: true,
    },
    Way {
        name: "without a terminal, a token on standard input",
        ask: |home, args, token| home.alone_with(args, &[], &format!("{token}\n").repeat(3)),
        is_answered: true,
    },
    Way {
        name: "without a terminal, the passphrase in a flag",
        ask: |home, args, _| home.alone(&with(args, "--passphrase", OWNER_PASSPHRASE)),
        is_answered: false,
    },
    Way {
        name: "without a terminal, a token in a flag",
        ask: |home, args, token| home.alone(&with(args, "--token", token)),
        is_answered: false,
    },
    Way {
        name: "on a terminal, a wrong passphrase",
        ask: |home, args, _| home.typing(args, &["correct horse batterx"; 3]),
        is_answered: false,
    },
    Way {
        name: "on a terminal, an empty passphrase",
        ask: |home, args, _| home.typing(args, &[""; 3]),
        is_answered: false,
    },
    Way {
        name: "on a terminal, a token",
        ask: |home, args, token| home.typing(args, &[token; 3]),
        is_answered: false,
    },
    Way {
        name: "on a terminal, the passphrase of somebody else",
        ask: |home, args, _| home.typing(args, &[BOBS_PASSPHRASE; 3]),
        is_answered: false,
    },
    Way {
        name: "on a terminal, the passphrase everywhere but typed",
        ask: |home, args, _| {
            let input = format!("{OWNER_PASSPHRASE}\n").repeat(3);
            home.typing_with(args, &[""; 3], &variables(OWNER_PASSPHRASE), &input)
        },
        is_answered: false,
    },
];

#[test]
fn only_a_passphrase_typed_on_the_terminal_does_what_only_a_human_may() {
    std::thread::scope(|scope| {
        for act in ACTS {
            std::thread::Builder::new()
                .name(act.name.into())
                .spawn_scoped(scope, || nobody_else_can(act))
                .unwrap();
        }
    });
}

fn nobody_else_can(act: &Act) {
    let home = Home::founded();
    let token = populate(&home);
    let args = (act.prepare)(&home);
    let before = guarded(&home);
    for way in WAYS {
        let (act_name, way_name) = (act.name, way.name);
        let refusals = refusals(&home);
        let ran = (way.ask)(&home, &args, &token);
        assert_ne!(ran.code, 0, "{act_name} {way_name}: {ran:#?}");
        assert_eq!(guarded(&home), before, "{act_name} {way_name} changed something: {ran:#?}");
        assert!(
            !ran.stdout.contains("custody_") && !ran.stderr.contains(OWNER_PASSPHRASE),
            "{act_name} {way_name} gives a secret away: {ran:#?}"
        );
        if way.is_answered {
            assert_eq!(ran.code, 1, "{act_name} {way_name}: {ran:#?}");
            assert!(
                ran.stdout.contains("refused by authority: only"),
                "{act_name} {way_name}: {ran:#?}"
            );
            if act.is_recorded {
                assert_eq!(self::refusals(&home), refusals + 1, "{act_name} {way_name}");
            }
        }
    }
    let next = if act.name == "approve" { "y" } else { "eve has a passphrase" };
    let lines = [OWNER_PASSPHRASE, next, next];
    home.typing(&args, &lines).expect(0);
    assert_ne!(guarded(&home), before, "{} is something that could have happened", act.name);
}

/// Registers a reviewer, and an agent whose token is returned.
fn populate(home: &Home) -> String {
    let lines = [OWNER_PASSPHRASE, BOBS_PASSPHRASE, BOBS_PASSPHRASE];
    home.typing(&args("principal add bob --role reviewer"), &lines).expect(0);
    let add = args("principal add helper --role agent");
    home.typing(&add, &[OWNER_PASSPHRASE]).expect(0).stdout.trim_end().to_owned()
}

/// A proposal of bob's that waits for a reviewer.
fn proposed(home: &Home) -> String {
    let put = args("memory put notes tainted --from web --queue --as bob --json");
    let told = home.typing(&put, &[BOBS_PASSPHRASE]).expect(0).json();
    told[0]["id"].as_str().unwrap().to_owned()
}

/// Everything that only a human may change, as the record and the keys have it.
fn guarded(home: &Home) -> Vec<String> {
    let told = [
        "principal list --json",
        "principal limits --json",
        "memory list --all --json",
        "memory pending --json",
    ];
    let told = told.map(|command| home.alone(&args(command))).map(|ran| ran.stdout);
    let is_open = home.alone(&args("ledger verify")).code.to_string();
    let keys = ["log.key", "log.key.next", "humans"].map(|name| bytes_of(&home.keys().join(name)));
    told.into_iter().chain([is_open]).chain(keys).collect()
}

/// What stands in a file, or in every file of a folder.
fn bytes_of(path: &std::path::Path) -> String {
    let Ok(folder) = std::fs::read_dir(path) else {
        return format!("{:?}", std::fs::read(path).ok());
    };
    let mut files: Vec<_> = folder.map(|file| file.unwrap().path()).collect();
    files.sort_unstable();
    files.iter().map(|file| format!("{file:?} {}", bytes_of(file))).collect()
}

fn refusals(home: &Home) -> usize {
    home.alone(&args("ledger show --refused --json --limit 1000")).stdout.lines().count()
}

/// Every variable that somebody might hope is read.
fn variables(secret: &str) -> [(&'static str, &str); 6] {
    [
        "CUSTODY_PASSPHRASE",
        "CUSTODY_OWNER_PASSPHRASE",
        "CUSTODY_TOKEN",
        "CUSTODY_OWNER_TOKEN",
        "CUSTODY_KEY",
        "CUSTODY_AS",
    ]
    .map(|variable| (variable, secret))
}

fn with(args: &[String], flag: &str, value: &str) -> Vec<String> {
    args.iter().cloned().chain([flag.to_owned(), value.to_owned()]).collect()
}

fn args(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}
