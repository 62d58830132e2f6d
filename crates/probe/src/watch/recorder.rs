//! Stores the windows of a watch as a run: each window is a round with one cell and one sample.

use crate::watch::{counter::WatchError, plan::Watch, window::Window};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::event::{CellEvent, Event, Note, Outcome};
use fsarena_core::{host::Host, plan::Plan, sample::Sample};
use fsarena_store::{RunDir, Writer};
use std::path::Path;

/// Writes each window when it closes, so that a crash loses only the open window.
pub struct Recorder {
    run_dir: RunDir,
    writer: Writer,
    plan: Plan,
    watch: Watch,
    /// Notes on the recording itself that [`Recorder::take_notes`] has not returned yet.
    pending_notes: Vec<Note>,
}

impl Recorder {
    /// Creates the run of a new watch in a directory of runs.
    ///
    /// # Errors
    /// The run cannot be written.
    pub fn create(runs: &Path, watch: &Watch, host: &Host, version: &str) -> Result<Recorder, WatchError> {
        let run_dir = RunDir::create(runs, &watch.plan()?, version)?;
        Recorder::open(run_dir, host)
    }

    /// Opens the run of a watch to append windows to it.
    ///
    /// # Errors
    /// The run is not one of a watch, or another process writes it.
    pub fn open(run_dir: RunDir, host: &Host) -> Result<Recorder, WatchError> {
        let plan = run_dir.plan()?;
        let watch = Watch::from_plan(&plan)?;
        let writer = Writer::open(&run_dir, host, &crate::watch::gauges::reading_defs())?;
        let mut recorder = Recorder { run_dir, writer, plan, watch, pending_notes: vec![] };
        recorder.apply(&Event::RunStarted {
            rounds: u32::MAX,
            variants: vec![recorder.watch.name.clone()],
            tasks_per_cell: 1,
            already_done: 0,
            budget_s: None,
        })?;
        Ok(recorder)
    }

    /// The watch that the run records.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The directory of the run.
    pub fn run_dir(&self) -> &RunDir {
        &self.run_dir
    }

    /// The number of the next window.
    ///
    /// # Errors
    /// The run cannot be read.
    pub fn next_window(&self) -> Result<u32, WatchError> {
        let record = fsarena_store::read(&self.run_dir)?;
        Ok(record.cells.iter().map(|cell| cell.round + 1).max().unwrap_or(0))
    }

    /// Adds a note about the whole watch.
    ///
    /// # Errors
    /// The run cannot be written.
    pub fn add_note(&mut self, note: &Note) -> Result<(), WatchError> {
        self.apply(&Event::Note(note.clone()))
    }

    /// Writes a window.
    ///
    /// # Errors
    /// The run cannot be written, for example because the disk is full.
    pub fn record_window(&mut self, window: &Window) -> Result<(), WatchError> {
        let cell = self.watch.cell(&self.plan, window.number);
        let id = cell.id();
        let task = TaskInfo { id: TaskId::new("window"), title: "Window".into(), number: None, in_totals: true };
        let sample = Sample {
            task,
            started_at: window.started_at,
            readings: window.readings.clone(),
            series: vec![],
            latencies: Default::default(),
        };
        let cell_event = |event| Event::Cell { cell: id.clone(), event };
        let mut events = vec![
            Event::RoundStarted { round: window.number, order: vec![self.watch.name.clone()] },
            Event::CellStarted { cell },
        ];
        events.extend(window.marks.iter().map(|mark| cell_event(CellEvent::Note(mark.to_note()))));
        events.push(cell_event(CellEvent::Sample(sample)));
        events.push(Event::CellFinished { cell: id.clone(), outcome: Outcome::Done });
        events.push(Event::RoundFinished { round: window.number });
        for event in &events {
            self.apply(event)?;
        }
        Ok(())
    }

