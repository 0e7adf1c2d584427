//! The commands of the gateway: what they change, and that they take it back.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use common::gateway::{Gateway, Vendor};
use common::{Home, OWNER_PASSPHRASE};

const CONNECT: [&str; 5] = ["connect", "claude-code", "--surface", "proxy", "--no-wait"];

/// Every file below the home that is not the store's or the keys'.
fn settings(home: &Home) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![home.path()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name == "settings.json" || name == "gateway.toml" {
                found.push((name, fs::read_to_string(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_connection_observes_then_guards_and_is_taken_back_byte_for_byte() {
    let home = Home::founded();
    let claude = home.path().join(".claude");
    fs::create_dir_all(&claude).unwrap();
    let before = "{\"model\": \"opus\" }";
    fs::write(claude.join("settings.json"), before).unwrap();
    let typing = |args: &[&str]| home.typing(args, &[OWNER_PASSPHRASE]);

    typing(&[&CONNECT[..], &["--apply"]].concat()).expect(0);
    let changed = fs::read_to_string(claude.join("settings.json")).unwrap();
    assert!(changed.contains("x-custody-key: custody_") && changed.contains("opus"), "{changed}");
    let shown = home.alone(&["enforce", "--json"]).expect(0).json();
    assert_eq!(
        (&shown[0]["connection"], &shown[0]["mode"]),
        (&"claude-code".into(), &"observe".into())
    );

    typing(&["enforce", "claude-code"]).expect(0);
    let shown = home.alone(&["enforce", "--json"]).expect(0).json();
    assert_eq!(shown[0]["mode"], "guard");
    // Without the owner nothing switches it off.
    let file = settings(&home).into_iter().find(|(name, _)| name == "gateway.toml").unwrap().1;
    assert!(file.contains("mode = \"guard\""), "{file}");
    assert!(home.alone(&["enforce", "claude-code", "--off"]).expect(2).stderr.contains("refused"));
    assert_eq!(home.alone(&["enforce", "--json"]).json()[0]["mode"], "guard");

    let gateway = home.path().join("config/custody/gateway.toml");
    let signed = fs::read_to_string(&gateway).unwrap();
    fs::write(&gateway, signed.replace("guard", "observe")).unwrap();
    let doctor = home.alone(&["doctor"]);
    assert!(doctor.stdout.contains("gateway.toml"), "an edit is named: {doctor:?}");
    fs::write(&gateway, signed).unwrap();

    typing(&["connect", "claude-code", "--undo"]).expect(0);
    assert_eq!(fs::read_to_string(claude.join("settings.json")).unwrap(), before);
    assert!(home.alone(&["enforce", "--json"]).expect(0).json().is_empty());
    home.alone(&["ledger", "verify"]).expect(0);
}

#[test]
fn what_cannot_be_connected_changes_nothing() {
    let home = Home::founded();
    let claude = home.path().join(".claude");
    fs::create_dir_all(&claude).unwrap();
    fs::write(claude.join("settings.json"), "{ broken").unwrap();
    let before = settings(&home);
    let principals = home.alone(&["principal", "list", "--json"]).stdout;
    for (args, why) in [
        ([&CONNECT[..], &["--apply"]].concat(), "cannot be changed"),
        (vec!["connect", "openai", "--upstream", "ftp://example.org"], "is not a URL"),
        (vec!["connect", "claude-code", "--user-text", "trusted"], "its hooks say what was typed"),
        (vec!["connect", "openai", "--undo"], "there is no connection"),
        (vec!["enforce", "nobody"], "there is no connection"),
        (vec!["serve", "--listen", "0.0.0.0:0"], "is reached from other machines"),
    ] {
        let ran = home.typing(&args, &[]);
        assert!(ran.stderr.contains(why), "{args:?}: {ran:?}");
    }
    assert_eq!(settings(&home), before);
    assert_eq!(home.alone(&["principal", "list", "--json"]).stdout, principals);
}

#[test]
fn what_init_made_is_taken_back_until_it_is_used() {
    let home = Home::new();
    let typed = ["a long enough phrase for once", "a long enough phrase for once"];
    home.typing(&["init"], &typed).expect(0);
    assert!(home.database().exists());
    let kept = home.alone(&["init", "--undo"]);
    assert!(kept.code == 2 && kept.stderr.contains("needs a terminal"), "{kept:?}");
    home.typing(&["init", "--undo"], &["n"]).expect(2);
    assert!(home.database().exists());
    let keys = home.keys();
    home.typing(&["init", "--undo"], &["y"]).expect(0);
    assert!(!home.database().exists() && !keys.exists());

    home.typing(&["init"], &typed).expect(0);
    home.typing(&["connect", "openai", "--no-wait"], &[typed[0]]).expect(0);
    let used = home.typing(&["init", "--undo"], &["y"]);
    assert!(used.code == 2 && used.stderr.contains("something was recorded since"), "{used:?}");
    assert!(home.database().exists());
}

#[test]
fn the_commands_for_a_user_of_its_own_are_printed_and_nothing_is_changed() {
    let home = Home::new();
    let shown = home.alone(&["init", "--service-user", "custody"]).expect(0).stdout;
    assert!(shown.contains("useradd --system") && shown.contains("\nUser=custody\n"), "{shown}");
    let undo = ["init", "--undo", "--service-user", "custody"];
    let shown = home.alone(&undo).expect(0).stdout;
    assert!(shown.contains("userdel --remove custody") && !shown.contains("useradd"), "{shown}");
    // On a terminal root is asked, and anybody else is not.
    let name = "custody-test-nobody";
    let shown = home.typing(&["init", "--service-user", name], &["n"]);
    let is_asked = shown.terminal.contains("[y/N]");
    assert_eq!(is_asked, shown.stdout.contains("Nothing was changed."), "{shown:?}");
    let users = fs::read_to_string("/etc/passwd").unwrap();
    assert!(!users.contains(name), "{users}");
    for name in ["", "a b", "$(id)", "Root", "x;y"] {
        home.alone(&["init", "--service-user", name]).refused("is not a name of a user");
    }
    assert!(!home.database().exists());
}

#[test]
fn each_kind_of_client_is_told_its_base_url() {
    let home = Home::founded();
    for (client, base_url) in [
        ("openai", "OPENAI_BASE_URL=http://127.0.0.1:7411/openai/v1\n"),
        ("anthropic", "ANTHROPIC_BASE_URL=http://127.0.0.1:7411/anthropic\n"),
        ("google", "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:7411/gemini\n"),
    ] {
        let shown = home.typing(&["connect", client, "--no-wait"], &[OWNER_PASSPHRASE]).expect(0);
        assert!(shown.stdout.contains(base_url), "{shown:?}");
    }
}

/// How the service answers a request with `key`: the status.
fn status(gateway: &Gateway, key: &str) -> String {
    gateway.chat(key, "Hello.").split_whitespace().nth(1).unwrap_or_default().to_owned()
}

#[test]
fn a_key_is_rotated_while_the_service_runs_and_the_old_one_opens_nothing() {
    let (home, vendor) = (Home::founded(), Vendor::start());
    let old = home.connect_client(&vendor.url);
    let gateway = home.gateway("");
    assert_eq!(status(&gateway, &old), "200");
    let signed = fs::read_to_string(home.path().join("config/custody/gateway.toml")).unwrap();
    let without_owner = home.alone(&["connect", "openai", "--rotate-key"]);
    assert!(
        without_owner.code == 2 && without_owner.stderr.contains("refused"),
        "{without_owner:?}"
    );
    assert_eq!(status(&gateway, &old), "200", "nothing has changed");

    let args = ["connect", "openai", "--rotate-key", "--json"];
    let new = home.typing(&args, &[OWNER_PASSPHRASE]).expect(0).json();
    let new = new[0]["key"].as_str().unwrap();
    assert_eq!([status(&gateway, &old), status(&gateway, new)], ["401", "200"]);
    let after = fs::read_to_string(home.path().join("config/custody/gateway.toml")).unwrap();
    assert_eq!(after, signed, "what the owner signed stays");
    let open = home.alone(&["session", "list", "--json"]).expect(0).json();
    assert_eq!(open.len(), 1, "the sessions of the old key ended: {open:?}");
    let none = home.typing(&["connect", "google", "--rotate-key"], &[]);
    assert!(none.stderr.contains("there is no connection"), "{none:?}");
    home.alone(&["ledger", "verify"]).expect(0);
}

#[test]
fn a_rotated_key_stands_in_the_settings_of_the_host_and_these_still_come_back_byte_for_byte() {
    let home = Home::founded();
    let claude = home.path().join(".claude/settings.json");
    fs::create_dir_all(claude.parent().unwrap()).unwrap();
    let before = "{\"model\": \"opus\" }";
    fs::write(&claude, before).unwrap();
    let typing = |args: &[&str]| home.typing(args, &[OWNER_PASSPHRASE]);
    let connect = ["connect", "claude-code", "--apply", "--no-wait"];
    typing(&[&connect[..], &["--surface", "proxy"]].concat()).expect(0);
    typing(&["hook", "install", "codex", "--no-selftest"]).expect(0);
    let read = |path: &str| fs::read_to_string(home.path().join(path)).unwrap();
    let key_of = |name: &str| read(&format!("config/custody/hooks/{name}.key"));
    let (old, settings, hooks) =
        (key_of("claude-code"), read(".claude/settings.json"), read(".codex/hooks.json"));
    assert!(settings.contains(&old));

    // Whose settings somebody changed is not written over.
    fs::write(&claude, settings.replace("opus", "sonnet")).unwrap();
    let refused = typing(&["connect", "claude-code", "--rotate-key"]);
    assert!(refused.code == 2 && refused.stderr.contains("was changed since"), "{refused:?}");
    fs::write(&claude, &settings).unwrap();

    let shown = typing(&["connect", "claude-code", "--rotate-key"]).expect(0).stdout;
    let new = key_of("claude-code");
    assert!(new != old && !shown.contains(&new), "{shown}");
    assert_eq!(read(".claude/settings.json"), settings.replace(&old, &new));
    assert!(!read("config/custody/before-claude-code.json").contains(&old));
    let doctor = home.alone(&["doctor"]).stdout;
    assert!(!doctor.contains("settings.json"), "the owner adopted the change: {doctor}");

    let codex = key_of("codex");
    typing(&["connect", "codex", "--rotate-key"]).expect(0);
    assert_ne!(key_of("codex"), codex);
    assert_eq!(read(".codex/hooks.json"), hooks, "it names only the file of the key");

    typing(&["connect", "claude-code", "--undo"]).expect(0);
    typing(&["hook", "uninstall", "codex"]).expect(0);
    assert_eq!(read(".claude/settings.json"), before);
    assert!(!home.path().join(".codex").exists());
    home.alone(&["ledger", "verify"]).expect(0);
}

#[test]
fn whether_the_service_runs_is_said_where_hosts_wait_for_it() {
    let home = Home::founded();
    let doctor = home.alone(&["doctor"]).stdout;
    assert!(doctor.contains("none runs, and none is needed"), "{doctor}");
    assert_eq!(home.alone(&["enforce"]).expect(0).stderr, "", "nobody waits for it");
    home.typing(&["connect", "openai", "--no-wait"], &[OWNER_PASSPHRASE]).expect(0);
    let stopped = "`custody serve` is not running";
    assert!(home.alone(&["enforce"]).expect(0).stderr.contains(stopped));
    assert!(home.alone(&["doctor"]).stdout.contains(stopped));
    assert_eq!(home.alone(&["session", "list"]).expect(0).stderr, "");

    let mut gateway = home.gateway("");
    assert_eq!(home.alone(&["enforce"]).expect(0).stderr, "");
    assert_eq!(home.alone(&["enforce", "--json"]).expect(0).json()[0]["service"], "ready");
    assert!(home.alone(&["doctor"]).stdout.contains("`custody serve` keeps the record"));
    assert!(gateway.terminate().success());
    assert_eq!(home.alone(&["enforce", "--json"]).expect(0).json()[0]["service"], "not_running");
    // One that was killed could take nothing back, and is not running either.
    drop(home.gateway(""));
    assert!(home.alone(&["enforce"]).expect(0).stderr.contains(stopped));
}

#[test]
fn the_intent_step_is_asked_for_or_comes_with_the_strict_policy() {
    let home = Home::founded();
    let typing = |args: &[&str]| home.typing(args, &[OWNER_PASSPHRASE]).expect(0);
    let gateway = home.path().join("config/custody/gateway.toml");
    let setting = |connection: &str, name: &str| {
        let settings: toml::Table = fs::read_to_string(&gateway).unwrap().parse().unwrap();
        settings["connection"][connection][name].as_bool().unwrap()
    };
    let both = |connection: &str| (setting(connection, "strict"), setting(connection, "intents"));
    typing(&["connect", "openai", "--no-wait"]);
    assert_eq!(both("openai"), (false, false));
    typing(&["enforce", "openai", "--intents", "on"]);
    assert_eq!(both("openai"), (false, true));
    typing(&["enforce", "openai", "--strict", "on", "--intents", "off"]);
    assert_eq!(both("openai"), (true, false));
    typing(&["enforce", "openai"]);
    assert_eq!(both("openai"), (true, false), "what is not named stays");
    typing(&["connect", "anthropic", "--strict", "--no-wait"]);
    assert_eq!(both("anthropic"), (true, true));
    let policy = home.path().join("strict.cedar");
    home.alone(&["policy", "init", "strict", "--out", policy.to_str().unwrap()]).expect(0);
    typing(&["policy", "set", policy.to_str().unwrap(), "--apply"]);
    typing(&["connect", "google", "--no-wait"]);
    assert_eq!(both("google"), (false, true));
}

#[test]
fn what_waits_for_the_owner_is_said() {
    let home = Home::founded();
    home.typing(&["connect", "openai", "--no-wait"], &[OWNER_PASSPHRASE]).expect(0);
    home.typing(&["enforce", "openai"], &[OWNER_PASSPHRASE]).expect(0);
    let gateway = home.path().join("config/custody/gateway.toml");
    let signed = fs::read_to_string(&gateway).unwrap();
    fs::write(&gateway, signed.replace("\"guard\"", "\"observe\"") + "[connection.new]\n").unwrap();
    let shown = home.alone(&["enforce", "--json"]).expect(0);
    assert_eq!(shown.json()[0]["mode"], "guard");
    for what in ["`openai` would allow more, which waits", "`new` is new, which waits"] {
        assert!(shown.stderr.contains(what), "{shown:?}");
    }
    fs::write(&gateway, "[broken").unwrap();
    let broken = home.alone(&["enforce"]);
    assert!(broken.code == 2 && broken.stderr.contains("line 1"), "{broken:?}");

    // What the owner adopted without looking is not taken for no settings at all.
    let path = gateway.to_str().unwrap();
    let typing = |args: &[&str]| home.typing(args, &[OWNER_PASSPHRASE, "y"]);
    typing(&["memory", "mode", "gateway.toml", "open", "--apply"]).expect(0);
    typing(&["memory", "adopt", path, "--apply"]).expect(0);
    let refused = typing(&["connect", "anthropic", "--no-wait"]);
    assert!(refused.stderr.contains("is not understood, line 1"), "{refused:?}");
}

#[test]
fn a_server_ends_with_the_guard_that_its_host_ends() {
    let mut guard = Command::new(env!("CARGO_BIN_EXE_custody"))
        .args(["mcp", "--server", "it", "--", "sh", "-c", "echo $$ >&2; exec sleep 600"])
        .env("CUSTODY_GATEWAY_KEY", "custody_x")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut server = String::new();
    BufReader::new(guard.stderr.take().unwrap()).read_line(&mut server).unwrap();
    let guarding = guard.id().to_string();
    assert!(Command::new("kill").arg(guarding).status().unwrap().success());
    assert!(!guard.wait().unwrap().success());
    let is_there = Command::new("kill").args(["-0", server.trim()]).output().unwrap();
    assert!(!is_there.status.success(), "{server} is still there");
}
