//! The view: the log folded, and what `.usage.json` has beyond it.
//!
//! [`State`] is the fold, [`external`] the work of others on the file; [`View`] puts them together, incrementally.

pub mod auth;
pub mod external;
mod json_text;
pub(crate) mod overlay;
mod policy;
pub mod records;
mod salts;
mod skill;
mod state;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::event::batch;
use crate::log::checkpoint::{self, Start};
use crate::log::folder::{Folder, MOST_ATTEMPTS};
use crate::log::format::FIRST_FRAME_OFFSET;
use crate::log::reader::{Ended, Item, Reader};
use crate::log::{Gap, Position};
use crate::sys::file;

use overlay::Overlay;
pub use policy::Policy;
pub(crate) use salts::MOST_RETAINED;
pub use skill::{Skill, SkillView};
pub use state::{Gaps, State};

/// Pause between two looks while a position is waited for.
const WAIT_POLL: Duration = Duration::from_millis(2);

/// What a profile's log and `.usage.json` say, as of the last [`refresh`](View::refresh).
///
/// It takes no lock, writes nothing, and no value in it goes backwards. A clone is cheap: it shares the folded state
/// until one of the two has something new.
#[derive(Clone, Debug)]
pub struct View {
    place: Place,
    policy: Policy,
    state: Arc<State>,
    overlay: Arc<Overlay>,
    /// Up to where the log was read when the overlay was laid over it; `None`: over another state.
    overlay_at: Option<Position>,
    /// `None` while there is no log.
    reader: Option<Reader>,
    log_id: Option<[u8; 16]>,
    floor: u64,
    /// Which `external` event is the newest in the checkpoint.
    base_at_floor: String,
    gaps_met: Vec<Gap>,
    /// The last segment to read, for a compactor.
    until: u64,
    is_auth_alone: bool,
    revision: u64,
}

/// Where things are.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) snapshot: PathBuf,
    pub(crate) allow_network_fs: bool,
}

impl View {
    /// Reads the newest checkpoint and folds what is above its floor. A profile without a log is an empty view.
    pub(crate) fn open(place: Place, policy: Policy) -> Result<View> {
        let mut view = View::load(place, policy)?;
        view.refresh()?;
        Ok(view)
    }

    /// The same for credentials alone: what else is in the log is passed over, and `.usage.json` is not read.
    pub(crate) fn open_auth(place: Place) -> Result<View> {
        let mut view = View { is_auth_alone: true, ..View::load(place, Policy::default())? };
        view.refresh()?;
        Ok(view)
    }

    /// The newest checkpoint that can be read, alone.
    pub(crate) fn load(place: Place, policy: Policy) -> Result<View> {
        let mut view = View {
            place,
            policy,
            state: Arc::default(),
            overlay: Arc::default(),
            overlay_at: None,
            reader: None,
            log_id: None,
            floor: 0,
            base_at_floor: String::new(),
            gaps_met: Vec::new(),
            until: u64::MAX,
            is_auth_alone: false,
            revision: 0,
        };
        let folder = match Folder::open(&view.place.folder, view.place.allow_network_fs, false) {
            Err(e) if e.is_not_found() => return Ok(view),
            other => other?,
        };
        let (Start { checkpoint, damaged }, _) = checkpoint::start(&folder)?;
        let state = State::decode(&checkpoint.state).ok_or_else(|| Error::Damaged {
            path: folder.checkpoint_path(checkpoint.floor),
            reason: "its checksum agrees, but what it holds is no state".into(),
            advice: "it was not written by a release of hermes-log; move it away to go on from the one before",
        })?;
        view.base_at_floor.clone_from(&state.lineage().temporary);
        view.state = Arc::new(state);
        view.log_id = checkpoint.log_id;
        view.floor = checkpoint.floor;
        let at = Position { segment: checkpoint.floor.saturating_add(1), offset: FIRST_FRAME_OFFSET };
        view.reader = Some(Reader::new(folder, at, checkpoint.log_id, damaged.into_iter().collect()));
        Ok(view)
    }

