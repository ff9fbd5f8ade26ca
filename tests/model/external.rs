//! c5: the compactor appends the external event, as any writer does, and makes it durable.

use crate::compactor::{Step, finish};
use crate::listing::Wanted;
use crate::rules::{Config, Order, Slow};
use crate::search::Emit;
use crate::state::{EXTERNAL_0, Header, NONE, State, reached};
use crate::steps::{Ask, list};

pub fn steps(config: &Config, s: &State, k: usize, emit: Emit) {
    let c = s.compactors[k];
    let mut n = *s;
    match c.step {
        Step::SyncForExternal => sync_folded(s, k, c.cursor.number, emit, Step::SyncFolderForExternal),
        Step::SyncFolderForExternal => {
            n.sync_folder();
            n.compactors[k].step = Step::AppendList;
            emit(n, format_args!("C{k} fsyncs the folder: the external events so far are on disk"));
        }
        Step::AppendList => list(
            config,
            s,
            Ask { slow: config.slow == Slow::Everybody, who: format_args!("C{k}"), wanted: Wanted::Highest },
            |n| &mut n.compactors[k].cursor.listing,
            emit,
            |mut n, names, emit| {
                let (highest, floor) = (names.highest(), names.floor());
                let me = &mut n.compactors[k];
                me.number = highest.max(floor + 1);
                me.step = if highest > floor { Step::AppendOpen } else { Step::AppendLink };
                emit(n, format_args!("C{k} lists: highest {highest}, floor {floor}"));
            },
        ),
        Step::AppendOpen => {
            let inode = s.names[c.number as usize].now;
            let me = &mut n.compactors[k];
            me.inode = inode;
            me.step = Step::AppendCheck;
            if inode == NONE {
                me.step = Step::AppendList;
            } else if s.inodes[inode as usize].header == Header::Bad {
                (me.number, me.inode, me.step) = (c.number + 1, NONE, Step::AppendLink);
                me.error_pending = false;
            }
            emit(n, format_args!("C{k} opens seg {}", c.number));
        }
        Step::AppendCheck => list(
            config,
            s,
            Ask { slow: config.slow == Slow::Everybody, who: format_args!("C{k}"), wanted: Wanted::Floor },
            |n| &mut n.compactors[k].cursor.listing,
            emit,
            |mut n, names, emit| {
                let refused = names.floor() >= c.number;
                n.compactors[k].step = if refused { Step::AppendList } else { Step::Append };
                emit(n, format_args!("C{k} checks seg {} (R2): floor {}", c.number, names.floor()));
            },
        ),
        Step::Append => {
            let segment = &mut n.inodes[c.inode as usize];
            let start = segment.len as usize;
            let inside = start + 2 <= config.capacity as usize;
            for (at, cell) in (start..config.capacity as usize).zip([1 + 2 * c.external, 2 + 2 * c.external]) {
                segment.cells[at] = cell;
            }
            segment.len = (segment.len + 2).min(config.capacity);
            let me = &mut n.compactors[k];
            if inside {
                n.mark(reached::EXTERNAL);
                let sync = n.disk_matters(config) && config.rules.external_synced;
                let rewrite = config.rules.header_rewritten_for_disk && config.failed_syncs > 0;
                n.compactors[k].step = match sync {
                    true if rewrite => Step::AppendHeader,
                    true => Step::AppendSync,
                    false => after_append(config),
                };
            } else {
                (me.number, me.inode, me.step) = (c.number + 1, NONE, Step::AppendLink);
                me.error_pending = false;
                n.mark(reached::VOIDED);
            }
            let e = s.externals[(c.external - EXTERNAL_0) as usize];
            emit(n, format_args!("C{k} writes x{} {e:?} to seg {} at {start}", c.external - EXTERNAL_0, c.number));
        }
        Step::AppendHeader => {
            let segment = &mut n.inodes[c.inode as usize];
            (segment.header, segment.header_poisoned) = (Header::Good, false);
            n.compactors[k].step = Step::AppendSync;
            emit(n, format_args!("C{k} writes the header of seg {} once more", c.number));
        }
        Step::AppendSync => {
            if c.error_pending || s.budgets.failed_syncs > 0 {
                let mut n = *s;
                if !c.error_pending {
                    n.sync_fails(c.inode);
                }
                n.compactors[k].error_pending = false;
                n.compactors[k].step = Step::AppendSeal;
                emit(n, format_args!("C{k} fdatasyncs seg {}: EIO", c.number));
            }
            if c.error_pending {
                return;
            }
            n.inodes[c.inode as usize].sync();
            n.compactors[k].step = Step::AppendSyncFolder;
            emit(n, format_args!("C{k} fdatasyncs seg {}", c.number));
        }
        Step::AppendSyncFolder => {
            n.sync_folder();
            n.folder_on_disk = true;
            n.compactors[k].step = after_append(config);
            emit(n, format_args!("C{k} fsyncs the folder: the external event is on disk"));
        }
        Step::AppendSeal => {
            // The event is in the log, on disk or not. Either it is written once more under the same
            // temporary name, which makes it the same event, or the run ends and leaves the temporary file.
            n.inodes[c.inode as usize].len = config.capacity;
            let me = &mut n.compactors[k];
            (me.number, me.inode, me.step) = (c.number + 1, NONE, Step::AppendLink);
            me.error_pending = false;
            if config.rules.external_appended_again {
                n.mark(reached::REPEATED);
            } else {
                finish(&mut n, k);
            }
            emit(n, format_args!("C{k} seals seg {} after the failed sync", c.number));
        }
        _ => {
            if c.number > config.highest_number {
                n.mark(reached::NUMBER_LIMIT);
                finish(&mut n, k);
                return emit(n, format_args!("C{k} stops at the highest number"));
            }
            let made = n.link_segment(c.number);
            n.compactors[k].step = Step::AppendList;
            emit(n, format_args!("C{k} links seg {}: {}", c.number, if made { "made" } else { "exists" }));
        }
    }
}

fn after_append(config: &Config) -> Step {
    if config.rules.order == Order::RenameLast { Step::SealList } else { Step::Rename }
}

/// `fdatasync` of one segment after the other, from the one at `number` up to `last`. The descriptors are
/// those that were folded from; a name that is gone was compacted by somebody else.
pub fn sync_folded(s: &State, k: usize, last: u8, emit: Emit, next: Step) {
    let c = s.compactors[k];
    let mut n = *s;
    let number = c.number;
    let inode = s.names[number as usize].now;
    if number <= last && inode != NONE && s.budgets.failed_syncs > 0 {
        let mut n = *s;
        n.sync_fails(inode);
        finish(&mut n, k);
        emit(n, format_args!("C{k} fdatasyncs seg {number}: EIO, gives up"));
    }
    let me = &mut n.compactors[k];
    me.number += 1;
    if me.number > last {
        me.step = next;
    }
    if inode != NONE {
        n.inodes[inode as usize].sync();
    }
    emit(n, format_args!("C{k} fdatasyncs seg {number}"));
}
