//! The messages between ranks. They are JSON: a cluster can mix machines.

use fsarena_core::event::{Note, Outcome};
use fsarena_core::sample::{MetricSpec, Sample};
use fsarena_run::protocol::{PrivilegedRequest, Request};
use fsarena_sys::{kernel::SysRoot, process};
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, time::Duration};

/// What rank 0 asks of a rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToRank {
    /// Start the guard of its machine.
    Guard,
    /// Whether it sees these files.
    Look(Vec<PathBuf>),
    /// Answer with the time of its clock, this many times.
    Clock(u32),
    /// Do a cell; end it where nothing happens for this long.
    Cell(Box<Request>, Duration),
    /// Wait until its machine is idle.
    WaitUntilIdle(String),
    /// All others have come as far as it has.
    Met,
    /// Begin the task that it is ready for, after the barrier.
    Begin,
    /// Give the cell up.
    Abandon,
    /// Answer at once.
    Echo(Vec<u8>),
    /// Wait in the barrier, asleep or awake, and tell the CPU time that it took.
    Barrier(bool),
    /// The run is over.
    End,
}

/// What a rank tells rank 0.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromRank {
    /// Its machine.
    Hello(Machine),
    /// The first file that it does not see, and why.
    Looked(Option<String>),
    /// It waits for the others.
    Ready(PrivilegedRequest),
    /// Its machine is idle, or busy all the same.
    Idle(Option<Note>),
    /// A command of its printed a metric that is new to the run.
    Reading(MetricSpec),
    /// It has measured a task.
    Sample(Box<Sample>),
    /// Something a reader should know.
    Note(Note),
    /// Its cell ended.
    Ended(Outcome),
    /// The answer to an echo.
    Echo(Vec<u8>),
    /// CPU time that the barrier took, in seconds, and memory of the process, in bytes.
    Barrier(f64, u64),
}

/// The machine that a rank runs on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    pub host: String,
    /// The id of its boot: machines can have the same name, and containers of one machine different ones.
    pub boot: String,
}

impl Machine {
    /// This one.
    pub fn here() -> Machine {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Machine { host, boot: process::boot_id(&SysRoot::host()).unwrap_or_default() }
    }
}
