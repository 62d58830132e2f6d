//! Runs the rounds of a row, and prints its medians and ratios.

use crate::scratch::Failure;

/// The number of runs of each contender.
const ROUNDS: usize = 5;

/// The figures of one run of a contender.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Operations a second.
    pub per_s: f64,
    /// CPU nanoseconds an operation, user and system.
    pub cpu_ns: f64,
    /// User nanoseconds an operation.
    pub user_ns: f64,
}

/// One way to do the work of a row. Returns none if its program is missing.
pub type Contender<'a> = (&'static str, Box<dyn Fn() -> Result<Option<Run>, Failure> + 'a>);

/// A row of the comparison.
pub struct Row<'a> {
    /// The heading of the row.
    pub title: &'a str,
    /// The engine first.
    pub contenders: Vec<Contender<'a>>,
    /// The ratio to reach against each of the others.
    pub goals: Vec<f64>,
}

/// Runs a row and prints it.
pub fn print(row: &Row) -> Result<(), Failure> {
    println!("\n{}", row.title);
    let count = row.contenders.len();
    let mut runs: Vec<Vec<Run>> = vec![vec![]; count];
    for round in 0..ROUNDS {
        for turn in 0..count {
            let who = (round + turn) % count;
            if let Some(run) = (row.contenders[who].1)()? {
                runs[who].push(run);
            }
        }
    }
    println!("  {:34} {:>12} {:>9} {:>9} {:>7} {:>6}", "", "ops/s", "CPU ns", "user ns", "ratio", "goal");
    for (who, (name, _)) in row.contenders.iter().enumerate() {
        let Some(first) = runs[who].first() else {
            println!("  {name:34} not installed here");
            continue;
        };
        let of = |value: fn(&Run) -> f64| median(runs[who].iter().map(value).collect());
        let ratio = median(runs[0].iter().zip(&runs[who]).map(|(a, b)| a.per_s / b.per_s).collect());
        let (per_s, cpu, user) = (of(|run| run.per_s), of(|run| run.cpu_ns), of(|run| run.user_ns));
        let cpu = if first.cpu_ns > 0.0 { format!("{cpu:.0}") } else { String::new() };
        let user = if first.user_ns > 0.0 { format!("{user:.0}") } else { String::new() };
        print!("  {name:34} {per_s:>12.0} {cpu:>9} {user:>9}");
        match who.checked_sub(1) {
            Some(other) => println!(" {ratio:>7.2} {:>6.2}", row.goals[other]),
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
pub fn undisturbed() -> &'static str {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the structure is complete, and 0 is this process.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &parameters) } {
        0 => "All contenders run with real-time priority.",
        _ => "No right to real-time priority (root has it): other load on this machine disturbs the figures.",
    }
}
