//! Scaling of throughput with the number of clients: the law that it follows, the saturation point, the peak, and the share of
//! the peak that remains at the largest number of clients.

pub mod laws;

use crate::average::{mean, sorted};
use crate::ratio::independent_ratio;
use crate::ratio::{Estimate, Ratio, log_ratios};
use crate::simulate::stream;
use fsarena_core::exit::{ExitCode, Exits};
use laws::{Choice, fit_usl};
use rand::{Rng, RngExt};
use std::collections::{BTreeMap, BTreeSet};

/// The analysis of one series.
#[derive(Debug, Clone)]
pub struct Scaling {
    /// The series.
    pub series: Series,
    /// The fitted laws. None if there are too few points for any.
    pub choice: Option<Choice>,
    /// Where more clients stop gaining throughput. None if no number of clients was measured together with its double.
    pub saturation: Option<Saturation>,
    /// The highest throughput, and the share of it at the largest number of clients.
    pub peak: Peak,
    /// The peak of the universal scalability law. None unless that law is the winner and has a peak.
    pub modelled_peak: Option<Estimate>,
}

/// Analyses one series. The same series and seed give the same intervals.
pub fn analyse(series: Series, seed: u64) -> Scaling {
    let choice = Choice::of(&series);
    let usl = choice.as_ref().and_then(Choice::winner).is_some_and(|fit| fit.law.peak().is_some());
    Scaling {
        saturation: Saturation::of(&series),
        peak: Peak::of(&series, seed),
        modelled_peak: usl.then(|| modelled_peak(&series, seed)).flatten(),
        choice,
        series,
    }
}

/// The throughput of one variant at several numbers of clients.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The name of the variant.
    pub name: String,
    /// The numbers of clients, ascending, each once.
    pub n: Vec<f64>,
    /// The throughputs. If `paired`, `x[number][round]` is the throughput in each round, NaN for a missing value; otherwise
    /// `x[number]` has all values of that number of clients, ascending.
    pub x: Vec<Vec<f64>>,
    /// Whether the values of one round were measured together. If not, the values of each number are an independent sample.
    pub paired: bool,
}

/// A number of clients, a round, a throughput.
pub type Row = (f64, u32, f64);

/// The error for rows that do not make a series.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SeriesError {
    /// A number of clients or a throughput is not positive or too large.
    #[error("{0}: {1} {2} is not above 0 and below 1e300, and scaling is about ratios")]
    NotPositive(String, &'static str, f64),
    /// Fewer than two numbers of clients.
    #[error("{name} was measured at one number of clients only: nothing is known of how it scales")]
    OneNumber {
        /// The series.
        name: String,
    },
}

impl Exits for SeriesError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}

impl Series {
    /// Makes a series from rows of (clients, round, throughput) in any order. If several rows have the same round and number,
    /// their mean is the value.
    ///
    /// # Errors
    /// A value is not above 0, or there are fewer than two numbers of clients.
    pub fn new(name: &str, rows: &[Row]) -> Result<Series, SeriesError> {
        let numbers = numbers(name, rows.iter().map(|(n, _, x)| (*n, *x)))?;
        let rounds: BTreeSet<u32> = rows.iter().map(|row| row.1).collect();
        let rounds: Vec<u32> = rounds.into_iter().collect();
        let mut cells: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        for (n, round, x) in rows {
            let at = (numbers.partition_point(|m| m < n), rounds.partition_point(|b| b < round));
            cells.entry(at).or_default().push(*x);
        }
        let mut x = vec![vec![f64::NAN; rounds.len()]; numbers.len()];
        // Sort before summing, because the rounding of a sum depends on the order.
        cells.into_iter().for_each(|((number, round), cell)| x[number][round] = mean(sorted(cell)));
        Ok(Series { name: name.into(), n: numbers, x, paired: true })
    }

    /// Makes a series without rounds from points of (clients, throughput).
    ///
    /// # Errors
    /// A value is not above 0, or there are fewer than two numbers of clients.
    pub fn unpaired(name: &str, points: &[(f64, f64)]) -> Result<Series, SeriesError> {
        let numbers = numbers(name, points.iter().copied())?;
        let of = |n: &f64| sorted(points.iter().filter(|point| point.0 == *n).map(|point| point.1));
        let x = numbers.iter().map(of).collect();
        Ok(Series { name: name.into(), n: numbers, x, paired: false })
    }

