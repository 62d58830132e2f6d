//! Filesystem definitions, the guard that decides which devices fsarena may overwrite, and the lifecycle from mkfs to mount.
//!
//! | module | what it has |
//! |---|---|
//! | `def`, `filesystems` | what a filesystem must define, and every filesystem |
//! | `available` | which filesystems this machine can make and mount |
//! | `grammar` | the check of mkfs arguments and mount options of a plan |
//! | `fairness` | notes on differences between variants that make their comparison unfair |
//! | `advice` | the option sets to try with a filesystem, and the commands that make and mount a variant |
//! | `safety`, `written_log` | the guard, and the log of what fsarena wrote to devices of the user |
//! | `lifecycle`, `lazy_init` | making and mounting a filesystem, and the work of ext4 after the mount |
//! | `external_journal` | journals on a separate device |
//! | `device_copy` | reading and writing whole scratch devices |
//! | `error` | why a filesystem could not be made or a device not be used |

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
