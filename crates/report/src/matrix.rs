//! Tables of tasks that differ in block size and number of threads: one table for each mode, with a row for each block size and
//! variant and a column for each number of threads. Also arranges the same figures as a [`Matrix`], in which fsarena searches
//! for anomalies.

use crate::document::{Cell, Document, FigureSource, Table, labelled_row};
use crate::number::{percent, plural, signed_percent, three_digits, with_unit};
use crate::{error::Error, phrases::group_digits};
use fsarena_core::metric::{DataPath, MAX_GENERATOR_SHARE, reading};
use fsarena_core::observations::{self, Grid};
use fsarena_core::published::{Figure, PublishedSet};
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::{Direction, Unit};
use fsarena_core::{cell::TaskId, factor};
use fsarena_stats::analyse::{Analysis, TaskMedians, task_medians};
use fsarena_stats::matrix::cells::{Matrix, MatrixRow};
use fsarena_stats::{average::mean, comparison::median, ratio::Ratio};
use std::collections::{BTreeMap, BTreeSet};

/// The mark of variants that do not differ significantly from the best.
pub const NOT_DIFFERENT: &str = "≈";

/// The name of the task parameter with the block size in bytes.
pub const BLOCK_SIZE_PARAM: &str = "bs";
/// The name of the task parameter with the number of threads.
pub const THREADS_PARAM: &str = "threads";

/// The block size in bytes and the number of threads of a task. `None` if the task lacks either parameter, or has a
/// third one: several tasks would then have the same place in a matrix.
pub fn block_size_and_threads(task: &TaskId) -> Option<(u64, u32)> {
    if task.params.len() != 2 {
        return None;
    }
    Some((task.params.get(BLOCK_SIZE_PARAM)?.parse().ok()?, task.params.get(THREADS_PARAM)?.parse().ok()?))
}

/// One figure of the tables.
#[derive(Debug, Clone)]
pub struct MatrixFigure {
    /// The mode, such as `seqwr`.
    pub mode: String,
    /// The block size in bytes, and the number of threads.
    pub coordinates: (u64, u32),
    /// The index of the variant.
    pub variant: usize,
    /// The value.
    pub value: f64,
    /// A mark printed after the value.
    pub mark: String,
    /// Whether the variant is the bare device.
    pub is_bare_device: bool,
    /// Whether the figure may be the best of its block size and number of threads. Figures of the bare device and of tasks
    /// without a ranking may not.
    pub can_be_best: bool,
    /// The index of the task in the run; `None` if the figure is not from a run.
    pub task: Option<usize>,
}

/// Adds a table for each mode. The best variant for each block size and number of threads is highlighted.
pub fn add_matrix_tables(document: &mut Document, variants: &[&str], figures: &[MatrixFigure], metric: &MetricSpec) {
    let modes: BTreeSet<&str> = figures.iter().map(|figure| figure.mode.as_str()).collect();
    for mode in modes {
        let of_mode: Vec<&MatrixFigure> = figures.iter().filter(|figure| figure.mode == mode).collect();
        document.heading(3, mode);
        document.table(mode_table(variants, &of_mode, metric));
    }
}

/// The table of one mode: a row for each block size and variant, a column for each number of threads.
fn mode_table(variants: &[&str], figures: &[&MatrixFigure], metric: &MetricSpec) -> Table {
    let sizes: BTreeSet<u64> = figures.iter().map(|figure| figure.coordinates.0).collect();
    let counts: BTreeSet<u32> = figures.iter().map(|figure| figure.coordinates.1).collect();
    let mut table = Table::of_figures(["block size, variant"]);
    table.header.extend(counts.iter().map(|count| format_threads(*count)));
    for bytes in sizes {
        for (variant, name) in variants.iter().enumerate() {
            let cell = |count: &u32| figure_cell(figures, (bytes, *count), variant, metric);
            let cells: Vec<Cell> = counts.iter().map(cell).collect();
            if cells.iter().any(|cell| !cell.lines.is_empty()) {
                table.rows.push(labelled_row(format!("{} {name}", format_size(bytes)), cells));
            }
        }
    }
    table
}

