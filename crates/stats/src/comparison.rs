//! All arms against each other on one quantity.

use crate::letters;
use crate::pairs::{self, Pairs};
use crate::ratio::Ratio;
use crate::sequential::{lies_above, lies_below};
use crate::table::{self, FIRST_LOOK};
use crate::walsh::Walsh;
use fsarena_core::sample::Direction;

/// How the arms compare on one step or composite.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// One entry an arm, in the order of the run's arms.
    pub arms: Vec<ArmResult>,
    /// The arms that have data, best first; the first of them is what ratios refer to.
    ///
    /// The rule: the arm that beats most others in paired comparison (Copeland), ties broken by the mean
    /// log ratio to all others, then by the order of the plan. An arm with too few blocks never comes
    /// before one with enough.
    pub order: Vec<usize>,
    /// Whether two arms were told apart at 95%, pair by pair, not corrected for the number of pairs.
    pub separated: Vec<Vec<bool>>,
    /// Which way is better.
    pub direction: Direction,
}

/// One arm in a comparison.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ArmResult {
    /// Blocks that have a value of it.
    pub blocks: usize,
    /// The median of these values, in the metric's unit.
    pub median: Option<f64>,
    /// Its value over the best arm's, in the blocks that have both. None for the best arm itself, and
    /// where they share no block.
    pub ratio: Option<Ratio>,
    /// Blocks shared with the best arm that a zero or negative value made useless.
    pub excluded: usize,
    /// The letters of [`crate::letters`].
    pub letters: String,
}

/// Compares arms. `values[arm][block]` is NaN where the block lacks the arm.
pub fn compare(values: &[Vec<f64>], direction: Direction) -> Comparison {
    let pairs = AllPairs::of(values);
    let counts: Vec<usize> = values.iter().map(|v| v.iter().filter(|v| !v.is_nan()).count()).collect();
    let order = ranking(&pairs, &counts, direction);
    let arms = 0..values.len();
    let separated: Vec<Vec<bool>> =
        arms.clone().map(|i| arms.clone().map(|j| pairs.separated(i, j)).collect()).collect();
    let letters = letters::assign(&separated, &order);
    let best = order.first().copied();
    let arms = letters
        .into_iter()
        .enumerate()
        .map(|(arm, letters)| {
            let best = best.filter(|best| *best != arm);
            ArmResult {
                blocks: counts[arm],
                median: median(&values[arm]),
                ratio: best.and_then(|best| pairs.ratio(best, arm)),
                excluded: best.map_or(0, |best| pairs.get(best, arm).excluded),
                letters,
            }
        })
        .collect();
    Comparison { arms, order, separated, direction }
}

impl Comparison {
    /// Whether any arm has a ratio to another. Values of zero have none.
    pub fn compares(&self) -> bool {
        self.arms.iter().any(|arm| arm.ratio.is_some())
    }

    /// The arm that ratios refer to.
    pub fn best(&self) -> Option<usize> {
        self.order.first().copied()
    }

    /// The same without any word on which arm is better: medians alone.
    pub fn unranked(self) -> Comparison {
        let median_alone =
            |arm: ArmResult| ArmResult { blocks: arm.blocks, median: arm.median, ..Default::default() };
        Comparison {
            arms: self.arms.into_iter().map(median_alone).collect(),
            order: vec![],
            separated: vec![],
            direction: self.direction,
        }
    }

    /// Whether no pair of arms has enough blocks for an exact interval.
    pub fn provisional(&self) -> bool {
        self.judged().next().is_none()
    }

