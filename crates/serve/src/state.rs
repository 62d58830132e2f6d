//! What all requests share.

use crate::folder::{Folder, FoundRun, Stamp};
use crate::{feed::Feeds, overview::Overviews, renderer::Renderer};
use fsarena_core::{plan::Plan, record::RunRecord};
use fsarena_report::history::{HistoryQuery, Point, point};
use fsarena_report::report::Report;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

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

/// How many answers are kept.
const MAX_POINTS: usize = 20_000;

/// What single runs say.
#[derive(Default)]
pub struct Points {
    kept: Mutex<HashMap<(String, HistoryQuery), KeptPoint>>,
}

/// What a run in some state said.
type KeptPoint = (Stamp, Option<Point>);

impl Points {
    /// What a run says; nothing where it has no such variant or cannot be read any more. Blocks the thread.
    ///
    /// # Errors
    /// Where it knows no such metric, in words.
    pub fn get(&self, found: &FoundRun, asked: &HistoryQuery) -> Result<Option<Point>, String> {
        let key = (found.id.clone(), asked.clone());
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, point)) = lock().get(&key).filter(|(stamp, _)| *stamp == found.stamp) {
            return Ok(point.clone());
        }
        let Ok(record) = fsarena_store::read(&found.run) else { return Ok(None) };
        let point = point(&record, asked).map_err(|error| error.to_string())?;
        let mut kept = lock();
        if kept.len() >= MAX_POINTS {
            kept.clear();
        }
        kept.insert(key, (found.stamp.clone(), point.clone()));
        Ok(point)
    }
}
