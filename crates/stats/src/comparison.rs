//! Compares all variants of a run on one quantity.

pub use crate::average::median;
use crate::ratio::{LogRatios, Ratio, log_ratios};
use crate::{
    compact_letter_display::compact_letter_display, critical_values::FIRST_LOOK_ROUNDS, hodges_lehmann::WalshAverages,
    mean_ratio::MeanRatio, ranks::square_table, sequential::excludes_zero,
};
use fsarena_core::sample::Direction;

/// How the variants compare on one task, or on all together.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// One entry for each variant, in the order of the run's variants.
    pub variants: Vec<VariantResult>,
    /// The ranked variants that have data, best first. Ratios refer to the first of them.
    ///
    /// A variant comes first if it beats most others in paired comparison (Copeland). Ties are broken by the mean log ratio to
    /// all others, then by the order of the plan. A variant with too few rounds never comes before one with enough. For
    /// variants with equal values the order means nothing: see [`VariantResult::rank`].
    pub order: Vec<usize>,
    /// Whether two variants differ significantly at 95%, for each pair; not corrected for the number of pairs.
    pub differs: Vec<Vec<bool>>,
    /// Which way is better.
    pub direction: Direction,
}

/// One variant in a comparison.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VariantResult {
    /// The number of rounds with a value.
    pub rounds: usize,
    /// The median of these values, in the metric's unit.
    pub median: Option<f64>,
    /// Its value divided by the best variant's, in the rounds that have both. None for the best variant itself, and for a
    /// variant that shares no round with it.
    pub ratio: Option<Ratio>,
    /// Its mean divided by the best variant's mean, in the same rounds. The ratio describes a typical round; the mean ratio
    /// counts every stall in full.
    pub mean_ratio: Option<MeanRatio>,
    /// Its rank in the order, from 1. Variants with exactly the same values in all shared rounds have the same rank. None
    /// for references and for variants without data.
    pub rank: Option<usize>,
    /// The number of rounds shared with the best variant that have no log ratio, because a value is zero or negative.
    pub excluded_rounds: usize,
    /// The letters of [`crate::compact_letter_display`].
    pub letters: String,
}

/// Compares variants. `values[variant][round]` is NaN for a missing value.
pub fn compare(values: &[Vec<f64>], direction: Direction) -> Comparison {
    compare_with_references(values, &[], direction)
}

/// The same as [`compare`], but the variants of `references` only have a ratio to the best, and no rank.
pub fn compare_with_references(values: &[Vec<f64>], references: &[usize], direction: Direction) -> Comparison {
    let pairs = AllPairs::from_values(values);
    let counts: Vec<usize> = values.iter().map(|rounds| rounds.iter().filter(|v| !v.is_nan()).count()).collect();
    let count_if_ranked = |(variant, count): (usize, &usize)| if references.contains(&variant) { 0 } else { *count };
    let ranked_counts: Vec<usize> = counts.iter().enumerate().map(count_if_ranked).collect();
    let order = sort_by_rank(&pairs, &ranked_counts, direction);
    let differs = square_table(values.len(), |i, j| pairs.differs(i, j));
    let letters = compact_letter_display(&differs, &order);
    let best = order.first().copied();
    let ranks = ranks_in_order(&pairs, &order);
    let result = |(variant, letters): (usize, String)| {
        let best = best.filter(|best| *best != variant);
        VariantResult {
            rounds: counts[variant],
            median: median(&values[variant]),
            ratio: best.and_then(|best| pairs.ratio(best, variant)),
            mean_ratio: best.and_then(|best| MeanRatio::from_costs(&values[best], &values[variant])),
            rank: order.iter().position(|ordered| *ordered == variant).map(|position| ranks[position]),
            excluded_rounds: best.map_or(0, |best| pairs.pair(best, variant).excluded_rounds),
            letters,
        }
    };
    let variants = letters.into_iter().enumerate().map(result).collect();
    Comparison { variants, order, differs, direction }
}

