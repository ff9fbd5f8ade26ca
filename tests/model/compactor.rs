//! A compactor, steps c1 to c10. A run without a snapshot leaves out c3 to c7.
//!
//! | step | here |
//! |---|---|
//! | c1 take compact.lock | `Idle` |
//! | c2 newest checkpoint (a damaged one is set aside first), fold to the end of the log | `SetAside`, `Fold` |
//! | c3 take `.usage.json.lock` | `TakeUsageLock` |
//! | c4 to c7 | snapshot.rs, external.rs |
//! | c8 seal the live segment *m*, create *m+1* | `SealList` to `LinkNext` |
//! | c9 fold up to *m*, sync it, publish checkpoint-*m*, list, fsync the folder, read back | `FoldSealed` to `ReadBack` |
//! | c10 delete what the older checkpoint of that listing covers | `Delete` |
//!
//! Contents of a checkpoint are written and synced under a temporary name that nobody else looks at, so
//! that is one step with the `link`.

use crate::cursor::{self, Cursor};
use crate::listing::Wanted;
use crate::rules::{Config, Order, Slow};
use crate::search::{Bytes, Emit};
use crate::state::{Checkpoint, Header, NONE, State, reached};
use crate::steps::{Ask, list};
use crate::{external, snapshot};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Idle,
    SetAside,
    Fold,
    TakeUsageLock,
    FoldUnderLock,
    ReadFile,
    WriteTemp,
    SyncForExternal,
    SyncFolderForExternal,
    AppendList,
    AppendOpen,
    AppendCheck,
    Append,
    AppendHeader,
    AppendSync,
    AppendSyncFolder,
    AppendSeal,
    AppendLink,
    Rename,
    RemoveTemps,
    SealList,
    SealOpen,
    SealCheck,
    Seal,
    LinkNext,
    FoldSealed,
    SyncFolded,
    SyncFolderBefore,
    Publish,
    List,
    SyncFolderAfter,
    ReadBack,
    Delete,
}

#[derive(Clone, Copy, Debug)]
pub struct Compactor {
    pub step: Step,
    pub rounds: u8,
    pub cursor: Cursor,
    /// Segment that is worked on; inode of it when open.
    pub number: u8,
    pub inode: u8,
    /// A sync of that inode failed while it was open here; the next one reports it.
    pub error_pending: bool,
    /// The external event of this run, NONE before c4 and without the snapshot.
    pub external: u8,
    /// Only with the earlier order: this run has published already.
    pub published: bool,
    /// This run publishes what the external event is to build on, and then goes on with c4.
    pub base_first: bool,
    /// The older and the newest checkpoint of the listing; names to delete.
    pub older: u8,
    pub newest: u8,
    pub doomed_segments: u16,
    pub doomed_checkpoints: u16,
}

impl Compactor {
    pub fn new() -> Compactor {
        Compactor {
            step: Step::Idle,
            rounds: 0,
            cursor: Cursor::new(),
            number: 0,
            inode: NONE,
            error_pending: false,
            external: NONE,
            published: false,
            base_first: false,
            older: 0,
            newest: 0,
            doomed_segments: 0,
            doomed_checkpoints: 0,
        }
    }

    pub fn encode(&self, out: &mut Bytes) {
        out.put(self.step as u8);
        let flags = [self.published, self.error_pending, self.base_first];
        out.put(flags.into_iter().rev().fold(self.rounds << 2, |bits, flag| bits << 1 | u8::from(flag)));
        if self.step == Step::Idle {
            return;
        }
        self.cursor.encode(out);
        out.put_all(&[self.number, self.inode, self.external, self.older << 4 | self.newest]);
        out.put_mask(self.doomed_segments);
        out.put_mask(self.doomed_checkpoints);
    }
}

/// The run is over: locks are released, descriptors closed.
pub fn finish(n: &mut State, k: usize) {
    let rounds = n.compactors[k].rounds;
    n.compactors[k] = Compactor { rounds, ..Compactor::new() };
    for lock in [&mut n.compact_lock, &mut n.usage_lock] {
        if *lock == k as u8 {
            *lock = NONE;
        }
    }
}

