//! The command line: one file per subcommand.
//!
//! stdout is data, stderr is messages. With `--json` both are JSON: what stdout carries is described in each command's
//! `--help`, an error is one object `{"error": TEXT, "exit": CODE}` on stderr, a warning `{"warning": TEXT}`. A broken
//! pipe is a quiet success.

mod args;
mod auth;
mod compact;
mod cursor;
mod demo;
mod display;
mod due;
mod dump;
mod emit;
mod entries;
mod exit;
mod lock;
mod locks;
mod output;
mod segment;
mod show;
mod skill;
mod stat;
mod tail;
mod verify;
mod warnings;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory, FromArgMatches, ValueEnum};

use args::{Cli, Command};
use exit::{Exit, Failure};
use output::Output;

/// Runs the program: arguments of this process in, exit code out.
pub fn run() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // Before the arguments are understood they already say how to complain about them.
    let said = Said::in_arguments(&arguments);
    let parsed = Cli::command().color(said.color).try_get_matches_from(arguments);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(e) if said.json && e.use_stderr() => {
            output::print_error(true, &exit::usage(&e), Exit::Usage);
            return Exit::Usage.into();
        }
        Err(e) => {
            let _ = e.print(); // a broken pipe is a quiet success
            return if e.use_stderr() { Exit::Usage } else { Exit::Done }.into();
        }
    };
    output::set_up(&cli.global);
    let mut out = Output::new(&cli.global);
    let outcome = execute(&cli, &mut out);
    // Also what was printed before a failure. A reader that went away does not make a gap or a bad line good.
    let flushed = out.flush().or_else(|failure| if failure.is_broken_pipe() { Ok(()) } else { Err(failure) });
    let exit = match outcome.and_then(|exit| flushed.map(|()| exit)) {
        Ok(exit) => exit,
        Err(failure) if failure.is_broken_pipe() => Exit::Done,
        Err(failure) => {
            output::print_error(cli.global.json, &failure.to_string(), failure.exit());
            failure.exit()
        }
    };
    exit.into()
}

fn execute(cli: &Cli, out: &mut Output) -> Result<Exit, Failure> {
    let global = &cli.global;
    match &cli.command {
        Command::Emit(args) => emit::run(args, global, out),
        Command::Show(args) => show::run(args, global, out),
        Command::Tail(args) => tail::run(args, global, out),
        Command::Compact(args) => compact::run(args, global, out),
        Command::Verify => verify::run(global, out),
        Command::Stat => stat::run(global, out),
        Command::Dump(args) => dump::run(args, global, out),
        Command::Auth(args) => auth::run(args, global, out),
        Command::Lock(args) => lock::run(args, global, out),
        Command::Locks => locks::run(global, out),
        Command::Skill(args) => skill::run(args, global, out),
        Command::Due(args) => due::run(args, global, out),
        Command::Demo(args) => demo::run(args, global, out),
        Command::DemoWriter(args) => demo::writer::run(args, global),
    }
}

/// What the arguments say about output, as far as it can be told from arguments that may be wrong.
struct Said {
    json: bool,
    color: ColorChoice,
}

impl Said {
    fn in_arguments(arguments: &[OsString]) -> Said {
        let mut said = Said { json: false, color: ColorChoice::Auto };
        let words = arguments.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--");
        let mut before = String::new();
        for word in words {
            said.json |= word == "--json";
            let choice = word.strip_prefix("--color=").or((before == "--color").then_some(&*word));
            if let Some(color) = choice.and_then(|choice| ColorChoice::from_str(choice, false).ok()) {
                said.color = color;
            }
            before = word.into_owned();
        }
        said
    }
}
