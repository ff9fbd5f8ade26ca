//! Every single bit.

use std::path::Path;

use crate::oracle::{CAPACITY, SmallLog, segment_file};
use crate::support::log_files::{Home, Image, Uses, report, uses};
use crate::support::processes::is_long;
use crate::support::usage_file;

/// Each bit of a file flipped in turn. `rarely`: this turn is one in sixteen, for what costs more.
///
/// Where there is nothing but zeros around, in the padding of a sealed segment, one bit in 32 stands for the others
/// (all of them with `HERMES_LOG_LONG=1`).
fn for_each_bit(image: &Image, file: &Path, mut check: impl FnMut(&Image, usize, bool, &str)) {
    let mut changed = image.clone();
    let bytes = &image.files[file];
    let is_long = is_long();
    for bit in 0..bytes.len() * 8 {
        let (byte, mask) = (bit / 8, 1 << (bit % 8));
        let around = &bytes[byte.saturating_sub(16)..bytes.len().min(byte + 16)];
        if !is_long && around.iter().all(|byte| *byte == 0) && (bit + byte / 8) % 32 != 0 {
            continue;
        }
        changed.files.get_mut(file).unwrap()[byte] ^= mask;
        check(&changed, byte, bit % 16 == byte % 8, &format!("{} byte {byte} mask {mask:#04x}", file.display()));
        changed.files.get_mut(file).unwrap()[byte] ^= mask;
    }
}

#[test]
fn any_bit_of_a_sealed_segment_costs_its_frame_alone() {
    let log = SmallLog::new();
    for_each_bit(&log.image, &segment_file(1), |changed, _, rarely, what| log.check(changed, rarely, what));
}

#[test]
fn any_bit_of_the_live_segment_costs_its_frame_alone() {
    let log = SmallLog::new();
    for_each_bit(&log.image, &segment_file(2), |changed, _, rarely, what| log.check(changed, rarely, what));
}

#[test]
fn any_bit_of_checkpoint_0_costs_nothing() {
    let log = SmallLog::new();
    let file = Path::new("event-log/checkpoint-00000000000000000000");
    for_each_bit(&log.image, file, |changed, _, _, what| log.check(changed, true, what));
}

/// Checkpoints 2 and 3, segment 3 which both may need, segment 4 live. All of it small: without `.usage.json.lock` no
/// records are in it.
fn compacted() -> (Image, Uses) {
    let home = Home::new(CAPACITY);
    let lock = usage_file::hold_lock(&home);
    for _ in 1..=3 {
        home.used("always");
        home.compact();
    }
    home.used("always");
    drop(lock);
    assert_eq!((home.checkpoints(), home.segments()), (vec![2, 3], vec![3, 4]));
    let image = Image::of(&home, CAPACITY);
    let truth = uses(&home.view());
    assert_eq!(truth["always"], 4);
    assert!(image.home().profile.verify(|_| {}).unwrap().is_sound());
    (image, truth)
}

/// Values are the same in views, after a compaction, and after another; and then the log is sound.
fn check_nothing_lost(changed: &Image, truth: &Uses, with_compaction: bool, what: &str) -> Home {
    let home = changed.home();
    assert_eq!(report(&home.profile).uses, *truth, "{what}");
    if with_compaction {
        let done = home.compact();
        assert_eq!((uses(&home.view()), done.floor), (truth.clone(), 4), "after compaction, {what}");
        home.used("more");
        home.compact();
        assert_eq!(home.view().skill("more").unwrap().activity(), 1, "{what}");
        let verified = home.profile.verify(|_| {}).unwrap();
        assert!(verified.is_sound(), "{what}: {verified:?}");
    }
    home
}

#[test]
fn any_bit_of_the_newest_checkpoint_costs_nothing_and_it_is_built_again_from_the_older() {
    let (image, truth) = compacted();
    let file = Path::new("event-log/checkpoint-00000000000000000003");
    for_each_bit(&image, file, |changed, _, rarely, what| {
        let home = check_nothing_lost(changed, &truth, rarely, what);
        if !rarely {
            assert_eq!(home.profile.verify(|_| {}).unwrap().damaged_checkpoints, [3], "{what}");
        } else {
            let aside: Vec<_> =
                home.damaged().into_iter().filter(|(name, _)| name.starts_with("checkpoint-")).collect();
            assert_eq!(aside.len(), 1, "{what}");
            assert_eq!(aside[0].1, changed.files[file], "{what}");
        }
    });
}

#[test]
fn any_bit_of_the_older_checkpoint_costs_nothing() {
    let (image, truth) = compacted();
    let file = Path::new("event-log/checkpoint-00000000000000000002");
    for_each_bit(&image, file, |changed, _, rarely, what| {
        let home = check_nothing_lost(changed, &truth, rarely, what);
        if !rarely {
            assert_eq!(home.profile.verify(|_| {}).unwrap().damaged_checkpoints, [2], "{what}");
        }
    });
}

#[test]
fn any_bit_of_a_segment_that_the_newest_checkpoint_covers_costs_nothing_and_verify_sees_it() {
    let (image, truth) = compacted();
    for_each_bit(&image, &segment_file(3), |changed, byte, rarely, what| {
        let home = check_nothing_lost(changed, &truth, rarely, what);
        if !rarely {
            let verified = home.profile.verify(|_| {}).unwrap();
            assert_eq!(verified.is_sound(), byte >= CAPACITY as usize, "{what}");
        }
    });
}
