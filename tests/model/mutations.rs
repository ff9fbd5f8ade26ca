//! Each rule of the log is taken away once, and the violation that it prevents is found.
//!
//! Not seen to fail within these bounds, so nothing here proves that they are needed:
//!
//! | taken away | largest run without a violation | why |
//! |---|---|---|
//! | R2 in the compactor (before it seals) | 2 writers, 2 compactors, lock lost, 1 + 2 runs | sealing an old or re-created segment harms nobody |
//! | `fsync` of the folder after the checkpoint's link | 2 writers, 2 compactions, loss | the next run's `fsync` before its link covers it; fails when the newest also decides the deletion |
//! | reading the checkpoints back | 1 writer, 2 compactors, lock lost, damage | a compactor sets the damaged one aside first; fails with damage between link and deletion only if the other is lost, too |
//! | the highest floor is remembered | 2 writers, 4 compactions, slow listings | "the highest checkpoint named still exists" is enough while checkpoints go in ascending order |

use crate::check::{fails, holds, long, writers};
use crate::rules::{Config, Slow, disk, process};

fn two() -> Config {
    Config { writers: writers(&[&[process(&[0])], &[process(&[1])]]), ..Config::new() }
}

fn loss() -> Config {
    Config { writers: writers(&[&[process(&[0])], &[disk(&[1])]]), power_losses: 1, ..Config::new() }
}

#[test]
fn without_the_offset_an_acknowledged_event_is_void() {
    fails("ack by what write returned", &two().without(|r| r.ack_by_offset = false), "acknowledged");
}

#[test]
fn on_a_descriptor_shared_across_fork_an_event_counts_twice() {
    fails("shared descriptor", &two().without(|r| r.private_descriptor = false), "twice");
}

#[test]
fn a_seal_at_the_length_of_the_moment_cuts_an_event_off() {
    let config = Config { compactors: 1, ..two() };
    fails("seal at the current length", &config.without(|r| r.seal_to_capacity = false), "changed");
}

#[test]
fn a_successor_of_an_unsealed_segment_breaks_the_order() {
    let config = Config { compactors: 1, ..two() };
    fails("n+1 before n is sealed", &config.without(|r| r.successor_needs_seal = false), "changed");
}

#[test]
fn without_r2_a_writer_appends_to_a_number_that_was_compacted() {
    let config = Config { compactors: 1, rounds: 3, ..two() };
    fails("no R2 in writers", &config.without(|r| r.writer_checks_floor = false), "acknowledged");
    fails("R2 before the open", &config.without(|r| r.check_after_open = false), "acknowledged");
}

#[test]
fn without_r2_a_reader_takes_a_number_that_was_compacted_for_the_end() {
    let config = Config { compactors: 1, rounds: 3, readers: 1, ..two() };
    fails("no R2 in readers", &config.without(|r| r.reader_checks_floor = false), "misses");
}

#[test]
fn a_listing_whose_highest_checkpoint_is_gone_must_not_count() {
    let config = Config { compactors: 1, rounds: 4, slow: Slow::Everybody, ..two() };
    fails(
        "stale listings count, no floor remembered",
        &config.without(|r| {
            r.stale_listing_is_void = false;
            r.floor_is_remembered = false;
        }),
        "acknowledged",
    );
    if long("stale listings count, the floor remembered") {
        fails(
            "stale listings count, the floor remembered",
            &config.without(|r| r.stale_listing_is_void = false),
            "acknowledged",
        );
        holds("no floor remembered", &config.without(|r| r.floor_is_remembered = false), &[]);
    }
}

#[test]
fn a_length_asked_for_after_reading_hides_an_event() {
    let config = Config { readers: 1, refreshes: 2, ..two() };
    fails("length after reading", &config.without(|r| r.length_first = false), "misses");
}

#[test]
fn a_length_asked_for_before_the_listing_hides_an_event() {
    let config = Config { readers: 1, ..loss() };
    fails("length before R2's listing", &config.without(|r| r.length_after_listing = false), "prefix");
}

#[test]
fn no_such_file_is_neither_the_end_nor_a_reason_to_start_again() {
    let config = Config { compactors: 1, rounds: 2, readers: 1, ..two() };
    fails("no such file = end", &config.without(|r| r.absent_is_looked_up = false), "misses");
    fails("no such file = start again", &config.without(|r| r.end_of_log_is_accepted = false), "for ever");
}

