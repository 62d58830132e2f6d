//! The metrics that commands of a run declared in their output, and the error for two contradictory declarations. Runs that
//! are merged or compared use the same check for all their metrics.

use crate::sample::MetricSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The declaration of a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Declaration {
    /// The definition of the metric.
    pub metric: MetricSpec,
    /// The origin of the declaration: `task build of ext4 in round 1`.
    #[serde(rename = "by")]
    pub origin: String,
}

/// Two declarations of one name with different definitions.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{} was declared as `{}` by {} and as `{}` by {}; give both one meaning, or two names",
        self.name(), .earlier.metric, .earlier.origin, .later.metric, .later.origin)]
pub struct Contradiction {
    /// The first declaration.
    pub earlier: Declaration,
    /// The declaration that contradicts it.
    pub later: Declaration,
}

impl Contradiction {
    /// The common name of both metrics; without the unit if their units differ.
    fn name(&self) -> &str {
        let later = &self.later.metric;
        if self.earlier.metric.id == later.id { &later.id } else { later.unit.without_suffix(&later.id) }
    }
}

/// The metrics that commands have declared so far, by name, each with its first declaration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeclaredMetrics(BTreeMap<String, Declaration>);

impl DeclaredMetrics {
    /// Adds a declaration of a metric whose definition comes from a run. Returns true if the name is new. Declarations that
    /// differ only in their help texts do not contradict each other.
    ///
    /// # Errors
    /// An earlier declaration of the same name has a different definition.
    pub fn declare(&mut self, metric: &MetricSpec, origin: &str) -> Result<bool, Box<Contradiction>> {
        let later = Declaration { metric: metric.clone(), origin: origin.into() };
        match self.0.get(&metric.id) {
            Some(earlier) if !earlier.metric.is_same_metric(metric) => {
                Err(Box::new(Contradiction { earlier: earlier.clone(), later }))
            }
            Some(_) => Ok(false),
            None => {
                self.0.insert(metric.id.clone(), later);
                Ok(true)
            }
        }
    }

    /// Adds a metric that a command printed. Returns true if the name is new.
    ///
    /// Names that differ only in the unit at their end contradict each other if both units measure the same quantity: `x_s`
    /// and `x_ns` (both are times) do, `x_bytes` and `x_count` do not.
    ///
    /// # Errors
    /// An earlier declaration of the same name has a different definition or unit.
    pub fn declare_printed(&mut self, metric: &MetricSpec, origin: &str) -> Result<bool, Box<Contradiction>> {
        let name = metric.unit.without_suffix(&metric.id);
        let has_other_unit = |earlier: &&Declaration| {
            let unit = earlier.metric.unit;
            let is_same_quantity =
                unit.is_of_same_quantity(metric.unit) && unit.without_suffix(&earlier.metric.id) == name;
            unit != metric.unit && is_same_quantity
        };
        match self.0.values().find(has_other_unit) {
            Some(earlier) => {
                let later = Declaration { metric: metric.clone(), origin: origin.into() };
                Err(Box::new(Contradiction { earlier: earlier.clone(), later }))
            }
            None => self.declare(metric, origin),
        }
    }

    /// Finds a declared metric by its name.
    pub fn get(&self, id: &str) -> Option<&MetricSpec> {
        self.0.get(id).map(|declaration| &declaration.metric)
    }

    /// Every declared metric.
    pub fn metrics(&self) -> impl Iterator<Item = &MetricSpec> {
        self.0.values().map(|declaration| &declaration.metric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Direction, Fold, FoldRules, Unit};

    #[test]
    fn contradictory_declarations_of_a_name_are_errors() {
        let spec = |direction, help: &str| MetricSpec::new("x_s".into(), Unit::Seconds, direction, help.into());
        let mut declared = DeclaredMetrics::default();
        assert_eq!(declared.declare(&spec(Direction::Lower, "one"), "task a"), Ok(true));
        assert_eq!(declared.declare(&spec(Direction::Lower, "other"), "task b"), Ok(false));
        let error = declared.declare(&spec(Direction::Higher, "one"), "task c").unwrap_err().to_string();
        assert_eq!(
            error,
            "x_s was declared as `x_s s lower` by task a and as `x_s s higher` by task c; give both one meaning, or two names"
        );
        let summed = MetricSpec { over: FoldRules::all(Fold::Sum), ..spec(Direction::Lower, "one") };
        assert!(declared.declare(&summed, "task d").unwrap_err().to_string().contains("`x_s s lower over=sum`"));
        let in_ns = MetricSpec::new("x_ns".into(), Unit::Nanoseconds, Direction::Lower, String::new());
        assert_eq!(
            declared.declare_printed(&in_ns, "task f").unwrap_err().to_string(),
            "x was declared as `x_s s lower` by task a and as `x_ns ns lower` by task f; give both one meaning, or two names"
        );
        assert_eq!(declared.declare_printed(&spec(Direction::Lower, "one"), "task g"), Ok(false));
        let quotient_of = Some(["a_s".to_string(), "b_count".to_string()]);
        assert!(declared.declare(&MetricSpec { quotient_of, ..spec(Direction::Lower, "one") }, "task e").is_err());
    }
}