impl Comparison {
    /// Computes the mean ratios again, from `values` instead. `None` changes nothing.
    pub fn with_mean_costs(mut self, values: Option<&Vec<Vec<f64>>>) -> Comparison {
        let Some((values, best)) = values.zip(self.best()) else { return self };
        for (index, variant) in self.variants.iter_mut().enumerate().filter(|(index, _)| *index != best) {
            variant.mean_ratio = MeanRatio::from_costs(&values[best], &values[index]);
        }
        self
    }

    /// Whether any variant has a ratio to the best.
    pub fn has_ratio(&self) -> bool {
        self.variants.iter().any(|variant| variant.ratio.is_some())
    }

    /// The variant that ratios refer to.
    pub fn best(&self) -> Option<usize> {
        self.order.first().copied()
    }

    /// The best variant; None if another one has exactly the same values.
    pub fn sole_best(&self) -> Option<usize> {
        let with_rank_1 = self.order.iter().filter(|variant| self.variants[**variant].rank == Some(1)).count();
        self.best().filter(|_| with_rank_1 == 1)
    }

    /// The variants that have data, sorted by their ratio to the best; variants with too few rounds come last, unless
    /// the whole comparison is provisional. The best, whose ratio is 1, is not always the first: see
    /// [`Comparison::has_ratio_better_than_best`].
    pub fn sorted_by_ratio(&self) -> Vec<usize> {
        let sign = if self.direction == Direction::Higher { -1.0 } else { 1.0 };
        let key = |variant: usize| {
            let lacks_rounds = self.best() != Some(variant) && !self.has_exact_interval(variant);
            let ratio = self.variants[variant].ratio.map_or(1.0, |ratio| ratio.value);
            (lacks_rounds && !self.is_provisional(), sign * ratio)
        };
        let mut sorted = self.order.clone();
        sorted.sort_by(|a, b| {
            let ((a_lacks_rounds, a_ratio), (b_lacks_rounds, b_ratio)) = (key(*a), key(*b));
            a_lacks_rounds.cmp(&b_lacks_rounds).then(a_ratio.total_cmp(&b_ratio))
        });
        sorted
    }

    /// Whether a variant has a better ratio than the best, which beats more variants. This is possible if A beats B, B
    /// beats C and C beats A, or if some variants share no round.
    pub fn has_ratio_better_than_best(&self) -> bool {
        self.sorted_by_ratio().first() != self.order.first()
    }

    /// The same comparison reduced to rounds and medians, without any ranking.
    pub fn unranked(self) -> Comparison {
        let reduced = |VariantResult { rounds, median, .. }| VariantResult { rounds, median, ..Default::default() };
        let variants = self.variants.into_iter().map(reduced).collect();
        Comparison { variants, order: vec![], differs: vec![], direction: self.direction }
    }

    /// Whether no pair of variants has enough rounds for an exact interval.
    pub fn is_provisional(&self) -> bool {
        self.rivals_with_exact_interval().next().is_none()
    }

    /// Whether the ratio of a variant to the best has an exact interval.
    fn has_exact_interval(&self, variant: usize) -> bool {
        self.variants[variant].ratio.is_some_and(|ratio| !ratio.provisional)
    }

