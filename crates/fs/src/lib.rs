//! Filesystem definitions, the guard that decides which devices fsarena may overwrite, and the lifecycle from mkfs to mount.

pub mod advice;
pub mod available;
pub mod def;
pub mod device_copy;
mod error;
pub mod external_journal;
pub mod fairness;
pub mod filesystems;
pub mod grammar;
mod lazy_init;
pub mod lifecycle;
pub mod safety;
mod written_log;

pub use error::Error;
