//! Plans that measure a part of a run's block-size × threads matrix again.

use crate::cell::{Variant, WorkloadPlan};
use crate::{matrix::expand, plan::Plan, plan::StopPlan, schedule::mix, setting::SettingValue};
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

impl BlockThreadsCell {
    /// Whether it is a cell of this variant, by whatever tool.
    fn is_of_variant(&self, name: &str) -> bool {
        self.variant.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(" by "))
    }
}

/// The number that [`mix`] combines with the seed of a run to get the seed of a plan that measures some of its cells again.
const RERUN_STREAM: u64 = 0xF2E5;

/// A plan that measures these cells of another plan's matrix again, in new rounds.
///
/// The cells are rarely all combinations of a few settings. So the new plan has one workload for each workload of `plan`, each
/// mode and each block size. Its numbers of threads are those of all cells with this mode and block size. All variants of the
/// cells run all these workloads, so each variant is also measured in cells that are listed only for other variants.
pub fn plan_of_cells(plan: &Plan, cells: &[BlockThreadsCell], rounds: u32) -> Plan {
    let has_cell = |variant: &Variant| cells.iter().any(|cell| cell.is_of_variant(&variant.name));
    let mut threads_of: BTreeMap<(&str, u64), BTreeSet<u32>> = BTreeMap::new();
    for cell in cells {
        threads_of.entry((&cell.mode, cell.block_size)).or_default().insert(cell.threads);
    }
    let mut rerun = plan.clone();
    // `fsarena analyse --confirm` passes the cells that decide about its findings.
    rerun.title = format!("{}: the worst cells again", plan.title);
    rerun.variants = expand(plan).into_iter().filter(has_cell).collect();
    // With `vary`, a variant is compared with its plain variant: the first one before it that differs in exactly one factor.
    // If the cells lack the plain variant, a variant with another level of that factor would take its place.
    rerun.vary.clear();
    rerun.workloads.clear();
    for workload in &plan.workloads {
        for ((mode, size), threads) in &threads_of {
            rerun.workloads.push(workload_with_mode(workload, mode, *size, threads));
        }
    }
    // Claims, a budget or the search for the best would end the run earlier, or leave cells out.
    rerun.claims.clear();
    rerun.stop = StopPlan { rounds, warmup: plan.stop.warmup_here(), margin: plan.stop.margin, ..StopPlan::default() };
    // TOML's whole numbers end at 2^63 - 1.
    rerun.seed = mix(plan.seed, RERUN_STREAM) & (u64::MAX >> 1);
    rerun
}

/// The workload with one mode, one block size, and these numbers of threads.
pub fn workload_with_mode(
    workload: &WorkloadPlan,
    mode: &str,
    block_size: u64,
    threads: &BTreeSet<u32>,
) -> WorkloadPlan {
    let mut workload = workload.clone();
    let threads = threads.iter().map(|threads| SettingValue::Int(i64::from(*threads))).collect();
    let settings = [
        ("modes", SettingValue::List(vec![SettingValue::Text(mode.into())])),
        ("bs", SettingValue::List(vec![SettingValue::Int(block_size as i64)])),
        ("threads", SettingValue::List(threads)),
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
    fn cells_are_measured_again_in_all_rounds() {
        let mut plan = plan_with(&[("fs", &["ext4", "xfs"])]);
        plan.claims = vec!["rndwr.iops: ext4 > xfs".parse().unwrap()];
        plan.stop = StopPlan {
            warmup: 4,
            ends_when_decided: true,
            has_gate: true,
            best_within: Some(0.01),
            budget_s: Some(60.0),
            shard: "1/2".parse().ok(),
            margin: Some(0.02),
            ..plan.stop
        };
        let cell = BlockThreadsCell { variant: "ext4".into(), mode: "rndwr".into(), block_size: 4096, threads: 1 };
        let rerun = plan_of_cells(&plan, &[cell], 8);
        // Shard 1 of 2 runs 2 of the 4 warm-up rounds.
        assert_eq!(rerun.stop, StopPlan { rounds: 8, warmup: 2, margin: Some(0.02), ..StopPlan::default() });
        assert!(rerun.claims.is_empty());
    }

    #[test]
    fn levels_of_cells_measured_again_are_not_compared_with_each_other() {
        let mut plan = plan_with(&[("fs", &["ext4"])]);
        plan.vary.insert("scheduler".into(), vec!["none".into(), "bfq".into()]);
        let cell = |variant: &str, threads| {
            let (variant, mode) = (variant.into(), "rndwr".into());
            BlockThreadsCell { variant, mode, block_size: 4096, threads }
        };
        let rerun = plan_of_cells(&plan, &[cell("ext4/none", 1), cell("ext4/bfq", 8)], 8);
        let variants = expand(&rerun);
        assert_eq!(variants.iter().map(|variant| variant.name.as_str()).collect::<Vec<_>>(), ["ext4/none", "ext4/bfq"]);
        assert_eq!(plain_variants(&rerun, &variants), [None, None]);
        let threads = SettingValue::List(vec![SettingValue::Int(1), SettingValue::Int(8)]);
        assert_eq!(rerun.workloads[0].settings.0["threads"], threads);
    }
}
