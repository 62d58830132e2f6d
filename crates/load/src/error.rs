//! The error of tasks and of the preparation of workloads.

use fsarena_core::exit::{ExitCode, HasExitCode};
use fsarena_sys::limits::remedy_suffix;
use std::{io, path::Path};

/// The result of work for a task; its error is [`TaskError`] by default.
pub type Result<T, E = TaskError> = std::result::Result<T, E>;

/// The error of a task or of the preparation of a workload.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// A command failed.
    #[error(transparent)]
    Command(#[from] fsarena_sys::CommandError),
    /// A system call failed.
    #[error("{operation}: {source}{}", remedy_suffix(.source))]
    Io {
        /// The operation and its file, such as `write /mnt/f`.
        operation: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// The work cannot be done with these settings, on this machine, or with the output of a program.
    #[error("{0}")]
    Unfit(String),
    /// The plan contains a contradiction or an invalid setting.
    #[error("{0}")]
    Plan(String),
    /// This machine lacks something. The text names it and what to do.
    #[error("{0}")]
    Missing(String),
    /// The load engine failed.
    #[error(transparent)]
    Engine(#[from] fsarena_engine::EngineError),
    /// The work failed without an error of a system call, or a signal ended it.
    #[error("{0}")]
    Failed(String),
    /// The filesystem lost or damaged data that it had to keep.
    #[error("{0}")]
    Violation(String),
    /// The task cannot run here. The run skips it and reports this reason.
    #[error("{0}")]
    SkipTask(String),
}

impl TaskError {
    /// Makes an error of a failed system call: `TaskError::io("write /mnt/f")(error)`.
    pub fn io<E: Into<io::Error>>(operation: impl Into<String>) -> impl FnOnce(E) -> TaskError {
        |source| TaskError::Io { operation: operation.into(), source: source.into() }
    }
}

impl HasExitCode for TaskError {
    fn exit_code(&self) -> ExitCode {
        match self {
            TaskError::Command(error) => error.exit_code(),
            TaskError::Io { source, .. } => ExitCode::of_failed_call(source),
            TaskError::Engine(error) => error.exit_code(),
            TaskError::Failed(_) => ExitCode::Internal,
            TaskError::Violation(_) => ExitCode::Refuted,
            TaskError::Missing(_) => ExitCode::Missing,
            TaskError::Unfit(_) | TaskError::Plan(_) | TaskError::SkipTask(_) => ExitCode::Usage,
        }
    }
}

/// Makes the error of a failed system call on a file: `.map_err(failed_to("write", &path))`.
pub fn failed_to<E: Into<io::Error>>(verb: &str, path: &Path) -> impl FnOnce(E) -> TaskError {
    move |source| TaskError::io(format!("{verb} {}", path.display()))(source)
}
