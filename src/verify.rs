//! Reading the whole log once: every frame and gap in order, and whether everything checks out.

use std::ops::ControlFlow;

use crate::error::{Error, Result};
use crate::event::batch::{self, Batch};
use crate::follow;
use crate::log::checkpoint;
use crate::log::folder::{Folder, MOST_ATTEMPTS};
use crate::log::format::FIRST_FRAME_OFFSET;
use crate::log::reader::{Ended, Item, Reader};
use crate::log::{Gap, Position};
use crate::profile::Profile;
use crate::view::overlay::FoundFile;
use crate::view::records::Problem;
use crate::view::{State, View};

/// What stands in the log.
#[derive(Debug)]
#[non_exhaustive]
pub enum Entry<'a> {
    /// A frame that counts.
    Frame {
        /// Where it begins.
        position: Position,
        /// What it carries; `None` if a newer version wrote it in another shape.
        batch: Option<Batch<'a>>,
    },
    /// A stretch that cannot be read.
    Gap(Gap),
    /// A frame that its writer appended again in the next segment.
    Void(Position),
}

/// Passes every frame and gap from `from` on to `sink`, see [`Profile::scan`].
pub(crate) fn scan(
    profile: &Profile,
    from: Option<Position>,
    mut sink: impl FnMut(Entry<'_>) -> ControlFlow<()>,
) -> Result<Position> {
    let Some((mut reader, oldest)) = follow::reader(profile, from)? else {
        return Ok(Position { segment: 1, offset: FIRST_FRAME_OFFSET });
    };
    let mut stopped = None;
    loop {
        let ended = reader.step(&mut |item: Item<'_>| {
            if stopped.is_some() {
                return;
            }
            let (entry, position) = match item {
                Item::Frame { position, payload } => {
                    (Entry::Frame { position, batch: batch::decode(payload) }, position)
                }
                Item::Gap(gap) => (Entry::Gap(gap), gap.position),
                Item::Void(position) => (Entry::Void(position), position),
                Item::Opened { .. } => return,
            };
            if sink(entry).is_break() {
                stopped = Some(position);
            }
        })?;
        match (stopped, ended) {
            (Some(position), _) => return Ok(position),
            (None, None) => {}
            (None, Some(Ended::AtEnd)) => return Ok(reader.position()),
            (None, Some(Ended::Compacted | Ended::Replaced)) => {
                return Err(Error::PositionCompacted { position: reader.position(), oldest });
            }
        }
    }
}

/// What [`Profile::verify`] found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Verified {
    /// Checkpoints that check out, by their floor.
    pub checkpoints: Vec<u64>,
    /// Checkpoints that do not.
    pub damaged_checkpoints: Vec<u64>,
    /// Whether the newest checkpoint is what the older one and the segments between them give; `None` if there are not
    /// two, or not all segments.
    pub checkpoint_agrees: Option<bool>,
    /// Frames that count in the segments that were read.
    pub frames: u64,
    /// Events in them that this program understands.
    pub events: u64,
    /// Frames that were appended again elsewhere.
    pub voids: u64,
    /// Payloads of a newer version, carried along.
    pub carried: usize,
    /// Gaps in the segments that were read, in log order.
    pub gaps: Vec<Gap>,
    /// What is wrong with `.usage.json`.
    pub snapshot_problems: Vec<Problem>,
    /// Up to where the log was read.
    pub position: Position,
}

impl Verified {
    /// Whether everything checks out.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.gaps.is_empty()
            && self.damaged_checkpoints.is_empty()
            && self.checkpoint_agrees != Some(false)
            && self.snapshot_problems.is_empty()
    }
}

/// See [`Profile::verify`]. A compaction that overtakes it makes it begin again.
pub(crate) fn verify(profile: &Profile, mut progress: impl FnMut(Position)) -> Result<Verified> {
    for _ in 0..MOST_ATTEMPTS {
        if let Some(verified) = verify_once(profile, &mut progress)? {
            return Ok(verified);
        }
    }
    Err(Error::Unsettled { path: profile.log_folder(), attempts: MOST_ATTEMPTS })
}

fn verify_once(profile: &Profile, progress: &mut impl FnMut(Position)) -> Result<Option<Verified>> {
    let place = profile.place();
    let mut found = Verified {
        snapshot_problems: FoundFile::read(&place.snapshot)?.problems,
        position: Position { segment: 1, offset: FIRST_FRAME_OFFSET },
        ..Verified::default()
    };
    let folder = match Folder::open(&place.folder, place.allow_network_fs, false) {
        Err(e) if e.is_not_found() => return Ok(Some(found)),
        other => other?,
    };
    let (mut older, mut newest) = (None, None);
    for floor in folder.list()?.checkpoints {
        match checkpoint::read(&folder, floor) {
            Ok(Some(read)) => {
                found.checkpoints.push(floor);
                older = newest.replace(read);
            }
            Ok(None) => found.damaged_checkpoints.push(floor),
            Err(e) if e.is_not_found() => return Ok(None), // removed by a compaction meanwhile
            Err(e) => return Err(e),
        }
    }
    // From the older checkpoint, above which nothing was ever deleted: what the newest covers is read once more. For R2
    // the newest does not count then, and damaged ones never do.
    let mut ignored = found.damaged_checkpoints.clone();
    let covered = match &newest {
        Some(newest) if older.is_some() => newest.floor,
        _ => 0,
    };
    ignored.extend((covered > 0).then_some(covered));
    let (start, compared) = match older {
        Some(older) => (older, newest),
        None => (newest.unwrap_or_default(), None),
    };

    let mut state = State::decode(&start.state).unwrap_or_default();
    let (frames, events) = (state.frames(), state.events());
    let at = Position { segment: start.floor.saturating_add(1), offset: FIRST_FRAME_OFFSET };
    let mut reader = Reader::new(folder, at, start.log_id, ignored);
    let mut read_until = |segment, reader: &mut Reader, state: &mut State, found: &mut Verified| {
        reader.read_until(segment);
        let ended = reader.poll(|item| match item {
            Item::Frame { position, payload } => {
                state.apply_frame(position, payload);
                progress(position);
            }
            Item::Gap(gap) => {
                state.apply_gap(gap);
                found.gaps.push(gap);
            }
            Item::Void(_) => found.voids += 1,
            Item::Opened { number, salt, .. } => state.apply_opened(number, salt),
        });
        ended.map(|ended| ended == Ended::AtEnd)
    };
    // What is kept for followers is folded apart: the checkpoint holds it already.
    let mut retained = State::default();
    if let Some((mut kept, oldest)) = follow::reader(profile, None)?
        && oldest.segment <= start.floor
        && !read_until(start.floor, &mut kept, &mut retained, &mut found)?
    {
        return Ok(None);
    }
    if let Some(newest) = compared {
        if !read_until(covered, &mut reader, &mut state, &mut found)? {
            return Ok(None);
        }
        found.checkpoint_agrees = Some(state.encode() == newest.state);
    }
    if !read_until(u64::MAX, &mut reader, &mut state, &mut found)? {
        return Ok(None);
    }
    found.frames = state.frames().saturating_sub(frames).saturating_add(retained.frames());
    found.events = state.events().saturating_sub(events).saturating_add(retained.events());
    found.carried = state.carried();
    found.position = reader.position();
    Ok(Some(found))
}

impl View {
    /// Whether the view met damage: gaps above the floor, or a damaged `.usage.json`.
    #[must_use]
    pub fn has_gaps(&self) -> bool {
        !self.gaps_met().is_empty() || !self.snapshot_problems().is_empty()
    }
}
