//! The log without a loss of power: P1, P2, P4 and P6 under any interleaving, short writes, deaths and a
//! lost compact.lock, with listings that miss what comes and goes.

use crate::check::{holds, long, writers};
use crate::rules::{Config, Slow, process};
use crate::state::reached::*;

fn two() -> Config {
    Config { writers: writers(&[&[process(&[0])], &[process(&[1])]]), ..Config::new() }
}

fn three() -> Config {
    Config { writers: writers(&[&[process(&[0])], &[process(&[1])], &[process(&[2])]]), ..Config::new() }
}

#[test]
fn two_writers_with_two_events_each_and_two_compactions_lose_and_repeat_nothing() {
    let events = writers(&[&[process(&[0]), process(&[1])], &[process(&[2]), process(&[3])]]);
    let config = Config { writers: events, compactors: 1, rounds: 2, ..Config::new() };
    holds("2 writers x 2, 2 compactions", &config, &[VOIDED, RECREATED, REFUSED_BY_FLOOR, EXISTS, DELETED]);
}

#[test]
fn batches_across_the_capacity_and_short_writes_count_each_frame_once() {
    let events = writers(&[&[process(&[0, 1])], &[process(&[2, 3])]]);
    let config = Config { writers: events, capacity: 5, compactors: 1, rounds: 2, short_writes: 1, ..Config::new() };
    holds("batches of 2, short write", &config, &[VOIDED, SHORT, RECREATED, DELETED]);
}

#[test]
fn three_writers_with_a_short_write_and_a_compaction() {
    let config = Config { compactors: 1, short_writes: 1, ..three() };
    holds("3 writers, short write, compaction", &config, &[VOIDED, SHORT, REFUSED_BY_FLOOR]);
}

#[test]
fn three_writers_with_two_compactions_one_of_which_dies_anywhere() {
    let config = Config { compactors: 1, rounds: 2, crashes: 1, ..three() };
    holds("3 writers, 2 compactions, death", &config, &[VOIDED, CRASHED, RECREATED, DELETED]);
}

#[test]
fn three_writers_one_of_them_with_a_batch_and_a_short_write() {
    let events = writers(&[&[process(&[0, 1])], &[process(&[2])], &[process(&[3])]]);
    let config = Config { writers: events, short_writes: 2, ..Config::new() };
    holds("3 writers, batch, 2 short writes", &config, &[VOIDED, SHORT]);
}

#[test]
fn two_compactors_without_their_lock_and_a_death() {
    let config = Config { compactors: 2, lost_locks: 1, crashes: 1, ..two() };
    holds("2 compactors, lock lost, death", &config, &[VOIDED, EXISTS, CRASHED, DELETED]);
}

#[test]
fn a_reader_sees_everything_that_was_there_and_never_goes_back() {
    let config = Config { compactors: 1, rounds: 2, readers: 1, refreshes: 2, ..two() };
    holds("reader x 2, 2 compactions", &config, &[READER_RESTART, REFUSED_BY_FLOOR, DELETED]);
    let config = Config { compactors: 1, readers: 1, short_writes: 1, ..two() };
    holds("reader, short write, compaction", &config, &[SHORT]);
}

#[test]
fn a_damaged_newest_checkpoint_is_rebuilt_from_the_older_one() {
    let config = Config { compactors: 1, rounds: 3, damaged_checkpoints: 1, ..two() };
    holds("damaged checkpoint, 3 compactions", &config, &[DAMAGED, DELETED, RECREATED]);
    let config = Config { compactors: 1, readers: 1, damaged_checkpoints: 1, ..two() };
    holds("damaged checkpoint, reader", &config, &[DAMAGED, READER_RESTART]);
}

/// P5: everything on both sides of a damaged frame counts, before and after compaction.
#[test]
fn a_damaged_frame_costs_itself_and_nothing_else() {
    let events = writers(&[&[process(&[0, 1])], &[process(&[2])]]);
    let config = Config { writers: events, capacity: 5, compactors: 1, rounds: 2, damaged_frames: 1, ..Config::new() };
    holds("damaged frame, 2 compactions", &config, &[DAMAGED, DELETED]);
}

#[test]
fn listings_that_miss_what_comes_and_goes_do_no_harm_to_writers() {
    let config = Config { compactors: 1, rounds: 3, slow: Slow::Everybody, ..two() };
    holds("slow listings, 3 compactions", &config, &[STALE_LISTING, VOID_LISTING, RECREATED, REFUSED_BY_FLOOR]);
}

#[test]
fn a_reader_whose_listings_miss_things_reports_no_gap_that_is_none() {
    let events = writers(&[&[process(&[0])]]);
    let config = Config { writers: events, compactors: 1, rounds: 3, readers: 1, slow: Slow::Reader, ..Config::new() };
    holds("slow listings of a reader, 3 compactions", &config, &[STALE_LISTING, VOID_LISTING, READER_RESTART]);
}

#[test]
fn long_runs_without_a_loss() {
    if !long("long runs without a loss") {
        return;
    }
    let config = Config { compactors: 1, rounds: 4, slow: Slow::Everybody, ..two() };
    holds("slow listings, 4 compactions", &config, &[STALE_LISTING, VOID_LISTING, RECREATED]);
    let events = writers(&[&[process(&[0]), process(&[1])]]);
    let config = Config { writers: events, compactors: 1, rounds: 3, readers: 1, slow: Slow::Reader, ..Config::new() };
    holds("slow listings of a reader, 2 events", &config, &[STALE_LISTING, READER_RESTART]);
    let config = Config { compactors: 1, readers: 1, refreshes: 2, ..three() };
    holds("3 writers, reader x 2", &config, &[VOIDED, READER_RESTART]);
    let config = Config { compactors: 1, rounds: 3, readers: 1, ..two() };
    holds("reader, 3 compactions", &config, &[RECREATED, READER_RESTART]);
    let config = Config { compactors: 2, rounds: 2, second_rounds: Some(1), lost_locks: 1, ..two() };
    holds("2 compactors, lock lost, 2 + 1 runs", &config, &[RECREATED, DELETED]);
    let config = Config { compactors: 1, rounds: 2, readers: 1, damaged_checkpoints: 1, ..two() };
    holds("damaged checkpoint, reader, 2 compactions", &config, &[DAMAGED, READER_RESTART]);
    let config = Config { compactors: 1, rounds: 2, short_writes: 1, crashes: 1, ..three() };
    holds("3 writers, 2 compactions, short write, death", &config, &[SHORT, CRASHED, RECREATED]);
}
