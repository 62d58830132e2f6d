//! The answers of runs in one line, worked out one after the other behind the list.
//!
//! To analyse a run takes work, and work disturbs measurements: while a run of the folder is in progress, none is done.

use crate::{overview::Overview, state::Shared};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{sync::Arc, time::Duration};

/// The pause between two looks at the folder.
const PAUSE: Duration = Duration::from_secs(2);

/// Works answers out for as long as the server runs, while a client reads the list.
pub async fn work(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        if shared.overviews.was_looked_at() {
            let shared = shared.clone();
            let _ = tokio::task::spawn_blocking(move || one_pass(&shared)).await;
        }
    }
}

/// All that is pending, newest first, until some run is in progress.
fn one_pass(shared: &Shared) {
    while let Ok(runs) = shared.overviews.list(&shared.folder) {
        if runs.iter().any(|run| run.state() == "running") {
            return;
        }
        let Some(next) = runs.iter().find(|run| run.is_pending()) else { return };
        let line = catch_unwind(AssertUnwindSafe(|| line(shared, next)));
        let line = line.unwrap_or_else(|_| "could not be analysed; this is a fault of fsarena".into());
        let _ = next.verdict.set(line);
    }
}

fn line(shared: &Shared, run: &Overview) -> String {
    let record = fsarena_store::read(&run.found.run).map_err(|error| error.to_string());
    let report = record.and_then(|record| (shared.analysis.report)(record));
    report.map_or_else(|error| error, |report| report.in_a_line())
}
