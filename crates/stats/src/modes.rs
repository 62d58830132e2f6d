//! Finds modes: values of one variant and task that form two clusters, for example because an allocator has a fast and a slow
//! path. Also finds what is associated with the clusters: the place of the variant in the round, the variant before it, or a
//! reading.
//!
//! The statistic is the largest share of the variance that a cut into two clusters explains (one-dimensional 2-means, Fisher
//! 1958), times the balance of the cut, 2√(n₁n₂)/n, where n₁ and n₂ are the numbers of values in the clusters and n is their
//! sum. Without the balance a few outliers of heavy-tailed noise look like a cluster: at 15 rounds, 105 tests and 5% spikes a
//! cut must then explain 97% of the variance, with it 90%. The null distribution of the statistic is simulated under the six
//! noises of [`crate::simulate::noise`]; the largest p value counts. All tasks and variants of a run together err in at most 5%
//! of runs (Holm 1979).

use crate::average::{logs, mean, median, sorted, squared_deviations};
use crate::carryover::{OrderStatistic, order_p_values};
use crate::critical_values::FIRST_LOOK_ROUNDS;
use crate::hosts::centred_ranks;
use crate::simulate::noise::{self, Noise, Order};
use crate::simulate::{in_parallel, run_rng};
use fsarena_core::observations::{Grid, ReadingSeries, has_data};
use fsarena_core::sample::Unit;
use rand::{Rng, seq::SliceRandom};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The fewest rounds of a cluster.
const MIN_CLUSTER_ROUNDS: usize = 3;
/// The share of runs that may err.
const ALPHA: f64 = 0.05;
/// The number of simulated runs of each noise.
const SIMULATED_RUNS: usize = 20_000;
/// The number of runs that are simulated at a time.
const RUNS_PER_CHUNK: usize = 1_000;
/// The most rounds of a simulated run. With more rounds chance explains a smaller share, so the test of a longer run errs less.
const MAX_SIMULATED_ROUNDS: usize = 400;

/// Two modes of one variant at one task.
#[derive(Debug, Clone, PartialEq)]
pub struct Modes {
    /// The task, as an index into the record.
    pub task: usize,
    /// The variant, as an index into the record.
    pub variant: usize,
    /// The cluster of lower values, and the cluster of higher values.
    pub clusters: [Cluster; 2],
    /// The order of variants and the readings that are associated with the clusters.
    pub correlates: ModeCorrelates,
}

/// One of two clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// The median of its values.
    pub median: f64,
    /// Its rounds, as columns of the grid, ascending.
    pub columns: Vec<usize>,
}

/// A cut of a variant's residuals into a lower and a higher cluster.
struct Cut {
    task: usize,
    variant: usize,
    /// The statistic of the cut; see [`best_cut`].
    statistic: f64,
    /// Columns of lower and of higher residuals.
    columns: [Vec<usize>; 2],
}

