//! Faults that no process causes: power loss, a damaged frame or checkpoint, and the page cache dropping
//! what a failed sync left behind.
//!
//! A power loss takes any subset of what no sync covered: names in the log folder one by one (made and
//! removed), headers, lengths, frames; and the folder of `.usage.json` back to an earlier moment.

use std::fmt;

use crate::compactor;
use crate::fold::{external_sum, fresh};
use crate::listing::for_each_subset;
use crate::rules::Config;
use crate::search::{Bytes, Emit, Fingerprints, fingerprint};
use crate::state::{CELLS, DAMAGED, Header, Inode, NONE, NUMBERS, State, reached};

pub fn damage_steps(config: &Config, s: &State, emit: Emit) {
    let floor = s.floor();
    let newest = &s.checkpoints[floor as usize];
    let other = (0..floor as usize).any(|i| s.checkpoints[i].here && !s.checkpoints[i].damaged);
    if s.budgets.damaged_checkpoints > 0 && newest.here && !newest.damaged && other {
        let mut n = *s;
        n.budgets.damaged_checkpoints -= 1;
        n.checkpoints[floor as usize].damaged = true;
        n.mark(reached::DAMAGED);
        emit(n, format_args!("DAMAGE: checkpoint {floor}"));
    }
    let resting = s.compactors.iter().all(|c| c.step == compactor::Step::Idle);
    if s.budgets.damaged_frames > 0 && (config.damage_while_compacting || resting) {
        for i in 0..s.inode_count as usize {
            damage_frames(config, s, i, emit);
        }
    }
    if config.eviction {
        for i in 0..s.inode_count as usize {
            evict(config, s, i, emit);
        }
    }
}

fn damage_frames(config: &Config, s: &State, inode: usize, emit: Emit) {
    let segment = &s.inodes[inode];
    for at in 0..config.capacity as usize - 1 {
        let head = segment.cells[at];
        if segment.header == Header::Good && head & 1 == 1 && head != DAMAGED && segment.cells[at + 1] == head + 1 {
            let mut n = *s;
            n.budgets.damaged_frames -= 1;
            n.inodes[inode].cells[at] = DAMAGED;
            n.damaged_event = (head - 1) / 2;
            n.mark(reached::DAMAGED);
            emit(n, format_args!("DAMAGE: frame {} in seg {}", (head - 1) / 2, segment.number));
        }
    }
}

/// The cache drops clean pages; what is read again comes from the disk.
fn evict(config: &Config, s: &State, inode: usize, emit: Emit) {
    let segment = &s.inodes[inode];
    let lost = segment.poisoned & !segment.on_disk;
    let header = segment.header_poisoned && config.header_eviction;
    if lost != 0 || header {
        let mut n = *s;
        n.mark(reached::EVICTED);
        let number = segment.number;
        let segment = &mut n.inodes[inode];
        for (at, cell) in segment.cells.iter_mut().enumerate() {
            *cell = if lost >> at & 1 == 1 { 0 } else { *cell };
        }
        segment.on_disk |= lost;
        if header {
            (segment.header, segment.header_poisoned) = (Header::Bad, false);
        }
        emit(n, format_args!("the page cache drops what was not written of seg {number}"));
    }
}

pub fn loss_steps(config: &Config, s: &State, seen: Option<&mut Fingerprints>, emit: Emit) {
    if s.budgets.power_losses == 0 {
        return;
    }
    let mut n = *s;
    stop_everybody(config, &mut n);
    if let Some(seen) = seen {
        // What is lost does not depend on where the processes were, but on what is on disk.
        let mut like = n;
        like.budgets = s.budgets;
        like.canonicalise(config);
        if !seen.insert(fingerprint(&like, &mut Bytes::default())) {
            return;
        }
    }
    n.mark(reached::LOSS);
    let nothing = Lost { before: None, what: What::Nothing, number: 0 };
    if !s.folder_on_disk {
        let mut gone = n;
        gone.names.iter_mut().for_each(|name| (name.now, name.disk) = (NONE, NONE));
        gone.checkpoints = Default::default();
        lose_usage(config, s, gone, nothing.and(true, What::Folder, 0), emit);
    }
    lose_names(config, s, n, 0, nothing, emit);
}

fn stop_everybody(config: &Config, n: &mut State) {
    n.budgets.power_losses -= 1;
    for k in 0..config.writers.len() {
        n.writers[k].dies(config, k);
    }
    for k in 0..2 {
        compactor::finish(n, k);
    }
    n.reader.starts_again(config);
    n.stock.dies();
    (n.compact_lock, n.usage_lock) = (NONE, NONE);
}

/// What one loss took, for the trace: a list that costs nothing while nobody reads it.
#[derive(Clone, Copy)]
struct Lost<'a> {
    before: Option<&'a Lost<'a>>,
    what: What,
    number: u8,
}

#[derive(Clone, Copy)]
enum What {
    Nothing,
    Folder,
    SegmentName,
    CheckpointName,
    Header,
    Length(u8),
    Frames(u16),
    File,
}

impl<'a> Lost<'a> {
    fn and(&'a self, really: bool, what: What, number: usize) -> Lost<'a> {
        let what = if really { what } else { What::Nothing };
        Lost { before: Some(self), what, number: number as u8 }
    }
}

impl fmt::Display for Lost<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if let Some(before) = self.before {
            before.fmt(f)?;
        }
        let number = self.number;
        match self.what {
            What::Nothing => Ok(()),
            What::Folder => write!(f, " the whole log folder;"),
            What::SegmentName => write!(f, " name of seg {number};"),
            What::CheckpointName => write!(f, " name of checkpoint {number};"),
            What::Header => write!(f, " header of seg {number};"),
            What::Length(len) => write!(f, " seg {number} is {len} long;"),
            What::Frames(at) => write!(f, " frames of seg {number} at {at:b};"),
            What::File => write!(f, " .usage.json is {number} again;"),
        }
    }
}

