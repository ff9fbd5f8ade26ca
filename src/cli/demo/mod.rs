//! `demo`: the main job in one command, and an exact verdict.
//!
//! Every append is one frame with two events: a use of one of some skills, and a view of the *ledger* of the process
//! that appends, a name that no other process uses. Before an append the process announces the skill on a pipe, after
//! the acknowledgement it says so; so when it is killed, at most one append is in doubt, and the parent knows of which
//! skill. Whether that one counts, the ledger tells. Hence for each process and for each skill there is one number that
//! the fold must give, event for event.

mod books;
mod process;
pub(crate) mod writer;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::cli::args::Global;
use crate::cli::display;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Output;
use crate::cli::segment::{self, Item, SegmentFile};
use crate::compact::{CompactOptions, Compaction};
use crate::error::{Error, Result};
use crate::log::writer::Options;
use crate::profile::Profile;
use crate::sys::{self, file};

use books::{Books, Verdict};
use process::Slot;

pub(crate) const HELP: &str = "\
Examples:
  hermes-log demo
  hermes-log demo --processes 16 --events 1000000
  hermes-log demo --home /dev/shm/demo

Processes append while a compactor runs without a pause, and some are killed with SIGKILL and
replaced. Then the folded counts are compared with what each process had acknowledged, event for
event: the exit code is 0 if they agree exactly, else 4. The files are kept; without --home in a new
folder below $TMPDIR.

With --json {\"exact\": BOOL, \"events\": N, \"counted\": N, \"processes\": N, \"processes_started\": N,
\"kills\": N, \"in_flight\": N, \"in_flight_counted\": N, \"compactions\": N, \"segments_created\": N,
\"segments_deleted\": N, \"voided_at_least\": N, \"seconds\": X, \"events_per_second\": N, \"home\": PATH,
\"differences\": [{\"name\", \"expected\", \"counted\"}]}.";

/// Small, so that many segments come and go.
const CAPACITY: u32 = 64 << 10;
/// How often each process is killed and replaced, on average.
const KILLS_PER_SLOT: u32 = 2;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Processes that append at the same time
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u32).range(1..=256))]
    processes: u32,
    /// Events that must be acknowledged in the end
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u64).range(1..))]
    events: u64,
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let options =
        Options { capacity: Some(global.capacity.unwrap_or(CAPACITY)), allow_network_fs: global.allow_network_fs };
    let profile = Profile::at(home(global)?).with_options(options);
    let before = Books::of(&profile)?;
    if let Some(foreign) = before.names().find(|name| !books::is_of_demo(name)) {
        let (home, foreign) = (profile.home().display(), display::name(foreign));
        return Err(Failure::usage(format!(
            "{home} is in use (it has the skill {foreign}): give the demo a new folder"
        )));
    }
    let report = out.with_progress("appending", |bar| work(args, &profile, &before, bar))?;
    print(&report, out)?;
    if report.verdict.is_exact() {
        return Ok(Exit::Done);
    }
    Err(Failure::failed("the fold does not agree with what was acknowledged: this is a bug in hermes-log"))
}

/// The home that was given, or a new one.
fn home(global: &Global) -> Result<PathBuf, Failure> {
    if global.profile.is_some() {
        return Err(Failure::usage("the demo has a home of its own; --home names a folder for it"));
    }
    let home = match &global.home {
        Some(home) => home.clone(),
        None => std::env::temp_dir().join(format!("hermes-log-demo-{}", sys::fresh_suffix())),
    };
    file::make_folder(&home, file::FOLDER_MODE)?;
    Ok(home)
}

struct Report {
    verdict: Verdict,
    processes: u32,
    compactions: Compactions,
    segments_created: u64,
    duration: Duration,
    home: PathBuf,
}

