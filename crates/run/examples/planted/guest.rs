//! Guests that do some work and count it.

use crate::{Desk, Failed, ROUNDS};
use fsarena_core::cell::{Cell, WorkloadPlan};
use fsarena_core::claim::{Claim, Pair, Relation};
use fsarena_core::event::{CellEvent, Outcome};
use fsarena_core::plan::{Backing, DevicePlan, Emulator, GuestPlan, IdlePlan, Plan, StopPlan};
use fsarena_core::setting::{Settings, Value};
use fsarena_core::{factor, matrix, metric::reading, scale::Scale};
use fsarena_run::privsep::AgentConfig;
use fsarena_run::{context::RunContext, executor::Executor};
use fsarena_run::{guest::GuestExecutor, preflight};
use fsarena_stats::verdict::{Verdict, judge};
use fsarena_sys::{kernel::SysRoot, user::User};
use std::collections::BTreeMap;

/// Kernel instructions of each task of a cell.
pub type Counts = BTreeMap<String, f64>;

/// The workload.
pub struct Work<'a> {
    pub fs: &'a str,
    pub workload: &'a str,
    /// What differs from the workload's defaults.
    pub settings: Vec<(&'a str, Value)>,
    /// Mount options, one variant each.
    pub mounts: &'a [&'a str],
    pub seed: u64,
}

/// Guests for all variants of some work.
pub struct Crew {
    plan: Plan,
    guests: GuestExecutor,
}

impl Crew {
    /// Makes what they share.
    pub fn start(work: &Work, name: &str, desk: Desk) -> Result<Crew, Failed> {
        let guest = GuestPlan::of(Emulator::Exact);
        let plan = plan(work, guest.clone())?;
        let kernel = SysRoot::host();
        let (variants, user) = (matrix::expand(&plan), User::of_process());
        let requirements = preflight::check(&kernel, &plan, &variants, desk.dir, 1, &user)?;
        let run = RunContext {
            kernel,
            plan: plan.clone(),
            requirements,
            journal: desk.journal.clone(),
            dir: desk.dir.join(name),
            agent_config: AgentConfig::unconfined(),
            declared: Default::default(),
            shell: None,
            machines_dir: None,
        };
        Ok(Crew { plan, guests: GuestExecutor::start(guest, run, &mut |_| Ok(()))? })
    }

    /// The counts of one round of a variant.
    pub fn run(&mut self, variant: usize, round: u32) -> Result<Counts, Failed> {
        let variants = matrix::expand(&self.plan);
        let cell: Cell = matrix::cells(&self.plan, &variants, &[variant], round).remove(0);
        let mut counts = Counts::new();
        let ended = self.guests.run(&cell, &mut |event| {
            if let CellEvent::Sample(sample) = event
                && sample.task.in_totals
                && let Some(count) = sample.readings.get(reading::KERNEL_INSTRUCTIONS)
            {
                counts.insert(sample.task.id.to_string(), count);
            }
        })?;
        match ended {
            Outcome::Done => Ok(counts),
            Outcome::Failed { why, .. } => Err(why.into()),
            Outcome::Interrupted => Err("interrupted".into()),
        }
    }

    /// Removes what they shared.
    pub fn end(self) -> Result<(), Failed> {
        Ok(Box::new(self.guests).finish(&mut |_| Ok(()))?)
    }
}

fn plan(work: &Work, guest: GuestPlan) -> Result<Plan, Failed> {
    let workload = fsarena_load::workloads::find_workload(work.workload).ok_or("unknown workload")?;
    let mut settings = Settings::defaults(workload.def().settings);
    settings.0.insert("driver".into(), Value::Text("native".into()));
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
            other_dir: None,
            other_device: None,
        },
        stop: StopPlan { rounds: ROUNDS, ..StopPlan::default() },
        idle: IdlePlan { timeout_s: 5.0, dirty: bytesize::ByteSize::mib(4), io_pressure_percent: 10.0 },
        variants: vec![],
        workloads: vec![WorkloadPlan { name: work.workload.into(), settings, grid_settings: vec![] }],
    })
}

/// What the rounds say of "b differs from a".
pub fn difference(a: &[Counts], b: &[Counts], task: &str) -> Option<Verdict> {
    let d: Vec<f64> = a.iter().zip(b).map(|(a, b)| (b[task] / a[task]).ln()).collect();
    judge(&claim(), &d, None)
}

fn claim() -> Pair {
    match "task.kernel_instructions: b != a".parse::<Claim>().map(|claim| claim.relation) {
        Ok(Relation::Pair(pair)) => pair,
        other => unreachable!("this is a claim about a pair: {other:?}"),
    }
}

/// Whether the interval is all on one side.
pub fn differs(verdict: &Verdict) -> bool {
    verdict.interval.0 > 0.0 || verdict.interval.1 < 0.0
}

/// `effect | low to high | differs`, as columns of a table.
pub fn columns(verdict: &Verdict) -> String {
    let percent = |x: f64| format!("{:.4}%", 100.0 * x);
    format!(
        "{} | {} to {} | {}",
        percent(verdict.effect),
        percent(verdict.interval.0),
        percent(verdict.interval.1),
        if differs(verdict) { "yes" } else { "no" },
    )
}
