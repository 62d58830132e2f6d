//! Runs the workers of a load: starts them together, collects their counts, and ends them.

use crate::clock::Clock;
use crate::error::{EngineError, Result};
use crate::job::{Bound, Rate, Warmup};
use crate::tally::{
    Budget, Collector, CollectorLink, FinishedInterval, IntervalTally, OnInterval, OpKind, Recorder, Times,
    lanes,
};
use crate::{histogram::LatencyTally, schedule::exact_timers, steady::Assessment};
use fsarena_sys::{cancel, cpu::Cpu};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{Scope, ScopedJoinHandle};

/// Stack size of a worker. Workers keep no large values on the stack, and there may be a thousand of them.
const STACK_BYTES: usize = 256 << 10;

/// Settings common to all kinds of load.
#[derive(Clone, Copy)]
pub struct DriveSettings<'a> {
    /// Number of workers.
    pub threads: u32,
    /// Kinds of operations.
    pub kinds: &'a [OpKind],
    /// Milliseconds of an interval.
    pub interval_ms: u32,
    /// When the load ends. Warm-up is not detected if operations or bytes bound it.
    pub bound: Bound,
    /// The warm-up that the outcome leaves out.
    pub warmup: Warmup,
    /// The rate of an open loop; None for a closed loop. An open loop also records latencies from the intended start.
    pub rate: Option<Rate>,
}

impl<'a> DriveSettings<'a> {
    /// A closed loop without a warm-up that ends after this number of operations.
    pub fn counted(
        threads: u32,
        kinds: &'a [OpKind],
        interval_ms: u32,
        operations: u64,
    ) -> DriveSettings<'a> {
        let bound = Bound::Operations(operations);
        DriveSettings { threads, kinds, interval_ms, bound, warmup: Warmup::None, rate: None }
    }

    /// Length of an interval in nanoseconds.
    pub fn interval_ns(&self) -> u64 {
        u64::from(self.interval_ms) * 1_000_000
    }

    /// The longest that the load may take, in nanoseconds.
    fn at_most_ns(&self) -> Option<u64> {
        match self.bound {
            Bound::Seconds(seconds) | Bound::Steady { at_most_s: seconds } => Some((seconds * 1e9) as u64),
            Bound::Operations(_) | Bound::Bytes(_) => None,
        }
    }

    /// The number of operations that bounds the load. An operation that moves no bytes counts as one byte.
    fn operations(&self) -> Option<u64> {
        match self.bound {
            Bound::Operations(operations) => Some(operations),
            Bound::Bytes(bytes) => Some(bytes.div_ceil(self.kinds[0].bytes.max(1))),
            Bound::Seconds(_) | Bound::Steady { .. } => None,
        }
    }
}

/// The work of a load's threads.
pub trait Work<'a>: Sync {
    /// The private state of a worker.
    type Worker;

    /// Creates the state of a worker, in its thread, before any worker starts.
    ///
    /// # Errors
    /// A resource that the worker requires is unavailable.
    fn prepare(&'a self, thread: u32) -> Result<Self::Worker>;

    /// Performs operations and counts them until the recorder ends the run.
    ///
    /// # Errors
    /// An operation failed.
    fn work(&'a self, worker: &mut Self::Worker, recorder: &mut Recorder, clock: Clock) -> Result;

    /// Ends the work of a thread, outside the measured time. Returns the number of final syncs.
    ///
    /// # Errors
    /// An operation failed.
    fn finish(&'a self, _: Self::Worker) -> Result<u64> {
        Ok(0)
    }
}

/// The counts of all workers.
pub struct Collected {
    /// All intervals.
    pub finished: Vec<FinishedInterval>,
    /// Warm-up and steadiness of the series.
    pub assessment: Assessment,
    /// Operations of each worker.
    pub by_thread: Vec<u64>,
    /// Nanoseconds from the start to the end of the last operation.
    pub elapsed_ns: u64,
    /// Nanoseconds that the slowest worker's final syncs took.
    pub final_sync_ns: u64,
    /// Number of final syncs.
    pub final_syncs: u64,
    /// CPU time of the whole process from the start to the end. The kernel samples the split into user and system time at
    /// clock ticks, and a single thread has too few of them.
    pub process_cpu: Cpu,
}

/// The times of the end of a worker, in ticks of the clock.
struct WorkerEnd {
    /// When its last operation ended.
    end: u64,
    /// How long its final syncs took.
    final_sync: u64,
    /// The number of final syncs.
    final_syncs: u64,
}

/// The state that all workers of a run share.
struct SharedRun<'a, 'd, W> {
    work: &'a W,
    drive: &'d DriveSettings<'d>,
    /// The times of the run, set when all workers are ready. Set to None if a worker could not start.
    start: OnceLock<Option<Times>>,
    stop: AtomicBool,
    budget: Budget,
}

/// Runs a load and collects its counts. Calls `on_interval` as soon as an interval is over.
///
/// # Errors
/// A worker cannot start, or an operation fails; the first error is returned.
pub fn run_workers<'a, W: Work<'a>>(
    drive: &DriveSettings,
    work: &'a W,
    on_interval: OnInterval,
) -> Result<Collected> {
    let clock = Clock::best();
    let scale = clock.scale;
    let shared = SharedRun {
        work,
        drive,
        start: OnceLock::new(),
        stop: AtomicBool::new(false),
        budget: Budget::new(drive.operations()),
    };
    std::thread::scope(|scope| {
        let started = start_workers(scope, &shared, clock);
        let Workers { handles, messages, back } = started.inspect_err(|_| {
            shared.start.get_or_init(|| None);
        })?;
        let process = Cpu::of_this_process();
        let start = clock.now();
        let interval = scale.ticks(drive.interval_ns()).max(1);
        let deadline = drive.at_most_ns().map_or(u64::MAX, |ns| start.saturating_add(scale.ticks(ns)));
        shared.start.get_or_init(|| Some(Times { start, interval, deadline, scale }));

        let interval_s = drive.interval_ns() as f64 / 1e9;
        let mut collector = Collector::new(drive.kinds, interval_s, drive.rate.is_some(), back);
        let reported = collect(&messages, &shared, &mut collector, on_interval);
        let mut ends = vec![];
        for handle in handles {
            let ended = handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            ends.extend(ended?);
        }
        let elapsed = ends.iter().map(|ended| ended.end.saturating_sub(start)).max().unwrap_or(0);
        let elapsed_ns = scale.ns(elapsed);
        if let Some(last) = collector.finished.last_mut() {
            last.interval.set_length((elapsed_ns as f64 / 1e9 - last.interval.start_s).max(0.0));
        }
        for finished in &collector.finished[reported..] {
            on_interval(&finished.interval);
        }
        Ok(Collected {
            assessment: collector.assess(),
            finished: collector.finished,
            by_thread: collector.by_thread,
            elapsed_ns,
            final_sync_ns: scale.ns(ends.iter().map(|ended| ended.final_sync).max().unwrap_or(0)),
            final_syncs: ends.iter().map(|ended| ended.final_syncs).sum(),
            process_cpu: Cpu::of_this_process().since(process),
        })
    })
}

/// The workers of a run, once all of them are ready.
struct Workers<'scope> {
    handles: Vec<ScopedJoinHandle<'scope, Result<Option<WorkerEnd>>>>,
    /// Full tallies of all workers.
    messages: Receiver<IntervalTally>,
    /// Returns emptied tallies to each worker.
    back: Vec<Sender<Vec<LatencyTally>>>,
}

