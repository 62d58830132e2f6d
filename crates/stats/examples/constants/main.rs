//! Computes the constants of the sequential test again and prints them beside the stored ones:
//! `cargo run --release -p fsarena-stats --example constants -- [--paths N] [--seed S]`.
//!
//! "error" is the simulated probability that a run with the stored constants has rejected by that look. It may be below "spent"
//! by what one step of c adds, and above it by the noise of the simulation.

mod critical_values;

use critical_values::{crossed_shares, simulate_critical_values, simulate_paths};
use fsarena_stats::critical_values::{LOOKS, signed_rank_cdf, spent_error};
use std::time::Instant;

fn main() {
    let count = argument("--paths").unwrap_or(2_000_000);
    let seed = argument("--seed").unwrap_or(1);
    let start = Instant::now();
    let paths = simulate_paths(count as usize, seed);
    println!("{count} paths in {:.1} s", start.elapsed().as_secs_f64());
    for alpha in [0.05, 0.10] {
        let stored: Vec<usize> = LOOKS.iter().map(|look| if alpha == 0.05 { look.c05 } else { look.c10 }).collect();
        let (again, error) = (simulate_critical_values(&paths, alpha), crossed_shares(&paths, &stored));
        println!("\nalpha {alpha}\n    n  stored   again   spent %  error %   ± %   one step %   verdict");
        for (at, look) in LOOKS.iter().enumerate() {
            let target = spent_error(alpha, look.rounds);
            let noise = 4.0 * (target * (1.0 - target) / count as f64).sqrt();
            // What one step of c adds at this look alone, an upper bound of what it adds to the whole.
            let p = signed_rank_cdf(look.rounds);
            let step = 2.0 * (p[stored[at] + 1] - p[stored[at]]);
            let agrees = error[at] <= target + noise && error[at] + step >= target - noise;
            println!(
                "{:5} {:7} {:>7} {:9.4} {:8.4} {:5.3} {:10.4}     {}",
                look.rounds,
                stored[at],
                again[at].map_or("-".to_string(), |c| c.to_string()),
                100.0 * target,
                100.0 * error[at],
                100.0 * noise,
                100.0 * step,
                if agrees { "agrees" } else { "DISAGREES" },
            );
        }
    }
}

fn argument(name: &str) -> Option<u64> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.next()?;
    Some(arguments.next().and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} takes a number")))
}
