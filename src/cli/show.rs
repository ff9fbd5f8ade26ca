//! `show`: the folded view, as a table or one record.

use std::cmp::Reverse;

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use serde_json::{Map, Value, json};

use crate::cli::args::Global;
use crate::cli::display;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Column, Output};
use crate::error::Error;
use crate::event::Counter;
use crate::view::records::{format_time, parse_time};
use crate::view::{Policy, SkillView, View};

pub(crate) const HELP: &str = "\
Examples:
  hermes-log show
  hermes-log show --sort recent
  hermes-log show pdf --json

With --json {\"skills\": {NAME: RECORD}, \"position\": \"S:O\", \"events\": N, \"gaps\": [GAP],
\"snapshot_problems\": [{\"offset\": N, \"what\": TEXT}]}, for one skill {\"name\": NAME, \"record\": RECORD}.
RECORD is what .usage.json has for the skill, GAP is {\"segment\": N, \"offset\": N,
\"length\": N or null, \"reason\": WORD}.";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Exact name of a skill
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    skill: Option<String>,
    /// Order of the table
    #[arg(long, value_name = "ORDER", default_value = "name")]
    sort: Sort,
    /// Count uses by processes of origin `review` as views
    #[arg(long)]
    reviews_as_views: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sort {
    /// By name
    Name,
    /// Most uses, views and patches together first
    Activity,
    /// Last used, viewed or patched first
    Recent,
    /// Most uses first
    Use,
    /// Most views first
    View,
    /// Most patches first
    Patch,
}

pub(crate) fn run(args: &Args, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let profile = global.profile()?.with_policy(Policy { reviews_are_views: args.reviews_as_views });
    let view = out.with_progress("reading the log", |_| profile.view())?;
    match &args.skill {
        Some(name) => {
            let skill = view.skill(name).ok_or_else(|| Error::NotFound { what: "skill", name: name.clone() });
            out.report_gaps(&view);
            one(name, skill?, out)?;
        }
        None => {
            all(&view, args.sort, out)?;
            out.report_gaps(&view);
        }
    }
    Ok(Exit::with_gaps(view.has_gaps()))
}

fn all(view: &View, sort: Sort, out: &mut Output) -> Result<(), Failure> {
    let mut skills = view.skills();
    match sort {
        Sort::Name => {}
        Sort::Activity => skills.sort_by_key(|(_, skill)| Reverse(skill.activity())),
        Sort::Recent => skills.sort_by_key(|(_, skill)| Reverse(skill.last_activity_micros())),
        Sort::Use => skills.sort_by_key(|(_, skill)| Reverse(skill.count(Counter::Use))),
        Sort::View => skills.sort_by_key(|(_, skill)| Reverse(skill.count(Counter::View))),
        Sort::Patch => skills.sort_by_key(|(_, skill)| Reverse(skill.count(Counter::Patch))),
    }
    if out.is_json() {
        let records: Map<String, Value> =
            skills.iter().map(|(name, skill)| ((*name).to_owned(), Value::Object(skill.record()))).collect();
        return out.value(&json!({
            "skills": records,
            "position": view.position().to_string(),
            "events": view.events(),
            "gaps": display::gaps_json(view.gaps_met()),
            "snapshot_problems": display::problems_json(view.snapshot_problems()),
        }));
    }
    if skills.is_empty() {
        out.message("no skills yet");
        return Ok(());
    }
    let header = [
        Column::Text("SKILL"),
        Column::Number("USED"),
        Column::Number("VIEWED"),
        Column::Number("PATCHED"),
        Column::Text("LAST ACTIVITY"),
        Column::Text("STATE"),
        Column::Text("CREATED BY"),
        Column::Text("CREATED"),
    ];
    out.table(&header, skills.iter().map(|(name, skill)| row(name, *skill)))
}

fn row(name: &str, skill: SkillView<'_>) -> Vec<String> {
    let counts = Counter::ALL.map(|counter| display::number(skill.count(counter)));
    let pinned = if skill.is_pinned() { ", pinned" } else { "" };
    let maker = skill.created_by().flatten().map_or_else(|| "-".into(), display::name);
    let [used, viewed, patched] = counts;
    vec![
        display::name(name),
        used,
        viewed,
        patched,
        display::ago_or_never(skill.last_activity_micros()),
        format!("{}{pinned}", skill.state()),
        maker,
        skill.created_micros().map_or_else(|| "-".into(), display::ago),
    ]
}

fn one(name: &str, skill: SkillView<'_>, out: &mut Output) -> Result<(), Failure> {
    let record = skill.record();
    if out.is_json() {
        return out.value(&json!({"name": name, "record": record}));
    }
    out.heading(&display::escape(name))?;
    let fields: Vec<(String, String)> =
        record.iter().map(|(field, value)| (display::name(field), shown(field, value))).collect();
    out.fields(fields.iter().map(|(field, value)| (&**field, value.clone())))
}

fn shown(field: &str, value: &Value) -> String {
    let time = value.as_str().filter(|_| field.ends_with("_at")).and_then(parse_time);
    match (value, time) {
        (_, Some(micros)) => format!("{} ({})", display::ago(micros), format_time(micros)),
        (Value::Null, None) => "-".into(),
        (Value::String(text), None) => display::escape(text).into_owned(),
        (other, None) => display::escape(&other.to_string()).into_owned(),
    }
}
