//! Which process an event came from.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Where a frame comes from: `[kind, process id, session]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin<'a> {
    /// Kind of process: `cli`, `session`, `gateway`, `cron`, `batch`, `sub-agent`, `review`, `curator`, or any other.
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
    /// Its process id.
    pub process: u32,
    /// The session that it serves, if it serves one.
    #[serde(borrow)]
    pub session: Option<Cow<'a, str>>,
}

impl<'a> Origin<'a> {
    /// The kind of a review.
    pub(crate) const REVIEW: &'static str = "review";

    /// This process, as a `kind`.
    pub fn here(kind: impl Into<Cow<'a, str>>) -> Self {
        Origin { kind: kind.into(), process: crate::process_id(), session: None }
    }

    /// The same, borrowed from nothing.
    #[must_use]
    pub fn into_owned(self) -> Origin<'static> {
        Origin {
            kind: self.kind.into_owned().into(),
            process: self.process,
            session: self.session.map(|session| session.into_owned().into()),
        }
    }

    /// Whether this is a review, whose activity a [policy](crate::view::Policy) may count as seen instead of used.
    #[must_use]
    pub fn is_review(&self) -> bool {
        self.kind == Origin::REVIEW
    }
}
