//! A profile: its home, and what is opened in it.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::auth::Auth;
use crate::budgets;
use crate::compact::{self, CompactOptions, Compaction};
use crate::error::{Error, Result};
use crate::event::Origin;
use crate::follow::{Follower, Start};
use crate::lock::Lock;
use crate::log::Position;
use crate::log::folder::Folder;
use crate::log::writer::{Options, Writer};
use crate::skill::{self, Skills};
use crate::sys::file;
use crate::sys::procfs;
use crate::verify::{self, Entry, Verified};
use crate::view::{Place, Policy, View};

/// Mode of `.usage.json.lock` as Hermes makes it, before the umask.
const SNAPSHOT_LOCK_MODE: u32 = 0o644;

/// A profile of an agent, by its home. Nothing is made or read until something is opened in it.
#[derive(Clone, Debug)]
pub struct Profile {
    home: PathBuf,
    options: Options,
    policy: Policy,
}

impl Profile {
    /// The profile whose home is this folder.
    pub fn at(home: impl Into<PathBuf>) -> Profile {
        Profile { home: home.into(), options: Options::default(), policy: Policy::default() }
    }

    /// The profile of the environment: `$HERMES_HOME`, else `~/.hermes`, as Hermes finds it.
    ///
    /// # Errors
    /// [`Error::NoHome`] if neither `HERMES_HOME` nor `HOME` is set.
    pub fn from_env() -> Result<Profile> {
        match home_of_env() {
            Some(home) => Ok(Profile::at(home)),
            None => default_root().map(Profile::at),
        }
    }

