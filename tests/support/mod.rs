//! What several test files need.
#![allow(dead_code, unreachable_pub)] // each of them uses a part

pub mod emitting;
pub mod log_files;
pub mod processes;
pub mod usage_file;
