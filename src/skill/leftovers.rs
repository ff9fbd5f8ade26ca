//! What a process that died has left among the skills: found by its name, and only if nobody has its lock.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::place::{self, HIDDEN_PREFIX};
use super::stage;
use crate::budgets;
use crate::error::Result;
use crate::lock::Lock;
use crate::profile::Profile;
use crate::sys::file;
use crate::sys::tree::{self, Kind};

const SUFFIX_LEN: usize = 16;

/// Removes what nobody holds. What cannot be removed stays for the next time.
pub(crate) fn clean_up(profile: &Profile) {
    let skills = profile.skills_folder();
    let cleaned = tree::canonical(&skills).and_then(|skills| each(&skills, &mut remove));
    match cleaned {
        Err(e) if e.is_not_found() => {}
        Err(error) => tracing::warn!(%error, "leftovers among the skills stay for the next compaction"),
        Ok(()) => {}
    }
}

/// Puts skills back that an update had moved aside when it died. Says whether there was one.
pub(super) fn recover(skills: &Path) -> Result<bool> {
    let mut is_back = false;
    each(skills, &mut |folder, kind| {
        if kind == Kind::Folder
            && let Some(_lock) = if_unheld(folder)?
        {
            is_back |= stage::put_back(folder)?;
        }
        Ok(())
    })?;
    Ok(is_back)
}

/// Passes on everything that is named as this program names what it makes for a while.
fn each(skills: &Path, visit: &mut dyn FnMut(&Path, Kind) -> Result<()>) -> Result<()> {
    let mut hidden: Vec<(PathBuf, Kind)> = Vec::new();
    place::walk(skills, &mut |folder, _| {
        let entries = match tree::entries(folder) {
            Err(e) if e.is_not_found() => return Ok(()),
            other => other?,
        };
        let ours = entries.into_iter().filter(|(name, _)| name.to_str().is_some_and(is_ours));
        hidden.extend(ours.map(|(name, kind)| (folder.join(name), kind)));
        Ok(())
    })?;
    hidden.iter().try_for_each(|(path, kind)| visit(path, *kind))
}

fn is_ours(name: &str) -> bool {
    let rest = name.strip_prefix(HIDDEN_PREFIX).map(|rest| rest.strip_suffix(".tmp").unwrap_or(rest));
    rest.is_some_and(|rest| rest.len() == SUFFIX_LEN && rest.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// A temporary file belongs to the folder that it is in; a hidden folder is locked itself.
fn remove(path: &Path, kind: Kind) -> Result<()> {
    let locked = if kind == Kind::Folder { path } else { path.parent().unwrap_or(path) };
    let Some(_lock) = if_unheld(locked)? else { return Ok(()) };
    tracing::info!(path = %path.display(), "a process that died has left this; it is removed");
    match kind {
        Kind::Folder => {
            stage::put_back(path)?;
            tree::remove_tree(path)
        }
        _ => file::remove(path).map(drop),
    }
}

/// The lock, if nobody has it.
fn if_unheld(folder: &Path) -> Result<Option<Lock>> {
    match Lock::of_folder(folder, budgets::SKILL, Duration::ZERO, Instant::now()) {
        Err(crate::Error::LockTimeout { .. }) => Ok(None),
        other => other,
    }
}
