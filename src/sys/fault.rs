//! Fault injection: the n-th system call fails, is cut short, stops the process or kills it.
//!
//! A plan is a list `CALL@N=ACTION` or `CALL@N+=ACTION` (from the n-th on, for good), separated by `;`. `CALL` is a name
//! used in `super::file` and `super::tree` or `any`; `ACTION` is `ENOSPC`, `EIO`, `EMFILE`, `EACCES`, `EINVAL`, `kill`,
//! `stop` or, for `write`, `short:BYTES`. The environment variable `HERMES_LOG_FAULT` arms a process, [`arm`] the calling thread.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

#[derive(Clone, Debug)]
enum Action {
    Fail(i32),
    Kill,
    Stop,
    Short(usize),
}

#[derive(Clone, Debug)]
struct Rule {
    call: String,
    nth: u64,
    for_good: bool,
    action: Action,
    seen: u64,
}

#[derive(Clone, Debug, Default)]
struct Plan {
    rules: Vec<Rule>,
    calls: u64,
}

/// `None` without a plan in the environment: then a fork finds no lock held.
static PROCESS: LazyLock<Option<Mutex<Plan>>> =
    LazyLock::new(|| std::env::var("HERMES_LOG_FAULT").ok().map(|plan| Mutex::new(parse(&plan))));

thread_local! {
    static THREAD: RefCell<Plan> = RefCell::default();
}

/// Arms the calling thread. A plan that does not parse is a mistake of the test.
///
/// # Panics
/// On a plan that does not parse.
pub fn arm(plan: &str) {
    THREAD.set(parse(plan));
}

/// Disarms the calling thread and returns how many calls it made since [`arm`].
pub fn disarm() -> u64 {
    THREAD.take().calls
}

#[allow(clippy::panic, clippy::expect_used)] // a mistake of the test, not of a user
fn parse(plan: &str) -> Plan {
    let rule = |text: &str| -> Option<Rule> {
        let (call, rest) = text.split_once('@')?;
        let (nth, action) = rest.split_once('=')?;
        let action = match action {
            "ENOSPC" => Action::Fail(libc::ENOSPC),
            "EIO" => Action::Fail(libc::EIO),
            "EMFILE" => Action::Fail(libc::EMFILE),
            "EACCES" => Action::Fail(libc::EACCES),
            "EINVAL" => Action::Fail(libc::EINVAL),
            "kill" => Action::Kill,
            "stop" => Action::Stop,
            short => Action::Short(short.strip_prefix("short:")?.parse().ok()?),
        };
        let nth_call = nth.strip_suffix('+').unwrap_or(nth).parse().ok()?;
        Some(Rule { call: call.to_owned(), nth: nth_call, for_good: nth.ends_with('+'), action, seen: 0 })
    };
    let rules = plan.split(';').filter(|r| !r.is_empty());
    Plan { rules: rules.map(|r| rule(r).unwrap_or_else(|| panic!("no such fault: {r}"))).collect(), calls: 0 }
}

impl Plan {
    fn next(&mut self, call: &str, for_shortening: bool) -> Option<Action> {
        self.calls += u64::from(!for_shortening);
        let mut due = None;
        for rule in self.rules.iter_mut().filter(|r| r.call == call || r.call == "any") {
            if matches!(rule.action, Action::Short(_)) != for_shortening {
                continue;
            }
            rule.seen += 1;
            if rule.seen == rule.nth || (rule.for_good && rule.seen > rule.nth) {
                due = Some(rule.action.clone());
            }
        }
        due
    }
}

fn due(call: &str, for_shortening: bool) -> Option<Action> {
    let own = THREAD.with_borrow_mut(|plan| plan.next(call, for_shortening));
    own.or_else(|| {
        let mut plan = PROCESS.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        plan.next(call, for_shortening)
    })
}

/// Called right before each system call.
pub(crate) fn point(call: &str) -> io::Result<()> {
    match due(call, false) {
        Some(Action::Fail(code)) => return Err(io::Error::from_raw_os_error(code)),
        Some(Action::Kill) => {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
        Some(Action::Stop) => super::posix::stop_here(),
        Some(Action::Short(_)) | None => {}
    }
    Ok(())
}

/// By how much the wall clock is off, in microseconds.
static CLOCK_SHIFT: AtomicI64 = AtomicI64::new(0);

/// Sets this process's wall clock ahead, or back, by so many microseconds.
pub fn shift_clock(micros: i64) {
    CLOCK_SHIFT.store(micros, Ordering::Relaxed);
}

/// The wall clock as it is shown.
pub(crate) fn shifted(micros: u64) -> u64 {
    micros.saturating_add_signed(CLOCK_SHIFT.load(Ordering::Relaxed))
}

/// What a write passes on of its bytes.
pub(crate) fn shorten(bytes: &[u8]) -> &[u8] {
    match due("write", true) {
        Some(Action::Short(len)) => bytes.get(..len).unwrap_or(bytes),
        _ => bytes,
    }
}
