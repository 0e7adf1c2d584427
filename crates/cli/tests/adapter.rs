//! `custody adapter`, and hosts that are told to unload what an incident evicts.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use common::{Home, OWNER_PASSPHRASE, Ran};
use serde_json::json;

/// Runs a command as the owner, who types the passphrase.
fn owner(home: &Home, command: &str, more: &[&str]) -> Ran {
    let args: Vec<&str> = command.split(' ').chain(more.iter().copied()).collect();
    home.typing(&[args.as_slice(), &["--as", "owner"]].concat(), &[OWNER_PASSPHRASE])
}

fn alone(home: &Home, command: &str) -> Ran {
    home.alone(&command.split(' ').collect::<Vec<_>>())
}

/// A file with weights; its path.
fn weights(home: &Home, name: &str) -> String {
    let path = home.path().join(name);
    std::fs::write(&path, format!("the weights of {name}")).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A program that unloads: it writes down how it was called, and ends with `code`.
fn program(home: &Home, name: &str, code: u8) -> PathBuf {
    let (path, log) = (home.path().join(name), home.path().join("called"));
    let text = format!(
        "#!/bin/sh\necho \"$@\" >> '{}'\necho 'no such adapter' >&2\nexit {code}\n",
        log.display()
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn what_a_host_carries_is_listed_by_name_and_by_hash() {
    let home = Home::founded();
    let (style, finance) = (weights(&home, "style.gguf"), weights(&home, "finance.gguf"));
    assert!(alone(&home, "adapter list").expect(0).stdout.contains("No host"));
    owner(&home, "adapter load --host vllm-1", &[&style]).expect(0);
    owner(&home, "adapter load --host vllm-1 --name money", &[&finance]).expect(0);
    owner(&home, "adapter load --host vllm-1 --name money", &[&finance]).expect(0);
    let listed = alone(&home, "adapter list --json").expect(0).json();
    let row = |name: &str| listed.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!((&row("style")["loads"], &row("money")["loads"]), (&json!(1), &json!(2)));
    assert_eq!(row("money")["weights"].as_str().unwrap().len(), 64);

    owner(&home, "adapter unload --host vllm-1 money", &[]).expect(0);
    owner(&home, "adapter unload --host vllm-1", &[&finance]).expect(0);
    owner(&home, "adapter fuse --host vllm-1 style", &[]).expect(0);
    let listed = alone(&home, "adapter list").expect(0).stdout;
    assert!(listed.contains("(fused base)") && !listed.contains("money"), "{listed}");
    let log = alone(&home, "ledger show").expect(0).stdout;
    assert!(log.contains("load money into vllm-1"), "{log}");

    owner(&home, "adapter unload --host vllm-1 money", &[]).refused("not loaded");
    owner(&home, "adapter unload --host vllm-1 nothing", &[]).refused("no adapter `nothing`");
    owner(&home, "adapter load --host vllm-1", &["/no/such/file"]).refused("could not read");
    std::fs::write(home.path().join("empty"), "").unwrap();
    let empty = home.path().join("empty");
    owner(&home, "adapter load --host vllm-1", &[empty.to_str().unwrap()]).refused("is empty");
    alone(&home, "ledger verify").expect(0);
}

#[test]
fn a_program_of_the_operators_unloads_what_is_evicted_and_one_that_fails_leaves_it_unfinished() {
    let home = &Home::of_ada();
    let bad = weights(home, "finance.gguf");
    owner(home, "adapter load --host vllm-1", &[&bad]).expect(0);
    let mut host = home.host("--token-file token.txt");
    let opened = host.says(br#"{"id":1,"op":"open","host":"vllm-1"}"#);
    let said = json!({ "session": opened["session"], "kind": "completion", "channel": "model",
        "text": "You owe 400 to Mallory." });
    let answer = host.asks("observe", &said);
    assert!(answer["entries"].is_array(), "{answer}");
    host.ends().expect(0);
    let entry = answer["entries"][0]["entry"].as_str().unwrap();
    let shown = home.alone(&["ledger", "show", entry]).expect(0).stdout;
    assert!(shown.contains("under") && shown.contains("load finance into vllm-1"), "{shown}");
    let traced = home.alone(&["ledger", "trace", entry, "--up"]).expect(0).stdout;
    assert!(traced.contains("load finance into vllm-1"), "{traced}");
    let listed = alone(home, "ledger show --kind adapter --json").expect(0).json();
    let load = listed[0]["id"].as_str().unwrap();
    let traced = home.alone(&["ledger", "trace", load, "--down"]).expect(0).stdout;
    assert!(traced.contains("completion"), "{traced}");

    let hash = alone(home, "adapter list --json").expect(0).json()[0]["weights"].clone();
    let indicator = format!("adapter:{}", hash.as_str().unwrap());
    owner(home, "incident open --indicator", &[&indicator]).expect(0);
    let plan = alone(home, "incident plan --json").expect(0).json().remove(0);
    assert_eq!(plan["plan"]["counts"]["evicted_weights"], 1, "{plan}");
    assert_eq!(plan["plan"]["counts"]["quarantine"], 1, "{plan}");
    let told = alone(home, "incident plan").expect(0).stdout;
    assert!(told.contains("1 adapter unloaded everywhere") && told.contains("finance"), "{told}");
    let apply = format!("incident apply --plan {}", plan["digest"].as_str().unwrap());

    let fails = format!("vllm-1={}", program(home, "fails", 3).display());
    let ran = owner(home, &apply, &["--adapter-host", &fails]).expect(0);
    assert!(ran.stdout.contains("no such adapter"), "{ran:?}");
    let cert = home.path().join("cert.json");
    let out = cert.to_str().unwrap().to_owned();
    let ran = owner(home, "incident certify -o", &[&out]).expect(1);
    assert!(ran.stdout.contains("adapters unfinished (1)"), "{ran:?}");
    assert!(alone(home, "adapter list").expect(0).stdout.contains("evicted"));

    let works = format!("vllm-1={}", program(home, "works", 0).display());
    let ran = owner(home, &apply, &["--adapter-host", &works]).expect(0);
    assert!(ran.stdout.contains("evicted  finance from vllm-1 (1 load)"), "{ran:?}");
    let ran = owner(home, "incident certify -o", &[&out]);
    assert!(!ran.stdout.contains("adapters"), "{ran:?}");
    let called = std::fs::read_to_string(home.path().join("called")).unwrap();
    let expected = format!("unload {} finance", hash.as_str().unwrap());
    assert_eq!(called.lines().collect::<Vec<_>>(), [&expected, &expected]);
    let verified = home.alone(&["cert", "verify", &out]).expect(0).stdout;
    assert!(verified.contains("0 fail, 0 cannot be told"), "{verified}");
    owner(home, "adapter load --host vllm-1", &[&bad]).expect(1);
    for host in ["vllm-1", "=x", "vllm-1="] {
        owner(home, &apply, &["--adapter-host", host]).expect(2);
    }
}

/// A folder with a LoRA of one matrix, as PEFT writes it.
fn adapter_folder(home: &Home, name: &str, more: &serde_json::Value) -> String {
    let folder = home.path().join(name);
    std::fs::create_dir(&folder).unwrap();
    let mut configuration = json!({
        "peft_type": "LORA", "r": 1, "lora_alpha": 1, "revision": "0a1b", "base_model_name_or_path": "base\u{1b}[2J",
    });
    for (key, value) in more.as_object().unwrap() {
        configuration[key] = value.clone();
    }
    let tensor = |from: u8, shape: [u8; 2]| json!({ "dtype": "F32", "shape": shape, "data_offsets": [from, from + 8] });
    let header = json!({
        "base_model.model.m.q_proj.lora_A.weight": tensor(0, [1, 2]),
        "base_model.model.m.q_proj.lora_B.weight": tensor(8, [2, 1]),
    })
    .to_string();
    let numbers = [3.0_f32, 4.0, 1.0, 0.0].map(f32::to_le_bytes).concat();
    let length = (header.len() as u64).to_le_bytes();
    let weights = [&length[..], header.as_bytes(), &numbers].concat();
    std::fs::write(folder.join("adapter_model.safetensors"), weights).unwrap();
    std::fs::write(folder.join("adapter_config.json"), configuration.to_string()).unwrap();
    folder.to_str().unwrap().to_owned()
}

#[test]
fn a_scan_says_what_an_adapter_holds_and_fails_where_it_is_told_to() {
    let home = Home::new();
    let plain = adapter_folder(&home, "plain", &json!({}));
    let trigger = adapter_folder(&home, "trigger", &json!({ "alora_invocation_tokens": [7] }));
    let shown = home.alone(&["adapter", "scan", &plain]).expect(0).stdout;
    assert!(shown.contains("LoRA, 4 numbers, 1 of 1 changes evaluated"), "{shown}");
    assert!(shown.contains("m.q_proj") && shown.contains("5.0000"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "nothing of a file steers the terminal: {shown}");

    let both = home.alone(&["adapter", "scan", &plain, &trigger, "--json"]).expect(1).json();
    assert_eq!(both[0]["report"]["findings"], json!([]));
    assert_eq!(both[1]["report"]["findings"][0]["rule"], "hidden-effect");
    assert_ne!(both[0]["report"]["identity"], both[1]["report"]["identity"]);
    home.alone(&["adapter", "scan", &trigger, "--fail-on", "never"]).expect(0);

    // One that cannot be read is not clean, and does not keep others from being looked at.
    let broken = home.path().join("broken.safetensors");
    std::fs::write(&broken, b"PK\x03\x04").unwrap();
    let broken = broken.to_str().unwrap();
    let mixed = home.alone(&["adapter", "scan", broken, &plain, "/nonexistent"]).expect(1).stdout;
    assert!(mixed.contains("a ZIP archive") && mixed.contains("1 of 1 changes"), "{mixed}");
    assert!(mixed.contains("cannot be read"), "{mixed}");
}