/// Finds the modes of every task and variant, the clearest first. `orders` has the variants of each round in the order in which
/// they ran; `readings` returns the raw readings of a task and variant in each round.
pub fn find_modes(
    grid: &Grid,
    orders: &[Vec<usize>],
    readings: impl Fn(usize, usize) -> Vec<ReadingSeries>,
    seed: u64,
) -> Vec<Modes> {
    let mut cuts: Vec<Cut> = vec![];
    for (task, values) in grid.values.iter().enumerate().filter(|(_, values)| has_data(values)) {
        let logs = logs(values);
        cuts.extend((0..logs.len()).filter_map(|variant| {
            let (statistic, columns) = cut_residuals(&remove_round_effects(&logs, variant))?;
            Some(Cut { task, variant, statistic, columns })
        }));
    }
    cuts.sort_by(|a, b| b.statistic.total_cmp(&a.statistic));
    let tests = cuts.len();
    let significant_cuts = cuts.into_iter().enumerate().take_while(|(rank, cut)| {
        let rounds = cut.columns.iter().map(Vec::len).sum::<usize>().min(MAX_SIMULATED_ROUNDS);
        is_significant(cut.statistic, rounds, ALPHA / (tests - rank) as f64)
    });
    let cuts: Vec<Cut> = significant_cuts.map(|(_, cut)| cut).collect();
    let clusterings: Vec<Clustering> =
        cuts.iter().map(|cut| Clustering::new(cut.variant, orders.len(), &cut.columns)).collect();
    let order_associations = order_associations(orders, &clusterings, seed);
    let mut modes = vec![];
    for ((cut, clustering), (later_is_higher, predecessor)) in
        cuts.into_iter().zip(&clusterings).zip(order_associations)
    {
        let Cut { task, variant, columns, .. } = cut;
        let rng = run_rng(seed, task as u64);
        let associated_reading = find_associated_reading(&readings(task, variant), &clustering.is_higher, rng);
        let correlates = ModeCorrelates { later_is_higher, predecessor, associated_reading };
        let clusters = columns.map(|columns| {
            let values: Vec<f64> = columns.iter().map(|column| grid.values[task][variant][*column]).collect();
            Cluster { median: median(&values).unwrap_or(f64::NAN), columns }
        });
        modes.push(Modes { task, variant, clusters, correlates });
    }
    modes
}

/// The logarithms of a variant without the effect of each round. This effect is the median, over the other variants, of the
/// difference of their value from their own median. It counts as 0 if fewer than three others have a value in the round,
/// because the modes of one of them would then appear in these residuals.
fn remove_round_effects(logs: &[Vec<f64>], variant: usize) -> Vec<f64> {
    let medians: Vec<f64> = logs.iter().map(|rounds| median(rounds).unwrap_or(f64::NAN)).collect();
    let round_effect = |column: usize| -> f64 {
        let others = (0..logs.len()).filter(|other| *other != variant);
        let differences: Vec<f64> = others.map(|other| logs[other][column] - medians[other]).collect();
        let known = differences.iter().filter(|difference| !difference.is_nan()).count();
        if known < 3 { 0.0 } else { median(&differences).unwrap_or(0.0) }
    };
    logs[variant].iter().enumerate().map(|(column, x)| x - round_effect(column)).collect()
}

/// The best cut of a variant's residuals: its statistic, and the columns on both sides. None for fewer than 8 rounds, or if all
/// values are equal.
fn cut_residuals(residuals: &[f64]) -> Option<(f64, [Vec<usize>; 2])> {
    let mut known: Vec<(f64, usize)> =
        residuals.iter().enumerate().filter(|(_, x)| x.is_finite()).map(|(column, x)| (*x, column)).collect();
    if known.len() < FIRST_LOOK_ROUNDS {
        return None;
    }
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let sorted: Vec<f64> = known.iter().map(|(x, _)| *x).collect();
    let (statistic, low_count) = best_cut(&sorted)?;
    let columns = |known: &[(f64, usize)]| {
        let mut columns: Vec<usize> = known.iter().map(|(_, column)| *column).collect();
        columns.sort_unstable();
        columns
    };
    Some((statistic, [columns(&known[..low_count]), columns(&known[low_count..])]))
}

/// The statistic of the best cut of sorted values (the share of the variance that the cut explains, times its balance), and the
/// number of values below the cut. None for fewer than 6 values, or if all are equal.
fn best_cut(sorted: &[f64]) -> Option<(f64, usize)> {
    let count = sorted.len() as f64;
    let (mean, total) = (mean(sorted), squared_deviations(sorted.iter()));
    if total <= 0.0 {
        return None;
    }
    let mut sum_of_low = 0.0;
    let mut best = (0.0, 0);
    for (index, x) in sorted.iter().enumerate().take(sorted.len() - MIN_CLUSTER_ROUNDS) {
        sum_of_low += x - mean;
        let low = (index + 1) as f64;
        // The sum of squares between the clusters. The deviations of the high cluster from the mean add up to -sum_of_low.
        let between = sum_of_low * sum_of_low * (1.0 / low + 1.0 / (count - low));
        let balance = 2.0 * (low * (count - low)).sqrt() / count;
        let statistic = between / total * balance;
        if index + 1 >= MIN_CLUSTER_ROUNDS && statistic > best.0 {
            best = (statistic, index + 1);
        }
    }
    (best.1 > 0).then_some(best)
}

