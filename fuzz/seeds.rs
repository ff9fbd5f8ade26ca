//! Writes `corpus/<target>/seed-*`, from which the fuzzer starts: `cargo run --example seeds` in this folder.

use std::path::Path;

use hermes_log::event::{Event, Line, Origin};
use hermes_log::{CompactOptions, Counter, Durability, Options, Profile, State};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = std::env::temp_dir().join(format!("hermes-log-seeds-{}", std::process::id()));
    std::fs::create_dir_all(home.join("skills"))?;
    let outcome = write(&home);
    std::fs::remove_dir_all(&home)?;
    outcome
}

fn write(home: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let profile = Profile::at(home).with_options(Options { capacity: Some(4096), ..Options::default() });
    let events = [
        Event::used("pdf"),
        Event::viewed("a skill, \u{85}\u{2028}}{ \u{1f980}"),
        Event::patched("pdf"),
        Event::Created { skill: "new".into(), by: "agent".into() },
        Event::State { skill: "new".into(), state: State::Archived },
        Event::Pinned { skill: "pdf".into(), pinned: true },
        Event::Fields { skill: "pdf".into(), set: r#"{"x":1.50,"y":[null]}"#.into(), unset: vec!["z".into()] },
        Event::Installed { skill: "hub".into(), source: "https://example.org/hub".into() },
        Event::Forgotten { skill: "new".into() },
    ];
    for (number, event) in events.iter().enumerate() {
        seed("json_line", number, serde_json::Value::Object(Line::encode(event)).to_string().as_bytes())?;
    }
    std::fs::write(profile.snapshot_path(), br#"{"old": {"use_count": 3, "state": "active", "agent_created": 1}}"#)?;
    let mut writer = profile.writer(Origin::here("session"))?;
    for event in &events {
        writer.append(event, Durability::Process)?;
    }
    writer.append_batch(&events, Durability::Process)?;
    let mut number = 0;
    for entry in std::fs::read_dir(profile.log_folder())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "seg") {
            let segment = std::fs::read(&path)?;
            number += 1;
            seed("segment_scan", number, &segment)?;
            for (at, payload) in payloads(&segment).into_iter().enumerate() {
                seed("payload", at, &payload)?;
            }
            let torn: Vec<u8> = [&segment[..200], &segment[230..], &[0; 64][..]].concat();
            seed("segment_scan", number + 100, &torn)?;
        }
    }
    profile.compact(&CompactOptions::default())?;
    assert_eq!(profile.view()?.skill("old").map(|skill| skill.count(Counter::Use)), Some(3));
    for (number, entry) in std::fs::read_dir(profile.log_folder())?.enumerate() {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("checkpoint-")) {
            let checkpoint = std::fs::read(path)?;
            seed("checkpoint", number, &checkpoint)?;
            seed("checkpoint", number + 100, &checkpoint[40..])?;
        }
    }
    let snapshot = std::fs::read(profile.snapshot_path())?;
    seed("snapshot", 1, &snapshot)?;
    seed("snapshot", 2, &[b"\xef\xbb\xbf", &snapshot[..snapshot.len() / 2]].concat())?;
    seed("snapshot", 3, &[&snapshot[..], b"}"].concat())?;
    Ok(())
}

fn payloads(segment: &[u8]) -> Vec<Vec<u8>> {
    use hermes_log::log::format::{FIRST_FRAME_OFFSET, FrameCodec, SEGMENT_HEADER_LEN, SegmentHeader};
    use hermes_log::log::scan::{End, Found, Scan};
    let Ok(header) = SegmentHeader::decode(segment) else { return Vec::new() };
    let codec = FrameCodec::new(&header);
    let mut scan = Scan::new(&codec, &segment[SEGMENT_HEADER_LEN..], FIRST_FRAME_OFFSET, End::Live);
    std::iter::from_fn(|| match scan.next() {
        Found::Frame { payload, .. } => Some(payload.to_vec()),
        _ => None,
    })
    .collect()
}

fn seed(target: &str, number: usize, bytes: &[u8]) -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(format!("seed-{number}")), bytes)
}
