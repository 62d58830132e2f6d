//! Where two orders of the same arms differ.

use fsarena_stats::comparison::Comparison;
use fsarena_stats::rank::{kendall_tau_b, swapped};
use serde_json::{Value, json};

/// Two orders of the same arms on one task.
pub struct Orders<'a> {
    /// The arms.
    pub names: Vec<&'a str>,
    /// What orders them on the one side; less comes first.
    pub then: Vec<f64>,
    /// What orders them on the other side.
    pub here: Vec<f64>,
    /// Whether a pair was told apart on both sides, as far as that is known.
    pub told_apart: Box<dyn Fn(usize, usize) -> bool + 'a>,
}

impl Orders<'_> {
    /// Who leads: on the one side, and on the other.
    pub fn first(&self) -> (String, String) {
        (self.leaders(&self.then), self.leaders(&self.here))
    }

    fn leaders(&self, values: &[f64]) -> String {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let first =
            self.names.iter().zip(values).filter(|(_, value)| **value == least).map(|(name, _)| *name);
        first.collect::<Vec<_>>().join(" = ")
    }

    /// Kendall's τ-b between the two.
    pub fn tau(&self) -> Option<f64> {
        kendall_tau_b(&self.then, &self.here)
    }

    /// The pairs that changed places: former better, former worse, and whether they were told apart.
    pub fn changes(&self) -> Vec<(&str, &str, bool)> {
        let named = |(i, j): (usize, usize)| (self.names[i], self.names[j], (self.told_apart)(i, j));
        swapped(&self.then, &self.here).into_iter().map(named).collect()
    }

    /// The changes in words; those that were not told apart in brackets, for they may be chance.
    pub fn changes_in_words(&self) -> String {
        let words = |(a, b, sure): (&str, &str, bool)| {
            if sure { format!("{b} passed {a}") } else { format!("({b} passed {a})") }
        };
        let all: Vec<String> = self.changes().into_iter().map(words).collect();
        if all.is_empty() { "same order".into() } else { all.join(", ") }
    }

    /// All of it for programs.
    pub fn json(&self) -> Value {
        let (then, here) = self.first();
        let change = |(passed, by, told_apart): (&str, &str, bool)| json!({"passed": passed, "by": by, "told_apart": told_apart});
        json!({
            "arms": self.names,
            "first_then": then,
            "first_here": here,
            "kendall_tau_b": self.tau(),
            "changes": self.changes().into_iter().map(change).collect::<Vec<_>>(),
        })
    }
}

/// Places in the order of a comparison, from 0: what [`Orders`] takes of a run. None where an arm has no data.
pub fn places(comparison: &Comparison, arms: &[usize]) -> Option<Vec<f64>> {
    arms.iter()
        .map(|arm| comparison.order.iter().position(|other| other == arm).map(|at| at as f64))
        .collect()
}
