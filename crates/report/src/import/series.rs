//! Samples in one shape, whatever they came from: the runs that a file states, the series that they form, and their names.

use fsarena_core::{number::plural, sample::Direction};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

/// All samples of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// The file.
    pub origin: String,
    /// The format it was in.
    pub format: &'static str,
    /// The series, in the order of the file; those of the metric that people compare first.
    pub series: Vec<Series>,
    /// What the file has and fsarena does not count.
    pub left_out: Vec<LeftOut>,
}

/// One quantity, measured again and again under equal conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The subject, and the conditions by which its series in this file differ: `random read test[threads=8]`.
    pub name: String,
    /// The benchmark, task or command. Empty if the file does not name one.
    pub subject: String,
    /// The conditions of all values.
    pub conditions: Conditions,
    /// Its metric: `elapsed`, `ns/op`.
    pub metric: String,
    /// Its unit as the file has it; empty if the file has none.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// Every value, in the order of the file.
    pub values: Vec<f64>,
    /// The mean value of each round; None if some value has no round.
    pub rounds: Option<BTreeMap<String, f64>>,
}

/// Parts of a file that are not among the samples, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The kind of part: `run`, `row`, `document`.
    pub noun: &'static str,
    /// The benchmark, task or command; empty if it has none.
    pub subject: String,
    /// Why.
    pub why: String,
    /// The number of parts.
    pub count: usize,
}

impl LeftOut {
    /// Lists what was left out, the first five kinds by name; None if nothing was.
    pub fn list(all: &[LeftOut]) -> Option<String> {
        const NAMED: usize = 5;
        let mut words: Vec<String> = all.iter().take(NAMED).map(LeftOut::to_string).collect();
        let others: usize = all.iter().skip(NAMED).map(|one| one.count).sum();
        words.extend((others > 0).then(|| plural(others, "other")));
        (!words.is_empty()).then(|| words.join("; "))
    }
}

impl fmt::Display for LeftOut {
    /// `2 runs of cp: exit code 1`
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.subject.is_empty() { "" } else { " of " };
        write!(out, "{}{of}{}: {}", plural(self.count, self.noun), self.subject, self.why)
    }
}

/// One run: its subject, conditions and figures.
///
/// A figure, condition or round that the file does not state is absent; there are no defaults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolRun {
    /// The benchmark, task or command. Empty if the file does not name one.
    pub subject: String,
    /// The conditions of the run. Only runs under equal conditions form a series.
    pub conditions: Conditions,
    /// The round, if the file states one.
    pub round: Option<String>,
    /// Why the run failed. A run that failed has no figures: it is left out, counted, and the reason is printed.
    pub failed: Option<String>,
    /// The values that the run measured.
    pub figures: Vec<ToolFigure>,
}

/// A value that a run measured.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolFigure {
    /// The metric: `elapsed`, `ns/op`.
    pub metric: String,
    /// Its unit as the file has it; empty if the file has none.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// The value.
    pub value: f64,
}

impl ToolRun {
    /// A run of this benchmark, task or command under these conditions.
    pub fn new(subject: impl Into<String>, conditions: &Conditions) -> ToolRun {
        ToolRun { subject: subject.into(), conditions: conditions.clone(), ..ToolRun::default() }
    }

    /// Adds a figure unless `value` is None. The unit determines which direction is better.
    pub fn add_figure(&mut self, metric: &str, unit: &str, value: Option<f64>) {
        self.add_directed_figure(metric, unit, direction_of_unit(unit).unwrap_or(Direction::Neutral), value);
    }

    /// Adds a figure unless `value` is None.
    pub fn add_directed_figure(
        &mut self,
        metric: &str,
        unit: &str,
        direction: Direction,
        value: Option<f64>,
    ) {
        let figure = |value| ToolFigure { metric: metric.into(), unit: unit.into(), direction, value };
        self.figures.extend(value.map(figure));
    }
}

/// The conditions of a run: names and values, in the order in which the reader sets them.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conditions(Vec<(String, String)>);

/// Conditions that are part of the name of a series only if no other condition distinguishes it. They are tried in this
/// order.
pub const LAST_RESORT: [&str; 6] = ["tasks per node", "items", "options", "path", "version", "result"];

impl Conditions {
    /// Sets a condition, or replaces its value. An empty value removes it.
    pub fn set(&mut self, name: &str, value: impl AsRef<str>) {
        let value = value.as_ref().trim();
        let at = self.0.iter().position(|(known, _)| known == name);
        match (at, value.is_empty()) {
            (Some(at), true) => drop(self.0.remove(at)),
            (Some(at), false) => self.0[at].1 = value.into(),
            (None, true) => {}
            (None, false) => self.0.push((name.into(), value.into())),
        }
    }

