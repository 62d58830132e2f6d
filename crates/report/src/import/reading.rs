//! One run of a benchmark as a file states it. Every reader produces readings and nothing else.

use fsarena_core::sample::Direction;

/// One run: its subject, conditions and figures.
///
/// A figure, condition or round that the file does not state is absent; there are no defaults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// The benchmark, task or command. Empty if the file does not name one.
    pub subject: String,
    /// The conditions of the run. Only runs under equal conditions form a series.
    pub conditions: Conditions,
    /// The round, if the file states one.
    pub round: Option<String>,
    /// Why the run failed. A run that failed has no figures: it is left out, counted, and the reason is printed.
    pub failed: Option<String>,
    /// The values that the run measured.
    pub figures: Vec<Figure>,
}

/// A value that a run measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The metric: `elapsed`, `ns/op`.
    pub metric: String,
    /// Its unit as the file has it; empty if the file has none.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// The value.
    pub value: f64,
}

impl Reading {
    /// A run of this benchmark, task or command under these conditions.
    pub fn of(subject: impl Into<String>, conditions: &Conditions) -> Reading {
        Reading { subject: subject.into(), conditions: conditions.clone(), ..Reading::default() }
    }

    /// Adds a figure unless `value` is None. The unit determines which direction is better.
    pub fn figure(&mut self, metric: &str, unit: &str, value: Option<f64>) {
        self.figure_by(metric, unit, direction(unit).unwrap_or(Direction::Neutral), value);
    }

    /// Adds a figure unless `value` is None.
    pub fn figure_by(&mut self, metric: &str, unit: &str, direction: Direction, value: Option<f64>) {
        let figure = |value| Figure { metric: metric.into(), unit: unit.into(), direction, value };
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
        let mut reading = Reading::of("cp", &Conditions::default());
        reading.figure("latency", "ns", None);
        reading.figure("rate", "/s", Some(2.0));
        assert_eq!(reading.figures.len(), 1);
        assert_eq!(reading.figures[0].direction, Direction::Higher);
    }

    #[test]
    fn rates_should_be_high_and_costs_low() {
        let of = ["MB/s", "ops/sec", "per_s", "ns/op", "B/op", "s", "ms", "percent"].map(direction);
        let (up, down) = (Some(Direction::Higher), Some(Direction::Lower));
        assert_eq!(of, [up, up, up, down, down, down, down, None]);
    }
}