    /// The variants other than the best that have an exact interval, in order.
    fn rivals_with_exact_interval(&self) -> impl Iterator<Item = usize> + '_ {
        self.order.iter().skip(1).copied().filter(|variant| self.has_exact_interval(*variant))
    }

    /// The variants without a significant difference from the best, in order. Excludes variants with too few rounds: see
    /// [`Comparison::with_too_few_rounds`].
    pub fn without_significant_difference(&self) -> Vec<usize> {
        let is_significant =
            |variant: &usize| self.variants[*variant].ratio.is_some_and(|ratio| ratio.is_significant());
        self.rivals_with_exact_interval().filter(|variant| !is_significant(variant)).collect()
    }

    /// The best variant, if it differs significantly from every other variant that has enough rounds. None if there is no such
    /// other variant.
    pub fn winner(&self) -> Option<usize> {
        let is_decided = self.direction != Direction::Neutral
            && !self.is_provisional()
            && self.without_significant_difference().is_empty();
        self.best().filter(|_| is_decided)
    }

    /// The variants that have data, but share too few rounds with the best for a verdict.
    pub fn with_too_few_rounds(&self) -> Vec<usize> {
        self.order.iter().skip(1).copied().filter(|variant| !self.has_exact_interval(*variant)).collect()
    }
}

/// The log ratios of two variants.
struct PairRatios {
    /// The Walsh averages of the log ratios of the later variant to the earlier one; None if they share no round.
    averages: Option<WalshAverages>,
    /// Their Hodges–Lehmann estimate.
    estimate: Option<f64>,
    /// The number of shared rounds without a log ratio.
    excluded_rounds: usize,
}

/// All pairs of variants. Intervals are computed only for pairs with the best; for other pairs it suffices to test whether they
/// differ significantly, which is cheaper.
struct AllPairs {
    /// `pairs[later][earlier]`, for two variants in the order of the run.
    pairs: Vec<Vec<PairRatios>>,
}

impl AllPairs {
    fn from_values(values: &[Vec<f64>]) -> AllPairs {
        let pair = |earlier: &Vec<f64>, later: &Vec<f64>| {
            let LogRatios { d, excluded_rounds } = log_ratios(earlier, later);
            let averages = WalshAverages::new(d);
            PairRatios { estimate: averages.as_ref().map(WalshAverages::estimate), averages, excluded_rounds }
        };
        let row = |j: usize| values[..j].iter().map(|earlier| pair(earlier, &values[j])).collect();
        AllPairs { pairs: (0..values.len()).map(row).collect() }
    }

    /// The log ratios of two variants, whichever of them comes first.
    fn pair(&self, i: usize, j: usize) -> &PairRatios {
        &self.pairs[i.max(j)][i.min(j)]
    }

    /// The estimate of ln(j/i).
    fn log_ratio(&self, i: usize, j: usize) -> Option<f64> {
        self.pair(i, j).estimate.map(|estimate| if i < j { estimate } else { -estimate })
    }

    /// Whether the two have exactly the same values in all rounds that they share.
    fn are_equal(&self, i: usize, j: usize) -> bool {
        self.pair(i, j).averages.as_ref().is_some_and(|averages| averages.extremes() == (0.0, 0.0))
    }

    /// The ratio of j to i.
    fn ratio(&self, i: usize, j: usize) -> Option<Ratio> {
        let ratio = self.pair(i, j).averages.as_ref().map(Ratio::from_averages);
        if i < j { ratio } else { ratio.map(|ratio| ratio.inverse()) }
    }

    /// Whether the two differ significantly: [`Ratio::is_significant`] of their ratio, but without computing the interval.
    fn differs(&self, i: usize, j: usize) -> bool {
        i != j && self.pair(i, j).averages.as_ref().is_some_and(excludes_zero)
    }
}

/// The ranks of variants in this order: 1, 1, 3 if the first two have equal values.
fn ranks_in_order(pairs: &AllPairs, order: &[usize]) -> Vec<usize> {
    let mut ranks: Vec<usize> = vec![];
    for (position, variant) in order.iter().enumerate() {
        let first_of_equals =
            ranks.last().map(|rank| rank - 1).filter(|first| pairs.are_equal(order[*first], *variant));
        ranks.push(first_of_equals.unwrap_or(position) + 1);
    }
    ranks
}

