//! Checks published figures: recomputes derived figures from their source columns, and judges claims on the figures.

use crate::verdict::{self, Outcome, Region};
use crate::{average::mean, mean_ratio::SharedCosts, ratio::log_ratios};
use fsarena_core::average::Average;
use fsarena_core::claim::{Claim, ExtremeRelation, PairRelation, Quantity, Relation, RightSide};
use fsarena_core::plan::{ALL_TASKS, TOTAL};
use fsarena_core::published::{Figure, PublishedQuotient, PublishedSet};
use fsarena_core::{cell::TaskId, conclusion::FigurePrecision, metric};

/// The result of [`recompute`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecomputedFigures {
    /// The number of derived figures that could be recomputed.
    pub figures: usize,
    /// The figures that contradict their sources.
    pub misfits: Vec<Misfit>,
}

/// A derived figure that contradicts the figures that it was computed from.
#[derive(Debug, Clone, PartialEq)]
pub struct Misfit {
    /// The name of the sample.
    pub sample: String,
    /// The name of the variant.
    pub variant: String,
    /// The metric and its formula.
    pub derived: PublishedQuotient,
    /// The printed figure.
    pub printed: f64,
    /// The printed numerator.
    pub numerator: f64,
    /// The printed denominator.
    pub denominator: f64,
    /// The smallest and the largest quotient that the sources allow, because both were rounded before printing.
    pub possible: (f64, f64),
}

/// Recomputes every derived figure. A figure is consistent if its rounding range overlaps the possible quotients of its two
/// sources. All figures of a column are rounded to the digits of its most precise figure: a single `48` in a column with
/// `48.2` was `48.0`.
pub fn recompute(published: &PublishedSet) -> RecomputedFigures {
    let mut recomputed = RecomputedFigures::default();
    for derived in &published.quotients {
        let [printed_half, numerator_half, denominator_half] =
            [&derived.metric, &derived.numerator, &derived.denominator].map(|metric| half_step(published, metric));
        for figure in published.figures.iter().filter(|row| row.metric == derived.metric) {
            let source = |metric: &str| published.figure_of_sample(&figure.sample, &figure.variant, metric);
            let (Some(numerator), Some(denominator)) = (source(&derived.numerator), source(&derived.denominator))
            else {
                continue;
            };
            recomputed.figures += 1;
            let low = (numerator.value - numerator_half).max(0.0) / (denominator.value + denominator_half);
            let high = (numerator.value + numerator_half) / (denominator.value - denominator_half).max(0.0);
            if figure.value + printed_half < low || figure.value - printed_half > high {
                recomputed.misfits.push(Misfit {
                    sample: figure.sample.clone(),
                    variant: figure.variant.clone(),
                    derived: derived.clone(),
                    printed: figure.value,
                    numerator: numerator.value,
                    denominator: denominator.value,
                    possible: (low, high),
                });
            }
        }
    }
    recomputed
}

/// The figures that may support conclusions and comparisons: without fits and summaries. A figure that contradicts its sources
/// is left out together with its numerator, because either may be wrong.
pub fn usable_figures(published: &PublishedSet) -> PublishedSet {
    let misfits = recompute(published).misfits;
    let is_misfit = |row: &Figure| {
        misfits.iter().any(|misfit| {
            (&misfit.sample, &misfit.variant) == (&row.sample, &row.variant)
                && [&misfit.derived.metric, &misfit.derived.numerator].contains(&&row.metric)
        })
    };
    let mut usable = published.clone();
    usable.figures.retain(|row| row.kind.is_evidence() && !is_misfit(row));
    usable
}

/// Half a step of the last digit that a column is printed with.
fn half_step(published: &PublishedSet, metric: &str) -> f64 {
    let of_metric = published.figures.iter().filter(|row| row.metric == metric);
    let digits = of_metric.map(|row| row.decimals).max().unwrap_or(0);
    0.5 * 10f64.powi(-i32::from(digits))
}

/// The outcome of one claim of a conclusion.
pub(crate) struct ClaimCheck {
    /// The outcome; None if the claim cannot be checked.
    pub(crate) outcome: Option<Outcome>,
    /// The number of comparisons that could be checked.
    pub(crate) checked: usize,
    /// The number of comparisons of the claim: the rivals of a claim about the best or the worst, else 1.
    pub(crate) comparisons: usize,
}

