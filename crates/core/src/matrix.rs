//! Expands a plan into its variants, and each round into its cells.

use crate::cell::{Cell, Variant, WorkloadPlan};
use crate::factor::{SETTING_PREFIX, parse_client_count, set_client_count, sorted_for_names};
use crate::plan::limits::MAX_VARIANTS;
use crate::{plan::Plan, schedule::mix, setting::SettingValue};
use std::collections::{BTreeMap, BTreeSet};

/// The part of a variant's name for an empty level of a factor. It has nothing to do with plain variants, which
/// [`add_one_at_a_time`] copies.
pub const EMPTY_LEVEL_NAME: &str = "plain";

/// The most tasks of a workload; also the most workloads of a plan. The report has a row for each task, and every round
/// stores values for each.
const MAX_TASKS: u128 = 10_000;

/// Checks the numbers of variants, workloads and tasks of a plan.
///
/// # Errors
/// The plan has too many of them.
pub fn check_plan_size(plan: &Plan) -> Result<(), String> {
    check_variant_count(plan)?;
    check_task_count(plan)
}

fn check_variant_count(plan: &Plan) -> Result<(), String> {
    let (count, origin) = match plan.variants.len() {
        0 => {
            let (product, shown) = count_combinations(plan.factors.iter().map(|(id, levels)| (id, levels.len())));
            let copies = count_copies(plan, product);
            let shown_copies =
                if copies > 0 { format!(", and {copies} that change one factor of these") } else { String::new() };
            (product.saturating_add(copies), shown + &shown_copies)
        }
        named => (named as u128, "each named in the plan".into()),
    };
    if count > MAX_VARIANTS as u128 {
        return Err(format!("the plan has {count} variants ({origin}), and the limit is {MAX_VARIANTS}"));
    }
    Ok(())
}

/// The number of variants that [`add_one_at_a_time`] adds to the `product` of the levels of all factors: for each level of
/// `plan.vary` those without this level.
fn count_copies(plan: &Plan, product: u128) -> u128 {
    let mut copies = 0_u128;
    for (factor, levels) in &plan.vary {
        for level in levels {
            let with_level = match plan.factors.get(factor) {
                Some(plain_levels) if plain_levels.contains(level) => product / plain_levels.len() as u128,
                // A variant without the factor has its empty level.
                None if level.is_empty() => product,
                _ => 0,
            };
            copies = copies.saturating_add(product - with_level);
        }
    }
    copies
}

/// Checks the numbers of workloads and of their tasks. A workload has one task for each combination of the items of its list
/// settings.
fn check_task_count(plan: &Plan) -> Result<(), String> {
    let workloads = plan.workloads.len() as u128;
    if workloads > MAX_TASKS {
        return Err(format!("the plan has {workloads} workloads, and the limit is {MAX_TASKS}"));
    }
    for workload in &plan.workloads {
        let lists = workload.settings.0.iter().filter_map(|(id, value)| match value {
            SettingValue::List(values) if values.len() > 1 => Some((id, values.len())),
            _ => None,
        });
        let (tasks, shown) = count_combinations(lists);
        if tasks > MAX_TASKS {
            let name = &workload.name;
            return Err(format!("workload {name} has {tasks} tasks ({shown}), and the limit is {MAX_TASKS}"));
        }
    }
    Ok(())
}

/// Multiplies numbers of choices, each with its name. Returns the product, and the multiplication as text: 6 and
/// `3 fs × 2 options`.
fn count_combinations<'a>(choices: impl Iterator<Item = (&'a String, usize)>) -> (u128, String) {
    let (mut product, mut shown) = (1_u128, vec![]);
    for (name, count) in choices {
        product = product.saturating_mul(count as u128);
        shown.push(format!("{count} {name}"));
    }
    (product, shown.join(" × "))
}

/// The variants of a plan: those it names, or every combination of the levels of its factors. Behind each combination
/// come its copies (see [`add_one_at_a_time`]): each copy changes one factor to one level of `plan.vary`.
pub fn expand(plan: &Plan) -> Vec<Variant> {
    if !plan.variants.is_empty() {
        return plan.variants.clone();
    }
    let mut variants = vec![Variant { name: String::new(), levels: Default::default() }];
    for (factor, levels) in sorted_for_names(plan.factors.iter().collect(), |(id, _)| id) {
        variants = cross_with_levels(variants, factor, levels);
    }
    for variant in &mut variants {
        if variant.name.is_empty() {
            // No factor varies, so the name is the filesystem or directory.
            let dir = variant.level(crate::factor::DIR).to_string();
            variant.name = if dir.is_empty() { variant.level(crate::factor::FS).to_string() } else { dir };
        }
    }
    add_one_at_a_time(variants, &plan.vary)
}

