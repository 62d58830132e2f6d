//! Tasks that differ in block size and threads, as tables: one for each mode, a row for each block size and
//! variant, a column for each number of threads. One row a task would be some hundred of them.

use crate::document::{Cell, Document, Source, Table, labelled};
use crate::findings::figures::{iops, size, threads};
use crate::number::{percent, plural, with_unit};
use fsarena_core::metric::{CLIENT_BOUND, DataPath, reading};
use fsarena_core::observations::Grid;
use fsarena_core::sample::{Direction, Unit};
use fsarena_core::{cell::TaskId, record::RunRecord};
use fsarena_stats::analyse::{Analysis, TaskMedians, medians};
use std::collections::BTreeSet;

/// What marks a variant that does not differ significantly from the best.
pub const ALIKE: &str = "≈";

/// The parameters of a task that has a place in the tables.
pub const SIZE: &str = "bs";
/// See [`SIZE`].
pub const THREADS: &str = "threads";

/// The place of a task in the tables: block size in bytes, and threads.
pub fn place(task: &TaskId) -> Option<(u64, u32)> {
    Some((task.params.get(SIZE)?.parse().ok()?, task.params.get(THREADS)?.parse().ok()?))
}

/// One figure of the tables.
#[derive(Debug, Clone)]
pub struct Figure {
    /// The mode.
    pub mode: String,
    /// Block size in bytes, and threads.
    pub at: (u64, u32),
    /// Which variant.
    pub variant: usize,
    /// Its value.
    pub value: f64,
    /// A mark printed after the value.
    pub mark: String,
    /// Whether it is of the bare device, which is never the best.
    pub bare: bool,
    /// The task of the run whose samples it sums up, by its number.
    pub task: Option<usize>,
}

/// The unit of figures, and which way is better.
pub type Scale = (Unit, Direction);

/// Adds the tables. The best of each block size and number of threads is strong.
pub fn tables(document: &mut Document, variants: &[&str], figures: &[Figure], scale: Scale) {
    let modes: BTreeSet<&str> = figures.iter().map(|figure| figure.mode.as_str()).collect();
    for mode in modes {
        let of_mode: Vec<&Figure> = figures.iter().filter(|figure| figure.mode == mode).collect();
        document.heading(3, mode);
        document.table(table(variants, &of_mode, scale));
    }
}

fn table(variants: &[&str], figures: &[&Figure], scale: Scale) -> Table {
    let sizes: BTreeSet<u64> = figures.iter().map(|figure| figure.at.0).collect();
    let counts: BTreeSet<u32> = figures.iter().map(|figure| figure.at.1).collect();
    let mut table = Table::figures(["block size, variant"]);
    table.header.extend(counts.iter().map(|count| threads(*count)));
    for bytes in sizes {
        for (variant, name) in variants.iter().enumerate() {
            let cell = |count: &u32| cell(figures, (bytes, *count), variant, scale);
            let cells: Vec<Cell> = counts.iter().map(cell).collect();
            if cells.iter().any(|cell| !cell.lines.is_empty()) {
                table.rows.push(labelled(format!("{} {name}", size(bytes)), cells));
            }
        }
    }
    table
}

fn cell(figures: &[&Figure], at: (u64, u32), variant: usize, (unit, direction): Scale) -> Cell {
    let here = || figures.iter().filter(|figure| figure.at == at);
    let Some(own) = here().find(|figure| figure.variant == variant) else { return Cell::default() };
    let better = |a: f64, b: f64| match direction {
        Direction::Higher => a > b,
        Direction::Lower => a < b,
        Direction::Neutral => true,
    };
    let shown = match unit {
        Unit::PerSecond => iops(own.value),
        unit => with_unit(own.value, unit),
    };
    let source = own.task.and_then(|task| Source::of(Some(task), [variant]));
    let cell = Cell { source, ..Cell::from(shown).mark(&own.mark) };
    let rivals = || here().filter(|other| other.variant != variant && !other.bare);
    let best = rivals().next().is_some() && !rivals().any(|other| better(other.value, own.value));
    cell.strong_if(best && !own.bare)
}

