//! An append-only event log for the many processes of one agent profile.
//!
//! Every process appends events to the profile's log with one `write(2)`, nobody waits for anybody, readers fold the
//! log into a [`View`], and a [compactor](compact) turns what is folded into a checkpoint and a fresh `.usage.json`.
//!
//! ```
//! use hermes_log::{Counter, Durability, Event, Origin, Profile};
//!
//! # let home = tempfile::tempdir()?;
//! let profile = Profile::at(home.path());
//! let mut writer = profile.writer(Origin::here("session"))?;
//! let position = writer.append(&Event::used("pdf"), Durability::Process)?;
//!
//! let view = profile.view()?;
//! assert!(view.position() > position);
//! assert_eq!(view.skill("pdf").map(|skill| skill.count(Counter::Use)), Some(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Map
//!
//! Arrows point downwards: `cli` -> [`auth`], [`skill`] -> [`compact`] -> [`view`] -> [`log`] -> [`event`], `sys`.
//!
//! | to change | look in |
//! |---|---|
//! | bytes on disk | [`log::format`], and [`event::batch`] for the payload |
//! | appending, sealing, acknowledging | [`log::writer`] |
//! | what a reader does at damage, at the end, at a missing segment | `log::scan`, `log::reader` |
//! | what an event means | `view::state` |
//! | `.usage.json` and work that others do on it | [`view::records`], [`view::external`], `compact::snapshot` |
//! | credentials: claims, refreshes, `auth.json` | [`auth`]; what their events mean: [`view::auth`] |
//! | skills' files: finding, locking, changing them; the curator's rule | [`skill`] |
//! | locks and their limits | `lock`, [`budgets`] |
//! | a command | `cli` |

#![warn(missing_docs, clippy::disallowed_methods)]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

pub mod auth;
pub mod budgets;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
pub mod compact;
pub mod emitter;
pub mod error;
pub mod event;
mod follow;
mod lock;
pub mod log;
mod profile;
pub mod skill;
#[cfg(feature = "fault-injection")]
pub mod sys;
#[cfg(not(feature = "fault-injection"))]
mod sys;
mod verify;
pub mod view;

pub use compact::{CompactOptions, Compaction};
pub use emitter::{Emitter, EmitterOptions};
pub use error::{Error, Result};
pub use event::{AuthEvent, Counter, Event, Fields, Origin, Secret, State, Status, StatusKind};
pub use follow::{Followed, Follower, Start};
pub use log::writer::{Durability, Options, Writer};
pub use log::{Gap, Position, Reason};
pub use profile::Profile;
pub use skill::{SkillLock, Skills};
pub use sys::Moment;
pub use sys::posix::process_id;
pub use verify::{Entry, Verified};
pub use view::{Policy, SkillView, View};
