//! Resolves plans: collects the names that a plan may use, from the registries of fsarena and from this machine.

use crate::{error::Result, preflight::guests, stopping::rounds_for_an_answer, work};
use fsarena_core::plan::resolve::{Overrides, Vocabulary};
use fsarena_core::plan::{Backing, GuestPlan, Plan, Written};
use fsarena_core::{factor, matrix, metric::METRICS};
use fsarena_fs::{available::survey, def::FsDef, filesystems::FILESYSTEMS};
use fsarena_load::workloads::WORKLOADS;
use fsarena_sys::kernel::SysRoot;

pub use crate::bench::readings;

/// Resolves a parsed plan on this machine, with the overrides of the command line. The plan of a stored run keeps its
/// backing unless the command line names another.
///
/// # Errors
/// The first mistake, with its line and column in the text, or with its flag.
pub fn resolve(written: &Written, over: &Overrides) -> Result<Plan> {
    let mut over = over.clone();
    over.keep_backing_of(written)?;
    Ok(fsarena_core::plan::resolve::resolve(written, &over, &collect(&SysRoot::host(), &over)?)?)
}

/// Collects the names that a plan may use: every filesystem, option set, workload, factor and metric. `available` has the
/// filesystems that this machine can make and mount; for guests, those that their kernels can mount. Read-only filesystems
/// and those in memory are not among them; a plan uses these only if it names them.
///
/// # Errors
/// The list of filesystems that the kernel supports cannot be read.
pub fn collect(kernel: &SysRoot, over: &Overrides) -> Result<Vocabulary, fsarena_sys::Error> {
    let available = match &over.backing {
        Some(Backing::Guest(guest)) => guest_filesystems(guest, over),
        _ => {
            let usable = survey(kernel)?.into_iter().filter(|found| found.usable() && found.def.is_general());
            usable.map(|found| found.def.id).collect()
        }
    };
    let metrics = METRICS.iter().map(|metric| metric.spec.id.to_string());
    let sets = |def: &FsDef| def.options.iter().map(|set| set.id.to_string()).collect();
    let filesystems = FILESYSTEMS.iter().map(|def| (def.id.to_string(), sets(def)));
    Ok(Vocabulary {
        filesystems: filesystems.chain([(factor::RAW.into(), vec!["default".into()])]).collect(),
        available: available.into_iter().map(String::from).collect(),
        factors: crate::axes::factors(),
        workloads: WORKLOADS.iter().map(|workload| workload.def()).collect(),
        metrics: metrics.chain(readings().map(|reading| reading.id.to_string())).collect(),
        outline: work::outline,
        rounds: |plan| rounds_for_an_answer(&matrix::expand(plan), plan.error_split()),
    })
}

/// The filesystems that all guest kernels support. If a kernel cannot be found, all filesystems; the preflight then reports
/// the error.
fn guest_filesystems(guest: &GuestPlan, over: &Overrides) -> Vec<&'static str> {
    let factor = over.factors.iter().find(|(id, _)| id == factor::KERNEL);
    let levels = factor.map_or(vec![String::new()], |(_, levels)| levels.clone());
    match guests::find_kernels(guest, levels.iter().map(String::as_str), &[]) {
        Ok(kernels) => guests::available_filesystems(&kernels),
        Err(_) => FILESYSTEMS.iter().filter(|def| def.is_general()).map(|def| def.id).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::plan::file::PlanFile;
    use fsarena_core::scale::Scale;

    /// The resolved plans of all stages of a shipped plan, on a machine with every filesystem.
    fn shipped(name: &str, over: &Overrides) -> Vec<Plan> {
        let (origin, text) = fsarena_core::app::shipped_plan(name).unwrap();
        let written = PlanFile::parse(&origin, text.as_bytes()).unwrap();
        let mut words = collect(&SysRoot::host(), over).unwrap();
        words.available =
            FILESYSTEMS.iter().filter(|def| def.is_general()).map(|def| def.id.into()).collect();
        let stages: Vec<Written> = match written.file.stages.as_slice() {
            [] => vec![written],
            stages => stages.iter().map(|stage| written.of_stage(stage)).collect(),
        };
        let plan = |written: &Written| fsarena_core::plan::resolve::resolve(written, over, &words).unwrap();
        stages.iter().map(plan).collect()
    }

    #[test]
    fn shipped_plans_have_the_rounds_of_a_first_answer() {
        let mut lacking = vec![];
        for name in fsarena_core::app::shipped_plan_names() {
            for scale in [Scale::Paper, Scale::Quick] {
                for plan in shipped(name, &Overrides { scale: Some(scale), ..Overrides::default() }) {
                    let variants = matrix::expand(&plan);
                    let (rounds, needed) = (plan.stop.rounds, rounds_for_an_answer(&variants, 1));
                    // A stage with fewer than 8 rounds only explores, and its title states that.
                    if (8..needed).contains(&rounds) {
                        let (scale, title, variants) = (scale.name(), &plan.title, variants.len());
                        lacking.push(format!(
                            "{name} ({title}) at {scale}: {rounds} rounds of {variants}, requires {needed}"
                        ));
                    }
                }
            }
        }
        assert_eq!(lacking, [""; 0]);
    }

    #[test]
    fn the_budget_of_a_shipped_plan_is_a_default_and_stays_one_when_it_is_stored() {
        let with = |budget_s| shipped("piszcz", &Overrides { budget_s, ..Overrides::default() }).remove(0);
        let (plan, asked) = (with(None), with(Some(20.0)));
        assert!(plan.stop.default_budget && !asked.stop.default_budget);
        assert_eq!((plan.stop.extended_s(), asked.stop.extended_s()), (Some(187.5), Some(20.0)));
        let text = toml::to_string(&plan).unwrap();
        let stored = PlanFile::parse("plan.toml", text.as_bytes()).unwrap();
        assert!(resolve(&stored, &Overrides::default()).unwrap().stop.default_budget);
        let own = text.replace("default_budget = true\n", "");
        let own = PlanFile::parse("plan.toml", own.as_bytes()).unwrap();
        assert!(!resolve(&own, &Overrides::default()).unwrap().stop.default_budget);
    }

    #[test]
    fn the_metrics_of_workloads_exist() {
        let known: Vec<&str> =
            METRICS.iter().map(|metric| metric.spec.id).chain(readings().map(|reading| reading.id)).collect();
        for workload in WORKLOADS {
            for metric in workload.def().metrics {
                assert!(known.contains(metric), "{}: {metric}", workload.def().id);
            }
        }
    }
}