/// Starts all workers and waits until each has prepared its state.
fn start_workers<'scope, 'a, W: Work<'a>>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope SharedRun<'a, '_, W>,
    clock: Clock,
) -> Result<Workers<'scope>> {
    let (out, messages) = mpsc::channel();
    let (ready, readiness) = mpsc::channel();
    let (mut handles, mut back) = (vec![], vec![]);
    for thread in 0..shared.drive.threads {
        let (give, take) = mpsc::channel();
        back.push(give);
        let link = CollectorLink { thread, out: out.clone(), back: take, stop: &shared.stop };
        let ready = ready.clone();
        let builder = std::thread::Builder::new().name(format!("load-{thread}")).stack_size(STACK_BYTES);
        match builder.spawn_scoped(scope, move || run_worker(shared, link, ready, clock)) {
            Ok(handle) => handles.push(handle),
            Err(source) => {
                let what = format!("no thread number {} of {}", thread + 1, shared.drive.threads);
                let advice = "; use fewer threads, or raise `ulimit -u`";
                return Err(EngineError::Resource { what, source, advice });
            }
        }
    }
    drop((out, ready));
    for result in readiness.iter().take(handles.len()) {
        result?;
    }
    Ok(Workers { handles, messages, back })
}

/// Runs one worker from its preparation to its final syncs. Returns None if a worker could not start.
fn run_worker<'a, 's, W: Work<'a>>(
    shared: &'s SharedRun<'a, '_, W>,
    link: CollectorLink<'s>,
    ready: Sender<Result>,
    clock: Clock,
) -> Result<Option<WorkerEnd>> {
    let drive = shared.drive;
    let mut worker = match shared.work.prepare(link.thread) {
        Ok(worker) => worker,
        Err(error) => {
            let _ = ready.send(Err(error));
            return Ok(None);
        }
    };
    if drive.rate.is_some() {
        exact_timers();
    }
    let lanes = lanes(drive.kinds, drive.rate.is_some());
    let _ = ready.send(Ok(()));
    drop(ready);
    let Some(times) = *shared.start.wait() else { return Ok(None) };
    let mut recorder = Recorder::new(&lanes, times, Some(link), &shared.budget, drive.threads);
    let done = shared.work.work(&mut worker, &mut recorder, clock);
    let end = clock.now();
    if done.is_err() {
        shared.stop.store(true, Ordering::Relaxed);
    }
    recorder.close();
    drop(recorder);
    done?;
    let final_syncs = shared.work.finish(worker)?;
    Ok(Some(WorkerEnd { end, final_sync: clock.now().saturating_sub(end), final_syncs }))
}

/// Collects tallies until all workers have ended. Returns the number of intervals that it passed to `on_interval`; the last
/// ones follow later, when the end of the run is known.
fn collect<W>(
    from: &Receiver<IntervalTally>,
    shared: &SharedRun<W>,
    collector: &mut Collector,
    on_interval: OnInterval,
) -> usize {
    let mut reported = 0;
    for message in from {
        // A signal ends the load early; the operations so far still count.
        if cancel::requested().is_some() {
            shared.stop.store(true, Ordering::Relaxed);
        }
        if collector.take(message) == 0 || collector.ended() {
            continue;
        }
        for finished in &collector.finished[reported..] {
            on_interval(&finished.interval);
        }
        reported = collector.finished.len();
        if matches!(shared.drive.bound, Bound::Steady { .. }) && collector.assess().steady == Some(true) {
            shared.stop.store(true, Ordering::Relaxed);
        }
    }
    reported
}
