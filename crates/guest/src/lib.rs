//! Guest kernels: finding one, packing fsarena into an initramfs, booting it, and the guest's own side.
//!
//! A guest needs no root, and touches no disk but image files. What it boots into is this very program as
//! `/init`, so that the same agent measures there as everywhere.

pub mod cache;
pub mod config;
pub mod counter;
pub mod debian;
pub mod emulator;
mod error;
pub mod inside;
pub mod kernel;
pub mod launch;
pub mod modules;
pub mod packing;
pub mod snapshot;
pub mod stripes;
pub mod trial;
pub mod vmlinux;
pub mod writes;

pub use error::{Error, Result};
