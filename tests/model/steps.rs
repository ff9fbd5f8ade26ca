//! All steps that can be taken in a state, and the state in which everything starts.

use crate::compactor::Compactor;
use crate::listing::{Listing, Wanted};
use crate::reader::Reader;
use crate::rules::Config;
use crate::search::{Emit, Fingerprints};
use crate::snapshot::{Stock, UsageFolder};
use std::fmt;

use crate::state::{
    Budgets, Checkpoint, EXTERNALS, External, INODES, Inode, NONE, NUMBERS, Name, Names, State, reached,
};
use crate::writer::{self, Writer};
use crate::{compactor, power, reader, snapshot};

pub fn initial(config: &Config) -> State {
    let mut s = State {
        inodes: [Inode::new(0); INODES],
        inode_count: 1,
        names: [Name { now: NONE, disk: NONE }; NUMBERS],
        checkpoints: [Checkpoint::default(); NUMBERS],
        folder_on_disk: !config.birth,
        usage: UsageFolder::new(),
        externals: [External::default(); EXTERNALS],
        external_count: 0,
        writers: [Writer::new(); 3],
        compactors: [Compactor::new(); 2],
        reader: Reader::new(config.readers * config.refreshes),
        stock: Stock::new(config.stock),
        compact_lock: NONE,
        usage_lock: NONE,
        shared_offset: 0,
        budgets: Budgets {
            short_writes: config.short_writes,
            crashes: config.crashes,
            power_losses: config.power_losses,
            failed_syncs: config.failed_syncs,
            lost_locks: config.lost_locks,
            damaged_checkpoints: config.damaged_checkpoints,
            damaged_frames: config.damaged_frames,
        },
        durable: 0,
        stock_done: 0,
        damaged_event: NONE,
        reached: 0,
        broken: None,
    };
    // The log is born with checkpoint-0 and, here, with segment 1.
    s.inodes[0] = Inode::new(1);
    s.names[1].now = 0;
    s.checkpoints[0].here = true;
    if !config.birth {
        s.inodes[0].header_on_disk = true;
        s.sync_folder();
    }
    for (k, batches) in config.writers.iter().enumerate() {
        s.writers[k].begin(config, k, batches.len());
    }
    if !config.rules.private_descriptor {
        s.writers.iter_mut().for_each(|w| w.inherit(0, 1));
    }
    for k in 0..config.compactors as usize {
        s.compactors[k].rounds = if k == 1 { config.second_rounds.unwrap_or(config.rounds) } else { config.rounds };
    }
    s
}

/// Calls `emit` for every step. `losses` remembers from where power was lost already.
pub fn successors(config: &Config, s: &State, losses: Option<&mut Fingerprints>, emit: Emit) {
    for k in 0..config.writers.len() {
        writer::steps(config, s, k, emit);
    }
    for k in 0..config.compactors as usize {
        compactor::steps(config, s, k, emit);
    }
    if config.readers > 0 {
        reader::steps(config, s, emit);
    }
    if config.stock > 0 {
        snapshot::stock_steps(config, s, emit);
    }
    power::damage_steps(config, s, emit);
    power::loss_steps(config, s, losses, emit);
}

/// Who lists the folder, how slowly, and what for.
pub struct Ask<'a> {
    pub who: fmt::Arguments<'a>,
    pub slow: bool,
    pub wanted: Wanted,
}

/// A step that lists the folder: one step, or, with slow listings, one to open it and one for each
/// thing that it may have shown at the end. `act` gets the state with the listing closed again.
pub fn list(
    config: &Config,
    s: &State,
    ask: Ask,
    listing: impl Fn(&mut State) -> &mut Listing,
    emit: Emit,
    mut act: impl FnMut(State, Names, Emit),
) {
    let Ask { who, slow, wanted } = ask;
    let mut n = *s;
    let open = *listing(&mut n);
    let names = s.listed();
    if !slow {
        return act(n, names, emit);
    }
    if !open.is_open() {
        listing(&mut n).open(names);
        return emit(n, format_args!("{who} opens the folder to list it"));
    }
    *listing(&mut n) = Listing::closed(open.floor_seen);
    open.results(wanted, |shown| {
        let mut n = n;
        if shown != wanted.of(names) {
            n.mark(reached::STALE_LISTING);
        }
        // The listing counts only if the highest checkpoint that it named still exists.
        let gone = shown.checkpoints == 0 || !s.checkpoints[shown.floor() as usize].here;
        if gone && config.rules.stale_listing_is_void {
            n.mark(reached::VOID_LISTING);
            return emit(n, format_args!("{who} lists: void, checkpoint {} is gone", shown.floor()));
        }
        let mut shown = shown;
        if config.rules.floor_is_remembered {
            shown.checkpoints |= 1 << open.floor_seen.max(shown.floor());
            listing(&mut n).floor_seen = shown.floor();
        }
        act(n, shown, emit);
    });
}