pub fn steps(config: &Config, s: &State, k: usize, emit: Emit) {
    let c = s.compactors[k];
    if c.step != Step::Idle && s.budgets.crashes > 0 {
        let mut n = *s;
        n.budgets.crashes -= 1;
        n.mark(reached::CRASHED);
        finish(&mut n, k);
        emit(n, format_args!("C{k} dies before {:?}", c.step));
    }
    let mut n = *s;
    match c.step {
        Step::Idle => {
            let stolen = s.compact_lock != NONE;
            if c.rounds == 0 || (stolen && s.budgets.lost_locks == 0) {
                return;
            }
            n.budgets.lost_locks -= u8::from(stolen);
            n.compact_lock = k as u8;
            n.compactors[k].rounds -= 1;
            n.compactors[k].step = Step::SetAside;
            n.compactors[k].number = s.floor();
            if !s.checkpoints[s.floor() as usize].damaged {
                n.compactors[k].number = 0;
                n.compactors[k].step = start(config);
            }
            emit(n, format_args!("C{k} takes compact.lock{}", if stolen { ", which the other lost" } else { "" }));
        }
        Step::SetAside => {
            n.unlink_checkpoint(c.number);
            n.compactors[k].number = 0;
            n.compactors[k].step = start(config);
            emit(n, format_args!("C{k} sets the damaged checkpoint {} aside", c.number));
        }
        Step::Fold | Step::FoldUnderLock | Step::FoldSealed => fold(config, s, k, emit),
        Step::SealList | Step::SealOpen | Step::SealCheck | Step::Seal | Step::LinkNext => seal(config, s, k, emit),
        Step::SyncFolded | Step::SyncFolderBefore | Step::Publish => publish(config, s, k, emit),
        Step::List | Step::SyncFolderAfter | Step::ReadBack | Step::Delete => delete(config, s, k, emit),
        Step::TakeUsageLock | Step::ReadFile | Step::WriteTemp | Step::Rename | Step::RemoveTemps => {
            snapshot::compactor_steps(config, s, k, emit);
        }
        _ => external::steps(config, s, k, emit),
    }
}

fn start(config: &Config) -> Step {
    if config.snapshot && config.rules.order != Order::SealFirst { Step::Fold } else { Step::SealList }
}

/// c2, again under the usage lock, and c9: the cursor goes on until it is at the end.
fn fold(config: &Config, s: &State, k: usize, emit: Emit) {
    let c = s.compactors[k];
    cursor::steps(
        config,
        s,
        config.slow == Slow::Everybody,
        format_args!("C{k}"),
        |n| &mut n.compactors[k].cursor,
        &mut |mut n, text| {
            if n.compactors[k].cursor.step == cursor::Step::End {
                match c.step {
                    Step::Fold => n.compactors[k].step = Step::TakeUsageLock,
                    Step::FoldUnderLock if config.rules.base_in_checkpoint && !is_base_in_checkpoint(&n, k) => {
                        n.mark(reached::BASE_FIRST);
                        n.compactors[k].base_first = true;
                        n.compactors[k].step = Step::SealList;
                    }
                    Step::FoldUnderLock => n.compactors[k].step = Step::ReadFile,
                    _ => folded_to_m(config, &mut n, k),
                }
            }
            emit(n, text);
        },
    );
}

fn is_base_in_checkpoint(s: &State, k: usize) -> bool {
    let cursor = &s.compactors[k].cursor;
    let checkpoint = &s.checkpoints[cursor.base as usize];
    cursor.fold.newest_external() == checkpoint.fold.newest_external()
}

fn folded_to_m(config: &Config, n: &mut State, k: usize) {
    let done = n.compactors[k].cursor;
    if done.base >= done.until {
        // Another compactor has published as much: nothing left to do.
        after_publishing(config, n, k);
    } else if n.disk_matters(config) && config.rules.folded_synced {
        n.compactors[k].number = done.base + 1;
        n.compactors[k].step = Step::SyncFolded;
    } else {
        n.compactors[k].step = Step::Publish;
    }
}

