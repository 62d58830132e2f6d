//! Charts of runs that compare I/O schedulers: each filesystem in per cent of the best filesystem under the same scheduler,
//! and in per cent of the same filesystem under its best scheduler.

use super::bars::{CUT_OFF_NOTE, axis_end, bar_marks};
use crate::drawing::{Axis, Chart, Panel};
use crate::phrases::{not_drawn_note, task_label};
use crate::{chart_context::ChartContext, sections::schedulers::SchedulerGrid};
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::comparison::{Comparison, compare_with_references};

/// Half the height of a bar, as a share of its row.
const BAR_HALF_HEIGHT: f64 = 0.38;
/// Heights in a panel in CSS pixels: of the title with the axis, and of a row.
const TITLE_AND_AXIS: u32 = 56;
const ROW_HEIGHT: u32 = 20;

/// Two charts for each task. One has a panel for each scheduler, the other a panel for each filesystem. Bars are in per cent of the
/// best variant of their panel.
pub fn scheduler_charts(context: &ChartContext) -> Vec<Chart> {
    let Some(analysis) = context.report.ranked_analysis() else { return vec![] };
    let Some(scheduler_grid) = SchedulerGrid::from_variants(&context.record().variants) else { return vec![] };
    let (metric, by_scheduler) = (&analysis.metric, scheduler_grid.by_scheduler());
    let arrangements = [
        Arrangement {
            id: "filesystems",
            reference: "the best filesystem under each scheduler",
            panel_titles: &scheduler_grid.schedulers,
            bar_names: &scheduler_grid.row_names,
            groups: &by_scheduler,
        },
        Arrangement {
            id: "schedulers",
            reference: "each filesystem's best scheduler",
            panel_titles: &scheduler_grid.row_names,
            bar_names: &scheduler_grid.schedulers,
            groups: &scheduler_grid.variants,
        },
    ];
    let mut charts = vec![];
    for task in analysis.tasks_in_totals() {
        let Some(task_index) = context.record().task_index(&task.task.id) else { continue };
        for arrangement in &arrangements {
            let mut comparisons = vec![];
            for group in arrangement.groups {
                let (values, candidates) = (&analysis.grid.values[task_index], scheduler_grid.candidates_in(group));
                comparisons.push(compare_variants(values, group, &candidates, metric.direction));
            }
            let (panels, left_out_note) = panels_of_arrangement(context, &scheduler_grid, arrangement, &comparisons);
            let caption = format!(
                "Bars of {} in per cent of the best variant of their panel. The best variant has no whisker, because the \
                 others are compared with it. The other whiskers are 95% intervals of the ratio to the best in the same round (with \
                 fewer than 8 rounds, the smallest and the largest value, marked ?); {CUT_OFF_NOTE}. Variants of a panel that share \
                 a letter are not significantly different.{left_out_note}",
                metric.id
            );
            let title = format!("{}: {} = 100%", task_label(&task.task), arrangement.reference);
            let chart = Chart::new(format!("{}-{}-{}", arrangement.id, metric.id, task.task.id), title, caption);
            charts.push(Chart { panels, columns: 2, ..chart });
        }
    }
    charts
}

/// One arrangement of the variants: a panel for each scheduler with a bar for each filesystem, or the other way round.
struct Arrangement<'a> {
    /// The prefix of the ids of the charts.
    id: &'static str,
    /// The bars that are 100%, in words for the title.
    reference: &'static str,
    /// The titles of the panels.
    panel_titles: &'a [String],
    /// The names of the bars.
    bar_names: &'a [String],
    /// The variants by panel and bar; `None` for a combination that the run lacks.
    groups: &'a [Vec<Option<usize>>],
}

/// The panels of an arrangement, and sentences, each with a space before it, about the bars that are not drawn.
fn panels_of_arrangement(
    context: &ChartContext,
    scheduler_grid: &SchedulerGrid,
    arrangement: &Arrangement,
    comparisons: &[Comparison],
) -> (Vec<Panel>, String) {
    let limit = axis_end(comparisons.iter());
    let (mut panels, mut without_value, mut without_ratio) = (vec![], vec![], vec![]);
    for ((title, variants), comparison) in arrangement.panel_titles.iter().zip(arrangement.groups).zip(comparisons) {
        let mut marks = vec![];
        for (row, variant) in variants.iter().enumerate() {
            let (name, result) = (format!("{} in {title}", arrangement.bar_names[row]), &comparison.variants[row]);
            if variant.is_none() || result.rounds == 0 {
                without_value.push(name);
            } else if comparison.best() != Some(row) && result.ratio.is_none() {
                without_ratio.push(name);
            }
            let Some(variant) = variant else { continue };
            let (y, style) = (Axis::row_centre(row), context.styles[scheduler_grid.first_of_row(*variant)]);
            let edges = (y - BAR_HALF_HEIGHT, y + BAR_HALF_HEIGHT);
            marks.extend(bar_marks(comparison, row, style.colour, edges, limit));
        }
        // Room for the figures behind the bars.
        let x_axis = Axis::from_zero("", limit * 1.3, Unit::Percent);
        let heights = (TITLE_AND_AXIS, ROW_HEIGHT);
        panels.push(Panel::with_rows(title, x_axis, arrangement.bar_names, heights, marks));
    }
    let left_out_note = not_drawn_note(&without_value, "no value")
        + &not_drawn_note(&without_ratio, "no round in which it and the best are above zero");
    (panels, left_out_note)
}

/// Compares variants by their values, given by variant and round. A missing variant has no values. Variants that are not in
/// `candidates` are references ([`SchedulerGrid::candidates_in`]): they are compared with the best, but cannot be the best.
fn compare_variants(
    values: &[Vec<f64>],
    variants: &[Option<usize>],
    candidates: &[usize],
    direction: Direction,
) -> Comparison {
    let no_values = vec![f64::NAN; values.first().map_or(0, Vec::len)];
    let values_of = |variant: &Option<usize>| variant.map_or(&no_values, |variant| &values[variant]).clone();
    let is_reference = |row: &usize| variants[*row].is_some_and(|variant| !candidates.contains(&variant));
    let references: Vec<usize> = (0..variants.len()).filter(is_reference).collect();
    compare_with_references(&variants.iter().map(values_of).collect::<Vec<_>>(), &references, direction)
}