impl ClaimCheck {
    /// The check of a claim about a pair, which is one comparison.
    pub(crate) fn of_pair(outcome: Option<Outcome>) -> ClaimCheck {
        ClaimCheck { outcome, checked: usize::from(outcome.is_some()), comparisons: 1 }
    }
}

/// Judges a claim on the published figures of `set`; the claim names variants of other sets as `SET/VARIANT`. The outcome is
/// None if a figure is missing. `rivals` are the variants that a claim about the best or the worst compares.
///
/// If the author took samples of all variants at the same times, each sample counts as a round, and the claim is judged as on a
/// run. Otherwise each quantity has a single figure, and the claim is judged with this precision.
pub(crate) fn check_claim(
    claim: &Claim,
    set: &str,
    sets: &[PublishedSet],
    precision: &FigurePrecision,
    rivals: &[&str],
) -> ClaimCheck {
    let Some(published) = sets.iter().find(|known| known.set == set) else { return ClaimCheck::of_pair(None) };
    let figures = SingleFigures { set, sets, precision };
    let (subject, has_samples) = (&claim.subject, !published.samples().is_empty());
    let extreme = match &claim.relation {
        Relation::Pair(_) if has_samples => return ClaimCheck::of_pair(judge_samples(claim, published, &[])),
        Relation::Pair(pair) => return ClaimCheck::of_pair(figures.judge_pair(subject, pair)),
        Relation::Extreme(extreme) => extreme,
    };
    let mut rivals = rivals.to_vec();
    rivals.retain(|rival| *rival != extreme.variant);
    let outcome = if has_samples {
        judge_samples(claim, published, &rivals)
    } else {
        figures.judge_extreme(subject, extreme, &rivals)
    };
    let is_known = |rival: &&&str| {
        if has_samples {
            published.figures.iter().any(|row| row.variant == **rival && row.metric == subject.metric)
        } else {
            figures.value(subject, rival).is_some()
        }
    };
    let checked = if outcome.is_some() { rivals.iter().filter(is_known).count() } else { 0 };
    ClaimCheck { outcome: outcome.filter(|_| checked > 0), checked, comparisons: rivals.len() }
}

/// Judges a claim on samples. Samples have a single task without a name, so a claim must name no task or all tasks, and the
/// parameters of its task are ignored. `rivals` are the other variants that a claim about the best or the worst compares.
fn judge_samples(claim: &Claim, set: &PublishedSet, rivals: &[&str]) -> Option<Outcome> {
    let series = |quantity: &Quantity, variant: &str| -> Option<Vec<f64>> {
        let value =
            |sample: &&str| set.figure_of_sample(sample, variant, &quantity.metric).map_or(f64::NAN, |row| row.value);
        let values: Vec<f64> = set.samples().iter().map(value).collect();
        let covers_all_tasks = quantity.task.as_deref().is_none_or(|task| ALL_TASKS.contains(&task));
        (covers_all_tasks && values.iter().any(|value| !value.is_nan())).then_some(values)
    };
    match &claim.relation {
        Relation::Pair(pair) => {
            let left = series(&claim.subject, &pair.left)?;
            let right = match &pair.right {
                RightSide::Variant(variant) => series(&claim.subject, variant)?,
                RightSide::Quantity(other) => series(other, &pair.left)?,
            };
            let verdict = match claim.average {
                Average::Typical => verdict::judge_pair(pair, &log_ratios(&right, &left).d, None)?,
                Average::Mean => verdict::judge_pair_by_means(pair, &SharedCosts::new(&right, &left)?, None),
            };
            Some(verdict.outcome)
        }
        Relation::Extreme(extreme) => {
            let own_figures = series(&claim.subject, &extreme.variant)?;
            let rivals = rivals.iter().filter_map(|variant| series(&claim.subject, variant));
            let direction = metric::find(&claim.subject.metric)?.spec.direction;
            let verdict = match claim.average {
                Average::Typical => {
                    let d: Vec<Vec<f64>> = rivals.map(|rival| log_ratios(&rival, &own_figures).d).collect();
                    verdict::judge_extreme(extreme, &d, direction, None)
                }
                Average::Mean => {
                    let costs: Vec<_> = rivals.map(|rival| SharedCosts::new(&rival, &own_figures)).collect();
                    verdict::judge_extreme_by_means(extreme, &costs, direction, None)
                }
            };
            verdict.map(|verdict| verdict.outcome)
        }
    }
}

