//! Tokens in files (G21): where they are written, and from which files they are taken.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use common::{Home, OWNER_PASSPHRASE, Ran};

/// A home into which nobody else can look, whatever the umask of the tests.
fn private_home() -> Home {
    let home = Home::founded();
    set_mode(&home.path(), 0o700);
    home
}

/// Registers an agent, whose token goes to `file`.
fn add(home: &Home, name: &str, file: &str) -> Ran {
    let args = ["principal", "add", name, "--role", "agent", "--token-out", file];
    home.typing(&args, &[OWNER_PASSPHRASE])
}

/// Opens a session with the token in `file`.
fn open(home: &Home, file: &str) -> Ran {
    let args = ["session", "--token-file", file];
    home.alone_with(&args, &[], "{\"id\":0,\"op\":\"open\"}\n")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn g21_a_token_is_written_to_a_new_file_for_its_user_alone_and_is_not_printed() {
    let home = private_home();
    let ran = add(&home, "helper", "tokens/of/helper.token").expect(0);
    let file = home.path().join("tokens/of/helper.token");
    let token = fs::read_to_string(&file).unwrap();
    assert!(token.starts_with("custody_") && token.lines().count() == 1);
    assert!(!ran.stdout.contains("custody_") && !ran.stderr.contains("custody_"), "{ran:?}");
    assert_eq!(mode(&file), 0o600);
    for folder in ["tokens", "tokens/of"] {
        assert_eq!(mode(&home.path().join(folder)), 0o700, "{folder}");
    }
    let opened = open(&home, "tokens/of/helper.token").expect(0).json();
    assert!(opened[0]["session"].is_string(), "{opened:?}");
    // A human's token, in JSON: the place and not the token.
    let args = ["principal", "add", "ada", "--role", "user", "--token-out", "ada.token", "--json"];
    let own = "zebra lamp cedar moon";
    let ran = home.typing(&args, &[OWNER_PASSPHRASE, own, own]).expect(0).json();
    assert!(ran[0]["token"].is_null(), "{ran:?}");
    assert!(ran[0]["token_file"].as_str().unwrap().ends_with("/ada.token"), "{ran:?}");
}

/// G21: what cannot be written is refused before the owner is asked for a passphrase and before anybody is registered.
#[test]
fn g21_a_token_is_not_written_where_others_or_agents_find_it() {
    let home = private_home();
    let path = |name: &str| home.path().join(name);
    fs::write(path("taken"), "").unwrap();
    symlink(path("nowhere"), path("link")).unwrap();
    for (folder, git) in [("clone", "clone/.git"), ("deep/er", "deep/.git"), ("open", "open/x")] {
        fs::create_dir_all(path(folder)).unwrap();
        fs::create_dir_all(path(git)).unwrap();
    }
    fs::create_dir(path("worktree")).unwrap();
    fs::write(path("worktree/.git"), "gitdir: elsewhere").unwrap();
    // Others can come to it only if they can pass the home.
    set_mode(&path("open"), 0o755);
    set_mode(&home.path(), 0o711);
    let cases = [
        ("taken", "exists"),
        ("link", "exists"),
        ("clone/a.token", "is in the git work tree"),
        ("deep/er/a.token", "is in the git work tree"),
        ("deep/er/and/new/a.token", "is in the git work tree"),
        ("worktree/a.token", "is in the git work tree"),
        ("open/a.token", "others can look into"),
    ];
    for (file, why) in cases {
        let ran = add(&home, "helper", file);
        ran.refused(why);
        assert_eq!(ran.terminal, "", "{file}: nobody is asked for what cannot be used");
        assert!(!path(file).exists() || file == "taken", "{file}");
    }
    assert!(!home.alone(&["principal", "list"]).expect(0).stdout.contains("helper"));
    // Behind a folder that others cannot pass, they cannot look; nor into a folder that is made for this.
    add(&home, "one", "open/new/a.token").expect(0);
    set_mode(&home.path(), 0o700);
    add(&home, "two", "open/b.token").expect(0);
}

#[test]
fn g21_a_token_is_not_printed_into_a_file_that_others_can_read() {
    let home = private_home();
    let script = |umask: &str, file: &str, name: &str| {
        let custody = common::CUSTODY;
        format!("umask {umask}; {custody} principal add {name} --role agent > {file}")
    };
    let run = |script: &str| {
        let shell = home.typing_program("sh", &["-c", script], &[OWNER_PASSPHRASE]);
        (shell.code, shell.stderr)
    };
    let (code, stderr) = run(&script("022", "a.token", "helper"));
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("write the token with `--token-out FILE`"), "{stderr}");
    assert!(!home.alone(&["principal", "list"]).expect(0).stdout.contains("helper"));
    let (code, stderr) = run(&script("077", "b.token", "helper"));
    assert_eq!(code, 0, "{stderr}");
    open(&home, "b.token").expect(0);
}

#[test]
fn g21_a_token_that_others_can_read_is_refused_and_the_doctor_names_it() {
    let home = private_home();
    add(&home, "helper", "helper.token").expect(0);
    let file = home.path().join("helper.token");
    symlink(&file, home.path().join("link")).unwrap();
    let doctor = |code: i32| home.alone(&["doctor"]).expect(code).stdout;
    assert!(doctor(0).contains("1 file readable by you alone"));
    for bits in [0o640, 0o604, 0o620, 0o602, 0o610, 0o644] {
        set_mode(&file, bits);
        for name in ["helper.token", "link"] {
            open(&home, name).refused(&format!("has mode 0{bits:o}"));
            open(&home, name).refused(&format!("run `chmod 600 {name}`"));
        }
        assert!(doctor(1).contains("the token of `helper`"), "{bits:o}");
    }
    set_mode(&file, 0o400);
    for name in ["helper.token", "link"] {
        open(&home, name).expect(0);
    }
    doctor(0);
    fs::remove_file(&file).unwrap();
    assert!(doctor(0).contains("0 files readable by you alone"));
}

#[test]
fn a_token_that_the_owner_did_not_grant_leaves_no_file() {
    let home = private_home();
    let args = ["principal", "add", "helper", "--role", "agent", "--token-out", "helper.token"];
    home.alone(&args).expect(1);
    home.typing(&args, &["wrong passphrase"]).expect(2);
    let names: Vec<_> =
        fs::read_dir(home.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains("token")), "{names:?}");
    assert!(names.iter().all(|name| !name.to_string_lossy().starts_with(".tmp")), "{names:?}");
}
