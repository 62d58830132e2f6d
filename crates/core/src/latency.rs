//! Histograms of latency, which can be added over threads, rounds and machines.

use serde::{Deserialize, Serialize};

/// Significant bits of a stored latency. Rounding up to them makes a latency larger by at most 1/128 of it.
const SIGNIFICANT_BITS: u32 = 8;

/// A histogram of latencies: buckets of a latency in nanoseconds and a count, ascending. The latencies of a bucket are
/// less than 1% apart, and its latency is the largest that it can count, as in HdrHistogram.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LatencyHistogram(Vec<(u64, u64)>);

impl LatencyHistogram {
    /// Makes a histogram from latencies in nanoseconds with their counts, in any order.
    pub fn new(counts: impl IntoIterator<Item = (u64, u64)>) -> LatencyHistogram {
        let mut buckets: Vec<(u64, u64)> = counts.into_iter().map(|(ns, count)| (bucket_end(ns), count)).collect();
        // The stable sort is faster for lists that are sorted in parts.
        buckets.sort_by_key(|(ns, _)| *ns);
        buckets.dedup_by(|next, previous| {
            let is_same_bucket = next.0 == previous.0;
            if is_same_bucket {
                previous.1 = previous.1.saturating_add(next.1);
            }
            is_same_bucket
        });
        buckets.retain(|(_, count)| *count > 0);
        LatencyHistogram(buckets)
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &LatencyHistogram) {
        *self = LatencyHistogram::new(self.0.iter().chain(&other.0).copied());
    }

    /// Whether no operation was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of operations.
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The quantile for a fraction (0–1), in nanoseconds: the latency of the first bucket that, together with the
    /// buckets below it, has at least this fraction of all operations. None if no operation was counted.
    pub fn quantile(&self, fraction: f64) -> Option<u64> {
        let rank = (fraction * self.count() as f64).ceil().max(1.0) as u64;
        let mut count_so_far = 0u64;
        for (ns, count) in &self.0 {
            count_so_far = count_so_far.saturating_add(*count);
            if count_so_far >= rank {
                return Some(*ns);
            }
        }
        self.0.last().map(|(ns, _)| *ns)
    }

    /// The buckets: latency in nanoseconds, and number of operations.
    pub fn buckets(&self) -> &[(u64, u64)] {
        &self.0
    }
}

/// The largest latency of the bucket that counts this latency.
fn bucket_end(ns: u64) -> u64 {
    let dropped_bits = (u64::BITS - ns.leading_zeros()).saturating_sub(SIGNIFICANT_BITS);
    ns | ((1 << dropped_bits) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_buckets_are_summed_and_order_does_not_matter() {
        // 255 has eight bits; 512 and 513 share a bucket, which ends at 515.
        let histogram = LatencyHistogram::new([(513, 2), (255, 1), (512, 1), (7, 0)]);
        assert_eq!(histogram.buckets(), [(255, 1), (515, 3)]);
        assert_eq!(histogram.count(), 4);
    }

    #[test]
    fn quantiles_match_values_computed_by_hand() {
        let histogram = LatencyHistogram::new((1..=100).map(|ns| (ns, 1)));
        let quantile = |fraction| histogram.quantile(fraction).unwrap();
        assert_eq!(
            [quantile(0.0), quantile(0.5), quantile(0.99), quantile(0.999), quantile(1.0)],
            [1, 50, 99, 100, 100]
        );
        assert_eq!(LatencyHistogram::default().quantile(0.5), None);
    }

    #[test]
    fn sums_of_parts_are_the_whole_and_no_latency_moves_by_more_than_a_percent() {
        let [a, b] = [[(1_000_000, 3), (40, 2)], [(1_000_001, 1), (u64::MAX, 1)]].map(LatencyHistogram::new);
        let mut sum = a.clone();
        sum.merge(&b);
        assert_eq!(sum, LatencyHistogram::new([(1_000_000, 4), (40, 2), (u64::MAX, 1)]));
        let rounding = |ns: u64| bucket_end(ns).checked_sub(ns).unwrap();
        assert!((0..64).map(|bit| 1u64 << bit).all(|ns| rounding(ns) <= ns / 128));
    }
}
