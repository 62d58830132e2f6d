//! The templates of the pages. The template engine escapes all text, except for HTML in which `fsarena_report` already escaped
//! the text.

use crate::list_query::{COLUMNS, ListQuery, url_encoded};
use crate::{overview::Overview, renderer::RenderResult};
use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use fsarena_core::metric::METRICS;
use fsarena_report::{escape, format_start_time, history::HistoryQuery, number::plural};
use std::sync::Arc;

/// The list of runs.
#[derive(Template)]
#[template(path = "runs.html")]
pub struct RunsPage {
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
pub struct ComparePage {
    /// The title, which names the runs.
    pub title: String,
    /// The ids of the runs.
    pub runs: Vec<String>,
    /// The published figures with which the run is compared; `None` if runs are compared with each other.
    pub published: Option<String>,
    /// The other published figures with which the first run can be compared.
    pub other_published: Vec<String>,
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
pub struct HistoryPage {
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
pub struct MessagePage {
    status: StatusCode,
    text: String,
}

impl MessagePage {
    /// A page with this HTTP status and message.
    pub fn new(status: StatusCode, text: impl Into<String>) -> MessagePage {
        MessagePage { status, text: text.into() }
    }
}

impl IntoResponse for MessagePage {
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
    /// The text in one line, without control characters.
    fn in_one_line(&self, text: &str) -> String {
        escape::line(text)
    }

    /// The text encoded for the query of a URL.
    fn url_encoded(&self, text: &str) -> String {
        url_encoded(text)
    }
}

impl TextFilters for RunsPage {}
impl TextFilters for ComparePage {}
impl TextFilters for HistoryPage {}
impl TextFilters for LivePage {}
impl TextFilters for MessagePage {}

impl RunsPage {
    /// The date and time at which a run started.
    fn start_time(&self, run: &Overview) -> String {
        self.in_one_line(&format_start_time(&run.summary.started))
    }

    /// The number of matching runs and of all runs: `3 of 20 runs`, or `20 runs` if all match.
    fn count_text(&self) -> String {
        let total = plural(self.total, "run");
        if self.runs.len() == self.total { total } else { format!("{} of {total}", self.runs.len()) }
    }

    /// The answer of a run in one line, or why the run cannot be read; empty if the answer is not computed yet.
    fn answer_or_problem(&self, run: &Overview) -> String {
        let text = run.problem.as_ref().or(run.answer.get());
        text.map_or(String::new(), |text| self.in_one_line(text))
    }

    /// The question of the plan of a run; empty if its plan cannot be read.
    fn plan_question(&self, run: &Overview) -> String {
        run.plan.as_ref().map_or(String::new(), |plan| self.in_one_line(&plan.question))
    }

    /// Whether the server can show a report of the run.
    fn has_report(&self, run: &Overview) -> bool {
        run.problem.is_none()
    }
}

/// The ids of all metrics to choose from; includes the chosen one, even if it is not predefined.
pub fn metrics_to_choose(chosen: &str) -> Vec<String> {
    let mut metrics: Vec<String> = METRICS.iter().map(|metric| metric.spec.id.to_string()).collect();
    if !metrics.iter().any(|id| id == chosen) {
        metrics.push(chosen.into());
    }
    metrics
}
