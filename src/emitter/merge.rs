//! Increments of the same skill become one event with a count. No folded value changes by it.

use std::borrow::Cow;

use hashbrown::HashMap;

use crate::error::Result;
use crate::event::{Counter, Event};

/// An event on its way through the channel: what is counted, which is nearly everything, in as few bytes as it needs. They
/// go from the cache of one core to that of another, which is most of what an event costs.
#[derive(Debug)]
pub(super) enum Queued {
    Count { counter: Counter, skill: Cow<'static, str>, count: u64 },
    Other(Box<Event<'static>>),
}

impl From<Event<'static>> for Queued {
    #[inline]
    fn from(event: Event<'static>) -> Queued {
        match event {
            Event::Used { skill, count } => Queued::Count { counter: Counter::Use, skill, count },
            Event::Viewed { skill, count } => Queued::Count { counter: Counter::View, skill, count },
            Event::Patched { skill, count } => Queued::Count { counter: Counter::Patch, skill, count },
            other => Queued::Other(Box::new(other)),
        }
    }
}

/// Events of one batch, merged as they come.
#[derive(Debug, Default)]
pub(super) struct Merged {
    events: Vec<Event<'static>>,
    /// Where the open increment of a skill stands in `events`, per counter. It is closed by any other event of the
    /// skill: what came before a `forgotten` must not be counted after it.
    open: HashMap<String, [Option<usize>; 3]>,
}

impl Merged {
    /// Adds an event. Says whether it was merged into one that was there.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid): the event is not allowed, and was not added.
    pub(super) fn push(&mut self, queued: Queued) -> Result<bool> {
        let (counter, skill, added) = match queued {
            Queued::Count { counter, skill, count } => (counter, skill, count),
            Queued::Other(event) => {
                event.validate()?;
                if let Some(skill) = event.skill() {
                    self.open.remove(skill);
                }
                self.events.push(*event);
                return Ok(false);
            }
        };
        Event::validate_count(&skill, added)?;
        let slot = self.open.entry_ref(&*skill).or_default().get_mut(counter as usize);
        let Some(slot) = slot else { return Ok(false) };
        if let Some(Event::Used { count, .. } | Event::Viewed { count, .. } | Event::Patched { count, .. }) =
            slot.and_then(|at| self.events.get_mut(at))
            && let Some(sum) = count.checked_add(added)
        {
            *count = sum;
            return Ok(true);
        }
        *slot = Some(self.events.len());
        self.events.push(Event::counted(counter, skill, added));
        Ok(false)
    }

    /// Takes the events out, in order.
    pub(super) fn take(&mut self) -> Vec<Event<'static>> {
        self.open.clear();
        std::mem::take(&mut self.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn increments_merge_per_skill_and_counter_and_nothing_passes_another_event() {
        let mut merged = Merged::default();
        let forget = || Event::Forgotten { skill: "a".into() };
        let events =
            [Event::used("a"), Event::used("b"), Event::used("a"), Event::viewed("a"), forget(), Event::used("a")];
        let merges: Vec<bool> = events.into_iter().map(|event| merged.push(event.into()).unwrap()).collect();
        assert_eq!(merges, [false, false, true, false, false, false]);
        let twice = Event::Used { skill: "a".into(), count: 2 };
        let expected = [twice, Event::used("b"), Event::viewed("a"), forget(), Event::used("a")];
        assert_eq!(merged.take(), expected);
        assert!(merged.take().is_empty());
    }

    #[test]
    fn a_count_that_would_overflow_is_not_merged() {
        let mut merged = Merged::default();
        merged.push(Event::Used { skill: "a".into(), count: u64::MAX }.into()).unwrap();
        assert!(!merged.push(Event::used("a").into()).unwrap());
        assert_eq!(merged.take().len(), 2);
    }

    #[test]
    fn what_is_not_allowed_is_refused_and_leaves_nothing() {
        let mut merged = Merged::default();
        for event in
            [Event::used(""), Event::Viewed { skill: "a".into(), count: 0 }, Event::Seeded { skill: "".into() }]
        {
            assert!(merged.push(event.into()).is_err());
        }
        assert!(merged.take().is_empty());
    }
}
