//! The page with the history of a metric over the runs of a study.

use super::page::{PageResult, query_values, run_blocking, unprocessable_page, unreadable_folder_page};
use crate::renderer::{MAX_SUMMARIZED_DATABASE_BYTES, RenderResult};
use crate::state::{SharedData, SharedState};
use crate::templates::{self, MessagePage};
use crate::{list_query::url_encoded, overview::Overview};
use axum::response::{Html, IntoResponse};
use axum::{extract::Query, http::StatusCode};
use fsarena_core::names::distinct;
use fsarena_report::document::{Document, Part};
use fsarena_report::history::{HistoryQuery, MAX_RUNS, choose_reference, history_page};
use fsarena_report::html::{self, Fragment};
use std::sync::Arc;

/// The value of the parameter `reference` for a history without a reference.
const NO_REFERENCE: &str = "none";

/// Serves `?study=S&variant=A&metric=M&reference=R`. The server chooses the values of missing parameters, and the page shows
/// them.
pub async fn page(shared: SharedState, Query(query): Query<Vec<(String, String)>>) -> PageResult {
    let data = shared.0.clone();
    let listed = run_blocking(move || data.overviews.list(&data.folder)).await?.map_err(unreadable_folder_page)?;
    let parameter = |name| query_values(&query, name).next().map(String::from);
    let no_history = || MessagePage::new(StatusCode::NOT_FOUND, "Found no run with a history in this folder.");
    let study = parameter("study").or_else(|| most_common_study(&listed)).ok_or_else(no_history)?;
    // The list has the newest run first.
    let runs: Vec<Arc<Overview>> =
        listed.iter().filter(|run| can_be_in_history(run, &study)).take(MAX_RUNS).cloned().collect();
    let variants = distinct(runs.iter().flat_map(|run| run.summary.variants.iter().cloned()));
    let variant = parameter("variant").or_else(|| variants.first().cloned()).ok_or_else(no_history)?;
    let primary_metric =
        runs.first().and_then(|run| run.plan.as_ref()).map(|plan| (shared.analysis.primary_metric)(plan));
    let metric = parameter("metric").or(primary_metric).unwrap_or_else(|| "elapsed".into());
    let default_reference = || choose_reference(&variant, runs.iter().map(|run| run.summary.variants.as_slice()));
    let reference = parameter("reference").or_else(default_reference).filter(|name| *name != NO_REFERENCE);
    let history_query = HistoryQuery { study, metric, variant, reference };
    let studies = study_names(&listed);
    let stamps: Vec<_> = runs.iter().map(|run| (&run.entry.id, &run.entry.stamp)).collect();
    let key = format!("history {history_query:?} {studies:?} {stamps:?}");
    // The runs are read one after another, and only their points stay in memory.
    let largest_database_bytes = runs.iter().map(|run| run.entry.stamp.database_bytes()).max().unwrap_or(0);
    let data = shared.0.clone();
    let render = move || render_history(&data, history_query, &runs, (studies, variants));
    let page = shared.renderer.page(&key, largest_database_bytes, render).await;
    Ok(Html(page.map_err(unprocessable_page)?).into_response())
}

/// Whether a history of the study can include the run: it belongs to the study, can be read, and is not too large.
fn can_be_in_history(run: &Overview, study: &str) -> bool {
    run.summary.study == study
        && run.problem.is_none()
        && run.entry.stamp.database_bytes() <= MAX_SUMMARIZED_DATABASE_BYTES
}

/// The study with the most runs that fit into a history; `None` if no run can be read.
fn most_common_study(listed: &[Arc<Overview>]) -> Option<String> {
    let count = |study: &String| listed.iter().filter(|run| can_be_in_history(run, study)).count();
    study_names(listed).into_iter().max_by_key(count)
}

/// The names of the studies of all readable runs, sorted.
fn study_names(listed: &[Arc<Overview>]) -> Vec<String> {
    let readable = listed.iter().filter(|run| run.problem.is_none());
    let mut names: Vec<String> = readable.map(|run| run.summary.study.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// Links the names of runs in the tables to their reports.
fn link_runs(document: &mut Document, runs: &[Arc<Overview>]) {
    let tables = document.parts.iter_mut().filter_map(|part| match part {
        Part::Table(table) => Some(table),
        _ => None,
    });
    for cell in tables.flat_map(|table| &mut table.rows).filter_map(|row| row.first_mut()) {
        let linked_run = runs.iter().find(|run| cell.lines.first() == Some(&run.entry.id));
        cell.link = linked_run.map(|run| format!("/runs/{}", url_encoded(&run.entry.id)));
    }
}

/// Reads the points of the runs, and renders the page. A run that lacks the variant or the metric, or that cannot be read
/// any more, has no point. If all runs lack the variant, the page has no points.
///
/// # Errors
/// No run has a point, and at least one of them lacks the metric or cannot be read; or the page cannot be rendered.
fn render_history(
    shared: &SharedData,
    query: HistoryQuery,
    runs: &[Arc<Overview>],
    (studies, variants): (Vec<String>, Vec<String>),
) -> RenderResult {
    let (mut points, mut last_error) = (vec![], None);
    for run in runs {
        match shared.history_points.get_or_read(&run.entry, &query) {
            Ok(point) => points.extend(point),
            Err(error) => last_error = Some(error),
        }
    }
    if let Some(error) = last_error.filter(|_| points.is_empty()) {
        return Err(error);
    }
    let mut history = history_page(&query, points);
    link_runs(&mut history.document, runs);
    let Fragment { title, html } = html::render_fragment(&history.document).map_err(|error| error.to_string())?;
    let metrics = templates::metrics_to_choose(&query.metric);
    templates::render(&templates::HistoryPage { query, studies, variants, metrics, title, body: html })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::{RunEntry, Stamp};
    use crate::testing::TestRun;
    use fsarena_store::RunSummary;
    use std::sync::OnceLock;

    #[test]
    fn the_default_study_has_the_most_runs_that_fit_into_a_history() {
        let run = TestRun::new();
        drop(run.writer());
        let overview = |study: &str, problem: Option<&str>| {
            let entry =
                RunEntry { id: run.dir.id(), dir: run.dir.clone(), stamp: Stamp::default(), refused_because: None };
            let summary = RunSummary { study: study.into(), ..fsarena_store::read_summary(&run.dir).unwrap() };
            let problem = problem.map(String::from);
            Arc::new(Overview { entry, summary, plan: None, problem, answer: OnceLock::new() })
        };
        let [unreadable_a, also_unreadable_a] = [(); 2].map(|()| overview("a", Some("its plan is damaged")));
        let listed = [unreadable_a, also_unreadable_a, overview("a", None), overview("b", None), overview("b", None)];
        assert_eq!(most_common_study(&listed).as_deref(), Some("b"));
    }
}
