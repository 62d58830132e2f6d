//! The sections with the data: a table of each metric by task, the readings summed over the tasks of a round, and the command
//! that prints all samples.

use crate::document::{Cell, Detail, Document, FigureSource, Part, Table, labelled_row};
use crate::figures::{
    fewest_mean_cost_rounds, mean_cost_row, median_cells, medians_legend, unseen_stalls_clause, value_or_dash,
};
use crate::matrix::{self, NOT_DIFFERENT};
use crate::{advice, number, number::plural, phrases::task_label, report::Report};
use fsarena_core::observations::{MetricSeries, ReadingTotal, reading_totals};
use fsarena_core::sample::{Fold, Unit};
use fsarena_core::{metric::reading, record::RunRecord};
use fsarena_stats::analyse::{Analysis, TaskAnalysis, analyse};
use fsarena_stats::comparison::{Comparison, VariantResult};
use fsarena_stats::{critical_values::FIRST_LOOK_ROUNDS, mean_ratio::ROUNDS_FOR_MEAN_RATIO, simulate::in_parallel};

/// Adds a table of ratios and one of medians for each metric. A brief report leaves them out, unless the run has no
/// samples: then every report has this section, which states that nothing was measured.
pub fn add_tasks(document: &mut Document, report: &Report, detail: Detail) {
    if detail < Detail::Full && !report.record.samples.is_empty() {
        return;
    }
    let first_with_ratios = report.analyses.iter().position(has_ratio_table);
    for (index, analysis) in report.analyses.iter().enumerate() {
        add_ratios(document, report, analysis, first_with_ratios == Some(index));
        add_medians(document, report, analysis);
    }
}

/// Whether an analysis has a table of ratios: it has tasks, and these are no matrix.
fn has_ratio_table(analysis: &Analysis) -> bool {
    !analysis.tasks.is_empty() && !matrix::is_matrix(analysis)
}

/// Adds the table of ratios of one analysis. The first table of ratios of a report (`is_first`) also has the usable
/// space after mkfs, and the legend of all of them.
fn add_ratios(document: &mut Document, report: &Report, analysis: &Analysis, is_first: bool) {
    let (record, unit) = (&report.record, analysis.metric.unit);
    document.heading(3, format!("{}: {}", analysis.metric.id, analysis.metric.help));
    if analysis.tasks.is_empty() {
        return document.text(if record.samples.is_empty() {
            "Nothing was measured: the run ended before its first task.".into()
        } else {
            format!("No task has a value of {}.", analysis.metric.id)
        });
    }
    if matrix::is_matrix(analysis) {
        return matrix::add_median_tables(document, &report.record, analysis);
    }
    let task_row = |task: &TaskAnalysis| {
        ratio_row(task_label(&task.task), &task.comparison, unit, record.task_index(&task.task.id))
    };
    let mut rows: Vec<Vec<Cell>> = analysis.tasks_in_totals().map(task_row).collect();
    if let Some(overall) = &analysis.overall {
        let total = overall.total.as_ref().map(|total| (overall.name.to_uppercase(), total));
        for (name, combined) in total.into_iter().chain([("GEOMETRIC MEAN".into(), &overall.geometric)]) {
            let title = format!("{name} of {}", overall.scope());
            rows.push(ratio_row(title, &combined.comparison, unit, None));
        }
        if overall.total_or_geometric().comparison.has_ratio() {
            let title = format!("MEAN {} over rounds", overall.name);
            rows.push(mean_cost_row(title, overall.total_or_geometric(), unit));
        }
    }
    rows.extend(analysis.tasks.iter().filter(|task| !task.task.in_totals).map(task_row));
    if is_first {
        rows.extend(space_row(record, "usable_space", "Usable space, of the device"));
        rows.extend(space_row(record, reading::FILES_SPACE, "Bytes that the files take"));
    }
    document.table(Table::of_figures(variant_header(record, "task")).with_rows(rows));
    if is_first {
        document.text(ratio_legend(report.analyses.iter().filter(|analysis| has_ratio_table(analysis))));
    }
    document.list(left_out_sentences(record, analysis));
}

