//! The common form of samples from every file format: the runs in a file, the series of values that they form, and the names
//! of these series.

use fsarena_core::{number::plural, sample::Direction};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

/// All samples of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// The name of the file.
    pub origin: String,
    /// The id of the importer that read the file: `fio`, `csv`.
    pub format: &'static str,
    /// The series: first those of the format's lead metrics, then the others in the order of the file.
    pub series: Vec<Series>,
    /// The parts of the file that fsarena leaves out.
    pub left_out: Vec<LeftOut>,
}

/// The values of one metric of one subject, all measured under equal conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The subject and the conditions that distinguish this series from the others in the file:
    /// `random read test[threads=8]`.
    pub name: String,
    /// The benchmark, task or command. Empty if the file does not name one.
    pub subject: String,
    /// The conditions under which all values were measured.
    pub conditions: Conditions,
    /// The metric: `elapsed`, `ns/op`.
    pub metric: String,
    /// The unit as spelled in the file; empty if the file has none.
    pub unit: String,
    /// Whether a higher or a lower value is better.
    pub direction: Direction,
    /// Every value, in the order of the file.
    pub values: Vec<f64>,
    /// The mean value of each round, by the name of the round; `None` if a value has no round.
    pub rounds: Option<BTreeMap<String, f64>>,
}

/// Parts of a file that are not among the samples, all for the same reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The kind of the parts: `run`, `row`, `document`.
    pub kind: &'static str,
    /// The benchmark, task or command; empty if it has none.
    pub subject: String,
    /// The reason: `exit code 1`.
    pub why: String,
    /// The number of parts.
    pub count: usize,
}

impl LeftOut {
    /// Lists the parts in words: the first five entries, then the number of other parts. `None` if `left_out` is empty.
    pub fn describe_all(left_out: &[LeftOut]) -> Option<String> {
        const MAX_ENTRIES: usize = 5;
        if left_out.is_empty() {
            return None;
        }
        let mut entries: Vec<String> = left_out.iter().take(MAX_ENTRIES).map(LeftOut::to_string).collect();
        let others: usize = left_out.iter().skip(MAX_ENTRIES).map(|entry| entry.count).sum();
        if others > 0 {
            entries.push(plural(others, "other"));
        }
        Some(entries.join("; "))
    }
}

impl fmt::Display for LeftOut {
    /// Writes the number of parts, the subject and the reason: `2 runs of cp: exit code 1`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let preposition = if self.subject.is_empty() { "" } else { " of " };
        write!(out, "{}{preposition}{}: {}", plural(self.count, self.kind), self.subject, self.why)
    }
}

/// One run that another tool measured: its subject, conditions and figures.
///
/// A figure, condition or round that the file does not state is missing here; fsarena fills in no defaults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolRun {
    /// The benchmark, task or command. Empty if the file does not name one.
    pub subject: String,
    /// The conditions of the run. Only runs under equal conditions form a series.
    pub conditions: Conditions,
    /// The round, if the file states one.
    pub round: Option<String>,
    /// Why the run failed; `None` if it succeeded. The collector ignores the figures of a failed run, and counts the run among
    /// the parts left out.
    pub failure: Option<String>,
    /// The values that the run measured.
    pub figures: Vec<ToolFigure>,
}

/// A value that a run measured.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolFigure {
    /// The metric: `elapsed`, `ns/op`.
    pub metric: String,
    /// The unit as spelled in the file; empty if the file has none.
    pub unit: String,
    /// Whether a higher or a lower value is better.
    pub direction: Direction,
    /// The value, in this unit.
    pub value: f64,
}

impl ToolRun {
    /// A run of this benchmark, task or command under these conditions, without figures.
    pub fn new(subject: impl Into<String>, conditions: &Conditions) -> ToolRun {
        ToolRun { subject: subject.into(), conditions: conditions.clone(), ..ToolRun::default() }
    }

    /// Adds a figure unless `value` is `None`. The unit determines which direction is better.
    pub fn add_figure(&mut self, metric: &str, unit: &str, value: Option<f64>) {
        self.add_directed_figure(metric, unit, direction_of_unit(unit).unwrap_or(Direction::Neutral), value);
    }

