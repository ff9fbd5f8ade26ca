//! Reading in order: no lock, nothing written, nobody waited for.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::log::folder::{Folder, MOST_ATTEMPTS};
use crate::log::format::{FIRST_FRAME_OFFSET, SegmentHeader};
use crate::log::scan::{End, Found, Reason, Scan};
use crate::log::segment::{self, Access, Opened, Segment};
use crate::log::{Gap, Position};

/// Whether a live segment is still the one that its name says is asked again after this time.
const PLACE_CHECK: Duration = Duration::from_secs(1);
/// A run of missing segments is reported one by one up to this many; a file with an absurd number makes no endless report.
const MOST_MISSING_REPORTED: usize = 64;
/// So much is read at once: it stays in the processor's cache while it is folded.
const CHUNK_LEN: usize = 256 << 10;
/// A buffer that grew over this is given back after a refresh.
const KEPT_BUFFER_LEN: usize = 64 << 10;

/// What a reader meets.
#[derive(Debug)]
pub(crate) enum Item<'a> {
    /// A frame that counts.
    Frame { position: Position, payload: &'a [u8] },
    /// A stretch that cannot be read, final.
    Gap(Gap),
    /// A frame that its writer appended again elsewhere.
    Void(Position),
    /// A segment was opened that belongs to this log.
    Opened { number: u64, log_id: [u8; 16], salt: u64 },
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All that was in the log when the pass began was passed on.
    AtEnd,
    /// The next segment was compacted away: start again from the newest checkpoint.
    Compacted,
    /// The folder was replaced (deleted, moved, restored): what was read is not this log's.
    Replaced,
}

/// A reader of the log, at a position. It holds nothing that anybody could wait for.
#[derive(Debug)]
pub(crate) struct Reader {
    folder: Folder,
    at: Position,
    /// Damaged checkpoints, which do not count for R2.
    ignored: Vec<u64>,
    log_id: Option<[u8; 16]>,
    open: Option<Open>,
    /// The last segment to read, for a compactor.
    until: u64,
    /// Salts of folded segments, by number, which a follower may still read.
    salts: BTreeMap<u64, u64>,
    buffer: Vec<u8>,
}

impl Clone for Reader {
    /// The clone opens the segment again: a descriptor's offset is not shared.
    fn clone(&self) -> Reader {
        let mut clone = Reader::new(self.folder.clone(), self.at, self.log_id, self.ignored.clone());
        clone.until = self.until;
        clone.salts.clone_from(&self.salts);
        clone
    }
}

#[derive(Debug)]
struct Open {
    segment: Segment,
    /// It lacks bytes up to its capacity, which count as zeros: a higher segment is there.
    read_as_sealed: bool,
    /// The length that was read up to.
    read_len: u64,
    checked: Instant,
}

impl Reader {
    /// A reader that begins at `at`; segments at or below the floor are never used.
    pub(crate) fn new(folder: Folder, at: Position, log_id: Option<[u8; 16]>, ignored: Vec<u64>) -> Reader {
        Reader { folder, at, ignored, log_id, open: None, until: u64::MAX, salts: BTreeMap::new(), buffer: Vec::new() }
    }

    /// Where the next byte is read. While bytes are pending it stays before them.
    pub(crate) fn position(&self) -> Position {
        self.at
    }

    /// Folded segments with these salts may be read as well.
    pub(crate) fn read_retained(&mut self, salts: BTreeMap<u64, u64>) {
        self.salts = salts;
    }

    /// Stops after this segment.
    pub(crate) fn read_until(&mut self, segment: u64) {
        self.until = segment;
    }

