//! How often operations took how long: counts by latency, which add up over threads, rounds and machines.

use serde::{Deserialize, Serialize};

/// Significant bits of a stored latency: it is too high by at most 1 in 128.
const BITS: u32 = 8;

/// Counts by latency in nanoseconds, ascending. Latencies that differ by under 1% share an entry, named by the largest value
/// that it holds, as in HdrHistogram.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Latencies(Vec<(u64, u64)>);

impl Latencies {
    /// From latencies in nanoseconds and their counts, in any order.
    pub fn new(counted: impl IntoIterator<Item = (u64, u64)>) -> Latencies {
        let mut all: Vec<(u64, u64)> = counted.into_iter().map(|(ns, count)| (entry(ns), count)).collect();
        // Stable, since that is fast for lists that are sorted in parts.
        all.sort_by_key(|(ns, _)| *ns);
        all.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        all.retain(|(_, count)| *count > 0);
        Latencies(all)
    }

    /// Adds those of another load.
    pub fn add(&mut self, other: &Latencies) {
        *self = Latencies::new(self.0.iter().chain(&other.0).copied());
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Operations counted.
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The latency in nanoseconds within which this share of the operations lies: the smallest entry with at least
    /// `share` of all counts at or below it. None where nothing was counted.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (share * self.count() as f64).ceil().max(1.0) as u64;
        let mut below = 0u64;
        let entry = self.0.iter().find(|(_, count)| {
            below = below.saturating_add(*count);
            below >= wanted
        });
        entry.or(self.0.last()).map(|(ns, _)| *ns)
    }

    /// The entries: latency in nanoseconds, and operations.
    pub fn entries(&self) -> &[(u64, u64)] {
        &self.0
    }
}

/// The largest latency that shares an entry with this one.
fn entry(ns: u64) -> u64 {
    let drop = (u64::BITS - ns.leading_zeros()).saturating_sub(BITS);
    ns | ((1 << drop) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_entries_are_summed_and_order_does_not_matter() {
        // 255 has eight bits; 512 and 513 share an entry, which ends at 515.
        let counted = Latencies::new([(513, 2), (255, 1), (512, 1), (7, 0)]);
        assert_eq!(counted.entries(), [(255, 1), (515, 3)]);
        assert_eq!(counted.count(), 4);
    }

    #[test]
    fn quantiles_by_hand() {
        let counted = Latencies::new((1..=100).map(|ns| (ns, 1)));
        let of = |share| counted.quantile(share).unwrap();
        assert_eq!([of(0.0), of(0.5), of(0.99), of(0.999), of(1.0)], [1, 50, 99, 100, 100]);
        assert_eq!(Latencies::default().quantile(0.5), None);
    }

    #[test]
    fn sums_of_parts_are_the_whole_and_no_latency_moves_by_more_than_a_percent() {
        let [a, b] = [[(1_000_000, 3), (40, 2)], [(1_000_001, 1), (u64::MAX, 1)]].map(Latencies::new);
        let mut sum = a.clone();
        sum.add(&b);
        assert_eq!(sum, Latencies::new([(1_000_000, 4), (40, 2), (u64::MAX, 1)]));
        assert!((0..64).map(|bit| 1u64 << bit).all(|ns| entry(ns) >= ns && entry(ns) - ns <= ns / 128));
    }
}
