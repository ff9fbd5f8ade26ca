//! Where skills are: `skills/<skill>/SKILL.md`, or deeper below categories, found as Hermes finds them.
//!
//! A skill's name is the `name:` in the front matter of its `SKILL.md`, else its folder's. Symlinked folders are not
//! entered, nor are the folders that Hermes leaves out: its own, those of tools, and the support folders of a skill.

use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};
use crate::sys::file::{self, File};
use crate::sys::tree::{self, Kind};

/// Every file and folder that this program makes for a while begins with this; 16 hexadecimal digits follow.
pub(super) const HIDDEN_PREFIX: &str = ".hermes-log-";
/// The file that makes a folder a skill.
pub(super) const SKILL_FILE: &str = "SKILL.md";
/// Archived skills, flat.
pub(super) const ARCHIVE: &str = ".archive";

/// Never entered, wherever they are.
const EXCLUDED: [&str; 14] = [
    ".git",
    ".github",
    ".hub",
    ARCHIVE,
    ".venv",
    "venv",
    "node_modules",
    "site-packages",
    "__pycache__",
    ".tox",
    ".nox",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
];
/// Not entered right inside a skill.
const SUPPORT: [&str; 4] = ["references", "templates", "assets", "scripts"];
/// Deeper is no category.
const MOST_DEPTH: usize = 32;
/// As far as the front matter is looked for, in characters.
const FRONT_MATTER_CHARS: usize = 4000;

/// A skill on disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Its exact name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
}

/// All skills below a folder, sorted by name. A folder that is not there has none.
pub(super) fn scan(skills: &Path) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    walk(skills, &mut |folder, is_skill| {
        if is_skill {
            found.push(Found { name: name_of(folder)?, folder: folder.to_owned() });
        }
        Ok(())
    })?;
    found.sort_unstable();
    Ok(found)
}

/// The folder of the skill of that name. One that lies flat under its name wins.
pub(super) fn find(skills: &Path, name: &str) -> Result<Option<PathBuf>> {
    if is_folder_name(name) {
        let flat = skills.join(name);
        if tree::kind(&flat)? == Some(Kind::Folder) && is_skill(&flat)? && name_of(&flat)? == name {
            return Ok(Some(flat));
        }
    }
    // A listing may miss what is moved while it runs.
    for _ in 0..2 {
        if let Some(found) = scan(skills)?.into_iter().find(|found| found.name == name) {
            return Ok(Some(found.folder));
        }
    }
    Ok(None)
}

/// Passes every folder of a skills folder on, with whether it is a skill.
pub(super) fn walk(skills: &Path, visit: &mut dyn FnMut(&Path, bool) -> Result<()>) -> Result<()> {
    enter(skills, 0, visit)
}

fn enter(folder: &Path, depth: usize, visit: &mut dyn FnMut(&Path, bool) -> Result<()>) -> Result<()> {
    let entries = match tree::entries(folder) {
        Err(e) if e.is_not_found() || e.is_no_folder() => return Ok(()), // gone or moved meanwhile
        other => other?,
    };
    let is_skill = depth > 0 && is_skill(folder)?;
    visit(folder, is_skill)?;
    for (name, kind) in entries {
        let Some(name) = name.to_str() else { continue }; // no name that Hermes could have
        let is_left_out = EXCLUDED.contains(&name) || name.starts_with(HIDDEN_PREFIX);
        if kind == Kind::Folder && !is_left_out && !(is_skill && SUPPORT.contains(&name)) && depth < MOST_DEPTH {
            enter(&folder.join(name), depth + 1, visit)?;
        }
    }
    Ok(())
}

fn is_skill(folder: &Path) -> Result<bool> {
    Ok(file::stat_if_there(&folder.join(SKILL_FILE))?.is_some())
}

/// The name of the skill in a folder.
pub(super) fn name_of(folder: &Path) -> Result<String> {
    let fallback = || folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(front_matter_name(folder)?.unwrap_or_else(fallback))
}

/// What the front matter of a folder's `SKILL.md` says. One that may not be read, or is none, says nothing.
pub(super) fn front_matter_name(folder: &Path) -> Result<Option<String>> {
    let path = folder.join(SKILL_FILE);
    let read = File::open_read(&path).and_then(|file| {
        let mut bytes = Vec::new();
        file.read_into(&mut bytes, 4 * FRONT_MATTER_CHARS, 0)?;
        Ok(bytes)
    });
    match read {
        Ok(bytes) => Ok(name_in(&bytes)),
        Err(e) if e.is_not_found() || e.is_no_folder() || e.is_unreadable() => Ok(None),
        Err(e) => Err(e),
    }
}

