//! `.usage.json`: Hermes's own file, on which others work too. No value changes by a compaction, nothing unreadable is
//! taken for empty or written over, nothing of others is lost.

#[path = "../support/mod.rs"]
mod support;

mod external;
mod format;
mod place;
mod stock;
mod unreadable;
mod wrong;

use std::collections::BTreeMap;

use hermes_log::view::records::Record;
use support::log_files::Home;
use support::processes::records;

const CAPACITY: u32 = 64 << 10;

/// Every record that a view shows.
fn shown(home: &Home) -> BTreeMap<String, Record> {
    records(&home.view())
}

fn use_count(home: &Home, skill: &str) -> u64 {
    home.view().skill(skill).map_or(0, |skill| skill.count(hermes_log::Counter::Use))
}