/// Adds the table of the medians of one analysis, in the unit of its metric.
fn add_medians(document: &mut Document, report: &Report, analysis: &Analysis) {
    if matrix::is_matrix(analysis) {
        return; // The tables of a matrix already have the medians.
    }
    let (record, unit) = (&report.record, analysis.metric.unit);
    let tasks: Vec<_> =
        analysis.tasks.iter().filter_map(|task| Some((&task.task, record.task_index(&task.task.id)?))).collect();
    let mut rows = in_parallel(tasks.len(), |row| {
        let (task, index) = tasks[row as usize];
        labelled_row(task_label(task), median_cells(&analysis.grid.values[index], unit, Some(index)))
    });
    if let Some(overall) = &analysis.overall
        && let Some(total) = &overall.total
    {
        rows.push(labelled_row(overall.name.to_uppercase(), median_cells(&total.values, unit, None)));
    }
    if !rows.is_empty() {
        document.heading(4, format!("{}: medians over rounds", analysis.metric.id));
        document.table(Table::of_figures(variant_header(record, "task")).with_rows(rows));
        document.text(medians_legend(&report.analyses));
    }
}

/// The header of a table: `label_header` for the column of labels, then a column for each variant.
pub fn variant_header(record: &RunRecord, label_header: &str) -> Vec<String> {
    std::iter::once(label_header).chain(record.variant_names()).map(String::from).collect()
}

/// A row with the ratio of each variant to the best one, for a task or for all tasks. The [`FigureSource`] of a figure names
/// its variant and, for a ratio, the best variant.
pub fn ratio_row(title: String, comparison: &Comparison, unit: Unit, task: Option<usize>) -> Vec<Cell> {
    let figure = |variant: usize| {
        let best = comparison.best().filter(|_| comparison.variants[variant].ratio.is_some());
        variant_ratio_cell(comparison, variant, unit)
            .with_source(FigureSource::new(task, std::iter::once(variant).chain(best)))
    };
    labelled_row(title, (0..comparison.variants.len()).map(figure))
}

/// The cell of a variant: its ratio to the best one, and below it the interval; marked if the difference is not significant.
/// For the best variant: `1.00`, and below it the median.
fn variant_ratio_cell(comparison: &Comparison, variant: usize, unit: Unit) -> Cell {
    let result = &comparison.variants[variant];
    // `order` has only variants with values. A single one has no ratio, so it shows only its median.
    if comparison.best() == Some(variant) && comparison.order.len() > 1 {
        // If variants have exactly the same values, highlight none.
        let is_alone = comparison.sole_best() == Some(variant);
        let mark = if comparison.is_provisional() { "?" } else { "" };
        return Cell::two_lines("1.00", value_or_dash(result.median, unit)).with_mark(mark).highlighted_if(is_alone);
    }
    let Some(ratio) = result.ratio else { return value_or_dash(result.median, unit).into() };
    let mark = if comparison.is_provisional() || ratio.provisional {
        "?"
    } else if comparison.without_significant_difference().contains(&variant) {
        NOT_DIFFERENT
    } else {
        ""
    };
    // A single round has no interval.
    let interval = if ratio.rounds > 1 { number::ratio_interval(ratio.low, ratio.high) } else { String::new() };
    Cell::two_lines(number::three_digits_beside(ratio.value, &[1.0]), interval).with_mark(mark)
}

/// The row with the median of each variant by a metric of the space on the filesystem. Only one task measures such a
/// metric (one that makes, mounts or unmounts the filesystem), so the row shows the first task that has it. `None` if
/// the run did not measure it.
fn space_row(record: &RunRecord, metric: &str, title: &str) -> Option<Vec<Cell>> {
    let analysis = analyse(MetricSeries::of(record, metric).ok()?);
    let task = analysis.tasks.first()?;
    let task_index = record.task_index(&task.task.id);
    let figure = |(variant, result): (usize, &VariantResult)| {
        let cell = Cell::from(value_or_dash(result.median, analysis.metric.unit));
        cell.with_source(FigureSource::new(task_index, [variant]))
            .highlighted_if(task.comparison.sole_best() == Some(variant))
    };
    let figures = task.comparison.variants.iter().enumerate().map(figure);
    Some(labelled_row(title, figures))
}

/// Explains the figures and marks of the tables of ratios of these analyses.
fn ratio_legend<'a>(analyses: impl Iterator<Item = &'a Analysis>) -> String {
    let has_ratios = |analysis: &&Analysis| analysis.tasks.iter().any(|task| task.comparison.order.len() > 1);
    let analyses: Vec<&Analysis> = analyses.filter(has_ratios).collect();
    if analyses.is_empty() {
        return "Each figure is the median over rounds.".into();
    }
    let meaning = "Each figure is the ratio to the best variant of its row in a typical round (Hodges–Lehmann, within \
                 rounds); the best shows its median.";
    let mean_legend = mean_row_legend(&analyses);
    let provisional_count = analyses.iter().filter(|analysis| analysis.is_provisional()).count();
    if provisional_count == analyses.len() {
        return format!(
            "{meaning} Below it is the range of the rounds. ? marks provisional figures: fewer than {FIRST_LOOK_ROUNDS} rounds \
             give no exact interval.{mean_legend}"
        );
    }
    // Some metrics have values in a few rounds only.
    let range_note = if provisional_count > 0 { ", or for figures marked ? the range of the rounds" } else { "" };
    format!(
        "{meaning} Below it is the 95% confidence interval{range_note}. ≈ marks variants with no significant difference from the \
         best, which does not make them equal; ? marks variants with fewer than {FIRST_LOOK_ROUNDS} rounds. Intervals hold for each \
         pair and task, and are not corrected for their number.{mean_legend}"
    )
}

