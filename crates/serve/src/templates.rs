//! The templates of the pages. The template engine escapes all text, except for HTML in which `fsarena_report` already escaped
//! the text.

use crate::list_query::{COLUMNS, ListQuery, in_query};
use crate::{overview::Overview, renderer::RenderResult};
use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use fsarena_core::metric::METRICS;
use fsarena_report::{format_start, history::HistoryQuery, number::plural, safe};
use std::sync::Arc;

/// The list of runs.
#[derive(Template)]
#[template(path = "runs.html")]
pub struct Runs {
    /// The path of the folder of runs.
    pub folder: String,
    /// The search and sort order.
    pub list_query: ListQuery,
    /// The runs that match.
    pub runs: Vec<Arc<Overview>>,
    /// The total number of runs.
    pub total: usize,
}

/// A comparison of runs.
#[derive(Template)]
#[template(path = "compare.html")]
pub struct Compare {
    /// The title, which names both sides.
    pub title: String,
    /// The ids of the runs.
    pub runs: Vec<String>,
    /// The published figures with which the run is compared; `None` if runs are compared with each other.
    pub published: Option<String>,
    /// The other published figures with which the first run can be compared.
    pub known: Vec<String>,
    /// The metric of the comparison.
    pub metric: String,
    /// The metrics to choose from.
    pub metrics: Vec<String>,
    /// The comparison as HTML.
    pub body: String,
    /// The data for the script of reports, as JSON.
    pub data: &'static str,
}

/// The history of a metric over runs.
#[derive(Template)]
#[template(path = "history.html")]
pub struct History {
    /// The study, variant and metric to show.
    pub query: HistoryQuery,
    /// Studies to choose from.
    pub studies: Vec<String>,
    /// Variants to choose from.
    pub variants: Vec<String>,
    /// Metrics to choose from.
    pub metrics: Vec<String>,
    /// The title of the page.
    pub title: String,
    /// The history as HTML.
    pub body: String,
}

/// A run in progress.
#[derive(Template)]
#[template(path = "live.html")]
pub struct LivePage {
    /// The id of the run.
    pub id: String,
    /// The question of its plan.
    pub question: String,
}

/// A page with a single message, such as an error.
#[derive(Template)]
#[template(path = "message.html")]
pub struct Message {
    status: StatusCode,
    words: String,
}

impl Message {
    /// A page with this HTTP status and message.
    pub fn new(status: StatusCode, words: impl Into<String>) -> Message {
        Message { status, words: words.into() }
    }
}

impl IntoResponse for Message {
    fn into_response(self) -> Response {
        match render(&self) {
            Ok(page) => (self.status, Html(page)).into_response(),
            Err(why) => (self.status, why).into_response(),
        }
    }
}

/// Renders a template as a page.
pub fn render(template: &impl Template) -> RenderResult {
    template.render().map(Into::into).map_err(|error| format!("This page could not be made: {error}."))
}

/// Methods with which all templates format text. The template engine escapes the result.
trait TextFilters {
    /// The text as one line without control characters.
    fn line(&self, text: &str) -> String {
        safe::line(text)
    }

    /// The text encoded for the query of a URL.
    fn query(&self, text: &str) -> String {
        in_query(text)
    }
}

impl TextFilters for Runs {}
impl TextFilters for Compare {}
impl TextFilters for History {}
impl TextFilters for LivePage {}
impl TextFilters for Message {}

impl Runs {
    /// The start of a run.
    fn begun(&self, run: &Overview) -> String {
        self.line(&format_start(&run.summary.started))
    }

    /// The number of matching runs, and of all: `3 of 20 runs`, or `20 runs` if all match.
    fn count(&self) -> String {
        let all = plural(self.total, "run");
        if self.runs.len() == self.total { all } else { format!("{} of {all}", self.runs.len()) }
    }

    /// The answer of a run in one line, or its problem; empty if the answer is not computed yet.
    fn answer(&self, run: &Overview) -> String {
        let words = run.problem.as_ref().or(run.verdict.get());
        words.map_or(String::new(), |words| self.line(words))
    }

    /// The question of the plan of a run; empty if its plan cannot be read.
    fn question(&self, run: &Overview) -> String {
        run.plan.as_ref().map_or(String::new(), |plan| self.line(&plan.question))
    }

    /// Whether the server can open the report of a run.
    fn opens(&self, run: &Overview) -> bool {
        run.problem.is_none()
    }
}

/// The ids of all metrics to choose from; includes the chosen one, even if it is not predefined.
pub fn metrics(chosen: &str) -> Vec<String> {
    let mut metrics: Vec<String> = METRICS.iter().map(|metric| metric.spec.id.to_string()).collect();
    if !metrics.iter().any(|id| id == chosen) {
        metrics.push(chosen.into());
    }
    metrics
}