/// Whether the statistic of a run with this number of rounds is significant: for every noise, at most the share `level` of the
/// simulated runs have a statistic at least as large.
fn is_significant(statistic: f64, rounds: usize, level: f64) -> bool {
    let max_count = (level * (SIMULATED_RUNS + 1) as f64).floor() as usize;
    (0..Noise::TESTED.len()).all(|noise| {
        let mut at_least_as_large = 1; // the run itself
        (0..SIMULATED_RUNS / RUNS_PER_CHUNK).all(|chunk| {
            at_least_as_large += count_at_least(statistic, noise, rounds, chunk);
            at_least_as_large <= max_count
        })
    })
}

/// The number of simulated runs of a chunk whose statistic is at least `statistic`. Caches the statistics of the chunk, because
/// a report needs the same chunks repeatedly.
fn count_at_least(statistic: f64, noise: usize, rounds: usize, chunk: usize) -> usize {
    static CACHE: Mutex<BTreeMap<(usize, usize, usize), Vec<f64>>> = Mutex::new(BTreeMap::new());
    let simulate = |run: u64| {
        let mut rng = run_rng(noise as u64, (chunk * RUNS_PER_CHUNK) as u64 + run);
        let values = noise::simulate_log_ratios(Noise::TESTED[noise], Order::Random, rounds, &mut rng);
        best_cut(&sorted(values)).map_or(0.0, |(statistic, _)| statistic)
    };
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let statistics = cache.entry((noise, rounds, chunk)).or_insert_with(|| in_parallel(RUNS_PER_CHUNK, simulate));
    statistics.iter().filter(|simulated| **simulated >= statistic).count()
}

/// The number of random orders, and of permutations, that make up a null distribution.
const DRAWS: usize = 999;
/// The number of neighbouring rounds among which clusters are permuted. Permutations are local, because readings drift.
const NEIGHBOURS: usize = 5;

/// The order and the reading that are associated with the clusters. The order of a round is random, so an association with it
/// is causal; a reading may be cause or effect.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModeCorrelates {
    /// Whether the higher cluster has the later places; None if the place has no significant effect.
    pub later_is_higher: Option<bool>,
    /// The variant after which the higher cluster is most frequent; None if the variant before has no significant effect.
    pub predecessor: Option<usize>,
    /// The reading that differs most between the clusters; None if no reading differs significantly.
    pub associated_reading: Option<AssociatedReading>,
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

/// The rounds of a variant in two clusters.
struct Clustering {
    /// The variant.
    variant: usize,
    /// By column: whether the round is in the higher cluster; None if it is in neither.
    is_higher: Vec<Option<bool>>,
}

impl Clustering {
    /// `columns` are those of the lower and of the higher cluster, of `column_count` columns in all.
    fn new(variant: usize, column_count: usize, columns: &[Vec<usize>; 2]) -> Clustering {
        let mut is_higher = vec![None; column_count];
        for (higher, columns) in [false, true].into_iter().zip(columns) {
            columns.iter().for_each(|column| is_higher[*column] = Some(higher));
        }
        Clustering { variant, is_higher }
    }

