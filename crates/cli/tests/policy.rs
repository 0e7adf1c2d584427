//! `custody policy` as its users meet it: drafting, checking, testing, rehearsing and setting.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Home, OWNER_PASSPHRASE, Ran};
use serde_json::json;

const PERMIT: &str = "@id(\"all\") permit (principal, action, resource);\n";
const NO_MAIL: &str = "@id(\"all\") permit (principal, action, resource);\n\
    @id(\"no-mail\") @description(\"mail is off\") forbid (principal, action, resource == Tool::\"send_mail\");\n";
const BROKEN: &str = "permit (principal, action, resource) when { context.nope };";

fn policy(home: &Home, command: &str) -> Ran {
    let args: Vec<&str> = ["policy"].into_iter().chain(command.split(' ')).collect();
    home.alone(&args)
}

/// The policy in force.
fn in_force(home: &Home) -> String {
    policy(home, "show").expect(0).stdout
}

#[test]
fn every_example_is_a_policy_that_passes_its_own_table() {
    let home = Home::new();
    let list = policy(&home, "init --json").expect(0).json();
    assert!(list.len() > 5);
    for example in list {
        let name = example["name"].as_str().unwrap();
        policy(&home, &format!("init {name} -o {name}.cedar")).expect(0);
        policy(&home, &format!("init {name} --cases --out {name}.toml")).expect(0);
        let checked = policy(&home, &format!("check {name}.cedar")).expect(0);
        assert!(checked.stdout.contains(&format!("{name}.cedar is a policy.")), "{checked:?}");
        let tested = policy(&home, &format!("test {name}.cedar {name}.toml")).expect(0);
        assert!(tested.stdout.contains(" 0 failed"), "{tested:?}");
    }
    assert!(!home.database().exists(), "none of this needs a store");
}

