//! Charts of differences within rounds: a strip of dots for each comparison, the narrowing of its interval from round to
//! round, and variants with two speeds.

use crate::chart_context::{ChartContext, jitter, widen_range};
use crate::drawing::{Axis, Chart, Key, Mark, Panel, Shape, Sign, theme};
use crate::words::{not_drawn, overall_name, task_label};
use crate::{document::Source, drawing::axis::trimmed, drawing::colour::PURPLE, number::plural};
use fsarena_core::{claim::Relation, record::RunRecord};
use fsarena_stats::ratio::{Ratio, log_ratios};
use fsarena_stats::{analyse::Analysis, judge::Judged, table::FIRST_LOOK};

/// The comparison of two variants, round by round.
#[derive(Debug, Clone)]
pub struct PairedDifferences {
    /// The label of the comparison: `xfs over ext4: total elapsed`.
    pub label: String,
    /// ln(B/A) of every round with values of both variants, in the order of the rounds.
    pub log_ratios: Vec<f64>,
    /// The index of variant B, the numerator; `None` for a claim.
    pub variant: Option<usize>,
    /// The task, or all tasks, and both variants.
    pub source: Option<Source>,
}

/// With more tasks than this, only all tasks together are compared.
const MAX_SINGLE_TASKS: usize = 6;

/// The comparisons of a report: its claims, then for each metric of the report the best variant with each other one; of
/// only two variants the second with the first, also task by task if there are few tasks.
pub fn paired_differences(context: &ChartContext) -> Vec<PairedDifferences> {
    let mut series = vec![];
    for judged in context.report.claims.iter().filter(|claim| !claim.d.is_empty()) {
        series.push(PairedDifferences {
            label: judged.claim.text.clone(),
            log_ratios: judged.d.clone(),
            variant: None,
            source: claim_source(context.record(), judged),
        });
    }
    for analysis in &context.report.analyses {
        series.extend(differences_of_metric(context, analysis));
    }
    series
}

/// The labels of comparisons.
fn labels(series: &[PairedDifferences]) -> Vec<String> {
    series.iter().map(|paired| paired.label.clone()).collect()
}

fn differences_of_metric(context: &ChartContext, analysis: &Analysis) -> Vec<PairedDifferences> {
    let Some(overall) = &analysis.overall else { return vec![] };
    let (record, main, what) = (context.record(), overall.main(), overall_name(analysis));
    let grid = &analysis.grid;
    let tasks = grid.comparable_tasks();
    let mut series = vec![];
    if record.variants.len() == 2 {
        if tasks.len() > 1 {
            series.extend(PairedDifferences::new(context, &what, &main.values, None, [0, 1]));
        }
        if tasks.len() <= MAX_SINGLE_TASKS {
            for task in tasks {
                let what = format!("{}, {}", task_label(&grid.tasks[task]), analysis.metric.id);
                series.extend(PairedDifferences::new(context, &what, &grid.values[task], Some(task), [0, 1]));
            }
        }
    } else if let Some(best) = main.comparison.best() {
        for other in main.comparison.order.iter().skip(1) {
            series.extend(PairedDifferences::new(context, &what, &main.values, None, [best, *other]));
        }
    }
    series
}

impl PairedDifferences {
    /// B over A. `values` are the values of the metric by variant and round. `None` if no round has values of both.
    fn new(
        context: &ChartContext,
        what: &str,
        values: &[Vec<f64>],
        task: Option<usize>,
        [a, b]: [usize; 2],
    ) -> Option<PairedDifferences> {
        let log_ratios = log_ratios(&values[a], &values[b]).d;
        let label = format!("{} over {}: {what}", context.name(b), context.name(a));
        let (variant, source) = (Some(b), Source::new(task, [b, a]));
        (!log_ratios.is_empty()).then_some(PairedDifferences { label, log_ratios, variant, source })
    }
}

/// The source of the verdict on a claim: its task, or all tasks if it is about several, and the compared variants. `None`
/// without a verdict.
pub fn claim_source(record: &RunRecord, judged: &Judged) -> Option<Source> {
    judged.verdict.as_ref()?;
    let subject = match &judged.claim.relation {
        Relation::Pair(pair) => &pair.left,
        Relation::Extreme(extreme) => &extreme.variant,
    };
    let work = &judged.claim.subject;
    let matches_claim = |at: &usize| {
        let id = &record.tasks[*at].id;
        work.task.as_ref() == Some(&id.name)
            && work.params.iter().all(|(key, value)| id.params.get(key) == Some(value))
    };
    let mut tasks = (0..record.tasks.len()).filter(matches_claim);
    let only_task = tasks.next().filter(|_| tasks.next().is_none());
    let variants = std::iter::once(subject).chain(&judged.rival);
    Source::new(only_task, variants.filter_map(|name| record.variant(name)))
}

/// A strip has about this many dots at most: of more rounds, it shows every n-th.
const MAX_STRIP_DOTS: usize = 200;

