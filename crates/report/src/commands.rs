//! Collects the logged commands of a run for the page of its report: by cell, each text stored once, up to a limit of bytes.

use fsarena_core::record::{CommandLogLine, RunRecord};
use fsarena_core::{event::CommandRecord, metric::reading, safe};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// Commands of further cells are left out once the commands of a report take this many bytes.
const MAX_BYTES: usize = 250_000;
/// Approximate bytes of one entry without its texts.
const ENTRY_BYTES: usize = 18;

/// The commands of a run by cell.
#[derive(Debug, Clone, Default)]
pub struct Commands {
    /// The texts of commands and of their results. Entries refer to them by index.
    pub(crate) texts: Vec<String>,
    /// The index of each text.
    indexes: HashMap<String, usize>,
    cells: BTreeMap<String, Vec<LoggedCommand>>,
    bytes: usize,
    /// The number of commands that did not fit.
    pub(crate) commands_left_out: u64,
}

/// One logged command.
#[derive(Debug, Clone)]
struct LoggedCommand {
    /// The index of the text of the command.
    command_text: usize,
    /// The index of the text that states how the command ended.
    end_text: usize,
    ms: u64,
    /// The time of its start, in seconds since 1970; `None` if the log has no valid time.
    began: Option<f64>,
}

impl Commands {
    /// Adds one line of the log. Lines outside cells are ignored. Each cell is kept completely, or counted as left out once
    /// the limit of bytes is reached.
    pub fn push(&mut self, line: &CommandLogLine) {
        let Some(cell) = &line.cell else { return };
        if self.bytes > MAX_BYTES && !self.cells.contains_key(cell) {
            self.commands_left_out += 1;
            return;
        }
        let command_text = self.intern_text(command_as_shell_text(&line.command));
        let end_text = self.intern_text(line.command.ended.to_string());
        let ended_at = line.at.parse::<jiff::Timestamp>().ok().map(|at| at.as_millisecond() as f64 / 1e3);
        let began = ended_at.map(|at| at - line.command.ms as f64 / 1e3);
        self.bytes += ENTRY_BYTES;
        self.cells.entry(cell.clone()).or_default().push(LoggedCommand {
            command_text,
            end_text,
            ms: line.command.ms,
            began,
        });
    }

    /// The index of a text in `texts`; adds it if it is new.
    fn intern_text(&mut self, text: String) -> usize {
        if let Some(index) = self.indexes.get(&text) {
            return *index;
        }
        self.bytes += text.len() + 3;
        self.indexes.insert(text.clone(), self.texts.len());
        self.texts.push(text);
        self.texts.len() - 1
    }

    /// The commands of each cell that has some, by the index of the cell. A command is an array: the indexes of its two
    /// texts, its milliseconds, and the index of its task or null.
    pub(crate) fn by_cell(&self, record: &RunRecord) -> BTreeMap<usize, Vec<Value>> {
        let cells = record.cells.iter().enumerate();
        let logged: BTreeMap<usize, &Vec<LoggedCommand>> =
            cells.filter_map(|(at, cell)| Some((at, self.cells.get(&cell.id)?))).collect();
        let tasks_by_cell = task_times(record, logged.keys().copied());
        let mut commands = BTreeMap::new();
        for (at, entries) in logged {
            let command = |entry: &LoggedCommand| {
                let task = entry.began.and_then(|began| task_at(&tasks_by_cell[&at], began));
                json!([entry.command_text, entry.end_text, entry.ms, task])
            };
            commands.insert(at, entries.iter().map(command).collect());
        }
        commands
    }
}

/// The start and the end of a timed task in seconds since 1970, and the index of the task.
type TaskTime = (f64, f64, u32);

/// The clocks of the log and of the samples agree within this many seconds: the log rounds to milliseconds.
const CLOCK_TOLERANCE: f64 = 0.002;

