//! The samples of a file as series, in the same structure for every format.

use super::distinct::Distinctions;
use super::reading::{Conditions, Figure, Reading};
use fsarena_core::number::plural;
use fsarena_core::sample::Direction;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// All samples of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// The file.
    pub origin: String,
    /// The format it was in.
    pub format: &'static str,
    /// The series: first those of the metrics that people compare, then the others, each in the order of the file.
    pub series: Vec<Series>,
    /// Parts of the file that are not among the samples.
    pub left_out: Vec<LeftOut>,
}

/// One metric of one subject, measured repeatedly under equal conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The subject, with the conditions that distinguish this series from others of the subject: `read test[threads=8]`.
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
    /// The mean of the values of each round; None if a value has no round.
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
    /// Lists what was left out: the first five kinds, then the number of others. None if nothing was left out.
    pub fn words(all: &[LeftOut]) -> Option<String> {
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

/// Collects the readings of a file into series. Every reader uses it.
#[derive(Debug, Default)]
pub struct Collector {
    series: Vec<Series>,
    /// For each subject with its conditions, an index into `places`.
    runs: HashMap<(String, Conditions), usize>,
    /// For each of these, the indices into `series` of its figures, in the order in which runs state them.
    places: Vec<Vec<usize>>,
    /// For each series, the number of values of each round, from which the mean is updated.
    counts: Vec<BTreeMap<String, f64>>,
    left_out: Vec<LeftOut>,
    /// For each kind of part, its index into `left_out`.
    left_out_places: BTreeMap<(&'static str, String, String), usize>,
}

impl Collector {
    /// Adds the figures of a run to their series. A run that failed is left out.
    pub fn take(&mut self, reading: Reading) {
        let Reading { subject, conditions, round, failed, figures } = reading;
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
    pub fn finish(mut self, origin: &str, format: &'static str, leads: &[&str]) -> Samples {
        let distinctions = Distinctions::among(&self.series);
        self.series.iter_mut().for_each(|series| series.name = distinctions.name(series));
        let lead =
            |series: &Series| leads.iter().position(|metric| *metric == series.metric).unwrap_or(leads.len());
        self.series.sort_by_key(lead);
        Samples { origin: origin.into(), format, series: self.series, left_out: self.left_out }
    }

    /// Adds a value to a series, and updates the mean of its round.
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
                // Divided first, because the difference of two finite numbers can overflow.
                *mean += value / *count - *mean / *count;
            }
            _ => {
                rounds.insert(round.into(), value);
                counts.insert(round.into(), 1.0);
            }
        }
    }

    /// The index of the series of the nth figure of a run; makes the series if it is new.
    fn place(&mut self, run: usize, key: &(String, Conditions), nth: usize, figure: &Figure) -> usize {
        let places = &mut self.places[run];
        let is = |at: &usize| {
            let series = &self.series[*at];
            series.metric == figure.metric && series.unit == figure.unit
        };
        // Usually runs state their figures in the same order, so the nth place is tried first.
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

/// Which direction is better, by the unit: higher for rates, lower for times, sizes and costs per operation. None for other
/// units.
pub fn direction(unit: &str) -> Option<Direction> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn cp(round: Option<&str>, value: f64) -> Reading {
        let mut reading = Reading::of("cp", &Conditions::default());
        reading.round = round.map(String::from);
        reading.figure("time", "s", Some(value));
        reading
    }

    fn collected(readings: Vec<Reading>) -> Samples {
        let mut into = Collector::default();
        readings.into_iter().for_each(|reading| into.take(reading));
        into.finish("a", "csv", &[])
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
        let failed = || Reading { failed: Some("exit code 1".into()), ..cp(None, 9.0) };
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

    #[test]
    fn rates_should_be_high_and_costs_low() {
        let of = ["MB/s", "ops/sec", "per_s", "ns/op", "B/op", "s", "ms", "percent"].map(direction);
        let (up, down) = (Some(Direction::Higher), Some(Direction::Lower));
        assert_eq!(of, [up, up, up, down, down, down, down, None]);
    }
}
