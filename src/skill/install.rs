//! A whole skill from somewhere else: installed, or in the place of the one that is there.

use std::path::{Path, PathBuf};

use super::change::check_name_in;
use super::place::{self, SKILL_FILE};
use super::stage::Stage;
use super::{SkillLock, record};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::sys::{file, tree};

impl SkillLock {
    /// Installs the skill from a folder, which is copied, modes and all; `source` says in the log where it came from.
    /// Returns its folder. The name is a new incarnation.
    ///
    /// # Errors
    /// As [`create`](Self::create); [`Error::Invalid`] if the folder is no such skill or has a symlink in it.
    pub fn install(self, from: &Path, category: Option<&str>, source: &str) -> Result<PathBuf> {
        check_skill(&self.name, from)?;
        let event = Event::Installed { skill: self.name.clone().into(), source: source.to_owned().into() };
        self.appear(category, event, |folder| tree::copy_tree(from, folder))
    }

    /// Replaces the skill by a folder's content: readers see the old one or the new one, whole.
    ///
    /// Where the file system cannot exchange two folders, it takes two renames. Between them the skill is missing; if the
    /// process dies there, the next lock of the skill, or compaction, puts the old one back.
    ///
    /// # Errors
    /// As [`install`](Self::install); [`Error::NotFound`].
    pub fn update(self, from: &Path, source: &str) -> Result<()> {
        let folder = self.changeable()?;
        check_skill(&self.name, from)?;
        let parent = folder.parent().unwrap_or(folder);
        let name = folder.file_name().unwrap_or_default();
        let writer = self.skills.writer()?;
        let mut stage = Stage::beside(parent)?;
        let inner = stage.make_inner()?;
        tree::copy_tree(from, &inner)?;
        file::set_mode(&inner, file::stat(folder)?.mode)?;
        if place::name_of(&inner)? != self.name && place::name_of(folder)? != name.to_string_lossy() {
            return Err(no_skill(&self.name, from));
        }
        stage.complete(folder)?;
        self.existing()?;
        if !tree::exchange(&inner, folder)? {
            let aside = stage.make_aside(name)?;
            tree::rename_new(folder, &aside)?;
            file::sync_folder(aside.parent().unwrap_or(&aside))?; // before the folder can be gone from where it was
            tree::rename_new(&inner, folder)?;
        }
        let event = Event::Updated { skill: self.name.as_str().into(), source: source.into() };
        record(stage.sync(parent), writer, &self.name, &[event])?;
        stage.publish();
        drop(self); // the old one is removed after that
        drop(stage);
        Ok(())
    }
}

fn check_skill(name: &str, from: &Path) -> Result<()> {
    match file::read(&from.join(SKILL_FILE)) {
        Err(e) if e.is_not_found() => Err(no_skill(name, from)),
        other => check_name_in(name, &other?),
    }
}

fn no_skill(name: &str, from: &Path) -> Error {
    Error::Invalid {
        what: "folder of a skill",
        found: from.display().to_string(),
        allowed: if name.is_empty() {
            "a folder with a SKILL.md"
        } else {
            "a folder with a SKILL.md that names the skill"
        },
    }
}
