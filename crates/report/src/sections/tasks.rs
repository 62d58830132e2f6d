//! The tables of tasks: each variant's ratio to the best, and its interval.

use super::{Detail, Section, label};
use crate::document::source::Source;
use crate::document::{Cell, Chapter, Document, Table};
use crate::number::{self, plural, with_unit};
use crate::report::Report;
use crate::{matrix, typical};
use fsarena_core::cell::TaskInfo;
use fsarena_core::metric;
use fsarena_core::record::RunRecord;
use fsarena_core::sample::Unit;
use fsarena_stats::analyse::{Analysis, TaskAnalysis, analyse};
use fsarena_stats::comparison::Comparison;
use fsarena_stats::composite::{Composite, sums};
use fsarena_stats::simulate::parallel;

/// What marks a variant that does not differ significantly from the best.
pub const ALIKE: &str = "≈";

/// The tables of tasks.
pub const SECTION: Section = Section { chapter: Some(Chapter::Data), parts };

/// A table for each metric, and the medians behind it; nothing in brief.
fn parts(report: &Report, detail: Detail) -> Document {
    let mut document = Document::default();
    if detail < Detail::Full && !report.record.samples.is_empty() {
        return document;
    }
    for (at, analysis) in report.analyses.iter().enumerate() {
        add(&mut document, report, analysis, at == 0);
        add_medians(&mut document, report, analysis);
    }
    document
}

/// The table of one analysis. The `first` of a report also has the usable space after mkfs, and the legend.
fn add(document: &mut Document, report: &Report, analysis: &Analysis, first: bool) {
    let record = &report.record;
    document.heading(3, format!("{}: {}", metric::label(&analysis.metric.id), analysis.metric.help));
    if analysis.tasks.is_empty() {
        document.text(match record.samples.is_empty() {
            true => "Nothing was measured: the run ended before its first task.".into(),
            false => format!("No task has a value of {}.", metric::label(&analysis.metric.id)),
        });
        return;
    }
    if matrix::fits(analysis) {
        return matrix::add(document, report, analysis);
    }
    let mut table = Table::figures(header(record, "task"));
    for task in analysis.tasks() {
        table.rows.push(task_row(record, task, analysis.metric.unit));
    }
    if let Some(overall) = &analysis.overall {
        if let Some(total) = &overall.total {
            let title = format!("TOTAL of {}", plural(overall.tasks, "task"));
            table.rows.push(row(title, &total.comparison, analysis.metric.unit, None));
        }
        let title = format!("GEOMETRIC MEAN of {}", plural(overall.tasks, "task"));
        table.rows.push(row(title, &overall.geometric.comparison, analysis.metric.unit, None));
    }
    for task in analysis.tasks.iter().filter(|task| !task.task.in_composite) {
        table.rows.push(task_row(record, task, analysis.metric.unit));
    }
    if first {
        table.rows.extend(usable_space(record));
    }
    document.table(table);
    if first {
        document.text(legend(analysis));
    }
    document.list(left_out(record, analysis));
}

/// The medians behind the ratios, in their unit.
fn add_medians(document: &mut Document, report: &Report, analysis: &Analysis) {
    if matrix::fits(analysis) || !report.ranks() {
        return; // The tables above are of medians.
    }
    let (record, unit) = (&report.record, analysis.metric.unit);
    let titled = |title: String, values: &[Vec<f64>], task: Option<usize>| -> Vec<Cell> {
        let figure = |(variant, rounds): (usize, &Vec<f64>)| {
            typical::cell(rounds, unit).made_of(Source::of(task, [variant]))
        };
        std::iter::once(title.into()).chain(values.iter().enumerate().map(figure)).collect()
    };
    let tasks: Vec<(&TaskInfo, usize)> =
        analysis.tasks.iter().filter_map(|task| Some((&task.task, record.task(&task.task.id)?))).collect();
    let mut table = Table::figures(header(record, "task"));
    table.rows = parallel(tasks.len(), |row| {
        let (task, at) = tasks[row as usize];
        titled(label(task), &analysis.grid.values[at], Some(at))
    });
    if analysis.overall.as_ref().is_some_and(|overall| overall.total.is_some()) {
        let tasks: Vec<_> = analysis.grid.tasks(record).map(|(_, values)| values).collect();
        table.rows.push(titled("TOTAL".into(), &sums(&tasks), None));
    }
    if !table.rows.is_empty() {
        document.heading(4, format!("{}: medians over rounds", metric::label(&analysis.metric.id)));
        document.table(table);
        document.text(typical::words(report));
    }
}

