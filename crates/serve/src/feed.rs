//! Follows the event logs of runs in progress. All clients of a run share one follower, which ends with the last client.

use fsarena_core::record::{RunRecord, RunStatus};
use fsarena_core::state::RunState;
use fsarena_report::live::{Intervals, RunView};
use fsarena_store::{Events, RunDir, RunSummary, TimedEvent};
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The pause between two looks at a log.
const PAUSE: Duration = Duration::from_millis(150);
/// A run without a writer for this long counts as ended. The writer opens a new run a moment after it is made.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many events are read at once.
const BATCH: usize = 500;
/// How many of the last events are kept for those who come back.
const KEPT: usize = 2000;
/// How many runs are followed at once.
const MOST: usize = 64;

/// Everybody who follows a run.
#[derive(Default)]
pub struct Feeds {
    open: Mutex<HashMap<String, Arc<Feed>>>,
}

/// One run that is followed.
pub struct Feed {
    heard: Mutex<Heard>,
    /// The number of bytes read from the log. Wakes clients that wait for more.
    changed: watch::Sender<u64>,
}

/// The events read so far.
struct Heard {
    state: RunState,
    intervals: Intervals,
    /// The last events as JSON, each with the bytes of the log up to its end.
    recent: VecDeque<(u64, String)>,
    last: u64,
    /// Whether the follower has read all events that the log held when it began.
    caught_up: bool,
    /// Whether nothing more will come.
    done: bool,
}

/// New events for one client.
pub struct News {
    /// Events as JSON, with their ids.
    pub events: Vec<(u64, String)>,
    /// How the run stands, as JSON.
    pub state: String,
    /// The id of that state.
    pub last: u64,
    /// Whether nothing more will come.
    pub ended: bool,
}

impl Feeds {
    /// The feed of a run, and what tells of changes. None where too many runs are followed already.
    pub fn follow(
        &self,
        run: &RunDir,
        beginning: impl FnOnce() -> (RunRecord, Intervals),
    ) -> Option<(Arc<Feed>, watch::Receiver<u64>)> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let key = run.path().to_string_lossy().into_owned();
        // One that has no listener ends; one that has heard the end must look again, for runs are resumed.
        open.retain(|_, feed| feed.changed.receiver_count() > 0 && !feed.heard().done);
        if let Some(feed) = open.get(&key) {
            return Some((feed.clone(), feed.changed.subscribe()));
        }
        if open.len() >= MOST {
            return None;
        }
        let (changed, listener) = watch::channel(0);
        let (record, intervals) = beginning();
        let state = RunState::new(record);
        let heard =
            Heard { state, intervals, recent: VecDeque::new(), last: 0, caught_up: false, done: false };
        let feed = Arc::new(Feed { heard: Mutex::new(heard), changed });
        open.insert(key, feed.clone());
        let (run, follower) = (run.clone(), feed.clone());
        tokio::spawn(async move { follower.follow(run).await });
        Some((feed, listener))
    }
}

