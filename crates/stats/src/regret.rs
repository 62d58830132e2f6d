//! The regret of choosing a variant: how much more it can cost than the best. The method is multiple comparisons with the best
//! (Hsu 1981, "Simultaneous confidence intervals for all distances from the 'best'", Ann. Stat. 9), with bounds that stay valid
//! if they are computed at every look.
//!
//! U_ij is an upper bound of ln(cost of i/cost of j), at level 0.05/(K − 1), where K is the number of variants. If b is the
//! best variant, all U_ib hold together with 95%. So the regrets of all variants hold together, whichever variant is then
//! chosen. The critical values of [`critical_values::cautious_critical_value`] use half of the level if possible, because the
//! signed-rank test errs more often if the noise of two variants differs in shape.

use crate::critical_values;
use crate::mean_ratio::{ROUNDS_FOR_MEAN_RATIO, SharedCosts};
use crate::ranks::{pairs, square_table};
use crate::{hodges_lehmann::WalshAverages, ratio::log_ratios};
use fsarena_core::sample::Direction;

/// The regret of every variant on one quantity.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Regrets {
    /// `bounds[i][j]` is U_ij. NaN if one of the variants has too few values, infinite if they share no round.
    bounds: Vec<Vec<f64>>,
    /// The smallest number of rounds that two compared variants share.
    pub rounds: usize,
    /// The number of rounds that the level requires.
    pub needed_rounds: usize,
    /// Whether there are too few rounds for the level. Then the bounds are the extremes of the rounds.
    pub provisional: bool,
}

/// The cost of a variant relative to another one: an interval of ln(its cost/the other's cost). The intervals of all variants
/// relative to the best hold together with 95%.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RelativeCost {
    /// The variant.
    pub variant: usize,
    /// Lower end of the interval, a logarithm; −∞ if unbounded.
    pub low: f64,
    /// Upper end of the interval, a logarithm; ∞ if unbounded.
    pub high: f64,
}

/// The variants to compare.
struct ComparedVariants {
    /// For each variant, the number of values above zero; 0 for a reference.
    counts: Vec<usize>,
    /// The number of bounds that share the error probability of 5%: K − 1 for each run.
    bound_count: usize,
}

impl ComparedVariants {
    /// The variants of `values[variant][round]` without the references. `error_split` is the number of runs that share the
    /// error probability of 5%.
    fn new(values: &[Vec<f64>], references: &[usize], error_split: usize) -> ComparedVariants {
        let count = |(variant, rounds): (usize, &Vec<f64>)| {
            rounds.iter().filter(|value| **value > 0.0 && !references.contains(&variant)).count()
        };
        let counts: Vec<usize> = values.iter().enumerate().map(count).collect();
        let bound_count = error_split.max(1) * counts.iter().filter(|count| **count > 0).count().saturating_sub(1);
        ComparedVariants { counts, bound_count }
    }

    /// The pairs (i, j) of variants that both have `required` values, each with `compare(i, j)`, which is None if they share no
    /// round. If no variant has that many values, the largest number that a variant has is required instead.
    fn pairs<T>(&self, required: usize, compare: impl Fn(usize, usize) -> Option<T>) -> Vec<ComparedPair<T>> {
        let min_count = required.min(self.counts.iter().copied().max().unwrap_or(0)).max(1);
        let have_enough = |(i, j): &(usize, usize)| self.counts[*i].min(self.counts[*j]) >= min_count;
        let pairs = pairs(self.counts.len()).filter(have_enough);
        pairs.map(|(i, j)| ComparedPair { i, j, comparison: compare(i, j) }).collect()
    }
}

/// Two variants and their comparison; None if they share no round.
struct ComparedPair<T> {
    i: usize,
    j: usize,
    comparison: Option<T>,
}

