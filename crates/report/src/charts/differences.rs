//! Differences within rounds: a strip of dots for each comparison, how its interval narrowed, and variants with two speeds.

use crate::chart_context::{ChartContext, jitter, widen_range};
use crate::drawing::{Axis, Chart, Key, Mark, Panel, Shape, Sign, theme};
use crate::words::{label, not_drawn, over_all};
use crate::{document::Source, drawing::axis::trimmed, drawing::colour::PURPLE, number::plural};
use fsarena_core::{cell::TaskInfo, claim::Relation, record::RunRecord};
use fsarena_stats::analyse::Analysis;
use fsarena_stats::judge::Judged;
use fsarena_stats::ratio::{Ratio, log_ratios};
use fsarena_stats::table::FIRST_LOOK;

/// One comparison, round by round.
#[derive(Debug, Clone)]
pub struct Paired {
    /// The label of the comparison: `xfs over ext4: total elapsed`.
    pub label: String,
    /// ln(B/A) of every round that has both, in the order of the rounds.
    pub d: Vec<f64>,
    /// The variant above the line of the fraction, by index; `None` for a claim.
    pub variant: Option<usize>,
    /// What it is made of: the task, or all, and both variants.
    pub source: Option<Source>,
}

/// Tasks that are shown one by one; of more, only all together.
const FEW: usize = 6;

/// The comparisons of a report: claims where it has some, else each variant with the best by each metric that was asked
/// for; of two variants B with A, task by task where there are few.
pub fn paired_differences(context: &ChartContext) -> Vec<Paired> {
    let claims = context.report.claims.iter().filter(|claim| !claim.d.is_empty());
    let mut series: Vec<Paired> = claims
        .map(|judged| Paired {
            label: judged.claim.text.clone(),
            d: judged.d.clone(),
            variant: None,
            source: claim_source(context.record(), judged),
        })
        .collect();
    series.extend(context.report.analyses.iter().flat_map(|analysis| of_metric(context, analysis)));
    series
}

/// The names of comparisons.
pub fn labels(series: &[Paired]) -> Vec<String> {
    series.iter().map(|paired| paired.label.clone()).collect()
}

fn of_metric(context: &ChartContext, analysis: &Analysis) -> Vec<Paired> {
    let Some(overall) = &analysis.overall else { return vec![] };
    let (record, main, what) = (context.record(), overall.main(), over_all(analysis));
    let grid = &analysis.grid;
    let tasks = grid.comparable_tasks();
    let mut series = vec![];
    if record.variants.len() == 2 {
        if tasks.len() > 1 {
            series.extend(Paired::new(context, &what, &main.values, None, [0, 1]));
        }
        if tasks.len() <= FEW {
            for task in tasks {
                let what = format!("{}, {}", label(&grid.tasks[task]), analysis.metric.id);
                series.extend(Paired::new(context, &what, &grid.values[task], Some(task), [0, 1]));
            }
        }
    } else if let Some(best) = main.comparison.best() {
        for other in main.comparison.order.iter().skip(1) {
            series.extend(Paired::new(context, &what, &main.values, None, [best, *other]));
        }
    }
    series
}

impl Paired {
    /// B over A, by the values of variants and rounds; `None` if no round has both.
    fn new(
        context: &ChartContext,
        what: &str,
        values: &[Vec<f64>],
        task: Option<usize>,
        [a, b]: [usize; 2],
    ) -> Option<Paired> {
        let d = log_ratios(&values[a], &values[b]).d;
        let label = format!("{} over {}: {what}", context.name(b), context.name(a));
        let (variant, source) = (Some(b), Source::of(task, [b, a]));
        (!d.is_empty()).then_some(Paired { label, d, variant, source })
    }
}