    /// The number of rounds; without rounds, the largest number of values at one number of clients.
    pub fn rounds(&self) -> usize {
        self.x.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The fewest values of a number of clients.
    pub fn fewest(&self) -> usize {
        self.x.iter().map(|x| x.iter().filter(|x| !x.is_nan()).count()).min().unwrap_or(0)
    }

    /// The throughput at one number of clients divided by that at another (`to` / `from`, indices): within rounds, or of two
    /// independent samples if there are no rounds. None without values.
    pub fn ratio(&self, to: usize, from: usize) -> Option<Ratio> {
        if self.paired {
            Ratio::of(log_ratios(&self.x[from], &self.x[to]).d)
        } else {
            independent_ratio(&self.x[from], &self.x[to])
        }
    }

    /// The points (N, ln X) of all values: number of clients and logarithm of the throughput.
    pub fn points(&self) -> Vec<(f64, f64)> {
        let of = |(n, x): (&f64, &Vec<f64>)| -> Vec<(f64, f64)> {
            x.iter().filter(|x| !x.is_nan()).map(|x| (*n, x.ln())).collect()
        };
        self.n.iter().zip(&self.x).flat_map(of).collect()
    }

    /// The mean of ln X at each number of clients, over the rounds that have it.
    pub fn means(&self) -> Vec<f64> {
        let mean = |x: &Vec<f64>| mean(x.iter().filter(|x| !x.is_nan()).map(|x| x.ln()));
        self.x.iter().map(mean).collect()
    }

    /// One bootstrap resample: of the rounds, or without rounds of the values at each number of clients. None if a number of
    /// clients would have no value.
    pub(super) fn drawn(&self, rng: &mut impl Rng) -> Option<Series> {
        let mut draw = |of: usize| -> Vec<usize> { (0..of).map(|_| rng.random_range(0..of)).collect() };
        let taken = |row: &Vec<f64>, at: &[usize]| -> Vec<f64> { at.iter().map(|at| row[*at]).collect() };
        let x: Vec<Vec<f64>> = if self.paired {
            let rounds = draw(self.rounds());
            self.x.iter().map(|row| taken(row, &rounds)).collect()
        } else {
            self.x.iter().map(|row| taken(row, &draw(row.len()))).collect()
        };
        let known = |row: &Vec<f64>| row.iter().any(|x| !x.is_nan());
        x.iter().all(known).then(|| Series { x, ..self.clone() })
    }

    /// The index of a number of clients.
    pub fn position(&self, n: f64) -> Option<usize> {
        self.n.iter().position(|known| *known == n)
    }
}

/// The distinct numbers of clients, ascending. Fails unless all numbers and values are positive.
fn numbers(name: &str, points: impl Iterator<Item = (f64, f64)> + Clone) -> Result<Vec<f64>, SeriesError> {
    for (n, x) in points.clone() {
        for (what, value) in [("number of clients", n), ("throughput", x)] {
            // The limit keeps sums finite.
            if !(value > 0.0 && value < 1e300) {
                return Err(SeriesError::NotPositive(name.into(), what, value));
            }
        }
    }
    let mut numbers = sorted(points.map(|point| point.0));
    numbers.dedup();
    match numbers.len() {
        0 | 1 => Err(SeriesError::OneNumber { name: name.into() }),
        _ => Ok(numbers),
    }
}

/// The smallest ratio of throughput for which twice the clients count as a gain.
pub const GAIN: f64 = 1.05;

/// The gain in throughput from doubling one number of clients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Doubling {
    /// The number of clients.
    pub n: f64,
    /// The ratio X(2N)/X(N).
    pub gain: Ratio,
}

/// The saturation point: the first number of clients whose double significantly gains less than 5%.
#[derive(Debug, Clone, PartialEq)]
pub struct Saturation {
    /// The doublings of all numbers whose double was also measured, ascending.
    pub doublings: Vec<Doubling>,
    /// The saturation point: the first N whose upper limit of X(2N)/X(N) is under [`GAIN`]. None if there is none.
    pub at: Option<f64>,
    /// The first N that may be saturated: its lower limit is under [`GAIN`]. The interval of the saturation point is from here
    /// to `at`.
    pub from: Option<f64>,
}

