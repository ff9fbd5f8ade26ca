//! Explicit-state model of the log, its compaction and the snapshot.
//!
//! The search visits every state that some order of system calls can lead to, one call a step; any process
//! may stop for ever after any step. It is small on purpose: few processes, few events, segments that hold
//! one or two frames. Every rule can be taken away (`rules.rs`), and the tests show what goes wrong then.
//!
//! ```text
//! check -> search -> steps -> writer, compactor (external, snapshot), reader (cursor), power
//!                 -> invariants           all of them -> listing, fold -> state, rules
//! ```
//!
//! One step is one system call, except where nobody can tell the difference: `write` and the `lseek` after it
//! (the offset is private), a length and the read up to it (those bytes are final), a temporary file and the
//! `link` of it (nobody else looks at it), `open` and `fdatasync` of a sealed segment.
//!
//! Not covered: bytes within a frame (a frame is two cells), external events in several frames, timestamps and
//! removed skills (one counter), a full disk, a failed `fsync` of a folder, a disk that lies, two losses with
//! a snapshot, frames that are damaged while a reader runs, compact.lock's own file being replaced (a lost lock
//! stands for it), the listing that finds the newest checkpoint (it is one step also where listings are slow),
//! a file system that does not keep the renames of `.usage.json` in order across a loss.
//!
//! `HERMES_LOG_LONG=1` adds runs that take minutes. Times are those of an optimised build.
#![cfg(test)]
#![allow(unreachable_pub)] // one program, nothing in it is public

mod check;
mod compactor;
mod cursor;
mod external;
mod fold;
mod invariants;
mod listing;
mod log_tests;
mod loss_tests;
mod mutations;
mod power;
mod reader;
mod rules;
mod search;
mod snapshot;
mod snapshot_tests;
mod state;
mod steps;
mod sync_tests;
mod writer;