#[test]
fn what_cannot_be_started_from_writes_nothing() {
    let home = Home::new();
    home.write("mine.cedar", PERMIT);
    for (name, text) in [
        ("text.json", "hello"),
        ("object.json", "{}"),
        ("empty.json", "[]"),
        ("nameless.json", "[{}]"),
        ("twice.json", r#"[{"name":"a"},{"name":"a"}]"#),
        ("steering.json", r#"[{"name":"\u001b[2J"}]"#),
    ] {
        home.write(name, text);
    }
    for (command, why) in [
        ("init moon -o out", "there is no example of that name; use balanced"),
        ("init money -o mine.cedar", "name a file that is not there"),
        ("init --tools nowhere.json -o out", "could not read `nowhere.json`"),
        ("init --tools text.json -o out", "`text.json` is no JSON"),
        ("init --tools object.json -o out", "this is no list of tools"),
        ("init --tools empty.json -o out", "the list is empty"),
        ("init --tools nameless.json -o out", "tool 1 has no name"),
        ("init --tools twice.json -o out", "two tools are named `a`"),
        ("init --tools steering.json -o out", "tool 1 has no name"),
    ] {
        policy(&home, command).refused(why);
        assert!(!home.path().join("out").exists(), "{command}");
    }
    assert_eq!(home.read("mine.cedar"), PERMIT);
}

#[test]
fn a_draft_says_what_it_guessed_and_is_a_file_of_manifests() {
    let home = Home::new();
    let list = json!({ "tools": [
        { "name": "send_mail", "annotations": { "readOnlyHint": true },
          "inputSchema": { "properties": { "to": {}, "body": {}, "mode": { "enum": ["a"] } } } },
        { "name": "list_files", "inputSchema": {} },
    ] });
    home.write("list.json", &list.to_string());
    let ran = policy(&home, "init --tools list.json -o tools.toml").expect(0);
    for guess in [
        "send_mail: writes, the name says so, although the server claims readOnlyHint",
        "send_mail.to: recipient, guessed from the name",
        "send_mail.mode: other, the name does not say what it decides",
        "list_files: reads, guessed from the name",
        "7 guessed values to check.",
    ] {
        assert!(ran.stderr.contains(guess), "`{guess}` in {ran:?}");
    }
    let draft = home.read("tools.toml");
    assert!(draft.contains("# guessed from the name\n# not required by the schema"), "{draft}");
    assert!(draft.contains("\nto = { sink = \"recipient\" }"), "{draft}");
    home.write("own.cedar", &NO_MAIL.replace("send_mail", "sned_mail"));
    let checked = policy(&home, "check own.cedar --tools tools.toml").expect(0);
    assert!(checked.stderr.contains("no manifest describes Tool::\"sned_mail\""), "{checked:?}");

    let told = policy(&home, "init --tools list.json --json -o again.toml").expect(0).json();
    assert_eq!(told[0]["guesses"].as_array().unwrap().len(), 7);
    assert_eq!(home.read("again.toml"), draft, "whatever it prints, it writes the file");
}

#[test]
fn what_is_no_policy_or_table_is_one_line_with_its_place() {
    let home = Home::new();
    home.write("all.cedar", PERMIT);
    home.write("broken.cedar", BROKEN);
    home.write("empty.cedar", "");
    home.write("hidden.cedar", "permit\u{202E} (principal, action, resource);");
    home.write("broken.toml", "[[case]]\nname = 'a'");
    for (command, why) in [
        ("check nowhere.cedar", "could not read `nowhere.cedar`"),
        ("check broken.cedar", "line 1, column"),
        ("check empty.cedar", "there is no `permit` in it"),
        ("check hidden.cedar", "\\u{202e} hides or reorders text"),
        ("check all.cedar --tools broken.toml", "`broken.toml` is no file of tool manifests"),
        ("test broken.cedar all.cedar", "`broken.cedar` is no policy"),
        ("test all.cedar broken.toml", "`broken.toml` is no table of cases"),
        ("simulate broken.cedar", "`broken.cedar` is no policy"),
        ("set broken.cedar", "`broken.cedar` is no policy"),
    ] {
        policy(&home, command).refused(why);
    }
    assert!(policy(&home, "check broken.cedar").stderr.contains("`nope`"));
}

#[test]
fn a_case_that_comes_out_otherwise_is_found() {
    let home = Home::new();
    home.write("none.cedar", NO_MAIL);
    let case = "[[case]]\nname = 'lunch'\nheard.user = 'Mail ann@example.com'\ncall = 'send_mail'\n\
        arguments = { to = 'ann@example.com' }\nexpect = 'allow'\n";
    home.write("cases.toml", case);
    let ran = policy(&home, "test none.cedar cases.toml").expect(1);
    assert!(
        ran.stdout.contains("lunch (line 1)")
            && ran.stdout.contains("expected allow, decided deny by `no-mail`"),
        "{ran:?}"
    );
    let told = policy(&home, "test none.cedar cases.toml --json").expect(1).json();
    assert_eq!((&told[0]["passed"], &told[0]["decided"]), (&json!(false), &json!("deny")));
}

#[test]
fn only_the_owner_sets_a_policy_and_one_that_is_none_leaves_the_one_before() {
    let home = Home::founded();
    home.write("own.cedar", NO_MAIL);
    home.write("broken.cedar", BROKEN);
    let shipped = in_force(&home);
    assert!(shipped.contains("writing-for-nobody"));
    let preview = policy(&home, "set own.cedar").expect(0);
    assert!(
        preview.stdout.contains("Nothing was changed") && preview.stdout.contains("no-mail"),
        "{preview:?}"
    );
    let refused = policy(&home, "set own.cedar --apply").expect(1);
    assert!(refused.stdout.contains("only"), "{refused:?}");
    let set = |file: &str, line: &str| home.typing(&["policy", "set", file, "--apply"], &[line]);
    set("own.cedar", "wrong passphrase").expect(2);
    assert_eq!(in_force(&home), shipped);

    set("own.cedar", OWNER_PASSPHRASE).expect(0);
    assert_eq!(in_force(&home), NO_MAIL);
    let ran = set("broken.cedar", OWNER_PASSPHRASE);
    ran.refused("`broken.cedar` is no policy");
    assert_eq!(ran.terminal, "", "nobody is asked for a passphrase");
    assert_eq!(in_force(&home), NO_MAIL);
    let told = policy(&home, "show --json").expect(0).json().remove(0);
    assert_eq!((&told["signed"], &told["text"]), (&json!(true), &json!(NO_MAIL)));
    assert!(policy(&home, "show --schema").expect(0).stdout.contains("entity Tool"));
    home.alone(&["ledger", "verify"]).expect(0);
}

#[test]
fn recorded_calls_are_explained_and_decided_again() {
    let home = Home::of_ada();
    home.write("all.cedar", PERMIT);
    home.write("own.cedar", NO_MAIL);
    let mut host = home.host("--token-file token.txt --tools tools.toml");
    host.hears("user", "Write to ann@example.com.");
    let mail = host.proposes("send_mail", &json!({ "to": "ann@example.com" }));
    host.proposes("list_files", &json!({}));
    host.hears("web", "Hello");
    host.ends().expect(0);

    let same = policy(&home, "simulate all.cedar").expect(0);
    assert!(same.stdout.contains("2 calls decided again: 0 would change."), "{same:?}");
    let ran = policy(&home, "simulate own.cedar").expect(1);
    assert!(
        ran.stdout.contains("allow → deny") && ran.stdout.contains("1 would change"),
        "{ran:?}"
    );

    let decision = mail["proposal"].as_str().unwrap();
    let why = policy(&home, &format!("explain {decision}")).expect(0).stdout;
    assert!(why.contains("The policy says: allow, by `calls`"), "{why}");
    let other = policy(&home, &format!("explain {decision} --policy own.cedar")).expect(0).stdout;
    assert!(
        other.contains("The policy says: deny, by `no-mail`") && other.contains("mail is off"),
        "{other}"
    );
    let opened = home.alone(&["ledger", "show", "--json"]).expect(0).json();
    let other = opened.iter().filter_map(|row| row["id"].as_str()).find(|id| *id != decision);
    policy(&home, &format!("explain {}", other.unwrap())).refused("is no tool call");
    policy(&home, "explain e-00000000000000000000000000000000").refused("");
    policy(&home, &format!("explain {decision} --policy nowhere.cedar")).refused("could not read");
}
