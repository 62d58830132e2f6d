//! Messages between the ranks of a job, waiting for them, and the offsets between the clocks of machines.
//!
//! Messages are JSON, because a cluster can mix machines.
//!
//! To measure a clock offset, rank 0 sends a message and the other rank answers with the time of its clock. The other rank read
//! its clock after rank 0 sent and before rank 0 received. So rank 0 assumes the middle of these two times of its own clock,
//! which is wrong by at most half a round trip. The shortest of several round trips gives the smallest error (Cristian 1989).

use fsarena_core::event::{Note, Outcome};
use fsarena_core::sample::{MetricSpec, Sample};
use fsarena_run::protocol::{AgentRequest, PrivilegedRequest};
use fsarena_sys::{kernel::SysRoot, process};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// First pause between two polls. Each pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_micros(100);
/// Longest pause between two polls for a message, or for the other ranks at the barrier.
pub const MAX_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause between two polls while a rank sends, or waits in the second of two barriers. Ranks enter that barrier
/// once all have reached the first, so that clients start a task at most this far apart.
pub const PRECISE_PAUSE: Duration = Duration::from_micros(200);

/// The time for which a rank polls for messages before it checks for signals.
pub const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Time limit of the barrier at the end of the job.
pub const LEAVE_TIMEOUT: Duration = Duration::from_secs(60);

/// The connection of this process to the other ranks of a job.
pub trait Wire {
    /// The rank of this process.
    fn rank(&self) -> u32;

    /// The number of ranks in the job.
    fn size(&self) -> u32;

    /// Sends a message, and sleeps until the MPI library has accepted it. The library accepts a large message only when
    /// the other rank receives it. Returns false on timeout.
    #[must_use]
    fn send(&self, rank: u32, message: &[u8], timeout: Duration) -> bool;

    /// Receives the next message and the rank that sent it, if one has arrived.
    fn receive(&self) -> Option<(u32, Vec<u8>)>;

    /// Sleeps until all ranks are at the barrier, with pauses of at most [`PRECISE_PAUSE`] at the end. Returns false on timeout.
    #[must_use]
    fn barrier(&self, timeout: Duration) -> bool;

    /// Polls without sleep until all ranks are at the barrier, as the barrier of an MPI library does. Returns false on timeout.
    /// Only [`measure`](crate::measure) uses it.
    #[must_use]
    fn barrier_awake(&self, timeout: Duration) -> bool;

    /// Sends a clock time in seconds, without sleep.
    fn send_time(&self, rank: u32, seconds: f64);

    /// Receives a clock time in seconds, polling without sleep. Returns `None` on timeout.
    fn receive_time(&self, rank: u32, timeout: Duration) -> Option<f64>;
}

/// Sends a message to rank 0.
pub fn send_to_coordinator(wire: &dyn Wire, message: &FromRank) {
    // A rank waits for rank 0 without a time limit: if rank 0 ends, mpirun ends the job.
    let _ = wire.send(0, &serde_json::to_vec(message).expect("messages are plain data"), Duration::MAX);
}

/// Sends a message from rank 0 to another rank. Returns false on timeout.
#[must_use]
pub fn send_to_worker(wire: &dyn Wire, rank: u32, message: &ToRank, timeout: Duration) -> bool {
    wire.send(rank, &serde_json::to_vec(message).expect("messages are plain data"), timeout)
}

/// Receives the next message to rank 0, with its sender, if one has arrived.
pub fn receive_from_worker(wire: &dyn Wire) -> Option<(u32, FromRank)> {
    wire.receive().map(|(rank, text)| (rank, decode_message(&text)))
}

/// Receives the next message from rank 0, if one has arrived.
pub fn receive_from_coordinator(wire: &dyn Wire) -> Option<ToRank> {
    wire.receive().map(|(_, text)| decode_message(&text))
}

/// Receives one message of every rank except rank 0 and passes it to `handle`, with the rank. Ignores further messages of a
/// rank. Returns the ranks that sent none in time.
pub fn receive_from_each(wire: &dyn Wire, timeout: Duration, mut handle: impl FnMut(u32, FromRank)) -> Vec<u32> {
    let mut silent: Vec<u32> = (1..wire.size()).collect();
    poll_until(timeout, || {
        while let Some((sender, message)) = receive_from_worker(wire) {
            if let Some(index) = silent.iter().position(|rank| *rank == sender) {
                silent.remove(index);
                handle(sender, message);
            }
        }
        silent.is_empty().then_some(())
    });
    silent
}

/// Parses a message of another rank.
fn decode_message<T: serde::de::DeserializeOwned>(text: &[u8]) -> T {
    serde_json::from_slice(text).expect("all ranks are of the same build")
}

/// Calls `poll` until it returns a value, with pauses of at most [`MAX_PAUSE`]. Returns `None` on timeout.
pub fn poll_until<T>(timeout: Duration, poll: impl FnMut() -> Option<T>) -> Option<T> {
    poll_with_pause(MAX_PAUSE, timeout, poll)
}

