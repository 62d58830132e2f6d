//! Parses the output of pgbench and its log of transactions, and computes latencies from the log.

use crate::printed::parse_figure;
use fsarena_core::{metric::reading, sample::Readings, series::Point};
use fsarena_engine::{readings::set_latency, series::Track};
use std::time::Duration;

/// Shortest interval of the time series.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// Largest number of intervals, because a log can have any length.
const MAX_INTERVALS: u32 = 1000;

/// The figures that pgbench prints for one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PgbenchFigures {
    /// Transactions a second, connecting excluded.
    pub tps: f64,
    /// Transactions that were processed.
    pub transactions: f64,
    /// Transactions that failed.
    pub failed: f64,
}

/// Parses the output of pgbench 10 to 17. Returns `None` if figures are missing or not numeric.
pub fn parse(text: &str) -> Option<PgbenchFigures> {
    let (mut tps, mut transactions, mut failed) = (None, None, 0.0);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("number of transactions actually processed: ") {
            // If pgbench runs a number of transactions instead of a time, it prints `1000/1000`.
            transactions = Some(parse_figure(rest.split('/').next()?)?);
        } else if let Some(rest) = line.strip_prefix("number of failed transactions: ") {
            failed = parse_figure(rest.split(' ').next()?)?;
        } else if let Some(rest) = line.strip_prefix("tps = ") {
            // Before version 14 there are two such lines, and the first one includes connecting. The last one is used.
            tps = Some(parse_figure(rest.split(' ').next()?)?);
        }
    }
    Some(PgbenchFigures { tps: tps?, transactions: transactions?, failed })
}

/// The transactions of a run, from the logs of all threads of pgbench.
#[derive(Debug, Default)]
pub struct Log {
    /// The end of each transaction, its latency from its due time, and its latency from its start, all in microseconds.
    done: Vec<[u64; 3]>,
}

impl Log {
    /// Adds the log of one thread, with lines `client transaction latency script seconds microseconds [lag]`. With `-R`
    /// the latency counts from the due time, and the lag is how late the transaction started. A failed transaction has a
    /// word instead of a latency.
    ///
    /// # Errors
    /// If a line is invalid. The last line is incomplete if pgbench was killed.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        for line in text.lines() {
            let unread = || format!("pgbench logged a line that fsarena cannot read: `{line}`");
            self.done.extend(parse_transaction(line).ok_or_else(unread)?);
        }
        Ok(())
    }

    /// Sets the readings for latencies and returns the time series. `paced` means that transactions had due times; then latencies
    /// from the due times are set too, as corrected latencies: they include the delay of a transaction that started late.
    pub fn readings(mut self, paced: bool, found: &mut Readings) -> Vec<Point> {
        self.done.sort_unstable();
        let (mut all, mut corrected) = (fsarena_engine::histogram(), fsarena_engine::histogram());
        let begun = self.done.iter().map(|[ended, from_due, _]| ended.saturating_sub(*from_due)).min();
        let begun = begun.unwrap_or_default();
        let took = Duration::from_micros(self.done.last().map_or(0, |[ended, ..]| ended - begun));
        let mut track = Track::new(MIN_INTERVAL.max(took / MAX_INTERVALS));
        for [ended, from_due, from_begin] in &self.done {
            let latency = if paced { from_due } else { from_begin };
            track.count(Duration::from_micros(ended - begun), latency.saturating_mul(1000), 0);
            all.saturating_record(from_begin.saturating_mul(1000));
            corrected.saturating_record(from_due.saturating_mul(1000));
        }
        found.set("all_operations_count", self.done.len() as f64);
        if self.done.is_empty() {
            return vec![];
        }
        set_latency(found, "all_", &all);
        if paced {
            set_latency(found, "corrected_", &corrected);
        }
        found.set(reading::LOAD_ELAPSED, took.as_nanos() as f64);
        track.points(took)
    }
}

/// Parses one line of the log. Returns `None` if the line is invalid, and `Some(None)` if the transaction failed.
fn parse_transaction(line: &str) -> Option<Option<[u64; 3]>> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [client, count, latency, script, seconds, microseconds, lag @ ..] = &fields[..] else { return None };
    let whole = |text: &str| text.parse::<u64>().ok();
    [client, count, script].into_iter().try_for_each(|text| whole(text).map(drop))?;
    let ended = whole(seconds)?.checked_mul(1_000_000)?.checked_add(whole(microseconds)?)?;
    if latency.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Some(None);
    }
    let latency = whole(latency)?;
    let lag = lag.first().map_or(Some(0), |lag| whole(lag))?;
    Some(Some([ended, latency, latency.saturating_sub(lag)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OF_15: &str = include_str!("../../../tests/data/pgbench-15.txt");
    /// Two threads, with `-R`.
    const LOGS: [&str; 2] = [
        "0 1 5000 0 1795488466 701000 1000\n1 1 7000 0 1795488466 706000 2000\n",
        "2 1 3000 0 1795488466 703000 0\n2 2 failed 0 1795488466 900000 10\n",
    ];

    #[test]
    fn figures_are_parsed_from_the_output_of_pgbench() {
        let expected = PgbenchFigures { tps: 204.576_086, transactions: 408.0, failed: 0.0 };
        assert_eq!(parse(OF_15), Some(expected));
        let of_13 =
            OF_15.replace("initial connection time = 12.241 ms", "tps = 203.1 (including connections)");
        assert_eq!(parse(&of_13), Some(expected));
        assert_eq!(parse(&OF_15.replace("tps = 204", "tps = nan")), None);
        assert_eq!(parse(&OF_15[..OF_15.find("tps").unwrap()]), None);
    }

    #[test]
    fn latencies_of_a_paced_run_count_from_the_due_time() {
        let log = || {
            let mut log = Log::default();
            LOGS.iter().for_each(|text| log.add(text).unwrap());
            log
        };
        let mut found = Readings::default();
        let points = log().readings(true, &mut found);
        // The first was due at 696.0 ms, the last ended at 706.0 ms; the failed one has no latency.
        assert_eq!(found.get("load_elapsed_ns"), Some(10e6));
        assert_eq!(found.get("all_operations_count"), Some(3.0));
        assert_eq!(points.iter().map(|point| point.operations).sum::<u64>(), 3);
        let near = |id: &str, ns: f64| (found.get(id).unwrap() / ns - 1.0).abs() < 0.01;
        assert!(near("corrected_latency_max_ns", 7e6) && near("corrected_latency_p50_ns", 5e6), "{found:?}");
        assert!(near("all_latency_max_ns", 5e6) && near("all_latency_p50_ns", 4e6), "{found:?}");
        let mut found = Readings::default();
        log().readings(false, &mut found);
        assert_eq!(found.get("corrected_latency_p99_ns"), None);
        let known: Vec<&str> = fsarena_engine::readings::defs().map(|def| def.id).collect();
        assert!(found.0.keys().all(|id| known.contains(&id.as_str())), "{found:?}");
    }

    #[test]
    fn a_log_without_a_transaction_has_no_latency() {
        let mut found = Readings::default();
        assert!(Log::default().readings(true, &mut found).is_empty());
        assert_eq!(found.get("all_operations_count"), Some(0.0));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in "[0-9a-f .\\n-]{0,60}") {
            parse(&text);
            let mut log = Log::default();
            if log.add(&text).is_ok() {
                log.readings(true, &mut Readings::default());
            }
        }
    }
}