/// Whether every task of an analysis has its place in the tables.
pub fn fits(analysis: &Analysis) -> bool {
    analysis.tasks().next().is_some() && analysis.tasks().all(|task| place(&task.task.id).is_some())
}

/// The medians of an analysis, with what a reader must know of single cells.
pub fn add(document: &mut Document, record: &RunRecord, analysis: &Analysis) {
    let marks = marks(record);
    let mut figures = vec![];
    for task in analysis.tasks() {
        let Some(at) = place(&task.task.id) else { continue };
        for (variant, result) in task.comparison.variants.iter().enumerate() {
            let Some(value) = result.median else { continue };
            let alike = !task.comparison.provisional() && task.comparison.tied().contains(&variant);
            let mark = format!("{}{}", if alike { ALIKE } else { "" }, marks(&task.task.id, variant));
            let index = record.task(&task.task.id);
            let bare = analysis.grid.references.contains(&variant);
            let mode = task.task.id.name.clone();
            figures.push(Figure { mode, at, variant, value, mark, bare, task: index });
        }
    }
    let shares = add_shares(&mut figures, analysis.metric.unit);
    tables(document, &record.names(), &figures, (analysis.metric.unit, analysis.metric.direction));
    let mut text =
        String::from("Medians over rounds; the best of each block size and number of threads stands out.");
    if !analysis.provisional() {
        text.push_str(
            " ≈ marks variants with no significant difference from the best at 95%, which does not make them equal.",
        );
    }
    if shares {
        text.push_str(" Per cent: of the bare device.");
    }
    let all: String = figures.iter().map(|figure| figure.mark.as_str()).collect();
    for (sign, words) in SIGNS {
        let count = all.matches(sign).count();
        if count > 0 {
            text.push_str(&format!(" {sign} ({}): {words}.", plural(count, "figure")));
        }
    }
    document.text(text);
}

/// Adds to each rate its share of what the bare device reached; whether there was one.
fn add_shares(figures: &mut [Figure], unit: Unit) -> bool {
    let bare: Vec<Figure> = figures.iter().filter(|figure| figure.bare).cloned().collect();
    let rate = matches!(unit, Unit::PerSecond | Unit::BytesPerSecond);
    for figure in figures.iter_mut().filter(|figure| !figure.bare && rate) {
        let ceiling = bare.iter().find(|bare| bare.mode == figure.mode && bare.at == figure.at);
        if let Some(ceiling) = ceiling.filter(|bare| bare.value > 0.0) {
            figure.mark = format!("{} {}", figure.mark, percent(figure.value / ceiling.value));
        }
    }
    rate && !bare.is_empty()
}

const CACHE: char = '°';
const MIXED: char = '~';
const UNSTEADY: char = '±';
const CLIENT: char = '!';

/// What the signs behind figures mean.
const SIGNS: [(char, &str); 4] = [
    (CACHE, "data path page cache, under a tenth of the bytes reached the device"),
    (MIXED, "data path mixed, under nine tenths of the bytes reached the device"),
    (UNSTEADY, "the load did not become steady in time"),
    (CLIENT, "client-bound, the generator itself takes more than a tenth of an operation"),
];

/// The signs behind a figure, by task and variant, from the medians of a run; none where nothing measured them.
fn marks(record: &RunRecord) -> impl Fn(&TaskId, usize) -> String {
    let of = |metric| Grid::of(record, metric).map_or(vec![], |grid| medians(&grid));
    let (share, steady, client) = (of("device_share"), of(reading::STEADY), of(reading::CLIENT));
    move |task, variant| {
        let median = |medians: &[TaskMedians]| {
            let found = medians.iter().find(|found| found.task.id == *task)?;
            *found.variants.get(variant)?
        };
        let reach = match median(&share).map(DataPath::of) {
            Some(DataPath::Cache) => Some(CACHE),
            Some(DataPath::Mixed) => Some(MIXED),
            _ => None,
        };
        let unsteady = median(&steady).filter(|steady| *steady < 0.5).map(|_| UNSTEADY);
        let client = median(&client).filter(|share| *share > CLIENT_BOUND).map(|_| CLIENT);
        [reach, unsteady, client].into_iter().flatten().collect()
    }
}
