//! How long the analysis takes, beside goals and peers measured in the same run: `cargo bench -p fsarena-stats`.
//! Prints figures; asserts nothing. Medians of five, the self-test once.

use fsarena_core::claim::{Claim, Relation};
use fsarena_stats::evalue::e_bh;
use fsarena_stats::simulate::noise::{Noise, Order, simulate_log_ratios};
use fsarena_stats::simulate::selftest::{RUNS, run_selftest};
use fsarena_stats::{
    hodges_lehmann::WalshAverages, ranks::simultaneous_intervals, simulate::run_rng, verdict::judge_pair,
};
use std::process::{Command, Stdio};
use std::{hint::black_box, io::Write, time::Instant};

/// The number of claims that are judged.
const CLAIMS: usize = 1_000;
/// The number of rounds of each claim.
const ROUNDS: usize = 400;
/// The number of times that each piece of work is repeated.
const REPEATS: usize = 5;
/// The critical value of the signed-rank test at 400 rounds.
const CRITICAL_VALUE: usize = 33_790;

/// A Python program that reads the numbers, one claim a line, and prints the seconds of two pieces of work: scipy's signed-rank
/// test of all claims, which gives a p-value and no interval; and listing and sorting all Walsh averages of one claim by numpy.
const PEER_PROGRAM: &str = "import sys, time
import numpy
from scipy.stats import wilcoxon
claims = [numpy.array(line.split(), float) for line in sys.stdin]
def median(work):
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[2]
def walsh(d=claims[0]):
    averages = numpy.add.outer(d, d)[numpy.triu_indices(len(d))] / 2
    averages.sort()
    return numpy.median(averages), averages[33790], averages[-33791]
print(median(lambda: [wilcoxon(d) for d in claims]), median(walsh))";

fn main() {
    let claims: Vec<Vec<f64>> = (0..CLAIMS as u64)
        .map(|claim| simulate_log_ratios(Noise::Spikes, Order::Random, ROUNDS, &mut run_rng(1, claim)))
        .collect();
    let [scipy_ms, numpy_ms] = run_peer(&claims).map_or([None; 2], |peer| peer.map(Some));
    println!("{:<50} {:>10} {:>10} {:>10} {:>8}", "", "ms", "goal", "peer", "ratio");
    let claims_ms = median_ms(|| judge_claims(&claims));
    print_row("1,000 claims x 400 rounds / scipy wilcoxon", claims_ms, Some(1e3), scipy_ms);
    let interval_ms = median_ms(|| {
        let walsh = WalshAverages::new(claims[0].clone()).expect("finite");
        (walsh.estimate(), walsh.interval(CRITICAL_VALUE))
    });
    let sorting_ms = median_ms(|| interval_by_sorting(&claims[0]));
    print_row("Walsh estimate and interval, n = 400 / sorted list", interval_ms, Some(1.0), Some(sorting_ms));
    print_row("the same / numpy", interval_ms, Some(1.0), numpy_ms);
    let values: Vec<Vec<f64>> = claims[..6].iter().map(|d| d.iter().map(|d| d.exp()).collect()).collect();
    let simultaneous_ms = median_ms(|| simultaneous_intervals(&values, 1));
    print_row("simultaneous intervals of 6 variants, n = 400", simultaneous_ms, None, None);
    let start = Instant::now();
    let passed = run_selftest(RUNS, 1).passed();
    let label = format!("selftest, {RUNS} runs a check: {}", if passed { "passed" } else { "FAILED" });
    print_row(&label, 1e3 * start.elapsed().as_secs_f64(), Some(60e3), None);
}

/// Parses and judges the claims, and selects the significant ones, as a report does. `data` has the log ratios of each claim.
fn judge_claims(data: &[Vec<f64>]) -> Vec<usize> {
    let verdicts = data.iter().map(|d| {
        let claim: Claim = black_box("untar.elapsed: xfs < ext4 by 1%").parse().expect("a claim");
        match claim.relation {
            Relation::Pair(pair) => judge_pair(&pair, d, Some(0.01)).expect("rounds"),
            Relation::Extreme(_) => unreachable!("the claim is about a pair"),
        }
    });
    let e: Vec<f64> = verdicts.map(|verdict| verdict.e_value).collect();
    e_bh(&e, 0.05)
}

/// The estimate and the interval from a sorted list of all n(n+1)/2 Walsh averages.
fn interval_by_sorting(d: &[f64]) -> (f64, f64, f64) {
    let mut all: Vec<f64> = (0..d.len()).flat_map(|i| (i..d.len()).map(move |j| (d[i] + d[j]) / 2.0)).collect();
    all.sort_unstable_by(f64::total_cmp);
    (all[all.len() / 2], all[CRITICAL_VALUE], all[all.len() - 1 - CRITICAL_VALUE])
}

/// Runs [`PEER_PROGRAM`] and returns its two times in milliseconds. None if Python, numpy or scipy is not installed.
fn run_peer(claims: &[Vec<f64>]) -> Option<[f64; 2]> {
    let mut python = Command::new("python3")
        .args(["-c", PEER_PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut input = python.stdin.take()?;
    for d in claims {
        let line: Vec<String> = d.iter().map(f64::to_string).collect();
        if writeln!(input, "{}", line.join(" ")).is_err() {
            break;
        }
    }
    drop(input);
    let output = python.wait_with_output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut times = text.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
    Some([1e3 * times.next()?, 1e3 * times.next()?])
}

/// The median time of some work in milliseconds, over [`REPEATS`] repeats.
fn median_ms<T>(mut work: impl FnMut() -> T) -> f64 {
    let mut times: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let start = Instant::now();
            black_box(work());
            1e3 * start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[REPEATS / 2]
}

/// Prints the time of fsarena, the goal, the time of the peer, and how many times as long the peer took. Times are in
/// milliseconds.
fn print_row(label: &str, own_ms: f64, goal_ms: Option<f64>, peer_ms: Option<f64>) {
    let goal = goal_ms.map_or(String::new(), |goal_ms| format!("< {goal_ms}"));
    let ratio = peer_ms.map_or(String::new(), |peer_ms| format!("{:.2}", peer_ms / own_ms));
    let peer = peer_ms.map_or(String::new(), |peer_ms| format!("{peer_ms:.3}"));
    println!("{label:<50} {own_ms:>10.3} {goal:>10} {peer:>10} {ratio:>8}");
}
