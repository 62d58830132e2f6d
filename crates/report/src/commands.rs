//! Collects the logged commands of a run for the page of its report: by cell, each text stored once, up to a limit of bytes.

use fsarena_core::record::{CommandLogLine, RunRecord};
use fsarena_core::{escape, event::CommandRecord, metric::reading};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// Commands of further cells are left out once the commands of a report take this many bytes.
const MAX_COMMAND_BYTES: usize = 250_000;
/// Approximate bytes of one entry without its texts.
const ENTRY_BYTES: usize = 18;

/// The commands of a run by cell.
#[derive(Debug, Clone, Default)]
pub struct Commands {
    /// The texts of commands and of their results. Entries refer to them by index.
    pub(crate) texts: Vec<String>,
    /// The index of each text.
    indexes: HashMap<String, usize>,
    /// The commands by the id of their cell.
    cells: BTreeMap<String, Vec<LoggedCommand>>,
    /// The approximate size of all entries and texts.
    bytes: usize,
    /// The number of commands that are left out because of [`MAX_COMMAND_BYTES`].
    pub(crate) left_out_count: u64,
}

/// One logged command.
#[derive(Debug, Clone)]
struct LoggedCommand {
    /// The index of the text of the command.
    command_text: usize,
    /// The index of the text that states how the command ended.
    end_text: usize,
    duration_ms: u64,
    /// The time at which the command started, in seconds since 1970; `None` if the log has no valid time.
    started_s: Option<f64>,
}

impl Commands {
    /// Adds the command of one line of the log. Ignores commands outside cells. Once `MAX_COMMAND_BYTES` is reached, counts
    /// the commands of further cells as left out, so that each cell has all of its commands or none.
    pub fn push(&mut self, line: &CommandLogLine) {
        let Some(cell) = &line.cell else { return };
        if self.bytes > MAX_COMMAND_BYTES && !self.cells.contains_key(cell) {
            self.left_out_count += 1;
            return;
        }
        let command_text = self.intern_text(command_as_shell_text(&line.command));
        let end_text = self.intern_text(line.command.ended.to_string());
        let ended_s = line.ended_at.parse::<jiff::Timestamp>().ok().map(|time| time.as_millisecond() as f64 / 1e3);
        let started_s = ended_s.map(|ended_s| ended_s - line.command.ms as f64 / 1e3);
        self.bytes += ENTRY_BYTES;
        self.cells.entry(cell.clone()).or_default().push(LoggedCommand {
            command_text,
            end_text,
            duration_ms: line.command.ms,
            started_s,
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

    /// The commands by the index of their cell, without cells that have none. A command is an array: the index of its text, the
    /// index of the text about its end, its duration in milliseconds, and the index of its task or null.
    pub(crate) fn by_cell(&self, record: &RunRecord) -> BTreeMap<usize, Vec<Value>> {
        let cells = record.cells.iter().enumerate();
        let logged: BTreeMap<usize, &Vec<LoggedCommand>> =
            cells.filter_map(|(index, cell)| Some((index, self.cells.get(&cell.id)?))).collect();
        let tasks_by_cell = task_times(record, logged.keys().copied());
        let mut commands = BTreeMap::new();
        for (cell, entries) in logged {
            let tasks = &tasks_by_cell[&cell];
            let command_json = |entry: &LoggedCommand| {
                let task = entry.started_s.and_then(|started_s| task_running_at(tasks, started_s));
                json!([entry.command_text, entry.end_text, entry.duration_ms, task])
            };
            commands.insert(cell, entries.iter().map(command_json).collect());
        }
        commands
    }
}

/// The start and the end of a timed task in seconds since 1970, and the index of the task.
type TaskTime = (f64, f64, u32);

/// The clocks of the log and of the samples agree within this many seconds: the log rounds to milliseconds.
const CLOCK_TOLERANCE_S: f64 = 0.002;

/// The times of the tasks of these cells, by the index of the cell.
fn task_times(record: &RunRecord, cells: impl Iterator<Item = usize>) -> BTreeMap<usize, Vec<TaskTime>> {
    // A task whose data could not be synced has only the time until its command returned.
    let durations = [reading::SYNCED, reading::ELAPSED].map(|id| record.reading_column(id));
    let mut times_by_cell: BTreeMap<usize, Vec<TaskTime>> = cells.map(|cell| (cell, vec![])).collect();
    for row in 0..record.samples.len() {
        let Some(tasks) = times_by_cell.get_mut(&(record.samples.cell[row] as usize)) else { continue };
        let mut durations_ns = durations.iter().flatten().map(|column| record.samples.values[*column][row]);
        let duration_ns = durations_ns.find(|ns| !ns.is_nan());
        let start_s = record.samples.started_at[row];
        tasks.push((start_s, start_s + duration_ns.unwrap_or(0.0) / 1e9, record.samples.task[row]));
    }
    times_by_cell
}

/// The task that ran at a time in seconds since 1970; `None` if no task did.
fn task_running_at(tasks: &[TaskTime], time_s: f64) -> Option<u32> {
    let is_running =
        |(start_s, end_s, _): &&TaskTime| (start_s - CLOCK_TOLERANCE_S..=end_s + CLOCK_TOLERANCE_S).contains(&time_s);
    // At the boundary of two tasks, the earlier one has ended.
    tasks.iter().filter(is_running).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, _, task)| *task)
}

/// Formats a command for the printed log: its duration, how it ended, and its words.
pub fn format_logged_command(command: &CommandRecord) -> String {
    format!(
        "{:>8} ms  {:<8}  {}",
        command.ms,
        escape::line(&command.ended.to_string()),
        escape::line(&command_as_shell_text(command))
    )
}

/// The text of a command, with its words quoted as for a shell: `mkfs.ext4 -q /dev/loop0`. A record of several runs of a command
/// also gets their number, and the words of the last one if they differ.
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
    use fsarena_core::record::MetricSpec;
    use fsarena_core::sample::{Direction, Unit};

