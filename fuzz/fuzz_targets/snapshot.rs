//! Arbitrary bytes as `.usage.json`: reading never panics, and what was read is written so that it reads back the same,
//! without problems.
#![no_main]

use hermes_log::view::records::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let found = decode(bytes);
    for problem in &found.problems {
        assert!(problem.offset <= bytes.len());
    }
    let written = encode(&found.records);
    let again = decode(&written);
    assert_eq!(again.problems, []);
    assert_eq!(again.records, found.records);
    assert_eq!(encode(&again.records), written);
});
