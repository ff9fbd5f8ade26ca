//! Which skills are not the agent's own, and which are not to be touched, as Hermes's files say.
//!
//! Hermes takes a file that it cannot read for an empty one: a damaged `jobs.json` or `lock.json` protects nothing there.
//! Here it is an error, and nothing is done on the strength of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

use super::place;
use crate::error::{Error, Result};
use crate::profile::Profile;
use crate::sys::{file, tree};
use crate::view::SkillView;

const DAY: Duration = Duration::from_secs(86_400);
/// Built-in skills that a part of Hermes depends on.
const LOAD_BEARING: [&str; 1] = ["plan"];

/// What a profile's files say about who may do what to which skill.
#[derive(Clone, Debug, Default)]
pub struct Protections {
    /// Came with Hermes (`.bundled_manifest`).
    pub bundled: BTreeSet<String>,
    /// Installed by Hermes's hub (`.hub/lock.json`).
    pub hub: BTreeSet<String>,
    /// Named by a cron job, paused or not (`cron/jobs.json`).
    pub cron: BTreeSet<String>,
    /// Folders that belong to others (`skills.external_dirs`), without symlinks.
    pub external: Vec<PathBuf>,
    /// Whether the curator may archive bundled skills (`curator.prune_builtins`, on by default).
    pub prune_bundled: bool,
    /// `curator.stale_after_days`, 30 by default.
    pub stale_after: Duration,
    /// `curator.archive_after_days`, 90 by default.
    pub archive_after: Duration,
}

impl Protections {
    /// Reads a profile's files. One that is not there says nothing.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Damaged`] for a file that is not what it should be.
    pub fn read(profile: &Profile) -> Result<Protections> {
        let skills = profile.skills_folder();
        let config = Config::read(&profile.home().join("config.yaml"))?;
        Ok(Protections {
            bundled: bundled(&skills.join(".bundled_manifest"))?,
            hub: hub(&skills)?,
            cron: cron(&profile.home().join("cron").join("jobs.json"))?,
            external: config.external(profile)?,
            prune_bundled: config.flag("prune_builtins").unwrap_or(true),
            stale_after: config.days("stale_after_days").unwrap_or(30 * DAY),
            archive_after: config.days("archive_after_days").unwrap_or(90 * DAY),
        })
    }

    /// Why the curator never touches a skill, whatever its record says.
    #[must_use]
    pub fn off_limits(&self, name: &str, folder: &Path) -> Option<&'static str> {
        if self.is_external(folder) {
            return Some("it is in skills.external_dirs, which belong to others");
        }
        if LOAD_BEARING.contains(&name) {
            return Some("Hermes depends on it");
        }
        if self.hub.contains(name) {
            return Some("the hub installed it");
        }
        let is_kept = self.bundled.contains(name) && !self.prune_bundled;
        is_kept.then_some("it came with Hermes, and curator.prune_builtins is off")
    }

    /// Why a process that no user has asked (a review, the curator) must not write to a skill.
    #[must_use]
    pub fn not_in_background(&self, name: &str, folder: &Path, record: Option<SkillView<'_>>) -> Option<&'static str> {
        if record.is_some_and(|record| record.is_pinned()) {
            return Some("it is pinned");
        }
        let of_others = self.off_limits(name, folder).or(self.bundled.contains(name).then_some("it came with Hermes"));
        let is_manual = record.is_some_and(|record| !record.is_curated());
        of_others.or(is_manual.then_some("its record does not say that an agent created it"))
    }

    fn is_external(&self, folder: &Path) -> bool {
        !self.external.is_empty()
            && tree::canonical(folder).is_ok_and(|folder| self.external.iter().any(|root| folder.starts_with(root)))
    }
}

/// The file's content; `None` if it is not there.
fn read(path: &Path) -> Result<Option<String>> {
    match file::read(path) {
        Err(e) if e.is_not_found() => Ok(None),
        other => Ok(Some(String::from_utf8_lossy(&other?).into_owned())),
    }
}

fn damaged(path: &Path, reason: impl ToString) -> Error {
    Error::Damaged {
        path: path.to_owned(),
        reason: reason.to_string(),
        advice: "it says which skills are not to be touched, so none is; mend it or move it away",
    }
}

/// `name:hash` a line.
fn bundled(path: &Path) -> Result<BTreeSet<String>> {
    let text = read(path)?.unwrap_or_default();
    let names = text.lines().map(|line| line.split(':').next().unwrap_or_default().trim().to_owned());
    Ok(names.filter(|name| !name.is_empty()).collect())
}

