//! Tasks: the timed parts of a workload.

use crate::invocation::Invocation;
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::event::CommandRecord;
use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::sample::{Readings, TaskOutput};
use fsarena_sys::{argv::Argv, shortage::advice};
use std::{io, path::Path};

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
pub type Reader = Box<dyn FnOnce(&str) -> Result<Readings> + Send>;

/// Work done in this process.
pub struct Call {
    /// The words in the log: the command that the call stands for.
    pub words: Vec<String>,
    /// How many such commands it stands for.
    pub times: u64,
    /// The work. It may add to the sample.
    #[allow(clippy::type_complexity)]
    pub run: Box<dyn FnOnce() -> Result<TaskOutput> + Send>,
}

impl Call {
    /// Work done in this process, standing for a command.
    pub fn new<S: Into<String>, F: Into<TaskOutput>>(
        words: impl IntoIterator<Item = S>,
        run: impl FnOnce() -> Result<F> + Send + 'static,
    ) -> Call {
        let run = move || run().map(Into::into);
        Call { words: words.into_iter().map(Into::into).collect(), times: 1, run: Box::new(run) }
    }
}

/// How reports name a task: its name, what people read, and its parameters.
pub fn info<const N: usize>(name: &str, title: impl Into<String>, params: [(&str, String); N]) -> TaskInfo {
    let params = params.map(|(name, value)| (name.into(), value)).into();
    let id = TaskId { name: name.into(), params };
    TaskInfo { id, title: title.into(), number: None, in_totals: true }
}

impl Task {
    /// A task that starts warm and does one thing, with nothing made ready before it.
    pub fn new(info: TaskInfo, work: Action) -> Task {
        Task { info, before: Before::Warm, prepare: vec![], work: vec![work] }
    }

    /// This task with untimed work first.
    pub fn after(self, prepare: impl IntoIterator<Item = Action>) -> Task {
        Task { prepare: prepare.into_iter().collect(), ..self }
    }
}

impl Action {
    /// Work done in this process on a file or directory; the log has `what` and the path.
    pub fn on<F: Into<TaskOutput>>(
        what: &str,
        path: &Path,
        run: impl FnOnce(&Path) -> Result<F> + Send + 'static,
    ) -> Action {
        Action::with(&path.to_path_buf(), [what.to_string(), path.display().to_string()], |path| run(path))
    }

    /// Runs one command, and takes the readings of the sample from what it prints; `tool` names it and the versions whose
    /// output fsarena reads.
    pub fn read(
        argv: Argv,
        tool: [&'static str; 2],
        parse: impl FnOnce(&str) -> Option<Readings> + Send + 'static,
    ) -> Action {
        let read = move |printed: &str| parse(printed).ok_or_else(|| no_figures(tool, printed));
        Action::Read(argv, Box::new(read))
    }

    /// Work done in this process with a copy of what it needs.
    pub fn with<T: Clone + Send + 'static, S: Into<String>, F: Into<TaskOutput>>(
        needed: &T,
        words: impl IntoIterator<Item = S>,
        run: impl FnOnce(&T) -> Result<F> + Send + 'static,
    ) -> Action {
        let needed = needed.clone();
        Action::Call(Call::new(words, move || run(&needed)))
    }

    /// Does it, logs it, and gives what it found.
    ///
    /// # Errors
    /// Where a command or system call fails.
    pub fn perform(self, log: &mut dyn FnMut(CommandRecord)) -> Result<TaskOutput> {
        let begun = std::time::Instant::now();
        let mut log_all = |argv, times, last, ended: &str| {
            let ms = begun.elapsed().as_millis() as u64;
            log(CommandRecord { argv, times, last, cwd: None, ended: ended.into(), ms, output: None });
        };
        match self {
            Action::Run(argv) => Ok(of_peak(argv.expect(log)?.max_rss_bytes)),
            Action::Read(argv, read) => {
                let finished = argv.expect(log)?;
                Ok(TaskOutput { readings: read(&finished.stdout)?, ..of_peak(finished.max_rss_bytes) })
            }
            Action::RunEach(argvs) => {
                let mut peak = 0;
                for argv in &argvs {
                    peak = peak.max(argv.check(argv.run()?)?.max_rss_bytes);
                }
                if let (Some(first), Some(last)) = (argvs.first(), argvs.last()) {
                    let last = (argvs.len() > 1).then(|| last.words());
                    log_all(first.words(), argvs.len() as u64, last, "exit 0");
                }
                Ok(of_peak(peak))
            }
            Action::Own(invocation) => invocation.expect(log),
            Action::Call(call) => {
                let found = (call.run)()?;
                log_all(call.words, call.times, None, "native");
                Ok(found)
            }
        }
    }
}

/// The error of a tool whose output has none of the figures that it should have.
pub fn no_figures([name, versions]: [&str; 2], printed: &str) -> Error {
    Error::Unfit(format!("{name} printed no figures that fsarena knows{versions}:\n{printed}"))
}

fn of_peak(peak_bytes: u64) -> TaskOutput {
    TaskOutput { peak_bytes, ..TaskOutput::default() }
}

/// The result of work for a task; its error is [`Error`] by default.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason for which a task failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A command failed.
    #[error(transparent)]
    Command(#[from] fsarena_sys::argv::Error),
    /// A system call failed.
    #[error("{doing}: {source}{}", advice(.source))]
    Io {
        /// The operation and its file.
        doing: String,
        /// The error of the system call.
        source: io::Error,
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
    Engine(#[from] fsarena_engine::EngineError),
    /// A loadfile cannot be read, or was not played to its end.
    #[error(transparent)]
    Dbench(#[from] crate::dbench::Error),
    /// The filesystem broke a promise.
    #[error("{0}")]
    Violation(String),
    /// This task cannot be done here; the others can, so it is left out and said so.
    #[error("{0}")]
    LeftOut(String),
}

impl Error {
    /// Makes an error of a failed system call: `Error::io("write /mnt/f")(error)`.
    pub fn io<E: Into<io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> Error {
        |source| Error::Io { doing: doing.into(), source: source.into() }
    }
}

impl Exits for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Command(error) => error.exit_code(),
            Error::Io { source, .. } => ExitCode::of_failed_call(source),
            Error::Engine(error) => error.exit_code(),
            Error::Dbench(error) => error.exit_code(),
            Error::Violation(_) => ExitCode::Refuted,
            Error::Missing(_) => ExitCode::Missing,
            Error::Unfit(_) | Error::Plan(_) | Error::LeftOut(_) => ExitCode::Usage,
        }
    }
}

/// Makes an error of a failed system call on a file: `.map_err(at("write", &path))`.
pub fn at<E: Into<io::Error>>(doing: &str, path: &Path) -> impl FnOnce(E) -> Error {
    move |source| Error::io(format!("{doing} {}", path.display()))(source)
}