/// c8.
fn seal(config: &Config, s: &State, k: usize, emit: Emit) {
    let c = s.compactors[k];
    let mut n = *s;
    match c.step {
        Step::SealList => list(
            config,
            s,
            Ask { slow: config.slow == Slow::Everybody, who: format_args!("C{k}"), wanted: Wanted::Highest },
            |n| &mut n.compactors[k].cursor.listing,
            emit,
            |mut n, names, emit| {
                (n.compactors[k].number, n.compactors[k].step) = (names.highest(), Step::SealOpen);
                emit(n, format_args!("C{k} lists: highest {}", names.highest()));
            },
        ),
        Step::SealOpen => {
            let inode = s.names[c.number as usize].now;
            let me = &mut n.compactors[k];
            me.step = if inode == NONE {
                Step::SealList
            } else if s.inodes[inode as usize].header == Header::Bad {
                Step::LinkNext // counts as sealed
            } else if config.rules.compactor_checks_floor {
                Step::SealCheck
            } else {
                Step::Seal
            };
            me.inode = inode;
            emit(n, format_args!("C{k} opens seg {}", c.number));
        }
        Step::SealCheck => list(
            config,
            s,
            Ask { slow: config.slow == Slow::Everybody, who: format_args!("C{k}"), wanted: Wanted::Floor },
            |n| &mut n.compactors[k].cursor.listing,
            emit,
            |mut n, names, emit| {
                n.compactors[k].step = match names.floor() >= c.number {
                    true => Step::SealList,
                    false if !config.rules.successor_needs_seal => Step::LinkNext,
                    false => Step::Seal,
                };
                if !config.rules.seal_to_capacity {
                    // The length that the wrong seal will use is asked for now.
                    n.compactors[k].older = n.inodes[c.inode as usize].len;
                }
                emit(n, format_args!("C{k} checks seg {} (R2): floor {}", c.number, names.floor()));
            },
        ),
        Step::Seal => {
            let segment = &mut n.inodes[c.inode as usize];
            segment.len = if config.rules.seal_to_capacity { config.capacity } else { c.older };
            segment.cells.iter_mut().skip(segment.len as usize).for_each(|cell| *cell = 0);
            n.compactors[k].step = Step::LinkNext;
            emit(n, format_args!("C{k} seals seg {}", c.number));
        }
        _ => {
            if c.number == config.highest_number {
                n.mark(reached::NUMBER_LIMIT);
                finish(&mut n, k);
                return emit(n, format_args!("C{k} stops at the highest number"));
            }
            let made = n.link_segment(c.number + 1);
            let me = &mut n.compactors[k];
            me.inode = NONE;
            me.cursor.until = c.number;
            me.step = Step::FoldSealed;
            me.cursor.refresh();
            // When m was sealed by its last event, the fold may stand at the start of m+1 already.
            if me.cursor.number > c.number {
                me.cursor.step = cursor::Step::End;
                folded_to_m(config, &mut n, k);
            }
            emit(n, format_args!("C{k} links seg {}: {}", c.number + 1, if made { "made" } else { "exists" }));
        }
    }
}

/// The second part of c9. A checkpoint never holds what the log can still lose.
fn publish(config: &Config, s: &State, k: usize, emit: Emit) {
    let c = s.compactors[k];
    let mut n = *s;
    match c.step {
        Step::SyncFolded => {
            external::sync_folded(s, k, c.cursor.until, emit, Step::SyncFolderBefore);
        }
        Step::SyncFolderBefore => {
            n.sync_folder();
            n.compactors[k].step = Step::Publish;
            emit(n, format_args!("C{k} fsyncs the folder: what was folded is on disk"));
        }
        _ => {
            let m = c.cursor.until;
            let slot = &mut n.checkpoints[m as usize];
            let exists = slot.here;
            if !exists {
                *slot = Checkpoint { here: true, on_disk: slot.on_disk, damaged: false, fold: c.cursor.fold };
            } else if !slot.damaged && slot.fold != c.cursor.fold && s.damaged_event == NONE {
                n.broken = Some("two different checkpoints for one floor");
            }
            let listed_late = !config.rules.listed_before_fsync;
            n.compactors[k].step = if listed_late { Step::SyncFolderAfter } else { Step::List };
            let result = if exists { "exists" } else { "published" };
            emit(n, format_args!("C{k} links checkpoint {m} {}: {result}", c.cursor.fold.show()));
        }
    }
}