/// The smallest number of rounds that a pair shares; 0 without pairs.
fn fewest_rounds<T>(pairs: &[ComparedPair<T>], rounds: impl Fn(&T) -> usize) -> usize {
    pairs.iter().map(|pair| pair.comparison.as_ref().map_or(0, &rounds)).min().unwrap_or(0)
}

/// The bounds U_ij of `variant_count` variants. `interval` returns the interval of ln(value of i/value of j) of a
/// comparison. If higher values are better, a cost is the inverse of the value.
fn regret_bounds<T>(
    variant_count: usize,
    pairs: &[ComparedPair<T>],
    direction: Direction,
    interval: impl Fn(&T) -> (f64, f64),
) -> Vec<Vec<f64>> {
    let mut bounds = vec![vec![f64::NAN; variant_count]; variant_count];
    for ComparedPair { i, j, comparison } in pairs {
        let (low, high) = comparison.as_ref().map_or((f64::NEG_INFINITY, f64::INFINITY), &interval);
        (bounds[*i][*j], bounds[*j][*i]) = if direction == Direction::Higher { (-low, high) } else { (high, -low) };
    }
    bounds
}

impl Regrets {
    /// Computes the regrets from `values[variant][round]`; NaN marks a missing value. `references`, such as the bare
    /// device, are neither compared nor counted in K. `error_split` is the number of runs that share the error
    /// probability of 5%.
    ///
    /// A variant that left early, with too few rounds for a bound while others have enough, is counted but not
    /// compared.
    pub fn compute(values: &[Vec<f64>], references: &[usize], direction: Direction, error_split: usize) -> Regrets {
        let compared = ComparedVariants::new(values, references, error_split);
        let bound_count = compared.bound_count;
        let needed_rounds = critical_values::rounds_for_first_bound(bound_count);
        let averages = |i: usize, j: usize| WalshAverages::new(log_ratios(&values[j], &values[i]).d);
        let pairs = compared.pairs(needed_rounds, averages);
        let rounds = fewest_rounds(&pairs, WalshAverages::sample_size);
        let provisional = critical_values::cautious_critical_value(rounds, bound_count).is_none();
        let interval =
            |pair: &WalshAverages| match critical_values::cautious_critical_value(pair.sample_size(), bound_count) {
                Some(critical) if !provisional => pair.interval(critical),
                _ => pair.extremes(),
            };
        Regrets { bounds: regret_bounds(values.len(), &pairs, direction, interval), rounds, needed_rounds, provisional }
    }

    /// Computes the regrets by mean cost: U_ij is an upper bound of ln(mean cost of i/mean cost of j), from
    /// [`SharedCosts::bounds`] at the same levels and looks. The parameters are those of [`Regrets::compute`].
    ///
    /// A variant with fewer than [`ROUNDS_FOR_MEAN_RATIO`] rounds is not compared if others have more. The regrets are
    /// provisional below [`Regrets::needed_rounds`], which is at least [`ROUNDS_FOR_MEAN_RATIO`].
    /// A pair whose interval is withheld has infinite bounds.
    pub fn compute_by_mean(
        values: &[Vec<f64>],
        references: &[usize],
        direction: Direction,
        error_split: usize,
    ) -> Regrets {
        let compared = ComparedVariants::new(values, references, error_split);
        let bound_count = compared.bound_count;
        let pairs = compared.pairs(ROUNDS_FOR_MEAN_RATIO, |i, j| SharedCosts::new(&values[j], &values[i]));
        let rounds = fewest_rounds(&pairs, SharedCosts::rounds);
        let needed_rounds = critical_values::rounds_for_first_bound(bound_count).max(ROUNDS_FOR_MEAN_RATIO);
        let provisional = rounds < needed_rounds;
        let interval = |costs: &SharedCosts| {
            let (low, high) =
                if provisional { costs.extremes() } else { costs.bounds(bound_count).unwrap_or((0.0, f64::INFINITY)) };
            (low.ln(), high.ln())
        };
        Regrets { bounds: regret_bounds(values.len(), &pairs, direction, interval), rounds, needed_rounds, provisional }
    }

