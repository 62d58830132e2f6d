//! The events that executors and the runner emit during a run. Display, store and reports only consume them.

use crate::cell::{Cell, CellId};
use crate::claim::ClaimOutcome;
use crate::exit::ExitCode;
use crate::sample::{MetricSpec, Sample};
use serde::{Deserialize, Serialize};

/// How a cell ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// All its tasks were measured.
    Done,
    /// A command, mount or task failed.
    Failed {
        /// The operation that failed, and its error message.
        why: String,
        /// Its cause.
        cause: Cause,
    },
    /// A signal ended it.
    Interrupted,
}

/// The cause of a failed cell. It determines fsarena's exit code if every variant of a run fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The filesystem under test, or a command of the workload, failed.
    #[default]
    Work,
    /// The filesystem lost files that were synced.
    Violation,
    /// The variant has settings that cannot work.
    Usage,
    /// fsarena stopped, because continuing could have destroyed data.
    Refused,
    /// A program, a kernel feature, disk space or memory is missing.
    Missing,
    /// A program that fsarena needs died, perhaps by chance: the emulator of the guest that ran the cell ended, its kernel
    /// panicked, or a signal ended mkfs. fsarena runs the cell once more.
    Died,
    /// A process of fsarena ended without a result: a bug.
    Internal,
}

impl Cause {
    /// The cause of an error in a cell, from its exit code. [`ExitCode::Internal`] gives [`Cause::Work`]: in a cell, an
    /// unexpected error of a library is a failure of its work.
    pub fn of(code: ExitCode) -> Cause {
        match code {
            ExitCode::Refuted => Cause::Violation,
            ExitCode::Usage => Cause::Usage,
            ExitCode::Refused => Cause::Refused,
            ExitCode::Missing => Cause::Missing,
            _ => Cause::Work,
        }
    }

    /// The exit code of a run in which nothing could be measured for this cause.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Cause::Work | Cause::Died => ExitCode::Inconclusive,
            Cause::Violation => ExitCode::Refuted,
            Cause::Usage => ExitCode::Usage,
            Cause::Refused => ExitCode::Refused,
            Cause::Missing => ExitCode::Missing,
            Cause::Internal => ExitCode::Internal,
        }
    }
}

/// When and why a variant left a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariantDeparture {
    /// The round, from 0.
    pub round: u32,
    /// The operation that failed, and its message.
    pub why: String,
    /// Its cause.
    pub cause: Cause,
}

/// The subject of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// The machine was still busy when a task began.
    IdleTimeout,
    /// The comparison may be unfair.
    Fairness,
    /// The variant gives up a safety guarantee that other variants of the run have. The text names the guarantee.
    Weaker,
    /// The kernel of a guest checks itself while it runs (KASAN, lockdep and the like), which slows some filesystems more than
    /// others.
    DebugKernel,
    /// A whole round was dropped, for a reason that does not depend on any variant.
    Dropped,
    /// A variant left the run.
    VariantFailed,
    /// A variant is not compared, because the budget does not suffice for it.
    NotCompared,
    /// Options as the kernel or mkfs reports them.
    Options,
    /// Information that this machine does not provide.
    Unavailable,
    /// Anything else that matters to a reader.
    Remark,
}

/// The separator in the note on a busy machine. After it come the processes that used most CPU time or I/O: `rsync (4711)
/// moved 35.0 MiB, cc1 (12) used 90% of a CPU`.
pub const MEANWHILE_SEPARATOR: &str = "; meanwhile ";

/// The value of [`Note::task`] in the note on the mount of a directory under test.
pub const MOUNT_NOTE: &str = "mount";
/// The value of [`Note::task`] in the note on how full the filesystem of a directory under test is.
pub const FULLNESS_NOTE: &str = "fullness";
/// The values of [`Note::task`] in notes on a directory under test.
pub const DIRECTORY_NOTES: [&str; 2] = [MOUNT_NOTE, FULLNESS_NOTE];