    /// Adds a figure with the direction that is better, unless `value` is `None`.
    pub fn add_directed_figure(&mut self, metric: &str, unit: &str, direction: Direction, value: Option<f64>) {
        if let Some(value) = value {
            self.figures.push(ToolFigure { metric: metric.into(), unit: unit.into(), direction, value });
        }
    }
}

/// The conditions of a run: names and values, in the order in which the importer sets them.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conditions(Vec<(String, String)>);

/// Conditions that are part of the name of a series only if no other condition distinguishes it. They are tried in this
/// order.
pub const LAST_RESORT_CONDITIONS: [&str; 6] = ["tasks per node", "items", "options", "path", "version", "result"];

impl Conditions {
    /// Sets a condition, or replaces its value. An empty value removes the condition.
    pub fn set(&mut self, name: &str, value: impl AsRef<str>) {
        let value = value.as_ref().trim();
        if value.is_empty() {
            self.0.retain(|(known, _)| known != name);
        } else if let Some((_, old)) = self.0.iter_mut().find(|(known, _)| known == name) {
            *old = value.into();
        } else {
            self.0.push((name.into(), value.into()));
        }
    }

    /// The value of a condition; `None` if it is not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The name and the value of each condition.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Which direction is better, by the unit: higher for rates such as `MB/s`, lower for times, sizes and costs per operation.
/// `None` for any other unit.
pub fn direction_of_unit(unit: &str) -> Option<Direction> {
    let unit = unit.to_ascii_lowercase();
    let is_rate = ["/s", "/sec", "per_s", "iops", "bps"].iter().any(|end| unit.ends_with(end));
    let cost_units = ["ns", "us", "µs", "ms", "s", "sec", "bytes", "b", "/op", "seconds"];
    if is_rate {
        Some(Direction::Higher)
    } else if cost_units.iter().any(|end| unit == *end || (end.starts_with('/') && unit.ends_with(end))) {
        Some(Direction::Lower)
    } else {
        None
    }
}

/// For each subject, the names of the conditions in which its series differ.
#[derive(Debug, Default)]
pub struct Distinctions(BTreeMap<String, Vec<String>>);

impl Distinctions {
    /// Finds the conditions in which these series differ, in the order in which the importers set them.
    pub fn among(series: &[Series]) -> Distinctions {
        let mut subjects: BTreeMap<&str, Vec<&Series>> = BTreeMap::new();
        for single_series in series {
            subjects.entry(&single_series.subject).or_default().push(single_series);
        }
        let mut names_by_subject = BTreeMap::new();
        for (subject, series) in subjects {
            names_by_subject.insert(subject.to_string(), distinguishing_conditions(&series));
        }
        Distinctions(names_by_subject)
    }

    /// The union of the distinctions of two files.
    pub fn union(mut self, other: Distinctions) -> Distinctions {
        for (subject, names) in other.0 {
            let all_names = self.0.entry(subject).or_default();
            for name in names {
                if !all_names.contains(&name) {
                    all_names.push(name);
                }
            }
        }
        self
    }

    /// The names of the conditions in which the series with the subject of `series` differ.
    fn condition_names(&self, series: &Series) -> &[String] {
        self.0.get(&series.subject).map_or(&[], Vec::as_slice)
    }

    /// The values of the distinguishing conditions of a series; `None` for a condition that it does not state.
    pub fn values<'a>(&self, series: &'a Series) -> Vec<Option<&'a str>> {
        self.condition_names(series).iter().map(|name| series.conditions.get(name)).collect()
    }

    /// The name of a series: `random read test[threads=8]`.
    pub fn series_name(&self, series: &Series) -> String {
        let mut pairs = vec![];
        for name in self.condition_names(series) {
            if let Some(value) = series.conditions.get(name) {
                pairs.push(format!("{name}={value}"));
            }
        }
        let (subject, conditions) = (&series.subject, pairs.join(","));
        if subject.is_empty() {
            conditions
        } else if conditions.is_empty() {
            subject.clone()
        } else {
            format!("{subject}[{conditions}]")
        }
    }
}