/// The cell of a variant at one block size and number of threads; empty if the variant has no figure for these coordinates.
fn figure_cell(figures: &[&MatrixFigure], coordinates: (u64, u32), variant: usize, metric: &MetricSpec) -> Cell {
    let same_task = || figures.iter().filter(|figure| figure.coordinates == coordinates);
    let Some(figure) = same_task().find(|figure| figure.variant == variant) else { return Cell::default() };
    let may_be_better = |a: f64, b: f64| match metric.direction {
        Direction::Higher => a > b,
        Direction::Lower => a < b,
        // Without a direction any other variant may be better, so no variant is highlighted as the best.
        Direction::Neutral => true,
    };
    let text = match metric.unit {
        Unit::PerSecond => format_iops(figure.value),
        unit => with_unit(figure.value, unit),
    };
    let source = figure.task.and_then(|task| FigureSource::new(Some(task), [variant]));
    let cell = Cell { source, ..Cell::from(text).with_mark(&figure.mark) };
    let rivals = || same_task().filter(|rival| rival.variant != variant && rival.can_be_best);
    let is_best = rivals().next().is_some() && !rivals().any(|rival| may_be_better(rival.value, figure.value));
    cell.highlighted_if(is_best && figure.can_be_best)
}

/// Whether an analysis has tasks that count in the totals, and all of these have a block size and a number of threads.
pub fn is_matrix(analysis: &Analysis) -> bool {
    analysis.tasks_in_totals().next().is_some()
        && analysis.tasks_in_totals().all(|task| block_size_and_threads(&task.task.id).is_some())
}

/// Adds the tables of an analysis with the median of each task, and explains the marks after the figures.
pub fn add_median_tables(document: &mut Document, record: &RunRecord, analysis: &Analysis) {
    let sign_medians = medians_of_signs(record);
    let mut figures = vec![];
    for task in analysis.tasks_in_totals() {
        let Some(coordinates) = block_size_and_threads(&task.task.id) else { continue };
        for (variant, result) in task.comparison.variants.iter().enumerate() {
            let Some(value) = result.median else { continue };
            let is_not_different = !task.comparison.is_provisional()
                && task.comparison.without_significant_difference().contains(&variant);
            let not_different_mark = if is_not_different { NOT_DIFFERENT } else { "" };
            let is_bare_device = analysis.grid.references.contains(&variant);
            figures.push(MatrixFigure {
                mode: task.task.id.name.clone(),
                coordinates,
                variant,
                value,
                mark: format!("{not_different_mark}{}", applying_signs(&sign_medians, &task.task.id, variant)),
                is_bare_device,
                can_be_best: !is_bare_device && task.unranked_because.is_none(),
                task: record.task_index(&task.task.id),
            });
        }
    }
    let has_device_shares = add_device_shares(&mut figures, analysis.metric.unit);
    add_matrix_tables(document, &record.variant_names(), &figures, &analysis.metric);
    let mut text = String::from("Medians over rounds; the best of each block size and number of threads stands out.");
    let has_not_different = figures.iter().any(|figure| figure.mark.contains(NOT_DIFFERENT));
    // With enough rounds, a missing ≈ means a significant difference, so the text explains it even if no figure has it.
    if has_not_different || !analysis.is_provisional() {
        text.push_str(
            " ≈ marks variants with no significant difference from the best at 95%, which does not make them equal.",
        );
    }
    if has_device_shares {
        text.push_str(" A percentage after a figure is its share of the bare device's figure.");
    }
    let all_marks: String = figures.iter().map(|figure| figure.mark.as_str()).collect();
    for Sign { symbol, meaning, .. } in SIGNS {
        let count = all_marks.matches(symbol).count();
        if count > 0 {
            text.push_str(&format!(" {symbol} ({}): {meaning}.", plural(count, "figure")));
        }
    }
    document.text(text);
}

