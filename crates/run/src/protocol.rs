//! The protocol between an executor and the agent: one JSON request in, JSON lines out.

use crate::error::{CellError, CellResult, Result};
use fsarena_core::event::{CellEvent, Outcome};
use fsarena_core::{cell::Cell, metric::Declared, plan::IdlePlan};
use fsarena_load::workload::Client;
use fsarena_sys::{Error, user::User};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

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
    /// The part of the work that this process does.
    #[serde(default)]
    pub role: ProcessRole,
    /// The power supply.
    #[serde(default)]
    pub power: Power,
    /// The user to run the workload's server as, where it has one and runs as root.
    #[serde(default)]
    pub server_user: Option<User>,
    /// The client that this agent is, where several do the work together. It begins a task when the process that started
    /// it answers.
    #[serde(default)]
    pub client: Option<Client>,
    /// The metrics that commands of this run have declared so far by printing them.
    #[serde(default)]
    pub declared: Declared,
}

impl Request {
    /// The directories that a task writes to: its own, that on the source disk, and the filesystem below a layer.
    pub fn places(&self) -> Vec<&Path> {
        let below = self.mount.as_ref().filter(|mount| mount.layer.is_some());
        let below = below.map(|mount| mount.target.as_path());
        [self.root.as_path(), &self.other].into_iter().chain(below).collect()
    }
}

/// The power supply of a guest while its cell runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Power {
    /// It stays on.
    #[default]
    On,
    /// It is cut during the first task.
    Cut,
    /// It has come back after a cut: the agent does what follows the first task.
    Restored,
}

/// The part of an agent's work that a process does.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessRole {
    /// Everything, with the rights of this process.
    #[default]
    Single,
    /// What only root may do. The supervisor starts the worker.
    Supervisor(Rights),
    /// The workload, with these rights. The worker sends its supervisor a [`PrivilegedRequest`] for what only root may do.
    Worker(Rights),
}

/// The rights of the process that runs a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// Its user.
    pub user: User,
    /// Whether mount namespaces are to be had, and everything that it need not write to is read-only.
    pub namespace: bool,
    /// Whether it runs in a PID namespace, whose end ends every process that the workload started. Only with mounts of its
    /// own, since /proc has to show that namespace.
    pub pid_namespace: bool,
}

impl ProcessRole {
    /// This role with a workload that runs as root, as the supervisor does.
    pub fn as_root(&self) -> ProcessRole {
        match self {
            ProcessRole::Supervisor(rights) => {
                ProcessRole::Supervisor(Rights { user: User::of_process(), ..rights.clone() })
            }
            other => other.clone(),
        }
    }

    /// Whether every process that the workload starts ends with the process in this role.
    pub fn ends_all(&self) -> bool {
        matches!(self, ProcessRole::Supervisor(Rights { pid_namespace: true, .. }))
    }

    /// Makes a directory and all in it the property of the user that workloads run as.
    ///
    /// # Errors
    /// Where its filesystem refuses.
    pub fn give(&self, dir: &Path) -> Result<()> {
        if let ProcessRole::Supervisor(Rights { user, .. }) = self
            && !user.is_root()
        {
            user.chown_tree_to_user(dir).map_err(Error::io("giving away", dir))?;
        }
        Ok(())
    }
}

/// A request of a worker to its supervisor, or of a client to the process that started it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrivilegedRequest {
    /// Wait until all clients have ended what comes before the task of this name: its preparation can need that.
    Meet(String),
    /// Wait until nothing disturbs the task of this name, and until all clients are ready for it.
    WaitUntilIdle(String),
    /// Unmount the filesystem under test and mount it again.
    Remount,
    /// Drop the caches.
    DropCaches,
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
    /// The layer over it, where there is one.
    #[serde(default)]
    pub layer: Option<LayerRequest>,
}

/// How to set up the layer over the mounted filesystem.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LayerRequest {
    /// The level of the factor `layer`.
    pub level: String,
    /// The command that starts the program of the layer, without its own arguments; empty if it has none.
    pub program: Vec<String>,
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
    /// A worker requests something of its supervisor, or a client of the process that started it, and waits for an [`Outcome`].
    Ask(PrivilegedRequest),
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

/// Where an agent reads what it is told after its request.
pub type Answers<'a> = &'a mut dyn BufRead;

/// Writes one line of the protocol.
///
/// # Errors
/// Those of the pipe.
pub fn write(to: &mut dyn Write, what: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(what)?;
    text.push(b'\n');
    to.write_all(&text)?;
    to.flush()
}

/// Asks the process that started this one for something and waits until it is done.
///
/// # Errors
/// Its own failure, or a process that is gone.
pub fn ask(answers: Answers, ask: PrivilegedRequest) -> CellResult {
    let mut answer = String::new();
    let answered = write(&mut io::stdout(), &Line::Ask(ask)).and_then(|()| answers.read_line(&mut answer));
    let outcome = answered.and_then(|_| Ok(serde_json::from_str(&answer)?));
    CellError::check(outcome.map_err(Error::io("asking", "the process that started this one"))?)
}
