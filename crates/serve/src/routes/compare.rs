//! Two runs or more beside each other, as `fsarena compare` does it.

use super::{Answer, all, find, impossible};
use crate::folder::Found;
use crate::renderer::Made;
use crate::state::{Shared, State};
use crate::templates::{self, Message};
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse};
use fsarena_core::record::RunRecord;
use fsarena_report::compare::compare_all;
use fsarena_report::html::fragment;
use std::sync::Arc;

/// The most runs that are compared at once.
const MOST: usize = 12;

/// `?run=A&run=B…&metric=M`: the first is what the others are compared with.
pub async fn page(state: State, Query(query): Query<Vec<(String, String)>>) -> Answer {
    let mut ids: Vec<String> = vec![];
    for id in all(&query, "run") {
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_string());
        }
    }
    if !(2..=MOST).contains(&ids.len()) {
        let words = format!("Choose two to {MOST} runs of the list to compare; these are {}.", ids.len());
        return Err(Message::new(StatusCode::BAD_REQUEST, words));
    }
    let mut runs = vec![];
    for id in ids {
        runs.push(find(&state, id).await?);
    }
    let metric = all(&query, "metric").next().map(String::from);
    let states: Vec<_> = runs.iter().map(|found| (&found.id, &found.stamp)).collect();
    let (shows, bytes) =
        (format!("compare {states:?} {metric:?}"), runs.iter().map(|found| found.stamp.bytes()).sum());
    let shared = state.0.clone();
    let page =
        state.renderer.page(&shows, bytes, move || make(&shared, &runs, metric)).await.map_err(impossible)?;
    Ok(Html(page).into_response())
}

fn make(shared: &Arc<Shared>, runs: &[Found], metric: Option<String>) -> Made {
    let read = |found: &Found| fsarena_store::read(&found.run).map_err(|error| error.to_string());
    let records: Vec<RunRecord> = runs.iter().map(read).collect::<Result<_, _>>()?;
    let metric = metric.unwrap_or_else(|| (shared.analysis.metric)(&records[0].plan));
    let page = compare_all(&records, &metric).map_err(|error| error.to_string())?;
    let body = fragment(page.document).map_err(|error| error.to_string())?;
    templates::render(&templates::Compare {
        runs: runs.iter().map(|found| found.id.clone()).collect(),
        metrics: templates::metrics(&metric),
        metric,
        body,
    })
}
