//! The benchmark data: rows from hostile files, splits, and how the files come here.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;
#[path = "../../crates/models/tests/common/server.rs"]
mod server;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use custody_lab::data::{
    DataError, DataFileState, DataFolder, DataPin, FetchedData, Original, Row, known, read_rows,
};
use custody_models::fetch::{Fetcher, Timeouts};
use custody_models::sha256::Sha256;
use server::{Answer, Server};
use tempfile::TempDir;

const ROW: &str = r#"{"id": "a", "text": "x", "label": 1, "lang": "en", "words": [1]}"#;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// A folder with one file `rows.jsonl`.
fn holding(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// An error with its causes.
fn chain(error: &DataError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[test]
fn rows_keep_their_order_their_labels_and_their_other_fields() {
    let lines = format!(
        "{ROW}\n\n{{\"text\": \"y\", \"label\": null}}\r\n{{\"text\": \"z\", \"label\": 0}}"
    );
    for bytes in [lines.as_bytes().to_vec(), gzip(lines.as_bytes())] {
        let (_folder, path) = holding(&bytes);
        let set = read_rows(&path).unwrap();
        let rows: Vec<String> = set
            .rows
            .iter()
            .map(|row: &Row| format!("{} {} {:?}", row.id, row.text, row.label))
            .collect();
        assert_eq!(rows, ["a x Some(1)", "line 3 y None", "line 4 z Some(0)"]);
        assert_eq!((set.rows[0].field("lang"), set.rows[0].field("words")), (Some("en"), None));
        assert_eq!(set.file.sha256, Sha256::of(&bytes).to_string());
        assert_eq!(set.file.rows, 3);
    }
}

#[test]
fn a_line_that_is_no_row_is_named_with_its_file_and_number() {
    let cases: [(&[u8], &str); 12] = [
        (b"{\"text\": \"y\", \"label\": NaN}", "is no JSON object with numbers as JSON has them"),
        (b"{\"text\": \"y\", \"label\": 2}", "the label is `2`, not 0, 1 or null"),
        (b"{\"text\": \"y\", \"label\": -1}", "the label is `-1`"),
        (b"{\"text\": \"y\", \"label\": 0.5}", "the label is `0.5`"),
        (b"{\"text\": \"y\", \"label\": \"yes\"}", "the label is `\"yes\"`"),
        (b"{\"text\": \"y\", \"label\": true}", "the label is `true`"),
        (b"{\"label\": 1}", "has no `text`"),
        (b"{\"text\": 7}", "`text` is not a text"),
        (b"{\"text\": \"y\", \"id\": []}", "`id` is neither text nor number"),
        (b"[1]", "is no JSON object"),
        (b"{\"text\": \"y\xFF\"}", "is not UTF-8 at byte 11"),
        (b"{\"text\": \"y", "is no JSON object"),
    ];
    for (line, why) in cases {
        let bytes = [ROW.as_bytes(), b"\n", line, b"\n", ROW.as_bytes()].concat();
        let (_folder, path) = holding(&bytes);
        let error = read_rows(&path).unwrap_err().to_string();
        assert!(error.contains("rows.jsonl` line 2: ") && error.contains(why), "{error}");
    }
}

#[test]
fn a_file_that_is_empty_cut_off_or_absent_is_refused() {
    let packed = gzip(ROW.repeat(1000).as_bytes());
    let cases: [(&str, &[u8], &str); 4] = [
        ("empty", b"", "holds no rows"),
        ("blank", b"\n \n", "holds no rows"),
        ("gzip of nothing", &gzip(b""), "holds no rows"),
        ("cut off", &packed[..packed.len() / 2], "line 1: the gzip file is cut off"),
    ];
    for (name, bytes, why) in cases {
        let (_folder, path) = holding(bytes);
        let error = read_rows(&path).unwrap_err().to_string();
        assert!(error.contains(why), "{name}: {error}");
    }
    let error = read_rows(Path::new("/nowhere/rows.jsonl")).unwrap_err();
    assert!(error.to_string().contains("`custody data import DIR`"), "{error}");
    assert!(matches!(error, DataError::Absent { .. }));
}

#[test]
fn a_text_of_ten_megabytes_is_a_row() {
    let text = "\\u00e9".repeat(5 << 20);
    let (_folder, path) = holding(format!("{{\"text\": \"{text}\"}}").as_bytes());
    assert_eq!(read_rows(&path).unwrap().rows[0].text.len(), 10 << 20);
}

#[test]
fn a_split_names_every_row_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir(folder.path().join("splits")).unwrap();
    let row = |id: &str, label: &str| {
        format!("{{\"id\": \"{id}\", \"text\": \"t\", \"label\": {label}}}\n")
    };
    write("rows.jsonl", &[row("a", "0"), row("b", "1"), row("c", "1"), row("d", "null")].concat());
    write("more.jsonl", &row("a", "0"));
    let split = |files: &str, train: &str, test: &str| {
        let text = format!(r#"{{"files": {files}, "train": {train}, "test": {test}}}"#);
        write("splits/own.json", &text);
        DataFolder::open(folder.path()).split("own")
    };
    let good = split(r#"["rows.jsonl"]"#, r#"["c", "a"]"#, r#"["b"]"#).unwrap();
    let ids = |rows: &[Row]| rows.iter().map(|row| row.id.clone()).collect::<String>();
    assert_eq!((ids(&good.train), ids(&good.test)), ("ca".to_owned(), "b".to_owned()));
    let files: Vec<_> = good.files.iter().map(|file| (file.file.as_str(), file.rows)).collect();
    assert_eq!(files, [("splits/own.json", 1), ("rows.jsonl", 4)]);
    let cases = [
        (r#"["rows.jsonl"]"#, r#"["a"]"#, r#"["a"]"#, "names the row `a`, which no file holds, or"),
        (r#"["rows.jsonl"]"#, r#"["a"]"#, r#"["x"]"#, "names the row `x`, which no file holds, or"),
        (r#"["rows.jsonl"]"#, r#"["a"]"#, r#"["d"]"#, "names the row `d`, which has no label"),
        (r#"["rows.jsonl", "more.jsonl"]"#, "[]", "[]", "holds the id `a` a second time"),
        (r#"["none.jsonl"]"#, "[]", "[]", "none.jsonl` is not here"),
        ("7", "[]", "[]", "is no split"),
    ];
    for (files, train, test, why) in cases {
        let error = split(files, train, test).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn the_real_data_is_as_pinned_and_the_splits_have_the_papers_sizes() {
    let Some(data) = common::data() else { return };
    let folder = DataFolder::open(&data);
    for (pin, state) in folder.verify() {
        assert_eq!(state, DataFileState::Verified, "{}", pin.name);
        if pin.name.ends_with(".jsonl") || pin.name.ends_with(".gz") {
            let set = folder.rows(&pin.name).unwrap();
            assert_eq!(set.file.rows, pin.rows, "{}", pin.name);
        }
    }
    let sizes =
        [("deepset", 546, 116, 60), ("jackhhao", 1044, 262, 139), ("combined", 2600, 650, 202)];
    for (name, train, test, positive) in sizes {
        let split = folder.split(name).unwrap();
        let positives = split.test.iter().filter(|row| row.label == Some(1)).count();
        assert_eq!((split.train.len(), split.test.len(), positives), (train, test, positive));
    }
}

#[test]
fn the_pins_are_those_of_the_datas_own_record() {
    let Some(data) = common::data() else { return };
    let text = std::fs::read_to_string(data.join("PROVENANCE.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), known().len());
    for (line, pin) in lines.iter().zip(known()) {
        let here =
            serde_json::json!([pin.name, pin.sha256, pin.bytes, pin.rows, pin.licence, pin.may]);
        let keys = ["file", "sha256_file", "bytes", "rows", "licence", "use"];
        let there: serde_json::Value = keys.iter().map(|key| line[key].clone()).collect();
        assert_eq!(here, there);
        let sources = line["sources"].as_array().unwrap();
        assert_eq!(sources.len(), pin.originals.len(), "{}", pin.name);
        for (source, original) in sources.iter().zip(&pin.originals) {
            assert_eq!(source["repo"], original.repository);
            assert_eq!(source["commit"], original.commit);
            assert!(source["path"].as_str().unwrap().starts_with(&original.path));
            assert_eq!(source["sha256_original"], original.sha256.to_string());
            assert_eq!(source["bytes"].as_u64(), original.bytes);
        }
    }
}

const COMMIT: &str = "0123456789012345678901234567890123456789";
const ORIGINAL: &[u8] = b"text,label\r\nx,1\r\n";
const NORMALISED: &[u8] = b"{\"text\": \"x\", \"label\": 1}\n";

fn original(path: &str, bytes: &[u8]) -> Original {
    Original {
        repository: "owner/name".to_owned(),
        commit: COMMIT.to_owned(),
        path: path.to_owned(),
        sha256: Sha256::of(bytes),
        bytes: Some(bytes.len() as u64),
    }
}

fn pin(name: &str, bytes: &[u8], originals: Vec<Original>) -> DataPin {
    DataPin {
        name: name.to_owned(),
        sha256: Sha256::of(bytes),
        bytes: bytes.len() as u64,
        rows: 1,
        licence: "CC0-1.0".to_owned(),
        may: "train+eval".to_owned(),
        originals,
    }
}

/// One file made from an original, one that is its original, one whose original is several files.
fn pins() -> Vec<DataPin> {
    let several = Original { bytes: None, ..original("all/*.jsonl", b"") };
    vec![
        pin("rows.jsonl", NORMALISED, vec![original("raw/a b.csv", ORIGINAL), several]),
        pin("own/tools.json", b"[]", vec![original("tools.json", b"[]")]),
    ]
}

fn fetch(folder: &Path, server: &Server) -> Result<FetchedData, DataError> {
    let patience = Timeouts { connect: Duration::from_secs(20), idle: Duration::from_millis(300) };
    let pins = pins();
    let pins: Vec<&DataPin> = pins.iter().collect();
    let fetcher = Fetcher::new(patience).unwrap();
    DataFolder::open(folder).fetch(&pins, &server.url, &fetcher, &mut |_| {})
}

fn raw(path: &str) -> String {
    format!("/owner/name/{COMMIT}/{path}")
}

#[test]
fn originals_are_fetched_once_and_make_the_files_that_equal_them() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("new/data");
    let (csv, tools) = (raw("raw/a%20b.csv"), raw("tools.json"));
    let server = Server::new(&[
        (&csv, Answer::Bytes(ORIGINAL.to_vec())),
        (&tools, Answer::Bytes(b"[]".to_vec())),
    ]);
    let expected = FetchedData {
        fetched: 2,
        here: 0,
        left_out: 1,
        made: vec!["own/tools.json".to_owned()],
        missing: vec!["rows.jsonl".to_owned()],
    };
    assert_eq!(fetch(&data, &server).unwrap(), expected);
    let kept = data.join(format!("original/owner/name/{COMMIT}/raw/a b.csv"));
    assert_eq!(std::fs::read(&kept).unwrap(), ORIGINAL);
    assert_eq!(std::fs::read(data.join("own/tools.json")).unwrap(), b"[]");
    let again = FetchedData { fetched: 0, here: 2, made: Vec::new(), ..expected };
    assert_eq!(fetch(&data, &server).unwrap(), again);
    assert_eq!(server.asked().len(), 2);
    std::fs::write(&kept, "changed").unwrap();
    assert_eq!(fetch(&data, &server).unwrap().fetched, 1, "what was changed is fetched again");
    assert_eq!(std::fs::read(&kept).unwrap(), ORIGINAL);
}

#[test]
fn an_original_that_goes_wrong_is_said_and_not_kept() {
    let (csv, tools) = (raw("raw/a%20b.csv"), raw("tools.json"));
    let cases = [
        ("another file", Answer::Bytes(b"text,label\r\nx,0\r\n".to_vec()), "as pinned"),
        ("cut off", Answer::Cut(ORIGINAL[..5].to_vec(), ORIGINAL.len()), "cut off after 5 of 17"),
        ("endless", Answer::Endless, "longer than 17 bytes"),
        ("missing", Answer::Status(404), "status 404"),
        ("silent", Answer::Stall(ORIGINAL[..5].to_vec()), "could not be read to its end"),
    ];
    for (name, answer, why) in cases {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let server = Server::new(&[(&csv, answer), (&tools, Answer::Bytes(b"[]".to_vec()))]);
        let error = chain(&fetch(&data, &server).unwrap_err());
        assert!(error.contains(why) && error.contains("run this again"), "{name}: {error}");
        assert!(!data.exists(), "{name}: nothing is left");
    }
}

#[test]
fn a_copy_is_imported_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let (copy, data) = (folder.path().join("copy"), folder.path().join("data"));
    let pins = pins();
    let pins: Vec<&DataPin> = pins.iter().collect();
    let import = || DataFolder::open(&data).import(&pins, &copy, &mut |_| {});
    assert!(matches!(import(), Err(DataError::Absent { .. })));
    std::fs::create_dir_all(copy.join("own")).unwrap();
    std::fs::write(copy.join("rows.jsonl"), NORMALISED).unwrap();
    std::fs::write(copy.join("own/tools.json"), "[ ]").unwrap();
    let error = chain(&import().unwrap_err());
    assert!(error.contains("tools.json` is not taken, and nothing was copied"), "{error}");
    assert!(!data.exists());
    std::fs::remove_file(copy.join("own/tools.json")).unwrap();
    let report = import().unwrap();
    assert_eq!(report.copied, ["rows.jsonl"]);
    assert_eq!(report.absent, ["own/tools.json"]);
    assert_eq!(std::fs::read(data.join("rows.jsonl")).unwrap(), NORMALISED);
    assert_eq!(DataFolder::open(&data).state(pins[0]), DataFileState::Verified);
    std::fs::write(data.join("rows.jsonl"), "short").unwrap();
    let wrong = DataFolder::open(&data).state(pins[0]);
    assert_eq!(wrong, DataFileState::Differs(format!("has 5 bytes, not {}", NORMALISED.len())));
}
