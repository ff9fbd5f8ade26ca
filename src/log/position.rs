//! Places in the log.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::log::scan::Reason;

/// A place in the log. Ordered as the events are: segment, then offset. Written `SEGMENT:OFFSET`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// Number of the segment.
    pub segment: u64,
    /// Bytes from the start of the segment.
    pub offset: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}:{}", self.segment, self.offset))
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Position> {
        let parsed = || {
            let (segment, offset) = text.split_once(':')?;
            Some(Position { segment: segment.parse().ok()?, offset: offset.parse().ok()? })
        };
        parsed().ok_or_else(|| Error::Invalid {
            what: "position",
            found: format!("{text:?}"),
            allowed: "SEGMENT:OFFSET, such as 3:64",
        })
    }
}

/// A stretch of the log that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Where it begins.
    pub position: Position,
    /// How many bytes; `None` for a missing segment, whose size nobody knows.
    pub len: Option<u64>,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { segment, offset } = self.position;
        match self.len {
            Some(len) => write!(f, "gap in segment {segment} at offset {offset}, {len} bytes: {}", self.reason),
            None => write!(f, "gap: segment {segment}: {}", self.reason),
        }
    }
}