#[test]
fn fewer_than_three_listings_report_a_segment_missing_that_is_not() {
    let events = writers(&[&[process(&[0]), process(&[1])]]);
    let config = Config { writers: events, compactors: 1, rounds: 2, readers: 1, slow: Slow::Reader, ..Config::new() };
    fails("one listing", &config.without(|r| r.second_listing = false), "prefix");
    if long("two listings") {
        let config = Config { rounds: 3, ..config };
        fails("two listings", &config.without(|r| r.third_listing = false), "prefix");
    }
}

#[test]
fn a_reader_that_waits_for_a_missing_or_short_segment_misses_what_follows() {
    let config = Config { compactors: 1, readers: 1, ..loss() };
    fails("waits for a missing segment", &config.without(|r| r.missing_is_gap = false), "misses");
    fails("waits for a seal", &config.without(|r| r.short_segment_ends = false), "misses");
    fails("successor = n+1 only", &config.without(|r| r.any_higher_is_successor = false), "misses");
}

/// Else a gap ends elsewhere once somebody has sealed the segment.
#[test]
fn a_short_segment_that_does_not_read_as_zeros_changes_its_gaps_with_the_seal() {
    let config = Config {
        short_writes: 1,
        writers_seal_short: true,
        writers: writers(&[&[process(&[0]), process(&[1])], &[process(&[2])]]),
        ..loss()
    };
    fails("short segments end at their length", &config.without(|r| r.short_segment_reads_zeros = false), "changed");
}

#[test]
fn an_append_to_a_segment_with_a_bad_header_is_lost() {
    fails("bad header is used", &loss().without(|r| r.bad_header_is_sealed = false), "acknowledged");
}

#[test]
fn a_torn_frame_must_not_hide_what_follows() {
    let config = Config { short_writes: 1, ..two() };
    fails("no search after a torn frame", &config.without(|r| r.search_after_torn_frame = false), "acknowledged");
}

#[test]
fn without_its_syncs_a_durable_acknowledgement_is_none() {
    fails("no fdatasync", &loss().without(|r| r.segment_synced_for_disk = false), "level Disk");
    let config = Config { compactors: 1, ..loss() };
    fails("no fsync of the folder", &config.without(|r| r.folder_synced_for_disk = false), "level Disk");
    let config = Config { birth: true, ..loss() };
    fails("no fsync of the parent", &config.without(|r| r.parent_synced_for_disk = false), "level Disk");
}

#[test]
fn a_checkpoint_ahead_of_its_segments_loses_events_when_it_is_damaged() {
    let config = Config { compactors: 1, damaged_checkpoints: 1, ..loss() };
    fails("folded segments not synced", &config.without(|r| r.folded_synced = false), "changed");
}

#[test]
fn a_listing_for_the_deletion_after_the_fsync_names_a_checkpoint_that_is_not_durable() {
    let events = writers(&[&[process(&[0])]]);
    let config = Config { writers: events, compactors: 2, lost_locks: 1, damaged_checkpoints: 1, ..loss() };
    fails("listed after the fsync", &config.without(|r| r.listed_before_fsync = false), "changed");
}

#[test]
fn deletion_by_the_newest_checkpoint_fails_with_damage_or_without_the_fsync() {
    let config = Config { compactors: 1, rounds: 2, damaged_checkpoints: 1, ..two() };
    fails("delete by the newest, damage", &config.without(|r| r.delete_by_older = false), "changed");
    let config = Config { compactors: 1, ..loss() };
    fails(
        "delete by the newest, no fsync",
        &config.without(|r| {
            r.delete_by_older = false;
            r.checkpoint_name_synced = false;
        }),
        "level Disk",
    );
}

#[test]
fn a_reader_needs_the_second_checkpoint_as_bound_when_the_newest_is_damaged() {
    let config = Config { compactors: 1, damaged_checkpoints: 1, readers: 1, ..two() };
    fails("bound is the damaged one", &config.without(|r| r.second_checkpoint_bounds = false), "for ever");
}

/// The rows of the table above that are quick to run.
#[test]
fn rules_that_are_not_seen_to_be_needed() {
    let config =
        Config { compactors: 2, second_rounds: Some(2), lost_locks: 1, writers: writers(&[&[process(&[0])]]), ..two() };
    holds("no R2 in the compactor", &config.without(|r| r.compactor_checks_floor = false), &[]);
    let config = Config { compactors: 1, rounds: 2, ..loss() };
    holds("no fsync after the checkpoint's link", &config.without(|r| r.checkpoint_name_synced = false), &[]);
    let config = Config { compactors: 1, rounds: 2, damaged_checkpoints: 1, ..two() };
    holds("checkpoints not read back", &config.without(|r| r.checkpoints_read_back = false), &[]);
}
