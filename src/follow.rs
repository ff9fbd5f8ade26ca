//! Following the log: events, gaps and compactions as they come.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::event::batch::{self, Batch};
use crate::event::{Event, Origin};
use crate::log::checkpoint::{self, Start as Newest};
use crate::log::folder::Folder;
use crate::log::format::FIRST_FRAME_OFFSET;
use crate::log::reader::{Ended, Item, Reader};
use crate::log::segment::{self, Access, Opened};
use crate::log::{Gap, Position};
use crate::profile::Profile;
use crate::sys::watch::Watch;
use crate::view::State;

/// How often the folder is asked for a new checkpoint.
const FLOOR_CHECK: Duration = Duration::from_millis(100);
/// Without inotify: first and longest pause between two looks.
const POLL: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(200));

/// Where a follower begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With what comes from now on.
    Now,
    /// With the oldest segment that is kept.
    Oldest,
    /// At a position that a follower, a view or an append gave.
    At(Position),
}

/// What a follower yields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Followed {
    /// A frame: a batch of events that were appended together.
    Frame {
        /// Where it begins.
        position: Position,
        /// When it was appended, in microseconds since the epoch (UTC).
        time_micros: u64,
        /// Who appended.
        origin: Origin<'static>,
        /// What happened. Events of kinds that only a newer version knows are left out.
        events: Vec<Event<'static>>,
    },
    /// A stretch that cannot be read.
    Gap(Gap),
    /// Everything up to and with segment `floor` is in a checkpoint now.
    Compaction {
        /// The new floor.
        floor: u64,
    },
}

/// Reads the log as it grows, across rotation and compaction. It holds nothing that anybody could wait for.
///
/// Compaction keeps sealed segments for a while ([`CompactOptions::retain`](crate::CompactOptions)); a follower that is
/// further behind gets [`Error::PositionCompacted`], never a silent hole.
#[derive(Debug)]
pub struct Follower {
    profile: Profile,
    /// `None` while there is no log.
    reader: Option<Reader>,
    start: Position,
    floor: u64,
    floor_checked: Instant,
    watch: Option<Watch>,
    /// The segment that was being read at the last sync.
    synced: u64,
}

impl Follower {
    pub(crate) fn open(profile: &Profile, start: Start) -> Result<Follower> {
        let first = Position { segment: 1, offset: FIRST_FRAME_OFFSET };
        let at = match start {
            Start::At(position) => Some(position),
            Start::Oldest => None,
            // The view's position is behind everything that was acknowledged before.
            Start::Now => Some(profile.view()?.position()),
        };
        let (reader, floor) = match reader(profile, at)? {
            Some((reader, _)) => (Some(reader), floor(profile)?),
            None => (None, 0),
        };
        let watch = Watch::new(&profile.log_folder());
        let start = reader.as_ref().map_or(at.unwrap_or(first), Reader::position);
        Ok(Follower {
            profile: profile.clone(),
            reader,
            start,
            floor,
            floor_checked: Instant::now(),
            watch,
            synced: start.segment,
        })
    }

    /// Where to go on: saved after what was yielded is dealt with, it resumes without loss.
    #[must_use]
    pub fn position(&self) -> Position {
        self.reader.as_ref().map_or(self.start, Reader::position)
    }

    /// Makes everything durable that was read. A position that is saved before would, after a power loss, point behind
    /// events that the log has lost, and past those that took their place.
    ///
    /// # Errors
    /// [`Error::Io`]: the position must not be saved.
    pub fn sync(&mut self) -> Result<()> {
        let to = self.position().segment;
        if self.reader.is_some() {
            let folder = Folder::open(&self.profile.log_folder(), self.profile.options().allow_network_fs, false)?;
            folder.sync_segments(self.synced.min(to), to)?;
        }
        self.synced = to;
        Ok(())
    }

    /// What is new, oldest first, of one segment at most; waits up to `limit` for something. Empty if nothing came.
    ///
    /// # Errors
    /// [`Error::PositionCompacted`]: the follower is further behind than segments are kept, or the folder was replaced.
    /// [`Error::Io`]: something could not be read; the next call goes on from the same position.
    pub fn next_batch(&mut self, limit: Duration) -> Result<Vec<Followed>> {
        let end = Instant::now() + limit;
        let mut pause = POLL.0;
        loop {
            let items = self.read()?;
            let now = Instant::now();
            if !items.is_empty() || now >= end {
                return Ok(items);
            }
            // A watch that was set before the read misses nothing that comes after it.
            let left = end - now;
            match &self.watch {
                Some(watch) => watch.wait(left.min(Duration::from_secs(1))),
                None => {
                    std::thread::sleep(pause.min(left));
                    pause = (pause * 2).min(POLL.1);
                    self.watch = Watch::new(&self.profile.log_folder());
                }
            }
        }
    }

