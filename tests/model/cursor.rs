//! Reading the log step by step, as readers and compactors do it. Bytes below a length that was asked for
//! never change, so `lseek(SEEK_END)` and the read up to there are one step.

use crate::fold::{BAD_HEADER, Fold, MISSING, read};
use crate::listing::{Listing, Wanted};
use crate::rules::Config;
use crate::search::{Bytes, Emit};
use crate::state::{Header, NONE, Names, State, reached};
use crate::steps::{Ask, list};
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Newest checkpoint that checks out.
    Load,
    Open,
    /// R2: the listing after the open.
    Check,
    Read,
    /// Only without the rule "ask for the length first".
    LengthAfterwards,
    /// "No such file": first and second listing.
    Absent,
    AbsentAgain,
    /// Nothing is known to follow. The position is kept for the next refresh.
    End,
}

#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    pub step: Step,
    pub number: u8,
    pub inode: u8,
    pub at: u8,
    pub fold: Fold,
    /// R2's listing named a higher segment.
    successor: bool,
    /// The length asked for too early or too late, when a rule says the opposite.
    length: u8,
    /// First of the segments that seem to be missing; reported when the next one passed R2.
    missing_from: u8,
    pub restarts: u8,
    /// Segments up to this one are sealed: the compactor's *m*.
    pub until: u8,
    /// The floor that the fold was started from.
    pub base: u8,
    pub listing: Listing,
}

impl Cursor {
    pub fn new() -> Cursor {
        Cursor {
            step: Step::Load,
            number: 0,
            inode: NONE,
            at: 0,
            fold: Fold::default(),
            successor: false,
            length: 0,
            missing_from: 0,
            restarts: 0,
            until: 0,
            base: 0,
            listing: Listing::closed(0),
        }
    }

    /// Starts the next refresh where the last one ended.
    pub fn refresh(&mut self) {
        if self.step == Step::End {
            self.step = if self.inode == NONE { Step::Open } else { Step::Read };
        }
        self.restarts = 0;
    }

    /// What of it outlives the process: no descriptor, nothing that a listing showed.
    pub fn position(&self) -> Cursor {
        let Cursor { number, at, fold, base, .. } = *self;
        Cursor { step: Step::Open, number, at, fold, base, ..Cursor::new() }
    }

    pub fn encode(&self, out: &mut Bytes) {
        out.put(self.step as u8 | u8::from(self.successor) << 7);
        out.put(self.number << 4 | self.at);
        out.put(self.base << 4 | self.until);
        out.put(self.missing_from << 4 | self.length);
        out.put_all(&[self.inode, self.restarts]);
        out.put_fold(&self.fold);
        self.listing.encode(out);
    }
}

/// The floor for R2. When the newest checkpoint does not check out, what it covers is still there as far
/// as the second highest number says.
fn bound(config: &Config, s: &State, names: Names) -> u8 {
    let newest = &s.checkpoints[names.floor() as usize];
    if newest.here && newest.damaged && config.rules.second_checkpoint_bounds { names.older() } else { names.floor() }
}

/// Takes the next step of `cursor`. Steps that end the refresh leave `Step::End`.
pub fn steps(
    config: &Config,
    s: &State,
    slow: bool,
    who: fmt::Arguments,
    of: impl Fn(&mut State) -> &mut Cursor + Copy,
    emit: Emit,
) {
    let mut n = *s;
    let c = *of(&mut n);
    match c.step {
        Step::Load => {
            load(&mut n, of);
            emit(n, format_args!("{who} loads checkpoint {}", of(&mut n.clone()).base));
        }
        Step::Open => {
            let inode = s.names[c.number as usize].now;
            let cursor = of(&mut n);
            if inode == NONE {
                cursor.step = if config.rules.absent_is_looked_up { Step::Absent } else { Step::End };
            } else {
                cursor.inode = inode;
                cursor.length = if config.rules.length_after_listing { 0 } else { s.inodes[inode as usize].len };
                cursor.step = Step::Check;
            }
            emit(
                n,
                format_args!("{who} opens seg {}: {}", c.number, if inode == NONE { "no such file" } else { "ok" }),
            );
        }
        Step::Check => list(
            config,
            s,
            Ask { slow, who, wanted: Wanted::All },
            |n| &mut of(n).listing,
            emit,
            |n, names, emit| {
                check(config, n, names, who, of, emit);
            },
        ),
        Step::Absent | Step::AbsentAgain => list(
            config,
            s,
            Ask { slow, who, wanted: Wanted::All },
            |n| &mut of(n).listing,
            emit,
            |n, names, emit| {
                absent(config, n, names, who, of, emit);
            },
        ),
        Step::Read => {
            let len = s.inodes[c.inode as usize].len;
            if !config.rules.length_first {
                of(&mut n).length = len;
                of(&mut n).step = Step::LengthAfterwards;
            } else if !config.rules.length_after_listing && c.successor {
                take(config, &mut n, c.length, c.length, of);
            } else {
                take(config, &mut n, len, len, of);
            }
            emit(n, format_args!("{who} reads seg {} up to {len}: {}", c.number, of(&mut n.clone()).fold.show()));
        }
        Step::LengthAfterwards => {
            let len = s.inodes[c.inode as usize].len;
            take(config, &mut n, c.length, len, of);
            emit(n, format_args!("{who} asks for the length of seg {}: {len}", c.number));
        }
        Step::End => {}
    }
}

