//! What the page with the list of runs shows about each run. The server reads the database of a run again only after the run's
//! files have changed.

use crate::folder::{Folder, RunEntry, map_in_parallel};
use crate::renderer::MAX_SUMMARIZED_DATABASE_BYTES;
use fsarena_core::plan::Plan;
use fsarena_store::{Error, RunSummary, read_summary};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{collections::HashMap, io};

/// The time for which requests share one listing of the folder.
const LISTING_LIFETIME: Duration = Duration::from_millis(300);

/// What the list of runs shows about one run, as its files were when the server read them.
pub struct Overview {
    /// The directory of the run, and the state of its files.
    pub entry: RunEntry,
    /// The summary from the database.
    pub summary: RunSummary,
    /// The plan; `None` if it cannot be read.
    pub plan: Option<Plan>,
    /// Why the run or its plan cannot be read; `None` if both can.
    pub problem: Option<String>,
    /// The answer of the run in one line, once the server has computed it.
    pub answer: OnceLock<String>,
}

/// The state of a run in the list of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListedState {
    /// The run finished everything that its plan requires.
    Complete,
    /// A process writes the run.
    Running,
    /// The run stopped before it finished everything.
    NotComplete,
    /// The run or its plan cannot be read.
    Unreadable,
}

impl ListedState {
    /// The state in words.
    pub fn text(self) -> &'static str {
        match self {
            ListedState::Complete => "complete",
            ListedState::Running => "running",
            ListedState::NotComplete => "not complete",
            ListedState::Unreadable => "cannot be read",
        }
    }

    /// Whether a process writes the run.
    pub fn is_running(self) -> bool {
        self == ListedState::Running
    }
}

/// What the list of runs shows about all runs.
#[derive(Default)]
pub struct Overviews {
    cache: Mutex<OverviewCache>,
    /// The number of databases that the server has read so far.
    databases_read: AtomicU64,
    /// Whether a client has read the list since the last call of [`Overviews::take_list_read_flag`].
    list_was_read: AtomicBool,
}

/// The overviews that the server has read.
#[derive(Default)]
struct OverviewCache {
    /// The overviews by the names of their runs.
    runs: HashMap<String, Arc<Overview>>,
    /// The time of the last listing, and its runs, newest first.
    listing: Option<(Instant, Arc<Vec<Arc<Overview>>>)>,
}

impl Overviews {
    /// Every run of the folder, newest first. Blocks the thread.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(&self, folder: &Folder) -> io::Result<Arc<Vec<Arc<Overview>>>> {
        // Hold the lock while reading the folder, so that requests that arrive meanwhile share the result.
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, listing)) =
            cache.listing.as_ref().filter(|(listed_at, _)| listed_at.elapsed() < LISTING_LIFETIME)
        {
            return Ok(listing.clone());
        }
        let runs = self.refresh(&mut cache, folder)?;
        cache.listing = Some((Instant::now(), runs.clone()));
        Ok(runs)
    }

    /// Reads all overviews into the cache before the first request. The first request still lists the folder anew.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn fill_cache(&self, folder: &Folder) -> io::Result<()> {
        self.refresh(&mut self.cache.lock().unwrap_or_else(PoisonError::into_inner), folder).map(drop)
    }

    /// Lists the folder, reads the runs that are new or have changed, and returns all runs, newest first.
    fn refresh(&self, cache: &mut OverviewCache, folder: &Folder) -> io::Result<Arc<Vec<Arc<Overview>>>> {
        let (mut runs, mut unread) = (vec![], vec![]);
        for entry in folder.runs()? {
            match cache.runs.get(&entry.id).filter(|cached| cached.entry.stamp == entry.stamp) {
                Some(cached) => runs.push(cached.clone()),
                None => unread.push(entry),
            }
        }
        runs.extend(self.read_overviews(unread));
        runs.sort_by(|a, b| (&b.summary.started, &b.entry.id).cmp(&(&a.summary.started, &a.entry.id)));
        let runs = Arc::new(runs);
        cache.runs = runs.iter().map(|run| (run.entry.id.clone(), run.clone())).collect();
        Ok(runs)
    }

    /// The number of databases that the server has read so far.
    pub fn databases_read(&self) -> u64 {
        self.databases_read.load(Ordering::Relaxed)
    }

    /// Records that a client read the list.
    pub fn record_list_read(&self) {
        self.list_was_read.store(true, Ordering::Relaxed);
    }

    /// Whether a client has read the list since the last call; resets this to false.
    pub fn take_list_read_flag(&self) -> bool {
        self.list_was_read.swap(false, Ordering::Relaxed)
    }

    /// Reads the overviews of these runs on several threads.
    fn read_overviews(&self, unread: Vec<RunEntry>) -> Vec<Arc<Overview>> {
        let readable = unread.iter().filter(|entry| entry.refused_because.is_none()).count();
        self.databases_read.fetch_add(readable as u64, Ordering::Relaxed);
        map_in_parallel(&unread, |entry| Arc::new(read_overview(entry.clone())))
    }
}

