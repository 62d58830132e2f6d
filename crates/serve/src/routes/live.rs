//! The live page of a run in progress, and the stream of its events.

use super::page::{PageResult, blocking, failed, find_run, unprocessable_page};
use crate::state::{Shared, State};
use crate::templates::{self, Message};
use crate::{feed::Feed, folder::FoundRun};
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse};
use fsarena_core::{matrix, record::RunRecord};
use fsarena_report::live::Intervals;
use futures_util::stream::{self, Stream};
use std::{collections::VecDeque, convert::Infallible, sync::Arc};
use tokio::sync::watch;

/// Serves the live page. Its script receives [`events`].
pub async fn page(state: State, Path(id): Path<String>) -> PageResult {
    let found = find_run(&state, id).await?;
    let work = move || {
        let plan = found.run.plan().ok();
        let question = plan.map_or(String::new(), |plan| plan.question);
        templates::render(&templates::LivePage { id: found.id, question })
    };
    Ok(Html(blocking(work).await?.map_err(failed)?).into_response())
}

/// Serves the events of a run as server-sent events: `told` for every event of the run's log, `state` for the state of the run
/// after it, and `end` if no more will come. Their ids are offsets in the log, so that a client that reconnects with its last id
/// gets the events that it missed.
pub async fn events(state: State, Path(id): Path<String>, headers: HeaderMap) -> PageResult {
    let found = find_run(&state, id).await?;
    if found.run.event_log().metadata().is_ok_and(|log| log.len() > LARGEST_LOG) {
        let words = format!(
            "The event log of this run has more than {} MiB, the limit of this page.",
            LARGEST_LOG >> 20
        );
        return Err(unprocessable_page(words));
    }
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.trim().parse().ok());
    let shared = state.0.clone();
    let (beginning, run) = blocking(move || (beginning(&shared, &found), found.run)).await?;
    let beginning = beginning.map_err(|error| failed(error.to_string()))?;
    let too_many = || {
        let words = "Too many runs are being followed; close one of the live pages.";
        Message::new(StatusCode::SERVICE_UNAVAILABLE, words)
    };
    let (feed, changed) = state.feeds.follow(&run, || beginning).ok_or_else(too_many)?;
    Ok(Sse::new(messages(feed, changed, last)).keep_alive(KeepAlive::default()).into_response())
}

/// The largest size of a log that the server follows, in bytes. The state of a run in memory grows with its log.
const LARGEST_LOG: u64 = 256 << 20;

/// The record of a run before its first event, and the intervals of its primary metric.
fn beginning(shared: &Arc<Shared>, found: &FoundRun) -> fsarena_store::Result<(RunRecord, Intervals)> {
    let plan = found.run.plan()?;
    let metric = (shared.analysis.metric)(&plan);
    let variants = matrix::expand(&plan);
    let mut record = RunRecord::new(plan, variants);
    fsarena_store::reading(&found.run, &metric)?.map(|info| record.define(info));
    Ok((record, Intervals::new(&metric)))
}

/// A client that receives the events of a run.
struct Listener {
    feed: Arc<Feed>,
    changed: watch::Receiver<u64>,
    /// The id of the last event that the client has.
    last: Option<u64>,
    /// The messages that are ready to be sent.
    ready: VecDeque<Event>,
    /// Whether the first state is among the messages sent or ready.
    has_state: bool,
    ended: bool,
}

/// The stream of messages to a client; `last` is the id of the last event that it has.
fn messages(
    feed: Arc<Feed>,
    changed: watch::Receiver<u64>,
    last: Option<u64>,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let listener = Listener { feed, changed, last, ready: VecDeque::new(), has_state: false, ended: false };
    stream::unfold(listener, |mut listener| async move {
        loop {
            if let Some(message) = listener.ready.pop_front() {
                return Some((Ok(message), listener));
            }
            if listener.ended {
                return None;
            }
            if (listener.has_state || !listener.feed.is_caught_up())
                && listener.changed.changed().await.is_err()
            {
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
        let update = self.feed.since(self.last);
        let message = |id: u64, name: &str| Event::default().id(id.to_string()).event(name);
        self.ready.extend(update.events.into_iter().map(|(id, text)| message(id, "told").data(text)));
        self.ready.push_back(message(update.last, "state").data(&update.state));
        if update.ended {
            self.ready.push_back(message(update.last, "end").data(&update.state));
        }
        self.last = Some(update.last);
        self.ended = update.ended;
    }
}
