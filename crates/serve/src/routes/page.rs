//! Functions that all pages share: they find a run, run blocking work, and create error pages.

use crate::{folder::RunEntry, state::SharedData, templates::MessagePage};
use axum::{http::StatusCode, response::Response};
use std::sync::Arc;

/// A page, or the page with the error.
pub type PageResult = Result<Response, MessagePage>;

/// Finds a run that the server may read.
///
/// # Errors
/// A page with the reason: the run does not exist (404), or must not be read (403); or the folder cannot be read (500).
pub async fn find_run(shared: &Arc<SharedData>, id: String) -> Result<RunEntry, MessagePage> {
    let shared = shared.clone();
    let entry = run_blocking(move || shared.folder.find(&id)).await?.map_err(unreadable_folder_page)?;
    match entry {
        None => Err(MessagePage::new(StatusCode::NOT_FOUND, "Run not found in this folder.")),
        Some(RunEntry { id, refused_because: Some(why), .. }) => {
            Err(MessagePage::new(StatusCode::FORBIDDEN, format!("Run {id} is not read: {why}.")))
        }
        Some(entry) => Ok(entry),
    }
}

/// Runs work that reads files on a thread for blocking work.
///
/// # Errors
/// A page with the status 500 if the work panics.
pub async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, MessagePage> {
    tokio::task::spawn_blocking(work).await.map_err(|_| internal_error_page("This failed; that is a fault of fsarena."))
}

/// A page with the status 500: the folder of runs cannot be read.
pub fn unreadable_folder_page(error: std::io::Error) -> MessagePage {
    internal_error_page(format!("The folder of runs cannot be read: {error}"))
}

/// A page with the status 500.
pub fn internal_error_page(text: impl Into<String>) -> MessagePage {
    MessagePage::new(StatusCode::INTERNAL_SERVER_ERROR, text)
}

/// A page with the status 422: the request does not fit these runs, or the server cannot read them.
pub fn unprocessable_page(text: impl Into<String>) -> MessagePage {
    MessagePage::new(StatusCode::UNPROCESSABLE_ENTITY, text)
}

/// The values of a parameter in a query, without empty ones.
pub fn query_values<'q>(query: &'q [(String, String)], name: &str) -> impl Iterator<Item = &'q str> {
    query.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
}
