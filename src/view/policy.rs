//! What a view shows of the same state.

use serde::{Deserialize, Serialize};

/// How a view counts. The log and the checkpoints are the same for every policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Uses by processes of origin `review` count as seen (`view_count`), not as used. Off: as used, as Hermes counts.
    pub reviews_are_views: bool,
}
