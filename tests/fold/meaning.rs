//! What single events mean, where it is not plain.

use hermes_log::{Counter, Durability, Error, Event, Origin, Policy, Position, State};

use crate::names;
use crate::support::log_files::{Home, payload, uses};
use crate::support::processes::records;

const CAPACITY: u32 = 256 << 10;
const TIME: u64 = 1_700_000_000_000_000;

fn append_at(home: &Home, time: u64, event: Event<'_>) {
    let frame = home.frame(1, &payload(time, &Origin::here("session"), &[event]));
    home.append_bytes(1, &frame);
}

fn begun() -> Home {
    let home = Home::new(CAPACITY);
    home.used("first");
    home
}

#[test]
fn names_are_exact() {
    let home = Home::new(CAPACITY);
    let mut writer = home.writer();
    for (n, name) in (1..).zip(names()) {
        writer.append(&Event::Used { skill: name.into(), count: n }, Durability::Process).unwrap();
    }
    for _ in 0..3 {
        let counted = uses(&home.view());
        assert_eq!(counted.len(), names().len());
        for (n, name) in (1..).zip(names()) {
            assert_eq!(counted[&name], n, "{name:?}");
        }
        home.compact();
    }
}

#[test]
fn reviews_count_as_the_policy_says_and_the_log_is_the_same_for_both() {
    let home = Home::new(CAPACITY);
    let mut review = home.profile.writer(Origin::here("review")).unwrap();
    home.used("pdf");
    for _ in 0..3 {
        review.append(&Event::used("pdf"), Durability::Process).unwrap();
    }
    review.append(&Event::viewed("pdf"), Durability::Process).unwrap();
    for _ in 0..2 {
        for (reviews_are_views, counts) in [(false, [4, 1, 0]), (true, [1, 4, 0]), (false, [4, 1, 0])] {
            let view = home.profile.clone().with_policy(Policy { reviews_are_views }).view().unwrap();
            let skill = view.skill("pdf").unwrap();
            assert_eq!(Counter::ALL.map(|counter| skill.count(counter)), counts);
            assert_eq!(skill.activity(), 5);
        }
        home.compact();
    }
}

#[test]
fn times_of_the_last_never_go_back() {
    let home = begun();
    let last = |home: &Home| home.view().skill("pdf").unwrap().last_micros(Counter::Use).unwrap();
    append_at(&home, TIME, Event::used("pdf"));
    append_at(&home, TIME - 5_000_000, Event::used("pdf"));
    append_at(&home, 0, Event::used("pdf"));
    assert_eq!((last(&home), uses(&home.view())["pdf"]), (TIME as i64, 3));
    append_at(&home, TIME + 1, Event::used("pdf"));
    home.compact();
    assert_eq!(last(&home), TIME as i64 + 1);
}

#[test]
fn counters_saturate() {
    let home = begun();
    for _ in 0..3 {
        append_at(&home, TIME, Event::Used { skill: "pdf".into(), count: u64::MAX - 1 });
    }
    for _ in 0..2 {
        assert_eq!(uses(&home.view())["pdf"], u64::MAX);
        home.compact();
    }
}

#[test]
fn end_of_an_incarnation_starts_the_name_from_zero() {
    let archived = || Event::State { skill: "pdf".into(), state: State::Archived };
    let created = || Event::Created { skill: "pdf".into(), by: "agent".into() };
    for ends in [
        vec![Event::Forgotten { skill: "pdf".into() }],
        vec![Event::Deleted { skill: "pdf".into() }],
        vec![archived(), created()],
        vec![Event::Archived { skill: "pdf".into() }, created()],
    ] {
        let home = begun();
        append_at(&home, TIME, Event::Used { skill: "pdf".into(), count: 7 });
        append_at(&home, TIME, Event::Pinned { skill: "pdf".into(), pinned: true });
        home.compact();
        let mut writer = home.writer();
        for event in &ends {
            writer.append(event, Durability::Process).unwrap();
        }
        writer.append(&Event::used("pdf"), Durability::Process).unwrap();
        for _ in 0..3 {
            let view = home.view();
            let skill = view.skill("pdf").unwrap();
            assert_eq!(
                (skill.count(Counter::Use), skill.is_pinned(), skill.state()),
                (1, false, State::Active),
                "{ends:?}"
            );
            assert!(skill.created_micros().unwrap() > TIME as i64, "{ends:?}");
            home.compact();
        }
    }
}

#[test]
fn created_again_without_being_archived_is_the_same_incarnation() {
    let home = begun();
    append_at(&home, TIME, Event::Used { skill: "pdf".into(), count: 7 });
    append_at(&home, TIME + 9, Event::Created { skill: "pdf".into(), by: "agent".into() });
    let view = home.view();
    let skill = view.skill("pdf").unwrap();
    assert_eq!((skill.count(Counter::Use), skill.created_micros()), (7, Some(TIME as i64)));
    assert_eq!(skill.created_by(), Some(Some("agent")));
}

#[test]
fn batch_counts_as_one_frame_at_one_position() {
    let home = Home::new(CAPACITY);
    let batch = [Event::used("a"), Event::used("b"), Event::used("a")];
    let position = home.writer().append_batch(&batch, Durability::Process).unwrap();
    let view = home.view();
    assert_eq!(position, Position { segment: 1, offset: 64 });
    assert_eq!((view.frames(), view.events()), (1, 3));
    assert_eq!(uses(&view).into_iter().collect::<Vec<_>>(), [("a".into(), 2), ("b".into(), 1)]);
}

/// What the file could not say would be another value after a compaction.
#[test]
fn known_field_of_a_wrong_type_is_refused_or_stays_what_it_was_over_a_compaction() {
    for (field, value) in [
        ("state", "null"),
        ("state", "7"),
        ("pinned", "\"false\""),
        ("pinned", "1"),
        ("created_at", "\"yesterday\""),
        ("archived_at", "true"),
    ] {
        let set = Event::Fields { skill: "pdf".into(), set: format!("{{\"{field}\": {value}}}").into(), unset: vec![] };
        let (written, by_hand) = (begun(), begun());
        let appended = written.writer().append(&set, Durability::Process);
        assert!(matches!(appended, Ok(_) | Err(Error::Invalid { .. })), "{appended:?}");
        append_at(&by_hand, TIME, set); // by a program that does not check
        for home in [written, by_hand] {
            let shown = records(&home.view());
            let done = home.compact();
            assert_eq!(records(&home.view()), shown, "{field}: {value}");
            home.compact();
            assert_eq!(records(&home.view()), shown, "{field}: {value}");
            assert!(done.set_aside.is_empty() && home.profile.verify(|_| {}).unwrap().is_sound(), "{field}: {value}");
        }
    }
}
