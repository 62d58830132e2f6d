//! A run in progress, as it goes on.

use super::{PageResult, blocking, failed, find_run, impossible};
use crate::server::{Shared, State};
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

/// The page; its script listens to [`events`].
pub async fn page(state: State, Path(id): Path<String>) -> PageResult {
    let found = find_run(&state, id).await?;
    let work = move || {
        let plan = found.run.plan().ok();
        let question = plan.map_or(String::new(), |plan| plan.question);
        templates::render(&templates::LivePage { id: found.id, question })
    };
    Ok(Html(blocking(work).await?.map_err(failed)?).into_response())
}

/// Server-sent events: `told` for every event of the run's log, `state` for how it stands after it, `end` when nothing
/// more will come. Their ids are offsets in the log, so that a client that reconnects with its last id gets the rest.
pub async fn events(state: State, Path(id): Path<String>, headers: HeaderMap) -> PageResult {
    let found = find_run(&state, id).await?;
    if found.run.event_log().metadata().is_ok_and(|log| log.len() > LARGEST_LOG) {
        let words = format!(
            "Its event log has more than {} MiB, which this page does not follow.",
            LARGEST_LOG >> 20
        );
        return Err(impossible(words));
    }
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.trim().parse().ok());
    let shared = state.0.clone();
    let (beginning, run) = blocking(move || (beginning(&shared, &found), found.run)).await?;
    let beginning = beginning.map_err(|error| failed(error.to_string()))?;
    let many = || {
        let words = "Too many runs are being watched; close one of the pages that do.";
        Message::new(StatusCode::SERVICE_UNAVAILABLE, words)
    };
    let (feed, changed) = state.feeds.follow(&run, || beginning).ok_or_else(many)?;
    Ok(Sse::new(messages(feed, changed, last)).keep_alive(KeepAlive::default()).into_response())
}

/// Bytes of the largest log that is followed: what its events say is kept in memory.
const LARGEST_LOG: u64 = 256 << 20;

/// A run before its first event, and by what its variants compare.
fn beginning(shared: &Arc<Shared>, found: &FoundRun) -> fsarena_store::Result<(RunRecord, Intervals)> {
    let plan = found.run.plan()?;
    let metric = (shared.analysis.metric)(&plan);
    let variants = matrix::expand(&plan);
    let mut record = RunRecord::new(plan, variants);
    fsarena_store::reading(&found.run, &metric)?.map(|info| record.define(info));
    Ok((record, Intervals::of(&metric)))
}

/// One listener.
struct Listener {
    feed: Arc<Feed>,
    changed: watch::Receiver<u64>,
    /// The last event that it knows.
    last: Option<u64>,
    /// What it has yet to be sent.
    ready: VecDeque<Event>,
    /// Whether it was sent anything yet.
    has_sent: bool,
    ended: bool,
}

fn messages(
    feed: Arc<Feed>,
    changed: watch::Receiver<u64>,
    last: Option<u64>,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let listener = Listener { feed, changed, last, ready: VecDeque::new(), has_sent: false, ended: false };
    stream::unfold(listener, |mut listener| async move {
        loop {
            if let Some(message) = listener.ready.pop_front() {
                return Some((Ok(message), listener));
            }
            if listener.ended {
                return None;
            }
            if (listener.has_sent || !listener.feed.is_caught_up())
                && listener.changed.changed().await.is_err()
            {
                return None;
            }
            if listener.feed.is_caught_up() {
                listener.has_sent = true;
                listener.hear();
            }
        }
    })
}

impl Listener {
    fn hear(&mut self) {
        self.changed.mark_unchanged();
        let news = self.feed.since(self.last);
        let message = |id: u64, name: &str| Event::default().id(id.to_string()).event(name);
        self.ready.extend(news.events.into_iter().map(|(id, text)| message(id, "told").data(text)));
        self.ready.push_back(message(news.last, "state").data(&news.state));
        if news.ended {
            self.ready.push_back(message(news.last, "end").data(&news.state));
        }
        (self.last, self.ended) = (Some(news.last), news.ended);
    }
}
