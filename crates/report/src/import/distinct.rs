//! The names of series: the subject, and the conditions by which series of one subject differ.

use super::reading::LAST_RESORT;
use super::series::Series;
use std::collections::{BTreeMap, BTreeSet};

/// For each subject, the names of the conditions by which its series differ.
#[derive(Debug, Default)]
pub struct Distinctions(BTreeMap<String, Vec<String>>);

impl Distinctions {
    /// Finds the conditions by which these series differ, in the order in which the readers set them.
    pub fn among(series: &[Series]) -> Distinctions {
        let mut subjects: BTreeMap<&str, Vec<&Series>> = BTreeMap::new();
        for one in series {
            subjects.entry(&one.subject).or_default().push(one);
        }
        let mut distinctions = BTreeMap::new();
        for (subject, series) in subjects {
            distinctions.insert(subject.to_string(), differing(&series));
        }
        Distinctions(distinctions)
    }

    /// The union of the distinctions of two files.
    pub fn and(mut self, other: Distinctions) -> Distinctions {
        for (subject, names) in other.0 {
            let known = self.0.entry(subject).or_default();
            let new: Vec<String> = names.into_iter().filter(|name| !known.contains(name)).collect();
            known.extend(new);
        }
        self
    }

    /// The conditions that distinguish the series with the subject of this one.
    fn of(&self, series: &Series) -> &[String] {
        self.0.get(&series.subject).map_or(&[], Vec::as_slice)
    }

    /// The values of the distinguishing conditions of a series; None for a condition that it does not state.
    pub fn values<'a>(&self, series: &'a Series) -> Vec<Option<&'a str>> {
        self.of(series).iter().map(|name| series.conditions.get(name)).collect()
    }

    /// The name of a series: `random read test[threads=8]`.
    pub fn name(&self, series: &Series) -> String {
        let stated = |name: &String| series.conditions.get(name).map(|value| format!("{name}={value}"));
        let stated: Vec<String> = self.of(series).iter().filter_map(stated).collect();
        match (series.subject.as_str(), stated.join(",")) {
            ("", stated) => stated,
            (subject, stated) if stated.is_empty() => subject.into(),
            (subject, stated) => format!("{subject}[{stated}]"),
        }
    }
}

/// The names of the conditions by which series of one subject differ. Conditions of [`LAST_RESORT`] are among them only as
/// far as they distinguish series that the others do not.
fn differing(series: &[&Series]) -> Vec<String> {
    let mut names: Vec<&str> = vec![];
    let mut seen = BTreeSet::new();
    names.extend(series.iter().flat_map(|one| one.conditions.iter()).map(|(name, _)| name));
    names.retain(|name| seen.insert(*name));
    let differs = |name: &&str| {
        let first = series[0].conditions.get(name);
        series.iter().any(|one| one.conditions.get(name) != first)
    };
    names.retain(differs);
    let (last_resort, mut chosen): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|name| LAST_RESORT.contains(name));
    // The number of series that these conditions and the metric distinguish.
    let distinguished = |names: &[&str]| {
        let key = |one: &&Series| {
            let values: Vec<_> =
                names.iter().map(|name| one.conditions.get(name).map(String::from)).collect();
            (one.metric.clone(), values)
        };
        series.iter().map(key).collect::<BTreeSet<_>>().len()
    };
    for name in LAST_RESORT.into_iter().filter(|name| last_resort.contains(name)) {
        let before = distinguished(&chosen);
        if before == series.len() {
            break;
        }
        chosen.push(name);
        if distinguished(&chosen) == before {
            chosen.pop();
        }
    }
    chosen.into_iter().map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::super::collector::Collector;
    use super::super::reading::{Conditions, Reading};

    fn names(runs: &[&[(&str, &str)]]) -> Vec<String> {
        let mut into = Collector::default();
        for run in runs {
            let mut conditions = Conditions::default();
            run.iter().for_each(|(name, value)| conditions.set(name, value));
            let mut reading = Reading::of("read", &conditions);
            reading.figure("rate", "/s", Some(1.0));
            into.take(reading);
        }
        into.finish("a", "csv", &[]).series.into_iter().map(|one| one.name).collect()
    }

    #[test]
    fn conditions_that_differ_are_in_the_name() {
        assert_eq!(
            names(&[&[("threads", "1"), ("sync", "on")], &[("threads", "8"), ("sync", "on")]]),
            ["read[threads=1]", "read[threads=8]"]
        );
        assert_eq!(names(&[&[("threads", "1")], &[("threads", "1")]]), ["read"]);
        assert_eq!(names(&[&[("sync", "on")], &[]]), ["read[sync=on]", "read"]);
    }

    #[test]
    fn versions_and_paths_appear_only_where_nothing_else_distinguishes() {
        assert_eq!(
            names(&[&[("threads", "1"), ("version", "1")], &[("threads", "8"), ("version", "2")]]),
            ["read[threads=1]", "read[threads=8]"]
        );
        assert_eq!(
            names(&[&[("version", "1")], &[("version", "2")]]),
            ["read[version=1]", "read[version=2]"]
        );
    }
}
