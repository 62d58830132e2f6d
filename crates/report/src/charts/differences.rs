//! Charts of differences within rounds: a strip of dots for each comparison, the narrowing of its interval from round to
//! round, and variants with two speeds.

use crate::chart_context::{ChartContext, jitter, widen_range};
use crate::drawing::{Axis, Chart, KeySign, LegendKey, Mark, Panel, PointShape, theme};
use crate::phrases::{not_drawn_note, overall_figure_name, task_label};
use crate::{document::FigureSource, drawing::axis::format_trimmed, drawing::colour::PURPLE, number::plural};
use fsarena_core::{claim::Relation, record::RunRecord};
use fsarena_stats::ratio::{Ratio, log_ratios};
use fsarena_stats::{analyse::Analysis, critical_values::FIRST_LOOK_ROUNDS, judge::JudgedClaim};

/// The differences of two variants, B and A, in each round.
#[derive(Debug, Clone)]
pub struct PairedDifferences {
    /// The label of the comparison: `xfs over ext4: total elapsed`.
    pub label: String,
    /// ln(B/A) of every round with values of both variants, in the order of the rounds.
    pub log_ratios: Vec<f64>,
    /// The index of variant B, the numerator; `None` for a claim.
    pub variant: Option<usize>,
    /// The samples behind the differences: of both variants, in one task or in all tasks.
    pub source: Option<FigureSource>,
}

/// With more tasks than this, only all tasks together are compared.
const MAX_SINGLE_TASKS: usize = 6;

/// The comparisons of a report: its claims, then for each metric each other variant with the best one. Of two variants, the
/// second is compared with the first, also task by task if there are few tasks.
pub fn paired_differences(context: &ChartContext) -> Vec<PairedDifferences> {
    let mut comparisons = vec![];
    for judged in context.report.claims.iter().filter(|claim| !claim.d.is_empty()) {
        comparisons.push(PairedDifferences {
            label: judged.claim.text.clone(),
            log_ratios: judged.d.clone(),
            variant: None,
            source: claim_source(context.record(), judged),
        });
    }
    for analysis in &context.report.analyses {
        comparisons.extend(differences_of_metric(context, analysis));
    }
    comparisons
}

/// The comparisons by the metric of an analysis.
fn differences_of_metric(context: &ChartContext, analysis: &Analysis) -> Vec<PairedDifferences> {
    let Some(overall) = &analysis.overall else { return vec![] };
    let (record, combined, measure) = (context.record(), overall.total_or_geometric(), overall_figure_name(analysis));
    let grid = &analysis.grid;
    let tasks = grid.comparable_tasks();
    let compare_totals = |pair| PairedDifferences::of_variants(context, &measure, &combined.values, None, pair);
    let mut comparisons = vec![];
    if record.variants.len() == 2 {
        if tasks.len() > 1 {
            comparisons.extend(compare_totals([0, 1]));
        }
        if tasks.len() <= MAX_SINGLE_TASKS {
            for task in tasks {
                let measure = format!("{}, {}", task_label(&grid.tasks[task]), analysis.metric.id);
                let values = &grid.values[task];
                comparisons.extend(PairedDifferences::of_variants(context, &measure, values, Some(task), [0, 1]));
            }
        }
    } else if let Some(best) = combined.comparison.best() {
        comparisons.extend(combined.comparison.order.iter().skip(1).filter_map(|other| compare_totals([best, *other])));
    }
    comparisons
}

impl PairedDifferences {
    /// B over A. `values` are the values of the metric by variant and round, and `measure` is their name. `None` if no round
    /// has values of both variants.
    fn of_variants(
        context: &ChartContext,
        measure: &str,
        values: &[Vec<f64>],
        task: Option<usize>,
        [a, b]: [usize; 2],
    ) -> Option<PairedDifferences> {
        let log_ratios = log_ratios(&values[a], &values[b]).d;
        let label = format!("{} over {}: {measure}", context.variant_name(b), context.variant_name(a));
        let (variant, source) = (Some(b), FigureSource::new(task, [b, a]));
        (!log_ratios.is_empty()).then_some(PairedDifferences { label, log_ratios, variant, source })
    }
}

