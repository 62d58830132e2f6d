//! The search words and the sort order of the list of runs.

use crate::overview::Overview;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::{cmp::Ordering, sync::Arc};

/// The columns by which the list can be sorted: the id in the URL, and the heading.
pub const COLUMNS: [(&str, &str); 8] = [
    ("begun", "Begun"),
    ("run", "Run"),
    ("study", "Study"),
    ("state", "State"),
    ("answer", "Answer"),
    ("rounds", "Rounds"),
    ("variants", "Variants"),
    ("machine", "Machine"),
];

/// The search words and the sort order of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListQuery {
    /// The search words. A run matches if it contains all of them.
    pub search: String,
    /// The column by which the list is sorted: an id of [`COLUMNS`].
    pub sort: &'static str,
    /// Whether the largest or newest value is first.
    pub descending: bool,
}

impl ListQuery {
    /// Parses the query of a URL; `value_of` returns the value of a parameter. An unknown column sorts by the start.
    pub fn new<'q>(value_of: impl Fn(&str) -> Option<&'q str>) -> ListQuery {
        let column = COLUMNS.iter().map(|(id, _)| *id).find(|id| value_of("sort") == Some(id));
        let sort = column.unwrap_or("begun");
        let descending = value_of("order").map_or(descends_by_default(sort), |order| order == "down");
        let search = value_of("search").unwrap_or_default().chars().take(200).collect();
        ListQuery { search, sort, descending }
    }

    /// The URL of the list sorted by a column. If the list is already sorted by it, the order is reversed.
    pub fn url_sorted_by(&self, column: &str) -> String {
        let descending = if self.sort == column { !self.descending } else { descends_by_default(column) };
        let order = if descending { "down" } else { "up" };
        format!("/?search={}&sort={column}&order={order}", url_encoded(&self.search))
    }

    /// The value of the `aria-sort` attribute of a column's heading.
    pub fn aria_sort(&self, column: &str) -> &'static str {
        match (self.sort == column, self.descending) {
            (false, _) => "none",
            (true, true) => "descending",
            (true, false) => "ascending",
        }
    }

    /// The runs that match, sorted.
    pub fn select_runs(&self, runs: &[Arc<Overview>]) -> Vec<Arc<Overview>> {
        let words: Vec<String> = self.search.split_whitespace().map(str::to_lowercase).collect();
        let mut selected: Vec<_> = runs.iter().filter(|run| run.contains_words(&words)).cloned().collect();
        // `runs` has the newest first, and the stable sort keeps this order for equal values.
        selected.sort_by(|a, b| {
            let order = compare_by(a, b, self.sort);
            if self.descending { order.reverse() } else { order }
        });
        selected
    }
}

/// Whether a column is by default sorted with the newest or largest first.
fn descends_by_default(column: &str) -> bool {
    ["begun", "rounds"].contains(&column)
}

/// The ascending order of two runs by a column.
fn compare_by(a: &Overview, b: &Overview, column: &str) -> Ordering {
    let answer = |run: &Overview| run.answer.get().cloned().unwrap_or_default();
    match column {
        "run" => a.summary.id.cmp(&b.summary.id),
        "study" => a.summary.study.cmp(&b.summary.study),
        "state" => a.state().text().cmp(b.state().text()),
        "answer" => answer(a).cmp(&answer(b)),
        "rounds" => a.summary.rounds.cmp(&b.summary.rounds),
        "variants" => a.summary.variants.cmp(&b.summary.variants),
        "machine" => a.summary.machines.cmp(&b.summary.machines),
        _ => a.summary.started.cmp(&b.summary.started),
    }
}

/// The characters that are percent-encoded in a query: all except letters, digits and `-_.`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// The text percent-encoded for the query of a URL.
pub fn url_encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_query(parameters: &[(&str, &'static str)]) -> ListQuery {
        ListQuery::new(|name| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value))
    }

    #[test]
    fn sorting_by_the_same_column_again_reverses_the_order() {
        let default = list_query(&[]);
        assert_eq!((default.sort, default.descending, default.aria_sort("begun")), ("begun", true, "descending"));
        assert!(default.url_sorted_by("begun").ends_with("sort=begun&order=up"));
        assert!(default.url_sorted_by("rounds").ends_with("sort=rounds&order=down"));
        assert!(default.url_sorted_by("study").ends_with("sort=study&order=up"));
        let by_study = list_query(&[("sort", "study"), ("search", "a&b")]);
        assert_eq!((by_study.descending, by_study.aria_sort("study")), (false, "ascending"));
        assert_eq!(by_study.aria_sort("run"), "none");
        assert_eq!(by_study.url_sorted_by("study"), "/?search=a%26b&sort=study&order=down");
        assert_eq!(list_query(&[("sort", "nothing"), ("order", "sideways")]).sort, "begun");
    }
}
