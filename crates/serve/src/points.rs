//! What single runs say in a history. It is kept: a new run must not mean that all are read again.

use crate::folder::{Found, Stamp};
use fsarena_report::history::{Asked, Point, point};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// How many answers are kept.
const MOST: usize = 20_000;

/// What single runs say.
#[derive(Default)]
pub struct Points {
    kept: Mutex<HashMap<(String, Asked), Kept>>,
}

/// What a run in some state said.
type Kept = (Stamp, Option<Point>);

impl Points {
    /// What a run says; nothing where it has no such variant or cannot be read any more. Rounds.
    ///
    /// # Errors
    /// Where it knows no such metric, in words.
    pub fn get(&self, found: &Found, asked: &Asked) -> Result<Option<Point>, String> {
        let key = (found.id.clone(), asked.clone());
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, point)) = lock().get(&key).filter(|(stamp, _)| *stamp == found.stamp) {
            return Ok(point.clone());
        }
        let Ok(record) = fsarena_store::read(&found.run) else { return Ok(None) };
        let point = point(&record, asked).map_err(|error| error.to_string())?;
        let mut kept = lock();
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(key, (found.stamp.clone(), point.clone()));
        Ok(point)
    }
}
