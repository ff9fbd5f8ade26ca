//! The log: segments that every process appends to and nobody locks.
//!
//! [`mod@format`] is the authority on bytes, [`scan`] finds frames and gaps in them; `folder` knows names and the floor
//! (rule R2), `segment` opens and creates, [`writer`] appends (rule R1), [`reader`] reads in order.

pub(crate) mod checkpoint;
mod crc;
pub(crate) mod folder;
pub mod format;
mod position;
pub mod reader;
pub mod scan;
pub(crate) mod segment;
pub mod writer;

pub use position::{Gap, Position};
pub use scan::Reason;
