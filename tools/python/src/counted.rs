//! What a mutator counted, told from Python's own objects: [`difference`](crate::difference) for the change that nearly
//! every one is, in a fraction of the time.

use hermes_log::view::records::parse_time;
use hermes_log::{Counter, Event};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString};

use crate::difference::is_close;

/// What was done with one counter.
#[derive(Clone, Copy, Default, PartialEq)]
struct Step {
    gained: u64,
    is_timed: bool,
}

/// The events of a change in which counts went up, each together with its time, which is now. `None`: something else is
/// another object as well, or nothing is.
pub(crate) fn counted<'a>(
    skill: &'a str,
    before: &Bound<'_, PyDict>,
    after: &Bound<'_, PyDict>,
    now_micros: i64,
) -> Option<Vec<Event<'a>>> {
    let mut steps = [Step::default(); Counter::ALL.len()];
    // A copy has its fields in the same order, and setting one does not change that.
    for ((field, new), (same_field, old)) in after.iter().zip(before.iter()) {
        if !field.is(&same_field) {
            return None;
        }
        if !new.is(&old) {
            let field = field.cast_exact::<PyString>().ok()?.to_str().ok()?;
            let is_of = |counter: &Counter| field == counter.count_field() || field == counter.last_field();
            let (counter, step) = Counter::ALL.iter().zip(&mut steps).find(|(counter, _)| is_of(counter))?;
            if field == counter.count_field() {
                step.gained = whole(&new)?.checked_sub(whole(&old)?).filter(|gained| *gained > 0)?;
            } else {
                let time = new.cast_exact::<PyString>().ok()?.to_str().ok().and_then(parse_time)?;
                step.is_timed = is_close(time, now_micros);
            }
        }
    }
    let mut events = Vec::new();
    for (counter, Step { gained, is_timed }) in Counter::ALL.into_iter().zip(steps) {
        if (gained > 0) != is_timed {
            return None;
        }
        if gained > 0 {
            events.push(Event::counted(counter, skill, gained));
        }
    }
    (!events.is_empty()).then_some(events)
}

fn whole(count: &Bound<'_, PyAny>) -> Option<u64> {
    count.cast_exact::<PyInt>().ok()?.extract().ok()
}
