//! A reader: refreshes of the log and, with a snapshot, the part of the view that comes from the file.

use crate::cursor::{self, Cursor};
use crate::fold::fresh;
use crate::rules::{Config, Slow};
use crate::search::{Bytes, Emit};
use crate::snapshot::{external_part, view};
use crate::state::{EXTERNAL_0, NONE, State, reached};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Idle,
    Log,
    /// Temporary file of the newest external event.
    Stat,
    File,
    /// The newest external event again, then the temporary file again.
    LogAgain,
    StatAgain,
    /// With saved positions: sync what was read, then save.
    SyncPosition,
    SavePosition,
}

#[derive(Clone, Copy, Debug)]
pub struct Reader {
    pub step: Step,
    pub left: u8,
    pub cursor: Cursor,
    /// What the next view must have at least: events, and the value.
    must_have: u8,
    must_show: u8,
    newest: u8,
    temp_exists: bool,
    file: u8,
    tries: u8,
    /// External part of the last view, kept when the file cannot be read in peace.
    external_before: u8,
    /// The position that survives this process, and what was delivered up to there.
    saved: Option<Cursor>,
    resumed: bool,
    must_deliver: u16,
}

impl Reader {
    pub fn new(left: u8) -> Reader {
        Reader {
            step: Step::Idle,
            left,
            cursor: Cursor::new(),
            must_have: 0,
            must_show: 0,
            newest: 0,
            temp_exists: false,
            file: 0,
            tries: 0,
            external_before: 0,
            saved: None,
            resumed: false,
            must_deliver: 0,
        }
    }

    /// After a loss: a new process, which goes on from the saved position if there is one.
    pub fn starts_again(&mut self, config: &Config) {
        let saved = self.saved;
        *self = Reader { saved, resumed: config.saved_position, ..Reader::new(config.readers * config.refreshes) };
        if let Some(saved) = saved {
            self.cursor = saved;
        }
    }

    pub fn encode(&self, out: &mut Bytes) {
        out.put(self.step as u8);
        out.put(self.left);
        if self.step == Step::Idle && self.left == 0 {
            return;
        }
        out.put_all(&[self.must_have << 4 | self.must_show, self.newest, self.file]);
        out.put_all(&[u8::from(self.temp_exists), self.tries << 4 | self.external_before]);
        self.cursor.encode(out);
        out.put(u8::from(self.resumed) | u8::from(self.saved.is_some()) << 1);
        out.put_mask(self.must_deliver);
        if let Some(saved) = &self.saved {
            saved.encode(out);
        }
    }
}

