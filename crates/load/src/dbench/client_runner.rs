//! Runs all clients of dbench as processes or threads: starts them together, watches them through the phases, records
//! their time series, and ends them together.

use crate::dbench::client::{ClientMode, DbenchClient, MAX_HANDLES, PlayerOptions, SharedState};
use crate::dbench::shared_counters::{ClientCounters, Phase, SharedCounters};
use crate::error::{Result, TaskError};
use fsarena_core::series::{MAX_SERIES_POINTS, SeriesPoint};
use fsarena_core::setting_text::setting;
use fsarena_engine::series::{SeriesInterval, merge_to_points};
use fsarena_sys::cancel;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Resource, Signal, WaitOptions, getrlimit, pidfd_open, waitpid};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How often the watcher reads the counters.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Stack size of a client. It has no large values on its stack, except the buffer for deleting a tree.
const STACK_BYTES: usize = 512 << 10;

/// The lengths of the phases, the bytes of the measured phase, and the time series.
#[derive(Debug, Clone)]
pub struct RunMeasurements {
    /// Length of the warm-up.
    pub warm_up: Duration,
    /// Length of the measured phase.
    pub measured_phase: Duration,
    /// Bytes read, and bytes written, in the measured phase.
    pub bytes: [u64; 2],
    /// Operations and bytes of all phases over time.
    pub series: Vec<SeriesPoint>,
}

/// Runs all clients from start to end.
///
/// # Errors
/// If the clients cannot be started, or the first client that failed.
pub fn run_clients(shared: &SharedState) -> Result<RunMeasurements> {
    match shared.options.mode {
        ClientMode::Threads => run_threads(shared),
        ClientMode::Processes => run_processes(shared),
    }
}

fn run_threads(shared: &SharedState) -> Result<RunMeasurements> {
    std::thread::scope(|scope| {
        let mut started = vec![];
        for number in 0..shared.options.clients {
            let builder = std::thread::Builder::new().name(format!("client{number}")).stack_size(STACK_BYTES);
            match builder.spawn_scoped(scope, move || DbenchClient::new(shared, number).run()) {
                Ok(handle) => started.push(handle),
                Err(source) => {
                    shared.counters.start_phase(Phase::Over);
                    let problem = format!("no thread for client {number}; take fewer clients, or raise `ulimit -u`");
                    return Err(TaskError::Missing(format!("{problem}: {source}")));
                }
            }
        }
        let measurements = watch(shared.counters, shared.options, &mut |timeout| {
            std::thread::sleep(timeout);
            started.iter().any(|handle| handle.is_finished())
        });
        shared.counters.start_phase(Phase::Over);
        for handle in started {
            if let Err(panic) = handle.join() {
                std::panic::resume_unwind(panic);
            }
        }
        check_failures(shared.counters)?;
        measurements.ok_or_else(|| TaskError::Failed("interrupted".into()))
    })
}

/// A client that is a process.
struct ClientProcess {
    number: u32,
    pid: Pid,
    /// Readable once the process has ended.
    pidfd: OwnedFd,
}

fn run_processes(shared: &SharedState) -> Result<RunMeasurements> {
    let mut children = vec![];
    for number in 0..shared.options.clients {
        match fork_client(shared, number) {
            Ok(child) => children.push(child),
            Err(source) => {
                shared.counters.start_phase(Phase::Over);
                // Reaps all children, and reports only that a process could not be started.
                children.into_iter().for_each(|child| drop(reap(child)));
                let problem =
                    format!("no process for client {number}; take fewer clients, or raise `ulimit -u` and `ulimit -n`");
                return Err(TaskError::Missing(format!("{problem}: {source}")));
            }
        }
    }
    let measurements = watch(shared.counters, shared.options, &mut |timeout| wait_until_any_ended(&children, timeout));
    shared.counters.start_phase(Phase::Over);
    let mut reaped = Ok(());
    for child in children {
        // Reaps the other children after an error, too; the first error stays.
        reaped = reaped.and(reap(child));
    }
    // The reason that a client gave is more useful than its exit code.
    check_failures(shared.counters)?;
    reaped?;
    measurements.ok_or_else(|| TaskError::Failed("interrupted".into()))
}

