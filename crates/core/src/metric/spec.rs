//! The definition of a metric: unit, better direction, whose it is, and how its values combine.

use crate::unit::{Direction, Unit};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// Whose figure a reading is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The work's own: each client has one of its own.
    Process,
    /// The whole machine's: all clients on one machine read the same counters.
    Machine,
}

/// How several values make one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fold {
    /// Their sum.
    Sum,
    /// The largest. Of percentiles, that is an upper bound of the percentile of all.
    Max,
    /// The smallest.
    Min,
    /// Their mean.
    Mean,
    /// The amounts of all, in the time of all. Only clients have that, tasks have not.
    Rate,
    /// None: one value says nothing about all.
    None,
}

impl Fold {
    /// Every one, as declarations name them.
    pub const ALL: [Fold; 6] = [Fold::Sum, Fold::Max, Fold::Min, Fold::Mean, Fold::Rate, Fold::None];

    /// The word in declarations, in the store and in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Fold::Sum => "sum",
            Fold::Max => "max",
            Fold::Min => "min",
            Fold::Mean => "mean",
            Fold::Rate => "rate",
            Fold::None => "none",
        }
    }

    /// The one value that these make; none of no values, and of those that make none. A NaN among them makes a NaN.
    pub fn of(self, values: impl IntoIterator<Item = f64>) -> Option<f64> {
        let picked = |a: f64, b: f64, larger: bool| match (a.is_nan() || b.is_nan(), (a > b) == larger) {
            (true, _) => f64::NAN,
            (false, true) => a,
            (false, false) => b,
        };
        let values = values.into_iter();
        match self {
            Fold::Sum => values.reduce(|a, b| a + b),
            Fold::Max => values.reduce(|a, b| picked(a, b, true)),
            Fold::Min => values.reduce(|a, b| picked(a, b, false)),
            Fold::Mean => {
                let (count, sum) = values.fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
                (count > 0.0).then(|| sum / count)
            }
            Fold::Rate | Fold::None => None,
        }
    }

    /// The name of what it makes of all tasks; none where it makes nothing.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Fold::Sum => Some("total"),
            Fold::Max => Some("largest"),
            Fold::Min => Some("smallest"),
            Fold::Mean => Some("mean"),
            Fold::Rate | Fold::None => None,
        }
    }
}

/// How the values of a metric combine, for each thing that a run has several of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Over {
    /// The tasks of a cell, one after the other.
    pub tasks: Fold,
    /// The clients of one machine, at the same time: ranks of an MPI job.
    pub ranks: Fold,
    /// The machines.
    pub hosts: Fold,
}

impl Over {
    /// The same for all.
    pub const fn all(fold: Fold) -> Over {
        Over { tasks: fold, ranks: fold, hosts: fold }
    }

    /// How metrics of a unit combine where nothing else is declared. Times may be latencies, which never add up.
    pub const fn by(unit: Unit) -> Over {
        let clients = match unit {
            Unit::Bytes | Unit::Count => return Over::all(Fold::Sum),
            Unit::Nanoseconds | Unit::Seconds => Fold::Max,
            Unit::Ratio | Unit::Percent => Fold::Mean,
            Unit::PerSecond | Unit::BytesPerSecond => Fold::Rate,
        };
        Over { tasks: Fold::None, ranks: clients, hosts: clients }
    }
}

/// What a metric means.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MetricSpec<Text = String> {
    /// The name in the store, in claims and on the command line: `device_write_bytes`. Unique among readings and metrics.
    pub id: Text,
    /// Its unit.
    pub unit: Unit,
    /// Which way is better.
    pub direction: Direction,
    /// Whose it is.
    pub scope: Scope,
    /// How its values combine.
    pub over: Over,
    /// The metrics whose quotient it is, numerator first: of several tasks or clients it is the quotient of what these
    /// combine to, and quotients are never combined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<[Text; 2]>,
    /// How it was measured or computed, and what it means. Says so where the kernel samples it by ticks.
    pub help: Text,
}

/// The definition of a reading or metric of fsarena's own. A probe defines the readings that it takes.
pub type ReadingDef = MetricSpec<&'static str>;

impl<Text> MetricSpec<Text> {
    /// A metric of the work itself whose values combine as those of its unit do.
    pub const fn new(id: Text, unit: Unit, direction: Direction, help: Text) -> MetricSpec<Text> {
        MetricSpec { id, unit, direction, scope: Scope::Process, over: Over::by(unit), of: None, help }
    }

    /// The name of what all tasks together make: `total`, `largest`. None where only single tasks have the metric.
    pub const fn whole(&self) -> Option<&'static str> {
        if self.of.is_some() { Fold::Sum.name() } else { self.over.tasks.name() }
    }
}

/// Constructors by which way is better; the other methods complete them.
impl ReadingDef {
    /// A reading of which less is better.
    pub const fn lower(id: &'static str, unit: Unit) -> ReadingDef {
        ReadingDef::new(id, unit, Direction::Lower, "")
    }

    /// A reading of which more is better.
    pub const fn higher(id: &'static str, unit: Unit) -> ReadingDef {
        ReadingDef::new(id, unit, Direction::Higher, "")
    }

    /// A reading of which neither is better.
    pub const fn neutral(id: &'static str, unit: Unit) -> ReadingDef {
        ReadingDef::new(id, unit, Direction::Neutral, "")
    }

    /// The same with how it was measured, and what it means.
    pub const fn help(self, help: &'static str) -> ReadingDef {
        ReadingDef { help, ..self }
    }

