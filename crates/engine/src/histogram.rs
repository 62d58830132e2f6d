//! Histograms of latencies, all with the same bounds.

use hdrhistogram::Histogram;

/// Three significant digits: a value is known to 0.1%.
const DIGITS: u8 = 3;
/// The longest latency that histograms record, in nanoseconds: 275 s. Longer ones count as this.
const LONGEST_NS: u64 = 1 << 38;

/// The latencies of one kind of operation: pairs of a value in nanoseconds and a count.
pub type SparseHistogram = Vec<(u64, u64)>;

/// An empty histogram with the engine's bounds.
pub fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are sound")
}

/// The quantiles for these shares, which must ascend. Finds all of them in one pass over the 25,000 buckets.
pub fn quantiles<const N: usize>(histogram: &Histogram<u64>, shares: [f64; N]) -> [u64; N] {
    let mut values = histogram.value_at_quantiles(shares);
    shares.map(|_| values.next().expect("the shares ascend"))
}

/// The values of a histogram with their counts. They take a few kilobytes; a histogram takes 200.
pub fn to_sparse(histogram: &Histogram<u64>) -> SparseHistogram {
    histogram.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
}

/// Converts a histogram to the counts that a run stores.
pub fn to_latencies(histogram: &Histogram<u64>) -> fsarena_core::latency::LatencyHistogram {
    fsarena_core::latency::LatencyHistogram::new(to_sparse(histogram))
}

/// The number of latencies in a full list.
const LIST_LENGTH: usize = 512;

/// The latencies of one kind of operation in one interval of one thread.
///
/// Latencies are first appended to a list, and moved into the histogram only when the list is full. So a thread with few
/// operations never touches the histogram's memory. With a hundred threads, clearing and merging hundreds of kilobytes for a
/// few operations would take longer than the operations.
#[derive(Debug)]
pub struct LatencyTally {
    /// The latest latencies in nanoseconds; see above.
    list: Vec<u64>,
    histogram: Histogram<u32>,
}

impl LatencyTally {
    /// An empty tally; a tiny one for a kind of operation that is not `used`.
    pub(crate) fn new(used: bool) -> LatencyTally {
        // The kernel allocates zeroed pages at their first write, so the memory of an unused histogram costs nothing.
        let (longest_ns, digits, list_length) = if used { (LONGEST_NS, DIGITS, LIST_LENGTH) } else { (2, 0, 1) };
        let histogram = Histogram::new_with_bounds(1, longest_ns, digits).expect("the bounds are sound");
        LatencyTally { list: Vec::with_capacity(list_length), histogram }
    }

    /// Counts one operation.
    #[inline(always)]
    pub fn record(&mut self, ns: u64) {
        if self.list.len() == self.list.capacity() {
            self.move_to_histogram();
        }
        self.list.push(ns);
    }

    /// Counts `count` operations of the same latency.
    #[inline(always)]
    pub fn record_n(&mut self, ns: u64, count: u32) {
        match count {
            1 => self.record(ns),
            _ => self.histogram.saturating_record_n(ns, count),
        }
    }

    /// Moves the latencies of the list into the histogram.
    #[inline(never)]
    fn move_to_histogram(&mut self) {
        self.list.drain(..).for_each(|ns| self.histogram.saturating_record(ns));
    }

    /// Number of counted operations.
    pub fn count(&self) -> u64 {
        self.list.len() as u64 + self.histogram.len()
    }

    /// Adds all latencies to a histogram with the engine's bounds.
    pub fn add_to(&self, sum: &mut Histogram<u64>) {
        self.list.iter().for_each(|&ns| sum.saturating_record(ns));
        if !self.histogram.is_empty() {
            for value in self.histogram.iter_recorded() {
                sum.saturating_record_n(value.value_iterated_to(), value.count_at_value().into());
            }
        }
    }

    /// Removes all latencies.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        if !self.histogram.is_empty() {
            self.histogram.reset();
        }
    }
}
