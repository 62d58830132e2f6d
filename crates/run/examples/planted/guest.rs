//! Guests that run a workload and count its instructions.

use crate::{AnyError, ROUNDS, Workspace};
use fsarena_core::cell::{Cell, WorkloadPlan};
use fsarena_core::claim::{Claim, PairRelation, Relation};
use fsarena_core::event::{CellEvent, Outcome};
use fsarena_core::plan::{Backing, DevicePlan, Emulator, GuestPlan, IdlePlan, Plan, StopPlan};
use fsarena_core::setting::{SettingValue, Settings};
use fsarena_core::{factor, matrix, metric::reading, scale::Scale};
use fsarena_run::privsep::AgentConfig;
use fsarena_run::{context::RunContext, executor::Executor};
use fsarena_run::{guest::GuestExecutor, preflight};
use fsarena_stats::verdict::{Verdict, judge_pair};
use fsarena_sys::{kernel::SysRoot, user::User};
use std::collections::BTreeMap;

/// The kernel instructions of each task of a cell, by the id of the task.
pub type Counts = BTreeMap<String, f64>;

/// A workload on a filesystem, with the variants to compare.
pub struct Work<'a> {
    pub fs: &'a str,
    pub workload: &'a str,
    /// The settings that differ from the defaults of the workload.
    pub settings: Vec<(&'a str, SettingValue)>,
    /// The mount options of each variant.
    pub mounts: &'a [&'a str],
    pub seed: u64,
}

/// The guests of all variants of some work.
pub struct VariantGuests {
    plan: Plan,
    executor: GuestExecutor,
}

impl VariantGuests {
    /// Makes the images and inputs that the guests share, in the directory `name` of the workspace.
    pub fn start(work: &Work, name: &str, workspace: Workspace) -> Result<VariantGuests, AnyError> {
        let guest = GuestPlan::of(Emulator::Exact);
        let plan = plan_of_work(work, guest.clone())?;
        let kernel = SysRoot::host();
        let (variants, user) = (matrix::expand(&plan), User::of_process());
        let requirements = preflight::check(&kernel, &plan, &variants, workspace.dir, 1, &user)?;
        let run = RunContext {
            kernel,
            plan: plan.clone(),
            requirements,
            journal: workspace.journal.clone(),
            dir: workspace.dir.join(name),
            agent_config: AgentConfig::unconfined(),
            declared_metrics: Default::default(),
            shell: None,
            shared_machines_dir: None,
        };
        Ok(VariantGuests { plan, executor: GuestExecutor::start(guest, run, &mut |_| Ok(()))? })
    }

    /// Runs one round of a variant, and returns its counts.
    pub fn run(&mut self, variant: usize, round: u32) -> Result<Counts, AnyError> {
        let variants = matrix::expand(&self.plan);
        let cell: Cell = matrix::cells_of_round(&self.plan, &variants, &[variant], round).remove(0);
        let mut counts = Counts::new();
        let outcome = self.executor.run(&cell, &mut |event| {
            if let CellEvent::Sample(sample) = event
                && sample.task.in_totals
                && let Some(count) = sample.readings.get(reading::KERNEL_INSTRUCTIONS)
            {
                counts.insert(sample.task.id.to_string(), count);
            }
        })?;
        match outcome {
            Outcome::Done => Ok(counts),
            Outcome::Failed { why, .. } => Err(why.into()),
            Outcome::Interrupted => Err("interrupted".into()),
        }
    }

    /// Removes the images and inputs.
    pub fn finish(self) -> Result<(), AnyError> {
        Ok(Box::new(self.executor).finish(&mut |_| Ok(()))?)
    }
}

fn plan_of_work(work: &Work, guest: GuestPlan) -> Result<Plan, AnyError> {
    let workload = fsarena_load::workloads::find_workload(work.workload).ok_or("unknown workload")?;
    let mut settings = Settings::defaults(workload.def().settings);
    settings.0.insert("driver".into(), SettingValue::Text("native".into()));
    settings.0.extend(work.settings.iter().map(|(name, value)| (name.to_string(), value.clone())));
    let mounts = work.mounts.iter().map(|mount| mount.to_string()).collect();
    Ok(Plan {
        name: "planted".into(),
        title: "Planted work".into(),
        question: "Is it found?".into(),
        scale: Scale::Tiny,
        seed: work.seed,
        claims: vec![],
        stage: None,
        omitted: vec![],
        age: Default::default(),
        baseline: None,
        vary: Default::default(),
        factors: [(factor::FS.to_string(), vec![work.fs.to_string()]), (factor::MOUNT.to_string(), mounts)].into(),
        device: DevicePlan {
            backing: Backing::Guest(guest),
            size: None,
            direct_io: false,
            discard: false,
            precondition: false,
            other_fs: "ext4".into(),
            source_dir: None,
            source_device: None,
        },
        stop: StopPlan { rounds: ROUNDS, ..StopPlan::default() },
        idle: IdlePlan { timeout_s: 5.0, dirty: bytesize::ByteSize::mib(4), io_pressure_percent: 10.0 },
        variants: vec![],
        workloads: vec![WorkloadPlan { name: work.workload.into(), settings, grid_settings: vec![] }],
    })
}

/// Judges by the rounds whether a task executes different numbers of instructions in `b` and `a`. None with too few
/// rounds.
pub fn judge_difference(a: &[Counts], b: &[Counts], task: &str) -> Option<Verdict> {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| (b[task] / a[task]).ln()).collect();
    judge_pair(&claimed_pair(), &differences, None)
}

fn claimed_pair() -> PairRelation {
    match "task.kernel_instructions: b != a".parse::<Claim>().map(|claim| claim.relation) {
        Ok(Relation::Pair(pair)) => pair,
        other => unreachable!("this is a claim about a pair: {other:?}"),
    }
}

/// Whether the confidence interval excludes 0.
pub fn differs(verdict: &Verdict) -> bool {
    verdict.interval.0 > 0.0 || verdict.interval.1 < 0.0
}

/// Formats a verdict as three columns of a table: `effect | low to high | differs`.
pub fn describe_verdict(verdict: &Verdict) -> String {
    let percent = |fraction: f64| format!("{:.4}%", 100.0 * fraction);
    format!(
        "{} | {} to {} | {}",
        percent(verdict.effect),
        percent(verdict.interval.0),
        percent(verdict.interval.1),
        if differs(verdict) { "yes" } else { "no" },
    )
}
