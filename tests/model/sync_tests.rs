//! A failed `fdatasync`. The kernel marks the pages clean: on disk or not, no later sync writes them. It
//! reports the error once, to every descriptor that was open then, and to none opened afterwards.
//!
//! The rule that holds: an event whose sync failed is in the log once. It is not appended again (it would
//! count twice), it is reported as `NotDurable`, and the caller must not append it again either. The
//! segment is sealed and the next one made, for what comes later. Only an event that counts once however
//! often it is there (an external event, known by its temporary file) may be appended again.

use crate::check::{fails, holds, writers};
use crate::rules::{Config, FailedSync, disk, process};
use crate::state::reached::*;

fn base() -> Config {
    let events = writers(&[&[disk(&[0])], &[disk(&[1])]]);
    Config { writers: events, failed_syncs: 1, power_losses: 1, ..Config::new() }
}

#[test]
fn reported_and_not_appended_again_keeps_every_promise() {
    let events = writers(&[&[disk(&[0]), disk(&[1])], &[disk(&[2])]]);
    let config = Config { writers: events, capacity: 5, birth: true, ..base() };
    holds("failed sync, birth, loss", &config, &[SYNC_FAILED, MISSING, BAD_HEADER]);
    let config = Config {
        writers: writers(&[&[disk(&[0])], &[disk(&[1])], &[process(&[2])]]),
        capacity: 5,
        birth: true,
        ..base()
    };
    holds("failed sync, 3 writers, birth, loss", &config, &[SYNC_FAILED, BAD_HEADER]);
    let config = Config { compactors: 1, capacity: 5, ..base() };
    holds("failed sync, compaction, loss", &config, &[SYNC_FAILED, BAD_HEADER]);
    let config = Config { power_losses: 2, ..base() };
    holds("failed sync, 2 losses", &config, &[SYNC_FAILED, MISSING]);
}

#[test]
fn appended_again_counts_twice() {
    fails("append again", &base().without(|r| r.failed_sync = FailedSync::AppendAgain), "twice");
}

#[test]
fn synced_again_in_the_same_segment_is_not_durable() {
    fails("sync again", &base().without(|r| r.failed_sync = FailedSync::Retry), "level Disk");
}

/// W0's sync of a fresh segment fails, so its header is not on disk and never will be. W1 opens the segment
/// before W0 seals it, hears of no error, and its own sync covers its own pages only.
#[test]
fn a_header_left_behind_by_somebody_else_takes_a_durable_event_along() {
    let config = Config { birth: true, capacity: 5, ..base() };
    fails("header not rewritten", &config.without(|r| r.header_rewritten_for_disk = false), "level Disk");
    holds("header rewritten before the first durable acknowledgement", &config, &[SYNC_FAILED, BAD_HEADER]);
}

/// The cache may drop the pages at any time, without a loss of power. Durable events stay.
#[test]
fn what_the_cache_drops_afterwards_is_never_a_durable_event() {
    let events = writers(&[&[disk(&[0]), disk(&[1])], &[disk(&[2])]]);
    let config = Config { writers: events, capacity: 5, birth: true, power_losses: 0, eviction: true, ..base() };
    holds("failed sync, eviction", &config, &[SYNC_FAILED, EVICTED]);
}

/// Known limits, with more than one fault besides the failed sync: no rule of the protocol prevents them.
#[test]
fn limits_after_a_failed_sync() {
    // The compactor's own sync succeeds, so its checkpoint holds what the log can still lose.
    let config = Config { compactors: 1, damaged_checkpoints: 1, ..base() };
    fails("failed sync, loss and damaged checkpoint", &config, "changed");
    // A fold that read the page before the cache dropped it brings the event back.
    let config = Config { compactors: 1, power_losses: 0, eviction: true, ..base() };
    fails("failed sync, eviction during a compaction", &config, "changed");
    // The cache drops a header: the whole segment is a gap, whoever syncs it later.
    let config = Config { birth: true, capacity: 5, power_losses: 0, eviction: true, header_eviction: true, ..base() };
    fails("failed sync, header dropped", &config, "changed");
}
