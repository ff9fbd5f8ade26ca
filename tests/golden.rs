//! The format on disk, byte by byte. Whoever turns one of these red has changed the format and needs a new version.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use hermes_log::event::batch;
use hermes_log::log::format::{self, FrameCodec, SegmentHeader};
use hermes_log::view::external::{Difference, External};
use hermes_log::{Durability, Error, Event, Origin, Policy, Profile, Result, State};
use support::log_files::{Home, payload};
use support::processes::at_once;
use support::usage_file;

const HEADER: SegmentHeader = SegmentHeader {
    capacity: 4096,
    log_id: [0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f],
    number: 7,
    salt: 0x1122_3344_5566_7788,
    created: TIME,
};
const TIME: u64 = 1_700_000_000_000_000;

const HEADER_BYTES: &str = "
    48 4c 4f 47 53 45 47 0a  01 00 00 00  00 00 00 00  00 10 00 00
    10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f  07 00 00 00 00 00 00 00
    88 77 66 55 44 33 22 11  00 40 1e 18 24 0a 06 00  5e a9 b9 69";
const ONE_EVENT: &str = "
    ff 48  1e 00 00 00  c4 13 f2 4a
    93  cf 00 06 0a 24 18 1e 40 00  93 a3 63 6c 69 07 c0
        91 81 a4 75 73 65 64 92 a3 70 64 66 01
    c1";
const BATCH: &str = "
    ff 48  34 00 00 00  49 c4 5b d5
    93  cf 00 06 0a 24 18 1e 40 00  93 a6 72 65 76 69 65 77 cd 03 e8 a3 73 2d 31
        92 81 a4 75 73 65 64 92 a3 70 64 66 01
           81 a6 70 69 6e 6e 65 64 92 a3 70 64 66 c3
    c1";
const CHECKPOINT_0: &str = "
    48 4c 4f 47 43 4b 50 0a  01 00 00 00  00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00  31 79 af 9e";

fn hex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect()
}

/// CRC-32 as zlib has it, bit by bit: not the library's code.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    })
}

fn cli() -> Origin<'static> {
    Origin { kind: "cli".into(), process: 7, session: None }
}

/// `{kind: arguments}` in MessagePack; the kind as text, the arguments as hex.
fn event_bytes(kind: &str, arguments: &str) -> Vec<u8> {
    let mut bytes = vec![0x81, 0xa0 | u8::try_from(kind.len()).unwrap()];
    bytes.extend(kind.bytes());
    bytes.extend(hex(arguments));
    bytes
}

#[test]
fn segment_header_is_these_bytes() {
    assert_eq!(HEADER.encode().to_vec(), hex(HEADER_BYTES));
    assert_eq!(SegmentHeader::decode(&hex(HEADER_BYTES)), Ok(HEADER));
}

#[test]
fn frames_are_these_bytes() {
    let review = Origin { kind: "review".into(), process: 1000, session: Some("s-1".into()) };
    let pinned = Event::Pinned { skill: "pdf".into(), pinned: true };
    let codec = FrameCodec::new(&HEADER);
    for (bytes, origin, events) in
        [(ONE_EVENT, cli(), vec![Event::used("pdf")]), (BATCH, review, vec![Event::used("pdf"), pinned])]
    {
        let bytes = hex(bytes);
        let payload = codec.decode(&bytes).expect("a valid frame");
        assert_eq!(payload, &bytes[10..bytes.len() - 1]);
        let read = batch::decode(payload).unwrap();
        assert_eq!((read.time, read.origin, read.events, read.carried), (TIME, origin, events, None));
        let mut written = Vec::new();
        codec.encode(payload, &mut written);
        assert_eq!(written, bytes);
    }
}

