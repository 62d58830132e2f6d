//! Differences within rounds as series: what strip plots and narrowing intervals show.

use crate::words::{label, over_all};
use crate::{document::Source, seen::Seen};
use fsarena_core::{cell::TaskInfo, claim::Relation, record::RunRecord};
use fsarena_stats::analyse::Analysis;
use fsarena_stats::judge::Judged;
use fsarena_stats::ratio::log_ratios;

/// One comparison, round by round.
#[derive(Debug, Clone)]
pub struct Paired {
    /// The label of the comparison: `xfs over ext4: total elapsed`.
    pub label: String,
    /// ln(B/A) of every round that has both, in the order of the rounds.
    pub d: Vec<f64>,
    /// The variant above the line of the fraction, by index; none for a claim.
    pub variant: Option<usize>,
    /// What it is made of: the task, or all, and both variants.
    pub source: Option<Source>,
}

/// Tasks that are shown one by one; of more, only all together.
const FEW: usize = 6;

/// The comparisons of a report: claims where it has some, else each variant with the best by each metric that was asked
/// for; of two variants B with A, task by task where there are few.
pub fn of(seen: &Seen) -> Vec<Paired> {
    let claims = seen.report.claims.iter().filter(|claim| !claim.d.is_empty());
    let mut series: Vec<Paired> = claims
        .map(|judged| Paired {
            label: judged.claim.text.clone(),
            d: judged.d.clone(),
            variant: None,
            source: made_of(seen.record(), judged),
        })
        .collect();
    series.extend(seen.report.analyses.iter().flat_map(|analysis| of_metric(seen, analysis)));
    series
}

/// The names of comparisons.
pub fn labels(series: &[Paired]) -> Vec<String> {
    series.iter().map(|paired| paired.label.clone()).collect()
}

fn of_metric(seen: &Seen, analysis: &Analysis) -> Vec<Paired> {
    let record = seen.record();
    let grid = &analysis.grid;
    let tasks = grid.comparable_tasks();
    let Some(overall) = analysis.overall.as_ref() else { return vec![] };
    let whole = &overall.main().values;
    let of = |what: &str, values: &[Vec<f64>], task: Option<usize>, a: usize, b: usize| {
        let d = log_ratios(&values[a], &values[b]).d;
        let label = format!("{} over {}: {what}", seen.name(b), seen.name(a));
        let (variant, source) = (Some(b), Source::of(task, [b, a]));
        (!d.is_empty()).then_some(Paired { label, d, variant, source })
    };
    let mut series = vec![];
    if record.variants.len() == 2 {
        if tasks.len() > 1 {
            series.extend(of(&over_all(analysis), whole, None, 0, 1));
        }
        if tasks.len() <= FEW {
            series.extend(tasks.iter().filter_map(|task| {
                let what = format!("{}, {}", label(&grid.tasks[*task]), analysis.metric.id);
                of(&what, &grid.values[*task], Some(*task), 0, 1)
            }));
        }
        return series;
    }
    let comparison = &overall.main().comparison;
    let Some(best) = comparison.best() else { return vec![] };
    let others = comparison.order.iter().skip(1);
    others.filter_map(|variant| of(&over_all(analysis), whole, None, best, *variant)).collect()
}

/// The variants that were compared for a claim, in its task or in all of them.
pub fn made_of(record: &RunRecord, judged: &Judged) -> Option<Source> {
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
