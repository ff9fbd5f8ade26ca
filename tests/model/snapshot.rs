//! `.usage.json` (one counter), the stock Hermes processes that rewrite it under its lock, the compactor's
//! steps c3, c4, c6 and c7, and what a view adds to the log.
//!
//! Names in that folder come and go with `rename`, which a journal keeps in order: a power loss takes
//! the folder back to some moment since its last `fsync`, never to a mixture of two.

use crate::compactor::{Step, finish, go_deleting};
use crate::fold::{Fold, external_sum};
use crate::rules::{Config, Evidence, Order, Rules};
use crate::search::{Bytes, Emit};
use crate::state::{EXTERNAL_0, External, NONE, State, reached};

/// The holder of `.usage.json.lock` that is no compactor.
const STOCK: u8 = 9;
const MOMENTS: usize = 12;

/// What the folder held at one moment: the counter in the file, the temporary files (bit *i*: the one
/// that external event *i* names), and how many stock increments had been made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Moment {
    pub file: u8,
    pub temps: u8,
    pub stock_done: u8,
}

#[derive(Clone, Copy, Debug)]
pub struct UsageFolder {
    pub file: u8,
    pub temps: u8,
    /// Moments since the last `fsync`, which the power can take the folder back to.
    moments: [Moment; MOMENTS],
    count: u8,
}

impl UsageFolder {
    pub fn new() -> UsageFolder {
        UsageFolder { file: 0, temps: 0, moments: [Moment::default(); MOMENTS], count: 1 }
    }

    pub fn moments(&self) -> &[Moment] {
        &self.moments[..self.count as usize]
    }

    fn changed(&mut self, stock_done: u8) {
        let now = Moment { file: self.file, temps: self.temps, stock_done };
        if self.moments().last() != Some(&now) {
            self.moments[self.count as usize] = now;
            self.count += 1;
        }
    }

    pub fn sync(&mut self, stock_done: u8) {
        self.count = 0;
        self.moments = [Moment::default(); MOMENTS];
        self.changed(stock_done);
    }

    pub fn goes_back_to(&mut self, moment: Moment) {
        (self.file, self.temps) = (moment.file, moment.temps);
        self.sync(moment.stock_done);
    }

    pub fn encode(&self, out: &mut Bytes) {
        out.put_all(&[self.file, self.temps, self.count]);
        for moment in self.moments() {
            out.put_all(&[moment.file, moment.temps, moment.stock_done]);
        }
    }
}

/// What the file is taken to descend from.
fn base(rules: &Rules, newest: Option<External>, file: u8, temp_exists: bool) -> u8 {
    let Some(e) = newest else { return 0 };
    match rules.evidence {
        Evidence::TempFile if temp_exists => e.before,
        Evidence::TempFile => e.after,
        _ if file == e.before => e.before,
        _ if file == e.after => e.after,
        Evidence::DigestElseAfter => e.after,
        Evidence::DigestElseBefore => e.before,
    }
}

/// Log + external events + what the file has beyond the base now.
pub fn view(config: &Config, s: &State, log: &Fold, file: u8, temps: u8) -> u8 {
    log.usage_count() + external_part(config, s, log, file, temps)
}

pub fn external_part(config: &Config, s: &State, log: &Fold, file: u8, temps: u8) -> u8 {
    external_sum(config, log, &s.externals) + beyond_base(config, s, log, file, temps)
}

fn beyond_base(config: &Config, s: &State, log: &Fold, file: u8, temps: u8) -> u8 {
    let index = log.newest_external().map(|e| e - EXTERNAL_0);
    let newest = index.map(|i| s.externals[i as usize]);
    let temp_exists = index.is_some_and(|i| temps >> i & 1 == 1);
    file.saturating_sub(base(&config.rules, newest, file, temp_exists))
}

/// The file changed: a power loss may take it back, if there can be one.
fn changed(n: &mut State) {
    let done = n.stock_done;
    if n.budgets.power_losses > 0 {
        n.usage.changed(done);
    }
}

