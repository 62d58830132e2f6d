//! The live page of a run in progress, and the stream of its events.

use super::page::{PageResult, find_run, internal_error_page, run_blocking, unprocessable_page};
use crate::state::{SharedData, State};
use crate::templates::{self, MessagePage};
use crate::{feed::Feed, folder::FoundRun};
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse};
use fsarena_core::{matrix, record::RunRecord};
use fsarena_report::live::VariantIntervals;
use futures_util::stream::{self, Stream};
use std::{collections::VecDeque, convert::Infallible, sync::Arc};
use tokio::sync::watch;

/// Serves the live page. Its script receives [`events`].
pub async fn page(state: State, Path(id): Path<String>) -> PageResult {
    let found = find_run(&state, id).await?;
    let work = move || {
        let plan = found.dir.plan().ok();
        let question = plan.map_or(String::new(), |plan| plan.question);
        templates::render(&templates::LivePage { id: found.id, question })
    };
    Ok(Html(run_blocking(work).await?.map_err(internal_error_page)?).into_response())
}

/// Serves the events of a run as server-sent events: `told` for every event of the run's log, `state` for the state of the run
/// after it, and `end` if no more will come. Their ids are offsets in the log, so that a client that reconnects with its last
/// id gets the events that it missed.
pub async fn events(state: State, Path(id): Path<String>, headers: HeaderMap) -> PageResult {
    let found = find_run(&state, id).await?;
    if found.dir.event_log_file().metadata().is_ok_and(|log| log.len() > MAX_LOG_BYTES) {
        let message =
            format!("The event log of this run has more than {} MiB, the limit of this page.", MAX_LOG_BYTES >> 20);
        return Err(unprocessable_page(message));
    }
    let last_id = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.trim().parse().ok());
    let shared = state.0.clone();
    let (beginning, run) = run_blocking(move || (beginning(&shared, &found), found.dir)).await?;
    let beginning = beginning.map_err(|error| internal_error_page(error.to_string()))?;
    let too_many = || {
        let message = "Too many runs are being followed; close one of the live pages.";
        MessagePage::new(StatusCode::SERVICE_UNAVAILABLE, message)
    };
    let (feed, changed) = state.feeds.follow(&run, || beginning).ok_or_else(too_many)?;
    Ok(Sse::new(message_stream(feed, changed, last_id)).keep_alive(KeepAlive::default()).into_response())
}

/// The largest size of a log that the server follows, in bytes. The state of a run in memory grows with its log.
const MAX_LOG_BYTES: u64 = 256 << 20;

/// The record of a run before its first event, and the intervals of its primary metric.
fn beginning(shared: &Arc<SharedData>, found: &FoundRun) -> fsarena_store::Result<(RunRecord, VariantIntervals)> {
    let plan = found.dir.plan()?;
    let metric = (shared.analysis.primary_metric)(&plan);
    let variants = matrix::expand(&plan);
    let mut record = RunRecord::new(plan, variants);
    fsarena_store::find_reading(&found.dir, &metric)?.map(|info| record.define_reading(info));
    Ok((record, VariantIntervals::new(&metric)))
}

/// A client that receives the events of a run.
struct Listener {
    feed: Arc<Feed>,
    changed: watch::Receiver<u64>,
    /// The id of the last event that the client has.
    last_id: Option<u64>,
    /// The messages that are ready to be sent.
    ready: VecDeque<Event>,
    /// Whether the first state is among the messages sent or ready.
    has_state: bool,
    ended: bool,
}

/// The stream of messages to a client; `last_id` is the id of the last event that it has.
fn message_stream(
    feed: Arc<Feed>,
    changed: watch::Receiver<u64>,
    last_id: Option<u64>,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let listener = Listener { feed, changed, last_id, ready: VecDeque::new(), has_state: false, ended: false };
    stream::unfold(listener, |mut listener| async move {
        loop {
            if let Some(message) = listener.ready.pop_front() {
                return Some((Ok(message), listener));
            }
            if listener.ended {
                return None;
            }
            if (listener.has_state || !listener.feed.is_caught_up()) && listener.changed.changed().await.is_err() {
                return None;
            }
            if listener.feed.is_caught_up() {
                listener.has_state = true;
                listener.queue_update();
            }
        }
    })
}

impl Listener {
    /// Adds messages for the events since the last one, and for the state of the run.
    fn queue_update(&mut self) {
        self.changed.mark_unchanged();
        let update = self.feed.update_since(self.last_id);
        let message = |id: u64, name: &str| Event::default().id(id.to_string()).event(name);
        self.ready.extend(update.events.into_iter().map(|(id, text)| message(id, "told").data(text)));
        self.ready.push_back(message(update.last_id, "state").data(&update.state));
        if update.ended {
            self.ready.push_back(message(update.last_id, "end").data(&update.state));
        }
        self.last_id = Some(update.last_id);
        self.ended = update.ended;
    }
}
