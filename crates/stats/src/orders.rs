//! The orders in which rounds ran their variants, and orders drawn again by the rule that drew them.
//!
//! If the order does not matter, every order could have given the same values: the recorded one has to stand out among
//! those drawn. Such a randomisation test is exact whatever the noise (Fisher 1935).

use fsarena_core::record::RunRecord;
use fsarena_core::schedule::{mix, round};
use std::collections::BTreeMap;

/// The variants of each of these rounds, in the order in which they ran.
pub fn of(record: &RunRecord, rounds: &[u32]) -> Vec<Vec<usize>> {
    let mut orders: Vec<BTreeMap<u32, usize>> = vec![BTreeMap::new(); rounds.len()];
    for cell in &record.cells {
        if let Ok(column) = rounds.binary_search(&cell.round) {
            orders[column].insert(cell.position, cell.variant);
        }
    }
    let order = |places: BTreeMap<u32, usize>| {
        let mut order: Vec<usize> = places.into_values().collect();
        order.dedup(); // cells of several workloads
        order
    };
    orders.into_iter().map(order).collect()
}

/// The same rounds in other orders; which ones depends on the seed and the number of the draw alone.
fn drawn(orders: &[Vec<usize>], seed: u64, draw: usize) -> Vec<Vec<usize>> {
    let shuffled = |(at, order): (usize, &Vec<usize>)| {
        let new = round(mix(seed, draw as u64), at as u32, order.len());
        new.into_iter().map(|place| order[place]).collect()
    };
    orders.iter().enumerate().map(shuffled).collect()
}

/// The share of orders, of `draws` drawn and the recorded one, that make a statistic as large as the recorded one does.
pub fn share(orders: &[Vec<usize>], seed: u64, draws: usize, of: impl Fn(&[Vec<usize>]) -> f64) -> f64 {
    let seen = of(orders) - 1e-12; // a draw of the same order must count, however its sum was rounded
    let as_large = (1..=draws).filter(|draw| of(&drawn(orders, seed, *draw)) >= seen).count();
    (1 + as_large) as f64 / (1 + draws) as f64
}

/// The variant that ran before each: `[round][place]`. The last of a round comes before the first of the next.
pub fn before(orders: &[Vec<usize>]) -> Vec<Vec<Option<usize>>> {
    let mut last = None;
    let mut step = |variant: &usize| last.replace(*variant);
    orders.iter().map(|order| order.iter().map(&mut step).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_round_comes_before_the_first_of_the_next() {
        assert_eq!(before(&[vec![0, 1], vec![1, 0]]), [[None, Some(0)], [Some(1), Some(1)]]);
    }

    #[test]
    fn a_statistic_that_does_not_depend_on_the_order_never_stands_out() {
        let orders: Vec<Vec<usize>> = (0..8).map(|number| round(7, number, 3)).collect();
        assert_eq!(share(&orders, 1, 99, |_| 1.0), 1.0);
        // The recorded orders themselves.
        let same = |other: &[Vec<usize>]| f64::from(u8::from(other == orders));
        assert_eq!(share(&orders, 1, 99, same), 0.01);
    }
}
