//! The speed of hermes-log, every figure beside its floor in the same run.
//!
//! `cargo bench --bench speed [-- [--markdown] [SECTION...]]`: all sections, or these. `--markdown` writes
//! `benches/RESULTS.md`, which takes all of them. `HERMES_LOG_QUICK=1`: some seconds for everything.
#![allow(unreachable_pub)] // a program has no API

mod append;
mod auth;
mod children;
mod fold;
mod logs;
mod measure;
mod memory;
mod others;
mod report;

use measure::{Effort, Row};

type Section = (&'static str, fn(Effort) -> Vec<Row>);

const SECTIONS: [Section; 7] = [
    ("append", append::single),
    ("processes", |effort| vec![append::processes(effort)]),
    ("batch", append::batch),
    ("fold", |effort| [fold::whole(effort, 1), fold::whole(effort, 64)].concat()),
    ("view", |effort| {
        let mut rows = fold::nothing_new(effort);
        rows.extend([fold::tail(effort, false), fold::tail(effort, true)]);
        rows
    }),
    ("memory", memory::view),
    ("auth", |effort| vec![auth::at_start(effort)]),
];
const OTHERS: &str = "others";
const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/RESULTS.md");

fn main() {
    if children::is_child() {
        return;
    }
    let (options, wanted): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|a| a.starts_with("--"));
    let markdown = options.iter().any(|option| option == "--markdown");
    if let Some(unknown) = wanted.iter().find(|w| *w != OTHERS && SECTIONS.iter().all(|(name, _)| w != name)) {
        eprintln!("no section {unknown:?}; there are {} and {OTHERS}", SECTIONS.map(|(name, _)| name).join(", "));
        std::process::exit(2);
    }
    let is_wanted = |name: &str| markdown || wanted.is_empty() || wanted.iter().any(|w| w == name);
    let effort = if std::env::var_os("HERMES_LOG_QUICK").is_some() { Effort::Quick } else { Effort::Full };
    let mut rows = Vec::new();
    for (_, section) in SECTIONS.iter().filter(|(name, _)| is_wanted(name)) {
        let section = section(effort);
        section.iter().for_each(report::print);
        rows.extend(section);
    }
    let ways = if is_wanted(OTHERS) { others::ways(effort) } else { Vec::new() };
    ways.iter().for_each(report::print_way);
    if markdown && effort == Effort::Full {
        std::fs::write(RESULTS, report::markdown(&rows, &ways)).unwrap();
        println!("written to {RESULTS}");
    }
}
