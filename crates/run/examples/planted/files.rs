//! Plants more of the same work: files that have a twin.

use crate::guest::{Counts, VariantGuests, Work, describe_verdict, differs, judge_difference};
use crate::{AnyError, Arguments, ROUNDS, Workspace};
use fsarena_core::{schedule::mix, setting::SettingValue};
use std::time::Instant;

/// The number of runs of each round, from which pairs of identical variants are drawn.
const RUNS_PER_ROUND: u64 = 3;
/// The numbers of planted files: of 10,000 files, this many have a twin.
const TWINS: [u64; 3] = [14, 50, 100];

/// Prints for each filesystem the verdicts on planted files, and how often identical variants were called different.
pub fn print_verdicts(arguments: &Arguments, workspace: Workspace) -> Result<(), AnyError> {
    println!("| filesystem | planted | task | effect | 95% interval | differs | seconds |");
    println!("|---|---|---|---|---|---|---|");
    arguments.filesystems.iter().try_for_each(|fs| print_filesystem(fs, arguments, workspace))
}

fn print_filesystem(fs: &str, arguments: &Arguments, workspace: Workspace) -> Result<(), AnyError> {
    let mut base = start(fs, arguments, 0, workspace)?;
    let started = Instant::now();
    let base_counts: Vec<Counts> = (0..ROUNDS).map(|round| base.run(0, round)).collect::<Result<_, _>>()?;
    let base_seconds = started.elapsed().as_secs_f64();
    for twins in TWINS {
        let mut with_twins = start(fs, arguments, twins, workspace)?;
        let started = Instant::now();
        let counts: Vec<Counts> = (0..ROUNDS).map(|round| with_twins.run(0, round)).collect::<Result<_, _>>()?;
        let seconds = base_seconds + started.elapsed().as_secs_f64();
        with_twins.finish()?;
        for task in base_counts[0].keys() {
            let Some(verdict) = judge_difference(&base_counts, &counts, task) else { continue };
            let percent = twins as f64 / 100.0;
            println!("| {fs} | {percent}% | {task} | {} | {seconds:.0} |", describe_verdict(&verdict));
        }
    }
    print_identical_pairs(fs, arguments, &mut base, base_counts)?;
    base.finish()
}

/// Starts the guests of a variant with this many twins in 10,000 files.
fn start(fs: &str, arguments: &Arguments, twins: u64, workspace: Workspace) -> Result<VariantGuests, AnyError> {
    let settings = vec![("tree_files", SettingValue::Int(arguments.files)), ("twins", SettingValue::Int(twins as i64))];
    let work = Work { fs, workload: "tree", settings, mounts: &[""], seed: 1 };
    VariantGuests::start(&work, &format!("{fs}-{twins}"), workspace)
}

/// Runs each round of `base` further times, draws pairs of identical variants from these runs, and prints how often
/// they were called different. In each round, a pair has two different runs of the round. `first_counts` are those of
/// the first run of each round.
fn print_identical_pairs(
    fs: &str,
    arguments: &Arguments,
    base: &mut VariantGuests,
    first_counts: Vec<Counts>,
) -> Result<(), AnyError> {
    if arguments.pairs == 0 {
        return Ok(());
    }
    let mut runs: Vec<Vec<Counts>> = first_counts.into_iter().map(|counts| vec![counts]).collect();
    for (round, counts) in runs.iter_mut().enumerate() {
        for _ in 1..RUNS_PER_ROUND {
            counts.push(base.run(0, round as u32)?);
        }
    }
    let (mut verdicts, mut wrong, mut largest) = (0, 0, 0.0_f64);
    for pair in 0..arguments.pairs {
        let (mut a, mut b) = (vec![], vec![]);
        for (round, runs_of_round) in (0..).zip(&runs) {
            let first = mix(u64::from(pair), round) % RUNS_PER_ROUND;
            let distance = 1 + mix(u64::from(pair), !round) % (RUNS_PER_ROUND - 1);
            let second = (first + distance) % RUNS_PER_ROUND;
            a.push(runs_of_round[first as usize].clone());
            b.push(runs_of_round[second as usize].clone());
        }
        for task in a[0].keys() {
            let Some(verdict) = judge_difference(&a, &b, task) else { continue };
            verdicts += 1;
            wrong += u32::from(differs(&verdict));
            largest = largest.max(verdict.effect.abs());
        }
    }
    let boots = u64::from(ROUNDS) * RUNS_PER_ROUND;
    println!(
        "\n{fs}: {} pairs of identical variants of {ROUNDS} rounds, of {boots} boots: {wrong} of {verdicts} verdicts say that they \
         differ; the largest difference is {:.6}%.\n",
        arguments.pairs,
        100.0 * largest
    );
    Ok(())
}
