//! Changes of a skill's files.

use std::path::{Path, PathBuf};

use super::place::{self, HIDDEN_PREFIX, SKILL_FILE};
use super::stage::Stage;
use super::{Protections, SkillLock, record, refused};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::sys::file;
use crate::sys::replace::{Like, replace};
use crate::sys::{self, tree};

/// Mode of a new file, before the umask.
const FILE_MODE: u32 = 0o644;

impl SkillLock {
    /// Makes the skill, with this `SKILL.md`: flat, or in a category, which is made if need be. `by` is who created it
    /// (`agent` puts it under the curator). Returns its folder. The name is a new incarnation.
    ///
    /// # Errors
    /// [`Error::Refused`] if the skill is there, [`Error::Invalid`] for a name or a front matter that does not fit;
    /// [`Error::NotLogged`], [`Error::Io`], [`Error::LockTimeout`].
    pub fn create(self, content: &[u8], category: Option<&str>, by: &str) -> Result<PathBuf> {
        check_name_in(&self.name, content)?;
        let event = Event::Created { skill: self.name.clone().into(), by: by.to_owned().into() };
        event.validate()?;
        self.appear(category, event, |folder| put(folder, &folder.join(SKILL_FILE), content))
    }

    /// Makes a skill appear under its name, filled by `fill`.
    pub(super) fn appear(
        self,
        category: Option<&str>,
        event: Event<'_>,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        self.absent()?;
        place::check_folder_name("skill name", &self.name)?;
        let skills = self.skills.folder()?;
        let parent = match category {
            None => skills.clone(),
            Some(category) => make_category(&skills, category)?,
        };
        let is_known = self.skills.settled(&self.name)?.skill(&self.name).is_some();
        let writer = self.skills.writer()?;
        let mut stage = Stage::beside(&parent)?;
        fill(&stage.make_inner()?)?;
        stage.complete(&skills)?;
        let folder = parent.join(&self.name);
        match tree::rename_new(&stage.inner(), &folder) {
            Err(e) if e.is_already_there() => {
                return Err(refused(&self.name, format!("{} is in its place", folder.display())));
            }
            other => other?,
        }
        let synced = stage.sync(&parent);
        // What the log has of that name belongs to a skill that is gone, whether or not anybody could say so.
        let ends = is_known.then(|| Event::Forgotten { skill: self.name.clone().into() });
        let events: Vec<Event<'_>> = ends.into_iter().chain([event]).collect();
        record(synced, writer, &self.name, &events)?;
        stage.publish();
        Ok(folder)
    }

    /// Replaces the whole `SKILL.md`, in one step. Its front matter must not name another skill.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Refused`], [`Error::Invalid`], [`Error::NotLogged`], [`Error::Io`].
    pub fn edit(&self, content: &[u8]) -> Result<()> {
        check_name_in(&self.name, content)?;
        if place::name_in(content).is_none() && place::front_matter_name(self.existing()?)?.is_some() {
            return Err(Error::Invalid {
                what: "SKILL.md",
                found: "no name in its front matter".into(),
                allowed: "the front matter names the skill, as it did",
            });
        }
        self.write(SKILL_FILE, content, Event::Edited { skill: self.name.as_str().into() })
    }

    /// Writes a file of the skill, in one step; folders are made. `path` is relative to the skill's folder. A file that was
    /// there keeps its mode and owner.
    ///
    /// # Errors
    /// As [`edit`](Self::edit).
    pub fn write_file(&self, path: &str, content: &[u8]) -> Result<()> {
        if Path::new(path) == Path::new(SKILL_FILE) {
            return self.edit(content);
        }
        self.write(path, content, Event::FileWritten { skill: self.name.as_str().into(), path: path.into() })
    }

    fn write(&self, path: &str, content: &[u8], event: Event<'_>) -> Result<()> {
        let folder = self.changeable()?;
        let target = place::inside(folder, path)?;
        let writer = self.skills.writer()?;
        make_folders(folder, target.parent().unwrap_or(folder))?;
        put(folder, &target, content)?;
        let synced = file::sync_folder(target.parent().unwrap_or(folder));
        record(synced, writer, &self.name, &[event])
    }

