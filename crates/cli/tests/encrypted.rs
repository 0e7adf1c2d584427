//! Hosts that reach `custody serve` by HTTPS: what they are told, and that a key goes nowhere else.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;

use common::gateway::Vendor;
use common::{Home, OWNER_PASSPHRASE, Ran};
use serde_json::Value;

const PROMPT: &str = r#"{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt":"Hello."}"#;

/// A certificate for `localhost` that signs itself, and its key.
fn certificate(home: &Home, name: &str) -> [PathBuf; 2] {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    home.write(&format!("{name}.pem"), &made.cert.pem());
    home.write(&format!("{name}.key"), &made.signing_key.serialize_pem());
    ["pem", "key"].map(|kind| home.path().join(format!("{name}.{kind}")))
}

fn hook(home: &Home, address: &str, ca: Option<&str>) -> Ran {
    let run = ["hook", "run", "codex", "--event", "UserPromptSubmit", "--key", "key"];
    let ca = ca.map(|ca| ["--ca", ca]);
    let run = [&run[..], &["--address", address], ca.as_ref().map_or(&[][..], |ca| ca)].concat();
    home.alone_with(&run, &[], PROMPT)
}

#[test]
fn hooks_and_mcp_servers_ask_over_https_whom_the_certificate_names_and_nobody_else() {
    let (home, vendor) = (Home::founded(), Vendor::start());
    let key = home.connect_client(&vendor.url);
    home.write_private("key", &key);
    let [certificate_file, key_file] =
        certificate(&home, "ours").map(|path| path.display().to_string());
    certificate(&home, "others");
    let gateway = home.gateway_with(&["--tls-cert", &certificate_file, "--tls-key", &key_file]);
    let (_, port) = gateway.address.rsplit_once(':').unwrap();
    let named = format!("https://localhost:{port}");

    let asked = hook(&home, &named, Some("ours.pem")).expect(0);
    assert_eq!((asked.stdout.as_str(), asked.stderr.as_str()), ("", ""));
    for (address, ca, why) in [
        (named.as_str(), None, "a root that nobody knows"),
        (&named, Some("others.pem"), "another's root"),
        (&format!("https://127.0.0.1:{port}"), Some("ours.pem"), "another name"),
        (&format!("127.0.0.1:{port}"), None, "nothing encrypted"),
        (&named, Some("none.pem"), "no file"),
    ] {
        let denied = hook(&home, address, ca).expect(2);
        assert!(denied.stderr.contains("so this does not go on"), "{why}: {denied:?}");
    }
    assert_eq!(gateway.log().matches("codex-hook").count(), 1, "{}", gateway.log());

    let args = ["mcp-memory", "--key", "key", "--address", &named, "--ca", "ours.pem"];
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let answer = home.alone_with(&args, &[], list).expect(0).stdout;
    assert!(answer.contains("\"remember\""), "{answer}");

    // Other commands find a service with a certificate, too.
    assert_eq!(home.alone(&["enforce", "--json"]).expect(0).json()[0]["service"], "ready");
}

#[test]
fn a_key_is_not_sent_to_whom_no_certificate_names() {
    let home = Home::founded();
    home.write_private("key", "custody_canary");
    certificate(&home, "ours");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut got = vec![0; 65_536];
        let length = stream.read(&mut got).unwrap();
        // What speaks no TLS is no Custody.
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
        got.truncate(length);
        String::from_utf8_lossy(&got).into_owned()
    });
    hook(&home, &address, Some("ours.pem")).expect(2);
    let got = asked.join().unwrap();
    assert!(!got.is_empty() && !got.contains("canary"), "{got}");
    for address in ["192.0.2.1:7411", "http://192.0.2.1:7411", "https://u@custody.example"] {
        hook(&home, address, None).expect(2);
    }
}

#[test]
fn what_connect_writes_leads_to_the_encrypted_service_and_comes_back_byte_for_byte() {
    let home = Home::founded();
    let [root, _] = certificate(&home, "ours").map(|path| path.display().to_string());
    let service = "https://custody.example:7411";
    let typing = |args: &[&str]| home.typing(args, &[OWNER_PASSPHRASE]);
    let told = typing(&["connect", "openai", "--no-wait", "--address", service]).expect(0).stdout;
    assert!(told.contains("OPENAI_BASE_URL=https://custody.example:7411/openai/v1\n"), "{told}");
    // The name of the option before.
    let told =
        typing(&["connect", "anthropic", "--no-wait", "--listen", "127.0.0.1:7500"]).expect(0);
    assert!(told.stdout.contains("http://127.0.0.1:7500/anthropic"), "{told:?}");
    for (address, why) in [
        ("192.0.2.1:7411", "another machine"),
        ("https://custody.example/path", "write an address"),
    ] {
        let refused = typing(&["connect", "google", "--no-wait", "--address", address]);
        assert!(refused.code == 2 && refused.stderr.contains(why), "{refused:?}");
    }

    let place = ["--address", service, "--ca", root.as_str()];
    typing(&[&["connect", "claude-code", "--apply", "--no-wait"][..], &place].concat()).expect(0);
    let file = home.path().join(".claude/settings.json");
    let settings: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(settings["env"]["ANTHROPIC_BASE_URL"], "https://custody.example:7411/anthropic");
    assert_eq!(settings["env"]["NODE_EXTRA_CA_CERTS"], root.as_str());
    typing(&["connect", "claude-code", "--undo"]).expect(0);
    assert!(!file.exists());

    typing(&[&["hook", "install", "codex", "--no-selftest"][..], &place].concat()).expect(0);
    let hooks = fs::read_to_string(home.path().join(".codex/hooks.json")).unwrap();
    let expected = format!("--address https://custody.example:7411 --ca '{root}'");
    assert!(hooks.contains(&expected), "{hooks}");
    typing(&["hook", "uninstall", "codex"]).expect(0);
    assert!(!home.path().join(".codex").exists());
}
