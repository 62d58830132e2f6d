//! `command`: any program, on a fresh filesystem in each round.

use crate::task::{self, Action, Before, Result, Task, TaskError, at};
use crate::workload::{Job, Place, Room, Survey, Workload};
use crate::{invocation::Invocation, printed::Rule};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::metric::Declaration;
use fsarena_core::setting::{SettingDef, Settings, Value, WorkloadDef};
use fsarena_sys::{dirs, program};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The workload.
pub struct Command;

/// The file on the source disk that exists once the command of `once` has run.
const DONE: &str = ".once";
/// The directory on the source disk that commands find as `$TMPDIR`.
const TEMPORARY: &str = "tmp";

const CACHE: SettingDef =
    SettingDef::choice("cache", &["warm", "cold"], "warm").help("cold drops the page cache before a task");
const PREPARE: SettingDef = SettingDef::text("prepare").help("shell command before each task, not timed");
const CHECK: SettingDef =
    SettingDef::text("check").help("shell command after each task, not timed; if it fails, the task fails");

const METRIC_REGEX: SettingDef =
    SettingDef::texts("metric_regex").help("metrics that tasks print: `NAME UNIT DIRECTION: REGEX`");

/// The settings of one task. The workload's `prepare`, `check` and `cache` apply where a task has none.
const TASK: &[SettingDef] = &[
    SettingDef::text("name").help("name of the task; by default that of its program"),
    SettingDef::text("cmd").help("shell command to time, run as `sh -euc`"),
    SettingDef::texts("run").help("program and arguments to time, without a shell"),
    PREPARE,
    CHECK,
    METRIC_REGEX,
    SettingDef::choice(CACHE.id, &["", "warm", "cold"], "").help(CACHE.help),
];

const DEF: WorkloadDef = WorkloadDef {
    id: "command",
    help: "your own commands: fsarena run --fs ext4,xfs -- COMMAND",
    metrics: &["elapsed", "synced"],
    settings: &[
        SettingDef::text("once").help("shell command once a run, in $FSARENA_SOURCE, not timed"),
        SettingDef::path("input").help("file or directory of yours that commands find as $FSARENA_INPUT"),
        SettingDef::texts("needs").help("programs that the commands run"),
        SettingDef::text("setup").help("shell command on each fresh filesystem, not timed"),
        PREPARE,
        CHECK,
        CACHE,
        METRIC_REGEX,
        SettingDef::float("timeout", 0.001..=1e7, 3600.0)
            .help("seconds after which a command counts as hung"),
        SettingDef::size("room", 1 << 20..=1 << 44, 512 << 20)
            .help("bytes that the commands write at most; the image has room for them"),
        SettingDef::size("source_room", 1 << 20..=1 << 44, 64 << 20)
            .help("bytes that the commands write to the source disk at most"),
        SettingDef::tables("task", TASK).help("commands to time, in order"),
    ],
};

/// One of the commands to time.
struct TimedCommand {
    name: String,
    words: Vec<String>,
    settings: Settings,
}

impl TimedCommand {
    fn all(job: &Job) -> Vec<TimedCommand> {
        let Some(Value::List(tables)) = job.settings.0.get("task") else { return vec![] };
        tables.iter().fold(vec![], |mut all, table| {
            let Value::Table(values) = table else { return all };
            let settings = Settings(values.clone());
            let words = match settings.text("cmd") {
                "" => settings.words("run").into_iter().map(String::from).collect(),
                script => shell(script),
            };
            let name = match settings.text("name") {
                "" => unused(&all, &program_of(&settings)),
                name => name.to_string(),
            };
            all.push(TimedCommand { name, words, settings });
            all
        })
    }

    fn info(&self) -> TaskInfo {
        let command = match self.settings.text("cmd") {
            "" => self.words.join(" "),
            script => script.into(),
        };
        // The same command can be several tasks.
        let named = !self.settings.text("name").is_empty();
        let title = if named { format!("{}: {command}", self.name) } else { command };
        task::info(&self.name, title, [])
    }