/// Combines each variant with every level of a factor, and adds the level to its name if there are several. Stops one variant
/// beyond the limit of a plan, which suffices to report that there are too many.
pub fn cross_with_levels(variants: Vec<Variant>, factor: &str, levels: &[String]) -> Vec<Variant> {
    let mut combinations = vec![];
    for variant in &variants {
        for level in levels {
            if combinations.len() > MAX_VARIANTS {
                return combinations;
            }
            let mut variant = with_level(variant, factor, level);
            if levels.len() > 1 {
                let shown = if level.is_empty() { EMPTY_LEVEL_NAME } else { level };
                let prefix = if variant.name.is_empty() { String::new() } else { variant.name + "/" };
                variant.name = prefix + shown;
            }
            combinations.push(variant);
        }
    }
    combinations
}

/// The variant with this level of a factor.
fn with_level(variant: &Variant, factor: &str, level: &str) -> Variant {
    let mut variant = variant.clone();
    variant.levels.insert(factor.into(), level.into());
    variant
}

/// The cells of one round, in the order in which they will run: every live variant once, in a uniformly random
/// order, each with every workload of the plan.
///
/// All variants of a round share a seed, so they do the same work on the same data. `live` are the indices in `variants` of
/// those that have not left the run.
pub fn cells_of_round(plan: &Plan, variants: &[Variant], live: &[usize], round: u32) -> Vec<Cell> {
    let order = crate::schedule::order_of_round(plan.seed, round, live.len());
    let mut cells = Vec::with_capacity(live.len() * plan.workloads.len());
    for variant in order.into_iter().map(|index| live[index]) {
        for workload in workloads_in_order(plan, variant, round) {
            cells.push(Cell {
                round,
                position: cells.len() as u32,
                variant: variants[variant].clone(),
                workload: workload_of_variant(&variants[variant], workload),
                scale: plan.scale,
                // The constant makes the seed of the work differ from the seed of the round's order.
                seed: mix(plan.seed ^ 0x5eed, u64::from(round)),
            });
        }
    }
    cells
}

/// The workloads of a plan as one variant runs them in a round, in the plan's order. If workloads are the points of a
/// grid (`grid_settings`), they are in a random order, so that a drift of the machine is not a difference between
/// values of the grid.
fn workloads_in_order(plan: &Plan, variant: usize, round: u32) -> Vec<&WorkloadPlan> {
    let mut order: Vec<usize> = (0..plan.workloads.len()).collect();
    if plan.workloads.iter().any(|workload| !workload.grid_settings.is_empty()) {
        order = crate::schedule::order_of_round(mix(plan.seed, 1 + variant as u64), round, order.len());
    }
    order.into_iter().map(|index| &plan.workloads[index]).collect()
}

/// The workload with the settings of a variant: its levels override the number of clients and the settings of the plan.
pub fn workload_of_variant(variant: &Variant, workload: &WorkloadPlan) -> WorkloadPlan {
    let mut workload = workload.clone();
    for (id, level) in &variant.levels {
        let setting = id.strip_prefix(SETTING_PREFIX).and_then(|setting| workload.settings.0.get_mut(setting));
        if let Some(value) = setting.filter(|_| !level.is_empty()) {
            *value = value.parse_same_kind(level);
        }
    }
    if let Ok(Some(clients)) = parse_client_count(variant.level(crate::factor::CLIENTS)) {
        set_client_count(&mut workload.settings, clients);
    }
    workload
}

/// Levels of factors by the names of the factors.
pub(crate) type LevelsByFactor = BTreeMap<String, Vec<String>>;

/// Adds the levels that are compared one at a time: returns each plain variant, followed by one copy for each level of
/// `vary` that it does not have itself. A copy differs from its plain variant in that level only. Stops one variant
/// beyond the limit of a plan.
pub fn add_one_at_a_time(variants: Vec<Variant>, vary: &LevelsByFactor) -> Vec<Variant> {
    let mut extended = vec![];
    for plain in variants {
        let mut copies = vec![];
        for (factor, levels) in sorted_for_names(vary.iter().collect(), |(id, _)| id) {
            for level in levels.iter().filter(|level| *level != plain.level(factor)) {
                copies.push(copy_with_level(&plain, factor, level, vary));
            }
        }
        extended.push(plain);
        extended.extend(copies);
        extended.truncate(MAX_VARIANTS + 1);
    }
    extended
}

