//! Tests for carry-over: whether the values of a variant depend on the variant that ran before it. Other modules use its
//! randomisation test of the order of variants too.
//!
//! The null hypothesis is that the order does not matter. Then every other random order would have given the same values, so
//! the statistic of the recorded order is compared with those of random orders. Such a test is exact for any noise (Fisher
//! 1935).

use crate::average::{logs, mean};
use crate::critical_values::FIRST_LOOK_ROUNDS;
use fsarena_core::schedule::{mix, order_of_round};

/// The number of random orders. The statistic of the recorded order must exceed those of 95% of them.
const DRAWS: usize = 199;
/// The level of the test.
const ALPHA: f64 = 0.05;

/// The largest number of rounds that the test uses, because more take long and show little more.
const MAX_ROUNDS: usize = 2_000;

/// The effect of the variant that ran before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Carryover {
    /// The variant after which the values differ most.
    pub after: usize,
    /// The difference after this variant, as a fraction.
    pub change: f64,
    /// Whether the difference is significant at 95%.
    pub significant: bool,
}

/// Tests `values[variant][round]`, given the variants of each round in the order in which they ran. Uses the first 2,000 rounds
/// at most. None for fewer than eight rounds or two variants, or if no variant has a predecessor with values.
pub fn carryover(values: &[Vec<f64>], orders: &[Vec<usize>], seed: u64) -> Option<Carryover> {
    if orders.len() < FIRST_LOOK_ROUNDS || values.len() < 2 {
        return None;
    }
    let orders = &orders[..orders.len().min(MAX_ROUNDS)];
    let values: Vec<&[f64]> = values.iter().map(|rounds| &rounds[..rounds.len().min(MAX_ROUNDS)]).collect();
    let residuals = residuals(&values);
    let (_, after, log) = strongest_predecessor(&residuals, orders)?;
    let statistic =
        |orders: &[Vec<usize>]| strongest_predecessor(&residuals, orders).map_or(0.0, |(statistic, ..)| statistic);
    let significant = order_p_value(orders, seed, DRAWS, statistic) <= ALPHA;
    Some(Carryover { after, change: log.exp_m1(), significant })
}

