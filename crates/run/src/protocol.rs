//! The protocol between an executor and the agent: one JSON request in, JSON lines out.

use fsarena_core::cell::Cell;
use fsarena_core::event::{CellEvent, Outcome};
use fsarena_core::plan::IdlePlan;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One cell to run, with everything the agent needs to find.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// What to do.
    pub cell: Cell,
    /// When the machine counts as idle.
    pub idle: IdlePlan,
    /// The filesystem to mount first and unmount last; none where a directory is taken as it is.
    pub mount: Option<MountRequest>,
    /// The directory to work in: below the mount point where there is one.
    pub root: PathBuf,
    /// The directory on the source disk, with the inputs that all cells share.
    pub other: PathBuf,
    /// Major and minor number of the device under test, where there is one.
    pub device: Option<(u32, u32)>,
    /// What else to find out about each timed task.
    #[serde(default)]
    pub profiling: Option<Profiling>,
}

/// What each timed task is followed for; [`CellEvent::Profile`] tells the result. The figures measured meanwhile
/// include the work of the tracer, so none of them is worth keeping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profiling {
    /// The locks that the task waits for, on this kernel.
    Locks,
    /// The functions that the whole machine runs, in a guest, sampled at this rate per second of its clock.
    Stacks {
        /// Samples a second.
        hz: u32,
    },
}

/// How to mount the filesystem under test.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MountRequest {
    /// The device.
    pub source: PathBuf,
    /// The mount point.
    pub target: PathBuf,
    /// The kernel's name of the filesystem.
    pub fs_type: String,
    /// Comma-separated options; may be empty.
    pub options: String,
    /// The device of its journal, if that is separate.
    #[serde(default)]
    pub journal: Option<PathBuf>,
    /// By system calls alone: guests lack mount(8).
    #[serde(default)]
    pub by_call: bool,
}

/// The request to a guest. Its boot fills in where it found the disks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Guest {
    /// The cell to run.
    pub request: Request,
    /// The kernel's name of the source disk's filesystem, which is mounted on the request's `other`.
    pub other_type: String,
}

/// One line from the agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// Something happened.
    Event(CellEvent),
    /// The cell ended; nothing follows.
    End(Outcome),
}

impl Line {
    /// Reads a line that an agent wrote.
    ///
    /// # Errors
    /// That it is none, and how it begins.
    pub fn read(text: &str) -> Result<Line, String> {
        serde_json::from_str(text).map_err(|error| {
            let begin: String = text.chars().take(200).collect();
            format!("wrote a line that is not an event: {begin:?}: {error}")
        })
    }
}