pub fn steps(config: &Config, s: &State, emit: Emit) {
    let r = s.reader;
    let mut n = *s;
    match r.step {
        Step::Idle if r.left == 0 => {}
        Step::Idle => {
            let truth = fresh(config, s);
            let me = &mut n.reader;
            me.must_have = r.must_have.max(truth.len() as u8);
            me.must_show = r.must_show.max(view(config, s, &truth, s.usage.file, s.usage.temps));
            if config.saved_position {
                me.must_deliver = truth.mask();
            }
            me.left -= 1;
            me.step = Step::Log;
            me.cursor.refresh();
            let text = format!("R refreshes, must have {} events", me.must_have);
            emit(n, format_args!("{text}"));
        }
        Step::Log | Step::LogAgain => {
            cursor::steps(
                config,
                s,
                config.slow != Slow::Nobody,
                format_args!("R"),
                |n| &mut n.reader.cursor,
                &mut |mut n, text| {
                    if n.reader.cursor.step == cursor::Step::End {
                        match r.step {
                            Step::Log if config.snapshot => n.reader.step = Step::Stat,
                            Step::Log => finish(config, &mut n, 0),
                            _ => n.reader.step = Step::StatAgain,
                        }
                    }
                    emit(n, text);
                },
            );
        }
        Step::Stat => {
            let newest = r.cursor.fold.newest_external();
            n.reader.newest = newest.unwrap_or(0);
            n.reader.temp_exists = newest.is_some_and(|e| s.usage.temps >> (e - EXTERNAL_0) & 1 == 1);
            n.reader.step = Step::File;
            emit(
                n,
                format_args!(
                    "R stats the temporary file of {newest:?}: {}",
                    if n.reader.temp_exists { "there" } else { "gone" }
                ),
            );
        }
        Step::File => {
            n.reader.file = s.usage.file;
            n.reader.step = Step::LogAgain;
            n.reader.cursor.refresh();
            if !config.rules.view_looks_again {
                let part = part(config, &n);
                finish(config, &mut n, part);
            }
            emit(n, format_args!("R reads the file: {}", s.usage.file));
        }
        Step::StatAgain => {
            let newest = r.cursor.fold.newest_external();
            let there = newest.is_some_and(|e| s.usage.temps >> (e - EXTERNAL_0) & 1 == 1);
            let same = newest.unwrap_or(0) == r.newest && there == r.temp_exists;
            if same {
                let part = part(config, &n);
                finish(config, &mut n, part);
            } else if r.tries < 3 {
                n.mark(reached::VIEW_AGAIN);
                n.reader.tries += 1;
                n.reader.step = Step::Stat;
            } else {
                // After a few tries the external part stays as it was: old, but never wrong.
                n.reader.must_show = 0;
                finish(config, &mut n, r.external_before);
            }
            emit(n, format_args!("R stats it again: {}", if same { "the same" } else { "changed" }));
        }
        Step::SyncPosition => {
            if config.rules.position_synced {
                for number in r.cursor.base + 1..=r.cursor.number {
                    let inode = s.names[number as usize].now;
                    if inode != NONE {
                        n.inodes[inode as usize].sync();
                    }
                }
                n.sync_folder();
            }
            n.reader.step = Step::SavePosition;
            emit(n, format_args!("R fdatasyncs what it read, fsyncs the folder"));
        }
        Step::SavePosition => {
            n.reader.saved = Some(r.cursor.position());
            n.reader.step = Step::Idle;
            emit(n, format_args!("R saves its position: seg {} at {}", r.cursor.number, r.cursor.at));
        }
    }
}

fn part(config: &Config, n: &State) -> u8 {
    let r = &n.reader;
    let temps = if r.temp_exists { 1 << (r.newest - EXTERNAL_0) } else { 0 };
    external_part(config, n, &r.cursor.fold, r.file, temps)
}

/// The view is there; it must be a prefix of the truth, and must not go backwards.
fn finish(config: &Config, n: &mut State, external_part: u8) {
    let truth = fresh(config, n);
    let r = n.reader;
    let fold = &r.cursor.fold;
    let value = fold.usage_count() + external_part;
    let delivered_twice = (0..16).any(|e| fold.iter().filter(|&other| other == e).count() > 1);
    n.broken = if r.resumed && r.must_deliver & !fold.mask() != 0 {
        Some("a follower that resumed from a saved position misses an event")
    } else if r.resumed && delivered_twice {
        Some("a follower that resumed from a saved position delivers an event twice")
    } else if r.resumed {
        n.broken
    } else if !fold.is_prefix_of(&truth) {
        Some("a reader's view is no prefix of the log")
    } else if (fold.len() as u8) < r.must_have {
        Some("a reader misses an event that was in the log before its refresh")
    } else if config.snapshot && value < r.must_show {
        Some("a reader's value is lower than before")
    } else if config.snapshot && value > truth.usage_count() + n.stock_done {
        Some("a reader's value counts something twice")
    } else {
        n.broken
    };
    let me = &mut n.reader;
    me.step = if config.saved_position { Step::SyncPosition } else { Step::Idle };
    me.must_deliver = 0;
    me.must_have = fold.len() as u8;
    me.must_show = if config.snapshot { value } else { 0 };
    me.external_before = external_part;
    (me.newest, me.temp_exists, me.file, me.tries) = (0, false, 0, 0);
}