/// The `name:` in the front matter of a `SKILL.md`.
pub(super) fn name_in(skill_file: &[u8]) -> Option<String> {
    let text: String = String::from_utf8_lossy(skill_file).chars().take(FRONT_MATTER_CHARS).collect();
    let mut lines = text.split('\n').map(str::trim).skip_while(|line| *line != "---").skip(1);
    lines.by_ref().take_while(|line| *line != "---").find_map(|line| {
        let name = line.strip_prefix("name:")?.trim().trim_matches(['"', '\'']);
        (!name.is_empty()).then(|| name.to_owned())
    })
}

/// Whether a name can be a folder's: one component, not hidden, and none that is never entered.
pub(super) fn is_folder_name(name: &str) -> bool {
    name.len() <= 255
        && !name.starts_with('.')
        && !name.contains(['/', '\0'])
        && !name.is_empty()
        && !EXCLUDED.contains(&name)
}

/// Checks the name of a folder that is to be made.
pub(super) fn check_folder_name(what: &'static str, name: &str) -> Result<()> {
    if is_folder_name(name) {
        return Ok(());
    }
    Err(Error::Invalid {
        what,
        found: format!("{name:?}"),
        allowed: "the name of one folder: no /, no . at the beginning, at most 255 bytes, and none that Hermes skips",
    })
}

/// A file inside a skill's folder. Neither `..` nor a symlink leads out of it; a symlink that stays inside is followed.
/// The file itself need not be there.
pub(super) fn inside(folder: &Path, relative: &str) -> Result<PathBuf> {
    let refused = || Error::Invalid {
        what: "path of a file",
        found: format!("{relative:?}"),
        allowed: "a path inside the skill's folder, without .. and without a symlink out of it",
    };
    let path = Path::new(relative);
    let is_plain = |part: Component<'_>| {
        matches!(part, Component::Normal(name)
        if !name.to_string_lossy().starts_with(HIDDEN_PREFIX))
    };
    if relative.is_empty() || relative.contains('\0') || relative.ends_with('/') || !path.components().all(is_plain) {
        return Err(refused());
    }
    let target = file::resolve(&folder.join(path))?;
    // The nearest part that is there, without symlinks: what is made below it is made here.
    let mut there = target.as_path();
    while tree::kind(there)?.is_none() {
        there = there.parent().ok_or_else(refused)?;
    }
    let missing = target.strip_prefix(there).unwrap_or(Path::new("")).to_owned();
    let target = tree::canonical(there)?.join(&missing);
    let target = if missing.as_os_str().is_empty() { tree::canonical(there)? } else { target };
    let is_plain = missing.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain || !target.starts_with(tree::canonical(folder)?) {
        return Err(refused());
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_that_of_the_front_matter() {
        for (text, name) in [
            ("---\nname: pdf\n---\nname: other\n", Some("pdf")),
            ("---\ndescription: x\nname: \"plugin:jira\"\n---\n", Some("plugin:jira")),
            ("---\nname: 'Größe prüfen' \n", Some("Größe prüfen")),
            ("intro\n---\n  name:  spaced  \n---\n", Some("spaced")),
            ("---\nname:\nname: second\n---\n", Some("second")),
            ("---\n---\nname: outside\n", None),
            ("name: outside\n", None),
            ("", None),
        ] {
            assert_eq!(name_in(text.as_bytes()).as_deref(), name, "{text:?}");
        }
        let far = format!("---\n{}\nname: far\n", "x".repeat(FRONT_MATTER_CHARS));
        assert_eq!(name_in(far.as_bytes()), None);
    }

    #[test]
    fn names_that_are_no_folder_of_their_own_are_refused() {
        for name in ["", ".", "..", ".hidden", "a/b", "/a", "a\0b", "venv", &"x".repeat(256)] {
            assert!(!is_folder_name(name), "{name:?}");
        }
        for name in ["pdf", "plugin:jira", "Größe prüfen", "a..b"] {
            assert!(is_folder_name(name), "{name:?}");
        }
    }
}
