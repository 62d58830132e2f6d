//! `fsarena ab`: compares two variants, with the other flags of `fsarena run`.

pub mod max_slowdown;

use crate::commands::run::variants::{Levels, NAME_KEY, ab_plan, parse_variant};
use crate::commands::{handle_signals, run};
use crate::failure::{CommandResult, Failure, usage_error};
use crate::flags::hide_refused;
use fsarena_core::{factor, matrix};
use fsarena_run::{Destination, RunRequest, baseline::Baseline};
use max_slowdown::{MaxSlowdown, gate_claims, parse_max_slowdown};
use std::path::Path;

/// Compare two settings, A and B, on one study
///
/// Write a variant as a filesystem and `factor=level,…`: `--a ext4 --b ext4,mkfs=^has_journal`. A level extends to the next
/// `factor=`, so `mount=noatime,nodiratime` is one level; quote a level that contains `factor=` itself. The report
/// begins with B against A: for each metric the difference, its confidence interval, the verdict, the spread within
/// rounds, and the number of rounds that the metric needs. A and B may be equal: that measures the noise of the machine.
/// Levels that both have can stand in flags of their own: `--a kernel=debian:6.1 --b kernel=debian:6.12 --fs ext4`.
///
/// With --max-slowdown, A is the baseline and B the candidate of a gate: the exit code is 0 if B is within every margin, 3 if
/// it is beyond one, 4 if the run cannot tell. Claims may write `baseline` and `candidate` for A and B.
///
/// Without --max-slowdown and --claim, the claim is that B is equivalent to A within --margin, over all tasks and for each metric of the
/// workloads (`fsarena list workloads`). The exit code is 0 if it holds, 3 if it is refuted, 4 if it is inconclusive.
// clap names the group of a structure after the structure, and `run::Args` is called `Args` too.
#[derive(Debug, clap::Args)]
#[group(id = "sides")]
#[command(mut_args(|arg| hide_refused(arg, REFUSED_FLAGS)))]
pub struct Args {
    /// Variant A: `factor=level,…` (list factors: `fsarena list factors`)
    #[arg(long, value_name = "VARIANT", value_parser = parse_variant, required_unless_present = "baseline", help_heading = "Variants")]
    a: Option<Levels>,
    /// Variant B
    #[arg(long, value_name = "VARIANT", value_parser = parse_variant, help_heading = "Variants")]
    b: Levels,
    /// Variant A, the work and the place of a saved baseline, to measure it again beside B (save one: --save-baseline)
    ///
    /// The run measures the variant of the baseline again, in the same rounds as B: stored times are shown and never judged.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["a", "plan", "cmd", "command", "workload"], help_heading = "Variants")]
    baseline: Option<String>,
    /// Largest accepted slowdown of B, such as `0.5%`, or of one task: `commit.latency_p99=5%`; repeatable
    ///
    /// Limits how much worse than A the total of the main metric may be, or a quantity: a task and a metric, as in claims
    /// (`total` and `geomean` are all tasks). The run ends as soon as the gate has passed or failed, each with 95% confidence
    /// for all its limits together.
    #[arg(long, value_name = "[TASK.METRIC=]PERCENT", value_parser = parse_max_slowdown, help_heading = "Claims")]
    max_slowdown: Vec<MaxSlowdown>,
    #[command(flatten)]
    run: run::Args,
}

/// The flags of `run` that this command refuses.
pub const REFUSED_FLAGS: &str = "variant vary resume after";

/// Runs both variants, round by round.
pub fn run(args: Args) -> CommandResult {
    let Args { a, b, baseline, max_slowdown, mut run } = args;
    run.saves_last_variant = true;
    run.explicit_flags.refuse(["variant"], "there are two variants here: --a VARIANT --b VARIANT")?;
    run.explicit_flags.refuse(["vary"], "there are two variants here; compare more by fsarena run --vary")?;
    if run.resume.is_some() {
        return usage_error("--resume: resume a run of `fsarena ab` like any other: fsarena run --resume RUN");
    }
    if run.after.is_some() {
        return usage_error("--after: a run of `fsarena ab` has no stages");
    }
    let runs_dir = &run.runs.dir;
    let baseline = baseline.map(|name| Baseline::open(runs_dir, &name)).transpose()?;
    let a = match &baseline {
        Some(baseline) => baseline_levels(baseline, runs_dir)?,
        None => run::absolute_variant(a.unwrap_or_default())?,
    };
    run.refuse_ignored(a.contains_key(factor::DIR))?;
    let variants = [a, run::absolute_variant(b)?];
    handle_signals()?;
    run.check_outputs()?;
    let main_metric = run.metric.first().map(String::as_str);
    let mut overrides = run.overrides()?;
    let parsed_plan = match &baseline {
        Some(baseline) => baseline.parse_plan()?,
        None => run::read_plan(&run)?,
    };
    if baseline.is_some() && run.on.is_empty() && run.erase.is_none() {
        // The plan of the baseline has the backing.
        overrides.backing = None;
    }
    let mut plan = ab_plan(&variants, parsed_plan, overrides, |plan| gate_claims(&max_slowdown, main_metric, plan))?;
    if let Some(baseline) = &baseline {
        let a = matrix::expand(&plan).swap_remove(0);
        plan.baseline = Some(baseline.recall(&plan, &a)?);
    }
    let request = RunRequest::new(plan, Destination::NewRun(runs_dir.clone()));
    Ok(run::execute_plan(&run, request)?.0)
}

/// The levels of a baseline's variant, with a name from the variant and the baseline: `ext4@main`. A directory has no such
/// name.
fn baseline_levels(baseline: &Baseline, runs_dir: &Path) -> Result<Levels, Failure> {
    let mut levels = baseline.levels(runs_dir)?;
    if !levels.contains_key(factor::DIR) {
        levels.insert(NAME_KEY.into(), format!("{}@{}", baseline.variant.name, baseline.name));
    }
    Ok(levels)
}
