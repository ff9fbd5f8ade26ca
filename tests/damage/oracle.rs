//! What must be said of a log whose bytes were changed, told from where its frames were and not by looking for frames.

use std::ops::Range;
use std::path::{Path, PathBuf};

use hermes_log::{Durability, Event, Gap, Position, Reason};

use crate::support::log_files::{Home, Image, Report, Uses, report};

pub(crate) const CAPACITY: u32 = 4096;
const HEADER_LEN: usize = 64;
const FRAME_HEADER_LEN: usize = 10;

/// One frame of the log: the use of one skill, as often as no other.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    segment: u64,
    bytes: Range<usize>,
    skill: String,
    count: u64,
}

/// Twelve frames in two segments, the first sealed, the second live; void bytes beyond the capacity of the first.
pub(crate) struct SmallLog {
    pub image: Image,
    pub frames: Vec<Frame>,
}

/// What a segment's bytes say.
struct Reading {
    intact: Vec<bool>,
    gaps: Vec<Gap>,
    /// Bytes of a live segment that may still become a frame.
    pending: Range<usize>,
}

pub(crate) fn segment_file(number: u64) -> PathBuf {
    Path::new("event-log").join(format!("{number:020}.seg"))
}

impl SmallLog {
    pub(crate) fn new() -> SmallLog {
        let home = Home::new(CAPACITY);
        let mut writer = home.writer();
        let mut frames = Vec::new();
        for count in 1..=12 {
            if count == 7 {
                home.seal(1);
            }
            let skill = format!("s{count}");
            let event = Event::Used { skill: skill.clone().into(), count };
            let Position { segment, offset } = writer.append(&event, Durability::Process).unwrap();
            let (begin, end) = (usize::try_from(offset).unwrap(), usize::try_from(home.len(segment)).unwrap());
            frames.push(Frame { segment, bytes: begin..end, skill, count });
        }
        assert_eq!(frames.iter().filter(|frame| frame.segment == 1).count(), 6);
        assert!(home.len(1) > u64::from(CAPACITY), "no void bytes");
        let log = SmallLog { image: Image::of(&home, CAPACITY), frames };
        assert_eq!(report(&home.profile), log.expected(&log.image).0);
        log
    }

    pub(crate) fn bytes(&self, segment: u64) -> &[u8] {
        &self.image.files[&segment_file(segment)]
    }

    pub(crate) fn frames_end(&self, segment: u64) -> usize {
        self.frames.iter().filter(|frame| frame.segment == segment).map(|frame| frame.bytes.end).max().unwrap()
    }

    fn read(&self, changed: &[u8], segment: u64) -> Reading {
        let frames = || self.frames.iter().filter(|frame| frame.segment == segment).map(|frame| frame.bytes.clone());
        let original = self.bytes(segment);
        let gap = |bytes: Range<usize>, reason| {
            let position = Position { segment, offset: bytes.start as u64 };
            Gap { position, len: Some(bytes.len() as u64), reason }
        };
        if changed.get(..HEADER_LEN) != original.get(..HEADER_LEN) {
            let gaps = vec![gap(0..changed.len(), Reason::SegmentHeader)];
            return Reading { intact: frames().map(|_| false).collect(), gaps, pending: 0..0 };
        }
        let bytes = &changed[..changed.len().min(CAPACITY as usize)];
        let mut reading = Reading { intact: Vec::new(), gaps: Vec::new(), pending: 0..0 };
        let mut at = HEADER_LEN;
        for frame in frames() {
            let is_intact = bytes.get(frame.clone()) == Some(&original[frame.clone()]);
            reading.intact.push(is_intact);
            if is_intact {
                if at < frame.start {
                    reading.gaps.push(gap(at..frame.start, reason(&bytes[at..], frame.start - at)));
                }
                at = frame.end;
            }
        }
        let rest = bytes.get(at..).unwrap_or_default();
        let is_live = segment == 2 && changed.len() < CAPACITY as usize;
        if is_live {
            reading.pending = at..bytes.len().max(at);
        } else if let Some(last) = rest.iter().rposition(|byte| *byte != 0) {
            reading.gaps.push(gap(at..at + last + 1, reason(rest, last + 1)));
        }
        reading
    }

    /// What readers must report of a changed log, and which gap the next frame will make of what is pending.
    pub(crate) fn expected(&self, changed: &Image) -> (Report, Option<Gap>) {
        let (mut uses, mut gaps, mut next) = (Uses::new(), Vec::new(), None);
        for segment in [1, 2] {
            let bytes = &changed.files[&segment_file(segment)];
            let reading = self.read(bytes, segment);
            let frames = self.frames.iter().filter(|frame| frame.segment == segment);
            for (frame, _) in frames.zip(reading.intact).filter(|(_, is_intact)| *is_intact) {
                uses.insert(frame.skill.clone(), frame.count);
            }
            gaps.extend(reading.gaps);
            if !reading.pending.is_empty() {
                let position = Position { segment, offset: reading.pending.start as u64 };
                let len = reading.pending.len();
                let reason = reason(&bytes[reading.pending.start..], len);
                next = Some(Gap { position, len: Some(len as u64), reason });
            }
        }
        (Report { uses, gaps }, next)
    }

    /// Readers and compactor say what they must of this log.
    pub(crate) fn check(&self, changed: &Image, with_compaction: bool, what: &str) {
        let home = changed.home();
        let (expected, next) = self.expected(changed);
        assert_eq!(report(&home.profile), expected, "{what}");
        if with_compaction {
            let mut gaps = expected.gaps.clone();
            gaps.extend(next); // the compactor's own event follows what was pending
            let done = home.compact();
            assert_eq!(done.gaps, gaps, "compactor, {what}");
            let after = report(&home.profile);
            assert_eq!((after.uses, after.gaps), (expected.uses, vec![]), "after compaction, {what}");
            assert_eq!(home.view().gaps().newest, gaps, "history, {what}");
            check_kept(&home, changed, &gaps, what);
        }
    }
}

/// The bytes of each gap are in `damaged/`.
fn check_kept(home: &Home, changed: &Image, gaps: &[Gap], what: &str) {
    let kept = home.damaged();
    for gap in gaps.iter().filter(|gap| gap.reason != Reason::Zeros) {
        let name = format!("segment-{:020}-offset-{}", gap.position.segment, gap.position.offset);
        let begin = usize::try_from(gap.position.offset).unwrap();
        let len = usize::try_from(gap.len.unwrap()).unwrap();
        let bytes = &changed.files[&segment_file(gap.position.segment)][begin..begin + len];
        assert_eq!(kept.get(&name).map(Vec::as_slice), Some(bytes), "{name}, {what}");
    }
}

/// `rest` begins with the gap, which has `len` bytes.
fn reason(rest: &[u8], len: usize) -> Reason {
    let gap = &rest[..len];
    if gap.iter().all(|byte| *byte == 0) {
        return Reason::Zeros;
    }
    if !rest.starts_with(&[0xff, 0x48]) {
        return Reason::NoMarker;
    }
    if len < FRAME_HEADER_LEN {
        return Reason::CutOff;
    }
    let claimed = u32::from_le_bytes(rest[2..6].try_into().unwrap()) as usize;
    match claimed {
        0 => Reason::ImpossibleLength,
        _ if claimed > CAPACITY as usize / 4 => Reason::ImpossibleLength,
        _ if FRAME_HEADER_LEN + claimed + 1 > len => Reason::CutOff,
        _ => Reason::Checksum,
    }
}
