//! Finds what is associated with the two modes of a variant: its place in the round, the variant before it, or another reading.

use crate::average::{mean, median};
use crate::carryover::{order_p_value, predecessors};
use crate::simulate::stream;
use fsarena_core::{observations::ReadingSeries, sample::Unit};
use rand::{Rng, seq::SliceRandom};
use serde::Serialize;
use std::collections::BTreeMap;

/// The number of drawn orders, and of permutations.
const DRAWS: usize = 999;
const ALPHA: f64 = 0.05;
/// The number of neighbouring rounds among which clusters are permuted. Permutations are local, because readings drift.
const NEIGHBOURS: usize = 5;

/// The order and the reading that are associated with the clusters. The order of a round is random, so an association with it is
/// causal; a reading may be cause or effect.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModeCorrelates {
    /// Whether the higher cluster has the later places; None if the place has no significant effect.
    pub later_is_higher: Option<bool>,
    /// The variant after which the higher cluster is most frequent; None if the variant before has no significant effect.
    pub after: Option<usize>,
    /// The reading that differs most between the clusters.
    pub associated: Option<AssociatedReading>,
}

/// A reading that differs between the clusters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AssociatedReading {
    /// Its name.
    pub reading: String,
    /// Its medians in the lower and the higher cluster.
    pub medians: [f64; 2],
    /// Its unit.
    pub unit: Unit,
}

/// Whether the round of each column is in the higher cluster.
type High = BTreeMap<usize, bool>;

impl ModeCorrelates {
    /// Finds what goes with the clusters of a task and variant, given as columns, lower values first.
    pub(super) fn of(
        (task, variant): (usize, usize),
        columns: &[Vec<usize>; 2],
        orders: &[Vec<usize>],
        readings: &[ReadingSeries],
        seed: u64,
    ) -> ModeCorrelates {
        let mut high: High = BTreeMap::new();
        for (higher, columns) in [false, true].into_iter().zip(columns) {
            high.extend(columns.iter().map(|column| (*column, higher)));
        }
        let (later_is_higher, after) = by_order(orders, variant, &high, seed);
        let rng = stream(seed, task as u64);
        ModeCorrelates { later_is_higher, after, associated: associated(readings, &high, rng) }
    }
}

/// Whether place and predecessor matter, each at half of the 5%.
fn by_order(orders: &[Vec<usize>], variant: usize, high: &High, seed: u64) -> (Option<bool>, Option<usize>) {
    let lag = |orders: &[Vec<usize>]| lag(orders, variant, high);
    let follows = |orders: &[Vec<usize>]| followers(orders, variant, high).0;
    let matters = |of: &dyn Fn(&[Vec<usize>]) -> f64| order_p_value(orders, seed, DRAWS, of) <= ALPHA / 2.0;
    (
        matters(&|orders| lag(orders).abs()).then(|| lag(orders) > 0.0),
        matters(&follows).then(|| followers(orders, variant, high).1).flatten(),
    )
}

/// How many places later the variant ran in rounds of the higher cluster, in the mean.
fn lag(orders: &[Vec<usize>], variant: usize, high: &High) -> f64 {
    let mut places = [vec![], vec![]];
    for (column, order) in orders.iter().enumerate() {
        if let (Some(high), Some(place)) = (high.get(&column), order.iter().position(|one| *one == variant)) {
            places[usize::from(*high)].push(place as f64);
        }
    }
    // 0 of no places: a share would take NaN for more than any drawn order makes.
    let mean = |places: &[f64]| if places.is_empty() { 0.0 } else { mean(places) };
    mean(&places[1]) - mean(&places[0])
}

/// How unevenly the higher cluster follows the variants, and the one that it follows most.
fn followers(orders: &[Vec<usize>], variant: usize, high: &High) -> (f64, Option<usize>) {
    let mut counts: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (column, (order, before)) in orders.iter().zip(predecessors(orders)).enumerate() {
        let places = order.iter().zip(before).filter(|(one, _)| **one == variant);
        for (_, before) in places {
            if let (Some(high), Some(before)) = (high.get(&column), before) {
                let (highs, all) = counts.entry(before).or_default();
                (*highs, *all) = (*highs + f64::from(*high), *all + 1.0);
            }
        }
    }
    let most = counts.iter().max_by(|a, b| (a.1.0 / a.1.1).total_cmp(&(b.1.0 / b.1.1)));
    (counts.values().map(|(highs, all)| highs * highs / all).sum(), most.map(|(variant, _)| *variant))
}