    /// Passes on everything that is new, in log order. On an error, what was passed on is behind the position.
    pub(crate) fn poll(&mut self, mut sink: impl FnMut(Item<'_>)) -> Result<Ended> {
        loop {
            if let Some(ended) = self.step(&mut sink)? {
                return Ok(ended);
            }
        }
    }

    /// The same for one segment at most; `None`: there may be more.
    pub(crate) fn step(&mut self, sink: &mut impl FnMut(Item<'_>)) -> Result<Option<Ended>> {
        let ended = self.read_step(sink);
        if self.buffer.capacity() > KEPT_BUFFER_LEN && !matches!(ended, Ok(None)) {
            self.buffer = Vec::new();
        }
        ended
    }

    fn read_step(&mut self, sink: &mut impl FnMut(Item<'_>)) -> Result<Option<Ended>> {
        if self.at.segment > self.until {
            return Ok(Some(Ended::AtEnd));
        }
        let Some(open) = &mut self.open else {
            return self.open_next(sink);
        };
        // The length first, then the bytes up to it: the other order misses acknowledged events.
        let len = open.segment.file.len()?;
        let sealed = len >= open.segment.capacity() || open.read_as_sealed;
        if len == open.read_len && !sealed {
            if open.checked.elapsed() < PLACE_CHECK {
                return Ok(Some(Ended::AtEnd));
            }
            open.checked = Instant::now();
            return Ok(Some(if open.segment.is_in_place()? { Ended::AtEnd } else { Ended::Replaced }));
        }
        if len < open.read_len && !sealed {
            return Ok(Some(Ended::Replaced));
        }
        self.read_open(len, sealed, sink)?;
        if sealed {
            self.next_segment();
        }
        Ok((!sealed).then_some(Ended::AtEnd))
    }

    fn read_open(&mut self, len: u64, sealed: bool, sink: &mut impl FnMut(Item<'_>)) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let end = len.min(open.segment.capacity());
        let segment = self.at.segment;
        let position = |offset| Position { segment, offset };
        let mut chunk_len = CHUNK_LEN;
        loop {
            let chunk_offset = self.at.offset;
            let left = usize::try_from(end.saturating_sub(chunk_offset)).unwrap_or(usize::MAX);
            let wanted = left.min(chunk_len);
            self.buffer.clear();
            open.segment.file.read_into(&mut self.buffer, wanted, chunk_offset)?;
            let taken = self.buffer.len();
            let is_last = wanted == left || taken < wanted;
            let end_of_chunk = match (is_last, sealed) {
                (false, _) => End::More,
                (true, false) => End::Live,
                (true, true) => End::Sealed,
            };
            let mut scan = Scan::new(&open.segment.codec, &self.buffer, chunk_offset, end_of_chunk);
            loop {
                match scan.next() {
                    Found::Frame { offset, payload } => sink(Item::Frame { position: position(offset), payload }),
                    Found::Gap { offset, len, reason } => {
                        sink(Item::Gap(Gap { position: position(offset), len: Some(len), reason }));
                    }
                    Found::Void { offset } => sink(Item::Void(position(offset))),
                    Found::Sealed | Found::Pending => break,
                }
                self.at.offset = scan.offset();
            }
            if is_last {
                // Cut while it was read: the next pass sees the new length.
                let is_cut = taken < wanted && !open.read_as_sealed;
                open.read_len = if is_cut { chunk_offset.saturating_add(taken as u64) } else { len };
                return Ok(());
            }
            // Without any frame in it, a chunk is the beginning of a longer stretch.
            chunk_len = if self.at.offset > chunk_offset { CHUNK_LEN } else { chunk_len.saturating_mul(2) };
        }
    }

    fn next_segment(&mut self) {
        self.at = Position { segment: self.at.segment.saturating_add(1), offset: FIRST_FRAME_OFFSET };
        self.open = None;
    }

    /// Opens the segment at the position, or finds out why it is not there. `None`: go on.
    fn open_next(&mut self, sink: &mut impl FnMut(Item<'_>)) -> Result<Option<Ended>> {
        let number = self.at.segment;
        match segment::open(&self.folder, number, Access::Read)? {
            Opened::Absent => self.absent(number, sink),
            opened => {
                let listing = self.folder.list()?;
                if number <= self.folder.floor(&listing, &self.ignored) && !self.is_retained(&opened) {
                    return Ok(Some(Ended::Compacted));
                }
                self.accept(opened, listing.segment_above(number).is_some(), sink)
            }
        }
    }

    /// R2 for a follower: a segment at or below the floor may be used if it is the one that the checkpoint folded. A
    /// number that a slow process created again has another salt.
    fn is_retained(&self, opened: &Opened) -> bool {
        matches!(opened, Opened::Segment(found) if self.salts.get(&found.header.number) == Some(&found.header.salt))
    }

    /// Takes a segment that passed R2.
    fn accept(
        &mut self,
        opened: Opened,
        has_successor: bool,
        sink: &mut impl FnMut(Item<'_>),
    ) -> Result<Option<Ended>> {
        let number = self.at.segment;
        let whole_gap = |len: u64, reason| {
            Item::Gap(Gap { position: Position { segment: number, offset: 0 }, len: Some(len), reason })
        };
        match opened {
            Opened::Absent => {}
            Opened::Bad { len } => {
                if self.at.offset <= FIRST_FRAME_OFFSET {
                    sink(whole_gap(len, Reason::SegmentHeader));
                }
                self.next_segment();
            }
            Opened::Segment(segment) => {
                if self.log_id.is_some_and(|id| id != segment.header.log_id) {
                    sink(whole_gap(segment.file.len()?, Reason::OtherLog));
                    self.next_segment();
                    return Ok(None);
                }
                self.log_id = Some(segment.header.log_id);
                let SegmentHeader { number, log_id, salt, .. } = segment.header;
                sink(Item::Opened { number, log_id, salt });
                // Once per opened segment, after the listing of R2.
                let read_as_sealed = has_successor && !segment.is_sealed()?;
                self.at.offset = self.at.offset.max(FIRST_FRAME_OFFSET);
                self.open = Some(Open { segment, read_as_sealed, read_len: 0, checked: Instant::now() });
            }
        }
        Ok(None)
    }

    /// "No such file": the end of the log, compacted away, just created, or missing.
    fn absent(&mut self, number: u64, sink: &mut impl FnMut(Item<'_>)) -> Result<Option<Ended>> {
        let mut told_missing = false;
        for _ in 0..MOST_ATTEMPTS {
            let listing = match self.folder.list() {
                Err(e) if e.is_not_found() => return Ok(Some(Ended::Replaced)),
                other => other?,
            };
            if self.folder.floor(&listing, &self.ignored) >= number {
                return Ok(Some(Ended::Compacted));
            }
            if listing.has_segment(number) {
                return Ok(None);
            }
            let Some(above) = listing.segment_above(number) else {
                // n-1 is full and nobody has needed n yet. A segment above the floor is never deleted by us: if n-1 is
                // gone and not covered, somebody took the folder away.
                let before = number.saturating_sub(1);
                let is_replaced = before > listing.floor(&self.ignored) && !listing.has_segment(before);
                return Ok(Some(if is_replaced { Ended::Replaced } else { Ended::AtEnd }));
            };
            if !told_missing {
                // One listing may miss n, created while it runs, and name n+1: ask a second time.
                told_missing = true;
                continue;
            }
            let opened = segment::open(&self.folder, above, Access::Read)?;
            if matches!(opened, Opened::Absent) {
                continue;
            }
            // Two listings are not enough: n can be compacted away during the second, which then misses the new
            // checkpoints. The third, which R2 asks for after this open, cannot.
            let listing = self.folder.list()?;
            if self.folder.floor(&listing, &self.ignored) >= number {
                return Ok(Some(Ended::Compacted));
            }
            for missing in (number..above).take(MOST_MISSING_REPORTED) {
                let position = Position { segment: missing, offset: 0 };
                sink(Item::Gap(Gap { position, len: None, reason: Reason::SegmentMissing }));
            }
            self.at = Position { segment: above, offset: FIRST_FRAME_OFFSET };
            return self.accept(opened, listing.segment_above(above).is_some(), sink);
        }
        Err(Error::Unsettled { path: self.folder.path().to_owned(), attempts: MOST_ATTEMPTS })
    }
}
