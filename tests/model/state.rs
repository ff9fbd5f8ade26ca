//! One state of the world: the log folder, the folder of `.usage.json`, and where every process is.

use crate::compactor::Compactor;
use crate::fold::Fold;
use crate::reader::Reader;
use crate::rules::Config;
use crate::search::Bytes;
use crate::snapshot::{Stock, UsageFolder};
use crate::writer::Writer;

/// Segment and checkpoint numbers are below this; names are kept in 16-bit masks.
pub const NUMBERS: usize = 10;
pub const CELLS: usize = 5;
pub const INODES: usize = 14;
pub const NONE: u8 = 255;
/// Frames below this are usage events, from here on external events.
pub const EXTERNAL_0: u8 = 8;
pub const EXTERNALS: usize = 6;
/// A damaged cell. Cells: 0 is a zero byte, 1 + 2f and 2 + 2f are head and tail of frame f.
pub const DAMAGED: u8 = 251;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    Good,
    Bad,
}

/// A segment's file. Lengths stop at the capacity: bytes beyond it are never looked at.
#[derive(Clone, Copy, Debug)]
pub struct Inode {
    pub number: u8,
    pub header: Header,
    pub header_on_disk: bool,
    /// A failed sync left it clean in the cache and absent from the disk; no later sync writes it.
    pub header_poisoned: bool,
    pub len: u8,
    pub disk_len: u8,
    pub cells: [u8; CELLS],
    /// Cells that are on disk, and cells that a failed sync left behind.
    pub on_disk: u8,
    pub poisoned: u8,
}

impl Inode {
    pub fn new(number: u8) -> Inode {
        Inode {
            number,
            header: Header::Good,
            header_on_disk: false,
            header_poisoned: false,
            len: 0,
            disk_len: 0,
            cells: [0; CELLS],
            on_disk: 0,
            poisoned: 0,
        }
    }

    pub fn dirty(&self) -> u8 {
        ((1u16 << self.len) - 1) as u8 & !self.on_disk
    }

    /// `fdatasync` that worked. What an earlier one left behind is clean by now and not written.
    pub fn sync(&mut self) {
        self.on_disk |= self.dirty() & !self.poisoned;
        self.disk_len = self.len;
        self.header_on_disk |= !self.header_poisoned;
    }

    /// `fdatasync` that failed: the pages are clean now, on disk or not.
    pub fn sync_fails(&mut self) {
        self.poisoned |= self.dirty();
        self.header_poisoned |= !self.header_on_disk;
    }

    fn everything_is_on_disk(&mut self) {
        self.header_on_disk = true;
        self.header_poisoned = false;
        self.disk_len = self.len;
        self.on_disk |= self.dirty();
        self.poisoned = 0;
    }
}

/// A segment's name: the inode it has now, and the one it has on disk.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    pub now: u8,
    pub disk: u8,
}

/// `checkpoint-<n>`. Its contents are synced before the link, so only its name can be lost.
#[derive(Clone, Copy, Default, Debug)]
pub struct Checkpoint {
    pub here: bool,
    pub on_disk: bool,
    pub damaged: bool,
    pub fold: Fold,
}

/// `external {differences, before, after, temporary name}` with one counter; it never changes.
#[derive(Clone, Copy, Default, Debug)]
pub struct External {
    pub difference: u8,
    pub total: u8,
    pub before: u8,
    pub after: u8,
}

#[derive(Clone, Copy, Debug)]
pub struct Budgets {
    pub short_writes: u8,
    pub crashes: u8,
    pub power_losses: u8,
    pub failed_syncs: u8,
    pub lost_locks: u8,
    pub damaged_checkpoints: u8,
    pub damaged_frames: u8,
}

#[derive(Clone, Copy, Debug)]
pub struct State {
    pub inodes: [Inode; INODES],
    pub inode_count: u8,
    pub names: [Name; NUMBERS],
    pub checkpoints: [Checkpoint; NUMBERS],
    /// The log folder's own name is on disk (its parent was synced).
    pub folder_on_disk: bool,
    pub usage: UsageFolder,
    pub externals: [External; EXTERNALS],
    pub external_count: u8,
    pub writers: [Writer; 3],
    pub compactors: [Compactor; 2],
    pub reader: Reader,
    pub stock: Stock,
    /// Which compactor holds compact.lock; who holds `.usage.json.lock` (NONE: nobody).
    pub compact_lock: u8,
    pub usage_lock: u8,
    /// Position of a descriptor that two writers share, against the rules.
    pub shared_offset: u8,
    pub budgets: Budgets,
    /// What an observer knows. Usage events acknowledged at level Disk:
    pub durable: u8,
    /// Increments by stock processes that happened (and, after a loss, survived).
    pub stock_done: u8,
    /// The event whose frame was damaged.
    pub damaged_event: u8,
    /// Of the step that led here, not part of the state: what was reached, and what went wrong.
    pub reached: u32,
    pub broken: Option<&'static str>,
}

