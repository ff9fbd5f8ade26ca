//! Profiles, and what is opened in them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use hermes_log::{CompactOptions, Options, Origin, Policy, Start, compact};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::auth::Auth;
use crate::emitter::Emitter;
use crate::error::raise;
use crate::follow::Follower;
use crate::reports::{Compaction, Position, Status, Verified};
use crate::shared::locked;
use crate::skill::{SkillLock, SkillLocks, Skills};
use crate::text::Name;
use crate::usage::Usage;
use crate::view::View;
use crate::writer::Writer;

/// See the stubs.
#[pyclass(frozen, module = "hermes_log")]
pub(crate) struct Profile(hermes_log::Profile);

/// See the stubs.
#[pyclass(frozen, module = "hermes_log._native")]
pub(crate) struct SnapshotLock {
    profile: hermes_log::Profile,
    limit: Duration,
    held: Mutex<Option<Box<dyn Send + Sync>>>,
}

/// A span of seconds.
pub(crate) fn seconds(limit: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(limit).map_err(|_| PyValueError::new_err(format!("{limit} is no span of seconds")))
}

fn origin(kind: Name, session: Option<Name>) -> Origin<'static> {
    Origin { session: session.map(|session| session.0.into()), ..Origin::here(kind.0) }
}

#[pymethods]
impl Profile {
    #[new]
    #[pyo3(signature = (home=None, *, capacity=None, allow_network_fs=false, reviews_are_views=false))]
    fn new(
        home: Option<PathBuf>,
        capacity: Option<u32>,
        allow_network_fs: bool,
        reviews_are_views: bool,
    ) -> PyResult<Profile> {
        let profile = match home {
            Some(home) => hermes_log::Profile::at(home),
            None => hermes_log::Profile::from_env().map_err(raise)?,
        };
        let options = Options { capacity, allow_network_fs };
        Ok(Profile(profile.with_options(options).with_policy(Policy { reviews_are_views })))
    }

    #[staticmethod]
    fn named(name: &str) -> PyResult<Profile> {
        hermes_log::Profile::named(name).map(Profile).map_err(raise)
    }

    #[getter]
    fn home(&self) -> PathBuf {
        self.0.home().to_owned()
    }

    #[getter]
    fn log_folder(&self) -> PathBuf {
        self.0.log_folder()
    }

    #[getter]
    fn snapshot_path(&self) -> PathBuf {
        self.0.snapshot_path()
    }

    #[pyo3(signature = (kind, session=None, *, compact_after=16 << 20))]
    fn emitter(&self, kind: Name, session: Option<Name>, compact_after: Option<u64>) -> Emitter {
        Emitter::open(&self.0, origin(kind, session), compact_after)
    }

    #[pyo3(signature = (kind, session=None))]
    fn writer(&self, py: Python<'_>, kind: Name, session: Option<Name>) -> PyResult<Writer> {
        let origin = origin(kind, session);
        py.detach(|| Writer::open(self.0.clone(), origin)).map_err(raise)
    }

    fn view<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let view = py.detach(|| View::open(self.0.clone())).map_err(raise)?;
        py.import("hermes_log.view")?.getattr("View")?.call1((view,))
    }

    #[pyo3(signature = (kind, session=None))]
    fn auth(&self, py: Python<'_>, kind: Name, session: Option<Name>) -> PyResult<Auth> {
        let origin = origin(kind, session);
        py.detach(|| Auth::open(self.0.clone(), origin)).map_err(raise)
    }

    #[pyo3(signature = (kind, session=None, *, limit=30.0))]
    fn skills(&self, kind: Name, session: Option<Name>, limit: f64) -> PyResult<Skills> {
        Ok(Skills(self.0.skills(origin(kind, session)).with_limit(seconds(limit)?)))
    }

    #[pyo3(signature = (name, limit=30.0, *, kind=Name("session".into()), session=None))]
    fn skill_lock(&self, name: Name, limit: f64, kind: Name, session: Option<Name>) -> PyResult<SkillLock> {
        Ok(SkillLock::of(self.skills(kind, session, limit)?, name.0))
    }

    #[pyo3(signature = (names, limit=30.0, *, kind=Name("session".into()), session=None))]
    fn skill_locks(&self, names: Vec<Name>, limit: f64, kind: Name, session: Option<Name>) -> PyResult<SkillLocks> {
        Ok(SkillLocks::of(self.skills(kind, session, limit)?, names))
    }

    fn _usage(&self, py: Python<'_>, kind: Name) -> PyResult<Usage> {
        py.detach(|| Usage::open(self.0.clone(), origin(kind, None))).map_err(raise)
    }

    #[pyo3(signature = (start=None, *, idle_limit=None))]
    fn follow(&self, py: Python<'_>, start: Option<&Bound<'_, PyAny>>, idle_limit: Option<f64>) -> PyResult<Follower> {
        let start = match start {
            None => Start::Now,
            Some(start) => match start.cast::<Position>() {
                Ok(position) => Start::At(position.get().0),
                Err(_) => match start.extract::<String>()?.as_str() {
                    "now" => Start::Now,
                    "oldest" => Start::Oldest,
                    text => Start::At(text.parse().map_err(raise)?),
                },
            },
        };
        let idle_limit = idle_limit.map(seconds).transpose()?;
        py.detach(|| Follower::open(self.0.clone(), start, idle_limit)).map_err(raise)
    }

    #[pyo3(signature = (*, lock_wait=60.0, snapshot_wait=10.0, retain=3600.0, scrub=false))]
    fn compact(
        &self,
        py: Python<'_>,
        lock_wait: f64,
        snapshot_wait: f64,
        retain: f64,
        scrub: bool,
    ) -> PyResult<Compaction> {
        let options = CompactOptions {
            lock_wait: seconds(lock_wait)?,
            snapshot_wait: seconds(snapshot_wait)?,
            retain: seconds(retain)?,
            scrub,
        };
        py.detach(|| self.0.compact(&options)).map(Compaction::from).map_err(raise)
    }

    fn verify(&self, py: Python<'_>) -> PyResult<Verified> {
        py.detach(|| self.0.verify(|_| {})).map(Verified::from).map_err(raise)
    }

    fn last_compaction(&self, py: Python<'_>) -> PyResult<Option<Status>> {
        let status = py.detach(|| compact::Status::read(&self.0.log_folder())).map_err(raise)?;
        Ok(status.map(Status::from))
    }

    fn __repr__(&self) -> String {
        format!("Profile({:?})", self.0.home())
    }

    fn __fspath__(&self) -> OsString {
        self.0.home().into() // a string, as the protocol wants it, and no `Path`
    }
}

impl SnapshotLock {
    pub(crate) fn new(profile: hermes_log::Profile, limit: Duration) -> SnapshotLock {
        SnapshotLock { profile, limit, held: Mutex::default() }
    }
}

#[pymethods]
impl SnapshotLock {
    fn __enter__(&self, py: Python<'_>) -> PyResult<()> {
        let held = py.detach(|| self.profile.lock_snapshot(self.limit)).map_err(raise)?;
        *locked(&self.held) = Some(Box::new(held));
        Ok(())
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        locked(&self.held).take();
    }
}
