//! The commands of the gateway: what they change, and that they take it back.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

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
