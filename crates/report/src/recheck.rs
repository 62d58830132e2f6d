//! Compares two JSON reports of one run: the report that was published, and the report that today's program computes.

use serde::Serialize;
use serde_json::Value;

/// Figures whose relative difference is at most this count as equal. Rounding errors of another compiler or processor are far
/// smaller.
const RELATIVE_TOLERANCE: f64 = 1e-9;

/// A figure or text in which two reports of one run differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
/// blanks) are compared only if `compares_sentences`, because a later program words them differently.
pub fn find_differences(published: &Value, computed: &Value, compares_sentences: bool) -> Vec<Difference> {
    let mut comparer = Comparer { compares_sentences, differences: vec![] };
    comparer.compare("", published, Some(computed));
    comparer.differences
}

/// Compares two reports, and collects their differences.
struct Comparer {
    compares_sentences: bool,
    differences: Vec<Difference>,
}

impl Comparer {
    /// Compares the values at a place of both reports; `computed` is `None` if that report lacks the value.
    fn compare(&mut self, place: &str, published: &Value, computed: Option<&Value>) {
        match (published, computed) {
            (Value::Object(published), Some(Value::Object(computed))) => {
                for (key, value) in published {
                    let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
                    self.compare(&place, value, computed.get(key));
                }
            }
            (Value::Array(published), Some(Value::Array(computed))) => {
                for (index, value) in published.iter().enumerate() {
                    let name = element_name(value).unwrap_or_else(|| index.to_string());
                    self.compare(&format!("{place}[{name}]"), value, computed.get(index));
                }
                for (index, value) in computed.iter().enumerate().skip(published.len()) {
                    let name = element_name(value).unwrap_or_else(|| index.to_string());
                    self.add_difference(&format!("{place}[{name}]"), "missing".into(), quote_value(value));
                }
            }
            (published, computed) => {
                let is_sentence = published.as_str().is_some_and(|text| text.contains(' '));
                let are_equal = computed.is_some_and(|computed| are_equal_scalars(published, computed));
                if !are_equal && (self.compares_sentences || !is_sentence) {
                    let computed = computed.map_or("missing".into(), quote_value);
                    self.add_difference(place, quote_value(published), computed);
                }
            }
        }
    }

    fn add_difference(&mut self, place: &str, published: String, computed: String) {
        self.differences.push(Difference { place: place.into(), published, computed });
    }
}

/// Whether two values that are neither objects nor lists are equal; figures are compared with [`RELATIVE_TOLERANCE`].
fn are_equal_scalars(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= RELATIVE_TOLERANCE * a.abs().max(b.abs()),
        _ => a == b,
    }
}

/// The name by which readers know an element of a list, such as its variant or task; `None` if it has none.
fn element_name(value: &Value) -> Option<String> {
    let name = ["variant", "task", "metric", "claim", "name", "id", "text"].iter().find_map(|key| value.get(key))?;
    match name {
        Value::String(name) => Some(name.clone()),
        object @ Value::Object(_) => element_name(object),
        _ => None,
    }
}

/// A longer value is cut at this many characters.
const MAX_QUOTE_CHARS: usize = 120;

/// The text of a value, cut at [`MAX_QUOTE_CHARS`].
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

    fn difference_texts(published: Value, computed: Value, compares_sentences: bool) -> Vec<String> {
        let differences = find_differences(&published, &computed, compares_sentences);
        let text =
            |difference: Difference| format!("{}: {} {}", difference.place, difference.published, difference.computed);
        differences.into_iter().map(text).collect()
    }

    #[test]
    fn figures_are_compared_up_to_rounding_and_named_by_task_and_variant() {
        let report = |ratio: f64| {
            json!({"analyses": [{"metric": {"id": "elapsed"}, "tasks": [
                {"task": {"id": {"name": "untar"}}, "variants": [{"variant": "xfs", "ratio": ratio}]}]}]})
        };
        assert_eq!(difference_texts(report(1.25), report(1.25 + 1e-12), false), [""; 0]);
        let texts = difference_texts(report(1.25), report(1.26), false);
        assert_eq!(texts, ["analyses[elapsed].tasks[untar].variants[xfs].ratio: 1.25 1.26"]);
    }

    #[test]
    fn a_missing_figure_is_a_difference_and_a_new_one_is_not() {
        assert_eq!(difference_texts(json!({"a": 1}), json!({"a": 1, "b": 2}), true), [""; 0]);
        assert_eq!(difference_texts(json!({"a": 1, "b": 2}), json!({"a": 1}), true), ["b: 2 missing"]);
        assert_eq!(difference_texts(json!({"a": null}), json!({"a": 1}), true), ["a: null 1"]);
        assert_eq!(difference_texts(json!([1]), json!([1, 2]), true), ["[1]: missing 2"]);
        assert_eq!(difference_texts(json!({"a": [1, 2]}), json!({"a": 3}), true), ["a: [1,2] 3"]);
    }

    #[test]
    fn words_are_figures_and_sentences_are_not() {
        let published = json!({"best": "xfs", "says": "Use xfs."});
        let computed = json!({"best": "ext4", "says": "Keep ext4."});
        assert_eq!(difference_texts(published.clone(), computed.clone(), false), ["best: xfs ext4"]);
        assert_eq!(difference_texts(published, computed, true).len(), 2);
    }
}
