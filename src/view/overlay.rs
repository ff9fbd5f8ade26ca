//! What `.usage.json` has beyond its base, laid over the folded log.

use std::path::Path;

use hashbrown::HashMap;

use crate::error::Result;
use crate::sys::file::{self, File, Stat};
use crate::view::external::{self, Base, Difference, Lineage};
use crate::view::policy::Policy;
use crate::view::records::{self, Problem, Records};
use crate::view::skill::Skill;
use crate::view::state::State;

/// The external part of a view.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    /// Skills that differ from the folded log; `None`: removed.
    pub(crate) skills: HashMap<String, Option<Skill>>,
    pub(crate) problems: Vec<Problem>,
    differences: Vec<Difference>,
    arrival_micros: i64,
    /// The file and the `external` event that this was made of; `None`: not made yet.
    made_of: Option<(Option<Stat>, String)>,
}

/// `.usage.json` as it was found.
#[derive(Debug, Default)]
pub(crate) struct FoundFile {
    pub(crate) stat: Option<Stat>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) records: Records,
    pub(crate) problems: Vec<Problem>,
}

impl FoundFile {
    /// Reads the file. Not there is nothing; unreadable is an error, never nothing.
    pub(crate) fn read(snapshot: &Path) -> Result<FoundFile> {
        FoundFile::read_bytes(snapshot).map(FoundFile::decode)
    }

    /// The same, without a look at what the bytes say.
    fn read_bytes(snapshot: &Path) -> Result<FoundFile> {
        let file = match File::open_read(snapshot) {
            Err(e) if e.is_not_found() => return Ok(FoundFile::default()),
            other => other?,
        };
        let stat = file.stat()?;
        let mut bytes = vec![0; usize::try_from(stat.len).unwrap_or(usize::MAX)];
        let len = file.read_at(&mut bytes, 0)?;
        bytes.truncate(len);
        Ok(FoundFile { stat: Some(stat), bytes, ..FoundFile::default() })
    }

    fn decode(self) -> FoundFile {
        if self.stat.is_none() {
            return self;
        }
        let records::Found { records, problems } = records::decode(&self.bytes);
        FoundFile { records, problems, ..self }
    }

    /// When the file was written, which is when what others did in it arrived.
    pub(crate) fn arrival_micros(&self) -> i64 {
        self.stat.map_or(0, |stat| stat.modified_micros)
    }

    /// What was done to it since `base`. A file that is not there, or damaged, says nothing about what it lacks.
    pub(crate) fn differences(&self, base: Base<'_>) -> Vec<Difference> {
        if self.stat.is_none() {
            return Vec::new();
        }
        external::differences(&base.records(), &self.records, self.problems.is_empty(), self.arrival_micros())
    }
}

/// Whether the rename that the newest `external` event speaks about has not happened.
pub(crate) fn temporary_exists(snapshot: &Path, temporary: &str) -> Result<bool> {
    if temporary.is_empty() {
        return Ok(false);
    }
    let target = super::snapshot_target(snapshot)?;
    Ok(file::stat_if_there(&target.with_file_name(temporary))?.is_some())
}

impl Overlay {
    /// Whether this was made of this file, as it is now, and this event. (The rename that ends the temporary file's
    /// existence changes the file as well.)
    pub(crate) fn is_of(&self, file: Option<Stat>, lineage: &Lineage) -> bool {
        self.made_of.as_ref().is_some_and(|(stat, temporary)| *stat == file && *temporary == lineage.temporary)
    }

    pub(crate) fn has_differences(&self) -> bool {
        !self.differences.is_empty()
    }

    /// Reads the file and compares it with its base.
    pub(crate) fn read(snapshot: &Path, lineage: &Lineage, temporary_exists: bool) -> Result<Overlay> {
        let base = lineage.base(temporary_exists);
        let mut file = FoundFile::read_bytes(snapshot)?;
        let mut differences = Vec::new();
        if !base.is(&file.bytes) {
            file = file.decode();
            differences = file.differences(base);
        }
        Ok(Overlay {
            skills: HashMap::new(),
            differences,
            arrival_micros: file.arrival_micros(),
            made_of: Some((file.stat, lineage.temporary.clone())),
            problems: file.problems,
        })
    }

    /// Lays the differences over a state, instead of what was laid over before.
    pub(crate) fn lay_over(&mut self, state: &State, policy: Policy) {
        let effects = self.differences.iter().filter_map(|difference| {
            let effect = state.effect(difference, self.arrival_micros, policy)?;
            Some((difference.skill.clone(), effect))
        });
        self.skills = effects.collect();
    }
}
