//! Resolves plans: collects the names that a plan may use, from the registries of fsarena and from this machine.

use crate::{error::Result, preflight::guests, stopping::rounds_for_an_answer, work};
use fsarena_core::plan::file::{Pairs, PlanFile};
use fsarena_core::plan::resolve::{Overrides, Vocabulary};
use fsarena_core::plan::{Backing, GuestPlan, ParsedPlan, Plan};
use fsarena_core::{factor, matrix, metric::METRICS};
use fsarena_fs::{available::survey, def::FsDef, filesystems::FILESYSTEMS};
use fsarena_load::workloads::WORKLOADS;
use fsarena_sys::kernel::SysRoot;
use std::collections::BTreeSet;
use toml::Spanned;

pub use crate::bench::reading_defs;

/// Resolves a parsed plan on this machine, with the overrides of the command line. The plan of a stored run keeps its
/// backing unless the command line names another.
///
/// # Errors
/// The first mistake, with its line and column in the text, or with its flag.
pub fn resolve(parsed: &ParsedPlan, overrides: &Overrides) -> Result<Plan> {
    let mut overrides = overrides.clone();
    overrides.keep_devices_of(parsed)?;
    let vocabulary = collect_vocabulary(&SysRoot::host(), Some(&parsed.file), &overrides)?;
    Ok(fsarena_core::plan::resolve::resolve(parsed, &overrides, &vocabulary)?)
}

/// Collects the names that a plan may use: every filesystem, option set, workload, factor and metric.
///
/// The field `available_filesystems` has the filesystems that a plan uses if it names none: those that this machine can make and
/// mount. For guests, those that all kernels can mount which `file` or `overrides` name. Read-only filesystems and
/// filesystems in memory are left out.
///
/// # Errors
/// The list of filesystems that the kernel supports cannot be read.
pub fn collect_vocabulary(
    kernel: &SysRoot,
    file: Option<&PlanFile>,
    overrides: &Overrides,
) -> Result<Vocabulary, fsarena_sys::Error> {
    let available = match &overrides.backing {
        Some(Backing::Guest(guest)) => guest_filesystems(guest, &kernel_levels(file, overrides)),
        _ => {
            let surveyed = survey(kernel)?.into_iter();
            let usable = surveyed.filter(|filesystem| filesystem.is_usable() && filesystem.def.is_general());
            usable.map(|filesystem| filesystem.def.id).collect()
        }
    };
    let metrics = METRICS.iter().map(|metric| metric.spec.id.to_string());
    let option_sets = |def: &FsDef| def.option_sets.iter().map(|set| set.id.to_string()).collect();
    let filesystems = FILESYSTEMS.iter().map(|def| (def.id.to_string(), option_sets(def)));
    Ok(Vocabulary {
        filesystems: filesystems.chain([(factor::RAW.into(), vec!["default".into()])]).collect(),
        available_filesystems: available.into_iter().map(String::from).collect(),
        factors: crate::axes::all_factors(),
        workloads: WORKLOADS.iter().map(|workload| workload.def()).collect(),
        metrics: metrics.chain(reading_defs().map(|reading| reading.id.to_string())).collect(),
        list_tasks: work::outline_tasks,
        default_rounds: |plan| rounds_for_an_answer(&matrix::expand(plan), plan.error_split()),
    })
}

/// The filesystems that the guest kernels of all these levels support. If a kernel cannot be found, all filesystems;
/// the preflight then reports the error.
fn guest_filesystems(guest: &GuestPlan, levels: &BTreeSet<String>) -> Vec<&'static str> {
    match guests::find_kernels(guest, levels.iter().map(String::as_str), &[]) {
        Ok(kernels) => guests::available_filesystems(&kernels),
        Err(_) => FILESYSTEMS.iter().filter(|def| def.is_general()).map(|def| def.id).collect(),
    }
}

/// The levels of the factor `kernel` that variants can have: the levels on the command line, else those in the plan
/// file, and the empty level if neither names the factor. Leaves out levels that are not text, because no kernel has
/// such a name.
fn kernel_levels(file: Option<&PlanFile>, overrides: &Overrides) -> BTreeSet<String> {
    let levels_in_overrides = |pairs: &[(String, Vec<String>)]| -> Option<Vec<String>> {
        pairs.iter().find(|(id, _)| id == factor::KERNEL).map(|(_, levels)| levels.clone())
    };
    let levels_in_file = |pairs: &Pairs| pairs.iter().find(|(id, _)| id.get_ref() == factor::KERNEL).map(texts_of);
    let scale = overrides.scale.or(file.and_then(|file| file.scale)).unwrap_or_default();
    let scale_section = file.and_then(|file| file.scales.get(&scale));
    let factors = levels_in_overrides(&overrides.factors)
        .or_else(|| levels_in_file(&scale_section?.factors))
        .or_else(|| levels_in_file(&file?.factors))
        .unwrap_or_else(|| vec![String::new()]);
    let varied = levels_in_overrides(&overrides.vary).or_else(|| levels_in_file(&file?.vary)).unwrap_or_default();
    factors.into_iter().chain(varied).collect()
}

