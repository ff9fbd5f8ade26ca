//! What is searched: the rules of the protocol, each of which can be taken away, and the size of a run.

/// Order of the steps around the snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The order of an earlier design: seal, checkpoint, then external event and rename.
    SealFirst,
    /// External event, rename, then seal and checkpoint (c1 to c10 as written in compactor.rs).
    ExternalFirst,
    /// External event, seal, checkpoint, and the rename only when the checkpoint is on disk.
    RenameLast,
}

/// How it is known what `.usage.json` descends from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// The temporary file of the newest external event still exists: `before`, else `after`.
    TempFile,
    /// The file equals `before` or `after`; when it is neither, it counts as `after` (or as `before`).
    DigestElseAfter,
    DigestElseBefore,
}

/// What a writer does with events whose `fdatasync` failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailedSync {
    /// Report `NotDurable`; the event is in the log once and stays there; go on in the next segment.
    Report,
    /// Append the event again to the next segment ("append there the events that must be durable").
    AppendAgain,
    /// Call `fdatasync` on the same segment once more and believe it.
    Retry,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slow {
    Nobody,
    Reader,
    Everybody,
}

/// Every field is `true` when the protocol is followed.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    // R1
    pub ack_by_offset: bool,
    pub private_descriptor: bool,
    pub seal_to_capacity: bool,
    pub successor_needs_seal: bool,
    // R2
    pub writer_checks_floor: bool,
    pub check_after_open: bool,
    pub reader_checks_floor: bool,
    pub compactor_checks_floor: bool,
    pub stale_listing_is_void: bool,
    pub floor_is_remembered: bool,
    // reading
    pub length_first: bool,
    pub length_after_listing: bool,
    pub absent_is_looked_up: bool,
    pub end_of_log_is_accepted: bool,
    pub second_listing: bool,
    pub third_listing: bool,
    pub missing_is_gap: bool,
    pub any_higher_is_successor: bool,
    pub short_segment_ends: bool,
    pub short_segment_reads_zeros: bool,
    pub bad_header_is_sealed: bool,
    pub search_after_torn_frame: bool,
    /// What was read is synced before a position is saved.
    pub position_synced: bool,
    // durability
    pub segment_synced_for_disk: bool,
    pub folder_synced_for_disk: bool,
    pub parent_synced_for_disk: bool,
    pub header_rewritten_for_disk: bool,
    // compaction
    pub folded_synced: bool,
    pub checkpoint_name_synced: bool,
    pub listed_before_fsync: bool,
    pub delete_by_older: bool,
    pub checkpoints_read_back: bool,
    pub second_checkpoint_bounds: bool,
    // snapshot
    pub external_synced: bool,
    pub folded_synced_for_external: bool,
    /// Instead of both: an external event builds only on those that a checkpoint holds.
    pub base_in_checkpoint: bool,
    pub found_file_synced: bool,
    pub temps_removed_last: bool,
    pub fold_after_usage_lock: bool,
    pub view_looks_again: bool,
    pub external_known_by_temp: bool,
    pub external_appended_again: bool,
    /// Not part of the protocol: the event carries the external total so far, not only the difference.
    pub external_carries_total: bool,
    pub rename_needs_the_event: bool,
    pub order: Order,
    pub evidence: Evidence,
    pub failed_sync: FailedSync,
}

