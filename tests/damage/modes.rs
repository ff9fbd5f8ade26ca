//! Files that others can read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hermes_log::{Durability, Error, Event};

use crate::oracle::CAPACITY;
use crate::support::log_files::{Home, uses};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn reader_refuses_what_others_can_read_and_a_writer_tightens_it() {
    let home = Home::new(CAPACITY);
    home.used("first");
    for (path, exposed, tight) in [
        (home.segment_path(1), 0o644, 0o600),
        (home.segment_path(1), 0o620, 0o600),
        (home.profile.log_folder(), 0o755, 0o700),
        (home.profile.log_folder(), 0o710, 0o700),
    ] {
        set_mode(&path, exposed);
        for refused in [home.profile.view().map(drop), home.profile.verify(|_| {}).map(drop)] {
            match refused {
                Err(Error::Exposed { path: named, mode }) => assert_eq!((named, mode), (path.clone(), exposed)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(mode(&path), exposed, "readers change nothing");
        home.writer().append(&Event::used("first"), Durability::Process).unwrap();
        assert_eq!(mode(&path), tight);
        home.view();
    }
    assert_eq!(uses(&home.view())["first"], 5);
}

#[test]
fn view_that_is_open_refuses_a_next_segment_that_others_can_read() {
    let home = Home::new(CAPACITY);
    home.used("first");
    let mut view = home.view();
    home.seal(1);
    home.used("second");
    set_mode(&home.segment_path(2), 0o604);
    assert!(matches!(view.refresh(), Err(Error::Exposed { .. })));
    assert_eq!(uses(&view).len(), 1);
    set_mode(&home.segment_path(2), 0o600);
    view.refresh().unwrap();
    assert_eq!(uses(&view).len(), 2);
}

#[test]
fn checkpoint_that_others_can_read_is_refused_until_a_compaction_tightens_it() {
    let home = Home::new(CAPACITY);
    home.used("first");
    home.compact();
    let path = home.checkpoint_path(1);
    for exposed in [0o644, 0o660] {
        set_mode(&path, exposed);
        match home.profile.view() {
            Err(Error::Exposed { path: named, mode }) => assert_eq!((named, mode), (path.clone(), exposed)),
            other => panic!("{other:?}"),
        }
        assert_eq!(mode(&path), exposed, "readers change nothing");
        home.compact();
        assert_eq!(mode(&path), 0o600);
    }
    assert_eq!(uses(&home.view())["first"], 1);
}
