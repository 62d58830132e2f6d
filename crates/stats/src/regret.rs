//! What choosing a variant can cost: multiple comparisons with the best (Hsu 1981, "Simultaneous confidence intervals for
//! all distances from the best"), with bounds that may be looked at again and again.
//!
//! U_ij bounds ln(cost of i/cost of j) from above, at level 0.05/(K − 1). With b the best variant, every U_ib holds with 95%: so
//! does the regret of every variant at once, whichever is then chosen. The critical values of [`table::cautious_bound`] spend
//! half of that where they can, since the signed-rank test errs more often where the noise of two variants has other shapes.

use crate::mean_ratio::{FIRST_ROUND, SharedCosts};
use crate::table::{self, FIRST_LOOK};
use crate::{hodges_lehmann::Walsh, ranks::pairs, ratio::log_ratios};
use fsarena_core::sample::Direction;

/// The regret of every variant on one quantity.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Regrets {
    /// `bounds[i][j]`: U_ij. NaN where either has too few values to compare, infinite where they share no round.
    bounds: Vec<Vec<f64>>,
    /// Rounds of the pair that has fewest.
    pub rounds: usize,
    /// Rounds that the level requires; none where there are too many rivals.
    pub needed: Option<usize>,
    /// Too few rounds for the level: the bounds are the extremes that were seen.
    pub provisional: bool,
}

/// What a variant costs relative to another one: an interval of ln(its cost/the other's cost). Those of all pairs hold
/// together with 95%.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// The variant.
    pub variant: usize,
    /// Lower end of the interval; infinite where nothing bounds it.
    pub low: f64,
    /// Upper end, likewise.
    pub high: f64,
}

/// Which variants are compared.
struct Compared {
    /// The values of each variant above zero; none of a reference.
    counts: Vec<usize>,
    /// The bounds that share the 5%.
    rivals: usize,
}

impl Compared {
    fn of(values: &[Vec<f64>], references: &[usize], split: usize) -> Compared {
        let count = |(at, rounds): (usize, &Vec<f64>)| {
            rounds.iter().filter(|value| **value > 0.0 && !references.contains(&at)).count()
        };
        let counts: Vec<usize> = values.iter().enumerate().map(count).collect();
        let rivals = split.max(1) * counts.iter().filter(|count| **count > 0).count().saturating_sub(1);
        Compared { counts, rivals }
    }

    /// The pairs of variants that have `required` values, or where none has so many, as many as the one that has most.
    fn pairs(&self, required: usize) -> Vec<(usize, usize)> {
        let enough = required.min(self.counts.iter().copied().max().unwrap_or(0)).max(1);
        let live = |(i, j): &(usize, usize)| self.counts[*i].min(self.counts[*j]) >= enough;
        pairs(self.counts.len()).filter(live).collect()
    }
}

/// U_ij and U_ji from the ends of the interval of ln(value of i/value of j): where higher values are better, they are inverse to
/// costs.
fn of_costs(low: f64, high: f64, direction: Direction) -> (f64, f64) {
    if direction == Direction::Higher { (-low, high) } else { (high, -low) }
}

impl Regrets {
    /// The regrets from `values[variant][round]`, NaN where the round lacks the variant. Variants that left early, with fewer
    /// rounds than bounds require where others have them, are not compared, but count among the rivals. `references` are neither.
    /// Where the 5% are split among `split` runs, each has that part of them.
    pub fn compute(values: &[Vec<f64>], references: &[usize], direction: Direction, split: usize) -> Regrets {
        let compared = Compared::of(values, references, split);
        let rivals = compared.rivals;
        let needed = table::rounds_for_an_answer(rivals);
        let live = compared.pairs(needed.unwrap_or(FIRST_LOOK));
        let averages = |(i, j): (usize, usize)| (i, j, Walsh::new(log_ratios(&values[j], &values[i]).d));
        let pairs: Vec<(usize, usize, Option<Walsh>)> = live.into_iter().map(averages).collect();
        let rounds =
            pairs.iter().map(|(_, _, pair)| pair.as_ref().map_or(0, Walsh::values)).min().unwrap_or(0);
        let provisional = table::cautious_bound(rounds, rivals).is_none();
        let mut bounds = vec![vec![f64::NAN; values.len()]; values.len()];
        for (i, j, pair) in pairs {
            let (low, high) = match &pair {
                None => (f64::NEG_INFINITY, f64::INFINITY),
                Some(pair) => match table::cautious_bound(pair.values(), rivals).filter(|_| !provisional) {
                    Some(c) => pair.interval(c),
                    None => pair.extremes(),
                },
            };
            (bounds[i][j], bounds[j][i]) = of_costs(low, high, direction);
        }
        Regrets { bounds, rounds, needed, provisional }
    }