    /// The same with how it combines over tasks.
    pub const fn tasks(self, tasks: Fold) -> ReadingDef {
        ReadingDef { over: Over { tasks, ..self.over }, ..self }
    }

    /// The same with how it combines over clients, on one machine or several.
    pub const fn clients(self, fold: Fold) -> ReadingDef {
        ReadingDef { over: Over { ranks: fold, hosts: fold, ..self.over }, ..self }
    }

    /// The same read from the whole machine, as an amount: once for each machine, whatever number of clients it has.
    pub const fn machine(self) -> ReadingDef {
        let over = Over { ranks: Fold::Max, hosts: Fold::Sum, ..self.over };
        ReadingDef { scope: Scope::Machine, over, ..self }
    }

    /// The same as a quotient of two other readings.
    pub const fn of(self, parts: [&'static str; 2]) -> ReadingDef {
        ReadingDef { of: Some(parts), ..self }
    }
}

impl From<&ReadingDef> for MetricSpec {
    fn from(def: &ReadingDef) -> MetricSpec {
        MetricSpec {
            id: def.id.into(),
            unit: def.unit,
            direction: def.direction,
            scope: def.scope,
            over: def.over,
            of: def.of.map(|parts| parts.map(String::from)),
            help: def.help.into(),
        }
    }
}

impl MetricSpec {
    /// The quotient of amounts of its parts, in its own unit. None where the second is not above zero.
    pub fn quotient(&self, parts: [(f64, Unit); 2]) -> Option<f64> {
        let [(above, unit), (below, unit_below)] = parts;
        let worth = unit.worth() / (unit_below.worth() * self.unit.worth());
        (below > 0.0).then(|| above / below * worth)
    }

    /// Whether another definition means the same; their help may differ.
    pub fn means(&self, other: &MetricSpec) -> bool {
        let all = |spec: &MetricSpec| (spec.unit, spec.direction, spec.scope, spec.over);
        self.id == other.id && all(self) == all(other) && self.of == other.of
    }
}

/// As a command prints it: `tps_per_s per_s higher over_tasks=none over_ranks=rate over_hosts=rate`, without what follows
/// from the unit.
impl Display for MetricSpec {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let MetricSpec { id, unit, direction, over, of, .. } = self;
        write!(f, "{id} {} {}", unit.suffix(), direction.word())?;
        let Over { tasks, ranks, hosts } = over;
        if tasks == ranks && tasks == hosts {
            if *over != Over::by(*unit) {
                write!(f, " over={}", tasks.word())?;
            }
        } else {
            let usual = Over::by(*unit);
            for (what, fold, usual) in
                [("tasks", tasks, usual.tasks), ("ranks", ranks, usual.ranks), ("hosts", hosts, usual.hosts)]
            {
                if *fold != usual {
                    write!(f, " over_{what}={}", fold.word())?;
                }
            }
        }
        match of {
            Some([above, below]) => write!(f, " of={above}/{below}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_are_of_all_values() {
        let of = |fold: Fold, values: &[f64]| fold.of(values.iter().copied());
        assert_eq!(of(Fold::Sum, &[1.0, 2.0, 6.0]), Some(9.0));
        assert_eq!(of(Fold::Max, &[1.0, 6.0, 2.0]), Some(6.0));
        assert_eq!(of(Fold::Min, &[2.0, 1.0, 6.0]), Some(1.0));
        assert_eq!(of(Fold::Mean, &[1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!((of(Fold::None, &[1.0]), of(Fold::Rate, &[1.0]), of(Fold::Sum, &[])), (None, None, None));
        for fold in [Fold::Sum, Fold::Max, Fold::Min, Fold::Mean] {
            assert!(
                of(fold, &[1.0, f64::NAN]).unwrap().is_nan() && of(fold, &[f64::NAN, 1.0]).unwrap().is_nan()
            );
        }
    }

    #[test]
    fn quotients_are_in_the_unit_of_the_metric() {
        let spec = |unit| MetricSpec::new("x".to_string(), unit, Direction::Lower, String::new());
        let (two_s, four) = ((2e9, Unit::Nanoseconds), (4.0, Unit::Count));
        let is = |unit, parts, value: f64| {
            assert!((spec(unit).quotient(parts).unwrap() / value - 1.0).abs() < 1e-12, "{unit:?}");
        };
        is(Unit::Seconds, [two_s, four], 0.5);
        is(Unit::Nanoseconds, [two_s, four], 5e8);
        is(Unit::PerSecond, [four, two_s], 2.0);
        is(Unit::Percent, [(1.0, Unit::Bytes), (4.0, Unit::Bytes)], 25.0);
        assert_eq!(spec(Unit::Ratio).quotient([four, (0.0, Unit::Count)]), None);
    }

    #[test]
    fn declarations_name_what_is_unusual() {
        let spec =
            MetricSpec::new("tps_per_s".to_string(), Unit::PerSecond, Direction::Higher, String::new());
        assert_eq!(spec.to_string(), "tps_per_s per_s higher");
        assert_eq!(
            MetricSpec { over: Over::all(Fold::Max), ..spec.clone() }.to_string(),
            "tps_per_s per_s higher over=max"
        );
        let over = Over { tasks: Fold::Mean, ..spec.over };
        let of = Some(["a".to_string(), "b".to_string()]);
        assert_eq!(
            MetricSpec { over, of, ..spec }.to_string(),
            "tps_per_s per_s higher over_tasks=mean of=a/b"
        );
    }
}
