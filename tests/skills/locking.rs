//! Who has a lock, who waits for it, for how long, and what the error says.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use hermes_log::Error;
use rustix::process::Signal;

use crate::support::log_files::Home;
use crate::support::processes::{Random, Stood, Task, Worker, tell, wait_for_go};
use crate::{at_once, done, folder, holder, make, skills, start, until_waiting, with_skill};

pub(crate) fn work(task: &Task) -> bool {
    let skills = skills(&task.profile());
    match task.role.as_str() {
        "hold" => {
            let lock = skills.lock(&task.words[1]).unwrap();
            tell("locked");
            wait_for_go();
            drop(lock);
        }
        // Says when it got the lock, and what the wait cost.
        "get" => {
            tell("begun");
            let lock = skills.lock(&task.words[1]).unwrap();
            let got = micros();
            tell(&format!("{got} {}", ticks()));
            drop(lock);
        }
        "many" => {
            let mut random = Random::seeded(task.number(1));
            for _ in 0..task.number(2) {
                let count = 2 + random.below(5);
                let mut names: Vec<String> = (0..count).map(|_| format!("s{}", random.below(9))).collect();
                names.sort();
                names.dedup();
                let at = random.below(names.len() as u64) as usize;
                names.rotate_left(at); // in no particular order
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                drop(skills.lock_many(&names).unwrap());
            }
        }
        _ => return false,
    }
    true
}

fn micros() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros()
}

/// Processor time of this process, in ticks.
fn ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn assert_locked(home: &Home, skill: &str) {
    let tried = at_once(&home.profile).lock(skill).map(drop);
    assert!(matches!(tried, Err(Error::LockTimeout { .. })), "{tried:?}");
}

#[test]
fn a_lock_excludes_and_its_release_lets_in() {
    for relative in ["pdf", "documents/pdf", "documents/other-folder"] {
        let home = with_skill(relative);
        let mut worker = holder(&home, "pdf");
        assert_locked(&home, "pdf");
        worker.go_on();
        done(worker);
        let skills = at_once(&home.profile);
        let lock = skills.lock("pdf").unwrap();
        assert_eq!(lock.folder(), Some(&*folder(&home, relative)));
    }
}

#[test]
fn a_timeout_names_the_lock_the_time_and_the_holder_with_its_command_and_age() {
    let home = with_skill("pdf");
    let worker = holder(&home, "pdf");
    let limit = Duration::from_millis(300);
    let error = skills(&home.profile).with_limit(limit).lock("pdf").unwrap_err();
    let text = error.to_string();
    let Error::LockTimeout { path, waited, holder } = error else { panic!("{text}") };
    assert_eq!(path, folder(&home, "pdf"));
    assert!(waited >= limit, "{waited:?}");
    let own = fs::read_to_string("/proc/self/comm").unwrap(); // the worker is this program again
    let holder = holder.unwrap();
    let wanted = format!("process {} (", worker.id());
    assert!(holder.starts_with(&wanted) && holder.contains("running for ") && holder.ends_with(" s"), "{holder}");
    assert!(!own.is_empty() && text.contains(&holder) && text.contains("0.3 s"), "{text}");
}

#[test]
fn a_dead_holder_delays_nobody() {
    let home = with_skill("pdf");
    for _ in 0..5 {
        let worker = holder(&home, "pdf");
        let waiter = start("get", &home, &[&"pdf"]);
        until_waiting(&folder(&home, "pdf"), 1);
        worker.kill();
        assert_eq!(waiter.told().as_deref(), Some("begun"));
        assert!(waiter.told().is_some());
        done(waiter);
        drop(at_once(&home.profile).lock("pdf").unwrap());
    }
}

