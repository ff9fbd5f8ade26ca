//! What must hold after every step.

use crate::fold::{Fold, external_sum, fresh};
use crate::rules::Config;
use crate::snapshot::view;
use crate::state::{EXTERNAL_0, NONE, State, reached};

/// `truth` is what a fresh reader found before the step that led to `after`.
pub fn violation(config: &Config, before: &State, truth: &Fold, after: &State) -> Option<&'static str> {
    if after.broken.is_some() {
        return after.broken;
    }
    let now = fresh(config, after);
    let mut seen = 0u16;
    for event in now.iter() {
        if seen >> event & 1 == 1 {
            return Some("an event is counted twice");
        }
        seen |= 1 << event;
    }
    let fault = |what: u32| after.reached >> what & 1 == 1;
    // P1, P2, P6: what a fresh reader finds only ever grows at its end, gaps included.
    let lost = after.damaged_event;
    if fault(reached::DAMAGED) && lost != before.damaged_event {
        // P5: the damage takes the frame whose bytes it covers, or nothing if a checkpoint has it.
        if now.events != truth.events && now.without(lost).events != truth.without(lost).events {
            return Some("damage to one frame changes another");
        }
    } else if !fault(reached::LOSS) && !fault(reached::EVICTED) {
        let grows =
            if lost == NONE { truth.is_prefix_of(&now) } else { truth.without(lost).is_prefix_of(&now.without(lost)) };
        if !grows {
            return Some("what was in the log changed");
        }
    }
    if fault(reached::EVICTED) && u16::from(after.durable) & !now.mask() != 0 {
        return Some("an event acknowledged at level Disk is gone from the disk");
    }
    if lost == NONE && !config.eviction {
        for checkpoint in &after.checkpoints {
            if checkpoint.here && !checkpoint.damaged && !checkpoint.fold.is_prefix_of(&now) {
                return Some("a checkpoint is no prefix of the log");
            }
        }
    }
    if config.snapshot {
        return wrong_value(config, after, &now);
    }
    None
}

/// A fresh view shows every usage event of the log once and every increment of a stock process once.
fn wrong_value(config: &Config, after: &State, now: &Fold) -> Option<&'static str> {
    let value = view(config, after, now, after.usage.file, after.usage.temps);
    let right = now.usage_count() + after.stock_done;
    // A damaged frame costs what it held: nothing else, and nothing is counted twice for it.
    let cost = match after.damaged_event {
        e if e != NONE && e >= EXTERNAL_0 && !now.contains(e) && !config.rules.external_carries_total => {
            let mut only = Fold::default();
            only.push(e);
            external_sum(config, &only, &after.externals)
        }
        _ => 0,
    };
    if value > right {
        Some("a fresh view counts something twice")
    } else if value + cost < right {
        Some("a fresh view has lost something")
    } else {
        None
    }
}
