//! `command`: commands of the user, timed on a fresh filesystem in each round.

use crate::task::{self, Action, Result, StartState, Task, TaskError, failed_to};
use crate::workload::{Job, Place, Room, Survey, Workload};
use crate::{invocation::Invocation, printed::MetricRule};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::metric::Declaration;
use fsarena_core::setting::{SettingDef, SettingValue, Settings, WorkloadDef};
use fsarena_sys::{dirs, program};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The workload.
pub struct CommandWorkload;

/// The file on the source disk that exists after the command of `once` has run.
const ONCE_DONE_FILE: &str = ".once";
/// The setting of environment variables.
const ENV_SETTING: &str = "env";
/// The setting of the amount of work.
const AMOUNT_SETTING: &str = "amount";
/// The setting for a setup command that runs once: fsarena keeps the filesystem with its files.
pub const SETUP_ONCE: &str = "setup_once";
/// The directory on the source disk that commands find as `$TMPDIR`.
const TMPDIR_NAME: &str = "tmp";

const CACHE: SettingDef =
    SettingDef::choice("cache", &["warm", "cold"], "warm").help("cold drops the page cache before a task");
const PREPARE: SettingDef = SettingDef::text("prepare").help("shell command before each task, not timed");
const CHECK: SettingDef =
    SettingDef::text("check").help("shell command after each task, not timed; if it fails, the task fails");

const METRIC_REGEX: SettingDef =
    SettingDef::texts("metric_regex").help("metrics that tasks print: `NAME UNIT DIRECTION: REGEX`");

/// The settings of one task. `prepare`, `check` and `cache` of the workload apply to tasks that do not set them.
const TASK_SETTINGS: &[SettingDef] = &[
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
        SettingDef::texts(ENV_SETTING).help("environment variables of the commands: `NAME=VALUE`"),
        SettingDef::int(AMOUNT_SETTING, 1..=1_000_000_000, 1).help(
            "amount of work, which commands find as $FSARENA_AMOUNT, for a grid over it: `--grid amount=1e3..1e5`",
        ),
        SettingDef::text("setup").help("shell command on each fresh filesystem, not timed"),
        SettingDef::text(SETUP_ONCE).help(
            "shell command on a fresh filesystem, not timed, that always makes the same files: it runs once, and each round \
             begins with its files",
        ),
        PREPARE,
        CHECK,
        CACHE,
        METRIC_REGEX,
        SettingDef::float("timeout", 0.001..=1e7, 3600.0).help("seconds after which a command counts as hung"),
        SettingDef::size("room", 1 << 20..=1 << 44, 512 << 20)
            .help("bytes that the commands write at most; the image has room for them"),
        SettingDef::size("source_room", 1 << 20..=1 << 44, 64 << 20)
            .help("bytes that the commands write to the source disk at most"),
        SettingDef::tables("task", TASK_SETTINGS).help("commands to time, in order"),
    ],
};

/// One of the commands to time.
struct TimedCommand {
    /// The name of its task.
    name: String,
    /// Program and arguments.
    argv: Vec<String>,
    /// The settings of its task, by [`TASK_SETTINGS`].
    settings: Settings,
}

impl TimedCommand {
    /// The commands of a job in their order. A task without a name gets that of its program, with a number if another task has
    /// that name.
    fn from_job(job: &Job) -> Vec<TimedCommand> {
        let tables = match job.settings.0.get("task") {
            Some(SettingValue::List(tables)) => tables.as_slice(),
            Some(table) => std::slice::from_ref(table),
            None => &[],
        };
        let settings_of_table = |table: &SettingValue| match table {
            SettingValue::Table(values) => Some(Settings(values.clone())),
            _ => None,
        };
        let settings_of_tasks: Vec<Settings> = tables.iter().filter_map(settings_of_table).collect();
        let chosen_names: Vec<String> =
            settings_of_tasks.iter().map(|settings| settings.text("name").to_string()).collect();
        let mut commands: Vec<TimedCommand> = vec![];
        for settings in settings_of_tasks {
            let argv = match settings.text("cmd") {
                "" => settings.words("run").into_iter().map(String::from).collect(),
                script => shell_argv(script),
            };
            let name = match settings.text("name") {
                "" => task::first_free_name(&program_name(&settings), |name| {
                    let is_used =
                        commands.iter().map(|command| &command.name).chain(&chosen_names).any(|used| used == name);
                    !is_used && !task::is_reserved_name(name)
                }),
                name => name.to_string(),
            };
            commands.push(TimedCommand { name, argv, settings });
        }
        commands
    }

