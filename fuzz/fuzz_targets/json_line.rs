//! Arbitrary text as a line of `emit -`: no panic, and an event that is read is written so that it reads back the same.
#![no_main]

use hermes_log::event::Line;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &str| {
    let Ok(event) = Line::decode(line) else { return };
    let written = serde_json::Value::Object(Line::encode(&event)).to_string();
    assert_eq!(Line::decode(&written).expect("what was written is read"), event, "{written}");
});
