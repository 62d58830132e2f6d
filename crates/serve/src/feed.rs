//! Follows the event logs of runs in progress. All clients of a run share one task that reads the log; it ends when the last
//! client leaves.

use fsarena_core::record::{RunRecord, RunStatus};
use fsarena_core::state::RunState;
use fsarena_report::live::{LiveComparison, RunView};
use fsarena_store::{EventReader, RunDir, RunSummary, TimedEvent};
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The pause after a read of a log that returned no events.
const POLL_INTERVAL: Duration = Duration::from_millis(150);
/// The time without a writer after which a run counts as ended. It is not 0, because the directory of a new run exists for a
/// moment before a writer opens it.
const WRITER_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest number of events that one read of a log returns.
const MAX_EVENTS_PER_READ: usize = 500;
/// The number of newest events that a feed keeps for clients that reconnect.
const MAX_RECENT_EVENTS: usize = 2000;
/// The largest number of runs that the server follows at the same time.
const MAX_FEEDS: usize = 64;

/// The runs that clients follow.
#[derive(Default)]
pub struct Feeds {
    feeds: Mutex<HashMap<String, Arc<Feed>>>,
}

/// One run that clients follow.
pub struct Feed {
    state: Mutex<FeedState>,
    /// Publishes the id of the newest event, and wakes the clients that wait for more.
    last_id_sender: watch::Sender<u64>,
}

/// The state of a run after the events read so far.
struct FeedState {
    run: RunState,
    comparison: LiveComparison,
    /// The newest events as JSON, each with its id: the offset of its end in the log.
    recent: VecDeque<(u64, String)>,
    /// The id of the newest event.
    last_id: u64,
    /// Whether the feed has read all events that the log had when the feed began.
    is_caught_up: bool,
    /// Whether the feed has ended, and no more events will come.
    has_ended: bool,
}

/// New events for one client.
pub struct FeedUpdate {
    /// Events as JSON, with their ids.
    pub events: Vec<(u64, String)>,
    /// The state of the run as JSON.
    pub state: String,
    /// The id of the last event in that state.
    pub last_id: u64,
    /// Whether the feed has ended, and no more events will come.
    pub has_ended: bool,
}

impl Feeds {
    /// Returns the feed of a run, and a receiver that is notified of new events. Starts the feed if the run has none;
    /// `initial_state` returns the record and the comparison before the first event. `None` if the server already follows
    /// [`MAX_FEEDS`] runs.
    pub fn follow(
        &self,
        dir: &RunDir,
        initial_state: impl FnOnce() -> (RunRecord, LiveComparison),
    ) -> Option<(Arc<Feed>, watch::Receiver<u64>)> {
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        let key = dir.path().to_string_lossy().into_owned();
        // Drop feeds without clients. Also drop feeds that have ended, because the run may have been resumed since.
        feeds.retain(|_, feed| feed.last_id_sender.receiver_count() > 0 && !feed.state().has_ended);
        if let Some(feed) = feeds.get(&key)
            && let Some(receiver) = feed.subscribe()
        {
            return Some((feed.clone(), receiver));
        }
        if feeds.len() >= MAX_FEEDS {
            return None;
        }
        let (last_id_sender, receiver) = watch::channel(0);
        let (record, comparison) = initial_state();
        let state = FeedState {
            run: RunState::new(record),
            comparison,
            recent: VecDeque::new(),
            last_id: 0,
            is_caught_up: false,
            has_ended: false,
        };
        let feed = Arc::new(Feed { state: Mutex::new(state), last_id_sender });
        feeds.insert(key, feed.clone());
        let (dir, followed) = (dir.clone(), feed.clone());
        tokio::spawn(async move { followed.follow_log(dir).await });
        Some((feed, receiver))
    }
}