    fn task_info(&self) -> TaskInfo {
        let command = match self.settings.text("cmd") {
            "" => self.argv.join(" "),
            script => script.into(),
        };
        // The title has the name that the user chose, because several tasks can have the same command.
        let has_chosen_name = !self.settings.text("name").is_empty();
        let title = if has_chosen_name { format!("{}: {command}", self.name) } else { command };
        task::info(&self.name, title, [])
    }

    /// Returns a setting of the task, or that of the workload if the task does not set it.
    fn setting_text<'a>(&'a self, job: &'a Job, id: &str) -> &'a str {
        match self.settings.text(id) {
            "" => job.settings.text(id),
            task_value => task_value,
        }
    }

    /// Parses the rules for metrics in the task's output. A task without rules has those of the workload.
    fn parse_rules(&self, job: &Job) -> Result<Vec<MetricRule>> {
        let task_rules = self.settings.words("metric_regex");
        let rules = if task_rules.is_empty() { job.settings.words("metric_regex") } else { task_rules };
        let rule_error = |problem| TaskError::Plan(format!("metric_regex of task `{}`: {problem}", self.name));
        rules.into_iter().map(MetricRule::parse).collect::<Result<_, _>>().map_err(rule_error)
    }

    /// Describes what is wrong with the settings of the task, or returns `None` if they are valid.
    fn find_problem(&self) -> Option<String> {
        let script = self.settings.text("cmd");
        let program = self.settings.words("run").first().copied();
        if !script.is_empty() && program.is_some() {
            return Some(format!("task `{}` has both `cmd` and `run`; keep one", self.name));
        }
        if script.is_empty() && program.is_none() {
            return Some(format!("task `{}` has no command; add cmd = \"COMMAND\"", self.name));
        }
        if script.trim().is_empty() && program.is_none_or(str::is_empty) {
            return Some(format!("the command of task `{}` is empty; write the program to run", self.name));
        }
        if !self.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
            return Some(format!("task name `{}`: use letters, digits, - and _", self.name));
        }
        if task::is_reserved_name(&self.name) {
            return Some(format!("task name `{}`: fsarena uses it itself; choose another name", self.name));
        }
        None
    }
}

/// The argument vector that runs a shell command.
fn shell_argv(script: &str) -> Vec<String> {
    ["sh", "-euc", script].map(String::from).into()
}

/// The name of the first program of a task, for the name of the task.
fn program_name(settings: &Settings) -> String {
    let first_word = settings.text("cmd").split_whitespace().next();
    let program = first_word.or(settings.words("run").first().copied()).unwrap_or_default();
    let file = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let name: String = file.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
    if name.is_empty() { "task".into() } else { name }
}

/// The time limit of each command.
fn time_limit(job: &Job) -> Duration {
    Duration::from_secs_f64(job.settings.float("timeout"))
}

/// The action of a command in a directory.
fn command_action(job: &Job, place: &Place, dir: &Path, argv: Vec<String>, rules: Vec<MetricRule>) -> Action {
    let user_env = job.settings.words(ENV_SETTING).into_iter().filter_map(|word| word.split_once('='));
    let user_env = user_env.map(|(name, value)| (name, value.into()));
    // Later values win, so the variables of the user cannot replace those of fsarena.
    let env = user_env.chain([
        ("FSARENA_DIR", place.root.clone().into()),
        ("FSARENA_SOURCE", place.source_dir.clone().into()),
        ("FSARENA_INPUT", job.settings.text("input").into()),
        ("FSARENA_AMOUNT", job.settings.int(AMOUNT_SETTING).to_string().into()),
        ("TMPDIR", place.source_dir.join(TMPDIR_NAME).into()),
    ]);
    let env = env.map(|(name, value): (_, OsString)| (name.to_string(), value)).collect();
    let time_limit = time_limit(job);
    Action::RunUserCommand(Invocation { argv, dir: dir.into(), env, time_limit, metric_rules: rules })
}

