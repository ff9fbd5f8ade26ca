//! Sixteen contenders that take a lock again as soon as they have released it.

use std::time::{Duration, Instant};

use crate::support::processes::{Task, Worker, is_long, tell, wait_for_go};
use crate::{skills, start, with_skill};

const CONTENDERS: usize = 16;

pub(crate) fn work(task: &Task) -> bool {
    if task.role != "contend" {
        return false;
    }
    let skills = skills(&task.profile());
    let (seconds, held) = (task.number(1), Duration::from_micros(task.number(2)));
    tell("ready");
    wait_for_go();
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut count, mut longest) = (0_u64, Duration::ZERO);
    while Instant::now() < end {
        let begin = Instant::now();
        let lock = skills.lock("pdf").unwrap();
        longest = longest.max(begin.elapsed());
        count += 1;
        let until = Instant::now() + held;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        drop(lock);
    }
    tell(&format!("{count} {}", longest.as_millis()));
    true
}

#[test]
fn among_sixteen_contenders_nobody_starves() {
    let seconds: u64 = if is_long() { 60 } else { 4 };
    for held_micros in [0, 300] {
        let home = with_skill("pdf");
        let mut workers: Vec<Worker> =
            (0..CONTENDERS).map(|_| start("contend", &home, &[&seconds, &held_micros])).collect();
        for worker in &workers {
            assert_eq!(worker.told().as_deref(), Some("ready"));
        }
        workers.iter_mut().for_each(Worker::go_on);
        let mut counts = Vec::new();
        let mut longest = 0;
        for worker in workers {
            let told = worker.told().unwrap();
            let (count, wait) = told.split_once(' ').unwrap();
            counts.push(count.parse::<u64>().unwrap());
            longest = longest.max(wait.parse::<u64>().unwrap());
            crate::done(worker);
        }
        counts.sort_unstable();
        let mean = counts.iter().sum::<u64>() / CONTENDERS as u64;
        eprintln!(
            "held for {held_micros} us, {seconds} s: {} to {} turns each, {mean} in the mean; longest wait {longest} ms",
            counts[0],
            counts[CONTENDERS - 1],
        );
        assert!(counts[0] * 4 > mean, "one had less than a quarter of its share: {counts:?}");
        assert!(longest < 1000 * seconds / 2, "one waited for {longest} ms");
    }
}
