//! The definition of a metric: its unit, which direction is better, its scope, and how several values combine.

use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// What a reading measures: the work or the whole machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The work: each client has its own value.
    Process,
    /// The whole machine: all clients on it read the same counters.
    Machine,
}

crate::named_enum! {
    /// How several values combine into one.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Fold {
        /// Their sum.
        Sum = "sum",
        /// The largest. For a percentile it is an upper bound of the percentile of all values.
        Max = "max",
        /// The smallest.
        Min = "min",
        /// Their mean.
        Mean = "mean",
        /// The sum of the amounts behind the rates, divided by the time from the first start to the last end. Only clients
        /// combine like this, not tasks.
        Rate = "rate",
        /// Not at all: several values have no meaningful combination.
        None = "none",
    }
}

impl Fold {
    /// Combines values. None for an empty list, and for [`Fold::Rate`] and [`Fold::None`]. NaN if one of the values is NaN.
    pub fn combine(self, values: impl IntoIterator<Item = f64>) -> Option<f64> {
        let values = values.into_iter();
        match self {
            Fold::Sum => values.reduce(|a, b| a + b),
            Fold::Max => values.reduce(|a, b| pick_unless_nan(a, b, a > b)),
            Fold::Min => values.reduce(|a, b| pick_unless_nan(a, b, a <= b)),
            Fold::Mean => {
                let (count, sum) = values.fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
                (count > 0.0).then(|| sum / count)
            }
            Fold::Rate | Fold::None => None,
        }
    }

    /// The name of the combined value of all tasks: `total`, `mean`. None for [`Fold::Rate`] and [`Fold::None`].
    pub const fn total_name(self) -> Option<&'static str> {
        match self {
            Fold::Sum => Some("total"),
            Fold::Max => Some("largest"),
            Fold::Min => Some("smallest"),
            Fold::Mean => Some("mean"),
            Fold::Rate | Fold::None => None,
        }
    }
}

/// Returns `a` if `picks_first`, else `b`; NaN if either is NaN.
fn pick_unless_nan(a: f64, b: f64, picks_first: bool) -> f64 {
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    if picks_first { a } else { b }
}

/// How the values of a metric combine: over tasks, over clients, and over machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FoldRules {
    /// The tasks of a cell, one after the other.
    pub tasks: Fold,
    /// The clients of one machine, at the same time: ranks of an MPI job.
    pub ranks: Fold,
    /// The machines.
    pub hosts: Fold,
}

impl FoldRules {
    /// The same combination over tasks, clients and machines.
    pub const fn all(fold: Fold) -> FoldRules {
        FoldRules { tasks: fold, ranks: fold, hosts: fold }
    }

    /// The default combination for a unit. Times may be latencies, so they are not summed.
    pub const fn of_unit(unit: Unit) -> FoldRules {
        let clients = match unit {
            Unit::Bytes | Unit::Count => return FoldRules::all(Fold::Sum),
            Unit::Nanoseconds | Unit::Seconds => Fold::Max,
            Unit::Ratio | Unit::Percent => Fold::Mean,
            Unit::PerSecond | Unit::BytesPerSecond => Fold::Rate,
        };
        FoldRules { tasks: Fold::None, ranks: clients, hosts: clients }
    }
}

/// The definition of a metric or reading.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MetricSpec<Text = String> {
    /// The name in the store, in claims and on the command line: `device_write_bytes`. Unique among readings and metrics.
    pub id: Text,
    /// Its unit.
    pub unit: Unit,
    /// Which way is better.
    pub direction: Direction,
    /// Whether it measures the work or the whole machine.
    pub scope: Scope,
    /// How its values combine.
    pub over: FoldRules,
    /// The numerator and the denominator, if the metric is a quotient. Quotients are never combined themselves: over several
    /// tasks or clients the value is the combined numerator divided by the combined denominator.
    #[serde(rename = "of", default, skip_serializing_if = "Option::is_none")]
    pub quotient_of: Option<[Text; 2]>,
    /// How it is measured or computed, and what it means; also whether the kernel only samples it at timer ticks.
    pub help: Text,
}