    /// Whether the checkpoint that this view began with holds the newest `external` event.
    pub(crate) fn is_base_in_checkpoint(&self) -> bool {
        self.state.lineage().temporary == self.base_at_floor
    }

    /// Reads no further than the end of this segment from now on.
    pub(crate) fn read_until(&mut self, segment: u64) {
        self.until = segment;
        if let Some(reader) = &mut self.reader {
            reader.read_until(segment);
        }
    }

    /// Takes in what is new. With nothing new it costs one `lseek` on the live segment and one `stat` of the snapshot.
    ///
    /// # Errors
    /// [`Error::Io`]: something could not be read; the view stays as it was, or is ahead by whole frames.
    /// [`Error::NewerFormat`], [`Error::Exposed`], [`Error::Damaged`]: no checkpoint can be read.
    pub fn refresh(&mut self) -> Result<()> {
        let span = tracing::trace_span!("refresh");
        let _entered = span.enter();
        self.read_log()?;
        if self.is_auth_alone { Ok(()) } else { self.read_snapshot() }
    }

    /// Refreshes until the event at `position` is in the view.
    ///
    /// # Errors
    /// As [`refresh`](Self::refresh); [`Error::NotReached`] when `limit` runs out.
    pub fn wait_for(&mut self, position: Position, limit: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            self.refresh()?;
            if self.position() > position {
                return Ok(());
            }
            if start.elapsed() >= limit {
                return Err(Error::NotReached { position, waited: start.elapsed() });
            }
            std::thread::sleep(WAIT_POLL);
        }
    }

    /// How far the log was read: everything that begins before it is in the view.
    #[must_use]
    pub fn position(&self) -> Position {
        let none = Position { segment: 1, offset: FIRST_FRAME_OFFSET };
        self.reader.as_ref().map_or(none, Reader::position)
    }

    /// Another number after every refresh that took something in, for whoever keeps what was made of the view.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The segment up to and with which the checkpoint that the view began from is folded.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// One skill, by its exact name, in constant time.
    #[must_use]
    pub fn skill(&self, name: &str) -> Option<SkillView<'_>> {
        let skill = match self.overlay.skills.get(name) {
            Some(overlaid) => overlaid.as_ref(),
            None => self.state.get(name),
        };
        skill.map(|skill| SkillView { skill, policy: self.policy })
    }

    /// Whether others have changed the skill's record in `.usage.json` and the log does not have that yet. A compaction
    /// puts it there; an event about a field that is appended before that counts as the older of the two.
    #[must_use]
    pub fn is_worked_on_by_others(&self, name: &str) -> bool {
        self.overlay.skills.contains_key(name)
    }

    /// All skills, sorted by name.
    #[must_use]
    pub fn skills(&self) -> Vec<(&str, SkillView<'_>)> {
        let mut names: Vec<&str> = self.state.names().chain(self.overlay.skills.keys().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().filter_map(|name| Some((name, self.skill(name)?))).collect()
    }

    /// Gaps that were met above the floor, in log order.
    #[must_use]
    pub fn gaps_met(&self) -> &[Gap] {
        &self.gaps_met
    }

    /// All gaps of the log's history.
    #[must_use]
    pub fn gaps(&self) -> &Gaps {
        self.state.gaps()
    }

    /// What is wrong with `.usage.json`, as phrases for people; empty if nothing is.
    #[must_use]
    pub fn snapshot_problems(&self) -> &[records::Problem] {
        &self.overlay.problems
    }

    /// How many events the log has had.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.state.events()
    }

    /// How many frames the log has had.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.state.frames()
    }

    /// How many payloads are carried along because a newer version wrote something in them.
    #[must_use]
    pub fn carried(&self) -> usize {
        self.state.carried()
    }

    /// Providers and credentials.
    #[must_use]
    pub fn auth(&self) -> &auth::AuthView {
        self.state.auth()
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn log_id(&self) -> Option<[u8; 16]> {
        self.log_id
    }

    /// Folds what is new in the log.
    pub(crate) fn read_log(&mut self) -> Result<()> {
        if self.reader.is_some() && self.poll()? == Ended::AtEnd {
            return Ok(());
        }
        // From the newest checkpoint, and all that is above it, before any of it shows: no value goes backwards.
        for _ in 0..MOST_ATTEMPTS {
            let mut fresh = View::load(self.place.clone(), self.policy)?;
            fresh.read_until(self.until);
            fresh.is_auth_alone = self.is_auth_alone;
            if fresh.poll()? == Ended::AtEnd {
                fresh.overlay = std::mem::take(&mut self.overlay);
                fresh.revision = self.revision.wrapping_add(1);
                *self = fresh;
                return Ok(());
            }
        }
        Err(Error::Unsettled { path: self.place.folder.clone(), attempts: MOST_ATTEMPTS })
    }

    fn poll(&mut self) -> Result<Ended> {
        let Some(reader) = &mut self.reader else { return Ok(Ended::AtEnd) };
        let (shared, log_id, gaps) = (&mut self.state, &mut self.log_id, &mut self.gaps_met);
        let is_auth_alone = self.is_auth_alone;
        // The first item makes the state this view's own, once for all items.
        let mut own = None;
        let ended = reader.poll(|item| {
            let state: &mut State = own.get_or_insert_with(|| Arc::unwrap_or_clone(std::mem::take(shared)));
            match item {
                Item::Frame { payload, .. } if is_auth_alone && !batch::may_hold_auth(payload) => {}
                Item::Frame { position, payload } => state.apply_frame(position, payload),
                Item::Gap(gap) => {
                    tracing::warn!(%gap);
                    gaps.push(gap);
                    state.apply_gap(gap);
                }
                Item::Opened { number, log_id: id, salt } => {
                    *log_id = Some(id);
                    state.apply_opened(number, salt);
                }
                Item::Void(_) => {}
            }
        });
        if let Some(state) = own {
            self.revision = self.revision.wrapping_add(1);
            self.state = Arc::new(state); // also when the pass ended in an error: what was passed on is behind the position
        }
        ended
    }

    /// What the file has beyond the base now. The newest `external` event, its temporary file, the file, then the first
    /// two again; if either changed, once more; after a few tries the external part stays as it was.
    fn read_snapshot(&mut self) -> Result<()> {
        const TRIES: u32 = 5;
        let snapshot = &self.place.snapshot;
        if self.overlay.is_of(file::stat_if_there(snapshot)?, self.state.lineage()) {
            if self.overlay_at != Some(self.position()) {
                self.lay_over();
            }
            return Ok(());
        }
        for _ in 0..TRIES {
            let lineage = self.state.lineage().clone();
            let temporary_exists = overlay::temporary_exists(&self.place.snapshot, &lineage.temporary)?;
            let overlay = Overlay::read(&self.place.snapshot, &lineage, temporary_exists)?;
            self.read_log()?;
            if lineage.temporary == self.state.lineage().temporary
                && temporary_exists == overlay::temporary_exists(&self.place.snapshot, &lineage.temporary)?
            {
                self.overlay = Arc::new(overlay);
                self.lay_over();
                return Ok(());
            }
        }
        tracing::debug!("compactions kept coming, the external part stays as it was");
        self.lay_over();
        Ok(())
    }

    fn lay_over(&mut self) {
        if self.overlay.has_differences() {
            Arc::make_mut(&mut self.overlay).lay_over(&self.state, self.policy);
        }
        self.overlay_at = Some(self.position());
        self.revision = self.revision.wrapping_add(1);
    }
}

/// The folder that a snapshot's temporary file is in, and where the file really is.
pub(crate) fn snapshot_target(snapshot: &Path) -> Result<PathBuf> {
    file::resolve(snapshot)
}
