//! How fsarena touches the system: commands, loop devices, mounts, the undo journal, kernel readers.
//!
//! Everything that is set up is first written into a [`undo::Journal`], so that a signal, a bug or a
//! SIGKILL leaves nothing behind that `fsarena recover` could not take away.

pub mod argv;
pub mod attribute;
pub mod cancel;
pub mod cgroup;
pub mod cpu;
pub mod device;
mod error;
pub mod host;
pub mod image;
pub mod kernel;
pub mod loopdev;
pub mod mount;
pub mod process;
pub mod program;
pub mod said;
pub mod undo;
pub mod zram;

pub use error::Error;
