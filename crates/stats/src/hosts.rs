//! Tests whether the result depends on the host, by a permutation test of the hosts of rounds.
//!
//! Comparisons are within rounds, and each round ran on one host. The null hypothesis is that the log ratios of a round do not
//! depend on its host, so that the hosts of the rounds can be permuted (Pitman 1937). The statistic of a host is the
//! standardised rank sum of Wilcoxon (1945) of its rounds. The largest statistic over all hosts and pairs of variants is
//! compared with the largest of each shuffle, so the probability of any false alarm is at most 5% (Westfall and Young 1993).

use chacha20::ChaCha12Rng;
use rand::{SeedableRng, seq::SliceRandom};

/// The number of permutations of the hosts.
const SHUFFLES: u64 = 2_000;
/// The level of the test, for all hosts together.
const LEVEL: f64 = 0.05;

/// The result of the test.
#[derive(Debug, Clone, PartialEq)]
pub enum HostEffect {
    /// Too few rounds on each host for any permutation to be significant.
    TooFewRounds,
    /// No significant difference between hosts.
    Alike,
    /// These hosts differ significantly from the others.
    Differ(Vec<usize>),
}

/// Compares hosts. `d[pair][round]` has the log ratios of each pair of variants, NaN for a missing one; `host_of_round[round]`
/// is the host of a round, below `host_count`.
pub fn compare_hosts(d: &[Vec<f64>], host_of_round: &[usize], host_count: usize, seed: u64) -> HostEffect {
    let rounds_on = |host: usize| host_of_round.iter().filter(|of_round| **of_round == host).count();
    let round_counts: Vec<usize> = (0..host_count).map(rounds_on).collect();
    if smallest_p_value(&round_counts) > LEVEL {
        return HostEffect::TooFewRounds;
    }
    let ranks: Vec<Vec<f64>> = d.iter().map(|d| centred_ranks(d)).collect();
    let observed = host_statistics(&ranks, host_of_round, &round_counts);
    let mut shuffled = host_of_round.to_vec();
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    // For each host, the number of shuffles with a statistic at least as large as its own; the run itself counts as one.
    let mut at_least_as_large = vec![1_u64; host_count];
    for _ in 0..SHUFFLES {
        shuffled.shuffle(&mut rng);
        let largest = host_statistics(&ranks, &shuffled, &round_counts).into_iter().fold(0.0, f64::max);
        for (count, observed) in at_least_as_large.iter_mut().zip(&observed) {
            // The tolerance allows for rounding: sums in another order differ in their last digits.
            *count += u64::from(largest >= observed - 1e-9);
        }
    }
    let differs = |host: &usize| at_least_as_large[*host] as f64 / (SHUFFLES + 1) as f64 <= LEVEL;
    let differing: Vec<usize> = (0..host_count).filter(differs).collect();
    if differing.is_empty() { HostEffect::Alike } else { HostEffect::Differ(differing) }
}

/// The smallest p-value that the test can reach: the probability that random ranks give all rounds of some host the lowest or
/// the highest ranks. It depends on the number of rounds of that host; the result is the minimum over the numbers that occur.
fn smallest_p_value(round_counts: &[usize]) -> f64 {
    let all: usize = round_counts.iter().sum();
    let probability = |rounds: &usize| {
        let hosts = round_counts.iter().filter(|other| *other == rounds).count() as f64;
        let at_an_end = 2.0 * hosts / binomial_coefficient(all, *rounds);
        if hosts < 2.0 {
            return at_an_end;
        }
        // Subtract the orders with one such host at each end, which were counted twice.
        at_an_end
            - hosts * (hosts - 1.0) / binomial_coefficient(all, *rounds) / binomial_coefficient(all - rounds, *rounds)
    };
    let counts = round_counts.iter().filter(|rounds| **rounds > 0 && **rounds < all);
    counts.map(probability).fold(f64::INFINITY, f64::min)
}

/// The number of ways to choose k of n.
fn binomial_coefficient(n: usize, k: usize) -> f64 {
    (0..k).map(|i| ((n - i) as f64 / (i + 1) as f64).ln()).sum::<f64>().exp()
}

