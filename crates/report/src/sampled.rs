//! A metric by task and variant, for formats that list samples.

use crate::error::Error;
use fsarena_core::cell::{TaskId, Variant};
use fsarena_core::observations::Grid;
use fsarena_core::record::RunRecord;
use std::collections::BTreeMap;

/// The values of one task of one variant.
#[derive(Debug, Clone)]
pub struct Sampled<'a> {
    /// The task, with its parameters.
    pub task: &'a TaskId,
    /// The variant.
    pub variant: &'a Variant,
    /// Round and value, in the order of the rounds.
    pub values: Vec<(u32, f64)>,
}

/// The values of a metric, one entry for each task and variant that has some; rounds that were dropped are left
/// out. Empty where the run does not know the metric.
pub fn sampled<'a>(record: &'a RunRecord, metric: &str) -> Vec<Sampled<'a>> {
    let Some(grid) = Grid::of(record, metric) else { return vec![] };
    let mut all = Vec::new();
    for (task, variants) in record.tasks.iter().zip(&grid.values) {
        for (variant, values) in record.variants.iter().zip(variants) {
            let values = grid.rounds.iter().copied().zip(values.iter().copied());
            let values: Vec<(u32, f64)> = values.filter(|(_, value)| !value.is_nan()).collect();
            if !values.is_empty() {
                all.push(Sampled { task: &task.id, variant, values });
            }
        }
    }
    all
}

/// One sample, by several metrics.
#[derive(Debug, Clone)]
pub struct Row<'a> {
    /// Its round.
    pub round: u32,
    /// The task.
    pub task: &'a TaskId,
    /// The variant.
    pub variant: &'a Variant,
    /// The task and the variant: `rndrd[bs=4096] on ext4`.
    pub name: String,
    values: BTreeMap<String, f64>,
}

impl Row<'_> {
    /// A metric, where the sample has it.
    pub fn get(&self, metric: &str) -> Option<f64> {
        self.values.get(metric).copied()
    }
}

/// The samples of a run that have one of these metrics at least, and that a format has a place for, round by round;
/// rounds that were dropped are left out.
///
/// # Errors
/// Where there is none, with what the format tells.
pub fn rows<'a>(
    record: &'a RunRecord,
    metrics: &[impl AsRef<str>],
    (format, what): (&str, &str),
    keep: impl Fn(&Row) -> bool,
) -> Result<Vec<Row<'a>>, Error> {
    let mut rows: BTreeMap<(u32, String), Row> = BTreeMap::new();
    for metric in metrics.iter().map(AsRef::as_ref) {
        for Sampled { task, variant, values } in sampled(record, metric) {
            let name = format!("{task} on {}", variant.name);
            for (round, value) in values {
                let new = || Row { round, task, variant, name: name.clone(), values: BTreeMap::new() };
                let row = rows.entry((round, name.clone())).or_insert_with(new);
                row.values.insert(metric.to_string(), value);
            }
        }
    }
    let rows: Vec<Row> = rows.into_values().filter(keep).collect();
    match rows.is_empty() {
        false => Ok(rows),
        true => Err(Error::Usage(format!(
            "{} has no {what}, which is what {format} tells; `--format csv` has all that it measured",
            record.id
        ))),
    }
}