    /// The regrets by mean cost: U_ij bounds ln(mean cost of i/mean cost of j) from above, by [`SharedCosts::bounds`] at the same
    /// levels and looks. Variants that left early, with less than [`FIRST_ROUND`] rounds where others have them, are not compared.
    /// Provisional under that many rounds; a pair of which the interval is withheld bounds nothing.
    pub fn compute_by_mean(
        values: &[Vec<f64>],
        references: &[usize],
        direction: Direction,
        split: usize,
    ) -> Regrets {
        let compared = Compared::of(values, references, split);
        let rivals = compared.rivals;
        let live = compared.pairs(FIRST_ROUND).into_iter();
        let live: Vec<_> = live.map(|(i, j)| (i, j, SharedCosts::of(&values[j], &values[i]))).collect();
        let rounds =
            live.iter().map(|(_, _, costs)| costs.as_ref().map_or(0, SharedCosts::rounds)).min().unwrap_or(0);
        let needed = table::rounds_for_an_answer(rivals).map(|first| first.max(FIRST_ROUND));
        let provisional = needed.is_none_or(|needed| rounds < needed);
        let mut bounds = vec![vec![f64::NAN; values.len()]; values.len()];
        for (i, j, costs) in live {
            let interval = |costs: SharedCosts| {
                if provisional {
                    costs.extremes()
                } else {
                    costs.bounds(rivals).unwrap_or((0.0, f64::INFINITY))
                }
            };
            let (low, high) = costs.map_or((0.0, f64::INFINITY), interval);
            (bounds[i][j], bounds[j][i]) = of_costs(low.ln(), high.ln(), direction);
        }
        Regrets { bounds, rounds, needed, provisional }
    }

    /// Whether another variant costs less: with the same 95% confidence, this one is not the best.
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

    /// The bounds where the log ratios are `scale` times as large, and each variant costs the factor exp(`more`) more.
    pub(crate) fn rescaled(&self, scale: f64, more: impl Fn(usize) -> f64) -> Regrets {
        let bound = |i: usize, j: usize| scale * self.bounds[i][j] + more(i) - more(j);
        let all = 0..self.len();
        Regrets { bounds: all.clone().map(|i| all.clone().map(|j| bound(i, j)).collect()).collect(), ..*self }
    }

    /// Whether anything is known of a variant's cost relative to another one.
    pub fn compares(&self, variant: usize) -> bool {
        self.bounds[variant].iter().any(|bound| !bound.is_nan())
    }

    /// What a variant costs relative to another one.
    pub fn cost(&self, variant: usize, to: usize) -> Cost {
        Cost { variant, low: -self.bounds[to][variant], high: self.bounds[variant][to] }
    }

    /// The most that ln(cost of the variant/cost of the best) can be, 0 where all others cost more. Those that are not the
    /// best bound nothing, so that a variant that left early does not keep the regret of others up. None where nothing
    /// bounds it.
    pub fn of(&self, variant: usize) -> Option<f64> {
        let bounds = self.bounds.get(variant)?.iter().enumerate().filter(|(_, bound)| !bound.is_nan());
        let bounds = bounds.map(|(other, bound)| if self.is_dominated(other) { 0.0 } else { *bound });
        bounds.reduce(f64::max).filter(|most| most.is_finite()).map(|most| most.max(0.0))
    }