/// A remark for people who read the results.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Note {
    /// The subject of the note.
    pub kind: NoteKind,
    /// The variant that it concerns; None if it concerns all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The task that it concerns; None if it concerns all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// What happened, and why it matters.
    pub text: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Note {
    /// A note about the whole run.
    pub fn new(kind: NoteKind, text: impl Into<String>) -> Note {
        Note { kind, variant: None, task: None, text: text.into(), fix: None }
    }

    /// Whether it is a remark on the whole run that advises the user to do something.
    pub fn is_advice(&self) -> bool {
        self.kind == NoteKind::Remark && self.fix.is_some() && self.task.is_none()
    }

    /// Sets the variant that the note concerns.
    pub fn variant(mut self, variant: impl Into<String>) -> Note {
        self.variant = Some(variant.into());
        self
    }

    /// Sets the task that the note concerns.
    pub fn task(mut self, task: impl Into<String>) -> Note {
        self.task = Some(task.into());
        self
    }

    /// Sets what to do about it.
    pub fn fix(mut self, fix: impl Into<String>) -> Note {
        self.fix = Some(fix.into());
        self
    }
}

/// An external command that fsarena ran, or a series of similar commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRecord {
    /// The arguments of the command, or of the first command of the series.
    pub argv: Vec<String>,
    /// The number of commands in the series (`touch f0` … `touch f9999` is one record).
    pub times: u64,
    /// The arguments of the last command of the series; None for a single command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Vec<String>>,
    /// The working directory, if it matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// How it ended.
    pub ended: CommandEnd,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// The end of its output, if it is to be kept. The store moves it to a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// How a command ended. Logs have it as text: `exit 1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum CommandEnd {
    /// It ended with this exit code.
    Exit(i32),
    /// This signal ended it.
    Signal(i32),
    /// It did not end: it keeps running and serves the cell.
    Started,
    /// fsarena did the work of the command itself, without starting a program.
    Native,
    /// fsarena stopped it, or does not accept its result: the reason.
    Rejected(String),
}

impl CommandEnd {
    /// Whether the command did its work.
    pub fn is_success(&self) -> bool {
        matches!(self, CommandEnd::Exit(0) | CommandEnd::Started | CommandEnd::Native)
    }
}

impl std::fmt::Display for CommandEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CommandEnd::Exit(code) => write!(f, "exit {code}"),
            CommandEnd::Signal(signal) => write!(f, "signal {signal}"),
            CommandEnd::Started => f.write_str("started"),
            CommandEnd::Native => f.write_str("native"),
            CommandEnd::Rejected(why) => f.write_str(why),
        }
    }
}

impl From<CommandEnd> for String {
    fn from(end: CommandEnd) -> String {
        end.to_string()
    }
}

impl From<String> for CommandEnd {
    fn from(text: String) -> CommandEnd {
        let parsed = match text.split_once(' ') {
            Some(("exit", code)) => code.parse().ok().map(CommandEnd::Exit),
            Some(("signal", signal)) => signal.parse().ok().map(CommandEnd::Signal),
            None if text == "started" => Some(CommandEnd::Started),
            None if text == "native" => Some(CommandEnd::Native),
            _ => None,
        };
        parsed.unwrap_or(CommandEnd::Rejected(text))
    }
}

crate::named_enum! {
    /// An activity that takes up the time of a cell.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Activity {
        /// Booting a guest.
        Boot = "boot",
        /// Waiting until the machine was idle.
        Idle = "idle",
        /// Making, mounting and unmounting the filesystem.
        Lifecycle = "lifecycle",
        /// The timed work.
        Timed = "timed",
        /// The whole cell.
        Total = "total",
    }
}

/// What a cell is doing. Logs have it as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Phase {
    /// Its guest boots.
    Boot,
    /// Its programs are rehearsed.
    Rehearsal,
    /// The machine gets time to become idle before this task.
    Idle(String),
    /// A shell for people runs.
    Shell,
    /// The power is cut.
    PowerCut,
    /// This task runs: a task of the workload, or a step of the filesystem's life such as `mkfs`.
    Task(String),
}

/// The beginning of the text of [`Phase::Idle`]; the name of the task follows.
const IDLE_PREFIX: &str = "wait until idle before ";

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Phase::Boot => f.write_str("booting"),
            Phase::Rehearsal => f.write_str("rehearsal of the programs"),
            Phase::Idle(task) => write!(f, "{IDLE_PREFIX}{task}"),
            Phase::Shell => f.write_str("shell"),
            Phase::PowerCut => f.write_str("power cut"),
            Phase::Task(task) => f.write_str(task),
        }
    }
}

impl From<Phase> for String {
    fn from(phase: Phase) -> String {
        phase.to_string()
    }
}