/// The definition of a built-in reading or metric. Each probe defines the readings that it takes.
pub type ReadingDef = MetricSpec<&'static str>;

impl<Text> MetricSpec<Text> {
    /// A metric of the work, whose values combine by the defaults of its unit.
    pub const fn new(id: Text, unit: Unit, direction: Direction, help: Text) -> MetricSpec<Text> {
        MetricSpec {
            id,
            unit,
            direction,
            scope: Scope::Process,
            over: FoldRules::of_unit(unit),
            quotient_of: None,
            help,
        }
    }

    /// The name of the combined value of all tasks: `total`, `largest`. None if the values of tasks do not combine.
    pub const fn total_name(&self) -> Option<&'static str> {
        if self.quotient_of.is_some() { Fold::Sum.total_name() } else { self.over.tasks.total_name() }
    }
}

/// `lower`, `higher` and `neutral` construct a definition; the other methods return it with one property changed.
impl ReadingDef {
    /// A reading whose lower values are better.
    pub const fn lower(id: &'static str, unit: Unit) -> ReadingDef {
        ReadingDef::new(id, unit, Direction::Lower, "")
    }

    /// A reading whose higher values are better.
    pub const fn higher(id: &'static str, unit: Unit) -> ReadingDef {
        ReadingDef::new(id, unit, Direction::Higher, "")
    }

    /// A reading for which neither direction is better.
    pub const fn neutral(id: &'static str, unit: Unit) -> ReadingDef {
        ReadingDef::new(id, unit, Direction::Neutral, "")
    }

    /// Sets how it is measured, and what it means.
    pub const fn help(self, help: &'static str) -> ReadingDef {
        ReadingDef { help, ..self }
    }

    /// Sets how it combines over tasks.
    pub const fn tasks(self, tasks: Fold) -> ReadingDef {
        ReadingDef { over: FoldRules { tasks, ..self.over }, ..self }
    }

    /// Sets how it combines over clients, on one machine and over machines.
    pub const fn clients(self, fold: Fold) -> ReadingDef {
        ReadingDef { over: FoldRules { ranks: fold, hosts: fold, ..self.over }, ..self }
    }

    /// Makes it an amount of the whole machine, which counts once for each machine, not for each client.
    pub const fn machine(self) -> ReadingDef {
        let over = FoldRules { ranks: Fold::Max, hosts: Fold::Sum, ..self.over };
        ReadingDef { scope: Scope::Machine, over, ..self }
    }

    /// Makes it the quotient of two other readings, numerator first.
    pub const fn quotient_of(self, parts: [&'static str; 2]) -> ReadingDef {
        ReadingDef { quotient_of: Some(parts), ..self }
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
            quotient_of: def.quotient_of.map(|parts| parts.map(String::from)),
            help: def.help.into(),
        }
    }
}

impl MetricSpec {
    /// Divides the numerator by the denominator, each given with its unit. The result is in the unit of the metric; None
    /// unless the denominator is above zero.
    pub fn quotient(&self, parts: [(f64, Unit); 2]) -> Option<f64> {
        let [(numerator, numerator_unit), (denominator, denominator_unit)] = parts;
        let factor = numerator_unit.in_base_units() / (denominator_unit.in_base_units() * self.unit.in_base_units());
        (denominator > 0.0).then(|| numerator / denominator * factor)
    }

    /// Whether another definition is equal apart from its help.
    pub fn is_same_metric(&self, other: &MetricSpec) -> bool {
        let definition = |spec: &MetricSpec| (spec.unit, spec.direction, spec.scope, spec.over);
        self.id == other.id && definition(self) == definition(other) && self.quotient_of == other.quotient_of
    }
}

