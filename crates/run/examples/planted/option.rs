//! A mount option whose cost is known by count.
//!
//! With `strictatime` every file and directory that is read has its access time written, with `noatime` none has. How
//! many that are is known: those of the tree. What one costs is measured on a small tree, and from that is predicted
//! what the option costs on trees twice as large.

use crate::guest::{Counts, Crew, Work, columns, difference};
use crate::{Arguments, Desk, Failed, ROUNDS};
use fsarena_core::{schedule::mix, setting::Value};
use fsarena_load::tree::{self, Entry};

/// The two variants.
const MOUNTS: [&str; 2] = ["noatime", "strictatime"];
/// Trees that the cost of one access time is taken from.
const CALIBRATION: u32 = 2;
/// The tasks, each by its number and its task, and whether it reads the files or the directories alone.
const TASKS: [(i64, &str, bool); 3] = [(10, "tar", true), (20, "copy-tree", true), (11, "rm-tree", false)];

/// One tree, worked on by both variants.
struct Round {
    counts: [Counts; 2],
    tree: Vec<Entry>,
}

/// Prints what was predicted and what was measured.
pub fn prove(asked: &Arguments, desk: Desk) -> Result<(), Failed> {
    println!(
        "| filesystem | task | access times | instructions each | predicted | measured | 95% interval | differs \
         | measured / predicted | predicted is in the interval |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    asked.filesystems.iter().try_for_each(|fs| filesystem(fs, asked.files, desk))
}

fn filesystem(fs: &str, files: i64, desk: Desk) -> Result<(), Failed> {
    // The seeds differ, so no tree is seen twice.
    let small: Vec<Round> =
        (0..CALIBRATION).map(|seed| round(fs, files / 2, 1000 + seed, desk)).collect::<Result<_, _>>()?;
    let large: Vec<Round> = (0..ROUNDS).map(|seed| round(fs, files, seed, desk)).collect::<Result<_, _>>()?;
    let [a, b] = [0, 1].map(|variant| large.iter().map(|round| round.counts[variant].clone()).collect::<Vec<_>>());
    for (_, task, reads_files) in TASKS {
        let each = mean(small.iter().map(|round| round.cost(task) / round.read(reads_files)));
        let predicted = mean(large.iter().map(|round| each * round.read(reads_files) / round.counts[0][task]));
        let found = mean(large.iter().map(|round| round.cost(task) / (each * round.read(reads_files))));
        let times = mean(large.iter().map(|round| round.read(reads_files)));
        let Some(verdict) = difference(&a, &b, task) else { continue };
        println!(
            "| {fs} | {task} | {times:.0} | {each:.0} | {:.3}% | {} | {found:.3} | {} |",
            100.0 * predicted,
            columns(&verdict),
            if (verdict.interval.0..=verdict.interval.1).contains(&predicted) { "yes" } else { "no" },
        );
    }
    Ok(())
}

/// Both variants on the tree of one seed.
fn round(fs: &str, files: i64, seed: u32, desk: Desk) -> Result<Round, Failed> {
    let numbers = TASKS.map(|(number, ..)| Value::Int(number)).to_vec();
    let settings = vec![("tree_files", Value::Int(files)), ("tasks", Value::List(numbers))];
    let seed = u64::from(seed) + 1;
    let work = Work { fs, workload: "coreutils", settings, mounts: &MOUNTS, seed };
    let mut crew = Crew::start(&work, &format!("{fs}-{files}-{seed}"), desk)?;
    let counts = [crew.run(0, 0)?, crew.run(1, 0)?];
    crew.end()?;
    Ok(Round { counts, tree: tree::generate(mix(seed, 3), files as u64) })
}

impl Round {
    /// Instructions that the option costs in a task.
    fn cost(&self, task: &str) -> f64 {
        self.counts[1][task] - self.counts[0][task]
    }

    /// How many access times a task writes: directories, and files that have something to read.
    fn read(&self, files: bool) -> f64 {
        let is_read = |entry: &&Entry| entry.bytes.is_none_or(|bytes| files && bytes > 0);
        self.tree.iter().filter(is_read).count() as f64
    }
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count() as f64
}