/// The source of the verdict on a claim: its task, or all tasks if it is about several, and the compared variants. `None`
/// without a verdict.
pub fn claim_source(record: &RunRecord, judged: &JudgedClaim) -> Option<FigureSource> {
    judged.verdict.as_ref()?;
    let first_variant = match &judged.claim.relation {
        Relation::Pair(pair) => &pair.left,
        Relation::Extreme(extreme) => &extreme.variant,
    };
    let subject = &judged.claim.subject;
    let matches_claim = |task: &usize| {
        let id = &record.tasks[*task].id;
        subject.task.as_ref() == Some(&id.name)
            && subject.params.iter().all(|(key, value)| id.params.get(key) == Some(value))
    };
    let mut tasks = (0..record.tasks.len()).filter(matches_claim);
    let only_task = tasks.next().filter(|_| tasks.next().is_none());
    let variants = std::iter::once(first_variant).chain(&judged.rival);
    FigureSource::new(only_task, variants.filter_map(|name| record.variant_index(name)))
}

/// The comparisons with at least `min_rounds` rounds, and the labels of the others.
fn comparisons_with_rounds(context: &ChartContext, min_rounds: usize) -> (Vec<PairedDifferences>, Vec<String>) {
    let (comparisons, too_short): (Vec<PairedDifferences>, Vec<PairedDifferences>) =
        paired_differences(context).into_iter().partition(|paired| paired.log_ratios.len() >= min_rounds);
    (comparisons, too_short.into_iter().map(|paired| paired.label).collect())
}

/// A strip has about this many dots at most: if there are more rounds, it shows every n-th.
const MAX_STRIP_DOTS: usize = 200;

/// The chart with a dot for the difference of each round, and the estimate with its interval.
pub fn strip_charts(context: &ChartContext) -> Vec<Chart> {
    let (comparisons, too_short) = comparisons_with_rounds(context, 2);
    if comparisons.is_empty() {
        return vec![];
    }
    let (low, high) = widen_range((0.0, 0.0), comparisons.iter().flat_map(|paired| paired.log_ratios.iter().copied()));
    let x_axis = Axis::of_log_ratios("difference within a round", low, high);
    let no_difference = Mark::line([(0.0, -(comparisons.len() as f64)), (0.0, 0.0)], theme::MUTED, 1.5);
    let strips = comparisons.iter().enumerate().flat_map(|(row, paired)| strip_marks(context, row, paired));
    let marks = std::iter::once(no_difference).chain(strips).collect();
    let panel = Panel::with_rows("", x_axis, comparisons.iter().map(|paired| &paired.label), (60, 34), marks);
    let meaning = "Every dot is the difference of two variants in one round; the diamond is the Hodges–Lehmann estimate \
                 and the line its 95% interval (with fewer than 8 rounds, the smallest and the largest value). Where the line crosses \"same\", \
             there is no significant difference.";
    let is_thinned = comparisons.iter().any(|paired| paired.log_ratios.len() > MAX_STRIP_DOTS);
    let caption = format!(
        "{meaning}{}{}",
        if is_thinned { " Of many rounds every n-th is a dot; the estimate is over all." } else { "" },
        not_drawn_note(&too_short, "one round in which both have a value above zero, and an interval needs two")
    );
    let legend = vec![
        LegendKey::new("one round", theme::GREY, KeySign::Point(PointShape::Disc)),
        LegendKey::new("estimate and interval", theme::INK, KeySign::Point(PointShape::Diamond)),
    ];
    let chart = Chart::new("differences", "Differences, round by round", caption);
    vec![Chart { panels: vec![panel], legend, ..chart }]
}

