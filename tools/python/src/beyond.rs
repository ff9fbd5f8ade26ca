//! What no event can say is written to `.usage.json`, from where it comes into the log as the work of another program.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use hermes_log::compact::Snapshot;
use hermes_log::view::records::{self, Record};
use hermes_log::{CompactOptions, Counter, Durability, Error, Event, Profile, Writer, budgets};

use crate::error::Result;

/// A record that has to be written to the file.
pub(crate) struct Written {
    pub(crate) name: String,
    pub(crate) record: Record,
    pub(crate) how: How,
}

pub(crate) enum How {
    /// The log has no record of that name: this one comes as it is.
    New,
    /// The one that the log has ends, and this one begins.
    Anew,
    /// Only the last times moved on.
    Times,
}

/// Writes the records, in this order; a crash after the first step leaves a record forgotten that was to begin anew.
///
/// 1. `forgotten` for the ones that begin anew.
/// 2. A compaction: the file says what the log says, so that what is written next is a difference of just this.
/// 3. Under the lock of the file: read, change, write beside it, rename.
/// 4. A compaction: what was written is in the log, and events that follow it are the newer ones.
pub(crate) fn write(profile: &Profile, writer: &mut Writer, written: &[Written]) -> Result<()> {
    let ended: Vec<Event<'_>> = written
        .iter()
        .filter(|written| matches!(written.how, How::Anew))
        .map(|written| Event::Forgotten { skill: (&*written.name).into() })
        .collect();
    if !ended.is_empty() {
        writer.append_batch(&ended, Durability::Process)?;
    }
    take_in(profile)?;
    rewrite(profile, written)?;
    take_in(profile)
}

/// Puts what others did to `.usage.json` into the log, and what the log has into the file.
pub(crate) fn take_in(profile: &Profile) -> Result<()> {
    match profile.compact(&CompactOptions::default())?.snapshot {
        Snapshot::Busy(e) | Snapshot::Failed(e) => Err(e),
        _ => Ok(()),
    }
}

fn rewrite(profile: &Profile, written: &[Written]) -> Result<()> {
    let path = profile.snapshot_path();
    if let Some(skills) = path.parent() {
        fs::create_dir_all(skills).map_err(|e| at("create", skills, e))?;
    }
    let _lock = profile.lock_snapshot(budgets::SNAPSHOT.wait_limit)?;
    let target = match fs::canonicalize(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => path,
        other => other.map_err(|e| at("resolve", &path, e))?,
    };
    let bytes = match fs::read(&target) {
        Err(e) if e.kind() == ErrorKind::NotFound => b"{}".to_vec(),
        other => other.map_err(|e| at("read", &target, e))?,
    };
    let mut all = records::decode(&bytes).records;
    for Written { name, record, how } in written {
        if let How::Times = how {
            let times = Counter::ALL.map(Counter::last_field);
            let moved = times.iter().filter_map(|time| Some(((*time).to_owned(), record.get(*time)?.clone())));
            all.entry(name.clone()).or_default().extend(moved);
        } else {
            all.insert(name.clone(), record.clone());
        }
    }
    replace(&target, &records::encode(&all))
}

/// Puts a file of the same mode and owner in the place of another.
fn replace(target: &Path, bytes: &[u8]) -> Result<()> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let temporary = target.with_file_name(format!(".usage_{}_{}.tmp", std::process::id(), since.as_nanos()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        if let Ok(before) = fs::metadata(target) {
            file.set_permissions(fs::Permissions::from_mode(before.mode() & 0o7777))?;
            let own = file.metadata()?;
            if (own.uid(), own.gid()) != (before.uid(), before.gid()) {
                std::os::unix::fs::fchown(&file, Some(before.uid()), Some(before.gid()))?;
            }
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, target)?;
        target.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(|e| at("write", target, e))
}

fn at(op: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::Io { op, path: path.to_owned(), source }
}