/// The names of the conditions in which the series of one subject differ. A condition of
/// [`LAST_RESORT_CONDITIONS`] is among them only if it distinguishes series that the other conditions do not.
fn distinguishing_conditions(series: &[&Series]) -> Vec<String> {
    let differs = |name: &str| {
        let first = series[0].conditions.get(name);
        series.iter().any(|other| other.conditions.get(name) != first)
    };
    let mut names: Vec<&str> = vec![];
    for (name, _) in series.iter().flat_map(|single_series| single_series.conditions.iter()) {
        if !LAST_RESORT_CONDITIONS.contains(&name) && !names.contains(&name) && differs(name) {
            names.push(name);
        }
    }
    for name in LAST_RESORT_CONDITIONS.into_iter().filter(|name| differs(name)) {
        let distinct_before = count_distinct(series, &names);
        if distinct_before == series.len() {
            break;
        }
        names.push(name);
        if count_distinct(series, &names) == distinct_before {
            names.pop();
        }
    }
    names.into_iter().map(String::from).collect()
}

/// The number of series that differ in their metric or in one of these conditions.
fn count_distinct(series: &[&Series], names: &[&str]) -> usize {
    let mut distinct = BTreeSet::new();
    for single_series in series {
        let values: Vec<Option<&str>> = names.iter().map(|name| single_series.conditions.get(name)).collect();
        distinct.insert((&single_series.metric, values));
    }
    distinct.len()
}

/// The subject of a run, and its conditions sorted by name: runs can state equal conditions in different orders.
type RunKey = (String, BTreeMap<String, String>);

/// Collects the runs of a file into series of samples. Every importer adds its runs here.
#[derive(Debug, Default)]
pub struct SampleCollector {
    series: Vec<Series>,
    /// For each subject under its conditions, the indices of its series in `series`, in the order in which its runs state their
    /// figures.
    series_by_run: HashMap<RunKey, Vec<usize>>,
    /// For each series, the number of values in each round, to compute their mean.
    round_counts: Vec<BTreeMap<String, f64>>,
    left_out: Vec<LeftOut>,
    /// The index in `left_out` of each kind of part, subject and reason.
    left_out_indices: BTreeMap<(&'static str, String, String), usize>,
}

impl SampleCollector {
    /// Adds the figures of a run to their series. A failed run is counted among the parts left out instead.
    pub fn add_run(&mut self, run: ToolRun) {
        let ToolRun { subject, conditions, round, failure, figures } = run;
        if let Some(why) = failure {
            return self.leave_out("run", &subject, &why);
        }
        let key: RunKey = (subject, conditions.0.iter().cloned().collect());
        let mut indices = self.series_by_run.remove(&key).unwrap_or_default();
        for (position, figure) in figures.into_iter().enumerate() {
            if figure.value.is_finite() {
                let index = self.find_or_add_series(&mut indices, (&key.0, &conditions), position, &figure);
                self.add_value(index, figure.value, round.as_deref());
            } else {
                self.leave_out("value", &key.0, &format!("{} is not a finite number", figure.metric));
            }
        }
        self.series_by_run.insert(key, indices);
    }

    /// Counts a part of the file that is not among the samples. `kind` is the kind of part, such as `run`.
    pub fn leave_out(&mut self, kind: &'static str, subject: &str, why: &str) {
        let key = (kind, subject.to_string(), why.to_string());
        let index = *self.left_out_indices.entry(key).or_insert_with(|| {
            self.left_out.push(LeftOut { kind, subject: subject.into(), why: why.into(), count: 0 });
            self.left_out.len() - 1
        });
        self.left_out[index].count += 1;
    }

    /// Returns the collected samples, with the names of their series. The series of `lead_metrics` come first, in that order.
    pub fn into_samples(mut self, origin: &str, format: &'static str, lead_metrics: &[&str]) -> Samples {
        let distinctions = Distinctions::among(&self.series);
        for series in &mut self.series {
            series.name = distinctions.series_name(series);
        }
        self.series.sort_by_key(|series| {
            lead_metrics.iter().position(|metric| *metric == series.metric).unwrap_or(lead_metrics.len())
        });
        Samples { origin: origin.into(), format, series: self.series, left_out: self.left_out }
    }

