//! fsarena's interface to the system: commands, loop devices, mounts, the undo journal, kernel readers.
//!
//! What the modules hold:
//! - programs: [`argv`] and [`process_output`] (commands and their output), [`program`] (finding programs)
//! - processes: [`process`], [`pid_namespace`], [`cgroup`], [`limits`] (resource limits, `ulimit`), [`wait`]
//! - users: [`user`] and [`getent`] (looking them up), [`rights`] (what the process of a workload may do), and
//!   [`permission`] (whether this process may mount)
//! - block devices: [`device`], [`image`], [`loopdev`], [`zram`], [`device_mapper`], [`links`]
//!   (devices over a device, such as encryption)
//! - filesystems: [`mount`], [`dirs`] (directories and free space), [`extents`] and [`free_space`] (where data lies)
//! - the kernel: [`kernel`] (reading `/proc` and `/sys`), [`attribute`] (setting values below `/sys`), [`cpu`] (CPU
//!   time), [`host`] (facts about the machine)
//! - files: [`input`] (files that a user names), [`lock`] (flock(2))
//! - interruption: [`undo`] (the undo journal), [`cancel`] (signals)
//!
//! fsarena writes each change of the machine to an [`undo::Journal`] first, so that `fsarena recover` can undo it if fsarena
//! crashes or is killed.

pub mod argv;
pub mod attribute;
pub mod cancel;
pub mod cgroup;
pub mod cpu;
pub mod device;
pub mod device_mapper;
pub mod dirs;
mod error;
pub mod extents;
pub mod free_space;
pub mod getent;
pub mod host;
pub mod image;
pub mod input;
pub mod kernel;
pub mod limits;
pub mod links;
pub mod lock;
pub mod loopdev;
pub mod mount;
pub mod permission;
pub mod pid_namespace;
pub mod process;
pub mod process_output;
pub mod program;
pub mod rights;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
pub mod undo;
pub mod user;
pub mod wait;
pub mod zram;

pub use error::{CommandError, Error, UsingProcess, check_return, none_if_missing};
