//! A process that has a lock forks: the child neither holds the lock nor releases it, however it ends.

use std::ffi::CString;
use std::ptr;

use hermes_log::{Error, SkillLock};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::support::log_files::Home;
use crate::support::processes::{Task, tell, wait_for_go};
use crate::{at_once, done, skills, start, with_skill};

/// How a child ends.
const WAYS: [&str; 8] = ["_exit", "exit", "drop", "panic", "exec", "abort", "again", "busy"];

pub(crate) fn work(task: &Task) -> bool {
    if task.role != "fork" {
        return false;
    }
    let skills = skills(&task.profile());
    let way = task.words[1].clone();
    if way == "busy" {
        // Another thread forks all the time: at any step of taking and releasing a lock.
        return busy(task);
    }
    let lock = skills.lock("pdf").unwrap();
    let program = CString::new("/bin/true").unwrap();
    // SAFETY: the child uses the C library, whose allocator is made for this, and this crate, which is what is tested.
    let child = match unsafe { libc::fork() } {
        0 => child(&way, lock, &program),
        id => Pid::from_raw(id).unwrap(),
    };
    let status = waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap().1;
    tell(&format!("{:?} {:?}", status.exit_status(), status.terminating_signal()));
    wait_for_go();
    lock.write_file("after.txt", b"still the parent's").unwrap();
    drop(lock);
    tell("released");
    wait_for_go();
    true
}

fn child(way: &str, lock: SkillLock, program: &CString) -> ! {
    // SAFETY: no pointers. It ends a child that hangs, which the parent sees.
    unsafe { libc::alarm(50) };
    let refused = matches!(lock.write_file("child.txt", b"x"), Err(Error::Refused { .. }));
    let skills = skills(&hermes_log::Profile::at(std::env::var("HERMES_LOG_TEST_HOME").unwrap()));
    // It is no owner: it waits like another process, and is not told that it has the lock.
    let waits = matches!(skills.with_limit(std::time::Duration::ZERO).lock("pdf"), Err(Error::LockTimeout { .. }));
    let code = if refused && waits { 40 } else { 41 };
    // SAFETY: none of these returns, and the program's name outlives the call.
    unsafe {
        match way {
            "_exit" => libc::_exit(code),
            "exit" => std::process::exit(code),
            "drop" => {
                drop(lock);
                libc::_exit(code)
            }
            "panic" => {
                let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                    let _lock = lock;
                    std::panic::resume_unwind(Box::new(()));
                }));
                libc::_exit(if unwound.is_err() { code } else { 42 })
            }
            "exec" => {
                libc::execv(program.as_ptr(), [program.as_ptr(), ptr::null()].as_ptr());
                libc::_exit(43)
            }
            "again" => {
                let id = libc::fork();
                if id == 0 {
                    drop(lock);
                    libc::_exit(0);
                }
                let mut status = 0;
                libc::waitpid(id, &raw mut status, 0);
                drop(lock);
                libc::_exit(if status == 0 { code } else { 44 })
            }
            _ => {
                libc::signal(libc::SIGABRT, libc::SIG_DFL);
                libc::kill(libc::getpid(), libc::SIGKILL);
                libc::_exit(45)
            }
        }
    }
}

#[test]
fn a_child_of_a_holder_neither_holds_nor_releases_however_it_ends() {
    for way in &WAYS[..7] {
        let home = with_skill("pdf");
        let mut worker = start("fork", &home, &[way]);
        let wanted = match *way {
            "exec" => "Some(0) None",
            "abort" => "None Some(9)",
            _ => "Some(40) None",
        };
        assert_eq!(worker.told().as_deref(), Some(wanted), "{way}");
        // The child is gone, and the parent has the lock.
        let tried = at_once(&home.profile).lock("pdf").map(drop);
        assert!(matches!(tried, Err(Error::LockTimeout { .. })), "{way}: {tried:?}");
        worker.go_on();
        assert_eq!(worker.told().as_deref(), Some("released"), "{way}");
        drop(at_once(&home.profile).lock("pdf").unwrap());
        worker.go_on();
        done(worker);
    }
}

/// One thread takes and releases the lock, another forks children that live on; then the process is killed.
fn busy(task: &Task) -> bool {
    let profile = task.profile();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (held, is_held) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let skills = skills(&profile);
            let mut rounds = 0_u64;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let lock = skills.lock("pdf").unwrap();
                rounds += 1;
                if rounds.is_multiple_of(16) {
                    std::thread::yield_now();
                }
                drop(lock);
            }
            let _lock = skills.lock("pdf").unwrap();
            held.send(rounds).unwrap();
            std::thread::sleep(crate::support::processes::HANG);
        });
        for _ in 0..task.number(2) {
            fork_one_that_lives_on();
            std::thread::sleep(std::time::Duration::from_micros(300));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let rounds = is_held.recv().unwrap();
        // These are made while the lock is held; then the process is killed.
        (0..task.number(2)).for_each(|_| fork_one_that_lives_on());
        tell(&format!("rounds {rounds}"));
    });
    true
}

fn fork_one_that_lives_on() {
    // SAFETY: the child only sleeps, with calls that are safe after a fork, and leaves.
    let id = unsafe { libc::fork() };
    if id == 0 {
        unsafe {
            libc::close(1); // the test waits for the end of what the worker tells
            libc::alarm(50);
            libc::pause();
            libc::_exit(0);
        }
    }
    tell(&format!("child {id}"));
}

/// Children that live on when their parent is killed.
struct Orphans(Vec<Pid>);

impl Drop for Orphans {
    fn drop(&mut self) {
        for id in &self.0 {
            let _ = kill_process(*id, Signal::KILL);
        }
    }
}

#[test]
fn a_holder_that_is_killed_is_rid_of_the_lock_though_its_children_live_on() {
    for _ in 0..if crate::support::processes::is_long() { 50 } else { 4 } {
        let home: Home = with_skill("pdf");
        let worker = start("fork", &home, &[&"busy", &40]);
        let mut orphans = Orphans(Vec::new());
        loop {
            let told = worker.told().unwrap();
            match told.split_once(' ').unwrap() {
                ("child", id) => orphans.0.push(Pid::from_raw(id.parse().unwrap()).unwrap()),
                (_, rounds) => {
                    assert!(rounds.parse::<u64>().unwrap() > 5, "{rounds} rounds");
                    break;
                }
            }
        }
        assert_eq!(orphans.0.len(), 80);
        worker.kill();
        let lock = at_once(&home.profile).lock("pdf").map(drop);
        lock.unwrap();
    }
}
