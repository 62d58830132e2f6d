//! `fsarena ab`: compares two variants, with the other flags of `fsarena run`.

use crate::commands::run;
use crate::commands::run::variants::{Levels, ab_plan, parse_variant};
use crate::failure::{Outcome, usage};
use fsarena_core::factor;

/// Compare two settings, A and B, on one study
///
/// Write a variant as a filesystem and `factor=level,…`: `--a ext4 --b ext4,mkfs=^has_journal`. A level extends to the next
/// `factor=`, so `mount=noatime,nodiratime` is one level; quote a level that contains `factor=` itself. The report
/// begins with B against A: for each metric the difference, its confidence interval, the verdict, the spread within
/// rounds, and the number of rounds that the metric needs. A and B may be equal: that measures the noise of the machine.
/// Levels that both have can stand in flags of their own: `--a kernel=debian:6.1 --b kernel=debian:6.12 --fs ext4`.
///
/// Without --claim, the claim is that B is equivalent to A within --margin, over all tasks and for each metric of the
/// workloads (`fsarena list workloads`). The exit code is 0 if it holds, 3 if it is refuted, 4 if it is inconclusive.
// Both structures are called `Args`, and a group has the name of its structure.
#[derive(Debug, clap::Args)]
#[group(id = "sides")]
#[command(mut_args(hide_refused))]
pub struct Args {
    /// Variant A: `factor=level,…` (list factors: `fsarena list factors`)
    #[arg(long, value_name = "VARIANT", value_parser = parse_variant, help_heading = "Variants")]
    a: Levels,
    /// Variant B
    #[arg(long, value_name = "VARIANT", value_parser = parse_variant, help_heading = "Variants")]
    b: Levels,
    #[command(flatten)]
    run: run::Args,
}

/// The flags of `run` that name levels of variants. Both sides have those that neither names itself.
pub const OF_SIDES: [&str; 7] = ["variant", "fs", "options", "mkfs", "mount", "factor", "kernel"];

/// Hides the flags of `run` that this command refuses from its help.
fn hide_refused(arg: clap::Arg) -> clap::Arg {
    let id = arg.get_id().as_str();
    let refused = ["variant", "vary", "resume", "after"].contains(&id);
    if refused { arg.hide(true) } else { arg }
}

/// Runs both variants, round by round.
pub fn run(args: Args) -> Outcome {
    let Args { a, b, run } = args;
    run.given.refuse(&OF_SIDES[..1], "there are two variants here: --a VARIANT --b VARIANT")?;
    run.given.refuse(&["vary"], "there are two variants here; compare more by fsarena run --vary")?;
    if run.resume.is_some() {
        return usage("a run of two sides is resumed as any other: fsarena run --resume RUN");
    }
    if run.after.is_some() {
        return usage("two sides are one run, without stages");
    }
    run.refuse_ignored(a.contains_key(factor::DIR))?;
    let sides = [run::absolute_levels(a)?, run::absolute_levels(b)?];
    run::run_plan(run, |run| ab_plan(&sides, run::read_plan(run)?, run.overrides()?))
}
