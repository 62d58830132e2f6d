//! Guest kernels: finding one, packing fsarena into an initramfs, booting it, and the guest's own side.
//!
//! A guest needs no root and uses only image files as disks. It runs fsarena itself as `/init`, so that the same agent
//! measures in a guest and on the host.

pub mod access_recorder;
pub mod apt;
pub mod array_members;
pub mod cache;
pub mod config;
pub mod debian;
pub mod emulator;
mod error;
pub mod guest_boot;
pub mod host_root;
pub mod host_tree;
pub mod initramfs;
pub mod instruction_counter;
pub mod kernel;
mod kernel_config;
mod kernel_dir;
pub mod kvm_trial;
pub mod launch;
pub mod memory_layout;
pub mod module_build;
pub mod modules;
pub mod snapshot;
pub mod terminal;
pub mod vmlinux;
pub mod write_recording;

pub use error::{Error, Result};
