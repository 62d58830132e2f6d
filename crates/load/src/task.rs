//! Tasks: the timed parts of a workload.

use crate::invocation::Invocation;
use fsarena_core::cell::TaskInfo;
use fsarena_core::event::CommandRecord;
use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::sample::{Found, Readings};
use fsarena_sys::argv::Argv;

/// One timed part of a workload.
pub struct Task {
    /// How reports name it.
    pub info: TaskInfo,
    /// The state that the runner makes before it starts.
    pub before: Before,
    /// Work that is needed first and not timed. Empty for most tasks: what is not timed is lost time.
    pub prepare: Vec<Action>,
    /// The timed actions, in order.
    pub work: Vec<Action>,
}

/// The state a task starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// An idle machine, caches as the tasks before left them.
    Warm,
    /// An idle machine, page cache and clean dentries and inodes dropped.
    ColdCache,
    /// Unmounted and mounted again.
    Remount,
}

/// Something to do.
pub enum Action {
    /// Run one command.
    Run(Argv),
    /// Run many alike one after the other (`touch f0`, `touch f1`, …); the log keeps the first and the last.
    RunEach(Vec<Argv>),
    /// Run one command, and take the readings of the sample from what it prints.
    Read(Argv, Reader),
    /// Run a command of the user.
    Own(Invocation),
    /// Do it in this process.
    Call(Call),
}

/// Makes readings of what a command printed on standard output.
pub type Reader = Box<dyn FnOnce(&str) -> Result<Readings, Error> + Send>;

/// Work done in this process.
pub struct Call {
    /// The words in the log: the command that the call stands for.
    pub words: Vec<String>,
    /// How many such commands it stands for.
    pub times: u64,
    /// The work. It may add to the sample.
    #[allow(clippy::type_complexity)]
    pub run: Box<dyn FnOnce() -> Result<Found, Error> + Send>,
}

/// The reason for which a task failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A command failed.
    #[error(transparent)]
    Command(#[from] fsarena_sys::argv::Error),
    /// A system call failed.
    #[error("{doing}: {source}")]
    Io {
        /// The operation and its file.
        doing: String,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The work cannot be done as asked.
    #[error("{0}")]
    Unfit(String),
    /// The plan asks for what cannot be.
    #[error("{0}")]
    Plan(String),
    /// This machine lacks something; the text says what to do.
    #[error("{0}")]
    Missing(String),
    /// The load engine failed.
    #[error(transparent)]
    Engine(#[from] fsarena_engine::Error),
    /// A loadfile cannot be read, or was not played to its end.
    #[error(transparent)]
    Dbench(#[from] fsarena_dbench::Error),
    /// The filesystem broke a promise.
    #[error("{0}")]
    Violation(String),
    /// This task cannot be done here; the others can, so it is left out and said so.
    #[error("{0}")]
    LeftOut(String),
}

impl Call {
    /// Work done in this process, standing for a command.
    pub fn new<S: Into<String>, F: Into<Found>>(
        words: impl IntoIterator<Item = S>,
        run: impl FnOnce() -> Result<F, Error> + Send + 'static,
    ) -> Call {
        let run = move || run().map(Into::into);
        Call { words: words.into_iter().map(Into::into).collect(), times: 1, run: Box::new(run) }
    }
}

impl Error {
    /// Makes an error of a failed system call: `Error::io("write /mnt/f")(error)`.
    pub fn io<E: Into<std::io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> Error {
        |source| Error::Io { doing: doing.into(), source: source.into() }
    }
}

impl Exits for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Command(error) => error.exit_code(),
            Error::Io { source, .. } => match source.kind() {
                // Something to free or to name rightly; not a bug.
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ExitCode::Missing,
                std::io::ErrorKind::NotFound => ExitCode::Missing,
                _ => ExitCode::Internal,
            },
            Error::Engine(error) => error.exit_code(),
            Error::Dbench(error) => error.exit_code(),
            Error::Violation(_) => ExitCode::Refuted,
            Error::Missing(_) => ExitCode::Missing,
            Error::Unfit(_) | Error::Plan(_) | Error::LeftOut(_) => ExitCode::Usage,
        }
    }
}

impl Action {
    /// Does it, logs it, and gives what it found.
    ///
    /// # Errors
    /// Where a command or system call fails.
    pub fn perform(self, log: &mut dyn FnMut(CommandRecord)) -> Result<Found, Error> {
        let begun = std::time::Instant::now();
        match self {
            Action::Run(argv) => {
                let finished = argv.expect(log)?;
                Ok(Found { peak_bytes: finished.max_rss_bytes, ..Found::default() })
            }
            Action::Read(argv, read) => {
                let finished = argv.expect(log)?;
                let readings = read(&finished.stdout)?;
                Ok(Found { peak_bytes: finished.max_rss_bytes, ..Found::from(readings) })
            }
            Action::RunEach(argvs) => {
                let mut peak = 0;
                for argv in &argvs {
                    peak = peak.max(argv.check(argv.run()?)?.max_rss_bytes);
                }
                let (Some(first), Some(last)) = (argvs.first(), argvs.last()) else {
                    return Ok(Found::default());
                };
                log(CommandRecord {
                    argv: first.words(),
                    times: argvs.len() as u64,
                    last: (argvs.len() > 1).then(|| last.words()),
                    cwd: None,
                    ended: "exit 0".into(),
                    ms: begun.elapsed().as_millis() as u64,
                    output: None,
                });
                Ok(Found { peak_bytes: peak, ..Found::default() })
            }
            Action::Own(invocation) => invocation.expect(log),
            Action::Call(call) => {
                let found = (call.run)()?;
                log(CommandRecord {
                    argv: call.words,
                    times: call.times,
                    last: None,
                    cwd: None,
                    ended: "native".into(),
                    ms: begun.elapsed().as_millis() as u64,
                    output: None,
                });
                Ok(found)
            }
        }
    }
}