    /// A setting of the task, or else of the workload.
    fn text<'a>(&'a self, job: &'a Job, id: &str) -> &'a str {
        match self.settings.text(id) {
            "" => job.settings.text(id),
            own => own,
        }
    }

    /// The rules for metrics in the task's output: its own, or else those of the workload.
    fn rules(&self, job: &Job) -> Result<Vec<Rule>> {
        let own = self.settings.words("metric_regex");
        let rules = if own.is_empty() { job.settings.words("metric_regex") } else { own };
        let fault = |fault| TaskError::Plan(format!("metric_regex of task `{}`: {fault}", self.name));
        rules.into_iter().map(Rule::parse).collect::<Result<_, _>>().map_err(fault)
    }

    fn fault(&self) -> Option<String> {
        let script = self.settings.text("cmd");
        let vector = self.settings.words("run");
        let written = [!script.is_empty(), !vector.is_empty()];
        let empty = if written[0] { script.trim().is_empty() } else { vector.first() == Some(&"") };
        let named = self.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        match written {
            [true, true] => Some(format!("task `{}` has both `cmd` and `run`; keep one", self.name)),
            [false, false] => Some(format!("task `{}` has no command; add cmd = \"COMMAND\"", self.name)),
            _ if empty => {
                Some(format!("the command of task `{}` is empty; write the program to run", self.name))
            }
            _ if !named => Some(format!("task name `{}`: use letters, digits, - and _", self.name)),
            _ => None,
        }
    }
}

/// A shell command as an argument vector.
fn shell(script: &str) -> Vec<String> {
    ["sh", "-euc", script].map(String::from).into()
}

/// The name of the first program of a task.
fn program_of(settings: &Settings) -> String {
    let first = settings.text("cmd").split_whitespace().next();
    let first = first.or(settings.words("run").first().copied()).unwrap_or_default();
    let file = Path::new(first).file_name().unwrap_or_default().to_string_lossy();
    let name: String = file.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
    if name.is_empty() { "task".into() } else { name }
}

/// Returns the first unused name of `make`, `make-2`, …
fn unused(taken: &[TimedCommand], name: &str) -> String {
    let is_free = |name: &String| taken.iter().all(|task| task.name != *name);
    let numbered = (2..).map(|n| format!("{name}-{n}"));
    std::iter::once(name.to_string()).chain(numbered).find(is_free).unwrap_or_default()
}

/// The time that each command may take.
fn limit(job: &Job) -> Duration {
    Duration::from_secs_f64(job.settings.float("timeout"))
}

/// Builds the actions of commands in a place.
struct CommandBuilder<'a> {
    job: &'a Job,
    place: &'a Place,
}

impl CommandBuilder<'_> {
    fn action(&self, dir: &Path, words: Vec<String>, rules: Vec<Rule>) -> Action {
        let env = vec![
            ("FSARENA_DIR", self.place.root.clone()),
            ("FSARENA_SOURCE", self.place.other.clone()),
            ("FSARENA_INPUT", PathBuf::from(self.job.settings.text("input"))),
            ("TMPDIR", self.place.other.join(TEMPORARY)),
        ];
        let limit = limit(self.job);
        Action::Own(Invocation { words, dir: dir.into(), env, limit, rules })
    }

    /// The setup that runs once in a run. The first cell does it, because its process has the rights of the workload.
    fn once(&self) -> Vec<Action> {
        let (script, done) = (self.job.settings.text("once"), self.place.other.join(DONE));
        if script.is_empty() || done.exists() {
            return vec![];
        }
        let note = |done: &PathBuf| std::fs::write(done, "").map_err(at("write", done));
        let work = self.action(&self.place.other, shell(script), vec![]);
        vec![work, Action::with(&done, ["touch", DONE], note)]
    }

    /// The action of a shell command; none if it is empty.
    fn script(&self, script: &str) -> Option<Action> {
        (!script.is_empty()).then(|| self.action(&self.place.root, shell(script), vec![]))
    }
}