/// The times of the tasks of these cells.
fn task_times(record: &RunRecord, cells: impl Iterator<Item = usize>) -> BTreeMap<usize, Vec<TaskTime>> {
    let synced = record.reading(reading::SYNCED).or(record.reading(reading::ELAPSED));
    let mut cells: BTreeMap<usize, Vec<TaskTime>> = cells.map(|cell| (cell, vec![])).collect();
    for row in 0..record.samples.len() {
        let Some(tasks) = cells.get_mut(&(record.samples.cell[row] as usize)) else { continue };
        let ns = synced.map(|column| record.samples.values[column][row]).filter(|ns| !ns.is_nan());
        let from = record.samples.started_at[row];
        tasks.push((from, from + ns.unwrap_or(0.0) / 1e9, record.samples.task[row]));
    }
    cells
}

/// The task during which a command of its cell began.
fn task_at(tasks: &[TaskTime], began: f64) -> Option<u32> {
    let is_running = |(from, until, _): &&TaskTime| (from - CLOCK_TOLERANCE..=until + CLOCK_TOLERANCE).contains(&began);
    // At the boundary of two tasks, the earlier one has ended.
    tasks.iter().filter(is_running).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, _, task)| *task)
}

/// Formats a command for the printed log: its duration, how it ended, and its words.
pub fn format_logged_command(command: &CommandRecord) -> String {
    format!(
        "{:>8} ms  {:<8}  {}",
        command.ms,
        safe::line(&command.ended.to_string()),
        safe::line(&command_as_shell_text(command))
    )
}

/// A command as text that a shell accepts: `mkfs.ext4 -q /dev/loop0`. Equal commands that ran several times are one
/// entry, with their number and the last of them.
fn command_as_shell_text(command: &CommandRecord) -> String {
    let shell_words = |argv: &[String]| argv.iter().map(|word| shell_quoted(word)).collect::<Vec<_>>().join(" ");
    let last = command.last.as_ref().map_or(String::new(), |last| format!(" … {}", shell_words(last)));
    let count = if command.times > 1 { format!(" ({} times)", command.times) } else { String::new() };
    let cwd = command.cwd.as_ref().map_or(String::new(), |cwd| format!(" (in {cwd})"));
    format!("{}{last}{count}{cwd}", shell_words(&command.argv))
}

/// Quotes a word for a shell if necessary, and cuts it at 2000 characters.
fn shell_quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+^".contains(c);
    let word: String = word.chars().take(2_000).collect();
    if !word.is_empty() && word.chars().all(is_plain) { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::event::CommandEnd;

    fn line(cell: &str, argv: &[&str]) -> CommandLogLine {
        let command = CommandRecord {
            argv: argv.iter().map(|word| word.to_string()).collect(),
            times: 1,
            last: None,
            cwd: None,
            ended: CommandEnd::Exit(0),
            ms: 7,
            output: None,
        };
        CommandLogLine { at: "2026-11-21T20:00:00.500Z".into(), cell: Some(cell.into()), command }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(command_as_shell_text(&line("c", &["cp", "-r", "a b", "it's"]).command), "cp -r 'a b' 'it'\\''s'");
    }

    #[test]
    fn a_logged_command_is_one_line_without_control_characters() {
        let line = format_logged_command(&line("c", &["cp", "a\nb\u{1b}[2J"]).command);
        assert!(line.ends_with("  cp 'a⏎b\\u{1b}[2J'"), "{line}");
    }

    #[test]
    fn texts_are_stored_once_and_cells_completely_or_not_at_all() {
        let mut commands = Commands::default();
        for _ in 0..3 {
            commands.push(&line("c", &["mkfs.ext4"]));
        }
        assert_eq!((commands.texts.len(), commands.cells["c"].len()), (2, 3));
        let long = "x".repeat(1_900);
        for at in 0..400 {
            let name = format!("{long}{at}");
            commands.push(&line(&format!("cell{}", at / 2), &[&name]));
        }
        assert!(commands.commands_left_out > 0 && commands.bytes < MAX_BYTES + 5_000, "{}", commands.bytes);
        assert!(commands.cells.values().all(|entries| entries.len() >= 2));
    }
}
