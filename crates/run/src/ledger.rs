//! The samples so far, for rules that look at them: a record of the run that grows with its events.

use fsarena_core::cell::{Cell, CellId, TaskId};
use fsarena_core::event::{CellEvent, Event, NoteKind, Outcome};
use fsarena_core::record::{CellRecord, MetricInfo, RunRecord};
use fsarena_core::sample::{Direction, Sample, Unit};
use std::collections::HashMap;
use std::time::Instant;

/// The part of a cell's time that is all of it.
const TOTAL: &str = "total";

/// A run's record, kept in memory: the same as the store would give back, as far as claims need it.
#[derive(Debug)]
pub struct Ledger {
    record: RunRecord,
    round: Option<u32>,
    open: HashMap<CellId, OpenCell>,
    tasks: HashMap<TaskId, u32>,
    columns: HashMap<String, usize>,
}

#[derive(Debug)]
struct OpenCell {
    cell: Cell,
    begun: Instant,
    samples: Vec<Sample>,
}

impl Ledger {
    /// Goes on from what the store knows of the run.
    pub fn new(record: RunRecord) -> Ledger {
        let tasks = record.tasks.iter().enumerate().map(|(at, task)| (task.id.clone(), at as u32)).collect();
        let columns = record.readings.iter().enumerate().map(|(at, info)| (info.id.clone(), at)).collect();
        Ledger { record, round: None, open: HashMap::new(), tasks, columns }
    }

    /// The run so far.
    pub fn record(&self) -> &RunRecord {
        &self.record
    }

    /// The round to begin or to go on with: the last that has a cell.
    pub fn last_round(&self) -> u32 {
        self.record.cells.iter().map(|cell| cell.round).max().unwrap_or(0)
    }

    /// The mean time of a variant's cells so far, in seconds; 0 where it has none.
    pub fn seconds(&self, variant: &str) -> f64 {
        let mine = |cell: &&CellRecord| self.record.variants[cell.variant].name == variant;
        let total = |cell: &CellRecord| cell.spent.iter().find(|(part, _)| part == TOTAL).map(|(_, ns)| *ns);
        let times: Vec<u64> = self.record.cells.iter().filter(mine).filter_map(total).collect();
        let rounds: std::collections::BTreeSet<u32> =
            self.record.cells.iter().filter(mine).map(|cell| cell.round).collect();
        times.iter().sum::<u64>() as f64 / 1e9 / rounds.len().max(1) as f64
    }

    /// Takes note of an event. Like the store it keeps whole cells, and forgets an interrupted one.
    pub fn see(&mut self, event: &Event) {
        match event {
            Event::RoundStarted { round, .. } => self.round = Some(*round),
            Event::CellStarted { cell } => {
                let open = OpenCell { cell: cell.clone(), begun: Instant::now(), samples: vec![] };
                self.open.insert(cell.id(), open);
            }
            Event::Cell { cell, what: CellEvent::Sample(sample) } => {
                if let Some(open) = self.open.get_mut(cell) {
                    open.samples.push(sample.clone());
                }
            }
            Event::CellFinished { cell, outcome } => {
                let open = self.open.remove(cell).filter(|_| *outcome != Outcome::Interrupted);
                if let Some(open) = open {
                    self.finish(open, outcome.clone());
                }
            }
            Event::Note(note) if note.kind == NoteKind::Dropped => {
                self.record.notes.push((self.round, note.clone()));
            }
            _ => {}
        }
    }

    fn finish(&mut self, open: OpenCell, outcome: Outcome) {
        let OpenCell { cell, begun, samples } = open;
        let known = self.record.variants.iter().position(|variant| variant.name == cell.variant.name);
        let variant = known.unwrap_or_else(|| {
            self.record.variants.push(cell.variant.clone());
            self.record.variants.len() - 1
        });
        let number = self.record.cells.len() as u32;
        self.record.cells.push(CellRecord {
            id: cell.id().0,
            round: cell.round,
            position: cell.position,
            variant,
            workload: cell.workload.name.clone(),
            outcome,
            host: self.record.hosts.len().saturating_sub(1),
            started_at: samples.first().map_or(f64::NAN, |sample| sample.started_at),
            spent: vec![(TOTAL.into(), begun.elapsed().as_nanos() as u64)],
        });
        samples.iter().for_each(|sample| self.row(number, sample));
    }

