//! How much tasks weigh in the ranking, as the user says it.

use crate::error::Error;
use fsarena_core::{cell::TaskInfo, names::unknown};

/// The weight of a task: 1 where the user says nothing.
pub fn weight(weights: &[(String, f64)], task: &TaskInfo) -> f64 {
    weights.iter().rev().find(|(name, _)| names(name, task)).map_or(1.0, |(_, weight)| *weight)
}

/// Whether a word means this task: its name, with or without parameters, or its number.
fn names(word: &str, task: &TaskInfo) -> bool {
    word == task.id.name || word == task.id.to_string() || task.number.as_deref() == Some(word)
}

/// Checks the weights of tasks.
///
/// # Errors
/// Fails if a weight names an unknown task or lies outside 0 to 1000000, or if every task has the weight 0.
pub fn check_weights(tasks: &[TaskInfo], weights: &[(String, f64)]) -> Result<(), Error> {
    let tasks = || tasks.iter().filter(|task| task.in_totals);
    let fault = |what: String| Err(Error::Usage(format!("--weight: {what}")));
    if !weights.is_empty() && tasks().next().is_none() {
        return fault("the run has no task that could be weighed".into());
    }
    for (name, weight) in weights {
        if !tasks().any(|task| names(name, task)) {
            let known: Vec<String> = tasks().map(|task| task.id.to_string()).collect();
            return fault(unknown("task", name, known.iter().map(String::as_str)).into());
        }
        if !(0.0..=1e6).contains(weight) {
            return fault(format!("`{name}={weight}`: a weight is a number from 0 to 1000000"));
        }
    }
    if !weights.is_empty() && tasks().all(|task| weight(weights, task) == 0.0) {
        return fault("every task has the weight 0".into());
    }
    Ok(())
}
