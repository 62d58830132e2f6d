//! Figures as a reader finds them in the table.

use crate::number::{percent, signed, three};
use fsarena_stats::ratio::Ratio;
use std::collections::BTreeSet;

/// `512 B`, `4 KiB`, `1.5 KiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, symbol)) => format!("{} {symbol}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

/// `1 thread`, `16 threads`.
pub fn threads(count: u32) -> String {
    crate::number::plural(count as usize, "thread")
}

/// Operations a second with groups of three digits: `31,000`; small ones with three significant digits.
pub fn iops(value: f64) -> String {
    if value < 100.0 {
        return three(value);
    }
    let digits = format!("{value:.0}");
    let first = (digits.len() + 2) % 3 + 1;
    let mut grouped = digits[..first].to_string();
    for at in (first..digits.len()).step_by(3) {
        grouped.push(',');
        grouped.push_str(&digits[at..at + 3]);
    }
    grouped
}

/// Bytes a second in millions, as the tables of the field have it.
pub fn megabytes(value: f64) -> String {
    format!("{} MB/s", three(value / 1e6))
}

/// By how much a share is less than the whole: `40%`, `99.2%`.
pub fn less(share: f64) -> String {
    percent(1.0 - share)
}

/// How much more than the whole: `20%`, `23 times as much`.
pub fn more(ratio: f64) -> String {
    if ratio < 2.0 {
        format!("{} more", percent(ratio - 1.0))
    } else {
        format!("{} times as much", three(ratio))
    }
}

/// `a` or `a to b`.
pub fn range(low: String, high: String) -> String {
    if low == high { low } else { format!("{low} to {high}") }
}

/// The interval of a ratio that has one: ` (−42% to −38% over 8 rounds)`.
pub fn interval(ratio: &Ratio) -> String {
    let change = |ratio: f64| signed(ratio - 1.0, &[0.0]);
    match ratio.rounds {
        1 => String::new(),
        rounds => format!(" ({} over {rounds} rounds)", range(change(ratio.low), change(ratio.high))),
    }
}

/// The places of cells, as (bytes, threads): `512 B to 4 KiB with 1 to 128 threads`, and how many cells where
/// they do not fill that.
pub fn extent(cells: &BTreeSet<(u64, u32)>) -> String {
    let sizes: BTreeSet<u64> = cells.iter().map(|(bytes, _)| *bytes).collect();
    let counts: BTreeSet<u32> = cells.iter().map(|(_, threads)| *threads).collect();
    let (Some(least), Some(most)) = (sizes.first(), sizes.last()) else { return String::new() };
    let (fewest, all) = (counts.first().copied().unwrap_or(0), counts.last().copied().unwrap_or(0));
    let with = if fewest == all { threads(all) } else { format!("{fewest} to {}", threads(all)) };
    let rest = match sizes.len() * counts.len() == cells.len() {
        true => String::new(),
        false => format!(" ({} of {} cells)", cells.len(), sizes.len() * counts.len()),
    };
    format!("{} with {with}{rest}", range(size(*least), size(*most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_three() {
        assert_eq!(
            [99.94, 100.0, 999.6, 31_000.0, 1_227_643.0].map(iops),
            ["99.9", "100", "1,000", "31,000", "1,227,643"]
        );
    }

    #[test]
    fn sizes_and_shares() {
        assert_eq!([512, 1536, 4096, 1 << 20].map(size), ["512 B", "1.5 KiB", "4 KiB", "1 MiB"]);
        assert_eq!([less(0.6), less(0.008)], ["40%", "99.2%"]);
        assert_eq!([more(1.07), more(23.45)], ["7% more", "23.4 times as much"]);
    }

    #[test]
    fn regions() {
        let grid = |cells: &[(u64, u32)]| extent(&cells.iter().copied().collect());
        assert_eq!(grid(&[(512, 1)]), "512 B with 1 thread");
        assert_eq!(grid(&[(512, 1), (512, 2), (1024, 1), (1024, 2)]), "512 B to 1 KiB with 1 to 2 threads");
        assert_eq!(
            grid(&[(512, 1), (512, 2), (1024, 1)]),
            "512 B to 1 KiB with 1 to 2 threads (3 of 4 cells)"
        );
    }

    #[test]
    fn intervals_only_with_replicates() {
        let ratio = Ratio { value: 0.6, low: 0.58, high: 0.62, rounds: 8, provisional: false };
        assert_eq!(interval(&ratio), " (−42% to −38% over 8 rounds)");
        assert_eq!(interval(&Ratio { rounds: 1, ..ratio }), "");
    }
}
