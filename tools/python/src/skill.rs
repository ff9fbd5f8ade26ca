//! Locks of skills, and the files under them.
//!
//! The library's lock stays in the thread that took it, so it is kept in a thread-local. What Python has is a key to it,
//! which opens nothing in another thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use hermes_log::Error;
use hermes_log::skill::{Found, SkillLock as LogLock, Skills as LogSkills};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::error::{Result, raise};
use crate::text::{self, Name};

thread_local! {
    /// The sets of locks that this thread has entered; of each, what was not used up.
    static HELD: RefCell<HashMap<u64, Vec<Option<LogLock>>>> = RefCell::default();
}

/// A key of its own for each set.
static NEXT_KEY: AtomicU64 = AtomicU64::new(1);

/// The key of a set of locks; 0 while it is not held.
#[derive(Default)]
struct Key(AtomicU64);

impl Key {
    fn enter(&self, skills: &LogSkills, names: &[&str]) -> Result<()> {
        if self.0.load(SeqCst) != 0 {
            return Err(refused(&names.join(", "), "its lock is held already"));
        }
        let locks = skills.lock_many(names)?;
        let key = NEXT_KEY.fetch_add(1, SeqCst);
        HELD.with_borrow_mut(|held| held.insert(key, locks.into_iter().map(Some).collect()));
        self.0.store(key, SeqCst);
        Ok(())
    }

    /// Releases the set, in the thread that has it. Returns whether it did.
    fn leave(&self) -> bool {
        let key = self.0.load(SeqCst);
        // A thread that is ending has released everything.
        let Ok(Some(locks)) = HELD.try_with(|held| held.borrow_mut().remove(&key)) else { return false };
        self.0.store(0, SeqCst); // before the next one can have the lock, by this key
        drop(locks);
        true
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.leave();
    }
}

/// See the stubs.
#[pyclass(frozen, module = "hermes_log")]
pub(crate) struct Skills(pub(crate) LogSkills);

/// See the stubs.
#[pyclass(frozen, module = "hermes_log")]
pub(crate) struct SkillLocks {
    skills: LogSkills,
    names: Vec<String>,
    key: Arc<Key>,
}

/// See the stubs.
#[pyclass(frozen, module = "hermes_log")]
pub(crate) struct SkillLock {
    skills: LogSkills,
    name: String,
    key: Arc<Key>,
    /// Which one of the set.
    place: usize,
}

/// The content of a file.
#[derive(FromPyObject)]
enum Content {
    Text(String),
    Bytes(Vec<u8>),
}

impl SkillLocks {
    pub(crate) fn of(skills: Skills, names: Vec<Name>) -> SkillLocks {
        SkillLocks { skills: skills.0, names: names.into_iter().map(|name| name.0).collect(), key: Arc::default() }
    }
}

impl SkillLock {
    pub(crate) fn of(skills: Skills, name: String) -> SkillLock {
        SkillLock { skills: skills.0, name, key: Arc::default(), place: 0 }
    }

    /// The lock, where it may be used.
    fn with<T>(&self, work: impl FnOnce(&mut Option<LogLock>) -> Option<Result<T>>) -> Result<T> {
        let key = self.key.0.load(SeqCst);
        let refused = |why| Err(refused(&self.name, why));
        HELD.with_borrow_mut(|held| match held.get_mut(&key).and_then(|locks| locks.get_mut(self.place)) {
            Some(lock) => work(lock).unwrap_or_else(|| refused("its lock was used up by the change before")),
            None if key == 0 => refused("its lock is not held: enter it by `with`"),
            None => refused("its lock belongs to the thread that entered it"),
        })
    }

    fn change<T: Send>(&self, py: Python<'_>, change: impl Send + FnOnce(&LogLock) -> Result<T>) -> PyResult<T> {
        py.detach(|| self.with(|lock| lock.as_ref().map(change))).map_err(raise)
    }

    /// A change that uses the lock up, whether or not it goes through.
    fn last_change<T: Send>(&self, py: Python<'_>, change: impl Send + FnOnce(LogLock) -> Result<T>) -> PyResult<T> {
        py.detach(|| self.with(|lock| lock.take().map(change))).map_err(raise)
    }
}

