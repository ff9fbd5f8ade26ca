//! `verify`: reads everything, changes nothing.

use serde_json::json;

use crate::cli::args::Global;
use crate::cli::display;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Output;
use crate::verify::Verified;

pub(crate) const HELP: &str = "\
Examples:
  hermes-log verify
  hermes-log verify --json | jq .gaps

Reads every checkpoint, every segment above the older one, and .usage.json. The exit code is 3 if
anything does not check out.

With --json {\"sound\": BOOL, \"gaps\": [{\"segment\", \"offset\", \"length\", \"reason\"}],
\"checkpoints\": [FLOOR], \"damaged_checkpoints\": [FLOOR], \"checkpoint_agrees\": BOOL or null,
\"snapshot_problems\": [{\"offset\", \"what\"}], \"frames\": N, \"events\": N, \"voids\": N, \"carried\": N,
\"position\": \"S:O\"}";

pub(crate) fn run(global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let profile = global.profile()?;
    let verified = out.with_progress("verifying", |bar| {
        let mut segment = 0;
        profile.verify(|position| {
            if position.segment != segment {
                segment = position.segment;
                bar.set_message(format!("verifying segment {segment}"));
            }
        })
    })?;
    print(&verified, out)?;
    Ok(Exit::with_gaps(!verified.is_sound()))
}

fn print(found: &Verified, out: &mut Output) -> Result<(), Failure> {
    if out.is_json() {
        return out.value(&json!({
            "sound": found.is_sound(),
            "gaps": display::gaps_json(&found.gaps),
            "checkpoints": found.checkpoints,
            "damaged_checkpoints": found.damaged_checkpoints,
            "checkpoint_agrees": found.checkpoint_agrees,
            "snapshot_problems": display::problems_json(&found.snapshot_problems),
            "frames": found.frames,
            "events": found.events,
            "voids": found.voids,
            "carried": found.carried,
            "position": found.position.to_string(),
        }));
    }
    for gap in &found.gaps {
        out.line(&gap.to_string())?;
    }
    for floor in &found.damaged_checkpoints {
        out.line(&format!("checkpoint {floor} does not check out"))?;
    }
    if found.checkpoint_agrees == Some(false) {
        out.line("the newest checkpoint is not what the older one and the segments between them give")?;
    }
    for problem in &found.snapshot_problems {
        out.line(&display::problem(problem))?;
    }
    let verdict = if found.is_sound() { "sound" } else { "not sound" };
    let carried = match found.carried {
        0 => String::new(),
        carried => format!(", {} of a newer version carried along", display::count(carried as u64, "payload")),
    };
    out.line(&format!(
        "{verdict}: {} in {}, {}, {} up to {}{carried}",
        display::count(found.events, "event"),
        display::count(found.frames, "frame"),
        display::count(found.voids, "void"),
        display::count(found.gaps.len() as u64, "gap"),
        found.position,
    ))
}