impl Rules {
    /// The protocol, with the corrections that this model showed to be necessary.
    pub fn all() -> Rules {
        Rules {
            ack_by_offset: true,
            private_descriptor: true,
            seal_to_capacity: true,
            successor_needs_seal: true,
            writer_checks_floor: true,
            check_after_open: true,
            reader_checks_floor: true,
            compactor_checks_floor: true,
            stale_listing_is_void: true,
            floor_is_remembered: true,
            length_first: true,
            length_after_listing: true,
            absent_is_looked_up: true,
            end_of_log_is_accepted: true,
            second_listing: true,
            third_listing: true,
            missing_is_gap: true,
            any_higher_is_successor: true,
            short_segment_ends: true,
            short_segment_reads_zeros: true,
            bad_header_is_sealed: true,
            search_after_torn_frame: true,
            position_synced: true,
            segment_synced_for_disk: true,
            folder_synced_for_disk: true,
            parent_synced_for_disk: true,
            header_rewritten_for_disk: true,
            folded_synced: true,
            checkpoint_name_synced: true,
            listed_before_fsync: true,
            delete_by_older: true,
            checkpoints_read_back: true,
            second_checkpoint_bounds: true,
            external_synced: true,
            folded_synced_for_external: true,
            base_in_checkpoint: false,
            found_file_synced: true,
            temps_removed_last: true,
            fold_after_usage_lock: true,
            view_looks_again: true,
            external_known_by_temp: true,
            external_appended_again: true,
            external_carries_total: false,
            rename_needs_the_event: true,
            order: Order::ExternalFirst,
            evidence: Evidence::TempFile,
            failed_sync: FailedSync::Report,
        }
    }
}

/// Events that one `write` appends, one frame each; bit *i* is event *i*.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    pub events: u8,
    pub disk: bool,
}

/// A batch acknowledged when it is in the kernel (level Process).
pub fn process(events: &[u8]) -> Batch {
    Batch { events: events.iter().fold(0, |mask, e| mask | 1 << e), disk: false }
}

/// A batch acknowledged when it is on disk (level Disk).
pub fn disk(events: &[u8]) -> Batch {
    Batch { disk: true, ..process(events) }
}

#[derive(Clone, Debug)]
pub struct Config {
    pub rules: Rules,
    /// Usable cells of a segment; a frame takes two.
    pub capacity: u8,
    pub writers: Vec<Vec<Batch>>,
    pub compactors: u8,
    pub rounds: u8,
    /// Runs of the second compactor, if not as many as the first one's.
    pub second_rounds: Option<u8>,
    pub readers: u8,
    pub refreshes: u8,
    /// Whether compactors write the snapshot and readers read it.
    pub snapshot: bool,
    /// Increments that a stock Hermes process makes in `.usage.json`.
    pub stock: u8,
    /// Whose listings take two steps and may miss what comes or goes in between.
    pub slow: Slow,
    /// The folder was just made and nothing of it is on disk.
    pub birth: bool,
    /// Budgets of faults.
    pub short_writes: u8,
    pub crashes: u8,
    pub power_losses: u8,
    pub failed_syncs: u8,
    pub lost_locks: u8,
    pub damaged_checkpoints: u8,
    pub damaged_frames: u8,
    /// Frames may be damaged while a compactor runs, not only between runs.
    pub damage_while_compacting: bool,
    /// Whether the page cache may drop frames that a failed sync left behind, and headers.
    pub eviction: bool,
    pub header_eviction: bool,
    /// The reader saves its position after each refresh and goes on from it after a loss.
    pub saved_position: bool,
    /// A writer seals what a loss left unsealed below its segment before its first append (it may).
    pub writers_seal_short: bool,
    /// No segment above this number is made; a process that would have to stops there.
    pub highest_number: u8,
    pub state_limit: usize,
}

impl Config {
    pub fn new() -> Config {
        Config {
            rules: Rules::all(),
            capacity: 3,
            writers: vec![],
            compactors: 0,
            rounds: 1,
            second_rounds: None,
            readers: 0,
            refreshes: 1,
            snapshot: false,
            stock: 0,
            slow: Slow::Nobody,
            birth: false,
            short_writes: 0,
            crashes: 0,
            power_losses: 0,
            failed_syncs: 0,
            lost_locks: 0,
            damaged_checkpoints: 0,
            damaged_frames: 0,
            damage_while_compacting: true,
            eviction: false,
            header_eviction: false,
            saved_position: false,
            writers_seal_short: false,
            highest_number: 7,
            state_limit: 20_000_000,
        }
    }

    /// The same run with some rules changed.
    pub fn without(&self, change: impl FnOnce(&mut Rules)) -> Config {
        let mut config = self.clone();
        change(&mut config.rules);
        config
    }
}
