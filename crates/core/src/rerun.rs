//! Plans that measure a part of a run's block-size × threads matrix again.

use crate::cell::{Variant, WorkloadPlan};
use crate::matrix::{expand, workload_of_variant};
use crate::setting::{SettingValue, Settings};
use crate::{plan::Plan, plan::StopPlan, schedule::mix};
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
    /// Whether this variant measures the cell with this workload: the workload, with the settings that the variant
    /// overrides, has the mode, the block size and the number of threads of the cell.
    pub fn belongs_to(&self, variant: &Variant, workload: &WorkloadPlan) -> bool {
        let settings = workload_of_variant(variant, workload).settings;
        (self.variant == variant.name || self.variant == format!("{} by {}", variant.name, workload.name))
            && has_value(&settings, "modes", SettingValue::Text(self.mode.clone()))
            && has_value(&settings, "bs", SettingValue::Int(self.block_size as i64))
            && has_value(&settings, "threads", SettingValue::Int(i64::from(self.threads)))
    }
}

/// Whether a setting is this value, or a list that contains it.
fn has_value(settings: &Settings, id: &str, value: SettingValue) -> bool {
    match settings.0.get(id) {
        Some(SettingValue::List(values)) => values.contains(&value),
        single => single == Some(&value),
    }
}

/// The number that [`mix`] combines with the seed of a run to make the seed of its rerun.
const RERUN_SALT: u64 = 0xF2E5;

/// A plan that measures these cells of another plan's matrix again, in new rounds.
///
/// The cells are rarely all combinations of a few settings. So the new plan has a separate workload for each workload
/// of `plan`, mode and block size with a cell. Such a workload has the numbers of threads of all cells with this mode
/// and block size. A plan has the same workloads for all variants, so a variant also measures cells that are listed
/// only for others.
pub fn plan_of_cells(plan: &Plan, cells: &[BlockThreadsCell], rounds: u32) -> Plan {
    let mut rerun = plan.clone();
    // `fsarena analyse --confirm` passes the worst cells of its findings, and the cells that it compares them with.
    rerun.title = format!("{}: the worst cells again", plan.title);
    rerun.variants = expand(plan);
    rerun.workloads.clear();
    for workload in &plan.workloads {
        let mut threads_of: BTreeMap<(&str, u64), BTreeSet<u32>> = BTreeMap::new();
        for cell in cells {
            if rerun.variants.iter().any(|variant| cell.belongs_to(variant, workload)) {
                threads_of.entry((&cell.mode, cell.block_size)).or_default().insert(cell.threads);
            }
        }
        for ((mode, size), threads) in &threads_of {
            rerun.workloads.push(workload_with_mode(workload, mode, *size, threads));
        }
    }
    let has_cell = |variant: &Variant, workload| cells.iter().any(|cell| cell.belongs_to(variant, workload));
    rerun.variants.retain(|variant| plan.workloads.iter().any(|workload| has_cell(variant, workload)));
    // `vary` compares each variant with its plain variant, the first one before it that differs in exactly one factor.
    // If the cells lack the plain variant, the first one could be a variant with another level of the factor.
    rerun.vary.clear();
    // Claims or a budget could end the run early, and a shard or a search for the best variant could leave out cells.
    rerun.claims.clear();
    rerun.stop = StopPlan { rounds, warmup: plan.stop.warmup_here(), margin: plan.stop.margin, ..StopPlan::default() };
    // TOML's whole numbers end at 2^63 - 1.
    rerun.seed = mix(plan.seed, RERUN_SALT) & (u64::MAX >> 1);
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

    /// A workload that has the tasks of these modes with 4 KiB, and 1 or 8 threads.
    fn workload_with_modes(name: &str, modes: &[&str]) -> WorkloadPlan {
        let modes = modes.iter().map(|mode| SettingValue::Text(mode.to_string())).collect();
        let settings = [
            ("modes", modes),
            ("bs", vec![SettingValue::Int(4096)]),
            ("threads", vec![SettingValue::Int(1), SettingValue::Int(8)]),
        ];
        let settings = settings.map(|(id, values)| (id.to_string(), SettingValue::List(values)));
        WorkloadPlan { name: name.into(), settings: Settings(settings.into()), ..WorkloadPlan::default() }
    }

    fn cell(variant: &str, mode: &str, threads: u32) -> BlockThreadsCell {
        BlockThreadsCell { variant: variant.into(), mode: mode.into(), block_size: 4096, threads }
    }

    #[test]
    fn each_workload_has_only_the_modes_of_its_own_cells() {
        let mut plan = plan_with(&[("fs", &["ext4", "xfs"])]);
        plan.workloads = vec![
            WorkloadPlan { name: "tree".into(), ..WorkloadPlan::default() },
            workload_with_modes("fileio", &["seqrd", "rndrd"]),
            workload_with_modes("fio", &["rndwr"]),
        ];
        let cells = [cell("ext4 by fileio", "rndrd", 1), cell("xfs by fio", "rndwr", 8)];
        let rerun = plan_of_cells(&plan, &cells, 8);
        let modes = |workload: &WorkloadPlan| (workload.name.clone(), workload.settings.words("modes").join(","));
        assert_eq!(
            rerun.workloads.iter().map(modes).collect::<Vec<_>>(),
            [("fileio".into(), "rndrd".into()), ("fio".into(), "rndwr".into())]
        );
        assert_eq!(rerun.variants.len(), 2);
    }

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
        let rerun = plan_of_cells(&plan, &[cell("ext4", "rndwr", 1)], 8);
        // Shard 1 of 2 runs 2 of the 4 warm-up rounds.
        assert_eq!(rerun.stop, StopPlan { rounds: 8, warmup: 2, margin: Some(0.02), ..StopPlan::default() });
        assert!(rerun.claims.is_empty());
    }

    #[test]
    fn levels_of_cells_measured_again_are_not_compared_with_each_other() {
        let mut plan = plan_with(&[("fs", &["ext4"])]);
        plan.vary.insert("scheduler".into(), vec!["none".into(), "bfq".into()]);
        plan.workloads = vec![workload_with_modes("fileio", &["rndwr"])];
        let rerun = plan_of_cells(&plan, &[cell("ext4/none", "rndwr", 1), cell("ext4/bfq", "rndwr", 8)], 8);
        let variants = expand(&rerun);
        assert_eq!(variants.iter().map(|variant| variant.name.as_str()).collect::<Vec<_>>(), ["ext4/none", "ext4/bfq"]);
        assert_eq!(plain_variants(&rerun, &variants), [None, None]);
        let threads = SettingValue::List(vec![SettingValue::Int(1), SettingValue::Int(8)]);
        assert_eq!(rerun.workloads[0].settings.0["threads"], threads);
    }
}
