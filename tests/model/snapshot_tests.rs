//! Steps c3 to c7 with a stock process that rewrites `.usage.json`: no view counts anything twice or
//! loses anything, at any moment, whatever dies, gets lost or is damaged.

use crate::check::{fails, holds, long, writers};
use crate::rules::{Config, Evidence, Order, Rules, disk, process};
use crate::state::reached::*;

fn base() -> Config {
    let events = writers(&[&[process(&[0])]]);
    Config { writers: events, compactors: 1, rounds: 2, snapshot: true, stock: 1, ..Config::new() }
}

fn rename_last(rules: &mut Rules) {
    rules.order = Order::RenameLast;
}

/// What the code does: the rename after the checkpoint, and an external event that builds only on those that a
/// checkpoint holds, so that no segment has to be synced while others append to it.
fn as_built(rules: &mut Rules) {
    rules.order = Order::RenameLast;
    rules.base_in_checkpoint = true;
    rules.external_synced = false;
    rules.folded_synced_for_external = false;
    rules.external_appended_again = false;
}

#[test]
fn the_order_and_the_event_as_built_hold_against_every_fault() {
    let config = base().without(as_built);
    let faults = Config { stock: 2, crashes: 1, ..config.clone() };
    holds("as built, death", &faults, &[EXTERNAL, CRASHED, TEMP_IS_EVIDENCE, DELETED]);
    let faults = Config { power_losses: 1, crashes: 1, writers: vec![], ..config.clone() };
    holds("as built, death, loss", &faults, &[TEMP_IS_EVIDENCE, FILE_LOST, BAD_HEADER]);
    let faults = Config { damaged_frames: 1, crashes: 1, ..config.clone() };
    holds("as built, damaged frame, death", &faults, &[DAMAGED, CRASHED]);
    let faults = Config { damaged_checkpoints: 1, crashes: 1, ..config.clone() };
    holds("as built, damaged checkpoint, death", &faults, &[DAMAGED, CRASHED]);
    let faults = Config { readers: 1, writers: vec![], ..config.clone() };
    holds("as built, view", &faults, &[VIEW_AGAIN, DELETED]);
    let faults = Config { compactors: 2, rounds: 1, lost_locks: 1, writers: vec![], ..config };
    holds("as built, 2 compactors, lock lost", &faults, &[EXTERNAL, LOCK_BUSY]);
}

/// After a death, or a failed sync, the next run cannot know whether what it would build on is on disk, and after a failed
/// sync it never will be. What a checkpoint holds does not depend on that.
#[test]
fn an_external_event_builds_only_on_those_that_a_checkpoint_holds() {
    let config = Config { writers: vec![], failed_syncs: 1, crashes: 1, power_losses: 1, ..base() };
    fails("synced instead, failed sync, death, loss", &config, "view has lost");
    let as_built = config.without(as_built);
    holds("as built, failed sync, death, loss", &as_built, &[SYNC_FAILED, CRASHED, FILE_LOST, BASE_FIRST]);
    let broken = as_built.without(|r| r.base_in_checkpoint = false);
    fails("on any, failed sync, death, loss", &broken, "view has lost");
    let config = Config { power_losses: 1, crashes: 1, ..base() };
    let broken = config.without(|r| {
        self::as_built(r);
        r.base_in_checkpoint = false;
    });
    fails("on any, death, loss", &broken, "view has lost");
}

/// A failed sync of an earlier run left the header of the segment behind that c5 appends to.
#[test]
fn a_durable_external_event_needs_its_header_rewritten_like_any_other() {
    let events = writers(&[&[process(&[0, 1]), process(&[2])]]);
    let config = Config { writers: events, stock: 0, capacity: 5, failed_syncs: 1, power_losses: 1, ..base() };
    fails("header not rewritten, snapshot", &config.without(|r| r.header_rewritten_for_disk = false), "twice");
    let events = writers(&[&[disk(&[0])]]);
    let config = Config { writers: events, rounds: 1, birth: true, stock: 1, ..config };
    holds("header rewritten, snapshot, failed sync, loss", &config, &[SYNC_FAILED, BAD_HEADER]);
}

