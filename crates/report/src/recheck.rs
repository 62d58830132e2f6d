//! Compares two JSON reports of one run: the report that was published, and the report that today's program computes.

use serde_json::Value;

/// The largest relative difference of two equal figures: rounding errors of another compiler or processor stay far below it.
const TOLERANCE: f64 = 1e-9;

/// A figure or word in which a report differs from the data.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The place in the report: `analyses[elapsed].tasks[untar].variants[xfs].ratio_to_best`.
    pub place: String,
    /// The published value; `missing` if the published list ends before this element.
    pub published: String,
    /// The value that this program computes; `missing` if it computes none.
    pub computed: String,
}

/// Returns every difference between a published report and the one that this program computes, both as `report.json`.
///
/// Figures that the published report lacks are not differences, because a later program computes more. Elements that the end of a
/// published list lacks are differences, because a list without a variant or a task hides a result. Lists are compared in
/// their order, which may be a ranking: after an element that only one list has, all others differ. Sentences (texts with
/// blanks) are compared only if `with_sentences`, because a later program words them differently.
pub fn differences(published: &Value, computed: &Value, with_sentences: bool) -> Vec<Difference> {
    let mut found = vec![];
    Comparer { with_sentences, found: &mut found }.compare("", published, Some(computed));
    found
}

struct Comparer<'a> {
    with_sentences: bool,
    found: &'a mut Vec<Difference>,
}

impl Comparer<'_> {
    fn compare(&mut self, place: &str, published: &Value, computed: Option<&Value>) {
        match (published, computed) {
            (Value::Object(published), Some(Value::Object(computed))) => {
                for (key, value) in published {
                    let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
                    self.compare(&place, value, computed.get(key));
                }
            }
            (Value::Array(published), Some(Value::Array(computed))) => {
                for (number, value) in published.iter().enumerate() {
                    let name = element_name(value).unwrap_or_else(|| number.to_string());
                    self.compare(&format!("{place}[{name}]"), value, computed.get(number));
                }
                for (number, value) in computed.iter().enumerate().skip(published.len()) {
                    let name = element_name(value).unwrap_or_else(|| number.to_string());
                    self.add_difference(&format!("{place}[{name}]"), "missing".into(), quote_value(value));
                }
            }
            (value, other) => {
                let is_sentence = value.as_str().is_some_and(|text| text.contains(' '));
                let are_equal = other.is_some_and(|other| is_equal(value, other));
                if !are_equal && (self.with_sentences || !is_sentence) {
                    self.add_difference(place, quote_value(value), other.map_or("missing".into(), quote_value));
                }
            }
        }
    }

    fn add_difference(&mut self, place: &str, published: String, computed: String) {
        self.found.push(Difference { place: place.into(), published, computed });
    }
}

/// Whether two values that are neither objects nor lists are equal.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()),
        _ => one == other,
    }
}

/// The name of an element of a list, by which readers know it.
fn element_name(value: &Value) -> Option<String> {
    let named = ["variant", "task", "metric", "claim", "name", "id", "text"].iter().find_map(|key| value.get(key))?;
    match named {
        Value::String(name) => Some(name.clone()),
        object @ Value::Object(_) => element_name(object),
        _ => None,
    }
}

/// The longest value that a difference quotes, in characters.
const MAX_QUOTE_CHARS: usize = 120;

fn quote_value(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() <= MAX_QUOTE_CHARS {
        text
    } else {
        text.chars().take(MAX_QUOTE_CHARS).chain(['…']).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn places(published: Value, computed: Value, with_sentences: bool) -> Vec<String> {
        let all = differences(&published, &computed, with_sentences);
        all.into_iter().map(|one| format!("{}: {} {}", one.place, one.published, one.computed)).collect()
    }

    #[test]
    fn figures_are_compared_up_to_rounding_and_named_by_task_and_variant() {
        let report = |ratio: f64| {
            json!({"analyses": [{"metric": {"id": "elapsed"}, "tasks": [
                {"task": {"id": {"name": "untar"}}, "variants": [{"variant": "xfs", "ratio": ratio}]}]}]})
        };
        assert_eq!(places(report(1.25), report(1.25 + 1e-12), false), [""; 0]);
        let found = places(report(1.25), report(1.26), false);
        assert_eq!(found, ["analyses[elapsed].tasks[untar].variants[xfs].ratio: 1.25 1.26"]);
    }

    #[test]
    fn a_missing_figure_is_a_difference_and_a_new_one_is_not() {
        assert_eq!(places(json!({"a": 1}), json!({"a": 1, "b": 2}), true), [""; 0]);
        assert_eq!(places(json!({"a": 1, "b": 2}), json!({"a": 1}), true), ["b: 2 missing"]);
        assert_eq!(places(json!({"a": null}), json!({"a": 1}), true), ["a: null 1"]);
        assert_eq!(places(json!([1]), json!([1, 2]), true), ["[1]: missing 2"]);
        assert_eq!(places(json!({"a": [1, 2]}), json!({"a": 3}), true), ["a: [1,2] 3"]);
    }

    #[test]
    fn words_are_figures_and_sentences_are_not() {
        let (one, other) = (json!({"best": "xfs", "says": "Use xfs."}), json!({"best": "ext4", "says": "Keep ext4."}));
        assert_eq!(places(one.clone(), other.clone(), false), ["best: xfs ext4"]);
        assert_eq!(places(one, other, true).len(), 2);
    }
}