fn fork_client(shared: &SharedState, number: u32) -> std::io::Result<ClientProcess> {
    let parent = rustix::process::getpid();
    // SAFETY: the child has this thread only. glibc and musl leave malloc usable after fork, the child takes no other
    // lock, and it leaves by _exit, without the exit handlers of this process.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => {
            let client_work = std::panic::AssertUnwindSafe(|| run_child(shared, number, parent));
            let code = if std::panic::catch_unwind(client_work).is_ok() { 0 } else { 101 };
            // SAFETY: _exit ends this process and returns nothing.
            unsafe { libc::_exit(code) }
        }
        pid => {
            let pid = Pid::from_raw(pid).ok_or(std::io::ErrorKind::Other)?;
            match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(pidfd) => Ok(ClientProcess { number, pid, pidfd }),
                Err(errno) => {
                    // The pid still belongs to the child: only this process can reap it.
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                    let _ = waitpid(Some(pid), WaitOptions::empty());
                    Err(errno.into())
                }
            }
        }
    }
}

fn run_child(shared: &SharedState, number: u32, parent: Pid) {
    // A client that outlives its parent would never end. The parent may have ended before this call.
    let death_signal_set = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if death_signal_set.is_ok() && rustix::process::getppid() == Some(parent) {
        DbenchClient::new(shared, number).run();
    }
}

/// Waits until a child ends, at most for the timeout. Returns whether one ended.
fn wait_until_any_ended(children: &[ClientProcess], timeout: Duration) -> bool {
    let fds = children.iter().map(|child| PollFd::new(&child.pidfd, PollFlags::IN));
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    // A signal ends the wait early, and the caller checks for it.
    poll(&mut fds.collect::<Vec<_>>(), Some(&timeout)).is_ok_and(|ended_count| ended_count > 0)
}

/// Waits until a child has ended, and returns an error if it did not end with exit code 0.
fn reap(child: ClientProcess) -> Result<()> {
    let abnormal_end = |cause: String| Err(TaskError::Failed(format!("client {} ended by {cause}", child.number)));
    let status = match rustix::io::retry_on_intr(|| waitpid(Some(child.pid), WaitOptions::empty())) {
        Ok(Some((_, status))) => status,
        // waitpid returns this only with WNOHANG.
        Ok(None) => return abnormal_end("nothing".into()),
        Err(errno) => return abnormal_end(errno.to_string()),
    };
    match (status.exit_status(), status.terminating_signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => abnormal_end(format!("exit {code}")),
        (_, signal) => abnormal_end(format!("signal {}", signal.unwrap_or(0))),
    }
}

