//! Two things timed side by side, and rows of the table.

use std::time::{Duration, Instant};

/// How long a run may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Some seconds for everything: shows that it runs, proves no figure.
    Quick,
    Full,
}

impl Effort {
    pub fn pick<T>(self, quick: T, full: T) -> T {
        if self == Effort::Quick { quick } else { full }
    }
}

/// What one operation costs here and at its floor, in nanoseconds: medians of the rounds.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub ours: f64,
    pub floor: f64,
    /// Distance of the quartiles of the floor's rounds over their median: how noisy the machine was.
    pub noise: f64,
}

impl Pair {
    pub fn ratio(&self) -> f64 {
        self.ours / self.floor
    }
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Ours,
    Floor,
}

/// Times both in small rounds of as many operations, taking turns at who goes first, so that noise hits both.
pub fn interleave(rounds: usize, operations: u64, mut round: impl FnMut(Side) -> Duration) -> Pair {
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    // The first round of each warms up.
    for number in 0..=rounds {
        let order = if number % 2 == 0 { [Side::Ours, Side::Floor] } else { [Side::Floor, Side::Ours] };
        for side in order {
            let took = round(side);
            if number > 0 {
                if side == Side::Ours { &mut ours } else { &mut floor }.push(took);
            }
        }
    }
    let each = |time: Duration| time.as_nanos() as f64 / operations as f64;
    let middle = quantile(&mut floor, 2);
    let spread = quantile(&mut floor, 3).saturating_sub(quantile(&mut floor, 1));
    Pair { ours: each(quantile(&mut ours, 2)), floor: each(middle), noise: spread.as_secs_f64() / middle.as_secs_f64() }
}

fn quantile(times: &mut [Duration], quarter: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * quarter / 4]
}

pub fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// What a row must reach.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// At most so many times the floor's time.
    Times(f64),
    /// At least so many times the floor's throughput.
    Throughput(f64),
    /// At least so many a second; no floor.
    PerSecond(f64),
    /// The same as the floor.
    Equal,
}

/// A line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    pub what: String,
    pub against: String,
    pub ours: String,
    pub floor: String,
    pub ratio: f64,
    pub target: Target,
    pub noise: f64,
}

impl Row {
    /// A row of times.
    pub fn of_times(what: impl Into<String>, against: impl Into<String>, pair: Pair, target: Target) -> Row {
        Row {
            what: what.into(),
            against: against.into(),
            ours: shown(pair.ours),
            floor: shown(pair.floor),
            ratio: pair.ratio(),
            target,
            noise: pair.noise,
        }
    }

    /// A row of events a second. `pair` is the time of one.
    pub fn of_rates(what: impl Into<String>, against: impl Into<String>, pair: Pair, target: Target) -> Row {
        let rate = |nanos: f64| format!("{:.2} M/s", 1e3 / nanos);
        let mut row = Row::of_times(what, against, pair, target);
        (row.ours, row.floor) = (rate(pair.ours), rate(pair.floor));
        if let Target::Throughput(_) = target {
            row.ratio = 1.0 / row.ratio;
        }
        row
    }

    pub fn is_hit(&self) -> bool {
        match self.target {
            Target::Times(most) => self.ratio <= most,
            Target::Throughput(least) | Target::PerSecond(least) => self.ratio >= least,
            Target::Equal => self.ratio == 1.0,
        }
    }
}

fn shown(nanos: f64) -> String {
    match nanos {
        ..1e3 => format!("{nanos:.0} ns"),
        ..1e6 => format!("{:.2} us", nanos / 1e3),
        _ => format!("{:.2} ms", nanos / 1e6),
    }
}
