//! The skill's folder is moved and made anew by hand under those who wait for it: no two holders of one path.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use hermes_log::Error;

use crate::support::processes::{Random, Task, Worker, tell, wait_for_go};
use crate::{Stop, at_once, done, folder, holder, make, skills, start, until_waiting, with_skill};

pub(crate) fn work(task: &Task) -> bool {
    let skills = skills(&task.profile());
    match task.role.as_str() {
        "where" => {
            tell("begun");
            let lock = skills.lock("pdf").unwrap();
            tell(&lock.folder().map_or("nowhere".into(), |folder| folder.display().to_string()));
            wait_for_go();
            drop(lock);
        }
        // Marks the folder that it has the lock of, outside of it: the mark must not be there.
        "mark" => {
            let (marks, rounds) = (task.home.join("marks"), task.number(1));
            let mut at_its_path = 0;
            for _ in 0..rounds {
                let lock = skills.lock("pdf").unwrap();
                let Some(folder) = lock.folder() else { continue };
                let locked = locked_inode();
                let mark = marks.join(locked.to_string());
                fs::OpenOptions::new().write(true).create_new(true).open(&mark).unwrap();
                at_its_path += u64::from(fs::metadata(folder).is_ok_and(|stat| stat.ino() == locked));
                std::thread::yield_now();
                fs::remove_file(mark).unwrap();
            }
            tell(&at_its_path.to_string());
        }
        _ => return false,
    }
    true
}

/// The inode of the only folder that this process has open, wherever it is now.
fn locked_inode() -> u64 {
    let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::metadata(entry.unwrap().path()).ok());
    let proc = fs::metadata("/proc").unwrap().dev();
    let folders: Vec<u64> = open.filter(|stat| stat.is_dir() && stat.dev() != proc).map(|stat| stat.ino()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders[0]
}

#[test]
fn a_skill_that_was_moved_under_a_waiter_is_found_again() {
    let home = with_skill("pdf");
    let mut first = holder(&home, "pdf");
    let mut waiter = start("where", &home, &[&"pdf"]);
    until_waiting(&folder(&home, "pdf"), 1);
    let moved = folder(&home, "documents/pdf");
    fs::create_dir(moved.parent().unwrap()).unwrap();
    fs::rename(folder(&home, "pdf"), &moved).unwrap();
    first.go_on();
    assert_eq!(waiter.told().as_deref(), Some("begun"));
    assert_eq!(waiter.told(), Some(moved.display().to_string()));
    waiter.go_on();
    done(waiter);
    done(first);
}

#[test]
fn a_skill_that_is_gone_under_a_waiter_is_answered_by_the_lock_for_its_creation() {
    let home = with_skill("pdf");
    let mut first = holder(&home, "pdf");
    let mut waiter = start("where", &home, &[&"pdf"]);
    until_waiting(&folder(&home, "pdf"), 1);
    fs::rename(folder(&home, "pdf"), home.path().join("elsewhere")).unwrap();
    first.go_on();
    assert_eq!(waiter.told().as_deref(), Some("begun"));
    assert_eq!(waiter.told().as_deref(), Some("nowhere"));
    let error = at_once(&home.profile).lock("pdf").map(drop).unwrap_err();
    let Error::LockTimeout { path, .. } = error else { panic!("{error}") };
    assert_eq!(path, home.profile.skills_folder());
    waiter.go_on();
    done(waiter);
    done(first);
}

#[test]
fn who_has_the_old_folder_has_not_the_new_one_and_who_waited_waits_for_the_new_one() {
    let home = with_skill("pdf");
    let mut old = holder(&home, "pdf");
    let mut waiter = start("where", &home, &[&"pdf"]);
    until_waiting(&folder(&home, "pdf"), 1);
    fs::rename(folder(&home, "pdf"), home.path().join("elsewhere")).unwrap();
    make(&folder(&home, "pdf"), "pdf");
    let mut new = holder(&home, "pdf"); // at once: nobody has this folder
    old.go_on();
    done(old);
    until_waiting(&folder(&home, "pdf"), 1);
    assert_eq!(waiter.told().as_deref(), Some("begun"));
    new.go_on();
    assert_eq!(waiter.told(), Some(folder(&home, "pdf").display().to_string()));
    waiter.go_on();
    done(waiter);
    done(new);
}

#[test]
fn a_change_of_a_skill_that_was_moved_while_it_was_locked_is_refused() {
    let home = with_skill("pdf");
    let skills = skills(&home.profile);
    let lock = skills.lock("pdf").unwrap();
    fs::rename(folder(&home, "pdf"), home.path().join("elsewhere")).unwrap();
    make(&folder(&home, "pdf"), "pdf");
    let before = crate::tree(&folder(&home, "pdf"));
    for refused in [lock.write_file("a", b"x"), lock.edit(b"x"), lock.remove_file("a"), lock.delete()] {
        assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    }
    assert_eq!(crate::tree(&folder(&home, "pdf")), before);
}

#[test]
fn folders_that_come_and_go_by_hand_never_have_two_holders() {
    let home = with_skill("pdf");
    fs::create_dir(home.path().join("marks")).unwrap();
    fs::create_dir(folder(&home, "documents")).unwrap();
    let mut random = Random::new();
    let stop = AtomicBool::new(false);
    let rounds = if crate::support::processes::is_long() { 3000 } else { 150 };
    let moves = std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            let mut moves = 0_u64;
            let places = [folder(&home, "pdf"), folder(&home, "documents/pdf"), home.path().join("aside")];
            while !stop.load(Ordering::Relaxed) {
                let [from, to] = [random.below(3), random.below(3)].map(|n| places[n as usize].as_path());
                moves += u64::from(fs::rename(from, to).is_ok());
                if random.below(5) == 0 && !is_somewhere(&places) {
                    make(&places[0], "pdf");
                }
                if random.below(10) == 0 {
                    let _ = fs::remove_dir_all(&places[2]);
                    if !is_somewhere(&places) {
                        make(&places[0], "pdf");
                    }
                }
                std::thread::sleep(std::time::Duration::from_micros(random.below(2000)));
            }
            moves
        });
        let stopping = Stop(&stop);
        let workers: Vec<Worker> = (0..6).map(|_| start("mark", &home, &[&rounds])).collect();
        let at_their_paths: u64 = workers.iter().map(|worker| worker.told().unwrap().parse::<u64>().unwrap()).sum();
        assert!(
            at_their_paths > 6 * rounds / 10,
            "only {at_their_paths} locks were of a folder that stayed for a moment"
        );
        workers.into_iter().for_each(done);
        drop(stopping);
        mover.join().unwrap()
    });
    assert!(moves > 20, "only {moves} moves");
}

fn is_somewhere(places: &[std::path::PathBuf]) -> bool {
    places.iter().any(|place: &std::path::PathBuf| Path::new(place).join("SKILL.md").exists())
}
