//! The parts that reports for people are made of, one file each.

pub mod anomalies;
pub mod answer;
pub mod best;
pub mod circumstances;
pub mod claims;
pub mod conclusions;
pub mod head;
pub mod matrix;
pub mod normalised;
pub mod notes;
pub mod pair;
pub mod pictures;
pub mod ranking;
pub mod reached;
pub mod scaling;
pub mod tasks;
pub mod totals;
pub mod typical;

use fsarena_core::cell::TaskInfo;

/// A task as tables name it: `009 Untar the kernel tree`.
pub fn label(task: &TaskInfo) -> String {
    let mut label = task.number.as_ref().map_or(String::new(), |number| format!("{number} "));
    label.push_str(&task.title);
    // What the title says already is not said again.
    let said = |value: &str| task.title.split(|c: char| !c.is_alphanumeric()).any(|word| word == value);
    let params = task.id.params.iter().filter(|(_, value)| !said(value));
    let params: Vec<String> = params.map(|(key, value)| format!("{key}={value}")).collect();
    if !params.is_empty() {
        label.push_str(&format!(" ({})", params.join(", ")));
    }
    label
}

/// `a, b or c`.
pub fn either(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
