//! `skill`: the skills on disk and in the archive.

use std::path::Path;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use serde_json::{Value, json};

use crate::cli::args::Global;
use crate::cli::compact::parse_duration;
use crate::cli::display;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Column, Output};
use crate::event::Origin;
use crate::skill::{Found, Skills};
use crate::view::View;

pub(crate) const HELP: &str = "\
Examples:
  hermes-log skill list
  hermes-log skill archive pdf
  hermes-log skill restore pdf
  hermes-log skill delete pdf --timeout 5s

Each takes the skill's lock, moves the folder in one step, and says so in the log. Pinned, hub-installed
and bundled skills are refused where Hermes refuses them (exit code 4).

With --json `list` prints {\"skills\": [{\"name\", \"path\", \"archived\": BOOL, \"state\": WORD or null,
\"pinned\": BOOL}]}, the others {\"skill\": NAME, \"done\": WORD, \"path\": PATH or null}.";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Show the skills on disk and in the archive
    List,
    /// Move a skill to the archive
    Archive(One),
    /// Bring a skill back from the archive
    Restore(One),
    /// Delete a skill for good
    Delete(One),
}

#[derive(Debug, clap::Args)]
struct One {
    /// Exact name of the skill
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    skill: String,
    /// How long to wait for a lock: 500ms, 30s, 5m; 0s: one attempt
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s")]
    timeout: Duration,
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let profile = global.profile()?;
    let skills = |one: &One| profile.skills(Origin::here("cli")).with_limit(one.timeout);
    match &args.what {
        What::List => list(&profile.skills(Origin::here("cli")), &profile.view()?, out)?,
        What::Archive(one) => {
            let archived = out.with_progress("archiving", |_| skills(one).lock(&one.skill)?.archive())?;
            report(one, "archived", Some(&archived), out)?;
        }
        What::Restore(one) => {
            let folder = out.with_progress("restoring", |_| skills(one).restore(&one.skill))?;
            report(one, "restored", Some(&folder), out)?;
        }
        What::Delete(one) => {
            out.with_progress("deleting", |_| skills(one).lock(&one.skill)?.delete())?;
            report(one, "deleted", None, out)?;
        }
    }
    Ok(Exit::Done)
}

fn report(one: &One, done: &str, path: Option<&Path>, out: &mut Output) -> Result<(), Failure> {
    if out.is_json() {
        let path = path.map(Path::to_string_lossy);
        return out.value(&json!({"skill": one.skill, "done": done, "path": path}));
    }
    let place = path.map(|path| format!(": {}", display::escape(&path.to_string_lossy()))).unwrap_or_default();
    out.line(&format!("{done} {}{place}", display::name(&one.skill)))
}

fn list(skills: &Skills, view: &View, out: &mut Output) -> Result<(), Failure> {
    let (there, archived) = (skills.list()?, skills.archived()?);
    let all = there.iter().map(|found| (found, false)).chain(archived.iter().map(|found| (found, true)));
    if out.is_json() {
        let rows: Vec<Value> = all
            .map(|(found, archived)| {
                let record = view.skill(&found.name);
                json!({
                    "name": found.name,
                    "path": found.folder.to_string_lossy(),
                    "archived": archived,
                    "state": record.map(|record| record.state().as_str()),
                    "pinned": record.is_some_and(|record| record.is_pinned()),
                })
            })
            .collect();
        return out.value(&json!({"skills": rows}));
    }
    if there.is_empty() && archived.is_empty() {
        out.message("no skills");
        return Ok(());
    }
    let header = [Column::Text("SKILL"), Column::Text("STATE"), Column::Text("LAST ACTIVITY"), Column::Text("FOLDER")];
    out.table(&header, all.map(|(found, archived)| row(found, archived, view)))
}

fn row(found: &Found, archived: bool, view: &View) -> Vec<String> {
    let record = view.skill(&found.name);
    let state = match record {
        _ if archived => "in the archive".to_owned(),
        None => "no record".to_owned(),
        Some(record) => format!("{}{}", record.state(), if record.is_pinned() { ", pinned" } else { "" }),
    };
    vec![
        display::name(&found.name),
        state,
        display::ago_or_never(record.and_then(|record| record.last_activity_micros())),
        display::escape(&found.folder.to_string_lossy()).into_owned(),
    ]
}
