//! The tables of tasks: each variant's ratio to the best, and its interval.

use crate::document::{Cell, Source, Table, labelled};
use crate::matrix::{self, ALIKE};
use crate::mean_cost;
use crate::number::{self, plural};
use crate::section::{Chapter, Detail, Document, Report, Section};
use crate::typical::{self, absolute};
use crate::words::label;
use fsarena_core::observations::MetricSeries;
use fsarena_core::{record::RunRecord, sample::Unit};
use fsarena_stats::analyse::{Analysis, TaskAnalysis, analyse};
use fsarena_stats::comparison::{Comparison, VariantResult};
use fsarena_stats::mean_ratio::FIRST_ROUND;
use fsarena_stats::simulate::parallel;

/// The tables of tasks.
pub const SECTION: Section = Section::new(Chapter::Data, add);

/// A table for each metric, and the medians behind it; nothing in brief, unless nothing was measured.
fn add(document: &mut Document, report: &Report, detail: Detail) {
    if detail < Detail::Full && !report.record.samples.is_empty() {
        return;
    }
    for (at, analysis) in report.analyses.iter().enumerate() {
        add_ratios(document, report, analysis, at == 0);
        add_medians(document, report, analysis);
    }
}

/// The table of one analysis. The `first` of a report also has the usable space after mkfs, and the legend.
fn add_ratios(document: &mut Document, report: &Report, analysis: &Analysis, first: bool) {
    let (record, unit) = (&report.record, analysis.metric.unit);
    document.heading(3, format!("{}: {}", analysis.metric.id, analysis.metric.help));
    if analysis.tasks.is_empty() {
        return document.text(match record.samples.is_empty() {
            true => "Nothing was measured: the run ended before its first task.".into(),
            false => format!("No task has a value of {}.", analysis.metric.id),
        });
    }
    if matrix::fits(analysis) {
        return matrix::add(document, &report.record, analysis);
    }
    let of_task =
        |task: &TaskAnalysis| row(label(&task.task), &task.comparison, unit, record.task(&task.task.id));
    let mut rows: Vec<Vec<Cell>> = analysis.tasks().map(of_task).collect();
    if let Some(overall) = &analysis.overall {
        let total = overall.total.as_ref().map(|total| (overall.name.to_uppercase(), total));
        for (name, all) in total.into_iter().chain([("GEOMETRIC MEAN".into(), &overall.geometric)]) {
            let title = format!("{name} of {}", overall.scope());
            rows.push(row(title, &all.comparison, unit, None));
        }
        if overall.main().comparison.compares() {
            let title = format!("MEAN {} over rounds", overall.name);
            rows.push(mean_cost::row(title, overall.main(), unit));
        }
    }
    rows.extend(analysis.tasks.iter().filter(|task| !task.task.in_totals).map(of_task));
    rows.extend(first.then(|| usable_space(record)).flatten());
    document.table(Table::figures(header(record, "task")).with(rows));
    if first {
        document.text(legend(analysis));
    }
    document.list(left_out(record, analysis));
}

/// The medians behind the ratios, in their unit.
fn add_medians(document: &mut Document, report: &Report, analysis: &Analysis) {
    if matrix::fits(analysis) {
        return; // The tables above are of medians.
    }
    let (record, unit) = (&report.record, analysis.metric.unit);
    let tasks: Vec<_> =
        analysis.tasks.iter().filter_map(|task| Some((&task.task, record.task(&task.task.id)?))).collect();
    let mut rows = parallel(tasks.len(), |row| {
        let (task, at) = tasks[row as usize];
        labelled(label(task), typical::cells(&analysis.grid.values[at], unit, Some(at)))
    });
    if let Some(overall) = &analysis.overall
        && let Some(total) = &overall.total
    {
        rows.push(labelled(overall.name.to_uppercase(), typical::cells(&total.values, unit, None)));
    }
    if !rows.is_empty() {
        document.heading(4, format!("{}: medians over rounds", analysis.metric.id));
        document.table(Table::figures(header(record, "task")).with(rows));
        document.text(typical::words(&report.analyses));
    }
}

/// A header with a column for each variant.
pub fn header(record: &RunRecord, first: &str) -> Vec<String> {
    std::iter::once(first).chain(record.names()).map(String::from).collect()
}

