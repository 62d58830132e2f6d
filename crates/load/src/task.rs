//! Tasks: the timed parts of a workload.

pub use crate::error::{Error, Result};
use crate::invocation::Invocation;
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::event::CommandRecord;
use fsarena_core::sample::{Readings, TaskOutput};
use fsarena_sys::argv::Argv;
use std::path::Path;

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