/// Every name is what it was on disk, what it is now, or (made anew over an unlinked one) not there.
fn lose_names(config: &Config, s: &State, n: State, number: usize, lost: Lost, emit: Emit) {
    if number == NUMBERS {
        // Below the floor nothing is ever read, so what is lost there makes no difference.
        let rebuilds = s.budgets.damaged_checkpoints > 0 || s.checkpoints.iter().any(|c| c.damaged);
        let first = if rebuilds { n.listed().older() } else { n.floor() };
        return lose_contents(config, s, n, first as usize + 1, lost, emit);
    }
    let name = s.names[number];
    let checkpoint = s.checkpoints[number];
    let mut inodes = [Some(name.now), None, None];
    if name.disk != name.now {
        inodes[1] = Some(name.disk);
        inodes[2] = (name.disk != NONE && name.now != NONE).then_some(NONE);
    }
    for inode in inodes.into_iter().flatten() {
        for here in [true, false] {
            if here != checkpoint.here && here != checkpoint.on_disk {
                continue;
            }
            let mut n = n;
            n.names[number].now = inode;
            n.checkpoints[number].here = here;
            let lost = lost.and(inode != name.now, What::SegmentName, number);
            let lost = lost.and(here != checkpoint.here, What::CheckpointName, number);
            lose_names(config, s, n, number + 1, lost, emit);
        }
    }
}

fn lose_contents(config: &Config, s: &State, n: State, number: usize, lost: Lost, emit: Emit) {
    if number == NUMBERS {
        return lose_usage(config, s, n, lost, emit);
    }
    let inode = n.names[number].now;
    if inode == NONE {
        return lose_contents(config, s, n, number + 1, lost, emit);
    }
    let before = n.inodes[inode as usize];
    if !before.header_on_disk {
        let mut n = n;
        n.inodes[inode as usize] = Inode { header: Header::Bad, len: before.len, ..Inode::new(number as u8) };
        lose_contents(config, s, n, number + 1, lost.and(true, What::Header, number), emit);
    }
    let mut seen = vec![];
    for len in before.disk_len..=before.len {
        let dirty = before.dirty() & ((1u16 << len) - 1) as u8;
        let heads = (0..len).filter(|&at| dirty >> at & 1 == 1 && before.cells[at as usize] & 1 == 1);
        let heads: u16 = heads.fold(0, |mask, at| mask | 1 << at);
        for_each_subset(heads, |zeroed| {
            let after = Inode { len, cells: without_frames(&before, len, zeroed), ..before };
            if seen.contains(&(len, after.cells)) {
                return;
            }
            seen.push((len, after.cells));
            let mut n = n;
            if zeroed != 0 {
                n.mark(reached::FRAME_LOST);
            }
            n.inodes[inode as usize] = after;
            let lost = lost.and(len < before.len, What::Length(len), number);
            let lost = lost.and(zeroed != 0, What::Frames(zeroed), number);
            lose_contents(config, s, n, number + 1, lost, emit);
        });
    }
}

/// The cells of a segment that is cut to `len`, with the frames at `zeroed` not written.
fn without_frames(before: &Inode, len: u8, zeroed: u16) -> [u8; CELLS] {
    let mut cells = before.cells;
    for (at, cell) in cells.iter_mut().enumerate() {
        let zeroed_at = |at: usize| zeroed >> at & 1 == 1;
        let tail_of_zeroed = at > 0 && zeroed_at(at - 1) && before.cells[at] == before.cells[at - 1] + 1;
        if at >= len as usize || zeroed_at(at) || tail_of_zeroed {
            *cell = 0;
        }
    }
    cells
}

fn lose_usage(config: &Config, s: &State, n: State, lost: Lost, emit: Emit) {
    if !config.snapshot {
        return settle(config, s, n, lost, emit);
    }
    for (age, &moment) in s.usage.moments().iter().rev().enumerate() {
        let mut n = n;
        n.usage.goes_back_to(moment);
        n.stock_done = moment.stock_done;
        if age > 0 {
            n.mark(reached::FILE_LOST);
        }
        settle(config, s, n, lost.and(age > 0, What::File, moment.file as usize), emit);
    }
}

/// What is there now is on disk, and must stay: nobody may change the answer any more.
fn settle(config: &Config, s: &State, mut n: State, lost: Lost, emit: Emit) {
    n.everything_is_on_disk();
    let log = fresh(config, &n);
    let floor = n.floor() as usize;
    let highest = n.highest() as usize;
    for number in floor + 1..=highest {
        let inode = n.names[number].now;
        if inode == NONE {
            n.mark(reached::MISSING);
        } else if n.inodes[inode as usize].header == Header::Bad {
            n.mark(reached::BAD_HEADER);
        } else if number < highest && n.inodes[inode as usize].len < config.capacity {
            n.mark(reached::SHORT_WITH_SUCCESSOR);
        }
    }
    if u16::from(s.durable) & !log.mask() != 0 {
        n.broken = Some("an event acknowledged at level Disk is lost with the power");
    }
    n.durable = log.mask() as u8;
    // A stock process that did not sync loses its own increment, unless the log has it already.
    n.stock_done = n.stock_done.max(external_sum(config, &log, &n.externals));
    emit(n, format_args!("POWER LOSS:{lost}"));
}
