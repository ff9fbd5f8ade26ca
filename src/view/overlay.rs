//! What `.usage.json` has beyond its base, laid over the folded log.

use std::path::Path;

use hashbrown::HashMap;

use crate::error::Result;
use crate::sys::file::{self, File, Stat};
use crate::view::external::{self, Difference, Lineage};
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
    /// The file that this was made of; `None`: there was none.
    file: Option<Stat>,
    is_made: bool,
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
        let file = match File::open_read(snapshot) {
            Err(e) if e.is_not_found() => return Ok(FoundFile::default()),
            other => other?,
        };
        let stat = file.stat()?;
        let mut bytes = vec![0; usize::try_from(stat.len).unwrap_or(usize::MAX)];
        let len = file.read_at(&mut bytes, 0)?;
        bytes.truncate(len);
        let records::Found { records, problems } = records::decode(&bytes);
        Ok(FoundFile { stat: Some(stat), bytes, records, problems })
    }

    /// What was done to it since `base`. A file that is not there, or damaged, says nothing about what it lacks.
    pub(crate) fn differences(&self, base: &Records) -> Vec<Difference> {
        let Some(stat) = self.stat else { return Vec::new() };
        external::differences(base, &self.records, self.problems.is_empty(), stat.modified_micros)
    }
}

/// What a look at the file told.
pub(crate) struct Look {
    pub(crate) temporary_exists: bool,
    file: FoundFile,
}

/// Whether the rename that the newest `external` event speaks about has not happened.
pub(crate) fn temporary_exists(snapshot: &Path, temporary: &str) -> Result<bool> {
    if temporary.is_empty() {
        return Ok(false);
    }
    let target = super::snapshot_target(snapshot)?;
    Ok(file::stat_if_there(&target.with_file_name(temporary))?.is_some())
}

/// Looks, unless neither the log (`is_new`) nor the file has changed since `known` was made.
pub(crate) fn look(snapshot: &Path, lineage: &Lineage, known: &Overlay, is_new: bool) -> Result<Option<Look>> {
    if known.is_made && !is_new && file::stat_if_there(snapshot)? == known.file {
        return Ok(None);
    }
    let temporary_exists = temporary_exists(snapshot, &lineage.temporary)?;
    Ok(Some(Look { temporary_exists, file: FoundFile::read(snapshot)? }))
}

impl Look {
    /// The external part over `state`.
    pub(crate) fn overlay(self, state: &State, policy: Policy) -> Overlay {
        let base = state.lineage().base(self.temporary_exists);
        let arrival = self.file.stat.map_or(0, |stat| stat.modified_micros);
        let differences = self.file.differences(base);
        let effects = differences.into_iter().filter_map(|difference| {
            let effect = state.effect(&difference, arrival, policy)?;
            Some((difference.skill, effect))
        });
        let skills = effects.collect();
        Overlay { skills, problems: self.file.problems, file: self.file.stat, is_made: true }
    }
}
