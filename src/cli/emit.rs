//! `emit`: appends one event, or a stream of them.

mod lines;

use clap::Subcommand;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use serde_json::{Map, Value, json};

use crate::budgets;
use crate::cli::args::Global;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Output;
use crate::compact;
use crate::error::Error;
use crate::event::{Event, Origin, State};
use crate::log::writer::Durability;
use crate::profile::Profile;
use crate::view::View;
use crate::view::records::check_fields;

pub(crate) const HELP: &str = "\
Examples:
  hermes-log emit use pdf
  hermes-log emit view pdf --count 3 --origin session --session monday
  hermes-log emit state old-skill stale
  hermes-log emit created new-skill --by agent
  hermes-log emit set pdf category '\"documents\"'
  hermes-log emit use -- -a-name-that-begins-with-a-dash
  generate-events | hermes-log emit -

An event about a field (state, pin, set, ...) counts as newer than what others did to the record in
.usage.json before it: if there is such work, it is compacted into the log first, and the exit code is 75 if that
cannot be had in time; nothing is appended then.

Prints the position of the event, such as 3:64, once it is acknowledged; with --json {\"position\": \"3:64\"}.
`emit -` reads events as JSON lines, such as {\"event\": \"used\", \"skill\": \"pdf\", \"count\": 2}; see `emit - --help`.";

const LINES_HELP: &str = r#"One JSON object a line, one event each:
  {"event": "used", "skill": "pdf", "count": 2}     also viewed, patched; count is 1 if not given
  {"event": "created", "skill": "pdf", "by": "agent"}
  {"event": "state", "skill": "pdf", "state": "stale"}
  {"event": "pinned", "skill": "pdf", "pinned": true}
  {"event": "fields", "skill": "pdf", "set": {"category": "documents"}, "unset": ["old"]}
  {"event": "seeded" | "forgotten" | "edited" | "archived" | "restored" | "deleted", "skill": "pdf"}
  {"event": "file_written" | "file_removed", "skill": "pdf", "path": "run.py"}
  {"event": "installed" | "updated", "skill": "pdf", "source": "hub"}

What has arrived is appended when the input pauses. A bad line is named on stderr and the others are appended; the exit
code is 2 then. If an append fails, the error says from which line on nothing is recorded.

Prints the position of the last event; with --json {"position": "3:64" or null, "appended": N, "bad": N}, and each bad
line on stderr as {"line": N, "error": TEXT, "exit": 2}."#;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Acknowledge when the event is on the disk, not only in the kernel
    #[arg(long, global = true)]
    durable: bool,
    /// Kind of process: cli, session, gateway, cron, batch, sub-agent, review, curator, or any other
    #[arg(long, global = true, value_name = "KIND", default_value = "cli", value_parser = NonEmptyStringValueParser::new())]
    origin: String,
    /// The session that the event belongs to
    #[arg(long, global = true, value_name = "NAME")]
    session: Option<String>,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The skill was used
    Use(Counted),
    /// The skill was viewed
    View(Counted),
    /// The skill was patched
    Patch(Counted),
    /// Set the skill's lifecycle state
    State {
        /// Exact name
        skill: String,
        #[arg(value_parser = PossibleValuesParser::new(["active", "stale", "archived"])
            .try_map(|word| word.parse::<State>()))]
        state: State,
    },
    /// Exempt the skill from automatic transitions
    Pin {
        /// Exact name
        skill: String,
    },
    /// No longer exempt the skill from automatic transitions
    Unpin {
        /// Exact name
        skill: String,
    },
    /// The skill was created
    Created {
        /// Exact name
        skill: String,
        /// Its maker, such as agent
        #[arg(long, value_name = "WHO")]
        by: String,
    },
    /// Set a field of the skill's record
    Set {
        /// Exact name
        skill: String,
        /// Name of the field; counts and their times cannot be set
        field: String,
        /// The value as JSON: 1, true, null, '"text"', '["a"]'
        #[arg(value_name = "JSON", allow_negative_numbers = true)]
        value: String,
    },
    /// Drop the skill's record; the name starts from zero if it comes back
    Forget {
        /// Exact name
        skill: String,
    },
    /// Append events from stdin, JSON lines
    #[command(name = "-", after_help = LINES_HELP)]
    Lines,
}