/// Reads what the list shows about one run. A run that cannot be read gets an overview with the problem.
fn read_overview(entry: RunEntry) -> Overview {
    let damaged = |reason: &str| Error::Damaged(entry.dir.path().into(), reason.into());
    let read = || read_summary(&entry.dir).map(|summary| (summary, entry.dir.plan()));
    let result = match &entry.refused_because {
        Some(why) => Err(damaged(why)),
        // Catch panics, so that one damaged run does not keep the server from listing the others.
        None => catch_unwind(AssertUnwindSafe(read))
            .unwrap_or_else(|_| Err(damaged("reading it failed; this is a fault of fsarena"))),
    };
    let (mut summary, plan, problem) = match result {
        Ok((summary, Ok(plan))) => (summary, Some(plan), None),
        Ok((summary, Err(error))) => (summary, None, Some(error.to_string())),
        Err(error) => (RunSummary::unreadable(&entry.dir, &error), None, Some(error.to_string())),
    };
    summary.id.clone_from(&entry.id);
    Overview { entry, summary, plan, problem, answer: OnceLock::new() }
}

impl Overview {
    /// The state of the run.
    pub fn state(&self) -> ListedState {
        if self.problem.is_some() {
            ListedState::Unreadable
        } else if self.summary.status.complete {
            ListedState::Complete
        } else if self.entry.stamp.running {
            ListedState::Running
        } else {
            ListedState::NotComplete
        }
    }

    /// Whether the server still has to compute the answer of the run. It computes none for a run that is too large.
    pub fn is_answer_pending(&self) -> bool {
        self.answer.get().is_none()
            && self.problem.is_none()
            && !self.state().is_running()
            && self.entry.stamp.database_bytes() <= MAX_SUMMARIZED_DATABASE_BYTES
            && self.summary.rounds > 0
    }

    /// Whether the run contains all of these words, which must be in lower case: in its state, its summary, its plan, its
    /// answer or its problem.
    pub fn contains_words(&self, words: &[String]) -> bool {
        if words.is_empty() {
            return true;
        }
        let plan = self.plan.iter().flat_map(|plan| [&plan.name, &plan.title, &plan.question]);
        let claims = self.plan.iter().flat_map(|plan| plan.claims.iter().map(|claim| &claim.text));
        let summary = &self.summary;
        let from_summary = [&summary.id, &summary.study, &summary.started, &summary.status.why];
        let lists = [&summary.variants, &summary.machines, &summary.notes].into_iter().flatten();
        let answer_or_problem = self.answer.get().into_iter().chain(&self.problem);
        let texts: Vec<String> = from_summary
            .into_iter()
            .chain(plan)
            .chain(claims)
            .chain(lists)
            .chain(answer_or_problem)
            .map(|text| text.to_lowercase())
            .collect();
        words
            .iter()
            .all(|word| self.state().text().contains(word.as_str()) || texts.iter().any(|text| text.contains(word)))
    }
}
