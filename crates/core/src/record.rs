//! A stored run, read back for analysis and reports.

use crate::cell::{TaskId, TaskInfo, Variant};
use crate::event::{Activity, Cause, CommandRecord, Note, NoteKind, Outcome};
use crate::names::{UnknownName, distinct, unknown_name};
pub use crate::sample::MetricSpec;
use crate::sample::{Direction, Sample, Unit};
use crate::{host::Host, latency::LatencyHistogram, metric::MetricDef, plan::Plan, series::SeriesTable};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, cell::RefCell, collections::BTreeMap};

/// A finished cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellRecord {
    /// Its id; see [`crate::cell::CellId`].
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
    /// How long it took in total and for each activity, in nanoseconds.
    pub spent: Vec<(Activity, u64)>,
}

impl CellRecord {
    /// A cell that was done, without times: for records that are made by hand, as in tests. Its place in the order of the
    /// round is the index of its variant.
    pub fn done(round: u32, variant: usize) -> CellRecord {
        CellRecord {
            id: format!("{round}-{variant}"),
            round,
            position: variant as u32,
            variant,
            workload: "tasks".into(),
            outcome: Outcome::Done,
            host: 0,
            started_at: 0.0,
            spent: vec![],
        }
    }

    /// The time that the cell spent on an activity, in nanoseconds; 0 if it did not have this activity.
    pub fn spent_on(&self, activity: Activity) -> u64 {
        self.spent.iter().filter(|(spent_on, _)| *spent_on == activity).map(|(_, ns)| ns).sum()
    }
}

/// The samples of a run by column. A row is one task in one cell.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SampleTable {
    /// For each row, an index into [`RunRecord::cells`].
    pub cell: Vec<u32>,
    /// For each row, an index into [`RunRecord::tasks`].
    pub task: Vec<u32>,
    /// For each row, when its task began: seconds since 1970, UTC.
    pub started_at: Vec<f64>,
    /// For each reading of [`RunRecord::readings`], its value in each row; NaN for a missing value.
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

/// The most readings of a run. Real runs have a few hundred; the limit protects against damaged files.
pub const MAX_READINGS: usize = 1_000;

/// Latencies by task and variant.
pub type PooledLatencies = BTreeMap<(usize, usize), LatencyHistogram>;

/// A run as the store returns it.
#[derive(Debug, Clone, Default)]
pub struct RunRecord {
    /// Its id, the name of its directory.
    pub id: String,
    /// The version of fsarena that made it.
    pub version: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// When its last cell ended, RFC 3339; empty if none has ended.
    pub ended: String,
    /// Whether it finished everything that the plan requires, and why it stopped.
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
    /// Operations and latencies of loads over time.
    pub series: SeriesTable,
    /// The latencies of loads, pooled over all rounds that are compared. Reports show them, but no verdict uses them, because
    /// rounds are the unit of replication.
    pub latencies: PooledLatencies,
    /// The notes for the reader of the results, each with its round; None for a note from before the first round.
    pub notes: Vec<(Option<u32>, Note)>,
    /// The number of commands that were run; `command.log` lists them.
    pub command_count: u64,
}

/// Whether and why a run has stopped.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RunStatus {
    /// Whether the run finished everything that the plan requires.
    pub complete: bool,
    /// Why it stopped; `interrupted` if the store has no reason.
    pub why: String,
}

impl RunRecord {
    /// The record of a run that has not begun.
    pub fn new(plan: Plan, variants: Vec<Variant>) -> RunRecord {
        RunRecord { plan, variants, ..RunRecord::default() }
    }

    /// Adds the sample of a task. `cell` is an index into [`RunRecord::cells`].
    pub(crate) fn add_sample(&mut self, cell: u32, sample: &Sample) {
        let task = self.task_index(&sample.task.id).unwrap_or_else(|| {
            self.tasks.push(sample.task.clone());
            self.tasks.len() - 1
        });
        self.samples.cell.push(cell);
        self.samples.task.push(task as u32);
        self.samples.started_at.push(sample.started_at);
        self.samples.values.iter_mut().for_each(|column| column.push(f64::NAN));
        for (id, value) in &sample.readings.0 {
            // The built-in readings are defined before the run begins, and an event defines each reading that a command prints.
            // Any other reading becomes a plain count.
            let definition = MetricSpec::new(id.clone(), Unit::Count, Direction::Neutral, String::new());
            let column = self.define_reading(definition);
            if let Some(last) = column.and_then(|column| self.samples.values[column].last_mut()) {
                *last = *value;
            }
        }
    }

