//! Charts of runs that compare I/O schedulers: each filesystem in per cent of the best filesystem under the same scheduler,
//! and in per cent of its own result under its best scheduler.

use super::bars::{CUT_OFF_NOTE, axis_end, bar};
use crate::drawing::{Axis, Chart, Panel};
use crate::words::{label, not_drawn};
use crate::{chart_context::ChartContext, sections::schedulers::SchedulerGrid};
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::analyse::Analysis;
use fsarena_stats::comparison::{Comparison, compare};

/// Two charts for each task: a panel for each scheduler, and a panel for each filesystem, in per cent of the panel's best.
pub fn charts(context: &ChartContext) -> Vec<Chart> {
    let ranks = |analysis: &&Analysis| analysis.metric.direction != Direction::Neutral;
    let Some(analysis) = context.report.analyses.first().filter(ranks) else { return vec![] };
    let Some(grid) = SchedulerGrid::of(&context.record().variants) else { return vec![] };
    let (SchedulerGrid { names, schedulers, at }, metric) = (&grid, &analysis.metric);
    let columns = (0..schedulers.len()).map(|column| at.iter().map(|row| row[column]).collect());
    let columns: Vec<Vec<_>> = columns.collect();
    let (best_fs, best_scheduler) =
        ("the best filesystem under each scheduler", "each filesystem's best scheduler");
    // First a panel for each scheduler with a bar for each filesystem, then the other way round.
    let sides = [
        Side { id: "filesystems", best: best_fs, panels: schedulers, bars: names, groups: &columns },
        Side { id: "schedulers", best: best_scheduler, panels: names, bars: schedulers, groups: at },
    ];
    let charts = analysis.tasks().filter_map(|task| {
        let values = &analysis.grid.values[context.record().task(&task.task.id)?];
        Some(sides.each_ref().map(|side| {
            let of = side.groups.iter().map(|variants| compare_variants(values, variants, metric.direction));
            let (panels, rest) = panels_of_side(context, &grid, side, &of.collect::<Vec<_>>());
            let about = format!(
                "Bars of {} in per cent of the best variant of their panel. Whiskers are 95% intervals of the ratio to \
                 the best in the same round (with fewer than 8 rounds, the smallest and the largest value, marked ?); the \
                 best variant has none, because the others are measured by it; {CUT_OFF_NOTE}. Variants of a panel that share \
                 a letter are not significantly different.{rest}",
                metric.id
            );
            let title = format!("{}: {} = 100%", label(&task.task), side.best);
            let chart = Chart::new(format!("{}-{}-{}", side.id, metric.id, task.task.id), title, about);
            Chart { panels, columns: 2, ..chart }
        }))
    });
    charts.flatten().collect()
}

/// One arrangement of the variants: a panel for each scheduler with a bar for each filesystem, or the other way round.
struct Side<'a> {
    /// The prefix of the ids of the charts.
    id: &'static str,
    /// The words for the bar that is 100%.
    best: &'static str,
    /// The titles of the panels.
    panels: &'a [String],
    /// The names of the bars.
    bars: &'a [String],
    /// The variants by panel and bar; `None` for a combination that the run lacks.
    groups: &'a [Vec<Option<usize>>],
}

/// The panels of an arrangement, and sentences about the bars that are not drawn.
fn panels_of_side(
    context: &ChartContext,
    grid: &SchedulerGrid,
    side: &Side,
    compared: &[Comparison],
) -> (Vec<Panel>, String) {
    let limit = axis_end(compared.iter());
    let (mut panels, mut lacking, mut apart) = (vec![], vec![], vec![]);
    for ((title, variants), comparison) in side.panels.iter().zip(side.groups).zip(compared) {
        let mut marks = vec![];
        for (row, variant) in variants.iter().enumerate() {
            let (name, result) = (format!("{} in {title}", side.bars[row]), &comparison.variants[row]);
            if variant.is_none() || result.rounds == 0 {
                lacking.push(name);
            } else if comparison.best() != Some(row) && result.ratio.is_none() {
                apart.push(name);
            }
            let Some(variant) = variant else { continue };
            let (at, look) = (Axis::slot(row), context.looks[grid.first_of_row(*variant)]);
            marks.extend(bar(comparison, row, look.colour, (at - 0.38, at + 0.38), limit));
        }
        let x = Axis::from_zero("", limit * 1.3, Unit::Percent);
        panels.push(Panel::rows(title, x, side.bars, (56, 20), marks));
    }
    let apart = not_drawn(&apart, "no round in which it and the best are above zero");
    (panels, not_drawn(&lacking, "no value") + &apart)
}

/// Compares variants by their values, given by variant and round. A missing variant has no values.
fn compare_variants(values: &[Vec<f64>], variants: &[Option<usize>], direction: Direction) -> Comparison {
    let none = vec![f64::NAN; values.first().map_or(0, Vec::len)];
    let of = |variant: &Option<usize>| variant.map_or(&none, |variant| &values[variant]).clone();
    compare(&variants.iter().map(of).collect::<Vec<_>>(), direction)
}
