//! Tasks, the timed parts of a workload, and their actions.

pub use crate::error::{Result, TaskError, failed_to};
use crate::invocation::Invocation;
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::event::{CommandEnd, CommandRecord};
use fsarena_core::sample::{Readings, TaskOutput};
use fsarena_core::{plan::ALL_TASKS, published::LIFECYCLE_TASKS};
use fsarena_sys::argv::Argv;
use std::path::Path;

/// One timed part of a workload.
pub struct Task {
    /// Its name, title and parameters in reports.
    pub info: TaskInfo,
    /// The state of the caches and of the mount that the runner establishes before the task.
    pub start_state: StartState,
    /// Untimed work before the task. It is empty for most tasks, because untimed work prolongs a run.
    pub preparation: Vec<Action>,
    /// The timed actions, in order.
    pub work: Vec<Action>,
}

/// The state of the caches and of the mount that a task starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartState {
    /// The machine is idle, and caches are as the previous tasks left them.
    Warm,
    /// The machine is idle, and the page cache and clean dentries and inodes are dropped.
    ColdCache,
    /// The filesystem has been unmounted and mounted again.
    Remounted,
}

/// Work of a task: commands or a call in this process.
pub enum Action {
    /// Run one command.
    Run(Argv),
    /// Run many similar commands one after the other (`touch f0`, `touch f1`, …). The log keeps the first and the last.
    RunEach(Vec<Argv>),
    /// Run one command and parse its output to the readings of the sample.
    RunAndParse(Argv, OutputParser),
    /// Run a command of the user.
    RunUserCommand(Invocation),
    /// Do the work in this process.
    Call(Call),
}

/// Parses the standard output of a command to readings, series and latencies.
pub type OutputParser = Box<dyn FnOnce(&str) -> Result<TaskOutput> + Send>;

/// Work done in this process.
pub struct Call {
    /// The program and arguments that the log has for this call.
    pub logged_argv: Vec<String>,
    /// Number of commands that this call replaces, for the log.
    pub replaced_commands: u64,
    /// The work. Its output is added to the sample.
    #[allow(clippy::type_complexity)]
    pub run: Box<dyn FnOnce() -> Result<TaskOutput> + Send>,
}

impl Call {
    /// Makes a call that has `logged_argv` as its command in the log.
    pub fn new<S: Into<String>, F: Into<TaskOutput>>(
        logged_argv: impl IntoIterator<Item = S>,
        run: impl FnOnce() -> Result<F> + Send + 'static,
    ) -> Call {
        let run = move || run().map(Into::into);
        let logged_argv = logged_argv.into_iter().map(Into::into).collect();
        Call { logged_argv, replaced_commands: 1, run: Box::new(run) }
    }
}

/// Makes the description of a task for reports: its name, title and parameters. It has no number and counts in totals.
pub fn info<const N: usize>(name: &str, title: impl Into<String>, params: [(&str, String); N]) -> TaskInfo {
    let params = params.map(|(name, value)| (name.into(), value)).into();
    let id = TaskId { name: name.into(), params };
    TaskInfo { id, title: title.into(), number: None, in_totals: true }
}

/// Whether a task cannot have this name, because reports and claims use it for something else.
pub fn is_reserved_name(name: &str) -> bool {
    LIFECYCLE_TASKS.contains(&name) || ALL_TASKS.contains(&name)
}

/// Returns the first free name of `name`, `name-2`, `name-3`, …
pub fn first_free_name(name: &str, is_free: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut candidates = std::iter::once(name.to_string()).chain(numbered);
    candidates.find(|candidate| is_free(candidate)).unwrap_or_default()
}

impl Task {
    /// Makes a task of one action that starts warm and needs no untimed work first.
    pub fn new(info: TaskInfo, work: Action) -> Task {
        Task { info, start_state: StartState::Warm, preparation: vec![], work: vec![work] }
    }

    /// Sets the untimed work before the task.
    pub fn with_preparation(self, preparation: impl IntoIterator<Item = Action>) -> Task {
        Task { preparation: preparation.into_iter().collect(), ..self }
    }
}

impl Action {
    /// Makes an action in this process on a file or directory. Its command in the log is `verb` and the path.
    pub fn call_on<F: Into<TaskOutput>>(
        verb: &str,
        path: &Path,
        run: impl FnOnce(&Path) -> Result<F> + Send + 'static,
    ) -> Action {
        Action::call_with(&path.to_path_buf(), [verb.to_string(), path.display().to_string()], |path| run(path))
    }

    /// Makes an action that runs one command and parses its output to readings. For errors, `tool` has the name of the
    /// program, and the versions whose output fsarena reads, such as ` (4.0 and 5.0)`.
    pub fn run_and_parse(
        argv: Argv,
        tool: [&'static str; 2],
        parse: impl FnOnce(&str) -> Option<Readings> + Send + 'static,
    ) -> Action {
        let parse_or_fail =
            move |printed: &str| parse(printed).map(TaskOutput::from).ok_or_else(|| no_figures_error(tool, printed));
        Action::RunAndParse(argv, Box::new(parse_or_fail))
    }

    /// Makes an action in this process that gets a copy of `input`. Its command in the log is `logged_argv`.
    pub fn call_with<T: Clone + Send + 'static, S: Into<String>, F: Into<TaskOutput>>(
        input: &T,
        logged_argv: impl IntoIterator<Item = S>,
        run: impl FnOnce(&T) -> Result<F> + Send + 'static,
    ) -> Action {
        let input = input.clone();
        Action::Call(Call::new(logged_argv, move || run(&input)))
    }

    /// Performs the action, logs it and returns its output.
    ///
    /// # Errors
    /// If a command or system call fails.
    pub fn perform(self, log: &mut dyn FnMut(CommandRecord)) -> Result<TaskOutput> {
        let start = std::time::Instant::now();
        let mut log_command = |argv, times, last, ended: CommandEnd| {
            let ms = start.elapsed().as_millis() as u64;
            log(CommandRecord { argv, times, last, cwd: None, ended, ms, output: None });
        };
        match self {
            Action::Run(argv) => {
                Ok(TaskOutput { peak_memory_bytes: argv.run_checked(log)?.max_rss_bytes, ..TaskOutput::default() })
            }
            Action::RunAndParse(argv, parse) => {
                let finished = argv.run_checked(log)?;
                Ok(TaskOutput { peak_memory_bytes: finished.max_rss_bytes, ..parse(&finished.stdout)? })
            }
            Action::RunEach(argvs) => {
                let mut output = TaskOutput::default();
                for argv in &argvs {
                    let finished = argv.check_success(argv.run()?)?;
                    output.peak_memory_bytes = output.peak_memory_bytes.max(finished.max_rss_bytes);
                }
                if let (Some(first), Some(last)) = (argvs.first(), argvs.last()) {
                    let last = (argvs.len() > 1).then(|| last.words());
                    log_command(first.words(), argvs.len() as u64, last, CommandEnd::Exit(0));
                }
                Ok(output)
            }
            Action::RunUserCommand(invocation) => invocation.run_and_log(log),
            Action::Call(call) => {
                let output = (call.run)()?;
                log_command(call.logged_argv, call.replaced_commands, None, CommandEnd::Native);
                Ok(output)
            }
        }
    }
}

/// Makes the error of a tool whose output has no figures that fsarena can read. `versions` as in
/// [`Action::run_and_parse`].
pub fn no_figures_error([name, versions]: [&str; 2], printed: &str) -> TaskError {
    TaskError::Unfit(format!("{name} printed no figures that fsarena knows{versions}:\n{printed}"))
}
