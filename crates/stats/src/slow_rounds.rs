//! Finds slow rounds: rounds in which a variant takes much longer than its own median.
//!
//! The typical ratio of two variants hides rounds in which one of them stalls. Each round is compared with the variant's own
//! median, so that a variant that is always slow has no slow rounds.

use crate::average::median;
use crate::simulate::run_rng;
use fsarena_core::sample::Direction;
use rand::seq::SliceRandom;
use std::collections::BTreeSet;

/// A round is slow if it costs more than this many times the variant's own median.
pub const SLOW_FACTOR: f64 = 1.5;
/// The fewest rounds for which slow rounds can be found.
const MIN_ROUNDS: usize = 3;
/// The number of permutations in [`variants_with_more_slow_rounds`]. With 1,999, the critical value is exact at 5%.
const PERMUTATIONS: usize = 1_999;

/// The slow rounds of one variant.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SlowRounds {
    /// The number of rounds with a value.
    pub rounds: usize,
    /// The variant's median, in the unit of its values.
    pub median: f64,
    /// Each slow round, the slowest first.
    pub slow: Vec<SlowRound>,
}

/// A slow round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowRound {
    /// The index of the round in the values.
    pub column: usize,
    /// The value of the round.
    pub value: f64,
    /// Its cost relative to the median: the value divided by the median, or the inverse if higher values are better.
    pub factor: f64,
}

impl SlowRounds {
    /// The sum of the slow rounds' differences from the median, in the unit of the values.
    pub fn excess(&self) -> f64 {
        self.slow.iter().map(|round| (round.value - self.median).abs()).sum()
    }
}

/// Finds the slow rounds of a variant in its values by round; NaN marks a missing value. None for fewer than three rounds, if
/// the median is not above 0, or if neither direction is better.
pub fn find_slow_rounds(values: &[f64], direction: Direction) -> Option<SlowRounds> {
    let median = median(values).filter(|median| *median > 0.0 && direction != Direction::Neutral)?;
    let known = values.iter().enumerate().filter(|(_, value)| !value.is_nan());
    let factor = |value: f64| if direction == Direction::Higher { median / value } else { value / median };
    let round = |(column, value): (usize, &f64)| SlowRound { column, value: *value, factor: factor(*value) };
    let mut slow: Vec<SlowRound> = known.clone().map(round).filter(|round| round.factor > SLOW_FACTOR).collect();
    slow.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    let rounds = known.count();
    (rounds >= MIN_ROUNDS).then_some(SlowRounds { rounds, median, slow })
}

/// The variants that have significantly more slow rounds than the others, by index, from `values[variant][round]`: a
/// permutation test within rounds, for one look at the end of a run.
///
/// Each value is divided by the variant's own median. If all variants have slow rounds equally often, the divided values
/// within a round are exchangeable. So each draw permutes them within every round, and the statistic is the largest number
/// of slow rounds of a variant. A variant is returned if its own number exceeds 95% of the draws (Westfall and Young 1993,
/// maximum over variants). The probability that any returned variant is wrong is at most 5%.
pub fn variants_with_more_slow_rounds(values: &[Vec<f64>], direction: Direction, seed: u64) -> Vec<usize> {
    let mut rounds = rounds_with_slow_variants(values, direction);
    let observed = slow_round_counts(&rounds, values.len());
    let mut rng = run_rng(seed, 0);
    let mut draw_largest = || {
        rounds.iter_mut().for_each(|round| round.is_slow.shuffle(&mut rng));
        slow_round_counts(&rounds, values.len()).into_iter().max().unwrap_or(0)
    };
    let mut largest: Vec<usize> = (0..PERMUTATIONS).map(|_| draw_largest()).collect();
    largest.sort_unstable();
    // The ⌈0.95·(B + 1)⌉-th smallest of B draws is the exact critical value.
    let critical = largest[(0.95 * (PERMUTATIONS + 1) as f64).ceil() as usize - 1];
    (0..values.len()).filter(|variant| observed[*variant] > critical).collect()
}

/// A round in which some variant was slow.
#[derive(Clone, Default)]
struct RoundWithSlowVariants {
    /// The variants with a value.
    variants: Vec<usize>,
    /// Whether each of them was slow.
    is_slow: Vec<bool>,
}

