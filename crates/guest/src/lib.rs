//! Guest kernels: finding one, packing fsarena into an initramfs, booting it, and the guest's own side.
//!
//! A guest needs no root and uses only image files as disks. It runs fsarena itself as `/init`, so that the same agent
//! measures in a guest and on the host.
//!
//! Modules whose names say little: `inside` is the work of `/init` in a guest; `opened` records the files that its
//! programs open; `counter` counts instructions; `writes` records and replays the writes to a disk; `stripes`
//! distributes an image over the members of an array; `suites` keeps the package lists of the releases of Debian.

pub mod cache;
pub mod config;
pub mod counter;
pub mod debian;
pub mod emulator;
mod error;
pub mod host_root;
pub mod host_tree;
pub mod inside;
pub mod kernel;
mod kernel_config;
mod kernel_dir;
pub mod launch;
pub mod layout;
pub mod module_build;
pub mod modules;
pub mod opened;
pub mod packing;
pub mod snapshot;
pub mod stripes;
pub mod suites;
pub mod terminal;
pub mod trial;
pub mod vmlinux;
pub mod writes;

pub use error::{Error, Result};
