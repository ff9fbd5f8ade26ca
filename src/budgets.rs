//! Every lock's budget, in one place: how long it may be held, and how long anybody waits for it.
//!
//! Running out of a wait is [`Error::LockTimeout`](crate::Error::LockTimeout), exit code 75, and never "go on without".

use std::time::Duration;

/// One lock's budget.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Name of the lock in messages.
    pub name: &'static str,
    /// A hold over this is logged.
    pub hold_ceiling: Duration,
    /// The default limit of a wait.
    pub wait_limit: Duration,
}

impl Budget {
    /// A lock's budget. A wait limit below the hold ceiling does not compile:
    ///
    /// ```
    /// # use std::time::Duration;
    /// use hermes_log::budgets::Budget;
    /// const FINE: Budget = Budget::new("mine", Duration::from_secs(15), Duration::from_secs(15));
    /// ```
    /// ```compile_fail,E0080
    /// # use std::time::Duration;
    /// use hermes_log::budgets::Budget;
    /// const GIVES_UP_TOO_EARLY: Budget = Budget::new("mine", Duration::from_secs(20), Duration::from_secs(15));
    /// ```
    ///
    /// # Panics
    /// If the wait limit is below the hold ceiling; in a constant that is an error of the compiler.
    #[must_use]
    pub const fn new(name: &'static str, hold_ceiling: Duration, wait_limit: Duration) -> Budget {
        // Whoever waits out one hold gets the lock.
        assert!(hold_ceiling.as_nanos() <= wait_limit.as_nanos(), "a wait limit is below its lock's hold ceiling");
        Budget { name, hold_ceiling, wait_limit }
    }
}

/// `compact.lock`: one compaction, folds and syncs included.
pub const COMPACTION: Budget = Budget::new("compaction", Duration::from_secs(60), Duration::from_secs(60));
/// `.usage.json.lock`, shared with Hermes: one read and write of the snapshot, with the checkpoint that holds its event
/// between them. Hermes itself waits without a limit.
pub const SNAPSHOT: Budget = Budget::new("snapshot", Duration::from_secs(10), Duration::from_secs(10));
/// The segment itself, where appends are not atomic (network file systems): one write.
pub const APPEND: Budget = Budget::new("append", Duration::from_secs(1), Duration::from_secs(5));
/// `auth.lock` and `auth.json.lock`, shared with Hermes: one read, merge and replacement of `auth.json` here. Hermes holds
/// it through a network request: 20 s and a margin of 5 s.
pub const AUTH_FILE: Budget = Budget::new("auth.json", Duration::from_secs(25), Duration::from_secs(30));
/// A skill's folder: one change of its files, syncs included. A command that runs under the lock holds it as long as it
/// wants to, and everybody sees who does.
pub const SKILL: Budget = Budget::new("skill", Duration::from_secs(10), Duration::from_secs(30));
/// The folder of all skills: one rename that makes, moves or removes a skill, with its event.
pub const SKILLS_FOLDER: Budget = Budget::new("skills folder", Duration::from_secs(10), Duration::from_secs(30));

/// No process holds or waits for more locks than this at a time.
pub const MOST_LOCKS: usize = 1024;

// Evaluated when the crate is compiled, used or not.
const _: [Budget; 6] = [COMPACTION, SNAPSHOT, APPEND, AUTH_FILE, SKILL, SKILLS_FOLDER];
