//! The search words and the sort order of the list of runs.

use crate::overview::Overview;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::{cmp::Ordering, sync::Arc};

/// The columns that can be sorted by: the word in the address, and the head.
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

/// Search and sort order of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListQuery {
    /// Words that a run must have.
    pub search: String,
    /// The column it is sorted by: one of [`COLUMNS`].
    pub sort: &'static str,
    /// Whether the largest comes first.
    pub descending: bool,
}

impl ListQuery {
    /// Reads the query of an address: `given` returns the value of a name.
    pub fn new<'q>(given: impl Fn(&str) -> Option<&'q str>) -> ListQuery {
        let column = COLUMNS.iter().map(|(id, _)| *id).find(|id| given("sort") == Some(id));
        let sort = column.unwrap_or("begun");
        let descending = given("order").map_or(descends_by_default(sort), |order| order == "down");
        let search = given("search").unwrap_or_default().chars().take(200).collect();
        ListQuery { search, sort, descending }
    }

    /// The address of the list sorted by a column; reversed if the list is sorted by it already.
    pub fn sorted_by(&self, column: &str) -> String {
        let descending = if self.sort == column { !self.descending } else { descends_by_default(column) };
        let order = if descending { "down" } else { "up" };
        format!("/?search={}&sort={column}&order={order}", in_query(&self.search))
    }

    /// The `aria-sort` attribute of a column's head.
    pub fn aria(&self, column: &str) -> &'static str {
        match (self.sort == column, self.descending) {
            (false, _) => "none",
            (_, false) => "ascending",
            (_, true) => "descending",
        }
    }

    /// The runs that match, sorted.
    pub fn select(&self, runs: &[Arc<Overview>]) -> Vec<Arc<Overview>> {
        let words: Vec<String> = self.search.split_whitespace().map(str::to_lowercase).collect();
        let mut selected: Vec<_> = runs.iter().filter(|run| run.holds(&words)).cloned().collect();
        // They come newest first, and sorting keeps the order of equals.
        selected.sort_by(|a, b| {
            let order = compare_by(a, b, self.sort);
            if self.descending { order.reverse() } else { order }
        });
        selected
    }
}

/// Whether a column is sorted with the newest or the largest first by default, and not alphabetically.
fn descends_by_default(column: &str) -> bool {
    ["begun", "rounds"].contains(&column)
}

fn compare_by(a: &Overview, b: &Overview, column: &str) -> Ordering {
    let verdict = |run: &Overview| run.verdict.get().cloned().unwrap_or_default();
    match column {
        "run" => a.summary.id.cmp(&b.summary.id),
        "study" => a.summary.study.cmp(&b.summary.study),
        "state" => a.state().cmp(b.state()),
        "answer" => verdict(a).cmp(&verdict(b)),
        "rounds" => a.summary.rounds.cmp(&b.summary.rounds),
        "variants" => a.summary.variants.cmp(&b.summary.variants),
        "machine" => a.summary.machines.cmp(&b.summary.machines),
        _ => a.summary.started.cmp(&b.summary.started),
    }
}

/// All bytes but letters, digits and `-_.`.
const IN_QUERIES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// Text as a part of an address.
pub fn in_query(text: &str) -> String {
    utf8_percent_encode(text, IN_QUERIES).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_query(query: &[(&str, &'static str)]) -> ListQuery {
        ListQuery::new(|name| query.iter().find(|(key, _)| *key == name).map(|(_, value)| value.trim()))
    }

    #[test]
    fn a_column_is_sorted_and_then_turned_round() {
        let newest = list_query(&[]);
        assert_eq!((newest.sort, newest.descending, newest.aria("begun")), ("begun", true, "descending"));
        assert!(newest.sorted_by("begun").ends_with("sort=begun&order=up"));
        assert!(newest.sorted_by("rounds").ends_with("sort=rounds&order=down"));
        assert!(newest.sorted_by("study").ends_with("sort=study&order=up"));
        let study = list_query(&[("sort", "study"), ("search", " a&b ")]);
        assert_eq!((study.descending, study.aria("study"), study.aria("run")), (false, "ascending", "none"));
        assert_eq!(study.sorted_by("study"), "/?search=a%26b&sort=study&order=down");
        assert_eq!(list_query(&[("sort", "nothing"), ("order", "sideways")]).sort, "begun");
    }
}
