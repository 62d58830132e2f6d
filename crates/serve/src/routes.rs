//! What can be asked for: one file a page.

mod answer;
mod assets;
mod compare;
mod history;
mod live;
mod report;
mod runs;

use crate::guard::{self, Guard};
use crate::{state::Shared, templates::Message};
use axum::{Router, http::StatusCode, response::IntoResponse, routing::get};
use std::sync::Arc;

/// The whole server behind its guard.
pub fn app(shared: Arc<Shared>, guard: Arc<Guard>) -> Router {
    Router::new()
        .route("/", get(runs::page))
        .route("/runs.json", get(runs::json))
        .route("/runs/{id}", get(report::page))
        .route("/runs/{id}/live", get(live::page))
        .route("/runs/{id}/events", get(live::events))
        .route("/compare", get(compare::page))
        .route("/history", get(history::page))
        .route("/assets/{name}", get(assets::file))
        .route("/favicon.ico", get(assets::icon))
        .fallback(|| async { Message::new(StatusCode::NOT_FOUND, "Page not found.").into_response() })
        .with_state(shared)
        .layer(axum::middleware::from_fn_with_state(guard, guard::watch))
}
