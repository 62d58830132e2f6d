//! A series: the throughput of one variant at several numbers of clients.

use crate::average::{mean, sorted};
use crate::ratio::{Ratio, independent_ratio, log_ratios};
use fsarena_core::exit::{ExitCode, HasExitCode};
use rand::{Rng, RngExt};
use std::collections::{BTreeMap, BTreeSet};

/// The throughput of one variant at several numbers of clients.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The name of the variant.
    pub name: String,
    /// The numbers of clients, N in the formulas of scaling, ascending, each once.
    pub n: Vec<f64>,
    /// The throughputs. If `paired`, `x[number][round]` is the throughput in each round, NaN for a missing value; otherwise
    /// `x[number]` has all values of that number of clients: ascending, except in a resample.
    pub x: Vec<Vec<f64>>,
    /// Whether the values of one round were measured together. If not, the values of each number are an independent sample.
    pub paired: bool,
}

/// A number of clients, a round, a throughput.
pub type SeriesRow = (f64, u32, f64);

/// The error for rows that do not make a series.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SeriesError {
    /// A number of clients or a throughput is not positive or too large.
    #[error("{0}: {1} {2} must be above 0 and below 1e300, because scaling compares ratios")]
    NotPositive(String, &'static str, f64),
    /// Fewer than two numbers of clients.
    #[error("{name} was measured at one number of clients only: nothing is known of how it scales")]
    OneNumber {
        /// The series.
        name: String,
    },
}

