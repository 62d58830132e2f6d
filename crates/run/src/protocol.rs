//! The protocol between an executor and an agent: the executor sends one request as JSON, the agent sends lines of
//! JSON.

use crate::ageing::AgeingStep;
use crate::error::{CellError, CellResult, Result};
use crate::shell::Shell;
use fsarena_core::event::{CellEvent, Outcome};
use fsarena_core::{
    cell::{Cell, TaskId},
    metric::DeclaredMetrics,
    plan::IdlePlan,
};
use fsarena_fs::lifecycle::{self, Devices, VariantOptions};
use fsarena_fs::{def::FsDef, filesystems};
use fsarena_guest::{access_recorder::AccessedPaths, memory_layout::MemoryLayout};
use fsarena_load::workload::Client;
use fsarena_sys::{Error, user::User};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

/// A request to an agent: the cell to run, and everything that the agent needs for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AgentRequest {
    /// The cell to run.
    pub cell: Cell,
    /// When the machine counts as idle.
    pub idle: IdlePlan,
    /// The filesystem to mount before and unmount after the work; None to work in an existing directory or on a bare
    /// device.
    pub mount: Option<MountRequest>,
    /// The directory or bare device to work on. If `mount` is set, it is a directory below the mount point.
    pub root: PathBuf,
    /// The directory on the source disk, with the inputs that all cells share.
    #[serde(rename = "other")]
    pub source_dir: PathBuf,
    /// Major and minor number of the device under test, if it is known.
    pub device: Option<(u32, u32)>,
    /// The task to profile, if any.
    #[serde(default)]
    pub profiled_task: Option<ProfiledTask>,
    /// The part of the work that this process does.
    #[serde(default)]
    pub role: ProcessRole,
    /// The power supply.
    #[serde(default)]
    pub power: Power,
    /// The user to run the workload's server as, if the workload runs as root and starts a server.
    #[serde(default)]
    pub server_user: Option<User>,
    /// The number of this agent, if several agents do the work together as clients. Such an agent begins a task only
    /// after the process that started it has answered a [`PrivilegedRequest`].
    #[serde(default)]
    pub client: Option<Client>,
    /// The metrics that commands of this run have printed so far.
    #[serde(rename = "declared", default)]
    pub declared_metrics: DeclaredMetrics,
    /// Whether the agent only makes the files that the tasks read, below `root`, and runs no task.
    #[serde(rename = "only_fill", default)]
    pub only_makes_files: bool,
    /// Whether to measure the layout of the mounted filesystem before and after the tasks.
    #[serde(rename = "layout", default)]
    pub measures_layout: bool,
    /// The step by which the agent ages the mounted filesystem, if it ages one. Such an agent runs no task, and
    /// measures nothing.
    #[serde(rename = "age", default, skip_serializing_if = "Option::is_none")]
    pub ageing_step: Option<AgeingStep>,
    /// The paths of this machine to copy to the source disk, below [`COPIES_DIR`]. An agent with this field makes the
    /// inputs that a guest cannot make, and runs no task. None for other agents.
    #[serde(rename = "staged", default, skip_serializing_if = "Option::is_none")]
    pub paths_to_copy: Option<Vec<PathBuf>>,
    /// Paths of the host that a guest with programs of the host looks up again after it has dropped the caches. A task
    /// with cold caches should not measure these look-ups.
    #[serde(rename = "host_names", default, skip_serializing_if = "Vec::is_empty")]
    pub paths_to_look_up: Vec<PathBuf>,
    /// The shell to run instead of the tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<Shell>,
}

/// The directory on the source disk with copies of files of this machine, at their paths below it.
pub const COPIES_DIR: &str = "copies";

impl AgentRequest {
    /// The paths to sync after a task, in this order: the file of the layer whose fsync makes its program write, if the
    /// layer has one; the directory under test; the directory on the source disk; and the filesystem below the layer,
    /// if there is one.
    pub fn paths_to_sync(&self) -> Vec<&Path> {
        let layered = self.mount.as_ref().filter(|mount| mount.layer.is_some());
        let sync_file = layered.and_then(|mount| mount.layer.as_ref()?.sync_file.as_deref());
        let below = layered.map(|mount| mount.target.as_path());
        sync_file.into_iter().chain([self.root.as_path(), &self.source_dir]).chain(below).collect()
    }