    fn row(&mut self, cell: u32, sample: &Sample) {
        let tasks = &mut self.record.tasks;
        let task = *self.tasks.entry(sample.task.id.clone()).or_insert_with(|| {
            tasks.push(sample.task.clone());
            tasks.len() as u32 - 1
        });
        for id in sample.readings.0.keys() {
            if !self.columns.contains_key(id) {
                self.columns.insert(id.clone(), self.record.readings.len());
                self.record.readings.push(undefined(id));
                self.record.samples.values.push(vec![f64::NAN; self.record.samples.len()]);
            }
        }
        let table = &mut self.record.samples;
        table.cell.push(cell);
        table.task.push(task);
        table.started_at.push(sample.started_at);
        table.values.iter_mut().for_each(|column| column.push(f64::NAN));
        for (id, value) in &sample.readings.0 {
            if let Some(last) = table.values[self.columns[id]].last_mut() {
                *last = *value;
            }
        }
    }
}

/// A reading that the store does not know. It refuses such a sample, so that nobody ever asks for this one.
fn undefined(id: &str) -> MetricInfo {
    MetricInfo { id: id.into(), unit: Unit::Count, direction: Direction::Neutral, help: String::new() }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use fsarena_core::cell::{TaskInfo, Variant};
    use fsarena_core::event::Note;
    use fsarena_core::plan::Plan;
    use fsarena_core::record::{RunStatus, SampleTable};
    use fsarena_core::sample::Readings;
    use fsarena_core::series::SeriesTable;
    use std::collections::BTreeSet;

    /// The record of a run of these filesystems that has not begun.
    pub(crate) fn empty(filesystems: &[&str], claims: &[&str]) -> RunRecord {
        let list =
            |texts: &[&str]| texts.iter().map(|text| format!("'{text}'")).collect::<Vec<_>>().join(",");
        let plan: Plan = toml::from_str(&format!(
            "name = 't'\ntitle = ''\nquestion = ''\nscale = 'tiny'\nseed = 1\nclaims = [{}]\n[factors]\n\
             fs = [{}]\n[device]\ndirect_io = true\ndiscard = false\nother_fs = 'ext4'\n\
             backing = {{ kind = 'ram' }}\n[stop]\nrounds = 400\nwhen_decided = true\n[idle]\n\
             timeout_s = 1.0\ndirty = '4 MiB'\nio_pressure_percent = 5.0\n[[workload]]\nuse = 'coreutils'\n",
            list(claims),
            list(filesystems)
        ))
        .unwrap();
        RunRecord {
            id: "r".into(),
            version: String::new(),
            started: String::new(),
            ended: String::new(),
            status: RunStatus { complete: false, why: String::new() },
            variants: fsarena_core::matrix::expand(&plan),
            plan,
            hosts: vec![],
            tasks: vec![],
            readings: vec![],
            cells: vec![],
            samples: SampleTable::default(),
            series: SeriesTable::default(),
            notes: vec![],
            commands: 0,
        }
    }

    /// All that happens in one cell, whose only task takes so many seconds.
    pub(crate) fn events(
        plan: &Plan,
        variant: &Variant,
        round: u32,
        seconds: f64,
        outcome: Outcome,
    ) -> Vec<Event> {
        let cell = Cell {
            round,
            position: 0,
            variant: variant.clone(),
            workload: plan.workloads[0].clone(),
            scale: plan.scale,
            seed: 1,
        };
        let id = cell.id();
        let mut readings = Readings::default();
        readings.set("elapsed_ns", seconds * 1e9);
        let task =
            TaskInfo { id: TaskId::new("touch"), title: "Touch".into(), number: None, in_composite: true };
        let sample = CellEvent::Sample(Sample { task, started_at: 5.0, readings, series: vec![] });
        vec![
            Event::CellStarted { cell },
            Event::Cell { cell: id.clone(), what: sample },
            Event::CellFinished { cell: id, outcome },
        ]
    }

    /// A run of so many rounds in which each filesystem takes so many seconds and 1% of noise, and its variants.
    pub(crate) fn ledger(
        seconds: &[(&str, f64)],
        claims: &[&str],
        rounds: u32,
    ) -> (Ledger, BTreeSet<String>) {
        let names: Vec<&str> = seconds.iter().map(|(name, _)| *name).collect();
        let record = empty(&names, claims);
        let (plan, variants) = (record.plan.clone(), record.variants.clone());
        let mut ledger = Ledger::new(record);
        for round in 0..rounds {
            for (at, (_, seconds)) in seconds.iter().enumerate() {
                let noise = fsarena_core::schedule::mix(at as u64, u64::from(round)) % 21;
                let seconds = seconds * (0.99 + noise as f64 / 1000.0);
                events(&plan, &variants[at], round, seconds, Outcome::Done)
                    .iter()
                    .for_each(|e| ledger.see(e));
            }
        }
        (ledger, names.iter().map(|name| name.to_string()).collect())
    }

    #[test]
    fn whole_cells_are_kept_and_interrupted_ones_forgotten() {
        let record = empty(&["ext4", "xfs"], &[]);
        let (plan, variants) = (record.plan.clone(), record.variants.clone());
        let mut ledger = Ledger::new(record);
        for (variant, round, outcome) in [
            (0, 0, Outcome::Done),
            (1, 0, Outcome::Failed { why: "mkfs".into(), cause: Default::default() }),
            (0, 1, Outcome::Interrupted),
        ] {
            events(&plan, &variants[variant], round, 2.0 + f64::from(round), outcome)
                .iter()
                .for_each(|e| ledger.see(e));
        }
        let record = ledger.record();
        assert_eq!(
            record.cells.iter().map(|cell| (cell.variant, cell.round)).collect::<Vec<_>>(),
            [(0, 0), (1, 0)]
        );
        assert_eq!((record.samples.len(), &record.samples.values[0]), (2, &vec![2e9, 2e9]));
        assert_eq!((record.tasks.len(), ledger.last_round()), (1, 0));
        assert_eq!(record.metric("elapsed").unwrap().1[..], [2.0, 2.0]);
        assert!(ledger.seconds("ext4") > 0.0 && ledger.seconds("btrfs") == 0.0);
    }

    #[test]
    fn a_reading_that_comes_late_is_absent_before() {
        let record = empty(&["ext4"], &[]);
        let (plan, variants) = (record.plan.clone(), record.variants.clone());
        let mut ledger = Ledger::new(record);
        events(&plan, &variants[0], 0, 1.0, Outcome::Done).iter().for_each(|event| ledger.see(event));
        for event in &mut events(&plan, &variants[0], 1, 1.0, Outcome::Done) {
            if let Event::Cell { what: CellEvent::Sample(sample), .. } = event {
                sample.readings.set("user_ns", 7.0);
            }
            ledger.see(event);
        }
        let late = &ledger.record().samples.values[ledger.record().reading("user_ns").unwrap()];
        assert!(late[0].is_nan() && late[1] == 7.0);
    }

    #[test]
    fn drops_are_noted_with_their_round() {
        let mut ledger = Ledger::new(empty(&["ext4"], &[]));
        ledger.see(&Event::RoundStarted { round: 3, order: vec![] });
        ledger.see(&Event::Note(Note::new(NoteKind::Dropped, "throttled")));
        ledger.see(&Event::Note(Note::new(NoteKind::Remark, "other")));
        assert_eq!(ledger.record().notes.len(), 1);
        assert_eq!(ledger.record().notes[0].0, Some(3));
    }
}
