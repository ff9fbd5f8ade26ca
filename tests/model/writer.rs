//! A writer: list, open, R2, append, `lseek`; for level Disk `fdatasync` and `fsync` of the folder; when the
//! segment is full, link the next. The offset after an append is private to the process and cannot be
//! changed by anyone, so `write` and `lseek` are one step here, except on a shared descriptor.

use crate::fold::fresh;
use crate::listing::{Listing, Wanted};
use crate::rules::{Config, FailedSync, Slow};
use crate::search::{Bytes, Emit};
use crate::state::{Header, NONE, Names, State, reached};
use crate::steps::{Ask, list};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    List,
    Open,
    /// R2: the listing after the open.
    Check,
    /// Seal the lowest segment below that a loss left unsealed.
    SealShort,
    Append,
    /// Where did the append end? Only on a shared descriptor a step of its own.
    Offset,
    /// Write the same header again, so that the next `fdatasync` covers it whatever an earlier one left.
    Header,
    Sync,
    SyncFolder,
    /// After a failed sync.
    Seal,
    Link,
    Done,
}

#[derive(Clone, Copy, Debug)]
pub struct Writer {
    pub step: Step,
    pub begun: bool,
    pub batch: u8,
    pub number: u8,
    pub inode: u8,
    /// Events of the batch that are not in the log; that are, but not acknowledged.
    pub left: u8,
    pub pending: u8,
    /// This process synced the folder since it opened the segment.
    pub folder_synced: bool,
    /// The kernel reports a failed write-back once to every descriptor that was open at that time.
    pub error_pending: bool,
    pub listing: Listing,
}

impl Writer {
    pub fn new() -> Writer {
        Writer {
            step: Step::Done,
            begun: false,
            batch: 0,
            number: 0,
            inode: NONE,
            left: 0,
            pending: 0,
            folder_synced: false,
            error_pending: false,
            listing: Listing::closed(0),
        }
    }

    /// Sets the first batch, or the one at `self.batch`; done when there is none.
    pub fn begin(&mut self, config: &Config, k: usize, batches: usize) {
        let batch = self.batch as usize;
        if batch >= batches {
            let (begun, batch) = (self.begun, self.batch);
            *self = Writer { begun, batch, ..Writer::new() };
            return;
        }
        self.left = config.writers[k][batch].events;
        self.pending = 0;
        self.step = if self.inode == NONE { Step::List } else { Step::Append };
    }

    pub fn inherit(&mut self, inode: u8, number: u8) {
        if self.step != Step::Done {
            (self.inode, self.number, self.step) = (inode, number, Step::Append);
        }
    }

    fn close(&mut self) {
        (self.inode, self.number) = (NONE, 0);
        (self.folder_synced, self.error_pending) = (false, false);
    }

    /// The process is gone; what it had not finished is never acknowledged. The next batch has a new one.
    pub fn dies(&mut self, config: &Config, k: usize) {
        if self.step != Step::Done {
            let untouched = self.step == Step::List
                && self.inode == NONE
                && self.left == config.writers[k][self.batch as usize].events;
            self.close();
            self.batch += u8::from(!untouched);
            self.listing = Listing::closed(0);
            self.begin(config, k, config.writers[k].len());
        }
    }

    pub fn encode(&self, out: &mut Bytes) {
        out.put(
            self.step as u8
                | u8::from(self.begun) << 7
                | u8::from(self.folder_synced) << 6
                | u8::from(self.error_pending) << 5,
        );
        out.put(self.batch << 4 | self.number);
        out.put_all(&[self.inode, self.left, self.pending]);
        self.listing.encode(out);
    }
}

/// Writers with the same programme are alike, so the one that begins first is called the first.
fn waits_for_its_twin(config: &Config, s: &State, k: usize) -> bool {
    let shape = |k: usize| config.writers[k].iter().map(|b| (b.events.count_ones(), b.disk)).collect::<Vec<_>>();
    k > 0 && !s.writers[k].begun && !s.writers[k - 1].begun && shape(k) == shape(k - 1)
}

