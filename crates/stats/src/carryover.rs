//! The test for carry-over: whether the values of a variant depend on the variant that ran before it. [`crate::modes`] uses the
//! same randomisation test of the order of variants.
//!
//! The null hypothesis is that the order does not matter. Then every other random order would have given the same values, so
//! the statistic of the recorded order is compared with those of random orders. Such a test is exact for any noise (Fisher
//! 1935).

use crate::average::{logs, mean};
use crate::critical_values::FIRST_LOOK_ROUNDS;
use fsarena_core::schedule::{mix, order_of_round};

/// The number of random orders. For a significant result, the statistic of the recorded order must exceed 95% of theirs.
const DRAWS: usize = 199;
/// The level of the test.
const ALPHA: f64 = 0.05;

/// The largest number of rounds that the test uses, because more take long and show little more.
const MAX_ROUNDS: usize = 2_000;

/// The effect of the variant that ran before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Carryover {
    /// The variant after which the values differ most.
    pub predecessor: usize,
    /// The difference after this variant, as a fraction.
    pub relative_change: f64,
    /// Whether the values depend on the variant before at all, at 95%. This is a test of all predecessors together, not of
    /// this one.
    pub is_significant: bool,
}

/// Tests `values[variant][round]`, given `orders`: the variants (indices of `values`) of each round in the order in which they
/// ran. `values` and `orders` must have the same rounds; only the first 2,000 are used. None for fewer than eight rounds or two
/// variants, or if no variant has a predecessor with values.
pub fn find_carryover(values: &[Vec<f64>], orders: &[Vec<usize>], seed: u64) -> Option<Carryover> {
    if orders.len() < FIRST_LOOK_ROUNDS || values.len() < 2 {
        return None;
    }
    let orders = &orders[..orders.len().min(MAX_ROUNDS)];
    let values: Vec<&[f64]> = values.iter().map(|rounds| &rounds[..rounds.len().min(MAX_ROUNDS)]).collect();
    let residuals = log_residuals(&values);
    let (_, predecessor, log_change) = predecessor_statistic(&residuals, orders)?;
    let statistic: Box<OrderStatistic> =
        Box::new(|orders| predecessor_statistic(&residuals, orders).map_or(0.0, |(statistic, ..)| statistic));
    let is_significant = order_p_values(orders, seed, DRAWS, &[statistic])[0] <= ALPHA;
    Some(Carryover { predecessor, relative_change: log_change.exp_m1(), is_significant })
}

/// The logarithms minus the means of their round and of their variant; NaN for a missing value.
fn log_residuals(values: &[&[f64]]) -> Vec<Vec<f64>> {
    let mut logs = logs(values);
    let is_known = |x: &f64| x.is_finite();
    for column in 0..logs.first().map_or(0, Vec::len) {
        let mean = mean(logs.iter().map(|rounds| rounds[column]).filter(is_known));
        for rounds in &mut logs {
            rounds[column] -= mean;
        }
    }
    for rounds in &mut logs {
        let mean = mean(rounds.iter().copied().filter(is_known));
        rounds.iter_mut().for_each(|x| *x -= mean);
    }
    logs
}

/// Returns the statistic of the test, the variant with the largest effect on its successors, and this effect. The effect of a
/// variant is the mean residual of the values that follow the variant, minus the mean residual of those that follow others. The
/// statistic is Σ sᵥ²/nᵥ over the predecessors v, where sᵥ is the sum of the residuals of the nᵥ values that follow v.
fn predecessor_statistic(residuals: &[Vec<f64>], orders: &[Vec<usize>]) -> Option<(f64, usize, f64)> {
    // By predecessor: the sum and the number of the residuals that follow it.
    let mut sums_and_counts = vec![(0.0, 0.0); residuals.len()];
    for (column, (order, predecessors)) in orders.iter().zip(predecessors(orders)).enumerate() {
        for (variant, predecessor) in order.iter().zip(predecessors) {
            let value = residuals[*variant][column];
            if let Some(predecessor) = predecessor.filter(|_| value.is_finite()) {
                let (sum, count): &mut (f64, f64) = &mut sums_and_counts[predecessor];
                (*sum, *count) = (*sum + value, *count + 1.0);
            }
        }
    }
    let total_sum: f64 = sums_and_counts.iter().map(|(sum, _)| sum).sum();
    let total_count: f64 = sums_and_counts.iter().map(|(_, count)| count).sum();
    let statistic =
        sums_and_counts.iter().filter(|(_, count)| *count > 0.0).map(|(sum, count)| sum * sum / count).sum();
    let effect = |(sum, count): &(f64, f64)| sum / count - (total_sum - sum) / (total_count - count);
    let effects = sums_and_counts.iter().map(effect).enumerate().filter(|(_, effect)| effect.is_finite());
    let (predecessor, effect) = effects.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    Some((statistic, predecessor, effect))
}