/// The action of a shell command on the filesystem under test, or `None` if the command is empty.
fn script_action(job: &Job, place: &Place, script: &str) -> Option<Action> {
    (!script.is_empty()).then(|| command_action(job, place, &place.root, shell_argv(script), vec![]))
}

impl Workload for CommandWorkload {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn command_time_limit(&self, job: &Job) -> Option<Duration> {
        Some(time_limit(job))
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        TimedCommand::from_job(job).iter().map(TimedCommand::task_info).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let tasks = TimedCommand::from_job(job);
        if tasks.is_empty() {
            let reason = "the workload command has no task; write the command after `--`, or add [[workload.task]]";
            return Err(TaskError::Plan(reason.into()));
        }
        let mut printed_metrics = vec![];
        for task in &tasks {
            if let Some(problem) = task.find_problem() {
                return Err(TaskError::Plan(problem));
            }
            let origin = format!("metric_regex of task `{}`", task.name);
            let rules = task.parse_rules(job)?.into_iter();
            printed_metrics.extend(rules.map(|rule| Declaration { metric: rule.metric, origin: origin.clone() }));
        }
        let is_assignment = |word: &&str| word.split_once('=').is_some_and(|(name, _)| !name.is_empty());
        if let Some(word) = job.settings.words(ENV_SETTING).into_iter().find(|word| !is_assignment(word)) {
            return Err(TaskError::Plan(format!("environment variable `{word}`: write NAME=VALUE")));
        }
        check_first_program(job, &tasks[0])?;
        let is_missing = |name: &&str| !name.contains('/') && program::find(name).is_none();
        let missing: Vec<&str> = job.settings.words("needs").into_iter().filter(is_missing).collect();
        if !missing.is_empty() {
            let (names, packages) = (missing.join(", "), missing.join(" "));
            let reason = format!("not installed: {names}; on Debian: apt-get install {packages}");
            return Err(TaskError::Missing(reason));
        }
        let bytes = job.settings.int("room") as u64;
        let source_bytes = job.settings.int("source_room") as u64;
        // An inode for each 16 KiB, the default of mkfs.ext4.
        let room = Room { bytes, inodes: bytes >> 14, source_bytes };
        Ok(Survey { room, printed_metrics, ..Survey::default() })
    }

