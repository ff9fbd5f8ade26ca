//! Views as values: clones, positions, waiting.

use std::time::Duration;

use hermes_log::{Durability, Error, Event, Position, Profile};

use crate::support::log_files::{Home, uses};

const CAPACITY: u32 = 4096;

#[test]
fn clones_are_independent() {
    let home = Home::new(CAPACITY);
    home.used("pdf");
    let mut first = home.view();
    let mut second = first.clone();
    home.used("pdf");
    first.refresh().unwrap();
    assert_eq!((uses(&first)["pdf"], uses(&second)["pdf"]), (2, 1));
    let third = second.clone();
    for _ in 0..200 {
        home.used("pdf"); // over several segments
    }
    home.compact();
    second.refresh().unwrap();
    assert_eq!((uses(&first)["pdf"], uses(&second)["pdf"], uses(&third)["pdf"]), (2, 202, 1));
    let moved = std::thread::spawn(move || uses(&third)["pdf"]);
    assert_eq!(moved.join().unwrap(), 1);
}

#[test]
fn view_sees_every_event_behind_whose_position_it_is() {
    let home = Home::new(CAPACITY);
    let (mut writer, mut view) = (home.writer(), home.view());
    for count in 1..300 {
        let position = writer.append(&Event::used("pdf"), Durability::Process).unwrap();
        assert!(view.position() <= position);
        view.refresh().unwrap();
        assert!(view.position() > position);
        assert_eq!(uses(&view)["pdf"], count);
    }
    assert!(view.position().segment > 3);
}

#[test]
fn view_waits_for_an_event_of_another_thread() {
    let home = Home::new(CAPACITY);
    let first = home.used("pdf");
    let mut view = home.view();
    view.wait_for(first, Duration::ZERO).unwrap();
    let next = view.position();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            view.wait_for(next, Duration::from_secs(60)).unwrap();
            uses(&view)["pdf"]
        });
        assert_eq!(home.used("pdf"), next);
        assert_eq!(waiter.join().unwrap(), 2);
    });
}

#[test]
fn wait_for_an_event_that_does_not_come_has_a_limit() {
    let home = Home::new(CAPACITY);
    home.used("pdf");
    let mut view = home.view();
    let never = Position { segment: 99, offset: 64 };
    match view.wait_for(never, Duration::from_millis(20)) {
        Err(Error::NotReached { position, waited }) => {
            assert_eq!(position, never);
            assert!(waited >= Duration::from_millis(20));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(uses(&view)["pdf"], 1, "it was refreshed all the same");
}

#[test]
fn wait_goes_on_over_a_compaction() {
    let home = Home::new(CAPACITY);
    let mut view = home.view();
    let position = home.used("pdf");
    for _ in 0..3 {
        home.compact();
        home.used("pdf");
    }
    assert!(!home.segments().contains(&position.segment));
    view.wait_for(position, Duration::ZERO).unwrap();
    assert_eq!(uses(&view)["pdf"], 4);
}

#[test]
fn profile_without_a_log_or_a_home_is_an_empty_view_and_nothing_is_made() {
    let home = Home::new(CAPACITY);
    for path in [home.path().to_owned(), home.path().join("not there")] {
        let profile = Profile::at(&path);
        let mut view = profile.view().unwrap();
        view.refresh().unwrap();
        assert!(view.skills().is_empty());
        assert!(profile.verify(|_| {}).unwrap().is_sound());
    }
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);

    let mut view = home.view();
    home.used("pdf");
    view.refresh().unwrap();
    assert_eq!(uses(&view)["pdf"], 1, "a view from before the log");
}
