//! From `emit` to the log.

use std::thread;

use hermes_log::{EmitterOptions, Event};

use crate::caller::{LIMIT, emitter};
use crate::logs::{Home, SKILLS, Skills};
use crate::measure::{Effort, Row, Side, Target, interleave, time};

/// As many events as fit into this many are drawn once and happen over and over.
const DRAWN: usize = 1 << 20;

pub fn ten_million(effort: Effort) -> Row {
    let home = Home::new();
    let events = effort.pick(300_000, 10_000_000);
    let drawn = drawn();
    let happen = || drawn.iter().cycle().take(events).cloned();
    let emitter = emitter(&home);
    let mut emitted = 0;
    let pair = interleave(effort.pick(2, 7), events as u64, |side| match side {
        Side::Ours => {
            emitted += events as u64;
            time(|| {
                happen().for_each(|event| emitter.emit(event));
                emitter.flush(LIMIT).unwrap();
            })
        }
        Side::Floor => time(|| {
            let (sender, receiver) = crossbeam_channel::bounded(EmitterOptions::default().channel_len);
            let taken = thread::spawn(move || receiver.iter().count());
            happen().for_each(|event| sender.send(event).unwrap());
            drop(sender);
            assert_eq!(taken.join().unwrap(), events);
        }),
    });
    let view = home.profile.view().unwrap();
    assert_eq!(view.skills().iter().map(|(_, skill)| skill.activity()).sum::<u64>(), emitted, "every event counts");
    let what = format!("emitter end to end, {events} events of {SKILLS} skills: an event");
    Row::of_times(what, "crossbeam hand-off to a thread that drops them", pair, Target::Times(1.5))
}

/// Events whose names are not allocated again when they are cloned.
fn drawn() -> Vec<Event<'static>> {
    let mut skills = Skills::new();
    let mut name = std::collections::HashMap::<String, &'static str>::new();
    let mut lasting = |text: &str| *name.entry(text.to_owned()).or_insert_with(|| text.to_owned().leak());
    let one = |_| match skills.next() {
        Event::Used { skill, .. } => Event::used(lasting(&skill)),
        Event::Viewed { skill, .. } => Event::viewed(lasting(&skill)),
        Event::Patched { skill, .. } => Event::patched(lasting(&skill)),
        other => panic!("nobody draws {other:?}"),
    };
    (0..DRAWN).map(one).collect()
}
