//! Arbitrary bytes as a frame's payload: no panic, and indices of what is carried stay inside.
#![no_main]

use hermes_log::event::batch::{Unapplied, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|payload: &[u8]| {
    let Some(batch) = decode(payload) else { return };
    if let Some(Unapplied::Events(indices)) = &batch.carried {
        assert!(indices.is_sorted());
        assert!(indices.iter().all(|index| (*index as usize) < batch.events.len() + indices.len()));
    }
    for event in batch.events {
        assert_eq!(event.clone().into_owned(), event);
        let _ = event.validate();
    }
});