    /// Whether files that are prepared for a task lie below a layer, which copies them up when they change.
    pub fn layer_copies_up(&self) -> bool {
        let layer = self.mount.as_ref().and_then(|mount| mount.layer.as_ref());
        layer.is_some_and(|layer| layer.copies_up)
    }
}

/// The state of the power supply of a guest while its cell runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Power {
    /// It stays on.
    #[default]
    On,
    /// It is cut during the first task.
    Cut,
    /// It is on again after a cut: the agent skips the first task.
    Restored,
}

/// The part of the work of an agent that a process does.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessRole {
    /// Does everything, with the rights of this process.
    #[default]
    Single,
    /// Starts the worker, and does for it what only root may do.
    Supervisor(Rights),
    /// Runs the workload with these rights. The worker sends its supervisor a [`PrivilegedRequest`] for what only root
    /// may do.
    Worker(Rights),
}

/// The rights of the process that runs a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// The user that it runs as.
    pub user: User,
    /// Whether it runs in a mount namespace in which everything that it need not write to is read-only.
    #[serde(rename = "namespace")]
    pub has_mount_namespace: bool,
    /// Whether it runs in a PID namespace, with a /proc that shows that namespace: when the namespace ends, the kernel
    /// kills every process that the workload started.
    #[serde(rename = "pid_namespace")]
    pub has_pid_namespace: bool,
}

impl ProcessRole {
    /// This role, but with a workload that runs as the user of this process. For a supervisor that is root.
    pub fn as_root(&self) -> ProcessRole {
        match self {
            ProcessRole::Supervisor(rights) => {
                ProcessRole::Supervisor(Rights { user: User::of_process(), ..rights.clone() })
            }
            other => other.clone(),
        }
    }

    /// Whether every process that the workload starts ends with the process in this role.
    pub fn ends_all_processes(&self) -> bool {
        matches!(self, ProcessRole::Supervisor(Rights { has_pid_namespace: true, .. }))
    }

    /// Changes the owner of a directory and everything in it to the user that workloads run as. Does nothing if that is
    /// root, or if workloads run as the user of this process.
    ///
    /// # Errors
    /// The filesystem refuses.
    pub fn give_to_workload_user(&self, dir: &Path) -> Result<()> {
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
    /// Wait until all clients have finished the tasks before the task with this id. The preparation of that task may
    /// depend on it.
    Meet(String),
    /// Wait until the machine is idle before the task with this id, and until all clients are ready for it.
    WaitUntilIdle(String),
    /// Unmount the filesystem under test and mount it again.
    Remount,
    /// Drop the caches.
    DropCaches,
    /// Move the files that were prepared for a task below the layer, so that changing them copies them up.
    CommitLayer,
    /// Add a note on the files that were copied up in the task with this id.
    NoteCopies(String),
}

/// A task whose profile the agent takes while it is timed, and sends as [`CellEvent::Profile`]. The samples of such a run
/// include the work of the tracer, so they must not be compared.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProfiledTask {
    /// The task. The other tasks of the cell run without a tracer, because naming the functions of one profile takes a guest
    /// some seconds.
    pub task: TaskId,
    /// What the profile shows.
    pub content: ProfileContent,
}

/// What a profile shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileContent {
    /// The locks that the task waits for, on this kernel.
    Locks,
    /// The functions that a guest runs, by sampling the stacks of the whole machine.
    Stacks {
        /// Samples per second of the guest's clock.
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
    /// Whether to mount by system calls instead of mount(8), which guests lack.
    #[serde(rename = "by_call", default)]
    pub by_syscall: bool,
    /// The layer over it, if there is one.
    #[serde(default)]
    pub layer: Option<LayerRequest>,
    /// The size of a read-only filesystem with all its files, in bytes; None for other filesystems.
    #[serde(default)]
    pub packed_bytes: Option<u64>,
}

impl MountRequest {
    /// The request to mount a filesystem on devices of this machine by mount(8), without a layer.
    pub fn on_devices(def: &'static FsDef, options: &VariantOptions, devices: &Devices, target: &Path) -> MountRequest {
        MountRequest {
            source: devices.source(def).into(),
            target: target.into(),
            fs_type: def.id.into(),
            options: lifecycle::mount_options(def, options, devices),
            journal: devices.journal.map(|device| device.path().into()),
            by_syscall: false,
            layer: None,
            packed_bytes: None,
        }
    }

