//! Who holds a lock, as `/proc` tells.

use std::path::Path;

use crate::sys::file;

/// The process that holds a `flock` on the file at `path`: id and command, for an error message.
pub(crate) fn flock_holder(path: &Path) -> Option<String> {
    let stat = file::stat(path).ok()?;
    let table = file::read(Path::new("/proc/locks")).ok()?;
    let wanted = format!(":{}", stat.inode);
    // "1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF"; a waiter has "->" after the number.
    let pid = String::from_utf8_lossy(&table).lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [_, "FLOCK", _, _, pid, file, ..] if file.ends_with(&wanted) && device(file) == Some(stat.device) => {
                Some((*pid).to_owned())
            }
            _ => None,
        }
    })?;
    let command = file::read(Path::new(&format!("/proc/{pid}/comm"))).unwrap_or_default();
    Some(format!("process {pid} ({})", String::from_utf8_lossy(&command).trim_end()))
}

fn device(file: &str) -> Option<u64> {
    let mut parts = file.split(':').map(|part| u32::from_str_radix(part, 16).ok());
    Some(rustix::fs::makedev(parts.next()??, parts.next()??))
}