pub fn steps(config: &Config, s: &State, k: usize, emit: Emit) {
    let rules = &config.rules;
    let w = s.writers[k];
    if w.step == Step::Done || waits_for_its_twin(config, s, k) {
        return;
    }
    let mut n = *s;
    n.writers[k].begun = true;
    match w.step {
        Step::List => list(
            config,
            &n,
            Ask { slow: config.slow == Slow::Everybody, who: format_args!("W{k}"), wanted: Wanted::Highest },
            |n| &mut n.writers[k].listing,
            emit,
            |mut n, names, emit| {
                let (highest, floor) = (names.highest(), names.floor());
                if highest > floor {
                    (n.writers[k].step, n.writers[k].number) = (Step::Open, highest);
                } else {
                    go_and_link(config, &mut n, k, floor + 1);
                }
                emit(n, format_args!("W{k} lists: highest {highest}, floor {floor}"));
            },
        ),
        Step::Open => {
            let inode = s.names[w.number as usize].now;
            let here = inode != NONE;
            let usable = here && (s.inodes[inode as usize].header == Header::Good || !rules.bad_header_is_sealed);
            if !here {
                (n.writers[k].step, n.writers[k].number) = (Step::List, 0);
            } else if !usable {
                go_and_link(config, &mut n, k, w.number + 1);
            } else {
                n.writers[k].inode = inode;
                let check = rules.writer_checks_floor && rules.check_after_open;
                n.writers[k].step = if check { Step::Check } else { Step::Append };
            }
            let result = if !here {
                "no such file"
            } else if usable {
                "ok"
            } else {
                "bad header"
            };
            emit(n, format_args!("W{k} opens seg {}: {result}", w.number));
        }
        Step::Check => list(
            config,
            &n,
            Ask { slow: config.slow == Slow::Everybody, who: format_args!("W{k}"), wanted: Wanted::Floor },
            |n| &mut n.writers[k].listing,
            emit,
            |mut n, names: Names, emit| {
                let floor = names.floor();
                if floor >= w.number {
                    n.mark(reached::REFUSED_BY_FLOOR);
                    n.writers[k].close();
                    n.writers[k].step = Step::List;
                } else {
                    let short = config.writers_seal_short && short_below(config, &n, w.number).is_some();
                    n.writers[k].step = if short { Step::SealShort } else { Step::Append };
                }
                emit(n, format_args!("W{k} checks seg {} (R2): floor {floor}", w.number));
            },
        ),
        Step::SealShort => {
            let number = short_below(config, s, w.number);
            if let Some(number) = number {
                n.inodes[n.names[number as usize].now as usize].len = config.capacity;
            }
            if short_below(config, &n, w.number).is_none() {
                n.writers[k].step = Step::Append;
            }
            emit(n, format_args!("W{k} seals seg {number:?}, which a loss left unsealed"));
        }
        Step::Append => append(config, &n, k, emit),
        Step::Offset => {
            let count = w.left.count_ones() as u8;
            accept(config, &mut n, k, s.shared_offset.saturating_sub(2 * count), 2 * count);
            emit(n, format_args!("W{k} asks for the offset: {}", s.shared_offset));
        }
        Step::Header => {
            let segment = &mut n.inodes[w.inode as usize];
            (segment.header, segment.header_poisoned) = (Header::Good, false);
            n.writers[k].step = Step::Sync;
            emit(n, format_args!("W{k} writes the header of seg {} once more", w.number));
        }
        Step::Sync => sync(config, &n, k, emit),
        Step::SyncFolder => {
            n.sync_folder();
            n.folder_on_disk |= rules.parent_synced_for_disk;
            n.writers[k].folder_synced = true;
            acknowledge(config, &mut n, k);
            emit(n, format_args!("W{k} fsyncs the folder: acknowledged at level Disk"));
        }
        Step::Seal => {
            n.inodes[w.inode as usize].len = config.capacity;
            n.writers[k].close();
            go_and_link(config, &mut n, k, w.number + 1);
            emit(n, format_args!("W{k} seals seg {}", w.number));
        }
        Step::Link => {
            let made = n.link_segment(w.number);
            n.writers[k].number = 0;
            n.writers[k].step = Step::List;
            if w.left == 0 {
                next_batch(config, &mut n, k);
            }
            emit(n, format_args!("W{k} links seg {}: {}", w.number, if made { "made" } else { "exists" }));
        }
        Step::Done => {}
    }
}

/// The lowest segment above the floor and below `number` whose file is shorter than the capacity.
fn short_below(config: &Config, s: &State, number: u8) -> Option<u8> {
    (s.floor() + 1..number).find(|&lower| {
        let inode = s.names[lower as usize].now;
        inode != NONE && {
            let segment = &s.inodes[inode as usize];
            segment.header == Header::Good && segment.len < config.capacity
        }
    })
}

fn go_and_link(config: &Config, n: &mut State, k: usize, number: u8) {
    let w = &mut n.writers[k];
    w.close();
    if number > config.highest_number {
        w.step = Step::Done;
        w.batch = config.writers[k].len() as u8;
        n.mark(reached::NUMBER_LIMIT);
    } else {
        (w.step, w.number) = (Step::Link, number);
    }
}

fn next_batch(config: &Config, n: &mut State, k: usize) {
    n.writers[k].batch += 1;
    n.writers[k].begin(config, k, config.writers[k].len());
}

fn events(mask: u8) -> impl Iterator<Item = u8> {
    (0..8).filter(move |e| mask >> e & 1 == 1)
}