/// The chart with a dot for the difference of each round, and the estimate with its interval.
pub fn strip_charts(context: &ChartContext) -> Vec<Chart> {
    let (series, short): (Vec<PairedDifferences>, Vec<PairedDifferences>) =
        paired_differences(context).into_iter().partition(|paired| paired.log_ratios.len() > 1);
    if series.is_empty() {
        return vec![];
    }
    let (low, high) =
        widen_range((0.0, 0.0), series.iter().flat_map(|paired| paired.log_ratios.iter().copied()));
    let x = Axis::changes("difference within a round", low, high);
    let no_difference = Mark::line([(0.0, -(series.len() as f64)), (0.0, 0.0)], theme::SOFT, 1.5);
    let strips = series.iter().enumerate().flat_map(|(at, paired)| strip(context, at, paired));
    let marks = std::iter::once(no_difference).chain(strips).collect();
    let panel = Panel::rows("", x, series.iter().map(|paired| &paired.label), (60, 34), marks);
    let about = "Every dot is the difference of two variants in one round; the diamond is the Hodges–Lehmann estimate \
                 and the line its 95% interval (with fewer than 8 rounds, the smallest and the largest value). Where the line crosses \"same\", \
             there is no significant difference.";
    let thinned = series.iter().any(|paired| paired.log_ratios.len() > MAX_STRIP_DOTS);
    let about = format!(
        "{about}{}{}",
        if thinned { " Of many rounds every n-th is a dot; the estimate is over all." } else { "" },
        not_drawn(
            &labels(&short),
            "one round in which both have a value above zero, and an interval needs two"
        )
    );
    let legend = vec![
        Key::new("one round", theme::SHADE, Sign::Point(Shape::Disc)),
        Key::new("estimate and interval", theme::INK, Sign::Point(Shape::Diamond)),
    ];
    let chart = Chart::new("differences", "Differences, round by round", about);
    vec![Chart { panels: vec![panel], legend, ..chart }]
}

/// The marks of the comparison in row `at`.
fn strip(context: &ChartContext, at: usize, paired: &PairedDifferences) -> Vec<Mark> {
    let colour = paired.variant.map_or(PURPLE, |variant| context.looks[variant].colour);
    let every = paired.log_ratios.len().div_ceil(MAX_STRIP_DOTS);
    let dot = |(round, d): (usize, &f64)| {
        let at = (*d, Axis::slot(at) + 0.22 + 0.3 * jitter(round, at));
        Mark::Dot { at, colour, shape: Shape::Disc }
    };
    let mut marks: Vec<Mark> = paired.log_ratios.iter().enumerate().step_by(every).map(dot).collect();
    if let Some(ratio) = Ratio::of(paired.log_ratios.clone()) {
        let y = Axis::slot(at) - 0.26;
        marks.push(Mark::HorizontalInterval { x: (ratio.low.ln(), ratio.high.ln()), y, beyond: None });
        marks.push(Mark::Dot { at: (ratio.value.ln(), y), colour: theme::INK, shape: Shape::Diamond });
    }
    marks
}

/// The chart of narrowing intervals has at most this many panels.
const MAX_PANELS: usize = 12;
/// A panel shows the estimate after about this many numbers of rounds at most.
const MAX_LOOKS: usize = 60;

/// The chart of the estimate and its interval after every round, a panel for each comparison.
pub fn narrowing_charts(context: &ChartContext) -> Vec<Chart> {
    let (series, short): (Vec<PairedDifferences>, Vec<PairedDifferences>) =
        paired_differences(context).into_iter().partition(|paired| paired.log_ratios.len() > 2);
    let panels: Vec<Panel> =
        series.iter().take(MAX_PANELS).map(|paired| narrowing_panel(context, paired)).collect();
    let about = format!(
        "The estimate after every round and its interval; in grey, before round {FIRST_LOOK}, the smallest and the largest \
         value. A verdict stands once the interval keeps away from \"same\"; these intervals allow for looking again and \
         again.{}{}",
        match series.len().saturating_sub(MAX_PANELS) {
            0 => String::new(),
            rest => format!(
                " The first {MAX_PANELS} are drawn; {} more are in the tables.",
                plural(rest, "comparison")
            ),
        },
        not_drawn(&labels(&short), "under three rounds in which both have a value above zero"),
    );
    vec![Chart::new("narrowing", "How sure, round by round", about).in_pairs(panels)]
}

