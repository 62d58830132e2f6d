//! What can be asked for: one file a page.

mod assets;
mod compare;
mod history;
mod live;
mod report;
mod runs;

pub use runs::{COLUMNS, Wanted};

use crate::folder::Found;
use crate::guard::{self, Guard};
use crate::state::Shared;
use crate::templates::Message;
use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
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

/// A page, or one that says why there is none.
type Answer = Result<Response, Message>;

/// Finds a run that may be read, or says why there is none.
async fn find(shared: &Arc<Shared>, id: String) -> Result<Found, Message> {
    let shared = shared.clone();
    let found = blocking(move || shared.folder.find(&id)).await?.map_err(unreadable)?;
    match found {
        None => Err(Message::new(StatusCode::NOT_FOUND, "Run not found in this folder.")),
        Some(Found { id, refused: Some(why), .. }) => {
            Err(Message::new(StatusCode::FORBIDDEN, format!("Run {id} is not read: {why}.")))
        }
        Some(found) => Ok(found),
    }
}

/// Work that reads files, off the threads that answer.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Message> {
    tokio::task::spawn_blocking(work).await.map_err(|_| failed("This failed; that is a fault of fsarena."))
}

fn unreadable(error: std::io::Error) -> Message {
    failed(format!("The folder of runs cannot be read: {error}"))
}

fn failed(words: impl Into<String>) -> Message {
    Message::new(StatusCode::INTERNAL_SERVER_ERROR, words)
}

/// The answer 422: the request does not fit these runs, or the server cannot read them.
fn impossible(words: impl Into<String>) -> Message {
    Message::new(StatusCode::UNPROCESSABLE_ENTITY, words)
}

/// The values of one name in a query.
fn all<'q>(query: &'q [(String, String)], name: &str) -> impl Iterator<Item = &'q str> {
    query
        .iter()
        .filter(move |(key, _)| key == name)
        .map(|(_, value)| value.trim())
        .filter(|value| !value.is_empty())
}
