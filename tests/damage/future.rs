//! What a newer version wrote in this format is carried along to the letter.

use std::fs;

use hermes_log::log::format::decode_checkpoint;
use hermes_log::{Counter, Position};
use serde::de::IgnoredAny;

use crate::oracle::CAPACITY;
use crate::support::log_files::Home;

const ORIGIN: &[u8] = b"\x93\xa7session\x07\xc0";

fn payload(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Payloads that this version does not understand as a whole, and how often each uses `pdf` as far as it does.
fn from_the_future() -> Vec<(&'static str, Vec<u8>, u64)> {
    let time = b"\xcf\x00\x06\x0a\x24\x18\x1e\x40\x00";
    let used = b"\x81\xa4used\x92\xa3pdf\x01";
    let sung = b"\x81\xa4sung\x92\xa3pdf\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00";
    vec![
        ("unknown kind alone", payload(&[b"\x93", time, ORIGIN, b"\x91", sung]), 0),
        ("unknown kind among known", payload(&[b"\x93", time, ORIGIN, b"\x93", used, sung, used]), 2),
        ("more arguments", payload(&[b"\x93", time, ORIGIN, b"\x91\x81\xa4used\x93\xa3pdf\x05\x81\xa1k\xc3"]), 5),
        ("an element more", payload(&[b"\x94", time, ORIGIN, b"\x91", used, b"\xc4\x02\x00\xff"]), 1),
        ("a longer origin", payload(&[b"\x93", time, b"\x94\xa7session\x07\xc0\xa4more", b"\x91", used]), 1),
        ("a bare word as event", payload(&[b"\x93", time, ORIGIN, b"\x92\xa5hello", used]), 1),
        ("another shape", payload(&[b"\x82\xa1a\x01\xa1b\x93\x01\x02\x03"]), 0),
        ("not MessagePack", payload(&[b"\xc1\xc1\xc1"]), 0),
    ]
}

/// The payloads that the newest checkpoint carries, as it was written.
fn carried(home: &Home) -> Vec<(Position, Vec<u8>)> {
    type Carried = (Position, Vec<u8>, IgnoredAny);
    type State = (IgnoredAny, IgnoredAny, IgnoredAny, Vec<Carried>, IgnoredAny, IgnoredAny, u64, u64, IgnoredAny);
    let bytes = fs::read(home.checkpoint_path(*home.checkpoints().last().unwrap())).unwrap();
    let (_, state) = decode_checkpoint(&bytes).unwrap();
    let state: State = rmp_serde::from_slice(state).unwrap();
    state.3.into_iter().map(|(position, payload, _)| (position, payload)).collect()
}

#[test]
fn what_is_not_understood_survives_compactions_to_the_letter_and_what_is_counts_once() {
    for (what, payload, uses) in from_the_future() {
        let home = Home::new(CAPACITY);
        home.used("pdf");
        let offset = home.append_bytes(1, &home.frame(1, &payload));
        home.used("pdf");
        let count = |home: &Home| home.view().skill("pdf").unwrap().count(Counter::Use);
        assert_eq!((count(&home), home.view().carried(), home.view().gaps_met().len()), (2 + uses, 1, 0), "{what}");
        for compaction in 1..=4 {
            let done = home.compact();
            assert_eq!((done.floor, done.gaps.len()), (compaction, 0), "{what}");
            assert_eq!(carried(&home), [(Position { segment: 1, offset }, payload.clone())], "{what}");
            assert_eq!((count(&home), home.view().carried()), (1 + uses + compaction, 1), "{what}");
            home.used("pdf");
        }
        assert!(!home.segments().contains(&1), "{what}: the segment that held it is gone");
    }
}

#[test]
fn all_of_them_together_are_carried_in_log_order() {
    let home = Home::new(CAPACITY);
    home.used("pdf");
    let mut expected = Vec::new();
    for (_, payload, _) in from_the_future() {
        expected.push(payload.clone());
        home.append_bytes(1, &home.frame(1, &payload));
    }
    for _ in 0..3 {
        home.used("pdf");
        home.compact();
        assert_eq!(carried(&home).into_iter().map(|(_, payload)| payload).collect::<Vec<_>>(), expected);
    }
    assert!(home.profile.verify(|_| {}).unwrap().is_sound());
}