fn work(args: &Args, profile: &Profile, before: &Books, bar: &ProgressBar) -> Result<Report, Failure> {
    let capacity = profile.options().capacity.unwrap_or(CAPACITY);
    let is_new = !profile.log_folder().is_dir();
    let last_before = if is_new { 0 } else { profile.view()?.position().segment };
    let (acknowledged, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    let (acknowledged, is_done) = (&acknowledged, &is_done);
    let (runs, mut compactions, duration) = std::thread::scope(|scope| {
        let start = Instant::now();
        let slots: Vec<_> = (0..args.processes)
            .map(|number| {
                let share = share(args.events, args.processes, number);
                let slot = Slot { profile, capacity, number, acknowledged };
                scope.spawn(move || slot.run(share, KILLS_PER_SLOT))
            })
            .collect();
        let compactor = scope.spawn(move || {
            let mut compactions = Compactions::default();
            while !is_done.load(Ordering::Relaxed) {
                compactions.run(profile)?;
                let so_far = display::number(acknowledged.load(Ordering::Relaxed));
                bar.set_message(format!("{so_far} of {} events", display::number(args.events)));
            }
            Ok::<_, Failure>(compactions)
        });
        let ended: Vec<_> = slots.into_iter().map(ScopedJoinHandle::join).collect();
        let duration = start.elapsed();
        is_done.store(true, Ordering::Relaxed); // before a panic goes on, else the compactor would too
        let compactions = passed_on(compactor.join())?;
        let runs = ended.into_iter().map(passed_on).collect::<Result<Vec<_>, Failure>>()?;
        Ok::<_, Failure>((runs.concat(), compactions, duration))
    })?;

    bar.set_message("comparing");
    let folded = Books::of(profile)?;
    compactions.run(profile)?;
    let compacted = Books::of(profile)?;
    let snapshot = Books::of_snapshot(profile)?;
    Ok(Report {
        verdict: Verdict::reach(runs, before, &[folded, compacted, snapshot]),
        processes: args.processes,
        segments_created: profile.view()?.position().segment.saturating_sub(last_before),
        compactions,
        duration,
        home: profile.home().to_owned(),
    })
}

/// The events of one of the processes, so that together they are all.
fn share(events: u64, processes: u32, number: u32) -> u64 {
    let processes = u64::from(processes);
    events / processes + u64::from(u64::from(number) < events % processes)
}

/// A panic of a thread goes on in this one.
fn passed_on<T>(ended: std::thread::Result<T>) -> T {
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The compactor that never pauses.
#[derive(Default)]
struct Compactions {
    runs: u64,
    deleted: u64,
    /// Appends that ended beyond the capacity and began below it: those that leave a trace.
    voided: u64,
}

impl Compactions {
    fn run(&mut self, profile: &Profile) -> Result<(), Failure> {
        // Nobody follows this log: segments go as soon as they may.
        let done = profile.compact(&CompactOptions { retain: Duration::ZERO, ..CompactOptions::default() })?;
        self.runs += 1;
        self.deleted += done.segments_deleted;
        self.voided += voided(profile, &done)?;
        Ok(())
    }
}

/// Void frames in the segments that were folded just now: they are deleted by the next compaction, not by this one.
fn voided(profile: &Profile, done: &Compaction) -> Result<u64> {
    let mut voided = 0;
    for number in (done.floor.saturating_sub(done.segments_folded)..=done.floor).skip(1) {
        let segment = match SegmentFile::read(&segment::path(profile, number)) {
            Err(Error::NotFound { .. }) => continue,
            other => other?,
        };
        segment.scan(|item| {
            voided += u64::from(matches!(item, Item::Void { .. }));
            std::ops::ControlFlow::Continue(())
        });
    }
    Ok(voided)
}

impl Report {
    fn events_per_second(&self) -> u64 {
        (self.verdict.acknowledged as f64 / self.duration.as_secs_f64().max(1e-6)) as u64
    }
}

fn print(report: &Report, out: &mut Output) -> Result<(), Failure> {
    let Report { verdict, compactions, .. } = report;
    if out.is_json() {
        let differences: Vec<Value> = verdict
            .differences
            .iter()
            .map(|d| json!({"name": d.name, "expected": d.expected, "counted": d.counted}))
            .collect();
        return out.value(&json!({
            "exact": verdict.is_exact(),
            "events": verdict.acknowledged,
            "counted": verdict.counted,
            "processes": report.processes,
            "processes_started": verdict.processes,
            "kills": verdict.kills,
            "in_flight": verdict.in_flight,
            "in_flight_counted": verdict.in_flight_counted,
            "compactions": compactions.runs,
            "segments_created": report.segments_created,
            "segments_deleted": compactions.deleted,
            "voided_at_least": compactions.voided,
            "seconds": report.duration.as_secs_f64(),
            "events_per_second": report.events_per_second(),
            "home": report.home.to_string_lossy(),
            "differences": differences,
        }));
    }
    let number = display::number;
    let verdict_line = if verdict.is_exact() {
        "exact: every acknowledged event is counted, none twice, in the log, after compaction and in .usage.json"
    } else {
        "NOT exact"
    };
    out.heading(verdict_line)?;
    for difference in &verdict.differences {
        let books::Difference { name, expected, counted } = difference;
        out.line(&format!("  {}: {} expected, {} counted", display::name(name), number(*expected), number(*counted)))?;
    }
    let seconds = report.duration.as_secs_f64();
    out.fields([
        ("acknowledged", display::count(verdict.acknowledged, "event")),
        (
            "counted",
            format!(
                "{}, {} of them in flight when their process was killed",
                number(verdict.counted),
                number(verdict.in_flight_counted)
            ),
        ),
        ("processes", format!("{} at a time, {} in all", report.processes, verdict.processes)),
        ("kills", format!("{} with SIGKILL, {} with an event in flight", verdict.kills, verdict.in_flight)),
        ("compactions", number(compactions.runs)),
        ("segments", format!("{} created, {} deleted", number(report.segments_created), number(compactions.deleted))),
        ("voided appends", format!("at least {}", number(compactions.voided))),
        ("throughput", format!("{} events/s, {seconds:.2} s", number(report.events_per_second()))),
        ("files", report.home.display().to_string()),
    ])
}