#[derive(Debug, clap::Args)]
struct Counted {
    /// Exact name
    skill: String,
    /// How often
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_count, allow_negative_numbers = true)]
    count: u64,
}

fn parse_count(text: &str) -> Result<u64, &'static str> {
    text.parse().ok().filter(|count| *count > 0).ok_or("allowed: a whole number from 1 to 18446744073709551615")
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let profile = global.profile()?;
    let origin = Origin { session: args.session.clone().map(Into::into), ..Origin::here(args.origin.clone()) };
    let durability = if args.durable { Durability::Disk } else { Durability::Process };
    let Some(event) = args.what.event()? else {
        let settler = Settler { profile: &profile, view: None };
        return lines::append(profile.writer(origin)?, settler, durability, out);
    };
    event.validate()?; // before anything is made
    check_fields(&event)?;
    let mut writer = profile.writer(origin)?;
    Settler { profile: &profile, view: None }.before(&event, out)?;
    let position = writer.append(&event, durability)?;
    if out.is_json() {
        out.value(&json!({"position": position.to_string()}))?;
    } else {
        out.line(&position.to_string())?;
    }
    Ok(Exit::Done)
}

/// Sees to it that an event about a field counts as newer than what others did in `.usage.json` before it.
struct Settler<'a> {
    profile: &'a Profile,
    view: Option<View>,
}

impl Settler<'_> {
    /// Called before each append. [`Error::LockTimeout`] if others' work could not be taken in in time.
    fn before(&mut self, event: &Event<'_>, out: &mut Output) -> Result<(), Error> {
        let Some(skill) = event.skill().filter(|_| !event.is_count()) else { return Ok(()) };
        let settled = out.with_progress("waiting for .usage.json", |_| {
            let view = match &mut self.view {
                Some(view) => view,
                none => none.insert(self.profile.view()?),
            };
            compact::settle(self.profile, view, skill, budgets::SNAPSHOT.wait_limit)
        });
        match settled {
            // A file that cannot be read keeps nobody from saying what he has to say.
            Err(e @ Error::Io { .. }) => {
                out.warning(&format!("{e}; if others have changed {skill:?} there, that may count as newer than this"));
                Ok(())
            }
            other => other,
        }
    }
}

impl What {
    /// The event; `None`: they come on stdin.
    fn event(&self) -> Result<Option<Event<'_>>, Error> {
        Ok(Some(match self {
            What::Use(Counted { skill, count }) => Event::Used { skill: skill.into(), count: *count },
            What::View(Counted { skill, count }) => Event::Viewed { skill: skill.into(), count: *count },
            What::Patch(Counted { skill, count }) => Event::Patched { skill: skill.into(), count: *count },
            What::State { skill, state } => Event::State { skill: skill.into(), state: *state },
            What::Pin { skill } => Event::Pinned { skill: skill.into(), pinned: true },
            What::Unpin { skill } => Event::Pinned { skill: skill.into(), pinned: false },
            What::Created { skill, by } => Event::Created { skill: skill.into(), by: by.into() },
            What::Set { skill, field, value } => {
                let value: Value = serde_json::from_str(value).map_err(|e| Error::Invalid {
                    what: "value",
                    found: format!("{value:?} ({e})"),
                    allowed: "JSON, such as 1, true, null or '\"text\"' (with quotes of its own)",
                })?;
                let set = Map::from_iter([(field.clone(), value)]);
                Event::Fields { skill: skill.into(), set: Value::Object(set).to_string().into(), unset: Vec::new() }
            }
            What::Forget { skill } => Event::Forgotten { skill: skill.into() },
            What::Lines => return Ok(None),
        }))
    }
}