impl Feed {
    /// Reads the log, and applies its events, until the run ends or the last client leaves.
    async fn follow_log(&self, dir: RunDir) {
        let mut log_reader = EventReader::open(&dir);
        let mut writer_last_seen = Instant::now();
        while !self.end_if_unused() {
            let read = tokio::task::spawn_blocking(move || {
                let batch = log_reader.read_next(MAX_EVENTS_PER_READ);
                (log_reader, batch)
            });
            let Ok((returned_reader, batch)) = read.await else { return self.end(None) };
            log_reader = returned_reader;
            match batch {
                Err(_) => return self.end(None),
                Ok(batch) if !batch.is_empty() => self.apply(batch),
                // End only after the last event of the log. The log of a run that was interrupted and resumed has an event
                // for each end.
                Ok(_) if self.state().run.end_status.is_some() => return self.end(None),
                Ok(_) => {
                    self.mark_caught_up();
                    if dir.is_being_written() {
                        writer_last_seen = Instant::now();
                    } else if writer_last_seen.elapsed() >= WRITER_TIMEOUT {
                        return self.end(fsarena_store::read_summary(&dir).ok());
                    }
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            }
        }
    }

    /// A receiver that is notified of new events. `None` if the feed has ended.
    fn subscribe(&self) -> Option<watch::Receiver<u64>> {
        let state = self.state();
        (!state.has_ended).then(|| self.last_id_sender.subscribe())
    }

    /// Ends the feed if it has no client any more, and returns whether the feed has ended. Meanwhile the lock of the state keeps
    /// new clients from subscribing.
    fn end_if_unused(&self) -> bool {
        let mut state = self.state();
        state.has_ended |= self.last_id_sender.receiver_count() == 0;
        state.has_ended
    }

    /// Applies new events to the state, and notifies the clients.
    fn apply(&self, events: Vec<(u64, TimedEvent)>) {
        let mut state = self.state();
        for (id, timed) in events {
            state.run.apply(timed.time_s, &timed.event);
            let FeedState { run, comparison, .. } = &mut *state;
            comparison.update(&timed.event, run);
            if state.recent.len() == MAX_RECENT_EVENTS {
                state.recent.pop_front();
            }
            state.recent.push_back((id, json!(timed).to_string()));
            state.last_id = id;
        }
        self.notify(state);
    }

    /// Unlocks the state and wakes the clients that wait for more.
    fn notify(&self, state: MutexGuard<FeedState>) {
        let last_id = state.last_id;
        drop(state);
        self.last_id_sender.send_replace(last_id);
    }

    /// Records that the feed has read all events of the log, and notifies the clients the first time.
    fn mark_caught_up(&self) {
        let mut state = self.state();
        if !std::mem::replace(&mut state.is_caught_up, true) {
            self.notify(state);
        }
    }

    /// Ends the feed. If no event ended the run, the run gets the status of `summary`; `None` if the files of the run cannot be
    /// read any more.
    fn end(&self, summary: Option<RunSummary>) {
        let mut state = self.state();
        if state.run.end_status.is_none() {
            let status = match summary {
                Some(summary) => {
                    state.run.rounds_done = state.run.rounds_done.max(summary.rounds);
                    summary.status
                }
                None => RunStatus { complete: false, why: "its files cannot be read any more".into() },
            };
            state.run.end_status = Some(status);
        }
        state.is_caught_up = true;
        state.has_ended = true;
        self.notify(state);
    }

    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the feed has read all events that the log had when the feed began, so that a new client gets a complete state.
    pub fn is_caught_up(&self) -> bool {
        self.state().is_caught_up
    }

    /// The events after the one with this id (0 for all events), and the state of the run. Without an id, or if the feed no
    /// longer keeps the events after it, there are no events, only the state.
    pub fn update_since(&self, id: Option<u64>) -> FeedUpdate {
        let state = self.state();
        let has_all_events = state.recent.len() < MAX_RECENT_EVENTS;
        let has_id = |id| state.recent.iter().any(|(recent, _)| *recent == id);
        let mut events = vec![];
        if let Some(id) = id.filter(|id| has_id(*id) || (*id == 0 && has_all_events)) {
            events.extend(state.recent.iter().filter(|(recent, _)| *recent > id).cloned());
        }
        let view = RunView::new(&state.run, &state.comparison);
        FeedUpdate { events, state: json!(view).to_string(), last_id: state.last_id, has_ended: state.has_ended }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestRun, block_on};
    use fsarena_core::event::Event;

    /// Waits until `is_enough` is true for the update since the beginning, and returns the update.
    async fn wait_until(
        feed: &Feed,
        listener: &mut watch::Receiver<u64>,
        is_enough: impl Fn(&FeedUpdate) -> bool,
    ) -> FeedUpdate {
        loop {
            let update = feed.update_since(Some(0));
            if is_enough(&update) {
                return update;
            }
            listener.changed().await.unwrap();
        }
    }

    fn initial_state(run: &TestRun) -> (RunRecord, LiveComparison) {
        (RunRecord::new(run.dir.plan().unwrap(), vec![]), LiveComparison::default())
    }

    fn state_json(update: &FeedUpdate) -> serde_json::Value {
        serde_json::from_str(&update.state).unwrap()
    }

    #[test]
    fn a_client_gets_new_events_and_after_reconnecting_the_missed_ones() {
        block_on(async {
            let run = TestRun::new();
            let mut writer = run.writer();
            let feeds = Feeds::default();
            let (feed, mut listener) = feeds.follow(&run.dir, || initial_state(&run)).unwrap();
            writer.apply(&Event::RoundStarted { round: 0, order: vec!["ext4".into()] }).unwrap();
            let first = wait_until(&feed, &mut listener, |update| update.last_id > 0).await;
            assert!(!first.has_ended && state_json(&first)["round"] == 0);
            let (same_feed, _second_listener) =
                feeds.follow(&run.dir, || panic!("the run is followed already")).unwrap();
            writer.apply(&Event::RoundFinished { round: 0 }).unwrap();
            writer.apply(&Event::RunFinished { why: "enough".into(), complete: true }).unwrap();
            wait_until(&same_feed, &mut listener, |update| update.has_ended).await;
            let rest = same_feed.update_since(Some(first.last_id));
            assert_eq!(rest.events.len(), 2);
            assert!(rest.events[0].1.contains("round_finished") && rest.events[1].0 == rest.last_id);
            assert_eq!(state_json(&rest)["ended"]["why"], "enough");
            assert!(same_feed.update_since(Some(12345)).events.is_empty());
            assert!(same_feed.update_since(None).events.is_empty());
        });
    }

    #[test]
    fn a_feed_that_ended_because_its_last_client_left_accepts_no_other() {
        block_on(async {
            let run = TestRun::new();
            let (feed, listener) = Feeds::default().follow(&run.dir, || initial_state(&run)).unwrap();
            assert!(!feed.end_if_unused() && feed.subscribe().is_some());
            drop(listener);
            assert!(feed.end_if_unused() && feed.subscribe().is_none());
        });
    }

    #[test]
    fn a_run_without_a_writer_ends_as_interrupted() {
        block_on(async {
            let run = TestRun::new();
            drop(run.writer());
            let feeds = Feeds::default();
            let (feed, mut listener) = feeds.follow(&run.dir, || initial_state(&run)).unwrap();
            let update = wait_until(&feed, &mut listener, |update| update.has_ended).await;
            assert_eq!(state_json(&update)["ended"]["why"], "interrupted");
        });
    }
}
