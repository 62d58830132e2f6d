//! The tables of tasks: each arm's ratio to the best, its interval and letters.

use super::{label, matrix, typical};
use crate::document::source::Source;
use crate::document::{Cell, Document, Table};
use crate::number::{self, plural, three, with_unit};
use crate::report::Report;
use fsarena_core::cell::StepInfo;
use fsarena_core::record::RunRecord;
use fsarena_core::sample::Unit;
use fsarena_stats::analyse::{Analysis, StepAnalysis, analyse};
use fsarena_stats::comparison::Comparison;
use fsarena_stats::composite::{Composite, sums};
use fsarena_stats::simulate::parallel;

/// The table of one analysis. The `first` of a report also has the usable space after mkfs, and the legend.
pub fn add(document: &mut Document, report: &Report, analysis: &Analysis, first: bool) {
    let record = &report.record;
    document.heading(2, format!("{}: {}", analysis.metric.id, analysis.metric.help));
    if analysis.steps.is_empty() {
        document.text(format!("No step has a value of {}.", analysis.metric.id));
        return;
    }
    if matrix::fits(analysis) {
        return matrix::add(document, report, analysis);
    }
    let mut table = Table::figures(header(record, "task"));
    for step in analysis.tasks() {
        table.rows.push(task(record, step, analysis.metric.unit));
    }
    if let Some(overall) = &analysis.overall {
        if let Some(total) = &overall.total {
            let title = format!("TOTAL of {}", plural(overall.steps, "task"));
            table.rows.push(row(title, &total.comparison, analysis.metric.unit, None));
        }
        let title = format!("GEOMETRIC MEAN of {}", plural(overall.steps, "task"));
        table.rows.push(row(title, &overall.geometric.comparison, analysis.metric.unit, None));
    }
    for step in analysis.steps.iter().filter(|step| !step.step.in_composite) {
        table.rows.push(task(record, step, analysis.metric.unit));
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
pub fn add_medians(document: &mut Document, report: &Report, analysis: &Analysis) {
    if matrix::fits(analysis) || !report.ranks() {
        return; // The tables above are of medians.
    }
    let (record, unit) = (&report.record, analysis.metric.unit);
    let titled = |title: String, values: &[Vec<f64>], step: Option<usize>| -> Vec<Cell> {
        let figure =
            |(arm, blocks): (usize, &Vec<f64>)| typical::cell(blocks, unit).made_of(Source::of(step, [arm]));
        std::iter::once(title.into()).chain(values.iter().enumerate().map(figure)).collect()
    };
    let steps: Vec<(&StepInfo, usize)> =
        analysis.steps.iter().filter_map(|step| Some((&step.step, record.step(&step.step.id)?))).collect();
    let mut table = Table::figures(header(record, "task"));
    table.rows = parallel(steps.len(), |row| {
        let (step, at) = steps[row as usize];
        titled(label(step), &analysis.grid.values[at], Some(at))
    });
    if analysis.overall.as_ref().is_some_and(|overall| overall.total.is_some()) {
        let tasks: Vec<_> = analysis.grid.tasks(record).map(|(_, values)| values).collect();
        table.rows.push(titled("TOTAL".into(), &sums(&tasks), None));
    }
    if !table.rows.is_empty() {
        document.heading(3, format!("{}: medians over blocks", analysis.metric.id));
        document.table(table);
        document.text(typical::words(report));
    }
}

/// A header with a column for each arm.
pub fn header(record: &RunRecord, first: &str) -> Vec<String> {
    std::iter::once(first.to_string()).chain(record.arms.iter().map(|arm| arm.name.clone())).collect()
}

fn task(record: &RunRecord, step: &StepAnalysis, unit: Unit) -> Vec<Cell> {
    let number = record.step(&step.step.id);
    row(label(&step.step), &step.comparison, unit, number)
}

/// A row of one step, or of all: each figure is made of its arm's samples and, as a ratio, of those of the best.
fn row(title: String, comparison: &Comparison, unit: Unit, step: Option<usize>) -> Vec<Cell> {
    let figure = |arm: usize| {
        let best = comparison.best().filter(|_| comparison.arms[arm].ratio.is_some());
        cell(comparison, arm, unit).made_of(Source::of(step, std::iter::once(arm).chain(best)))
    };
    std::iter::once(title.into()).chain((0..comparison.arms.len()).map(figure)).collect()
}

/// `1.12 b` over `1.10–1.14`; for the best `1.00 a` over its median.
fn cell(comparison: &Comparison, arm: usize, unit: Unit) -> Cell {
    let result = &comparison.arms[arm];
    let letters = if comparison.provisional() { "?" } else { &result.letters };
    if comparison.best() == Some(arm) && comparison.order.len() > 1 {
        let shown = Cell::two(format!("1.00 {letters}"), absolute(result.median, unit));
        return shown.letters(letters).strong();
    }
    match result.ratio {
        Some(ratio) => {
            let letters = if ratio.provisional { "?" } else { letters };
            let interval = number::interval(ratio.low, ratio.high);
            // One block has no extremes.
            let interval = if ratio.blocks > 1 { interval } else { String::new() };
            Cell::two(format!("{} {letters}", three(ratio.value)), interval).letters(letters)
        }
        None => absolute(result.median, unit).into(),
    }
}

/// A value that may not be there.
pub fn absolute(value: Option<f64>, unit: Unit) -> String {
    value.map_or("–".to_string(), |value| with_unit(value, unit))
}

/// The usable space after mkfs: the median of each arm.
fn usable_space(record: &RunRecord) -> Option<Vec<Cell>> {
    let analysis = analyse(record, "usable_space").ok()?;
    let step = analysis.steps.first()?;
    let number = record.step(&step.step.id);
    let mut row: Vec<Cell> = vec!["Usable space, of the device".into()];
    for (arm, result) in step.comparison.arms.iter().enumerate() {
        let shown: Cell = absolute(result.median, analysis.metric.unit).into();
        let cell = shown.made_of(Source::of(number, [arm]));
        row.push(if step.comparison.best() == Some(arm) { cell.strong() } else { cell });
    }
    Some(row)
}

fn legend(analysis: &Analysis) -> String {
    if analysis.steps.iter().all(|step| step.comparison.order.len() < 2) {
        return "Each figure is the median over blocks.".into();
    }
    let first = "Each figure is the ratio to the best arm of its row, within blocks (Hodges–Lehmann); \
                 the best shows its median.";
    if analysis.provisional() {
        return format!(
            "{first} Below it the extremes that were seen. ? marks what is provisional: under 8 blocks there is \
             no exact interval."
        );
    }
    format!(
        "{first} Below it the 95% interval; ? marks arms with under 8 blocks. Arms that share a letter were not \
         told apart, which does not make them equal. Intervals hold for each pair and task, and are not \
         corrected for how many there are."
    )
}

/// What is missing from the figures.
fn left_out(record: &RunRecord, analysis: &Analysis) -> Vec<String> {
    let mut items = Vec::new();
    let composite: Option<&Composite> = analysis.overall.as_ref().map(|overall| overall.main());
    for (arm, blocks) in composite.iter().flat_map(|c| c.left_out.iter().enumerate()).filter(|(_, n)| **n > 0)
    {
        let (blocks, name) = (plural(*blocks, "block"), &record.arms[arm].name);
        items.push(format!("{blocks} of {name} left out of the composite: not every task has a value"));
    }
    let zeros: usize =
        analysis.steps.iter().flat_map(|step| &step.comparison.arms).map(|arm| arm.excluded).sum();
    if zeros > 0 {
        items.push(format!("{} left out of ratios: a value of zero has none", plural(zeros, "pair")));
    }
    items
}
