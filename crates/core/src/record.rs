//! A stored run, read back for analysis and reports.

use crate::cell::{TaskId, TaskInfo, Variant};
use crate::event::{Cause, CommandRecord, Note, NoteKind, Outcome, SpentOn};
use crate::names::{Unknown, distinct, unknown};
pub use crate::sample::MetricSpec;
use crate::{host::Host, latency::Latencies, metric::MetricDef, plan::Plan, series::SeriesTable};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, cell::RefCell, collections::BTreeMap};

/// A cell as it was run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellRecord {
    /// What identifies it.
    pub id: String,
    /// Its round, from 0.
    pub round: u32,
    /// Its place in the round's order, from 0.
    pub position: u32,
    /// Index into [`RunRecord::variants`].
    pub variant: usize,
    /// The workload's name.
    pub workload: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Index into [`RunRecord::hosts`].
    pub host: usize,
    /// When it began: seconds since 1970, UTC.
    pub started_at: f64,
    /// How long it took in all, and its parts, in nanoseconds.
    pub spent: Vec<(SpentOn, u64)>,
}

impl CellRecord {
    /// How long a part of it took, in nanoseconds; 0 if it has no such part.
    pub fn spent_on(&self, part: SpentOn) -> u64 {
        self.spent.iter().filter(|(of, _)| *of == part).map(|(_, ns)| ns).sum()
    }
}

/// The samples of a run by column. A row is one task in one cell.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SampleTable {
    /// For each row, an index into [`RunRecord::cells`].
    pub cell: Vec<u32>,
    /// For each row, an index into [`RunRecord::tasks`].
    pub task: Vec<u32>,
    /// For each row, when it began: seconds since 1970, UTC.
    pub started_at: Vec<f64>,
    /// For each of [`RunRecord::readings`], its value in each row; NaN where it was not taken.
    pub values: Vec<Vec<f64>>,
}

impl SampleTable {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.cell.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.cell.is_empty()
    }
}

/// The most readings that a run may have. Real runs have some hundred; a damaged file may claim any number.
pub const MOST_READINGS: usize = 1_000;

/// Latencies by task and variant.
pub type PooledLatencies = BTreeMap<(usize, usize), Latencies>;

/// Everything a store knows of a run.
#[derive(Debug, Clone, Default)]
pub struct RunRecord {
    /// Its id, the name of its directory.
    pub id: String,
    /// The version of fsarena that made it.
    pub version: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// When its last cell ended, RFC 3339; empty while none has.
    pub ended: String,
    /// Whether it went through all that was planned, and why it stopped.
    pub status: RunStatus,
    /// The plan as resolved.
    pub plan: Plan,
    /// The machines its samples came from.
    pub hosts: Vec<Host>,
    /// The variants.
    pub variants: Vec<Variant>,
    /// The timed tasks, in order.
    pub tasks: Vec<TaskInfo>,
    /// The raw readings that were taken.
    pub readings: Vec<MetricSpec>,
    /// The cells that were run.
    pub cells: Vec<CellRecord>,
    /// The readings of all samples.
    pub samples: SampleTable,
    /// What loads did over time.
    pub series: SeriesTable,
    /// The latencies of loads over all rounds that count: shown, never judged, for rounds are the unit of replication.
    pub latencies: PooledLatencies,
    /// What a reader should know, with the round it was noted in.
    pub notes: Vec<(Option<u32>, Note)>,
    /// How many commands were run (they are in `command.log`).
    pub commands: u64,
}

/// How a run stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RunStatus {
    /// Whether all that was planned was done.
    pub complete: bool,
    /// Why it stopped; `interrupted` where nothing was noted.
    pub why: String,
}

impl RunRecord {
    /// The name of a variant, by its index.
    pub fn name(&self, variant: usize) -> &str {
        &self.variants[variant].name
    }

    /// The names of all variants.
    pub fn names(&self) -> Vec<&str> {
        self.variants.iter().map(|variant| variant.name.as_str()).collect()
    }

    /// The index of a variant.
    pub fn variant(&self, name: &str) -> Option<usize> {
        self.variants.iter().position(|variant| variant.name == name)
    }

    /// Whether the variants differ in the level of a factor.
    pub fn varies(&self, factor: &str) -> bool {
        self.variants.windows(2).any(|two| two[0].level(factor) != two[1].level(factor))
    }

    /// The notes of one kind, each with the round it was noted in.
    pub fn notes_of(&self, kind: NoteKind) -> impl Iterator<Item = (Option<u32>, &Note)> {
        self.notes.iter().filter(move |(_, note)| note.kind == kind).map(|(round, note)| (*round, note))
    }

    /// The variants that were not compared because the budget did not hold them, those of earlier stages first.
    pub fn not_compared(&self) -> Vec<&str> {
        let earlier = self.plan.stage.iter().flat_map(|stage| &stage.not_compared).map(String::as_str);
        let here = self.notes_of(NoteKind::NotCompared).filter_map(|(_, note)| note.variant.as_deref());
        distinct(earlier.chain(here))
    }

    /// The cells whose filesystem broke a promise: their variants and what happened.
    pub fn violations(&self) -> impl Iterator<Item = (&CellRecord, &str)> {
        self.cells.iter().filter_map(|cell| match &cell.outcome {
            Outcome::Failed { why, cause: Cause::Violation } => Some((cell, why.as_str())),
            _ => None,
        })
    }