/// The levels of a factor in a plan file that are text. The value is one level or a list.
fn texts_of((_, value): (&Spanned<String>, &Spanned<toml::Value>)) -> Vec<String> {
    let levels = match value.get_ref() {
        toml::Value::Array(levels) => levels.as_slice(),
        level => std::slice::from_ref(level),
    };
    levels.iter().filter_map(|level| level.as_str().map(String::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::scale::Scale;

    /// The resolved plans of all stages of a shipped plan, on a machine with every filesystem.
    fn shipped_plans(name: &str, overrides: &Overrides) -> Vec<Plan> {
        let (origin, text) = fsarena_core::study::shipped_plan(name).unwrap();
        let parsed = PlanFile::parse(&origin, text.as_bytes()).unwrap();
        let mut vocabulary = collect_vocabulary(&SysRoot::host(), None, overrides).unwrap();
        vocabulary.available_filesystems =
            FILESYSTEMS.iter().filter(|def| def.is_general()).map(|def| def.id.into()).collect();
        let stages: Vec<ParsedPlan> = match parsed.file.stages.as_slice() {
            [] => vec![parsed],
            stages => stages.iter().map(|stage| parsed.of_stage(stage)).collect(),
        };
        let plan = |parsed: &ParsedPlan| fsarena_core::plan::resolve::resolve(parsed, overrides, &vocabulary).unwrap();
        stages.iter().map(plan).collect()
    }

    #[test]
    fn shipped_plans_have_the_rounds_of_a_first_answer() {
        let mut with_too_few_rounds = vec![];
        for name in fsarena_core::study::shipped_plan_names() {
            for scale in [Scale::Paper, Scale::Quick] {
                for plan in shipped_plans(name, &Overrides { scale: Some(scale), ..Overrides::default() }) {
                    let variants = matrix::expand(&plan);
                    let (rounds, needed) = (plan.stop.rounds, rounds_for_an_answer(&variants, 1));
                    // A stage with fewer than 8 rounds only explores, and its title states that.
                    if (8..needed).contains(&rounds) {
                        let (scale, title, variants) = (scale.name(), &plan.title, variants.len());
                        with_too_few_rounds.push(format!(
                            "{name} ({title}) at {scale}: {rounds} rounds of {variants}, requires {needed}"
                        ));
                    }
                }
            }
        }
        assert_eq!(with_too_few_rounds, [""; 0]);
    }

    #[test]
    fn the_budget_of_a_shipped_plan_is_a_default_and_stays_one_when_it_is_stored() {
        let with_budget = |budget_s| shipped_plans("piszcz", &Overrides { budget_s, ..Overrides::default() }).remove(0);
        let (plan, overridden) = (with_budget(None), with_budget(Some(20.0)));
        assert!(plan.stop.has_default_budget && !overridden.stop.has_default_budget);
        assert_eq!((plan.stop.extended_budget_s(), overridden.stop.extended_budget_s()), (Some(187.5), Some(20.0)));
        let text = toml::to_string(&plan).unwrap();
        let stored = PlanFile::parse("plan.toml", text.as_bytes()).unwrap();
        assert!(resolve(&stored, &Overrides::default()).unwrap().stop.has_default_budget);
        let without_mark = text.replace("default_budget = true\n", "");
        let chosen_by_user = PlanFile::parse("plan.toml", without_mark.as_bytes()).unwrap();
        assert!(!resolve(&chosen_by_user, &Overrides::default()).unwrap().stop.has_default_budget);
    }

    #[test]
    fn the_filesystems_of_guests_are_those_of_the_kernels_that_a_plan_names() {
        let text = "name = 'p'\n[factors]\nkernel = ['debian:6.1', 'debian:6.12']\n[vary]\nkernel = 'debian:5.10'\n\
                    [scales.tiny.factors]\nkernel = 'debian:6.6'\n";
        let file = PlanFile::parse("p", text.as_bytes()).unwrap().file;
        let levels = |file: Option<&PlanFile>, overrides: Overrides| {
            kernel_levels(file, &overrides).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(levels(Some(&file), Overrides::default()), ["debian:5.10", "debian:6.1", "debian:6.12"]);
        let tiny = Overrides { scale: Some(Scale::Tiny), ..Overrides::default() };
        assert_eq!(levels(Some(&file), tiny), ["debian:5.10", "debian:6.6"]);
        let factors = vec![(factor::KERNEL.to_string(), vec!["debian:7".to_string()])];
        let overrides = Overrides { factors, vary: vec![(factor::KERNEL.into(), vec![])], ..Overrides::default() };
        assert_eq!(levels(Some(&file), overrides), ["debian:7"]);
        assert_eq!(levels(None, Overrides::default()), [""]);
    }

    #[test]
    fn the_metrics_of_workloads_exist() {
        let metric_ids: Vec<&str> =
            METRICS.iter().map(|metric| metric.spec.id).chain(reading_defs().map(|reading| reading.id)).collect();
        for workload in WORKLOADS {
            for metric in workload.def().metrics {
                assert!(metric_ids.contains(metric), "{}: {metric}", workload.def().id);
            }
        }
    }
}
