//! Prints how often the rules of other tools err, and how many rounds they need:
//! `cargo run --release -p fsarena-stats --example rules -- [RUNS]`.
//!
//! The other tools measure all of A and then all of B. A round here is one measurement of each.

use fsarena_core::schedule::mix;
use fsarena_stats::average::{mean, variance};
use fsarena_stats::cost::welch_degrees_of_freedom;
use fsarena_stats::critical_values::{LAST_LOOK_ROUNDS, LOOKS};
use fsarena_stats::sequential::rounds_to_find_difference;
use fsarena_stats::simulate::{in_parallel, noise::simulate_series, run_rng};
use rand::{Rng, RngExt};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

fn main() {
    let runs = std::env::args().nth(1).map_or(4_000, |runs| runs.parse().expect("a number of runs"));
    println!("False verdicts on identical variants, 1% noise ({runs} runs)\n");
    println!("| rule | of each variant | white | with drift |\n|---|---:|---:|---:|");
    for rate in error_rates(runs, 1) {
        let (white, drift) = (100.0 * rate.with_white_noise, 100.0 * rate.with_drift);
        println!("| {} | {} | {white:.1}% | {drift:.1}% |", rate.tool.name(), rate.rounds);
    }
    let effects = [0.01, 0.02, 0.05];
    let all = rounds_needed(&effects, runs, 2);
    for drifts in [false, true] {
        let noise = if drifts { "1% noise and drift" } else { "1% noise" };
        println!("\nRounds needed to find an effect in four of five runs, all rules at 5% error, {noise}\n");
        println!("| rule | 1% | 2% | 5% |\n|---|---:|---:|---:|");
        let with_noise: Vec<&RoundsNeeded> = all.iter().filter(|row| row.drifts == drifts).collect();
        for rows in with_noise.chunks(effects.len()) {
            let name = rows[0].tool.map_or("fsarena (sequential signed-rank)", |tool| tool.name());
            let cell = |row: &&RoundsNeeded| row.rounds.map_or("over 400".to_string(), |n| n.to_string());
            println!("| {name} | {} |", rows.iter().map(cell).collect::<Vec<_>>().join(" | "));
        }
    }
}

/// The share of a tool's false verdicts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorRate {
    /// The tool.
    pub tool: Tool,
    /// The number of measurements of each variant.
    pub rounds: usize,
    /// The share on a machine with 1% white noise.
    pub with_white_noise: f64,
    /// The share on a machine that also drifts: AR(.95) of 1%.
    pub with_drift: f64,
}

/// How often each tool's own rule finds a difference between identical variants.
pub fn error_rates(runs: usize, seed: u64) -> Vec<ErrorRate> {
    let rate = |tool: Tool, rounds: usize, drifts: bool| {
        let wrong = in_parallel(runs, |run| {
            let mut rng = run_rng(mix(seed, (rounds * 2 + usize::from(drifts)) as u64), run);
            let x = simulate_series(drifts, 2 * rounds, &mut rng);
            tool.finds_difference(&x[..rounds], &x[rounds..], &mut rng)
        });
        wrong.into_iter().filter(|is_wrong| *is_wrong).count() as f64 / runs as f64
    };
    let cases = Tool::ALL.into_iter().map(|tool| (tool, 10)).chain([(Tool::Hyperfine, 100)]);
    let error_rate = |(tool, rounds)| {
        let [with_white_noise, with_drift] = [false, true].map(|drifts| rate(tool, rounds, drifts));
        ErrorRate { tool, rounds, with_white_noise, with_drift }
    };
    cases.map(error_rate).collect()
}

/// The number of rounds that a rule needs to find an effect in four of five runs, with its threshold set so that it errs in 5%
/// of runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundsNeeded {
    /// The tool; None for fsarena's rule.
    pub tool: Option<Tool>,
    /// Whether the machine drifts.
    pub drifts: bool,
    /// The true effect, as a fraction.
    pub effect: f64,
    /// The number of rounds; None if 400 are not enough.
    pub rounds: Option<usize>,
}

/// The share of runs in which a rule must find the effect.
const POWER: f64 = 0.8;
/// The error rate of each rule.
const ALPHA: f64 = 0.05;

/// How many rounds each rule needs at equal error.
///
/// The threshold of the other tools is the 95% quantile of their statistic on simulated identical variants, so that no tool
/// needs fewer rounds because it errs more often. fsarena's rule keeps its own threshold.
pub fn rounds_needed(effects: &[f64], runs: usize, seed: u64) -> Vec<RoundsNeeded> {
    let mut all = Vec::new();
    for drifts in [false, true] {
        for effect in effects {
            let rounds = rounds_fsarena_needs(drifts, *effect, runs, seed);
            all.push(RoundsNeeded { tool: None, drifts, effect: *effect, rounds });
        }
        for tool in Tool::ALL {
            let needed = rounds_tool_needs(tool, drifts, effects, runs, seed);
            for (effect, rounds) in effects.iter().zip(needed) {
                all.push(RoundsNeeded { tool: Some(tool), drifts, effect: *effect, rounds });
            }
        }
    }
    all
}

