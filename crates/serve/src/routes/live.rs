//! The live page of a run in progress, and the stream of its events.

use super::page::{PageResult, find_run, internal_error_page, run_blocking, unprocessable_page};
use crate::state::{SharedData, SharedState};
use crate::templates::{self, MessagePage};
use crate::{feed::Feed, folder::RunEntry};
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse};
use fsarena_core::{matrix, record::RunRecord};
use fsarena_report::live::LiveComparison;
use futures_util::stream::{self, Stream};
use std::{collections::VecDeque, convert::Infallible, sync::Arc};
use tokio::sync::watch;

/// Serves the live page. Its script receives [`events`].
pub async fn page(shared: SharedState, Path(id): Path<String>) -> PageResult {
    let entry = find_run(&shared, id).await?;
    let render = move || {
        let plan = entry.dir.plan().ok();
        let question = plan.map_or(String::new(), |plan| plan.question);
        templates::render(&templates::LivePage { id: entry.id, question })
    };
    Ok(Html(run_blocking(render).await?.map_err(internal_error_page)?).into_response())
}

/// Serves the events of a run as server-sent events: `told` for every event of the run's log, `state` after each group of new
/// events for the state of the run, and `end` if no more will come. Their ids are offsets in the log, so that a client that
/// reconnects with its last id gets the events that it missed.
pub async fn events(shared: SharedState, Path(id): Path<String>, headers: HeaderMap) -> PageResult {
    let entry = find_run(&shared, id).await?;
    if entry.dir.event_log_file().metadata().is_ok_and(|log| log.len() > MAX_LOG_BYTES) {
        let message =
            format!("The event log of this run has more than {} MiB, the limit of this page.", MAX_LOG_BYTES >> 20);
        return Err(unprocessable_page(message));
    }
    let last_id = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.trim().parse().ok());
    let data = shared.0.clone();
    let (initial_state, dir) = run_blocking(move || (initial_state(&data, &entry), entry.dir)).await?;
    let initial_state = initial_state.map_err(|error| internal_error_page(error.to_string()))?;
    let too_many = || {
        let message = "Too many runs are being followed; close one of the live pages.";
        MessagePage::new(StatusCode::SERVICE_UNAVAILABLE, message)
    };
    let (feed, update_receiver) = shared.feeds.follow(&dir, || initial_state).ok_or_else(too_many)?;
    Ok(Sse::new(message_stream(feed, update_receiver, last_id)).keep_alive(KeepAlive::default()).into_response())
}

/// The largest event log that the server follows, in bytes. The state of a run in memory grows with its log.
const MAX_LOG_BYTES: u64 = 256 << 20;

/// The record of a run before its first event, and the comparison of its variants by the primary metric.
fn initial_state(shared: &Arc<SharedData>, entry: &RunEntry) -> fsarena_store::Result<(RunRecord, LiveComparison)> {
    let plan = entry.dir.plan()?;
    let metric = (shared.analysis.primary_metric)(&plan);
    let variants = matrix::expand(&plan);
    let mut record = RunRecord::new(plan, variants);
    fsarena_store::find_reading_definition(&entry.dir, &metric)?.map(|info| record.define_reading(info));
    Ok((record, LiveComparison::new(&metric)))
}

/// A client that follows the events of a run.
struct EventClient {
    feed: Arc<Feed>,
    update_receiver: watch::Receiver<u64>,
    /// The id of the last event that the client has.
    last_id: Option<u64>,
    /// The messages that are ready to be sent.
    ready: VecDeque<Event>,
    /// Whether a state of the run is among the messages that were sent or are ready.
    has_first_state: bool,
    /// Whether the messages that are ready are the last ones.
    has_ended: bool,
}

/// The stream of messages to a client; `last_id` is the id of the last event that it has.
fn message_stream(
    feed: Arc<Feed>,
    update_receiver: watch::Receiver<u64>,
    last_id: Option<u64>,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let client = EventClient {
        feed,
        update_receiver,
        last_id,
        ready: VecDeque::new(),
        has_first_state: false,
        has_ended: false,
    };
    stream::unfold(client, |mut client| async move {
        let message = client.next_message().await?;
        Some((Ok(message), client))
    })
}

impl EventClient {
    /// The next message, for which it waits if none is ready. `None` after the last message.
    async fn next_message(&mut self) -> Option<Event> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            if self.has_ended {
                return None;
            }
            // The first state is sent without waiting for a new event, but only after the feed has read the whole log.
            let must_wait = self.has_first_state || !self.feed.is_caught_up();
            if must_wait && self.update_receiver.changed().await.is_err() {
                return None;
            }
            if self.feed.is_caught_up() {
                self.has_first_state = true;
                self.queue_update();
            }
        }
    }

    /// Adds messages for the events since the last one, and for the state of the run.
    fn queue_update(&mut self) {
        self.update_receiver.mark_unchanged();
        let update = self.feed.update_since(self.last_id);
        let message = |id: u64, name: &str| Event::default().id(id.to_string()).event(name);
        self.ready.extend(update.events.into_iter().map(|(id, text)| message(id, "told").data(text)));
        self.ready.push_back(message(update.last_id, "state").data(&update.state));
        if update.has_ended {
            self.ready.push_back(message(update.last_id, "end").data(&update.state));
        }
        self.last_id = Some(update.last_id);
        self.has_ended = update.has_ended;
    }
}