    /// The arms other than the best with an exact interval, in order.
    fn judged(&self) -> impl Iterator<Item = usize> + '_ {
        let exact = |arm: &usize| self.arms[*arm].ratio.is_some_and(|ratio| !ratio.provisional);
        self.order.iter().skip(1).copied().filter(exact)
    }

    /// The arms that the best was not told apart from, in order. Arms with too few blocks are not among
    /// them: see [`Comparison::thin`].
    pub fn tied(&self) -> Vec<usize> {
        self.judged().filter(|arm| !self.arms[*arm].ratio.is_some_and(|ratio| ratio.separated())).collect()
    }

    /// The arm told apart from every other that has enough blocks; there must be such another.
    pub fn winner(&self) -> Option<usize> {
        let decided = self.direction != Direction::Neutral && !self.provisional() && self.tied().is_empty();
        self.best().filter(|_| decided)
    }

    /// The arms with data but too few blocks shared with the best to be judged.
    pub fn thin(&self) -> Vec<usize> {
        let judged: Vec<usize> = self.judged().collect();
        self.order.iter().skip(1).copied().filter(|arm| !judged.contains(arm)).collect()
    }
}

/// Two arms, block by block.
struct Pair {
    /// The averages of the log ratios of the later arm to the earlier one; none where they share no block.
    averages: Option<Walsh>,
    /// Their Hodges–Lehmann estimate.
    estimate: Option<f64>,
    excluded: usize,
}

/// Every pair of arms. Only those with the best get intervals; of the others it is enough to know whether they are told
/// apart, which takes one count.
struct AllPairs {
    /// `[later][earlier]`.
    pairs: Vec<Vec<Pair>>,
}

impl AllPairs {
    fn of(values: &[Vec<f64>]) -> AllPairs {
        let pair = |earlier: &Vec<f64>, later: &Vec<f64>| {
            let Pairs { d, excluded } = pairs::log_ratios(earlier, later);
            let averages = Walsh::new(d);
            Pair { estimate: averages.as_ref().map(Walsh::estimate), averages, excluded }
        };
        let row = |j: usize| values[..j].iter().map(|earlier| pair(earlier, &values[j])).collect();
        AllPairs { pairs: (0..values.len()).map(row).collect() }
    }

    fn get(&self, i: usize, j: usize) -> &Pair {
        &self.pairs[i.max(j)][i.min(j)]
    }

    /// ln(j/i), estimated.
    fn log_ratio(&self, i: usize, j: usize) -> Option<f64> {
        self.get(i, j).estimate.map(|estimate| if i < j { estimate } else { -estimate })
    }

    /// j over i.
    fn ratio(&self, i: usize, j: usize) -> Option<Ratio> {
        let ratio = self.get(i, j).averages.as_ref().map(Ratio::of_averages);
        if i < j { ratio } else { ratio.map(|ratio| ratio.inverse()) }
    }

    /// Whether the interval of their ratio leaves out 1: as [`Ratio::separated`], without working out the interval.
    fn separated(&self, i: usize, j: usize) -> bool {
        if i == j {
            return false;
        }
        self.get(i, j).averages.as_ref().is_some_and(|averages| {
            table::at(averages.values()).is_some_and(|look| {
                lies_above(averages, look.c05, 0.0) || lies_below(averages, look.c05, 0.0)
            })
        })
    }
}

/// The order of [`Comparison::order`].
fn ranking(pairs: &AllPairs, counts: &[usize], direction: Direction) -> Vec<usize> {
    let sign = if direction == Direction::Higher { -1.0 } else { 1.0 };
    // ln(other/arm), positive where the arm is better.
    let leads = |arm: usize| -> Vec<f64> {
        let others = (0..counts.len()).filter(|other| *other != arm);
        others.filter_map(|other| pairs.log_ratio(arm, other)).map(|lead| sign * lead).collect()
    };
    let enough = FIRST_LOOK.min(counts.iter().copied().max().unwrap_or(0));
    let key = |arm: usize| {
        let leads = leads(arm);
        let wins = leads.iter().filter(|lead| **lead > 0.0).count();
        let mean = leads.iter().sum::<f64>() / leads.len().max(1) as f64;
        (counts[arm] >= enough, wins, mean)
    };
    let mut keyed: Vec<_> =
        (0..counts.len()).filter(|arm| counts[*arm] > 0).map(|arm| (key(arm), arm)).collect();
    keyed.sort_by(|((a_enough, a_wins, a_mean), _), ((b_enough, b_wins, b_mean), _)| {
        (b_enough, b_wins).cmp(&(a_enough, a_wins)).then(b_mean.total_cmp(a_mean))
    });
    keyed.into_iter().map(|(_, arm)| arm).collect()
}

