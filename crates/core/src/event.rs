//! Events: all that an executor and the runner say. Display, store and reports only consume them.

use crate::cell::{Cell, CellId};
use crate::claim::ClaimOutcome;
use crate::exit::ExitCode;
use crate::sample::{MetricSpec, Sample};
use serde::{Deserialize, Serialize};

/// Why a cell or a run was ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// All its tasks were measured.
    Done,
    /// A command, mount or task failed; the words are the command's own.
    Failed {
        /// What failed, and what it said.
        why: String,
        /// Its cause.
        cause: Cause,
    },
    /// A signal ended it.
    Interrupted,
}

/// The cause of a failed cell. It determines the exit code of a run in which every variant failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The filesystem under test, or a command of the work, failed at the work.
    #[default]
    Work,
    /// The filesystem broke a promise: it lost files that were synced.
    Violation,
    /// The variant asks for what cannot be done.
    Usage,
    /// Going on could have destroyed something.
    Refused,
    /// A program, a kernel feature, room or memory is missing.
    Missing,
    /// The guest that ran it died: its emulator ended, or its kernel panicked.
    Died,
    /// A process of fsarena ended without an answer: a bug.
    Internal,
}

impl Cause {
    /// The cause of an error in a cell; [`Cause::Work`] for every exit code without a cause of the same name.
    pub fn of(code: ExitCode) -> Cause {
        match code {
            ExitCode::Refuted => Cause::Violation,
            ExitCode::Usage => Cause::Usage,
            ExitCode::Refused => Cause::Refused,
            ExitCode::Missing => Cause::Missing,
            _ => Cause::Work,
        }
    }

    /// The exit code where nothing could be measured for this cause.
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
pub struct VariantExit {
    /// The round, from 0.
    pub round: u32,
    /// The operation that failed, and its message.
    pub why: String,
    /// Its cause.
    pub cause: Cause,
}

/// What a note is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// The machine was still busy when a task began.
    IdleTimeout,
    /// The comparison may be unfair.
    Fairness,
    /// What the variant gives up of the safety that others of the run have, in a few words.
    Weaker,
    /// A whole round was dropped, for a reason that cannot see the label.
    Dropped,
    /// A variant left the run.
    VariantFailed,
    /// A variant is not compared, because the budget does not hold it.
    NotCompared,
    /// Options as the kernel or mkfs reports them.
    Options,
    /// Something this machine could not tell.
    Unavailable,
    /// Anything else a reader should know.
    Remark,
}

/// What stands in a note of a busy machine before the processes that used most CPU time or I/O: `rsync (4711) moved
/// 35.0 MiB, cc1 (12) used 90% of a CPU`.
pub const MEANWHILE: &str = "; meanwhile ";

/// The tasks of the notes on a directory under test: its mount, and how full its filesystem is.
pub const OF_DIRECTORY: [&str; 2] = ["mount", "fullness"];

/// Something a reader of the results should know.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Note {
    /// What it is about.
    pub kind: NoteKind,
    /// The variant it concerns, where it concerns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The task it concerns, where it concerns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The fact, and why it matters.
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

    /// Whether it is a remark on the whole run that asks the user to do something.
    pub fn asks_the_user(&self) -> bool {
        self.kind == NoteKind::Remark && self.fix.is_some() && self.task.is_none()
    }

    /// The same note about one variant.
    pub fn variant(mut self, variant: impl Into<String>) -> Note {
        self.variant = Some(variant.into());
        self
    }

    /// The same note about one task.
    pub fn task(mut self, task: impl Into<String>) -> Note {
        self.task = Some(task.into());
        self
    }

    /// The same note with a remedy.
    pub fn fix(mut self, fix: impl Into<String>) -> Note {
        self.fix = Some(fix.into());
        self
    }
}