/// Adds to the mark of each rate its share of the bare device's rate. Returns whether any rate has a share.
fn add_device_shares(figures: &mut [MatrixFigure], unit: Unit) -> bool {
    if !matches!(unit, Unit::PerSecond | Unit::BytesPerSecond) {
        return false;
    }
    let mut has_shares = false;
    let device_figures: Vec<MatrixFigure> = figures.iter().filter(|figure| figure.is_bare_device).cloned().collect();
    for figure in figures.iter_mut().filter(|figure| !figure.is_bare_device) {
        let is_same_task =
            |device: &&MatrixFigure| (&device.mode, device.coordinates) == (&figure.mode, figure.coordinates);
        if let Some(device) = device_figures.iter().find(is_same_task).filter(|device| device.value > 0.0) {
            figure.mark = format!("{} {}", figure.mark, percent(figure.value / device.value));
            has_shares = true;
        }
    }
    has_shares
}

/// A sign in the mark of a figure: it shows how the figure was measured.
struct Sign {
    symbol: char,
    meaning: &'static str,
    /// The metric that decides whether a figure has the sign.
    metric: &'static str,
    /// Whether a figure with this median of the metric has the sign.
    applies: fn(f64) -> bool,
}

/// Every sign. [`DataPath`] and [`MAX_GENERATOR_SHARE`] define the limits in the texts.
const SIGNS: [Sign; 4] = [
    Sign {
        symbol: '°',
        meaning: "data path page cache, under a tenth of the bytes reached the device",
        metric: "device_share",
        applies: |share| DataPath::of(share) == DataPath::Cache,
    },
    Sign {
        symbol: '~',
        meaning: "data path mixed, under nine tenths of the bytes reached the device",
        metric: "device_share",
        applies: |share| DataPath::of(share) == DataPath::Mixed,
    },
    Sign {
        symbol: '±',
        meaning: "the load did not become steady in time",
        metric: reading::STEADY,
        // The reading is 1 or 0. A median under 0.5 means that the load was unsteady in most rounds.
        applies: |steady| steady < 0.5,
    },
    Sign {
        symbol: '!',
        meaning: "client-bound, the generator itself takes more than a tenth of the time of an operation",
        metric: reading::GENERATOR_SHARE,
        applies: |share| share > MAX_GENERATOR_SHARE,
    },
];

/// For each of [`SIGNS`], the medians of its metric; empty if the run did not measure the metric.
type SignMedians = [Vec<TaskMedians>; SIGNS.len()];

fn medians_of_signs(record: &RunRecord) -> SignMedians {
    SIGNS.map(|sign| Grid::of(record, sign.metric).map_or(vec![], |grid| task_medians(&grid)))
}

/// The signs that apply to a task and a variant.
fn applying_signs(sign_medians: &SignMedians, task: &TaskId, variant: usize) -> String {
    let mut symbols = String::new();
    for (sign, medians) in SIGNS.iter().zip(sign_medians) {
        let medians_of_task = medians.iter().find(|medians| medians.task.id == *task);
        let median = medians_of_task.and_then(|task| *task.medians.get(variant)?);
        if median.is_some_and(sign.applies) {
            symbols.push(sign.symbol);
        }
    }
    symbols
}

/// The metric of a [`Matrix`].
const MATRIX_METRIC: &str = "iops";

/// The name of the task for a mode, a block size in bytes and a number of threads.
pub fn matrix_task_id(mode: &str, block_size: u64, threads: u32) -> String {
    let params = [(BLOCK_SIZE_PARAM, block_size.to_string()), (THREADS_PARAM, threads.to_string())];
    TaskId { name: mode.into(), params: params.map(|(name, value)| (name.into(), value)).into() }.to_string()
}

/// The matrix of IOPS that a run measured.
///
/// # Errors
/// The run has no tasks with block size and threads.
pub fn matrix_of_run(record: &RunRecord) -> Result<Matrix, Error> {
    matrix_of_rerun(record, record)
}

/// The matrix of a run that measured cells of the run `original` again. Its variants have the same names as in the
/// matrix of `original`.
///
/// # Errors
/// As for [`matrix_of_run`].
pub fn matrix_of_rerun(record: &RunRecord, original: &RunRecord) -> Result<Matrix, Error> {
    let workloads: BTreeSet<&str> = original.cells.iter().map(|cell| cell.workload.as_str()).collect();
    let rows = matrix_rows_of_run(record, workloads.len() > 1);
    if rows.is_empty() {
        return Err(no_matrix_error(format!("run {}", record.id)));
    }
    Ok(Matrix::new(&rows)?)
}