#[test]
fn a_death_anywhere_changes_no_value() {
    let config = Config { stock: 2, crashes: 1, ..base() };
    let situations = [EXTERNAL, CRASHED, TEMP_IS_EVIDENCE, LOCK_BUSY, DELETED];
    holds("snapshot, 2 increments, death", &config, &situations);
    holds("the same, rename last", &config.without(rename_last), &situations);
    holds("the same, in the earlier order", &config.without(|r| r.order = Order::SealFirst), &situations);
}

#[test]
fn a_loss_changes_no_value() {
    let situations = [EXTERNAL, FILE_LOST, BAD_HEADER, FRAME_LOST];
    let config = Config { power_losses: 1, ..base() };
    holds("snapshot, loss", &config, &situations);
    holds("as built, loss", &config.without(as_built), &situations);
}

#[test]
fn a_view_beside_a_compactor_and_a_stock_process_never_goes_back() {
    let config = Config { readers: 1, refreshes: 2, rounds: 1, stock: 2, writers: vec![], ..base() };
    holds("snapshot, view x 2, 2 increments", &config, &[VIEW_AGAIN, LOCK_BUSY]);
    let config = Config { readers: 1, rounds: 1, ..base() };
    holds("snapshot, view, writer", &config, &[VIEW_AGAIN]);
    let config = Config { readers: 1, rounds: 2, writers: vec![], ..base() };
    holds("snapshot, view, 2 compactions", &config, &[VIEW_AGAIN, DELETED, READER_RESTART]);
    holds("the same, rename last", &config.without(rename_last), &[VIEW_AGAIN, DELETED]);
}

#[test]
fn two_compactors_without_their_lock_are_kept_apart_by_the_usage_lock() {
    let config = Config { compactors: 2, rounds: 1, lost_locks: 1, writers: vec![], ..base() };
    holds("snapshot, 2 compactors, lock lost", &config, &[EXTERNAL, LOCK_BUSY, EXISTS]);
}

/// P5. In the earlier order the newest external event is in no checkpoint until the next run.
#[test]
fn a_damaged_frame_between_runs_needs_the_external_event_in_the_checkpoint() {
    let config = Config { damaged_frames: 1, damage_while_compacting: false, ..base() };
    fails("earlier order, damaged frame between runs", &config.without(|r| r.order = Order::SealFirst), "twice");
    holds("external first, damaged frame between runs", &config, &[DAMAGED, EXTERNAL, DELETED]);
}

/// From c6 until the checkpoint of c9 is there, the only copy of the event is one frame. With the rename
/// after the checkpoint, and only when the event was found again in what was folded, there always are two.
#[test]
fn a_damaged_frame_at_any_moment_needs_the_rename_after_the_checkpoint() {
    let config = Config { damaged_frames: 1, ..base() };
    fails("external first, damaged frame during a run", &config, "twice");
    let last = config.without(rename_last);
    holds("rename last, damaged frame", &last, &[DAMAGED, EXTERNAL, DELETED]);
    let config = Config { crashes: 1, ..last.clone() };
    holds("rename last, damaged frame, death", &config, &[DAMAGED, CRASHED]);
    fails("rename last, event not looked for", &last.without(|r| r.rename_needs_the_event = false), "twice");
}

#[test]
fn a_damaged_checkpoint_changes_no_value() {
    let config = Config { damaged_checkpoints: 1, ..base() };
    holds("snapshot, damaged checkpoint", &config, &[DAMAGED, EXTERNAL]);
    let config = Config { damaged_checkpoints: 1, crashes: 1, ..base() };
    holds("rename last, damaged checkpoint, death", &config.without(rename_last), &[DAMAGED, CRASHED]);
}

#[test]
fn a_digest_is_no_evidence() {
    let config = Config { stock: 2, crashes: 1, ..base() };
    fails("digest, else after", &config.without(|r| r.evidence = Evidence::DigestElseAfter), "view");
    fails("digest, else before", &config.without(|r| r.evidence = Evidence::DigestElseBefore), "view");
}

#[test]
fn temporary_files_must_outlive_the_rename() {
    let config = Config { stock: 2, crashes: 1, ..base() };
    fails("removed at the start of the run", &config.without(|r| r.temps_removed_last = false), "view has lost");
}

