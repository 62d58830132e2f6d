//! Parses the output of pgbench and its log of transactions, and computes latencies from the log.

use crate::printed::parse_nonnegative;
use fsarena_core::{metric::reading, sample::Readings, series::Point};
use fsarena_engine::{readings::set_latency, series::SeriesBuilder};
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
pub fn parse_output(text: &str) -> Option<PgbenchFigures> {
    let (mut tps, mut transactions, mut failed) = (None, None, 0.0);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("number of transactions actually processed: ") {
            // If pgbench runs a number of transactions instead of a time, it prints `1000/1000`.
            transactions = Some(parse_nonnegative(rest.split('/').next()?)?);
        } else if let Some(rest) = line.strip_prefix("number of failed transactions: ") {
            failed = parse_nonnegative(rest.split(' ').next()?)?;
        } else if let Some(rest) = line.strip_prefix("tps = ") {
            // Before version 14 there are two such lines, and the first one includes connecting. The last one is used.
            tps = Some(parse_nonnegative(rest.split(' ').next()?)?);
        }
    }
    Some(PgbenchFigures { tps: tps?, transactions: transactions?, failed })
}

/// The transactions of a run, from the logs of all threads of pgbench.
#[derive(Debug, Default)]
pub struct TransactionLog {
    transactions: Vec<Transaction>,
}

/// A transaction that succeeded. All times are in microseconds.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Transaction {
    /// The time of its end.
    end: u64,
    /// Its latency from its due time, or from its start without a rate.
    from_due: u64,
    /// Its latency from its start.
    from_start: u64,
}

impl TransactionLog {
    /// Adds the log of one thread, with lines `client transaction latency script seconds microseconds [lag]`. With `-R`
    /// the latency counts from the due time, and the lag is how late the transaction started. A failed transaction has a
    /// word instead of a latency.
    ///
    /// # Errors
    /// If a line is invalid. The last line is incomplete if pgbench was killed.
    pub fn add_thread_log(&mut self, text: &str) -> Result<(), String> {
        for line in text.lines() {
            let unreadable = || format!("pgbench logged a line that fsarena cannot read: `{line}`");
            self.transactions.extend(parse_transaction(line).ok_or_else(unreadable)?);
        }
        Ok(())
    }

    /// Sets the readings for latencies and returns the time series. `is_paced` means that transactions had due times; then latencies
    /// from the due times are set too, as corrected latencies: they include the delay of a transaction that started late.
    pub fn set_readings(mut self, is_paced: bool, readings: &mut Readings) -> Vec<Point> {
        self.transactions.sort_unstable();
        let (mut all, mut corrected) = (fsarena_engine::empty_histogram(), fsarena_engine::empty_histogram());
        let begun = self.transactions.iter().map(|each| each.end.saturating_sub(each.from_due)).min();
        let begun = begun.unwrap_or_default();
        let elapsed = Duration::from_micros(self.transactions.last().map_or(0, |last| last.end - begun));
        let mut track = SeriesBuilder::new(MIN_INTERVAL.max(elapsed / MAX_INTERVALS));
        for Transaction { end, from_due, from_start } in &self.transactions {
            let latency = if is_paced { from_due } else { from_start };
            track.count(Duration::from_micros(end - begun), latency.saturating_mul(1000), 0);
            all.saturating_record(from_start.saturating_mul(1000));
            corrected.saturating_record(from_due.saturating_mul(1000));
        }
        readings.set("all_operations_count", self.transactions.len() as f64);
        if self.transactions.is_empty() {
            return vec![];
        }
        set_latency(readings, "all_", &all);
        if is_paced {
            set_latency(readings, "corrected_", &corrected);
        }
        readings.set(reading::LOAD_ELAPSED, elapsed.as_nanos() as f64);
        track.points(elapsed)
    }
}

/// Parses one line of the log. Returns `None` if the line is invalid, and `Some(None)` if the transaction failed.
fn parse_transaction(line: &str) -> Option<Option<Transaction>> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [client, count, latency, script, seconds, microseconds, lag @ ..] = &fields[..] else { return None };
    let parse_whole = |text: &str| text.parse::<u64>().ok();
    [client, count, script].into_iter().try_for_each(|text| parse_whole(text).map(drop))?;
    let end = parse_whole(seconds)?.checked_mul(1_000_000)?.checked_add(parse_whole(microseconds)?)?;
    if latency.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Some(None);
    }
    let latency = parse_whole(latency)?;
    let lag = lag.first().map_or(Some(0), |lag| parse_whole(lag))?;
    Some(Some(Transaction { end, from_due: latency, from_start: latency.saturating_sub(lag) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OUTPUT_15: &str = include_str!("../../../tests/data/pgbench-15.txt");
    /// Two threads, with `-R`.
    const LOGS: [&str; 2] = [
        "0 1 5000 0 1795488466 701000 1000\n1 1 7000 0 1795488466 706000 2000\n",
        "2 1 3000 0 1795488466 703000 0\n2 2 failed 0 1795488466 900000 10\n",
    ];

    #[test]
    fn figures_are_parsed_from_the_output_of_pgbench() {
        let expected = PgbenchFigures { tps: 204.576_086, transactions: 408.0, failed: 0.0 };
        assert_eq!(parse_output(OUTPUT_15), Some(expected));
        let output_13 = OUTPUT_15.replace("initial connection time = 12.241 ms", "tps = 203.1 (including connections)");
        assert_eq!(parse_output(&output_13), Some(expected));
        assert_eq!(parse_output(&OUTPUT_15.replace("tps = 204", "tps = nan")), None);
        assert_eq!(parse_output(&OUTPUT_15[..OUTPUT_15.find("tps").unwrap()]), None);
    }

    #[test]
    fn latencies_of_a_paced_run_count_from_the_due_time() {
        let log = || {
            let mut log = TransactionLog::default();
            LOGS.iter().for_each(|text| log.add_thread_log(text).unwrap());
            log
        };
        let mut readings = Readings::default();
        let points = log().set_readings(true, &mut readings);
        // The first was due at 696.0 ms, the last ended at 706.0 ms; the failed one has no latency.
        assert_eq!(readings.get("load_elapsed_ns"), Some(10e6));
        assert_eq!(readings.get("all_operations_count"), Some(3.0));
        assert_eq!(points.iter().map(|point| point.operations).sum::<u64>(), 3);
        let is_near = |id: &str, ns: f64| (readings.get(id).unwrap() / ns - 1.0).abs() < 0.01;
        assert!(is_near("corrected_latency_max_ns", 7e6) && is_near("corrected_latency_p50_ns", 5e6), "{readings:?}");
        assert!(is_near("all_latency_max_ns", 5e6) && is_near("all_latency_p50_ns", 4e6), "{readings:?}");
        let mut readings = Readings::default();
        log().set_readings(false, &mut readings);
        assert_eq!(readings.get("corrected_latency_p99_ns"), None);
        let known: Vec<&str> = fsarena_engine::readings::defs().map(|def| def.id).collect();
        assert!(readings.0.keys().all(|id| known.contains(&id.as_str())), "{readings:?}");
    }

    #[test]
    fn a_log_without_a_transaction_has_no_latency() {
        let mut readings = Readings::default();
        assert!(TransactionLog::default().set_readings(true, &mut readings).is_empty());
        assert_eq!(readings.get("all_operations_count"), Some(0.0));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in "[0-9a-f .\\n-]{0,60}") {
            parse_output(&text);
            let mut log = TransactionLog::default();
            if log.add_thread_log(&text).is_ok() {
                log.set_readings(true, &mut Readings::default());
            }
        }
    }
}
