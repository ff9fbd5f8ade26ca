//! `hermes-log auth`: single flight for scripts, exit codes, what is printed.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::log_files::Home;
use crate::support::processes::HANG;

const CAPACITY: u32 = 256 << 10;

pub(crate) fn program(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hermes-log"));
    command.env_remove("HERMES_HOME").arg("--home").arg(home).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn run_with(command: &mut Command, input: &str) -> Output {
    use std::io::Write;
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn on(home: &Home, words: &[&str]) -> (i32, String, String) {
    let ran = program(home.path(), words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (ran.status.code().unwrap(), text(ran.stdout), text(ran.stderr))
}

fn set(home: &Home, id: &str, text: &str) {
    let ran = run_with(&mut program(home.path(), &["auth", "set", "nous", id, "-"]), text);
    assert!(ran.status.success(), "{ran:?}");
}

#[test]
fn of_many_scripts_one_runs_its_command_and_all_print_the_new_state() {
    let home = Home::new(CAPACITY);
    set(&home, "main", r#"{"access_token": "old", "refresh_token": "r1", "label": "kept"}"#);
    let runs = home.path().join("runs");
    let script = format!(
        "cat > {0}.input; echo run >> {0}; sleep 0.3; echo '{{\"access_token\": \"new\", \"refresh_token\": \"r2\"}}'",
        runs.display()
    );
    let words = ["auth", "refresh", "nous", "main", "--generation", "1", "--json", "--", "sh", "-c", &script];
    let children: Vec<_> = (0..20).map(|_| program(home.path(), &words).spawn().unwrap()).collect();
    for child in children {
        let ran = child.wait_with_output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        let printed: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!((&printed["generation"], &printed["fields"]["label"]), (&2.into(), &"kept".into()));
    }
    assert_eq!(std::fs::read_to_string(&runs).unwrap(), "run\n");
    let input: Value = serde_json::from_slice(&std::fs::read(home.path().join("runs.input")).unwrap()).unwrap();
    assert_eq!(input["refresh_token"], "r1", "the command gets the fields");
    let reveal = |field| on(&home, &["auth", "show", "nous", "main", "--reveal", field]);
    assert_eq!(reveal("refresh_token"), (0, "r2\n".into(), String::new()));
    assert_eq!(reveal("label"), (0, "kept\n".into(), String::new()));
    assert_eq!(reveal("nothing").0, 1);
}

#[test]
fn a_command_that_fails_passes_its_exit_code_on_and_leaves_the_tokens() {
    let home = Home::new(CAPACITY);
    set(&home, "main", r#"{"access_token": "old", "refresh_token": "r1"}"#);
    let refresh = |script: &str| on(&home, &["auth", "refresh", "nous", "main", "--", "sh", "-c", script]);
    assert_eq!(refresh("exit 9").0, 9);
    assert_eq!(refresh("kill -TERM $$").0, 128 + 15);
    for nothing in ["true", "echo no JSON", "echo '{}'", "echo '[1]'", "echo '{\"error\": \"server_error\"}'"] {
        let (exit, _, message) = refresh(nothing);
        assert_eq!(exit, 4, "{nothing}");
        assert!(message.contains("try again later"), "{nothing}: {message}");
    }
    let (exit, _, message) = on(&home, &["auth", "refresh", "nous", "main", "--", "/no/such/program"]);
    assert!(exit == 4 && message.contains("cannot run /no/such/program"), "{message}");
    assert_eq!(on(&home, &["auth", "show", "nous", "main", "--reveal", "refresh_token"]).1, "r1\n");
    assert!(on(&home, &["auth", "status"]).1.contains("the last refresh failed"));

    // Tokens that came back are not dropped because of what the command did after that.
    let (exit, shown, message) = refresh("echo '{\"access_token\": \"new\", \"refresh_token\": \"r2\"}'; exit 9");
    assert!(exit == 9 && shown.contains("generation     2") && message.contains("taken over"), "{shown}{message}");
    assert_eq!(on(&home, &["auth", "show", "nous", "main", "--reveal", "refresh_token"]).1, "r2\n");

    // Refused: nobody runs a command again before the next login.
    let (exit, _, message) = refresh("echo '{\"error\": \"invalid_grant\"}'; exit 3");
    assert!(exit == 3 && message.contains("log in again"), "{message}");
    let (exit, _, message) = refresh("touch $HOME/never; echo '{\"access_token\": \"x\"}'");
    assert!(exit == 4 && message.contains("log in again"), "{message}");
    assert!(on(&home, &["auth", "status", "nous"]).1.contains("login_required"));
    set(&home, "main", r#"{"access_token": "login", "refresh_token": "r9"}"#);
    assert_eq!(refresh("echo '{\"access_token\": \"x\"}'").0, 0);
}

#[test]
fn no_token_is_lost_to_what_an_answer_says_beside_it() {
    let home = Home::new(CAPACITY);
    let declared = ["auth", "set", "nous", "main", "--secret", "cookie", "-"];
    let text = r#"{"access_token": "a1", "refresh_token": "r1", "cookie": "c1"}"#;
    assert!(run_with(&mut program(home.path(), &declared), text).status.success());
    let refresh = |answer: &str, then: &str| {
        let script = format!("echo '{answer}'; {then}");
        on(&home, &["auth", "refresh", "nous", "main", "--", "sh", "-c", &script])
    };
    let token = |field| on(&home, &["auth", "show", "nous", "main", "--reveal", field]).1;
    // What it leaves out with a null stays.
    assert_eq!(refresh(r#"{"access_token": "a2", "refresh_token": null}"#, "true").0, 0);
    assert_eq!((token("access_token"), token("refresh_token")), ("a2\n".into(), "r1\n".into()));
    assert_eq!(refresh(r#"{"access_token": null, "refresh_token": null}"#, "true").0, 4);
    assert_eq!(token("access_token"), "a2\n");
    // An error that is none, and one that came with new tokens.
    for (n, error) in [r#""""#, "false", "0", "null", r#""slow_down""#].into_iter().enumerate() {
        let answer = format!(r#"{{"access_token": "b{n}", "refresh_token": "s{n}", "error": {error}}}"#);
        let (exit, _, message) = refresh(&answer, "true");
        assert_eq!((exit, token("refresh_token")), (0, format!("s{n}\n")), "{error}: {message}");
    }
    // With the tokens of before it is an error.
    assert_eq!(refresh(r#"{"access_token": "b4", "error": "server_error"}"#, "true").0, 4);
    // A declared secret is one.
    assert_eq!(refresh(r#"{"cookie": "c2"}"#, "exit 3").0, 3);
    assert_eq!(token("cookie"), "c2\n");
    // What the command has left running keeps nobody.
    let start = Instant::now();
    assert_eq!(refresh(r#"{"access_token": "last"}"#, "sleep 20 2>/dev/null &").0, 0);
    assert_eq!(token("access_token"), "last\n");
    assert!(start.elapsed() < Duration::from_secs(15), "waited for what the command had left");
}

#[test]
fn a_refusal_that_comes_after_somebody_elses_tokens_is_not_about_them() {
    let home = Home::new(CAPACITY);
    set(&home, "main", r#"{"access_token": "a1", "refresh_token": "r1"}"#);
    let file = |name: &str| home.path().join(name);
    let (asked, done) = (file("asked"), file("done"));
    let script = format!(
        "touch {}; while [ ! -e {} ]; do sleep 0.05; done; echo '{{\"error\": \"invalid_grant\"}}'",
        asked.display(),
        done.display()
    );
    let late = ["auth", "refresh", "nous", "main", "--lease", "1s", "--", "sh", "-c", &script];
    let late = program(home.path(), &late).spawn().unwrap();
    let start = Instant::now();
    while !asked.exists() {
        assert!(start.elapsed() < HANG);
        std::thread::sleep(Duration::from_millis(5));
    }
    // Waits until the lease has run out.
    let answer = "echo '{\"access_token\": \"a2\", \"refresh_token\": \"r2\"}'";
    assert_eq!(on(&home, &["auth", "refresh", "nous", "main", "--generation", "1", "--", "sh", "-c", answer]).0, 0);
    std::fs::write(&done, "").unwrap();
    let late = late.wait_with_output().unwrap();
    let (shown, message) = (String::from_utf8(late.stdout).unwrap(), String::from_utf8(late.stderr).unwrap());
    assert!(late.status.success() && shown.contains("generation     2"), "{shown}{message}");
    assert!(!message.contains("log in"), "{message}");
}

#[test]
fn exit_codes_and_messages_say_what_is_wrong() {
    let home = Home::new(CAPACITY);
    assert_eq!(
        on(&home, &["auth", "list"]),
        (0, String::new(), "no credentials yet; `hermes-log auth import ~/.hermes/auth.json` takes them in\n".into())
    );
    assert_eq!(on(&home, &["auth", "show", "nous"]).0, 1);
    assert_eq!(on(&home, &["auth", "remove", "nous", "main"]).0, 1);
    assert_eq!(on(&home, &["auth", "refresh", "nous", "main", "--", "true"]).0, 1);
    assert_eq!(on(&home, &["auth", "refresh", "nous", "main"]).0, 2);
    assert_eq!(on(&home, &["auth", "import", "/no/such/file"]).0, 4);
    let ran = run_with(&mut program(home.path(), &["auth", "set", "nous", "main", "-"]), "not JSON: hunter2");
    assert_eq!(ran.status.code(), Some(2));
    let message = String::from_utf8(ran.stderr).unwrap();
    assert!(message.contains("allowed") && !message.contains("hunter2"), "{message}");
    assert!(!home.profile.log_folder().join("00000000000000000001.seg").exists(), "nothing was appended");

    set(&home, "main", r#"{"access_token": "a"}"#);
    let (_, table, _) = on(&home, &["auth", "list"]);
    assert!(table.starts_with("PROVIDER"), "{table}");
    // A wait that runs out is a lock that could not be had.
    let done = home.path().join("done");
    let script = format!("until [ -e {} ]; do sleep 0.02; done", done.display());
    let mut holder = program(home.path(), &["auth", "refresh", "nous", "main", "--", "sh", "-c", &script]);
    let holder = holder.spawn().unwrap();
    let start = std::time::Instant::now();
    while !on(&home, &["auth", "status"]).1.contains("refreshing, by cli") {
        assert!(start.elapsed() < HANG, "nobody refreshes");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let (exit, _, message) = on(&home, &["auth", "refresh", "nous", "main", "--wait", "10ms", "--", "true"]);
    assert!(exit == 75 && message.contains(&format!("cli {}", holder.id())), "{message}");
    std::fs::write(&done, "").unwrap();
    assert_eq!(holder.wait_with_output().unwrap().status.code(), Some(4), "it printed nothing");
}

#[test]
fn a_file_is_exported_wherever_it_is_and_whatever_its_name() {
    let home = Home::new(CAPACITY);
    set(&home, "main", r#"{"access_token": "a"}"#);
    // A name alone, and one without an extension, for which both locks of Hermes have the same name.
    for name in ["auth.json", "credentials"] {
        let ran = program(home.path(), &["auth", "export", name]).current_dir(home.path()).output().unwrap();
        assert!(ran.status.success(), "{name}: {ran:?}");
        let written: Value = serde_json::from_slice(&std::fs::read(home.path().join(name)).unwrap()).unwrap();
        assert_eq!(written["credential_pool"]["nous"][0]["access_token"], "a");
    }
}
