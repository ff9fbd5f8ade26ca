//! `lock`: a command under a skill's lock.

use std::ffi::OsString;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::budgets;
use crate::cli::args::Global;
use crate::cli::compact::parse_duration;
use crate::cli::exit::{self, Exit, Failure};
use crate::cli::output::Output;
use crate::error::Error;
use crate::event::Origin;

pub(crate) const HELP: &str = "\
Examples:
  hermes-log lock pdf -- sh -c 'sed -i s/old/new/ ~/.hermes/skills/pdf/SKILL.md'
  hermes-log lock pdf --timeout 5s -- my-editor
  hermes-log lock new-skill --create -- make-skill

The exit code is that of COMMAND, 128 and its number if a signal ended it, 75 if the lock could not be had
in time. COMMAND does not inherit the lock: it is released when COMMAND ends, or when hermes-log is
killed. Commands of hermes-log that change the same skill wait for it too, so COMMAND must not use them.
SIGTERM and SIGHUP are passed on; a SIGINT from the terminal reaches COMMAND anyway.";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Exact name of the skill
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    skill: String,
    /// How long to wait for the lock: 500ms, 30s, 5m; 0s: one attempt
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s")]
    timeout: Duration,
    /// A skill that is not there is no error: its creation is locked, with that of all others
    #[arg(long)]
    create: bool,
    /// What to run
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const _: () = assert!(budgets::SKILL.wait_limit.as_secs() == 30, "the help says 30s");

pub(crate) fn run(args: &Args, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let skills = global.profile()?.skills(Origin::here("cli")).with_limit(args.timeout);
    if !args.create && skills.find(&args.skill)?.is_none() {
        return Err(not_found(args).into()); // nobody is waited for
    }
    let lock = out.with_progress("waiting for the lock", |_| skills.lock(&args.skill))?;
    if !args.create && lock.folder().is_none() {
        return Err(not_found(args).into());
    }
    let status = run_command(&args.command)?;
    drop(lock);
    out.flush()?;
    std::process::exit(exit::passed_on(status))
}

fn not_found(args: &Args) -> Error {
    Error::NotFound { what: "skill", name: args.skill.clone() }
}

fn run_command(words: &[OsString]) -> Result<ExitStatus, Failure> {
    let Some((program, arguments)) = words.split_first() else { return Err(Failure::usage("no command")) };
    let failed = |e: std::io::Error| Failure::failed(format!("cannot run {}: {e}", program.to_string_lossy()));
    // This process must outlive the command, or it would go on without the lock.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    let mut child = Command::new(program).args(arguments).spawn().map_err(failed)?;
    let handle = signals.handle();
    let pid = Pid::from_child(&child);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for signal in signals.forever() {
                let passed_on = match signal {
                    SIGTERM => Signal::TERM,
                    SIGHUP => Signal::HUP,
                    _ => continue,
                };
                let _ = kill_process(pid, passed_on); // it may have ended
            }
        });
        let status = child.wait();
        handle.close();
        status.map_err(failed)
    })
}