/// The count or amount that separates the clusters best, if better than in 95% of permutations among neighbouring rounds
/// (the largest of all readings in each, as Westfall and Young 1993 have it).
fn associated(readings: &[ReadingSeries], high: &High, mut rng: impl Rng) -> Option<AssociatedReading> {
    let mut candidates: Vec<(&ReadingSeries, Vec<f64>)> = vec![];
    for reading in readings {
        let values: Vec<f64> = high.keys().map(|column| reading.values[*column]).collect();
        let known = values.iter().all(|value| value.is_finite());
        let varies = values.iter().any(|value| *value != values[0]);
        if known && varies && matches!(reading.unit, Unit::Bytes | Unit::Count) {
            candidates.push((reading, values));
        }
    }
    let labels: Vec<bool> = high.values().copied().collect();
    let largest =
        |labels: &[bool]| candidates.iter().map(|(_, values)| apart(values, labels)).fold(0.0, f64::max);
    let seen = largest(&labels) - 1e-12;
    let mut as_far = 1;
    for _ in 0..DRAWS {
        let mut labels = labels.clone();
        labels.chunks_mut(NEIGHBOURS).for_each(|rounds| rounds.shuffle(&mut rng));
        as_far += usize::from(largest(&labels) >= seen);
    }
    if candidates.is_empty() || as_far as f64 / (1 + DRAWS) as f64 > ALPHA {
        return None;
    }
    let medians = |values: &[f64]| {
        [false, true].map(|cluster| {
            let of = values.iter().zip(&labels).filter(|(_, label)| **label == cluster);
            median(&of.map(|(value, _)| *value).collect::<Vec<_>>()).unwrap_or(f64::NAN)
        })
    };
    let ratio = |[low, high]: [f64; 2]| ((high + 1.0) / (low + 1.0)).ln().abs();
    let best = candidates.iter().filter(|(_, values)| apart(values, &labels) >= seen);
    let (best, values) = best.max_by(|a, b| ratio(medians(&a.1)).total_cmp(&ratio(medians(&b.1))))?;
    Some(AssociatedReading { reading: best.id.clone(), medians: medians(values), unit: best.unit })
}

/// How far two groups of values lie apart: twice the distance from ½ of the probability that a value of the one exceeds one
/// of the other (Mann and Whitney 1947); 1 where they do not overlap.
fn apart(values: &[f64], labels: &[bool]) -> f64 {
    let of = |cluster: bool| {
        values.iter().zip(labels).filter(move |(_, label)| **label == cluster).map(|(x, _)| *x)
    };
    let (mut wins, mut pairs) = (0.0, 0.0);
    for high in of(true) {
        for low in of(false) {
            pairs += 1.0;
            wins += (f64::from(high > low) + f64::from(high >= low)) / 2.0;
        }
    }
    if pairs > 0.0 { (2.0 * wins / pairs - 1.0f64).abs() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::schedule::round;

    fn orders(rounds: u32) -> Vec<Vec<usize>> {
        (0..rounds).map(|number| round(7, number, 4)).collect()
    }

    /// The rounds in which `holds` of the order, as the higher cluster.
    fn high(orders: &[Vec<usize>], holds: impl Fn(usize, &[usize]) -> bool) -> BTreeMap<usize, bool> {
        orders.iter().enumerate().map(|(column, order)| (column, holds(column, order))).collect()
    }

    #[test]
    fn a_cluster_without_a_place_is_no_reason() {
        let (orders, all) = (vec![vec![]; 8], high(&vec![vec![]; 8], |_, _| true));
        assert_eq!((lag(&orders, 0, &all), by_order(&orders, 0, &all, 1).0), (0.0, None));
    }

    #[test]
    fn places_and_predecessors_that_matter_are_found() {
        let orders = orders(20);
        let place = |order: &[usize]| order.iter().position(|one| *one == 0).unwrap();
        let late = high(&orders, |_, order| place(order) > 1);
        assert_eq!(by_order(&orders, 0, &late, 1).0, Some(true));
        let before = predecessors(&orders);
        let after_two = high(&orders, |column, order| before[column][place(order)] == Some(2));
        assert_eq!(by_order(&orders, 0, &after_two, 1).1, Some(2));
        let thirds = high(&orders, |column, _| column.is_multiple_of(3));
        assert_eq!(by_order(&orders, 0, &thirds, 1), (None, None));
    }

    #[test]
    fn distances_by_hand() {
        let labels = [false, false, true, true];
        assert_eq!(apart(&[1.0, 2.0, 3.0, 4.0], &labels), 1.0);
        assert_eq!(apart(&[4.0, 3.0, 2.0, 1.0], &labels), 1.0);
        assert_eq!(apart(&[1.0, 3.0, 2.0, 4.0], &labels), 0.5);
        assert_eq!(apart(&[1.0, 1.0, 1.0, 1.0], &labels), 0.0);
    }
}
