//! The plan of a run: the variants to compare, the workloads that they run, and when to stop.
//!
//! [`file::PlanFile`] is a parsed plan file. [`resolve::resolve`] turns it into a [`Plan`], which is complete and checked.

mod claims;
pub mod error;
pub mod file;
pub mod limits;
mod overrides;
mod parsed;
pub mod resolve;
mod resolved;
pub mod shard;

pub use claims::{ALL_TASKS, GEOMEAN, TOTAL, compared_variants};
pub use parsed::ParsedPlan;
pub use resolved::{
    Accelerator, AgePlan, Backing, DevicePlan, Emulator, GuestPlan, IdlePlan, OPEN_ENDED_ROUNDS, Plan,
    RecalledBaseline, SourceDevice, Stage, StopPlan, StoredFigures,
};

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{average::Average, cell::WorkloadPlan, scale::Scale};
    use bytesize::ByteSize;

    /// A plan with these factors and one workload without settings.
    pub(crate) fn plan_with(factors: &[(&str, &[&str])]) -> Plan {
        let levels = |names: &[&str]| names.iter().map(|n| n.to_string()).collect();
        Plan {
            name: "test".into(),
            title: "Test".into(),
            question: "Which?".into(),
            scale: Scale::Tiny,
            seed: 1,
            claims: vec![],
            stage: None,
            omitted: vec![],
            age: Default::default(),
            baseline: None,
            vary: Default::default(),
            factors: factors.iter().map(|(id, names)| (id.to_string(), levels(names))).collect(),
            device: DevicePlan {
                backing: Backing::Loop { path: None },
                size: None,
                direct_io: true,
                discard: false,
                precondition: false,
                other_fs: "ext4".into(),
                source_dir: None,
                source_device: None,
            },
            stop: StopPlan { rounds: 8, ..StopPlan::default() },
            idle: IdlePlan { timeout_s: 1.0, dirty: ByteSize::mib(4), io_pressure_percent: 5.0 },
            variants: vec![],
            workloads: vec![WorkloadPlan { name: "tasks".into(), ..WorkloadPlan::default() }],
        }
    }

    #[test]
    fn a_plan_written_as_toml_reads_back_equal() {
        let mut plan = plan_with(&[("fs", &["ext4"])]);
        plan.workloads[0].settings.0.insert("driver".into(), crate::setting::SettingValue::Text("native".into()));
        plan.claims = vec!["untar.elapsed: \"a \\\" b\" < ext4 by 5%".parse().unwrap()];
        plan.stop = StopPlan {
            rounds: 400,
            warmup: 2,
            budget_s: Some(60.0),
            has_default_budget: true,
            has_gate: true,
            ends_when_decided: true,
            margin: Some(0.01),
            best_within: Some(0.02),
            best_metric: Some("bandwidth".into()),
            best_by: Average::Mean,
            shard: "3/8".parse().ok(),
        };
        plan.device.backing = Backing::Loop { path: Some("/with \n newline".into()) };
        // Sizes that are not a whole number of tenths of a unit.
        (plan.device.size, plan.idle.dirty) = (Some(ByteSize::mib(1500)), ByteSize(4_000_001));
        let text = toml::to_string(&plan).unwrap();
        assert_eq!(toml::from_str::<Plan>(&text).unwrap(), plan);
    }
}
