//! Simulates the critical values of `fsarena_stats::table` again.
//!
//! `cargo run --release -p fsarena-stats --example boundaries -- 200000` (paths; the table has 2000000,
//! and the first looks, which are coarse, need as many to come out alike).
//!
//! Under the null hypothesis signs are fair coins. At each look the largest c is taken with which the share
//! of paths rejected so far stays within the error that may be spent by then.

use fsarena_stats::table::LOOKS;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;

fn main() {
    let paths: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200_000);
    let mut random = ChaCha12Rng::seed_from_u64(1);
    let statistics: Vec<[u32; LOOKS.len()]> = (0..paths).map(|_| path(&mut random)).collect();
    let (c05, c10) = (boundaries(&statistics, 0.05), boundaries(&statistics, 0.10));
    println!("{:>4} {:>7} {:>7} {:>7} {:>7}", "n", "c(.05)", "table", "c(.10)", "table");
    for (at, look) in LOOKS.iter().enumerate() {
        println!("{:>4} {:>7} {:>7} {:>7} {:>7}", look.n, c05[at], look.c05, c10[at], look.c10);
    }
}

/// The two-sided signed-rank statistic min(V, M − V) of one path at every look.
fn path(random: &mut ChaCha12Rng) -> [u32; LOOKS.len()] {
    let n = LOOKS[LOOKS.len() - 1].n;
    let values: Vec<f64> = (0..n).map(|_| random.random_range(-1.0..1.0)).collect();
    LOOKS.map(|look| {
        let mut seen = values[..look.n].to_vec();
        seen.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
        let positive: usize = seen.iter().enumerate().filter(|(_, v)| **v > 0.0).map(|(at, _)| at + 1).sum();
        positive.min(look.n * (look.n + 1) / 2 - positive) as u32
    })
}

fn boundaries(statistics: &[[u32; LOOKS.len()]], alpha: f64) -> Vec<u32> {
    let mut live: Vec<usize> = (0..statistics.len()).collect();
    let last = LOOKS[LOOKS.len() - 1].n as f64;
    let mut found = Vec::new();
    for (at, look) in LOOKS.iter().enumerate() {
        let spent = alpha * (look.n as f64 / 3.8).ln() / (last / 3.8).ln();
        let gone = statistics.len() - live.len();
        let room = (spent * statistics.len() as f64) as usize - gone;
        let mut sorted: Vec<u32> = live.iter().map(|path| statistics[*path][at]).collect();
        sorted.sort_unstable();
        // The paths with at most c must fit into the room: c is below the first that does not.
        let c = sorted[room].saturating_sub(1);
        found.push(c);
        live.retain(|path| statistics[*path][at] > c);
    }
    found
}
