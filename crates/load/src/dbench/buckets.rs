//! A latency histogram of fixed size without pointers, so that it can lie in memory that processes share.
//!
//! Buckets are those of an HDR histogram: 64 for each doubling, so a value is known to 1.6%.

use hdrhistogram::Histogram;
use std::{sync::atomic::AtomicU32, sync::atomic::Ordering::Relaxed};

/// Buckets of one doubling, as a power of two.
const FINE: u32 = 6;
/// Doublings above the first 2⁶ nanoseconds: up to 73 minutes.
const DOUBLINGS: usize = 36;
const BUCKETS: usize = (DOUBLINGS + 1) << FINE;

/// Counts of latencies. One client writes, others read.
#[derive(Debug)]
#[repr(transparent)]
pub struct Buckets([AtomicU32; BUCKETS]);

fn place(ns: u64) -> usize {
    let doubling = (u64::BITS - FINE - 1).saturating_sub(ns.leading_zeros());
    let fine = (ns >> doubling) as usize;
    // Beyond the first doubling `fine` has its top bit set, which counts as one doubling more.
    (((doubling as usize) << FINE) + fine).min(BUCKETS - 1)
}

/// The middle of a bucket.
fn value(place: usize) -> u64 {
    let doubling = (place >> FINE).saturating_sub(1);
    let fine = place - (doubling << FINE);
    ((fine as u64) << doubling) + ((1 << doubling) >> 1)
}

impl Buckets {
    /// Counts a latency.
    #[inline]
    pub fn record(&self, ns: u64) {
        let count = &self.0[place(ns)];
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Adds all that was counted.
    pub fn add_to(&self, histogram: &mut Histogram<u64>) {
        for (place, count) in self.0.iter().enumerate() {
            match count.load(Relaxed) {
                0 => {}
                // It grows as it has to, and no bucket lies beyond what it can grow to.
                count => histogram.record_n(value(place), count.into()).unwrap_or_default(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_known_to_its_precision() {
        for ns in (0..200).chain([1000, 65_535, 65_536, 1_000_000, 123_456_789, 60_000_000_000]) {
            let told = value(place(ns));
            assert!(told.abs_diff(ns) as f64 <= ns as f64 / 64.0, "{ns} is told as {told}");
        }
        assert_eq!(place(u64::MAX), BUCKETS - 1);
        assert!((0..BUCKETS - 1).all(|at| place(value(at)) == at));
    }

    #[test]
    fn what_is_counted_is_given() {
        let buckets: Box<Buckets> = Box::new(Buckets(std::array::from_fn(|_| AtomicU32::new(0))));
        (1..=100).for_each(|micros| buckets.record(micros * 1000));
        let mut histogram = Histogram::new(3).unwrap();
        buckets.add_to(&mut histogram);
        assert_eq!(histogram.len(), 100);
        let p50 = histogram.value_at_quantile(0.5);
        assert!(p50.abs_diff(50_000) < 1000, "{p50}");
    }
}