/// An external command that was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRecord {
    /// The argument vector. Where many alike ran, the first of them.
    pub argv: Vec<String>,
    /// How many alike ran (`touch f0` … `touch f9999` is one record).
    pub times: u64,
    /// The last of them, where there were several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Vec<String>>,
    /// Where it ran, where that matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// How it ended: `exit 0`, `exit 1`, `signal 9`, or `native` for work done in-process.
    pub ended: String,
    /// Milliseconds it took.
    pub ms: u64,
    /// The end of its output, where it is to be kept. The store moves it to a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// What the time of a cell was spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpentOn {
    /// Booting a guest.
    Boot,
    /// Waiting until the machine was idle.
    Idle,
    /// Making, mounting and unmounting the filesystem.
    Lifecycle,
    /// The timed work.
    Timed,
    /// The whole cell.
    Total,
}

impl SpentOn {
    /// The word for it in reports: `timed`.
    pub fn name(self) -> &'static str {
        match self {
            SpentOn::Boot => "boot",
            SpentOn::Idle => "idle",
            SpentOn::Lifecycle => "lifecycle",
            SpentOn::Timed => "timed",
            SpentOn::Total => "total",
        }
    }
}

/// What happens inside one cell. An executor emits these, wherever it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum CellEvent {
    /// Something begins: `mkfs`, `mount`, `wait until idle`, a task.
    Phase {
        /// What begins.
        name: String,
    },
    /// A reading that a command printed, before the first sample that has it.
    Reading(MetricSpec),
    /// A task was measured.
    Sample(Sample),
    /// Something a reader should know.
    Note(Note),
    /// What a task waited for, where its cell was to be traced. No sample of such a cell is worth keeping.
    Profile {
        /// The task.
        task: crate::cell::TaskId,
        /// The tracer's own account, which only its reader knows how to read.
        profile: serde_json::Value,
    },
    /// A command was run.
    Command(CommandRecord),
    /// Time that went into one kind of work. What a cell's kinds leave over of its total is fsarena's own.
    Spent {
        /// What it was spent on.
        what: SpentOn,
        /// Nanoseconds.
        ns: u64,
    },
}

/// How a claim stands after some rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimStatus {
    /// The claim as it was written.
    pub claim: String,
    /// Its outcome so far.
    pub outcome: ClaimOutcome,
    /// Whether another round can decide it.
    pub open: bool,
    /// Rounds behind it.
    pub rounds: u32,
    /// Whether these are too few for an exact interval.
    pub provisional: bool,
    /// Left over right, minus 1, and its 95% confidence interval; none before the first round ends.
    pub effect: Option<(f64, f64, f64)>,
}

/// What the runner says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "run_event", rename_all = "snake_case")]
pub enum Event {
    /// The run begins, or goes on.
    RunStarted {
        /// Number of rounds planned at most.
        rounds: u32,
        /// Names of all variants.
        variants: Vec<String>,
        /// Timed tasks of a cell, for progress.
        tasks_per_cell: u32,
        /// Cells found finished in the store.
        already_done: u32,
        /// Time budget in seconds, where there is one.
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
        /// Which.
        cell: Cell,
    },
    /// Something happened inside the current cell.
    Cell {
        /// Which cell.
        cell: CellId,
        /// What.
        what: CellEvent,
    },
    /// A cell ended.
    CellFinished {
        /// Which.
        cell: CellId,
        /// How.
        outcome: Outcome,
    },
    /// A round ended.
    RoundFinished {
        /// Its number, from 0.
        round: u32,
    },
    /// How the claims stand after a round.
    Claims {
        /// Each of them, in the order of the plan.
        standing: Vec<ClaimStatus>,
    },
    /// What the budget can resolve, from a pilot of a few rounds.
    Forecast {
        /// For people.
        text: String,
    },
    /// Something about the whole run.
    Note(Note),
    /// A command outside any cell.
    Command(CommandRecord),
    /// The run ended.
    RunFinished {
        /// Why no further round was started.
        why: String,
        /// Whether all that was planned was done.
        complete: bool,
    },
}
