//! Samples in one shape, whatever they came from.

use fsarena_core::sample::Direction;
use std::collections::BTreeMap;

/// All samples of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// The file.
    pub origin: String,
    /// The format it was in.
    pub format: &'static str,
    /// The series, in the order of the file.
    pub series: Vec<Series>,
}

/// One quantity, measured again and again.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The benchmark, task or command. Empty if the file does not say.
    pub name: String,
    /// Its metric: `elapsed`, `ns/op`.
    pub metric: String,
    /// Its unit as the file has it; empty where the file does not say.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// Every value, in the order of the file.
    pub values: Vec<f64>,
    /// The mean value of each round; None where some value has no round.
    pub rounds: Option<BTreeMap<String, f64>>,
}

/// What importers put samples into.
#[derive(Debug, Default)]
pub struct Collector {
    /// The series so far, in the order of the file.
    pub series: Vec<Series>,
    places: BTreeMap<(String, String), usize>,
    /// Values seen of each round, for their mean.
    counts: Vec<BTreeMap<String, f64>>,
}

/// What a sample is of.
#[derive(Debug, Clone, Copy)]
pub struct Quantity<'a> {
    /// See [`Series::name`].
    pub name: &'a str,
    /// See [`Series::metric`].
    pub metric: &'a str,
    /// See [`Series::unit`].
    pub unit: &'a str,
    /// See [`Series::direction`].
    pub direction: Direction,
}

impl Collector {
    /// Takes a sample of a metric whose unit says which way is better.
    pub fn add(&mut self, name: &str, (metric, unit): (&str, &str), round: Option<&str>, value: f64) {
        let direction = direction(unit).unwrap_or(Direction::Neutral);
        self.push(Quantity { name, metric, unit, direction }, round, value);
    }

    /// Takes a sample, and leaves it out if it is not a finite number.
    pub fn push(&mut self, quantity: Quantity, round: Option<&str>, value: f64) {
        if !value.is_finite() {
            return;
        }
        let at = self.place(quantity);
        let series = &mut self.series[at];
        series.values.push(value);
        match (round, &mut series.rounds) {
            (Some(round), Some(rounds)) => {
                let count = self.counts[at].entry(round.to_string()).or_insert(0.0);
                *count += 1.0;
                let mean = rounds.entry(round.to_string()).or_insert(0.0);
                // The difference of two finite numbers may be none.
                *mean += value / *count - *mean / *count;
            }
            _ => series.rounds = None,
        }
    }

    fn place(&mut self, quantity: Quantity) -> usize {
        let key = (quantity.name.to_string(), quantity.metric.to_string());
        *self.places.entry(key).or_insert_with(|| {
            self.series.push(Series {
                name: quantity.name.into(),
                metric: quantity.metric.into(),
                unit: quantity.unit.into(),
                direction: quantity.direction,
                values: vec![],
                rounds: Some(BTreeMap::new()),
            });
            self.counts.push(BTreeMap::new());
            self.series.len() - 1
        })
    }
}

/// Which way is better, by the unit: of what comes a second there should be more, of all else less.
/// None where the unit says nothing.
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

    const TIME: Quantity = Quantity { name: "cp", metric: "time", unit: "s", direction: Direction::Lower };

    #[test]
    fn several_values_of_a_round_are_their_mean() {
        let mut collector = Collector::default();
        for (round, value) in [("1", 1.0), ("2", 5.0), ("1", 3.0), ("3", f64::NAN)] {
            collector.push(TIME, Some(round), value);
        }
        let samples = collector;
        assert_eq!(samples.series[0].values, [1.0, 5.0, 3.0]);
        let rounds = samples.series[0].rounds.clone().unwrap();
        assert_eq!(rounds.into_iter().collect::<Vec<_>>(), [("1".into(), 2.0), ("2".into(), 5.0)]);
        let mut collector = Collector::default();
        [1e308, -1e308].into_iter().for_each(|value| collector.push(TIME, Some("1"), value));
        assert_eq!(collector.series[0].rounds.as_ref().unwrap()["1"], 0.0);
    }

    #[test]
    fn one_value_without_a_round_ends_the_pairing() {
        let mut collector = Collector::default();
        collector.push(TIME, Some("1"), 1.0);
        collector.push(TIME, None, 1.0);
        collector.push(TIME, Some("2"), 1.0);
        assert_eq!(collector.series[0].rounds, None);
    }

    #[test]
    fn rates_should_be_high_and_costs_low() {
        let of = ["MB/s", "ops/sec", "per_s", "ns/op", "B/op", "s", "ms", "percent"].map(direction);
        let (up, down) = (Some(Direction::Higher), Some(Direction::Lower));
        assert_eq!(of, [up, up, up, down, down, down, down, None]);
    }
}
