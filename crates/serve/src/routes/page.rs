//! Functions that all pages share: they find a run, run blocking work, and create error pages.

use crate::{folder::FoundRun, state::Shared, templates::Message};
use axum::{http::StatusCode, response::Response};
use std::sync::Arc;

/// A page, or the page with the error.
pub type PageResult = Result<Response, Message>;

/// Finds a run that the server may read.
///
/// # Errors
/// A page with the reason: the run does not exist (404), or must not be read (403); or the folder cannot be read (500).
pub async fn find_run(shared: &Arc<Shared>, id: String) -> Result<FoundRun, Message> {
    let shared = shared.clone();
    let found = blocking(move || shared.folder.find(&id)).await?.map_err(unreadable)?;
    match found {
        None => Err(Message::new(StatusCode::NOT_FOUND, "Run not found in this folder.")),
        Some(FoundRun { id, refused: Some(why), .. }) => {
            Err(Message::new(StatusCode::FORBIDDEN, format!("Run {id} is not read: {why}.")))
        }
        Some(found) => Ok(found),
    }
}

/// Runs work that reads files on a thread for blocking work.
///
/// # Errors
/// A page with the status 500 if the work panics.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Message> {
    tokio::task::spawn_blocking(work).await.map_err(|_| failed("This failed; that is a fault of fsarena."))
}

/// A page with the status 500: the folder of runs cannot be read.
pub fn unreadable(error: std::io::Error) -> Message {
    failed(format!("The folder of runs cannot be read: {error}"))
}

/// A page with the status 500.
pub fn failed(words: impl Into<String>) -> Message {
    Message::new(StatusCode::INTERNAL_SERVER_ERROR, words)
}

/// A page with the status 422: the request does not fit these runs, or the server cannot read them.
pub fn unprocessable_page(words: impl Into<String>) -> Message {
    Message::new(StatusCode::UNPROCESSABLE_ENTITY, words)
}

/// The values of a parameter in a query, without empty ones.
pub fn query_values<'q>(query: &'q [(String, String)], name: &str) -> impl Iterator<Item = &'q str> {
    query
        .iter()
        .filter(move |(key, _)| key == name)
        .map(|(_, value)| value.trim())
        .filter(|value| !value.is_empty())
}
