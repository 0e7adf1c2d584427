//! Hooks in coding agents: what `custody hook` writes and takes back, and what the program does that hosts run.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use common::{Home, OWNER_PASSPHRASE, Ran};
use serde_json::Value;

/// Without the hosts themselves, whichever are installed here.
const PATH: [(&str, &str); 1] = [("PATH", "/usr/bin:/bin")];
/// Each host, its file, and what its user had in there.
const HOSTS: [(&str, &str, &str); 5] = [
    ("claude-code", ".claude/settings.json", "{\"model\": \"opus\" }"),
    ("codex", ".codex/hooks.json", "{\"hooks\": {\"Stop\": [ ]}}"),
    ("gemini", ".gemini/settings.json", "{\"security\":{\"auth\":{\"selectedType\":\"x\"}}}\n\n"),
    ("copilot", ".copilot/hooks/custody.json", "{\"version\":1,\"hooks\":{}}"),
    ("cursor", ".cursor/hooks.json", "{ \"version\": 1, \"hooks\": {\"stop\": []} }"),
];

/// Every file and folder of the home but those of the store and its keys, with what each file holds.
fn everything(home: &Path) -> BTreeMap<PathBuf, Option<String>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![home.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(home).unwrap().to_owned();
            if name.starts_with("data") || name.starts_with("state") || name.starts_with("config") {
                continue;
            }
            let text = if path.is_dir() { None } else { Some(fs::read_to_string(&path).unwrap()) };
            if path.is_dir() {
                folders.push(path);
            }
            found.insert(name, text);
        }
    }
    found
}

fn typing(home: &Home, args: &[&str]) -> Ran {
    home.typing_with(args, &[OWNER_PASSPHRASE], &PATH, "")
}

#[test]
fn hooks_come_and_go_byte_for_byte_whether_or_not_there_were_settings() {
    for (host, file, before) in HOSTS {
        for had_settings in [false, true] {
            let home = Home::founded();
            let file = home.path().join(file);
            if had_settings {
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(&file, before).unwrap();
                fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
            }
            let untouched = everything(&home.path());
            typing(&home, &["hook", "install", host, "--no-selftest"]).expect(0);
            let written: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
            assert!(written["hooks"].as_object().unwrap().len() >= 5, "{host}: {written}");
            let shown = home.alone_with(&["hook", "status", "--json"], &PATH, "").json();
            assert_eq!(shown[0]["host"], host);
            assert_eq!(
                (&shown[0]["as_written"], &shown[0]["mode"]),
                (&true.into(), &"observing".into())
            );
            home.alone_with(&["doctor"], &PATH, "");

            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, format!("{text}// mine\n")).unwrap();
            let refused = typing(&home, &["hook", "uninstall", host]).expect(2);
            assert!(refused.stderr.contains("+ // mine"), "{host}: {refused:?}");
            let shown = home.alone_with(&["hook", "status", "--json"], &PATH, "").expect(1).json();
            assert_eq!(shown[0]["as_written"], false);
            fs::write(&file, text).unwrap();

            typing(&home, &["hook", "uninstall", host]).expect(0);
            assert_eq!(everything(&home.path()), untouched, "{host}");
            if had_settings {
                assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
            }
            assert!(!home.path().join("config/custody/hooks").exists(), "{host}: the key is gone");
            assert!(home.alone(&["enforce", "--json"]).expect(0).json().is_empty(), "{host}");
            let doctor = home.alone_with(&["doctor"], &PATH, "");
            assert!(
                !doctor.stdout.contains("hosts/"),
                "{host}: nothing is watched that is gone: {doctor:?}"
            );
            typing(&home, &["hook", "install", host, "--no-selftest"]).expect(0);
        }
    }
}

