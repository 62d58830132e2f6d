//! Tails: percentiles of latency, and how many requests a round requires for one.
//!
//! A percentile is computed in each round and compared like any metric: rounds are independent, requests are not. Beyond the
//! quantile q of n requests lie n·(1 − q); with fewer than ten of them one request moves the percentile.

use crate::average::median;
use crate::grid::{grid, left_out};
use fsarena_core::{metric::reading, record::RunRecord};

/// The fewest requests of a round that lie beyond its percentile.
const BEYOND: f64 = 10.0;

/// A percentile of latency.
#[derive(Debug, Clone, PartialEq)]
pub struct Tail {
    /// The share of requests that it covers: 0.999.
    pub share: f64,
    /// The readings that may count the requests, the first that a run has.
    counts: Vec<String>,
}

impl Tail {
    /// The percentile that a metric or reading is: `latency_p999`, `sync_latency_p99_ns`. None of any other.
    pub fn of(metric: &str) -> Option<Tail> {
        let metric = metric.strip_suffix("_ns").unwrap_or(metric);
        let (before, digits) = metric.rsplit_once("latency_p")?;
        let hundredths: f64 = digits.parse::<u32>().ok()?.into();
        let counts = match before {
            "" | "corrected_" => vec!["all_operations_count".into(), reading::REQUESTS.into()],
            kind => vec![format!("{kind}operations_count")],
        };
        Some(Tail { share: hundredths / 10f64.powi(digits.len() as i32), counts })
    }

    /// The fewest requests of a round: 10/(1 − q).
    pub fn requires(&self) -> f64 {
        (BEYOND / (1.0 - self.share)).round()
    }

    /// Its words: `99.9th percentile`.
    pub fn words(&self) -> String {
        match (self.share * 1e6).round() / 1e4 {
            50.0 => "median".into(),
            percent => format!("{percent}th percentile"),
        }
    }
}

/// A figure of too few requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Short {
    /// The task.
    pub task: usize,
    /// The variant.
    pub variant: usize,
    /// Requests of its median round.
    pub had: f64,
    /// How long that round measured, in seconds, where the load tells.
    pub seconds: Option<f64>,
}

impl Short {
    /// What it had and what it takes; follows the names of the variant and the task.
    pub fn words(&self, tail: &Tail) -> String {
        let (had, requires) = (self.had.round(), tail.requires());
        let mut text = format!("had {had} requests a round, and a {} requires {requires}", tail.words());
        if let Some(seconds) = self.seconds.filter(|_| self.had > 0.0) {
            // A tenth more, as loads vary.
            let enough = (1.1 * seconds * requires / self.had).ceil();
            text.push_str(&format!("; measure for {enough} s instead of {seconds:.1} s"));
        }
        text
    }
}

/// The figures of a percentile whose median round has too few requests. None where the run does not count them.
pub fn short(record: &RunRecord, tail: &Tail) -> Vec<Short> {
    let Some((_, counts)) = tail.counts.iter().find_map(|id| record.metric(id)) else { return vec![] };
    let left_out = left_out(record);
    let lengths = record.metric(reading::LOAD_ELAPSED).map(|(_, rows)| grid(record, &rows, &left_out));
    let counted = grid(record, &counts, &left_out);
    let mut short = vec![];
    for (task, variants) in counted.values.iter().enumerate() {
        for (variant, rounds) in variants.iter().enumerate() {
            let Some(had) = median(rounds).filter(|had| *had < tail.requires()) else { continue };
            let seconds = lengths.as_ref().and_then(|grid| median(&grid.values[task][variant]));
            short.push(Short { task, variant, had, seconds: seconds.map(|ns| ns / 1e9) });
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_told_by_its_name() {
        let of = |metric| Tail::of(metric).map(|tail| (tail.requires(), tail.words(), tail.counts));
        let all = || vec!["all_operations_count".to_string(), "requests_count".into()];
        assert_eq!(of("latency_p999"), Some((10_000.0, "99.9th percentile".into(), all())));
        assert_eq!(of("corrected_latency_p99_ns"), Some((1_000.0, "99th percentile".into(), all())));
        let sync = vec!["sync_operations_count".to_string()];
        assert_eq!(of("sync_latency_p50_ns"), Some((20.0, "median".into(), sync)));
        assert!(
            ["latency_max_ns", "elapsed", "latency_pages", "latency_p"].iter().all(|id| of(id).is_none())
        );
    }

    #[test]
    fn enough_time_is_told_from_the_rate() {
        let tail = Tail::of("latency_p999").unwrap();
        let short = Short { task: 0, variant: 0, had: 512.0, seconds: Some(1.0) };
        // 10,000 / 512 s and a tenth more.
        assert_eq!(
            short.words(&tail),
            "had 512 requests a round, and a 99.9th percentile requires 10000; measure for 22 s instead of 1.0 s"
        );
    }
}
