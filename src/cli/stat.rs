//! `stat`: sizes, counts, gaps, the last compaction, who holds a lock.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::args::Global;
use crate::cli::display;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Output;
use crate::compact::Status;
use crate::error::Result;
use crate::log::folder::{Folder, Listing};
use crate::profile::Profile;
use crate::sys::file;
use crate::view::View;

pub(crate) const HELP: &str = "\
Examples:
  hermes-log stat
  hermes-log stat --json | jq .last_compaction

With --json {\"home\": PATH, \"position\": \"S:O\", \"floor\": N, \"log_id\": HEX or null,
\"segments\": {\"count\", \"first\", \"last\", \"bytes\"}, \"checkpoints\": {\"floors\": [N], \"bytes\"},
\"damaged\": {\"files\", \"bytes\"}, \"skills\": N, \"frames\": N, \"events\": N, \"carried\": N,
\"gaps\": {\"count\", \"bytes\", \"newest\": [GAP], \"above_floor\": [GAP]},
\"snapshot\": {\"path\", \"bytes\": N or null, \"problems\": [{\"offset\", \"what\"}]},
\"last_compaction\": null or {\"started\": TIME, \"ended\": TIME, \"floor\": N or null,
\"error\": TEXT or null}, \"locks\": [{\"path\", \"holder\": TEXT or null}]}.
The exit code is 3 if there are gaps above the floor or .usage.json is damaged.";

pub(crate) fn run(global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let profile = global.profile()?;
    let view = out.with_progress("reading the log", |_| profile.view())?;
    let sizes = Sizes::measure(&profile)?;
    let last = Status::read(&profile.log_folder())?;
    if out.is_json() {
        out.value(&as_json(&profile, &view, &sizes, last.as_ref()))?;
    } else {
        print(&profile, &view, &sizes, last.as_ref(), out)?;
    }
    out.report_gaps(&view);
    Ok(Exit::with_gaps(view.has_gaps()))
}

/// What the files take.
#[derive(Default)]
struct Sizes {
    listing: Listing,
    segments: u64,
    checkpoints: u64,
    damaged_files: u64,
    damaged: u64,
    snapshot: Option<u64>,
}

impl Sizes {
    fn measure(profile: &Profile) -> Result<Sizes> {
        let snapshot = file::stat_if_there(&profile.snapshot_path())?.map(|stat| stat.len);
        let place = profile.place();
        let folder = match Folder::open(&place.folder, place.allow_network_fs, false) {
            Err(e) if e.is_not_found() => return Ok(Sizes { snapshot, ..Sizes::default() }),
            other => other?,
        };
        let listing = folder.list()?;
        let mut sizes = Sizes { snapshot, ..Sizes::default() };
        for number in &listing.segments {
            sizes.segments += len(&folder.segment_path(*number))?;
        }
        for floor in &listing.checkpoints {
            sizes.checkpoints += len(&folder.checkpoint_path(*floor))?;
        }
        let damaged = folder.join("damaged");
        for name in if file::stat_if_there(&damaged)?.is_some() { file::list(&damaged)? } else { Vec::new() } {
            sizes.damaged_files += 1;
            sizes.damaged += len(&damaged.join(name))?;
        }
        sizes.listing = listing;
        Ok(sizes)
    }
}

/// A file that went away meanwhile takes nothing.
fn len(path: &Path) -> Result<u64> {
    Ok(file::stat_if_there(path)?.map_or(0, |stat| stat.len))
}

fn as_json(profile: &Profile, view: &View, sizes: &Sizes, last: Option<&Status>) -> Value {
    let gaps = view.gaps();
    let locks: Vec<Value> =
        profile.locks().map(|(path, holder)| json!({"path": path.to_string_lossy(), "holder": holder})).to_vec();
    let last = last.map(|last| {
        json!({
            "started": display::exact_time(last.started_micros),
            "ended": display::exact_time(last.ended_micros),
            "floor": last.floor,
            "error": last.error,
        })
    });
    json!({
        "home": profile.home().to_string_lossy(),
        "position": view.position().to_string(),
        "floor": view.floor(),
        "log_id": view.log_id().map(|id| display::hex(&id)),
        "segments": {
            "count": sizes.listing.segments.len(),
            "first": sizes.listing.segments.first(),
            "last": sizes.listing.segments.last(),
            "bytes": sizes.segments,
        },
        "checkpoints": {"floors": sizes.listing.checkpoints, "bytes": sizes.checkpoints},
        "damaged": {"files": sizes.damaged_files, "bytes": sizes.damaged},
        "skills": view.skills().len(),
        "frames": view.frames(),
        "events": view.events(),
        "carried": view.carried(),
        "gaps": {
            "count": gaps.count,
            "bytes": gaps.bytes,
            "newest": display::gaps_json(&gaps.newest),
            "above_floor": display::gaps_json(view.gaps_met()),
        },
        "snapshot": {
            "path": profile.snapshot_path().to_string_lossy(),
            "bytes": sizes.snapshot,
            "problems": display::problems_json(view.snapshot_problems()),
        },
        "last_compaction": last,
        "locks": locks,
    })
}

fn print(
    profile: &Profile,
    view: &View,
    sizes: &Sizes,
    last: Option<&Status>,
    out: &mut Output,
) -> Result<(), Failure> {
    let home = profile.home();
    let shown_home = display::escape(&home.to_string_lossy()).into_owned();
    let segments = &sizes.listing.segments;
    let range = match (segments.first(), segments.last()) {
        (Some(first), Some(last)) => format!(", {first} to {last}"),
        _ => String::new(),
    };
    let gaps = match view.gaps() {
        none if none.count == 0 => "none".to_owned(),
        gaps => format!(
            "{} in all of the log's history, {}; {} above the floor",
            display::number(gaps.count),
            display::size(gaps.bytes),
            display::number(view.gaps_met().len() as u64),
        ),
    };
    let mut fields = vec![
        ("home", shown_home),
        ("segments", format!("{}{range}, {}", display::number(segments.len() as u64), display::size(sizes.segments))),
        ("checkpoints", {
            let floors: Vec<String> = sizes.listing.checkpoints.iter().map(u64::to_string).collect();
            let floors = if floors.is_empty() { "none".into() } else { floors.join(" and ") };
            format!("{floors}, {}", display::size(sizes.checkpoints))
        }),
        ("floor", view.floor().to_string()),
        ("position", view.position().to_string()),
        ("frames", display::number(view.frames())),
        ("events", display::number(view.events())),
        ("skills", display::number(view.skills().len() as u64)),
        ("carried", format!("{} of a newer version", display::count(view.carried() as u64, "payload"))),
        ("gaps", gaps),
        ("set aside", format!("{}, {}", display::count(sizes.damaged_files, "file"), display::size(sizes.damaged))),
        (".usage.json", sizes.snapshot.map_or_else(|| "not there".into(), display::size)),
        ("last compaction", last.map_or_else(|| "none".into(), describe)),
    ];
    if let Some(error) = last.and_then(|last| last.error.as_deref()) {
        fields.push(("its error", display::escape(error).into_owned()));
    }
    for (path, holder) in profile.locks() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        fields.push(("lock", format!("{name}: {}", holder.map_or_else(|| "free".into(), |h| format!("held by {h}")))));
    }
    out.fields(fields)
}

fn describe(last: &Status) -> String {
    let ended = display::ago(i64::try_from(last.ended_micros).unwrap_or(i64::MAX));
    let millis = last.ended_micros.saturating_sub(last.started_micros) / 1000;
    let outcome = last.floor.map_or_else(|| "failed".into(), |floor| format!("floor {floor}"));
    format!("{ended}, took {millis} ms, {outcome}")
}
