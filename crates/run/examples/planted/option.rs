//! Plants a mount option whose cost is known by counting.
//!
//! With `strictatime` the filesystem writes the access time of every file and directory that is read, with `noatime` of
//! none. The tree shows how many these are. The cost of one access time is measured on small trees. It predicts the
//! cost of the option on trees twice as large.

use crate::guest::{Counts, VariantGuests, Work, describe_verdict, judge_difference};
use crate::{AnyError, Arguments, ROUNDS, Workspace};
use fsarena_core::{schedule::mix, setting::SettingValue};
use fsarena_load::tree::{self, TreeEntry};

/// The mount options of the two variants.
const MOUNTS: [&str; 2] = ["noatime", "strictatime"];
/// The number of small trees by which the cost of one access time is measured.
const CALIBRATION_TREES: u32 = 2;
/// The tasks: the number and id of each, and whether it reads files, or directories only.
const TASKS: [(i64, &str, bool); 3] = [(10, "tar", true), (20, "copy-tree", true), (11, "rm-tree", false)];

/// The counts of both variants on one tree.
struct Round {
    counts: [Counts; 2],
    tree: Vec<TreeEntry>,
}

/// Prints for each filesystem and task the predicted and the measured cost of the option.
pub fn print_verdicts(arguments: &Arguments, workspace: Workspace) -> Result<(), AnyError> {
    println!(
        "| filesystem | task | access times | instructions each | predicted | measured | 95% interval | differs \
         | measured / predicted | predicted is in the interval |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    arguments.filesystems.iter().try_for_each(|fs| print_filesystem(fs, arguments.files, workspace))
}

fn print_filesystem(fs: &str, files: i64, workspace: Workspace) -> Result<(), AnyError> {
    // The seeds differ, so no tree is used twice.
    let small: Vec<Round> = (0..CALIBRATION_TREES)
        .map(|seed| run_round(fs, files / 2, 1000 + seed, workspace))
        .collect::<Result<_, _>>()?;
    let large: Vec<Round> = (0..ROUNDS).map(|seed| run_round(fs, files, seed, workspace)).collect::<Result<_, _>>()?;
    let [a, b] = [0, 1].map(|variant| large.iter().map(|round| round.counts[variant].clone()).collect::<Vec<_>>());
    for (_, task, reads_files) in TASKS {
        let cost_of_one = mean(small.iter().map(|round| round.cost(task) / round.access_times(reads_files)));
        let predicted =
            mean(large.iter().map(|round| cost_of_one * round.access_times(reads_files) / round.counts[0][task]));
        let measured_by_predicted =
            mean(large.iter().map(|round| round.cost(task) / (cost_of_one * round.access_times(reads_files))));
        let access_times = mean(large.iter().map(|round| round.access_times(reads_files)));
        let Some(verdict) = judge_difference(&a, &b, task) else { continue };
        println!(
            "| {fs} | {task} | {access_times:.0} | {cost_of_one:.0} | {:.3}% | {} | {measured_by_predicted:.3} | {} |",
            100.0 * predicted,
            describe_verdict(&verdict),
            if (verdict.interval.0..=verdict.interval.1).contains(&predicted) { "yes" } else { "no" },
        );
    }
    Ok(())
}

/// Runs both variants on the tree of one seed.
fn run_round(fs: &str, files: i64, seed: u32, workspace: Workspace) -> Result<Round, AnyError> {
    let numbers = TASKS.map(|(number, ..)| SettingValue::Int(number)).to_vec();
    let settings = vec![("tree_files", SettingValue::Int(files)), ("tasks", SettingValue::List(numbers))];
    let seed = u64::from(seed) + 1;
    let work = Work { fs, workload: "coreutils", settings, mounts: &MOUNTS, seed };
    let mut guests = VariantGuests::start(&work, &format!("{fs}-{files}-{seed}"), workspace)?;
    let counts = [guests.run(0, 0)?, guests.run(1, 0)?];
    guests.finish()?;
    Ok(Round { counts, tree: tree::generate_entries(mix(seed, 3), files as u64) })
}

impl Round {
    /// The instructions that the option costs in a task.
    fn cost(&self, task: &str) -> f64 {
        self.counts[1][task] - self.counts[0][task]
    }

    /// The number of access times that a task writes: one for each directory, and if it reads files, one for each file
    /// that is not empty.
    fn access_times(&self, reads_files: bool) -> f64 {
        let is_read = |entry: &&TreeEntry| entry.bytes.is_none_or(|bytes| reads_files && bytes > 0);
        self.tree.iter().filter(is_read).count() as f64
    }
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count() as f64
}