#[test]
fn every_kind_of_event_is_these_bytes_in_a_real_segment() {
    let skill = || "s".into();
    let kinds: [(Event<'_>, &str, &str); 18] = [
        (Event::Used { skill: skill(), count: 1 }, "used", "92 a1 73 01"),
        (Event::Viewed { skill: skill(), count: 300 }, "viewed", "92 a1 73 cd 01 2c"),
        (Event::Patched { skill: skill(), count: u64::MAX }, "patched", "92 a1 73 cf ff ff ff ff ff ff ff ff"),
        (Event::Created { skill: skill(), by: "agent".into() }, "created", "92 a1 73 a5 61 67 65 6e 74"),
        (Event::Seeded { skill: skill() }, "seeded", "91 a1 73"),
        (Event::State { skill: skill(), state: State::Active }, "state", "92 a1 73 a6 61 63 74 69 76 65"),
        (Event::State { skill: skill(), state: State::Stale }, "state", "92 a1 73 a5 73 74 61 6c 65"),
        (Event::Pinned { skill: skill(), pinned: false }, "pinned", "92 a1 73 c2"),
        (
            Event::Fields { skill: skill(), set: r#"{"x":1.50}"#.into(), unset: vec!["y".into()] },
            "fields",
            "93 a1 73 aa 7b 22 78 22 3a 31 2e 35 30 7d 91 a1 79",
        ),
        (Event::Forgotten { skill: skill() }, "forgotten", "91 a1 73"),
        (Event::Edited { skill: skill() }, "edited", "91 a1 73"),
        (Event::FileWritten { skill: skill(), path: "p".into() }, "file_written", "92 a1 73 a1 70"),
        (Event::FileRemoved { skill: skill(), path: "p".into() }, "file_removed", "92 a1 73 a1 70"),
        (Event::Installed { skill: skill(), source: "h".into() }, "installed", "92 a1 73 a1 68"),
        (Event::Updated { skill: skill(), source: "h".into() }, "updated", "92 a1 73 a1 68"),
        (Event::Archived { skill: skill() }, "archived", "91 a1 73"),
        (Event::Restored { skill: "é".into() }, "restored", "91 a2 c3 a9"),
        (Event::Deleted { skill: skill() }, "deleted", "91 a1 73"),
    ];
    let home = Home::new(64 << 10);
    let mut writer = home.profile.writer(cli()).unwrap();
    for (event, kind, arguments) in kinds {
        let at = writer.append(&event, Durability::Process).unwrap();
        let segment = fs::read(home.segment_path(1)).unwrap();
        let header = home.header(1);
        let frame = &segment[usize::try_from(at.offset).unwrap()..];

        let mut payload = hex("93 cf");
        payload.extend(&frame[12..20]); // the time of the append
        payload.extend(hex("93 a3 63 6c 69 07 c0 91"));
        payload.extend(event_bytes(kind, arguments));
        let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
        payload.push(0xc1);
        let covered = [&header.salt.to_le_bytes()[..], &length, &payload].concat();
        let expected = [&hex("ff 48"), &length[..], &crc32(&covered).to_le_bytes(), &payload].concat();
        assert_eq!(frame, expected, "{kind}");
        let read = batch::decode(&expected[10..expected.len() - 1]).unwrap();
        assert_eq!((read.events, read.carried), (vec![event], None));
    }
    let batch = [Event::used("a"), Event::used("b"), Event::used("c")];
    let many: Vec<Event<'_>> = batch.iter().cycle().take(16).cloned().collect();
    let at = writer.append_batch(&many, Durability::Process).unwrap();
    let segment = fs::read(home.segment_path(1)).unwrap();
    // From 16 events on the array's length has 32 bits.
    assert_eq!(&segment[usize::try_from(at.offset).unwrap() + 27..][..5], hex("dd 00 00 00 10"));
}

#[test]
fn external_work_is_this_event() {
    let event = Event::External { id: "t".into(), part: 0, parts: 1, data: "{}".into() };
    let bytes = event_bytes("external", "94 a1 74 00 01 a2 7b 7d");
    assert_eq!(rmp_serde::to_vec(&event).unwrap(), bytes);
    assert_eq!(rmp_serde::from_slice::<Event<'_>>(&bytes).unwrap(), event);

    let record = serde_json::Map::from_iter([("use_count".to_owned(), serde_json::json!(3))]);
    let external = External {
        arrival_micros: 5,
        policy: Policy { reviews_are_views: true },
        temporary: "t".into(),
        differences: vec![
            Difference {
                skill: "s".into(),
                is_new: true,
                counts: [1, 0, 2],
                last_micros: [Some(4), None, None],
                set: serde_json::Map::from_iter([("x".to_owned(), serde_json::Value::Null)]),
                unset: vec!["y".into()],
                ..Difference::default()
            },
            Difference { skill: "gone".into(), removed: Some(record.clone()), ..Difference::default() },
        ],
        before: BTreeMap::new(),
        after: BTreeMap::from([("s".to_owned(), record)]),
    };
    let text = concat!(
        r#"{"arrival_micros":5,"policy":{"reviews_are_views":true},"temporary":"t","differences":["#,
        r#"{"skill":"s","is_new":true,"counts":[1,0,2],"last_micros":[4,null,null],"set":{"x":null},"unset":["y"]},"#,
        r#"{"skill":"gone","removed":{"use_count":3}}],"before":{},"after":{"s":{"use_count":3}}}"#
    );
    assert_eq!(serde_json::to_string(&external).unwrap(), text);
    assert_eq!(serde_json::from_str::<External>(text).unwrap(), external);
}

#[test]
fn folder_and_names_and_modes_are_these() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new(4096);
    home.used("pdf");
    home.compact();
    let files: Vec<(String, u32)> = tree(&home)
        .into_keys()
        .map(|path| {
            let mode = fs::metadata(home.path().join(&path)).unwrap().permissions().mode() & 0o7777;
            (path.display().to_string(), mode)
        })
        .collect();
    let expected = [
        ("event-log", 0o700),
        ("event-log/00000000000000000001.seg", 0o600),
        ("event-log/00000000000000000002.seg", 0o600),
        ("event-log/ballast", 0o600),
        ("event-log/checkpoint-00000000000000000000", 0o600),
        ("event-log/checkpoint-00000000000000000001", 0o600),
        ("event-log/compact.lock", 0o600),
        ("skills", 0o755),
        ("skills/.usage.json", 0o600),
        ("skills/.usage.json.lock", 0o644),
    ];
    // (A stricter umask takes away from 0755 and 0644, as it does in Hermes.)
    assert_eq!(files, expected.map(|(name, mode)| (name.to_owned(), mode)));
}

#[test]
fn checkpoint_0_is_a_constant() {
    assert_eq!(format::encode_checkpoint([0; 16], &[]), hex(CHECKPOINT_0));
    let home = Home::new(4096);
    home.used("pdf");
    assert_eq!(fs::read(home.checkpoint_path(0)).unwrap(), hex(CHECKPOINT_0));
}

/// A log made by hand from literals, so that not a byte of its checkpoint depends on the clock.
#[test]
fn checkpoint_of_a_log_made_by_hand_is_these_bytes() {
    let home = Home::new(4096);
    drop(home.writer());
    let header = SegmentHeader { number: 1, ..HEADER };
    let codec = FrameCodec::new(&header);
    let mut segment = header.encode().to_vec();
    for (time, events) in [
        (TIME, vec![Event::used("pdf"), Event::Viewed { skill: "pdf".into(), count: 2 }]),
        (TIME + 1, vec![Event::Created { skill: "ä".into(), by: "agent".into() }]),
    ] {
        codec.encode(&payload(time, &cli(), &events), &mut segment);
    }
    segment.extend(b"torn"); // a gap
    codec.encode(&payload(TIME + 2, &Origin { kind: "review".into(), ..cli() }, &[Event::used("pdf")]), &mut segment);
    codec.encode(&unknown_event(), &mut segment);
    fs::write(home.segment_path(1), segment).unwrap();
    private(&home.segment_path(1));
    // Without `.usage.json.lock` the run leaves `.usage.json` alone, and no time and no random name gets into the state.
    let _lock = usage_file::hold_lock(&home);
    assert_eq!(home.compact().floor, 1);

    let bytes = fs::read(home.checkpoint_path(1)).unwrap();
    let (head, state) = bytes.split_at(40);
    assert_eq!(&head[..12], hex("48 4c 4f 47 43 4b 50 0a 01 00 00 00"));
    assert_eq!(&head[12..28], HEADER.log_id);
    assert_eq!(head[28..36], (state.len() as u64).to_le_bytes());
    assert_eq!(head[36..], crc32(&[&head[..36], state].concat()).to_le_bytes());
    assert_eq!(state, golden_state());
}

fn unknown_event() -> Vec<u8> {
    [hex("93 07"), hex("93 a3 63 6c 69 07 c0"), hex("91"), event_bytes("sung", "91 a1 73")].concat()
}

/// What the log above comes to: `[skills, lineage, parts, carried, gaps, salts, frames, events, auth]`.
fn golden_state() -> Vec<u8> {
    let fields = |created_at: &str, created_by: &str| {
        let text = format!(
            concat!(
                r#"{{"archived_at":null,"created_at":"{}","created_by":{},"last_patched_at":null,"last_used_at":null,"#,
                r#""last_viewed_at":null,"patch_count":0,"pinned":false,"state":"active","use_count":0,"view_count":0}}"#
            ),
            created_at, created_by
        );
        [&[0xd9, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
    };
    let carried: Vec<u8> =
        unknown_event().into_iter().flat_map(|byte| if byte < 0x80 { vec![byte] } else { vec![0xcc, byte] }).collect();
    [
        // counts, times of the last, uses by reviews and the last of them, fields
        hex("99 82  a3 70 64 66  95 93 01 02 00"),
        hex("93 cf 00 06 0a 24 18 1e 40 00 cf 00 06 0a 24 18 1e 40 00 c0  01 cf 00 06 0a 24 18 1e 40 02"),
        fields("2023-11-14T22:13:20+00:00", "null"),
        hex("a2 c3 a4  95 93 00 00 00  93 c0 c0 c0  00 c0"),
        fields("2023-11-14T22:13:20.000001+00:00", "\"agent\""),
        // temporary file, before, after; parts
        hex("93 a0 a0 a0  80"),
        // position, payload, which of its events were not applied
        hex("91 93 92 01 cc d7 dc 00 13"),
        carried,
        hex("81 a6 45 76 65 6e 74 73 91 00"),
        // how many, how many bytes, the newest: position, length, reason
        hex("93 01 04 91 93 92 01 cc a7 04 a9 6e 6f 5f 6d 61 72 6b 65 72"),
        hex("81 01 cf 11 22 33 44 55 66 77 88  04 04"),
        // credentials, removed ones, the active provider, sources
        hex("94 80 80 c0 80"),
    ]
    .concat()
}

/// What may not change when a program refuses: everything but the lock that it took and its report in there.
fn tree(home: &Home) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    fn walk(folder: &std::path::Path, home: &Home, found: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(home.path()).unwrap().to_owned();
            found.insert(name, path.is_file().then(|| fs::read(&path).unwrap()));
            if path.is_dir() {
                walk(&path, home, found);
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(home.path(), home, &mut found);
    found
}

fn private(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[track_caller]
fn assert_newer<T>(what: &str, result: Result<T>) {
    match result.map(|_| ()) {
        Err(Error::NewerFormat { known: 1, .. }) => {}
        Err(Error::NotRecorded { recorded, source, .. })
            if recorded.is_empty() && matches!(*source, Error::NewerFormat { .. }) => {}
        other => panic!("{what}: {other:?}"),
    }
}

/// Everything but appending, which needs no checkpoint.
#[track_caller]
fn assert_refused(home: &Home) {
    let before = tree(home);
    let profile: &Profile = &home.profile;
    assert_newer("view", profile.view());
    assert_newer("scan", profile.scan(None, |_| ControlFlow::Continue(())));
    assert_newer("verify", profile.verify(|_| {}));
    assert_newer("compact", profile.compact(&at_once()));
    let mut after = tree(home);
    after.retain(|path, _| !path.ends_with("compact.lock") || before.contains_key(path));
    after.iter_mut().for_each(|(path, bytes)| {
        if path.ends_with("compact.lock") {
            bytes.clone_from(&before[path]);
        }
    });
    assert_eq!(after, before, "something was written");
}

/// Sealed segments, two checkpoints, a live segment: there is something that a compaction could delete.
fn home_with_history() -> Home {
    let home = Home::new(4096);
    for round in 0..3 {
        home.used("pdf");
        home.used(&format!("round-{round}"));
        home.compact();
    }
    home.used("pdf");
    home
}

fn set_in_header(home: &Home, segment: u64, field: std::ops::Range<usize>, value: u32) {
    home.edit(&home.segment_path(segment), |bytes| {
        bytes[field].copy_from_slice(&value.to_le_bytes());
        let crc = crc32(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    });
}

#[test]
fn segment_of_a_newer_version_is_left_alone() {
    let home = home_with_history();
    set_in_header(&home, 4, 8..12, 2);
    assert_refused(&home);
    let before = tree(&home);
    assert_newer("append", home.writer().append(&Event::used("pdf"), Durability::Disk));
    assert_eq!(tree(&home), before);
}

#[test]
fn segment_with_an_unknown_feature_is_left_alone() {
    for bit in [0, 1, 31] {
        let home = home_with_history();
        set_in_header(&home, 4, 12..16, 1 << bit);
        assert_refused(&home);
        let before = tree(&home);
        assert_newer("append", home.writer().append(&Event::used("pdf"), Durability::Process));
        assert_eq!(tree(&home), before);
    }
}

#[test]
fn sealed_segment_of_a_newer_version_is_not_compacted() {
    let home = home_with_history();
    let (mut writer, name) = (home.writer(), "n".repeat(900));
    while home.segments().last() < Some(&6) {
        writer.append(&Event::used(&*name), Durability::Process).unwrap();
    }
    set_in_header(&home, 5, 8..12, 9);
    assert_refused(&home);
}

#[test]
fn checkpoint_of_a_newer_version_is_left_alone() {
    let home = home_with_history();
    home.edit(&home.checkpoint_path(3), |bytes| {
        bytes[8] = 2;
        let crc = crc32(&[&bytes[..36], &bytes[40..]].concat());
        bytes[36..40].copy_from_slice(&crc.to_le_bytes());
    });
    assert_refused(&home);
}
