//! Runs the workers of a load: starts them together, collects their counts, and ends them.

use crate::clock::Clock;
use crate::error::{EngineError, Result};
use crate::job::{Bound, Rate, Warmup};
use crate::tally::{
    Collector, CollectorLink, FinishedInterval, IntervalTally, OnInterval, OpKind, OperationBudget, Recorder, RunTimes,
    lane_kinds,
};
use crate::{histogram::LatencyTally, schedule::minimize_timer_slack, steady::Assessment};
use fsarena_sys::{cancel, cpu::CpuTime};
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
    pub fn bounded_by_operations(
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

    /// The nanoseconds after which the load ends; None if time does not bound it.
    fn max_ns(&self) -> Option<u64> {
        match self.bound {
            Bound::Seconds(seconds) | Bound::Steady { at_most_s: seconds } => Some((seconds * 1e9) as u64),
            Bound::Operations(_) | Bound::Bytes(_) => None,
        }
    }

    /// The number of operations after which the load ends, without syncs if bytes bound it; None if neither operations nor
    /// bytes bound it. In a load whose operations move no bytes, each counts as one byte.
    fn max_operations(&self) -> Option<u64> {
        match self.bound {
            Bound::Operations(operations) => Some(operations),
            Bound::Bytes(bytes) => Some(bytes.div_ceil(self.kinds[0].bytes.max(1))),
            Bound::Seconds(_) | Bound::Steady { .. } => None,
        }
    }
}

/// The work of the threads of one kind of load.
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
    fn perform_operations(&'a self, worker: &mut Self::Worker, recorder: &mut Recorder, clock: Clock) -> Result;

    /// Syncs the data of the load once a thread has performed its last operation. Returns the number of these final syncs,
    /// whose time is recorded apart from that of the operations.
    ///
    /// # Errors
    /// A sync failed.
    fn sync_at_end(&'a self) -> Result<u64> {
        Ok(0)
    }

    /// Ends the work of a thread, outside the measured time.
    ///
    /// # Errors
    /// An operation failed.
    fn finish(&'a self, _: Self::Worker) -> Result {
        Ok(())
    }
}

/// The counts of all workers.
pub struct WorkerCounts {
    /// All intervals, in order.
    pub finished_intervals: Vec<FinishedInterval>,
    /// Warm-up and steadiness of the series.
    pub assessment: Assessment,
    /// Operations of each worker.
    pub operations_by_thread: Vec<u64>,
    /// Nanoseconds from the start to the end of the last operation.
    pub elapsed_ns: u64,
    /// Nanoseconds that the slowest worker's final syncs took.
    pub final_sync_ns: u64,
    /// Number of final syncs.
    pub final_syncs: u64,
    /// CPU time of the whole process from the start to the end. It is used to split the time of the workers into user and
    /// system time, because the kernel samples this split at clock ticks, and a single thread has too few ticks.
    pub process_cpu: CpuTime,
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
    settings: &'d DriveSettings<'d>,
    /// The times of the run, set when all workers are ready. Set to None if a worker could not start.
    times: OnceLock<Option<RunTimes>>,
    /// Set when the run has to end.
    stop: AtomicBool,
    budget: OperationBudget,
}

/// Runs a load and collects its counts. Calls `on_interval` as soon as an interval is over.
///
/// # Errors
/// A worker cannot start, or an operation fails; the first error is returned.
pub fn run_workers<'a, W: Work<'a>>(
    settings: &DriveSettings,
    work: &'a W,
    on_interval: OnInterval,
) -> Result<WorkerCounts> {
    let clock = Clock::best();
    let scale = clock.scale;
    let shared = SharedRun {
        work,
        settings,
        times: OnceLock::new(),
        stop: AtomicBool::new(false),
        budget: OperationBudget::new(settings.max_operations()),
    };
    std::thread::scope(|scope| {
        let started = start_workers(scope, &shared, clock);
        let StartedWorkers { handles, from_workers, to_workers } = started.inspect_err(|_| {
            shared.times.get_or_init(|| None);
        })?;
        let process = CpuTime::of_this_process();
        let start = clock.now();
        let interval_length = scale.ticks(settings.interval_ns()).max(1);
        let deadline = settings.max_ns().map_or(u64::MAX, |ns| start.saturating_add(scale.ticks(ns)));
        shared.times.get_or_init(|| Some(RunTimes { start, interval_length, deadline, scale }));

        let interval_s = settings.interval_ns() as f64 / 1e9;
        let mut collector = Collector::new(settings.kinds, interval_s, settings.rate.is_some(), to_workers);
        collect_tallies(&from_workers, &shared, &mut collector, on_interval);
        let mut worker_ends = vec![];
        for handle in handles {
            let worker_end = handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            worker_ends.extend(worker_end?);
        }
        let elapsed = worker_ends.iter().map(|worker| worker.end.saturating_sub(start)).max().unwrap_or(0);
        let elapsed_ns = scale.ns(elapsed);
        if let Some(last) = collector.finished_intervals.last_mut() {
            last.interval.set_length((elapsed_ns as f64 / 1e9 - last.interval.start_s).max(0.0));
        }
        collector.report_intervals(on_interval);
        Ok(WorkerCounts {
            assessment: collector.assess(),
            finished_intervals: collector.finished_intervals,
            operations_by_thread: collector.operations_by_thread,
            elapsed_ns,
            final_sync_ns: scale.ns(worker_ends.iter().map(|worker| worker.final_sync).max().unwrap_or(0)),
            final_syncs: worker_ends.iter().map(|worker| worker.final_syncs).sum(),
            process_cpu: CpuTime::of_this_process().since(process),
        })
    })
}