/// The names under `installed`, and those that stand in the `SKILL.md` of what they installed.
fn hub(skills: &Path) -> Result<BTreeSet<String>> {
    let path = skills.join(".hub").join("lock.json");
    let Some(text) = read(&path)? else { return Ok(BTreeSet::new()) };
    let lock: Value = serde_json::from_str(&text).map_err(|e| damaged(&path, e))?;
    let Some(lock) = lock.as_object() else { return Err(damaged(&path, "it is no JSON object")) };
    let installed = match lock.get("installed") {
        None | Some(Value::Null) => return Ok(BTreeSet::new()),
        Some(installed) => installed.as_object().ok_or_else(|| damaged(&path, "`installed` is no object"))?,
    };
    let mut names: BTreeSet<String> = installed.keys().cloned().collect();
    for place in installed.values().filter_map(|entry| entry.get("install_path")?.as_str()) {
        let folder = skills.join(place.trim());
        if !place.trim().is_empty()
            && file::stat_if_there(&folder.join(place::SKILL_FILE))?.is_some()
            && tree::canonical(&folder)?.starts_with(tree::canonical(skills)?)
        {
            names.insert(place::name_of(&tree::canonical(&folder)?)?);
        }
    }
    Ok(names)
}

/// `{"jobs": [job, ...]}` or the list alone; a job has `skills`, else `skill`. A byte order mark is allowed.
fn cron(path: &Path) -> Result<BTreeSet<String>> {
    let Some(text) = read(path)? else { return Ok(BTreeSet::new()) };
    let found: Value = serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|e| damaged(path, e))?;
    let jobs = match &found {
        Value::Array(jobs) => jobs.as_slice(),
        Value::Object(found) => match found.get("jobs") {
            None => &[][..],
            Some(jobs) => jobs.as_array().ok_or_else(|| damaged(path, "`jobs` is no list"))?,
        },
        _ => return Err(damaged(path, "it is neither an object nor a list")),
    };
    let mut names = BTreeSet::new();
    for job in jobs {
        let named = match (job.get("skills"), job.get("skill")) {
            (Some(Value::Array(skills)), _) => skills.iter().filter_map(Value::as_str).collect(),
            (Some(Value::String(skill)), _) | (None | Some(Value::Null), Some(Value::String(skill))) => {
                vec![skill.as_str()]
            }
            _ => Vec::new(),
        };
        let plain = named.into_iter().map(|name| name.trim().trim_start_matches('/').to_owned());
        names.extend(plain.filter(|name| !name.is_empty()));
    }
    Ok(names)
}

/// `config.yaml`, of which only what is about skills is looked at.
struct Config(Yaml);

impl Config {
    fn read(path: &Path) -> Result<Config> {
        let text = read(path)?.unwrap_or_default();
        let documents = YamlLoader::load_from_str(&text).map_err(|e| damaged(path, e))?;
        Ok(Config(documents.into_iter().next().unwrap_or(Yaml::Null)))
    }

    fn curator(&self, field: &str) -> &Yaml {
        &self.0["curator"][field]
    }

    /// As Python takes it for true. YAML 1.1's other words for false are plain strings in 1.2.
    fn flag(&self, field: &str) -> Option<bool> {
        match self.curator(field) {
            Yaml::BadValue => None,
            Yaml::Boolean(flag) => Some(*flag),
            Yaml::Integer(number) => Some(*number != 0),
            Yaml::String(word) => Some(!matches!(word.to_ascii_lowercase().as_str(), "" | "no" | "off" | "false")),
            _ => Some(false),
        }
    }

    fn days(&self, field: &str) -> Option<Duration> {
        let days = match self.curator(field) {
            Yaml::Integer(days) => u32::try_from(*days).ok(),
            Yaml::String(text) => text.trim().parse().ok(),
            Yaml::Real(text) => text.parse().ok().map(|days: f64| days.trunc() as u32),
            _ => None,
        };
        days.map(|days| DAY * days)
    }

    /// Relative to the home; `~` is the user's. One that is not there is none.
    fn external(&self, profile: &Profile) -> Result<Vec<PathBuf>> {
        let listed = match &self.0["skills"]["external_dirs"] {
            Yaml::String(one) => vec![one.as_str()],
            Yaml::Array(several) => several.iter().filter_map(Yaml::as_str).collect(),
            _ => Vec::new(),
        };
        let mut folders = Vec::new();
        for text in listed.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
            let path = match text.strip_prefix("~/") {
                Some(rest) => PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(rest),
                None => profile.home().join(text),
            };
            if file::stat_if_there(&path)?.is_some() {
                folders.push(tree::canonical(&path)?);
            }
        }
        let own = profile.skills_folder();
        if file::stat_if_there(&own)?.is_some() {
            let own = tree::canonical(&own)?;
            folders.retain(|folder| *folder != own);
        }
        Ok(folders)
    }
}