    /// The same among some of the variants: what choosing one of them can cost against the others of them.
    pub fn among(&self, variants: &[usize]) -> Regrets {
        let bound = |i: usize, j: usize| {
            if variants.contains(&i) && variants.contains(&j) { self.bounds[i][j] } else { f64::NAN }
        };
        let all = 0..self.bounds.len();
        let bounds = all.clone().map(|i| all.clone().map(|j| bound(i, j)).collect()).collect();
        Regrets { bounds, ..*self }
    }

    /// The variant with the least regret of those that can be the best; of equals the first in `order`.
    pub fn choose(&self, order: &[usize]) -> Option<usize> {
        let known = order
            .iter()
            .filter_map(|variant| Some((self.is_dominated(*variant), self.of(*variant)?, *variant)));
        known.min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))).map(|(_, _, variant)| variant)
    }

    /// The variants, in order of number, that differ from this one by less than `margin`, a logarithm, either way.
    pub fn equal(&self, choice: usize, margin: f64) -> Vec<usize> {
        let within = |i: usize, j: usize| self.bounds[i][j] < margin;
        let equal = |other: &usize| !self.provisional && within(choice, *other) && within(*other, choice);
        (0..self.bounds.len()).filter(equal).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::noise::{Noise, Order, differences};
    use crate::simulate::{parallel, stream};

    fn steady(factors: &[f64], rounds: usize) -> Vec<Vec<f64>> {
        factors.iter().map(|factor| vec![*factor; rounds]).collect()
    }

    #[test]
    fn the_regret_is_the_distance_to_the_best() {
        let regrets = Regrets::compute(&steady(&[1.0, 1.1, 1.005], 8), &[], Direction::Lower, 1);
        assert!(!regrets.provisional && regrets.rounds == 8);
        assert_eq!((regrets.of(0), regrets.choose(&[0, 1, 2])), (Some(0.0), Some(0)));
        assert!((regrets.of(1).unwrap() - 1.1f64.ln()).abs() < 1e-12);
        assert_eq!(regrets.equal(0, 0.01), [2]);
        assert_eq!(
            Regrets::compute(&steady(&[1.0, 1.1], 8), &[], Direction::Higher, 1).choose(&[0, 1]),
            Some(1)
        );
        assert!(
            Regrets::compute(&steady(&[1.0; 4], 9), &[], Direction::Lower, 1).provisional,
            "three rivals require ten rounds"
        );
        let of_two_runs = Regrets::compute(&steady(&[1.0, 1.1, 1.005], 9), &[], Direction::Lower, 2);
        assert!(of_two_runs.provisional, "half the error for each of two rivals is a quarter of it");
    }

    #[test]
    fn the_range_of_ten_rounds_by_hand() {
        // n = 10, one rival: c = 1. The Walsh averages of 0.01…0.10 end 0.09, 0.095, 0.1: w_(54) of 55 is 0.095.
        let values = [vec![1.0; 10], (1..=10).map(|i| (f64::from(i) / 100.0).exp()).collect()];
        let regrets = Regrets::compute(&values, &[], Direction::Lower, 1);
        assert_eq!(regrets.of(0), Some(0.0));
        assert!((regrets.of(1).unwrap() - 0.095).abs() < 1e-12, "{regrets:?}");
    }

    #[test]
    fn by_mean_stalls_cost_what_a_typical_round_does_not_show() {
        // The second is 2% faster in a typical round, and stalls to ten times its cost in one round of eight.
        let stalls: Vec<f64> = (0..96).map(|round| if round % 8 == 7 { 9.8 } else { 0.98 }).collect();
        let noisy: Vec<f64> = (0..96).map(|round| 1.0 + f64::from(round % 5) / 1000.0).collect();
        let values = [noisy, stalls];
        assert_eq!(Regrets::compute(&values, &[], Direction::Lower, 1).choose(&[0, 1]), Some(1));
        let means = Regrets::compute_by_mean(&values, &[], Direction::Lower, 1);
        assert!(!means.provisional && means.rounds == 96 && means.is_dominated(1));
        assert_eq!((means.of(0), means.choose(&[0, 1])), (Some(0.0), Some(0)));
        assert_eq!(Regrets::compute_by_mean(&values, &[], Direction::Higher, 1).choose(&[0, 1]), Some(1));
        let few = values.map(|rounds| rounds[..19].to_vec());
        let few = Regrets::compute_by_mean(&few, &[], Direction::Lower, 1);
        assert!(few.provisional && few.of(0).unwrap() > 0.0);
    }

    #[test]
    fn who_left_early_bounds_nothing() {
        // Variant 2 left after 12 rounds, each slower than 1; variant 0 was slower than 2 in nine of them, and then equal to 1:
        // 51 of 60 rounds, 1326 of 1830 averages of 0, where c = 542.
        let slow = |round: usize| (3..12).contains(&round);
        let first: Vec<f64> = (0..60).map(|round| if slow(round) { 2.5 } else { 1.0 }).collect();
        let late = (0..12).map(|round| if slow(round) { 2.0 } else { 1.001 });
        let late = late.chain([f64::NAN; 48]).collect();
        let regrets = Regrets::compute(&[first, vec![1.0; 60], late], &[], Direction::Lower, 1);
        assert_eq!([0, 1, 2].map(|variant| regrets.is_dominated(variant)), [false, false, true]);
        assert!((regrets.bounds[0][2] - 1.25f64.ln()).abs() < 1e-12, "{regrets:?}");
        assert_eq!((regrets.of(0), regrets.choose(&[2, 1, 0])), (Some(0.0), Some(1)));
    }

    #[test]
    fn who_left_before_bounds_exist_keeps_no_answer_back() {
        // Five variants require ten rounds; the last one failed after nine.
        let failed = [vec![1.3; 9], vec![f64::NAN; 15]].concat();
        let regrets = Regrets::compute(
            &[steady(&[1.0, 1.1, 1.2, 1.3], 24), vec![failed]].concat(),
            &[],
            Direction::Lower,
            1,
        );
        assert!(!regrets.provisional && regrets.rounds == 24 && regrets.is_dominated(1), "{regrets:?}");
        assert!(!regrets.compares(4));
    }

    #[test]
    fn nothing_to_compare_bounds_nothing() {
        let early = [vec![1.0; 9], vec![2.0; 9], [vec![0.5], vec![f64::NAN; 8]].concat()];
        let regrets = Regrets::compute(&early, &[], Direction::Lower, 1);
        assert_eq!((regrets.choose(&[2, 0, 1]), regrets.of(2)), (Some(0), None));
        let apart = [vec![1.0, f64::NAN], vec![f64::NAN, 1.0]];
        assert_eq!(Regrets::compute(&apart, &[], Direction::Lower, 1).choose(&[0, 1]), None);
        for values in [vec![], steady(&[1.0], 9), steady(&[0.0, 0.0], 9)] {
            assert_eq!(
                Regrets::compute(&values, &[], Direction::Lower, 1).choose(&[0, 1][..values.len()]),
                None
            );
        }
    }

    #[test]
    fn regrets_hold_for_all_variants_at_every_look() {
        // Five variants 0, ½, … 2% apart, the noise of each larger than that of the one before.
        let truth = |variant: usize| 0.005 * variant as f64;
        let exceeded = |run: u64| {
            let mut rng = stream(3, run);
            let series = |variant: usize| {
                let noise = differences(Noise::Spikes, Order::Random, 30, &mut rng);
                noise.iter().map(|d| (truth(variant) + d * (1.0 + 0.5 * variant as f64)).exp()).collect()
            };
            let values: Vec<Vec<f64>> = (0..5).map(series).collect();
            [10, 12, 15, 19, 24, 30].iter().any(|n| {
                let seen: Vec<Vec<f64>> = values.iter().map(|rounds| rounds[..*n].to_vec()).collect();
                let regrets = Regrets::compute(&seen, &[], Direction::Lower, 1);
                (0..5).any(|variant| regrets.of(variant).unwrap() < truth(variant))
            })
        };
        let wrong = parallel(100, exceeded).into_iter().filter(|wrong| *wrong).count();
        assert!(wrong <= 12, "{wrong} of 100: P(more than 12) is under 1 in 500 at 5%");
    }
}
