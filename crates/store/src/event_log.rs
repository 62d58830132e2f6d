//! The event log of a run: the events of the runner, one JSON object per line, for processes that follow the run.
//!
//! The log shows progress; results are in the database. It therefore omits commands (the command log has them) and keeps
//! only the readings of one metric, by which live views compare the variants. If the log cannot be written, the run
//! continues with a note that the log is incomplete.

use crate::command_log::to_json_line;
use crate::{Error, Result, RunDir};
use fsarena_core::event::{CellEvent, Event, Note, NoteKind};
use fsarena_core::metric::readings_of;
use fsarena_core::sample::{Readings, Sample};
use fsarena_core::setting_text::setting;
use fsarena_sys::{input, limits::remedy_suffix, none_if_missing};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The longest line of an event, in bytes. The reader skips longer lines.
const MAX_EVENT_BYTES: u64 = 1 << 20;

/// An event and its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedEvent {
    /// When the event happened: seconds since 1970, UTC.
    #[serde(rename = "at")]
    pub time_s: f64,
    /// The event.
    pub event: Event,
}

/// The open event log.
pub(crate) struct EventLog {
    path: PathBuf,
    /// None if the log could not be opened, and after a write has failed.
    file: Option<File>,
    /// The error of that write, or of opening the log, until `take_failure` returns it.
    failure: Option<io::Error>,
    /// The ids of the readings that the log keeps.
    pub(crate) readings: BTreeSet<String>,
}

impl EventLog {
    /// Opens the log to append to it.
    pub(crate) fn open(path: &Path) -> EventLog {
        let open = || -> io::Result<File> {
            let mut file = File::options().read(true).append(true).create(true).open(path)?;
            input::end_torn_line(&mut file)?;
            Ok(file)
        };
        let (file, failure) = match open() {
            Ok(file) => (Some(file), None),
            Err(error) => (None, Some(error)),
        };
        EventLog { path: path.into(), file, failure, readings: readings_of("elapsed") }
    }

    /// Appends an event with its time in seconds since 1970, unless live views do not need it.
    pub(crate) fn append(&mut self, time_s: f64, event: &Event) {
        let Some(event) = self.reduce_event(event) else { return };
        let Some(file) = &mut self.file else { return };
        // Rounds down to whole milliseconds.
        let time_s = (time_s * 1e3).floor() / 1e3;
        // One write, so that concurrent readers see whole lines.
        if let Err(error) = file.write_all(to_json_line(&TimedEvent { time_s, event }).as_bytes()) {
            self.file = None;
            self.failure = Some(error);
        }
    }

    /// After the log could not be opened or written, returns a note on that, only once.
    pub(crate) fn take_failure(&mut self) -> Option<Note> {
        let error = self.failure.take()?;
        let path = self.path.display();
        let text = format!(
            "the event log {path} is incomplete ({error}{}): live views of this run stop; its results are complete",
            remedy_suffix(&error)
        );
        let resume = setting("resume", "");
        let fix = format!("free room in its directory, or give write access to it; `{resume}` then continues the log");
        Some(Note::new(NoteKind::Remark, text).fix(fix))
    }

    /// Returns an event with only the data that the log keeps; None for events that it omits.
    fn reduce_event(&self, event: &Event) -> Option<Event> {
        let Event::Cell { cell, event } = event else {
            return (!matches!(event, Event::Command(_))).then(|| event.clone());
        };
        let reduced = match event {
            CellEvent::Command(_) | CellEvent::Spent { .. } | CellEvent::Profile { .. } | CellEvent::Tree(_) => {
                return None;
            }
            CellEvent::Sample(Sample { task, started_at, readings, .. }) => {
                let (task, started_at) = (task.clone(), *started_at);
                let readings = self.readings.iter().filter_map(|id| Some((id.clone(), readings.get(id)?)));
                let readings = Readings(readings.collect());
                let latencies = Default::default();
                CellEvent::Sample(Sample { task, started_at, readings, series: vec![], latencies })
            }
            CellEvent::Phase { .. } | CellEvent::Reading(_) | CellEvent::Note(_) => event.clone(),
        };
        Some(Event::Cell { cell: cell.clone(), event: reduced })
    }
}

/// A reader of the event log. Each call continues where the previous one stopped, also while the log grows.
pub struct EventReader {
    path: PathBuf,
    /// The number of bytes read so far.
    offset: u64,
}

impl EventReader {
    /// A reader that starts at the first event of a run.
    pub fn open(run: &RunDir) -> EventReader {
        EventReader { path: run.event_log_file(), offset: 0 }
    }