impl Saturation {
    /// Finds the saturation point of a series. None if no number of clients was measured together with its double.
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

    /// Whether a doubling has too few rounds for an exact interval.
    pub fn provisional(&self) -> bool {
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
    pub at: f64,
    /// Its 95% interval by bootstrap. None for fewer than two rounds.
    pub interval: Option<(f64, f64)>,
    /// The geometric mean over rounds of the throughput at the peak.
    pub throughput: f64,
    /// The throughput at the largest number of clients divided by the peak's. None if the peak is there.
    pub at_end: Option<Ratio>,
}

impl Peak {
    /// Finds the peak of the geometric mean over rounds.
    pub fn of(series: &Series, seed: u64) -> Peak {
        let means = series.means();
        let top = top_of(&means);
        let last = series.n.len() - 1;
        let draws = draws(series, seed, RESAMPLES, |drawn| drawn.n[top_of(&drawn.means())]);
        Peak {
            at: series.n[top],
            interval: middle_of_draws(draws).filter(|_| series.rounds() > 1),
            throughput: means[top].exp(),
            at_end: (top != last).then(|| series.ratio(last, top)).flatten(),
        }
    }
}

/// The peak of the fitted universal scalability law, √((1−σ)/κ), with its interval by bootstrap. None if it has no peak. A
/// resample without a peak counts as a peak at infinity.
fn modelled_peak(series: &Series, seed: u64) -> Option<Estimate> {
    let peak = |series: &Series| fit_usl(&series.points()).and_then(|fit| fit.law.peak());
    let value = peak(series)?;
    if series.rounds() < 2 {
        return Some(Estimate { value, low: f64::NAN, high: f64::NAN });
    }
    let draws = draws(series, seed, REFITS, |drawn| peak(drawn).unwrap_or(f64::INFINITY));
    let (low, high) = middle_of_draws(draws)?;
    Some(Estimate { value, low, high })
}

/// The index of the largest mean.
fn top_of(means: &[f64]) -> usize {
    (0..means.len()).max_by(|a, b| means[*a].total_cmp(&means[*b])).unwrap_or(0)
}

/// The values of a statistic in bootstrap resamples of a series.
fn draws(series: &Series, seed: u64, times: usize, statistic: impl Fn(&Series) -> f64) -> Vec<f64> {
    let mut rng = stream(seed, 0);
    (0..times).filter_map(|_| series.drawn(&mut rng)).map(|drawn| statistic(&drawn)).collect()
}

/// The 2.5% and 97.5% percentiles.
fn middle_of_draws(draws: Vec<f64>) -> Option<(f64, f64)> {
    let draws = sorted(draws);
    let tail = (draws.len() as f64 * 0.025) as usize;
    Some((*draws.get(tail)?, draws[draws.len() - 1 - tail]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A series without replicates.
    pub fn plain(points: &[(f64, f64)]) -> Series {
        Series::new("s", &points.iter().map(|(n, x)| (*n, 0, *x)).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn rows_are_sorted_and_repeats_are_averaged() {
        let series = Series::new("s", &[(4.0, 7, 8.0), (1.0, 2, 2.0), (1.0, 7, 3.0), (1.0, 7, 5.0)]).unwrap();
        assert_eq!((series.n.as_slice(), series.rounds()), ([1.0, 4.0].as_slice(), 2));
        assert_eq!(series.x[0], [2.0, 4.0]);
        assert!(series.x[1][0].is_nan() && series.x[1][1] == 8.0);
        assert_eq!(series.points().len(), 3);
        assert_eq!(series.means()[1], 8f64.ln());
    }

    #[test]
    fn values_that_are_not_positive_are_errors() {
        let error = |rows: &[(f64, u32, f64)]| Series::new("x", rows).unwrap_err().to_string();
        assert!(error(&[(1.0, 0, 0.0), (2.0, 0, 1.0)]).contains("throughput 0 is not above 0"));
        assert!(error(&[(-1.0, 0, 1.0), (2.0, 0, 1.0)]).contains("number of clients -1"));
        assert!(error(&[(1.0, 0, 1.0), (1.0, 1, 1.0)]).contains("one number of clients only"));
    }

    #[test]
    fn a_draw_takes_whole_rounds_or_the_values_of_each_number() {
        let rows: Vec<Row> =
            (0..8).flat_map(|r| [(1.0, r, 1.0 + f64::from(r)), (2.0, r, 2.0 + f64::from(r))]).collect();
        let points: Vec<(f64, f64)> = rows.iter().map(|(n, _, x)| (*n, *x)).collect();
        let together = |series: Series| {
            let drawn = series.drawn(&mut crate::simulate::stream(1, 0)).unwrap();
            drawn.x[0].iter().zip(&drawn.x[1]).all(|(one, two)| two - one == 1.0)
        };
        assert!(together(Series::new("s", &rows).unwrap()));
        assert!(!together(Series::unpaired("s", &points).unwrap()));
    }

    #[test]
    fn without_rounds_the_values_of_each_number_are_an_independent_sample() {
        let points = [(2.0, 30.0), (1.0, 10.0), (2.0, 20.0), (1.0, 12.0), (2.0, 25.0)];
        let series = Series::unpaired("s", &points).unwrap();
        assert_eq!(series.x, [vec![10.0, 12.0], vec![20.0, 25.0, 30.0]]);
        assert_eq!((series.rounds(), series.points().len()), (3, 5));
        let ratio = series.ratio(1, 0).unwrap();
        assert!(ratio.provisional && (ratio.low - 20.0 / 12.0).abs() < 1e-12, "{ratio:?}");
        let error = Series::unpaired("s", &[points[1], points[3]]).unwrap_err();
        assert!(error.to_string().contains("one number of clients only"), "{error}");
    }

    #[test]
    fn saturation_of_single_values_is_provisional() {
        let series = plain(&[(1.0, 100.0), (2.0, 190.0), (4.0, 250.0), (8.0, 255.0), (16.0, 250.0)]);
        let saturation = Saturation::of(&series).unwrap();
        assert_eq!((saturation.at, saturation.from), (Some(4.0), Some(4.0)));
        assert_eq!(saturation.doublings.len(), 4);
        assert!(saturation.provisional());
    }

    #[test]
    fn the_interval_of_saturation_begins_where_it_is_possible_and_ends_where_it_is_certain() {
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
    fn a_growing_series_is_not_saturated() {
        let saturation = Saturation::of(&plain(&[(1.0, 1.0), (2.0, 2.0), (4.0, 4.0)])).unwrap();
        assert_eq!((saturation.at, saturation.from), (None, None));
        assert!(Saturation::of(&plain(&[(1.0, 1.0), (3.0, 2.0)])).is_none());
    }

    #[test]
    fn the_peak_has_its_throughput_and_the_share_at_the_end() {
        let peak = Peak::of(&plain(&[(1.0, 50.0), (3.0, 100.0), (10.0, 33.0)]), 1);
        assert_eq!((peak.at, peak.interval), (3.0, None));
        assert!((peak.throughput - 100.0).abs() < 1e-9);
        assert!((peak.at_end.unwrap().value - 0.33).abs() < 1e-12);
        assert!(Peak::of(&plain(&[(1.0, 50.0), (3.0, 100.0)]), 1).at_end.is_none());
    }

    #[test]
    fn rounds_that_disagree_widen_the_interval() {
        // 4 clients win in five of eight rounds, 2 clients in three, by the same ratio.
        let mut rows = vec![];
        for round in 0..8u32 {
            let (two, four) = if round < 5 { (100.0, 120.0) } else { (120.0, 100.0) };
            rows.extend([(1.0, round, 60.0), (2.0, round, two), (4.0, round, four)]);
        }
        let peak = Peak::of(&Series::new("s", &rows).unwrap(), 1);
        assert_eq!((peak.at, peak.interval), (4.0, Some((2.0, 4.0))));
        let steady: Vec<_> = rows.iter().filter(|row| row.1 < 5).copied().collect();
        assert_eq!(Peak::of(&Series::new("s", &steady).unwrap(), 1).interval, Some((4.0, 4.0)));
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
