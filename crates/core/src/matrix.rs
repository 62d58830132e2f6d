//! From a plan to its arms and cells.

use crate::cell::{Arm, Cell, WorkloadPlan};
use crate::factor::{FACTORS, clients};
use crate::plan::Plan;
use crate::schedule::mix;

/// The arms of a plan: those it names, or every combination of its factors' levels.
pub fn expand(plan: &Plan) -> Vec<Arm> {
    if !plan.arms.is_empty() {
        return plan.arms.clone();
    }
    let mut arms = vec![Arm { name: String::new(), levels: Default::default() }];
    for factor in FACTORS {
        let Some(levels) = plan.factors.get(factor.id) else { continue };
        arms = arms
            .iter()
            .flat_map(|arm| levels.iter().map(|level| with_level(arm, factor.id, level, levels.len() > 1)))
            .collect();
    }
    for arm in &mut arms {
        if arm.name.is_empty() {
            // Nothing varies: the arm is named for its filesystem or directory.
            let dir = arm.level(crate::factor::DIR).to_string();
            arm.name = if dir.is_empty() { arm.level(crate::factor::FS).to_string() } else { dir };
        }
    }
    arms
}

fn with_level(arm: &Arm, factor: &str, level: &str, varies: bool) -> Arm {
    let mut arm = arm.clone();
    arm.levels.insert(factor.to_string(), level.to_string());
    if varies {
        let shown = if level.is_empty() { "plain" } else { level };
        arm.name = if arm.name.is_empty() { shown.to_string() } else { format!("{}/{shown}", arm.name) };
    }
    arm
}

/// The cells of one block, in the order in which they will run: every live arm once, in a uniformly
/// random order, each with every workload of the plan.
///
/// All arms of a block share a seed, so they do the same work on the same payload.
pub fn cells(plan: &Plan, arms: &[Arm], live: &[usize], block: u32) -> Vec<Cell> {
    let order = crate::schedule::block(plan.seed, block, live.len());
    let mut cells = Vec::with_capacity(live.len() * plan.workloads.len());
    for arm in order.into_iter().map(|i| live[i]) {
        for workload in &plan.workloads {
            cells.push(Cell {
                block,
                position: cells.len() as u32,
                arm: arms[arm].clone(),
                workload: work_of(&arms[arm], workload),
                scale: plan.scale,
                seed: mix(plan.seed ^ 0x5eed, u64::from(block)),
            });
        }
    }
    cells
}

/// What an arm does of a workload: with as many clients as the arm has, where it says so.
pub fn work_of(arm: &Arm, workload: &WorkloadPlan) -> WorkloadPlan {
    let mut workload = workload.clone();
    if let Ok(Some(clients)) = clients::parse(arm.level(crate::factor::CLIENTS)) {
        clients::set(&mut workload.settings, clients);
    }
    workload
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan_with;

    #[test]
    fn one_varying_factor_names_the_arms() {
        let arms = expand(&plan_with(&[("fs", &["ext4", "xfs"]), ("options", &["default"])]));
        assert_eq!(arms.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["ext4", "xfs"]);
        assert_eq!(arms[0].level("options"), "default");
    }

    #[test]
    fn two_varying_factors_give_every_combination() {
        let arms = expand(&plan_with(&[("fs", &["ext4", "xfs"]), ("mount", &["", "noatime"])]));
        let names: Vec<_> = arms.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, ["ext4/plain", "ext4/noatime", "xfs/plain", "xfs/noatime"]);
    }

    #[test]
    fn a_block_runs_only_live_arms_each_once() {
        let plan = plan_with(&[("fs", &["ext2", "ext3", "ext4", "xfs"])]);
        let arms = expand(&plan);
        let mut names: Vec<_> = cells(&plan, &arms, &[0, 2, 3], 5).into_iter().map(|c| c.arm.name).collect();
        names.sort();
        assert_eq!(names, ["ext2", "ext4", "xfs"]);
    }

    #[test]
    fn cells_differ_by_block_and_arm_but_not_by_position() {
        let plan = plan_with(&[("fs", &["ext2", "ext3"])]);
        let arms = expand(&plan);
        let first = cells(&plan, &arms, &[0, 1], 0);
        let mut moved = first[0].clone();
        moved.position = 9;
        assert_eq!(moved.id(), first[0].id());
        assert_ne!(first[0].id(), first[1].id());
        assert_ne!(first[0].id(), cells(&plan, &arms, &[0, 1], 1)[0].id());
        assert_eq!(first[0].seed, first[1].seed);
    }
}
