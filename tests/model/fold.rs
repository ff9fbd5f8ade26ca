//! What a reader makes of the bytes of a segment: events in log order, and gaps.

use crate::rules::Config;
use crate::state::{CELLS, EXTERNAL_0, External, Header, Inode, NONE, State};

/// Events and gaps in log order. An event is four bits (its number + 1), a gap ten (segment, from, to).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fold {
    pub events: u64,
    pub gaps: u64,
}

pub const MISSING: (u8, u8) = (7, 7);
pub const BAD_HEADER: (u8, u8) = (6, 6);

impl Fold {
    pub fn push(&mut self, event: u8) {
        let at = 4 * self.len();
        assert!(at < 64, "too many events for the encoding");
        self.events |= u64::from(event + 1) << at;
    }

    pub fn gap(&mut self, number: u8, (from, to): (u8, u8)) {
        let used = (64 - self.gaps.leading_zeros()).div_ceil(10);
        assert!(used < 6, "too many gaps for the encoding");
        let gap = u64::from(number) << 6 | u64::from(from) << 3 | u64::from(to);
        self.gaps |= gap << (10 * used);
    }

    pub fn len(&self) -> u32 {
        (64 - self.events.leading_zeros()).div_ceil(4)
    }

    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0..self.len()).map(|i| (self.events >> (4 * i) & 15) as u8 - 1)
    }

    pub fn contains(&self, event: u8) -> bool {
        self.iter().any(|e| e == event)
    }

    pub fn usage_count(&self) -> u8 {
        self.iter().filter(|&e| e < EXTERNAL_0).count() as u8
    }

    pub fn mask(&self) -> u16 {
        self.iter().fold(0, |mask, e| mask | 1 << e)
    }

    pub fn newest_external(&self) -> Option<u8> {
        self.iter().filter(|&e| e >= EXTERNAL_0).last()
    }

    /// Whether `self` is a prefix of `other`, in events and in gaps.
    pub fn is_prefix_of(&self, other: &Fold) -> bool {
        let events = (64 - self.events.leading_zeros()).div_ceil(4) * 4;
        let gaps = (64 - self.gaps.leading_zeros()).div_ceil(10) * 10;
        let low = |bits: u32| if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        other.events & low(events) == self.events && other.gaps & low(gaps) == self.gaps
    }

    /// The events without one, for comparisons across damage that took it.
    pub fn without(&self, event: u8) -> Fold {
        let mut fold = Fold::default();
        self.iter().filter(|&e| e != event).for_each(|e| fold.push(e));
        fold
    }

    pub fn show(&self) -> String {
        let mut text = String::from("[");
        for e in self.iter() {
            match e.checked_sub(EXTERNAL_0) {
                Some(x) => text += &format!(" x{x}"),
                None => text += &format!(" e{e}"),
            }
        }
        let mut gaps = self.gaps;
        while gaps != 0 {
            text += &format!(" gap(seg {} {}..{})", gaps >> 6 & 15, gaps >> 3 & 7, gaps & 7);
            gaps >>= 10;
        }
        text + " ]"
    }
}

/// What stock processes did, as far as the external events in a fold tell.
pub fn external_sum(config: &Config, fold: &Fold, externals: &[External]) -> u8 {
    let of = |e: u8| externals[(e - EXTERNAL_0) as usize];
    if config.rules.external_carries_total {
        return fold.newest_external().map_or(0, |e| of(e).total);
    }
    fold.iter().filter(|&e| e >= EXTERNAL_0).map(|e| of(e).difference).sum()
}

fn frame_at(segment: &Inode, at: usize, end: usize) -> Option<u8> {
    let head = segment.cells[at];
    let whole = head & 1 == 1 && at + 2 <= end && segment.cells[at + 1] == head + 1;
    // DAMAGED is odd and its successor is no cell, so it never makes a frame.
    whole.then(|| (head - 1) / 2)
}

/// Reads from `from` up to the length `len`; `ends` says that nothing can follow in this segment
/// (it is sealed, or has a successor). Returns the position at which the next read goes on.
pub fn read(config: &Config, segment: &Inode, from: u8, len: u8, ends: bool, fold: &mut Fold) -> u8 {
    let rules = &config.rules;
    let mut zeroed = *segment;
    for cell in &mut zeroed.cells[len.min(config.capacity) as usize..CELLS] {
        *cell = 0;
    }
    // The bytes that a sealed segment's file lacks up to the capacity count as zeros.
    let end = if ends && rules.short_segment_reads_zeros { config.capacity } else { len.min(config.capacity) };
    let (mut at, end) = (from as usize, end as usize);
    while at < end {
        if let Some(event) = frame_at(&zeroed, at, end) {
            // A second external event with the same temporary file is the same event.
            let repeated = event >= EXTERNAL_0 && rules.external_known_by_temp && fold.contains(event);
            if !repeated {
                fold.push(event);
            }
            at += 2;
            continue;
        }
        let next = (at + 1..end).find(|&q| frame_at(&zeroed, q, end).is_some());
        if let Some(next) = next.filter(|_| rules.search_after_torn_frame) {
            fold.gap(segment.number, (at as u8, next as u8));
            at = next;
            continue;
        }
        if !ends {
            return at as u8; // pending: writes in progress look like this
        }
        let padding = zeroed.cells[at..end].iter().all(|&c| c == 0) || end - at < 2;
        let void = zeroed.cells[at] & 1 == 1 && at + 2 > config.capacity as usize;
        if !padding && !void {
            // It ends with its last cell that is not zero: a seal must not change the report.
            let last = zeroed.cells[at..end].iter().rposition(|&c| c != 0).unwrap_or(0);
            let to = if rules.short_segment_reads_zeros { at + last + 1 } else { end };
            fold.gap(segment.number, (at as u8, to as u8));
        }
        break;
    }
    if ends { config.capacity } else { at as u8 }
}

/// What a reader that starts now and runs alone would find: the truth of the moment.
pub fn fresh(config: &Config, s: &State) -> Fold {
    let base = s.newest_good_checkpoint();
    let mut fold = base.map_or(Fold::default(), |n| s.checkpoints[n as usize].fold);
    let highest = s.highest();
    for number in base.unwrap_or(0) + 1..=highest {
        let inode = s.names[number as usize].now;
        if inode == NONE {
            fold.gap(number, MISSING);
            continue;
        }
        let segment = &s.inodes[inode as usize];
        if segment.header == Header::Bad {
            fold.gap(number, BAD_HEADER);
        } else {
            let ends = segment.len >= config.capacity || number < highest;
            read(config, segment, 0, segment.len, ends, &mut fold);
        }
    }
    fold
}
