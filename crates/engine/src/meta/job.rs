//! Jobs of metadata operations.

use super::operation::{self, Operation};
use crate::check::within;
use crate::error::{Error, Result};
use serde::Serialize;

/// Where threads do their operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Each thread uses separate directories.
    Private,
    /// All threads use the same directories.
    Shared,
}

/// Metadata operations to be measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Job {
    /// The phases, in order. What one needs another must have made: names are made by [`Operation::Create`]
    /// and [`Operation::Mkdir`].
    pub phases: Vec<Operation>,
    /// Threads, 1–128.
    pub threads: u32,
    /// Names for each thread.
    pub names: u32,
    /// Whose directories.
    pub sharing: Sharing,
    /// Levels of directories below the top one; 0 is flat.
    pub depth: u32,
    /// Directories in each directory of a tree.
    pub fan_out: u32,
    /// Bytes of each file.
    pub bytes: u32,
    /// Milliseconds of one interval of the series.
    pub interval_ms: u32,
}

impl Default for Job {
    fn default() -> Job {
        Job {
            phases: vec![Operation::Create, Operation::Stat, Operation::Unlink],
            threads: 1,
            names: 10_000,
            sharing: Sharing::Private,
            depth: 0,
            fan_out: 10,
            bytes: 0,
            interval_ms: 100,
        }
    }
}

impl Job {
    /// Whether it can be done.
    ///
    /// # Errors
    /// [`Error::Job`] with the first thing that does not fit.
    pub fn check(&self) -> Result {
        within("threads", self.threads, 1, 128)?;
        within("names", self.names, 1, 100_000_000)?;
        within("depth", self.depth, 0, 16)?;
        within("fan_out", self.fan_out, 1, 1000)?;
        within("bytes", self.bytes, 0, 1 << 20)?;
        within("interval_ms", self.interval_ms, 1, 60_000)?;
        let directories = f64::from(self.fan_out).powi(self.depth as i32);
        if directories > 1e6 {
            return Err(Error::Job(format!(
                "a tree of depth {} and fan-out {} has {directories:.0} leaves; at most a million make sense",
                self.depth, self.fan_out
            )));
        }
        if self.phases.is_empty() {
            return Err(Error::Job("the list of phases is empty".into()));
        }
        operation::check_order(&self.phases)
    }
}