/// A row of one task, or of all: each figure is made of its variant's samples and, as a ratio, of those of the best.
pub fn row(title: String, comparison: &Comparison, unit: Unit, task: Option<usize>) -> Vec<Cell> {
    let figure = |variant: usize| {
        let best = comparison.best().filter(|_| comparison.variants[variant].ratio.is_some());
        cell(comparison, variant, unit).made_of(Source::of(task, std::iter::once(variant).chain(best)))
    };
    labelled(title, (0..comparison.variants.len()).map(figure))
}

/// `1.12` over `1.10–1.14`, with a mark where it does not differ significantly from the best; for the best `1.00` over its
/// median.
fn cell(comparison: &Comparison, variant: usize, unit: Unit) -> Cell {
    let result = &comparison.variants[variant];
    if comparison.best() == Some(variant) && comparison.order.len() > 1 {
        // Of variants with exactly the same values none stands out.
        let alone = comparison.leader() == Some(variant);
        let mark = if comparison.provisional() { "?" } else { "" };
        return Cell::two("1.00", absolute(result.median, unit)).mark(mark).strong_if(alone);
    }
    let Some(ratio) = result.ratio else { return absolute(result.median, unit).into() };
    let mark = match comparison.provisional() || ratio.provisional {
        true => "?",
        false if comparison.tied().contains(&variant) => ALIKE,
        false => "",
    };
    // One round has no extremes.
    let interval = (ratio.rounds > 1).then(|| number::interval(ratio.low, ratio.high));
    Cell::two(number::beside(ratio.value, &[1.0]), interval.unwrap_or_default()).mark(mark)
}

/// The usable space after mkfs: the median of each variant.
fn usable_space(record: &RunRecord) -> Option<Vec<Cell>> {
    let analysis = analyse(MetricSeries::of(record, "usable_space").ok()?);
    let task = analysis.tasks.first()?;
    let number = record.task(&task.task.id);
    let figure = |(variant, result): (usize, &VariantResult)| {
        let cell = Cell::from(absolute(result.median, analysis.metric.unit));
        cell.made_of(Source::of(number, [variant])).strong_if(task.comparison.best() == Some(variant))
    };
    let figures = task.comparison.variants.iter().enumerate().map(figure);
    Some(labelled("Usable space, of the device", figures))
}

fn legend(analysis: &Analysis) -> String {
    if analysis.tasks.iter().all(|task| task.comparison.order.len() < 2) {
        return "Each figure is the median over rounds.".into();
    }
    let first = "Each figure is the ratio to the best variant of its row in a typical round (Hodges–Lehmann, within \
                 rounds); the best shows its median.";
    let mean = mean_over_rounds(analysis);
    if analysis.provisional() {
        return format!(
            "{first} Below it is the range of the rounds. ? marks provisional figures: fewer than 8 rounds give no exact \
             interval.{mean}"
        );
    }
    format!(
        "{first} Below it is the 95% confidence interval. ≈ marks variants with no significant difference from the best, \
         which does not make them equal; ? marks variants with fewer than 8 rounds. Intervals hold for each pair and \
         task, and are not corrected for their number.{mean}"
    )
}

/// What the row of means is, with a space before it; nothing where it is not there.
fn mean_over_rounds(analysis: &Analysis) -> String {
    let all = analysis.overall.as_ref().map(|overall| &overall.main().comparison);
    let Some(rounds) = all.and_then(mean_cost::fewest_rounds) else { return String::new() };
    format!(
        " The row MEAN is the ratio of mean cost, the sum over all rounds divided by that of the best variant. It counts \
         every slow round, and has an interval from {FIRST_ROUND} rounds on; {}.",
        mean_cost::unseen(rounds)
    )
}

/// Notes on values that the figures leave out.
fn left_out(record: &RunRecord, analysis: &Analysis) -> Vec<String> {
    let rounds = analysis.overall.iter().flat_map(|overall| overall.main().left_out.iter().enumerate());
    let of_total = rounds.filter(|(_, rounds)| **rounds > 0).map(|(variant, rounds)| {
        let (rounds, name) = (plural(*rounds, "round"), record.name(variant));
        format!("{rounds} of {name} left out of the total: not every task has a value")
    });
    let variants = analysis.tasks.iter().flat_map(|task| &task.comparison.variants);
    let zeros: usize = variants.map(|variant| variant.excluded).sum();
    let of_ratios =
        (zeros > 0).then(|| format!("{} left out of ratios: a value is zero", plural(zeros, "pair")));
    of_total.chain(of_ratios).collect()
}