    /// What a variant gives up of the safety that others of the run have.
    pub fn weakened_guarantees(&self, variant: usize) -> Vec<&str> {
        let name = Some(self.name(variant));
        let weaker = self.notes_of(NoteKind::Weaker).filter(|(_, note)| note.variant.as_deref() == name);
        distinct(weaker.map(|(_, note)| note.text.as_str()))
    }

    /// Those of these variants that give up no safety; all where each does.
    pub fn with_full_guarantees(&self, variants: &[usize]) -> Vec<usize> {
        let safe: Vec<usize> = variants
            .iter()
            .copied()
            .filter(|variant| self.weakened_guarantees(*variant).is_empty())
            .collect();
        if safe.is_empty() { variants.to_vec() } else { safe }
    }

    /// The column of a raw reading.
    pub fn reading(&self, id: &str) -> Option<usize> {
        self.readings.iter().position(|reading| reading.id == id)
    }

    /// The index of a task.
    pub fn task(&self, id: &TaskId) -> Option<usize> {
        self.tasks.iter().position(|task| task.id == *id)
    }

    /// That the run lacks a task of this name, with those that it has.
    pub fn no_task(&self, name: &str) -> Unknown {
        let tasks = self.tasks.iter().filter(|task| task.in_totals);
        let known: Vec<String> = tasks.map(|task| task.id.to_string()).collect();
        unknown("task", name, known.iter().map(String::as_str)).at(format!("in run {}", self.id))
    }

    /// The names of all readings and derived metrics.
    pub fn metric_ids(&self) -> impl Iterator<Item = &str> {
        let readings = self.readings.iter().map(|reading| reading.id.as_str());
        readings.chain(crate::metric::METRICS.iter().map(|metric| metric.spec.id))
    }

    /// The values of a metric or raw reading for every row of [`RunRecord::samples`]; NaN where the value is absent. A
    /// reading can go without its unit, `tps` for `tps_per_s`, where no other has that name and the run has no value
    /// of a derived metric of that name. None if the name is unknown.
    pub fn metric(&self, id: &str) -> Option<(MetricSpec, Cow<'_, [f64]>)> {
        let reading = |column: usize| {
            Some((self.readings[column].clone(), Cow::Borrowed(self.samples.values[column].as_slice())))
        };
        if let Some(column) = self.reading(id) {
            return reading(column);
        }
        let derived = self.derived(id);
        if let Some(column) = self.without_unit(id) {
            let measured = |metric: &Derived| (0..self.samples.len()).any(|row| !metric.value(row).is_nan());
            let printed = self.samples.values[column].iter().any(|value| !value.is_nan());
            if derived.as_ref().is_none_or(|metric| printed && !measured(metric)) {
                return reading(column);
            }
        }
        let metric = derived?;
        let values = (0..self.samples.len()).map(|row| metric.value(row)).collect();
        Some((metric.info, Cow::Owned(values)))
    }

    /// The column of the one reading that has this name without its unit.
    fn without_unit(&self, id: &str) -> Option<usize> {
        let named = |reading: &MetricSpec| reading.id != id && reading.unit.bare(&reading.id) == id;
        let mut columns = (0..self.readings.len()).filter(|column| named(&self.readings[*column]));
        columns.next().filter(|_| columns.next().is_none())
    }

    /// A derived metric, to be computed row by row. None if the name is unknown.
    pub fn derived(&self, id: &str) -> Option<Derived<'_>> {
        let def = crate::metric::find(id)?;
        let info = MetricSpec::from(&def.spec);
        let asked = Asked { record: self, columns: RefCell::default() };
        let mut derived = Derived { info, def, asked, constant: None };
        let first = if self.samples.is_empty() { f64::NAN } else { derived.value(0) };
        let read = derived.asked.columns.borrow().iter().any(|(_, column)| column.is_some());
        derived.constant = (!read).then_some(first);
        Some(derived)
    }
}

/// A metric that a formula computes from readings.
pub struct Derived<'a> {
    /// What it is.
    pub info: MetricSpec,
    def: &'static MetricDef,
    asked: Asked<'a>,
    /// The value of every row, if the run has none of the readings that the formula uses.
    constant: Option<f64>,
}

impl Derived<'_> {
    /// Its value in a row of [`RunRecord::samples`]; NaN where it is absent.
    pub fn value(&self, row: usize) -> f64 {
        self.constant
            .unwrap_or_else(|| (self.def.from)(&|name| self.asked.value(name, row)).unwrap_or(f64::NAN))
    }
}

/// The columns that a formula has used. It uses the same few in each of a million rows, so scanning this list is faster
/// than a lookup in a map of all columns.
struct Asked<'a> {
    record: &'a RunRecord,
    columns: RefCell<Vec<Column<'a>>>,
}

/// A name and the values of that reading, if it was taken.
type Column<'a> = (String, Option<&'a [f64]>);

impl Asked<'_> {
    fn value(&self, name: &str, row: usize) -> Option<f64> {
        let mut columns = self.columns.borrow_mut();
        let at = columns.iter().position(|(asked, _)| asked == name).unwrap_or_else(|| {
            let column = self.record.reading(name).map(|at| self.record.samples.values[at].as_slice());
            columns.push((name.to_string(), column));
            columns.len() - 1
        });
        columns[at].1.map(|values| values[row]).filter(|value| !value.is_nan())
    }
}

/// One line of a run's command log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// When: RFC 3339.
    pub at: String,
    /// The cell, where it ran in one.
    pub cell: Option<String>,
    /// What ran.
    pub command: CommandRecord,
}
