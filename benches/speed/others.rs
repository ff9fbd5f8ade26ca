//! What users would pick instead: one upsert a count in SQLite, or Hermes's own rewrite of the whole file.

use std::path::Path;
use std::process::Command;

use hermes_log::{Counter, Durability, Event};

use crate::append::SKILL;
use crate::children::{Children, PROCESSES};
use crate::logs::{Home, median};
use crate::measure::Effort;

/// Events a second that one way takes, each acknowledged.
pub struct Way {
    pub name: &'static str,
    pub alone: f64,
    pub together: f64,
}

/// All ways, with one process and with eight; every count is checked.
pub fn ways(effort: Effort) -> Vec<Way> {
    let python = |way: &'static str| {
        move |home: &Path| {
            let mut command = Command::new("python3");
            command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/speed/others.py")).arg(way).arg(home);
            command
        }
    };
    vec![
        of_log(effort.pick(1000, 50_000)),
        of_python("SQLite in WAL mode, one update a count (Python)", python("sqlite"), effort.pick(50, 2000)),
        of_python(
            "lock, read, rewrite, fsync, rename of a JSON file of 200 skills (Python), as Hermes does",
            python("json"),
            effort.pick(3, 50),
        ),
    ]
}

const ROUNDS: u64 = 3;

fn rate(children: &mut Children, word: &str, count: u64, times: u64) -> f64 {
    children.run(word, times.div_ceil(20)); // warm
    let rounds = (0..ROUNDS).map(|_| (count * times) as f64 / children.run(word, times).as_secs_f64());
    median(rounds.collect())
}

/// How many counts [`rate`] makes.
fn made(count: u64, times: u64) -> u64 {
    count * (times.div_ceil(20) + ROUNDS * times)
}

fn of_log(times: u64) -> Way {
    let home = Home::new();
    home.writer().append(&Event::used(SKILL), Durability::Process).unwrap();
    let rates = [1, PROCESSES].map(|count| {
        let mut children = Children::start(home.path(), count);
        let rate = rate(&mut children, "log", count, times);
        children.end();
        rate
    });
    let total = home.profile.view().unwrap().skill(SKILL).map_or(0, |skill| skill.count(Counter::Use));
    assert_eq!(total, 1 + made(1, times) + made(PROCESSES, times));
    Way { name: "hermes-log", alone: rates[0], together: rates[1] }
}

fn of_python(name: &'static str, command: impl Fn(&Path) -> Command, times: u64) -> Way {
    let home = Home::new();
    assert!(command(home.path()).arg("--make").status().unwrap().success());
    let rates = [1, PROCESSES].map(|count| {
        let mut children = Children::start_as(command(home.path()), count);
        let rate = rate(&mut children, "bump", count, times);
        children.end();
        rate
    });
    let total = command(home.path()).arg("--total").output().unwrap();
    let total: u64 = String::from_utf8(total.stdout).unwrap().trim().parse().unwrap();
    assert_eq!(total, made(1, times) + made(PROCESSES, times), "{name}");
    Way { name, alone: rates[0], together: rates[1] }
}
