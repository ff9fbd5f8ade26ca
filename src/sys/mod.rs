//! The only place for system calls. Every call passes [`fault`], so that a test can make each one fail.

#[cfg(feature = "fault-injection")]
pub mod fault;
pub(crate) mod file;
pub(crate) mod filesystem;
pub(crate) mod posix;
pub(crate) mod procfs;
pub(crate) mod tree;
pub(crate) mod watch;

#[cfg(not(feature = "fault-injection"))]
mod fault {
    //! Without the feature there are no faults, and no cost.
    #[inline(always)]
    pub(crate) fn point(_call: &str) -> std::io::Result<()> {
        Ok(())
    }
    #[inline(always)]
    pub(crate) fn shorten(bytes: &[u8]) -> &[u8] {
        bytes
    }
}

use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock, in microseconds since the epoch (UTC); 0 before it.
pub(crate) fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Random bits from the kernel, for names and salts.
///
/// Where the kernel gives none (no `getrandom`, no `/dev/urandom`), time and process id stand in: they need to be
/// fresh, not secret.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() {
        let fallback = now_micros() ^ (u64::from(std::process::id()) << 40);
        for (byte, source) in bytes.iter_mut().zip(fallback.to_le_bytes().iter().cycle()) {
            *byte = *source;
        }
    }
    bytes
}

/// 16 hexadecimal digits that no file was ever named by.
pub(crate) fn fresh_suffix() -> String {
    format!("{:016x}", u64::from_le_bytes(random()))
}