    /// The value of a condition, if it is stated.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Every condition: its name and its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Which way is better, by the unit: of what comes a second there should be more, of all else less.
/// None where the unit says nothing.
pub fn direction_of_unit(unit: &str) -> Option<Direction> {
    let unit = unit.to_ascii_lowercase();
    let rate = ["/s", "/sec", "per_s", "iops", "bps"].iter().any(|end| unit.ends_with(end));
    let cost = ["ns", "us", "µs", "ms", "s", "sec", "bytes", "b", "/op", "seconds"];
    if rate {
        Some(Direction::Higher)
    } else if cost.iter().any(|end| unit == *end || (end.starts_with('/') && unit.ends_with(end))) {
        Some(Direction::Lower)
    } else {
        None
    }
}

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
    pub fn union(mut self, other: Distinctions) -> Distinctions {
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

/// Takes the readings of a file, and makes series of them: the one place that every reader goes through.
#[derive(Debug, Default)]
pub struct Collector {
    series: Vec<Series>,
    /// Each subject with conditions, and where in `places` its series are.
    runs: HashMap<(String, Conditions), usize>,
    /// The series of each of these, in the order in which runs state their figures.
    places: Vec<Vec<usize>>,
    /// Values seen of each round, for their mean.
    counts: Vec<BTreeMap<String, f64>>,
    left_out: Vec<LeftOut>,
    left_out_places: BTreeMap<(&'static str, String, String), usize>,
}

impl Collector {
    /// Takes a run: its figures become samples of their series, unless the run failed.
    pub fn add_run(&mut self, reading: ToolRun) {
        let ToolRun { subject, conditions, round, failed, figures } = reading;
        if let Some(why) = failed {
            return self.leave_out("run", &subject, &why);
        }
        let key = (subject, conditions);
        let run = self.runs.get(&key).copied().unwrap_or_else(|| {
            self.places.push(vec![]);
            self.runs.insert(key.clone(), self.places.len() - 1);
            self.places.len() - 1
        });
        for (nth, figure) in figures.into_iter().enumerate() {
            if figure.value.is_finite() {
                let at = self.place(run, &key, nth, &figure);
                self.push(at, figure.value, round.as_deref());
            } else {
                self.leave_out("value", &key.0, &format!("{} is not a finite number", figure.metric));
            }
        }
    }

    /// Counts a part of the file that is not among the samples.
    pub fn leave_out(&mut self, noun: &'static str, subject: &str, why: &str) {
        let key = (noun, subject.to_string(), why.to_string());
        let at = *self.left_out_places.entry(key).or_insert_with(|| {
            self.left_out.push(LeftOut { noun, subject: subject.into(), why: why.into(), count: 0 });
            self.left_out.len() - 1
        });
        self.left_out[at].count += 1;
    }

    /// The samples. Series of the metrics in `leads` come first, in that order.
    pub fn into_samples(mut self, origin: &str, format: &'static str, leads: &[&str]) -> Samples {
        let distinctions = Distinctions::among(&self.series);
        self.series.iter_mut().for_each(|series| series.name = distinctions.name(series));
        let lead =
            |series: &Series| leads.iter().position(|metric| *metric == series.metric).unwrap_or(leads.len());
        self.series.sort_by_key(lead);
        Samples { origin: origin.into(), format, series: self.series, left_out: self.left_out }
    }

    fn push(&mut self, at: usize, value: f64, round: Option<&str>) {
        let series = &mut self.series[at];
        series.values.push(value);
        let (Some(round), Some(rounds)) = (round, &mut series.rounds) else {
            series.rounds = None;
            return;
        };
        let counts = &mut self.counts[at];
        match (rounds.get_mut(round), counts.get_mut(round)) {
            (Some(mean), Some(count)) => {
                *count += 1.0;
                // The difference of two finite numbers may be none.
                *mean += value / *count - *mean / *count;
            }
            _ => {
                rounds.insert(round.into(), value);
                counts.insert(round.into(), 1.0);
            }
        }
    }

    /// The series of the nth figure of a run; a new one if it has none.
    fn place(&mut self, run: usize, key: &(String, Conditions), nth: usize, figure: &ToolFigure) -> usize {
        let places = &mut self.places[run];
        let is = |at: &usize| {
            let series = &self.series[*at];
            series.metric == figure.metric && series.unit == figure.unit
        };
        // Runs state their figures in the same order.
        let found = places.get(nth).filter(|at| is(at)).or_else(|| places.iter().find(|at| is(at)));
        if let Some(at) = found {
            return *at;
        }
        places.push(self.series.len());
        self.counts.push(BTreeMap::new());
        self.series.push(Series {
            name: String::new(),
            subject: key.0.clone(),
            conditions: key.1.clone(),
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
    fn conditions_replace_and_nothing_states_nothing() {
        let mut conditions = Conditions::default();
        for (name, value) in [("threads", "1"), ("block size", " 4 KiB "), ("threads", "8"), ("path", "")] {
            conditions.set(name, value);
        }
        assert_eq!(conditions.iter().collect::<Vec<_>>(), [("threads", "8"), ("block size", "4 KiB")]);
        conditions.set("threads", "");
        assert_eq!(conditions.get("threads"), None);
    }

    #[test]
    fn an_absent_figure_is_absent() {
        let mut reading = ToolRun::new("cp", &Conditions::default());
        reading.add_figure("latency", "ns", None);
        reading.add_figure("rate", "/s", Some(2.0));
        assert_eq!(reading.figures.len(), 1);
        assert_eq!(reading.figures[0].direction, Direction::Higher);
    }

    #[test]
    fn rates_should_be_high_and_costs_low() {
        let of = ["MB/s", "ops/sec", "per_s", "ns/op", "B/op", "s", "ms", "percent"].map(direction_of_unit);
        let (up, down) = (Some(Direction::Higher), Some(Direction::Lower));
        assert_eq!(of, [up, up, up, down, down, down, down, None]);
    }

    fn names(runs: &[&[(&str, &str)]]) -> Vec<String> {
        let mut into = Collector::default();
        for run in runs {
            let mut conditions = Conditions::default();
            run.iter().for_each(|(name, value)| conditions.set(name, value));
            let mut reading = ToolRun::new("read", &conditions);
            reading.add_figure("rate", "/s", Some(1.0));
            into.add_run(reading);
        }
        into.into_samples("a", "csv", &[]).series.into_iter().map(|one| one.name).collect()
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

    fn cp(round: Option<&str>, value: f64) -> ToolRun {
        let mut reading = ToolRun::new("cp", &Conditions::default());
        reading.round = round.map(String::from);
        reading.add_figure("time", "s", Some(value));
        reading
    }

    fn collected(readings: Vec<ToolRun>) -> Samples {
        let mut into = Collector::default();
        readings.into_iter().for_each(|reading| into.add_run(reading));
        into.into_samples("a", "csv", &[])
    }

    #[test]
    fn several_values_of_a_round_are_their_mean() {
        let runs = [("1", 1.0), ("2", 5.0), ("1", 3.0), ("3", f64::NAN)];
        let samples = collected(runs.map(|(round, value)| cp(Some(round), value)).to_vec());
        assert_eq!(samples.series[0].values, [1.0, 5.0, 3.0]);
        let rounds = samples.series[0].rounds.clone().unwrap();
        assert_eq!(rounds.into_iter().collect::<Vec<_>>(), [("1".into(), 2.0), ("2".into(), 5.0)]);
        assert_eq!(samples.left_out[0].to_string(), "1 value of cp: time is not a finite number");
        let samples = collected([1e308, -1e308].map(|value| cp(Some("1"), value)).to_vec());
        assert_eq!(samples.series[0].rounds.as_ref().unwrap()["1"], 0.0);
    }

    #[test]
    fn one_value_without_a_round_ends_the_pairing() {
        let samples = collected(vec![cp(Some("1"), 1.0), cp(None, 1.0), cp(Some("2"), 1.0)]);
        assert_eq!(samples.series[0].rounds, None);
    }

    #[test]
    fn a_failed_run_is_no_sample_and_is_counted() {
        let failed = || ToolRun { failed: Some("exit code 1".into()), ..cp(None, 9.0) };
        let samples = collected(vec![cp(None, 1.0), failed(), failed()]);
        assert_eq!(samples.series[0].values, [1.0]);
        assert_eq!(samples.left_out[0].to_string(), "2 runs of cp: exit code 1");
    }

    #[test]
    fn only_equal_conditions_are_pooled() {
        let on = |threads: &str| {
            let mut reading = cp(None, 1.0);
            reading.conditions.set("threads", threads);
            reading
        };
        let samples = collected(vec![on("1"), on("8"), on("1")]);
        let shown: Vec<_> = samples.series.iter().map(|s| (s.name.as_str(), s.values.len())).collect();
        assert_eq!(shown, [("cp[threads=1]", 2), ("cp[threads=8]", 1)]);
    }
}
