//! What the list knows of every run. A database is opened once for each state of its files. The answers of runs in one line are
//! worked out one after the other behind the list.
//!
//! To analyse a run takes work, and work disturbs measurements: while a run of the folder is in progress, none is done.

use crate::folder::{Folder, FoundRun, in_parallel};
use crate::{renderer::LARGEST_LISTED, server::Shared};
use fsarena_core::plan::Plan;
use fsarena_store::{Error, RunSummary, summary};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{collections::HashMap, io};

/// How old a listing may be that several readers share.
const FRESH: Duration = Duration::from_millis(300);

/// The list's data about one run in one state.
pub struct Overview {
    /// Where it is, and the state.
    pub found: FoundRun,
    /// What its database says.
    pub summary: RunSummary,
    /// Its plan; none where that cannot be read.
    pub plan: Option<Plan>,
    /// Why it cannot be read.
    pub problem: Option<String>,
    /// Its answer in one line, once it has been computed.
    pub verdict: OnceLock<String>,
}

/// The list's data about all runs.
#[derive(Default)]
pub struct Overviews {
    known: Mutex<Cache>,
    /// How many databases were opened.
    opened: AtomicU64,
    /// Whether a client read the list since the last [`Overviews::was_looked_at`].
    looked: AtomicBool,
}

#[derive(Default)]
struct Cache {
    runs: HashMap<String, Arc<Overview>>,
    listed: Option<(Instant, Arc<Vec<Arc<Overview>>>)>,
}

impl Overviews {
    /// Every run of the folder, newest first. Blocks the thread.
    ///
    /// # Errors
    /// Where the folder cannot be read.
    pub fn list(&self, folder: &Folder) -> io::Result<Arc<Vec<Arc<Overview>>>> {
        // Held while the folder is read: requests that arrive meanwhile share the result.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, listed)) = known.listed.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(listed.clone());
        }
        let runs = self.learn(&mut known, folder)?;
        known.listed = Some((Instant::now(), runs.clone()));
        Ok(runs)
    }

    /// Reads the folder before the first request. Later requests still list the folder anew.
    ///
    /// # Errors
    /// Where the folder cannot be read.
    pub fn prepare(&self, folder: &Folder) -> io::Result<()> {
        self.learn(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner), folder).map(drop)
    }

    fn learn(&self, known: &mut Cache, folder: &Folder) -> io::Result<Arc<Vec<Arc<Overview>>>> {
        let found = folder.runs()?;
        let (mut runs, mut unread) = (vec![], vec![]);
        for found in found {
            match known.runs.get(&found.id).filter(|known| known.found.stamp == found.stamp) {
                Some(known) => runs.push(known.clone()),
                None => unread.push(found),
            }
        }
        runs.extend(self.read(unread));
        runs.sort_by(|a, b| (&b.summary.started, &b.found.id).cmp(&(&a.summary.started, &a.found.id)));
        let runs = Arc::new(runs);
        known.runs = runs.iter().map(|run| (run.found.id.clone(), run.clone())).collect();
        Ok(runs)
    }

    /// How many databases were opened so far.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Records that a client read the list.
    pub fn look(&self) {
        self.looked.store(true, Ordering::Relaxed);
    }

    /// Whether a client read the list since the last call.
    pub fn was_looked_at(&self) -> bool {
        self.looked.swap(false, Ordering::Relaxed)
    }

    fn read(&self, unread: Vec<FoundRun>) -> Vec<Arc<Overview>> {
        let readable = unread.iter().filter(|found| found.refused.is_none()).count();
        self.opened.fetch_add(readable as u64, Ordering::Relaxed);
        in_parallel(&unread, |found| Arc::new(read_overview(found.clone())))
    }
}

