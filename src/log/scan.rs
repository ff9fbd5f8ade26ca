//! Frames and gaps in the bytes of a segment. Pure: no I/O.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::log::format::{FRAME_HEADER_LEN, FrameCodec, MARKER, MIN_FRAME_LEN, UnverifiedHeader};

/// Why a stretch of the log cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// Zeros, as a power loss leaves them.
    Zeros,
    /// No marker where a frame should begin.
    NoMarker,
    /// A marker with a length that no frame can have.
    ImpossibleLength,
    /// A frame that was cut off (a writer killed in its write, a full disk).
    CutOff,
    /// A frame whose checksum does not agree.
    Checksum,
    /// The segment's header does not check out, so none of it can be read.
    SegmentHeader,
    /// The segment belongs to another log.
    OtherLog,
    /// The segment is not there, though a higher one is.
    SegmentMissing,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Reason::Zeros => "zeros",
            Reason::NoMarker => "no frame begins here",
            Reason::ImpossibleLength => "impossible length",
            Reason::CutOff => "cut off",
            Reason::Checksum => "checksum does not agree",
            Reason::SegmentHeader => "segment header does not check out",
            Reason::OtherLog => "segment of another log",
            Reason::SegmentMissing => "segment is missing",
        })
    }
}

/// What stands at the scan's offset.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A frame that counts.
    Frame {
        /// Where it begins, in bytes from the start of the segment.
        offset: u64,
        /// What it carries.
        payload: &'a [u8],
    },
    /// Bytes that are no frame, with a frame, or the end of a sealed segment, behind them. Final.
    Gap {
        /// Where it begins.
        offset: u64,
        /// How many bytes.
        len: u64,
        /// Why.
        reason: Reason,
    },
    /// A frame that says it ends beyond the capacity; its writer appended it again elsewhere.
    Void {
        /// Where it begins.
        offset: u64,
    },
    /// The end of a sealed segment.
    Sealed,
    /// The end of a live segment, for now, or of what was read. What stands at the offset may still become a frame.
    Pending,
}

/// A scan of the bytes of one segment, from an offset up to its length or capacity.
pub struct Scan<'a> {
    codec: &'a FrameCodec,
    bytes: &'a [u8],
    /// Offset in the segment of the first of `bytes`.
    base: u64,
    at: usize,
    end: End,
    ended: bool,
}

/// What lies behind the bytes of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing yet: the end of a live segment's file.
    Live,
    /// Nothing ever: the end of a sealed segment, or of one that counts as sealed.
    Sealed,
    /// More bytes of the file, which were not read yet. What could reach into them is pending.
    More,
}

impl<'a> Scan<'a> {
    /// `bytes` stand at `base` in the segment. They are cut at the capacity here: what lies beyond is never looked at.
    #[must_use]
    pub fn new(codec: &'a FrameCodec, bytes: &'a [u8], base: u64, end: End) -> Scan<'a> {
        let room = usize::try_from(u64::from(codec.capacity()).saturating_sub(base)).unwrap_or(usize::MAX);
        Scan { codec, bytes: bytes.get(..room).unwrap_or(bytes), base, at: 0, end, ended: false }
    }

    /// Where the next call looks, in bytes from the start of the segment.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// What stands at [`offset`](Self::offset), which moves behind it; at `Pending` it stays.
    #[inline]
    #[allow(clippy::should_implement_trait)] // it never ends: `Sealed` and `Pending` are answers
    pub fn next(&mut self) -> Found<'a> {
        let offset = self.offset();
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if let Some(payload) = self.codec.decode(rest) {
            self.at += payload.len() + crate::log::format::FRAME_OVERHEAD_LEN;
            return Found::Frame { offset, payload };
        }
        self.at_no_frame(offset, rest)
    }

    #[cold]
    fn at_no_frame(&mut self, offset: u64, rest: &'a [u8]) -> Found<'a> {
        if self.ended {
            return Found::Sealed;
        }
        if let Some(len) = self.next_frame(rest) {
            self.at += len;
            return Found::Gap { offset, len: len as u64, reason: reason(rest, len, self.codec.capacity()) };
        }
        if self.end != End::Sealed {
            return Found::Pending;
        }
        // What the file lacks up to the capacity counts as zeros, so it makes no difference whether somebody has
        // sealed it: `room` is the same for both.
        let room = u64::from(self.codec.capacity()).saturating_sub(offset);
        self.ended = true;
        self.at = self.bytes.len();
        let Some(last) = memchr_not_zero(rest) else { return Found::Sealed };
        if room < MIN_FRAME_LEN as u64 {
            return Found::Sealed;
        }
        let header = UnverifiedHeader::decode(rest);
        if room >= FRAME_HEADER_LEN as u64 && header.is_plausible(self.codec.capacity()) && header.frame_len() > room {
            return Found::Void { offset };
        }
        let len = last + 1;
        Found::Gap { offset, len: len as u64, reason: reason(rest, len, self.codec.capacity()) }
    }

    /// Distance to the next valid frame, searched from the byte after the first: never from where a header that does
    /// not check out says that it ends.
    fn next_frame(&self, rest: &[u8]) -> Option<usize> {
        if self.reaches_out(rest) {
            return None;
        }
        let finder = memchr::memmem::Finder::new(&MARKER);
        let markers = finder.find_iter(rest.get(1..)?).map(|found| found + 1);
        for at in markers {
            let candidate = rest.get(at..)?;
            if self.codec.decode(candidate).is_some() {
                return Some(at);
            }
            if self.reaches_out(candidate) {
                return None;
            }
        }
        None
    }

    /// Whether this may be a frame that ends in what was not read yet. What stands inside it is then not looked at.
    fn reaches_out(&self, candidate: &[u8]) -> bool {
        if self.end != End::More {
            return false;
        }
        let header = UnverifiedHeader::decode(candidate);
        let is_cut = candidate.len() < FRAME_HEADER_LEN && header.marked;
        is_cut || (header.is_plausible(self.codec.capacity()) && header.frame_len() > candidate.len() as u64)
    }
}

/// Offset of the last byte that is not zero.
fn memchr_not_zero(bytes: &[u8]) -> Option<usize> {
    // Eight bytes at a time: a power loss can leave megabytes of zeros.
    let (chunks, tail) = bytes.as_chunks::<8>();
    let in_tail = tail.iter().rposition(|byte| *byte != 0).map(|at| chunks.len() * 8 + at);
    in_tail.or_else(|| {
        let chunk = chunks.iter().rposition(|chunk| u64::from_ne_bytes(*chunk) != 0)?;
        let within = chunks.get(chunk)?.iter().rposition(|byte| *byte != 0)?;
        Some(chunk * 8 + within)
    })
}

/// Depends on the bytes alone, so that neither a seal nor a shrink to the capacity changes a report.
fn reason(rest: &[u8], gap_len: usize, capacity: u32) -> Reason {
    let header = UnverifiedHeader::decode(rest);
    let gap = rest.get(..gap_len).unwrap_or(rest);
    if memchr_not_zero(gap).is_none() {
        Reason::Zeros
    } else if !header.marked {
        Reason::NoMarker
    } else if gap_len < FRAME_HEADER_LEN {
        Reason::CutOff
    } else if !header.is_plausible(capacity) {
        Reason::ImpossibleLength
    } else if header.frame_len() > gap_len as u64 {
        Reason::CutOff
    } else {
        Reason::Checksum
    }
}