#[test]
fn the_file_as_found_and_the_event_must_be_on_disk() {
    let config = Config { power_losses: 1, ..base() };
    fails("file as found not synced", &config.without(|r| r.found_file_synced = false), "view");
    fails("external event not synced", &config.without(|r| r.external_synced = false), "view");
}

/// A run that died before its sync leaves an external event that the next one builds on. If the log
/// rolls over in between, the sync of the new event does not cover the old one.
#[test]
fn an_external_event_must_not_be_durable_before_the_ones_it_builds_on() {
    let config = Config { power_losses: 1, crashes: 1, ..base() };
    let broken = config.without(|r| r.folded_synced_for_external = false);
    fails("earlier external events not synced", &broken, "view has lost");
    if long("earlier external events") {
        holds("earlier external events synced, folder included", &config, &[MISSING, TEMP_IS_EVIDENCE]);
        let total = broken.without(|r| r.external_carries_total = true);
        holds("not synced, but each event carries the total", &total, &[MISSING, TEMP_IS_EVIDENCE]);
    }
}

#[test]
fn the_fold_must_be_brought_up_to_date_under_the_usage_lock() {
    let config = Config { compactors: 2, rounds: 1, lost_locks: 1, ..base() };
    fails("no fold under the lock", &config.without(|r| r.fold_after_usage_lock = false), "twice");
}

#[test]
fn a_view_must_look_twice() {
    let config = Config { readers: 1, rounds: 1, ..base() };
    fails("no second look", &config.without(|r| r.view_looks_again = false), "twice");
}

#[test]
fn an_external_event_whose_sync_failed_is_appended_again_under_the_same_temporary_name() {
    let config = Config { failed_syncs: 1, power_losses: 1, ..base() };
    fails("not known by its name", &config.without(|r| r.external_known_by_temp = false), "twice");
    fails("left alone", &config.without(|r| r.external_appended_again = false), "view has lost");
    let quiet = Config { writers: vec![], ..config.clone() };
    holds("appended again", &quiet, &[SYNC_FAILED, REPEATED, EXTERNAL]);
    let total = quiet.without(|r| {
        r.external_appended_again = false;
        r.folded_synced_for_external = false;
        r.external_carries_total = true;
    });
    holds("left alone, but each event carries the total", &total, &[SYNC_FAILED, EXTERNAL]);
    if long("appended again, with a writer") {
        holds("appended again, with a writer", &config, &[SYNC_FAILED, REPEATED]);
    }
}

#[test]
fn long_runs_with_a_snapshot() {
    if !long("long runs with a snapshot") {
        return;
    }
    let config = Config { power_losses: 1, crashes: 1, ..base() };
    holds("rename last, death, loss, writer", &config.without(rename_last), &[TEMP_IS_EVIDENCE, MISSING, FILE_LOST]);
    holds("as built, death, loss, writer", &config.without(as_built), &[TEMP_IS_EVIDENCE, MISSING, FILE_LOST]);
    let config = Config { readers: 1, crashes: 1, stock: 2, writers: vec![], ..base() };
    holds("as built, view, death, 2 increments", &config.without(as_built), &[VIEW_AGAIN, CRASHED]);
    let config = Config { compactors: 2, rounds: 1, lost_locks: 1, ..base() };
    holds("2 compactors, lock lost, writer", &config, &[LOCK_BUSY, EXISTS]);
    let config = Config { readers: 1, refreshes: 2, rounds: 1, ..base() };
    holds("view x 2, writer", &config, &[VIEW_AGAIN]);
    let config = Config { damaged_frames: 1, power_losses: 1, ..base() };
    holds("rename last, damaged frame, loss", &config.without(rename_last), &[DAMAGED, MISSING, FILE_LOST]);
    let config = Config { readers: 1, power_losses: 1, rounds: 1, ..base() };
    holds("view, loss", &config, &[FILE_LOST, VIEW_AGAIN]);
    let config = Config { stock: 3, crashes: 2, rounds: 3, writers: vec![], ..base() };
    holds("3 increments, 3 runs, 2 deaths", &config, &[TEMP_IS_EVIDENCE, DELETED]);
}
