//! Promise P12 and what it must not cost: whoever emits never waits and never fails, and every event counts once.

#[path = "../support/mod.rs"]
mod support;

mod alone;
mod compaction;
mod counting;
mod forked;
mod limits;
mod trouble;

use support::processes::Task;

#[test]
fn worker() {
    let Some(task) = Task::given() else { return };
    match task.role.as_str() {
        "threads" => alone::count_threads(&task),
        "append once" => alone::append_once(&task),
        "full disk for good" => trouble::full_disk_for_good(&task),
        "no folder" => trouble::no_folder(&task),
        "full tmpfs" => trouble::full_tmpfs(&task),
        "uncertain" => trouble::uncertain(&task),
        "held up" => limits::held_up(&task),
        "emit on and on" => compaction::emit_on_and_on(&task),
        "no lock to be had" => compaction::no_lock_to_be_had(&task),
        "forked" => forked::fork_with_a_full_channel(&task),
        role => panic!("no such role: {role}"),
    }
}
