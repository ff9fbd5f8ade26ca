//! The speed of the emitter and of what long-lived processes do beside it, every figure beside its floor in the same run.
//!
//! `cargo bench --bench emitter [-- [--markdown] [SECTION...]]`: all sections, or these. `--markdown` prints rows for
//! `benches/RESULTS.md`. `HERMES_LOG_QUICK=1`: some seconds for everything.
#![allow(unreachable_pub, dead_code)] // a program has no API, and of the other bench's modules it uses a part

#[path = "../speed/append.rs"]
mod append;
mod caller;
#[path = "../speed/children.rs"]
mod children;
mod latency;
#[path = "../speed/logs.rs"]
mod logs;
#[path = "../speed/measure.rs"]
mod measure;
mod processes;
mod short;
mod whole;

use measure::{Effort, Row, Target};

type Section = (&'static str, fn(Effort) -> Vec<Row>);

const SECTIONS: [Section; 5] = [
    ("caller", |effort| vec![caller::threads(effort, 1), caller::threads(effort, 4), latency::emit(effort)]),
    ("whole", |effort| vec![whole::ten_million(effort)]),
    ("processes", |effort| vec![processes::eight(effort)]),
    ("latency", latency::append),
    ("short", |effort| vec![short::open_append_close(effort)]),
];

fn main() {
    if processes::is_child() {
        return;
    }
    let (options, wanted): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|a| a.starts_with("--"));
    if let Some(unknown) = wanted.iter().find(|w| SECTIONS.iter().all(|(name, _)| w != name)) {
        eprintln!("no section {unknown:?}; there are {}", SECTIONS.map(|(name, _)| name).join(", "));
        std::process::exit(2);
    }
    let is_table = options.iter().any(|option| option == "--markdown");
    let effort = if std::env::var_os("HERMES_LOG_QUICK").is_some() { Effort::Quick } else { Effort::Full };
    for (_, section) in SECTIONS.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|w| w == name)) {
        section(effort).iter().for_each(|row| println!("{}", if is_table { line(row) } else { lines(row) }));
    }
}

fn line(row: &Row) -> String {
    let Row { what, against, ours, floor, ratio, noise, .. } = row;
    let verdict = if row.is_hit() { "hit" } else { "**missed**" };
    let noise = noise * 100.0;
    format!("| {what} | {ours} | {floor}: {against} | {ratio:.2} x | {} | {verdict} | {noise:.0} % |", target(row))
}

fn lines(row: &Row) -> String {
    let Row { what, against, ours, floor, ratio, noise, .. } = row;
    let (verdict, noise) = (if row.is_hit() { "hit" } else { "missed" }, noise * 100.0);
    let target = target(row);
    format!(
        "{what}\n    against {against}\n    {ours} / {floor} = {ratio:.2} x  {target}  {verdict}  noise {noise:.0} %"
    )
}

fn target(row: &Row) -> String {
    match row.target {
        Target::Times(most) => format!("at most {most} x"),
        Target::Throughput(least) => format!("at least {least} x"),
        _ => String::new(),
    }
}