/// Explains the rows of means, with a space before it; empty if no table has such a row.
fn mean_row_legend(analyses: &[&Analysis]) -> String {
    let overall = analyses.iter().filter_map(|analysis| analysis.overall.as_ref());
    let rounds = overall.filter_map(|overall| fewest_mean_cost_rounds(&overall.total_or_geometric().comparison));
    let Some(fewest_rounds) = rounds.min() else { return String::new() };
    format!(
        " The row MEAN is the ratio of mean cost: the sum over all rounds, divided by the sum of the best variant. It counts \
         every slow round, and has an interval from {ROUNDS_FOR_MEAN_RATIO} rounds on; {}.",
        unseen_stalls_clause(fewest_rounds)
    )
}

/// Sentences about values that the table leaves out.
fn left_out_sentences(record: &RunRecord, analysis: &Analysis) -> Vec<String> {
    let mut sentences = vec![];
    if let Some(overall) = &analysis.overall {
        let combined = if overall.total.is_some() { "total" } else { "geometric mean" };
        for (variant, &rounds) in overall.total_or_geometric().left_out_rounds.iter().enumerate() {
            if rounds > 0 {
                let (rounds, name) = (plural(rounds, "round"), record.variant_name(variant));
                sentences.push(format!("{rounds} of {name} left out of the {combined}: not every task has a value"));
            }
        }
    }
    let variants = analysis.tasks.iter().flat_map(|task| &task.comparison.variants);
    // A pair is a variant and the best one in one round of a task. Their ratio is undefined if a value is zero.
    let excluded_pairs: usize = variants.map(|variant| variant.excluded_rounds).sum();
    if excluded_pairs > 0 {
        sentences.push(format!("{} left out of ratios: a value is zero", plural(excluded_pairs, "pair")));
    }
    sentences
}

/// The metrics of the table of totals, in this order. fsarena computes them from the summed readings, so that a quotient is a
/// quotient of sums.
const TOTAL_METRICS: [&str; 17] = [
    "elapsed",
    "synced",
    "user",
    "system",
    "cpu_utilization",
    "background_cpu",
    "iowait_ns",
    reading::WRITTEN_BYTES,
    reading::DEVICE_WRITTEN_BYTES,
    "write_amplification",
    reading::SPACE_GROWTH,
    "overhead_ratio",
    reading::DEVICE_READ_BYTES,
    reading::DEVICE_FLUSHES,
    "pressure_io_full_ns",
    "pressure_cpu_some_ns",
    reading::PEAK_MEMORY,
];

/// Adds a table of the median over rounds of the sum over all tasks that count in totals.
pub fn add_totals(document: &mut Document, report: &Report, _: Detail) {
    let record = &report.record;
    let totals = reading_totals(record, &TOTAL_METRICS);
    let maxima: Vec<&str> = totals.iter().filter(|total| total.fold == Fold::Max).map(|total| total.id).collect();
    let maxima_note = match &maxima[..] {
        [] => String::new(),
        ids => format!(" For {}: the largest value of any task.", ids.join(", ")),
    };
    let row = |ReadingTotal { id, unit, values, .. }: ReadingTotal| labelled_row(id, median_cells(&values, unit, None));
    let rows: Vec<Vec<Cell>> = totals.into_iter().map(row).collect();
    if !rows.is_empty() {
        document.heading(3, "Cost of all tasks");
        document.text(format!("Medians over rounds of the sum over all tasks that count in totals.{maxima_note}"));
        document.table(Table::of_figures(variant_header(record, "over all tasks")).with_rows(rows));
        document.text(medians_legend(&report.analyses));
    }
}

/// Adds the number of samples, and the command that prints them.
pub fn add_samples(document: &mut Document, report: &Report, _: Detail) {
    let count = plural(report.record.samples.len(), "sample");
    document.heading(3, "Samples");
    let text = format!("{count}; {} prints them all.", advice::samples_command(&report.record.id));
    document.parts.push(Part::Samples(text));
}