/// Rare situations that a run has to reach for its result to mean something.
pub mod reached {
    pub const VOIDED: u32 = 0;
    pub const RECREATED: u32 = 1;
    pub const REFUSED_BY_FLOOR: u32 = 2;
    pub const SHORT: u32 = 3;
    pub const MISSING: u32 = 4;
    pub const BAD_HEADER: u32 = 5;
    pub const SHORT_WITH_SUCCESSOR: u32 = 6;
    pub const FRAME_LOST: u32 = 7;
    pub const STALE_LISTING: u32 = 8;
    pub const VOID_LISTING: u32 = 9;
    pub const SYNC_FAILED: u32 = 10;
    pub const EXISTS: u32 = 11;
    pub const READER_GAP: u32 = 12;
    pub const READER_RESTART: u32 = 13;
    pub const DELETED: u32 = 14;
    pub const CRASHED: u32 = 15;
    pub const DAMAGED: u32 = 16;
    pub const EXTERNAL: u32 = 17;
    pub const TEMP_IS_EVIDENCE: u32 = 18;
    pub const VIEW_AGAIN: u32 = 19;
    pub const LOCK_BUSY: u32 = 20;
    pub const FILE_LOST: u32 = 21;
    pub const EVICTED: u32 = 22;
    pub const REPEATED: u32 = 23;
    pub const NUMBER_LIMIT: u32 = 24;
    pub const LOSS: u32 = 25;
    pub const BASE_FIRST: u32 = 26;
    pub const NAMES: [&str; 27] = [
        "voided appends",
        "re-created below the floor",
        "refused by R2",
        "short writes",
        "losses with a missing segment",
        "losses with a bad header",
        "losses with a short segment and a successor",
        "losses of a frame",
        "listings that missed something",
        "void listings",
        "failed syncs",
        "link said EEXIST",
        "gaps reported by the reader",
        "reader restarts",
        "segments deleted",
        "compactor deaths",
        "damages",
        "external events",
        "base told by the temporary file",
        "views read again",
        "usage lock busy",
        "losses of a stock write",
        "evictions",
        "events appended again",
        "stopped at the highest number",
        "power losses",
        "bases published first",
    ];
}

fn top(mask: u16) -> u8 {
    15u32.saturating_sub(mask.leading_zeros()) as u8
}

/// The names that a listing showed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Names {
    pub segments: u16,
    pub checkpoints: u16,
}

impl Names {
    pub fn highest(&self) -> u8 {
        top(self.segments)
    }

    pub fn floor(&self) -> u8 {
        top(self.checkpoints)
    }

    /// The older of the two newest checkpoints.
    pub fn older(&self) -> u8 {
        top(self.checkpoints & !(1 << self.floor()))
    }
}

impl State {
    pub fn mark(&mut self, what: u32) {
        self.reached |= 1 << what;
    }

    pub fn listed(&self) -> Names {
        let (mut segments, mut checkpoints) = (0, 0);
        for n in 0..NUMBERS {
            segments |= u16::from(self.names[n].now != NONE) << n;
            checkpoints |= u16::from(self.checkpoints[n].here) << n;
        }
        Names { segments, checkpoints }
    }

    pub fn highest(&self) -> u8 {
        self.listed().highest()
    }

    pub fn floor(&self) -> u8 {
        self.listed().floor()
    }

    pub fn newest_good_checkpoint(&self) -> Option<u8> {
        (0..NUMBERS).rev().find(|&n| self.checkpoints[n].here && !self.checkpoints[n].damaged).map(|n| n as u8)
    }

    /// `link` of a new segment: false when the name exists.
    pub fn link_segment(&mut self, number: u8) -> bool {
        if self.names[number as usize].now != NONE {
            self.mark(reached::EXISTS);
            return false;
        }
        if number <= self.floor() {
            self.mark(reached::RECREATED);
        }
        self.inodes[self.inode_count as usize] = Inode::new(number);
        self.names[number as usize].now = self.inode_count;
        self.inode_count += 1;
        true
    }

    /// Whether what is on disk can still make a difference.
    pub fn disk_matters(&self, config: &Config) -> bool {
        self.budgets.power_losses > 0 || (config.eviction && config.failed_syncs > 0)
    }

    pub fn sync_folder(&mut self) {
        for name in &mut self.names {
            name.disk = name.now;
        }
        for checkpoint in &mut self.checkpoints {
            checkpoint.on_disk = checkpoint.here;
            if !checkpoint.here {
                *checkpoint = Checkpoint::default();
            }
        }
    }

    pub fn unlink_checkpoint(&mut self, number: u8) {
        let checkpoint = &mut self.checkpoints[number as usize];
        checkpoint.here = false;
        if !checkpoint.on_disk {
            *checkpoint = Checkpoint::default();
        }
    }