/// The marks of the comparison in this row, counted from 0: a dot for each round, and below them the estimate.
fn strip_marks(context: &ChartContext, row: usize, paired: &PairedDifferences) -> Vec<Mark> {
    let colour = paired.variant.map_or(PURPLE, |variant| context.styles[variant].colour);
    let round_step = paired.log_ratios.len().div_ceil(MAX_STRIP_DOTS);
    let dot = |(round, log_ratio): (usize, &f64)| {
        let point = (*log_ratio, Axis::row_centre(row) + 0.22 + 0.3 * jitter(round, row));
        Mark::Dot { point, colour, shape: PointShape::Disc }
    };
    let mut marks: Vec<Mark> = paired.log_ratios.iter().enumerate().step_by(round_step).map(dot).collect();
    if let Some(ratio) = Ratio::from_log_ratios(paired.log_ratios.clone()) {
        let y = Axis::row_centre(row) - 0.26;
        marks.push(Mark::HorizontalInterval { x: (ratio.low.ln(), ratio.high.ln()), y, clipped_end: None });
        marks.push(Mark::Dot { point: (ratio.value.ln(), y), colour: theme::INK, shape: PointShape::Diamond });
    }
    marks
}

/// The chart of narrowing intervals has at most this many panels.
const MAX_PANELS: usize = 12;
/// A panel shows the estimate at about this many points at most, each after another number of rounds.
const MAX_LOOKS: usize = 60;

/// The chart of the estimate and its interval after every round, a panel for each comparison.
pub fn narrowing_charts(context: &ChartContext) -> Vec<Chart> {
    let (comparisons, too_short) = comparisons_with_rounds(context, 3);
    let panels: Vec<Panel> =
        comparisons.iter().take(MAX_PANELS).map(|paired| narrowing_panel(context, paired)).collect();
    let caption = format!(
        "The estimate after every round and its interval; in grey, before round {FIRST_LOOK_ROUNDS}, the smallest and the largest \
         value. A verdict stands once the interval keeps away from \"same\"; these intervals allow for looking again and \
         again.{}{}",
        match comparisons.len().saturating_sub(MAX_PANELS) {
            0 => String::new(),
            hidden_count => format!(
                " The first {MAX_PANELS} are drawn; {} more are in the tables.",
                plural(hidden_count, "comparison")
            ),
        },
        not_drawn_note(&too_short, "under three rounds in which both have a value above zero"),
    );
    vec![Chart::new("narrowing", "How sure, round by round", caption).with_panels(panels)]
}

/// The panel of one comparison: its estimate and interval over the number of rounds.
fn narrowing_panel(context: &ChartContext, paired: &PairedDifferences) -> Panel {
    let round_count = paired.log_ratios.len();
    let estimate_after =
        |rounds: usize| Some((rounds as f64, Ratio::from_log_ratios(paired.log_ratios[..rounds].to_vec())?));
    let estimates: Vec<(f64, Ratio)> = look_rounds(round_count).into_iter().filter_map(estimate_after).collect();
    let colour = paired.variant.map_or(PURPLE, |variant| context.styles[variant].colour);
    let band = |provisional: bool, colour| {
        let drawn = estimates.iter().filter(|(_, ratio)| ratio.provisional == provisional);
        let points = drawn.map(|(rounds, ratio)| (*rounds, ratio.low.ln(), ratio.high.ln()));
        Mark::Band { points: points.collect(), colour }
    };
    let ends = estimates.iter().flat_map(|(_, ratio)| [ratio.low.ln(), ratio.high.ln()]);
    let (low, high) = widen_range((0.0, 0.0), ends);
    let last_round = round_count as f64;
    let mut marks = vec![Mark::line([(1.0, 0.0), (last_round, 0.0)], theme::MUTED, 1.5)];
    let has_area = |mark: &Mark| matches!(mark, Mark::Band { points, .. } if points.len() > 1);
    marks.extend([band(true, theme::MUTED), band(false, colour)].into_iter().filter(has_area));
    let points: Vec<_> = estimates.iter().map(|(rounds, ratio)| (*rounds, ratio.value.ln())).collect();
    marks.push(Mark::line(points, colour, 2.0));
    if let Some((rounds, ratio)) = estimates.last() {
        let y = (ratio.low.ln(), ratio.high.ln());
        marks.push(Mark::VerticalInterval { x: *rounds, y, colour: theme::INK });
    }
    let round_label = |rounds: f64| if rounds.fract() == 0.0 { format_trimmed(rounds) } else { String::new() };
    let x_axis = Axis::linear("rounds", 1.0, last_round, round_label);
    Panel::new(&paired.label, x_axis, Axis::of_log_ratios("difference", low, high), 190, marks)
}

