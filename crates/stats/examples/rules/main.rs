//! Prints how often the rules of other tools err, and how many rounds they need:
//! `cargo run --release -p fsarena-stats --example rules -- [RUNS]`.

mod other_tools;

use other_tools::{RoundsNeeded, error_rates, rounds_needed};

fn main() {
    let runs = std::env::args().nth(1).map_or(4_000, |runs| runs.parse().expect("a number of runs"));
    println!("False verdicts on identical variants, 1% noise ({runs} runs)\n");
    println!("| rule | of each variant | white | with drift |\n|---|---:|---:|---:|");
    for rate in error_rates(runs, 1) {
        let (white, drift) = (100.0 * rate.white, 100.0 * rate.drift);
        println!("| {} | {} | {white:.1}% | {drift:.1}% |", rate.tool.name(), rate.rounds);
    }
    let effects = [0.01, 0.02, 0.05];
    let all = rounds_needed(&effects, runs, 2);
    for drifts in [false, true] {
        let noise = if drifts { "1% noise and drift" } else { "1% noise" };
        println!("\nRounds needed to find an effect in four of five runs, all rules at 5% error, {noise}\n");
        println!("| rule | 1% | 2% | 5% |\n|---|---:|---:|---:|");
        let here: Vec<&RoundsNeeded> = all.iter().filter(|row| row.drifts == drifts).collect();
        for rows in here.chunks(effects.len()) {
            let name = rows[0].tool.map_or("fsarena (sequential signed-rank)", |tool| tool.name());
            let cell = |row: &&RoundsNeeded| row.rounds.map_or("over 400".to_string(), |n| n.to_string());
            println!("| {name} | {} |", rows.iter().map(cell).collect::<Vec<_>>().join(" | "));
        }
    }
}
