//! What the plugin for Hermes calls: records out, changes of records in.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hermes_log::compact::{CompactOptions, Status};
use hermes_log::view::records::Record;
use hermes_log::{
    Durability, Emitter, EmitterOptions, Event, Origin, Position, Profile, View, Writer, budgets, process_id,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde_json::Value;

use crate::beyond::{self, How, Written};
use crate::counted::counted;
use crate::difference::{Change, change};
use crate::error::{Result, raise};
use crate::profile::SnapshotLock;
use crate::shared::{Shared, locked};
use crate::{json, text};

/// A compaction starts when this many segments are sealed and not folded,
const COMPACT_SEGMENTS: u64 = 4;
/// or when `.usage.json` was last written this long ago: who reads only that should not be far behind.
const COMPACT_AGE: Duration = Duration::from_secs(3600);

/// The usage of one profile, for one process. Every change is in the kernel when the call returns.
///
/// No Python object is made or dropped while a lock is held: that may run any code, which may want the lock.
#[pyclass(frozen, module = "hermes_log._native")]
pub(crate) struct Usage {
    profile: Profile,
    origin: Origin<'static>,
    shared: Shared<Inner>,
    /// All records as of a revision of the view. The dictionaries are copied from, never handed out.
    cache: Mutex<Option<Arc<Cache>>>,
    hot: Mutex<Hot>,
    /// Takes what could not be appended because of a full disk and the like, keeps it, and tries again.
    emitter: Emitter,
    /// Why the last append that was refused was.
    refusal: Mutex<Option<String>>,
}

struct Inner {
    /// `None` while it cannot be opened: what is counted does not depend on it.
    view: Option<View>,
    writer: Writer,
    compacted: Compacted,
}

/// When a compaction was last looked at.
struct Compacted {
    segment: u64,
    looked: Option<Instant>,
}

struct Cache {
    /// A forked child may have made a view of its own.
    of: (u32, u64),
    base: Arc<BTreeMap<String, Record>>,
    /// Name, record, and whether nothing in the record can be changed in place.
    records: Vec<(Py<PyString>, Py<PyDict>, bool)>,
}

/// Records of the last millisecond, with what this process has counted in them since. Whoever counts without a pause does
/// not have to fold its own events, and those of everybody else, for each one; what it counts does not depend on them.
#[derive(Default)]
struct Hot {
    process: u32,
    since: Option<Instant>,
    records: HashMap<String, Py<PyDict>>,
}

/// How long.
const HOT: Duration = Duration::from_millis(1);

/// Records that no event can make what they are now.
#[pyclass(frozen, module = "hermes_log._native")]
pub(crate) struct Beyond(Vec<Written>);

/// The records that a caller was given, to tell what it changed.
#[pyclass(frozen, module = "hermes_log._native")]
pub(crate) struct Base(Arc<BTreeMap<String, Record>>);

impl Usage {
    pub(crate) fn open(profile: Profile, origin: Origin<'static>) -> Result<Usage> {
        let inner = Inner::open(&profile, origin.clone())?;
        // Its backlog is for trouble; the compaction is looked after here.
        let options = EmitterOptions { compact_after: None, ..EmitterOptions::default() };
        let emitter = Emitter::new(profile.clone(), origin.clone(), options);
        Ok(Usage {
            profile,
            origin,
            shared: Shared::new(inner),
            cache: Mutex::default(),
            hot: Mutex::default(),
            emitter,
            refusal: Mutex::default(),
        })
    }

    fn inner(&self) -> PyResult<Arc<Mutex<Inner>>> {
        let make = || Inner::open(&self.profile, Origin { process: process_id(), ..self.origin.clone() });
        self.shared.get(make).map_err(raise)
    }

    /// A record that is not older than [`HOT`]; `None` also if something in it can be changed in place. Not to be changed.
    fn record<'py>(&self, py: Python<'py>, inner: &Mutex<Inner>, name: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
        let process = process_id();
        let (_outdated, record) = {
            let (mut hot, mut inner) = (locked(&self.hot), locked(inner));
            let mut outdated = Hot::default();
            if hot.process != process || hot.since.is_none_or(|since| since.elapsed() >= HOT) {
                inner.view(&self.profile).map_err(raise)?;
                let now = Hot { process, since: Some(Instant::now()), records: HashMap::new() };
                outdated = std::mem::replace(&mut hot, now);
            } else if let Some(record) = hot.records.get(name) {
                return Ok(Some(record.bind(py).clone()));
            }
            (outdated, inner.view.as_ref().and_then(|view| view.skill(name)).map(|skill| skill.record()))
        };
        match record {
            Some(record) if is_flat(&record) => json::record_to_python(py, &record).map(Some),
            _ => Ok(None),
        }
    }

    /// Records what a mutator made of a record that is still the same; false if it is another one by now.
    fn save_if_current(
        &self,
        py: Python<'_>,
        skill: &Bound<'_, PyString>,
        before: &Bound<'_, PyDict>,
        after: Bound<'_, PyDict>,
    ) -> PyResult<bool> {
        let (_, base) = self.load(py, Some(skill))?;
        if base.0.values().next() != Some(&json::record_from_python(before)?) {
            return Ok(false);
        }
        let records = PyDict::new(py);
        records.set_item(skill, after)?;
        let (saved, beyond) = self.save(py, &records, Some(&base), false)?;
        if let Some(beyond) = beyond {
            self.write(py, &beyond)?;
        }
        Ok(saved.is_some())
    }

    /// Keeps what a record is now, for as long as [`record`](Self::record) would have given the one before.
    fn keep(&self, name: &str, record: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut kept = record.copy()?.unbind(); // who changed it may have it still
        if let Some(place) = locked(&self.hot).records.get_mut(name) {
            std::mem::swap(place, &mut kept);
            return Ok(());
        }
        let outdated = locked(&self.hot).records.insert(name.to_owned(), kept);
        drop(outdated);
        Ok(())
    }

    /// Appends one frame. What a full disk and the like does not take is handed over to the emitter; after another error
    /// it is not recorded.
    fn append(&self, mut inner: MutexGuard<'_, Inner>, events: &[Event<'_>]) -> Result<()> {
        match inner.writer.append_batch(events, Durability::Process) {
            Ok(position) => {
                let floor = inner.floor();
                if inner.compacted.is_worth_a_look(position, floor) {
                    drop(inner);
                    compact_if_due(self.profile.clone(), position);
                }
            }
            // It may count already: once more could make it two.
            Err(hermes_log::Error::NotAcknowledged { .. }) => {}
            Err(error) if error.is_transient() => {
                events.iter().for_each(|event| self.emitter.emit(event.clone().into_owned()));
            }
            Err(error) => {
                *locked(&self.refusal) = Some(error.to_string());
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Inner {
    fn open(profile: &Profile, origin: Origin<'static>) -> Result<Inner> {
        let writer = profile.writer(origin)?;
        let view = match profile.view() {
            // Others' file: the log can be used all the same.
            Err(hermes_log::Error::Io { path, .. }) if path == profile.snapshot_path() => None,
            view => Some(view?),
        };
        Ok(Inner { view, writer, compacted: Compacted { segment: 0, looked: None } })
    }

    /// The view, as of now.
    fn view(&mut self, profile: &Profile) -> Result<&mut View> {
        match &mut self.view {
            Some(view) => view.refresh().map(|()| view),
            none => Ok(none.insert(profile.view()?)),
        }
    }

    fn floor(&self) -> u64 {
        self.view.as_ref().map_or(0, View::floor)
    }

    fn is_external(&self, skill: &str) -> bool {
        self.view.as_ref().is_some_and(|view| view.is_worked_on_by_others(skill))
    }
}

impl Compacted {
    fn is_worth_a_look(&mut self, position: Position, floor: u64) -> bool {
        let is_first = self.looked.is_none_or(|looked| looked.elapsed() >= COMPACT_AGE);
        if !is_first && (position.segment == self.segment || position.segment.saturating_sub(floor) <= COMPACT_SEGMENTS)
        {
            return false;
        }
        self.segment = position.segment;
        self.looked = Some(Instant::now());
        true
    }
}

/// In a thread of its own, with one try for the lock. It may die with the process at any point.
fn compact_if_due(profile: Profile, position: Position) {
    let work = move || {
        let last = Status::read(&profile.log_folder()).ok().flatten();
        let (floor, ended_micros) = last.map_or((0, 0), |last| (last.floor.unwrap_or(0), last.ended_micros));
        let age = now_micros().saturating_sub(i64::try_from(ended_micros).unwrap_or(0));
        let is_old = u128::from(age.unsigned_abs()) >= COMPACT_AGE.as_micros();
        if is_old || position.segment.saturating_sub(floor) > COMPACT_SEGMENTS {
            let options = CompactOptions { lock_wait: Duration::ZERO, ..CompactOptions::default() };
            let _ = profile.compact(&options); // who comes next tries again
        }
    };
    let _ = std::thread::Builder::new().name("hermes-log".into()).spawn(work);
}

/// The fields that are other objects in two records with the same ones, as they were and as they are. `None`: they cannot
/// be told apart, or read.
fn differences(before: &Bound<'_, PyDict>, after: &Bound<'_, PyDict>) -> PyResult<Option<(Record, Record)>> {
    let (mut was, mut is) = (Record::new(), Record::new());
    // A copy has its fields in the same order, and setting one does not change that.
    for ((field, value), (same_field, other)) in after.iter().zip(before.iter()) {
        if value.is(&other) {
            continue;
        }
        let Ok(field) = field.cast::<PyString>() else { return Ok(None) };
        if !field.is(&same_field) {
            return Ok(None);
        }
        let (field, Ok(value)) = (text::to_log(field)?, json::from_python(&value)) else { return Ok(None) };
        was.insert(field.to_string(), json::from_python(&other)?);
        is.insert(field.into_owned(), value);
    }
    Ok(Some((was, is)))
}

/// Whether nothing in a record can be changed in place.
fn is_flat(record: &Record) -> bool {
    !record.values().any(|value| matches!(value, Value::Array(_) | Value::Object(_)))
}

fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[pymethods]
impl Base {
    /// Of nothing: what is made of an empty record says what was done, whatever the record is.
    #[new]
    fn new() -> Base {
        Base(Arc::default())
    }
}

#[pymethods]
impl Usage {
    /// Runs a mutator on a copy of a record, and appends what it counted. False, and nothing is done: there is no such
    /// record, the mutator raised, or did something else than count; or it could not be appended, and then
    /// [`refused`](Self::refused) says why.
    fn count(&self, py: Python<'_>, skill: &Bound<'_, PyAny>, mutator: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(skill) = skill.cast_exact::<PyString>() else { return Ok(false) };
        let (name, inner) = (text::to_log(skill)?, self.inner()?);
        let Some(before) = self.record(py, &inner, &name)? else { return Ok(false) };
        let record = before.copy()?;
        if mutator.call1((&record,)).is_err() || record.len() != before.len() {
            return Ok(false);
        }
        let now = now_micros();
        if let Some(events) = counted(&name, &before, &record, now) {
            if self.append(locked(&inner), &events).is_err() {
                return Ok(false);
            }
            return self.keep(&name, &record).map(|()| true);
        }
        let Some((was, is)) = differences(&before, &record)? else { return Ok(false) };
        let Change::Counted(events) = change(&name, Some(&was), &is, now) else {
            return self.save_if_current(py, skill, &before, record);
        };
        if !events.is_empty() {
            if self.append(locked(&inner), &events).is_err() {
                return Ok(false);
            }
            self.keep(&name, &record)?;
        }
        Ok(true)
    }

    /// All records, or the one of that name if there is one, as of now: independent copies, and what to tell changes by.
    #[pyo3(signature = (only=None))]
    fn load<'py>(&self, py: Python<'py>, only: Option<&Bound<'py, PyString>>) -> PyResult<(Bound<'py, PyDict>, Base)> {
        let inner = self.inner()?;
        let records = PyDict::new(py);
        if let Some(only) = only {
            let name = text::to_log(only)?;
            let record = py.detach(|| {
                let mut inner = locked(&inner);
                inner.view(&self.profile).map(|view| view.skill(&name).map(|skill| skill.record()))
            });
            let mut base = BTreeMap::new();
            if let Some(record) = record.map_err(raise)? {
                records.set_item(only, json::record_to_python(py, &record)?)?;
                base.insert(name.into_owned(), record);
            }
            return Ok((records, Base(Arc::new(base))));
        }
        let cached = locked(&self.cache).as_ref().map(|cache| cache.of);
        let newer = py.detach(|| {
            let mut inner = locked(&inner);
            let view = inner.view(&self.profile)?;
            let of = (process_id(), view.revision());
            let all = || view.skills().into_iter().map(|(name, skill)| (name.to_owned(), skill.record())).collect();
            Ok((cached != Some(of)).then(|| (of, all())))
        });
        if let Some((of, base)) = newer.map_err(raise)? {
            let cache = Some(Arc::new(Cache::new(py, of, base)?));
            let outdated = std::mem::replace(&mut *locked(&self.cache), cache);
            drop(outdated);
        }
        let cache = locked(&self.cache).clone();
        let base = match cache {
            Some(cache) => {
                cache.copy_to(py, &records)?;
                Arc::clone(&cache.base)
            }
            None => Arc::default(),
        };
        Ok((records, Base(base)))
    }

    /// Records what was changed in records that [`load`](Self::load) gave, or, without a base, what differs from the log
    /// now. Returns what to tell later changes by, and what has to be given to [`write`](Self::write). `None`, and nothing is done: a new value may depend on the one before,
    /// so it has to be done once more with the lock of `.usage.json` held.
    #[pyo3(signature = (records, base, *, locked))]
    fn save(
        &self,
        py: Python<'_>,
        records: &Bound<'_, PyDict>,
        base: Option<&Base>,
        locked: bool,
    ) -> PyResult<(Option<Base>, Option<Beyond>)> {
        let inner = self.inner()?;
        crate::shared::locked(&self.hot).since = None;
        let base = match base {
            Some(base) => Arc::clone(&base.0),
            None => self.load(py, None)?.1.0,
        };
        let (mut saved, mut events, mut written) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut is_counted = true;
        let now = now_micros();
        for (key, value) in records {
            let Ok(record) = value.cast::<PyDict>() else { continue };
            let name = text::to_log(&key.str()?)?.into_owned();
            let record = json::record_from_python(record)?;
            let before = base.get(&name);
            if before != Some(&record) {
                match change(&name, before, &record, now) {
                    Change::Counted(counted) => events.extend(counted),
                    Change::Events { depends: true, .. } if !locked => return Ok((None, None)),
                    Change::Events { events: more, .. } => {
                        is_counted = false;
                        events.extend(more);
                    }
                    Change::Beyond { reset } => {
                        let how = match (reset, before) {
                            (false, _) => How::Times,
                            (true, None) => How::New,
                            (true, Some(_)) => How::Anew,
                        };
                        written.push(Written { name: name.clone(), record: record.clone(), how });
                    }
                }
            }
            saved.insert(name, record);
        }
        let gone = base.keys().filter(|name| !saved.contains_key(*name));
        for name in gone {
            is_counted = false;
            events.push(Event::Forgotten { skill: name.clone().into() });
        }
        py.detach(|| {
            let is_external = |event: &Event<'_>| {
                let inner = crate::shared::locked(&inner);
                event.skill().is_some_and(|skill| inner.is_external(skill))
            };
            if !is_counted && !locked && events.iter().any(is_external) {
                beyond::take_in(&self.profile)?; // else what others did before would count as the newer
            }
            // One skill's events stay in one frame.
            for events in events.chunk_by(|one, next| one.skill() == next.skill()) {
                self.append(crate::shared::locked(&inner), events)?;
            }
            Ok(())
        })
        .map_err(raise)?;
        let rest = (!written.is_empty()).then_some(Beyond(written));
        Ok((Some(Base(Arc::new(saved))), rest))
    }

    /// Writes to `.usage.json` what no event can say; not with its lock held.
    fn write(&self, py: Python<'_>, beyond: &Beyond) -> PyResult<()> {
        let origin = Origin { process: process_id(), ..self.origin.clone() };
        py.detach(|| beyond::write(&self.profile, &mut self.profile.writer(origin)?, &beyond.0)).map_err(raise)
    }

    /// Puts what others did to records in `.usage.json` into the log, if there is any, so that what comes now counts as
    /// the newer. Not with the lock of the file held.
    #[pyo3(signature = (only=None))]
    fn take_in(&self, py: Python<'_>, only: Option<&Bound<'_, PyString>>) -> PyResult<()> {
        let inner = self.inner()?;
        let only = only.map(text::to_log).transpose()?;
        py.detach(|| {
            let is_external = {
                let mut inner = locked(&inner);
                let view = inner.view(&self.profile)?;
                match &only {
                    Some(name) => view.is_worked_on_by_others(name),
                    None => view.skills().iter().any(|(name, _)| view.is_worked_on_by_others(name)),
                }
            };
            if is_external { beyond::take_in(&self.profile) } else { Ok(()) }
        })
        .map_err(raise)
    }

    /// The lock of `.usage.json`, as a context manager.
    fn lock(&self) -> SnapshotLock {
        SnapshotLock::new(self.profile.clone(), budgets::SNAPSHOT.wait_limit)
    }

    /// Why something could not be appended, if something could not.
    fn refused(&self) -> Option<String> {
        locked(&self.refusal).clone()
    }

    /// What waits for the log to become writable, and what is lost.
    fn trouble(&self, py: Python<'_>) -> (u64, u64) {
        let counters = py.detach(|| self.emitter.counters());
        (counters.waiting + counters.queued, counters.failed)
    }

    /// Waits until what could not be appended is, at most `limit` seconds.
    fn flush(&self, py: Python<'_>, limit: f64) -> PyResult<()> {
        let limit = crate::profile::seconds(limit)?;
        py.detach(|| self.emitter.flush(limit)).map_err(raise)
    }
}

impl Cache {
    fn new(py: Python<'_>, of: (u32, u64), base: BTreeMap<String, Record>) -> PyResult<Cache> {
        let mut records = Vec::with_capacity(base.len());
        for (name, record) in &base {
            let is_flat = is_flat(record);
            let (name, record) = (text::from_log(py, name)?, json::record_to_python(py, record)?);
            records.push((name.unbind(), record.unbind(), is_flat));
        }
        Ok(Cache { of, base: Arc::new(base), records })
    }

    fn copy_to<'py>(&self, py: Python<'py>, all: &Bound<'py, PyDict>) -> PyResult<()> {
        for ((name, record, is_flat), original) in self.records.iter().zip(self.base.values()) {
            let copy = if *is_flat { record.bind(py).copy()? } else { json::record_to_python(py, original)? };
            all.set_item(name, copy)?;
        }
        Ok(())
    }
}