/// The variants that were compared for a claim, in its task or in all of them.
pub fn claim_source(record: &RunRecord, judged: &Judged) -> Option<Source> {
    judged.verdict.as_ref()?;
    let subject = match &judged.claim.relation {
        Relation::Pair(pair) => &pair.left,
        Relation::Extreme(extreme) => &extreme.variant,
    };
    let asked = &judged.claim.subject;
    let task = |task: &TaskInfo| asked.task.as_ref().is_some_and(|name| *name == task.id.name);
    let own = |at: &usize| {
        let params = &record.tasks[*at].id.params;
        asked.params.iter().all(|(key, value)| params.get(key) == Some(value))
    };
    let mut tasks = (0..record.tasks.len()).filter(|at| task(&record.tasks[*at])).filter(own);
    // Of several tasks that it is about, all.
    let task = tasks.next().filter(|_| tasks.next().is_none());
    let variants = std::iter::once(subject).chain(&judged.rival);
    Source::of(task, variants.filter_map(|name| record.variant(name)))
}

/// The most dots of one strip: of more, every n-th round is shown.
const STRIP_DOTS: usize = 200;

/// A dot for the difference of each round, with the estimate and its interval.
pub fn strip_charts(context: &ChartContext) -> Vec<Chart> {
    let (series, short): (Vec<Paired>, Vec<Paired>) =
        paired_differences(context).into_iter().partition(|paired| paired.d.len() > 1);
    if series.is_empty() {
        return vec![];
    }
    let (low, high) = widen_range((0.0, 0.0), series.iter().flat_map(|paired| paired.d.iter().copied()));
    let x = Axis::changes("difference within a round", low, high);
    let no_difference = Mark::line([(0.0, -(series.len() as f64)), (0.0, 0.0)], theme::SOFT, 1.5);
    let strips = series.iter().enumerate().flat_map(|(at, paired)| strip(context, at, paired));
    let marks = std::iter::once(no_difference).chain(strips).collect();
    let panel = Panel::rows("", x, series.iter().map(|paired| &paired.label), (60, 34), marks);
    let about = "Every dot is the difference of two variants in one round; the diamond is the Hodges–Lehmann estimate \
                 and the line its 95% interval (under 8 rounds the extremes seen). Where the line crosses \"same\", \
             there is no significant difference.";
    let thinned = series.iter().any(|paired| paired.d.len() > STRIP_DOTS);
    let about = format!(
        "{about}{}{}",
        if thinned { " Of many rounds every n-th is a dot; the estimate is over all." } else { "" },
        not_drawn(
            &labels(&short),
            "one round in which both have a value above zero, and an interval takes two"
        )
    );
    let legend = vec![
        Key::new("one round", theme::SHADE, Sign::Point(Shape::Disc)),
        Key::new("estimate and interval", theme::INK, Sign::Point(Shape::Diamond)),
    ];
    let chart = Chart::new("differences", "Differences, round by round", about);
    vec![Chart { panels: vec![panel], legend, ..chart }]
}

fn strip(context: &ChartContext, at: usize, paired: &Paired) -> Vec<Mark> {
    let colour = paired.variant.map_or(PURPLE, |variant| context.looks[variant].colour);
    let every = paired.d.len().div_ceil(STRIP_DOTS);
    let dot = |(round, d): (usize, &f64)| {
        let at = (*d, Axis::slot(at) + 0.22 + 0.3 * jitter(round, at));
        Mark::Dot { at, colour, shape: Shape::Disc }
    };
    let mut marks: Vec<Mark> = paired.d.iter().enumerate().step_by(every).map(dot).collect();
    if let Some(ratio) = Ratio::of(paired.d.clone()) {
        let y = Axis::slot(at) - 0.26;
        marks.push(Mark::HorizontalInterval { x: (ratio.low.ln(), ratio.high.ln()), y, beyond: None });
        marks.push(Mark::Dot { at: (ratio.value.ln(), y), colour: theme::INK, shape: Shape::Diamond });
    }
    marks
}

/// The most panels.
const NARROWING_PANELS: usize = 12;
/// The most looks of one panel.
const MAX_LOOKS: usize = 60;