/// The form in which a command declares a metric: `commit_time_s s lower over=sum`. Combinations that are the defaults of
/// the unit are left out.
impl Display for MetricSpec {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let MetricSpec { id, unit, direction, over, quotient_of, .. } = self;
        write!(f, "{id} {} {}", unit.suffix(), direction.name())?;
        let FoldRules { tasks, ranks, hosts } = over;
        if tasks == ranks && tasks == hosts {
            if *over != FoldRules::of_unit(*unit) {
                write!(f, " over={}", tasks.name())?;
            }
        } else {
            let default = FoldRules::of_unit(*unit);
            for (kind, fold, default_fold) in
                [("tasks", tasks, default.tasks), ("ranks", ranks, default.ranks), ("hosts", hosts, default.hosts)]
            {
                if *fold != default_fold {
                    write!(f, " over_{kind}={}", fold.name())?;
                }
            }
        }
        match quotient_of {
            Some([numerator, denominator]) => write!(f, " of={numerator}/{denominator}"),
            None => Ok(()),
        }
    }
}

/// The unit of a reading or a metric. Its symbol is part of names in JSON and CSV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A number of things.
    Count,
    /// Per cent.
    Percent,
    /// A quotient without a unit.
    Ratio,
    /// Operations or other events per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
}

impl Unit {
    /// Every unit in the order of the enum, with its suffix in JSON and CSV and its symbol in reports.
    const WITH_SUFFIX_AND_SYMBOL: [(Unit, &str, &str); 8] = [
        (Unit::Nanoseconds, "ns", "ns"),
        (Unit::Seconds, "s", "s"),
        (Unit::Bytes, "bytes", "B"),
        (Unit::Count, "count", ""),
        (Unit::Percent, "percent", "%"),
        (Unit::Ratio, "ratio", "×"),
        (Unit::PerSecond, "per_s", "/s"),
        (Unit::BytesPerSecond, "bytes_per_s", "B/s"),
    ];

    /// Every suffix.
    pub fn suffixes() -> impl Iterator<Item = &'static str> {
        Unit::WITH_SUFFIX_AND_SYMBOL.iter().map(|(_, suffix, _)| *suffix)
    }

    /// The suffix of names in JSON and CSV: `elapsed_s`.
    pub const fn suffix(self) -> &'static str {
        Unit::WITH_SUFFIX_AND_SYMBOL[self as usize].1
    }

    /// The symbol after a number in reports.
    pub const fn symbol(self) -> &'static str {
        Unit::WITH_SUFFIX_AND_SYMBOL[self as usize].2
    }

    /// One of this unit in the base unit of its quantity: 1e-9 for nanoseconds, 0.01 for per cent.
    pub const fn in_base_units(self) -> f64 {
        match self {
            Unit::Nanoseconds => 1e-9,
            Unit::Percent => 0.01,
            _ => 1.0,
        }
    }

    /// The name of a metric with its unit; adds the suffix unless the name already ends with it.
    pub fn with_suffix(self, id: &str) -> String {
        format!("{}_{}", self.without_suffix(id), self.suffix())
    }

    /// The name of a metric without its unit.
    pub fn without_suffix(self, id: &str) -> &str {
        id.strip_suffix(self.suffix()).and_then(|rest| rest.strip_suffix('_')).unwrap_or(id)
    }

    /// Whether both measure the same: `s` and `ns`, `percent` and `ratio`.
    pub fn is_of_same_quantity(self, other: Unit) -> bool {
        const SAME_QUANTITY: [[Unit; 2]; 2] = [[Unit::Nanoseconds, Unit::Seconds], [Unit::Percent, Unit::Ratio]];
        self == other || SAME_QUANTITY.iter().any(|units| units.contains(&self) && units.contains(&other))
    }

    /// Finds a unit by its suffix.
    pub fn from_suffix(suffix: &str) -> Option<Unit> {
        Unit::WITH_SUFFIX_AND_SYMBOL.iter().find(|(_, unit_suffix, _)| *unit_suffix == suffix).map(|(unit, ..)| *unit)
    }
}

