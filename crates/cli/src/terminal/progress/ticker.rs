//! What keeps bars alive between events, and fits them to a screen that changes its size.
//!
//! A bar knows its line as it was drawn last. When one of them ticks, the others are drawn as they were, which on a screen
//! that is narrower by now are lines that break anywhere. So all of them are drawn anew then.

use indicatif::ProgressBar;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::{thread::JoinHandle, time::Duration};

/// Between two ticks.
const TICK: Duration = Duration::from_millis(250);

/// Bars that tick until this is dropped: the first always, the others when the screen has another size.
pub struct Ticker {
    others: Arc<Mutex<Vec<ProgressBar>>>,
    /// The thread, and what stops it.
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Ticker {
    /// Begins with a bar that shows time, on a screen of this size.
    pub fn of(first: ProgressBar, size: impl Fn() -> (u16, u16) + Send + 'static) -> Ticker {
        let others: Arc<Mutex<Vec<ProgressBar>>> = Arc::default();
        let (stop, stopped) = channel();
        let mut known = size();
        let bars = Arc::clone(&others);
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let now = size();
                if now != known {
                    known = now;
                    let bars = bars.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    bars.iter().for_each(ProgressBar::tick);
                }
                first.tick();
            }
        });
        Ticker { others, thread: Some((stop, thread)) }
    }

    /// Another bar of the same screen.
    pub fn add(&self, bar: ProgressBar) {
        self.others.lock().unwrap_or_else(PoisonError::into_inner).push(bar);
    }

    /// Ends the ticking; the bars can go.
    pub fn stop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop();
    }
}