    /// After a loss, and when no loss can come any more, there is nothing that is not on disk.
    pub fn everything_is_on_disk(&mut self) {
        self.sync_folder();
        self.folder_on_disk = true;
        self.inodes.iter_mut().for_each(Inode::everything_is_on_disk);
        self.writers.iter_mut().for_each(|w| w.folder_synced = false);
    }

    /// `fdatasync` of a segment fails: every descriptor that is open now will hear of it once.
    pub fn sync_fails(&mut self, inode: u8) {
        self.mark(reached::SYNC_FAILED);
        self.budgets.failed_syncs -= 1;
        self.inodes[inode as usize].sync_fails();
        self.writers.iter_mut().for_each(|w| w.error_pending |= w.inode == inode);
        self.compactors.iter_mut().for_each(|c| c.error_pending |= c.inode == inode);
    }

    fn for_each_inode(&mut self, mut act: impl FnMut(&mut u8)) {
        for name in &mut self.names {
            act(&mut name.now);
            act(&mut name.disk);
        }
        self.writers.iter_mut().for_each(|w| act(&mut w.inode));
        for compactor in &mut self.compactors {
            act(&mut compactor.inode);
            act(&mut compactor.cursor.inode);
        }
        act(&mut self.reader.cursor.inode);
    }

    /// Gives states that differ in nothing that matters the same form.
    pub fn canonicalise(&mut self, config: &Config) {
        if !self.disk_matters(config) {
            self.everything_is_on_disk();
        }
        let names = self.listed();
        self.writers.iter_mut().for_each(|w| w.listing.track(names));
        self.compactors.iter_mut().for_each(|c| c.cursor.listing.track(names));
        self.reader.cursor.listing.track(names);
        // Inodes are numbered in the order in which they are met; what nobody can reach is dropped.
        let mut map = [NONE; INODES];
        let mut count = 0;
        let old = self.inodes;
        let mut new = [Inode::new(0); INODES];
        self.for_each_inode(|inode| {
            if *inode == NONE {
                return;
            }
            let slot = &mut map[*inode as usize];
            if *slot == NONE {
                *slot = count;
                new[count as usize] = old[*inode as usize];
                count += 1;
            }
            *inode = *slot;
        });
        self.inodes = new;
        self.inode_count = count;
        if config.compactors == 2 {
            self.order_compactors();
        }
    }

    /// Compactors are alike: the two orders are one state.
    fn order_compactors(&mut self) {
        let (mut a, mut b) = (Bytes::default(), Bytes::default());
        self.compactors[0].encode(&mut a);
        self.compactors[1].encode(&mut b);
        a.put(u8::from(self.compact_lock == 0) + 2 * u8::from(self.usage_lock == 0));
        b.put(u8::from(self.compact_lock == 1) + 2 * u8::from(self.usage_lock == 1));
        if a.as_slice() > b.as_slice() {
            self.compactors.swap(0, 1);
            for lock in [&mut self.compact_lock, &mut self.usage_lock] {
                *lock = if *lock < 2 { 1 - *lock } else { *lock };
            }
        }
    }

    /// Everything that tells states apart, in few bytes.
    pub fn encode(&self, out: &mut Bytes) {
        for inode in &self.inodes[..self.inode_count as usize] {
            let flags = u8::from(inode.header == Header::Bad)
                | u8::from(inode.header_on_disk) << 1
                | u8::from(inode.header_poisoned) << 2;
            out.put(inode.number << 4 | flags);
            out.put(inode.len << 4 | inode.disk_len);
            out.put_all(&inode.cells);
            out.put(inode.on_disk);
            out.put(inode.poisoned);
        }
        for n in 0..NUMBERS {
            out.put((self.names[n].now & 15) << 4 | self.names[n].disk & 15);
            let checkpoint = &self.checkpoints[n];
            let flags =
                u8::from(checkpoint.here) | u8::from(checkpoint.on_disk) << 1 | u8::from(checkpoint.damaged) << 2;
            out.put(flags);
            if flags != 0 {
                out.put_fold(&checkpoint.fold);
            }
        }
        self.writers.iter().for_each(|w| w.encode(out));
        self.compactors.iter().for_each(|c| c.encode(out));
        self.reader.encode(out);
        self.usage.encode(out);
        self.stock.encode(out);
        for external in &self.externals[..self.external_count as usize] {
            out.put(external.difference << 4 | external.before);
            out.put(external.total << 4 | external.after);
        }
        let b = &self.budgets;
        out.put(b.short_writes << 6 | b.crashes << 4 | b.power_losses << 2 | b.failed_syncs);
        out.put(b.lost_locks << 6 | b.damaged_checkpoints << 4 | b.damaged_frames << 2 | u8::from(self.folder_on_disk));
        out.put_all(&[self.compact_lock, self.usage_lock, self.shared_offset, self.durable]);
        out.put_all(&[self.stock_done, self.damaged_event]);
    }
}
