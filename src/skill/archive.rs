//! Into the archive and back.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::change::put;
use super::place::{self, ARCHIVE, Found};
use super::{Protections, SkillLock, Skills, record, refused};
use crate::budgets;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::lock::Lock;
use crate::sys::tree::{self, Kind};
use crate::sys::{self, file};
use crate::view::records::format_time;

/// Bundled skills that were archived, one a line: Hermes does not bring them back.
const SUPPRESSED: &str = ".curator_suppressed";
/// Digits of the stamp that a folder gets whose name is taken in the archive: year to second, UTC.
const STAMP_LEN: usize = 14;

impl SkillLock {
    /// Moves the skill to the archive, from one moment to the next. Returns where it is. Refused where Hermes refuses it:
    /// pinned, hub-installed and external skills, and bundled ones if the curator must not prune them.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Refused`], [`Error::NotLogged`], [`Error::Io`], [`Error::LockTimeout`].
    pub fn archive(mut self) -> Result<PathBuf> {
        let folder = self.existing()?.to_owned();
        self.not_pinned()?;
        let protections = Protections::read(&self.skills.profile)?;
        if let Some(why) = protections.off_limits(&self.name, &folder) {
            return Err(refused(&self.name, why));
        }
        let skills = self.skills.folder()?;
        let archive = skills.join(ARCHIVE);
        if file::make_folder(&archive, 0o755)? {
            file::own_like(&archive, &file::stat(&skills)?)?;
            file::sync_folder(&skills)?;
        }
        let writer = self.skills.writer()?;
        self.with_all()?;
        self.existing()?;
        let archived = move_to_archive(&folder, &archive)?;
        let mut synced = sync(&archive, folder.parent().unwrap_or(&skills));
        if protections.bundled.contains(&self.name) {
            synced = synced.and_then(|()| suppress(&skills, &self.name, true));
        }
        record(synced, writer, &self.name, &[Event::Archived { skill: self.name.as_str().into() }])?;
        Ok(archived)
    }
}

impl Skills {
    /// Brings a skill back from the archive, flat under its name. Returns its folder.
    ///
    /// The archived folder is the one whose front matter names the skill, or whose own name is the skill's, exactly or with
    /// the 14-digit stamp that a collision adds; without a stamp first, then the newest.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Refused`] if a skill of that name is there, or where Hermes refuses it (hub-installed,
    /// and bundled if the curator must not prune it); [`Error::NotLogged`], [`Error::Io`], [`Error::LockTimeout`].
    pub fn restore(&self, name: &str) -> Result<PathBuf> {
        let _set = Skills::begin_set(name)?;
        let protections = Protections::read(&self.profile)?;
        if protections.hub.contains(name) {
            return Err(refused(name, "the hub has installed a skill of that name"));
        }
        if protections.bundled.contains(name) && !protections.prune_bundled {
            return Err(refused(name, "a skill of that name came with Hermes, and curator.prune_builtins is off"));
        }
        let skills = self.folder()?;
        let start = Instant::now();
        let (archived, _lock) = loop {
            let archived = choose(&skills.join(ARCHIVE), name)?;
            let archived = archived.ok_or_else(|| Error::NotFound { what: "archived skill", name: name.to_owned() })?;
            // Who waited for the skill's lock when it was archived may have it for a moment.
            if let Some(lock) = Lock::of_folder(&archived, budgets::SKILL, self.limit, start)? {
                break (archived, lock);
            }
        };
        self.settled(name)?;
        let writer = self.writer()?;
        let _all = self.lock_all(&skills, start)?;
        if place::find(&skills, name)?.is_some() {
            return Err(refused(name, "a skill of that name is there already"));
        }
        let own_name = archived.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let flat = if place::is_folder_name(name) { name } else { without_stamp(&own_name) };
        let folder = skills.join(flat);
        match tree::rename_new(&archived, &folder) {
            Err(e) if e.is_already_there() => {
                return Err(refused(name, format!("{} is in its place", folder.display())));
            }
            other => other?,
        }
        let synced = sync(archived.parent().unwrap_or(&skills), &skills);
        let synced = synced.and_then(|()| suppress(&skills, name, false));
        record(synced, writer, name, &[Event::Restored { skill: name.into() }])?;
        Ok(folder)
    }
}