/// The logarithms minus the means of their round and of their variant; NaN for a missing value.
fn residuals(values: &[&[f64]]) -> Vec<Vec<f64>> {
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

/// The statistic of the test, and the predecessor with the largest effect: its variant, and the mean residual of the variants
/// that follow it minus the mean residual of those that follow others. The statistic is Σ sᵥ²/nᵥ over the predecessors v, where
/// sᵥ is the sum of the residuals of the nᵥ values that follow v. The last variant of a round precedes the first of the next
/// round.
fn strongest_predecessor(residuals: &[Vec<f64>], orders: &[Vec<usize>]) -> Option<(f64, usize, f64)> {
    let mut sums = vec![(0.0, 0.0); residuals.len()];
    for (column, (order, before)) in orders.iter().zip(predecessors(orders)).enumerate() {
        for (variant, before) in order.iter().zip(before) {
            let value = residuals[*variant][column];
            if let Some(before) = before.filter(|_| value.is_finite()) {
                let (sum, count): &mut (f64, f64) = &mut sums[before];
                (*sum, *count) = (*sum + value, *count + 1.0);
            }
        }
    }
    let (total_sum, total_count) = sums.iter().fold((0.0, 0.0), |(all, n), (sum, count)| (all + sum, n + count));
    let statistic = sums.iter().filter(|(_, count)| *count > 0.0).map(|(sum, count)| sum * sum / count).sum();
    let change = |(sum, count): (f64, f64)| sum / count - (total_sum - sum) / (total_count - count);
    let changes = sums.iter().map(|sums| change(*sums)).enumerate().filter(|(_, change)| change.is_finite());
    let (after, change) = changes.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    Some((statistic, after, change))
}

/// The same rounds in randomly drawn orders, which depend only on the seed and the number of the draw.
fn drawn_orders(orders: &[Vec<usize>], seed: u64, draw: usize) -> Vec<Vec<usize>> {
    let shuffled = |(at, order): (usize, &Vec<usize>)| {
        let places = order_of_round(mix(seed, draw as u64), at as u32, order.len());
        places.into_iter().map(|place| order[place]).collect()
    };
    orders.iter().enumerate().map(shuffled).collect()
}

/// The p-value of a statistic of the order: the share of orders, among `draws` drawn ones and the recorded one, with a value
/// as large as that of the recorded one.
pub(crate) fn order_p_value(
    orders: &[Vec<usize>],
    seed: u64,
    draws: usize,
    statistic: impl Fn(&[Vec<usize>]) -> f64,
) -> f64 {
    // A draw of the same order must count, however its sum was rounded.
    let recorded = statistic(orders) - 1e-12;
    let is_as_large = |draw: &usize| statistic(&drawn_orders(orders, seed, *draw)) >= recorded;
    let as_large = (1..=draws).filter(is_as_large).count();
    (1 + as_large) as f64 / (1 + draws) as f64
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
        (0..rounds).map(|number| order_of_round(7, number, 3)).collect()
    }

    /// Three variants with 1% of noise, `after` times as slow after variant 1.
    fn values(orders: &[Vec<usize>], after: f64) -> Vec<Vec<f64>> {
        let mut values = vec![vec![f64::NAN; orders.len()]; 3];
        let mut before = 0;
        for (column, order) in orders.iter().enumerate() {
            for variant in order {
                let noise = mix(column as u64, *variant as u64) % 21;
                let slow = if before == 1 { after } else { 1.0 };
                values[*variant][column] = slow * (1.0 + *variant as f64) * (0.99 + noise as f64 / 1000.0);
                before = *variant;
            }
        }
        values
    }

    #[test]
    fn a_planted_carry_over_is_found_with_its_size() {
        let orders = orders(16);
        let found = carryover(&values(&orders, 1.2), &orders, 1).unwrap();
        assert!(found.significant && found.after == 1 && (0.1..0.25).contains(&found.change), "{found:?}");
        assert!(!carryover(&values(&orders, 1.0), &orders, 1).unwrap().significant);
        assert_eq!(carryover(&values(&orders[..7], 1.2), &orders[..7], 1), None);
    }

    #[test]
    fn the_strongest_predecessor_matches_values_computed_by_hand() {
        // 0 1 | 1 0: after 0 come 1 (0.3) and none, after 1 come 1 (0.1) and 0 (−0.2).
        let residuals = [vec![0.5, -0.2], vec![0.3, 0.1]];
        let (statistic, after, change) = strongest_predecessor(&residuals, &[vec![0, 1], vec![1, 0]]).unwrap();
        assert!((statistic - (0.09 + 0.01 / 2.0)).abs() < 1e-12);
        // Of two groups either differs from the other by as much.
        let expected = if after == 0 { 0.3 + 0.05 } else { -0.05 - 0.3 };
        assert!((change - expected).abs() < 1e-12, "{after} {change}");
    }

    #[test]
    fn the_last_variant_of_a_round_precedes_the_first_of_the_next() {
        assert_eq!(predecessors(&[vec![0, 1], vec![1, 0]]), [[None, Some(0)], [Some(1), Some(1)]]);
    }

    #[test]
    fn a_statistic_that_does_not_depend_on_the_order_has_a_p_value_of_one() {
        let orders: Vec<Vec<usize>> = (0..8).map(|number| order_of_round(7, number, 3)).collect();
        assert_eq!(order_p_value(&orders, 1, 99, |_| 1.0), 1.0);
        // The recorded orders themselves.
        let is_recorded = |drawn: &[Vec<usize>]| f64::from(u8::from(drawn == orders));
        assert_eq!(order_p_value(&orders, 1, 99, is_recorded), 0.01);
    }
}
