//! A mount option whose cost is known by count.
//!
//! With `strictatime` every file and directory that is read has its access time written, with `noatime` none has. How
//! many that are is known: those of the tree. What one costs is measured on a small tree, and from that is predicted
//! what the option costs on trees twice as large.

use crate::guest::{Counts, Crew, Work, columns, difference};
use crate::{Asked, BLOCKS, Desk, Failed};
use fsarena_core::schedule::mix;
use fsarena_core::setting::Value;
use fsarena_load::tree::{self, Entry};

/// The two arms.
const MOUNTS: [&str; 2] = ["noatime", "strictatime"];
/// Trees that the cost of one access time is taken from.
const CALIBRATION: u32 = 2;
/// The tasks, each by its number and its step, and whether it reads the files or the directories alone.
const TASKS: [(i64, &str, bool); 3] = [(10, "tar", true), (20, "copy-tree", true), (11, "rm-tree", false)];

/// One tree, worked on by both arms.
struct Block {
    counts: [Counts; 2],
    tree: Vec<Entry>,
}

/// Prints what was predicted and what was measured.
pub fn prove(asked: &Asked, desk: Desk) -> Result<(), Failed> {
    println!(
        "| filesystem | step | access times | instructions each | predicted | measured | 95% interval | differs \
         | measured / predicted | predicted is in the interval |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    asked.filesystems.iter().try_for_each(|fs| filesystem(fs, asked.files, desk))
}

fn filesystem(fs: &str, files: i64, desk: Desk) -> Result<(), Failed> {
    // The seeds differ, so no tree is seen twice.
    let small: Vec<Block> =
        (0..CALIBRATION).map(|seed| block(fs, files / 2, 1000 + seed, desk)).collect::<Result<_, _>>()?;
    let large: Vec<Block> = (0..BLOCKS).map(|seed| block(fs, files, seed, desk)).collect::<Result<_, _>>()?;
    let [a, b] = [0, 1].map(|arm| large.iter().map(|block| block.counts[arm].clone()).collect::<Vec<_>>());
    for (_, step, reads_files) in TASKS {
        let each = mean(small.iter().map(|block| block.cost(step) / block.read(reads_files)));
        let predicted =
            mean(large.iter().map(|block| each * block.read(reads_files) / block.counts[0][step]));
        let found = mean(large.iter().map(|block| block.cost(step) / (each * block.read(reads_files))));
        let times = mean(large.iter().map(|block| block.read(reads_files)));
        let Some(verdict) = difference(&a, &b, step) else { continue };
        println!(
            "| {fs} | {step} | {times:.0} | {each:.0} | {:.3}% | {} | {found:.3} | {} |",
            100.0 * predicted,
            columns(&verdict),
            if (verdict.interval.0..=verdict.interval.1).contains(&predicted) { "yes" } else { "no" },
        );
    }
    Ok(())
}

/// Both arms on the tree of one seed.
fn block(fs: &str, files: i64, seed: u32, desk: Desk) -> Result<Block, Failed> {
    let numbers = TASKS.map(|(number, ..)| Value::Int(number)).to_vec();
    let settings = vec![("tree_files", Value::Int(files)), ("tasks", Value::List(numbers))];
    let seed = u64::from(seed) + 1;
    let work = Work { fs, workload: "coreutils", settings, mounts: &MOUNTS, seed };
    let mut crew = Crew::start(&work, &format!("{fs}-{files}-{seed}"), desk)?;
    let counts = [crew.run(0, 0)?, crew.run(1, 0)?];
    crew.end()?;
    Ok(Block { counts, tree: tree::generate(mix(seed, 3), files as u64) })
}

impl Block {
    /// Instructions that the option costs in a step.
    fn cost(&self, step: &str) -> f64 {
        self.counts[1][step] - self.counts[0][step]
    }

    /// How many access times a step writes: directories, and files that have something to read.
    fn read(&self, files: bool) -> f64 {
        let is_read = |entry: &&Entry| entry.bytes.is_none_or(|bytes| files && bytes > 0);
        self.tree.iter().filter(is_read).count() as f64
    }
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count() as f64
}