/// The published figures, for claims on single values.
struct SingleFigures<'a> {
    /// The set whose variants a claim names without the name of their set.
    set: &'a str,
    sets: &'a [PublishedSet],
    precision: &'a FigurePrecision,
}

impl SingleFigures<'_> {
    fn judge_pair(&self, subject: &Quantity, pair: &PairRelation) -> Option<Outcome> {
        let left = self.value(subject, &pair.left)?;
        let right = match &pair.right {
            RightSide::Variant(variant) => self.value(subject, variant)?,
            RightSide::Quantity(other) => {
                self.value(&other.with_params_of(subject), &pair.left).or_else(|| self.value(other, &pair.left))?
            }
        };
        let ratio = self.precision.log_ratio_range(left, right);
        Some(Region::of_claim(pair, None).judge(ratio, ratio))
    }

    fn judge_extreme(&self, subject: &Quantity, extreme: &ExtremeRelation, rivals: &[&str]) -> Option<Outcome> {
        let own_figure = self.value(subject, &extreme.variant)?;
        let ahead_is_below = extreme.is_about_smallest(metric::find(&subject.metric)?.spec.direction);
        let rivals = rivals
            .iter()
            .filter_map(|variant| Some(self.precision.log_ratio_range(own_figure, self.value(subject, variant)?)));
        let rivals: Vec<(f64, f64)> =
            rivals.map(|(low, high)| if ahead_is_below { (low, high) } else { (-high, -low) }).collect();
        let outcome = if rivals.iter().any(|(low, _)| *low > 0.0) {
            Outcome::Refuted
        } else if rivals.iter().all(|(_, high)| *high < 0.0) {
            Outcome::Held
        } else {
            Outcome::Inconclusive
        };
        Some(outcome.negated_if(extreme.negated))
    }

    /// The figure of a quantity for a variant. None if no figure or several tasks fit: a quantity may identify its task by
    /// parameters alone.
    fn value(&self, quantity: &Quantity, variant: &str) -> Option<f64> {
        let (set, variant) = variant.split_once('/').unwrap_or((self.set, variant));
        let set = self.sets.iter().find(|known| known.set == set)?;
        if let Some(all_tasks) = quantity.task.as_deref().filter(|task| ALL_TASKS.contains(task)) {
            if all_tasks == TOTAL {
                return set.total(variant, &quantity.metric);
            }
            let values = set.values_in_totals(variant, &quantity.metric)?;
            return Some(mean(values.iter().map(|value| value.ln())).exp());
        }
        let mut tasks = set.tasks().into_iter().map(|task| task.task_id()).filter(|task| quantity.fits(task));
        let figure = |task: TaskId| set.figure(&task, variant, &quantity.metric).map(|figure| figure.value);
        let value = tasks.by_ref().find_map(figure)?;
        tasks.find_map(figure).is_none().then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::published::parse_published;

    fn outcome_of(text: &str) -> Option<Outcome> {
        let csv = "set,task,title,filesystem,metric,value,unit\n\
                   II,001,T,a,elapsed,1.00,s\nII,001,T,b,elapsed,1.02,s\nII,001,T,c,elapsed,2.00,s\n\
                   II,002,U,a,elapsed,0.03,s\nII,002,U,b,elapsed,0.04,s\nII,002,U,c,elapsed,0.09,s\n\
                   I,001,T,a,elapsed,1.50,s\n";
        let tasks = [("001", "one"), ("002", "two")].map(|(number, task)| (number.to_string(), task.to_string()));
        let sets = parse_published("old", csv, &tasks.into()).unwrap();
        let precision = FigurePrecision { tolerance: 0.01, resolution: 0.01 };
        check_claim(&text.parse().unwrap(), "II", &sets, &precision, &sets[0].variants()).outcome
    }

    #[test]
    fn claims_on_single_figures_are_judged_with_their_precision() {
        use Outcome::{Held, Inconclusive, Refuted};
        for (text, expected) in [
            // ln(1/1.02) = −0.0198, ± 0.0099 for the resolution of 0.01, ± 0.00995 for the tolerance of 1%.
            ("one.elapsed: a < b", Some(Inconclusive)),
            ("one.elapsed: a < c", Some(Held)),
            ("one.elapsed: c < a", Some(Refuted)),
            ("one.elapsed: a < c by 40%", Some(Held)),
            ("one.elapsed: a < c by 60%", Some(Refuted)),
            ("one.elapsed: a == b within 5%", Some(Held)),
            ("one.elapsed: a == b", Some(Inconclusive)),
            // Before rounding, 0.03 and 0.04 may have been 0.0349 and 0.0351.
            ("two.elapsed: a < b", Some(Inconclusive)),
            ("two.elapsed: a < c", Some(Held)),
            ("one.elapsed: worst is c", Some(Held)),
            ("one.elapsed: best is c", Some(Refuted)),
            ("one.elapsed: best is not c", Some(Held)),
            ("one.elapsed: best is a", Some(Inconclusive)),
            ("geomean.elapsed: a < c", Some(Held)),
            ("one.elapsed: II/a < I/a", Some(Held)),
            ("two.elapsed: a < I/a", None),
            ("three.elapsed: a < b", None),
            ("one.elapsed: c > two.elapsed", Some(Held)),
            // Two tasks have this metric.
            ("elapsed: a < c", None),
        ] {
            assert_eq!(outcome_of(text), expected, "{text}");
        }
    }

    #[test]
    fn parameters_alone_can_identify_a_task() {
        use Outcome::{Held, Refuted};
        let csv = "set,task,title,filesystem,metric,value,unit,clients\n\
                   ,run,R,a,throughput,100,bytes_per_s,5\n,run,R,b,throughput,98,bytes_per_s,5\n\
                   ,run,R,a,throughput,50,bytes_per_s,20\n,run,R,b,throughput,98,bytes_per_s,20\n";
        let sets = parse_published("old", csv, &[("run".to_string(), "run".to_string())].into()).unwrap();
        let outcome_of = |text: &str| {
            check_claim(&text.parse().unwrap(), "", &sets, &FigurePrecision::default(), &["a", "b"]).outcome
        };
        assert_eq!(outcome_of("throughput[clients=5]: b >= 0.97 * a within 3%"), Some(Held));
        assert_eq!(outcome_of("throughput[clients=20]: b < a"), Some(Refuted));
        assert_eq!(outcome_of("throughput: b < a"), None);
        // The quantity on the right has the parameters of the subject unless it names its own.
        assert_eq!(outcome_of("throughput[clients=20]: a < run.throughput[clients=5]"), Some(Held));
    }

    #[test]
    fn a_rival_without_figures_counts_as_unchecked() {
        let csv = "set,task,title,filesystem,metric,value,unit\n,run,R,a,elapsed,1,s\n,run,R,b,elapsed,2,s\n";
        let sets = parse_published("old", csv, &[("run".to_string(), "run".to_string())].into()).unwrap();
        let check = |rivals: &[&str]| {
            let check =
                check_claim(&"elapsed: best is a".parse().unwrap(), "", &sets, &FigurePrecision::default(), rivals);
            (check.outcome, check.checked, check.comparisons)
        };
        assert_eq!(check(&["a", "b"]), (Some(Outcome::Held), 1, 1));
        assert_eq!(check(&["a", "b", "c", "d"]), (Some(Outcome::Held), 1, 3));
        assert_eq!(check(&["c", "d"]), (None, 0, 2));
    }

    #[test]
    fn samples_count_as_rounds() {
        use Outcome::{Held, Inconclusive, Refuted};
        let csv = |samples: usize| {
            let line = |i: usize| format!("{i},a,{},1\n{i},b,{},1\n", 10 + i, 20 + 2 * i);
            let lines: String = (0..samples).map(line).collect();
            format!("sample,filesystem,elapsed_s,requests_per_s\n{lines}")
        };
        let outcome_of = |text: &str, samples| {
            let sets = parse_published("old", &csv(samples), &Default::default()).unwrap();
            check_claim(&text.parse().unwrap(), "", &sets, &FigurePrecision::default(), &["a", "b"]).outcome
        };
        assert_eq!(outcome_of("elapsed: a < b by 40%", 8), Some(Held));
        assert_eq!(outcome_of("elapsed: a > b", 8), Some(Refuted));
        assert_eq!(outcome_of("elapsed: best is a", 8), Some(Held));
        assert_eq!(outcome_of("geomean.elapsed: best is a", 8), Some(Held));
        assert_eq!(outcome_of("elapsed[rate=5]: best is a", 8), Some(Held), "a rate of a run here");
        assert_eq!(outcome_of("elapsed: a < b", 7), Some(Inconclusive), "under 8 nothing is decided");
        assert_eq!(outcome_of("system: a < b", 8), None);
    }

    #[test]
    fn only_the_given_rivals_compete_in_samples() {
        let line = |i: usize| format!("{i},a,{},1\n{i},b,{},1\n{i},c,10,1\n", 20 + 2 * i, 40 + 5 * i);
        let lines: String = (0..8).map(line).collect();
        let csv = format!("sample,filesystem,elapsed_s,requests_per_s\n{lines}");
        let sets = parse_published("old", &csv, &Default::default()).unwrap();
        let outcome = |rivals: &[&str]| {
            check_claim(&"elapsed: best is a".parse().unwrap(), "", &sets, &FigurePrecision::default(), rivals).outcome
        };
        assert_eq!(outcome(&["a", "b", "c"]), Some(Outcome::Refuted));
        assert_eq!(outcome(&["a", "b"]), Some(Outcome::Held));
    }

    fn misfits(lines: &str) -> Vec<String> {
        let csv = format!("sample,filesystem,cpu_percent,requests_per_s,cost = cpu_percent / requests_per_s\n{lines}");
        let all = recompute(&parse_published("old", &csv, &Default::default()).unwrap()[0]);
        assert_eq!(all.figures, lines.lines().count());
        all.misfits.into_iter().map(|misfit| format!("{} {}", misfit.sample, misfit.variant)).collect()
    }

    #[test]
    fn a_figure_within_the_rounding_of_its_sources_is_no_misfit() {
        // 7.6/28.2 = 0.2695. Both were rounded by up to 0.05, so the quotient is between 0.2673 and 0.2718, and the printed
        // 0.27 stands for 0.265 to 0.275.
        assert!(misfits("s,a,7.6,28.2,0.27\n").is_empty());
        assert_eq!(misfits("s,a,7.6,28.2,0.28\ns,b,7.6,28.2,0.26\n"), ["s a", "s b"]);
    }

    #[test]
    fn a_column_has_the_digits_of_its_most_precise_figure() {
        // If 48 is precise to a tenth, because 48.2 is in the same column, 14.5/48 rounds to 0.30 only. Otherwise 48 may be
        // 47.5, and the quotient 0.305.
        assert_eq!(misfits("s,a,14.5,48,0.31\nt,a,14.5,48.2,0.30\n"), ["s a"]);
        assert!(misfits("s,a,14.5,48,0.31\n").is_empty());
    }

    #[test]
    fn a_misfit_and_its_numerator_are_no_evidence() {
        let csv = "sample,filesystem,cpu_percent,requests_per_s,cost = cpu_percent / requests_per_s\n\
                   s,a,7.6,28.2,0.28\nt,a,7.6,28.2,0.27\n";
        let usable = usable_figures(&parse_published("old", csv, &Default::default()).unwrap()[0]);
        let usable: Vec<_> = usable.figures.iter().map(|row| format!("{} {}", row.sample, row.metric)).collect();
        assert_eq!(usable, ["s requests", "t cpu", "t requests", "t cost"]);
    }

    #[test]
    fn the_figures_of_wilton_have_two_known_misfits() {
        let csv = include_str!("../../../studies/wilton/published.csv");
        let all = recompute(&parse_published("wilton", csv, &Default::default()).unwrap()[0]);
        assert_eq!((all.figures, all.misfits.len()), (132, 2));
        // By hand: 8.4/28 = 0.300, printed as 0.17; 10.4/28.2 = 0.369, printed as 0.15.
        let misfits: Vec<_> =
            all.misfits.iter().map(|m| (m.variant.as_str(), m.derived.metric.as_str(), m.printed)).collect();
        assert_eq!(misfits, [("reiserfs", "system_per_request", 0.17), ("ext3", "iowait_per_request", 0.15)]);
        assert!(all.misfits.iter().all(|misfit| misfit.sample == "daily-average"));
    }
}