/// The name is that of the skill's folder; if it is taken, with the time as Hermes adds it, or the next second that is free.
fn move_to_archive(folder: &Path, archive: &Path) -> Result<PathBuf> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let now = i64::try_from(sys::now_micros()).unwrap_or(i64::MAX);
    let stamped = (0..).map(|second: i64| format!("{name}-{}", stamp(now.saturating_add(second * 1_000_000))));
    for name in std::iter::once(name.clone()).chain(stamped) {
        let archived = archive.join(name);
        match tree::rename_new(folder, &archived) {
            Err(e) if e.is_already_there() => {}
            other => return other.map(|()| archived),
        }
    }
    Err(refused(&name, "there is no name left for it in the archive"))
}

/// "20260131235959", of "2026-01-31T23:59:59..."
fn stamp(micros: i64) -> String {
    format_time(micros).chars().filter(char::is_ascii_digit).take(STAMP_LEN).collect()
}

fn without_stamp(folder: &str) -> &str {
    let split = folder.len().checked_sub(STAMP_LEN).and_then(|at| folder.split_at_checked(at));
    match split {
        Some((name, digits)) if digits.bytes().all(|b| b.is_ascii_digit()) => name.strip_suffix('-').unwrap_or(folder),
        _ => folder,
    }
}

/// The folders in the archive, at any depth, and the names that they answer to.
pub(super) fn list(archive: &Path) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut folders = vec![archive.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match tree::entries(&folder) {
            Err(e) if e.is_not_found() || e.is_no_folder() => continue,
            other => other?,
        };
        for (name, _) in entries.into_iter().filter(|(_, kind)| *kind == Kind::Folder) {
            let folder = folder.join(name);
            match file::stat_if_there(&folder.join(place::SKILL_FILE))? {
                None => folders.push(folder), // a category
                Some(_) => {
                    let own = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    let name = place::front_matter_name(&folder)?.unwrap_or_else(|| without_stamp(&own).to_owned());
                    found.push(Found { name, folder });
                }
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The archived folder of a skill.
fn choose(archive: &Path, name: &str) -> Result<Option<PathBuf>> {
    let own = |found: &Found| found.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut candidates: Vec<(bool, bool, String, PathBuf)> = Vec::new();
    for found in list(archive)? {
        let own = own(&found);
        let is_exact = own == name;
        // A stamp that the front matter has as well is a part of another name.
        if found.name == name || without_stamp(&own) == name && (is_exact || found.name != own) {
            let is_stamped = without_stamp(&own) != own && !is_exact;
            candidates.push((found.name == name, !is_stamped, own, found.folder));
        }
    }
    candidates.sort_unstable();
    Ok(candidates.pop().map(|(.., folder)| folder))
}

/// Adds a name to the suppressed ones, or takes it out. Under the lock of the folder of all skills.
fn suppress(skills: &Path, name: &str, is_suppressed: bool) -> Result<()> {
    let path = skills.join(SUPPRESSED);
    let text = match file::read(&path) {
        Err(e) if e.is_not_found() => String::new(),
        other => String::from_utf8_lossy(&other?).into_owned(),
    };
    let mut names: std::collections::BTreeSet<&str> =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let is_changed = if is_suppressed { names.insert(name) } else { names.remove(name) };
    if !is_changed {
        return Ok(());
    }
    let lines: String = names.into_iter().map(|name| format!("{name}\n")).collect();
    put(skills, &path, lines.as_bytes())?;
    file::sync_folder(skills)
}

/// Both ends of a move are on the disk when this returns.
fn sync(one: &Path, other: &Path) -> Result<()> {
    file::sync_folder(one)?;
    file::sync_folder(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_14_digits_after_a_hyphen_and_nothing_else() {
        assert_eq!(stamp(1_769_903_999_000_000), "20260131235959");
        assert_eq!(without_stamp("git-20260131235959"), "git");
        for other in ["git", "git-helpers", "git-2026013123595", "git20260131235959", "git-2026013123595x", ""] {
            assert_eq!(without_stamp(other), other);
        }
    }
}