#[pymethods]
impl Skills {
    fn list<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyString>, PathBuf)>> {
        named(py, py.detach(|| self.0.list()))
    }

    fn archived<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyString>, PathBuf)>> {
        named(py, py.detach(|| self.0.archived()))
    }

    fn find(&self, py: Python<'_>, name: Name) -> PyResult<Option<PathBuf>> {
        py.detach(|| self.0.find(&name.0)).map_err(raise)
    }

    fn restore(&self, py: Python<'_>, name: Name) -> PyResult<PathBuf> {
        py.detach(|| self.0.restore(&name.0)).map_err(raise)
    }
}

#[pymethods]
impl SkillLocks {
    fn __enter__(&self, py: Python<'_>) -> PyResult<Vec<SkillLock>> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        py.detach(|| self.key.enter(&self.skills, &names)).map_err(raise)?;
        let lock = |(place, name): (usize, &String)| {
            let (skills, name, key) = (self.skills.clone(), name.clone(), Arc::clone(&self.key));
            SkillLock { skills, name, key, place }
        };
        Ok(self.names.iter().enumerate().map(lock).collect())
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        leave(py, &self.key, &self.names.join(", "))
    }
}

#[pymethods]
impl SkillLock {
    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let this = slf.get();
        slf.py().detach(|| this.key.enter(&this.skills, &[&this.name])).map_err(raise)?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        leave(py, &self.key, &self.name)
    }

    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        text::from_log(py, &self.name)
    }

    #[getter]
    fn folder(&self, py: Python<'_>) -> PyResult<Option<PathBuf>> {
        self.change(py, |lock| Ok(lock.folder().map(PathBuf::from)))
    }

    #[pyo3(signature = (content, category=None, *, by))]
    fn create(&self, py: Python<'_>, content: Content, category: Option<&str>, by: &str) -> PyResult<PathBuf> {
        self.last_change(py, |lock| lock.create(content.bytes(), category, by))
    }

    fn edit(&self, py: Python<'_>, content: Content) -> PyResult<()> {
        self.change(py, |lock| lock.edit(content.bytes()))
    }

    fn write_file(&self, py: Python<'_>, path: &str, content: Content) -> PyResult<()> {
        self.change(py, |lock| lock.write_file(path, content.bytes()))
    }

    fn remove_file(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        self.change(py, |lock| lock.remove_file(path))
    }

    fn delete(&self, py: Python<'_>) -> PyResult<()> {
        self.last_change(py, LogLock::delete)
    }

    fn archive(&self, py: Python<'_>) -> PyResult<PathBuf> {
        self.last_change(py, LogLock::archive)
    }

    #[pyo3(signature = (folder, category=None, *, source))]
    fn install(&self, py: Python<'_>, folder: PathBuf, category: Option<&str>, source: &str) -> PyResult<PathBuf> {
        self.last_change(py, |lock| lock.install(&folder, category, source))
    }

    #[pyo3(signature = (folder, *, source))]
    fn update(&self, py: Python<'_>, folder: PathBuf, source: &str) -> PyResult<()> {
        self.last_change(py, |lock| lock.update(&folder, source))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("SkillLock({})", self.name(py)?.repr()?))
    }
}

impl Content {
    fn bytes(&self) -> &[u8] {
        match self {
            Content::Text(text) => text.as_bytes(),
            Content::Bytes(bytes) => bytes,
        }
    }
}

/// Releases, at the end of a `with` block, or says why it cannot.
fn leave(py: Python<'_>, key: &Key, names: &str) -> PyResult<()> {
    match py.detach(|| key.leave()) {
        true => Ok(()),
        false => Err(raise(refused(names, "its lock is not held by this thread"))),
    }
}

fn named<'py>(py: Python<'py>, found: Result<Vec<Found>>) -> PyResult<Vec<(Bound<'py, PyString>, PathBuf)>> {
    let found = found.map_err(raise)?;
    found.into_iter().map(|found| Ok((text::from_log(py, &found.name)?, found.folder))).collect()
}

fn refused(skill: &str, why: &str) -> Error {
    Error::Refused { skill: skill.to_owned(), why: why.to_owned() }
}
