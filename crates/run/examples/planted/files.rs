//! More of the same work: files that have a twin.

use crate::guest::{Counts, Crew, Work, columns, difference, differs};
use crate::{Arguments, Desk, Failed, ROUNDS};
use fsarena_core::{schedule::mix, setting::Value};
use std::time::Instant;

/// How often each round's work is done for pairs of identical variants.
const REPEATS: u64 = 3;
/// Files in 10,000 that have a twin.
const PLANTED: [u64; 3] = [14, 50, 100];

/// Prints the verdicts on planted files, filesystem by filesystem, and on identical variants.
pub fn prove(asked: &Arguments, desk: Desk) -> Result<(), Failed> {
    println!("| filesystem | planted | task | effect | 95% interval | differs | seconds |");
    println!("|---|---|---|---|---|---|---|");
    asked.filesystems.iter().try_for_each(|fs| filesystem(fs, asked, desk))
}

fn filesystem(fs: &str, asked: &Arguments, desk: Desk) -> Result<(), Failed> {
    let mut base = start(fs, asked, 0, desk)?;
    let begun = Instant::now();
    let rounds: Vec<Counts> = (0..ROUNDS).map(|round| base.run(0, round)).collect::<Result<_, _>>()?;
    let base_seconds = begun.elapsed().as_secs_f64();
    for planted in PLANTED {
        let mut more = start(fs, asked, planted, desk)?;
        let begun = Instant::now();
        let with: Vec<Counts> = (0..ROUNDS).map(|round| more.run(0, round)).collect::<Result<_, _>>()?;
        let seconds = base_seconds + begun.elapsed().as_secs_f64();
        more.end()?;
        for task in rounds[0].keys() {
            let Some(verdict) = difference(&rounds, &with, task) else { continue };
            let planted = planted as f64 / 100.0;
            println!("| {fs} | {planted}% | {task} | {} | {seconds:.0} |", columns(&verdict));
        }
    }
    identical(fs, asked, &mut base, rounds)?;
    base.end()
}

fn start(fs: &str, asked: &Arguments, twins: u64, desk: Desk) -> Result<Crew, Failed> {
    let settings = vec![("tree_files", Value::Int(asked.files)), ("twins", Value::Int(twins as i64))];
    let work = Work { fs, workload: "tree", settings, mounts: &[""], seed: 1 };
    Crew::start(&work, &format!("{fs}-{twins}"), desk)
}

/// Pairs of identical variants: every round's work is done again, and a pair takes two of its repeats in each round.
fn identical(fs: &str, asked: &Arguments, base: &mut Crew, first: Vec<Counts>) -> Result<(), Failed> {
    if asked.pairs == 0 {
        return Ok(());
    }
    let mut repeats: Vec<Vec<Counts>> = first.into_iter().map(|counts| vec![counts]).collect();
    for (round, counts) in repeats.iter_mut().enumerate() {
        for _ in 1..REPEATS {
            counts.push(base.run(0, round as u32)?);
        }
    }
    let (mut verdicts, mut wrong, mut largest) = (0, 0, 0.0_f64);
    for pair in 0..asked.pairs {
        let drawn = |round: u64| (mix(u64::from(pair), round) % REPEATS, mix(u64::from(pair), !round) % (REPEATS - 1));
        let two = |round: u64| {
            let (a, task) = drawn(round);
            [a, (a + 1 + task) % REPEATS].map(|at| repeats[round as usize][at as usize].clone())
        };
        let (a, b): (Vec<Counts>, Vec<Counts>) = (0..u64::from(ROUNDS)).map(two).map(|[a, b]| (a, b)).unzip();
        for task in a[0].keys() {
            let Some(verdict) = difference(&a, &b, task) else { continue };
            verdicts += 1;
            wrong += u32::from(differs(&verdict));
            largest = largest.max(verdict.effect.abs());
        }
    }
    let boots = u64::from(ROUNDS) * REPEATS;
    println!(
        "\n{fs}: {} pairs of identical variants of {ROUNDS} rounds, of {boots} boots: {wrong} of {verdicts} verdicts say that they \
         differ; the largest difference is {:.6}%.\n",
        asked.pairs,
        100.0 * largest
    );
    Ok(())
}