/// Sorts the variants that have data as [`Comparison::order`] describes it. `counts` has the number of values of each variant,
/// 0 for a reference.
fn sort_by_rank(pairs: &AllPairs, counts: &[usize], direction: Direction) -> Vec<usize> {
    let sign = if direction == Direction::Higher { -1.0 } else { 1.0 };
    // ln(other/variant), positive where the variant is better.
    let leads = |variant: usize| -> Vec<f64> {
        let others = (0..counts.len()).filter(|other| *other != variant && counts[*other] > 0);
        others.filter_map(|other| pairs.log_ratio(variant, other)).map(|lead| sign * lead).collect()
    };
    let enough_rounds = FIRST_LOOK_ROUNDS.min(counts.iter().copied().max().unwrap_or(0));
    let key = |variant: usize| {
        let leads = leads(variant);
        let wins = leads.iter().filter(|lead| **lead > 0.0).count();
        let mean = leads.iter().sum::<f64>() / leads.len().max(1) as f64;
        (counts[variant] >= enough_rounds, wins, mean)
    };
    let with_data = (0..counts.len()).filter(|variant| counts[*variant] > 0);
    let mut keyed: Vec<_> = with_data.map(|variant| (key(variant), variant)).collect();
    keyed.sort_by(|((a_has_enough, a_wins, a_mean), _), ((b_has_enough, b_wins, b_mean), _)| {
        (b_has_enough, b_wins).cmp(&(a_has_enough, a_wins)).then(b_mean.total_cmp(a_mean))
    });
    keyed.into_iter().map(|(_, variant)| variant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::noise::{Noise, Order, simulate_log_ratios};
    use crate::simulate::run_rng;

    #[test]
    fn sorted_by_ratio_sorts_by_the_ratio_to_the_best() {
        let ratio = |value: f64| Some(Ratio { value, low: value, high: value, rounds: 9, provisional: false });
        let variant = |ratio| VariantResult { rounds: 9, ratio, ..VariantResult::default() };
        let variants = vec![variant(ratio(0.938)), variant(None), variant(ratio(1.2)), variant(ratio(1.1))];
        let order = vec![1, 0, 2, 3];
        let comparison = Comparison { variants, order, differs: vec![], direction: Direction::Lower };
        assert_eq!(comparison.sorted_by_ratio(), [0, 1, 3, 2]);
        let higher = Comparison { direction: Direction::Higher, ..comparison };
        assert_eq!(higher.sorted_by_ratio(), [2, 3, 1, 0]);
    }

    /// The values of a variant in eight rounds, which drift alike for all variants, multiplied by the variant's own factor.
    fn drifting(factor: f64) -> Vec<f64> {
        (0..8).map(|round| factor * (1.0 + f64::from(round))).collect()
    }

    #[test]
    fn pairs_differ_if_and_only_if_their_interval_excludes_one() {
        // Each variant is 1% slower than the one before, with noise of about that size: some pairs differ significantly and
        // some do not.
        let values_of = |variant: u64| -> Vec<f64> {
            let noise = simulate_log_ratios(Noise::Normal, Order::Random, 30, &mut run_rng(7, variant));
            noise.iter().map(|d| (variant as f64 * 0.01 + d).exp()).collect()
        };
        let values: Vec<Vec<f64>> = (0..6).map(values_of).collect();
        let result = compare(&values, Direction::Lower);
        let excludes_one = |i: usize, j: usize| {
            Ratio::from_log_ratios(log_ratios(&values[i], &values[j]).d).is_some_and(|ratio| ratio.is_significant())
        };
        let expected: Vec<Vec<bool>> =
            (0..6).map(|i| (0..6).map(|j| i != j && excludes_one(i.min(j), i.max(j))).collect()).collect();
        assert_eq!(result.differs, expected);
        assert!(expected[0].contains(&true) && expected[0][1..].contains(&false), "{expected:?}");
    }

    #[test]
    fn drift_that_all_variants_share_does_not_matter() {
        let result = compare(&[drifting(3.0), drifting(2.0), drifting(4.0)], Direction::Lower);
        assert_eq!(result.order, [1, 0, 2]);
        assert_eq!(result.winner(), Some(1));
        assert_eq!(result.variants[1].median, Some(9.0));
        let ratio = result.variants[0].ratio.unwrap();
        assert!((ratio.value - 1.5).abs() < 1e-12 && (ratio.high - 1.5).abs() < 1e-12);
        assert_eq!(result.variants.iter().map(|variant| variant.letters.as_str()).collect::<Vec<_>>(), ["b", "a", "c"]);
    }

    #[test]
    fn with_direction_higher_the_largest_value_wins() {
        let result = compare(&[drifting(3.0), drifting(4.0)], Direction::Higher);
        assert_eq!(result.winner(), Some(1));
        assert!((result.variants[0].ratio.unwrap().value - 0.75).abs() < 1e-12);
    }

    #[test]
    fn a_neutral_metric_has_no_winner() {
        assert_eq!(compare(&[drifting(3.0), drifting(4.0)], Direction::Neutral).winner(), None);
    }

    #[test]
    fn a_variant_that_left_early_does_not_affect_the_winner() {
        let mut early = vec![f64::NAN; 8];
        early[0] = 0.001;
        let result = compare(&[early, drifting(2.0), drifting(3.0), vec![f64::NAN; 8]], Direction::Lower);
        assert_eq!(result.order, [1, 2, 0]);
        assert_eq!((result.winner(), result.with_too_few_rounds()), (Some(1), vec![0]));
        assert_eq!(result.variants[3], VariantResult::default());
    }

    #[test]
    fn variants_with_equal_values_share_a_rank() {
        let result = compare(&[drifting(3.0), drifting(2.0), drifting(2.0), drifting(3.0)], Direction::Lower);
        let ranks: Vec<Option<usize>> = result.variants.iter().map(|variant| variant.rank).collect();
        assert_eq!(ranks, [Some(3), Some(1), Some(1), Some(3)]);
        assert_eq!((result.sole_best(), result.winner(), result.best()), (None, None, Some(1)));
        let letters: Vec<&str> = result.variants.iter().map(|variant| variant.letters.as_str()).collect();
        assert_eq!(letters, ["b", "a", "a", "b"]);
        // This holds also with fewer rounds than a verdict requires.
        let few = compare(&[vec![2.0; 3], vec![2.0; 3], vec![2.1; 3]], Direction::Lower);
        assert_eq!((few.sole_best(), few.variants[1].rank, few.variants[2].rank), (None, Some(1), Some(3)));
        assert_eq!(compare(&[drifting(3.0), drifting(2.0)], Direction::Lower).sole_best(), Some(1));
    }

    #[test]
    fn the_mean_counts_stalls_that_the_typical_ratio_does_not() {
        let stalled: Vec<f64> = (0..24).map(|round| if round % 8 == 7 { 1.6 } else { 1.0 }).collect();
        let result = compare(&[vec![1.0; 24], stalled], Direction::Lower);
        let variant = &result.variants[1];
        assert_eq!(variant.ratio.unwrap().value, 1.0);
        assert!((variant.mean_ratio.unwrap().value - 1.075).abs() < 1e-12);
        assert_eq!(result.variants[0].mean_ratio, None);
    }

    #[test]
    fn with_seven_rounds_there_is_no_winner() {
        let result = compare(&[vec![1.0; 7], vec![9.0; 7]], Direction::Lower);
        assert!(result.is_provisional());
        assert_eq!((result.best(), result.winner()), (Some(0), None));
        assert_eq!(result.variants[1].letters, "a");
    }

    #[test]
    fn variants_without_data_have_no_best() {
        let result = compare(&[vec![], vec![]], Direction::Lower);
        assert_eq!((result.best(), result.winner()), (None, None));
        assert!(compare(&[], Direction::Lower).variants.is_empty());
    }
}
