//! Exact totals and order, whoever emits, and however the emitter ends.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use hermes_log::{Counter, Durability, Emitter, EmitterOptions, Event, Origin, View};
use serde_json::Value;

use crate::support::emitting::{any_event, emitter, plain};
use crate::support::log_files::Home;
use crate::support::processes::{HANG, Random, records, used};

const CAPACITY: u32 = 64 << 10;

/// Uses, views and patches of a skill.
type Counts = BTreeMap<String, [u64; 3]>;

fn counts(view: &View) -> Counts {
    let count = |skill: &hermes_log::view::SkillView<'_>| Counter::ALL.map(|counter| skill.count(counter));
    view.skills().into_iter().map(|(name, skill)| (name.to_owned(), count(&skill))).collect()
}

/// Emits `events` increments and counts them.
fn emit_counted(emitter: &Emitter, mut random: Random, events: u64) -> Counts {
    let mut counted = Counts::new();
    for _ in 0..events {
        let skill = format!("skill-{}", random.below(20));
        let (counter, count) = (random.below(3) as usize, 1 + random.below(4));
        counted.entry(skill.clone()).or_default()[counter] += count;
        let skill = skill.into();
        emitter.emit(match counter {
            0 => Event::Used { skill, count },
            1 => Event::Viewed { skill, count },
            _ => Event::Patched { skill, count },
        });
    }
    counted
}

fn sum(all: impl IntoIterator<Item = Counts>) -> Counts {
    let mut total = Counts::new();
    for (skill, counts) in all.into_iter().flatten() {
        let sum = total.entry(skill).or_default();
        (0..3).for_each(|counter| sum[counter] += counts[counter]);
    }
    total
}

#[test]
fn events_of_many_threads_are_in_the_log_after_a_flush_with_exact_totals() {
    let mut random = Random::new();
    for channel_len in [1, 7, EmitterOptions::default().channel_len] {
        let home = Home::new(CAPACITY);
        let emitter = emitter(&home.profile, EmitterOptions { channel_len, ..plain() });
        let mut expected = Counts::new();
        for _ in 0..3 {
            let counted = thread::scope(|threads| {
                let emit = |seed| {
                    let emitter = &emitter;
                    threads.spawn(move || emit_counted(emitter, Random::seeded(seed), 3000))
                };
                let emitting: Vec<_> = (0..8).map(|_| emit(random.next())).collect();
                sum(emitting.into_iter().map(|thread| thread.join().unwrap()))
            });
            expected = sum([expected, counted]);
            emitter.flush(HANG).unwrap();
            assert_eq!(counts(&home.view()), expected, "channel of {channel_len}");
        }
        let counters = emitter.counters();
        assert_eq!((counters.emitted, counters.failed), (3 * 8 * 3000, 0));
        assert_eq!((counters.queued, counters.waiting), (0, 0));
        assert_eq!(counters.merged + counters.appended, counters.emitted);
        assert_eq!(counters.appended, home.view().events());
    }
}

#[test]
fn a_full_channel_drops_nothing_and_keeps_the_order_of_each_thread() {
    let mut random = Random::new();
    for channel_len in [1, 2, 5] {
        let home = Home::new(CAPACITY);
        let emitter = emitter(&home.profile, EmitterOptions { channel_len, ..plain() });
        thread::scope(|threads| {
            for number in 0..6 {
                let (emitter, mut random) = (&emitter, Random::seeded(random.next()));
                threads.spawn(move || {
                    for _ in 0..2000 {
                        emitter.emit(any_event(&mut random, format!("skill of {number}")));
                    }
                    // Any other order than this ends in another record.
                    let skill = || format!("skill of {number}").into();
                    let forgotten = Event::Forgotten { skill: skill() };
                    let pinned = |pinned| Event::Pinned { skill: skill(), pinned };
                    [Event::used(skill()), forgotten, pinned(false), Event::used(skill()), pinned(true)]
                        .into_iter()
                        .chain((0..number).map(|_| Event::used(skill())))
                        .for_each(|event| emitter.emit(event));
                });
            }
        });
        emitter.flush(HANG).unwrap();
        let view = home.view();
        for number in 0..6 {
            let skill = view.skill(&format!("skill of {number}")).unwrap();
            assert_eq!((skill.count(Counter::Use), skill.is_pinned()), (number + 1, true), "skill of {number}");
            assert_eq!((skill.count(Counter::View), skill.count(Counter::Patch)), (0, 0), "skill of {number}");
        }
    }
}

#[test]
fn merging_changes_no_folded_value() {
    let mut random = Random::new();
    let mut merged = 0;
    for kind in ["session", "review"] {
        for _ in 0..20 {
            let (emitted, written) = (Home::new(CAPACITY), Home::new(CAPACITY));
            let emitter = Emitter::new(emitted.profile.clone(), Origin::here(kind), plain());
            let mut writer = written.profile.writer(Origin::here(kind)).unwrap();
            for _ in 0..1000 {
                let skill = format!("skill-{}", random.below(5));
                let event = match random.below(200) {
                    0 => Event::Used { skill: skill.into(), count: u64::MAX },
                    _ => any_event(&mut random, skill),
                };
                writer.append(&event, Durability::Process).unwrap();
                emitter.emit(event);
            }
            emitter.flush(HANG).unwrap();
            assert_eq!(timeless(&emitted), timeless(&written));
            merged += emitter.counters().merged;
        }
    }
    assert!(merged > 1000, "only {merged} events were merged");
}

/// Every record, with a word in the place of each time.
fn timeless(home: &Home) -> BTreeMap<String, serde_json::Map<String, Value>> {
    let mut records = records(&home.view());
    for (field, value) in records.values_mut().flatten() {
        if field.ends_with("_at") && value.is_string() {
            *value = "a time".into();
        }
    }
    records
}

#[test]
fn dropping_the_emitter_writes_what_was_emitted() {
    let home = Home::new(CAPACITY);
    for round in 1..=20 {
        let emitter = emitter(&home.profile, plain());
        (0..500).for_each(|_| emitter.emit(Event::used("pdf")));
        drop(emitter);
        assert_eq!(used(&home.view(), "pdf"), round * 500);
    }
}

#[test]
fn a_panic_that_unwinds_through_the_host_still_writes() {
    let home = Home::new(CAPACITY);
    let host = || {
        let emitter = emitter(&home.profile, plain());
        (0..500).for_each(|_| emitter.emit(Event::used("pdf")));
        std::panic::resume_unwind(Box::new("the host is broken")); // as panic!, without its message
    };
    catch_unwind(AssertUnwindSafe(host)).unwrap_err();
    assert_eq!(used(&home.view(), "pdf"), 500);

    // One of the host's threads panics: the emitter of the others goes on.
    let emitter = emitter(&home.profile, plain());
    thread::scope(|threads| {
        let broken = || {
            (0..500).for_each(|_| emitter.emit(Event::used("pdf")));
            std::panic::resume_unwind(Box::new("a thread is broken"));
        };
        threads.spawn(broken).join().unwrap_err();
    });
    emitter.emit(Event::used("pdf"));
    emitter.flush(HANG).unwrap();
    assert_eq!(used(&home.view(), "pdf"), 1001);
}
