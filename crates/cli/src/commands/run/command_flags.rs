//! Flags for the user's own commands to time, and the plan that they make.

use crate::failure::{Failure, usage_error};
use crate::flags::{ExplicitFlags, absolute_text, format_flag, parse_duration};
use clap::builder::NonEmptyStringValueParser;
use fsarena_core::study;
use std::{env::VarError, path::PathBuf, time::Duration};
use toml::{Table, Value};

/// The flags for the commands to time. They make a plan of the workload `command`.
#[derive(Debug, clap::Args)]
pub struct CommandFlags {
    /// Shell command to time, run as `sh -euc`; repeatable
    #[arg(long, value_name = "COMMAND", conflicts_with = "plan", help_heading = "Your own command")]
    pub cmd: Vec<String>,
    /// Name of the command that follows: `--name build --cmd 'make -j2'`; repeatable
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), conflicts_with = "plan", help_heading = "Your own command")]
    pub name: Vec<String>,
    /// Shell command on each fresh filesystem, not timed
    #[arg(long, value_name = "COMMAND", help_heading = "Your own command")]
    pub setup: Option<String>,
    /// Shell command before each task, not timed
    #[arg(long, value_name = "COMMAND", help_heading = "Your own command")]
    pub prepare: Option<String>,
    /// Shell command after each task, not timed; if it fails, the task fails
    #[arg(long, value_name = "COMMAND", help_heading = "Your own command")]
    pub check: Option<String>,
    /// Page cache before each task: warm or cold [default: warm]
    #[arg(long, value_name = "STATE", help_heading = "Your own command")]
    pub cache: Option<String>,
    /// File or directory of yours that the commands find as $FSARENA_INPUT
    #[arg(long, value_name = "PATH", help_heading = "Your own command")]
    pub input: Option<PathBuf>,
    /// Environment variable of the commands: `NAME=VALUE`, or `NAME` for its value here; repeatable
    #[arg(long, value_name = "VARIABLE", help_heading = "Your own command")]
    pub env: Vec<String>,
    /// Metric in the output of the commands: `tps per_s higher: tps = ([0-9.]+)`; repeatable
    #[arg(long, value_name = "RULE", help_heading = "Your own command")]
    pub metric_regex: Vec<String>,
    /// Time after which a command counts as hung [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Your own command")]
    pub timeout: Option<Duration>,
    /// Program and arguments to time, without a shell; their working directory is the filesystem under test
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["plan", "cmd"])]
    pub command: Vec<String>,
}

/// The name of a plan: `name`, or `fallback` if `name` has unusual characters or is the name of a plan of fsarena.
pub fn plan_name<'a>(name: &'a str, fallback: &'a str) -> &'a str {
    let is_usual_letter = |letter: char| letter.is_ascii_alphanumeric() || ['-', '_', '.', '+'].contains(&letter);
    let is_usual = name.starts_with(|letter: char| letter.is_ascii_alphanumeric()) && name.chars().all(is_usual_letter);
    if is_usual && study::shipped_plan(name).is_none() { name } else { fallback }
}

/// The name of the program of a command, without its directory.
fn program_name(command: &str) -> &str {
    let program = command.split_whitespace().next().unwrap_or_default();
    program.rsplit('/').next().unwrap_or_default()
}

/// An environment variable as `NAME=VALUE`; a name alone stands for its value in this process.
pub fn environment_variable(variable: &str) -> Result<String, Failure> {
    if variable.contains('=') {
        return Ok(variable.into());
    }
    match std::env::var(variable) {
        Ok(value) => Ok(format!("{variable}={value}")),
        Err(VarError::NotUnicode(_)) => usage_error(format!("--env {variable}: its value here is not UTF-8 text")),
        Err(VarError::NotPresent) => {
            usage_error(format!("--env {variable}: no such variable here; write --env {variable}=VALUE"))
        }
    }
}

impl CommandFlags {
    /// Whether the command line has commands to time.
    pub fn has_commands(&self) -> bool {
        !self.cmd.is_empty() || !self.command.is_empty()
    }

    /// The text of the plan that times the commands on the command line; None if there are none.
    pub fn plan_text(&self, explicit_flags: &ExplicitFlags) -> Result<Option<String>, Failure> {
        let env = self.env.iter().map(|variable| environment_variable(variable)).collect::<Result<Vec<_>, _>>()?;
        let list = |texts: Vec<String>| (!texts.is_empty()).then(|| Value::from(texts));
        let settings = [
            ("setup", self.setup.clone().map(Value::from)),
            ("prepare", self.prepare.clone().map(Value::from)),
            ("check", self.check.clone().map(Value::from)),
            ("cache", self.cache.clone().map(Value::from)),
            ("timeout", self.timeout.map(|limit| limit.as_secs_f64().into())),
            ("metric_regex", list(self.metric_regex.clone())),
            ("input", self.input.as_deref().map(absolute_text).transpose()?.map(Value::from)),
            ("env", list(env)),
        ];
        let entries = settings.into_iter().filter_map(|(id, value)| Some((id.to_string(), value?)));
        let mut workload: Table = entries.collect();
        let tasks = self.task_entries(explicit_flags)?;
        if tasks.is_empty() {
            let Some(flag) = workload.keys().next() else { return Ok(None) };
            let instead = format!("in a plan: --set {flag}=VALUE");
            let flag = format_flag(flag, "");
            return usage_error(format!("{flag}: add --cmd COMMAND, or a command after `--`; {instead}"));
        }
        workload.insert("use".into(), "command".into());
        workload.insert("task".into(), tasks.into());
        let command = if self.command.is_empty() { self.cmd.join("; ") } else { self.command.join(" ") };
        let plan = Table::from_iter([
            ("name".into(), plan_name(program_name(&command), "command").into()),
            ("title".into(), command.clone().into()),
            ("question".into(), format!("Which variant is fastest at `{command}`?").into()),
            ("workload".into(), vec![Value::Table(workload)].into()),
        ]);
        Ok(Some(plan.to_string()))
    }

    /// The tasks as entries of a plan. A task has the name of the `--name` directly before it on the command line.
    fn task_entries(&self, explicit_flags: &ExplicitFlags) -> Result<Vec<Value>, Failure> {
        // The key, the value and the position of each command; the command after `--` is the last.
        let mut commands: Vec<(&str, Value, usize)> = vec![];
        for (cmd, position) in self.cmd.iter().zip(explicit_flags.positions("cmd")) {
            commands.push(("cmd", cmd.clone().into(), position));
        }
        if let Some(position) = explicit_flags.positions("command").first() {
            commands.push(("run", self.command.clone().into(), *position));
        }
        let misplaced =
            |name: &str| usage_error(format!("--name {name}: write it directly before the --cmd that it names"));
        let mut names = self.name.iter().zip(explicit_flags.positions("name")).peekable();
        let mut tasks = vec![];
        for (key, command, position) in commands {
            let mut task = Table::from_iter([(key.to_string(), command)]);
            if let Some((name, _)) = names.next_if(|(_, name_position)| *name_position < position) {
                if names.peek().is_some_and(|(_, name_position)| *name_position < position) {
                    return misplaced(name);
                }
                task.insert("name".into(), name.clone().into());
            }
            tasks.push(Value::Table(task));
        }
        match names.next() {
            Some((name, _)) => misplaced(name),
            None => Ok(tasks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_named_after_its_program() {
        let names = ["git clone a b", "/usr/bin/make -j2", "(cd a; make)", "piszcz", "X=1 make", ""]
            .map(|command| plan_name(program_name(command), "command"));
        assert_eq!(names, ["git", "make", "command", "command", "command", "command"]);
    }
}
