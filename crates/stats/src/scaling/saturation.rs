//! Saturation: the number of clients above which more clients hardly add throughput, under any law.

use super::series::Series;
use crate::ratio::Ratio;

/// Twice the clients pay where they bring more than this.
pub const GAIN: f64 = 1.05;

/// What twice the clients bring at one number of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Doubling {
    /// The number of clients.
    pub n: f64,
    /// X(2N)/X(N): within rounds, where there are any.
    pub gain: Ratio,
}

/// Where throughput saturates: the first number of clients of which the double certainly brings under 5%.
#[derive(Debug, Clone, PartialEq)]
pub struct Saturation {
    /// Every number whose double was measured too, ascending.
    pub doublings: Vec<Doubling>,
    /// The first N whose upper limit of ln[X(2N)/X(N)] is under ln 1.05. None where no number reaches it.
    pub at: Option<f64>,
    /// The first N that may be saturated: whose lower limit is under ln 1.05. With `at` it is the interval.
    pub from: Option<f64>,
}

impl Saturation {
    /// Looks at every doubling. None where there is none.
    pub fn of(series: &Series) -> Option<Saturation> {
        let doubling = |(at, n): (usize, &f64)| {
            let double = series.position(2.0 * n)?;
            let gain = series.ratio(double, at)?;
            Some(Doubling { n: *n, gain })
        };
        let doublings: Vec<Doubling> = series.n.iter().enumerate().filter_map(doubling).collect();
        if doublings.is_empty() {
            return None;
        }
        let first = |limit: fn(&Ratio) -> f64| {
            doublings.iter().find(|doubling| limit(&doubling.gain) < GAIN).map(|doubling| doubling.n)
        };
        Some(Saturation { at: first(|gain| gain.high), from: first(|gain| gain.low), doublings })
    }

    /// Whether its intervals are the extremes of too few rounds.
    pub fn provisional(&self) -> bool {
        self.doublings.iter().any(|doubling| doubling.gain.provisional)
    }
}

#[cfg(test)]
mod tests {
    use super::super::series::tests::plain;
    use super::*;

    #[test]
    fn without_replicates_the_values_decide() {
        let series = plain(&[(1.0, 100.0), (2.0, 190.0), (4.0, 250.0), (8.0, 255.0), (16.0, 250.0)]);
        let saturation = Saturation::of(&series).unwrap();
        assert_eq!((saturation.at, saturation.from), (Some(4.0), Some(4.0)));
        assert_eq!(saturation.doublings.len(), 4);
        assert!(saturation.provisional());
    }

    #[test]
    fn the_interval_goes_from_what_may_to_what_must_be() {
        // At 2 clients the eight gains reach from 1.01 to 1.08: it may be saturated. At 4 all are under 1.05.
        let mut rows = vec![];
        for round in 0..8u32 {
            let step = f64::from(round) / 7.0;
            let two = 190.0;
            let four = two * (1.01 + 0.07 * step);
            rows.extend([
                (1.0, round, 100.0),
                (2.0, round, two),
                (4.0, round, four),
                (8.0, round, four * 1.01),
            ]);
        }
        let saturation = Saturation::of(&Series::new("s", &rows).unwrap()).unwrap();
        assert_eq!((saturation.from, saturation.at), (Some(2.0), Some(4.0)));
        assert!(!saturation.provisional());
    }

    #[test]
    fn what_still_grows_is_not_saturated() {
        let saturation = Saturation::of(&plain(&[(1.0, 1.0), (2.0, 2.0), (4.0, 4.0)])).unwrap();
        assert_eq!((saturation.at, saturation.from), (None, None));
        assert!(Saturation::of(&plain(&[(1.0, 1.0), (3.0, 2.0)])).is_none());
    }
}