    fn programs(&self, _job: &Job) -> Vec<&'static str> {
        vec!["sh", "true"]
    }

    fn user_programs(&self, job: &Job) -> Vec<String> {
        let tasks = TimedCommand::from_job(job).into_iter().filter_map(|task| task.argv.into_iter().next());
        let needed = job.settings.words("needs").into_iter().map(String::from);
        tasks.chain(needed).filter(|program| !is_relative_path(program)).collect()
    }

    fn input_commands(&self, job: &Job, place: &Place) -> Vec<Action> {
        let (script, done_file) = (job.settings.text("once"), place.source_dir.join(ONCE_DONE_FILE));
        if script.is_empty() || done_file.exists() {
            return vec![];
        }
        let run_script = command_action(job, place, &place.source_dir, shell_argv(script), vec![]);
        let record_done = Action::call_with(&done_file, ["touch", ONCE_DONE_FILE], |done_file| {
            std::fs::write(done_file, "").map_err(failed_to("write", done_file))
        });
        vec![run_script, record_done]
    }

    fn setup_once_actions(&self, job: &Job, place: &Place) -> Vec<Action> {
        script_action(job, place, job.settings.text(SETUP_ONCE)).into_iter().collect()
    }

    fn paths_in_settings(&self, job: &Job) -> Vec<PathBuf> {
        // `once` is missing here, because this machine executes it, also for guests.
        let tasks = TimedCommand::from_job(job);
        let mut texts: Vec<&str> = ["setup", SETUP_ONCE, "prepare", "check"].map(|id| job.settings.text(id)).into();
        texts.extend(job.settings.words(ENV_SETTING));
        // `input` and the arguments of `run` do not pass through a shell, so a path in them may contain blanks.
        let mut paths: Vec<PathBuf> = absolute_path(job.settings.text("input")).into_iter().collect();
        for task in &tasks {
            texts.extend(["prepare", "check"].map(|id| task.settings.text(id)));
            texts.extend(task.argv.iter().map(String::as_str));
            paths.extend(task.settings.words("run").into_iter().map(PathBuf::from).filter(|path| path.is_absolute()));
        }
        paths.extend(texts.into_iter().flat_map(absolute_paths_in));
        paths
    }

    fn make_inputs(&self, _job: &Job, place: &Place) -> Result<()> {
        let dir = place.source_dir.join(TMPDIR_NAME);
        dirs::make_dirs(&dir).map_err(failed_to("make", &dir))
    }

    /// With a setup, the tasks may run on a read-only filesystem, because the setup makes their files before.
    fn only_reads(&self, job: &Job) -> bool {
        ["setup", SETUP_ONCE].iter().any(|id| !job.settings.text(id).is_empty())
    }

    fn describe_read_only_settings(&self) -> Option<&'static str> {
        Some("with a `setup` that makes the files")
    }

    fn fill_actions(&self, job: &Job, place: &Place) -> Result<Vec<Action>> {
        let mut actions = self.input_commands(job, place);
        // A filesystem that fsarena kept from an earlier round or run already has the files.
        if !std::fs::read_dir(&place.root).is_ok_and(|mut entries| entries.next().is_some()) {
            actions.extend(self.setup_once_actions(job, place));
        }
        actions.extend(script_action(job, place, job.settings.text("setup")));
        Ok(actions)
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let mut setup_actions = if place.is_read_only() { vec![] } else { self.fill_actions(job, place)? };
        let mut tasks = vec![];
        for command in TimedCommand::from_job(job) {
            let rules = command.parse_rules(job)?;
            let work = command_action(job, place, &place.root, command.argv.clone(), rules);
            let start_state =
                if command.setting_text(job, "cache") == "cold" { StartState::ColdCache } else { StartState::Warm };
            // The first task has the setup before its own preparation.
            let mut preparation = std::mem::take(&mut setup_actions);
            preparation.extend(script_action(job, place, command.setting_text(job, "prepare")));
            tasks.push(Task { start_state, preparation, ..Task::new(command.task_info(), work) });
        }
        Ok(tasks)
    }

    /// Runs `true`, which takes the time to start a process and nothing else.
    fn empty_action(&self, job: &Job, place: &Place) -> Option<Action> {
        Some(command_action(job, place, &place.root, vec!["true".into()], vec![]))
    }

    fn check_actions(&self, job: &Job, place: &Place, id: &TaskId) -> Vec<Action> {
        let commands = TimedCommand::from_job(job);
        let command = commands.iter().find(|command| command.name == id.name);
        let script = command.map_or("", |command| command.setting_text(job, "check"));
        script_action(job, place, script).into_iter().collect()
    }
}

/// The absolute paths in a command, also those below `~/`; for a pattern, the directory before it.
fn absolute_paths_in(text: &str) -> Vec<PathBuf> {
    text.split(|c: char| c.is_whitespace() || "'\"=:;,|&<>()`".contains(c)).filter_map(absolute_path).collect()
}

/// A word as an absolute path, also one below `~/`; for a pattern, the directory before it. `None` if the word is not such a
/// path.
fn absolute_path(word: &str) -> Option<PathBuf> {
    let path = match word.strip_prefix("~/") {
        Some(rest) => dirs::home_dir()?.join(rest),
        None => Some(PathBuf::from(word)).filter(|path| path.is_absolute())?,
    };
    let is_pattern = |path: &&Path| path.to_string_lossy().contains(['*', '?', '[', '{', '$']);
    path.ancestors().find(|ancestor| !is_pattern(ancestor)).map(Path::to_path_buf)
}

/// Whether a program is given as a relative path. Such a path is on the filesystem under test, which is empty before
/// the run.
fn is_relative_path(program: &str) -> bool {
    program.contains('/') && !program.starts_with('/')
}

