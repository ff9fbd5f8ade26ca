//! Promise P12 and P10 where the system gives less than one would like: file size limits, full disks, folders that are taken
//! away, network file systems, and a tool that root runs in another user's home.

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use hermes_log::{Durability, Error, Event, Options, Origin, Profile, View, Writer};
use rustix::process::{Resource, Rlimit, setrlimit};
use support::processes::{HANG, Stood, Task, Worker, at_once, places, profile, records, tell, used};

const CAPACITY: u32 = 64 << 10;
/// A user that owns nothing.
const NOBODY: u32 = 12345;

#[test]
fn worker() {
    let Some(task) = Task::given() else { return };
    match task.role.as_str() {
        "limited" => limited(&task),
        "network" => network(&task),
        "other user" => other_user(&task),
        role => panic!("no such role: {role}"),
    }
}

fn writer(profile: &Profile) -> Writer {
    profile.writer(Origin::here("session")).unwrap()
}

/// Words: capacity, the limit in bytes. Appends until it may not, then compacts.
fn limited(task: &Task) {
    let limit = Rlimit { current: Some(task.number(1)), maximum: Some(task.number(1)) };
    setrlimit(Resource::Fsize, limit).unwrap();
    let profile = task.profile();
    let mut appended = 0;
    let outcome = profile.writer(Origin::here("session")).and_then(|mut writer| {
        for _ in 0..5000 {
            writer.append(&Event::used("limited"), Durability::Process)?;
            appended += 1;
        }
        Ok(())
    });
    let compacted = profile.compact(&at_once());
    for error in [outcome.err(), compacted.err()].into_iter().flatten() {
        assert!(error.to_string().contains(&task.home.display().to_string()), "{error}");
        tell(&format!("error {error}"));
    }
    tell(&format!("appended {appended}"));
}

#[test]
fn a_file_size_limit_is_an_error_and_kills_nobody() {
    for place in places() {
        let mut errors = 0;
        for limit in [0, 10, 63, 64, 100, 1000, 4095, 4096, 4097, 30_000, 65_535, 65_536, 65_600, 300_000, 2_000_000] {
            for prepared in [0, 2000] {
                let home = tempfile::tempdir_in(&place).unwrap();
                let profile = profile(home.path(), CAPACITY);
                let mut others = writer(&profile);
                for _ in 0..prepared {
                    others.append(&Event::used("other"), Durability::Process).unwrap();
                }
                let words: [&dyn std::fmt::Display; 2] = [&CAPACITY, &limit];
                let mut worker = Worker::start("limited", home.path(), &words, "");
                assert_eq!(worker.stand(), Stood::Done, "a limit of {limit} bytes");
                let mut appended = 0;
                while let Some(told) = worker.told() {
                    match told.split_once(' ').unwrap() {
                        ("appended", number) => appended = number.parse().unwrap(),
                        (_, error) => {
                            errors += 1;
                            assert!(error.contains("limit"), "it does not say what to do: {error}");
                        }
                    }
                }
                // For the others the log is as good as ever.
                others.append(&Event::used("other"), Durability::Disk).unwrap();
                for _ in 0..2 {
                    let view = profile.view().unwrap();
                    let counts = (used(&view, "limited"), used(&view, "other"));
                    assert_eq!(counts, (appended, prepared + 1), "a limit of {limit} bytes");
                    // What the limit cut off, once.
                    assert!(view.gaps_met().len() <= 1, "{:?}", view.gaps_met());
                    profile.compact(&at_once()).unwrap();
                }
            }
        }
        assert!(errors > 10, "{errors}");
    }
}

