//! Steps 2, 3, 6 and 7: external work into the log, a new `.usage.json` into place.

use std::path::{Path, PathBuf};

use crate::compact::{Run, Snapshot};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::lock::Lock;
use crate::log::writer::Durability;
use crate::sys::replace::{Like, make_ready};
use crate::sys::{self, file};
use crate::view::external::External;
use crate::view::overlay::{FoundFile, temporary_exists};
use crate::view::{View, records, snapshot_target};

/// Mode of a `.usage.json` that was not there before, as Hermes makes it.
const NEW_SNAPSHOT_MODE: u32 = 0o600;
/// What a part of an `external` event needs beside its data, generously.
const PART_OVERHEAD_LEN: usize = 512;
/// No part is longer: while it is written, nobody else can append.
const MOST_PART_LEN: usize = 4 << 10;

/// A new snapshot that is in the log, and not yet in its place.
pub(super) struct Prepared {
    target: PathBuf,
    temporary: String,
    external: usize,
    /// Held until the snapshot is in place: external writers wait, and go on from the new file.
    _lock: Lock,
}

impl Run<'_> {
    /// Steps 2 and 3. `None`: the file says what it should. An error leaves the file as it is.
    pub(super) fn prepare_snapshot(&mut self, view: &mut View) -> Result<Option<Prepared>> {
        let path = self.profile.snapshot_path();
        if view.state().names().next().is_none() && file::stat_if_there(&path)?.is_none() {
            return Ok(None); // nothing to say, and nobody who said anything
        }
        if let Some(skills) = path.parent()
            && file::make_folder(skills, 0o755)?
        {
            file::own_like(skills, &file::stat(self.profile.home())?)?;
        }
        let lock = self.profile.take_snapshot_lock(self.options.snapshot_wait)?;
        let target = snapshot_target(&path)?;
        let found = FoundFile::read(&path)?;
        view.read_log()?; // the newest external event, as of now
        if !view.is_base_in_checkpoint() {
            self.publish(view)?;
        }

        let lineage = view.state().lineage();
        let exists = temporary_exists(&path, &lineage.temporary)?;
        let differences = found.differences(lineage.base(exists));
        let arrival_micros = found.arrival_micros();
        let policy = self.profile.policy();
        let mut state = view.state().clone();
        state.apply_differences(&differences, arrival_micros, policy);
        let after = state.records(policy);
        let bytes = records::encode(&after);
        if differences.is_empty() && found.problems.is_empty() && found.stat.is_some() && bytes == found.bytes {
            // The newest event's temporary file stays: without it the base would be another one.
            self.remove_temporaries(&target, Some(&lineage.temporary))?;
            return Ok(None);
        }

        if !found.problems.is_empty() {
            self.keep_damaged(&found)?;
        }
        if found.stat.is_some() {
            file::File::open_read(&target)?.sync_all()?; // else a power loss could take back what is about to be counted
        }
        let external = differences.len();
        let temporary = self.write_temporary(&target, &found, &bytes)?;
        let event = External {
            arrival_micros,
            policy,
            temporary: temporary.clone(),
            differences,
            before: found.records,
            after,
        };
        self.append_external(&event)?;
        Ok(Some(Prepared { target, temporary, external, _lock: lock }))
    }

    /// Steps 6 and 7.
    pub(super) fn install_snapshot(&self, prepared: Option<Prepared>, view: &View) -> Result<Snapshot> {
        let Some(Prepared { target, temporary, external, _lock }) = prepared else { return Ok(Snapshot::Unchanged) };
        if view.state().lineage().temporary != temporary {
            return Err(Error::Damaged {
                path: self.folder.path().to_owned(),
                reason: "the event of the new snapshot was appended and cannot be read back".into(),
                advice: "`.usage.json` was left as it is; the next compaction writes it",
            });
        }
        file::rename(&target.with_file_name(&temporary), &target)?;
        sync_folder_of(&target)?;
        self.remove_temporaries(&target, None)?;
        Ok(Snapshot::Written { external })
    }

    /// The new snapshot under a name never used before, beside the target, with its mode and owner.
    fn write_temporary(&self, target: &Path, found: &FoundFile, bytes: &[u8]) -> Result<String> {
        let name = format!("{}{}.tmp", self.temporary_prefix(), sys::fresh_suffix());
        let path = target.with_file_name(&name);
        make_ready(&path, bytes, Like { old: found.stat.as_ref(), new_mode: NEW_SNAPSHOT_MODE, mode: None })?;
        if let Err(e) = sync_folder_of(target) {
            file::remove(&path)?; // no event names it
            return Err(e);
        }
        Ok(name)
    }

    /// Temporary files are told apart by profile: two may share one `.usage.json` through a symlink.
    fn temporary_prefix(&self) -> String {
        let home = self.profile.home().to_string_lossy().into_owned();
        format!(".usage.json.hermes-log-{:08x}-", crc32fast::hash(home.as_bytes()))
    }

    /// Appends the event in as many parts as its size asks for. If that fails, the temporary file stays: the event may be
    /// in the log, and the file is its proof.
    fn append_external(&mut self, external: &External) -> Result<()> {
        let text = serde_json::to_string(external).unwrap_or_default();
        let part_len = self.writer.max_payload_len()?.saturating_sub(PART_OVERHEAD_LEN).clamp(1, MOST_PART_LEN);
        let data = split(&text, part_len);
        let parts = u32::try_from(data.len()).unwrap_or(u32::MAX);
        for (part, data) in (0..parts).zip(data) {
            let event = Event::External { id: (&*external.temporary).into(), part, parts, data: data.into() };
            self.writer.append(&event, Durability::Process)?;
        }
        Ok(())
    }

    fn remove_temporaries(&self, target: &Path, kept: Option<&str>) -> Result<()> {
        let Some(folder) = target.parent() else { return Ok(()) };
        let prefix = self.temporary_prefix();
        for name in file::list(folder)? {
            if name.starts_with(&prefix) && Some(name.as_str()) != kept {
                file::remove(&folder.join(name))?;
            }
        }
        Ok(())
    }

    fn keep_damaged(&mut self, found: &FoundFile) -> Result<()> {
        let aside: PathBuf = self.folder.damaged_path(&format!("usage-{}.json", sys::fresh_suffix()))?;
        self.folder.publish(&aside, &found.bytes, true)?;
        self.set_aside.push(aside);
        Ok(())
    }
}

fn sync_folder_of(target: &Path) -> Result<()> {
    target.parent().map_or(Ok(()), file::sync_folder)
}

/// Cuts a text into pieces of at most `len` bytes (a character more where one would be cut).
fn split(mut text: &str, len: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let end = (len..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        let (piece, rest) = text.split_at(end);
        pieces.push(piece);
        text = rest;
    }
    pieces
}