    /// Removes a file of the skill; never its `SKILL.md`.
    ///
    /// # Errors
    /// As [`edit`](Self::edit); [`Error::NotFound`] also for the file.
    pub fn remove_file(&self, path: &str) -> Result<()> {
        let folder = self.changeable()?;
        let target = place::inside(folder, path)?;
        if target == tree::canonical(folder)?.join(SKILL_FILE) {
            return Err(refused(&self.name, "without its SKILL.md it is no skill; delete it instead"));
        }
        let writer = self.skills.writer()?;
        // The link, where it is one, and not what it leads to.
        let named = folder.join(path);
        if tree::kind(&named)?.is_none() {
            return Err(Error::NotFound { what: "file", name: named.display().to_string() });
        }
        file::remove(&named)?;
        let synced = file::sync_folder(named.parent().unwrap_or(folder));
        let event = Event::FileRemoved { skill: self.name.as_str().into(), path: path.into() };
        record(synced, writer, &self.name, &[event])
    }

    /// Deletes the skill: from one moment to the next it is gone, and what is left of it is removed after its lock is
    /// released. A pinned skill is refused.
    ///
    /// # Errors
    /// As [`edit`](Self::edit); [`Error::LockTimeout`].
    pub fn delete(mut self) -> Result<()> {
        let folder = self.changeable()?.to_owned();
        if self.skills.is_background() {
            return Err(refused(&self.name, "a process in the background never deletes; archive it"));
        }
        self.not_pinned()?;
        let parent = folder.parent().unwrap_or(&folder).to_owned();
        let writer = self.skills.writer()?;
        let stage = Stage::beside(&parent)?;
        self.with_all()?;
        self.existing()?;
        tree::rename_new(&folder, &stage.inner())?;
        record(stage.sync(&parent), writer, &self.name, &[Event::Deleted { skill: self.name.as_str().into() }])?;
        drop(self);
        drop(stage);
        Ok(())
    }

    /// The skill's folder, if this process may change what is in it.
    pub(super) fn changeable(&self) -> Result<&Path> {
        let folder = self.existing()?;
        if self.skills.is_background() {
            let view = self.skills.profile.view()?;
            let protections = Protections::read(&self.skills.profile)?;
            if let Some(why) = protections.not_in_background(&self.name, folder, view.skill(&self.name)) {
                return Err(refused(&self.name, why));
            }
        }
        Ok(folder)
    }

    /// Refuses a pinned skill. What its record says is in the log after that.
    pub(super) fn not_pinned(&self) -> Result<()> {
        match self.skills.settled(&self.name)?.skill(&self.name) {
            Some(record) if record.is_pinned() => Err(refused(&self.name, "it is pinned; unpin it first")),
            _ => Ok(()),
        }
    }
}

/// Replaces a file by a temporary one in the skill's folder, where compaction looks for it. The folder that the file is in
/// is not synced yet.
pub(super) fn put(folder: &Path, target: &Path, content: &[u8]) -> Result<()> {
    let temporary = folder.join(format!("{HIDDEN_PREFIX}{}.tmp", sys::fresh_suffix()));
    let old = file::stat_if_there(target)?;
    replace(target, &temporary, content, Like { old: old.as_ref(), new_mode: FILE_MODE, mode: None })
}

/// Folders inside a skill, down to one.
fn make_folders(folder: &Path, deepest: &Path) -> Result<()> {
    if file::stat_if_there(deepest)?.is_some() {
        return Ok(());
    }
    let parent = deepest.parent().unwrap_or(folder);
    make_folders(folder, parent)?;
    file::make_folder(deepest, 0o755)?;
    file::own_like(deepest, &file::stat(parent)?)?;
    file::sync_folder(parent)
}

/// A category's folder, made if need be; a symlink is refused.
fn make_category(skills: &Path, category: &str) -> Result<PathBuf> {
    place::check_folder_name("category", category)?;
    let folder = skills.join(category);
    if file::make_folder(&folder, 0o755)? {
        file::own_like(&folder, &file::stat(skills)?)?;
        file::sync_folder(skills)?;
    }
    match tree::kind(&folder)? {
        Some(tree::Kind::Folder) => Ok(folder),
        _ => Err(Error::Invalid {
            what: "category",
            found: folder.display().to_string(),
            allowed: "a folder in the skills folder, no symlink",
        }),
    }
}

/// A `SKILL.md` that names another skill would make this one disappear under its name.
pub(super) fn check_name_in(name: &str, content: &[u8]) -> Result<()> {
    match place::name_in(content) {
        Some(other) if other != name => Err(Error::Invalid {
            what: "name in the front matter",
            found: format!("{other:?}"),
            allowed: "the skill's own name, or none",
        }),
        _ => Ok(()),
    }
}
