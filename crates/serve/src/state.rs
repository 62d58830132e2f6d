//! What all requests share.

use crate::feed::Feeds;
use crate::folder::Folder;
use crate::overview::Overviews;
use crate::points::Points;
use crate::renderer::Renderer;
use fsarena_core::plan::Plan;
use fsarena_core::record::RunRecord;
use fsarena_report::report::Report;
use std::sync::Arc;

/// How a run is analysed, which is the caller's to say: the page shows the report that the command line makes.
pub struct Analysis {
    /// Analyses a run.
    pub report: fn(RunRecord) -> Result<Report, String>,
    /// The metric that answers for the work of a plan.
    pub metric: fn(&Plan) -> String,
}

/// What all requests share.
pub struct Shared {
    /// The folder of runs.
    pub folder: Folder,
    /// What the list knows of them.
    pub overviews: Overviews,
    /// What single runs say in histories.
    pub points: Points,
    /// Who makes pages.
    pub renderer: Renderer,
    /// Who follows runs in progress.
    pub feeds: Feeds,
    /// How runs are analysed.
    pub analysis: Analysis,
}

/// A handle of it.
pub type State = axum::extract::State<Arc<Shared>>;