/// The median of the values that are there: the mean of the two middle ones where their number is even.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[n / 2]),
        n => Some(values[n / 2 - 1] / 2.0 + values[n / 2] / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::noise::{Noise, Order, differences};
    use crate::simulate::stream;

    /// Eight blocks of a value that drifts, times the arm's own factor.
    fn drifting(factor: f64) -> Vec<f64> {
        (0..8).map(|block| factor * (1.0 + f64::from(block))).collect()
    }

    #[test]
    fn pairs_are_told_apart_as_their_intervals_say() {
        // Arms a per cent apart, with noise of about that size: some pairs are told apart and some are not.
        let arm = |arm: u64| -> Vec<f64> {
            let noise = differences(Noise::Normal, Order::Random, 30, &mut stream(7, arm));
            noise.iter().map(|d| (arm as f64 * 0.01 + d).exp()).collect()
        };
        let values: Vec<Vec<f64>> = (0..6).map(arm).collect();
        let result = compare(&values, Direction::Lower);
        let told = |i: usize, j: usize| {
            Ratio::of(pairs::log_ratios(&values[i], &values[j]).d).is_some_and(|ratio| ratio.separated())
        };
        let expected: Vec<Vec<bool>> =
            (0..6).map(|i| (0..6).map(|j| i != j && told(i.min(j), i.max(j))).collect()).collect();
        assert_eq!(result.separated, expected);
        assert!(expected[0].contains(&true) && expected[0][1..].contains(&false), "{expected:?}");
    }

    #[test]
    fn drift_that_all_arms_share_does_not_matter() {
        let result = compare(&[drifting(3.0), drifting(2.0), drifting(4.0)], Direction::Lower);
        assert_eq!(result.order, [1, 0, 2]);
        assert_eq!(result.winner(), Some(1));
        assert_eq!(result.arms[1].median, Some(9.0));
        let ratio = result.arms[0].ratio.unwrap();
        assert!((ratio.value - 1.5).abs() < 1e-12 && (ratio.high - 1.5).abs() < 1e-12);
        assert_eq!(result.arms.iter().map(|a| a.letters.as_str()).collect::<Vec<_>>(), ["b", "a", "c"]);
    }

    #[test]
    fn more_can_be_better() {
        let result = compare(&[drifting(3.0), drifting(4.0)], Direction::Higher);
        assert_eq!(result.winner(), Some(1));
        assert!((result.arms[0].ratio.unwrap().value - 0.75).abs() < 1e-12);
    }

    #[test]
    fn a_circumstance_has_no_winner() {
        assert_eq!(compare(&[drifting(3.0), drifting(4.0)], Direction::Neutral).winner(), None);
    }

    #[test]
    fn an_arm_that_left_early_neither_wins_nor_keeps_others_from_it() {
        let mut early = vec![f64::NAN; 8];
        early[0] = 0.001;
        let result = compare(&[early, drifting(2.0), drifting(3.0), vec![f64::NAN; 8]], Direction::Lower);
        assert_eq!(result.order, [1, 2, 0]);
        assert_eq!((result.winner(), result.thin()), (Some(1), vec![0]));
        assert_eq!(result.arms[3], ArmResult::default());
    }

    #[test]
    fn few_blocks_decide_nothing() {
        let result = compare(&[vec![1.0; 7], vec![9.0; 7]], Direction::Lower);
        assert!(result.provisional());
        assert_eq!((result.best(), result.winner()), (Some(0), None));
        assert_eq!(result.arms[1].letters, "a");
    }

    #[test]
    fn nothing_at_all() {
        let result = compare(&[vec![], vec![]], Direction::Lower);
        assert_eq!((result.best(), result.winner()), (None, None));
        assert!(compare(&[], Direction::Lower).arms.is_empty());
    }
}