    /// Whether another variant costs less, so that this one is not the best, with the 95% confidence of the regrets.
    pub fn is_dominated(&self, variant: usize) -> bool {
        self.bounds.iter().any(|bounds| bounds[variant] < 0.0)
    }

    /// The number of variants.
    pub fn len(&self) -> usize {
        self.bounds.len()
    }

    /// Whether there is no variant.
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    /// The bounds if all log ratios were `scale` times as large, and each variant cost exp(`added_log_cost(variant)`) times as
    /// much.
    pub(crate) fn rescaled(&self, scale: f64, added_log_cost: impl Fn(usize) -> f64) -> Regrets {
        let bound = |i: usize, j: usize| scale * self.bounds[i][j] + added_log_cost(i) - added_log_cost(j);
        Regrets { bounds: square_table(self.len(), bound), ..*self }
    }

    /// Whether the variant is compared with at least one other.
    pub fn is_compared(&self, variant: usize) -> bool {
        self.bounds[variant].iter().any(|bound| !bound.is_nan())
    }

    /// The cost of a variant relative to another one. The ends are NaN if the two are not compared.
    pub fn cost_relative_to(&self, variant: usize, other: usize) -> RelativeCost {
        RelativeCost { variant, low: -self.bounds[other][variant], high: self.bounds[variant][other] }
    }

    /// The regret of a variant: the upper bound of ln(cost of the variant/cost of the best); 0 if all others cost more.
    /// None if the regret is unbounded, or the variant is not compared.
    ///
    /// Bounds relative to dominated variants do not count, so that a variant that left early does not raise the regret
    /// of others. All variants can be dominated: A costs less than B, B less than C, and C less than A. Then any of
    /// them may be the best, and all bounds count.
    pub fn regret_of(&self, variant: usize) -> Option<f64> {
        let are_all_dominated = (0..self.len()).all(|other| !self.is_compared(other) || self.is_dominated(other));
        let is_rival = |other: usize| are_all_dominated || !self.is_dominated(other);
        let bounds = self.bounds.get(variant)?.iter().enumerate().filter(|(_, bound)| !bound.is_nan());
        let bounds = bounds.map(|(other, bound)| if is_rival(other) { *bound } else { 0.0 });
        bounds.reduce(f64::max).filter(|largest| largest.is_finite()).map(|largest| largest.max(0.0))
    }

    /// The regrets among some of the variants only.
    pub fn among(&self, variants: &[usize]) -> Regrets {
        let bound = |i: usize, j: usize| {
            if variants.contains(&i) && variants.contains(&j) { self.bounds[i][j] } else { f64::NAN }
        };
        Regrets { bounds: square_table(self.len(), bound), ..*self }
    }

