//! What passes between ranks.

use crate::message::{FromRank, ToRank};
use std::time::{Duration, Instant};

/// The first pause between two looks of a rank that waits. Each pause is twice the one before.
const FIRST: Duration = Duration::from_micros(100);
/// The longest pause of a rank that waits for a message, or for others to come to the barrier.
pub const LONGEST: Duration = Duration::from_millis(10);
/// The longest pause where all ranks have come to the barrier: clients begin as far apart as this.
pub const PRECISE: Duration = Duration::from_micros(200);

/// How long a rank looks for messages before it looks for signals.
pub const GLANCE: Duration = Duration::from_millis(200);
/// How long ranks may take to meet at the end of the job.
pub const LEAVING: Duration = Duration::from_secs(60);

/// Messages between the ranks of a job.
pub trait Wire {
    /// The rank of this process.
    fn rank(&self) -> u32;

    /// Number of ranks.
    fn size(&self) -> u32;

    /// Sends a message; sleeps until it is on its way.
    fn send(&self, to: u32, message: &[u8]);

    /// The next message, and who sent it, if one has come.
    fn receive(&self) -> Option<(u32, Vec<u8>)>;

    /// Waits, asleep, until all ranks are here. False where they are not within this time.
    #[must_use]
    fn barrier(&self, patience: Duration) -> bool;

    /// Waits in the barrier of the MPI library, which polls without sleep; to measure what that costs.
    fn barrier_awake(&self);

    /// Sends the time of a clock, in seconds, at once.
    fn send_time(&self, to: u32, seconds: f64);

    /// Waits, awake, for the time of another clock.
    fn receive_time(&self, from: u32) -> f64;
}

/// Sends what a rank tells rank 0.
pub fn tell(wire: &dyn Wire, message: &FromRank) {
    wire.send(0, &serde_json::to_vec(message).expect("messages are plain data"));
}

/// Sends what rank 0 asks of a rank.
pub fn ask(wire: &dyn Wire, to: u32, message: &ToRank) {
    wire.send(to, &serde_json::to_vec(message).expect("messages are plain data"));
}

/// The next message of a rank to rank 0, and which rank sent it, if one has come.
pub fn told(wire: &dyn Wire) -> Option<(u32, FromRank)> {
    wire.receive().map(|(from, text)| (from, read(&text)))
}

/// The next message of rank 0, if it has come.
pub fn asked(wire: &dyn Wire) -> Option<ToRank> {
    wire.receive().map(|(_, text)| read(&text))
}

fn read<T: serde::de::DeserializeOwned>(text: &[u8]) -> T {
    serde_json::from_slice(text).expect("all ranks are of the same build")
}

/// Looks again and again, asleep between, until there is something. None where there is nothing within this time.
pub fn wait<T>(patience: Duration, look: impl FnMut() -> Option<T>) -> Option<T> {
    wait_by(LONGEST, patience, look)
}

/// The same with another longest pause.
pub fn wait_by<T>(longest: Duration, patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    let mut pause = FIRST;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if begun.elapsed() >= patience {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_with_what_is_found_or_with_patience() {
        let mut looks = 0;
        let found = wait(Duration::from_secs(60), || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, Some(3));
        assert_eq!(wait(Duration::ZERO, || None::<u8>), None);
    }
}
