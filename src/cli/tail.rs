//! `tail`: events and gaps, oldest first.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use crate::cli::args::Global;
use crate::cli::cursor::Cursor;
use crate::cli::display;
use crate::cli::entries;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Output;
use crate::error::{Error, Result};
use crate::event::batch::{Batch, Unapplied};
use crate::follow::{Followed, Follower, Start};
use crate::log::format::FIRST_FRAME_OFFSET;
use crate::log::{Gap, Position};
use crate::profile::Profile;
use crate::verify::Entry;

pub(crate) const HELP: &str = "\
Examples:
  hermes-log tail
  hermes-log tail --from 3:64
  hermes-log tail --follow --from now
  hermes-log tail --follow --cursor-file seen --json | consumer
  hermes-log tail --json | jq 'select(.event.skill == \"pdf\")'

Shows what is not compacted away yet (compaction keeps what it folded for an hour); what was before
is in the sums of `show`. Columns: position, time, origin, event, skill, details.

With --cursor-file the position is saved after each batch that was printed: a consumer that is killed at any
point goes on without loss, and repeats at most the last batch.

With --json one object a line, for each event
  {\"position\": \"S:O\", \"time\": TIME, \"origin\": {\"kind\", \"process\", \"session\"},
   \"event\": {\"event\": KIND, \"skill\": NAME, ...}}
where the event is as `emit -` takes it (for what a newer version wrote it is null, and
\"not_understood\" is there), for each gap
  {\"gap\": {\"segment\": N, \"offset\": N, \"length\": N or null, \"reason\": WORD}}
and with --follow, for each compaction
  {\"compaction\": {\"floor\": N}}";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Begin at a position as `emit` prints it, or `now` [default: with the oldest event that is kept]
    #[arg(long, value_name = "POSITION", value_parser = parse_start)]
    from: Option<Start>,
    /// Go on as events come, until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Begin where this file says, if it is there, and keep it up to date
    #[arg(long, value_name = "FILE")]
    cursor_file: Option<PathBuf>,
}

/// Nobody who waits for events minds how often an empty wait ends.
const FOLLOW_WAIT: Duration = Duration::from_secs(60);

fn parse_start(text: &str) -> Result<Start> {
    if text == "now" { Ok(Start::Now) } else { text.parse().map(Start::At) }
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let profile = global.profile()?;
    let start = args.from.unwrap_or(Start::Oldest);
    let mut tail = Tail { out, printed: 0, gaps: 0 };
    if let Some(path) = &args.cursor_file {
        let cursor = Cursor::at(path);
        let start = cursor.load()?.map_or(start, Start::At);
        let follower = profile.follow(start).map_err(|e| match e {
            Error::PositionCompacted { .. } => {
                Failure::failed(format!("{e}; to go on from there, remove {}", path.display()))
            }
            other => other.into(),
        })?;
        tail.follow(follower, Some(&cursor), args.follow)?;
    } else if args.follow {
        tail.follow(profile.follow(start)?, None, true)?;
    } else {
        tail.scan(&profile, start)?;
    }
    match tail.printed {
        0 => tail.out.message("no events here; what was compacted away is in the sums of `show`"),
        _ if tail.gaps > 0 => tail.out.warning(&display::count(tail.gaps, "gap")),
        _ => {}
    }
    Ok(Exit::with_gaps(tail.gaps > 0))
}

struct Tail<'a> {
    out: &'a mut Output,
    printed: u64,
    gaps: u64,
}

impl Tail<'_> {
    /// What is in the log now.
    fn scan(&mut self, profile: &Profile, start: Start) -> Result<(), Failure> {
        let from = match start {
            Start::Oldest => None,
            Start::At(position) => Some(position),
            Start::Now => Some(profile.view()?.position()),
        };
        loop {
            let mut outcome = Ok(());
            let scanned = profile.scan(from, |entry| {
                outcome = match &entry {
                    Entry::Void(_) => Ok(()), // it is in the next segment
                    Entry::Frame { position, batch } => self.frame(*position, batch.as_ref()),
                    Entry::Gap(gap) => self.gap(gap),
                };
                if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            outcome?;
            match scanned {
                // Overtaken by a compaction before anything was shown: the oldest that is kept is another one now.
                Err(Error::PositionCompacted { .. }) if from.is_none() && self.printed == 0 => {}
                other => return Ok(other.map(drop)?),
            }
        }
    }

    /// What is there, and with `on` what comes, until interrupted.
    fn follow(&mut self, mut follower: Follower, cursor: Option<&Cursor>, on: bool) -> Result<(), Failure> {
        let wait = if on { FOLLOW_WAIT } else { Duration::ZERO };
        let mut saved = None;
        loop {
            let batch = follower.next_batch(wait)?;
            let is_empty = batch.is_empty();
            for followed in batch {
                self.followed(followed)?;
            }
            // Printed first, then saved: a consumer that is killed in between repeats the batch.
            self.out.flush()?;
            if let Some(cursor) = cursor.filter(|_| saved != Some(follower.position())) {
                follower.sync()?;
                cursor.save(follower.position())?;
                saved = Some(follower.position());
            }
            if is_empty && !on {
                return Ok(());
            }
        }
    }

    fn followed(&mut self, followed: Followed) -> Result<(), Failure> {
        match followed {
            Followed::Frame { position, time_micros, origin, events } => {
                let carried = events.is_empty().then_some(Unapplied::Payload);
                self.frame(position, Some(&Batch { time: time_micros, origin, events, carried }))
            }
            Followed::Gap(gap) => self.gap(&gap),
            Followed::Compaction { floor } if self.out.is_json() => {
                self.out.value(&json!({"compaction": {"floor": floor}}))
            }
            Followed::Compaction { floor } => {
                let first = after(floor);
                self.out.line(&format!("{first:<14}  compaction: what is before this is in a checkpoint"))
            }
        }
    }

    fn gap(&mut self, gap: &Gap) -> Result<(), Failure> {
        self.gaps += 1;
        self.printed += 1;
        if self.out.is_json() {
            return self.out.value(&json!({"gap": display::gap_json(gap)}));
        }
        self.out.line(&format!("{:<14}  {gap}", gap.position))
    }

    fn frame(&mut self, position: Position, batch: Option<&Batch<'_>>) -> Result<(), Failure> {
        self.printed += 1;
        if self.out.is_json() {
            return entries::frame_json(position, batch).iter().try_for_each(|value| self.out.value(value));
        }
        let (time, origin) = match batch {
            Some(batch) => {
                let time = display::ago(i64::try_from(batch.time).unwrap_or(i64::MAX));
                (time, display::origin(&batch.origin))
            }
            None => ("-".into(), "-".into()),
        };
        for described in entries::describe_all(batch) {
            self.out.line(&format!("{position:<14}  {time:<14}  {origin:<16}  {described}"))?;
        }
        Ok(())
    }
}

/// The first position above a floor.
fn after(floor: u64) -> Position {
    Position { segment: floor.saturating_add(1), offset: FIRST_FRAME_OFFSET }
}
