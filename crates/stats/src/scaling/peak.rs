//! The highest throughput: where it is, and what is left of it at the end.

use super::{series::Series, usl};
use crate::ratio::{Estimate, Ratio};
use crate::{average::sorted, simulate::stream};

/// Resamples of rounds: 2.5% of them are 25, enough for ends among a few numbers of clients.
const RESAMPLES: usize = 1_000;
/// Resamples of a fit, which takes longer.
const REFITS: usize = 200;

/// The number of clients with the highest throughput.
#[derive(Debug, Clone, PartialEq)]
pub struct Peak {
    /// The number of clients; the interval is that of a bootstrap, none under two rounds.
    pub at: f64,
    /// Where it is in 95% of resamples of rounds, or of the values of each number where there are no rounds.
    pub interval: Option<(f64, f64)>,
    /// The geometric mean of its throughput over rounds.
    pub throughput: f64,
    /// The throughput at the most clients, as a share of it. None where that is the peak.
    pub at_end: Option<Ratio>,
}

impl Peak {
    /// Finds it by the geometric mean over rounds.
    pub fn of(series: &Series, seed: u64) -> Peak {
        let means = series.means();
        let top = top(&means);
        let last = series.n.len() - 1;
        let draws = draws(series, seed, RESAMPLES, |drawn| drawn.n[self::top(&drawn.means())]);
        Peak {
            at: series.n[top],
            interval: middle(draws).filter(|_| series.rounds() > 1),
            throughput: means[top].exp(),
            at_end: (top != last).then(|| series.ratio(last, top)).flatten(),
        }
    }
}

/// The peak of the universal scalability law, √((1−σ)/κ), with its interval by bootstrap. None where it
/// has no peak. Resamples that have none count as peaks behind everything measured.
pub fn modelled(series: &Series, seed: u64) -> Option<Estimate> {
    let peak = |series: &Series| usl::fit(&series.points()).and_then(|fit| fit.law.peak());
    let value = peak(series)?;
    if series.rounds() < 2 {
        return Some(Estimate { value, low: f64::NAN, high: f64::NAN });
    }
    let draws = draws(series, seed, REFITS, |drawn| peak(drawn).unwrap_or(f64::INFINITY));
    let (low, high) = middle(draws)?;
    Some(Estimate { value, low, high })
}

fn top(means: &[f64]) -> usize {
    (0..means.len()).max_by(|a, b| means[*a].total_cmp(&means[*b])).unwrap_or(0)
}

/// A statistic of series whose rounds or values are drawn again.
fn draws(series: &Series, seed: u64, times: usize, of: impl Fn(&Series) -> f64) -> Vec<f64> {
    let mut rng = stream(seed, 0);
    (0..times).filter_map(|_| series.drawn(&mut rng)).map(|drawn| of(&drawn)).collect()
}

/// The 2.5% and 97.5% percentiles.
fn middle(draws: Vec<f64>) -> Option<(f64, f64)> {
    let draws = sorted(draws);
    let tail = (draws.len() as f64 * 0.025) as usize;
    Some((*draws.get(tail)?, draws[draws.len() - 1 - tail]))
}

#[cfg(test)]
mod tests {
    use super::super::series::tests::plain;
    use super::*;

    #[test]
    fn a_peak_and_what_is_left_of_it() {
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
        let peak = modelled(&Series::new("s", &rows).unwrap(), 1).unwrap();
        assert!((peak.value - 21.794).abs() < 0.01, "{peak:?}");
        assert!(peak.low <= peak.value + 1e-6 && peak.value <= peak.high + 1e-6, "{peak:?}");
    }
}
