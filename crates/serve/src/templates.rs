//! The pages as templates. The engine escapes all text; what is put in unescaped was escaped by `fsarena_report`.

use crate::list_query::{COLUMNS, ListQuery, in_query};
use crate::{overview::Overview, renderer::RenderedPage};
use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use fsarena_core::metric::METRICS;
use fsarena_report::{begun, history::HistoryQuery, number::plural, safe};
use std::sync::Arc;

/// The list of runs.
#[derive(Template)]
#[template(path = "runs.html")]
pub struct Runs {
    /// Where the runs are.
    pub folder: String,
    /// The search and sort order.
    pub list_query: ListQuery,
    /// The runs that match.
    pub runs: Vec<Arc<Overview>>,
    /// The total number of runs.
    pub of: usize,
}

/// Runs beside each other.
#[derive(Template)]
#[template(path = "compare.html")]
pub struct Compare {
    /// The title, which names both sides.
    pub title: String,
    /// Their ids.
    pub runs: Vec<String>,
    /// The published figures that the run is beside, where it is.
    pub published: Option<String>,
    /// Published figures that the first could be beside.
    pub known: Vec<String>,
    /// By what they are compared.
    pub metric: String,
    /// By what else they could be.
    pub metrics: Vec<String>,
    /// The comparison, HTML.
    pub body: String,
    /// What the script of reports reads, JSON.
    pub data: &'static str,
}

/// A metric over runs.
#[derive(Template)]
#[template(path = "history.html")]
pub struct History {
    /// The study, variant and metric to show.
    pub asked: HistoryQuery,
    /// Studies to choose from.
    pub studies: Vec<String>,
    /// Variants to choose from.
    pub variants: Vec<String>,
    /// Metrics to choose from.
    pub metrics: Vec<String>,
    /// What it is a history of.
    pub title: String,
    /// In words and tables, HTML.
    pub body: String,
}

/// A run in progress.
#[derive(Template)]
#[template(path = "live.html")]
pub struct LivePage {
    /// Its id.
    pub id: String,
    /// What it asks.
    pub question: String,
}

/// A page that says one thing.
#[derive(Template)]
#[template(path = "message.html")]
pub struct Message {
    status: StatusCode,
    words: String,
}

impl Message {
    /// A page of this status that says this.
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

/// A template as a page.
pub fn render(template: &impl Template) -> RenderedPage {
    template.render().map(Into::into).map_err(|error| format!("This page could not be made: {error}."))
}

/// What every template says of text: one line without control characters. The engine escapes it.
trait TextFilters {
    fn line(&self, text: &str) -> String {
        safe::line(text)
    }

    /// Text as a part of an address.
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
    fn begun(&self, run: &Overview) -> String {
        self.line(&begun(&run.summary.started))
    }

    fn count(&self) -> String {
        match (self.runs.len(), self.of) {
            (all, of) if all == of => plural(of, "run"),
            (some, of) => format!("{some} of {}", plural(of, "run")),
        }
    }

    fn answer(&self, run: &Overview) -> String {
        let words = run.problem.as_ref().or(run.verdict.get());
        words.map_or(String::new(), |words| self.line(words))
    }

    fn question(&self, run: &Overview) -> String {
        run.plan.as_ref().map_or(String::new(), |plan| self.line(&plan.question))
    }

    /// Whether a run has a report to be opened.
    fn opens(&self, run: &Overview) -> bool {
        run.problem.is_none()
    }
}

/// The metrics that can be chosen, the one that is chosen among them.
pub fn metrics(chosen: &str) -> Vec<String> {
    let mut metrics: Vec<String> = METRICS.iter().map(|metric| metric.spec.id.to_string()).collect();
    if !metrics.iter().any(|id| id == chosen) {
        metrics.push(chosen.into());
    }
    metrics
}