    fn log_line(cell: &str, argv: &[&str]) -> CommandLogLine {
        let command = CommandRecord {
            argv: argv.iter().map(|word| word.to_string()).collect(),
            times: 1,
            last: None,
            cwd: None,
            ended: CommandEnd::Exit(0),
            ms: 7,
            output: None,
        };
        CommandLogLine { ended_at: "2026-11-21T20:00:00.500Z".into(), cell: Some(cell.into()), command }
    }

    #[test]
    fn a_task_without_a_synced_time_lasts_until_its_command_returned() {
        let mut record = RunRecord::default();
        for id in [reading::ELAPSED, reading::SYNCED] {
            record.readings.push(MetricSpec::new(id.into(), Unit::Nanoseconds, Direction::Lower, String::new()));
        }
        record.samples.cell = vec![0, 0];
        record.samples.task = vec![0, 1];
        record.samples.started_at = vec![100.0, 110.0];
        record.samples.values = vec![vec![2e9, 2e9], vec![3e9, f64::NAN]];
        let times = task_times(&record, [0].into_iter());
        assert_eq!(times[&0], [(100.0, 103.0, 0), (110.0, 112.0, 1)]);
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(
            command_as_shell_text(&log_line("c", &["cp", "-r", "a b", "it's"]).command),
            "cp -r 'a b' 'it'\\''s'"
        );
    }

    #[test]
    fn a_logged_command_is_one_line_without_control_characters() {
        let line = format_logged_command(&log_line("c", &["cp", "a\nb\u{1b}[2J"]).command);
        assert!(line.ends_with("  cp 'a⏎b\\u{1b}[2J'"), "{line}");
    }

    #[test]
    fn texts_are_stored_once_and_cells_completely_or_not_at_all() {
        let mut commands = Commands::default();
        for _ in 0..3 {
            commands.push(&log_line("c", &["mkfs.ext4"]));
        }
        assert_eq!((commands.texts.len(), commands.cells["c"].len()), (2, 3));
        let long = "x".repeat(1_900);
        for number in 0..400 {
            let word = format!("{long}{number}");
            commands.push(&log_line(&format!("cell{}", number / 2), &[&word]));
        }
        assert!(commands.left_out_count > 0 && commands.bytes < MAX_COMMAND_BYTES + 5_000, "{}", commands.bytes);
        assert!(commands.cells.values().all(|entries| entries.len() >= 2));
    }
}
