//! `due`: the curator's rule, shown or applied.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::args::Global;
use crate::cli::compact::parse_duration;
use crate::cli::display;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Column, Output};
use crate::event::Origin;
use crate::profile::Profile;
use crate::skill::{Applied, Due, Protections, Rule, due};
use crate::sys;

pub(crate) const HELP: &str = "\
Examples:
  hermes-log due
  hermes-log due --stale-after 14d --archive-after 60d
  hermes-log due --apply

Shows what the curator would do with each skill, and why it would not. --apply does it: each skill is
locked, its use is looked at again, and only if it is still due something is done with it.

With --json {\"skills\": [{\"skill\": NAME, \"due\": \"mark stale\" | \"archive\" | \"reactivate\" | \"seed\" |
\"keep\", \"why\": TEXT or null, \"applied\": null or \"done\" | \"no longer due\" | \"failed\", \"error\": TEXT or
null}]}. The exit code is 75 if a lock could not be had in time, 4 if anything else failed; the others are
done all the same.";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Without activity for this long a skill is stale [default: curator.stale_after_days, else 30d]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    stale_after: Option<Duration>,
    /// Without activity for this long it is archived [default: curator.archive_after_days, else 90d]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    archive_after: Option<Duration>,
    /// Do it
    #[arg(long)]
    apply: bool,
    /// How long to wait for each lock, with --apply
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s")]
    timeout: Duration,
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let profile = global.profile()?;
    let protections = Protections::read(&profile)?;
    let rule = Rule {
        stale_after: args.stale_after.unwrap_or(protections.stale_after),
        archive_after: args.archive_after.unwrap_or(protections.archive_after),
    };
    let skills = profile.skills(Origin::here("curator")).with_limit(args.timeout);
    let now_micros = i64::try_from(sys::now_micros()).unwrap_or(i64::MAX);
    let plan = due(&profile.view()?, &skills.list()?, &protections, rule, now_micros);
    let mut exit = Exit::Done;
    let mut rows = Vec::new();
    for (name, due) in plan {
        let applied = match due {
            Due::Act(_) if args.apply => {
                Some(out.with_progress("waiting for the lock of a skill", |_| skills.apply_due(&name, rule)))
            }
            _ => None,
        };
        match &applied {
            Some(Err(error)) if Exit::of(error) == Exit::Locked && exit != Exit::Failed => exit = Exit::Locked,
            Some(Err(_)) => exit = Exit::Failed,
            _ => {}
        }
        rows.push((name, due, applied));
    }
    print(&profile, rows, out)?;
    Ok(exit)
}

type Row = (String, Due, Option<crate::Result<Applied>>);

fn print(profile: &Profile, rows: Vec<Row>, out: &mut Output) -> Result<(), Failure> {
    let why = |due: &Due| match due {
        Due::Keep(why) => Some(why.to_string()),
        Due::Act(_) => None,
    };
    let done = |applied: &Option<crate::Result<Applied>>| match applied {
        None => None,
        Some(Ok(Applied::Done(_))) => Some("done"),
        Some(Ok(Applied::NoLongerDue(_))) => Some("no longer due"),
        Some(Err(_)) => Some("failed"),
    };
    if out.is_json() {
        let rows: Vec<Value> = rows
            .iter()
            .map(|(name, due, applied)| {
                let error = applied.as_ref().and_then(|applied| applied.as_ref().err()).map(ToString::to_string);
                json!({"skill": name, "due": due.to_string(), "why": why(due), "applied": done(applied), "error": error})
            })
            .collect();
        return out.value(&json!({"skills": rows}));
    }
    if rows.is_empty() {
        out.message(&format!("no skills in {}", profile.skills_folder().display()));
        return Ok(());
    }
    let header = [Column::Text("SKILL"), Column::Text("DUE"), Column::Text("WHY NOT"), Column::Text("APPLIED")];
    out.table(
        &header,
        rows.iter().map(|(name, due, applied)| {
            let (why, done) = (why(due).unwrap_or_else(|| "-".into()), done(applied).unwrap_or("-"));
            vec![display::name(name), due.to_string(), why, done.to_owned()]
        }),
    )?;
    for (name, _, applied) in rows {
        if let Some(Err(error)) = applied {
            out.error(&format!("{}: {error}", display::name(&name)), Exit::of(&error));
        }
    }
    Ok(())
}