/// One `write`: whole, short, or short because the process died in it.
fn append(config: &Config, s: &State, k: usize, emit: Emit) {
    let w = s.writers[k];
    let total = 2 * w.left.count_ones() as u8;
    let start = s.inodes[w.inode as usize].len;
    let shortest = if s.budgets.short_writes > 0 && start < config.capacity { 1 } else { total };
    for written in shortest..=total {
        for dies in [false, true] {
            if dies && written == total {
                continue; // the same as never being scheduled again
            }
            let mut n = *s;
            let segment = &mut n.inodes[w.inode as usize];
            let cells = events(w.left).flat_map(|e| [1 + 2 * e, 2 + 2 * e]).take(written as usize);
            for (at, cell) in (start as usize..config.capacity as usize).zip(cells) {
                segment.cells[at] = cell;
            }
            segment.len = (start + written).min(config.capacity);
            n.shared_offset = if config.rules.private_descriptor { 0 } else { start + written };
            if written < total {
                n.budgets.short_writes -= 1;
                n.mark(reached::SHORT);
            }
            if dies {
                n.writers[k].dies(config, k);
            } else if config.rules.private_descriptor {
                accept(config, &mut n, k, start, written);
            } else {
                n.writers[k].step = Step::Offset;
            }
            let how = if dies { ", dies in it" } else { "" };
            emit(
                n,
                format_args!(
                    "W{k} writes {:?} to seg {} at {start} ({written} of {total} bytes{how})",
                    events(w.left).collect::<Vec<_>>(),
                    w.number
                ),
            );
        }
    }
}

/// Frames that lie wholly in what was written and end within the capacity are in the log.
fn accept(config: &Config, n: &mut State, k: usize, start: u8, written: u8) {
    let mut end = 0;
    for event in events(n.writers[k].left) {
        end += 2;
        let within = start + end <= config.capacity || !config.rules.ack_by_offset;
        if end > written || !within {
            break;
        }
        n.writers[k].left &= !(1 << event);
        n.writers[k].pending |= 1 << event;
    }
    if n.writers[k].left != 0 && start + written > config.capacity {
        n.mark(reached::VOIDED);
    }
    let w = &n.writers[k];
    let disk = config.writers[k][w.batch as usize].disk && n.disk_matters(config);
    if w.pending == 0 || !disk {
        return acknowledge(config, n, k);
    }
    let rewrite = config.rules.header_rewritten_for_disk && config.failed_syncs > 0 && !w.folder_synced;
    n.writers[k].step = if rewrite { Step::Header } else { Step::Sync };
}

/// The caller is told that what is pending is recorded.
fn acknowledge(config: &Config, n: &mut State, k: usize) {
    let w = n.writers[k];
    let log = fresh(config, n);
    if events(w.pending).any(|e| !log.contains(e) && e != n.damaged_event) {
        n.broken = Some("an acknowledged event is not in the log");
    }
    if config.writers[k][w.batch as usize].disk {
        n.durable |= w.pending;
    }
    n.writers[k].pending = 0;
    go_on(config, n, k);
}

/// With what is left of the batch, or with the next one.
fn go_on(config: &Config, n: &mut State, k: usize) {
    let w = n.writers[k];
    if w.left == 0 {
        next_batch(config, n, k);
    } else if n.inodes[w.inode as usize].len >= config.capacity {
        go_and_link(config, n, k, w.number + 1);
    } else {
        n.writers[k].step = Step::Append;
    }
}

fn sync(config: &Config, s: &State, k: usize, emit: Emit) {
    let w = s.writers[k];
    if !w.error_pending {
        let mut n = *s;
        if config.rules.segment_synced_for_disk {
            n.inodes[w.inode as usize].sync();
        }
        let folder = config.rules.folder_synced_for_disk && !w.folder_synced;
        if folder {
            n.writers[k].step = Step::SyncFolder;
        } else {
            acknowledge(config, &mut n, k);
        }
        emit(
            n,
            format_args!(
                "W{k} fdatasyncs seg {}{}",
                w.number,
                if folder { "" } else { ": acknowledged at level Disk" }
            ),
        );
    }
    if w.error_pending || s.budgets.failed_syncs > 0 {
        let mut n = *s;
        if !w.error_pending {
            n.sync_fails(w.inode);
        }
        let me = &mut n.writers[k];
        me.error_pending = false;
        me.step = Step::Seal;
        match config.rules.failed_sync {
            FailedSync::Report => me.pending = 0,
            FailedSync::AppendAgain => {
                me.left |= std::mem::take(&mut me.pending);
                n.mark(reached::REPEATED);
            }
            FailedSync::Retry => me.step = Step::Sync,
        }
        emit(n, format_args!("W{k} fdatasyncs seg {}: EIO", w.number));
    }
}