#[test]
fn a_connection_that_was_there_before_its_hooks_stays() {
    let home = Home::founded();
    typing(&home, &["connect", "codex", "--no-wait"]).expect(0);
    let key = home.path().join("config/custody/hooks/codex.key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    typing(&home, &["hook", "install", "codex", "--no-selftest"]).expect(0);
    typing(&home, &["hook", "uninstall", "codex"]).expect(0);
    assert_eq!(home.alone(&["enforce", "--json"]).expect(0).json()[0]["connection"], "codex");
    assert!(key.exists());
    typing(&home, &["connect", "codex", "--undo"]).expect(0);
    assert!(!key.exists());
}

#[test]
fn requests_come_by_custody_and_every_file_goes_back_byte_for_byte() {
    let codex = "# mine\nmodel = \"gpt-5\"\n\n[tui]\nnotifications = false";
    let cases = [
        ("codex", ".codex/config.toml", codex, "/openai/v1"),
        ("gemini", ".gemini/.env", "GEMINI_API_KEY=k # mine", "/gemini"),
        ("copilot", ".copilot/config.json", "{ }", ""),
    ];
    for (host, file, before, address) in cases {
        for surface in ["proxy", "both"] {
            let home = Home::founded();
            let file = home.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, before).unwrap();
            let untouched = everything(&home.path());
            let connect = ["connect", host, "--apply", "--no-wait", "--surface", surface];
            let shown = typing(&home, &connect).expect(0);
            let key = home.path().join(format!("config/custody/hooks/{host}.key"));
            let key = fs::read_to_string(key).unwrap();
            let (written, url) =
                (fs::read_to_string(&file).unwrap(), format!("http://127.0.0.1:7411{address}"));
            if host == "copilot" {
                assert!(
                    shown.stdout.contains(&format!(
                        "export COPILOT_PROVIDER_HEADERS='x-custody-key: {key}'"
                    ))
                );
                assert_eq!(written, before);
            } else {
                assert!(written.contains(&url) && written.contains(&key), "{host}: {written}");
                assert!(!shown.stdout.contains(&key), "{host}: {shown:?}");
            }
            let hooks = home.alone_with(&["hook", "status", "--json"], &PATH, "").expect(0);
            assert_eq!(hooks.json().len(), usize::from(surface == "both"), "{host} {surface}");
            typing(&home, &["connect", host, "--undo"]).expect(0);
            assert_eq!(everything(&home.path()), untouched, "{host} {surface}");
        }
    }
}

#[test]
fn what_codex_wrote_since_into_its_settings_stays() {
    let home = Home::founded();
    let file = home.path().join(".codex/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "model = \"gpt-5\"\n").unwrap();
    typing(&home, &["connect", "codex", "--apply", "--no-wait", "--surface", "both"]).expect(0);
    let theirs = "\n[projects.\"/x\"]\ntrust_level = \"trusted\"\n";
    fs::write(&file, fs::read_to_string(&file).unwrap() + theirs).unwrap();
    typing(&home, &["connect", "codex", "--undo"]).expect(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("model = \"gpt-5\"\n{theirs}"));
    assert!(!home.path().join(".codex/hooks.json").exists());
}

#[test]
fn a_host_whose_requests_cannot_come_by_custody_is_left_alone() {
    let home = Home::founded();
    let settings = home.path().join(".gemini/settings.json");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(&settings, "{\"security\":{\"auth\":{\"selectedType\":\"oauth-personal\"}}}")
        .unwrap();
    let config = home.path().join(".codex/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, "model_provider = \"ollama\"\n").unwrap();
    let untouched = everything(&home.path());
    let cases = [
        ("cursor", "both", "guarded by its hooks"),
        ("gemini", "proxy", "only requests with an API key can come by Custody"),
        ("codex", "both", "say where that is with --upstream"),
    ];
    for (host, surface, why) in cases {
        let connect = ["connect", host, "--apply", "--no-wait", "--surface", surface];
        let refused = typing(&home, &connect).expect(2);
        assert!(refused.stderr.contains(why), "{refused:?}");
        assert_eq!(everything(&home.path()), untouched, "{host}");
        assert!(home.alone(&["enforce", "--json"]).expect(0).json().is_empty(), "{host}");
    }
}

#[test]
fn what_cannot_be_changed_is_left_alone() {
    for (host, file, _) in HOSTS {
        let home = Home::founded();
        let file = home.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "// a comment\n{}").unwrap();
        let untouched = everything(&home.path());
        let ran = typing(&home, &["hook", "install", host, "--no-selftest"]).expect(2);
        assert!(ran.stderr.contains("cannot be changed"), "{ran:?}");
        assert_eq!(everything(&home.path()), untouched, "{host}");
        assert!(home.alone(&["enforce", "--json"]).expect(0).json().is_empty(), "{host}");
        let ran = typing(&home, &["hook", "uninstall", host]).expect(2);
        assert!(ran.stderr.contains("no hooks of"), "{ran:?}");
    }
}

