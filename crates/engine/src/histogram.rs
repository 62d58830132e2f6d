//! Histograms of latencies, all with the same bounds.

use fsarena_core::latency::Latencies;
use hdrhistogram::Histogram;

/// Three significant digits: a value is known to 0.1%.
pub(crate) const DIGITS: u8 = 3;
/// The longest latency that histograms record, in nanoseconds: 275 s. Longer ones count as this.
pub(crate) const LONGEST_NS: u64 = 1 << 38;

/// Latencies of one kind of operations as counted values, in nanoseconds.
pub type Sparse = Vec<(u64, u64)>;

/// An empty histogram of the engine's bounds.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are sound")
}

/// The latencies within which these shares of all lie, the shares in ascending order: one walk through 25,000 buckets.
pub fn quantiles<const N: usize>(of: &Histogram<u64>, shares: [f64; N]) -> [u64; N] {
    let mut found = of.value_at_quantiles(shares);
    shares.map(|_| found.next().expect("the shares ascend"))
}

/// The counted values of a histogram: some kilobytes, where the histogram takes 200.
pub fn sparse(histogram: &Histogram<u64>) -> Sparse {
    histogram.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
}

/// A histogram as the counts that a run keeps.
pub fn latencies(of: &Histogram<u64>) -> Latencies {
    Latencies::new(sparse(of))
}