    /// Adds a value to the series with this index, and to the mean of its round. A value without a round removes the rounds of
    /// the series.
    fn add_value(&mut self, index: usize, value: f64, round: Option<&str>) {
        let series = &mut self.series[index];
        series.values.push(value);
        let (Some(round), Some(rounds)) = (round, &mut series.rounds) else {
            series.rounds = None;
            return;
        };
        let counts = &mut self.round_counts[index];
        match (rounds.get_mut(round), counts.get_mut(round)) {
            (Some(mean), Some(count)) => {
                *count += 1.0;
                // Divide first: `value - *mean` can overflow to infinity.
                *mean += value / *count - *mean / *count;
            }
            _ => {
                rounds.insert(round.into(), value);
                counts.insert(round.into(), 1.0);
            }
        }
    }

    /// The index of the series to which the figure at a position in a run belongs. `indices` are those of the series of runs
    /// with this subject and these conditions; adds a series if none of them has the metric and the unit of the figure.
    fn find_or_add_series(
        &mut self,
        indices: &mut Vec<usize>,
        (subject, conditions): (&str, &Conditions),
        position: usize,
        figure: &ToolFigure,
    ) -> usize {
        let matches = |index: &&usize| {
            let series = &self.series[**index];
            series.metric == figure.metric && series.unit == figure.unit
        };
        // Try the series at the same position first, because runs state their figures in the same order.
        if let Some(index) = indices.get(position).filter(matches).or_else(|| indices.iter().find(matches)) {
            return *index;
        }
        indices.push(self.series.len());
        self.round_counts.push(BTreeMap::new());
        self.series.push(Series {
            name: String::new(),
            subject: subject.into(),
            conditions: conditions.clone(),
            metric: figure.metric.clone(),
            unit: figure.unit.clone(),
            direction: figure.direction,
            values: vec![],
            rounds: Some(BTreeMap::new()),
        });
        self.series.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_a_condition_again_replaces_it_and_an_empty_value_removes_it() {
        let mut conditions = Conditions::default();
        for (name, value) in [("threads", "1"), ("block size", " 4 KiB "), ("threads", "8"), ("path", "")] {
            conditions.set(name, value);
        }
        assert_eq!(conditions.iter().collect::<Vec<_>>(), [("threads", "8"), ("block size", "4 KiB")]);
        conditions.set("threads", "");
        assert_eq!(conditions.get("threads"), None);
    }

    #[test]
    fn a_figure_without_a_value_is_not_added() {
        let mut run = ToolRun::new("cp", &Conditions::default());
        run.add_figure("latency", "ns", None);
        run.add_figure("rate", "/s", Some(2.0));
        assert_eq!(run.figures.len(), 1);
        assert_eq!(run.figures[0].direction, Direction::Higher);
    }

    #[test]
    fn higher_rates_and_lower_costs_are_better() {
        let directions = ["MB/s", "ops/sec", "per_s", "ns/op", "B/op", "s", "ms", "percent"].map(direction_of_unit);
        let (up, down) = (Some(Direction::Higher), Some(Direction::Lower));
        assert_eq!(directions, [up, up, up, down, down, down, down, None]);
    }

    /// The names of the series that runs with the subject `read` form. Each run is given by its conditions.
    fn series_names(runs: &[&[(&str, &str)]]) -> Vec<String> {
        let mut collector = SampleCollector::default();
        for pairs in runs {
            let mut conditions = Conditions::default();
            for (name, value) in *pairs {
                conditions.set(name, value);
            }
            let mut run = ToolRun::new("read", &conditions);
            run.add_figure("rate", "/s", Some(1.0));
            collector.add_run(run);
        }
        collector.into_samples("a", "csv", &[]).series.into_iter().map(|series| series.name).collect()
    }

    #[test]
    fn a_series_name_has_only_the_conditions_that_differ() {
        assert_eq!(
            series_names(&[&[("threads", "1"), ("sync", "on")], &[("threads", "8"), ("sync", "on")]]),
            ["read[threads=1]", "read[threads=8]"]
        );
        assert_eq!(series_names(&[&[("threads", "1")], &[("threads", "1")]]), ["read"]);
        assert_eq!(series_names(&[&[("sync", "on")], &[]]), ["read[sync=on]", "read"]);
    }

    #[test]
    fn versions_are_in_the_name_only_if_no_other_condition_differs() {
        assert_eq!(
            series_names(&[&[("threads", "1"), ("version", "1")], &[("threads", "8"), ("version", "2")]]),
            ["read[threads=1]", "read[threads=8]"]
        );
        assert_eq!(series_names(&[&[("version", "1")], &[("version", "2")]]), ["read[version=1]", "read[version=2]"]);
    }

    fn cp_run(round: Option<&str>, value: f64) -> ToolRun {
        let mut run = ToolRun::new("cp", &Conditions::default());
        run.round = round.map(String::from);
        run.add_figure("time", "s", Some(value));
        run
    }

    fn collect(runs: Vec<ToolRun>) -> Samples {
        let mut collector = SampleCollector::default();
        for run in runs {
            collector.add_run(run);
        }
        collector.into_samples("a", "csv", &[])
    }

    #[test]
    fn a_round_has_the_mean_of_its_values() {
        let runs = [("1", 1.0), ("2", 5.0), ("1", 3.0), ("3", f64::NAN)];
        let samples = collect(runs.map(|(round, value)| cp_run(Some(round), value)).to_vec());
        assert_eq!(samples.series[0].values, [1.0, 5.0, 3.0]);
        let rounds = samples.series[0].rounds.clone().unwrap();
        assert_eq!(rounds.into_iter().collect::<Vec<_>>(), [("1".into(), 2.0), ("2".into(), 5.0)]);
        assert_eq!(samples.left_out[0].to_string(), "1 value of cp: time is not a finite number");
        let samples = collect([1e308, -1e308].map(|value| cp_run(Some("1"), value)).to_vec());
        assert_eq!(samples.series[0].rounds.as_ref().unwrap()["1"], 0.0);
    }

    #[test]
    fn one_value_without_a_round_removes_the_rounds() {
        let samples = collect(vec![cp_run(Some("1"), 1.0), cp_run(None, 1.0), cp_run(Some("2"), 1.0)]);
        assert_eq!(samples.series[0].rounds, None);
    }

    #[test]
    fn failed_runs_are_counted_as_left_out() {
        let failed = || ToolRun { failure: Some("exit code 1".into()), ..cp_run(None, 9.0) };
        let samples = collect(vec![cp_run(None, 1.0), failed(), failed()]);
        assert_eq!(samples.series[0].values, [1.0]);
        assert_eq!(samples.left_out[0].to_string(), "2 runs of cp: exit code 1");
    }

    #[test]
    fn only_runs_under_equal_conditions_share_a_series() {
        let run_with = |threads: &str| {
            let mut run = cp_run(None, 1.0);
            run.conditions.set("threads", threads);
            run
        };
        let samples = collect(vec![run_with("1"), run_with("8"), run_with("1")]);
        let shown: Vec<_> = samples.series.iter().map(|series| (series.name.as_str(), series.values.len())).collect();
        assert_eq!(shown, [("cp[threads=1]", 2), ("cp[threads=8]", 1)]);
    }

    #[test]
    fn the_order_of_conditions_does_not_matter() {
        let run_with = |conditions: [(&str, &str); 2]| {
            let mut run = cp_run(None, 1.0);
            for (name, value) in conditions {
                run.conditions.set(name, value);
            }
            run
        };
        let samples = collect(vec![
            run_with([("note", "cold"), ("goos", "linux")]),
            run_with([("goos", "linux"), ("note", "cold")]),
        ]);
        assert_eq!((samples.series.len(), samples.series[0].values.len()), (1, 2));
    }
}