/// Starts the phases one after the other and records the time series. Returns `None` if the run ends early, because a
/// client ended or failed or a signal cancelled it. `wait_for_end` waits at most for its timeout, and returns whether a
/// client ended.
fn watch(
    counters: &SharedCounters,
    options: &PlayerOptions,
    wait_for_end: &mut dyn FnMut(Duration) -> bool,
) -> Option<RunMeasurements> {
    // Whether the run has to end early: waits at most for the timeout. Even the wait until all clients are ready calls it,
    // because a client may end before it is ready.
    let mut wait_for_early_end = |timeout: Duration| {
        wait_for_end(timeout)
            || cancel::received_signal().is_some()
            || counters.clients().any(|client| client.failure.count.load(Relaxed) > 0)
    };
    while counters.ready_count() < options.clients {
        if wait_for_early_end(Duration::from_millis(1)) {
            return None;
        }
    }
    let (warm_up_start, mut series) = (Instant::now(), TimeSeries::start(options));
    counters.start_phase(Phase::WarmUp);
    let (min_warm_up, max_warm_up) = (options.warm_up, options.warm_up + options.measured);
    // As in the real dbench, the warm-up lasts until every client has moved data. It lasts at most for the length of the
    // measured phase longer than planned, because the clients of some loads move no data.
    let have_moved_data = || counters.clients().all(|client| client.bytes.load(Relaxed) > 0);
    while warm_up_start.elapsed() < min_warm_up
        || (min_warm_up > Duration::ZERO && warm_up_start.elapsed() < max_warm_up && !have_moved_data())
    {
        let remaining = min_warm_up.saturating_sub(warm_up_start.elapsed());
        if wait_for_early_end(remaining.clamp(Duration::from_millis(1), POLL_INTERVAL)) {
            return None;
        }
        series.update(counters);
    }
    if min_warm_up > Duration::ZERO {
        series.end_warm_up(counters);
    }
    let measured_start = Instant::now();
    counters.start_phase(Phase::Measured);
    while measured_start.elapsed() < options.measured {
        if wait_for_early_end(options.measured.saturating_sub(measured_start.elapsed()).min(POLL_INTERVAL)) {
            return None;
        }
        series.update(counters);
    }
    let bytes =
        [0, 1].map(|direction| counters.clients().map(|client| client.measured_bytes[direction].load(Relaxed)).sum());
    let measured_phase = measured_start.elapsed();
    counters.start_phase(Phase::Over);
    Some(RunMeasurements {
        warm_up: measured_start.duration_since(warm_up_start),
        measured_phase,
        bytes,
        series: series.points(counters),
    })
}

/// Returns the error of the first client that failed.
fn check_failures(counters: &SharedCounters) -> Result<()> {
    for (number, client) in counters.clients().enumerate() {
        let Some(message) = client.failure.message() else { continue };
        let text = message.text.trim_end_matches('\0');
        let failure = format!("client {number} failed at line {}: {text}", message.line);
        return Err(match message.errno {
            Some(errno) => TaskError::io(failure)(std::io::Error::from_raw_os_error(errno)),
            None => TaskError::Failed(failure),
        });
    }
    Ok(())
}

/// Allowance for the other descriptors that this program and its libraries have open.
const OTHER_DESCRIPTORS: u64 = 32;

/// The open file limit that one process requires if a client has at most `max_open_files` files open.
///
/// Threads share one table. Each client process has a separate table, but the parent holds one descriptor for each
/// client, and each client inherits those of the clients before it.
fn open_files_needed(clients: u32, mode: ClientMode, max_open_files: u64) -> u64 {
    // One more than its handles, for the directory that it reads.
    let files_per_client = max_open_files.min(MAX_HANDLES as u64) + 1;
    match mode {
        ClientMode::Threads => u64::from(clients) * files_per_client + OTHER_DESCRIPTORS,
        ClientMode::Processes => u64::from(clients) + files_per_client + OTHER_DESCRIPTORS,
    }
}

/// Checks before a run that the limit of open files is high enough.
///
/// # Errors
/// [`TaskError::Missing`] if the hard limit of this process is lower than the clients require.
pub fn check_open_file_limit(clients: u32, mode: ClientMode, max_open_files: u64) -> Result<()> {
    let needed = open_files_needed(clients, mode, max_open_files);
    check_against_limit(clients, mode, needed, getrlimit(Resource::Nofile).maximum)
}

/// Checks that `needed` open files are within the hard limit; `None` is no limit.
fn check_against_limit(clients: u32, mode: ClientMode, needed: u64, hard_limit: Option<u64>) -> Result<()> {
    let Some(hard_limit) = hard_limit.filter(|hard_limit| *hard_limit < needed) else { return Ok(()) };
    let alternative = match mode {
        ClientMode::Threads => format!(", or make them processes: {}", setting("set", "by=processes")),
        ClientMode::Processes => String::new(),
    };
    Err(TaskError::Missing(format!(
        "{clients} clients take {needed} open files in one process, and {hard_limit} are allowed: raise the hard limit \
         (`ulimit -Hn`), or take fewer clients{alternative}"
    )))
}