    fn read(&mut self) -> Result<Vec<Followed>> {
        if self.reader.is_none() {
            self.reader = reader(&self.profile, Some(self.start))?.map(|(reader, _)| reader);
        }
        let Some(reader) = &mut self.reader else { return Ok(Vec::new()) };
        let mut items = VecDeque::new();
        let mut is_renewed = false;
        while items.is_empty() {
            match reader.step(&mut |item: Item<'_>| items.extend(followed(&item)))? {
                None => {}
                Some(Ended::AtEnd) => break,
                Some(Ended::Compacted) if !is_renewed => {
                    // Perhaps the segment is kept for such as us: the newest checkpoint says which one it was.
                    is_renewed = true;
                    reader.read_retained(newest(&self.profile)?.salts().by_number());
                }
                Some(Ended::Compacted | Ended::Replaced) => {
                    let position = reader.position();
                    let (_, oldest) = self::reader(&self.profile, None)?.ok_or_else(|| not_there(&self.profile))?;
                    return Err(Error::PositionCompacted { position, oldest });
                }
            }
        }
        if self.floor_checked.elapsed() >= FLOOR_CHECK {
            self.floor_checked = Instant::now();
            let floor = floor(&self.profile)?;
            if floor > self.floor {
                self.floor = floor;
                items.push_back(Followed::Compaction { floor });
            }
        }
        Ok(items.into())
    }
}

fn not_there(profile: &Profile) -> Error {
    Error::NotFound { what: "log", name: profile.log_folder().display().to_string() }
}

fn followed(item: &Item<'_>) -> Option<Followed> {
    match item {
        Item::Gap(gap) => Some(Followed::Gap(*gap)),
        Item::Frame { position, payload } => {
            let (time_micros, origin, events) = match batch::decode(payload) {
                Some(Batch { time, origin, events, .. }) => (time, origin.into_owned(), events),
                None => (0, Origin { kind: "unknown".into(), process: 0, session: None }, Vec::new()),
            };
            let events = events.into_iter().map(Event::into_owned).collect();
            Some(Followed::Frame { position: *position, time_micros, origin, events })
        }
        Item::Void(_) | Item::Opened { .. } => None,
    }
}

fn floor(profile: &Profile) -> Result<u64> {
    match Folder::open(&profile.log_folder(), profile.options().allow_network_fs, false) {
        Ok(folder) => Ok(folder.list()?.floor(&[])),
        Err(e) if e.is_not_found() => Ok(0),
        Err(e) => Err(e),
    }
}

fn newest(profile: &Profile) -> Result<State> {
    let folder = Folder::open(&profile.log_folder(), profile.options().allow_network_fs, false)?;
    let (newest, _) = checkpoint::start(&folder)?;
    Ok(State::decode(&newest.checkpoint.state).unwrap_or_default())
}

/// A reader that begins at `from` (`None`: the oldest segment that is kept), and the oldest position there is. `None`:
/// there is no log.
pub(crate) fn reader(profile: &Profile, from: Option<Position>) -> Result<Option<(Reader, Position)>> {
    let folder = match Folder::open(&profile.log_folder(), profile.options().allow_network_fs, false) {
        Err(e) if e.is_not_found() => return Ok(None),
        other => other?,
    };
    let (Newest { checkpoint, damaged }, _) = checkpoint::start(&folder)?;
    let salts = State::decode(&checkpoint.state).unwrap_or_default().salts().by_number();
    let mut oldest = checkpoint.floor.saturating_add(1);
    while let Some(before) = oldest.checked_sub(1)
        && let Some(salt) = salts.get(&before)
        && let Opened::Segment(kept) = segment::open(&folder, before, Access::Read)?
        && kept.header.salt == *salt
    {
        oldest = before;
    }
    let oldest = Position { segment: oldest, offset: FIRST_FRAME_OFFSET };
    let at = from.unwrap_or(oldest);
    if at.segment < oldest.segment {
        return Err(Error::PositionCompacted { position: at, oldest });
    }
    let mut reader = Reader::new(folder, at, checkpoint.log_id, damaged.into_iter().collect());
    reader.read_retained(salts);
    Ok(Some((reader, oldest)))
}
