//! What all commands have in common: help, exit codes, broken pipes, colours.

use std::fs::File;

use hermes_log::{Durability, Event};
use serde_json::json;

use super::*;

const COMMANDS: [&str; 8] = ["emit", "show", "tail", "compact", "verify", "stat", "dump", "demo"];

#[test]
fn help_has_the_table_of_exit_codes_and_every_command() {
    for words in [&["--help"][..], &["-h"], &["help"]] {
        let help = run(program().args(words)).quietly().stdout;
        for code in [DONE, NOT_FOUND, USAGE, GAPS, FAILED, LOCKED] {
            assert!(help.lines().any(|line| line.trim_start().starts_with(&format!("{code}  "))), "{code}: {help}");
        }
        assert!(COMMANDS.iter().all(|command| help.contains(&format!("  {command} "))), "{help}");
        assert!(!help.contains("demo-writer"), "{help}");
    }
    assert!(run(program().arg("--version")).quietly().stdout.contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_command_has_examples_says_what_its_json_is_and_takes_the_global_options() {
    for command in COMMANDS {
        let help = run(program().args([command, "--help"])).quietly().stdout;
        assert!(help.contains("Examples:\n") && help.contains(&format!("hermes-log {command}")), "{help}");
        assert!(help.contains("--json {\"") || help.contains("--json one object"), "{help}");
        let options =
            ["--home", "--profile", "--json", "--quiet", "--verbose", "--color", "--capacity", "--allow-network-fs"];
        assert!(options.iter().all(|option| help.contains(option)), "{help}");
    }
    assert!(run(program().args(["emit", "-", "--help"])).quietly().stdout.contains("\"event\": \"fields\""));
}

#[test]
fn usage_errors_are_exit_2_and_json_if_asked_for() {
    for words in [&[][..], &["sing"], &["show", "--sort"], &["tail", "a", "b"], &["--color", "blue", "show"]] {
        let ran = run(program().args(words)).exits(USAGE);
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{ran:?}");
        let ran = run(program().arg("--json").args(words)).exits(USAGE);
        assert_eq!((ran.json_messages().len(), &ran.json_messages()[0]["exit"]), (1, &json!(USAGE)), "{ran:?}");
    }
}

/// Enough for many buffers.
fn busy_home() -> Home {
    let home = Home::new(4 << 20);
    let mut writer = home.writer();
    for n in 0..5000 {
        writer.append(&Event::used(format!("skill {n}")), Durability::Process).unwrap();
    }
    home
}

#[test]
fn a_broken_pipe_is_a_quiet_success() {
    let home = busy_home();
    for words in [
        &["show"][..],
        &["show", "--json"],
        &["tail"],
        &["tail", "--json"],
        &["dump", "1"],
        &["dump", "1", "--json"],
        &["stat"],
        &["verify"],
        &["emit", "use", "a"],
        &["compact"],
        &["--help"],
        &["compact", "--every", "1ms"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = of(home.path(), words).stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(DONE), "{words:?}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
    }
    assert_eq!(home.view().skill("a").map(|skill| skill.count(hermes_log::Counter::Use)), Some(1));
    // What was wrong with the input stays wrong.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child =
        of(home.path(), &["emit", "-"]).stdin(Stdio::piped()).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"bad\n{\"event\":\"used\",\"skill\":\"a\"}\n").unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(USAGE));
}

#[test]
fn a_full_stdout_is_a_failure_and_a_full_stderr_is_none() {
    let home = busy_home();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let output = of(home.path(), &["show"]).stdout(full()).stderr(Stdio::piped()).spawn().unwrap().wait_with_output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(FAILED));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write to stdout"), "{output:?}");
    let status = of(home.path(), &["show", "none"]).stdout(Stdio::null()).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(NOT_FOUND));
}

#[test]
fn colours_are_for_terminals_or_on_demand_and_never_in_json() {
    let home = Home::new(CAPACITY);
    home.used("a");
    let escapes = |command: &mut Command| run(command).stdout.contains('\u{1b}');
    assert!(!escapes(&mut of(home.path(), &["show"])));
    assert!(escapes(&mut of(home.path(), &["show", "--color", "always"])));
    assert!(!escapes(of(home.path(), &["show", "--color", "never"]).env("CLICOLOR_FORCE", "1")));
    assert!(!escapes(of(home.path(), &["show"]).env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1")));
    assert!(!escapes(&mut of(home.path(), &["show", "--json", "--color", "always"])));
    assert!(
        !run(of(home.path(), &["show", "none", "--color=never"]).env("CLICOLOR_FORCE", "1")).stderr.contains('\u{1b}')
    );
    assert!(run(&mut of(home.path(), &["show", "none", "--color=always"])).stderr.contains('\u{1b}'));
}

#[test]
fn quiet_leaves_errors_and_verbose_shows_what_the_library_does() {
    let home = Home::new(CAPACITY);
    assert_eq!(on(&home, &["show", "-q"]).quietly().stdout, "");
    assert!(on(&home, &["show", "none", "-q"]).exits(NOT_FOUND).stderr.contains("skill not found"));
    home.used("a");
    assert!(on(&home, &["compact", "-v"]).exits(DONE).stderr.contains("compacted"));
    home.used("a");
    assert!(on(&home, &["compact", "-vv"]).exits(DONE).stderr.contains("segment created"));
    assert_eq!(on(&home, &["compact"]).quietly().stderr, "");
}