    /// Whether an unmount loses all files of the filesystem, so that only its caches can be dropped.
    pub fn is_volatile(&self) -> bool {
        filesystems::find(&self.fs_type).is_ok_and(|def| def.traits.volatile)
    }
}

/// How to set up the layer over the mounted filesystem.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LayerRequest {
    /// The level of the factor `layer`.
    pub level: String,
    /// The commands that start the programs of the layer, without their own arguments.
    pub programs: Vec<Vec<String>>,
    /// Whether the layer keeps the files that were prepared for a task below it, and copies them up when they change.
    #[serde(rename = "has_image")]
    pub copies_up: bool,
    /// The file whose fsync makes the program of the layer write everything, if it needs one.
    pub sync_file: Option<PathBuf>,
}

/// The request to a guest. The guest adds the paths of its disks when it has found them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GuestRequest {
    /// The cell to run.
    pub request: AgentRequest,
    /// The kernel's name for the filesystem of the source disk, which the guest mounts on the request's `source_dir`.
    #[serde(rename = "other_type")]
    pub source_fs_type: String,
    /// The memory that the guest occupies before its work, so that each round has a different memory layout; None for a
    /// guest that counts no instructions.
    #[serde(rename = "layout", default, skip_serializing_if = "Option::is_none")]
    pub memory_layout: Option<MemoryLayout>,
    /// The programs of the host that its workload starts, if it starts any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<GuestPrograms>,
}

/// Programs of the host in a guest.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GuestPrograms {
    /// Their whole environment.
    pub environment: Vec<(String, String)>,
    /// Paths of the host that the guest reads from the copies on its source disk.
    #[serde(rename = "copies")]
    pub copied_paths: Vec<PathBuf>,
    /// Files of the host to copy into the memory of the guest before the first task.
    pub in_memory: Vec<PathBuf>,
    /// Paths of the host to look up before the first task.
    #[serde(rename = "names")]
    pub paths_to_look_up: Vec<PathBuf>,
    /// Whether the guest has copied all files of the host that it needs, and runs without further files of the host.
    #[serde(rename = "packed")]
    pub is_packed: bool,
    /// Whether the cell runs only to find out which files its programs open, or to verify that a packed guest has all of them.
    #[serde(rename = "rehearsal")]
    pub is_rehearsal: bool,
}

/// One line from the agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentMessage {
    /// An event of the cell.
    Event(CellEvent),
    /// A request to the process that started the agent. The agent waits for an [`Outcome`] as the answer.
    #[serde(rename = "ask")]
    Request(PrivilegedRequest),
    /// What the programs of a rehearsal opened and looked up.
    #[serde(rename = "opened")]
    OpenedFiles(AccessedPaths),
    /// The exit code of the shell of a guest.
    #[serde(rename = "exited")]
    ShellExited(i32),
    /// The outcome of the cell. It is the last line.
    End(Outcome),
}

impl AgentMessage {
    /// Parses a line that an agent wrote.
    ///
    /// # Errors
    /// The line does not belong to the protocol; the message quotes its beginning.
    pub fn parse(text: &str) -> Result<AgentMessage, String> {
        serde_json::from_str(text).map_err(|error| {
            let beginning: String = text.chars().take(200).collect();
            format!("wrote a line that is not an event: {beginning:?}: {error}")
        })
    }
}

/// The input from which an agent reads the answers to its [`PrivilegedRequest`]s.
pub type Answers<'a> = &'a mut dyn BufRead;

/// Writes one line of the protocol.
///
/// # Errors
/// Those of the pipe.
pub fn write_message(pipe: &mut dyn Write, message: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(message)?;
    text.push(b'\n');
    pipe.write_all(&text)?;
    pipe.flush()
}

/// Sends a request to the process that started this one, and waits for its outcome.
///
/// # Errors
/// The outcome is a failure, or that process has ended.
pub fn send_privileged(answers: Answers, request: PrivilegedRequest) -> CellResult {
    let outcome =
        exchange(answers, request).map_err(Error::io("sending a request to", "the process that started this one"))?;
    CellError::check_outcome(outcome)
}

fn exchange(answers: Answers, request: PrivilegedRequest) -> io::Result<Outcome> {
    write_message(&mut io::stdout(), &AgentMessage::Request(request))?;
    let mut answer = String::new();
    answers.read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}
