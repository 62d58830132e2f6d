//! The list of runs.

use super::answer::{Answer, all, blocking, failed, unreadable};
use crate::templates::{self, Message};
use crate::{overview::Overview, state::State, wanted::Wanted};
use axum::extract::Query;
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse};
use serde_json::json;
use std::sync::Arc;

/// The runs that match, and the total number of runs.
async fn chosen(state: &State, wanted: &Wanted) -> Result<(Vec<Arc<Overview>>, usize), Message> {
    state.overviews.look();
    let (shared, wanted) = (state.0.clone(), wanted.clone());
    let work =
        move || shared.overviews.list(&shared.folder).map(|listed| (wanted.choose(&listed), listed.len()));
    blocking(work).await?.map_err(unreadable)
}

fn wanted(query: &[(String, String)]) -> Wanted {
    Wanted::of(|name| all(query, name).next())
}

/// The list as a page.
pub async fn page(state: State, Query(query): Query<Vec<(String, String)>>) -> Answer {
    let wanted = wanted(&query);
    let (runs, of) = chosen(&state, &wanted).await?;
    let folder = state.folder.root().display().to_string();
    let page = blocking(move || templates::render(&templates::Runs { folder, wanted, runs, of })).await?;
    Ok(Html(page.map_err(failed)?).into_response())
}

/// The list for programs.
pub async fn json(state: State, Query(query): Query<Vec<(String, String)>>) -> Answer {
    let (runs, _) = chosen(&state, &wanted(&query)).await?;
    let row = |run: &Arc<Overview>| {
        let summary = &run.summary;
        json!({
            "run": summary.id, "study": summary.study, "started": summary.started, "state": run.state(),
            "why": summary.status.why, "problem": run.problem, "rounds": summary.rounds, "variants": summary.variants,
            "machines": summary.machines, "answer": run.verdict.get(), "answer_pending": run.is_pending(),
        })
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    let opened = state.overviews.opened();
    let text = json!({"runs": rows, "databases_opened": opened}).to_string();
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}