/// After c9's fsync of the folder, or when there was nothing to publish.
fn after_publishing(config: &Config, n: &mut State, k: usize) {
    let me = &mut n.compactors[k];
    match config.rules.order {
        _ if me.base_first => {
            me.base_first = false;
            (me.doomed_segments, me.doomed_checkpoints, me.newest) = (0, 0, 0);
            me.step = Step::ReadFile;
        }
        Order::RenameLast if me.external != NONE => me.step = Step::Rename,
        Order::SealFirst if config.snapshot => {
            me.published = true;
            me.cursor.until = 0;
            me.cursor.refresh();
            me.step = Step::Fold;
        }
        _ => go_deleting(n, k),
    }
}

pub fn go_deleting(n: &mut State, k: usize) {
    if n.compactors[k].doomed_segments | n.compactors[k].doomed_checkpoints == 0 {
        finish(n, k);
    } else {
        n.compactors[k].step = Step::Delete;
    }
}

/// The last part of c9, and c10.
fn delete(config: &Config, s: &State, k: usize, emit: Emit) {
    let rules = &config.rules;
    let c = s.compactors[k];
    let mut n = *s;
    match c.step {
        Step::List => list(
            config,
            s,
            Ask { slow: config.slow == Slow::Everybody, who: format_args!("C{k}"), wanted: Wanted::All },
            |n| &mut n.compactors[k].cursor.listing,
            emit,
            |mut n, names, emit| {
                let me = &mut n.compactors[k];
                me.newest = names.floor();
                me.older = if rules.delete_by_older { names.older() } else { names.floor() };
                me.doomed_segments = names.segments & ((1 << (me.older + 1)) - 1);
                me.doomed_checkpoints = names.checkpoints & ((1 << me.older) - 1);
                me.step = if rules.listed_before_fsync { Step::SyncFolderAfter } else { Step::ReadBack };
                let text = format!("C{k} lists for the deletion: older {}, newest {}", me.older, me.newest);
                emit(n, format_args!("{text}"));
            },
        ),
        Step::SyncFolderAfter => {
            if rules.checkpoint_name_synced {
                n.sync_folder();
            }
            n.compactors[k].step = if rules.listed_before_fsync { Step::ReadBack } else { Step::List };
            emit(n, format_args!("C{k} fsyncs the folder"));
        }
        Step::ReadBack => {
            let checks = |number: u8| {
                let checkpoint = &s.checkpoints[number as usize];
                checkpoint.here && !checkpoint.damaged
            };
            let good = checks(c.newest) && checks(c.older);
            if rules.checkpoints_read_back && !good {
                n.compactors[k].doomed_segments = 0;
                n.compactors[k].doomed_checkpoints = 0;
            }
            if checks(c.newest) || config.rules.order != Order::RenameLast {
                after_publishing(config, &mut n, k);
            } else {
                finish(&mut n, k);
            }
            emit(n, format_args!("C{k} reads both checkpoints back: {}", if good { "good" } else { "not good" }));
        }
        _ => {
            let me = &mut n.compactors[k];
            let (number, what);
            if me.doomed_segments != 0 {
                number = me.doomed_segments.trailing_zeros() as u8;
                me.doomed_segments &= me.doomed_segments - 1;
                n.names[number as usize].now = NONE;
                n.mark(reached::DELETED);
                what = "seg";
            } else {
                number = me.doomed_checkpoints.trailing_zeros() as u8;
                me.doomed_checkpoints &= me.doomed_checkpoints - 1;
                n.unlink_checkpoint(number);
                what = "checkpoint";
            }
            go_deleting(&mut n, k);
            emit(n, format_args!("C{k} deletes {what} {number}"));
        }
    }
}
