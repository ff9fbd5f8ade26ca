//! No secret in anything that is printed, and no replaced one in any file after a scrub.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::auth;
use crate::command::{program, run_with};
use crate::fields;
use crate::support::log_files::Home;

const CAPACITY: u32 = 256 << 10;
const SECRETS: [&str; 6] =
    ["hunter2-access", "hunter2-refresh", "hunter2-agent", "hunter2-api", "hunter2-deep", "hunter2-declared"];

fn credential() -> String {
    json!({
        "access_token": SECRETS[0], "refresh_token": SECRETS[1], "agent_key": SECRETS[2], "x-api-key": SECRETS[3],
        "inside": [{"client_secret": {"parts": [SECRETS[4]]}}], "cookie": SECRETS[5], "label": "shown",
    })
    .to_string()
}

/// Runs a command and looks for secrets in all that it prints.
fn check(home: &Home, words: &[&str], input: &str) -> String {
    let ran = run_with(&mut program(home.path(), words), input);
    let printed = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(!printed.contains("hunter2"), "{words:?} printed a secret: {printed}");
    printed
}

#[test]
fn nothing_that_is_printed_holds_a_secret() {
    let home = Home::new(CAPACITY);
    let file = home.path().join("auth.json");
    let path = file.to_str().unwrap();
    fs::write(
        &file,
        json!({"providers": {"codex": {"tokens": {"access_token": SECRETS[4]}}}, "credential_pool":
        {"p": [{"id": "i", "api_key": SECRETS[3]}, "hunter2 entry", {"access_token": SECRETS[0]}]}})
        .to_string(),
    )
    .unwrap();
    let answer = format!("echo '{}'", json!({"access_token": SECRETS[0].to_owned() + "2", "id_token": SECRETS[1]}));
    let repeats = r#"read t; echo "{\"error\": \"server_error\", \"error_description\": \"bad hunter2-refresh\"}""#;
    let refused = r#"echo '{"error": "invalid_grant", "error_description": "hunter2-access2 hunter2-deep is used"}'"#;
    let set = ["auth", "set", "nous", "main", "-", "--secret", "cookie"];
    check(&home, &set, &credential());
    for verbosity in [&[][..], &["-vvv"], &["--json"], &["-vvv", "--json"]] {
        for words in [
            &set[..],
            &["auth", "list"],
            &["auth", "show", "nous"],
            &["auth", "show", "nous", "main"],
            &["auth", "show", "nous", "main", "--reveal", "no_such_field"],
            &["auth", "status"],
            &["auth", "import", path],
            &["auth", "export", path],
            &["auth", "refresh", "nous", "main", "--", "sh", "-c", &answer],
            &["auth", "refresh", "nous", "main", "--", "sh", "-c", repeats],
            &["auth", "refresh", "nous", "main", "--", "sh", "-c", "exit 1"],
            &["auth", "refresh", "nous", "main", "--", "sh", "-c", refused],
            &["auth", "refresh", "nous", "main", "--", "true"],
            &["auth", "status"],
            &["show"],
            &["tail"],
            &["dump", "1"],
            &["stat"],
            &["verify"],
            &["compact"],
            &["compact", "--scrub"],
            &["emit", "use", "pdf"],
        ] {
            let words = [verbosity, words].concat();
            let printed = check(&home, &words, &credential());
            assert!(!words.contains(&"list") || printed.contains("nous"));
        }
    }
    // Errors about the input, and of every call that can fail.
    for bad in ["{\"access_token\": \"hunter2", "\"hunter2\"", "[\"hunter2\"]", "{\"a\": hunter2}"] {
        check(&home, &["-vvv", "auth", "set", "nous", "main", "-"], bad);
    }
    for call in 1..60 {
        let mut command = program(home.path(), &["-vvv", "auth", "set", "nous", "main", "-"]);
        command.env("HERMES_LOG_FAULT", format!("any@{call}=EIO"));
        let ran = run_with(&mut command, &credential());
        let printed = [ran.stdout, ran.stderr].concat();
        assert!(!String::from_utf8_lossy(&printed).contains("hunter2"), "call {call}");
    }
    // `.usage.json` least of all.
    for name in ["skills/.usage.json", "event-log/compact.lock"] {
        let text = fs::read(home.path().join(name)).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains("hunter2"), "{name}");
    }
    // On request, by name, one.
    let shown = program(home.path(), &["auth", "show", "nous", "main", "--reveal", "cookie"]).output().unwrap();
    assert_eq!(shown.stdout, b"hunter2-declared\n");
}

#[test]
fn debug_and_display_of_everything_in_the_library_hold_no_secret() {
    let home = Home::new(CAPACITY);
    let mut auth = auth(&home.profile);
    auth.set("nous", "main", hermes_log::Fields::parse(&credential(), vec!["cookie".into()]).unwrap()).unwrap();
    let known = auth.view().credential("nous", "main").unwrap();
    let mut said = format!("{auth:?} {known:?} {:?}", known.fields().text("access_token"));
    let begun = auth.begin_refresh("nous", "main", 1, std::time::Duration::from_secs(9)).unwrap();
    said += &format!("{begun:?}");
    drop(begun);
    let mut follower = home.profile.follow(hermes_log::Start::Oldest).unwrap();
    said += &format!("{:?} {:?}", follower.next_batch(std::time::Duration::ZERO), home.view());
    assert!(!said.contains("hunter2") && said.contains("[redacted]"), "{said}");
}

/// Files of the log's folder that hold these bytes.
fn holding(folder: &Path, bytes: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, bytes));
        } else if fs::read(&path).unwrap().windows(bytes.len()).any(|window| window == bytes.as_bytes()) {
            found.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    found
}

#[test]
fn a_replaced_secret_is_gone_after_a_scrub_or_two_compactions_and_the_current_one_stays() {
    let home = Home::new(CAPACITY);
    let folder = home.profile.log_folder();
    let mut auth = auth(&home.profile);
    let set = |auth: &mut hermes_log::auth::Auth, token: &str| {
        auth.set("nous", "main", fields(&format!("{{\"refresh_token\": \"{token}\"}}"))).unwrap();
    };
    set(&mut auth, "first-token");
    home.compact();
    set(&mut auth, "second-token");
    assert!(!holding(&folder, "first-token").is_empty());
    home.compact();
    assert!(!holding(&folder, "first-token").is_empty(), "the older checkpoint has it");
    home.used("pdf");
    home.compact();
    assert_eq!(holding(&folder, "first-token"), Vec::<String>::new(), "without a scrub, after the second compaction");

    set(&mut auth, "third-token");
    let followed = hermes_log::CompactOptions::default();
    home.profile.compact(&followed).unwrap();
    set(&mut auth, "fourth-token");
    auth.remove("nous", "main").unwrap();
    set(&mut auth, "fifth-token");
    let scrub = hermes_log::CompactOptions { scrub: true, ..hermes_log::CompactOptions::default() };
    home.profile.compact(&scrub).unwrap();
    for gone in ["second-token", "third-token", "fourth-token"] {
        assert_eq!(holding(&folder, gone), Vec::<String>::new(), "{gone}");
    }
    assert!(!holding(&folder, "fifth-token").is_empty());
    assert_eq!(crate::token(&crate::auth(&home.profile), "main"), "fifth-token");
    // Again, with nothing new.
    home.profile.compact(&scrub).unwrap();
    assert_eq!(crate::token(&crate::auth(&home.profile), "main"), "fifth-token");
}