impl From<String> for Phase {
    fn from(text: String) -> Phase {
        if let Some(task) = text.strip_prefix(IDLE_PREFIX) {
            return Phase::Idle(task.into());
        }
        let phases_without_task = [Phase::Boot, Phase::Rehearsal, Phase::Shell, Phase::PowerCut];
        phases_without_task.into_iter().find(|phase| phase.to_string() == text).unwrap_or(Phase::Task(text))
    }
}

/// An event inside one cell. Executors emit these, on the host as well as in a guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum CellEvent {
    /// A phase begins.
    Phase {
        /// The phase.
        name: Phase,
    },
    /// The definition of a reading that a command printed. It precedes the first sample with this reading.
    Reading(MetricSpec),
    /// A task was measured.
    Sample(Sample),
    /// A remark for the reader of the results.
    Note(Note),
    /// A profile of what a task waited for. Only traced cells have it, and tracing slows them down, so their samples are
    /// not used.
    Profile {
        /// The task.
        task: crate::cell::TaskId,
        /// The profile, in the format of the tracer.
        profile: serde_json::Value,
    },
    /// A command was run.
    Command(CommandRecord),
    /// The files that an agent left on a filesystem that it aged. Such an agent runs no tasks.
    Tree(TreeState),
    /// Time that the cell spent on one activity. The rest of the cell's total is overhead of fsarena.
    Spent {
        /// The activity.
        #[serde(rename = "what")]
        activity: Activity,
        /// Nanoseconds.
        ns: u64,
    },
}

/// The contents of a directory tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeDigest {
    /// A digest of the names, types and contents of everything in the tree. Times, owners and permissions do
    /// not count, except whether a file can be executed.
    pub digest: String,
    /// The number of files.
    pub files: u64,
    /// The bytes of the files.
    pub bytes: u64,
}

/// The files on a filesystem, and where they lie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeState {
    /// Their names and contents.
    pub tree: TreeDigest,
    /// A digest of the places of their extents on the device; None if the kernel does not report extents.
    pub layout: Option<String>,
}

/// The status of a claim after some rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimStatus {
    /// The text of the claim.
    pub claim: String,
    /// Its outcome so far.
    pub outcome: ClaimOutcome,
    /// Whether further rounds could still decide it.
    pub open: bool,
    /// The number of rounds that the outcome is based on.
    pub rounds: u32,
    /// Whether these rounds are too few for an exact interval.
    pub provisional: bool,
    /// The ratio left/right minus 1, and the ends of its 95% confidence interval. None before the first round ends.
    pub effect: Option<(f64, f64, f64)>,
}

/// An event that the runner emits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "run_event", rename_all = "snake_case")]
pub enum Event {
    /// The run begins, or resumes.
    RunStarted {
        /// The largest number of rounds of this machine, warm-up included.
        rounds: u32,
        /// Names of all variants.
        variants: Vec<String>,
        /// Timed tasks of a cell, for progress.
        tasks_per_cell: u32,
        /// The number of cells that the store already has.
        already_done: u32,
        /// Time budget in seconds, if any.
        budget_s: Option<f64>,
    },
    /// A round begins.
    RoundStarted {
        /// Its number, from 0.
        round: u32,
        /// The variants in the order in which they will run.
        order: Vec<String>,
    },
    /// A cell begins.
    CellStarted {
        /// The cell.
        cell: Cell,
    },
    /// Something happened inside the current cell.
    Cell {
        /// The cell.
        cell: CellId,
        /// The event.
        #[serde(rename = "what")]
        event: CellEvent,
    },
    /// A cell ended.
    CellFinished {
        /// The cell.
        cell: CellId,
        /// How it ended.
        outcome: Outcome,
    },
    /// A round ended.
    RoundFinished {
        /// Its number, from 0.
        round: u32,
    },
    /// The status of the claims after a round.
    Claims {
        /// One status for each claim, in the order of the plan.
        #[serde(rename = "standing")]
        statuses: Vec<ClaimStatus>,
    },
    /// The smallest difference that the budget can detect, estimated from the first rounds.
    Forecast {
        /// The forecast as a sentence.
        text: String,
    },
    /// A remark on the whole run.
    Note(Note),
    /// A command outside any cell.
    Command(CommandRecord),
    /// The run ended.
    RunFinished {
        /// Why no further round was started.
        why: String,
        /// Whether the run finished everything that the plan requires.
        complete: bool,
    },
}
