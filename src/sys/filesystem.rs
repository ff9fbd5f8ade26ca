//! Which file systems keep the promise that the log rests on: `O_APPEND` is atomic between all writers.

use std::path::Path;

use crate::error::{At, Result};
use crate::sys::fault;

/// Names the file system if appends of several hosts or mounts are not atomic on it. Magic numbers: statfs(2).
pub(crate) fn network_kind(folder: &Path) -> Result<Option<&'static str>> {
    fault::point("statfs").at("examine the file system of", folder)?;
    #[cfg(feature = "fault-injection")]
    if let Some(magic) = std::env::var("HERMES_LOG_STATFS").ok().and_then(|m| u32::from_str_radix(&m, 16).ok()) {
        return Ok(kind_of(magic));
    }
    let found = rustix::fs::statfs(folder).at("examine the file system of", folder)?;
    // The field's width and sign differ between architectures; magic numbers have 32 bits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok(kind_of(found.f_type as u32))
}

fn kind_of(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x6573_5546 => "FUSE",
        0x6a65_6a63 => "virtiofs",
        0x0102_1997 => "9p",
        0x00c3_6400 => "Ceph",
        0x5346_414f => "AFS",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 | 0x4750_4654 => "GPFS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_told_from_local_ones() {
        assert_eq!(kind_of(0x6969), Some("NFS"));
        assert_eq!(kind_of(0x6573_5546), Some("FUSE"));
        assert_eq!(kind_of(0xff53_4d42), Some("SMB"));
        for local in [0xef53, 0x0102_1994, 0x5846_5342, 0x9123_683e, 0x794c_7630] {
            assert_eq!(kind_of(local), None, "{local:x}"); // ext4, tmpfs, xfs, btrfs, overlayfs
        }
    }
}
