//! The alarms of histories of stored runs: which changes were found, and whether fresh rounds confirmed them. A file in
//! the directory of runs stores them. So each change raises one alarm only, and the alarms of a history are numbered:
//! the number of an alarm decides its share of the error probability.

use crate::error::Result;
use crate::json_files::{check_format, read_json, write_json};
use fsarena_core::record::HistoryQuery;
use fsarena_sys::Error;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The name of the file, in the directory of runs.
const FILE_NAME: &str = "alarms.json";
/// The size limit of the file, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// The version of the format of the file.
const FORMAT: u32 = 1;

/// A change that raised an alarm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alarm {
    /// The history.
    #[serde(flatten)]
    pub history: HistoryQuery,
    /// The number of the alarm among those of its history, from 1.
    pub number: u32,
    /// The id of the first run after the change, as it was known when the change was found.
    #[serde(rename = "run")]
    pub first_run: String,
    /// Whether the values rose.
    #[serde(rename = "rose")]
    pub has_risen: bool,
    /// Whether fresh rounds confirmed it.
    pub outcome: AlarmOutcome,
    /// The reason for the outcome, in a sentence.
    pub why: String,
    /// The id of the run with the fresh rounds; None if there was none.
    #[serde(rename = "confirmation", default, skip_serializing_if = "Option::is_none")]
    pub confirmation_run: Option<String>,
}

/// What fresh rounds showed about the change of an alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlarmOutcome {
    /// Fresh rounds show more than half of the change.
    Confirmed,
    /// Fresh rounds show less than half of it.
    NotConfirmed,
    /// Fresh rounds allow both: more than half of the change, and less.
    Inconclusive,
    /// fsarena cannot make one side of the change again, so there were no fresh rounds.
    #[serde(rename = "unconfirmed")]
    NotConfirmable,
}

impl AlarmOutcome {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            AlarmOutcome::Confirmed => "confirmed",
            AlarmOutcome::NotConfirmed => "not confirmed",
            AlarmOutcome::Inconclusive => "inconclusive",
            AlarmOutcome::NotConfirmable => "unconfirmed",
        }
    }
}

/// All alarms of a directory of runs.
#[derive(Debug)]
pub struct Alarms {
    file: PathBuf,
    contents: AlarmFile,
}

/// The contents of the file.
#[derive(Debug, Serialize, Deserialize)]
struct AlarmFile {
    /// [`FORMAT`].
    format: u32,
    alarms: Vec<Alarm>,
}

impl Alarms {
    /// Reads the alarms of a directory of runs. Without the file there are no alarms.
    ///
    /// # Errors
    /// The file is damaged, or cannot be read.
    pub fn open(runs_dir: &Path) -> Result<Alarms> {
        let file = runs_dir.join(FILE_NAME);
        let contents = read_json(&file, MAX_FILE_BYTES)?.unwrap_or(AlarmFile { format: FORMAT, alarms: vec![] });
        check_format(&file, contents.format, FORMAT)?;
        Ok(Alarms { file, contents })
    }

    /// The alarms of a history, in their order.
    pub fn of_history<'a>(&'a self, history: &'a HistoryQuery) -> impl Iterator<Item = &'a Alarm> {
        self.contents.alarms.iter().filter(move |alarm| alarm.history == *history)
    }

    /// The number of the next alarm of a history.
    pub fn next_number(&self, history: &HistoryQuery) -> u32 {
        self.of_history(history).map(|alarm| alarm.number).max().unwrap_or(0) + 1
    }

    /// Stores an alarm. It replaces an alarm of the same history and number. Alarms that other processes have stored
    /// meanwhile stay.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn store(&mut self, alarm: Alarm) -> Result<()> {
        let runs_dir = self.file.parent().unwrap_or(Path::new("."));
        let lock = File::open(runs_dir).map_err(Error::io("opening", runs_dir))?;
        // Some network filesystems do not support locks: alarms are then stored without one.
        let _ = lock.lock();
        self.contents = Alarms::open(runs_dir)?.contents;
        let is_same =
            |stored_alarm: &Alarm| stored_alarm.history == alarm.history && stored_alarm.number == alarm.number;
        match self.contents.alarms.iter_mut().find(|stored_alarm| is_same(stored_alarm)) {
            Some(stored_alarm) => *stored_alarm = alarm,
            None => self.contents.alarms.push(alarm),
        }
        write_json(&self.file, &self.contents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_persist_and_are_numbered_by_history() {
        let dir = tempfile::tempdir().unwrap();
        let history = |metric: &str| HistoryQuery {
            study: "mail".into(),
            metric: metric.into(),
            variant: "xfs".into(),
            reference: Some("ext4".into()),
        };
        let alarm = |metric: &str, number, outcome| Alarm {
            history: history(metric),
            number,
            first_run: format!("run-{number}"),
            has_risen: true,
            outcome,
            why: "mkfs.xfs of run a is gone".into(),
            confirmation_run: None,
        };
        let mut alarms = Alarms::open(dir.path()).unwrap();
        assert_eq!(alarms.next_number(&history("elapsed")), 1);
        alarms.store(alarm("elapsed", 1, AlarmOutcome::NotConfirmable)).unwrap();
        alarms.store(alarm("elapsed", 2, AlarmOutcome::NotConfirmed)).unwrap();
        alarms.store(alarm("elapsed", 1, AlarmOutcome::Confirmed)).unwrap();
        let alarms = Alarms::open(dir.path()).unwrap();
        let outcomes: Vec<_> = alarms.of_history(&history("elapsed")).map(|alarm| alarm.outcome).collect();
        assert_eq!(outcomes, [AlarmOutcome::Confirmed, AlarmOutcome::NotConfirmed]);
        assert_eq!((alarms.next_number(&history("elapsed")), alarms.next_number(&history("synced"))), (3, 1));
        let [mut first, mut second] = [(); 2].map(|()| Alarms::open(dir.path()).unwrap());
        first.store(alarm("synced", 1, AlarmOutcome::Confirmed)).unwrap();
        second.store(alarm("iops", 1, AlarmOutcome::Confirmed)).unwrap();
        let alarms = Alarms::open(dir.path()).unwrap();
        assert_eq!([alarms.next_number(&history("synced")), alarms.next_number(&history("iops"))], [2, 2]);
        std::fs::write(dir.path().join(FILE_NAME), "{}").unwrap();
        assert!(Alarms::open(dir.path()).unwrap_err().to_string().contains(FILE_NAME));
    }
}