    /// Returns the column of a reading; adds it, filled with NaN, if missing. None if the run already has the largest number
    /// of readings, which happens only with a damaged log.
    pub fn define_reading(&mut self, definition: MetricSpec) -> Option<usize> {
        let existing_column = self.reading_column(&definition.id);
        if existing_column.is_some() || self.readings.len() >= MAX_READINGS {
            return existing_column;
        }
        self.readings.push(definition);
        self.samples.values.push(vec![f64::NAN; self.samples.len()]);
        Some(self.readings.len() - 1)
    }

    /// The name of a variant, by its index.
    pub fn variant_name(&self, variant: usize) -> &str {
        &self.variants[variant].name
    }

    /// The names of all variants.
    pub fn variant_names(&self) -> Vec<&str> {
        self.variants.iter().map(|variant| variant.name.as_str()).collect()
    }

    /// The index of a variant in [`RunRecord::variants`]; None if the run lacks it.
    pub fn variant_index(&self, name: &str) -> Option<usize> {
        self.variants.iter().position(|variant| variant.name == name)
    }

    /// Whether the variants differ in the level of a factor.
    pub fn varies(&self, factor: &str) -> bool {
        self.variants.windows(2).any(|pair| pair[0].level(factor) != pair[1].level(factor))
    }

    /// The notes of one kind, each with its round.
    pub fn notes_of(&self, kind: NoteKind) -> impl Iterator<Item = (Option<u32>, &Note)> {
        self.notes.iter().filter(move |(_, note)| note.kind == kind).map(|(round, note)| (*round, note))
    }

    /// The variants that were not compared because the budget did not suffice for them; variants of earlier stages come first.
    pub fn not_compared(&self) -> Vec<&str> {
        let earlier = self.plan.stage.iter().flat_map(|stage| &stage.not_compared).map(String::as_str);
        let in_this_stage = self.notes_of(NoteKind::NotCompared).filter_map(|(_, note)| note.variant.as_deref());
        distinct(earlier.chain(in_this_stage))
    }

    /// The cells whose filesystem lost synced files, each with its error message.
    pub fn violations(&self) -> impl Iterator<Item = (&CellRecord, &str)> {
        self.cells.iter().filter_map(|cell| match &cell.outcome {
            Outcome::Failed { why, cause: Cause::Violation } => Some((cell, why.as_str())),
            _ => None,
        })
    }

    /// The safety guarantees that a variant gives up and that other variants of the run have.
    pub fn weakened_guarantees(&self, variant: usize) -> Vec<&str> {
        let name = Some(self.variant_name(variant));
        let weaker = self.notes_of(NoteKind::Weaker).filter(|(_, note)| note.variant.as_deref() == name);
        distinct(weaker.map(|(_, note)| note.text.as_str()))
    }

    /// Selects the variants that give up no safety guarantee; returns all variants if every one gives up some.
    pub fn with_full_guarantees(&self, variants: &[usize]) -> Vec<usize> {
        let unweakened: Vec<usize> =
            variants.iter().copied().filter(|variant| self.weakened_guarantees(*variant).is_empty()).collect();
        if unweakened.is_empty() { variants.to_vec() } else { unweakened }
    }

    /// The column of a raw reading in [`SampleTable::values`]; None if the run lacks it.
    pub fn reading_column(&self, id: &str) -> Option<usize> {
        self.readings.iter().position(|reading| reading.id == id)
    }

    /// The index of a task in [`RunRecord::tasks`]; None if the run lacks it.
    pub fn task_index(&self, id: &TaskId) -> Option<usize> {
        self.tasks.iter().position(|task| task.id == *id)
    }

    /// The error that the run has no task of this name; it lists the tasks of the run.
    pub fn unknown_task(&self, name: &str) -> UnknownName {
        let tasks = self.tasks.iter().filter(|task| task.in_totals);
        let task_ids: Vec<String> = tasks.map(|task| task.id.to_string()).collect();
        unknown_name("task", name, task_ids.iter().map(String::as_str)).with_place(format!("in run {}", self.id))
    }

    /// The names of all readings of the run, and of all derived metrics.
    pub fn metric_ids(&self) -> impl Iterator<Item = &str> {
        let readings = self.readings.iter().map(|reading| reading.id.as_str());
        readings.chain(crate::metric::METRICS.iter().map(|metric| metric.spec.id))
    }

