//! The one place that every reader goes through: it makes series of the runs of a file.

use super::distinct::Distinctions;
use super::reading::{Conditions, Figure, Reading};
use super::series::{LeftOut, Samples, Series};
use std::collections::{BTreeMap, HashMap};

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
    fn place(&mut self, run: usize, key: &(String, Conditions), nth: usize, figure: &Figure) -> usize {
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
}
