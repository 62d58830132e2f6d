//! The list of runs.

use super::{Answer, all, blocking, failed, unreadable};
use crate::overview::Overview;
use crate::state::State;
use crate::templates::{self, Message};
use crate::verdicts::is_pending;
use axum::extract::Query;

use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse};
use serde_json::json;
use std::cmp::Ordering;
use std::sync::Arc;

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
pub struct Wanted {
    /// Words that a run must have.
    pub search: String,
    /// The column it is sorted by: one of [`COLUMNS`].
    pub sort: &'static str,
    /// Whether the first becomes the last.
    pub descending: bool,
}

impl Wanted {
    fn of(query: &[(String, String)]) -> Wanted {
        let given = |name| all(query, name).next();
        let column = COLUMNS.iter().map(|(id, _)| *id).find(|id| given("sort") == Some(id));
        let sort = column.unwrap_or("begun");
        // The newest and the largest first, words by the alphabet.
        let descending = given("order").map_or(["begun", "rounds"].contains(&sort), |order| order == "down");
        let search = given("search").unwrap_or_default().chars().take(200).collect();
        Wanted { search, sort, descending }
    }

    /// The address of the list sorted by a column; the other way round where it is already.
    pub fn sorted_by(&self, column: &str) -> String {
        let turned = self.sort == column && !self.descending;
        let first = self.sort != column && ["begun", "rounds"].contains(&column);
        let order = if turned || first { "down" } else { "up" };
        format!("/?search={}&sort={column}&order={order}", templates::in_query(&self.search))
    }

    /// The word for readers of the screen.
    pub fn aria(&self, column: &str) -> &'static str {
        match (self.sort == column, self.descending) {
            (false, _) => "none",
            (_, false) => "ascending",
            (_, true) => "descending",
        }
    }

    fn choose(&self, runs: &[Arc<Overview>]) -> Vec<Arc<Overview>> {
        let words: Vec<String> = self.search.split_whitespace().map(str::to_lowercase).collect();
        let mut chosen: Vec<_> = runs.iter().filter(|run| run.holds(&words)).cloned().collect();
        // They come newest first, and sorting keeps the order of equals.
        chosen.sort_by(|a, b| {
            let order = compare(a, b, self.sort);
            if self.descending { order.reverse() } else { order }
        });
        chosen
    }
}

fn compare(a: &Overview, b: &Overview, column: &str) -> Ordering {
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

/// The runs that match, and the total number of runs.
async fn chosen(state: &State, wanted: &Wanted) -> Result<(Vec<Arc<Overview>>, usize), Message> {
    state.overviews.look();
    let (shared, wanted) = (state.0.clone(), wanted.clone());
    let work =
        move || shared.overviews.list(&shared.folder).map(|listed| (wanted.choose(&listed), listed.len()));
    blocking(work).await?.map_err(unreadable)
}

/// The list as a page.
pub async fn page(state: State, Query(query): Query<Vec<(String, String)>>) -> Answer {
    let wanted = Wanted::of(&query);
    let (runs, of) = chosen(&state, &wanted).await?;
    let folder = state.folder.root().display().to_string();
    let page = blocking(move || templates::render(&templates::Runs { folder, wanted, runs, of })).await?;
    Ok(Html(page.map_err(failed)?).into_response())
}

/// The list for programs.
pub async fn json(state: State, Query(query): Query<Vec<(String, String)>>) -> Answer {
    let (runs, _) = chosen(&state, &Wanted::of(&query)).await?;
    let row = |run: &Arc<Overview>| {
        let summary = &run.summary;
        json!({
            "run": summary.id, "study": summary.study, "started": summary.started, "state": run.state(),
            "why": summary.status.why, "problem": run.problem, "rounds": summary.rounds, "variants": summary.variants,
            "machines": summary.machines, "answer": run.verdict.get(), "answer_pending": is_pending(run),
        })
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    let opened = state.overviews.opened();
    let text = json!({"runs": rows, "databases_opened": opened}).to_string();
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(query: &[(&str, &str)]) -> Wanted {
        Wanted::of(&query.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect::<Vec<_>>())
    }

    #[test]
    fn a_column_is_sorted_and_then_turned_round() {
        let newest = wanted(&[]);
        assert_eq!((newest.sort, newest.descending, newest.aria("begun")), ("begun", true, "descending"));
        assert!(newest.sorted_by("begun").ends_with("sort=begun&order=up"));
        assert!(newest.sorted_by("rounds").ends_with("sort=rounds&order=down"));
        assert!(newest.sorted_by("study").ends_with("sort=study&order=up"));
        let study = wanted(&[("sort", "study"), ("search", " a&b ")]);
        assert_eq!((study.descending, study.aria("study"), study.aria("run")), (false, "ascending", "none"));
        assert_eq!(study.sorted_by("study"), "/?search=a%26b&sort=study&order=down");
        assert_eq!(wanted(&[("sort", "nothing"), ("order", "sideways")]).sort, "begun");
    }
}
