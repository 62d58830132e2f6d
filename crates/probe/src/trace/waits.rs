//! The durations of the waits of one kind.

use hdrhistogram::Histogram;

/// Two significant digits: quantiles are right within 1%.
const DIGITS: u8 = 2;

/// Waits, summed up. Nanoseconds.
#[derive(Debug, Clone)]
pub struct Waits {
    /// How many.
    pub count: u64,
    /// How many ended without the lock.
    pub gave_up: u64,
    /// All together.
    pub total: u64,
    /// The longest.
    pub max: u64,
    spread: Histogram<u32>,
}

impl Waits {
    /// None yet.
    pub fn new() -> Waits {
        let spread = Histogram::new(DIGITS).expect("two digits are within the histogram's one to five");
        Waits { count: 0, gave_up: 0, total: 0, max: 0, spread }
    }

    /// One more.
    pub fn add(&mut self, ns: u64, gave_up: bool) {
        self.count += 1;
        self.gave_up += u64::from(gave_up);
        self.total += ns;
        self.max = self.max.max(ns);
        self.spread.record(ns).expect("a histogram that resizes itself takes any time");
    }

    /// All those of another.
    pub fn merge(&mut self, other: &Waits) {
        self.count += other.count;
        self.gave_up += other.gave_up;
        self.total += other.total;
        self.max = self.max.max(other.max);
        self.spread.add(&other.spread).expect("a histogram that resizes itself holds any other");
    }

    /// The mean; 0 where there are none.
    pub fn mean(&self) -> u64 {
        self.total.checked_div(self.count).unwrap_or(0)
    }

    /// The wait that 99% did not exceed, within 1%.
    pub fn p99(&self) -> u64 {
        self.spread.value_at_quantile(0.99).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_quantiles_are_those_of_all_waits() {
        let (mut low, mut high) = (Waits::new(), Waits::new());
        for ns in 1..=98 {
            low.add(ns * 1_000, false);
        }
        high.add(99_000, true);
        high.add(3_000_000_000, false);
        low.merge(&high);
        assert_eq!((low.count, low.gave_up, low.max), (100, 1, 3_000_000_000));
        assert_eq!(low.total, 99 * 100 / 2 * 1_000 + 3_000_000_000);
        assert_eq!(low.mean(), low.total / 100);
        assert!((99_000..=99_990).contains(&low.p99()), "{}", low.p99());
    }

    #[test]
    fn no_waits_have_no_mean() {
        assert_eq!((Waits::new().mean(), Waits::new().p99()), (0, 0));
    }

    #[test]
    fn the_p99_of_one_wait_is_that_wait() {
        let mut waits = Waits::new();
        waits.add(1_234_567, false);
        assert_eq!(waits.p99(), 1_234_567);
    }
}