/// The same rounds in randomly drawn orders, which depend only on the seed and the number of the draw.
fn draw_orders(orders: &[Vec<usize>], seed: u64, draw: usize) -> Vec<Vec<usize>> {
    let shuffled = |(round, order): (usize, &Vec<usize>)| {
        let places = order_of_round(mix(seed, draw as u64), round as u32, order.len());
        places.into_iter().map(|place| order[place]).collect()
    };
    orders.iter().enumerate().map(shuffled).collect()
}

/// A number computed from the orders of all rounds.
pub(crate) type OrderStatistic<'s> = dyn Fn(&[Vec<usize>]) -> f64 + 's;

/// The p-value of each of some statistics of the order: the share of orders whose value is at least as large as the value of
/// the recorded order. The orders are the recorded one and `draws` drawn ones; all statistics are computed of the same orders.
pub(crate) fn order_p_values(
    orders: &[Vec<usize>],
    seed: u64,
    draws: usize,
    statistics: &[Box<OrderStatistic<'_>>],
) -> Vec<f64> {
    if statistics.is_empty() {
        return vec![];
    }
    // An order that was drawn again must count as equally large, although its sums may be rounded differently. So the statistic
    // of the recorded order is lowered slightly.
    let recorded: Vec<f64> = statistics.iter().map(|statistic| statistic(orders) - 1e-12).collect();
    // Of the recorded order and the drawn ones.
    let mut as_large = vec![1; statistics.len()];
    for draw in 1..=draws {
        let drawn = draw_orders(orders, seed, draw);
        for ((statistic, recorded), as_large) in statistics.iter().zip(&recorded).zip(&mut as_large) {
            *as_large += usize::from(statistic(&drawn) >= *recorded);
        }
    }
    as_large.into_iter().map(|as_large| as_large as f64 / (1 + draws) as f64).collect()
}

/// For each cell the variant that ran before it: `[round][place]`. The last variant of a round precedes the first of the next.
pub(crate) fn predecessors(orders: &[Vec<usize>]) -> Vec<Vec<Option<usize>>> {
    let mut last = None;
    let mut step = |variant: &usize| last.replace(*variant);
    orders.iter().map(|order| order.iter().map(&mut step).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(rounds: u32) -> Vec<Vec<usize>> {
        (0..rounds).map(|round| order_of_round(7, round, 3)).collect()
    }

    /// The values of three variants with 1% of noise, multiplied by `factor_after_1` if variant 1 ran before.
    fn values(orders: &[Vec<usize>], factor_after_1: f64) -> Vec<Vec<f64>> {
        let mut values = vec![vec![f64::NAN; orders.len()]; 3];
        let mut before = 0;
        for (column, order) in orders.iter().enumerate() {
            for variant in order {
                let noise = mix(column as u64, *variant as u64) % 21;
                let factor = if before == 1 { factor_after_1 } else { 1.0 };
                values[*variant][column] = factor * (1.0 + *variant as f64) * (0.99 + noise as f64 / 1000.0);
                before = *variant;
            }
        }
        values
    }

    #[test]
    fn a_planted_carry_over_is_found_with_its_size() {
        let orders = orders(16);
        let found = find_carryover(&values(&orders, 1.2), &orders, 1).unwrap();
        assert!(found.is_significant && found.predecessor == 1, "{found:?}");
        assert!((0.1..0.25).contains(&found.relative_change), "{found:?}");
        assert!(!find_carryover(&values(&orders, 1.0), &orders, 1).unwrap().is_significant);
        assert_eq!(find_carryover(&values(&orders[..7], 1.2), &orders[..7], 1), None);
    }

    #[test]
    fn the_predecessor_statistic_matches_values_computed_by_hand() {
        // Round 1 runs variant 0, then 1; round 2 runs 1, then 0. Variant 0 is followed by variant 1 (residual 0.3), and at the
        // end by none. Variant 1 is followed by variant 1 (0.1) and variant 0 (−0.2).
        let residuals = [vec![0.5, -0.2], vec![0.3, 0.1]];
        let (statistic, predecessor, effect) = predecessor_statistic(&residuals, &[vec![0, 1], vec![1, 0]]).unwrap();
        assert!((statistic - (0.09 + 0.01 / 2.0)).abs() < 1e-12);
        // With two predecessors, the effects of both have the same size.
        let expected = if predecessor == 0 { 0.3 + 0.05 } else { -0.05 - 0.3 };
        assert!((effect - expected).abs() < 1e-12, "{predecessor} {effect}");
    }

    #[test]
    fn the_last_variant_of_a_round_precedes_the_first_of_the_next() {
        assert_eq!(predecessors(&[vec![0, 1], vec![1, 0]]), [[None, Some(0)], [Some(1), Some(1)]]);
    }

    #[test]
    fn a_statistic_that_does_not_depend_on_the_order_has_a_p_value_of_one() {
        let orders = orders(8);
        // The second statistic is 1 for the recorded orders only.
        let statistics: [Box<OrderStatistic>; 2] =
            [Box::new(|_| 1.0), Box::new(|drawn| f64::from(u8::from(drawn == orders)))];
        assert_eq!(order_p_values(&orders, 1, 99, &statistics), [1.0, 0.01]);
    }
}