/// The estimate and its interval after every round.
pub fn narrowing_charts(context: &ChartContext) -> Vec<Chart> {
    let (series, short): (Vec<Paired>, Vec<Paired>) =
        paired_differences(context).into_iter().partition(|paired| paired.d.len() > 2);
    let panels: Vec<Panel> =
        series.iter().take(NARROWING_PANELS).map(|paired| narrowing_panel(context, paired)).collect();
    let about = format!(
        "The estimate after every round and its interval; in grey, before round {FIRST_LOOK}, the extremes seen. A \
         verdict stands once the interval keeps away from \"same\"; these intervals allow for looking again and again.{}{}",
        match series.len().saturating_sub(NARROWING_PANELS) {
            0 => String::new(),
            rest => format!(
                " The first {NARROWING_PANELS} are drawn; {} more are in the tables.",
                plural(rest, "comparison")
            ),
        },
        not_drawn(&labels(&short), "under three rounds in which both have a value above zero"),
    );
    vec![Chart::new("narrowing", "How sure, round by round", about).in_pairs(panels)]
}

fn narrowing_panel(context: &ChartContext, paired: &Paired) -> Panel {
    let look = |n: usize| Some((n as f64, Ratio::of(paired.d[..n].to_vec())?));
    let looks: Vec<(f64, Ratio)> = looks(paired.d.len()).into_iter().filter_map(look).collect();
    let colour = paired.variant.map_or(PURPLE, |variant| context.looks[variant].colour);
    let band = |provisional: bool, colour| {
        let of = looks.iter().filter(|(_, ratio)| ratio.provisional == provisional);
        Mark::Band { points: of.map(|(n, ratio)| (*n, ratio.low.ln(), ratio.high.ln())).collect(), colour }
    };
    let (low, high) =
        widen_range((0.0, 0.0), looks.iter().flat_map(|(_, ratio)| [ratio.low.ln(), ratio.high.ln()]));
    let last = paired.d.len() as f64;
    let mut marks = vec![Mark::line([(1.0, 0.0), (last, 0.0)], theme::SOFT, 1.5)];
    let is_wide = |mark: &Mark| matches!(mark, Mark::Band { points, .. } if points.len() > 1);
    marks.extend([band(true, theme::SOFT), band(false, colour)].into_iter().filter(is_wide));
    let points: Vec<_> = looks.iter().map(|(n, ratio)| (*n, ratio.value.ln())).collect();
    marks.push(Mark::line(points, colour, 2.0));
    let up = |(n, ratio): &(f64, Ratio)| Mark::VerticalInterval {
        x: *n,
        y: (ratio.low.ln(), ratio.high.ln()),
        colour: theme::INK,
    };
    marks.extend(looks.last().map(up));
    let whole = |n: f64| if n.fract() == 0.0 { trimmed(n) } else { String::new() };
    let (x, y) = (Axis::linear("rounds", 1.0, last, whole), Axis::changes("difference", low, high));
    Panel::new(&paired.label, x, y, 190, marks)
}

/// After how many rounds to look: each of few, fewer of many.
fn looks(rounds: usize) -> Vec<usize> {
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

/// The most rows: of more, the clearest are shown.
const MODE_ROWS: usize = 12;
/// The most dots of one cluster: of more, every n-th round is shown.
const MODE_DOTS: usize = 100;

/// The rounds of variants with two speeds, coloured by cluster.
pub fn mode_charts(context: &ChartContext) -> Vec<Chart> {
    let modes = &context.report.modes()[..context.report.modes().len().min(MODE_ROWS)];
    let Some(analysis) = context.report.analyses.first().filter(|_| !modes.is_empty()) else { return vec![] };
    let (mut names, mut marks, mut all) = (vec![], vec![], vec![]);
    for (row, one) in modes.iter().enumerate() {
        names.push(format!("{}: {}", context.name(one.variant), label(&context.record().tasks[one.task])));
        let values = &analysis.grid.values[one.task][one.variant];
        for (cluster, colour) in one.clusters.iter().zip([theme::SOFT, context.looks[one.variant].colour]) {
            for column in cluster.columns.iter().step_by(cluster.columns.len().div_ceil(MODE_DOTS).max(1)) {
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
    fn looks_are_few_and_end_with_all() {
        assert_eq!(looks(4), [2, 3, 4]);
        let many = looks(400);
        assert!(many.len() <= MAX_LOOKS + 1 && many.last() == Some(&400), "{many:?}");
        assert!(many.windows(2).all(|two| two[0] < two[1]));
    }
}
