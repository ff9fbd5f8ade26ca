//! `emit -`: a stream of JSON lines.

use hermes_log::Counter;
use serde_json::json;

use super::*;

fn feed(home: &Home, words: &[&str], input: &[u8]) -> Ran {
    run_with_input(&mut of(home.path(), &[&["emit", "-"], words].concat()), input)
}

#[test]
fn each_line_is_a_frame_of_its_own_and_the_last_position_is_printed() {
    let home = Home::new(CAPACITY);
    let lines: String = (0..5000).map(|n| format!("{{\"event\": \"used\", \"skill\": \"s{}\"}}\n", n % 7)).collect();
    let ran = feed(&home, &["--json", "--origin", "batch"], lines.as_bytes()).quietly();
    let view = home.view();
    assert_eq!((view.events(), view.frames()), (5000, 5000));
    assert_eq!(view.skill("s3").unwrap().count(Counter::Use), 714);
    let tail = on(&home, &["tail", "--json"]).quietly();
    let last = &tail.json_lines()[4999];
    assert_eq!(ran.json(), json!({"position": last["position"], "appended": 5000, "bad": 0}));
    assert_eq!(last["origin"]["kind"], "batch");
    let ran = feed(&home, &[], b"{\"event\":\"use\",\"skill\":\"a\",\"count\":2}").exits(DONE);
    assert_eq!(
        ran.stdout,
        format!("{}\n", on(&home, &["tail", "--json"]).json_lines()[5000]["position"].as_str().unwrap())
    );
}

#[test]
fn a_bad_line_is_named_with_its_number_and_the_others_are_appended() {
    let home = Home::new(CAPACITY);
    let input = b"{\"event\":\"used\",\"skill\":\"a\"}\r\n\
        no json\n\
        \n\
        {\"event\":\"used\",\"skill\":\"\"}\n\
        {\"event\":\"used\",\"skill\":\"\xff\"}\n\
        {\"event\":\"used\",\"skill\":\"a\",\"count\":0}\n\
        \t \n\
        {\"event\":\"external\",\"id\":\"a\",\"part\":0,\"parts\":1,\"data\":\"\"}\n\
        {\"event\":\"pinned\",\"skill\":\"b\",\"pinned\":true}\n\
        {\"event\":\"used\"";
    let ran = feed(&home, &["--json"], input).exits(USAGE);
    let numbers: Vec<u64> = ran.json_messages().iter().map(|message| message["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [2, 4, 5, 6, 8, 10], "{ran:?}");
    assert_eq!((&ran.json()["appended"], &ran.json()["bad"]), (&json!(2), &json!(6)));
    let view = home.view();
    assert_eq!((view.events(), view.skill("a").unwrap().count(Counter::Use)), (2, 1));
    assert!(view.skill("b").unwrap().is_pinned());

    let ran = feed(&home, &[], input).exits(USAGE);
    assert!(ran.stderr.contains("line 2: ") && ran.stderr.contains("line 10: "), "{ran:?}");
}

#[test]
fn an_overlong_line_is_bad_and_the_ones_around_it_are_appended() {
    let home = Home::new(CAPACITY);
    let good = |skill: &str| format!("{{\"event\":\"used\",\"skill\":\"{skill}\"}}\n");
    let input = [good("a"), "x".repeat(9 << 20), "\n".into(), good("b"), "y".repeat(9 << 20)].concat();
    let ran = feed(&home, &["--json"], input.as_bytes()).exits(USAGE);
    let messages = ran.json_messages();
    assert_eq!(messages.iter().map(|message| message["line"].clone()).collect::<Vec<_>>(), [2, 4]);
    // It is not kept until its end: there may be none.
    assert!(messages.iter().all(|message| message["error"] == "longer than 8.0 MiB"), "{messages:?}");
    assert_eq!(keys(&on(&home, &["show", "--json"]).json()["skills"]), ["a", "b"]);
}

#[test]
fn an_event_too_large_for_a_frame_is_a_bad_line_and_the_others_are_appended_once() {
    let home = Home::new(4096);
    on(&home, &["emit", "seed"]).exits(USAGE);
    home.used("a");
    let mut lines: Vec<String> = (0..200).map(|n| format!("{{\"event\":\"used\",\"skill\":\"s{n}\"}}\n")).collect();
    lines[120] = format!("{{\"event\":\"file_written\",\"skill\":\"a\",\"path\":\"{}\"}}\n", "p".repeat(2000));
    let ran = feed(&home, &["--json"], lines.concat().as_bytes()).exits(USAGE);
    assert_eq!(ran.json_messages().iter().map(|message| message["line"].clone()).collect::<Vec<_>>(), [121]);
    assert_eq!(ran.json()["appended"], 199);
    let view = home.view();
    assert_eq!(view.events(), 200);
    assert!((0..200).filter(|n| *n != 120).all(|n| view.skill(&format!("s{n}")).unwrap().count(Counter::Use) == 1));
}

#[test]
fn what_has_arrived_is_appended_while_the_input_pauses() {
    let home = Home::new(CAPACITY);
    let mut command = of(home.path(), &["emit", "-", "--quiet"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for count in 1..=3 {
        // The second half of the line comes with the next one.
        let text = if count == 1 { "" } else { "\"skill\":\"half\"}\n" };
        write!(input, "{text}{{\"event\":\"used\",\"skill\":\"whole\"}}\n{{\"event\":\"used\",").unwrap();
        let end = Instant::now() + HANG;
        while home.view().skill("whole").map_or(0, |skill| skill.count(Counter::Use)) < count {
            assert!(Instant::now() < end, "line {count} is not appended");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(home.view().skill("half").map_or(0, |skill| skill.count(Counter::Use)), count - 1);
    }
    writeln!(input, "\"skill\":\"half\"}}").unwrap();
    drop(input);
    let printed = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(printed.len(), 1);
    assert!(child.wait().unwrap().success());
    assert_eq!(home.view().events(), 6);
}

#[test]
fn an_append_that_fails_says_from_which_line_on_nothing_is_recorded() {
    let home = Home::new(CAPACITY);
    // The shell's unit is 512 or 1024 bytes: the live segment can grow to 4 or 8 KiB.
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 8; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_hermes-log")]);
    shell.args(["emit", "-", "--json", "--home"]).arg(home.path());
    let lines: String =
        (1..=2000).map(|n| format!("\n{{\"event\":\"used\",\"skill\":\"line {}\"}}\n", 2 * n)).collect();
    let ran = run_with_input(&mut shell, lines.as_bytes()).exits(FAILED);
    let recorded = home.view().events();
    assert!((1..2000).contains(&recorded), "{recorded}");
    assert_eq!(ran.json()["appended"], recorded);
    let error = ran.json_messages()[0]["error"].as_str().unwrap().to_owned();
    assert!(error.contains(&format!("from line {} on nothing is recorded", 2 * recorded + 2)), "{error}");
    assert!(home.view().skill(&format!("line {}", 2 * recorded)).is_some());
    assert!(home.view().skill(&format!("line {}", 2 * recorded + 2)).is_none());
}

#[test]
fn no_lines_are_no_failure() {
    let home = Home::new(CAPACITY);
    let ran = feed(&home, &[], b"").exits(DONE);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", "0 events appended\n"));
    assert_eq!(feed(&home, &["--json"], b"\n").quietly().json(), json!({"position": null, "appended": 0, "bad": 0}));
}
