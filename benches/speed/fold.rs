//! Folding: the whole log, a tail, nothing new.

use std::fs::File;
use std::hint::black_box;
use std::io::{Seek, SeekFrom};
use std::path::Path;

use hashbrown::HashMap;
use hermes_log::event::batch;
use hermes_log::log::format::{FIRST_FRAME_OFFSET, FRAME_OVERHEAD_LEN, SEGMENT_HEADER_LEN};
use hermes_log::log::scan::{End, Found, Scan};
use hermes_log::{CompactOptions, Counter, Durability, Event, Origin};

use crate::append::INLINED;
use crate::logs::{Home, SKILLS, Skills, codec_of, fill, fill_segment};
use crate::measure::{Effort, Row, Side, Target, interleave, time};

/// A view opened on the files of a long log, against CRC-32 and rmp-serde on the same bytes in memory.
pub fn whole(effort: Effort, frame_events: usize) -> Vec<Row> {
    let home = Home::new();
    let mut writer = home.writer();
    let events = effort.pick(100_000, 2_000_000) / frame_events * frame_events;
    fill(&mut writer, &mut Skills::new(), events, frame_events);
    let segments = home.segments();
    let pair = interleave(effort.pick(3, 15), events as u64, |side| match side {
        Side::Ours => time(|| {
            let view = home.profile.view().unwrap();
            assert_eq!(view.events(), events as u64);
        }),
        Side::Floor => time(|| assert_eq!(segments.iter().map(|s| decode_only(s)).sum::<usize>(), events)),
    });
    let frames = if frame_events == 1 { "one a frame".to_owned() } else { format!("{frame_events} a frame") };
    let what = format!("fold of {events} events, {SKILLS} skills, {frames}");
    let against = "CRC-32 and rmp-serde of the same bytes in memory, not applied";
    let mut rows = vec![Row::of_times(format!("{what}: an event"), against, pair, Target::Times(1.4))];
    if frame_events == 1 {
        let mut rate = Row::of_rates("the same, events a second", against, pair, Target::PerSecond(8e6));
        rate.ratio = 1e9 / pair.ours;
        rows.push(rate);
    }
    rows
}

/// What nobody can do without: every frame checked and decoded into the crate's own types, and dropped. Not with the
/// crate's decoder, so that the floor stays where it is when that one changes.
fn decode_only(segment: &[u8]) -> usize {
    let codec = codec_of(segment);
    // What lies beyond the capacity is void: its writer appended it again to the next segment.
    let mut rest = &segment[SEGMENT_HEADER_LEN..segment.len().min(codec.capacity() as usize)];
    let mut events = 0;
    while let Some(payload) = codec.decode(rest) {
        let (time, origin, list) = rmp_serde::from_slice::<(u64, Origin<'_>, Vec<Event<'_>>)>(payload).unwrap();
        black_box((time, origin));
        events += black_box(list).len();
        rest = &rest[payload.len() + FRAME_OVERHEAD_LEN..];
    }
    events
}

/// A view opened on a segment that is nearly full, against folding its bytes from memory.
pub fn tail(effort: Effort, with_snapshot: bool) -> Row {
    let home = Home::new();
    let mut writer = home.writer();
    let mut skills = Skills::new();
    let mut before = 0;
    if with_snapshot {
        fill(&mut writer, &mut skills, SKILLS * 20, 1);
        home.profile.compact(&CompactOptions::default()).unwrap();
        before = home.profile.view().unwrap().events();
        assert!(home.profile.snapshot_path().exists());
        writer = home.writer();
    }
    let events = fill_segment(&mut writer, &mut skills);
    let segment = home.segments().pop().unwrap();
    let pair = interleave(effort.pick(5, 101), 1, |side| match side {
        Side::Ours => time(|| {
            let view = home.profile.view().unwrap();
            assert_eq!(view.events() - before, events);
        }),
        Side::Floor => time(|| assert_eq!(fold_from_memory(&segment), events)),
    });
    let snapshot = if with_snapshot {
        let len = std::fs::metadata(home.profile.snapshot_path()).unwrap().len();
        format!("with a checkpoint and a `.usage.json` of {SKILLS} skills ({} KiB)", len / 1024)
    } else {
        "without a `.usage.json`".to_owned()
    };
    let what = format!("opening a view on a tail of 4 MiB ({events} events), {snapshot}");
    Row::of_times(what, "folding these bytes from memory", pair, Target::Times(1.3))
}

/// The least that a fold is: scan, decode, and a map of counts and times.
fn fold_from_memory(segment: &[u8]) -> u64 {
    #[derive(Default)]
    struct Skill {
        counts: [u64; 3],
        last: [u64; 3],
    }
    let codec = codec_of(segment);
    let mut scan = Scan::new(&codec, &segment[SEGMENT_HEADER_LEN..], FIRST_FRAME_OFFSET, End::Live);
    let mut skills = HashMap::<String, Skill>::new();
    let mut events = 0;
    while let Found::Frame { payload, .. } = scan.next() {
        let frame = batch::decode(payload).unwrap();
        for event in &frame.events {
            let (skill, counter, count) = match event {
                Event::Used { skill, count } => (skill, Counter::Use, count),
                Event::Viewed { skill, count } => (skill, Counter::View, count),
                Event::Patched { skill, count } => (skill, Counter::Patch, count),
                other => panic!("nobody appended {other:?}"),
            };
            let skill = skills.entry_ref(&**skill).or_default();
            skill.counts[counter as usize] += count;
            skill.last[counter as usize] = skill.last[counter as usize].max(frame.time);
            events += 1;
        }
    }
    black_box(skills);
    events
}

/// A refresh that finds nothing, against the two system calls that it cannot do without.
pub fn nothing_new(effort: Effort) -> Vec<Row> {
    let home = Home::new();
    let mut writer = home.writer();
    fill(&mut writer, &mut Skills::new(), SKILLS * 2, 1);
    home.profile.compact(&CompactOptions::default()).unwrap();
    home.writer().append(&Event::used("pdf"), Durability::Process).unwrap();
    let mut view = home.profile.view().unwrap();
    let snapshot = home.profile.snapshot_path();
    let live = home.profile.log_folder().join(format!("{:020}.seg", view.position().segment));
    let live = File::open(live).unwrap();
    let each = 500;
    let mut against = |look: fn(u64, &File, &Path)| {
        interleave(effort.pick(20, 2000), each, |side| match side {
            Side::Ours => time(|| (0..each).for_each(|_| view.refresh().unwrap())),
            Side::Floor => time(|| look(each, &live, &snapshot)),
        })
    };
    let library = "one `lseek` to the end and one `stat` of a path";
    vec![
        Row::of_times("`refresh` with nothing new", library, against(look), Target::Times(1.3)),
        Row::of_times("the same", INLINED, against(look_inlined), Target::Times(1.3)),
    ]
}

fn look(times: u64, mut live: &File, snapshot: &Path) {
    for _ in 0..times {
        black_box(live.seek(SeekFrom::End(0)).unwrap());
        black_box(std::fs::metadata(snapshot).unwrap());
    }
}

fn look_inlined(times: u64, live: &File, snapshot: &Path) {
    for _ in 0..times {
        black_box(rustix::fs::seek(live, rustix::fs::SeekFrom::End(0)).unwrap());
        black_box(rustix::fs::stat(snapshot).unwrap());
    }
}
