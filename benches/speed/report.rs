//! The table, for the terminal and for `benches/RESULTS.md`.

use std::fmt::Write as _;
use std::process::Command;

use crate::logs::place;
use crate::measure::{Row, Target};
use crate::others::Way;

/// Where these figures come from.
fn machine() -> String {
    let of = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default()
    };
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let place = place();
    let file_system = of("df", &["--output=fstype", &place.to_string_lossy()]);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').take(3).collect::<Vec<_>>().join(" ");
    format!(
        "{}, {cores} cores, Linux {}, {}; {}; load average {load} when it ended",
        model.unwrap_or("unknown processor"),
        of("uname", &["-r"]),
        file_system.lines().last().unwrap_or("unknown file system"),
        of("date", &["-u", "+%Y-%m-%d"]),
    )
}

fn verdict(row: &Row) -> &'static str {
    if row.is_hit() { "hit" } else { "**missed**" }
}

fn target(row: &Row) -> String {
    match row.target {
        Target::Times(most) => format!("at most {most} x"),
        Target::Throughput(least) => format!("at least {least} x"),
        Target::PerSecond(least) => format!("at least {} M/s", least / 1e6),
        Target::Equal => "equal".into(),
    }
}

fn ratio(row: &Row) -> String {
    match row.target {
        Target::PerSecond(_) => String::new(),
        Target::Equal => format!("{:.3} x", row.ratio),
        _ => format!("{:.2} x", row.ratio),
    }
}

fn noise(row: &Row) -> String {
    if row.noise > 0.0 { format!("{:.0} %", row.noise * 100.0) } else { String::new() }
}

/// One row, as it comes.
pub fn print(row: &Row) {
    let (ratio, target, verdict) = (ratio(row), target(row), verdict(row).replace('*', ""));
    println!("{}\n    against {}", row.what, row.against);
    println!("    {} / {} = {ratio}  target {target}  {verdict}  noise {}", row.ours, row.floor, noise(row));
}

pub fn print_way(way: &Way) {
    println!("{}\n    {:.0}/s alone, {:.0}/s with eight processes", way.name, way.alone, way.together);
}

/// The whole file.
pub fn markdown(rows: &[Row], ways: &[Way]) -> String {
    let mut text = String::from(HEAD);
    let _ = writeln!(text, "Machine: {}.\n", machine());
    text += "| what | measured | floor | ratio | target | | noise |\n|---|---|---|---|---|---|---|\n";
    for row in rows {
        let (ratio, target, verdict, noise) = (ratio(row), target(row), verdict(row), noise(row));
        let Row { what, against, ours, floor, .. } = row;
        let _ = writeln!(text, "| {what} | {ours} | {floor}: {against} | {ratio} | {target} | {verdict} | {noise} |");
    }
    text += WAYS;
    for Way { name, alone, together } in ways {
        let _ = writeln!(text, "| {name} | {alone:.0} | {together:.0} |");
    }
    text
}

const HEAD: &str = "\
# Results

Written by `cargo bench --bench speed -- --markdown`. Each figure is the median of many small rounds that took turns with
the rounds of its floor in the same run. *Noise* is the distance of the quartiles of the floor's rounds over their
median: where it is more than a few percent the machine was busy with other things, and the ratio is worth more than the
figures. A target that was missed is reported as missed.

";

const WAYS: &str = "
## Instead of it

Counts a second, each acknowledged before the next, all of them checked afterwards. The first two are not synced to the
disk, the last is, as Hermes does.

| way | one process | eight processes |
|---|---|---|
";