/// Reads what the list needs of one run.
fn read_overview(found: FoundRun) -> Overview {
    let damaged = |what: &str| Error::Damaged(found.run.path().into(), what.into());
    let read = || summary(&found.run).map(|told| (told, found.run.plan()));
    let (told, plan) = match &found.refused {
        Some(why) => (Err(damaged(why)), None),
        // One run must not take the others with it, whatever is in its files.
        None => match catch_unwind(AssertUnwindSafe(read)) {
            Ok(Ok((told, plan))) => (Ok(told), Some(plan)),
            Ok(Err(error)) => (Err(error), None),
            Err(_) => (Err(damaged("reading it failed; this is a fault of fsarena")), None),
        },
    };
    let problem = match (&told, &plan) {
        (Err(error), _) | (_, Some(Err(error))) => Some(error.to_string()),
        _ => None,
    };
    let mut summary = told.unwrap_or_else(|error| RunSummary::unreadable(&found.run, &error));
    summary.id.clone_from(&found.id);
    Overview { found, summary, plan: plan.and_then(Result::ok), problem, verdict: OnceLock::new() }
}

impl Overview {
    /// `running`, `complete`, `not complete` or `cannot be read`.
    pub fn state(&self) -> &'static str {
        match (&self.problem, self.found.stamp.running, self.summary.status.complete) {
            (Some(_), ..) => "cannot be read",
            (_, true, false) => "running",
            (_, _, true) => "complete",
            (_, _, false) => "not complete",
        }
    }

    /// Whether the answer of a run is still to come.
    pub fn is_pending(&self) -> bool {
        self.verdict.get().is_none()
            && self.problem.is_none()
            && self.state() != "running"
            && self.found.stamp.bytes() <= LARGEST_LISTED
            && self.summary.rounds > 0
    }

    /// Whether some text of it has every one of these words, in lower case.
    pub fn holds(&self, words: &[String]) -> bool {
        if words.is_empty() {
            return true;
        }
        let plan = self.plan.iter().flat_map(|plan| [&plan.name, &plan.title, &plan.question]);
        let claims = self.plan.iter().flat_map(|plan| plan.claims.iter().map(|claim| &claim.text));
        let summary = &self.summary;
        let own = [&summary.id, &summary.study, &summary.started, &summary.status.why];
        let lists = [&summary.variants, &summary.machines, &summary.notes].into_iter().flatten();
        let rest = self.verdict.get().into_iter().chain(&self.problem);
        let texts: Vec<String> = own
            .into_iter()
            .chain(plan)
            .chain(claims)
            .chain(lists)
            .chain(rest)
            .map(|text| text.to_lowercase())
            .collect();
        words
            .iter()
            .all(|word| self.state().contains(word.as_str()) || texts.iter().any(|text| text.contains(word)))
    }
}

/// The pause between two looks at the folder.
const PAUSE: Duration = Duration::from_secs(2);

/// Works answers out for as long as the server runs, while a client reads the list.
pub async fn answer_pending_runs(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        if shared.overviews.was_looked_at() {
            let shared = shared.clone();
            let _ = tokio::task::spawn_blocking(move || answer_all_pending(&shared)).await;
        }
    }
}

/// All that is pending, newest first, until some run is in progress.
fn answer_all_pending(shared: &Shared) {
    while let Ok(runs) = shared.overviews.list(&shared.folder) {
        if runs.iter().any(|run| run.state() == "running") {
            return;
        }
        let Some(next) = runs.iter().find(|run| run.is_pending()) else { return };
        let line = catch_unwind(AssertUnwindSafe(|| answer_line(shared, next)));
        let line = line.unwrap_or_else(|_| "could not be analysed; this is a fault of fsarena".into());
        let _ = next.verdict.set(line);
    }
}

fn answer_line(shared: &Shared, run: &Overview) -> String {
    let record = fsarena_store::read(&run.found.run).map_err(|error| error.to_string());
    let report = record.and_then(|record| (shared.analysis.report)(record));
    report.map_or_else(|error| error, |report| report.in_a_line())
}