/// The workers of a run, once all of them are ready.
struct StartedWorkers<'scope> {
    handles: Vec<ScopedJoinHandle<'scope, Result<Option<WorkerEnd>>>>,
    /// Full tallies of all workers.
    from_workers: Receiver<IntervalTally>,
    /// Returns emptied tallies to each worker.
    to_workers: Vec<Sender<Vec<LatencyTally>>>,
}

/// Starts all workers and waits until each has prepared its state.
fn start_workers<'scope, 'a, W: Work<'a>>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope SharedRun<'a, '_, W>,
    clock: Clock,
) -> Result<StartedWorkers<'scope>> {
    let (full_sender, from_workers) = mpsc::channel();
    let (ready_sender, ready_results) = mpsc::channel();
    let (mut handles, mut to_workers) = (vec![], vec![]);
    for thread in 0..shared.settings.threads {
        let (empty_sender, empty_receiver) = mpsc::channel();
        to_workers.push(empty_sender);
        let link = CollectorLink {
            thread,
            to_collector: full_sender.clone(),
            from_collector: empty_receiver,
            stop: &shared.stop,
        };
        let ready_sender = ready_sender.clone();
        let builder = std::thread::Builder::new().name(format!("load-{thread}")).stack_size(STACK_BYTES);
        match builder.spawn_scoped(scope, move || run_worker(shared, link, ready_sender, clock)) {
            Ok(handle) => handles.push(handle),
            Err(source) => {
                let problem = format!("no thread number {} of {}", thread + 1, shared.settings.threads);
                let advice = "; use fewer threads, or raise `ulimit -u`";
                return Err(EngineError::Resource { problem, source, advice });
            }
        }
    }
    drop((full_sender, ready_sender));
    for result in ready_results.iter().take(handles.len()) {
        result?;
    }
    Ok(StartedWorkers { handles, from_workers, to_workers })
}

/// Runs one worker from its preparation to its final syncs. Reports through `ready_sender` whether it could start. Returns None
/// if any worker could not start.
fn run_worker<'a, 's, W: Work<'a>>(
    shared: &'s SharedRun<'a, '_, W>,
    link: CollectorLink<'s>,
    ready_sender: Sender<Result>,
    clock: Clock,
) -> Result<Option<WorkerEnd>> {
    let settings = shared.settings;
    let mut worker = match shared.work.prepare(link.thread) {
        Ok(worker) => worker,
        Err(error) => {
            let _ = ready_sender.send(Err(error));
            return Ok(None);
        }
    };
    if settings.rate.is_some() {
        minimize_timer_slack();
    }
    let lanes = lane_kinds(settings.kinds, settings.rate.is_some());
    let _ = ready_sender.send(Ok(()));
    drop(ready_sender);
    let Some(times) = *shared.times.wait() else { return Ok(None) };
    let mut recorder = Recorder::new(&lanes, times, Some(link), &shared.budget, settings.threads);
    let result = shared.work.perform_operations(&mut worker, &mut recorder, clock);
    let end = clock.now();
    if result.is_err() {
        shared.stop.store(true, Ordering::Relaxed);
    }
    recorder.close();
    drop(recorder);
    result?;
    let final_syncs = shared.work.sync_at_end()?;
    let final_sync = if final_syncs > 0 { clock.now().saturating_sub(end) } else { 0 };
    shared.work.finish(worker)?;
    Ok(Some(WorkerEnd { end, final_sync, final_syncs }))
}

/// Collects tallies until all workers have ended, and reports the finished intervals. The last ones follow later, when the end
/// of the run is known.
fn collect_tallies<W>(
    from_workers: &Receiver<IntervalTally>,
    shared: &SharedRun<W>,
    collector: &mut Collector,
    on_interval: OnInterval,
) {
    for message in from_workers {
        // A signal ends the load early; the operations so far still count.
        if cancel::received_signal().is_some() {
            shared.stop.store(true, Ordering::Relaxed);
        }
        if collector.add_tally(message) == 0 || collector.all_workers_ended() {
            continue;
        }
        collector.report_intervals(on_interval);
        if matches!(shared.settings.bound, Bound::Steady { .. }) && collector.assess().is_steady == Some(true) {
            shared.stop.store(true, Ordering::Relaxed);
        }
    }
}
