//! `compact`: once, or on and on.

use std::time::Duration;

use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::cli::args::Global;
use crate::cli::display;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Output;
use crate::compact::{CompactOptions, Compaction, Snapshot};
use crate::profile::Profile;
use crate::view::Policy;

pub(crate) const HELP: &str = "\
Examples:
  hermes-log compact
  hermes-log compact --every 5m

With --every it goes on until SIGINT or SIGTERM, which let a run that is under way end (a second one
does not). A run that fails is reported and the next one tries again.

With --json one object for each run: {\"floor\": N, \"events\": N, \"segments_folded\": N,
\"segments_deleted\": N, \"snapshot\": {\"outcome\": \"unchanged\" | \"written\" | \"busy\" | \"failed\",
\"external\": N, \"error\": TEXT or null}, \"gaps\": [GAP], \"set_aside\": [PATH]}. The exit code is 75 if
everything but .usage.json was done, because its lock was busy.";

/// Between two runs of `--every` somebody else may compact: there is no need to wait for long.
const EVERY_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Go on, with this pause between two runs: 30s, 5m, 1h
    #[arg(long, value_name = "DURATION", value_parser = parse_pause)]
    every: Option<Duration>,
    /// How long to wait for a lock [default: 60s for the compactor's, 10s for .usage.json's; with --every 1s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait: Option<Duration>,
    /// How long folded segments are kept for `tail` and those who follow
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "1h")]
    retain: Duration,
    /// Leave no secret that was replaced before in any segment or checkpoint; nothing is retained
    #[arg(long, conflicts_with_all = ["every", "retain"])]
    scrub: bool,
    /// Count uses by processes of origin `review` as views in .usage.json
    #[arg(long)]
    reviews_as_views: bool,
}

fn parse_pause(text: &str) -> Result<Duration, &'static str> {
    parse_duration(text).and_then(|pause| if pause.is_zero() { Err("allowed: from 1ms") } else { Ok(pause) })
}

pub(crate) fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    const ALLOWED: &str = "allowed: 0, or a whole number with a unit, ms, s, m, h or d, such as 5m, up to 3650d";
    const LONGEST: Duration = Duration::from_secs(3650 * 86_400);
    let digits_len = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(digits_len).ok_or(ALLOWED)?;
    let unit_millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" if text == "0" => 0,
        _ => return Err(ALLOWED),
    };
    let millis = digits.parse().ok().and_then(|number: u64| number.checked_mul(unit_millis));
    // A deadline that far ahead could not be told from none, or not be represented.
    millis.map(Duration::from_millis).filter(|duration| *duration <= LONGEST).ok_or(ALLOWED)
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let profile = global.profile()?.with_policy(Policy { reviews_are_views: args.reviews_as_views });
    let (default, retain, scrub) = (CompactOptions::default(), args.retain, args.scrub);
    match args.every {
        None => {
            let lock_wait = args.wait.unwrap_or(default.lock_wait);
            let snapshot_wait = args.wait.unwrap_or(default.snapshot_wait);
            once(&profile, &CompactOptions { lock_wait, snapshot_wait, retain, scrub }, out)
        }
        Some(pause) => {
            let wait = args.wait.unwrap_or(EVERY_WAIT);
            let options = CompactOptions { lock_wait: wait, snapshot_wait: wait, retain, scrub };
            again_and_again(&profile, &options, pause, out)
        }
    }
}

fn once(profile: &Profile, options: &CompactOptions, out: &mut Output) -> Result<Exit, Failure> {
    let done = out.with_progress("compacting", |_| profile.compact(options))?;
    print(&done, out)?;
    out.report(&done.gaps, &[]);
    let (exit, error) = match &done.snapshot {
        Snapshot::Busy(e) => (Exit::Locked, e),
        Snapshot::Failed(e) => (Exit::Failed, e),
        Snapshot::Unchanged | Snapshot::Written { .. } => return Ok(Exit::with_gaps(!done.gaps.is_empty())),
    };
    out.error(&format!("everything is done but .usage.json, which is left to the next run: {error}"), exit);
    Ok(exit)
}

fn again_and_again(
    profile: &Profile,
    options: &CompactOptions,
    pause: Duration,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let signals = Signals::listen().map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    loop {
        match once(profile, options, out) {
            Ok(_) => {}
            Err(failure @ Failure::Output(_)) => return Err(failure),
            Err(failure) => out.error(&failure.to_string(), failure.exit()),
        }
        out.flush()?;
        if signals.came_within(pause) {
            return Ok(Exit::Done);
        }
    }
}

/// SIGINT and SIGTERM, as a message. The second one ends the process at once, which no compaction minds.
struct Signals(std::sync::mpsc::Receiver<()>);

impl Signals {
    fn listen() -> std::io::Result<Signals> {
        let came = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag unset, and sets it.
            signal_hook::flag::register_conditional_default(signal, came.clone())?;
            signal_hook::flag::register(signal, came.clone())?;
        }
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || signals.forever().try_for_each(|_| sender.send(())));
        Ok(Signals(receiver))
    }

    fn came_within(&self, pause: Duration) -> bool {
        self.0.recv_timeout(pause).is_ok()
    }
}

fn print(done: &Compaction, out: &mut Output) -> Result<(), Failure> {
    if out.is_json() {
        return out.value(&json!({
            "floor": done.floor,
            "events": done.events,
            "segments_folded": done.segments_folded,
            "segments_deleted": done.segments_deleted,
            "snapshot": snapshot_json(&done.snapshot),
            "gaps": display::gaps_json(&done.gaps),
            "set_aside": done.set_aside.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
        }));
    }
    let snapshot = match &done.snapshot {
        Snapshot::Unchanged => "unchanged".to_owned(),
        Snapshot::Written { external: 0 } => "written".to_owned(),
        Snapshot::Written { external } => {
            format!("written; others had worked on {}", display::count(*external as u64, "skill"))
        }
        Snapshot::Busy(_) => "left to the next run: its lock is held".to_owned(),
        Snapshot::Failed(_) => "left to the next run: it could not be read or written".to_owned(),
    };
    let folded =
        format!("{} in {}", display::count(done.events, "event"), display::count(done.segments_folded, "segment"));
    let mut fields = vec![
        ("folded", folded),
        ("deleted", display::count(done.segments_deleted, "segment")),
        ("floor", done.floor.to_string()),
        (".usage.json", snapshot),
    ];
    fields.extend(done.set_aside.iter().map(|path| ("set aside", path.display().to_string())));
    out.fields(fields)
}

fn snapshot_json(snapshot: &Snapshot) -> Value {
    let (outcome, external, error) = match snapshot {
        Snapshot::Unchanged => ("unchanged", 0, None),
        Snapshot::Written { external } => ("written", *external, None),
        Snapshot::Busy(e) => ("busy", 0, Some(e.to_string())),
        Snapshot::Failed(e) => ("failed", 0, Some(e.to_string())),
    };
    json!({"outcome": outcome, "external": external, "error": error})
}