/// Calls `poll` until it returns a value, with pauses that grow up to `max_pause`. If that is 0, it polls without
/// sleep. Returns `None` on timeout.
pub fn poll_with_pause<T>(max_pause: Duration, timeout: Duration, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    let mut pause = FIRST_PAUSE.min(max_pause);
    loop {
        if let Some(value) = poll() {
            return Some(value);
        }
        if begun.elapsed() >= timeout {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(max_pause);
    }
}

/// A message from rank 0 to another rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToRank {
    /// Start the guard of the rank's machine, a process that cleans up if mpirun kills the ranks.
    StartGuard,
    /// Report whether these files are visible.
    CheckFiles(Vec<PathBuf>),
    /// Answer each of `ROUND_TRIPS` clock times of rank 0 with the time of the rank's clock.
    AnswerClock,
    /// Run a cell with this time limit for each task.
    Cell(Box<AgentRequest>, Duration),
    /// Wait until the rank's machine is idle, before this task.
    WaitUntilIdle(String),
    /// All ranks have reached the same point: continue.
    AllReady,
    /// Start the next task after the barrier.
    StartTask,
    /// End the cell early.
    Abandon,
    /// Answer at once with the same bytes.
    Echo(Vec<u8>),
    /// Wait in the barrier and report the cost.
    Barrier(BarrierWait),
    /// The run is over.
    End,
}

/// How a rank waits in a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BarrierWait {
    /// With sleeps between polls.
    Asleep,
    /// Without sleep, as in the barrier of an MPI library.
    Awake,
}

/// A message from a rank to rank 0.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromRank {
    /// The first message: the machine of the rank.
    Hello(Machine),
    /// The answer to [`ToRank::CheckFiles`]: the first file that is not visible, with the error.
    FilesChecked(Option<String>),
    /// The agent has sent this request, and the rank waits for the others.
    Ready(PrivilegedRequest),
    /// The answer to [`ToRank::WaitUntilIdle`], with a note if the machine is still busy.
    Idle(Option<Note>),
    /// A command of the rank printed a metric that is new to the run.
    NewMetric(MetricSpec),
    /// The rank has measured a task.
    Sample(Box<Sample>),
    /// A note for the report.
    Note(Note),
    /// The cell of the rank ended.
    Ended(Outcome),
    /// The answer to [`ToRank::Echo`].
    Echo(Vec<u8>),
    /// The answer to [`ToRank::Barrier`]: CPU time of the wait in seconds, and memory of the process in bytes.
    Barrier(f64, u64),
}

/// The machine that a rank runs on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Machine {
    /// The host name.
    pub host: String,
    /// The boot id of the kernel. It distinguishes machines with the same name. Containers of one machine share it.
    pub boot_id: String,
}

impl Machine {
    /// The machine of this process.
    pub fn here() -> Machine {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Machine { host, boot_id: process::boot_id(&SysRoot::host()).unwrap_or_default() }
    }
}

/// The number of round trips to measure an offset.
const ROUND_TRIPS: u32 = 20;

/// The offset of a rank's clock from that of rank 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClockOffset {
    /// Seconds by which the rank's clock is ahead.
    pub ahead_s: f64,
    /// The largest possible error of `ahead_s`, in seconds.
    pub error_s: f64,
}

/// Seconds since 1970 by this machine's clock.
pub fn wall_clock_s() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// Measures the offset of a rank's clock. Returns `None` if the rank does not answer within `timeout`. Only rank 0 calls it.
pub fn measure_clock_offset(wire: &dyn Wire, rank: u32, timeout: Duration) -> Option<ClockOffset> {
    if !send_to_worker(wire, rank, &ToRank::AnswerClock, timeout) {
        return None;
    }
    let mut trips = vec![];
    for _ in 0..ROUND_TRIPS {
        let sent = wall_clock_s();
        wire.send_time(rank, sent);
        let answered = wire.receive_time(rank, timeout)?;
        trips.push((sent, answered, wall_clock_s()));
    }
    Some(offset_by_shortest_trip(trips.into_iter()))
}

/// Answers [`measure_clock_offset`].
pub fn answer_clock_measurement(wire: &dyn Wire) {
    for _ in 0..ROUND_TRIPS {
        // A rank waits for rank 0 without a time limit: if rank 0 ends, mpirun ends the job.
        let _ = wire.receive_time(0, Duration::MAX);
        wire.send_time(0, wall_clock_s());
    }
}

/// The offset by the shortest round trip. A trip is the send time, the time of the other clock, and the receive time.
/// Ignores trips during which the clock of rank 0 was set back beyond the send time.
fn offset_by_shortest_trip(trips: impl Iterator<Item = (f64, f64, f64)>) -> ClockOffset {
    let shortest = trips.filter(|trip| trip.2 >= trip.0).min_by(|a, b| (a.2 - a.0).total_cmp(&(b.2 - b.0)));
    let Some((sent, answered, received)) = shortest else { return ClockOffset::default() };
    ClockOffset { ahead_s: answered - (sent + received) / 2.0, error_s: (received - sent) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_ends_with_a_value_or_at_the_timeout() {
        let mut polls = 0;
        let value = poll_until(Duration::from_secs(60), || {
            polls += 1;
            (polls == 3).then_some(polls)
        });
        assert_eq!(value, Some(3));
        assert_eq!(poll_until(Duration::ZERO, || None::<u8>), None);
    }

    #[test]
    fn the_offset_comes_from_the_shortest_round_trip() {
        let set_back = (30.0, 35.0, 22.0);
        let trips = [(10.0, 15.0, 14.0), (20.0, 23.5, 21.0), set_back, (30.0, 35.0, 32.0)];
        let offset = offset_by_shortest_trip(trips.into_iter());
        assert_eq!(offset, ClockOffset { ahead_s: 3.0, error_s: 0.5 });
    }
}
