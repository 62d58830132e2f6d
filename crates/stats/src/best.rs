//! The level of a factor at which everything else does best.

use crate::analyse::{Analysis, Error, analyse};
use fsarena_core::{cell::Variant, factor, matrix::PLAIN, record::RunRecord};

/// The best of some variants that differ in one factor alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// The best variant, under the name of what its rivals have in common.
    pub variant: Variant,
    /// Its level of the factor.
    pub level: String,
    /// Whether it is significantly different from every rival. If not, it is the best by the estimate alone.
    pub decided: bool,
}

/// For every combination of the other levels the one level of `factor` with the best geometric mean over all tasks,
/// in the order of the run's variants. Variants without data are left out.
///
/// # Errors
/// Where the run has no such metric.
pub fn levels(record: &RunRecord, factor: &str, metric: &str) -> Result<Vec<Best>, Error> {
    Ok(of(record, &analyse(record, metric)?, factor))
}

/// The same of an analysis of the run.
pub fn of(record: &RunRecord, analysis: &Analysis, factor: &str) -> Vec<Best> {
    let Some(overall) = &analysis.overall else { return vec![] };
    let comparison = &overall.geometric.comparison;
    let mut groups: Vec<(Variant, Vec<usize>)> = Vec::new();
    let variants = record.variants.iter().enumerate();
    for (at, variant) in variants.filter(|(at, _)| comparison.variants[*at].median.is_some()) {
        let rest = without(variant, factor);
        match groups.iter_mut().find(|(known, _)| known.levels == rest.levels) {
            Some((_, members)) => members.push(at),
            None => groups.push((rest, vec![at])),
        }
    }
    let best = |(mut variant, members): (Variant, Vec<usize>)| {
        let first = *comparison.order.iter().find(|at| members.contains(at))?;
        let decided = members.iter().all(|other| *other == first || comparison.separated[first][*other]);
        let level = record.variants[first].level(factor).to_string();
        variant.levels.insert(factor.to_string(), level.clone());
        Some(Best { variant, level, decided })
    };
    groups.into_iter().filter_map(best).collect()
}

/// A variant without one of its levels, named by the others that vary.
pub fn without(variant: &Variant, id: &str) -> Variant {
    let level = variant.level(id).to_string();
    let mut rest = variant.clone();
    rest.levels.remove(id);
    let shown = if level.is_empty() { PLAIN } else { &level };
    let mut parts: Vec<&str> = variant.name.split('/').collect();
    // Levels stand in the order of the factors; the last of this name is meant where two are called alike.
    if let Some(at) = parts.iter().rposition(|part| *part == shown) {
        parts.remove(at);
    }
    rest.name = if parts.is_empty() { variant.level(factor::FS).to_string() } else { parts.join("/") };
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_loses_one_level_and_its_part_of_the_name() {
        let levels =
            [("fs", "xfs"), ("scheduler", "none")].map(|(id, level)| (id.to_string(), level.to_string()));
        let variant = Variant { name: "xfs/none".into(), levels: levels.into() };
        let rest = without(&variant, "scheduler");
        assert_eq!((rest.name.as_str(), rest.levels.len()), ("xfs", 1));
        let alone = Variant { name: "none".into(), ..variant };
        assert_eq!(without(&alone, "scheduler").name, "xfs");
    }
}
