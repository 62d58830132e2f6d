//! The commands of a run, as a report holds them: by cell, texts that repeat only once, and no more than a page can
//! carry.

use fsarena_core::record::{LogLine, RunRecord};
use fsarena_core::{event::CommandRecord, metric::reading, safe};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// Bytes that the commands of a report may take.
const BUDGET: usize = 250_000;
/// Bytes of one entry beside its texts, about.
const ENTRY: usize = 18;

/// The commands of a run by cell.
#[derive(Debug, Clone, Default)]
pub struct Commands {
    /// The texts that entries name by number.
    pub(crate) texts: Vec<String>,
    known: HashMap<String, usize>,
    cells: BTreeMap<String, Vec<Entry>>,
    bytes: usize,
    /// The number of commands that did not fit.
    pub(crate) left_out: u64,
}

/// One command.
#[derive(Debug, Clone)]
struct Entry {
    /// Indices into the texts.
    argv: usize,
    ended: usize,
    ms: u64,
    /// When it began, in seconds since 1970; `None` if the log does not say.
    began: Option<f64>,
}

impl Commands {
    /// Takes one line of the log. Cells come one after the other; a cell is kept whole or, once the room is used up,
    /// not at all.
    pub fn push(&mut self, line: &LogLine) {
        let Some(cell) = &line.cell else { return };
        if self.bytes > BUDGET && !self.cells.contains_key(cell) {
            self.left_out += 1;
            return;
        }
        let argv = self.text(words(&line.command));
        let ended = self.text(line.command.ended.clone());
        let ended_at = line.at.parse::<jiff::Timestamp>().ok().map(|at| at.as_millisecond() as f64 / 1e3);
        let began = ended_at.map(|at| at - line.command.ms as f64 / 1e3);
        self.bytes += ENTRY;
        self.cells.entry(cell.clone()).or_default().push(Entry { argv, ended, ms: line.command.ms, began });
    }

    fn text(&mut self, text: String) -> usize {
        if let Some(known) = self.known.get(&text) {
            return *known;
        }
        self.bytes += text.len() + 3;
        self.known.insert(text.clone(), self.texts.len());
        self.texts.push(text);
        self.texts.len() - 1
    }

    /// For each cell that has some, by index: text, how it ended, milliseconds, and the task that it belongs to.
    pub(crate) fn by_cell(&self, record: &RunRecord) -> BTreeMap<usize, Vec<Value>> {
        let cells = record.cells.iter().enumerate();
        let logged: BTreeMap<usize, &Vec<Entry>> =
            cells.filter_map(|(at, cell)| Some((at, self.cells.get(&cell.id)?))).collect();
        let timed = timed(record, logged.keys().copied());
        let line = |at: usize, entry: &Entry| {
            let task = entry.began.and_then(|began| task_at(&timed[&at], began));
            json!([entry.argv, entry.ended, entry.ms, task])
        };
        logged.into_iter().map(|(at, log)| (at, log.iter().map(|entry| line(at, entry)).collect())).collect()
    }
}

/// From, until, task.
type Timed = (f64, f64, u32);

/// Clocks of the log and of samples agree to this, in seconds: the log rounds to milliseconds.
const CLOCKS: f64 = 0.002;

/// When the tasks of these cells were timed.
fn timed(record: &RunRecord, cells: impl Iterator<Item = usize>) -> BTreeMap<usize, Vec<Timed>> {
    let synced = record.reading(reading::SYNCED).or(record.reading(reading::ELAPSED));
    let mut cells: BTreeMap<usize, Vec<Timed>> = cells.map(|cell| (cell, vec![])).collect();
    for row in 0..record.samples.len() {
        let Some(tasks) = cells.get_mut(&(record.samples.cell[row] as usize)) else { continue };
        let ns = synced.map(|column| record.samples.values[column][row]).filter(|ns| !ns.is_nan());
        let from = record.samples.started_at[row];
        tasks.push((from, from + ns.unwrap_or(0.0) / 1e9, record.samples.task[row]));
    }
    cells
}

/// The task that a command of its cell belongs to.
fn task_at(tasks: &[Timed], began: f64) -> Option<u32> {
    let within = |(from, until, _): &&Timed| (from - CLOCKS..=until + CLOCKS).contains(&began);
    // Of two that touch, the later one: the other had ended.
    tasks.iter().filter(within).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, _, task)| *task)
}

/// A line of the command log, for people: how long the command took, how it ended, and its words.
pub fn logged(command: &CommandRecord) -> String {
    format!("{:>8} ms  {:<8}  {}", command.ms, safe::line(&command.ended), safe::line(&words(command)))
}

/// A command in words: `mkfs.ext4 -q /dev/loop0`, with how often where it ran more than once.
fn words(command: &CommandRecord) -> String {
    let shown = |argv: &[String]| argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let last = command.last.as_ref().map_or(String::new(), |last| format!(" … {}", shown(last)));
    let times = if command.times > 1 { format!(" ({} times)", command.times) } else { String::new() };
    let cwd = command.cwd.as_ref().map_or(String::new(), |cwd| format!(" (in {cwd})"));
    format!("{}{last}{times}{cwd}", shown(&command.argv))
}

/// A word as a shell would take it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+^".contains(c);
    let word: String = word.chars().take(2_000).collect();
    if !word.is_empty() && word.chars().all(plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(cell: &str, argv: &[&str]) -> LogLine {
        let command = CommandRecord {
            argv: argv.iter().map(|word| word.to_string()).collect(),
            times: 1,
            last: None,
            cwd: None,
            ended: "exit 0".into(),
            ms: 7,
            output: None,
        };
        LogLine { at: "2026-11-21T20:00:00.500Z".into(), cell: Some(cell.into()), command }
    }

    #[test]
    fn words_are_as_a_shell_would_take_them() {
        assert_eq!(words(&line("c", &["cp", "-r", "a b", "it's"]).command), "cp -r 'a b' 'it'\\''s'");
    }

    #[test]
    fn a_logged_command_is_one_line_without_control_characters() {
        let line = logged(&line("c", &["cp", "a\nb\u{1b}[2J"]).command);
        assert!(line.ends_with("  cp 'a⏎b\\u{1b}[2J'"), "{line}");
    }

    #[test]
    fn texts_are_kept_once_and_cells_whole() {
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
        assert!(commands.left_out > 0 && commands.bytes < BUDGET + 5_000, "{}", commands.bytes);
        assert!(commands.cells.values().all(|entries| entries.len() >= 2));
    }
}
