//! Loss of power. What is still there after a loss must stay, in its order, and survive the next one; an
//! event acknowledged at level Disk is always still there.

use crate::check::{fails, holds, long, writers};
use crate::rules::{Config, Slow, disk, process};
use crate::state::reached::*;

fn two() -> Config {
    Config { writers: writers(&[&[process(&[0])], &[disk(&[1])]]), power_losses: 1, ..Config::new() }
}

fn three() -> Config {
    let events = writers(&[&[process(&[0])], &[disk(&[1])], &[disk(&[2])]]);
    Config { writers: events, power_losses: 1, ..Config::new() }
}

#[test]
fn three_writers_with_a_short_write_and_a_loss() {
    let config = Config { short_writes: 1, ..three() };
    holds("3 writers, short write, loss", &config, &[SHORT, MISSING, BAD_HEADER, SHORT_WITH_SUCCESSOR, FRAME_LOST]);
}

#[test]
fn three_writers_with_a_compaction_and_a_loss() {
    let config = Config { compactors: 1, highest_number: 3, ..three() };
    holds("3 writers, compaction, loss", &config, &[MISSING, BAD_HEADER, SHORT_WITH_SUCCESSOR, FRAME_LOST]);
}

#[test]
fn three_writers_and_two_losses() {
    let config = Config { power_losses: 2, ..three() };
    holds("3 writers, 2 losses", &config, &[MISSING, BAD_HEADER, SHORT_WITH_SUCCESSOR, FRAME_LOST]);
}

#[test]
fn batches_across_the_capacity_at_both_levels_and_a_loss() {
    let events = writers(&[&[process(&[0, 1])], &[disk(&[2, 3])]]);
    let config = Config { writers: events, capacity: 5, compactors: 1, power_losses: 1, ..Config::new() };
    holds("batches of 2, loss", &config, &[VOIDED, MISSING, BAD_HEADER, FRAME_LOST]);
}

#[test]
fn two_compactions_and_two_losses() {
    let config = Config { compactors: 1, rounds: 2, power_losses: 2, highest_number: 4, ..two() };
    holds("2 compactions, 2 losses", &config, &[MISSING, BAD_HEADER, DELETED]);
}

#[test]
fn it_makes_no_difference_whether_writers_seal_what_a_loss_left_unsealed() {
    let events = writers(&[&[process(&[0]), process(&[1])], &[process(&[2])]]);
    let config = Config { writers: events, short_writes: 1, writers_seal_short: true, ..two() };
    holds("writers seal short segments, short write, loss", &config, &[SHORT, SHORT_WITH_SUCCESSOR, MISSING]);
    let config = Config { readers: 1, compactors: 1, writers_seal_short: true, highest_number: 3, ..two() };
    holds("writers seal short segments, reader, loss", &config, &[SHORT_WITH_SUCCESSOR, READER_GAP]);
}

#[test]
fn a_reader_after_a_loss_sees_gaps_where_a_fresh_one_does() {
    let config = Config { compactors: 1, readers: 1, ..two() };
    holds("reader, compaction, loss", &config, &[MISSING, BAD_HEADER, SHORT_WITH_SUCCESSOR, READER_GAP]);
}

/// Together with a loss: missing segments are there to be found, and the listing may miss others.
#[test]
fn listings_that_miss_things_after_a_loss() {
    let config = Config { compactors: 1, slow: Slow::Everybody, ..two() };
    holds("slow listings, compaction, loss", &config, &[STALE_LISTING, MISSING, BAD_HEADER]);
    let config = Config { compactors: 1, readers: 1, slow: Slow::Reader, ..two() };
    holds("slow listings of a reader, compaction, loss", &config, &[STALE_LISTING, MISSING, READER_GAP]);
    let config = Config { slow: Slow::Everybody, ..three() };
    holds("3 writers, slow listings, loss", &config, &[STALE_LISTING, MISSING, BAD_HEADER]);
}

#[test]
fn the_birth_of_the_log_and_a_loss() {
    let config = Config { birth: true, compactors: 1, ..two() };
    holds("birth, compaction, loss", &config, &[MISSING, BAD_HEADER]);
    let config = Config { birth: true, readers: 1, power_losses: 2, ..two() };
    holds("birth, reader, 2 losses", &config, &[BAD_HEADER]);
}

#[test]
fn a_damaged_checkpoint_and_a_loss() {
    let config = Config { compactors: 1, rounds: 2, damaged_checkpoints: 1, ..two() };
    holds("damaged checkpoint, 2 compactions, loss", &config, &[DAMAGED, DELETED, BAD_HEADER]);
    let config =
        Config { compactors: 2, lost_locks: 1, damaged_checkpoints: 1, writers: writers(&[&[process(&[0])]]), ..two() };
    holds("damaged checkpoint, 2 compactors, lock lost, loss", &config, &[DAMAGED, EXISTS, DELETED]);
}

/// `follow` with a position that is saved after each refresh. A position that names bytes which the power can
/// take is worth nothing: they come back with other events in them, in the same or in an earlier segment.
#[test]
fn a_saved_position_holds_across_a_loss_if_everything_up_to_it_was_synced_first() {
    let events = writers(&[&[process(&[0]), process(&[1])], &[process(&[2])]]);
    let config =
        Config { writers: events, readers: 1, refreshes: 2, saved_position: true, power_losses: 1, ..Config::new() };
    holds("saved position, loss", &config, &[BAD_HEADER, MISSING]);
    fails("saved position not synced", &config.without(|r| r.position_synced = false), "saved position");
}

#[test]
fn long_runs_with_a_loss() {
    if !long("long runs with a loss") {
        return;
    }
    let config = Config { short_writes: 1, compactors: 1, highest_number: 4, ..three() };
    holds("3 writers, short write, compaction, loss", &config, &[SHORT, MISSING, BAD_HEADER]);
    let config = Config { compactors: 1, ..three() };
    holds("3 writers, compaction, loss, more segments", &config, &[MISSING, BAD_HEADER]);
    let config = Config { compactors: 1, rounds: 2, power_losses: 2, ..two() };
    holds("2 compactions, 2 losses, more segments", &config, &[MISSING, BAD_HEADER]);
    let config = Config { compactors: 1, readers: 1, slow: Slow::Everybody, ..two() };
    holds("slow listings of everybody, reader, loss", &config, &[STALE_LISTING, MISSING, READER_GAP]);
    let config = Config { compactors: 1, slow: Slow::Everybody, highest_number: 4, ..three() };
    holds("3 writers, slow listings, compaction, loss", &config, &[STALE_LISTING, MISSING]);
    let config = Config { compactors: 1, readers: 1, power_losses: 2, ..two() };
    holds("reader, compaction, 2 losses", &config, &[MISSING, BAD_HEADER, READER_GAP]);
    let config = Config { compactors: 1, rounds: 2, readers: 1, highest_number: 4, ..two() };
    holds("reader, 2 compactions, loss", &config, &[MISSING, BAD_HEADER, READER_GAP]);
    let config = Config {
        compactors: 2,
        rounds: 2,
        second_rounds: Some(1),
        lost_locks: 1,
        crashes: 1,
        highest_number: 4,
        writers: writers(&[&[disk(&[0])]]),
        ..two()
    };
    holds("2 compactors, lock lost, death, loss", &config, &[DELETED, CRASHED, BAD_HEADER]);
}