/// The numbers of rounds after which the panel shows the estimate, from 2 to all: every number up to [`MAX_LOOKS`] rounds,
/// else every number below 8 and then a geometric series.
fn look_rounds(rounds: usize) -> Vec<usize> {
    if rounds <= MAX_LOOKS {
        return (2..=rounds).collect();
    }
    let growth = (rounds as f64 / 8.0).powf(1.0 / (MAX_LOOKS - 8) as f64);
    let later = (0..=MAX_LOOKS - 8).map(|power| (8.0 * growth.powi(power as i32)).round() as usize);
    let mut looks: Vec<usize> = (2..8).chain(later).chain([rounds]).collect();
    looks.retain(|look| *look <= rounds);
    looks.dedup();
    looks
}

/// The chart of two speeds has at most this many rows, the variants with the clearest modes.
const MAX_MODE_ROWS: usize = 12;
/// A cluster has about this many dots at most: if there are more rounds, the chart shows every n-th.
const MAX_MODE_DOTS: usize = 100;

/// The chart of variants whose rounds have two speeds, coloured by cluster.
pub fn two_speed_charts(context: &ChartContext) -> Vec<Chart> {
    let two_speeds = &context.report.modes()[..context.report.modes().len().min(MAX_MODE_ROWS)];
    let Some(analysis) = context.report.analyses.first().filter(|_| !two_speeds.is_empty()) else { return vec![] };
    let (mut names, mut marks, mut log_ratios) = (vec![], vec![], vec![]);
    for (row, modes) in two_speeds.iter().enumerate() {
        names.push(format!(
            "{}: {}",
            context.variant_name(modes.variant),
            task_label(&context.record().tasks[modes.task])
        ));
        let values = &analysis.grid.by_round().values[modes.task][modes.variant];
        for (cluster, colour) in modes.clusters.iter().zip([theme::MUTED, context.styles[modes.variant].colour]) {
            for column in cluster.columns.iter().step_by(cluster.columns.len().div_ceil(MAX_MODE_DOTS).max(1)) {
                let log_ratio = (values[*column] / modes.clusters[0].median).ln();
                log_ratios.push(log_ratio);
                let point = (log_ratio, Axis::row_centre(row) + 0.5 * jitter(*column, row));
                marks.push(Mark::Dot { point, colour, shape: PointShape::Disc });
            }
        }
    }
    let (low, high) = widen_range((0.0, 0.0), log_ratios);
    let x_axis = Axis::of_log_ratios("difference from the median of the lower cluster", low, high);
    let panel = Panel::with_rows("", x_axis, names, (60, 34), marks);
    let caption = "Every dot is a round of a variant whose values fall into two clusters. Comparisons of such a task depend on \
                 how many rounds fell into which.";
    let legend = vec![
        LegendKey::new("lower cluster", theme::MUTED, KeySign::Point(PointShape::Disc)),
        LegendKey::new("higher cluster, in the colour of its variant", theme::INK, KeySign::Point(PointShape::Disc)),
    ];
    vec![Chart { panels: vec![panel], legend, ..Chart::new("modes", "Two speeds", caption) }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_limited_and_end_with_all_rounds() {
        assert_eq!(look_rounds(4), [2, 3, 4]);
        let many = look_rounds(400);
        assert!(many.len() <= MAX_LOOKS + 1 && many.last() == Some(&400), "{many:?}");
        assert!(many.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
