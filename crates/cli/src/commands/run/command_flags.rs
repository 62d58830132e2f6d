//! Commands of the user on the command line: they become the plan of a run.

use crate::explicit_flags::ExplicitFlags;
use crate::failure::{Failure, usage};
use crate::flags::time;
use clap::builder::NonEmptyStringValueParser;
use fsarena_core::app;
use std::time::Duration;
use toml::{Table, Value};

/// The flags for the commands to time.
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
    /// Metric in the output of the commands: `tps per_s higher: tps = ([0-9.]+)`; repeatable
    #[arg(long, value_name = "RULE", help_heading = "Your own command")]
    pub metric_regex: Vec<String>,
    /// Time after which a command counts as hung [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Your own command")]
    pub timeout: Option<Duration>,
    /// Program and arguments to time, without a shell; their working directory is the filesystem under test
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["plan", "cmd"])]
    pub command: Vec<String>,
}

/// The name of a run of these words: the program that they begin with, or `command` where that is no plain name or that
/// of a plan which ships with fsarena.
fn name_of(words: &str) -> &str {
    let program = words.split_whitespace().next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.', '+'].contains(&c);
    let named = name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(plain);
    if named && app::plan(name).is_none() { name } else { "command" }
}

impl CommandFlags {
    /// Whether the command line has a command to time.
    pub fn is_given(&self) -> bool {
        !self.cmd.is_empty() || !self.command.is_empty()
    }

    /// The plan of the commands on the command line, where there are any.
    pub fn plan(&self, given: &ExplicitFlags) -> Result<Option<String>, Failure> {
        let texts = [
            ("setup", &self.setup),
            ("prepare", &self.prepare),
            ("check", &self.check),
            ("cache", &self.cache),
        ];
        let mut workload = Table::new();
        workload.extend(texts.into_iter().filter_map(|(id, text)| Some((id.into(), text.clone()?.into()))));
        workload.extend(self.timeout.map(|limit| ("timeout".into(), limit.as_secs_f64().into())));
        if !self.metric_regex.is_empty() {
            workload.insert("metric_regex".into(), self.metric_regex.clone().into());
        }
        let tasks = self.tasks(given)?;
        if tasks.is_empty() {
            return workload.keys().next().map_or(Ok(None), |flag| {
                let instead = format!("in a plan: --set {flag}=VALUE");
                usage(format!("--{flag}: add --cmd COMMAND, or a command after `--`; {instead}"))
            });
        }
        workload.insert("use".into(), "command".into());
        workload.insert("task".into(), tasks.into());
        let words = match self.command.is_empty() {
            true => self.cmd.join("; "),
            false => self.command.join(" "),
        };
        let plan = Table::from_iter([
            ("name".into(), name_of(&words).into()),
            ("title".into(), words.clone().into()),
            ("question".into(), format!("Which variant is fastest at `{words}`?").into()),
            ("workload".into(), vec![Value::Table(workload)].into()),
        ]);
        Ok(Some(plan.to_string()))
    }

    /// The tasks, each with the name that `--name` gives it right before it.
    fn tasks(&self, given: &ExplicitFlags) -> Result<Vec<Value>, Failure> {
        let mut names = self.name.iter().zip(given.places("name")).peekable();
        let shell = self.cmd.iter().zip(given.places("cmd")).map(|(cmd, at)| ("cmd", cmd.clone().into(), at));
        let vector = given.places("command").into_iter().next();
        let vector = vector.map(|at| ("run", Value::from(self.command.clone()), at));
        let misplaced =
            |name: &str| usage(format!("--name {name}: write it directly before the --cmd that it names"));
        let mut tasks = vec![];
        for (key, command, at) in shell.chain(vector) {
            let mut task = Table::from_iter([(key.to_string(), command)]);
            if let Some((name, _)) = names.next_if(|(_, place)| *place < at) {
                if names.peek().is_some_and(|(_, place)| *place < at) {
                    return misplaced(name);
                }
                task.insert("name".into(), name.clone().into());
            }
            tasks.push(Value::Table(task));
        }
        names.next().map_or(Ok(tasks), |(name, _)| misplaced(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_named_after_its_program() {
        let named =
            ["git clone a b", "/usr/bin/make -j2", "(cd a; make)", "piszcz", "X=1 make", ""].map(name_of);
        assert_eq!(named, ["git", "make", "command", "command", "command", "command"]);
    }
}