/// A header with a column for each variant.
pub fn header(record: &RunRecord, first: &str) -> Vec<String> {
    std::iter::once(first.to_string())
        .chain(record.variants.iter().map(|variant| variant.name.clone()))
        .collect()
}

fn task_row(record: &RunRecord, task: &TaskAnalysis, unit: Unit) -> Vec<Cell> {
    let number = record.task(&task.task.id);
    row(label(&task.task), &task.comparison, unit, number)
}

/// A row of one task, or of all: each figure is made of its variant's samples and, as a ratio, of those of the best.
pub fn row(title: String, comparison: &Comparison, unit: Unit, task: Option<usize>) -> Vec<Cell> {
    let figure = |variant: usize| {
        let best = comparison.best().filter(|_| comparison.variants[variant].ratio.is_some());
        cell(comparison, variant, unit).made_of(Source::of(task, std::iter::once(variant).chain(best)))
    };
    std::iter::once(title.into()).chain((0..comparison.variants.len()).map(figure)).collect()
}

/// `1.12` over `1.10–1.14`, with a mark where it does not differ significantly from the best; for the best `1.00` over its
/// median.
fn cell(comparison: &Comparison, variant: usize, unit: Unit) -> Cell {
    let result = &comparison.variants[variant];
    if comparison.best() == Some(variant) && comparison.order.len() > 1 {
        let mark = if comparison.provisional() { "?" } else { "" };
        return Cell::two("1.00", absolute(result.median, unit)).mark(mark).strong();
    }
    match result.ratio {
        Some(ratio) => {
            let mark = match comparison.provisional() || ratio.provisional {
                true => "?",
                false if comparison.tied().contains(&variant) => ALIKE,
                false => "",
            };
            let interval = number::interval(ratio.low, ratio.high);
            // One round has no extremes.
            let interval = if ratio.rounds > 1 { interval } else { String::new() };
            Cell::two(number::beside(ratio.value, &[1.0]), interval).mark(mark)
        }
        None => absolute(result.median, unit).into(),
    }
}

/// A value that may not be there.
pub fn absolute(value: Option<f64>, unit: Unit) -> String {
    value.map_or("–".to_string(), |value| with_unit(value, unit))
}

/// The usable space after mkfs: the median of each variant.
fn usable_space(record: &RunRecord) -> Option<Vec<Cell>> {
    let analysis = analyse(record, "usable_space").ok()?;
    let task = analysis.tasks.first()?;
    let number = record.task(&task.task.id);
    let mut row: Vec<Cell> = vec!["Usable space, of the device".into()];
    for (variant, result) in task.comparison.variants.iter().enumerate() {
        let shown: Cell = absolute(result.median, analysis.metric.unit).into();
        let cell = shown.made_of(Source::of(number, [variant]));
        row.push(if task.comparison.best() == Some(variant) { cell.strong() } else { cell });
    }
    Some(row)
}

fn legend(analysis: &Analysis) -> String {
    if analysis.tasks.iter().all(|task| task.comparison.order.len() < 2) {
        return "Each figure is the median over rounds.".into();
    }
    let first = "Each figure is the ratio to the best variant of its row, within rounds (Hodges–Lehmann); \
                 the best shows its median.";
    if analysis.provisional() {
        return format!(
            "{first} Below it is the range of the rounds. ? marks provisional figures: fewer than 8 rounds give no exact \
             interval."
        );
    }
    format!(
        "{first} Below it is the 95% confidence interval. ≈ marks variants with no significant difference from the best, \
         which does not make them equal; ? marks variants with fewer than 8 rounds. Intervals hold for each pair and \
         task, and are not corrected for their number."
    )
}

/// Notes on values that the figures leave out.
fn left_out(record: &RunRecord, analysis: &Analysis) -> Vec<String> {
    let mut items = Vec::new();
    let composite: Option<&Composite> = analysis.overall.as_ref().map(|overall| overall.main());
    for (variant, rounds) in
        composite.iter().flat_map(|c| c.left_out.iter().enumerate()).filter(|(_, n)| **n > 0)
    {
        let (rounds, name) = (plural(*rounds, "round"), &record.variants[variant].name);
        items.push(format!("{rounds} of {name} left out of the total: not every task has a value"));
    }
    let zeros: usize = analysis
        .tasks
        .iter()
        .flat_map(|task| &task.comparison.variants)
        .map(|variant| variant.excluded)
        .sum();
    if zeros > 0 {
        items.push(format!("{} left out of ratios: a value is zero", plural(zeros, "pair")));
    }
    items
}
