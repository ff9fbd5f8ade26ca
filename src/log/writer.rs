//! Appending: no lock, one `write(2)`, and the question where it ended (rule R1).

mod durable;
mod place;

use std::path::Path;

use crate::error::{Error, Result};
use crate::event::{Event, Origin, batch};
use crate::lock;
use crate::log::Position;
use crate::log::folder::Folder;
use crate::log::format::{self, FRAME_OVERHEAD_LEN};
use crate::log::segment::Segment;
use crate::sys;
use crate::sys::posix::fork_generation;
use durable::Synced;

/// When an append is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is in the kernel: it survives the death of every process, and a power loss may take it.
    #[default]
    Process,
    /// When it is on the disk: it survives a power loss too.
    Disk,
}

/// How a log is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Capacity of the segments that this process creates, in bytes; `None`: as the segment before, 4 MiB in a new log.
    pub capacity: Option<u32>,
    /// Go on where appends of several hosts or mounts are not atomic; each append then takes a lock, and can fail with
    /// [`Error::LockTimeout`].
    pub allow_network_fs: bool,
}

impl Options {
    pub(crate) fn validate(self) -> Result<Options> {
        match self.capacity {
            Some(capacity) if !(format::MIN_CAPACITY..=format::MAX_CAPACITY).contains(&capacity) => {
                Err(Error::Invalid {
                    what: "capacity",
                    found: capacity.to_string(),
                    allowed: "4096 to 268435456 bytes",
                })
            }
            _ => Ok(self),
        }
    }
}

/// As many short writes in a row, none with a whole frame, and the append is given up.
const MOST_FRUITLESS_WRITES: u32 = 8;

/// Appends events to a log. One per thread, or shared through a mutex; after `fork` the child's first append opens
/// everything anew.
#[derive(Debug)]
pub struct Writer {
    folder: Folder,
    options: Options,
    origin: Origin<'static>,
    encoded_origin: Vec<u8>,
    generation: u64,
    current: Option<Current>,
    parent_synced: bool,
    voided: u64,
    /// When the append that is under way began.
    now_micros: u64,
    /// Where the frames of the append that is under way are.
    recorded: Vec<Position>,
    // Reused from append to append.
    payloads: Vec<u8>,
    payload_ends: Vec<usize>,
    bytes: Vec<u8>,
}

/// The segment that is appended to.
#[derive(Debug)]
struct Current {
    segment: Segment,
    /// Where this process's last append ended: the file is never shorter.
    end: u64,
    checked_micros: u64,
    folder_synced: bool,
}

impl Writer {
    /// Opens the log in `folder`, made if need be, for a process of this origin.
    ///
    /// # Errors
    /// [`Error::NetworkFileSystem`], [`Error::Exposed`], [`Error::Invalid`] for a capacity out of range, [`Error::Io`].
    pub fn open(folder: &Path, origin: Origin<'static>, options: Options) -> Result<Writer> {
        let options = options.validate()?;
        Ok(Writer {
            folder: Folder::create(folder, options.allow_network_fs)?,
            options,
            encoded_origin: batch::encode_origin(&origin),
            origin,
            generation: fork_generation(),
            current: None,
            parent_synced: false,
            voided: 0,
            now_micros: 0,
            recorded: Vec::new(),
            payloads: Vec::new(),
            payload_ends: Vec::new(),
            bytes: Vec::new(),
        })
    }

    /// Appends one event. See [`append_batch`](Self::append_batch).
    ///
    /// # Errors
    /// As [`append_batch`](Self::append_batch).
    pub fn append(&mut self, event: &Event<'_>, durability: Durability) -> Result<Position> {
        self.append_batch(std::slice::from_ref(event), durability)
    }

