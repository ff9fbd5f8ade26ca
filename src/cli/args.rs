//! Arguments that every subcommand has, and the list of subcommands.

use std::path::PathBuf;

use clap::{ArgAction, ColorChoice, Parser, Subcommand};

use crate::cli::exit::{self, Failure};
use crate::cli::{auth, compact, demo, due, dump, emit, lock, locks, show, skill, stat, tail, verify};
use crate::error::Error;
use crate::log::format::{MAX_CAPACITY, MIN_CAPACITY};
use crate::log::writer::Options;
use crate::profile::Profile;

/// An append-only event log for the many processes of one agent profile: nobody waits, nothing is lost.
#[derive(Debug, Parser)]
#[command(name = "hermes-log", version, after_help = exit::table(), max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Home of the profile [default: $HERMES_HOME, else the active profile in ~/.hermes]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Profile by its name: `default`, or one of ROOT/profiles
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Print JSON; on stderr too, as {"error": TEXT, "exit": CODE} and {"warning": TEXT}
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No messages but errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// More messages of the library on stderr: -v what is done, -vv details, -vvv every append
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// When to use colours; `auto`: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
    /// Capacity of the segments that this process creates, 4096 to 268435456 [default: as the segment before]
    #[arg(long, global = true, value_name = "BYTES", hide_short_help = true,
          value_parser = clap::value_parser!(u32).range(i64::from(MIN_CAPACITY)..=i64::from(MAX_CAPACITY)))]
    pub(crate) capacity: Option<u32>,
    /// Go on where appends of several hosts or mounts are not atomic (NFS, FUSE, ...); each append then takes a lock
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) allow_network_fs: bool,
}

impl Global {
    /// The profile that the arguments name.
    pub(crate) fn profile(&self) -> Result<Profile, Failure> {
        let profile = match (&self.home, &self.profile) {
            (Some(_), Some(_)) => return Err(Failure::usage("--home and --profile name a profile twice; give one")),
            (Some(home), None) => Profile::at(home),
            (None, Some(name)) => Profile::named(name)?,
            (None, None) => Profile::active()?,
        };
        if !profile.home().is_dir() {
            let name = format!("{} is not there", profile.home().display());
            return Err(Error::NotFound { what: "profile", name }.into());
        }
        Ok(profile.with_options(Options { capacity: self.capacity, allow_network_fs: self.allow_network_fs }))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Append an event
    #[command(after_help = emit::HELP)]
    Emit(emit::Args),
    /// Show the skills, or one of them
    #[command(after_help = show::HELP)]
    Show(show::Args),
    /// Show events and gaps, oldest first
    #[command(after_help = tail::HELP)]
    Tail(tail::Args),
    /// Turn what is in the log into a checkpoint and a fresh .usage.json
    #[command(after_help = compact::HELP)]
    Compact(compact::Args),
    /// Read everything and report each gap; changes nothing
    #[command(after_help = verify::HELP)]
    Verify,
    /// Sizes, counts, gaps, the last compaction, who holds a lock
    #[command(after_help = stat::HELP)]
    Stat,
    /// Show a segment's header and frames field by field
    #[command(after_help = dump::HELP)]
    Dump(dump::Args),
    /// Credentials that many processes share: list, set, refresh once for all
    #[command(after_help = auth::HELP)]
    Auth(auth::Args),
    /// Run a command while no other process writes a skill's files
    #[command(after_help = lock::HELP)]
    Lock(lock::Args),
    /// Who holds and who waits for a lock, in all profiles of the root
    #[command(after_help = locks::HELP)]
    Locks,
    /// List skills; archive, restore or delete one
    #[command(after_help = skill::HELP)]
    Skill(skill::Args),
    /// Which skills are due to become stale, archived or active again, and why not for the rest
    #[command(after_help = due::HELP)]
    Due(due::Args),
    /// Append with many processes, kill some, and compare the counts event for event
    #[command(after_help = demo::HELP)]
    Demo(demo::Args),
    /// One of the demo's processes
    #[command(hide = true)]
    DemoWriter(demo::writer::Args),
}
