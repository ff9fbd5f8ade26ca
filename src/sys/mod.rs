//! The only place for system calls. Every call passes [`fault`], so that a test can make each one fail.

#[cfg(feature = "fault-injection")]
pub mod fault;
pub(crate) mod file;
pub(crate) mod filesystem;
pub(crate) mod posix;
pub(crate) mod procfs;
pub(crate) mod replace;
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
    pub(crate) fn shifted(micros: u64) -> u64 {
        micros
    }
    #[inline(always)]
    pub(crate) fn shorten(bytes: &[u8]) -> &[u8] {
        bytes
    }
}

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The wall clock, in microseconds since the epoch (UTC); 0 before it.
pub(crate) fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    fault::shifted(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// A point in time that tells what came first on one machine, whatever its wall clock did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Microseconds since the epoch (UTC), by the wall clock.
    pub wall_micros: u64,
    /// Which boot of which machine; 0: not known.
    boot: u64,
    /// Microseconds since that boot, suspension included.
    since_boot_micros: u64,
}

impl Moment {
    /// This moment.
    #[must_use]
    pub fn now() -> Moment {
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let (seconds, nanos) = (u64::try_from(clock.tv_sec), u64::try_from(clock.tv_nsec));
        let since_boot_micros = seconds.unwrap_or(0).saturating_mul(1_000_000) + nanos.unwrap_or(0) / 1000;
        Moment { wall_micros: now_micros(), boot: boot_id(), since_boot_micros }
    }

    /// How long it was from `earlier` to this, in microseconds. After a reboot, and between machines, only the wall clocks
    /// can tell, and those may be wrong.
    #[must_use]
    pub fn micros_since(&self, earlier: &Moment) -> i128 {
        if self.boot != 0 && self.boot == earlier.boot {
            i128::from(self.since_boot_micros) - i128::from(earlier.since_boot_micros)
        } else {
            i128::from(self.wall_micros) - i128::from(earlier.wall_micros)
        }
    }

    /// Whether the machine was started again in between: no process of then lives.
    #[must_use]
    pub fn is_other_boot(&self, other: &Moment) -> bool {
        self.boot != 0 && other.boot != 0 && self.boot != other.boot
    }
}

/// The beginning of the kernel's random name for this boot; 0 where it does not tell.
fn boot_id() -> u64 {
    static BOOT: AtomicU64 = AtomicU64::new(0);
    let known = BOOT.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let name = file::read(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default();
    let digits: String = String::from_utf8_lossy(&name).chars().filter(char::is_ascii_hexdigit).take(16).collect();
    let boot = u64::from_str_radix(&digits, 16).unwrap_or(0);
    BOOT.store(boot, Ordering::Relaxed);
    boot
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