    /// Appends events that count all or not at all, as one frame. Returns where the frame begins: from then on every
    /// reader that refreshes sees it.
    ///
    /// Takes no lock and waits for nobody (at [`Durability::Disk`] for the disk). After a crash of the process an event
    /// that was not acknowledged counts 0 or 1 times, and the answer never changes.
    ///
    /// # Errors
    /// [`Error::Invalid`]: an event or the batch's size is not allowed, nothing was appended. [`Error::NotRecorded`]: it
    /// is not in the log. [`Error::NotDurable`]: it is in the log, the disk did not confirm it.
    /// [`Error::NotAcknowledged`]: it was written, and the system would not say where.
    pub fn append_batch(&mut self, events: &[Event<'_>], durability: Durability) -> Result<Position> {
        self.begin();
        self.push(events)?;
        self.commit(durability)?;
        Ok(self.recorded.last().copied().unwrap_or_default()) // never empty: one batch was pushed and recorded
    }

    /// Appends several batches, each a frame that counts all or not at all, with as few writes as possible.
    ///
    /// # Errors
    /// As [`append_batch`](Self::append_batch); [`Error::NotRecorded`] says which of them are in the log.
    pub fn append_batches(&mut self, batches: &[&[Event<'_>]], durability: Durability) -> Result<Vec<Position>> {
        self.begin();
        for events in batches {
            self.push(events)?;
        }
        self.commit(durability)?;
        Ok(std::mem::take(&mut self.recorded))
    }

    /// [`append_batches`](Self::append_batches), for events that happened at these times (microseconds since the epoch).
    pub(crate) fn append_at<'e>(
        &mut self,
        batches: impl Iterator<Item = (u64, &'e [Event<'e>])>,
        durability: Durability,
    ) -> Result<Vec<Position>> {
        self.begin();
        for (time_micros, events) in batches {
            self.push_at(time_micros, events)?;
        }
        self.commit(durability)?;
        Ok(std::mem::take(&mut self.recorded))
    }

    /// How many frames were void and appended again.
    #[must_use]
    pub fn voided(&self) -> u64 {
        self.voided
    }

    /// The folder of the log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The longest payload that a frame of this log can have, in bytes.
    pub(crate) fn max_payload_len(&mut self) -> Result<usize> {
        self.open_current()?;
        let capacity = self.current.as_ref().map_or(format::MIN_CAPACITY, |c| c.segment.header.capacity);
        // The next segment may have been given another capacity.
        Ok(format::max_payload_len(capacity.min(self.options.capacity.unwrap_or(capacity))))
    }

    /// Seals the live segment and creates the next. Returns the number of the one that is sealed now.
    pub(crate) fn seal(&mut self) -> Result<u64> {
        self.begin();
        // Not the one of the last append: what others filled since must not be left above the seal.
        self.current = None;
        self.open_current()?;
        let Some(current) = self.current.take() else { return Err(self.unsettled()) };
        current.segment.seal()?;
        self.open_current()?;
        Ok(current.segment.header.number)
    }

    fn begin(&mut self) {
        self.payloads.clear();
        self.payload_ends.clear();
        self.now_micros = sys::now_micros();
        let generation = fork_generation();
        if generation != self.generation {
            // A forked child: the parent's descriptor would tell where the parent's writes end.
            self.generation = generation;
            self.current = None;
            self.origin.process = crate::process_id();
            self.encoded_origin = batch::encode_origin(&self.origin);
        }
    }

    fn push(&mut self, events: &[Event<'_>]) -> Result<()> {
        self.push_at(self.now_micros, events)
    }

    fn push_at(&mut self, time_micros: u64, events: &[Event<'_>]) -> Result<()> {
        const NONE: Error = Error::Invalid { what: "batch", found: String::new(), allowed: "at least one event" };
        if events.is_empty() {
            return Err(NONE);
        }
        for event in events {
            event.validate()?;
        }
        batch::encode(&mut self.payloads, time_micros, &self.encoded_origin, events);
        self.payload_ends.push(self.payloads.len());
        Ok(())
    }

    /// Appends all that was pushed; where it went is in `recorded`.
    fn commit(&mut self, durability: Durability) -> Result<()> {
        let total = self.payload_ends.len();
        let span = tracing::trace_span!("append", frames = total, bytes = self.payloads.len());
        let _entered = span.enter();
        loop {
            self.recorded.clear();
            let mut left = Vec::new();
            if let Err(source) = self.append_frames(&mut left) {
                let recorded = std::mem::take(&mut self.recorded);
                return Err(match source {
                    own @ (Error::Invalid { .. } | Error::NewerFormat { .. }) if recorded.is_empty() => own,
                    Error::NotAcknowledged { uncertain, source, .. } => {
                        Error::NotAcknowledged { recorded, uncertain, source }
                    }
                    source => Error::NotRecorded { recorded, total, source: Box::new(source) },
                });
            }
            if durability == Durability::Process {
                return Ok(());
            }
            match self.sync(left) {
                Ok(Synced::Durable) => return Ok(()),
                // The events are in a file that no reader will ever open: they go to the log that is there now.
                Ok(Synced::Replaced) => {}
                Err(source) => {
                    let recorded = std::mem::take(&mut self.recorded);
                    return Err(Error::NotDurable { recorded, source: Box::new(source) });
                }
            }
        }
    }

    /// Appends frames until all are within the capacity of the segment they went to. Segments that were left behind
    /// with frames of this append in them go to `left`.
    fn append_frames(&mut self, left: &mut Vec<Segment>) -> Result<()> {
        let mut fruitless = 0;
        while self.recorded.len() < self.payload_ends.len() {
            if self.is_check_due() {
                self.check_place()?;
            }
            self.open_current()?;
            let before = self.recorded.len();
            let is_sealed = self.write()?;
            let is_in_this_segment = self.recorded.len() > before;
            if is_sealed && let Some(current) = self.current.take().filter(|_| is_in_this_segment) {
                left.push(current.segment);
            }
            fruitless = if is_in_this_segment || is_sealed { 0 } else { fruitless + 1 };
            if fruitless == MOST_FRUITLESS_WRITES {
                return Err(Error::Io {
                    op: "append a whole frame to",
                    path: self.folder.path().to_owned(),
                    source: std::io::ErrorKind::WriteZero.into(),
                });
            }
        }
        Ok(())
    }

    /// One write of the frames that are not recorded yet. Returns whether the segment is sealed.
    fn write(&mut self) -> Result<bool> {
        let Some(Current { segment, end: known_end, .. }) = &mut self.current else { return Ok(false) };
        let capacity = segment.capacity();
        let max_payload_len = format::max_payload_len(segment.header.capacity);

        self.bytes.clear();
        let first = self.recorded.len();
        let mut start = first.checked_sub(1).and_then(|i| self.payload_ends.get(i)).copied().unwrap_or(0);
        let mut frames = 0;
        for end in self.payload_ends.get(first..).unwrap_or_default() {
            let payload = self.payloads.get(start..*end).unwrap_or_default();
            if payload.len() > max_payload_len {
                if frames > 0 {
                    break; // what fits goes first
                }
                return Err(Error::Invalid {
                    what: "batch",
                    found: format!("{} bytes", payload.len()),
                    allowed: "1 MiB or a quarter of the segment's capacity, whichever is less",
                });
            }
            // More than fits would be void, and void bytes stay in the file.
            if frames > 0 && self.bytes.len() + payload.len() + FRAME_OVERHEAD_LEN > max_payload_len {
                break;
            }
            segment.codec.encode(payload, &mut self.bytes);
            frames += 1;
            start = *end;
        }

        let exclusive = if self.folder.on_network { Some(lock::appends(&segment.file)?) } else { None };
        let taken = segment.file.write_once(&self.bytes)?;
        // O_APPEND moved the offset to where this write ended, whoever else wrote meanwhile; the descriptor is ours alone.
        let end = segment.file.offset().map_err(|e| Error::NotAcknowledged {
            recorded: Vec::new(),
            uncertain: frames,
            source: Box::new(e),
        })?;
        drop(exclusive);

        let begin = end.saturating_sub(taken as u64);
        *known_end = end;
        let mut frame_end = begin;
        for number in first..first + frames {
            let start = number.checked_sub(1).and_then(|i| self.payload_ends.get(i)).copied().unwrap_or(0);
            let payload_len = self.payload_ends.get(number).map_or(0, |end| end - start);
            let offset = frame_end;
            frame_end += (payload_len + FRAME_OVERHEAD_LEN) as u64;
            if frame_end > end.min(capacity) {
                self.voided += u64::from(frame_end > capacity);
                tracing::debug!(segment = segment.header.number, offset, short = frame_end > end, "append is void");
                break;
            }
            self.recorded.push(Position { segment: segment.header.number, offset });
        }
        Ok(end >= capacity)
    }
}
