//! Parses the output of pgbench and its log of transactions, and computes latencies from the log.

use crate::printed::parse_nonnegative;
use fsarena_core::{metric::reading, sample::Readings, series::SeriesPoint};
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

/// A transaction that succeeded.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transaction {
    /// The time of its end since 1970.
    end_us: u64,
    /// Its latency from its due time, or from its start without a rate.
    latency_from_due_us: u64,
    /// Its latency from its start.
    latency_from_start_us: u64,
}

/// Parses the log of one thread, with lines `client transaction latency script seconds microseconds [lag]`. With `-R` the
/// latency counts from the due time, and the lag is how late the transaction started. A failed transaction has a word
/// instead of a latency.
///
/// # Errors
/// If a line is invalid. The last line is incomplete if pgbench was killed.
pub fn parse_thread_log(text: &str) -> Result<Vec<Transaction>, String> {
    let mut transactions = vec![];
    for line in text.lines() {
        let line_error = || format!("pgbench logged a line that fsarena cannot read: `{line}`");
        transactions.extend(parse_transaction(line).ok_or_else(line_error)?);
    }
    Ok(transactions)
}

/// Sets the readings for the latencies of the transactions of all threads, and returns the time series. `is_paced` means
/// that transactions had due times; then latencies from the due times are set too, as corrected latencies: they include
/// the delay of a transaction that started late.
pub fn set_readings(mut transactions: Vec<Transaction>, is_paced: bool, readings: &mut Readings) -> Vec<SeriesPoint> {
    transactions.sort_unstable();
    let (mut latencies, mut corrected_latencies) =
        (fsarena_engine::empty_histogram(), fsarena_engine::empty_histogram());
    let start_times = transactions.iter().map(|each| each.end_us.saturating_sub(each.latency_from_due_us));
    let start_us = start_times.min().unwrap_or_default();
    let elapsed = Duration::from_micros(transactions.last().map_or(0, |last| last.end_us - start_us));
    let mut series = SeriesBuilder::new(MIN_INTERVAL.max(elapsed / MAX_INTERVALS));
    for Transaction { end_us, latency_from_due_us, latency_from_start_us } in &transactions {
        let latency_us = if is_paced { latency_from_due_us } else { latency_from_start_us };
        series.count(Duration::from_micros(end_us - start_us), latency_us.saturating_mul(1000), 0);
        latencies.saturating_record(latency_from_start_us.saturating_mul(1000));
        corrected_latencies.saturating_record(latency_from_due_us.saturating_mul(1000));
    }
    readings.set("all_operations_count", transactions.len() as f64);
    if transactions.is_empty() {
        return vec![];
    }
    set_latency(readings, "all_", &latencies);
    if is_paced {
        set_latency(readings, "corrected_", &corrected_latencies);
    }
    readings.set(reading::LOAD_ELAPSED, elapsed.as_nanos() as f64);
    series.into_points(elapsed)
}

/// Parses one line of the log. Returns `None` if the line is invalid, and `Some(None)` if the transaction failed.
fn parse_transaction(line: &str) -> Option<Option<Transaction>> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [client, count, latency, script, seconds, microseconds, lag @ ..] = &fields[..] else { return None };
    let parse_int = |text: &str| text.parse::<u64>().ok();
    [client, count, script].into_iter().try_for_each(|text| parse_int(text).map(drop))?;
    let end_us = parse_int(seconds)?.checked_mul(1_000_000)?.checked_add(parse_int(microseconds)?)?;
    if latency.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Some(None);
    }
    let latency_us = parse_int(latency)?;
    let lag_us = lag.first().map_or(Some(0), |lag| parse_int(lag))?;
    Some(Some(Transaction {
        end_us,
        latency_from_due_us: latency_us,
        latency_from_start_us: latency_us.saturating_sub(lag_us),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OUTPUT_15: &str = include_str!("../../../tests/data/pgbench-15.txt");
    /// The logs of two threads, with `-R`.
    const THREAD_LOGS: [&str; 2] = [
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
        let transactions = || THREAD_LOGS.iter().flat_map(|text| parse_thread_log(text).unwrap()).collect();
        let mut readings = Readings::default();
        let points = set_readings(transactions(), true, &mut readings);
        // The first was due at 696.0 ms, the last ended at 706.0 ms; the failed one has no latency.
        assert_eq!(readings.get("load_elapsed_ns"), Some(10e6));
        assert_eq!(readings.get("all_operations_count"), Some(3.0));
        assert_eq!(points.iter().map(|point| point.operations).sum::<u64>(), 3);
        let is_near = |id: &str, ns: f64| (readings.get(id).unwrap() / ns - 1.0).abs() < 0.01;
        assert!(is_near("corrected_latency_max_ns", 7e6) && is_near("corrected_latency_p50_ns", 5e6), "{readings:?}");
        assert!(is_near("all_latency_max_ns", 5e6) && is_near("all_latency_p50_ns", 4e6), "{readings:?}");
        let mut readings = Readings::default();
        set_readings(transactions(), false, &mut readings);
        assert_eq!(readings.get("corrected_latency_p99_ns"), None);
        let known: Vec<&str> = fsarena_engine::readings::reading_defs().map(|def| def.id).collect();
        assert!(readings.0.keys().all(|id| known.contains(&id.as_str())), "{readings:?}");
    }

    #[test]
    fn a_log_without_a_transaction_has_no_latency() {
        let mut readings = Readings::default();
        assert!(set_readings(vec![], true, &mut readings).is_empty());
        assert_eq!(readings.get("all_operations_count"), Some(0.0));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in "[0-9a-f .\\n-]{0,60}") {
            parse_output(&text);
            if let Ok(transactions) = parse_thread_log(&text) {
                set_readings(transactions, true, &mut Readings::default());
            }
        }
    }
}