fn narrowing_panel(context: &ChartContext, paired: &PairedDifferences) -> Panel {
    let all_rounds = paired.log_ratios.len();
    let after = |rounds: usize| Some((rounds as f64, Ratio::of(paired.log_ratios[..rounds].to_vec())?));
    let estimates: Vec<(f64, Ratio)> = look_rounds(all_rounds).into_iter().filter_map(after).collect();
    let colour = paired.variant.map_or(PURPLE, |variant| context.looks[variant].colour);
    let band = |provisional: bool, colour| {
        let of_kind = estimates.iter().filter(|(_, ratio)| ratio.provisional == provisional);
        let points = of_kind.map(|(rounds, ratio)| (*rounds, ratio.low.ln(), ratio.high.ln()));
        Mark::Band { points: points.collect(), colour }
    };
    let ends = estimates.iter().flat_map(|(_, ratio)| [ratio.low.ln(), ratio.high.ln()]);
    let (low, high) = widen_range((0.0, 0.0), ends);
    let last = all_rounds as f64;
    let mut marks = vec![Mark::line([(1.0, 0.0), (last, 0.0)], theme::SOFT, 1.5)];
    let is_wide = |mark: &Mark| matches!(mark, Mark::Band { points, .. } if points.len() > 1);
    marks.extend([band(true, theme::SOFT), band(false, colour)].into_iter().filter(is_wide));
    let points: Vec<_> = estimates.iter().map(|(rounds, ratio)| (*rounds, ratio.value.ln())).collect();
    marks.push(Mark::line(points, colour, 2.0));
    if let Some((rounds, ratio)) = estimates.last() {
        let y = (ratio.low.ln(), ratio.high.ln());
        marks.push(Mark::VerticalInterval { x: *rounds, y, colour: theme::INK });
    }
    let whole = |rounds: f64| if rounds.fract() == 0.0 { trimmed(rounds) } else { String::new() };
    let (x, y) = (Axis::linear("rounds", 1.0, last, whole), Axis::changes("difference", low, high));
    Panel::new(&paired.label, x, y, 190, marks)
}

/// The numbers of rounds after which the panel shows the estimate, from 2 to all: every number up to [`MAX_LOOKS`] rounds,
/// else every number below 8 and then a geometric series.
fn look_rounds(rounds: usize) -> Vec<usize> {
    if rounds <= MAX_LOOKS {
        return (2..=rounds).collect();
    }
    let ratio = (rounds as f64 / 8.0).powf(1.0 / (MAX_LOOKS - 8) as f64);
    let later = (0..=MAX_LOOKS - 8).map(|at| (8.0 * ratio.powi(at as i32)).round() as usize);
    let mut looks: Vec<usize> = (2..8).chain(later).chain([rounds]).collect();
    looks.retain(|look| *look <= rounds);
    looks.dedup();
    looks
}

/// The chart of two speeds has at most this many rows: the clearest.
const MAX_MODE_ROWS: usize = 12;
/// A cluster has about this many dots at most: of more rounds, the chart shows every n-th.
const MAX_MODE_DOTS: usize = 100;

/// The chart of variants whose rounds have two speeds, coloured by cluster.
pub fn mode_charts(context: &ChartContext) -> Vec<Chart> {
    let modes = &context.report.modes()[..context.report.modes().len().min(MAX_MODE_ROWS)];
    let Some(analysis) = context.report.analyses.first().filter(|_| !modes.is_empty()) else { return vec![] };
    let (mut names, mut marks, mut all) = (vec![], vec![], vec![]);
    for (row, one) in modes.iter().enumerate() {
        names.push(format!(
            "{}: {}",
            context.name(one.variant),
            task_label(&context.record().tasks[one.task])
        ));
        let values = &analysis.grid.by_round().values[one.task][one.variant];
        for (cluster, colour) in one.clusters.iter().zip([theme::SOFT, context.looks[one.variant].colour]) {
            for column in cluster.columns.iter().step_by(cluster.columns.len().div_ceil(MAX_MODE_DOTS).max(1))
            {
                let x = (values[*column] / one.clusters[0].median).ln();
                all.push(x);
                let at = (x, Axis::slot(row) + 0.5 * jitter(*column, row));
                marks.push(Mark::Dot { at, colour, shape: Shape::Disc });
            }
        }
    }
    let (low, high) = widen_range((0.0, 0.0), all);
    let x = Axis::changes("difference from the median of the lower cluster", low, high);
    let panel = Panel::rows("", x, names, (60, 34), marks);
    let about = "Every dot is a round of a variant whose values fall into two clusters. Comparisons of such a task depend on \
                 how many rounds fell into which.";
    let legend = vec![
        Key::new("lower cluster", theme::SOFT, Sign::Point(Shape::Disc)),
        Key::new("higher cluster, in the colour of its variant", theme::INK, Sign::Point(Shape::Disc)),
    ];
    vec![Chart { panels: vec![panel], legend, ..Chart::new("modes", "Two speeds", about) }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_limited_and_end_with_all_rounds() {
        assert_eq!(look_rounds(4), [2, 3, 4]);
        let many = look_rounds(400);
        assert!(many.len() <= MAX_LOOKS + 1 && many.last() == Some(&400), "{many:?}");
        assert!(many.windows(2).all(|two| two[0] < two[1]));
    }
}