/// A copy of the plain variant with another level of one factor. Its name contains that level.
fn copy_with_level(plain: &Variant, factor: &str, level: &str, vary: &LevelsByFactor) -> Variant {
    let mut variant = with_level(plain, factor, level);
    let factors_with_level = vary.values().filter(|levels| levels.iter().any(|other| other == level)).count();
    let shown = match level {
        "" => format!("{factor}=default"),
        level if factors_with_level > 1 => format!("{factor}={level}"),
        level => level.into(),
    };
    // A variant named after its filesystem takes the name of the other filesystem.
    let is_named_after_level = plain.name == plain.level(factor) && !level.is_empty();
    variant.name = if is_named_after_level { shown } else { format!("{}/{shown}", plain.name) };
    variant
}

/// For each variant, the index of its plain variant: of the first variant before it that differs from it in exactly one
/// factor, which must be one of those that are varied one at a time. None for the plain variants themselves.
pub fn plain_variants(plan: &Plan, variants: &[Variant]) -> Vec<Option<usize>> {
    let plain_of = |index: usize| {
        let variant = &variants[index];
        variants[..index].iter().position(|plain| match &differing_factors(plain, variant)[..] {
            [factor] => {
                plan.vary.get(*factor).is_some_and(|levels| levels.iter().any(|level| level == variant.level(factor)))
            }
            _ => false,
        })
    };
    (0..variants.len()).map(plain_of).collect()
}

/// The factors in which two variants differ.
fn differing_factors<'a>(a: &'a Variant, b: &'a Variant) -> Vec<&'a str> {
    let ids: BTreeSet<&String> = a.levels.keys().chain(b.levels.keys()).collect();
    ids.into_iter().map(String::as_str).filter(|id| a.level(id) != b.level(id)).collect()
}