/// A row for each block size, number of threads, mode and variant of a run, with the IOPS of each round. If a plan has
/// a workload twice, a round has several values of a task, and the row has their mean, as in all tables. If
/// `has_several_workloads`, each workload of a variant is a separate variant: workloads may have the same tasks.
fn matrix_rows_of_run(record: &RunRecord, has_several_workloads: bool) -> Vec<MatrixRow> {
    let Some((_, values)) = record.metric(MATRIX_METRIC) else { return vec![] };
    let left_out = observations::rounds_left_out(record);
    let rounds = record.cells.iter().map(|cell| cell.round as usize + 1).max().unwrap_or(0);
    let generator_shares = record.metric(reading::GENERATOR_SHARE).map(|(_, shares)| shares);
    // Each row, still without results, with its values by round and its generator shares.
    let mut rows: Vec<(MatrixRow, Vec<Vec<f64>>, Vec<f64>)> = vec![];
    let mut row_indexes = BTreeMap::new();
    for (sample, value) in values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
        let cell = &record.cells[record.samples.cell[sample] as usize];
        let task = &record.tasks[record.samples.task[sample] as usize].id;
        let Some((block_size, threads)) = block_size_and_threads(task) else { continue };
        if left_out.contains(&cell.round) {
            continue;
        }
        let variant = &record.variants[cell.variant];
        let suffix = if has_several_workloads { format!(" by {}", cell.workload) } else { String::new() };
        let name = format!("{}{suffix}", variant.name);
        let index = *row_indexes.entry((block_size, threads, &task.name, name.clone())).or_insert_with(|| {
            let (is_bare_device, mode) = (variant.is_bare_device(), task.name.clone());
            let row = MatrixRow {
                variant: name,
                is_bare_device,
                mode,
                block_size,
                threads,
                iops: vec![],
                client_bound: false,
            };
            rows.push((row, vec![vec![]; rounds], vec![]));
            rows.len() - 1
        });
        let (_, values_by_round, row_shares) = &mut rows[index];
        values_by_round[cell.round as usize].push(*value);
        row_shares.extend(generator_shares.as_ref().map(|values| values[sample]).filter(|share| !share.is_nan()));
    }
    let average = |(row, values_by_round, row_shares): (MatrixRow, Vec<Vec<f64>>, Vec<f64>)| {
        let iops = values_by_round.iter().map(|values| (!values.is_empty()).then(|| mean(values))).collect();
        let client_bound = median(&row_shares).is_some_and(|share| share > MAX_GENERATOR_SHARE);
        MatrixRow { iops, client_bound, ..row }
    };
    rows.into_iter().map(average).collect()
}

/// The rows of a published matrix, with one value each.
///
/// # Errors
/// The published figures have no block sizes and threads.
pub fn matrix_rows_of_published(published: &PublishedSet) -> Result<Vec<MatrixRow>, Error> {
    let figures = published.figures.iter().filter(|figure| figure.metric == MATRIX_METRIC);
    let row = |figure: &Figure| {
        let (block_size, threads) = block_size_and_threads(&figure.task_id())?;
        let (variant, mode) = (figure.variant.clone(), figure.task.clone());
        let (is_bare_device, iops) = (variant == factor::RAW, vec![Some(figure.value)]);
        Some(MatrixRow { variant, is_bare_device, mode, block_size, threads, iops, client_bound: false })
    };
    let rows: Vec<MatrixRow> = figures.filter_map(row).collect();
    if rows.is_empty() {
        return Err(no_matrix_error(format!("published:{}", published.name())));
    }
    Ok(rows)
}

/// The error for a run or published figures without block sizes and threads.
fn no_matrix_error(source: String) -> Error {
    Error::Usage(format!(
        "{source} has no matrix of block sizes and threads; runs of the study engel have one, and runs of plans with the \
         workload fileio, sysbench or fio, unless they have a grid over another setting"
    ))
}

