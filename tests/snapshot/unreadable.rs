//! Unreadable is not empty, and not corrupt: nothing is written on the strength of it.

use std::fs;
use std::os::unix::fs::symlink;

use hermes_log::compact::Snapshot;
use hermes_log::{Durability, Error, Event};

use crate::support::log_files::Home;
use crate::support::processes::{at_once, used};
use crate::support::usage_file::{self, Other, argument, ready};
use crate::{CAPACITY, use_count};

const RECORDS: &[u8] = br#"{"pdf": {"use_count": 5}, "txt": {"use_count": 7}}"#;

fn begun() -> Home {
    let home = Home::new(CAPACITY);
    usage_file::write(&home, RECORDS);
    home.compact();
    home.used("pdf");
    home
}

/// The log goes on without the file, and all is right when it can be read again.
fn check_unreadable(make: impl Fn(&Home), undo: impl Fn(&Home)) {
    let home = begun();
    let mut open = home.view();
    let kept = usage_file::bytes(&home);
    make(&home);
    assert!(matches!(home.profile.view(), Err(Error::Io { .. })));
    assert!(matches!(open.refresh(), Err(Error::Io { .. })));
    assert_eq!(open.skill("pdf").unwrap().activity(), 6, "an open view stays as it was");
    home.used("pdf");
    let done = home.compact();
    assert!(matches!(done.snapshot, Snapshot::Failed(Error::Io { .. })), "{done:?}");
    assert_eq!((done.events, done.floor), (2, 2), "the log's part was done");
    undo(&home);
    assert_eq!(usage_file::bytes(&home), kept, "nothing was written");
    assert_eq!((use_count(&home, "pdf"), use_count(&home, "txt")), (7, 7));
    assert!(matches!(home.compact().snapshot, Snapshot::Written { external: 0 }));
    assert_eq!(usage_file::json(&home)["pdf"]["use_count"], 7);
    open.refresh().unwrap();
    assert_eq!(open.skill("pdf").unwrap().activity(), 7);
}

#[test]
fn folder_in_the_place_of_the_file() {
    let aside = |home: &Home| home.path().join("aside");
    check_unreadable(
        |home| {
            fs::rename(home.profile.snapshot_path(), aside(home)).unwrap();
            fs::create_dir(home.profile.snapshot_path()).unwrap();
        },
        |home| {
            fs::remove_dir(home.profile.snapshot_path()).unwrap();
            fs::rename(aside(home), home.profile.snapshot_path()).unwrap();
        },
    );
}

#[test]
fn symlink_that_leads_to_itself() {
    let aside = |home: &Home| home.path().join("aside");
    check_unreadable(
        |home| {
            fs::rename(home.profile.snapshot_path(), aside(home)).unwrap();
            symlink(".usage.json", home.profile.snapshot_path()).unwrap();
        },
        |home| {
            fs::remove_file(home.profile.snapshot_path()).unwrap();
            fs::rename(aside(home), home.profile.snapshot_path()).unwrap();
        },
    );
}

/// Out of descriptors on read, room again on write: the file must never be taken for empty in between.
#[test]
fn out_of_file_descriptors() {
    let home = begun();
    usage_file::bump(&home, "txt", 2);
    Other::start("unreadable::works_with_ever_more_descriptors", home.path()).finish();
    assert_eq!((use_count(&home, "pdf"), use_count(&home, "txt")), (6, 11));
    assert_eq!(usage_file::json(&home)["txt"]["use_count"], 11);
}

#[test]
#[ignore = "the other process of out_of_file_descriptors"]
fn works_with_ever_more_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Some(path) = argument() else { return };
    let profile = hermes_log::Profile::at(path);
    let mut open = profile.view().unwrap();
    let text = fs::read_to_string(profile.snapshot_path()).unwrap();
    fs::write(profile.snapshot_path(), text.replace("\"use_count\": 9", "\"use_count\": 11")).unwrap();
    let limit = Rlimit { current: Some(64), maximum: getrlimit(Resource::Nofile).maximum };
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut hoard: Vec<fs::File> = std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect();
    assert!(hoard.len() > 30);
    let out_of_descriptors = |error: Error| match error {
        Error::Io { source, .. } => assert_eq!(source.raw_os_error(), Some(libc::EMFILE)),
        other => panic!("{other:?}"),
    };
    let (mut refreshes_failed, mut views_failed, mut compactions_failed) = (0, 0, 0);
    loop {
        match open.refresh() {
            Ok(()) => assert_eq!(used(&open, "txt"), 11),
            Err(error) => {
                out_of_descriptors(error);
                assert_eq!(used(&open, "txt"), 9, "an open view stays as it was");
                refreshes_failed += 1;
            }
        }
        match profile.view() {
            Ok(view) => assert_eq!((used(&view, "pdf"), used(&view, "txt")), (6, 11)),
            Err(error) => {
                out_of_descriptors(error);
                views_failed += 1;
            }
        }
        match profile.compact(&at_once()).map(|done| done.snapshot) {
            // (A run before may have appended the work of others and failed behind that.)
            Ok(Snapshot::Written { .. }) => break,
            Ok(Snapshot::Failed(error)) | Err(error) => out_of_descriptors(error),
            Ok(other) => panic!("{other:?}"),
        }
        compactions_failed += 1;
        drop(hoard.pop().expect("it never works"));
    }
    assert!(refreshes_failed >= 1 && views_failed >= 2 && compactions_failed >= 2, "there was no shortage");
    ready();
}

#[test]
fn lock_of_the_file_held_by_another_process_leaves_it_to_the_next_run() {
    let home = begun();
    let holder = Other::start("unreadable::holds_a_lock", &home.path().join("skills/.usage.json.lock"));
    let kept = usage_file::bytes(&home);
    for round in 1..=3 {
        // Hermes would wait for ever.
        let done = home.compact();
        match &done.snapshot {
            Snapshot::Busy(Error::LockTimeout { path, holder: named, .. }) => {
                assert!(path.ends_with(".usage.json.lock"));
                let id = format!("process {}", holder.id());
                assert!(named.as_ref().is_some_and(|named| named.contains(&id)), "{named:?}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(done.floor, round + 1, "the log's part is done");
        assert_eq!(usage_file::bytes(&home), kept);
        // The holder works on the file, as it may.
        usage_file::bump(&home, "txt", 0);
        assert_eq!((use_count(&home, "pdf"), use_count(&home, "txt")), (5 + round, 7));
        home.writer().append(&Event::used("pdf"), Durability::Process).unwrap();
        usage_file::write(&home, &kept);
    }
    holder.finish();
    assert!(matches!(home.compact().snapshot, Snapshot::Written { external: 0 }));
    assert_eq!(usage_file::json(&home)["pdf"]["use_count"], 9);
    assert_eq!(use_count(&home, "pdf"), 9);
}

#[test]
#[ignore = "the other process of lock_of_the_file_held_by_another_process_leaves_it_to_the_next_run"]
fn holds_a_lock() {
    let Some(path) = argument() else { return };
    let lock = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    fs2::FileExt::lock_exclusive(&lock).unwrap();
    ready();
}
