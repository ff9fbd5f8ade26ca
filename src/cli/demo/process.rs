//! The processes that append, seen from the parent: started, listened to, killed, replaced.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cli::demo::books::{Run, SKILLS};
use crate::cli::demo::writer::ACKNOWLEDGED;
use crate::cli::exit::Failure;
use crate::profile::Profile;
use crate::sys;

/// One process at a time, until its share of the events is acknowledged.
pub(super) struct Slot<'a> {
    pub(super) profile: &'a Profile,
    pub(super) capacity: u32,
    pub(super) number: u32,
    /// Of all slots together, for the progress.
    pub(super) acknowledged: &'a AtomicU64,
}

impl Slot<'_> {
    /// Starts processes until `share` events are acknowledged, and kills about `kills` of them at a random moment.
    pub(super) fn run(&self, share: u64, kills: u32) -> Result<Vec<Run>, Failure> {
        let (mut runs, mut left, mut kills) = (Vec::new(), share, u64::from(kills));
        while left > 0 {
            let name = format!("{}.{}-{}", self.number, runs.len(), sys::fresh_suffix());
            let kill_after = (kills > 0).then(|| random_up_to(left / kills));
            let run = self.listen(self.start(&name, left)?, name, kill_after)?;
            kills -= kills.min(u64::from(run.was_killed));
            left = left.saturating_sub(run.total());
            runs.push(run);
        }
        Ok(runs)
    }

    fn start(&self, name: &str, events: u64) -> Result<Child, Failure> {
        let program = std::env::current_exe();
        let program = program.map_err(|e| Failure::failed(format!("cannot find this program: {e}")))?;
        let mut command = Command::new(program);
        command.arg("demo-writer").arg("--home").arg(self.profile.home());
        command.args(["--capacity", &self.capacity.to_string(), name, &events.to_string()]);
        if self.profile.options().allow_network_fs {
            command.arg("--allow-network-fs");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.spawn().map_err(|e| Failure::failed(format!("cannot start a process: {e}")))
    }

    /// Takes in what a process says until it ends, killing it once it has said `kill_after` times that an event is
    /// acknowledged; by then it is somewhere further on.
    fn listen(&self, mut child: Child, name: String, kill_after: Option<u64>) -> Result<Run, Failure> {
        let failed = |what: &str, e: std::io::Error| Failure::failed(format!("cannot {what} a process: {e}"));
        let mut run = Run { name, ..Run::default() };
        let mut said = child.stdout.take();
        let mut buffer = vec![0; 64 << 10];
        let mut total = 0;
        while let Some(pipe) = &mut said {
            let taken = match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(taken) => taken,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(failed("listen to", e)),
            };
            let acknowledged = take_in(&mut run, buffer.get(..taken).unwrap_or_default())?;
            self.acknowledged.fetch_add(acknowledged, Ordering::Relaxed);
            total += acknowledged;
            if kill_after.is_some_and(|limit| total >= limit) {
                child.kill().map_err(|e| failed("kill", e))?;
            }
        }
        let status = child.wait().map_err(|e| failed("wait for", e))?;
        const SIGKILL: i32 = libc::SIGKILL;
        run.was_killed = status.signal() == Some(SIGKILL);
        if status.success() || run.was_killed && kill_after.is_some() {
            return Ok(run);
        }
        Err(Failure::failed(format!("process {} failed: {status}", run.name)))
    }
}

/// Returns how many events were acknowledged.
fn take_in(run: &mut Run, said: &[u8]) -> Result<u64, Failure> {
    let mut acknowledged = 0;
    for byte in said {
        match (*byte, run.in_flight) {
            (ACKNOWLEDGED, Some(skill)) => {
                *run.acknowledged.entry(skill).or_default() += 1;
                run.in_flight = None;
                acknowledged += 1;
            }
            (skill @ 0..SKILLS, None) => run.in_flight = Some(skill),
            (other, before) => {
                let text = format!("process {} said {other} after {before:?}, which makes no sense", run.name);
                return Err(Failure::failed(text));
            }
        }
    }
    Ok(acknowledged)
}

/// A number from 0 to `limit`.
fn random_up_to(limit: u64) -> u64 {
    u64::from_le_bytes(sys::random()) % limit.saturating_add(1)
}