/// A small file system of its own, in memory.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Only root can make one.
    fn mount(mebibytes: u32) -> Option<SmallDisk> {
        let dir = tempfile::tempdir().unwrap();
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"])
            .arg(dir.path())
            .status()
            .is_ok_and(|status| status.success());
        if !made {
            eprintln!("skipped: no file system can be mounted here");
        }
        made.then(|| SmallDisk(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Appends until the disk is full; returns how many events were acknowledged.
fn fill(profile: &Profile) -> u64 {
    let mut writer = writer(profile);
    let mut appended = 0;
    let error = loop {
        match writer.append(&Event::used("filling"), Durability::Process) {
            Ok(_) => appended += 1,
            Err(e) => break e,
        }
    };
    assert!(matches!(&error, Error::NotRecorded { recorded, .. } if recorded.is_empty()), "{error:?}");
    assert!(error.is_full_disk(), "{error:?}");
    assert!(error.to_string().contains("free some space"), "{error}");
    appended
}

#[test]
fn a_full_disk_is_an_error_and_a_compaction_makes_room_again() {
    let Some(disk) = SmallDisk::mount(4) else { return };
    let profile = profile(disk.0.path(), CAPACITY);
    let mut appended = 0;
    let append = |profile: &Profile| writer(profile).append(&Event::used("filling"), Durability::Process).is_ok();
    appended += u64::from(append(&profile));
    // The first one takes the ballast on.
    profile.compact(&at_once()).unwrap();
    let ballast = profile.log_folder().join("ballast");
    let stat = fs::metadata(&ballast).unwrap();
    assert!(stat.size() > 0 && stat.blocks() * 512 >= stat.size(), "the ballast takes space");
    for round in 0..3 {
        let before = appended;
        appended += fill(&profile);
        assert!(appended > before + 10_000, "round {round}: {} events filled the disk", appended - before);
        let mut view = profile.view().unwrap();
        assert_eq!(used(&view, "filling"), appended, "round {round}");
        for _ in 0..3 {
            profile.compact(&at_once()).unwrap();
            view.refresh().unwrap();
            assert_eq!((used(&view, "filling"), used(&profile.view().unwrap(), "filling")), (appended, appended));
            assert!(append(&profile), "there is room again");
            appended += 1;
        }
        assert!(ballast.exists(), "round {round}: the ballast is there for the next time");
    }
}

#[test]
fn a_disk_that_others_fill_stops_a_compaction_with_an_error_and_nothing_else() {
    let Some(disk) = SmallDisk::mount(4) else { return };
    let profile = profile(disk.0.path(), CAPACITY);
    let mut writer = writer(&profile);
    for _ in 0..3000 {
        writer.append(&Event::used("a"), Durability::Process).unwrap();
    }
    let filler = disk.0.path().join("filler");
    let fill = || fs::write(&filler, vec![1; 8 << 20]).unwrap_err();
    fill();
    let values = records(&profile.view().unwrap());
    for _ in 0..3 {
        let error = profile.compact(&at_once()).unwrap_err();
        assert!(error.is_full_disk(), "{error:?}");
        assert_eq!(records(&profile.view().unwrap()), values);
    }
    fs::remove_file(&filler).unwrap();
    profile.compact(&at_once()).unwrap();
    assert_eq!(used(&profile.view().unwrap(), "a"), 3000);
    assert!(profile.verify(|_| {}).unwrap().is_sound());
}

/// Looks until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < HANG, "never: {what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// A log with three events, its writer and a view of it, and a copy made when there were two.
struct Place {
    home: tempfile::TempDir,
    profile: Profile,
    writer: Writer,
    view: View,
    copy: PathBuf,
}

/// What is done to the folder: its name, how, and what is left of the events.
type Way = (&'static str, fn(&Place), u64);

impl Place {
    fn new(place: &Path) -> Place {
        let home = tempfile::tempdir_in(place).unwrap();
        // Not full before the test is over: a full one is looked for by its name anyway.
        let profile = profile(home.path(), 1 << 20);
        let mut writer = writer(&profile);
        for _ in 0..2 {
            writer.append(&Event::used("a"), Durability::Disk).unwrap();
        }
        let copy = home.path().join("copy");
        copy_folder(&profile.log_folder(), &copy);
        writer.append(&Event::used("a"), Durability::Disk).unwrap();
        let view = profile.view().unwrap();
        assert_eq!(used(&view, "a"), 3);
        Place { home, profile, writer, view, copy }
    }

    /// How the folder is taken away, and how many events are in the one that is there afterwards.
    const WAYS: [Way; 4] = [
        ("deleted", |place| fs::remove_dir_all(place.profile.log_folder()).unwrap(), 0),
        ("moved", |place| fs::rename(place.profile.log_folder(), place.home.path().join("moved")).unwrap(), 0),
        ("restored", Place::restore, 2),
        ("restored file by file", Place::restore_files, 2),
    ];

    fn restore(&self) {
        fs::rename(self.profile.log_folder(), self.home.path().join("moved")).unwrap();
        fs::rename(&self.copy, self.profile.log_folder()).unwrap();
    }

    /// In place, as `rsync --inplace` or `cp` do.
    fn restore_files(&self) {
        for entry in fs::read_dir(&self.copy).unwrap().map(Result::unwrap) {
            fs::write(self.profile.log_folder().join(entry.file_name()), fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

#[test]
fn a_durable_append_goes_to_the_folder_that_is_there_when_it_is_acknowledged() {
    for place in places() {
        for (way, take_away, left) in Place::WAYS {
            let mut place = Place::new(&place);
            take_away(&place);
            for appended in 1..4 {
                place.writer.append(&Event::used("a"), Durability::Disk).unwrap();
                assert_eq!(used(&place.profile.view().unwrap(), "a"), left + appended, "{way}");
            }
            place.profile.compact(&at_once()).unwrap();
            assert_eq!(used(&place.profile.view().unwrap(), "a"), left + 3, "{way}");
        }
    }
}

#[test]
fn writers_and_views_notice_by_themselves_that_the_folder_was_taken_away() {
    for (way, take_away, left) in Place::WAYS {
        let mut place = Place::new(&places()[0]);
        take_away(&place);
        until(&format!("the view notices: {way}"), || {
            place.view.refresh().unwrap();
            used(&place.view, "a") == left
        });
        until(&format!("the writer notices: {way}"), || {
            place.writer.append(&Event::used("a"), Durability::Process).unwrap();
            used(&place.profile.view().unwrap(), "a") > left
        });
        let noticed = used(&place.profile.view().unwrap(), "a");
        place.writer.append(&Event::used("a"), Durability::Process).unwrap();
        until(&format!("the view goes on: {way}"), || {
            place.view.refresh().unwrap();
            used(&place.view, "a") == noticed + 1
        });
    }
}

/// Words: capacity, whether network file systems are allowed.
fn network(task: &Task) {
    let options = Options { capacity: Some(CAPACITY), allow_network_fs: task.number(1) == 1 };
    let profile = Profile::at(&task.home).with_options(options);
    let outcome = profile
        .writer(Origin::here("session"))
        .and_then(|mut writer| writer.append(&Event::used("network"), Durability::Process));
    match outcome {
        Ok(_) => tell("appended"),
        Err(Error::NetworkFileSystem { .. }) => tell(&format!("refused: {}", outcome.unwrap_err())),
        Err(Error::NotRecorded { source, .. }) if matches!(*source, Error::LockTimeout { .. }) => {
            tell(&format!("timeout: {source}"));
        }
        Err(e) => panic!("{e:?}"),
    }
}

fn on_network(home: &Path, is_allowed: u32) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("HERMES_LOG_STATFS", "6969"); // NFS
    let words: [&dyn std::fmt::Display; 2] = [&CAPACITY, &is_allowed];
    Worker::start_as(command, "network", home, &words, "").told().unwrap()
}

#[test]
fn a_network_file_system_is_refused_and_where_it_is_allowed_each_append_takes_a_lock() {
    let home = tempfile::tempdir().unwrap();
    let profile = profile(home.path(), CAPACITY);
    let told = on_network(home.path(), 0);
    assert!(told.starts_with("refused") && told.contains("NFS") && told.contains("--allow-network-fs"), "{told}");
    assert!(!profile.log_folder().exists(), "nothing was made");
    assert_eq!(on_network(home.path(), 1), "appended");
    let live = fs::File::open(profile.log_folder().join(format!("{:020}.seg", 1))).unwrap();
    live.lock().unwrap();
    let told = on_network(home.path(), 1);
    let holder = format!("held by process {}", std::process::id());
    assert!(told.starts_with("timeout") && told.contains(&holder), "{told}");
    drop(live);
    assert_eq!(on_network(home.path(), 1), "appended");
    assert_eq!(used(&profile.view().unwrap(), "network"), 2);
}

fn other_user(task: &Task) {
    let profile = task.profile();
    let mut writer = writer(&profile);
    for _ in 0..3000 {
        writer.append(&Event::used("a"), Durability::Disk).unwrap();
        if task.number(1) == 0 {
            break;
        }
    }
    let done = profile.compact(&at_once()).unwrap();
    assert!(matches!(done.snapshot, hermes_log::compact::Snapshot::Written { .. }), "{done:?}");
    tell(&used(&profile.view().unwrap(), "a").to_string());
}

fn check_owner(folder: &Path) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let stat = fs::metadata(&path).unwrap();
        assert_eq!((stat.uid(), stat.gid()), (NOBODY, NOBODY), "{}", path.display());
        if path.is_dir() {
            check_owner(&path);
        }
    }
}

#[test]
fn what_root_does_in_another_users_home_belongs_to_that_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: this is not root");
        return;
    }
    for place in places() {
        let home = tempfile::tempdir_in(place).unwrap();
        chown(home.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        let profile = profile(home.path(), CAPACITY);
        let mut writer = writer(&profile);
        for _ in 0..3 {
            for _ in 0..3000 {
                writer.append(&Event::used("a"), Durability::Process).unwrap();
            }
            profile.compact(&at_once()).unwrap();
        }
        // Damage, so that something is set aside.
        let last = writer.append(&Event::used("a"), Durability::Process).unwrap();
        let live = profile.log_folder().join(format!("{:020}.seg", last.segment));
        let mut bytes = fs::read(&live).unwrap();
        bytes.extend([0x55; 40]);
        fs::write(&live, bytes).unwrap();
        writer.append(&Event::used("a"), Durability::Process).unwrap();
        fs::write(profile.snapshot_path(), "{\"cut").unwrap();
        let done = profile.compact(&at_once()).unwrap();
        assert_eq!(done.set_aside.len(), 2, "{done:?}");
        check_owner(home.path());
        // And that user can go on. The test program may be where he may not look.
        let program = tempfile::tempdir().unwrap();
        fs::set_permissions(program.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let copy = program.path().join("program");
        fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        let mut command = Command::new(&copy);
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
        let words: [&dyn std::fmt::Display; 2] = [&CAPACITY, &1];
        let told = Worker::start_as(command, "other user", home.path(), &words, "").told();
        assert_eq!(told.as_deref(), Some("12002"));
        profile.compact(&at_once()).unwrap();
        check_owner(home.path());
    }
}
