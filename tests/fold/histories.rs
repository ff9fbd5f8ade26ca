//! Random histories of all kinds of events, by several writers, in segments of several sizes.

use std::cell::Cell;
use std::fs;

use hermes_log::{Durability, Error, Event, Origin, Policy, Position, Profile, State, View, Writer};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::model::Model;
use crate::names;
use crate::support::log_files::{Home, payload};
use crate::support::processes::{Random, at_once, is_long, records};

const WRITERS: usize = 3;
const POLICIES: [Policy; 2] = [Policy { reviews_are_views: false }, Policy { reviews_are_views: true }];

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// A batch by one of the writers, with the time of the clock.
    Append(usize, Vec<Event<'static>>),
    /// A batch of a process whose clock is off.
    AppendAt(u64, Vec<Event<'static>>),
    Refresh,
    Compact,
}

fn event() -> impl Strategy<Value = Event<'static>> {
    let name = prop::sample::select(names());
    let fields = [
        ("x", "null"),
        ("x", "1.50"),
        ("note", r#"[{"a": {}}, "\u2028"]"#),
        ("é", "true"),
        ("created_by", "null"),
        ("created_by", "\"agent\""),
        ("state", "\"archived\""),
        ("state", "\"of a fork\""),
        ("pinned", "true"),
        ("created_at", "\"2026-01-02T03:04:05+00:00\""),
        ("archived_at", "null"),
    ];
    let field = || prop::sample::select(fields.to_vec());
    let count = prop_oneof![8 => 1..5_u64, 1 => Just(u64::MAX - 1)];
    let state = prop::sample::select(vec![State::Active, State::Stale, State::Archived]);
    let arguments = (name, count, state, any::<bool>(), field(), field());
    (0..17_usize, arguments).prop_map(|(kind, (name, count, state, pinned, (set, value), (unset, _)))| {
        let skill = name.into();
        match kind {
            0..=2 => Event::Used { skill, count },
            3 => Event::Viewed { skill, count },
            4 => Event::Patched { skill, count },
            5 => Event::Created { skill, by: "agent".into() },
            6 => Event::Seeded { skill },
            7 => Event::State { skill, state },
            8 => Event::Pinned { skill, pinned },
            9 => Event::Fields { skill, set: format!("{{\"{set}\": {value}}}").into(), unset: vec![unset.into()] },
            10 => Event::Forgotten { skill },
            11 => Event::Deleted { skill },
            12 => Event::Archived { skill },
            13 => Event::Restored { skill },
            14 => Event::FileWritten { skill, path: "a/b".into() },
            15 => Event::Installed { skill, source: "hub".into() },
            _ => Event::Edited { skill },
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let events = || prop::collection::vec(event(), 1..5);
    prop_oneof![
        8 => (0..WRITERS, events()).prop_map(|(writer, events)| Step::Append(writer, events)),
        4 => (0..4_000_000_000_000_000_u64, events()).prop_map(|(time, events)| Step::AppendAt(time, events)),
        3 => Just(Step::Refresh),
        1 => Just(Step::Compact),
    ]
}

fn history() -> impl Strategy<Value = (u32, Vec<Step>)> {
    (prop::sample::select(vec![4 << 10, 5000, 32 << 10, 4 << 20]), prop::collection::vec(step(), 1..60))
}

/// A log and what it must come to.
struct Run {
    home: Home,
    profiles: [Profile; 2],
    open: [View; 2],
    writers: Vec<Writer>,
    model: Model,
    /// Void frames that stood in the log before a compaction.
    voids: u64,
}

impl Run {
    fn new(capacity: u32) -> Run {
        let home = Home::new(capacity);
        let kinds = ["session", "review", "gateway"];
        let writers = kinds.map(|kind| home.profile.writer(Origin::here(kind)).unwrap()).into_iter().collect();
        let profiles = POLICIES.map(|policy| home.profile.clone().with_policy(policy));
        let open = [0, 1].map(|policy: usize| profiles[policy].view().unwrap());
        Run { home, profiles, open, writers, model: Model::default(), voids: 0 }
    }

    fn take(&mut self, step: &Step, capacity: u32) -> Result<(), TestCaseError> {
        match step {
            Step::Append(writer, events) => {
                let is_review = *writer == 1;
                match self.writers[*writer].append_batch(events, Durability::Process) {
                    Ok(position) => {
                        let time = self.time_of(position);
                        events.iter().for_each(|event| self.model.apply(time, is_review, event));
                    }
                    // Too large for the segment: then nothing was appended.
                    Err(Error::Invalid { .. }) => {
                        let kind = if is_review { "review" } else { "session" };
                        let len = payload(u64::MAX, &Origin::here(kind), events).len();
                        prop_assert!(len + 10 > capacity as usize / 4, "{} bytes refused", len);
                    }
                    Err(other) => return Err(TestCaseError::fail(other.to_string())),
                }
            }
            Step::AppendAt(time, events) => {
                let segment = self.home.segments().last().copied().unwrap_or(0);
                let bytes = payload(*time, &Origin::here("cli"), events);
                let room = if segment == 0 { 0 } else { u64::from(capacity).saturating_sub(self.home.len(segment)) };
                if bytes.len() <= capacity as usize / 4 && bytes.len() as u64 + 11 <= room {
                    self.home.append_bytes(segment, &self.home.frame(segment, &bytes));
                    let time = i64::try_from(*time).unwrap();
                    events.iter().for_each(|event| self.model.apply(time, false, event));
                }
            }
            Step::Refresh => self.check_open("incremental")?,
            Step::Compact => {
                self.voids += self.home.profile.verify(|_| {}).unwrap().voids;
                self.home.profile.compact(&at_once()).unwrap();
                self.check_cold("after a compaction")?;
            }
        }
        Ok(())
    }

    /// As it stands in the frame.
    fn time_of(&self, position: Position) -> i64 {
        let segment = fs::read(self.home.segment_path(position.segment)).unwrap();
        let at = usize::try_from(position.offset).unwrap() + 12;
        i64::from_be_bytes(segment[at..at + 8].try_into().unwrap())
    }

    fn check_open(&mut self, how: &str) -> Result<(), TestCaseError> {
        for (view, policy) in self.open.iter_mut().zip(POLICIES) {
            view.refresh().unwrap();
            check(view, &self.model, policy, how)?;
        }
        Ok(())
    }

    fn check_cold(&self, how: &str) -> Result<(), TestCaseError> {
        for (profile, policy) in self.profiles.iter().zip(POLICIES) {
            check(&profile.view().unwrap(), &self.model, policy, how)?;
        }
        Ok(())
    }
}

fn check(view: &View, model: &Model, policy: Policy, how: &str) -> Result<(), TestCaseError> {
    prop_assert_eq!(model.records(policy), records(view), "{}", how);
    prop_assert!(!view.has_gaps(), "{}: {:?}", how, view.gaps_met());
    Ok(())
}

#[test]
fn cold_and_incremental_folds_and_folds_after_compactions_are_what_a_simple_model_says() {
    let cases = if is_long() { 3000 } else { 150 };
    let mut random = Random::new();
    let seed: Vec<u8> = (0..4).flat_map(|_| random.next().to_le_bytes()).collect();
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let voids = Cell::new(0);
    let outcome = runner.run(&history(), |(capacity, steps)| {
        let mut run = Run::new(capacity);
        for step in &steps {
            run.take(step, capacity)?;
        }
        run.check_cold("cold")?;
        run.check_open("incremental")?;
        for _ in 0..2 {
            run.home.profile.compact(&at_once()).unwrap();
            run.check_cold("after the last compactions")?;
            run.check_open("incremental over the last compactions")?;
        }
        let verified = run.home.profile.verify(|_| {}).unwrap();
        prop_assert!(verified.is_sound(), "{:?}", verified);
        voids.set(voids.get() + run.voids);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(voids.get() > 0, "no history went over the end of a segment");
}