fn load(n: &mut State, of: impl Fn(&mut State) -> &mut Cursor) {
    // No readable checkpoint at all: checkpoint-0 is a constant, the empty state.
    let newest = n.newest_good_checkpoint();
    let fold = newest.map_or(Fold::default(), |i| n.checkpoints[i as usize].fold);
    let base = newest.unwrap_or(0);
    let c = of(n);
    let (restarts, until, listing) = (c.restarts, c.until, c.listing);
    *c = Cursor { step: Step::Open, number: base + 1, base, fold, restarts, until, listing, ..Cursor::new() };
    finish_if_beyond(n, of);
}

fn restart(n: &mut State, of: impl Fn(&mut State) -> &mut Cursor) {
    n.mark(reached::READER_RESTART);
    let c = of(n);
    (c.step, c.inode) = (Step::Load, NONE);
    c.restarts += 1;
    if c.restarts > 6 {
        n.broken = Some("a reader starts again for ever");
    }
}

fn check(
    config: &Config,
    mut n: State,
    names: Names,
    who: fmt::Arguments,
    of: impl Fn(&mut State) -> &mut Cursor + Copy,
    emit: Emit,
) {
    let c = *of(&mut n);
    let floor = bound(config, &n, names);
    let missing_passed = config.rules.third_listing && c.missing_from > 0 && floor >= c.missing_from;
    if (floor >= c.number && config.rules.reader_checks_floor) || missing_passed {
        n.mark(reached::REFUSED_BY_FLOOR);
        restart(&mut n, of);
        return emit(n, format_args!("{who} checks seg {} (R2): floor {floor}, starts again", c.number));
    }
    report_missing(&mut n, of);
    let bad_header = n.inodes[c.inode as usize].header == Header::Bad;
    let higher = names.segments >> (c.number + 1);
    let cursor = of(&mut n);
    if bad_header {
        cursor.fold.gap(c.number, BAD_HEADER);
        (cursor.inode, cursor.number, cursor.step) = (NONE, c.number + 1, Step::Open);
        finish_if_beyond(&mut n, of);
    } else {
        cursor.successor = if config.rules.any_higher_is_successor { higher != 0 } else { higher & 1 == 1 };
        cursor.step = Step::Read;
    }
    emit(
        n,
        format_args!(
            "{who} checks seg {} (R2): floor {floor}{}{}",
            c.number,
            if higher != 0 { ", a higher one exists" } else { "" },
            if bad_header { ", bad header: a gap" } else { "" }
        ),
    );
}

fn report_missing(n: &mut State, of: impl Fn(&mut State) -> &mut Cursor) {
    let c = of(n);
    let from = std::mem::take(&mut c.missing_from);
    if from > 0 {
        (from..c.number).for_each(|number| c.fold.gap(number, MISSING));
        n.mark(reached::READER_GAP);
    }
}

fn absent(
    config: &Config,
    mut n: State,
    names: Names,
    who: fmt::Arguments,
    of: impl Fn(&mut State) -> &mut Cursor + Copy,
    emit: Emit,
) {
    let rules = &config.rules;
    let c = *of(&mut n);
    let floor = bound(config, &n, names);
    let higher = names.segments >> (c.number + 1);
    let cursor = of(&mut n);
    let what = if floor >= c.number {
        restart(&mut n, of);
        "floor passed it, starts again"
    } else if names.segments >> c.number & 1 == 1 {
        cursor.step = Step::Open;
        "is there now"
    } else if higher == 0 && rules.end_of_log_is_accepted {
        cursor.step = Step::End;
        "none above it, the end of the log"
    } else if higher == 0 {
        restart(&mut n, of);
        "none above it, starts again"
    } else if !rules.missing_is_gap {
        cursor.step = Step::End;
        "missing, waits for it"
    } else if c.step == Step::Absent && rules.second_listing {
        cursor.step = Step::AbsentAgain;
        "missing, a higher one is there, lists again"
    } else {
        cursor.missing_from = if c.missing_from > 0 { c.missing_from } else { c.number };
        cursor.number = c.number + 1 + higher.trailing_zeros() as u8;
        cursor.step = Step::Open;
        if !rules.third_listing {
            report_missing(&mut n, of);
        }
        "seems missing, goes on with the next"
    };
    emit(n, format_args!("{who} lists: seg {} {what} (floor {floor})", c.number));
}

/// Takes in what lies between the position and `len`; `sealed_at` is the length that says "sealed".
fn take(config: &Config, n: &mut State, len: u8, sealed_at: u8, of: impl Fn(&mut State) -> &mut Cursor) {
    let c = *of(n);
    let segment = n.inodes[c.inode as usize];
    let follows = c.successor && config.rules.short_segment_ends;
    let ends = sealed_at >= config.capacity || follows || c.number <= c.until;
    if ends && len < config.capacity {
        n.mark(reached::SHORT_WITH_SUCCESSOR);
    }
    let cursor = of(n);
    cursor.at = read(config, &segment, c.at, len, ends, &mut cursor.fold);
    cursor.length = 0;
    if ends {
        (cursor.inode, cursor.number, cursor.at) = (NONE, c.number + 1, 0);
        (cursor.successor, cursor.step) = (false, Step::Open);
        finish_if_beyond(n, of);
    } else {
        cursor.step = Step::End;
    }
}

/// A compactor folds up to its *m* and no further.
fn finish_if_beyond(n: &mut State, of: impl Fn(&mut State) -> &mut Cursor) {
    let c = of(n);
    if c.until > 0 && c.number > c.until {
        c.step = Step::End;
    }
}
