//! The page that compares runs with each other, or a run with published figures, like `fsarena compare`.

use super::page::{PageResult, find_run, query_values, unprocessable_page};
use crate::state::{SharedData, SharedState};
use crate::templates::{self, MessagePage};
use crate::{folder::RunEntry, renderer::RenderResult};
use axum::response::{Html, IntoResponse};
use axum::{extract::Query, http::StatusCode};
use fsarena_core::study::{STUDIES, Study};
use fsarena_core::{names::distinct, published::PublishedSet, record::RunRecord};
use fsarena_report::compare::{compare_published, compare_runs_or_watches};
use fsarena_report::html::{self, Fragment};
use std::sync::Arc;

/// The largest number of runs in a comparison.
const MAX_RUNS: usize = 12;
/// The prefix of the names of published figures. The figures are part of the program, so no file is read for them.
const PUBLISHED_PREFIX: &str = "published:";

/// Serves `?run=A&run=B…&metric=M`: compares run A with the others. If there are only two, B may be `published:NAME`.
pub async fn page(shared: SharedState, Query(query): Query<Vec<(String, String)>>) -> PageResult {
    let mut ids: Vec<String> = distinct(query_values(&query, "run").map(String::from));
    if !(2..=MAX_RUNS).contains(&ids.len()) {
        let message = format!("Choose two to {MAX_RUNS} runs from the list; you chose {}.", ids.len());
        return Err(MessagePage::new(StatusCode::BAD_REQUEST, message));
    }
    let published = take_published(&mut ids)?;
    let mut runs = vec![];
    for id in ids {
        runs.push(find_run(&shared, id).await?);
    }
    let metric = query_values(&query, "metric").next().map(String::from);
    let stamps: Vec<_> = runs.iter().map(|entry| (&entry.id, &entry.stamp)).collect();
    let published_name = published.as_ref().map(PublishedSet::name);
    let key = format!("compare {stamps:?} {published_name:?} {metric:?}");
    let database_bytes = runs.iter().map(|entry| entry.stamp.database_bytes()).sum();
    let data = shared.0.clone();
    let render = move || render_comparison(&data, &runs, published.as_ref(), metric);
    let page = shared.renderer.page(&key, database_bytes, render).await.map_err(unprocessable_page)?;
    Ok(Html(page).into_response())
}

/// Removes the name of published figures from the ids, and returns the figures; `None` if all ids are runs.
///
/// # Errors
/// A page with the reason: the figures are unknown (404), they are not the second of two ids (400), or the program's published
/// figures cannot be parsed (422).
fn take_published(ids: &mut Vec<String>) -> Result<Option<PublishedSet>, MessagePage> {
    let Some(position) = ids.iter().position(|id| id.starts_with(PUBLISHED_PREFIX)) else { return Ok(None) };
    if ids.len() != 2 || position != 1 {
        let message = "Published figures are compared with one run, which comes first.";
        return Err(MessagePage::new(StatusCode::BAD_REQUEST, message));
    }
    let id = ids.remove(position);
    let mut sets = comparable_published_sets().map_err(unprocessable_page)?;
    if let Some(position) = sets.iter().position(|set| set.name() == id[PUBLISHED_PREFIX.len()..]) {
        return Ok(Some(sets.swap_remove(position)));
    }
    let known: Vec<String> = sets.iter().map(PublishedSet::name).collect();
    let message = format!("Unknown published figures. Available: {}.", known.join(", "));
    Err(MessagePage::new(StatusCode::NOT_FOUND, message))
}

/// All published figures that can be compared with a run. Leaves out the published samples of services, which are compared only
/// with each other.
fn comparable_published_sets() -> Result<Vec<PublishedSet>, String> {
    let sets = STUDIES.iter().map(Study::published_sets).collect::<Result<Vec<_>, _>>();
    let sets = sets.map_err(|error| error.to_string())?.into_iter().flatten();
    Ok(sets.filter(|set| set.samples().is_empty()).collect())
}

/// Reads and compares the runs, and renders the page.
fn render_comparison(
    shared: &Arc<SharedData>,
    runs: &[RunEntry],
    published: Option<&PublishedSet>,
    metric: Option<String>,
) -> RenderResult {
    let read = |entry: &RunEntry| fsarena_store::read(&entry.dir).map_err(|error| error.to_string());
    let records: Vec<RunRecord> = runs.iter().map(read).collect::<Result<_, _>>()?;
    let metric = metric.unwrap_or_else(|| (shared.analysis.primary_metric)(&records[0].plan));
    let comparison = match published {
        Some(published) => compare_published(&records[0], published, &metric),
        None => compare_runs_or_watches(&records, &metric),
    }
    .map_err(|error| error.to_string())?;
    let mut other_published: Vec<String> =
        comparable_published_sets()?.iter().map(|set| format!("{PUBLISHED_PREFIX}{}", set.name())).collect();
    let published = published.map(|set| format!("{PUBLISHED_PREFIX}{}", set.name()));
    other_published.retain(|name| published.as_ref() != Some(name));
    let Fragment { title, html } =
        html::render_fragment(&comparison.page().document).map_err(|error| error.to_string())?;
    templates::render(&templates::ComparePage {
        title,
        runs: runs.iter().map(|entry| entry.id.clone()).collect(),
        published,
        other_published,
        metrics: templates::metrics_to_choose(&metric),
        metric,
        body: html,
        data: html::NO_SAMPLES,
    })
}
