//! The slowest in a thousand, while compactions run without a pause.

use std::time::{Duration, Instant};

use hermes_log::{Durability, Event};

use crate::append::{Bare, SKILL};
use crate::caller::{Drained, LIMIT, emitter};
use crate::logs::{Home, SKILLS, Skills, fill};
use crate::measure::{Effort, Row, Target, time};
use crate::processes::Compactor;

/// Pause of an agent between two events: it does something else.
const PAUSE: Duration = Duration::from_micros(5);

/// The time that all but one in a thousand stay below.
fn slow(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() - 1 - times.len() / 1000]
}

fn shown(time: Duration) -> String {
    format!("{:.2} us", time.as_secs_f64() * 1e6)
}

fn pause() {
    let start = Instant::now();
    while start.elapsed() < PAUSE {
        std::hint::spin_loop();
    }
}

/// `emit`, against a limit; crossbeam's `send` at the same time for comparison.
pub fn emit(effort: Effort) -> Row {
    const MOST: Duration = Duration::from_micros(10);
    let home = Home::new();
    fill(&mut home.writer(), &mut Skills::new(), SKILLS * 2, 1);
    let (emitter, drained) = (emitter(&home), Drained::new());
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    let compactor = Compactor::start(&home);
    for _ in 0..effort.pick(20_000, 1_000_000) {
        ours.push(time(|| emitter.emit(Event::used(SKILL))));
        pause();
        floor.push(time(|| drained.sender.send(Event::used(SKILL)).unwrap()));
        pause();
    }
    emitter.flush(LIMIT).unwrap();
    let compactions = compactor.end();
    let (ours, floor) = (slow(ours), slow(floor));
    Row {
        what: format!("the slowest of 1,000 `emit`, {compactions} compactions meanwhile"),
        against: format!("the limit (crossbeam `send` meanwhile: {})", shown(floor)),
        ours: shown(ours),
        floor: shown(MOST),
        ratio: ours.as_secs_f64() / MOST.as_secs_f64(),
        target: Target::Times(1.0),
        noise: 0.0,
    }
}

/// Appends with a compactor and without, in turns; then the same with a bare `write(2)` of the same bytes to another file,
/// which shows what the compactor's work does to the machine, whatever is appended.
pub fn append(effort: Effort) -> Vec<Row> {
    let home = Home::new();
    let mut writer = home.writer();
    fill(&mut writer, &mut Skills::new(), SKILLS * 2, 1);
    let frame = home.frame(writer.append(&Event::used(SKILL), Durability::Process).unwrap());
    let mut bare = Bare::open(home.path());
    let mut append = || {
        writer.append(&Event::used(SKILL), Durability::Process).unwrap();
    };
    let ours = beside_a_compactor(effort, &home, "appends", || time(&mut append));
    let what = "`write(2)` of the same bytes to a file of its own";
    let machine = beside_a_compactor(effort, &home, what, || {
        append(); // as much to compact as before
        time(|| bare.append(&frame, 1))
    });
    vec![ours, machine]
}

fn beside_a_compactor(effort: Effort, home: &Home, what: &str, mut work: impl FnMut() -> Duration) -> Row {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let mut compactions = 0;
    for _ in 0..effort.pick(3, 50) {
        for is_compacting in [true, false] {
            let compactor = is_compacting.then(|| Compactor::start(home));
            let times = if is_compacting { &mut with } else { &mut without };
            for _ in 0..effort.pick(5000, 20_000) {
                times.push(work());
                pause();
            }
            compactions += compactor.map_or(0, Compactor::end);
        }
    }
    assert!(compactions > 0);
    let (with, without) = (slow(with), slow(without));
    Row {
        what: format!("the slowest of 1,000 {what}, {compactions} compactions meanwhile"),
        against: "the same without a compactor".into(),
        ours: shown(with),
        floor: shown(without),
        ratio: with.as_secs_f64() / without.as_secs_f64(),
        target: Target::Times(2.0),
        noise: 0.0,
    }
}