/// Ranks centred around 0; ties share their mean rank, and a missing value has rank 0.
pub(crate) fn centred_ranks(d: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..d.len()).filter(|index| !d[*index].is_nan()).collect();
    order.sort_by(|a, b| d[*a].total_cmp(&d[*b]));
    let middle = (order.len() as f64 + 1.0) / 2.0;
    let mut ranks = vec![0.0; d.len()];
    let mut below = 0;
    for tied in order.chunk_by(|a, b| d[*a] == d[*b]) {
        let rank = below as f64 + (tied.len() as f64 + 1.0) / 2.0 - middle;
        tied.iter().for_each(|index| ranks[*index] = rank);
        below += tied.len();
    }
    ranks
}

/// For each host the largest standardised rank sum over the pairs. `ranks[pair][round]` are centred, and `round_counts` has the
/// number of rounds of each host.
fn host_statistics(ranks: &[Vec<f64>], host_of_round: &[usize], round_counts: &[usize]) -> Vec<f64> {
    let all = host_of_round.len() as f64;
    let mut largest = vec![0.0_f64; round_counts.len()];
    for ranks in ranks {
        let variance = ranks.iter().map(|rank| rank * rank).sum::<f64>() / (all - 1.0);
        let mut sums = vec![0.0; round_counts.len()];
        ranks.iter().zip(host_of_round).for_each(|(rank, host)| sums[*host] += rank);
        for (largest, (sum, rounds)) in largest.iter_mut().zip(sums.iter().zip(round_counts)) {
            let standard_deviation = (variance * *rounds as f64 * (all - *rounds as f64) / all).sqrt();
            if standard_deviation > 0.0 {
                *largest = largest.max(f64::abs(*sum) / standard_deviation);
            }
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::schedule::mix;

    /// The log ratios of one pair in `rounds` rounds, which hosts measured in turn, and the host of each round. The log ratios
    /// of the last host are larger by `shift`.
    fn simulated_run(rounds: usize, hosts: usize, shift: f64, seed: u64) -> (Vec<Vec<f64>>, Vec<usize>) {
        let host_of_round: Vec<usize> = (0..rounds).map(|round| round % hosts).collect();
        let noise = |round: usize| (mix(seed, round as u64) % 1000) as f64 / 1e5;
        let shift_of = |round: usize| if host_of_round[round] == hosts - 1 { shift } else { 0.0 };
        (vec![(0..rounds).map(|round| noise(round) + shift_of(round)).collect()], host_of_round)
    }

    #[test]
    fn the_host_that_differs_is_named() {
        let (d, hosts) = simulated_run(40, 4, 0.1, 1);
        assert_eq!(compare_hosts(&d, &hosts, 4, 7), HostEffect::Differ(vec![3]));
        let (d, hosts) = simulated_run(40, 4, 0.0, 1);
        assert_eq!(compare_hosts(&d, &hosts, 4, 7), HostEffect::Alike);
    }

    #[test]
    fn too_few_rounds_on_each_host_allow_no_result() {
        // Two hosts of three rounds: 2 of 20 ways put one host first or last.
        assert!((smallest_p_value(&[3, 3]) - 0.1).abs() < 1e-9);
        // Of four rounds: 2 of 70.
        assert!((smallest_p_value(&[4, 4]) - 2.0 / 70.0).abs() < 1e-9);
        // Three hosts of two rounds: in 6 of 15 · 6 orders two given hosts are at the two ends, and in 30 of 90 any host is at
        // one.
        assert!((smallest_p_value(&[2, 2, 2]) - 30.0 / 90.0).abs() < 1e-9);
        let (d, hosts) = simulated_run(6, 2, 0.1, 1);
        assert_eq!(compare_hosts(&d, &hosts, 2, 7), HostEffect::TooFewRounds);
        let (d, hosts) = simulated_run(8, 2, 0.1, 1);
        assert_eq!(compare_hosts(&d, &hosts, 2, 7), HostEffect::Differ(vec![0, 1]));
        assert_eq!(compare_hosts(&[vec![0.1; 9]], &[0; 9], 1, 7), HostEffect::TooFewRounds);
    }

    #[test]
    fn tied_values_share_a_rank_and_missing_values_have_rank_0() {
        assert_eq!(centred_ranks(&[0.2, f64::NAN, 0.1, 0.2]), [0.5, 0.0, -1.0, 0.5]);
    }

    #[test]
    fn hosts_that_are_alike_rarely_differ() {
        let wrong = (0..200).filter(|seed| {
            let (d, hosts) = simulated_run(24, 3, 0.0, 1000 + seed);
            matches!(compare_hosts(&d, &hosts, 3, *seed), HostEffect::Differ(_))
        });
        // 10 expected, standard deviation 3.
        assert!(wrong.count() <= 22);
    }
}
