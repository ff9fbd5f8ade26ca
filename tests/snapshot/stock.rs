//! Two programs, one `.usage.json`: stock Hermes writers beside this project, at the same time.

use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use hermes_log::compact::Snapshot;
use hermes_log::{CompactOptions, Counter, Durability, Event};

use crate::CAPACITY;
use crate::support::log_files::Home;
use crate::support::processes::is_long;
use crate::support::usage_file::{self, stock_writer};

const SKILLS: [&str; 3] = ["shared", "plugin:skill", "é😀"];

fn start(home: &Home, skill: &str, kind: &str, bumps: u64) -> Option<Child> {
    let mut command = stock_writer()?;
    command.arg(home.path()).args(["--skill", skill, "--kind", kind, "--bumps", &bumps.to_string()]);
    Some(command.stdout(Stdio::piped()).spawn().unwrap())
}

#[test]
fn totals_are_exact_with_stock_writers_appends_and_compactions_at_once() {
    let bumps = if is_long() { 3000 } else { 150 };
    let home = Home::new(CAPACITY);
    let mut writers = Vec::new();
    for (skill, kind) in SKILLS.into_iter().zip(["use", "view", "use"]).chain([("shared", "use")]) {
        let Some(child) = start(&home, skill, kind, bumps) else { return };
        writers.push((skill, kind, child));
    }
    let stop = AtomicBool::new(false);
    let (mut written, mut with_external, mut appended) = (0, 0, 0);
    std::thread::scope(|scope| {
        let appends = scope.spawn(|| {
            let (mut writer, mut count) = (home.writer(), 0);
            while !stop.load(Ordering::Relaxed) {
                for skill in SKILLS {
                    writer.append(&Event::used(skill), Durability::Process).unwrap();
                }
                count += 1;
                std::thread::yield_now();
            }
            count
        });
        let views = scope.spawn(|| {
            let (mut view, mut before) = (home.view(), [0; 3]);
            while !stop.load(Ordering::Relaxed) {
                view.refresh().unwrap();
                let now = SKILLS.map(|skill| view.skill(skill).map_or(0, |skill| skill.activity()));
                assert!(before.iter().zip(now).all(|(before, now)| *before <= now), "{before:?} then {now:?}");
                before = now;
            }
        });
        while writers.iter_mut().any(|(_, _, child)| child.try_wait().unwrap().is_none()) {
            match home.profile.compact(&CompactOptions::default()).unwrap().snapshot {
                Snapshot::Written { external } => {
                    written += 1;
                    with_external += u64::from(external > 0);
                }
                Snapshot::Unchanged => {}
                other => panic!("{other:?}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
        appended = appends.join().unwrap();
        views.join().unwrap();
    });
    assert!(written > 3 && with_external > 3, "no race: {written} snapshots, {with_external} with work of others");

    let mut expected = std::collections::BTreeMap::from(SKILLS.map(|skill| (skill, [appended, 0])));
    for (skill, kind, child) in writers {
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success());
        let done: u64 = String::from_utf8(out.stdout).unwrap().trim().parse().unwrap();
        assert_eq!(done, bumps, "a stock writer failed");
        expected.get_mut(skill).unwrap()[usize::from(kind == "view")] += done;
    }
    for _ in 0..2 {
        let view = home.view();
        for (skill, counts) in &expected {
            let shown = view.skill(skill).unwrap();
            assert_eq!([shown.count(Counter::Use), shown.count(Counter::View)], *counts, "{skill}");
        }
        home.compact();
        for (skill, counts) in &expected {
            let record = &usage_file::json(&home)[*skill];
            assert_eq!([&record["use_count"], &record["view_count"]], *counts, "{skill}");
        }
    }
}

#[test]
fn what_a_stock_writer_forgets_is_forgotten() {
    let home = Home::new(CAPACITY);
    home.used("dead");
    home.used("kept");
    home.compact();
    let Some(mut command) = stock_writer() else { return };
    command.arg(home.path()).args(["--skill", "kept", "--bumps", "2", "--forget", "dead"]);
    assert!(command.output().unwrap().status.success());
    for _ in 0..2 {
        let view = home.view();
        assert!(view.skill("dead").is_none());
        assert_eq!(view.skill("kept").unwrap().count(Counter::Use), 3);
        home.compact();
    }
    assert!(!usage_file::json(&home).contains_key("dead"));
}