    /// Of the variants in `order` that are not dominated, the one with the smallest regret; of equal ones the first. If
    /// all are dominated, the variant with the smallest regret. None if no regret is bounded.
    pub fn choose(&self, order: &[usize]) -> Option<usize> {
        let known =
            order.iter().filter_map(|variant| Some((self.is_dominated(*variant), self.regret_of(*variant)?, *variant)));
        known.min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))).map(|(_, _, variant)| variant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::noise::{Noise, Order, simulate_log_ratios};
    use crate::simulate::{in_parallel, run_rng};

    fn constant_values(factors: &[f64], rounds: usize) -> Vec<Vec<f64>> {
        factors.iter().map(|factor| vec![*factor; rounds]).collect()
    }

    #[test]
    fn the_regret_is_the_distance_to_the_best() {
        let regrets = Regrets::compute(&constant_values(&[1.0, 1.1, 1.005], 8), &[], Direction::Lower, 1);
        assert!(!regrets.provisional && regrets.rounds == 8);
        assert_eq!((regrets.regret_of(0), regrets.choose(&[0, 1, 2])), (Some(0.0), Some(0)));
        assert!((regrets.regret_of(1).unwrap() - 1.1f64.ln()).abs() < 1e-12);
        assert_eq!(
            Regrets::compute(&constant_values(&[1.0, 1.1], 8), &[], Direction::Higher, 1).choose(&[0, 1]),
            Some(1)
        );
        assert!(
            Regrets::compute(&constant_values(&[1.0; 4], 9), &[], Direction::Lower, 1).provisional,
            "three rivals require ten rounds"
        );
        let of_two_runs = Regrets::compute(&constant_values(&[1.0, 1.1, 1.005], 9), &[], Direction::Lower, 2);
        assert!(of_two_runs.provisional, "with two runs and two rivals, each bound gets a quarter of the error");
    }

    #[test]
    fn the_bound_of_ten_rounds_matches_values_computed_by_hand() {
        // n = 10, one rival: c = 1. The Walsh averages of 0.01…0.10 end 0.09, 0.095, 0.1: w_(54) of 55 is 0.095.
        let values = [vec![1.0; 10], (1..=10).map(|i| (f64::from(i) / 100.0).exp()).collect()];
        let regrets = Regrets::compute(&values, &[], Direction::Lower, 1);
        assert_eq!(regrets.regret_of(0), Some(0.0));
        assert!((regrets.regret_of(1).unwrap() - 0.095).abs() < 1e-12, "{regrets:?}");
    }

    #[test]
    fn compute_by_mean_counts_stalls_that_the_typical_round_hides() {
        // The second is 2% faster in a typical round, and stalls to ten times its cost in one round of eight.
        let stalls: Vec<f64> = (0..96).map(|round| if round % 8 == 7 { 9.8 } else { 0.98 }).collect();
        let noisy: Vec<f64> = (0..96).map(|round| 1.0 + f64::from(round % 5) / 1000.0).collect();
        let values = [noisy, stalls];
        assert_eq!(Regrets::compute(&values, &[], Direction::Lower, 1).choose(&[0, 1]), Some(1));
        let means = Regrets::compute_by_mean(&values, &[], Direction::Lower, 1);
        assert!(!means.provisional && means.rounds == 96 && means.is_dominated(1));
        assert_eq!((means.regret_of(0), means.choose(&[0, 1])), (Some(0.0), Some(0)));
        assert_eq!(Regrets::compute_by_mean(&values, &[], Direction::Higher, 1).choose(&[0, 1]), Some(1));
        let few = values.map(|rounds| rounds[..19].to_vec());
        let few = Regrets::compute_by_mean(&few, &[], Direction::Lower, 1);
        assert!(few.provisional && few.regret_of(0).unwrap() > 0.0);
    }

    #[test]
    fn a_dominated_variant_that_left_early_does_not_raise_regrets() {
        // Variant 2 left after 12 rounds, and was slower than variant 1 in each of them. Variant 0 was slower than variant 2 in
        // nine of these rounds, and equal to variant 1 in the other 51 of all 60 rounds. So of the 1830 Walsh averages of 0 and
        // 1, 51·52/2 = 1326 are 0, more than the c = 542 that the interval leaves out at each end.
        let slow = |round: usize| (3..12).contains(&round);
        let first: Vec<f64> = (0..60).map(|round| if slow(round) { 2.5 } else { 1.0 }).collect();
        let dominated = (0..12).map(|round| if slow(round) { 2.0 } else { 1.001 });
        let dominated = dominated.chain([f64::NAN; 48]).collect();
        let regrets = Regrets::compute(&[first, vec![1.0; 60], dominated], &[], Direction::Lower, 1);
        assert_eq!([0, 1, 2].map(|variant| regrets.is_dominated(variant)), [false, false, true]);
        assert!((regrets.bounds[0][2] - 1.25f64.ln()).abs() < 1e-12, "{regrets:?}");
        assert_eq!((regrets.regret_of(0), regrets.choose(&[2, 1, 0])), (Some(0.0), Some(1)));
    }

    #[test]
    fn a_variant_that_left_before_bounds_exist_does_not_make_regrets_provisional() {
        // Five variants require ten rounds; the last one failed after nine.
        let failed = [vec![1.3; 9], vec![f64::NAN; 15]].concat();
        let regrets = Regrets::compute(
            &[constant_values(&[1.0, 1.1, 1.2, 1.3], 24), vec![failed]].concat(),
            &[],
            Direction::Lower,
            1,
        );
        assert!(!regrets.provisional && regrets.rounds == 24 && regrets.is_dominated(1), "{regrets:?}");
        assert!(!regrets.is_compared(4));
    }

    #[test]
    fn the_regret_counts_every_bound_if_all_variants_are_dominated() {
        // In each round the costs of six variants are 1, 1.1, … 1.1⁵, one place further than in the round before. So each variant
        // costs 10% more than the one before it in five of six rounds. Of the 4656 Walsh averages of 96 rounds 80·81/2 = 3240
        // are ln 1.1, and the 1416 others are below 0: fewer than the 1434 that the interval leaves out at each end.
        let cost = |variant: usize, round: usize| 1.1f64.powi(((variant + round) % 6) as i32);
        let values: Vec<Vec<f64>> = (0..6).map(|variant| (0..96).map(|round| cost(variant, round)).collect()).collect();
        let regrets = Regrets::compute(&values, &[], Direction::Lower, 1);
        for variant in 0..6 {
            assert!(regrets.is_dominated(variant), "{regrets:?}");
            assert!(regrets.regret_of(variant).unwrap() > 0.999 * 1.1f64.ln(), "{regrets:?}");
        }
    }

    #[test]
    fn variants_that_share_too_few_rounds_have_no_regret() {
        let early = [vec![1.0; 9], vec![2.0; 9], [vec![0.5], vec![f64::NAN; 8]].concat()];
        let regrets = Regrets::compute(&early, &[], Direction::Lower, 1);
        assert_eq!((regrets.choose(&[2, 0, 1]), regrets.regret_of(2)), (Some(0), None));
        let without_shared_round = [vec![1.0, f64::NAN], vec![f64::NAN, 1.0]];
        assert_eq!(Regrets::compute(&without_shared_round, &[], Direction::Lower, 1).choose(&[0, 1]), None);
        for values in [vec![], constant_values(&[1.0], 9), constant_values(&[0.0, 0.0], 9)] {
            assert_eq!(Regrets::compute(&values, &[], Direction::Lower, 1).choose(&[0, 1][..values.len()]), None);
        }
    }

    #[test]
    fn regrets_hold_for_all_variants_at_every_look() {
        // Five variants that cost 0, 0.5, … 2% more than the first; the noise of each is larger than that of the one before.
        let true_regret = |variant: usize| 0.005 * variant as f64;
        let is_exceeded = |run: u64| {
            let mut rng = run_rng(3, run);
            let series = |variant: usize| {
                let noise = simulate_log_ratios(Noise::Spikes, Order::Random, 30, &mut rng);
                noise.iter().map(|d| (true_regret(variant) + d * (1.0 + 0.5 * variant as f64)).exp()).collect()
            };
            let values: Vec<Vec<f64>> = (0..5).map(series).collect();
            [10, 12, 15, 19, 24, 30].iter().any(|n| {
                let values_so_far: Vec<Vec<f64>> = values.iter().map(|rounds| rounds[..*n].to_vec()).collect();
                let regrets = Regrets::compute(&values_so_far, &[], Direction::Lower, 1);
                (0..5).any(|variant| regrets.regret_of(variant).unwrap() < true_regret(variant))
            })
        };
        let wrong = in_parallel(100, is_exceeded).into_iter().filter(|wrong| *wrong).count();
        assert!(wrong <= 12, "{wrong} of 100: P(more than 12) is under 1 in 500 at 5%");
    }
}