pub fn compactor_steps(config: &Config, s: &State, k: usize, emit: Emit) {
    let rules = &config.rules;
    let c = s.compactors[k];
    let mut n = *s;
    match c.step {
        Step::TakeUsageLock if s.usage_lock != NONE => {
            n.mark(reached::LOCK_BUSY);
            without_snapshot(config, &mut n, k);
            emit(n, format_args!("C{k} does not get .usage.json.lock in time, goes on without the snapshot"));
        }
        Step::TakeUsageLock => {
            n.usage_lock = k as u8;
            n.compactors[k].step = if rules.fold_after_usage_lock { Step::FoldUnderLock } else { Step::ReadFile };
            n.compactors[k].cursor.refresh();
            emit(n, format_args!("C{k} takes .usage.json.lock"));
        }
        Step::ReadFile => {
            let log = &c.cursor.fold;
            let difference = beyond_base(config, s, log, s.usage.file, s.usage.temps);
            let total = external_sum(config, log, &s.externals) + difference;
            let after = log.usage_count() + total;
            let newest = log.newest_external();
            if newest.is_some_and(|e| s.usage.temps >> (e - EXTERNAL_0) & 1 == 1) {
                n.mark(reached::TEMP_IS_EVIDENCE);
            }
            let index = s.external_count;
            n.externals[index as usize] = External { difference, total, before: s.usage.file, after };
            n.external_count += 1;
            n.compactors[k].external = EXTERNAL_0 + index;
            n.compactors[k].step = Step::WriteTemp;
            if rules.found_file_synced {
                n.usage.sync(s.stock_done);
            }
            emit(n, format_args!("C{k} reads the file ({}), {difference} beyond its base, fsyncs it", s.usage.file));
        }
        Step::WriteTemp => {
            let bit = 1 << (c.external - EXTERNAL_0);
            n.usage.temps = if rules.temps_removed_last { s.usage.temps | bit } else { bit };
            changed(&mut n);
            if rules.found_file_synced {
                n.usage.sync(s.stock_done);
            }
            let me = &mut n.compactors[k];
            me.number = me.cursor.base + 1;
            me.step = Step::AppendList;
            if n.disk_matters(config) && rules.folded_synced_for_external {
                n.compactors[k].step = Step::SyncForExternal;
            }
            emit(n, format_args!("C{k} writes and fsyncs temporary file {}", c.external - EXTERNAL_0));
        }
        Step::Rename => {
            let index = c.external - EXTERNAL_0;
            let recorded = c.cursor.fold.newest_external() == Some(c.external);
            if rules.order == Order::RenameLast && rules.rename_needs_the_event && !recorded {
                n.usage_lock = NONE;
                go_deleting(&mut n, k);
                return emit(n, format_args!("C{k} does not find its event x{index} in what it folded: no rename"));
            }
            n.usage.file = s.externals[index as usize].after;
            n.usage.temps &= !(1 << index);
            changed(&mut n);
            n.compactors[k].step = Step::RemoveTemps;
            emit(n, format_args!("C{k} renames temporary file {index} into place: {}", n.usage.file));
        }
        _ => {
            n.usage.temps = 0;
            changed(&mut n);
            n.usage.sync(n.stock_done);
            without_snapshot(config, &mut n, k);
            n.usage_lock = if s.usage_lock == k as u8 { NONE } else { s.usage_lock };
            emit(n, format_args!("C{k} fsyncs that folder, removes other temporary files, unlocks"));
        }
    }
}

/// Where a run goes on after c7, or when it did not get the lock.
fn without_snapshot(config: &Config, n: &mut State, k: usize) {
    match config.rules.order {
        Order::ExternalFirst => n.compactors[k].step = Step::SealList,
        Order::SealFirst => go_deleting(n, k),
        Order::RenameLast if n.compactors[k].external == NONE => n.compactors[k].step = Step::SealList,
        Order::RenameLast if n.compactors[k].newest == 0 => finish(n, k),
        Order::RenameLast => go_deleting(n, k),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StockStep {
    Lock,
    Read,
    Replace,
    Unlock,
}

/// A Hermes process without this project: lock, read the file, replace it, unlock.
#[derive(Clone, Copy, Debug)]
pub struct Stock {
    pub step: StockStep,
    pub left: u8,
    read: u8,
}

impl Stock {
    pub fn new(left: u8) -> Stock {
        Stock { step: StockStep::Lock, left, read: 0 }
    }

    pub fn dies(&mut self) {
        *self = Stock::new(self.left);
    }

    pub fn encode(&self, out: &mut Bytes) {
        out.put_all(&[self.step as u8, self.left, self.read]);
    }
}

pub fn stock_steps(_: &Config, s: &State, emit: Emit) {
    let mut n = *s;
    match s.stock.step {
        StockStep::Lock => {
            if s.stock.left > 0 && s.usage_lock == NONE {
                n.usage_lock = STOCK;
                n.stock.step = StockStep::Read;
                emit(n, format_args!("stock takes .usage.json.lock"));
            }
        }
        StockStep::Read => {
            (n.stock.read, n.stock.step) = (s.usage.file, StockStep::Replace);
            emit(n, format_args!("stock reads the file: {}", s.usage.file));
        }
        StockStep::Replace => {
            n.usage.file = s.stock.read + 1;
            n.stock_done += 1;
            n.stock.left -= 1;
            (n.stock.read, n.stock.step) = (0, StockStep::Unlock);
            changed(&mut n);
            emit(n, format_args!("stock replaces the file by {}", n.usage.file));
        }
        StockStep::Unlock => {
            n.usage_lock = NONE;
            n.stock.step = StockStep::Lock;
            emit(n, format_args!("stock unlocks"));
        }
    }
}