impl Workload for Command {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn time_limit(&self, job: &Job) -> Option<Duration> {
        Some(limit(job))
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        TimedCommand::all(job).iter().map(TimedCommand::info).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let tasks = TimedCommand::all(job);
        if tasks.is_empty() {
            let why =
                "the workload command has no task; write the command after `--`, or add [[workload.task]]";
            return Err(TaskError::Plan(why.into()));
        }
        let mut prints = vec![];
        for (at, task) in tasks.iter().enumerate() {
            if let Some(fault) = task.fault() {
                return Err(TaskError::Plan(fault));
            }
            if tasks[..at].iter().any(|other| other.name == task.name) {
                return Err(TaskError::Plan(format!("two tasks have the name `{}`", task.name)));
            }
            let by = format!("metric_regex of task `{}`", task.name);
            let rules = task.rules(job)?.into_iter();
            prints.extend(rules.map(|rule| Declaration { metric: rule.metric, by: by.clone() }));
        }
        refuse_unmade(job, &tasks[0])?;
        let lacking = |name: &&str| !name.contains('/') && program::find(name).is_none();
        let lacking: Vec<&str> = job.settings.words("needs").into_iter().filter(lacking).collect();
        if !lacking.is_empty() {
            let (names, packages) = (lacking.join(", "), lacking.join(" "));
            let why = format!("not installed: {names}; on Debian: apt-get install {packages}");
            return Err(TaskError::Missing(why));
        }
        let bytes = job.settings.int("room") as u64;
        let other_bytes = job.settings.int("source_room") as u64;
        let room = Room { bytes, inodes: bytes >> 14, other_bytes };
        Ok(Survey { room, prints, ..Survey::default() })
    }

    fn programs(&self, _job: &Job) -> Vec<&'static str> {
        vec!["sh", "true"]
    }

    fn own_programs(&self, job: &Job) -> Vec<String> {
        let tasks = TimedCommand::all(job).into_iter().filter_map(|task| task.words.into_iter().next());
        let needed = job.settings.words("needs").into_iter().map(String::from);
        tasks.chain(needed).filter(|program| !is_relative(program)).collect()
    }

    fn inputs(&self, _job: &Job, place: &Place) -> Result<()> {
        let dir = place.other.join(TEMPORARY);
        dirs::make_dirs(&dir).map_err(at("make", &dir))
    }

    fn steps(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let builder = CommandBuilder { job, place };
        let mut first = builder.once();
        first.extend(builder.script(job.settings.text("setup")));
        let tasks = TimedCommand::all(job).into_iter().map(|task| {
            let work = builder.action(&place.root, task.words.clone(), task.rules(job)?);
            let before = if task.text(job, "cache") == "cold" { Before::ColdCache } else { Before::Warm };
            let prepare = first.drain(..).chain(builder.script(task.text(job, "prepare")));
            Ok(Task { before, ..Task::new(task.info(), work).after(prepare) })
        });
        tasks.collect()
    }

    fn nothing(&self, job: &Job, place: &Place) -> Option<Action> {
        Some(CommandBuilder { job, place }.action(&place.root, vec!["true".into()], vec![]))
    }

    fn checks(&self, job: &Job, place: &Place, id: &TaskId) -> Vec<Action> {
        let tasks = TimedCommand::all(job);
        let task = tasks.iter().find(|task| task.name == id.name);
        task.and_then(|task| CommandBuilder { job, place }.script(task.text(job, "check")))
            .into_iter()
            .collect()
    }
}

/// Whether a program is a path on the filesystem under test, which is created when the run begins.
fn is_relative(program: &str) -> bool {
    program.contains('/') && !program.starts_with('/')
}

/// Refuses a first task whose program is on the filesystem under test if no command before it can have put it there.
fn refuse_unmade(job: &Job, first: &TimedCommand) -> Result<()> {
    let before = [job.settings.text("once"), job.settings.text("setup"), first.text(job, "prepare")];
    let program = &first.words[0];
    if !is_relative(program) || before.iter().any(|script| !script.is_empty()) {
        return Ok(());
    }
    Err(TaskError::Plan(format!(
        "{program}: the working directory is the filesystem under test, which is empty; write an absolute path, or copy the \
         program there with --setup"
    )))
}
