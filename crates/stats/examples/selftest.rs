//! The simulated self-test, timed: `cargo run --release -p fsarena-stats --example selftest -- [RUNS [RULE]]`. With the
//! beginning of a rule's name, such as `gate`, it checks only the rules whose names begin so; with `growth`, the laws of scale
//! grids.

use fsarena_stats::simulate::PromiseState;
use fsarena_stats::simulate::growth::check_growth;
use fsarena_stats::simulate::selftest::{Check, RUNS, check_rules, run_selftest};
use std::time::Instant;

fn main() {
    let runs = std::env::args().nth(1).map_or(RUNS, |runs| runs.parse().expect("a number of runs"));
    let start = Instant::now();
    if let Some(rule) = std::env::args().nth(2) {
        if rule == "growth" {
            check_growth(runs, 1).iter().for_each(|check| println!("{check:?} {:?}", check.state()));
        }
        check_rules(runs, 1, |name| name.starts_with(&rule)).iter().for_each(print_check);
        return println!("\n{:.1} s", start.elapsed().as_secs_f64());
    }
    let report = run_selftest(runs, 1);
    for check in &report.checks {
        print_check(check);
    }
    println!("\nThe negative test, fixed order:");
    print_check(&report.fixed_order);
    println!("\n{} in {:.1} s", if report.passed() { "passed" } else { "FAILED" }, start.elapsed().as_secs_f64());
}

fn print_check(check: &Check) {
    println!(
        "{:42} {:24} {:5.2}%  at most {:5.2}%  {}",
        check.rule.name(),
        check.noise.name(),
        100.0 * check.errors.rate(),
        100.0 * check.errors.upper_limit(),
        if check.state() == PromiseState::Kept { "passed" } else { "FAILED" }
    );
}