    /// The profile that the `hermes` command works on: that of [`from_env`](Self::from_env), but if `HERMES_HOME` is not
    /// set, the one that `~/.hermes/active_profile` names, if it is there.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn active() -> Result<Profile> {
        let profile = Profile::from_env()?;
        if home_of_env().is_some() {
            return Ok(profile);
        }
        let name = std::fs::read_to_string(profile.home.join("active_profile")).unwrap_or_default();
        match name.trim() {
            "" | "default" => Ok(profile),
            name => Profile::named(name).or_else(|error| {
                tracing::warn!(%error, "active_profile is passed over");
                Ok(profile)
            }),
        }
    }

    /// A profile by its name: `default` is the root itself, another is `<root>/profiles/<name>`. The root is that of
    /// [`from_env`](Self::from_env), also when `HERMES_HOME` names a profile inside it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that is not `[a-z0-9][a-z0-9_-]{0,63}`, [`Error::NotFound`] if there is no such
    /// profile, [`Error::NoHome`].
    pub fn named(name: &str) -> Result<Profile> {
        let is_first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let mut letters = name.chars();
        let is_name = letters.next().is_some_and(is_first)
            && letters.all(|c| is_first(c) || c == '_' || c == '-')
            && name.len() <= 64;
        if !is_name {
            return Err(Error::Invalid {
                what: "profile name",
                found: format!("{name:?}"),
                allowed: "a to z and 0 to 9, then also _ and -, at most 64",
            });
        }
        let root = Profile::from_env()?.root();
        let home = if name == "default" { root } else { root.join("profiles").join(name) };
        if !home.is_dir() {
            return Err(Error::NotFound { what: "profile", name: format!("{name} ({})", home.display()) });
        }
        Ok(Profile::at(home))
    }

    /// The same profile, with other options for what is opened in it.
    #[must_use]
    pub fn with_options(self, options: Options) -> Profile {
        Profile { options, ..self }
    }

    /// The same profile, shown by another policy.
    #[must_use]
    pub fn with_policy(self, policy: Policy) -> Profile {
        Profile { policy, ..self }
    }

    /// The profile's home.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The root that the profile belongs to: itself, or the folder above the `profiles` that it is in.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        match self.home.parent().filter(|parent| parent.file_name().is_some_and(|name| name == "profiles")) {
            Some(profiles) => profiles.parent().unwrap_or(profiles).to_owned(),
            None => self.home.clone(),
        }
    }

    /// The folder of the log.
    #[must_use]
    pub fn log_folder(&self) -> PathBuf {
        self.home.join("event-log")
    }

    /// The folder of the skills.
    #[must_use]
    pub fn skills_folder(&self) -> PathBuf {
        self.home.join("skills")
    }

    /// The snapshot, in Hermes's own format.
    #[must_use]
    pub fn snapshot_path(&self) -> PathBuf {
        self.skills_folder().join(".usage.json")
    }

    /// Opens the log for appending, made if need be. The home must be there.
    ///
    /// # Errors
    /// As [`Writer::open`]; [`Error::NotFound`] if there is no home.
    pub fn writer(&self, origin: Origin<'static>) -> Result<Writer> {
        if !self.home.is_dir() {
            return Err(Error::NotFound { what: "profile home", name: self.home.display().to_string() });
        }
        Writer::open(&self.log_folder(), origin, self.options)
    }

    /// Opens a view. A profile without a log, or without a home, is an empty view; nothing is made.
    ///
    /// # Errors
    /// As [`View::refresh`].
    pub fn view(&self) -> Result<View> {
        View::open(self.place(), self.policy)
    }

    /// Opens the credentials for a process of this origin. Only reads; nothing is made before the first change.
    ///
    /// # Errors
    /// As [`View::refresh`].
    pub fn auth(&self, origin: Origin<'static>) -> Result<Auth> {
        Auth::open(self, origin)
    }

    /// Compacts once, see [`compact::run`](crate::compact), and removes what dead processes left among the skills.
    ///
    /// # Errors
    /// Whatever stops it; nothing is lost, and the next run goes on.
    pub fn compact(&self, options: &CompactOptions) -> Result<Compaction> {
        let done = compact::run(self, options);
        skill::clean_up(self);
        done
    }

    /// The skills' files, for a process of this origin.
    #[must_use]
    pub fn skills(&self, origin: Origin<'static>) -> Skills {
        Skills::new(self.clone(), origin)
    }

    /// Follows the log: events, gaps and compactions as they come.
    ///
    /// # Errors
    /// As [`Follower`] says; [`Error::PositionCompacted`] if the position to start from is compacted away.
    pub fn follow(&self, start: Start) -> Result<Follower> {
        Follower::open(self, start)
    }

    /// Passes every frame and gap from `from` on (`None`: the oldest segment that is kept) to `sink`, oldest first, up to
    /// what is in the log now or until `sink` breaks. Returns where to go on.
    ///
    /// # Errors
    /// [`Error::PositionCompacted`] if it is in a checkpoint, or a compaction overtook the scan; [`Error::Io`].
    pub fn scan(&self, from: Option<Position>, sink: impl FnMut(Entry<'_>) -> ControlFlow<()>) -> Result<Position> {
        verify::scan(self, from, sink)
    }

    /// Reads every checkpoint, every segment that is kept, and `.usage.json`. Changes nothing. `progress` is told how
    /// far it is.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::NewerFormat`]; damage is a finding, not an error.
    pub fn verify(&self, progress: impl FnMut(Position)) -> Result<Verified> {
        verify::verify(self, progress)
    }

    /// Bytes that segments above the floor can hold, the live one left out: what a compaction would fold.
    pub(crate) fn unfolded_len(&self) -> Result<u64> {
        let folder = Folder::open(&self.log_folder(), self.options.allow_network_fs, false)?;
        let listing = folder.list()?;
        let floor = listing.floor(&[]);
        let sealed = listing.segments.iter().filter(|n| **n > floor && Some(**n) != listing.highest_segment());
        let mut len = 0;
        for number in sealed {
            len += file::stat_if_there(&folder.segment_path(*number))?.map_or(0, |stat| stat.len);
        }
        Ok(len)
    }

    /// The profile's locks, the compactor's and the one of `.usage.json`, each with its holder: `None` if it is free, or
    /// where `/proc` does not tell.
    #[must_use]
    pub fn locks(&self) -> [(PathBuf, Option<String>); 2] {
        [self.log_folder().join(compact::LOCK_NAME), self.snapshot_lock_path()].map(|path| {
            let flocks = procfs::flocks().ok();
            let holder = flocks.and_then(|flocks| flocks.at(&path)?.holders.first().map(ToString::to_string));
            (path, holder)
        })
    }

    /// Takes the lock of `.usage.json` that Hermes takes for each rewrite, for a program that rewrites the file itself.
    /// It is held until the returned guard is dropped, and should be held for less than
    /// [`budgets::SNAPSHOT`](crate::budgets::SNAPSHOT) allows.
    ///
    /// # Errors
    /// [`Error::LockTimeout`] when `limit` runs out (zero: one attempt); [`Error::Io`].
    pub fn lock_snapshot(&self, limit: Duration) -> Result<impl Drop + Send + Sync + use<>> {
        self.take_snapshot_lock(limit)
    }

    pub(crate) fn take_snapshot_lock(&self, limit: Duration) -> Result<Lock> {
        Lock::take(&self.snapshot_lock_path(), SNAPSHOT_LOCK_MODE, budgets::SNAPSHOT, limit)
    }

    fn snapshot_lock_path(&self) -> PathBuf {
        self.snapshot_path().with_file_name(".usage.json.lock")
    }

    pub(crate) fn place(&self) -> Place {
        Place {
            folder: self.log_folder(),
            snapshot: self.snapshot_path(),
            allow_network_fs: self.options.allow_network_fs,
        }
    }

    pub(crate) fn options(&self) -> Options {
        self.options
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }
}

/// `HERMES_HOME`. Hermes strips white space, and takes nothing but white space for unset.
fn home_of_env() -> Option<PathBuf> {
    let home = std::env::var_os("HERMES_HOME")?;
    let stripped = match home.to_str() {
        Some(home) => PathBuf::from(home.trim()),
        None => PathBuf::from(home),
    };
    Some(stripped).filter(|home| !home.as_os_str().is_empty())
}

fn default_root() -> Result<PathBuf> {
    match std::env::var_os("HOME").filter(|home| !home.is_empty()) {
        Some(home) => Ok(PathBuf::from(home).join(".hermes")),
        None => Err(Error::NoHome),
    }
}