impl HasExitCode for SeriesError {
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
    pub fn new(name: &str, rows: &[SeriesRow]) -> Result<Series, SeriesError> {
        let numbers = checked_numbers(name, rows.iter().map(|(n, _, x)| (*n, *x)))?;
        let rounds: BTreeSet<u32> = rows.iter().map(|row| row.1).collect();
        let rounds: Vec<u32> = rounds.into_iter().collect();
        let mut cells: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        for (n, round, x) in rows {
            let number_index = numbers.partition_point(|number| number < n);
            let round_index = rounds.partition_point(|other| other < round);
            cells.entry((number_index, round_index)).or_default().push(*x);
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
        let numbers = checked_numbers(name, points.iter().copied())?;
        let values_at = |n: &f64| sorted(points.iter().filter(|point| point.0 == *n).map(|point| point.1));
        let x = numbers.iter().map(values_at).collect();
        Ok(Series { name: name.into(), n: numbers, x, paired: false })
    }

    /// The number of rounds; without rounds, the largest number of values at one number of clients.
    pub fn rounds(&self) -> usize {
        self.x.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The fewest values of a number of clients.
    pub fn fewest_values(&self) -> usize {
        self.x.iter().map(|x| x.iter().filter(|x| !x.is_nan()).count()).min().unwrap_or(0)
    }

    /// The throughput at the number of clients with the index `numerator` divided by that at the index `denominator`: within
    /// rounds, or of two independent samples if there are no rounds. None without values.
    pub fn ratio(&self, numerator: usize, denominator: usize) -> Option<Ratio> {
        let (x, y) = (&self.x[denominator], &self.x[numerator]);
        if self.paired { Ratio::from_log_ratios(log_ratios(x, y).d) } else { independent_ratio(x, y) }
    }

    /// The points (N, ln X) of all values: number of clients and logarithm of the throughput.
    pub fn points(&self) -> Vec<(f64, f64)> {
        let points_at = |(n, x): (&f64, &Vec<f64>)| -> Vec<(f64, f64)> {
            x.iter().filter(|x| !x.is_nan()).map(|x| (*n, x.ln())).collect()
        };
        self.n.iter().zip(&self.x).flat_map(points_at).collect()
    }

    /// The mean of ln X at each number of clients, over the rounds that have it.
    pub fn log_means(&self) -> Vec<f64> {
        let mean = |x: &Vec<f64>| mean(x.iter().filter(|x| !x.is_nan()).map(|x| x.ln()));
        self.x.iter().map(mean).collect()
    }

    /// One bootstrap resample: of the rounds, or without rounds of the values at each number of clients. None if a number of
    /// clients would have no value.
    pub(super) fn resample(&self, rng: &mut impl Rng) -> Option<Series> {
        let mut draw = |count: usize| -> Vec<usize> { (0..count).map(|_| rng.random_range(0..count)).collect() };
        let take =
            |row: &Vec<f64>, indices: &[usize]| -> Vec<f64> { indices.iter().map(|index| row[*index]).collect() };
        let x: Vec<Vec<f64>> = if self.paired {
            let rounds = draw(self.rounds());
            self.x.iter().map(|row| take(row, &rounds)).collect()
        } else {
            self.x.iter().map(|row| take(row, &draw(row.len()))).collect()
        };
        let has_value = |row: &Vec<f64>| row.iter().any(|x| !x.is_nan());
        x.iter().all(has_value).then(|| Series { x, ..self.clone() })
    }

    /// The index of a number of clients.
    pub fn index_of(&self, n: f64) -> Option<usize> {
        self.n.iter().position(|known| *known == n)
    }
}

/// The distinct numbers of clients, ascending.
///
/// # Errors
/// A number or a throughput is not above 0, or there are fewer than two distinct numbers.
fn checked_numbers(name: &str, points: impl Iterator<Item = (f64, f64)> + Clone) -> Result<Vec<f64>, SeriesError> {
    for (n, x) in points.clone() {
        for (name_of_value, value) in [("number of clients", n), ("throughput", x)] {
            // The limit keeps sums finite.
            if !(value > 0.0 && value < 1e300) {
                return Err(SeriesError::NotPositive(name.into(), name_of_value, value));
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::simulate::run_rng;

    /// A series with one round, from points of (clients, throughput).
    pub fn one_round(points: &[(f64, f64)]) -> Series {
        Series::new("s", &points.iter().map(|(n, x)| (*n, 0, *x)).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn rows_are_sorted_and_repeats_are_averaged() {
        let series = Series::new("s", &[(4.0, 7, 8.0), (1.0, 2, 2.0), (1.0, 7, 3.0), (1.0, 7, 5.0)]).unwrap();
        assert_eq!((series.n.as_slice(), series.rounds()), ([1.0, 4.0].as_slice(), 2));
        assert_eq!(series.x[0], [2.0, 4.0]);
        assert!(series.x[1][0].is_nan() && series.x[1][1] == 8.0);
        assert_eq!(series.points().len(), 3);
        assert_eq!(series.log_means()[1], 8f64.ln());
    }

    #[test]
    fn values_that_are_not_positive_are_errors() {
        let error = |rows: &[(f64, u32, f64)]| Series::new("x", rows).unwrap_err().to_string();
        assert!(error(&[(1.0, 0, 0.0), (2.0, 0, 1.0)]).contains("throughput 0 must be above 0"));
        assert!(error(&[(-1.0, 0, 1.0), (2.0, 0, 1.0)]).contains("number of clients -1"));
        assert!(error(&[(1.0, 0, 1.0), (1.0, 1, 1.0)]).contains("one number of clients only"));
    }

    #[test]
    fn a_resample_has_whole_rounds_or_the_values_of_each_number() {
        let rows: Vec<SeriesRow> =
            (0..8).flat_map(|round| [1.0, 2.0].map(|n| (n, round, n + f64::from(round)))).collect();
        let points: Vec<(f64, f64)> = rows.iter().map(|(n, _, x)| (*n, *x)).collect();
        let keeps_rounds_together = |series: Series| {
            let drawn = series.resample(&mut run_rng(1, 0)).unwrap();
            drawn.x[0].iter().zip(&drawn.x[1]).all(|(one, two)| two - one == 1.0)
        };
        assert!(keeps_rounds_together(Series::new("s", &rows).unwrap()));
        assert!(!keeps_rounds_together(Series::unpaired("s", &points).unwrap()));
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
}
