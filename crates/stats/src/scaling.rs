//! Scaling of throughput with the number of clients: the law that it follows, the saturation point, the peak, and the share of
//! the peak that remains at the largest number of clients.
//!
//! N is a number of clients, X(N) the throughput with N clients; [`laws`] defines the parameters σ and κ of the laws. A
//! bootstrap resample draws rounds with replacement; without rounds it draws from the values at each number of clients.

pub mod growth;
pub mod laws;
mod series;

pub use series::{Series, SeriesError, SeriesRow};

use crate::average::sorted;
use crate::ratio::{Estimate, Ratio};
use crate::simulate::run_rng;
use laws::{LawChoice, fit_usl};

/// The analysis of one series.
#[derive(Debug, Clone)]
pub struct Scaling {
    /// The series.
    pub series: Series,
    /// The fitted laws. None if there are too few points for any.
    pub choice: Option<LawChoice>,
    /// Where more clients stop gaining throughput. None if no number of clients was measured together with its double.
    pub saturation: Option<Saturation>,
    /// The highest throughput, and the share of it that remains at the largest number of clients.
    pub peak: Peak,
    /// The peak of the universal scalability law. None unless that law is the winner and has a peak.
    pub modelled_peak: Option<Estimate>,
}

/// Analyses one series. The same series and seed give the same intervals.
pub fn analyse_scaling(series: Series, seed: u64) -> Scaling {
    let choice = LawChoice::fit(&series);
    let winner_has_peak = choice.as_ref().and_then(LawChoice::winner).is_some_and(|fit| fit.law.peak().is_some());
    Scaling {
        saturation: Saturation::find(&series),
        peak: Peak::find(&series, seed),
        modelled_peak: winner_has_peak.then(|| modelled_peak(&series, seed)).flatten(),
        choice,
        series,
    }
}

/// A doubling of the clients counts as a gain if it multiplies the throughput by at least this.
pub const MIN_GAIN: f64 = 1.05;

/// The gain in throughput from doubling one number of clients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Doubling {
    /// The number of clients N before the doubling.
    pub clients: f64,
    /// The ratio X(2N)/X(N).
    pub gain: Ratio,
}

/// The saturation point: the smallest number of clients for which doubling it gains less than 5%, with 95% confidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Saturation {
    /// The doublings of all numbers whose double was also measured, ascending.
    pub doublings: Vec<Doubling>,
    /// The saturation point: the first N whose upper limit of X(2N)/X(N) is under [`MIN_GAIN`]. None if no N has such a limit.
    pub clients: Option<f64>,
    /// The first N that may be saturated: its lower limit is under [`MIN_GAIN`]. The interval of the saturation point is from
    /// this N to `clients`.
    pub possible_from: Option<f64>,
}

impl Saturation {
    /// Finds the saturation point of a series. None if no number of clients was measured together with its double.
    pub fn find(series: &Series) -> Option<Saturation> {
        let doubling = |(index, n): (usize, &f64)| {
            let gain = series.ratio(series.index_of(2.0 * n)?, index)?;
            Some(Doubling { clients: *n, gain })
        };
        let doublings: Vec<Doubling> = series.n.iter().enumerate().filter_map(doubling).collect();
        if doublings.is_empty() {
            return None;
        }
        let first_without_gain = |limit: fn(&Ratio) -> f64| {
            doublings.iter().find(|doubling| limit(&doubling.gain) < MIN_GAIN).map(|doubling| doubling.clients)
        };
        Some(Saturation {
            clients: first_without_gain(|gain| gain.high),
            possible_from: first_without_gain(|gain| gain.low),
            doublings,
        })
    }

    /// Whether a doubling has too few rounds for an exact interval.
    pub fn is_provisional(&self) -> bool {
        self.doublings.iter().any(|doubling| doubling.gain.provisional)
    }
}

/// The number of resamples for the interval of the peak.
const RESAMPLES: usize = 1_000;
/// The number of resamples for the interval of a fitted peak, which takes longer.
const REFITS: usize = 200;

/// The number of clients with the highest throughput.
#[derive(Debug, Clone, PartialEq)]
pub struct Peak {
    /// The number of clients.
    pub clients: f64,
    /// Its 95% interval by bootstrap. None for fewer than two rounds.
    pub interval: Option<(f64, f64)>,
    /// The geometric mean over rounds of the throughput at the peak.
    pub throughput: f64,
    /// The throughput at the largest number of clients divided by the peak's. None if the peak is at that number.
    pub ratio_at_end: Option<Ratio>,
}

impl Peak {
    /// Finds the peak of the geometric mean over rounds.
    pub fn find(series: &Series, seed: u64) -> Peak {
        let log_means = series.log_means();
        let top = index_of_largest(&log_means);
        let last = series.n.len() - 1;
        let draws =
            resampled_statistics(series, seed, RESAMPLES, |drawn| drawn.n[index_of_largest(&drawn.log_means())]);
        Peak {
            clients: series.n[top],
            interval: percentile_interval(draws).filter(|_| series.rounds() > 1),
            throughput: log_means[top].exp(),
            ratio_at_end: (top != last).then(|| series.ratio(last, top)).flatten(),
        }
    }
}

