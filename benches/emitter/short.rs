//! A process that appends once and ends.

use std::time::Duration;

use hermes_log::{Durability, Event, Origin, Profile};

use crate::append::SKILL;
use crate::logs::Home;
use crate::measure::{Effort, Row, Target};
use crate::processes::{number_of, tell_time};

pub fn once(profile: &Profile) {
    tell_time(|| {
        let mut writer = profile.writer(Origin::here("cron")).unwrap();
        writer.append(&Event::used(SKILL), Durability::Process).unwrap();
    });
}

/// Opening, one append, closing, as the process itself sees it, against a limit.
pub fn open_append_close(effort: Effort) -> Row {
    const MOST: Duration = Duration::from_micros(100);
    let home = Home::new();
    home.writer().append(&Event::used(SKILL), Durability::Process).unwrap();
    let mut times: Vec<u64> = (0..effort.pick(20, 500)).map(|_| number_of("once", &home)).collect();
    times.sort_unstable();
    let middle = times[times.len() / 2] as f64 / 1e3;
    let spread = (times[times.len() * 3 / 4] - times[times.len() / 4]) as f64 / 1e3;
    Row {
        what: "opening, one append and closing in a process of its own, beyond its start".into(),
        against: "the limit".into(),
        ours: format!("{middle:.1} us"),
        floor: format!("{} us", MOST.as_micros()),
        ratio: middle / MOST.as_micros() as f64,
        target: Target::Times(1.0),
        noise: spread / middle,
    }
}