/// Checks that these levels can be compared one at a time. `variants` are all variants of the plan.
///
/// # Errors
/// Every plain variant has all levels of a factor, or two variants would be the same.
pub fn check_one_at_a_time(variants: &[Variant], vary: &LevelsByFactor) -> Result<(), String> {
    for (factor, levels) in vary {
        let exists = |level: &&String| variants.iter().any(|variant| variant.levels.get(factor) == Some(level));
        let differs = |level: &String| variants.iter().any(|variant| variant.level(factor) != level);
        if !levels.iter().any(|level| exists(&level) && differs(level)) {
            let shown = |level: &String| if level.is_empty() { "its default".into() } else { format!("`{level}`") };
            let levels = levels.iter().map(shown).collect::<Vec<_>>().join(", ");
            return Err(format!(
                "the plain variant has {factor} at {levels} already; name another level to compare with that"
            ));
        }
    }
    let mut name_by_levels: BTreeMap<Vec<(&str, &str)>, &str> = BTreeMap::new();
    let ids: BTreeSet<&String> = variants.iter().flat_map(|variant| variant.levels.keys()).collect();
    for variant in variants.iter().filter(|_| !vary.is_empty()) {
        let levels = ids.iter().map(|id| (id.as_str(), variant.level(id))).collect();
        if let Some(other) = name_by_levels.insert(levels, &variant.name) {
            return Err(format!(
                "the variants {other} and {} would be the same: the factor that is varied one level at a time must have \
                 one level in the plain variants; list its other levels together with the varied ones",
                variant.name
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan_with;

    #[test]
    fn one_varying_factor_names_the_variants() {
        let variants = expand(&plan_with(&[("fs", &["ext4", "xfs"]), ("options", &["default"])]));
        assert_eq!(variants.iter().map(|variant| variant.name.as_str()).collect::<Vec<_>>(), ["ext4", "xfs"]);
        assert_eq!(variants[0].level("options"), "default");
    }

    #[test]
    fn two_varying_factors_give_every_combination() {
        let variants = expand(&plan_with(&[("fs", &["ext4", "xfs"]), ("mount", &["", "noatime"])]));
        let names: Vec<_> = variants.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(names, ["ext4/plain", "ext4/noatime", "xfs/plain", "xfs/noatime"]);
    }

    #[test]
    fn a_round_runs_only_live_variants_each_once() {
        let plan = plan_with(&[("fs", &["ext2", "ext3", "ext4", "xfs"])]);
        let variants = expand(&plan);
        let mut names: Vec<_> =
            cells_of_round(&plan, &variants, &[0, 2, 3], 5).into_iter().map(|cell| cell.variant.name).collect();
        names.sort();
        assert_eq!(names, ["ext2", "ext4", "xfs"]);
    }

    #[test]
    fn cells_differ_by_round_and_variant_but_not_by_position() {
        let plan = plan_with(&[("fs", &["ext2", "ext3"])]);
        let variants = expand(&plan);
        let first = cells_of_round(&plan, &variants, &[0, 1], 0);
        let mut repositioned = first[0].clone();
        repositioned.position = 9;
        assert_eq!(repositioned.id(), first[0].id());
        assert_ne!(first[0].id(), first[1].id());
        assert_ne!(first[0].id(), cells_of_round(&plan, &variants, &[0, 1], 1)[0].id());
        assert_eq!(first[0].seed, first[1].seed);
    }

    fn plan_that_varies(factors: &[(&str, &[&str])], vary: &[(&str, &[&str])]) -> Plan {
        let levels = |names: &[&str]| names.iter().map(|level| level.to_string()).collect();
        let vary = vary.iter().map(|(id, names)| (id.to_string(), levels(names))).collect();
        Plan { vary, ..plan_with(factors) }
    }

    fn variant_names(plan: &Plan) -> Vec<String> {
        expand(plan).into_iter().map(|variant| variant.name).collect()
    }

    #[test]
    fn each_level_is_alone_beside_the_plain_variant_of_each_filesystem() {
        let vary: &[(&str, &[&str])] = &[("memory", &["1GiB"]), ("scheduler", &["", "none", "bfq"])];
        let plan = plan_that_varies(&[("fs", &["ext4", "xfs"]), ("options", &["default"])], vary);
        let endings = ["", "/none", "/bfq", "/1GiB"];
        let expected: Vec<String> =
            ["ext4", "xfs"].iter().flat_map(|fs| endings.map(|end| format!("{fs}{end}"))).collect();
        assert_eq!(variant_names(&plan), expected);
        let plain = plain_variants(&plan, &expand(&plan));
        assert_eq!(plain, [None, Some(0), Some(0), Some(0), None, Some(4), Some(4), Some(4)]);
    }

    #[test]
    fn the_limit_counts_only_the_copies_that_a_variant_gets() {
        let names: Vec<String> = (0..3_333).map(|number| number.to_string()).collect();
        let levels: Vec<&str> = names.iter().map(String::as_str).collect();
        // Each of these has two copies, because its scheduler is at the empty level already.
        let plan = plan_that_varies(&[("fs", &levels[..])], &[("scheduler", &["", "none", "bfq"])]);
        assert_eq!((check_plan_size(&plan), expand(&plan).len()), (Ok(()), 9_999));
        let error =
            check_plan_size(&plan_that_varies(&[("fs", &levels[..])], &[("scheduler", &["none", "bfq", "kyber"])]));
        assert!(
            error.unwrap_err().starts_with("the plan has 13332 variants (3333 fs, and 9999 that change one factor")
        );
        let memory: &[(&str, &[&str])] = &[("fs", &["ext4", "xfs"]), ("memory", &["", "1GiB"])];
        let plan = plan_that_varies(memory, &[("memory", &["", "1GiB", "2GiB"])]);
        assert_eq!(4 + count_copies(&plan, 4), expand(&plan).len() as u128);
    }

    #[test]
    fn names_are_unique_and_a_filesystem_replaces_the_name() {
        let vary: &[(&str, &[&str])] = &[("fs", &["xfs"]), ("scheduler", &["none"]), ("limit", &["none"])];
        assert_eq!(
            variant_names(&plan_that_varies(&[("fs", &["ext4"])], vary)),
            ["ext4", "xfs", "ext4/limit=none", "ext4/scheduler=none"]
        );
        let plan = plan_that_varies(&[("fs", &["ext4"]), ("memory", &["1GiB"])], &[("memory", &["", "1GiB"])]);
        assert_eq!(variant_names(&plan), ["ext4", "ext4/memory=default"]);
    }

    #[test]
    fn levels_that_every_plain_variant_has_or_that_repeat_a_variant_are_errors() {
        let check = |factors: &[(&str, &[&str])], vary: &[(&str, &[&str])]| {
            let plan = plan_that_varies(factors, vary);
            check_one_at_a_time(&expand(&plan), &plan.vary)
        };
        assert_eq!(check(&[("fs", &["ext4"])], &[("memory", &["1GiB"])]), Ok(()));
        let same = check(&[("fs", &["ext4"])], &[("memory", &[""])]).unwrap_err();
        assert!(same.contains("has memory at its default already"), "{same}");
        let twice = check(&[("fs", &["ext4"]), ("memory", &["", "1GiB"])], &[("memory", &["2GiB"])]).unwrap_err();
        assert!(twice.contains("would be the same"), "{twice}");
    }

    #[test]
    fn a_variant_without_a_factor_is_compared_at_its_empty_level() {
        let vary: &[(&str, &[&str])] = &[("memory", &["", "2GiB"])];
        let plan = plan_that_varies(&[("fs", &["ext4"])], vary);
        let [small, default] = [&[("fs", "ext4"), ("memory", "1GiB")][..], &[("fs", "ext4")]].map(|levels| Variant {
            name: String::new(),
            levels: levels.iter().map(|(id, level)| (id.to_string(), level.to_string())).collect(),
        });
        assert_eq!(plain_variants(&plan, &[small, default]), [None, Some(0)]);
    }
}