/// The shortest interval of the time series.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// The operations and bytes of all clients over time, from their counters. It has no latencies, because summing the
/// histograms of a thousand clients again and again would take CPU time from them.
pub struct TimeSeries {
    start: Instant,
    /// The length after which an interval ends at the next reading of the counters.
    interval: Duration,
    /// The end of the last interval, counted from the start, and the operations and bytes until then.
    last_end: (Duration, u64, u64),
    intervals: Vec<SeriesInterval<'static>>,
    /// Number of intervals of the warm-up.
    warm_up_intervals: usize,
}

impl TimeSeries {
    /// Starts the series now.
    pub fn start(options: &PlayerOptions) -> TimeSeries {
        let interval = ((options.warm_up + options.measured) / MAX_SERIES_POINTS as u32).max(MIN_INTERVAL);
        let last_end = (Duration::ZERO, 0, 0);
        TimeSeries { start: Instant::now(), interval, last_end, intervals: vec![], warm_up_intervals: 0 }
    }

    /// Reads the counters if the current interval is over.
    pub fn update(&mut self, counters: &SharedCounters) {
        if self.start.elapsed() >= self.last_end.0 + self.interval {
            self.end_interval(counters);
        }
    }

    /// Ends the warm-up.
    fn end_warm_up(&mut self, counters: &SharedCounters) {
        self.end_interval(counters);
        self.warm_up_intervals = self.intervals.len();
    }

    /// Ends the series and returns its points.
    pub fn points(mut self, counters: &SharedCounters) -> Vec<SeriesPoint> {
        self.end_interval(counters);
        merge_to_points(&self.intervals, self.warm_up_intervals)
    }

    fn end_interval(&mut self, counters: &SharedCounters) {
        let now = self.start.elapsed();
        let sum = |counter: fn(&ClientCounters) -> u64| counters.clients().map(counter).sum::<u64>();
        let operations = sum(|client| client.operations.load(Relaxed));
        let bytes = sum(|client| client.bytes.load(Relaxed));
        let (before, operations_before, bytes_before) = self.last_end;
        if now > before {
            self.intervals.push(SeriesInterval {
                start_s: before.as_secs_f64(),
                length_s: (now - before).as_secs_f64(),
                operations: operations - operations_before,
                bytes: bytes - bytes_before,
                latencies: &[],
            });
        }
        self.last_end = (now, operations, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dbench::shared_counters::add_unshared;
    use fsarena_engine::Content;

    #[test]
    fn too_low_a_limit_of_open_files_is_an_error() {
        for mode in [ClientMode::Processes, ClientMode::Threads] {
            let needed = open_files_needed(1000, mode, 23);
            let message = check_against_limit(1000, mode, needed, Some(256)).unwrap_err().to_string();
            assert!(message.contains("1000 clients") && message.contains("256 are allowed"), "{message}");
            assert!(check_against_limit(1000, mode, needed, Some(needed)).is_ok());
            assert!(check_against_limit(1000, mode, needed, None).is_ok());
        }
        assert_eq!(open_files_needed(1000, ClientMode::Processes, 23), 1056);
        assert_eq!(open_files_needed(1000, ClientMode::Threads, 23), 24_032);
    }

    #[test]
    fn the_series_has_separate_points_for_the_warm_up() {
        let options = PlayerOptions {
            clients: 2,
            mode: ClientMode::Threads,
            warm_up: Duration::ZERO,
            measured: Duration::from_secs(1),
            rate_mb_s: None,
            content: Content::Zeros,
            seed: 1,
        };
        let counters = SharedCounters::new(2).unwrap();
        let mut series = TimeSeries::start(&options);
        assert_eq!(series.interval, MIN_INTERVAL);
        add_unshared(&counters.client(0).operations, 3);
        add_unshared(&counters.client(1).bytes, 500);
        series.end_warm_up(&counters);
        add_unshared(&counters.client(1).operations, 4);
        let points = series.points(&counters);
        let counts: Vec<_> = points.iter().map(|point| (point.warm_up, point.operations, point.bytes)).collect();
        assert_eq!(counts, [(true, 3, 500), (false, 4, 0)]);
        assert_eq!(points[0].end_s(), points[1].start_s);
    }
}
