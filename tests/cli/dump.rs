//! `dump`: header and frames, field by field.

use hermes_log::log::format::{FRAME_OVERHEAD_LEN, UnverifiedHeader};
use serde_json::json;

use super::*;

#[test]
fn header_and_frames_are_what_the_format_says() {
    let home = Home::new(CAPACITY);
    let first = home.used("a");
    let second = home.used("b");
    let end = home.len(1);
    let lines = on(&home, &["dump", "1", "--json"]).quietly().json_lines();
    let (header, segment) = (home.header(1), &lines[0]["segment"]);
    assert_eq!(keys(segment), ["header", "header_hex", "length", "path", "state"]);
    assert_eq!((&segment["length"], &segment["state"]), (&json!(end), &json!("live")));
    assert_eq!(segment["header"]["capacity"], CAPACITY);
    assert_eq!(segment["header"]["number"], 1);
    assert_eq!(segment["header"]["salt"], format!("{:016x}", header.salt));
    let bytes = std::fs::read(home.segment_path(1)).unwrap();
    for (line, offset, skill) in [(&lines[1], first.offset, "a"), (&lines[2], second.offset, "b")] {
        let frame = &line["frame"];
        let raw = UnverifiedHeader::decode(&bytes[offset as usize..]);
        assert_eq!(keys(frame), ["crc", "events", "length", "not_understood", "offset", "origin", "time"]);
        assert_eq!((&frame["offset"], &frame["length"]), (&json!(offset), &json!(raw.payload_len)));
        assert_eq!(frame["crc"], format!("{:08x}", raw.crc));
        assert_eq!(frame["events"], json!([{"event": "used", "skill": skill, "count": 1}]));
        assert_eq!(frame["origin"]["kind"], "session");
    }
    assert_eq!(second.offset, first.offset + lines[1]["frame"]["length"].as_u64().unwrap() + FRAME_OVERHEAD_LEN as u64);
    assert_eq!(lines[3], json!({"end": {"offset": end}}));

    let text = on(&home, &["dump", "1"]).quietly().stdout;
    for field in ["log id", "capacity", "65,536", "salt", "created", "OFFSET", "used        a"] {
        assert!(text.contains(field), "{field}: {text}");
    }
}

#[test]
fn gaps_and_voids_are_shown_too() {
    let home = Home::new(4096);
    home.used("a");
    let gap = home.used("b");
    damage_last_frame(&home, 1);
    // At last a frame that says it ends beyond the capacity.
    let mut void_at = 0;
    while home.len(1) < 4096 {
        void_at = home.append_bytes(1, &home.frame(1, &[0x07; 200]));
    }
    let lines = on(&home, &["dump", "1", "--json"]).exits(GAPS).json_lines();
    assert_eq!(lines[0]["segment"]["state"], "sealed");
    assert_eq!(lines[2]["gap"]["offset"], gap.offset);
    let void = lines.iter().find(|line| !line["void"].is_null()).unwrap();
    assert_eq!((&void["void"]["offset"], &void["void"]["length"]), (&json!(void_at), &json!(200)));
    let ran = on(&home, &["dump", "1"]).exits(GAPS);
    assert!(ran.stdout.contains("gap: ") && ran.stdout.contains("void: "), "{ran:?}");
}

#[test]
fn a_segment_below_the_floor_can_be_dumped_by_number_and_any_by_path() {
    let home = Home::new(CAPACITY);
    home.used("a");
    home.compact();
    assert!(home.view().floor() >= 1 && home.segments().contains(&1));
    let by_number = on(&home, &["dump", "1", "--json"]).quietly().json_lines();
    assert_eq!(by_number[0]["segment"]["state"], "sealed");
    let path = home.segment_path(1);
    let by_path = run(program().args(["dump", "--json"]).arg(&path).env_remove("HOME")).quietly().json_lines();
    assert_eq!(by_number, by_path);
    let copy = home.path().join("copy.seg");
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(run(program().arg("dump").arg(&copy)).quietly().stdout.matches("used        a").count(), 1);
}

#[test]
fn a_bad_header_is_shown_byte_by_byte() {
    let home = Home::new(CAPACITY);
    home.used("a");
    home.edit(&home.segment_path(1), |bytes| bytes[20] ^= 0xff);
    let ran = on(&home, &["dump", "1"]).exits(GAPS);
    let head = &std::fs::read(home.segment_path(1)).unwrap()[..64];
    let hex: String = head.iter().map(|byte| format!("{byte:02x}")).collect();
    for row in 0..4 {
        assert!(ran.stdout.contains(&hex[row * 32..row * 32 + 32]), "{ran:?}");
    }
    assert!(ran.stdout.contains("does not check out") && ran.stderr.contains("segment header"), "{ran:?}");
    let lines = on(&home, &["dump", "1", "--json"]).exits(GAPS).json_lines();
    assert_eq!((&lines[0]["segment"]["header"], &lines[0]["segment"]["header_hex"]), (&Value::Null, &json!(hex)));
    assert_eq!(lines[1]["gap"]["reason"], "segment_header");

    for short in [0, 1, 63] {
        home.set_len(1, short);
        on(&home, &["dump", "1"]).exits(GAPS);
    }
}

#[test]
fn a_segment_that_is_not_there_is_exit_1_and_a_word_exit_2() {
    let home = Home::new(CAPACITY);
    on(&home, &["dump", "1"]).exits(NOT_FOUND);
    on(&home, &["dump", "/nowhere/1.seg"]).exits(NOT_FOUND);
    on(&home, &["dump", "first"]).exits(USAGE);
    on(&home, &["dump"]).exits(USAGE);
}
