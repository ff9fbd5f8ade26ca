//! What was acknowledged against what is counted. Pure, but for reading the view.

use std::collections::BTreeMap;

use crate::cli::exit::Failure;
use crate::event::Counter;
use crate::profile::Profile;
use crate::view::overlay::FoundFile;

/// Skills that the processes use.
pub(super) const SKILLS: u8 = 50;
const SKILL_PREFIX: &str = "demo-skill-";
const LEDGER_PREFIX: &str = "demo-process-";

pub(super) fn skill(number: u8) -> String {
    format!("{SKILL_PREFIX}{number:02}")
}

/// A name that no other process uses, in no other demo either.
pub(super) fn ledger(run: &str) -> String {
    format!("{LEDGER_PREFIX}{run}")
}

pub(super) fn is_of_demo(name: &str) -> bool {
    name.starts_with(SKILL_PREFIX) || name.starts_with(LEDGER_PREFIX)
}

/// Events that are counted, by skill and by ledger.
pub(super) struct Books(BTreeMap<String, u64>);

impl Books {
    /// As a view that reads everything anew counts.
    pub(super) fn of(profile: &Profile) -> Result<Books, Failure> {
        let view = profile.view()?;
        let uses = |skill: &crate::view::SkillView<'_>| skill.count(Counter::Use) + skill.count(Counter::View);
        Ok(Books(view.skills().iter().map(|(name, skill)| ((*name).to_owned(), uses(skill))).collect()))
    }

    /// As `.usage.json` says.
    pub(super) fn of_snapshot(profile: &Profile) -> Result<Books, Failure> {
        let records = FoundFile::read(&profile.snapshot_path())?.records;
        let total = |record: &crate::view::records::Record| {
            let fields = [Counter::Use, Counter::View].map(Counter::count_field);
            fields.iter().filter_map(|field| record.get(*field)?.as_u64()).sum()
        };
        Ok(Books(records.iter().map(|(name, record)| (name.clone(), total(record))).collect()))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    fn count(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

/// What one process said.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    pub(super) name: String,
    /// By skill.
    pub(super) acknowledged: BTreeMap<u8, u64>,
    /// Announced, and not acknowledged.
    pub(super) in_flight: Option<u8>,
    pub(super) was_killed: bool,
}

impl Run {
    pub(super) fn total(&self) -> u64 {
        self.acknowledged.values().sum()
    }
}

/// How the comparison went.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) acknowledged: u64,
    pub(super) counted: u64,
    pub(super) processes: usize,
    pub(super) kills: usize,
    pub(super) in_flight: usize,
    pub(super) in_flight_counted: u64,
    pub(super) differences: Vec<Difference>,
}

/// A name whose count is not the one that it must be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) name: String,
    pub(super) expected: u64,
    pub(super) counted: u64,
}

impl Verdict {
    /// Compares what the processes said with each of the `after` books, in which `before` is included.
    pub(super) fn reach(runs: Vec<Run>, before: &Books, after: &[Books]) -> Verdict {
        let mut verdict = Verdict { processes: runs.len(), ..Verdict::default() };
        let Some(folded) = after.first() else { return verdict };
        let mut expected: BTreeMap<String, u64> = before.0.clone();
        for run in &runs {
            let acknowledged = run.total();
            // Whether the append in doubt counts is what the ledger says; but it can say no more than that.
            let in_doubt = u64::from(run.in_flight.is_some() && run.was_killed);
            let ledger = ledger(&run.name);
            let counted = folded.count(&ledger).saturating_sub(acknowledged).min(in_doubt);
            verdict.acknowledged += acknowledged;
            verdict.kills += usize::from(run.was_killed);
            verdict.in_flight += usize::from(run.in_flight.is_some());
            verdict.in_flight_counted += counted;
            expected.insert(ledger, acknowledged + counted);
            let in_flight = run.in_flight.map(|number| (number, counted));
            for (number, count) in run.acknowledged.iter().map(|(n, count)| (*n, *count)).chain(in_flight) {
                *expected.entry(skill(number)).or_default() += count;
            }
        }
        expected.retain(|_, count| *count > 0);
        let skills = |books: &Books| -> u64 {
            books.0.iter().filter(|(name, _)| name.starts_with(SKILL_PREFIX)).map(|(_, count)| count).sum()
        };
        verdict.counted = skills(folded).saturating_sub(skills(before));
        for books in after {
            let names: std::collections::BTreeSet<&str> =
                expected.keys().map(String::as_str).chain(books.names()).collect();
            verdict.differences.extend(names.into_iter().filter_map(|name| {
                let (expected, counted) = (expected.get(name).copied().unwrap_or(0), books.count(name));
                (expected != counted).then(|| Difference { name: name.to_owned(), expected, counted })
            }));
        }
        verdict
    }

    pub(super) fn is_exact(&self) -> bool {
        self.differences.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn books(counts: &[(&str, u64)]) -> Books {
        Books(counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect())
    }

    fn killed() -> Run {
        Run { name: "a".into(), acknowledged: [(1, 5), (2, 3)].into(), in_flight: Some(2), was_killed: true }
    }

    #[test]
    fn an_event_in_flight_counts_where_the_ledger_says_so() {
        for (ledger, second) in [(8, 3), (9, 4)] {
            let after = books(&[("demo-process-a", ledger), ("demo-skill-01", 5), ("demo-skill-02", second)]);
            let verdict = Verdict::reach(vec![killed()], &books(&[]), &[after]);
            assert_eq!(verdict.differences, []);
            assert_eq!((verdict.acknowledged, verdict.in_flight_counted), (8, ledger - 8));
        }
    }

    #[test]
    fn one_event_too_few_or_too_many_is_a_difference() {
        for wrong in [
            [("demo-process-a", 7), ("demo-skill-01", 5), ("demo-skill-02", 3)],
            [("demo-process-a", 10), ("demo-skill-01", 5), ("demo-skill-02", 4)],
            [("demo-process-a", 9), ("demo-skill-01", 5), ("demo-skill-02", 3)],
            [("demo-process-a", 8), ("demo-skill-01", 4), ("demo-skill-02", 4)],
            [("demo-process-a", 8), ("demo-skill-03", 5), ("demo-skill-02", 3)],
        ] {
            assert!(!Verdict::reach(vec![killed()], &books(&[]), &[books(&wrong)]).is_exact(), "{wrong:?}");
        }
    }

    #[test]
    fn what_was_counted_before_is_left_out() {
        let before = books(&[("demo-skill-01", 100)]);
        let after = books(&[("demo-process-a", 8), ("demo-skill-01", 105), ("demo-skill-02", 3)]);
        let verdict = Verdict::reach(vec![killed()], &before, &[after]);
        assert!(verdict.is_exact());
        assert_eq!(verdict.counted, 8);
    }
}
