//! Who holds a lock and who waits for it, as `/proc` tells.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::error::Result;
use crate::sys::file;

/// A process that holds or waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) id: u32,
    /// Its command; empty if it has ended, and a child of its own still has the open file.
    pub(crate) command: String,
    /// How long it has been running.
    pub(crate) age: Option<Duration>,
    /// Stopped by a signal: it will not release before somebody continues it.
    pub(crate) is_stopped: bool,
}

/// One file's locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flock {
    pub(crate) holders: Vec<Process>,
    /// Those that block in the kernel. Who tries again and again is not seen.
    pub(crate) waiters: Vec<Process>,
}

/// Every `flock` of this machine that `/proc/locks` shows: those of other process namespaces it does not.
#[derive(Debug, Default)]
pub(crate) struct Flocks(HashMap<(u64, u64), Flock>);

/// Reads the table.
pub(crate) fn flocks() -> Result<Flocks> {
    Ok(Flocks::parse(&String::from_utf8_lossy(&file::read(Path::new("/proc/locks"))?)))
}

impl Flocks {
    /// "1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF"; a waiter has "->" after the number.
    fn parse(table: &str) -> Flocks {
        let mut flocks = Flocks::default();
        for line in table.lines() {
            let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "->").collect();
            let [_, "FLOCK", _, _, id, file, ..] = words.as_slice() else { continue };
            let (Some(key), Ok(id)) = (key(file), id.parse()) else { continue };
            let flock = flocks.0.entry(key).or_default();
            let side = if line.contains("->") { &mut flock.waiters } else { &mut flock.holders };
            // The kernel shows a line twice if other locks come and go while the table is read.
            if side.iter().all(|known| known.id != id) {
                side.push(Process::of(id));
            }
        }
        flocks
    }

    /// The locks of the file at a path; `None` if it has none, or is not there.
    pub(crate) fn at(&self, path: &Path) -> Option<&Flock> {
        let stat = file::stat(path).ok()?;
        self.0.get(&(stat.device, stat.inode))
    }
}

/// "fe:00:5678": device and inode.
fn key(file: &str) -> Option<(u64, u64)> {
    let mut parts = file.split(':');
    let mut hex = || u32::from_str_radix(parts.next()?, 16).ok();
    let device = rustix::fs::makedev(hex()?, hex()?);
    Some((device, parts.next()?.parse().ok()?))
}

impl Process {
    fn of(id: u32) -> Process {
        let read = |name: &str| file::read(Path::new(&format!("/proc/{id}/{name}"))).unwrap_or_default();
        let stat = String::from_utf8_lossy(&read("stat")).into_owned();
        // The command stands in parentheses, and may contain some itself. After it: state, ..., start in ticks (field 22).
        let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let uptime = file::read(Path::new("/proc/uptime")).unwrap_or_default();
        let uptime: Option<f64> = String::from_utf8_lossy(&uptime).split(' ').next().and_then(|text| text.parse().ok());
        let start: Option<f64> = fields.get(19).and_then(|ticks| ticks.parse().ok());
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let age = uptime.zip(start).map(|(uptime, start)| (uptime - start / ticks).max(0.0));
        Process {
            id,
            command: String::from_utf8_lossy(&read("comm")).trim_end().to_owned(),
            age: age.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            is_stopped: matches!(fields.first(), Some(&"T" | &"t")),
        }
    }
}

/// "process 1234 (python3), running for 5.2 s"
impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.command.is_empty() {
            return write!(f, "process {}, which has ended (a child of it may have the lock)", self.id);
        }
        write!(f, "process {} ({})", self.id, self.command)?;
        if let Some(age) = self.age {
            write!(f, ", running for {:.1} s", age.as_secs_f64())?;
        }
        if self.is_stopped { write!(f, ", stopped") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_and_waiters_are_told_apart_by_file() {
        let table = "1: FLOCK  ADVISORY  WRITE 1 08:01:55 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 2 08:01:55 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 3 08:01:55 0 EOF\n3: FLOCK  ADVISORY  READ  4 08:01:56 0 EOF\nnonsense\n";
        let flocks = Flocks::parse(table);
        let ids = |side: &[Process]| side.iter().map(|process| process.id).collect::<Vec<_>>();
        let of = |inode| &flocks.0[&(rustix::fs::makedev(8, 1), inode)];
        assert_eq!((ids(&of(55).holders), ids(&of(55).waiters)), (vec![1], vec![2]));
        assert_eq!((ids(&of(56).holders), ids(&of(56).waiters)), (vec![4], vec![]));
        assert_eq!(flocks.0.len(), 2);
    }

    #[test]
    fn a_process_is_told_with_its_age() {
        let own = Process::of(std::process::id());
        assert!(own.age.is_some() && !own.is_stopped && !own.command.is_empty(), "{own:?}");
        assert!(own.to_string().starts_with(&format!("process {} (", own.id)));
    }
}