/// The peak of the fitted universal scalability law, √((1−σ)/κ), with its interval by bootstrap. None if it has no peak. A
/// resample without a peak counts as a peak at infinity.
fn modelled_peak(series: &Series, seed: u64) -> Option<Estimate> {
    let peak_of = |series: &Series| fit_usl(&series.points()).and_then(|fit| fit.law.peak());
    let value = peak_of(series)?;
    if series.rounds() < 2 {
        return Some(Estimate { value, low: f64::NAN, high: f64::NAN });
    }
    let draws = resampled_statistics(series, seed, REFITS, |drawn| peak_of(drawn).unwrap_or(f64::INFINITY));
    let (low, high) = percentile_interval(draws)?;
    Some(Estimate { value, low, high })
}

/// The index of the largest mean.
fn index_of_largest(means: &[f64]) -> usize {
    (0..means.len()).max_by(|a, b| means[*a].total_cmp(&means[*b])).unwrap_or(0)
}

/// The values of a statistic in bootstrap resamples of a series.
fn resampled_statistics(series: &Series, seed: u64, resamples: usize, statistic: impl Fn(&Series) -> f64) -> Vec<f64> {
    let mut rng = run_rng(seed, 0);
    (0..resamples).filter_map(|_| series.resample(&mut rng)).map(|drawn| statistic(&drawn)).collect()
}

/// The 2.5% and 97.5% percentiles of the values in bootstrap resamples.
fn percentile_interval(draws: Vec<f64>) -> Option<(f64, f64)> {
    let draws = sorted(draws);
    let tail = (draws.len() as f64 * 0.025) as usize;
    Some((*draws.get(tail)?, draws[draws.len() - 1 - tail]))
}

#[cfg(test)]
mod tests {
    use super::series::tests::one_round;
    use super::*;

    #[test]
    fn saturation_of_single_values_is_provisional() {
        let series = one_round(&[(1.0, 100.0), (2.0, 190.0), (4.0, 250.0), (8.0, 255.0), (16.0, 250.0)]);
        let saturation = Saturation::find(&series).unwrap();
        assert_eq!((saturation.clients, saturation.possible_from), (Some(4.0), Some(4.0)));
        assert_eq!(saturation.doublings.len(), 4);
        assert!(saturation.is_provisional());
    }

    #[test]
    fn the_interval_of_saturation_begins_where_it_is_possible_and_ends_where_it_is_certain() {
        // At 2 clients the eight gains reach from 1.01 to 1.08: it may be saturated. At 4 all are under 1.05.
        let mut rows = vec![];
        for round in 0..8u32 {
            let step = f64::from(round) / 7.0;
            let two = 190.0;
            let four = two * (1.01 + 0.07 * step);
            rows.extend([(1.0, round, 100.0), (2.0, round, two), (4.0, round, four), (8.0, round, four * 1.01)]);
        }
        let saturation = Saturation::find(&Series::new("s", &rows).unwrap()).unwrap();
        assert_eq!((saturation.possible_from, saturation.clients), (Some(2.0), Some(4.0)));
        assert!(!saturation.is_provisional());
    }

    #[test]
    fn a_growing_series_is_not_saturated() {
        let saturation = Saturation::find(&one_round(&[(1.0, 1.0), (2.0, 2.0), (4.0, 4.0)])).unwrap();
        assert_eq!((saturation.clients, saturation.possible_from), (None, None));
        assert!(Saturation::find(&one_round(&[(1.0, 1.0), (3.0, 2.0)])).is_none());
    }

    #[test]
    fn the_peak_has_its_throughput_and_the_share_at_the_end() {
        let peak = Peak::find(&one_round(&[(1.0, 50.0), (3.0, 100.0), (10.0, 33.0)]), 1);
        assert_eq!((peak.clients, peak.interval), (3.0, None));
        assert!((peak.throughput - 100.0).abs() < 1e-9);
        assert!((peak.ratio_at_end.unwrap().value - 0.33).abs() < 1e-12);
        assert!(Peak::find(&one_round(&[(1.0, 50.0), (3.0, 100.0)]), 1).ratio_at_end.is_none());
    }

    #[test]
    fn rounds_that_disagree_widen_the_interval() {
        // 4 clients win in five of eight rounds, 2 clients in three, by the same ratio.
        let mut rows = vec![];
        for round in 0..8u32 {
            let (two, four) = if round < 5 { (100.0, 120.0) } else { (120.0, 100.0) };
            rows.extend([(1.0, round, 60.0), (2.0, round, two), (4.0, round, four)]);
        }
        let peak = Peak::find(&Series::new("s", &rows).unwrap(), 1);
        assert_eq!((peak.clients, peak.interval), (4.0, Some((2.0, 4.0))));
        let steady: Vec<_> = rows.iter().filter(|row| row.1 < 5).copied().collect();
        assert_eq!(Peak::find(&Series::new("s", &steady).unwrap(), 1).interval, Some((4.0, 4.0)));
    }

    #[test]
    fn the_modelled_peak_is_that_of_the_law() {
        // λ = 100, σ = 0.05, κ = 0.002: √(0.95/0.002) = 21.79.
        let usl = |n: f64| 100.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.002 * n * (n - 1.0));
        let mut rows = vec![];
        for round in 0..8u32 {
            let noise = 1.0 + 0.002 * (f64::from(round) - 3.5);
            rows.extend([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0].map(|n| (n, round, usl(n) * noise)));
        }
        let peak = modelled_peak(&Series::new("s", &rows).unwrap(), 1).unwrap();
        assert!((peak.value - 21.794).abs() < 0.01, "{peak:?}");
        assert!(peak.low <= peak.value + 1e-6 && peak.value <= peak.high + 1e-6, "{peak:?}");
    }
}