/// A service that answers every request with the same bytes, or never.
fn service(answer: Option<&'static str>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if let Some(answer) = answer {
                let _ = stream.read(&mut [0; 65_536]);
                let _ = stream.write_all(answer.as_bytes());
            }
            open.push(answer.is_none().then_some(stream));
        }
    });
    address
}

fn ok(body: &str) -> &'static str {
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}").leak()
}

fn hook(home: &Home, address: SocketAddr, host: &str, event: &str) -> Ran {
    let address = address.to_string();
    let arguments = ["hook", "run", host, "--event", event, "--key", "key", "--timeout", "2"];
    home.alone_with(&[&arguments[..], &["--address", &address]].concat(), &[], "{}")
}

fn with_key() -> Home {
    let home = Home::new();
    fs::write(home.path().join("key"), "custody_secret\n").unwrap();
    fs::set_permissions(home.path().join("key"), fs::Permissions::from_mode(0o600)).unwrap();
    home
}

#[test]
fn whatever_goes_wrong_the_answer_is_a_denial_with_a_reason() {
    let home = with_key();
    let dead = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let denial = "Custody is not answering, so this does not go on: ";
    let cases = [
        ("nobody listens", dead),
        ("nobody answers", service(None)),
        ("not HTTP", service(Some("garbage\r\n\r\n"))),
        ("an empty answer", service(Some(ok("")))),
        ("not JSON", service(Some(ok("yes")))),
        ("another program's JSON", service(Some(ok("{\"permissionDecision\":\"allow\"}")))),
        (
            "a denial without a reason",
            service(Some(ok("{\"exit_code\":2,\"stdout\":\"\",\"stderr\":\"\"}"))),
        ),
        (
            "an exit code of no meaning",
            service(Some(ok("{\"exit_code\":1,\"stdout\":\"\",\"stderr\":\"x\"}"))),
        ),
        ("cut", service(Some("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"exit_code\":0,"))),
        ("refused", service(Some("HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\n{}"))),
    ];
    for (what, address) in cases {
        for (host, event) in
            [("codex", "PreToolUse"), ("gemini", "BeforeTool"), ("copilot", "preToolUse")]
        {
            let ran = hook(&home, address, host, event).expect(2);
            assert!(
                ran.stdout.is_empty() && ran.stderr.starts_with(denial),
                "{what}, {host}: {ran:?}"
            );
            assert_eq!(ran.stderr.lines().count(), 1, "{what}: {ran:?}");
        }
    }
    let ran = hook(&home, dead, "cursor", "preToolUse").expect(2);
    assert_eq!(ran.json()[0]["permission"], "deny");
    let ran = hook(&home, dead, "copilot", "userPromptSubmitted").expect(0);
    assert_eq!(ran.json()[0]["decision"], "block", "this host blocks no prompt by an exit code");
    hook(&home, dead, "codex", "Stop").expect(0);

    fs::set_permissions(home.path().join("key"), fs::Permissions::from_mode(0o644)).unwrap();
    let ran = hook(&home, service(Some(ok("{}"))), "codex", "PreToolUse").expect(2);
    assert!(ran.stderr.contains("chmod 600"), "{ran:?}");
    fs::remove_file(home.path().join("key")).unwrap();
    hook(&home, dead, "codex", "PreToolUse").expect(2);
}

#[test]
fn an_answer_goes_to_the_host_as_it_is() {
    let home = with_key();
    let silence = service(Some(ok("{\"exit_code\":0,\"stdout\":\"\",\"stderr\":\"\"}")));
    let ran = hook(&home, silence, "codex", "PreToolUse").expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    let denial =
        service(Some(ok("{\"exit_code\":2,\"stdout\":\"\",\"stderr\":\"Custody: no\\n\"}")));
    let ran = hook(&home, denial, "gemini", "BeforeTool").expect(2);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", "Custody: no\n"));
    let ran = hook(&home, silence, "cursor", "preToolUse").expect(2);
    assert_eq!(ran.json()[0]["permission"], "deny", "this host takes silence for a failure");
}
