//! The data that all requests share, and the cache of the points of histories.

use crate::folder::{Folder, RunEntry, Stamp};
use crate::{feed::Feeds, overview::Overviews, renderer::Renderer};
use fsarena_core::{plan::Plan, record::RunRecord};
use fsarena_report::history::{HistoryPoint, HistoryQuery, history_point};
use fsarena_report::report::Report;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The functions that analyse runs. The caller provides them, so that the server shows the same reports as the command line.
pub struct AnalysisFunctions {
    /// Analyses a run; the error is a sentence.
    pub analyse_run: fn(RunRecord) -> Result<Report, String>,
    /// Returns the primary metric of a plan.
    pub primary_metric: fn(&Plan) -> String,
}

/// The data that all requests share.
pub struct SharedData {
    /// The folder of runs.
    pub folder: Folder,
    /// What the list of runs shows about each run.
    pub overviews: Overviews,
    /// The points of runs in histories.
    pub history_points: PointCache,
    /// Renders and caches pages.
    pub renderer: Renderer,
    /// Follows the runs in progress.
    pub feeds: Feeds,
    /// The functions that analyse runs.
    pub analysis: AnalysisFunctions,
}

/// The shared data, as axum passes it to the handlers of requests.
pub type SharedState = axum::extract::State<Arc<SharedData>>;

/// The largest number of cached points. A full cache is emptied.
const MAX_POINTS: usize = 20_000;

/// A cache of the points of runs in histories.
#[derive(Default)]
pub struct PointCache {
    points: Mutex<CachedPoints>,
}

/// The points by the id of the run and the query, each with the stamp of the run when it was read. `None` for a run that lacks
/// the variant.
type CachedPoints = HashMap<(String, HistoryQuery), (Stamp, Option<HistoryPoint>)>;

impl PointCache {
    /// The point of a run in a history, from the cache or read from the run. `None` if the run lacks the variant or cannot be
    /// read any more. Blocks the thread.
    ///
    /// # Errors
    /// The run does not have the metric; the error is a sentence.
    pub fn get_or_read(&self, entry: &RunEntry, query: &HistoryQuery) -> Result<Option<HistoryPoint>, String> {
        let key = (entry.id.clone(), query.clone());
        if let Some((_, point)) = self.lock().get(&key).filter(|(stamp, _)| *stamp == entry.stamp) {
            return Ok(point.clone());
        }
        let Ok(record) = fsarena_store::read(&entry.dir) else { return Ok(None) };
        let point = history_point(&record, query).map_err(|error| error.to_string())?;
        let mut points = self.lock();
        if points.len() >= MAX_POINTS {
            points.clear();
        }
        points.insert(key, (entry.stamp.clone(), point.clone()));
        Ok(point)
    }

    fn lock(&self) -> MutexGuard<'_, CachedPoints> {
        self.points.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