impl Feed {
    /// Reads the log until the run ends or the last client leaves.
    async fn follow(&self, run: RunDir) {
        let mut events = Events::of(&run);
        let mut alive = Instant::now();
        while self.changed.receiver_count() > 0 {
            let read = tokio::task::spawn_blocking(move || {
                let told = events.next(BATCH);
                (events, told)
            });
            let Ok((back, told)) = read.await else { return self.end(None) };
            events = back;
            match told {
                Err(_) => return self.end(None),
                Ok(told) if !told.is_empty() => self.hear(told),
                // Of a run that was resumed the log holds several ends: only the last is one.
                Ok(_) if self.has_heard_the_end() => return self.end(None),
                Ok(_) => {
                    self.catch_up();
                    if run.is_being_written() {
                        alive = Instant::now();
                    } else if alive.elapsed() >= PATIENCE {
                        return self.end(fsarena_store::summary(&run).ok());
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn hear(&self, told: Vec<(u64, TimedEvent)>) {
        let mut heard = self.heard();
        for (id, told) in told {
            heard.state.apply(told.at, &told.event);
            let Heard { state, intervals, .. } = &mut *heard;
            intervals.see(&told.event, state);
            if heard.recent.len() == KEPT {
                heard.recent.pop_front();
            }
            heard.recent.push_back((id, json!(told).to_string()));
            heard.last = id;
        }
        self.tell(heard);
    }

    /// Wakes those who wait for more.
    fn tell(&self, heard: MutexGuard<Heard>) {
        let last = heard.last;
        drop(heard);
        self.changed.send_replace(last);
    }

    /// All that was told so far was heard.
    fn catch_up(&self) {
        let mut heard = self.heard();
        if !std::mem::replace(&mut heard.caught_up, true) {
            self.tell(heard);
        }
    }

    /// Nothing more will come; how it ended, where its events did not say.
    fn end(&self, how: Option<RunSummary>) {
        let mut heard = self.heard();
        if heard.state.ended.is_none() {
            let unreadable =
                || RunStatus { complete: false, why: "its files cannot be read any more".into() };
            heard.state.done = heard.state.done.max(how.as_ref().map_or(0, |summary| summary.rounds));
            heard.state.ended = Some(how.map_or_else(unreadable, |summary| summary.status));
        }
        (heard.caught_up, heard.done) = (true, true);
        self.tell(heard);
    }

    fn has_heard_the_end(&self) -> bool {
        self.heard().state.ended.is_some()
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a new client gets all earlier events.
    pub fn is_caught_up(&self) -> bool {
        self.heard().caught_up
    }

    /// What happened since the event of this id: the events, where they are still known, and how the run stands.
    pub fn since(&self, id: Option<u64>) -> News {
        let heard = self.heard();
        // Somebody who knows nothing, or something else, gets the state and no gaps.
        let whole = heard.recent.len() < KEPT;
        let known = id.filter(|id| heard.recent.iter().any(|(other, _)| other == id) || (*id == 0 && whole));
        let events = known
            .map_or(vec![], |id| heard.recent.iter().filter(|(other, _)| *other > id).cloned().collect());
        let view = RunView::of(&heard.state, &heard.intervals);
        News { events, state: json!(view).to_string(), last: heard.last, ended: heard.done }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Written, block_on};
    use fsarena_core::event::Event;

    async fn until(feed: &Feed, listener: &mut watch::Receiver<u64>, enough: impl Fn(&News) -> bool) -> News {
        loop {
            let news = feed.since(Some(0));
            if enough(&news) {
                return news;
            }
            listener.changed().await.unwrap();
        }
    }

    fn beginning(written: &Written) -> (RunRecord, Intervals) {
        (RunRecord::new(written.run.plan().unwrap(), vec![]), Intervals::default())
    }

    fn state(news: &News) -> serde_json::Value {
        serde_json::from_str(&news.state).unwrap()
    }

    #[test]
    fn who_follows_hears_what_is_told_and_who_comes_back_hears_the_rest() {
        block_on(async {
            let written = Written::new();
            let mut writer = written.writer();
            let feeds = Feeds::default();
            let (feed, mut listener) = feeds.follow(&written.run, || beginning(&written)).unwrap();
            writer.apply(&Event::RoundStarted { round: 0, order: vec!["ext4".into()] }).unwrap();
            let first = until(&feed, &mut listener, |news| news.last > 0).await;
            assert!(!first.ended && state(&first)["round"] == 0);
            let (again, _second) = feeds.follow(&written.run, || panic!("it is followed already")).unwrap();
            writer.apply(&Event::RoundFinished { round: 0 }).unwrap();
            writer.apply(&Event::RunFinished { why: "enough".into(), complete: true }).unwrap();
            until(&again, &mut listener, |news| news.ended).await;
            let rest = again.since(Some(first.last));
            assert_eq!(rest.events.len(), 2);
            assert!(rest.events[0].1.contains("round_finished") && rest.events[1].0 == rest.last);
            assert_eq!(state(&rest)["ended"]["why"], "enough");
            assert!(again.since(Some(12345)).events.is_empty() && again.since(None).events.is_empty());
        });
    }

    #[test]
    fn a_run_that_was_killed_ends_without_a_word() {
        block_on(async {
            let written = Written::new();
            drop(written.writer());
            let feeds = Feeds::default();
            let (feed, mut listener) = feeds.follow(&written.run, || beginning(&written)).unwrap();
            let news = until(&feed, &mut listener, |news| news.ended).await;
            assert_eq!(state(&news)["ended"]["why"], "interrupted");
        });
    }
}
