//! Levels that are each compared alone with the plain variant, instead of in every combination with other factors.

use crate::cell::Variant;
use crate::factor::in_order;
use crate::plan::{Plan, limits::MAX_VARIANTS};
use std::collections::{BTreeMap, BTreeSet};

/// Levels of factors by the names of the factors.
type Levels = BTreeMap<String, Vec<String>>;

/// Each of these variants, the plain ones, followed by a copy for each of the levels, in which only that level differs.
/// Levels that the plain variant has are left out. At most one variant more than a plan may have.
pub fn expand(plain: Vec<Variant>, vary: &Levels) -> Vec<Variant> {
    let mut variants = vec![];
    for plain in plain {
        let mut beside = vec![];
        for (factor, levels) in in_order(vary.iter().collect(), |(id, _)| id) {
            for level in levels.iter().filter(|level| *level != plain.level(factor)) {
                beside.push(with_level(&plain, factor, level, vary));
            }
        }
        variants.push(plain);
        variants.extend(beside);
        variants.truncate(MAX_VARIANTS + 1);
    }
    variants
}

/// The plain variant with another level of one factor.
fn with_level(plain: &Variant, factor: &str, level: &str, vary: &Levels) -> Variant {
    let mut variant = plain.clone();
    variant.levels.insert(factor.into(), level.into());
    let shared = vary.values().filter(|levels| levels.iter().any(|other| other == level)).count() > 1;
    let shown = match level {
        "" => format!("{factor}=default"),
        level if shared => format!("{factor}={level}"),
        level => level.into(),
    };
    // A variant named for its filesystem is another one with another filesystem.
    let renamed = plain.name == plain.level(factor) && !level.is_empty();
    variant.name = if renamed { shown } else { format!("{}/{shown}", plain.name) };
    variant
}

/// The plain variant of each variant, by its index: the first one that differs from it in one of the factors that are varied
/// one at a time, and in no other. None for the plain variants themselves.
pub fn plain_variants(plan: &Plan, variants: &[Variant]) -> Vec<Option<usize>> {
    let plain = |at: usize| {
        let variant = &variants[at];
        variants[..at].iter().position(|plain| match &differing(plain, variant)[..] {
            [factor] => {
                plan.vary.get(*factor).is_some_and(|levels| levels.contains(&variant.levels[*factor]))
            }
            _ => false,
        })
    };
    (0..variants.len()).map(plain).collect()
}

/// The factors in which two variants differ.
fn differing<'a>(one: &'a Variant, other: &'a Variant) -> Vec<&'a str> {
    let ids: BTreeSet<&String> = one.levels.keys().chain(other.levels.keys()).collect();
    ids.into_iter().map(String::as_str).filter(|id| one.level(id) != other.level(id)).collect()
}

/// Why these levels cannot be compared one at a time: every plain variant has them, or several plain variants become the
/// same variant. None if they can.
pub fn fault(variants: &[Variant], vary: &Levels) -> Option<String> {
    for (factor, levels) in vary {
        let has = |level: &&String| variants.iter().any(|variant| variant.levels.get(factor) == Some(level));
        let differs = |level: &String| variants.iter().any(|variant| variant.level(factor) != level);
        if !levels.iter().any(|level| has(&level) && differs(level)) {
            let named =
                |level: &String| if level.is_empty() { "its default".into() } else { format!("`{level}`") };
            let levels = levels.iter().map(named).collect::<Vec<_>>().join(", ");
            return Some(format!(
                "the plain variant has {factor} at {levels} already; name another level to compare with that"
            ));
        }
    }
    let mut seen: BTreeMap<Vec<(&str, &str)>, &str> = BTreeMap::new();
    let ids: BTreeSet<&String> = variants.iter().flat_map(|variant| variant.levels.keys()).collect();
    for variant in variants.iter().filter(|_| !vary.is_empty()) {
        let levels = ids.iter().map(|id| (id.as_str(), variant.level(id))).collect();
        if let Some(other) = seen.insert(levels, &variant.name) {
            return Some(format!(
                "the variants {other} and {} would be the same: a factor that is varied one level at a time has one level \
                 in the plain variants, so name all its levels in one place",
                variant.name
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{matrix, plan::tests::plan_with};

    fn plan(factors: &[(&str, &[&str])], vary: &[(&str, &[&str])]) -> Plan {
        let levels = |levels: &[&str]| levels.iter().map(|level| level.to_string()).collect();
        let vary = vary.iter().map(|(id, all)| (id.to_string(), levels(all))).collect();
        Plan { vary, ..plan_with(factors) }
    }

    fn names(plan: &Plan) -> Vec<String> {
        matrix::expand(plan).into_iter().map(|variant| variant.name).collect()
    }

    #[test]
    fn each_level_is_alone_beside_the_plain_variant_of_each_filesystem() {
        let vary: &[(&str, &[&str])] = &[("memory", &["1GiB"]), ("scheduler", &["", "none", "bfq"])];
        let plan = plan(&[("fs", &["ext4", "xfs"]), ("options", &["default"])], vary);
        let of = ["", "/none", "/bfq", "/1GiB"];
        let expected: Vec<String> =
            ["ext4", "xfs"].iter().flat_map(|fs| of.map(|end| format!("{fs}{end}"))).collect();
        assert_eq!(names(&plan), expected);
        let plain = plain_variants(&plan, &matrix::expand(&plan));
        assert_eq!(plain, [None, Some(0), Some(0), Some(0), None, Some(4), Some(4), Some(4)]);
    }

    #[test]
    fn names_are_unique_and_a_filesystem_replaces_the_name() {
        let vary: &[(&str, &[&str])] = &[("fs", &["xfs"]), ("scheduler", &["none"]), ("limit", &["none"])];
        assert_eq!(
            names(&plan(&[("fs", &["ext4"])], vary)),
            ["ext4", "xfs", "ext4/limit=none", "ext4/scheduler=none"]
        );
        let plan = plan(&[("fs", &["ext4"]), ("memory", &["1GiB"])], &[("memory", &["", "1GiB"])]);
        assert_eq!(names(&plan), ["ext4", "ext4/memory=default"]);
    }

    #[test]
    fn levels_that_compare_nothing_are_refused() {
        let told = |factors: &[(&str, &[&str])], vary: &[(&str, &[&str])]| {
            let plan = plan(factors, vary);
            fault(&matrix::expand(&plan), &plan.vary)
        };
        assert_eq!(told(&[("fs", &["ext4"])], &[("memory", &["1GiB"])]), None);
        let same = told(&[("fs", &["ext4"])], &[("memory", &[""])]).unwrap();
        assert!(same.contains("has memory at its default already"), "{same}");
        let twice = told(&[("fs", &["ext4"]), ("memory", &["", "1GiB"])], &[("memory", &["2GiB"])]).unwrap();
        assert!(twice.contains("would be the same"), "{twice}");
    }
}
