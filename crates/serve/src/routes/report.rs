//! One run: the report that `fsarena report --format html` makes.

use super::answer::{Answer, find, impossible};
use crate::state::{Shared, State};
use crate::{folder::Found, guard::with_policy, renderer::Made};
use axum::extract::Path;
use fsarena_report::{commands::Commands, html};
use std::sync::Arc;

/// The report, or why there is none.
pub async fn page(state: State, Path(id): Path<String>) -> Answer {
    let found = find(&state, id).await?;
    let shows = ("report", found.id.clone(), found.stamp.clone());
    let (shared, id) = (state.0.clone(), found.id.clone());
    let page = state.renderer.page(&shows, found.stamp.bytes(), move || make(&shared, &found)).await;
    let page = page.map_err(|why| impossible(format!("Run {id} cannot be shown. {why}")))?;
    Ok(with_policy(page, &html::policy()))
}

fn make(shared: &Arc<Shared>, found: &Found) -> Made {
    let record = fsarena_store::read(&found.run).map_err(|error| error.to_string())?;
    let mut report = (shared.analysis.report)(record)?;
    let mut commands = Commands::default();
    fsarena_store::commands(&found.run, &mut |line| commands.push(line))
        .map_err(|error| error.to_string())?;
    report.commands = commands;
    html::report::page(&report).map(Into::into).map_err(|error| error.to_string())
}