crate::named_enum! {
    /// Which way is better.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Direction {
        /// Less is better: time, CPU, bytes.
        Lower = "lower",
        /// More is better: throughput, usable space.
        Higher = "higher",
        /// Neither: the value describes the circumstances of a measurement.
        Neutral = "neutral",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fold_combines_all_values_and_passes_nan_on() {
        let combined = |fold: Fold, values: &[f64]| fold.combine(values.iter().copied());
        assert_eq!(combined(Fold::Sum, &[1.0, 2.0, 6.0]), Some(9.0));
        assert_eq!(combined(Fold::Max, &[1.0, 6.0, 2.0]), Some(6.0));
        assert_eq!(combined(Fold::Min, &[2.0, 1.0, 6.0]), Some(1.0));
        assert_eq!(combined(Fold::Mean, &[1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(
            (combined(Fold::None, &[1.0]), combined(Fold::Rate, &[1.0]), combined(Fold::Sum, &[])),
            (None, None, None)
        );
        for fold in [Fold::Sum, Fold::Max, Fold::Min, Fold::Mean] {
            assert!(
                combined(fold, &[1.0, f64::NAN]).unwrap().is_nan()
                    && combined(fold, &[f64::NAN, 1.0]).unwrap().is_nan()
            );
        }
    }

    #[test]
    fn quotients_are_in_the_unit_of_the_metric() {
        let spec = |unit| MetricSpec::new("x".to_string(), unit, Direction::Lower, String::new());
        let (two_s, four) = ((2e9, Unit::Nanoseconds), (4.0, Unit::Count));
        let assert_quotient = |unit, parts, value: f64| {
            assert!((spec(unit).quotient(parts).unwrap() / value - 1.0).abs() < 1e-12, "{unit:?}");
        };
        assert_quotient(Unit::Seconds, [two_s, four], 0.5);
        assert_quotient(Unit::Nanoseconds, [two_s, four], 5e8);
        assert_quotient(Unit::PerSecond, [four, two_s], 2.0);
        assert_quotient(Unit::Percent, [(1.0, Unit::Bytes), (4.0, Unit::Bytes)], 25.0);
        assert_eq!(spec(Unit::Ratio).quotient([four, (0.0, Unit::Count)]), None);
    }

    #[test]
    fn display_leaves_out_combinations_that_are_the_default() {
        let spec = MetricSpec::new("tps_per_s".to_string(), Unit::PerSecond, Direction::Higher, String::new());
        assert_eq!(spec.to_string(), "tps_per_s per_s higher");
        assert_eq!(
            MetricSpec { over: FoldRules::all(Fold::Max), ..spec.clone() }.to_string(),
            "tps_per_s per_s higher over=max"
        );
        let over = FoldRules { tasks: Fold::Mean, ..spec.over };
        let quotient_of = Some(["a".to_string(), "b".to_string()]);
        assert_eq!(
            MetricSpec { over, quotient_of, ..spec }.to_string(),
            "tps_per_s per_s higher over_tasks=mean of=a/b"
        );
    }

    #[test]
    fn with_suffix_does_not_repeat_a_unit_that_the_name_has() {
        assert_eq!(Unit::Seconds.with_suffix("elapsed"), "elapsed_s");
        assert_eq!(Unit::Seconds.with_suffix("lat_ns"), "lat_ns_s");
        assert_eq!(Unit::Seconds.with_suffix("ios"), "ios_s");
        assert_eq!(Unit::Bytes.with_suffix("device_write_bytes"), "device_write_bytes");
        assert_eq!(Unit::Bytes.with_suffix("bytes"), "bytes_bytes");
        assert_eq!(Unit::Percent.with_suffix("cpu_utilization"), "cpu_utilization_percent");
    }
}