    /// The mean place of the variant in rounds of the higher cluster minus its mean place in rounds of the lower one. Place 0
    /// runs first.
    fn place_difference(&self, orders: &[Vec<usize>]) -> f64 {
        // Of the lower and of the higher cluster: the sum of the places, and their number.
        let mut places = [(0.0, 0.0); 2];
        for (order, is_higher) in orders.iter().zip(&self.is_higher) {
            let place = order.iter().position(|variant| *variant == self.variant);
            if let (Some(higher), Some(place)) = (is_higher, place) {
                let (sum, count) = &mut places[usize::from(*higher)];
                (*sum, *count) = (*sum + place as f64, *count + 1.0);
            }
        }
        // 0 without places, because the p value would count NaN as larger than the statistic of every random order.
        let [lower, higher] = places.map(|(sum, count)| if count > 0.0 { sum / count } else { 0.0 });
        higher - lower
    }

    /// How strongly the cluster depends on the variant that ran before: Σ hᵥ²/nᵥ over the predecessors v, where nᵥ is the number
    /// of rounds in which this variant follows v, and hᵥ the number of those in the higher cluster. The sum is smallest if the
    /// higher cluster has the same share after every v. Also returns the predecessor with the largest share.
    fn dependence_on_predecessor(&self, orders: &[Vec<usize>]) -> (f64, Option<usize>) {
        // By predecessor: hᵥ and nᵥ.
        let mut counts: Vec<(f64, f64)> = vec![];
        // The last variant of a round precedes the first of the next.
        let mut predecessor = None;
        for (order, is_higher) in orders.iter().zip(&self.is_higher) {
            for variant in order {
                let before = predecessor.replace(*variant);
                if let (Some(higher), Some(before), true) = (is_higher, before, *variant == self.variant) {
                    counts.resize(counts.len().max(before + 1), (0.0, 0.0));
                    let (highs, all) = &mut counts[before];
                    (*highs, *all) = (*highs + f64::from(*higher), *all + 1.0);
                }
            }
        }
        let known = || counts.iter().enumerate().filter(|(_, (_, all))| *all > 0.0);
        let largest_share = known().max_by(|(_, a), (_, b)| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
        (known().map(|(_, (highs, all))| highs * highs / all).sum(), largest_share.map(|(variant, _)| variant))
    }
}

/// The significant associations of each clustering with the order: whether the higher cluster has the later places, and the
/// variant that it follows most often. Each is tested at half of the 5%.
fn order_associations(
    orders: &[Vec<usize>],
    clusterings: &[Clustering],
    seed: u64,
) -> Vec<(Option<bool>, Option<usize>)> {
    let mut statistics: Vec<Box<OrderStatistic>> = vec![];
    for clustering in clusterings {
        statistics.push(Box::new(|orders| clustering.place_difference(orders).abs()));
        statistics.push(Box::new(|orders| clustering.dependence_on_predecessor(orders).0));
    }
    let p_values = order_p_values(orders, seed, DRAWS, &statistics);
    let mut associations = vec![];
    for (clustering, p_values) in clusterings.iter().zip(p_values.chunks(2)) {
        let [place, dependence] = [p_values[0], p_values[1]].map(|p_value| p_value <= ALPHA / 2.0);
        let later_is_higher = place.then(|| clustering.place_difference(orders) > 0.0);
        let predecessor = dependence.then(|| clustering.dependence_on_predecessor(orders).1).flatten();
        associations.push((later_is_higher, predecessor));
    }
    associations
}

/// The reading (a count or an amount of bytes) that separates the clusters best. Of readings that separate them equally well,
/// the one whose medians have the largest ratio. None unless the largest separation of all readings is above that of 95% of
/// permutations of the clusters among neighbouring rounds (Westfall and Young 1993).
fn find_associated_reading(
    readings: &[ReadingSeries],
    is_higher: &[Option<bool>],
    mut rng: impl Rng,
) -> Option<AssociatedReading> {
    let columns: Vec<usize> = (0..is_higher.len()).filter(|column| is_higher[*column].is_some()).collect();
    let labels: Vec<bool> = is_higher.iter().copied().flatten().collect();
    // The readings with their values, and with the ranks of the values.
    let mut candidates: Vec<(&ReadingSeries, Vec<f64>, Vec<f64>)> = vec![];
    for reading in readings {
        let values: Vec<f64> = columns.iter().map(|column| reading.values[*column]).collect();
        let is_complete = values.iter().all(|value| value.is_finite());
        let varies = values.iter().any(|value| *value != values[0]);
        if is_complete && varies && matches!(reading.unit, Unit::Bytes | Unit::Count) {
            let ranks = centred_ranks(&values);
            candidates.push((reading, values, ranks));
        }
    }
    let largest_separation =
        |labels: &[bool]| candidates.iter().map(|(.., ranks)| separation(ranks, labels)).fold(0.0, f64::max);
    let observed = largest_separation(&labels) - 1e-12;
    let mut at_least_as_large = 1; // the run itself
    for _ in 0..DRAWS {
        let mut labels = labels.clone();
        labels.chunks_mut(NEIGHBOURS).for_each(|rounds| rounds.shuffle(&mut rng));
        at_least_as_large += usize::from(largest_separation(&labels) >= observed);
    }
    if candidates.is_empty() || at_least_as_large as f64 / (1 + DRAWS) as f64 > ALPHA {
        return None;
    }
    let medians = |values: &[f64]| {
        [false, true].map(|cluster| {
            let in_cluster = values.iter().zip(&labels).filter(|(_, label)| **label == cluster);
            median(&in_cluster.map(|(value, _)| *value).collect::<Vec<_>>()).unwrap_or(f64::NAN)
        })
    };
    // The 1 keeps the ratio of counts finite if a count is 0.
    let ratio = |[low, high]: [f64; 2]| ((high + 1.0) / (low + 1.0)).ln().abs();
    let best = candidates.iter().filter(|(.., ranks)| separation(ranks, &labels) >= observed);
    let (best, values, _) = best.max_by(|a, b| ratio(medians(&a.1)).total_cmp(&ratio(medians(&b.1))))?;
    Some(AssociatedReading { reading: best.id.clone(), medians: medians(values), unit: best.unit })
}

/// The separation of two groups of values, from 0 to 1: |2p − 1|, where p is the probability that a value of one group exceeds
/// a value of the other (Mann and Whitney 1947). It is 1 if the groups do not overlap. With n₁ and n₂ values in the groups,
/// 2p − 1 is 2/(n₁n₂) times the sum of the centred ranks of one group.
fn separation(ranks: &[f64], labels: &[bool]) -> f64 {
    let rank_sum: f64 = ranks.iter().zip(labels).filter(|(_, label)| **label).map(|(rank, _)| rank).sum();
    let highs = labels.iter().filter(|label| **label).count();
    let pairs = highs * (labels.len() - highs);
    if pairs > 0 { (2.0 * rank_sum / pairs as f64).abs() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carryover::predecessors;
    use fsarena_core::schedule::order_of_round;

    #[test]
    fn the_best_cut_matches_values_computed_by_hand() {
        // The clusters have the means 1 and 5 and no variance within, so the cut explains all of the variance.
        assert_eq!(best_cut(&[1.0, 1.0, 1.0, 5.0, 5.0, 5.0]), Some((1.0, 3)));
        // No cut of four values has three on each side, and equal values have no variance.
        assert_eq!(best_cut(&[1.0, 2.0, 3.0, 4.0]), None);
        assert_eq!(best_cut(&[1.0; 9]), None);
        let (statistic, low_count) = best_cut(&[0.0, 0.1, 0.2, 0.3, 1.0, 1.1, 1.2, 1.3]).unwrap();
        // The sum of squares is 8 · 0.5² between the clusters, and 0.05 within each.
        assert!(low_count == 4 && (statistic - 2.0 / 2.1).abs() < 1e-12, "{statistic}");
    }

    #[test]
    fn an_effect_of_a_round_on_all_variants_is_no_mode() {
        let round_effect = |column: usize| if column.is_multiple_of(2) { 0.7 } else { 0.0 };
        let logs: Vec<Vec<f64>> = (0..4)
            .map(|variant| {
                let own_effect = |column| if variant == 3 && column < 4 { 0.5 } else { 0.0 };
                (0..9).map(|column| round_effect(column) + own_effect(column)).collect()
            })
            .collect();
        assert!(remove_round_effects(&logs, 0).windows(2).all(|pair| (pair[0] - pair[1]).abs() < 1e-12));
        let (statistic, [low, high]) = cut_residuals(&remove_round_effects(&logs, 3)).unwrap();
        // The cut explains all of the variance; its balance is 2·√20/9 = 0.994.
        assert!((0.99..0.994).contains(&statistic), "{statistic}");
        assert!(low == [4, 5, 6, 7, 8] && high == [0, 1, 2, 3], "{low:?} {high:?}");
    }

    #[test]
    fn two_speeds_are_significant_and_noise_is_not() {
        let statistic = |values: &[f64]| best_cut(&sorted(values.to_vec())).unwrap().0;
        // A variant that takes 2.4 times as long in seven of fifteen rounds, with 5% of noise, in one of 105 tests.
        let noise = noise::simulate_log_ratios(Noise::Normal, Order::Random, 15, &mut run_rng(3, 3));
        let two_speeds: Vec<f64> = noise
            .iter()
            .enumerate()
            .map(|(column, x)| 3.5 * x + if column % 2 == 1 { 2.4f64.ln() } else { 0.0 })
            .collect();
        assert!(is_significant(statistic(&two_speeds), 15, ALPHA / 105.0));
        for (number, noise) in Noise::TESTED.iter().enumerate() {
            let noise_alone = noise::simulate_log_ratios(*noise, Order::Random, 15, &mut run_rng(5, number as u64));
            assert!(!is_significant(statistic(&noise_alone), 15, ALPHA / 105.0), "{}", noise.name());
        }
    }

    fn orders(rounds: u32) -> Vec<Vec<usize>> {
        (0..rounds).map(|round| order_of_round(7, round, 4)).collect()
    }

    /// A clustering of variant 0 whose higher cluster has the rounds for whose order `holds` is true.
    fn clustering(orders: &[Vec<usize>], holds: impl Fn(usize, &[usize]) -> bool) -> Clustering {
        let is_higher = orders.iter().enumerate().map(|(column, order)| Some(holds(column, order))).collect();
        Clustering { variant: 0, is_higher }
    }

    #[test]
    fn rounds_in_which_the_variant_has_no_place_show_no_association() {
        let orders = vec![vec![]; 8];
        let all = clustering(&orders, |_, _| true);
        assert_eq!(all.place_difference(&orders), 0.0);
        assert_eq!(order_associations(&orders, &[all], 1)[0].0, None);
    }

    #[test]
    fn places_and_predecessors_that_matter_are_found() {
        let orders = orders(20);
        let place = |order: &[usize]| order.iter().position(|variant| *variant == 0).unwrap();
        let late = clustering(&orders, |_, order| place(order) > 1);
        let predecessors = predecessors(&orders);
        let after_two = clustering(&orders, |column, order| predecessors[column][place(order)] == Some(2));
        let unrelated = clustering(&orders, |column, _| column.is_multiple_of(3));
        let associations = order_associations(&orders, &[late, after_two, unrelated], 1);
        assert_eq!((associations[0].0, associations[1].1), (Some(true), Some(2)));
        assert_eq!(associations[2], (None, None));
    }

    #[test]
    fn separations_match_values_computed_by_hand() {
        let labels = [false, false, true, true];
        assert_eq!(separation(&centred_ranks(&[1.0, 2.0, 3.0, 4.0]), &labels), 1.0);
        assert_eq!(separation(&centred_ranks(&[4.0, 3.0, 2.0, 1.0]), &labels), 1.0);
        assert_eq!(separation(&centred_ranks(&[1.0, 3.0, 2.0, 4.0]), &labels), 0.5);
        assert_eq!(separation(&centred_ranks(&[1.0, 1.0, 1.0, 1.0]), &labels), 0.0);
    }
}