/// Checks that the program of the first task can exist. A program on the filesystem under test, which is empty at first, can
/// only exist if a command before the task puts it there.
fn check_first_program(job: &Job, first: &TimedCommand) -> Result<()> {
    let setting = |id| job.settings.text(id);
    let earlier_scripts = [setting("once"), setting(SETUP_ONCE), setting("setup"), first.setting_text(job, "prepare")];
    let program = &first.argv[0];
    if !is_relative_path(program) || earlier_scripts.iter().any(|script| !script.is_empty()) {
        return Ok(());
    }
    Err(TaskError::Plan(format!(
        "{program}: the working directory is the filesystem under test, which is empty; write an absolute path, or copy the \
         program there with --setup"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, task_ids};

    /// A job with these tasks, each with its settings.
    fn job_of(tasks: &[&[(&str, &str)]]) -> Job {
        let mut tables = vec![];
        for settings in tasks {
            let values = settings.iter().map(|(id, text)| (id.to_string(), SettingValue::Text(text.to_string())));
            tables.push(SettingValue::Table(values.collect()));
        }
        let task_def = DEF.settings.iter().find(|def| def.id == "task").unwrap();
        let mut job = testing::job(&DEF, 1, &[]);
        job.settings.0.insert("task".into(), task_def.kind.convert(SettingValue::List(tables)).unwrap());
        job
    }

    #[test]
    fn no_task_has_a_name_that_fsarena_uses() {
        let job = job_of(&[&[("cmd", "mount /a")], &[("cmd", "mount /b")], &[("cmd", "tar x")]]);
        assert_eq!(task_ids(&CommandWorkload.outline(&job)), ["mount-2", "mount-3", "tar"]);
        let job = job_of(&[&[("cmd", "tar x")], &[("cmd", "true"), ("name", "tar")]]);
        assert_eq!(task_ids(&CommandWorkload.outline(&job)), ["tar-2", "tar"], "the user chose the name of the second");
        let error = CommandWorkload.survey(&job_of(&[&[("cmd", "true"), ("name", "total")]])).unwrap_err();
        assert!(error.to_string().contains("task name `total`: fsarena uses it itself"), "{error}");
    }

    #[test]
    fn a_setup_can_put_the_first_program_on_the_filesystem() {
        let survey = |setting: &str| {
            let mut job = job_of(&[&[("run", "./build.sh")]]);
            job.settings.0.insert(setting.into(), SettingValue::Text("cp /bin/true build.sh".into()));
            CommandWorkload.survey(&job)
        };
        assert!(survey("setup").is_ok() && survey(SETUP_ONCE).is_ok() && survey("prepare").is_ok());
        assert!(survey("check").is_err_and(|error| error.to_string().contains("which is empty")));
    }

    #[test]
    fn absolute_paths_are_found_in_commands() {
        let paths = |text: &str| -> Vec<String> {
            absolute_paths_in(text).into_iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(paths("cp -r '/srv/a b' \"/srv/app\" . && tar xf --file=/x.tar"), ["/srv/a", "/srv/app", "/x.tar"]);
        assert_eq!(paths("cat /data/*.c > out; ls $HOME/x /a/$b/c"), ["/data", "/a"]);
        assert_eq!(paths("git clone \"$FSARENA_SOURCE/repo.git\" app"), [""; 0]);
        assert!(paths("tar xf ~/linux.tar")[0].ends_with("/linux.tar"));
    }

    #[test]
    fn paths_outside_of_shell_commands_may_contain_blanks() {
        let mut job = job_of(&[&[("cmd", "cat /data/a /data/b")]]);
        job.settings.0.insert("input".into(), SettingValue::Text("/srv/my files".into()));
        let task_def = DEF.settings.iter().find(|def| def.id == "task").unwrap();
        let argv = ["cat", "/srv/c d"].map(|word| SettingValue::Text(word.into()));
        let task = SettingValue::Table([("run".to_string(), SettingValue::List(argv.into()))].into());
        let paths = CommandWorkload.paths_in_settings(&job);
        assert_eq!(paths, ["/srv/my files", "/data/a", "/data/b"].map(PathBuf::from));
        job.settings.0.insert("task".into(), task_def.kind.convert(SettingValue::List(vec![task])).unwrap());
        assert!(CommandWorkload.paths_in_settings(&job).contains(&PathBuf::from("/srv/c d")));
    }
}
