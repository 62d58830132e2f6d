//! The files that pages are made with.

use crate::templates::Message;
use axum::response::{IntoResponse, Response};
use axum::{extract::Path, http::StatusCode, http::header::CONTENT_TYPE};

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const ICON: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 3 3\"><path fill=\"#0072b2\" \
                    d=\"M0 0h1v3H0z\"/><path fill=\"#d55e00\" d=\"M1 1h1v2H1z\"/><path fill=\"#009e73\" d=\"M2 2h1v1H2z\"/></svg>";

/// A style sheet or a script.
pub async fn file(Path(name): Path<String>) -> Response {
    let style = || format!("{}{}", fsarena_report::html::style(), include_str!("../../assets/serve.css"));
    match name.as_str() {
        "style.css" => ([(CONTENT_TYPE, "text/css; charset=utf-8")], style()).into_response(),
        "report.js" => ([(CONTENT_TYPE, JAVASCRIPT)], fsarena_report::html::SCRIPT).into_response(),
        "runs.js" => ([(CONTENT_TYPE, JAVASCRIPT)], include_str!("../../assets/runs.js")).into_response(),
        "live.js" => ([(CONTENT_TYPE, JAVASCRIPT)], include_str!("../../assets/live.js")).into_response(),
        _ => Message::new(StatusCode::NOT_FOUND, "File not found.").into_response(),
    }
}

/// The picture in the tab.
pub async fn icon() -> Response {
    ([(CONTENT_TYPE, "image/svg+xml")], ICON).into_response()
}
