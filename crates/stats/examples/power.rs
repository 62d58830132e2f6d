//! Computes the constants of the power forecast again and prints them beside the stored ones:
//! `cargo run --release -p fsarena-stats --example power -- [RUNS]`.

use fsarena_stats::{simulate::constants::CONSTANTS, simulate::constants::ratios, table::LOOKS};

fn main() {
    let runs = std::env::args().nth(1).map_or(100_000, |runs| runs.parse().expect("a number of runs"));
    for (title, (stored, critical)) in ["RATIOS", "GATE_RATIOS"].into_iter().zip(CONSTANTS) {
        println!("{title}\n    n  stored   again");
        for ((look, stored), again) in LOOKS.iter().zip(stored).zip(ratios(runs, 1, critical)) {
            println!("{:5} {stored:7.3} {again:7.3}", look.n);
        }
    }
}