/// A size in words: `512 B`, `4 KiB`, `1.5 KiB`.
pub fn format_size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, symbol)) => format!("{} {symbol}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

/// A number of threads in words: `1 thread`, `16 threads`.
pub fn format_threads(count: u32) -> String {
    plural(count as usize, "thread")
}

/// Operations per second in words, with groups of three digits: `31,000`. Values under 100 have three significant digits.
pub fn format_iops(value: f64) -> String {
    if value < 100.0 {
        return three_digits(value);
    }
    group_digits(&format!("{value:.0}"))
}

/// A bandwidth in bytes per second as MB/s: `118 MB/s`.
pub fn format_bandwidth(value: f64) -> String {
    format!("{} MB/s", three_digits(value / 1e6))
}

/// The percentage by which a share is less than the whole: `40%` for 0.6.
pub fn percent_less(share: f64) -> String {
    percent(1.0 - share)
}

/// A ratio above 1 in words: `20% more`, `23 times as much`.
pub fn how_much_more(ratio: f64) -> String {
    if ratio < 2.0 {
        format!("{} more", percent(ratio - 1.0))
    } else {
        format!("{} times as much", three_digits(ratio))
    }
}

/// A range in words: `a to b`, or only `a` if both are equal.
pub fn value_range(low: String, high: String) -> String {
    if low == high { low } else { format!("{low} to {high}") }
}

/// The interval of a ratio as a change: ` (−42% to −38% over 8 rounds)`. Empty for a single round, which has no interval.
pub fn change_interval(ratio: &Ratio) -> String {
    if ratio.rounds == 1 {
        return String::new();
    }
    let change = |ratio: f64| signed_percent(ratio - 1.0, &[0.0]);
    format!(" ({} over {} rounds)", value_range(change(ratio.low), change(ratio.high)), ratio.rounds)
}

/// The extent of cells, given as (bytes, threads), in words: `512 B to 4 KiB with 1 to 128 threads`. If the cells do not fill
/// that rectangle, their number follows.
pub fn cell_extent(cells: &BTreeSet<(u64, u32)>) -> String {
    let sizes: BTreeSet<u64> = cells.iter().map(|(bytes, _)| *bytes).collect();
    let thread_counts: BTreeSet<u32> = cells.iter().map(|(_, threads)| *threads).collect();
    let (Some(min_size), Some(max_size)) = (sizes.first(), sizes.last()) else { return String::new() };
    let (Some(min_threads), Some(max_threads)) = (thread_counts.first(), thread_counts.last()) else {
        return String::new();
    };
    let threads = if min_threads == max_threads {
        format_threads(*max_threads)
    } else {
        format!("{min_threads} to {}", format_threads(*max_threads))
    };
    let rectangle = sizes.len() * thread_counts.len();
    let count_note =
        if rectangle == cells.len() { String::new() } else { format!(" ({} of {rectangle} cells)", cells.len()) };
    format!("{} with {threads}{count_note}", value_range(format_size(*min_size), format_size(*max_size)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::cell::{TaskInfo, Variant};
    use fsarena_core::record::CellRecord;

    /// A run of the workload `fileio` with two values of a task in one round.
    fn record_with_two_values() -> RunRecord {
        let params = [("bs", "4096"), ("threads", "1")].map(|(id, value)| (id.to_string(), value.to_string()));
        let id = TaskId { name: "rndrd".into(), params: params.into() };
        let rate = MetricSpec::new(reading::READ_RATE.into(), Unit::PerSecond, Direction::Higher, String::new());
        let mut record = RunRecord {
            variants: vec![Variant { name: "ext4".into(), levels: BTreeMap::new() }],
            tasks: vec![TaskInfo { id, title: "Random reads".into(), number: None, in_totals: true }],
            readings: vec![rate],
            ..RunRecord::default()
        };
        for position in 0..2 {
            record.cells.push(CellRecord { position, workload: "fileio".into(), ..CellRecord::done(0, 0) });
        }
        (record.samples.cell, record.samples.task) = (vec![0, 1], vec![0, 0]);
        record.samples.values = vec![vec![100.0, 300.0]];
        record
    }

    #[test]
    fn the_mean_of_several_values_of_a_round_counts() {
        let rows = matrix_rows_of_run(&record_with_two_values(), false);
        assert_eq!((rows.len(), &rows[0].iops[..]), (1, &[Some(200.0)][..]));
    }

    #[test]
    fn a_rerun_of_one_of_several_workloads_has_the_names_of_the_original() {
        let rerun = record_with_two_values();
        let mut original = rerun.clone();
        original.cells.push(CellRecord { workload: "fio".into(), ..CellRecord::done(0, 0) });
        let names =
            |matrix: Matrix| -> Vec<String> { matrix.variants.into_iter().map(|variant| variant.name).collect() };
        assert_eq!(names(matrix_of_rerun(&rerun, &original).unwrap()), names(matrix_of_run(&original).unwrap()));
        assert_eq!(names(matrix_of_run(&rerun).unwrap()), ["ext4"]);
    }

    #[test]
    fn only_tasks_without_another_parameter_have_coordinates() {
        let task = |params: &[(&str, &str)]| TaskId {
            name: "rndrd".into(),
            params: params.iter().map(|(id, value)| (id.to_string(), value.to_string())).collect(),
        };
        assert_eq!(block_size_and_threads(&task(&[("bs", "4096"), ("threads", "2")])), Some((4096, 2)));
        assert_eq!(block_size_and_threads(&task(&[("bs", "4096"), ("files", "8"), ("threads", "2")])), None);
        assert_eq!(block_size_and_threads(&task(&[("bs", "4096"), ("files", "8")])), None);
    }

    #[test]
    fn only_a_figure_that_can_be_best_stands_out() {
        let figure = |variant, value, can_be_best| MatrixFigure {
            mode: "rndrd".into(),
            coordinates: (4096, 1),
            variant,
            value,
            mark: String::new(),
            is_bare_device: false,
            can_be_best,
            task: None,
        };
        let highlighted = |figures: [MatrixFigure; 3]| {
            let figures: Vec<&MatrixFigure> = figures.iter().collect();
            let rate = MetricSpec::new("iops".into(), Unit::PerSecond, Direction::Higher, String::new());
            [0, 1, 2].map(|variant| figure_cell(&figures, (4096, 1), variant, &rate).is_highlighted)
        };
        let with_device = [figure(0, 300.0, false), figure(1, 200.0, true), figure(2, 100.0, true)];
        assert_eq!(highlighted(with_device), [false, true, false]);
        let unranked = [figure(0, 300.0, false), figure(1, 200.0, false), figure(2, 100.0, false)];
        assert_eq!(highlighted(unranked), [false; 3]);
    }

    #[test]
    fn digits_of_iops_are_grouped_by_three() {
        assert_eq!(
            [99.94, 100.0, 999.6, 31_000.0, 1_227_643.0].map(format_iops),
            ["99.9", "100", "1,000", "31,000", "1,227,643"]
        );
    }

    #[test]
    fn sizes_and_ratios_in_words() {
        assert_eq!([512, 1536, 4096, 1 << 20].map(format_size), ["512 B", "1.5 KiB", "4 KiB", "1 MiB"]);
        assert_eq!([percent_less(0.6), percent_less(0.008)], ["40%", "99.2%"]);
        assert_eq!([how_much_more(1.07), how_much_more(23.45)], ["7% more", "23.4 times as much"]);
    }

    #[test]
    fn the_extent_of_cells_in_words() {
        let extent = |cells: &[(u64, u32)]| cell_extent(&cells.iter().copied().collect());
        assert_eq!(extent(&[(512, 1)]), "512 B with 1 thread");
        assert_eq!(extent(&[(512, 1), (512, 2), (1024, 1), (1024, 2)]), "512 B to 1 KiB with 1 to 2 threads");
        assert_eq!(extent(&[(512, 1), (512, 2), (1024, 1)]), "512 B to 1 KiB with 1 to 2 threads (3 of 4 cells)");
    }

    #[test]
    fn a_single_round_has_no_interval() {
        let ratio = Ratio { value: 0.6, low: 0.58, high: 0.62, rounds: 8, provisional: false };
        assert_eq!(change_interval(&ratio), " (−42% to −38% over 8 rounds)");
        assert_eq!(change_interval(&Ratio { rounds: 1, ..ratio }), "");
    }
}