#[test]
fn a_stopped_holder_delays_writers_of_its_skill_and_nobody_else() {
    let home = with_skill("pdf");
    make(&folder(&home, "other"), "other");
    let mut worker = holder(&home, "pdf");
    worker.signal(Signal::STOP);
    assert_eq!(worker.stand(), Stood::Stopped);
    let waiter = start("get", &home, &[&"pdf"]); // with a limit that does not run out
    until_waiting(&folder(&home, "pdf"), 1);

    let one_attempt = at_once(&home.profile);
    one_attempt.lock("other").unwrap().write_file("a.txt", b"1").unwrap();
    one_attempt.lock("new").unwrap().create(b"new", None, "agent").unwrap();
    let archived = one_attempt.lock("new").unwrap().archive().unwrap();
    assert!(archived.ends_with(".archive/new"));
    one_attempt.restore("new").unwrap();
    one_attempt.lock("new").unwrap().delete().unwrap();

    let limit = Duration::from_millis(100);
    let error = skills(&home.profile).with_limit(limit).lock("pdf").unwrap_err();
    assert!(error.to_string().ends_with(", stopped"), "{error}");
    // One that waits for several, the stopped one's among them, holds up none that it need not.
    let two = skills(&home.profile).with_limit(limit).lock_many(&["new", "pdf"]).map(drop);
    assert!(matches!(two, Err(Error::LockTimeout { .. })), "{two:?}");
    one_attempt.lock("new").unwrap().create(b"new", None, "agent").unwrap();

    worker.finish_after_go();
    done(waiter);
}

#[test]
fn a_stopped_waiter_holds_up_no_other() {
    let home = with_skill("pdf");
    let mut first = holder(&home, "pdf");
    let mut stopped = start("get", &home, &[&"pdf"]);
    until_waiting(&folder(&home, "pdf"), 1);
    stopped.signal(Signal::STOP);
    assert_eq!(stopped.stand(), Stood::Stopped);
    let waiter = start("get", &home, &[&"pdf"]);
    assert_eq!(waiter.told().as_deref(), Some("begun"));
    until_waiting(&folder(&home, "pdf"), 1);
    first.go_on();
    assert!(waiter.told().is_some());
    done(waiter);
    stopped.signal(Signal::CONT);
    done(stopped);
}

#[test]
fn a_waiter_is_woken_at_the_release_and_costs_nothing_until_then() {
    let home = with_skill("pdf");
    let skills = skills(&home.profile);
    let mut delays = Vec::new();
    for round in 0..20 {
        let lock = skills.lock("pdf").unwrap();
        let waiter = start("get", &home, &[&"pdf"]);
        assert_eq!(waiter.told().as_deref(), Some("begun"));
        until_waiting(&folder(&home, "pdf"), 1);
        let held = Duration::from_millis(if round == 0 { 1500 } else { 5 });
        std::thread::sleep(held); // as long as the wait lasts, it costs
        let released = micros();
        drop(lock);
        let told = waiter.told().unwrap();
        let (got, ticks) = told.split_once(' ').unwrap();
        delays.push(got.parse::<u128>().unwrap().saturating_sub(released));
        assert!(ticks.parse::<u64>().unwrap() < 50, "waiting for {held:?} took {ticks} ticks of the processor");
        done(waiter);
    }
    delays.sort_unstable();
    let (median, most) = (delays[delays.len() / 2], delays[delays.len() - 1]);
    eprintln!("woken after {median} us in the median, {most} us at most");
    assert!(median < 10_000, "{delays:?}");
}

#[test]
fn a_limit_of_zero_is_one_attempt_and_others_are_kept() {
    let home = with_skill("pdf");
    let _worker = holder(&home, "pdf");
    for limit in [0, 50, 400] {
        let limit = Duration::from_millis(limit);
        let begin = Instant::now();
        let tried = skills(&home.profile).with_limit(limit).lock("pdf").map(drop);
        assert!(matches!(tried, Err(Error::LockTimeout { .. })), "{tried:?}");
        assert!(begin.elapsed() >= limit && begin.elapsed() < limit + Duration::from_secs(20));
    }
}

