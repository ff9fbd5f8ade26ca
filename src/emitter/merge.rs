//! Increments of the same skill become one event with a count. No folded value changes by it.

use hashbrown::HashMap;

use crate::event::{Counter, Event};

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
    pub(super) fn push(&mut self, event: Event<'static>) -> bool {
        let (counter, added) = match &event {
            Event::Used { count, .. } => (Counter::Use, *count),
            Event::Viewed { count, .. } => (Counter::View, *count),
            Event::Patched { count, .. } => (Counter::Patch, *count),
            other => {
                if let Some(skill) = other.skill() {
                    self.open.remove(skill);
                }
                self.events.push(event);
                return false;
            }
        };
        let Some(skill) = event.skill() else { return false };
        let slot = self.open.entry_ref(skill).or_default().get_mut(counter as usize);
        let Some(slot) = slot else { return false };
        if let Some(Event::Used { count, .. } | Event::Viewed { count, .. } | Event::Patched { count, .. }) =
            slot.and_then(|at| self.events.get_mut(at))
            && let Some(sum) = count.checked_add(added)
        {
            *count = sum;
            return true;
        }
        *slot = Some(self.events.len());
        self.events.push(event);
        false
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
        let merges: Vec<bool> = events.into_iter().map(|event| merged.push(event)).collect();
        assert_eq!(merges, [false, false, true, false, false, false]);
        let twice = Event::Used { skill: "a".into(), count: 2 };
        let expected = [twice, Event::used("b"), Event::viewed("a"), forget(), Event::used("a")];
        assert_eq!(merged.take(), expected);
        assert!(merged.take().is_empty());
    }

    #[test]
    fn a_count_that_would_overflow_is_not_merged() {
        let mut merged = Merged::default();
        merged.push(Event::Used { skill: "a".into(), count: u64::MAX });
        assert!(!merged.push(Event::used("a")));
        assert_eq!(merged.take().len(), 2);
    }
}