/// The look by which four of five runs of fsarena's rule have found the difference.
fn rounds_fsarena_needs(drifts: bool, effect: f64, runs: usize, seed: u64) -> Option<usize> {
    let mut rounds_to_stop = in_parallel(runs, |run| {
        let mut rng = run_rng(seed, run);
        let d = log_ratios_in_random_order(drifts, effect.ln_1p(), &mut rng);
        rounds_to_find_difference(&d).unwrap_or(usize::MAX)
    });
    rounds_to_stop.sort_unstable();
    Some(rounds_to_stop[(POWER * runs as f64).ceil() as usize - 1]).filter(|n| *n != usize::MAX)
}

/// The log ratios of [`LAST_LOOK_ROUNDS`] rounds, each of two successive measurements in random order. `theta` is ln(1 +
/// effect).
fn log_ratios_in_random_order(drifts: bool, theta: f64, rng: &mut impl Rng) -> Vec<f64> {
    let x = simulate_series(drifts, 2 * LAST_LOOK_ROUNDS, rng);
    x.chunks_exact(2).map(|pair| if rng.random() { pair[1] - pair[0] } else { pair[0] - pair[1] } + theta).collect()
}

/// For each effect, the smallest number of rounds with which the tool finds it in four of five runs.
fn rounds_tool_needs(tool: Tool, drifts: bool, effects: &[f64], runs: usize, seed: u64) -> Vec<Option<usize>> {
    let mut needed = vec![None; effects.len()];
    for look in LOOKS {
        let statistics = |theta: f64| {
            in_parallel(runs, |run| {
                let mut x = simulate_series(drifts, 2 * look.rounds, &mut run_rng(mix(seed, look.rounds as u64), run));
                x[look.rounds..].iter_mut().for_each(|x| *x += theta);
                tool.statistic(&x[..look.rounds], &x[look.rounds..])
            })
        };
        let mut null = statistics(0.0);
        null.sort_unstable_by(f64::total_cmp);
        let threshold = null[((1.0 - ALPHA) * runs as f64) as usize];
        for (effect, needed) in effects.iter().zip(&mut needed).filter(|(_, needed)| needed.is_none()) {
            let found = statistics(effect.ln_1p()).into_iter().filter(|statistic| *statistic > threshold).count();
            *needed = (found as f64 >= POWER * runs as f64).then_some(look.rounds);
        }
    }
    needed
}

/// The number of resamples of the bootstrap. criterion uses 100,000; 1,000 give its 5% within 0.7%.
const RESAMPLES: usize = 1_000;

fsarena_core::named_enum! {
    /// A tool that compares two lists of measurements.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Tool {
        /// hyperfine (`scripts/welch_ttest.py`): Welch's t test at 5%.
        Hyperfine = "hyperfine (Welch)",
        /// benchstat: the Mann–Whitney U test at 5%.
        Benchstat = "benchstat (Mann-Whitney)",
        /// criterion: a t test whose distribution is bootstrapped from both samples together, at 5%.
        Criterion = "criterion (bootstrap t)",
        /// fsperf: whether a new run lies outside of mean ± 1.96 standard deviations of the earlier runs.
        Fsperf = "fsperf (mean ± 1.96 sd)",
    }
}

impl Tool {
    /// Whether the tool reports that the two differ.
    pub fn finds_difference(self, a: &[f64], b: &[f64], rng: &mut impl Rng) -> bool {
        let statistic = self.statistic(a, b);
        match self {
            Tool::Hyperfine => {
                let t = StudentsT::new(0.0, 1.0, welch_t(a, b).1).expect("more than one measurement");
                2.0 * t.sf(statistic) < 0.05
            }
            Tool::Benchstat => 2.0 * Normal::standard().sf(statistic) < 0.05,
            Tool::Criterion => bootstrap_p(a, b, rng) < 0.05,
            Tool::Fsperf => statistic > 1.96,
        }
    }

    /// The statistic that the tool compares with its threshold; a larger value means a larger difference. hyperfine and
    /// criterion both use Welch's t, with different thresholds.
    pub fn statistic(self, a: &[f64], b: &[f64]) -> f64 {
        match self {
            Tool::Hyperfine | Tool::Criterion => welch_t(a, b).0.abs(),
            Tool::Benchstat => mann_whitney_z(a, b),
            Tool::Fsperf => (b[0] - mean(a)).abs() / variance(a).sqrt(),
        }
    }
}

