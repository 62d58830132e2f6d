//! The metrics that commands of a run declare by printing them, and contradictions between declarations.

use crate::sample::MetricSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A metric, and the task or rule that declared it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Declaration {
    /// The definition.
    pub metric: MetricSpec,
    /// Who declared it: `task build of ext4 in round 1`.
    pub by: String,
}

/// Two declarations of one name that mean different things.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{} was declared as `{}` by {} and as `{}` by {}; give both one meaning, or two names",
        .later.metric.id, .earlier.metric, .earlier.by, .later.metric, .later.by)]
pub struct Contradiction {
    /// The first.
    pub earlier: Declaration,
    /// The one that differs.
    pub later: Declaration,
}

/// Metrics by name, each with its first declaration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Declared(BTreeMap<String, Declaration>);

impl Declared {
    /// Adds a declaration by `by`. Returns whether the name is new; a repeated declaration is not stored.
    ///
    /// # Errors
    /// If an earlier declaration of the name has another meaning.
    pub fn declare(&mut self, metric: &MetricSpec, by: &str) -> Result<bool, Box<Contradiction>> {
        let later = Declaration { metric: metric.clone(), by: by.into() };
        match self.0.get(&metric.id) {
            Some(earlier) if !earlier.metric.means(metric) => {
                Err(Box::new(Contradiction { earlier: earlier.clone(), later }))
            }
            Some(_) => Ok(false),
            None => {
                self.0.insert(metric.id.clone(), later);
                Ok(true)
            }
        }
    }

    /// The declared metric of a name; None if there is none.
    pub fn get(&self, id: &str) -> Option<&MetricSpec> {
        self.0.get(id).map(|declaration| &declaration.metric)
    }

    /// All declared metrics, by name.
    pub fn metrics(&self) -> impl Iterator<Item = &MetricSpec> {
        self.0.values().map(|declaration| &declaration.metric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Direction, Fold, Over, Unit};

    #[test]
    fn one_name_has_one_meaning() {
        let spec =
            |direction, help: &str| MetricSpec::new("x_s".into(), Unit::Seconds, direction, help.into());
        let mut declared = Declared::default();
        assert_eq!(declared.declare(&spec(Direction::Lower, "one"), "task a"), Ok(true));
        assert_eq!(declared.declare(&spec(Direction::Lower, "other"), "task b"), Ok(false));
        let said = declared.declare(&spec(Direction::Higher, "one"), "task c").unwrap_err().to_string();
        assert_eq!(
            said,
            "x_s was declared as `x_s s lower` by task a and as `x_s s higher` by task c; give both one meaning, or two names"
        );
        let summed = MetricSpec { over: Over::all(Fold::Sum), ..spec(Direction::Lower, "one") };
        assert!(
            declared.declare(&summed, "task d").unwrap_err().to_string().contains("`x_s s lower over=sum`")
        );
        let of = Some(["a_s".to_string(), "b_count".to_string()]);
        assert!(declared.declare(&MetricSpec { of, ..spec(Direction::Lower, "one") }, "task e").is_err());
    }
}
