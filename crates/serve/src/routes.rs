//! The routes of the server: its pages and files. The comparison, the history and the live view have a module each.

mod compare;
mod history;
mod live;
mod page;

use crate::guard::{self, Guard, page_with_policy};
use crate::state::{SharedData, SharedState};
use crate::templates::{self, MessagePage};
use crate::{folder::RunEntry, list_query::ListQuery, overview::Overview, renderer::RenderResult};
use axum::extract::{Path, Query};
use axum::response::{Html, IntoResponse, Response};
use axum::{Router, http::StatusCode, http::header::CONTENT_TYPE, routing::get};
use fsarena_report::{commands::Commands, html};
use page::{
    PageResult, find_run, internal_error_page, query_values, run_blocking, unprocessable_page, unreadable_folder_page,
};
use serde_json::json;
use std::sync::Arc;

/// The router with all pages and files. Each request passes the guard first.
pub fn router(shared: Arc<SharedData>, guard: Arc<Guard>) -> Router {
    Router::new()
        .route("/", get(runs_page))
        .route("/runs.json", get(runs_json))
        .route("/runs/{id}", get(report_page))
        .route("/runs/{id}/live", get(live::page))
        .route("/runs/{id}/events", get(live::events))
        .route("/compare", get(compare::page))
        .route("/history", get(history::page))
        .route("/assets/{name}", get(serve_asset))
        .route("/favicon.ico", get(serve_icon))
        .fallback(|| async { MessagePage::new(StatusCode::NOT_FOUND, "Page not found.").into_response() })
        .with_state(shared)
        .layer(axum::middleware::from_fn_with_state(guard, guard::guard_request))
}

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const ICON: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 3 3\"><path fill=\"#0072b2\" \
                    d=\"M0 0h1v3H0z\"/><path fill=\"#d55e00\" d=\"M1 1h1v2H1z\"/><path fill=\"#009e73\" d=\"M2 2h1v1H2z\"/></svg>";

/// Serves a style sheet or a script.
async fn serve_asset(Path(name): Path<String>) -> Response {
    let style = || format!("{}{}", fsarena_report::html::style_sheet(), include_str!("../assets/serve.css"));
    match name.as_str() {
        "style.css" => ([(CONTENT_TYPE, "text/css; charset=utf-8")], style()).into_response(),
        "report.js" => ([(CONTENT_TYPE, JAVASCRIPT)], fsarena_report::html::SCRIPT).into_response(),
        "runs.js" => ([(CONTENT_TYPE, JAVASCRIPT)], include_str!("../assets/runs.js")).into_response(),
        "live.js" => ([(CONTENT_TYPE, JAVASCRIPT)], include_str!("../assets/live.js")).into_response(),
        _ => MessagePage::new(StatusCode::NOT_FOUND, "File not found.").into_response(),
    }
}

/// Serves the icon of the browser tab.
async fn serve_icon() -> Response {
    ([(CONTENT_TYPE, "image/svg+xml")], ICON).into_response()
}

/// Serves the report of a run: the page that `fsarena report --format html` prints.
async fn report_page(shared: SharedState, Path(id): Path<String>) -> PageResult {
    let entry = find_run(&shared, id).await?;
    let key = ("report", entry.id.clone(), entry.stamp.clone());
    let (data, id) = (shared.0.clone(), entry.id.clone());
    // The renderer refuses databases that are too large, and limits the memory of all pages by the size of their databases.
    let page = shared.renderer.page(&key, entry.stamp.database_bytes(), move || render_report(&data, &entry)).await;
    let page = page.map_err(|why| unprocessable_page(format!("Run {id} cannot be shown. {why}")))?;
    Ok(page_with_policy(page, &html::content_security_policy()))
}

/// Reads and analyses a run, and renders its report.
fn render_report(shared: &Arc<SharedData>, entry: &RunEntry) -> RenderResult {
    let record = fsarena_store::read(&entry.dir).map_err(|error| error.to_string())?;
    let mut report = (shared.analysis.analyse_run)(record)?;
    let mut commands = Commands::default();
    fsarena_store::for_each_command(&entry.dir, &mut |line| commands.push(line)).map_err(|error| error.to_string())?;
    report.commands = commands;
    fsarena_report::report_page::render_report_page(&report).map(Into::into).map_err(|error| error.to_string())
}

/// The runs that match the query, and the total number of runs.
async fn selected_runs(
    shared: &SharedState,
    list_query: &ListQuery,
) -> Result<(Vec<Arc<Overview>>, usize), MessagePage> {
    // The server computes the answers of the list only while clients read it.
    shared.overviews.record_list_read();
    let (data, list_query) = (shared.0.clone(), list_query.clone());
    let select = move || data.overviews.list(&data.folder).map(|runs| (list_query.select_runs(&runs), runs.len()));
    run_blocking(select).await?.map_err(unreadable_folder_page)
}

fn parse_list_query(query: &[(String, String)]) -> ListQuery {
    ListQuery::new(|name| query_values(query, name).next())
}

/// Serves the list of runs as a page.
async fn runs_page(shared: SharedState, Query(query): Query<Vec<(String, String)>>) -> PageResult {
    let list_query = parse_list_query(&query);
    let (runs, total) = selected_runs(&shared, &list_query).await?;
    let folder = shared.folder.root().display().to_string();
    let page =
        run_blocking(move || templates::render(&templates::RunsPage { folder, list_query, runs, total })).await?;
    Ok(Html(page.map_err(internal_error_page)?).into_response())
}

/// Serves the list of runs as JSON.
async fn runs_json(shared: SharedState, Query(query): Query<Vec<(String, String)>>) -> PageResult {
    let (runs, _) = selected_runs(&shared, &parse_list_query(&query)).await?;
    let row = |run: &Arc<Overview>| {
        let summary = &run.summary;
        json!({
            "run": summary.id, "study": summary.study, "started": summary.started, "state": run.state().text(),
            "why": summary.status.why, "problem": run.problem, "rounds": summary.rounds, "variants": summary.variants,
            "machines": summary.machines, "answer": run.answer.get(), "answer_pending": run.is_answer_pending(),
        })
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    // Counted since the server started: an unchanged run is read only once.
    let databases_opened = shared.overviews.databases_read();
    let text = json!({"runs": rows, "databases_opened": databases_opened}).to_string();
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}
