//! Runs the rounds of a row, and prints its medians and ratios.

use crate::scratch::Failure;

/// The number of rounds, in each of which every contender runs once.
const ROUNDS: usize = 5;

/// The figures of one run of a contender.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Operations per second.
    pub operations_per_s: f64,
    /// CPU time per operation in nanoseconds, user and system; 0 if it is not measured.
    pub cpu_ns: f64,
    /// User time per operation in nanoseconds; 0 if it is not measured.
    pub user_ns: f64,
}

/// The name of a contender, and a function that runs it once. The function returns None if the program is not installed.
pub type Contender<'a> = (&'static str, Box<dyn Fn() -> Result<Option<Figures>, Failure> + 'a>);

/// A row of the comparison.
pub struct Row<'a> {
    /// The heading of the row.
    pub title: &'a str,
    /// The contenders, the engine first.
    pub contenders: Vec<Contender<'a>>,
    /// For each of the other contenders, the smallest accepted ratio of the engine's operations per second to its own.
    pub min_ratios: Vec<f64>,
}

/// Runs all rounds of a row and prints the row.
pub fn run_and_print(row: &Row) -> Result<(), Failure> {
    println!("\n{}", row.title);
    let count = row.contenders.len();
    let mut figures: Vec<Vec<Figures>> = vec![vec![]; count];
    for round in 0..ROUNDS {
        for turn in 0..count {
            let index = (round + turn) % count;
            let (_, run) = &row.contenders[index];
            figures[index].extend(run()?);
        }
    }
    println!("  {:34} {:>12} {:>9} {:>9} {:>7} {:>6}", "", "ops/s", "CPU ns", "user ns", "ratio", "goal");
    for (index, (name, _)) in row.contenders.iter().enumerate() {
        let Some(first) = figures[index].first() else {
            println!("  {name:34} not installed here");
            continue;
        };
        let median_of = |value: fn(&Figures) -> f64| median(figures[index].iter().map(value).collect());
        let rounds = figures[0].iter().zip(&figures[index]);
        let ratio = median(rounds.map(|(engine, other)| engine.operations_per_s / other.operations_per_s).collect());
        let operations_per_s = median_of(|figures| figures.operations_per_s);
        let (cpu, user) = (median_of(|figures| figures.cpu_ns), median_of(|figures| figures.user_ns));
        let cpu = if first.cpu_ns > 0.0 { format!("{cpu:.0}") } else { String::new() };
        let user = if first.user_ns > 0.0 { format!("{user:.0}") } else { String::new() };
        print!("  {name:34} {operations_per_s:>12.0} {cpu:>9} {user:>9}");
        match index.checked_sub(1) {
            Some(other) => println!(" {ratio:>7.2} {:>6.2}", row.min_ratios[other]),
            None => println!(),
        }
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Requests real-time priority, which all contenders inherit, so that other processes disturb them little. Returns a sentence
/// about whether it was granted.
pub fn request_real_time_priority() -> &'static str {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the structure is complete, and 0 is this process.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &parameters) } {
        0 => "All contenders run with real-time priority.",
        _ => "No right to real-time priority (root has it): other load on this machine disturbs the figures.",
    }
}
