//! Plans that measure a part of a run's block-size × threads matrix again.

use crate::cell::{Variant, WorkloadPlan};
use crate::{matrix::expand, plan::Plan, schedule::mix, setting::Value};
use std::collections::{BTreeMap, BTreeSet};

/// A cell of the block-size × threads matrix of one variant and mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockThreadsCell {
    /// The name of the variant, with the tool behind it if several tools measured the run: `ext4 by fio`.
    pub variant: String,
    /// The mode of the load: `rndwr`.
    pub mode: String,
    /// Bytes per request.
    pub block_size: u64,
    /// The number of threads.
    pub threads: u32,
}

/// The number that [`mix`] combines with the seed of a run to get the seed of a plan that repeats some of its cells.
const REPEAT: u64 = 0xF2E5;

/// A plan that measures these cells of another plan's matrix again, in new rounds. It has one workload for each mode
/// and block size, with the numbers of threads that any of the cells has there, because the cells are rarely all
/// combinations of a few settings. All variants of the cells run all these workloads, so each is also measured in the
/// cells of the others.
pub fn plan_of_cells(plan: &Plan, cells: &[BlockThreadsCell], rounds: u32) -> Plan {
    let is_by_tool = |cell: &str, name: &str| cell.strip_prefix(name).is_some_and(|rest| rest.starts_with(" by "));
    let is_measured = |variant: &Variant| {
        cells.iter().any(|cell| cell.variant == variant.name || is_by_tool(&cell.variant, &variant.name))
    };
    let mut threads_of: BTreeMap<(&str, u64), BTreeSet<u32>> = BTreeMap::new();
    for cell in cells {
        threads_of.entry((&cell.mode, cell.block_size)).or_default().insert(cell.threads);
    }
    let mut repeat = plan.clone();
    repeat.title = format!("{}: the worst cells again", plan.title);
    repeat.variants = expand(plan).into_iter().filter(is_measured).collect();
    // Without its plain variant, a variant with one level of `vary` would be compared with another such variant.
    repeat.vary.clear();
    repeat.workloads.clear();
    for workload in &plan.workloads {
        for ((mode, size), threads) in &threads_of {
            repeat.workloads.push(with_mode(workload, mode, *size, threads));
        }
    }
    repeat.stop.rounds = rounds;
    repeat.stop.budget_s = None;
    // TOML's whole numbers end at 2^63 - 1.
    repeat.seed = mix(plan.seed, REPEAT) & (u64::MAX >> 1);
    repeat
}

/// The workload with one mode, one block size, and these numbers of threads.
pub fn with_mode(workload: &WorkloadPlan, mode: &str, block_size: u64, threads: &BTreeSet<u32>) -> WorkloadPlan {
    let mut workload = workload.clone();
    let threads = threads.iter().map(|threads| Value::Int(i64::from(*threads))).collect();
    let settings = [
        ("modes", Value::List(vec![Value::Text(mode.into())])),
        ("bs", Value::List(vec![Value::Int(block_size as i64)])),
        ("threads", Value::List(threads)),
    ];
    workload.settings.0.extend(settings.map(|(id, value)| (id.to_string(), value)));
    workload
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::plain_variants;
    use crate::plan::tests::plan_with;

    #[test]
    fn levels_of_repeated_cells_are_not_compared_with_each_other() {
        let mut plan = plan_with(&[("fs", &["ext4"])]);
        plan.vary.insert("scheduler".into(), vec!["none".into(), "bfq".into()]);
        let cell = |variant: &str, threads| {
            let (variant, mode) = (variant.into(), "rndwr".into());
            BlockThreadsCell { variant, mode, block_size: 4096, threads }
        };
        let repeat = plan_of_cells(&plan, &[cell("ext4/none", 1), cell("ext4/bfq", 8)], 8);
        let variants = expand(&repeat);
        assert_eq!(variants.iter().map(|variant| variant.name.as_str()).collect::<Vec<_>>(), ["ext4/none", "ext4/bfq"]);
        assert_eq!(plain_variants(&repeat, &variants), [None, None]);
        let threads = Value::List(vec![Value::Int(1), Value::Int(8)]);
        assert_eq!(repeat.workloads[0].settings.0["threads"], threads);
    }
}