#[test]
fn attempts_that_time_out_leave_one_waiter_behind_and_what_it_gets_is_not_kept() {
    let home = with_skill("pdf");
    let path = folder(&home, "pdf");
    let skills = skills(&home.profile).with_limit(Duration::from_millis(20));
    for _ in 0..20 {
        let mut worker = holder(&home, "pdf");
        for _ in 0..5 {
            assert!(skills.lock("pdf").is_err());
        }
        until_waiting(&path, 1);
        let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).unwrap());
        // The kernel shows a line twice if other locks come and go while the table is read.
        let is_one = |_| {
            let table = fs::read_to_string("/proc/locks").unwrap();
            let is_waiter = |line: &&str| line.contains("->") && line.contains(&format!(":{inode} "));
            table.lines().filter(is_waiter).count() == 1
        };
        assert!((0..100).any(is_one), "more than one waiter");
        worker.go_on();
        done(worker);
        // One attempt of this process is not kept from the lock by its own earlier ones; and others have it after that.
        drop(at_once(&home.profile).lock("pdf").unwrap());
    }
    done(start("get", &home, &[&"pdf"]));
}

#[test]
fn a_thread_that_has_a_lock_and_asks_for_another_is_told_so_at_once() {
    let home = with_skill("pdf");
    make(&folder(&home, "other"), "other");
    let skills = skills(&home.profile);
    let lock = skills.lock("pdf").unwrap();
    for again in [skills.lock("pdf").map(drop), skills.lock("other").map(drop), skills.restore("x").map(drop)] {
        let error = again.unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error:?}");
        assert!(error.to_string().contains("this thread has the lock of [\"pdf\"]"), "{error}");
    }
    // Another thread waits like another process.
    let of_other_thread =
        std::thread::scope(|scope| scope.spawn(|| at_once(&home.profile).lock("pdf").map(drop)).join().unwrap());
    assert!(matches!(of_other_thread, Err(Error::LockTimeout { .. })), "{of_other_thread:?}");
    drop(lock);
    drop(skills.lock("pdf").unwrap());
}

#[test]
fn names_that_make_no_set_are_refused() {
    let home = with_skill("pdf");
    let skills = skills(&home.profile);
    for names in [&[][..], &[""], &["pdf", "pdf"], &["a", "pdf", "a"]] {
        assert!(matches!(skills.lock_many(names), Err(Error::Invalid { .. })), "{names:?}");
    }
    drop(skills.lock("pdf").unwrap());
}

#[test]
fn several_locks_come_in_the_order_of_the_names_and_those_not_there_share_one() {
    let home = with_skill("pdf");
    make(&folder(&home, "category/b"), "b");
    let skills = skills(&home.profile);
    let locks = skills.lock_many(&["new", "pdf", "b", "newer"]).unwrap();
    let found: Vec<_> = locks.iter().map(|lock| (lock.name(), lock.folder().is_some())).collect();
    assert_eq!(found, [("new", false), ("pdf", true), ("b", true), ("newer", false)]);
    drop(locks);
    // Each can be used as if it were alone.
    let skills = at_once(&home.profile);
    let mut locks = skills.lock_many(&["new", "pdf", "b"]).unwrap();
    locks.pop().unwrap().archive().unwrap();
    locks.pop().unwrap().delete().unwrap();
    locks.pop().unwrap().create(b"x", None, "agent").unwrap();
    assert_eq!(skills.list().unwrap().iter().map(|found| &*found.name).collect::<Vec<_>>(), ["new"]);
}

#[test]
fn processes_that_lock_many_skills_in_any_order_never_wait_for_each_other() {
    let home = Home::new(crate::CAPACITY);
    for n in 0..6 {
        make(&folder(&home, &format!("c{}/s{n}", n % 2)), &format!("s{n}")); // s6 to s8 are not there
    }
    let mut random = Random::new();
    let workers: Vec<Worker> = (0..8).map(|_| start("many", &home, &[&random.next(), &60])).collect();
    workers.into_iter().for_each(done); // a deadlock would end at the limit, with an error
}

#[test]
fn a_command_that_is_started_does_not_inherit_the_lock() {
    let home = with_skill("pdf");
    let skills = skills(&home.profile);
    let lock = skills.lock("pdf").unwrap();
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    drop(lock);
    let tried = at_once(&home.profile).lock("pdf").map(drop);
    child.kill().unwrap();
    child.wait().unwrap();
    tried.unwrap();
}
