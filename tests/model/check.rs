//! How the tests run a configuration and what they demand of the outcome.

use crate::rules::{Batch, Config};
use crate::search::{Outcome, search};
use crate::state::reached;

fn run(name: &str, config: &Config) -> Outcome {
    let outcome = search(config);
    let seen: Vec<String> = reached::NAMES
        .iter()
        .zip(outcome.reached)
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    println!(
        "{name}: {} states, {} transitions, {:.1} s{}",
        outcome.states,
        outcome.transitions,
        outcome.seconds,
        if outcome.finished { "" } else { ", NOT finished" }
    );
    println!("    reached: {}", seen.join(", "));
    if let Some((what, trace)) = &outcome.violation {
        println!("    VIOLATION: {what}, after {} steps:", trace.len());
        trace.iter().for_each(|line| println!("        {line}"));
    }
    outcome
}

/// The whole space was searched, nothing is violated, and every situation in `situations` was there.
pub fn holds(name: &str, config: &Config, situations: &[u32]) {
    let outcome = run(name, config);
    assert!(outcome.violation.is_none(), "{name}: violation, see the trace above");
    assert!(outcome.finished, "{name}: the search did not finish");
    for &situation in situations {
        assert!(
            outcome.reached[situation as usize] > 0,
            "{name}: never reached: {}",
            reached::NAMES[situation as usize]
        );
    }
}

/// The search finds a violation that says `what`.
pub fn fails(name: &str, config: &Config, what: &str) {
    let outcome = run(name, config);
    let (found, _) = outcome.violation.unwrap_or_else(|| panic!("{name}: no violation found"));
    assert!(found.contains(what), "{name}: expected a violation about '{what}', found '{found}'");
}

/// Whether the runs that take minutes are wanted; says so when they are not.
pub fn long(name: &str) -> bool {
    let wanted = std::env::var("HERMES_LOG_LONG").is_ok_and(|v| v == "1");
    if !wanted {
        println!("{name}: left out, HERMES_LOG_LONG=1 runs it");
    }
    wanted
}

/// Writers, each with its batches.
pub fn writers(of: &[&[Batch]]) -> Vec<Vec<Batch>> {
    of.iter().map(|batches| batches.to_vec()).collect()
}
