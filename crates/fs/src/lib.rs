//! Filesystem definitions, the guard that decides which devices fsarena may overwrite, and the lifecycle from mkfs to mount.

pub mod advice;
pub mod available;
pub mod def;
pub mod device_copy;
mod error;
pub mod external;
pub mod fairness;
pub mod filesystems;
pub mod grammar;
mod lazy;
pub mod lifecycle;
pub mod safety;
pub mod written;

pub use error::Error;