    /// Writes an event. If the event log fails, adds a note to the run, and the watch continues without the log.
    fn apply(&mut self, event: &Event) -> Result<(), WatchError> {
        self.writer.apply(event)?;
        if let Some(note) = self.writer.take_event_log_failure() {
            self.writer.apply(&Event::Note(note.clone()))?;
            self.pending_notes.push(note);
        }
        Ok(())
    }

    /// Returns the notes on the recording itself since the last call, to show them to the user. The run already has them.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.pending_notes)
    }

    /// Records that the watch has ended, and why.
    ///
    /// # Errors
    /// The run cannot be written.
    pub fn finish(&mut self, why: &str, complete: bool) -> Result<(), WatchError> {
        self.apply(&Event::RunFinished { why: why.into(), complete })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::window::WindowMark;
    use fsarena_core::{event::NoteKind, sample::Readings};
    use std::time::Duration;

    fn watch() -> Watch {
        let second = Duration::from_secs(1);
        let watch = Watch {
            name: "xfs".into(),
            counter: None,
            place: Default::default(),
            services: vec![],
            window_length: second,
            reading_interval: second,
        };
        watch.checked().unwrap()
    }

    fn window(number: u32, requests: f64, marks: Vec<WindowMark>) -> Window {
        let mut readings = Readings::default();
        readings.set("requests_count", requests);
        readings.set("elapsed_ns", 1e9);
        Window { number, started_at: 1e9, seconds: 1.0, readings, marks }
    }

    #[test]
    fn a_resumed_watch_continues_the_numbers_of_windows() {
        let root = tempfile::tempdir().unwrap();
        let watch = watch();
        let host = Host { hostname: "h".into(), boot_id: "1".into(), ..Host::default() };
        let mut recorder = Recorder::create(root.path(), &watch, &host, "0").unwrap();
        assert_eq!(recorder.next_window().unwrap(), 0);
        recorder.record_window(&window(0, 10.0, vec![])).unwrap();
        recorder
            .record_window(&window(1, 11.0, vec![WindowMark::CounterDecreased { before: 9.0, after: 1.0 }]))
            .unwrap();
        let run = recorder.run_dir().clone();
        drop(recorder);

        // After a reboot.
        let host = Host { boot_id: "2".into(), ..host };
        // A process that another test is starting inherits the lock until it executes its program. Try again until it does.
        let mut attempts = (0..1000).map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            Recorder::open(run.clone(), &host)
        });
        let mut recorder = attempts.find_map(Result::ok).expect("no other process holds the lock for ten seconds");
        assert_eq!((recorder.next_window().unwrap(), recorder.watch()), (2, &watch));
        recorder.record_window(&window(2, 12.0, vec![])).unwrap();
        recorder.finish("the windows are done", true).unwrap();
        drop(recorder);
        let record = fsarena_store::read(&run).unwrap();
        assert_eq!(record.metric("requests_count").unwrap().1[..], [10.0, 11.0, 12.0]);
        assert_eq!(record.hosts.len(), 2);
        assert_eq!((record.notes[0].0, record.notes[0].1.kind), (Some(1), NoteKind::Dropped));
        assert!(record.status.complete);
    }

    #[test]
    fn a_watch_without_its_event_log_continues_with_one_note() {
        let root = tempfile::tempdir().unwrap();
        let run = RunDir::create(root.path(), &watch().plan().unwrap(), "0").unwrap();
        std::fs::create_dir(run.event_log_file()).unwrap();
        let mut recorder = Recorder::open(run.clone(), &Host::default()).unwrap();
        recorder.record_window(&window(0, 10.0, vec![])).unwrap();
        let notes = recorder.take_notes();
        assert!(notes.len() == 1 && notes[0].text.contains("is incomplete"), "{notes:?}");
        recorder.record_window(&window(1, 10.0, vec![])).unwrap();
        assert_eq!(recorder.take_notes(), []);
        drop(recorder);
        let record = fsarena_store::read(&run).unwrap();
        assert_eq!(record.notes.iter().map(|(_, note)| note).collect::<Vec<_>>(), notes.iter().collect::<Vec<_>>());
    }
}
