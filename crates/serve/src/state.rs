//! The data that all requests share, and the cache of the points of histories.

use crate::folder::{Folder, FoundRun, Stamp};
use crate::{feed::Feeds, overview::Overviews, renderer::Renderer};
use fsarena_core::{plan::Plan, record::RunRecord};
use fsarena_report::history::{HistoryQuery, Point, point};
use fsarena_report::report::Report;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The functions that analyse runs. The caller provides them, so that the server shows the same reports as the command line.
pub struct AnalysisFunctions {
    /// Analyses a run; the error is in words.
    pub report: fn(RunRecord) -> Result<Report, String>,
    /// The primary metric of a plan.
    pub metric: fn(&Plan) -> String,
}

/// The data that all requests share.
pub struct Shared {
    /// The folder of runs.
    pub folder: Folder,
    /// What the list of runs shows about each run.
    pub overviews: Overviews,
    /// The points of runs in histories.
    pub points: Points,
    /// Renders and caches pages.
    pub renderer: Renderer,
    /// Follows the runs in progress.
    pub feeds: Feeds,
    /// The functions that analyse runs.
    pub analysis: AnalysisFunctions,
}

/// The shared data, as axum passes it to the handlers of requests.
pub type State = axum::extract::State<Arc<Shared>>;

/// The largest number of cached points. A full cache is emptied.
const MAX_POINTS: usize = 20_000;

/// A cache of the points of runs in histories.
#[derive(Default)]
pub struct Points {
    kept: Mutex<HashMap<(String, HistoryQuery), KeptPoint>>,
}

/// The stamp of a run when it was read, and its point.
type KeptPoint = (Stamp, Option<Point>);

impl Points {
    /// The point of a run in a history. `None` if the run lacks the variant or cannot be read any more. Blocks the thread.
    ///
    /// # Errors
    /// The run does not have the metric; the error is in words.
    pub fn get(&self, found: &FoundRun, query: &HistoryQuery) -> Result<Option<Point>, String> {
        let key = (found.id.clone(), query.clone());
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, point)) = lock().get(&key).filter(|(stamp, _)| *stamp == found.stamp) {
            return Ok(point.clone());
        }
        let Ok(record) = fsarena_store::read(&found.run) else { return Ok(None) };
        let point = point(&record, query).map_err(|error| error.to_string())?;
        let mut kept = lock();
        if kept.len() >= MAX_POINTS {
            kept.clear();
        }
        kept.insert(key, (found.stamp.clone(), point.clone()));
        Ok(point)
    }
}
