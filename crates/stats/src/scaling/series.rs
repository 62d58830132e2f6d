//! Throughput by the number of clients, round by round.

use crate::average::{mean, sorted};
use fsarena_core::exit::{ExitCode, Exits};
use std::collections::{BTreeMap, BTreeSet};

/// The throughput of one thing at several numbers of clients.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name: a variant, a filesystem.
    pub name: String,
    /// The numbers of clients, ascending, each once.
    pub n: Vec<f64>,
    /// `x[number][round]`: its throughput in each round; NaN where there is none. A table without replicates has
    /// one round.
    pub x: Vec<Vec<f64>>,
}

/// A number of clients, a round, a throughput.
pub type Row = (f64, u32, f64);

/// Why rows do not make a series.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A number of clients or a throughput has no logarithm.
    #[error("{0}: {1} {2} is not above 0 and below 1e300, and scaling is about ratios")]
    NotPositive(String, &'static str, f64),
    /// Fewer than two numbers of clients.
    #[error("{name} was measured at one number of clients only: nothing is known of how it scales")]
    OneNumber {
        /// The series.
        name: String,
    },
}

impl Exits for Error {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}

impl Series {
    /// Sorts rows of (clients, round, throughput). Several rows of one round and number are one observation:
    /// their mean.
    ///
    /// # Errors
    /// A value that is not above 0, or fewer than two numbers of clients.
    pub fn new(name: &str, rows: &[Row]) -> Result<Series, Error> {
        for (n, _, x) in rows {
            for (what, value) in [("number of clients", *n), ("throughput", *x)] {
                // Sums of such numbers are numbers.
                if !(value > 0.0 && value < 1e300) {
                    return Err(Error::NotPositive(name.into(), what, value));
                }
            }
        }
        let mut numbers = sorted(rows.iter().map(|row| row.0));
        numbers.dedup();
        if numbers.len() < 2 {
            return Err(Error::OneNumber { name: name.into() });
        }
        let rounds: BTreeSet<u32> = rows.iter().map(|row| row.1).collect();
        let rounds: Vec<u32> = rounds.into_iter().collect();
        let mut sums: BTreeMap<(usize, usize), (f64, f64)> = BTreeMap::new();
        for (n, round, x) in rows {
            let at = (numbers.partition_point(|m| m < n), rounds.partition_point(|b| b < round));
            let sum = sums.entry(at).or_default();
            *sum = (sum.0 + x, sum.1 + 1.0);
        }
        let mut x = vec![vec![f64::NAN; rounds.len()]; numbers.len()];
        sums.into_iter().for_each(|((number, round), (sum, count))| x[number][round] = sum / count);
        Ok(Series { name: name.into(), n: numbers, x })
    }

    /// The number of rounds.
    pub fn rounds(&self) -> usize {
        self.x.first().map_or(0, Vec::len)
    }

    /// (N, ln X) of every replicate.
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

    /// The same with these rounds, which may repeat: one draw of a bootstrap. None where a number of clients
    /// would have no value.
    pub(super) fn drawn(&self, rounds: &[usize]) -> Option<Series> {
        let x: Vec<Vec<f64>> =
            self.x.iter().map(|row| rounds.iter().map(|round| row[*round]).collect()).collect();
        let known = |row: &Vec<f64>| row.iter().any(|x| !x.is_nan());
        x.iter().all(known).then(|| Series { x, ..self.clone() })
    }

    /// Where a number of clients stands.
    pub fn position(&self, n: f64) -> Option<usize> {
        self.n.iter().position(|known| *known == n)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A series without replicates.
    pub fn plain(points: &[(f64, f64)]) -> Series {
        Series::new("s", &points.iter().map(|(n, x)| (*n, 0, *x)).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn rows_come_in_any_order_and_repeats_are_means() {
        let series = Series::new("s", &[(4.0, 7, 8.0), (1.0, 2, 2.0), (1.0, 7, 3.0), (1.0, 7, 5.0)]).unwrap();
        assert_eq!((series.n.as_slice(), series.rounds()), ([1.0, 4.0].as_slice(), 2));
        assert_eq!(series.x[0], [2.0, 4.0]);
        assert!(series.x[1][0].is_nan() && series.x[1][1] == 8.0);
        assert_eq!(series.points().len(), 3);
        assert_eq!(series.means()[1], 8f64.ln());
    }

    #[test]
    fn what_has_no_logarithm_is_refused() {
        let error = |rows: &[(f64, u32, f64)]| Series::new("x", rows).unwrap_err().to_string();
        assert!(error(&[(1.0, 0, 0.0), (2.0, 0, 1.0)]).contains("throughput 0 is not above 0"));
        assert!(error(&[(-1.0, 0, 1.0), (2.0, 0, 1.0)]).contains("number of clients -1"));
        assert!(error(&[(1.0, 0, 1.0), (1.0, 1, 1.0)]).contains("one number of clients only"));
    }

    #[test]
    fn a_draw_repeats_rounds() {
        let series = Series::new("s", &[(1.0, 0, 1.0), (1.0, 1, 2.0), (2.0, 0, 3.0), (2.0, 1, 4.0)]).unwrap();
        assert_eq!(series.drawn(&[1, 1]).unwrap().x, [[2.0, 2.0], [4.0, 4.0]]);
    }
}