    /// The definition of a metric or raw reading, and its values for every row of [`RunRecord::samples`]; NaN for a missing
    /// value. None if the name is unknown.
    ///
    /// The name of a reading may omit its unit (`tps` for `tps_per_s`) if only one reading has that name. A derived metric of
    /// the same name takes precedence, unless only the reading has values.
    pub fn metric(&self, id: &str) -> Option<(MetricSpec, Cow<'_, [f64]>)> {
        let reading_in = |column: usize| {
            Some((self.readings[column].clone(), Cow::Borrowed(self.samples.values[column].as_slice())))
        };
        if let Some(column) = self.reading_column(id) {
            return reading_in(column);
        }
        let derived = self.derived_metric(id);
        if let Some(column) = self.column_without_unit(id) {
            let has_values = |metric: &DerivedMetric| (0..self.samples.len()).any(|row| !metric.value(row).is_nan());
            let reading_has_values = self.samples.values[column].iter().any(|value| !value.is_nan());
            if derived.as_ref().is_none_or(|metric| reading_has_values && !has_values(metric)) {
                return reading_in(column);
            }
        }
        let metric = derived?;
        let values = (0..self.samples.len()).map(|row| metric.value(row)).collect();
        Some((metric.spec, Cow::Owned(values)))
    }

    /// The column of the reading that has this name without its unit; None if there is not exactly one.
    fn column_without_unit(&self, id: &str) -> Option<usize> {
        let has_name = |reading: &MetricSpec| reading.id != id && reading.unit.without_suffix(&reading.id) == id;
        let mut columns = (0..self.readings.len()).filter(|column| has_name(&self.readings[*column]));
        columns.next().filter(|_| columns.next().is_none())
    }

    /// A derived metric, whose values are computed row by row. None if the name is unknown.
    pub fn derived_metric(&self, id: &str) -> Option<DerivedMetric<'_>> {
        let def = crate::metric::find(id)?;
        let spec = MetricSpec::from(&def.spec);
        let used_columns = UsedColumns { record: self, columns: RefCell::default() };
        let mut derived = DerivedMetric { spec, def, used_columns, constant: None };
        let first_value = if self.samples.is_empty() { f64::NAN } else { derived.value(0) };
        let has_readings = derived.used_columns.columns.borrow().iter().any(|(_, column)| column.is_some());
        derived.constant = (!has_readings).then_some(first_value);
        Some(derived)
    }
}

/// A metric that a formula computes from readings.
pub struct DerivedMetric<'a> {
    /// Its definition.
    pub spec: MetricSpec,
    def: &'static MetricDef,
    used_columns: UsedColumns<'a>,
    /// The value in every row, if the run has none of the readings that the formula uses.
    constant: Option<f64>,
}

impl DerivedMetric<'_> {
    /// Its value in a row of [`RunRecord::samples`]; NaN if it has none.
    pub fn value(&self, row: usize) -> f64 {
        if let Some(value) = self.constant {
            return value;
        }
        (self.def.formula)(&|name| self.used_columns.value(name, row)).unwrap_or(f64::NAN)
    }
}

/// A cache of the columns that a formula uses. It uses the same few in each of a million rows, so scanning this list is faster
/// than a lookup in a map of all columns.
struct UsedColumns<'a> {
    record: &'a RunRecord,
    columns: RefCell<Vec<UsedColumn<'a>>>,
}

/// The name of a reading, and its values if the run has it.
type UsedColumn<'a> = (String, Option<&'a [f64]>);

impl UsedColumns<'_> {
    /// The value of a reading in a row; None if the run or the row lacks it.
    fn value(&self, name: &str, row: usize) -> Option<f64> {
        let mut columns = self.columns.borrow_mut();
        let index = columns.iter().position(|(reading, _)| reading == name).unwrap_or_else(|| {
            let column = self.record.reading_column(name).map(|column| self.record.samples.values[column].as_slice());
            columns.push((name.to_string(), column));
            columns.len() - 1
        });
        columns[index].1.map(|values| values[row]).filter(|value| !value.is_nan())
    }
}

/// One line of a run's command log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLogLine {
    /// When the command ended: RFC 3339.
    #[serde(rename = "at")]
    pub ended_at: String,
    /// The id of the cell; None if the command ran outside any cell.
    pub cell: Option<String>,
    /// The command.
    pub command: CommandRecord,
}

/// The study, metric and variant that a history of runs follows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HistoryQuery {
    /// The name of the study or plan.
    pub study: String,
    /// The id of the metric.
    pub metric: String,
    /// The name of the variant.
    pub variant: String,
    /// The variant to compare with in every round; None follows the variant's own values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}
