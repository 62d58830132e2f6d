//! How long the analysis takes, beside goals and peers measured in the same run: `cargo bench -p fsarena-stats`.
//! Prints figures; asserts nothing. Medians of five, the self-test once.

use fsarena_core::claim::{Claim, Relation};
use fsarena_stats::evalue::e_bh;
use fsarena_stats::simulate::noise::{Noise, Order, simulate_log_ratios};
use fsarena_stats::simulate::selftest::{RUNS, run_selftest};
use fsarena_stats::{hodges_lehmann::WalshAverages, ranks::simultaneous_intervals, simulate::run_rng, verdict::judge};
use std::process::{Command, Stdio};
use std::{hint::black_box, io::Write, time::Instant};

const CLAIMS: usize = 1_000;
const ROUNDS: usize = 400;
const TIMES: usize = 5;
/// The critical value at 400 rounds.
const C: usize = 33_790;

/// What a peer does with the same numbers, one claim a line, once it has read them: scipy's signed-rank test,
/// which gives a p-value and no interval; and all averages of one claim listed and sorted by numpy.
const PEER: &str = "import sys, time
import numpy
from scipy.stats import wilcoxon
claims = [numpy.array(line.split(), float) for line in sys.stdin]
def median(work):
    taken = []
    for _ in range(5):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return sorted(taken)[2]
def walsh(d=claims[0]):
    averages = numpy.add.outer(d, d)[numpy.triu_indices(len(d))] / 2
    averages.sort()
    return numpy.median(averages), averages[33790], averages[-33791]
print(median(lambda: [wilcoxon(d) for d in claims]), median(walsh))";

fn main() {
    let claims: Vec<Vec<f64>> = (0..CLAIMS as u64)
        .map(|claim| simulate_log_ratios(Noise::Spikes, Order::Random, ROUNDS, &mut run_rng(1, claim)))
        .collect();
    let [signed_rank, averages] = python(&claims).map_or([None; 2], |peer| peer.map(Some));
    println!("{:<50} {:>10} {:>10} {:>10} {:>8}", "", "ms", "goal", "peer", "ratio");
    let all = median(|| all_claims(&claims));
    row("1,000 claims x 400 rounds / scipy wilcoxon", all, Some(1e3), signed_rank);
    let one = median(|| {
        let walsh = WalshAverages::new(claims[0].clone()).expect("finite");
        (walsh.estimate(), walsh.interval(C))
    });
    row("Walsh estimate and interval, n = 400 / sorted list", one, Some(1.0), Some(median(|| listed(&claims[0]))));
    row("the same / numpy", one, Some(1.0), averages);
    let values: Vec<Vec<f64>> = claims[..6].iter().map(|d| d.iter().map(|d| d.exp()).collect()).collect();
    let six = median(|| simultaneous_intervals(&values, 1));
    row("simultaneous intervals of 6 variants, n = 400", six, None, None);
    let begun = Instant::now();
    let passed = run_selftest(RUNS, 1).passed();
    let words = format!("selftest, {RUNS} runs a check: {}", if passed { "passed" } else { "FAILED" });
    row(&words, 1e3 * begun.elapsed().as_secs_f64(), Some(60e3), None);
}

/// Parses, judges and selects as a report does.
fn all_claims(data: &[Vec<f64>]) -> Vec<usize> {
    let verdicts = data.iter().map(|d| {
        let claim: Claim = black_box("untar.elapsed: xfs < ext4 by 1%").parse().expect("a claim");
        match claim.relation {
            Relation::Pair(pair) => judge(&pair, d, Some(0.01)).expect("rounds"),
            Relation::Extreme(_) => unreachable!("the claim is about a pair"),
        }
    });
    let e: Vec<f64> = verdicts.map(|verdict| verdict.e_value).collect();
    e_bh(&e, 0.05)
}

/// Lists all n(n+1)/2 averages and sorts them.
fn listed(d: &[f64]) -> (f64, f64, f64) {
    let mut all: Vec<f64> = (0..d.len()).flat_map(|i| (i..d.len()).map(move |j| (d[i] + d[j]) / 2.0)).collect();
    all.sort_unstable_by(f64::total_cmp);
    (all[all.len() / 2], all[C], all[all.len() - 1 - C])
}

/// The two times of the peer in milliseconds. None where Python, numpy or scipy is not installed.
fn python(claims: &[Vec<f64>]) -> Option<[f64; 2]> {
    let mut python = Command::new("python3")
        .args(["-c", PEER])
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

/// Milliseconds, the median of five.
fn median<T>(mut work: impl FnMut() -> T) -> f64 {
    let mut taken: Vec<f64> = (0..TIMES)
        .map(|_| {
            let begun = Instant::now();
            black_box(work());
            1e3 * begun.elapsed().as_secs_f64()
        })
        .collect();
    taken.sort_by(f64::total_cmp);
    taken[TIMES / 2]
}

/// Milliseconds, the goal, and how many times as long the peer took.
fn row(what: &str, ours: f64, goal: Option<f64>, peer: Option<f64>) {
    let goal = goal.map_or(String::new(), |goal| format!("< {goal}"));
    let ratio = peer.map_or(String::new(), |peer| format!("{:.2}", peer / ours));
    let peer = peer.map_or(String::new(), |peer| format!("{peer:.3}"));
    println!("{what:<50} {ours:>10.3} {goal:>10} {peer:>10} {ratio:>8}");
}