/// Welch's t and its degrees of freedom (Welch 1947).
fn welch_t(a: &[f64], b: &[f64]) -> (f64, f64) {
    let [(va, fa), (vb, fb)] = [a, b].map(|x| (variance(x) / x.len() as f64, (x.len() - 1) as f64));
    ((mean(b) - mean(a)) / (va + vb).sqrt(), welch_degrees_of_freedom((va, fa), (vb, fb)))
}

/// The normal approximation of the Mann–Whitney U test for m values of a and n of b without ties, with the correction for
/// continuity: (|U − mn/2| − ½) / √(mn(m + n + 1)/12) (Mann and Whitney 1947).
fn mann_whitney_z(a: &[f64], b: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> = a.iter().map(|x| (*x, false)).chain(b.iter().map(|x| (*x, true))).collect();
    all.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
    let rank_sum: usize = all.iter().enumerate().filter(|(_, (_, is_of_b))| *is_of_b).map(|(index, _)| index + 1).sum();
    let (m, n) = (a.len() as f64, b.len() as f64);
    let u = rank_sum as f64 - n * (n + 1.0) / 2.0;
    ((u - m * n / 2.0).abs() - 0.5).max(0.0) / (m * n * (m + n + 1.0) / 12.0).sqrt()
}

/// The two-sided p value of Welch's t, whose distribution is estimated from resamples of both lists together (Efron 1979).
fn bootstrap_p(a: &[f64], b: &[f64], rng: &mut impl Rng) -> f64 {
    let pooled: Vec<f64> = a.iter().chain(b).copied().collect();
    let t = welch_t(a, b).0;
    let mut sample = vec![0.0; pooled.len()];
    let is_below = |_: &usize| {
        sample.iter_mut().for_each(|x| *x = pooled[rng.random_range(0..pooled.len())]);
        welch_t(&sample[..a.len()], &sample[a.len()..]).0 < t
    };
    let below = (0..RESAMPLES).filter(is_below).count();
    2.0 * below.min(RESAMPLES - below) as f64 / RESAMPLES as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_makes_tools_err_that_measure_one_variant_after_the_other() {
        let rates = error_rates(200, 1);
        for rate in &rates {
            assert!(rate.with_white_noise < 0.2 && rate.with_drift >= rate.with_white_noise, "{rate:?}");
        }
        let long = rates.iter().find(|rate| rate.rounds == 100).unwrap();
        assert!(long.with_drift > 0.5, "{long:?}");
    }

    #[test]
    fn drift_does_not_make_fsarena_need_more_rounds() {
        let needed = |drifts| rounds_fsarena_needs(drifts, 0.02, 100, 1).unwrap();
        assert!(needed(true) <= needed(false) * 2, "{} {}", needed(true), needed(false));
        assert_eq!(rounds_fsarena_needs(false, 0.000_1, 20, 1), None);
        assert_eq!(rounds_tool_needs(Tool::Hyperfine, false, &[0.1], 50, 1), [Some(8)]);
    }

    const A: [f64; 8] = [10.1, 10.3, 9.9, 10.6, 10.2, 10.0, 10.45, 9.8];
    const B: [f64; 7] = [10.5, 10.9, 10.35, 11.2, 10.7, 10.25, 10.85];

    #[test]
    fn statistics_agree_with_scipy() {
        // scipy.stats.ttest_ind(B, A, equal_var=False): statistic, df.
        let (t, df) = welch_t(&A, &B);
        assert!((t - 3.1974038985744877).abs() < 1e-9 && (df - 11.646700121875718).abs() < 1e-9, "{t} {df}");
        // scipy.stats.mannwhitneyu(B, A, method="asymptotic").pvalue
        let p = 2.0 * Normal::standard().sf(mann_whitney_z(&A, &B));
        assert!((p - 0.012841262337219548).abs() < 1e-9, "{p}");
    }

    #[test]
    fn the_bootstrap_comes_near_the_t_test() {
        let p = bootstrap_p(&A, &B, &mut run_rng(1, 0));
        assert!(p < 0.03, "{p}");
    }

    #[test]
    fn every_rule_finds_a_large_difference_and_no_tiny_one() {
        let shifted = B.map(|b| b + 5.0);
        for tool in Tool::ALL {
            assert!(tool.finds_difference(&A, &shifted, &mut run_rng(1, 0)), "{tool:?}");
            assert!(!tool.finds_difference(&A, &A.map(|a| a + 0.01), &mut run_rng(1, 0)), "{tool:?}");
        }
    }
}
