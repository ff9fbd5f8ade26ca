//! `hermes_log` for Python: the classes of `_native.pyi`, which has their documentation.
//!
//! | to change | look in |
//! |---|---|
//! | what is raised | [`error`] |
//! | names and values that cross the border | [`text`], [`json`] |
//! | what threads and forked children share | [`shared`] |
//! | who may use the lock of a skill | [`skill`] |
//! | what is seen of a credential, and what of its secrets | [`credential`] |
//! | what the plugin for Hermes calls | [`usage`], and [`difference`] for what a change of a record means |
//!
//! No lock is held while Python runs, and none is waited for while another thread could need Python to give it back.

mod auth;
#[expect(clippy::disallowed_methods, reason = "the seam for file I/O is the library's own")]
mod beyond;
mod counted;
mod credential;
mod difference;
mod emitter;
mod error;
mod event;
mod follow;
mod json;
mod profile;
mod reports;
mod shared;
mod skill;
mod text;
mod usage;
mod view;
mod writer;

/// The `builtins` of the interpreter that imported the module first.
static INTERPRETER: std::sync::OnceLock<usize> = std::sync::OnceLock::new();

#[pyo3::pymodule]
mod _native {
    use pyo3::exceptions::PyImportError;
    use pyo3::prelude::*;

    /// PyO3 refuses other interpreters only for modules within modules; what it caches is of one interpreter.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let this = module.py().import("builtins")?.as_ptr() as usize;
        if *super::INTERPRETER.get_or_init(|| this) == this {
            return Ok(());
        }
        Err(PyImportError::new_err("hermes_log is used by another interpreter of this process, and can be by one only"))
    }

    #[pymodule_export]
    use crate::auth::{Auth, Exported, Imported, RefreshRefused};
    #[pymodule_export]
    use crate::credential::{Alternate, Claim, Credential, CredentialStatus, Refreshed, Secret};
    #[pymodule_export]
    use crate::emitter::Emitter;
    #[pymodule_export]
    use crate::event::Event;
    #[pymodule_export]
    use crate::follow::{Compacted, Follower, Frame};
    #[pymodule_export]
    use crate::profile::{Profile, SnapshotLock};
    #[pymodule_export]
    use crate::reports::{Compaction, Gap, Position, Status, Verified};
    #[pymodule_export]
    use crate::skill::{SkillLock, SkillLocks, Skills};
    #[pymodule_export]
    use crate::usage::{Base, Beyond, Usage};
    #[pymodule_export]
    use crate::view::View;
    #[pymodule_export]
    use crate::writer::Writer;
}
