//! Figures that did not measure what their task claims.

use crate::average::median;
pub use crate::grid::Doubt;
use crate::grid::{Grid, grid, has_data, left_out};
use crate::tail::{self, Tail};
use fsarena_core::metric::{CLIENT_BOUND, DataPath, reading};
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::{cell::Variant, matrix::work_of, setting::Value};
use std::collections::{BTreeMap, BTreeSet};

impl Grid {
    /// A metric or reading without warm-up rounds and those that were dropped as a whole; see [`Grid::without`].
    pub fn of(record: &RunRecord, metric: &str) -> Option<(MetricSpec, Grid)> {
        Grid::without(record, metric, &left_out(record))
    }

    /// A metric or reading without these rounds. Sets the tasks aside of which a figure did not measure what it claims: for
    /// all variants, so that every sum has the same tasks. The figures of a bare device rank nothing, whatever they are.
    /// None where nothing is called so.
    pub fn without(
        record: &RunRecord,
        metric: &str,
        leave_out: &BTreeSet<u32>,
    ) -> Option<(MetricSpec, Grid)> {
        let (info, rows) = record.metric(metric)?;
        let mut grid = grid(record, &rows, leave_out);
        let doubts = doubts(record, metric).into_iter();
        let doubts = doubts.filter(|((_, variant), _)| !grid.references.contains(variant));
        grid.set_aside = doubts.map(|((task, _), doubt)| (task, doubt)).collect();
        grid.apart = apart(record, &info, &grid);
        Some((info, grid))
    }
}

/// Why a task ranks no variant: `btrfs at rndrd[bs=512,threads=1] served direct I/O from the page cache`.
pub fn reason(record: &RunRecord, metric: &str, task: usize) -> Option<String> {
    let doubts = doubts(record, metric);
    let of_task =
        doubts.iter().filter(|((of, variant), _)| *of == task && !record.variants[*variant].is_bare_device());
    let ((_, variant), doubt) = of_task.min_by_key(|(at, _)| **at)?;
    let words = Some(*doubt).filter(|doubt| *doubt == Doubt::FewRequests).and_then(|_| {
        let tail = Tail::of(metric)?;
        // The rarest requests say how long is long enough for all.
        let of_task = tail::short(record, &tail).into_iter().filter(|short| short.task == task);
        let least = of_task.min_by(|a, b| a.had.total_cmp(&b.had))?;
        Some((least.variant, least.words(&tail)))
    });
    let (variant, words) = words.unwrap_or((*variant, doubt.words().into()));
    Some(format!("{} at {} {words}", record.name(variant), record.tasks[task].id))
}

/// What the values of a reading say against a task's figure of one variant.
type Look<'a> = &'a dyn Fn(usize, &Variant, &[f64]) -> Option<Doubt>;

/// The figures of a metric that may not rank, by task and variant, each with the first reason.
pub fn doubts(record: &RunRecord, metric: &str) -> BTreeMap<(usize, usize), Doubt> {
    let left_out = left_out(record);
    let short = Tail::of(metric).map_or(vec![], |tail| tail::short(record, &tail));
    // First, for what helps it, a longer load, helps other figures too.
    let mut found: BTreeMap<_, _> =
        short.into_iter().map(|short| ((short.task, short.variant), Doubt::FewRequests)).collect();
    let mut look = |metric: &str, doubt: Look| {
        let Some((_, rows)) = record.metric(metric) else { return };
        for (task, variants) in grid(record, &rows, &left_out).values.iter().enumerate() {
            for (at, rounds) in variants.iter().enumerate().filter(|(_, rounds)| median(rounds).is_some()) {
                if let Some(doubt) = doubt(task, &record.variants[at], rounds) {
                    found.entry((task, at)).or_insert(doubt);
                }
            }
        }
    };
    look("device_share", &|task, variant, rounds| {
        let cached = median(rounds).map(DataPath::of) == Some(DataPath::Cache);
        (cached && asked(record, task, variant, "direct")).then_some(Doubt::Cache)
    });
    look(reading::CLIENT, &|_, _, rounds| {
        median(rounds).is_some_and(|share| share > CLIENT_BOUND).then_some(Doubt::ClientBound)
    });
    look(reading::VERIFIED, &|task, variant, rounds| {
        let none = !rounds.iter().any(|blocks| *blocks > 0.0);
        (none && asked(record, task, variant, "verify")).then_some(Doubt::Unverified)
    });
    found
}

/// The tasks whose load was steady in no round, with the variants. Rounds compare all variants over the same time, so such
/// figures rank: for a load of that length.
pub fn never_steady(record: &RunRecord) -> Vec<(usize, usize)> {
    let Some((_, rows)) = record.metric(reading::STEADY) else { return vec![] };
    let grid = grid(record, &rows, &left_out(record));
    let cells = grid.values.iter().enumerate().flat_map(|(task, variants)| {
        variants.iter().enumerate().map(move |(variant, rounds)| ((task, variant), rounds))
    });
    let unsteady =
        cells.filter(|(_, rounds)| median(rounds).is_some() && !rounds.iter().any(|one| *one > 0.0));
    unsteady.map(|(at, _)| at).collect()
}

/// The tasks that do not commit, where others of the run do and the metric is of single operations, such as a rate or a
/// latency: a figure over commits and reads together would be of neither.
fn apart(record: &RunRecord, metric: &MetricSpec, of: &Grid) -> BTreeSet<usize> {
    let rate = metric.whole().is_none().then(|| record.metric(reading::COMMIT_RATE)).flatten();
    let Some((_, rows)) = rate else { return BTreeSet::new() };
    let commits = grid(record, &rows, &BTreeSet::new());
    let measured =
        (0..of.values.len()).filter(|task| record.tasks[*task].in_totals && has_data(&of.values[*task]));
    let (commits, others): (BTreeSet<usize>, BTreeSet<usize>) =
        measured.partition(|task| has_data(&commits.values[*task]));
    if commits.is_empty() { BTreeSet::new() } else { others }
}

/// Whether every workload of the plan that ran this task has the setting on for the variant.
fn asked(record: &RunRecord, task: usize, variant: &Variant, setting: &str) -> bool {
    let rows = record.samples.task.iter().zip(&record.samples.cell).filter(|(of, _)| **of as usize == task);
    let names: BTreeSet<&str> =
        rows.map(|(_, cell)| record.cells[*cell as usize].workload.as_str()).collect();
    let mut plans = record.plan.workloads.iter().filter(|plan| names.contains(plan.name.as_str())).peekable();
    plans.peek().is_some()
        && plans.all(|plan| match work_of(variant, plan).settings.0.get(setting) {
            Some(Value::Bool(on)) => *on,
            // A level of a factor is text.
            Some(Value::Text(level)) => level == "true",
            _ => false,
        })
}
