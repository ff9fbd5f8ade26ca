//! Damage costs only the frames whose bytes it covers, everybody agrees on it, and nothing that could be read is lost.

#[path = "../support/mod.rs"]
mod support;

mod bits;
mod files;
mod future;
mod modes;
mod oracle;
mod pieces;
mod stretches;
mod tails;
