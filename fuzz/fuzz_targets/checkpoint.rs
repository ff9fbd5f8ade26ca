//! Arbitrary bytes as a checkpoint, and as the state inside one: no panic, and a state that is read is written so that
//! it reads back the same.
#![no_main]

use hermes_log::log::format::{decode_checkpoint, encode_checkpoint};
use hermes_log::view::State;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((log_id, state)) = decode_checkpoint(bytes) {
        assert_eq!(encode_checkpoint(log_id, state), bytes);
        check(state);
    }
    check(bytes);
});

fn check(bytes: &[u8]) {
    let Some(state) = State::decode(bytes) else { return };
    let encoded = state.encode();
    let again = State::decode(&encoded).expect("what was encoded decodes");
    assert_eq!(again, state);
    assert_eq!(again.encode(), encoded);
    assert_eq!(decode_checkpoint(&encode_checkpoint([7; 16], &encoded)), Ok(([7; 16], &encoded[..])));
}
