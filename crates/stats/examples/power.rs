//! Simulates the constants of the power forecast and prints them beside the stored ones:
//! `cargo run --release -p fsarena-stats --example power -- [RUNS]`.

use fsarena_stats::critical_values::{LAST_LOOK_ROUNDS, LOOKS, Look};
use fsarena_stats::hodges_lehmann::WalshAverages;
use fsarena_stats::power::{DETECTABLE_EFFECTS_IN_SD, GATE_DISTANCES_IN_SD};
use fsarena_stats::simulate::{in_parallel, run_rng};
use rand_distr::{Distribution, StandardNormal};

fn main() {
    let runs = std::env::args().nth(1).map_or(100_000, |runs| runs.parse().expect("a number of runs"));
    for (name, stored, critical) in CONSTANTS {
        println!("{name}\n    n  stored   again");
        for ((look, stored), simulated) in LOOKS.iter().zip(stored).zip(simulate_effects(runs, 1, critical)) {
            println!("{:5} {stored:7.3} {simulated:7.3}", look.rounds);
        }
    }
}

/// The share of runs that must find an effect that counts as detectable.
const POWER: f64 = 0.8;

/// Returns the critical value of a look.
type CriticalValue = fn(&Look) -> usize;

/// The stored constants, each with its name and the critical values that it belongs to.
const CONSTANTS: [(&str, &[f64], CriticalValue); 2] = [
    ("DETECTABLE_EFFECTS_IN_SD", &DETECTABLE_EFFECTS_IN_SD, |look| look.c05),
    ("GATE_DISTANCES_IN_SD", &GATE_DISTANCES_IN_SD, |look| look.c10),
];

/// For each look the effect that the sequential test with these critical values finds by this look in four of five runs. The
/// unit is the standard deviation of d, which is normal here.
///
/// Adding a constant to every d moves every interval by the same constant. So a run finds all effects above the smallest
/// −(lower end of the interval) of its looks so far. The result is the 80% quantile of this smallest effect over all runs.
fn simulate_effects(runs: usize, seed: u64, critical: CriticalValue) -> Vec<f64> {
    let effects_of_runs: Vec<[f64; LOOKS.len()]> = in_parallel(runs, |run| {
        let mut rng = run_rng(seed, run);
        let d: Vec<f64> = StandardNormal.sample_iter(&mut rng).take(LAST_LOOK_ROUNDS).collect();
        smallest_found_effects(&d, critical)
    });
    let effect = |look: usize| {
        let mut effects: Vec<f64> = effects_of_runs.iter().map(|effects| effects[look]).collect();
        let quantile = ((POWER * runs as f64).ceil() as usize).clamp(1, runs) - 1;
        *effects.select_nth_unstable_by(quantile, f64::total_cmp).1
    };
    (0..LOOKS.len()).map(effect).collect()
}

/// For each look, the smallest effect with which the interval of that look or of an earlier one lies above 0.
fn smallest_found_effects(d: &[f64], critical: CriticalValue) -> [f64; LOOKS.len()] {
    let mut smallest = f64::INFINITY;
    LOOKS.map(|look| {
        let walsh = WalshAverages::new(d[..look.rounds].to_vec()).expect("normal numbers are finite");
        smallest = smallest.min(-walsh.interval(critical(&look)).0);
        smallest
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_is_found_once_an_interval_lies_above_zero() {
        // n = 8, c = 0: the lower end is the smallest value, −0.3; at n = 10, c = 1, the second smallest
        // average, (−0.3 − 0.2)/2.
        let mut d = vec![-0.3, -0.2];
        d.extend((0..398).map(|i| f64::from(i) / 10.0));
        let found = smallest_found_effects(&d, |look| look.c05);
        assert!((found[0] - 0.3).abs() < 1e-12 && (found[1] - 0.25).abs() < 1e-12, "{found:?}");
        assert!(found.windows(2).all(|pair| pair[1] <= pair[0]));
    }

    #[test]
    fn the_simulation_agrees_with_the_stored_constants() {
        for (_, stored, critical) in CONSTANTS {
            for (stored, simulated) in stored.iter().zip(simulate_effects(400, 1, critical)) {
                assert!((simulated / stored - 1.0).abs() < 0.12, "{simulated} for {stored}");
            }
        }
    }
}