/// The rounds in which some variant was slow, without the variants that [`find_slow_rounds`] returns None for.
fn rounds_with_slow_variants(values: &[Vec<f64>], direction: Direction) -> Vec<RoundWithSlowVariants> {
    let columns = values.iter().map(Vec::len).max().unwrap_or(0);
    let mut rounds = vec![RoundWithSlowVariants::default(); columns];
    for (variant, values) in values.iter().enumerate() {
        let Some(found) = find_slow_rounds(values, direction) else { continue };
        let slow_columns: BTreeSet<usize> = found.slow.iter().map(|slow| slow.column).collect();
        for (column, _) in values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
            rounds[column].variants.push(variant);
            rounds[column].is_slow.push(slow_columns.contains(&column));
        }
    }
    rounds.retain(|round| round.is_slow.contains(&true));
    rounds
}

/// The number of slow rounds of each variant.
fn slow_round_counts(rounds: &[RoundWithSlowVariants], variants: usize) -> Vec<usize> {
    let mut counts = vec![0; variants];
    for RoundWithSlowVariants { variants, is_slow } in rounds {
        variants.iter().zip(is_slow).for_each(|(variant, is_slow)| counts[*variant] += usize::from(*is_slow));
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::count_runs;
    use rand::RngExt;

    #[test]
    fn one_slow_round_of_21_is_found() {
        let mut values = vec![0.7; 22];
        values[9] = 20.97;
        values[3] = f64::NAN;
        let found = find_slow_rounds(&values, Direction::Lower).unwrap();
        assert_eq!((found.rounds, found.median, found.slow.len()), (21, 0.7, 1));
        let slow = found.slow[0];
        assert_eq!((slow.column, slow.value), (9, 20.97));
        assert!((slow.factor - 29.957).abs() < 0.001 && (found.excess() - 20.27).abs() < 1e-9);
    }

    #[test]
    fn slow_is_above_one_and_a_half_times_the_median() {
        let count = |values: &[f64], direction| find_slow_rounds(values, direction).map(|found| found.slow.len());
        assert_eq!(count(&[1.0, 1.0, 1.5, 1.0], Direction::Lower), Some(0));
        assert_eq!(count(&[1.0, 1.0, 1.51, 2.0, 1.0], Direction::Lower), Some(2));
        // For a throughput, less than two thirds of the median is slow.
        assert_eq!(count(&[900.0, 900.0, 590.0, 2000.0, 0.0], Direction::Higher), Some(2));
        for (values, direction) in
            [(vec![1.0, 9.0], Direction::Lower), (vec![0.0; 9], Direction::Lower), (vec![1.0; 9], Direction::Neutral)]
        {
            assert_eq!(count(&values, direction), None);
        }
    }

    /// Simulated values of variants; each stalls in a given share of the rounds.
    fn simulated_values(stalls: &[f64], rounds: usize, run: u64) -> Vec<Vec<f64>> {
        let mut rng = run_rng(9, run);
        let mut value = |stalls: f64| if rng.random_bool(stalls) { 3.0 } else { 1.0 + 0.1 * rng.random::<f64>() };
        stalls.iter().map(|stalls| (0..rounds).map(|_| value(*stalls)).collect()).collect()
    }

    #[test]
    fn a_variant_that_stalls_more_often_is_returned() {
        assert_eq!(
            variants_with_more_slow_rounds(&simulated_values(&[0.0, 0.3, 0.0], 40, 1), Direction::Lower, 1),
            [1]
        );
        // Three stalls of one of two variants happen by chance in one of four runs.
        let mut three = vec![vec![1.0; 24]; 2];
        [4, 11, 19].into_iter().for_each(|round| three[1][round] = 1.6);
        assert!(variants_with_more_slow_rounds(&three, Direction::Lower, 1).is_empty());
        assert!(variants_with_more_slow_rounds(&three[..1], Direction::Lower, 1).is_empty());
        assert!(variants_with_more_slow_rounds(&[], Direction::Lower, 1).is_empty());
    }

    #[test]
    fn variants_that_stall_equally_often_are_rarely_returned() {
        // The last variant is always seven times as slow, which its own median removes.
        let returns_any = |run: u64| {
            let mut values = simulated_values(&[0.1, 0.1, 0.1], 40, run);
            values[2].iter_mut().for_each(|value| *value *= 7.0);
            !variants_with_more_slow_rounds(&values, Direction::Lower, run).is_empty()
        };
        let wrong = count_runs(200, returns_any);
        assert!(wrong <= 22, "{wrong} of 200: P(more than 22) is under 1 in 500 at 5%");
    }
}
