//! The section that compares every variant with the best one over all tasks, by total and by geometric mean, for each metric.

use super::tasks::ratio_row;
use crate::document::{Cell, Detail, Document, Table, labelled_row};
use crate::figures::{fewest_mean_cost_rounds, has_mean_cost_interval, mean_cost_caveat, mean_cost_row, median_cell};
use crate::report::Report;
use crate::{chart_context::ChartContext, charts::standing, number::plural, phrases::task_label};
use fsarena_core::sample::Direction;
use fsarena_stats::{analyse::Analysis, comparison::Comparison};

/// The largest number of variants in a brief report.
const MAX_BRIEF_VARIANTS: usize = 8;

/// The largest number of columns in a brief report.
const MAX_BRIEF_COLUMNS: usize = 4;

/// The largest number of tasks in a brief report about a single variant.
const MAX_BRIEF_TASKS: usize = 21;

/// Adds a table of the variants, with a dot plot above it in a report with charts. Adds the figures of the tasks instead if a
/// brief report has a single variant.
pub fn add_standing(document: &mut Document, report: &Report, detail: Detail) {
    if detail == Detail::Charts {
        document.charts(standing::standing_charts(&ChartContext::new(report)));
    }
    let mut columns = standing_columns(report);
    let Some(main_comparison) = columns.first().map(|column| column.comparison) else {
        if detail == Detail::Brief {
            add_single_variant(document, report);
        }
        return;
    };
    let order = main_comparison.sorted_by_ratio();
    let mut max_variants = usize::MAX;
    if detail < Detail::Full {
        max_variants = MAX_BRIEF_VARIANTS;
        columns.truncate(MAX_BRIEF_COLUMNS);
    }
    let header = std::iter::once("variant").chain(columns.iter().map(|column| column.title.as_str()));
    let rows = order.iter().take(max_variants).map(|variant| {
        let cells = columns.iter().map(|column| join_lines(&column.cells[variant + 1]));
        labelled_row(report.record.variant_name(*variant), cells)
    });
    document.table(Table::of_figures(header).with_rows(rows));
    if let Some(rounds) = fewest_mean_cost_rounds(main_comparison).filter(|_| has_mean_cost_interval(main_comparison)) {
        // If the run has two variants, the next section has the caveat.
        let has_pair = !report.pair_rows().is_empty();
        let caveat = if has_pair { String::new() } else { format!(" {}", mean_cost_caveat(rounds)) };
        document.text(format!("Ratios are those of a typical round, and mean is the ratio of mean cost.{caveat}"));
    }
    add_hidden_count(document, order.len().saturating_sub(max_variants), "more variant");
}

/// Adds the figures of a run with a single variant, with a row for each task and a column for each metric.
fn add_single_variant(document: &mut Document, report: &Report) {
    let analyses = report.analyses.iter().filter(|analysis| !analysis.tasks.is_empty());
    let analyses: Vec<&Analysis> = analyses.take(MAX_BRIEF_COLUMNS).collect();
    let [variant] = report.record.variants.as_slice() else { return };
    let Some(main_analysis) = analyses.first() else { return };
    let metrics = analyses.iter().map(|analysis| analysis.metric.id.as_str());
    let header = std::iter::once(variant.name.as_str()).chain(metrics);
    let rows = main_analysis.tasks.iter().take(MAX_BRIEF_TASKS).map(|task| {
        let index = report.record.task_index(&task.task.id);
        let cells = analyses.iter().map(|analysis| {
            let values = index.map(|index| &analysis.grid.values[index][0]);
            values.map_or(Cell::default(), |values| join_lines(&median_cell(values, analysis.metric.unit)))
        });
        labelled_row(task_label(&task.task), cells)
    });
    document.table(Table::of_figures(header).with_rows(rows));
    add_hidden_count(document, main_analysis.tasks.len().saturating_sub(MAX_BRIEF_TASKS), "more task");
}

/// Adds a line with the number of rows that the table leaves out, `3 more tasks not shown (--full).`; nothing for 0. `noun`
/// is the singular: `more task`.
fn add_hidden_count(document: &mut Document, hidden_count: usize, noun: &str) {
    if hidden_count > 0 {
        document.text(format!("{} not shown (--full).", plural(hidden_count, noun)));
    }
}

/// A column of the table: a comparison of the variants over all tasks by one metric.
struct StandingColumn<'a> {
    title: String,
    comparison: &'a Comparison,
    /// An unused label, then the cell of each variant.
    cells: Vec<Cell>,
}

/// The columns of the table, metric by metric: total, mean cost and geometric mean.
fn standing_columns(report: &Report) -> Vec<StandingColumn<'_>> {
    let mut columns = vec![];
    for analysis in report.analyses.iter().filter(|analysis| analysis.metric.direction != Direction::Neutral) {
        let Some(overall) = &analysis.overall else { continue };
        let unit = analysis.metric.unit;
        // The title needs no unit, because each figure has its unit.
        let name = analysis.metric.id.trim_end_matches("_ns");
        // The title states if the column covers only a part of the tasks.
        let part = if overall.task_count < overall.task_count_in_totals {
            format!(" ({})", overall.scope())
        } else {
            String::new()
        };
        let total_title = if overall.task_count == 1 { "" } else { "total " };
        let [total, mean] = overall.comparisons();
        let mut of_metric: Vec<StandingColumn> = vec![];
        for (measure, comparison) in [(total_title, total), ("geomean ", mean)] {
            if let Some(comparison) = comparison.filter(|comparison| comparison.has_ratio()) {
                let cells = ratio_row(String::new(), comparison, unit, None);
                of_metric.push(StandingColumn { title: format!("{measure}{name}{part}"), comparison, cells });
            }
        }
        let main = overall.total_or_geometric();
        if !of_metric.is_empty() && has_mean_cost_interval(&main.comparison) {
            let title = format!("mean {name}{part}");
            let cells = mean_cost_row(title.clone(), main, unit);
            of_metric.insert(1, StandingColumn { title, comparison: &main.comparison, cells });
        }
        columns.extend(of_metric);
    }
    columns
}

/// A cell with its interval or median in the same line, `1.12 [1.10–1.14]`, instead of a second line.
fn join_lines(cell: &Cell) -> Cell {
    let line = match cell.lines.as_slice() {
        [figure, median] if cell.is_highlighted => format!("{figure} ({median})"),
        [figure, interval] => format!("{figure} [{interval}]"),
        _ => return cell.clone(),
    };
    Cell { lines: vec![line], ..cell.clone() }
}
