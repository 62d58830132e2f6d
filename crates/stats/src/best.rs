//! The level of a factor at which everything else does best.

use crate::analyse::{Analysis, Error, analyse};
use fsarena_core::cell::Arm;
use fsarena_core::factor;
use fsarena_core::record::RunRecord;

/// What is best of arms that differ in one factor alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// The best arm, under the name of what its rivals have in common.
    pub arm: Arm,
    /// Its level of the factor.
    pub level: String,
    /// Whether every rival is told apart from it. Otherwise it is the best by the estimate alone.
    pub decided: bool,
}

/// For every combination of the other levels the one level of `factor` with the best geometric mean over all tasks,
/// in the order of the run's arms. Arms without data are left out.
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
    let mut groups: Vec<(Arm, Vec<usize>)> = Vec::new();
    for (at, arm) in record.arms.iter().enumerate().filter(|(at, _)| comparison.arms[*at].median.is_some()) {
        let rest = without(arm, factor);
        match groups.iter_mut().find(|(known, _)| known.levels == rest.levels) {
            Some((_, members)) => members.push(at),
            None => groups.push((rest, vec![at])),
        }
    }
    let best = |(mut arm, members): (Arm, Vec<usize>)| {
        let first = *comparison.order.iter().find(|at| members.contains(at))?;
        let decided = members.iter().all(|other| *other == first || comparison.separated[first][*other]);
        let level = record.arms[first].level(factor).to_string();
        arm.levels.insert(factor.to_string(), level.clone());
        Some(Best { arm, level, decided })
    };
    groups.into_iter().filter_map(best).collect()
}

/// An arm without one of its levels, named by the others that vary.
pub fn without(arm: &Arm, id: &str) -> Arm {
    let level = arm.level(id).to_string();
    let mut rest = arm.clone();
    rest.levels.remove(id);
    let shown = if level.is_empty() { "plain" } else { &level };
    let mut parts: Vec<&str> = arm.name.split('/').collect();
    // Levels stand in the order of the factors; the last of this name is meant where two are called alike.
    if let Some(at) = parts.iter().rposition(|part| *part == shown) {
        parts.remove(at);
    }
    rest.name = if parts.is_empty() { arm.level(factor::FS).to_string() } else { parts.join("/") };
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_loses_one_level_and_its_part_of_the_name() {
        let levels =
            [("fs", "xfs"), ("scheduler", "none")].map(|(id, level)| (id.to_string(), level.to_string()));
        let arm = Arm { name: "xfs/none".into(), levels: levels.into() };
        let rest = without(&arm, "scheduler");
        assert_eq!((rest.name.as_str(), rest.levels.len()), ("xfs", 1));
        let alone = Arm { name: "none".into(), ..arm };
        assert_eq!(without(&alone, "scheduler").name, "xfs");
    }
}