    /// Returns at most `max_events` events since the previous call, each with the offset of its end in the log. Offsets
    /// only grow while the log does: if someone made it shorter, reading begins again at its start. Empty while the log
    /// does not exist. Skips lines that are not events.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn read_next(&mut self, max_events: usize) -> Result<Vec<(u64, TimedEvent)>> {
        let mut events = Vec::new();
        let Some(mut reader) = self.open_at_offset()? else { return Ok(events) };
        let mut line = Vec::new();
        while events.len() < max_events {
            line.clear();
            let length = reader.by_ref().take(MAX_EVENT_BYTES).read_until(b'\n', &mut line);
            let length = length.map_err(Error::io("reading", &self.path))? as u64;
            if length == 0 || (length < MAX_EVENT_BYTES && line.last() != Some(&b'\n')) {
                break;
            }
            self.offset += length;
            if let Ok(event) = serde_json::from_slice(&line) {
                events.push((self.offset, event));
            }
        }
        Ok(events)
    }

    /// Opens the log where reading stopped, or at its beginning if it became shorter.
    fn open_at_offset(&mut self) -> Result<Option<BufReader<File>>> {
        let mut open = || -> io::Result<Option<BufReader<File>>> {
            // Only a regular file is opened: opening a named pipe would block.
            let meta = none_if_missing(std::fs::symlink_metadata(&self.path))?.filter(Metadata::is_file);
            let Some(meta) = meta else { return Ok(None) };
            if meta.len() < self.offset {
                self.offset = 0;
            }
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(self.offset))?;
            Ok(Some(BufReader::new(file)))
        };
        open().map_err(Error::io("reading", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cells, command, create_run, host, plan, run_cell, sample};
    use fsarena_core::sample::{ReadingDef, Unit};
    use fsarena_core::{event::Outcome, metric::TIMER_READINGS};

    fn append(path: &Path, bytes: &[u8]) {
        File::options().append(true).open(path).unwrap().write_all(bytes).unwrap();
    }

    #[test]
    fn events_are_read_while_the_run_is_written() {
        let root = tempfile::tempdir().unwrap();
        let plan = plan(&["ext4"]);
        let (run, mut writer) = create_run(root.path(), &plan);
        let mut events = EventReader::open(&run);
        assert_eq!(events.read_next(9).unwrap(), []);
        writer.apply(&Event::RoundStarted { round: 0, order: vec!["ext4".into()] }).unwrap();
        let before_cell = events.read_next(9).unwrap();
        assert!(
            matches!(&before_cell[..], [(_, TimedEvent { event: Event::RoundStarted { round: 0, .. }, time_s })] if *time_s > 1.7e9)
        );
        writer.apply(&Event::Command(command("losetup"))).unwrap();
        run_cell(&mut writer, &cells(&plan, 0)[0], Outcome::Done);
        let (started, rest) = (events.read_next(1).unwrap(), events.read_next(9).unwrap());
        // The start of the cell, its two samples and its end, without the command.
        assert_eq!((started.len(), rest.len()), (1, 3));
        assert!(before_cell[0].0 < started[0].0 && started[0].0 < rest[0].0);
        let Event::Cell { event: CellEvent::Sample(sample), .. } = &rest[0].1.event else { panic!("{rest:?}") };
        assert_eq!(sample.readings.0.keys().collect::<Vec<_>>(), ["elapsed_ns"]);
        drop(writer);
        assert_eq!(events.read_next(9).unwrap(), []);
    }

    #[test]
    fn the_event_log_keeps_the_readings_of_the_followed_metric() {
        let root = tempfile::tempdir().unwrap();
        let plan = plan(&["ext4"]);
        let run = RunDir::create(root.path(), &plan, "0.1.0").unwrap();
        let defs = [ReadingDef::higher("commit_iops_per_s", Unit::PerSecond), TIMER_READINGS[0]];
        let writer = crate::Writer::open(&run, &host("b"), &defs).unwrap();
        let (mut writer, cell) = (writer.with_live_metric("commits_per_s"), cells(&plan, 0).remove(0));
        writer.apply(&Event::CellStarted { cell: cell.clone() }).unwrap();
        let mut sample = sample("append", 1.0);
        sample.readings.set("commit_iops_per_s", 7.0);
        writer.apply(&Event::Cell { cell: cell.id(), event: CellEvent::Sample(sample) }).unwrap();
        let events = EventReader::open(&run).read_next(9).unwrap();
        let Event::Cell { event: CellEvent::Sample(sample), .. } = &events[1].1.event else { panic!("{events:?}") };
        assert_eq!(sample.readings.0, [("commit_iops_per_s".to_string(), 7.0)].into());
    }

    #[test]
    fn torn_foreign_and_endless_lines_are_skipped() {
        let root = tempfile::tempdir().unwrap();
        let (run, mut writer) = create_run(root.path(), &plan(&["ext4"]));
        let run_finished = Event::RunFinished { why: "done".into(), complete: true };
        writer.apply(&run_finished).unwrap();
        let mut events = EventReader::open(&run);
        append(&run.event_log_file(), b"not an event\n{\"at\":1}\n");
        append(&run.event_log_file(), &vec![b'x'; 2 * MAX_EVENT_BYTES as usize]);
        append(&run.event_log_file(), b"\n{\"at\":");
        assert_eq!(events.read_next(9).unwrap().len(), 1);
        append(&run.event_log_file(), b"2.5,\"event\":{\"run_event\":\"round_finished\",\"round\":3}}\n");
        let after_torn_line = events.read_next(9).unwrap();
        assert!(
            matches!(&after_torn_line[..], [(_, TimedEvent { time_s: 2.5, event: Event::RoundFinished { round: 3 } })]),
            "{after_torn_line:?}"
        );
    }

    #[test]
    fn an_event_log_that_cannot_be_written_does_not_end_a_run_and_is_noted_once() {
        for is_disk_full in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let run = RunDir::create(root.path(), &plan(&["ext4"]), "0.1.0").unwrap();
            if is_disk_full {
                std::os::unix::fs::symlink("/dev/full", run.event_log_file()).unwrap();
            } else {
                std::fs::create_dir(run.event_log_file()).unwrap();
            }
            let mut writer = crate::Writer::open(&run, &host("b"), &[]).unwrap();
            writer.apply(&Event::RoundStarted { round: 0, order: vec![] }).unwrap();
            let note = writer.take_event_log_failure().unwrap();
            let why = if is_disk_full { "No space left on device" } else { "Is a directory" };
            assert!(note.text.contains("events.jsonl") && note.text.contains(why), "{note:?}");
            writer.apply(&Event::RoundFinished { round: 0 }).unwrap();
            assert_eq!(writer.take_event_log_failure(), None);
            assert_eq!(EventReader::open(&run).read_next(9).unwrap(), []);
        }
    }
}
