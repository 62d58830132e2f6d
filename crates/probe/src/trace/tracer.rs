//! Starting and stopping a trace.
//!
//! A thread empties the ring buffers while the work runs, and puts the events of all CPUs into the order of their times.

use crate::trace::decode::{MalformedRecord, TraceEvent};
use crate::trace::options::{TraceOptions, TracedTasks};
use crate::trace::profile::{self, Profile};
use crate::trace::rings::{self, Ring, Rings, not_permitted_error};
use crate::trace::{TraceError, symbols::Symbols, tally::TraceTally};
use fsarena_sys::kernel::SysRoot;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::time::ClockId;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::{sync::Arc, thread::JoinHandle};

/// A running trace. Dropping it ends the trace.
#[derive(Debug)]
#[must_use = "the trace ends when dropped"]
pub struct Tracer {
    /// The event (eventfd(2)) that ends the reader thread.
    stop_event: Arc<OwnedFd>,
    reader: Option<JoinHandle<ReaderResult>>,
    kernel: SysRoot,
    symbols: Symbols,
    cpu_event: Option<&'static str>,
    keeps_stacks: bool,
}

impl Tracer {
    /// Starts a trace on this machine.
    ///
    /// # Errors
    /// This kernel lacks a feature or this user a permission (the message has the remedy), or a process does not exist.
    pub fn start(options: &TraceOptions) -> Result<Tracer, TraceError> {
        let kernel = SysRoot::host();
        check_processes(&kernel, &options.target)?;
        let mut rings = rings::open_rings(&kernel, options)?;
        // Reads the symbols before the trace, because a trace without names is useless.
        let symbols = Symbols::read(&kernel)?;
        let stop_event =
            rustix::event::eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| TraceError::Reader(error.into()))?;
        let stop_event = Arc::new(stop_event);
        let tally = TraceTally::new(&options.target);
        let cpu_event = rings.cpu_event;
        let start_ns = monotonic_ns();
        for ring in &mut rings.rings {
            let enabled = ring.sampler.enable();
            enabled.map_err(|error| not_permitted_error(&kernel, "switching a perf event on", error))?;
        }
        let reader = std::thread::Builder::new().name("lock-trace".into()).spawn({
            let stop_event = stop_event.clone();
            move || read_rings(rings, start_ns, &stop_event, tally)
        });
        let reader = Some(reader.map_err(TraceError::Reader)?);
        Ok(Tracer { stop_event, reader, kernel, symbols, cpu_event, keeps_stacks: options.keeps_stacks })
    }

    /// Ends the trace and returns its result.
    pub fn stop(mut self) -> Profile {
        let ReaderResult { tally, duration_ns } = self.stop_reader().expect("only stop and drop finish a trace");
        // Reads the symbols again, because a module may have been loaded since. If that fails, the first list counts.
        let symbols = Symbols::read(&self.kernel).unwrap_or_else(|_| std::mem::take(&mut self.symbols));
        let lock_sites = profile::lock_sites(&tally, &symbols);
        Profile {
            duration_ns,
            waits: lock_sites.iter().map(|site| site.waits).sum(),
            total_wait_ns: lock_sites.iter().map(|site| site.total_ns).sum(),
            lock_sites,
            cpu_sites: profile::cpu_sites(&tally, &symbols),
            stacks: if self.keeps_stacks { profile::cpu_stacks(&tally, &symbols) } else { vec![] },
            cpu_samples: tally.cpu_samples.values().sum(),
            cpu_event: self.cpu_event.map(str::to_string),
            lost_records: tally.lost_records,
            waits_without_begin: tally.pairing.without_begin,
            waits_without_end: tally.pairing.without_end,
        }
    }

    fn stop_reader(&mut self) -> Option<ReaderResult> {
        let reader = self.reader.take()?;
        // Cannot block: the counter of the event is 0 until now.
        let _ = rustix::io::write(&*self.stop_event, &1_u64.to_ne_bytes());
        Some(reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

/// Checks that the processes exist: a missing process would look like a process that never waits.
fn check_processes(kernel: &SysRoot, target: &TracedTasks) -> Result<(), TraceError> {
    let TracedTasks::Pids(pids) = target else { return Ok(()) };
    match pids.iter().find(|pid| !kernel.path(&format!("proc/{pid}")).exists()) {
        Some(pid) => Err(TraceError::NoProcess { pid: *pid }),
        None => Ok(()),
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.stop_reader();
    }
}

/// The longest sleep of the reader thread. A buffer that fills up wakes it sooner.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How much later than its time a record may appear in its buffer, in nanoseconds. It is long, because a hypervisor may stop
/// the CPU in between.
const SLACK_NS: u64 = 20_000_000;

/// The result of the thread that reads the ring buffers.
struct ReaderResult {
    /// The sum of all events.
    tally: TraceTally,
    /// How long the events were on, in nanoseconds.
    duration_ns: u64,
}

/// The time of CLOCK_MONOTONIC in nanoseconds; the records use the same clock.
fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Reads the ring buffers until `stop_event` is readable, then switches the events off and reads the remaining records.
fn read_rings(mut rings: Rings, start_ns: u64, stop_event: &OwnedFd, mut tally: TraceTally) -> ReaderResult {
    tally.reader_thread = Some(rustix::thread::gettid().as_raw_nonzero().get() as u32);
    let mut queue = vec![];
    while !wait_for_records(&rings.rings, stop_event) {
        let pass_start_ns = monotonic_ns();
        queue_records(&mut rings.rings, &mut tally, &mut queue);
        for event in drain_until(&mut queue, pass_start_ns.saturating_sub(SLACK_NS)) {
            tally.add(&event);
        }
    }
    // In reverse order, so that beginnings of waits are switched off before ends: see `Rings::rings`.
    for ring in rings.rings.iter_mut().rev() {
        // Fails for a CPU that went offline, which writes no more records.
        let _ = ring.sampler.disable();
    }
    let duration_ns = monotonic_ns() - start_ns;
    queue_records(&mut rings.rings, &mut tally, &mut queue);
    for event in drain_until(&mut queue, u64::MAX) {
        tally.add(&event);
    }
    tally.pairing.discard_open_waits();
    ReaderResult { tally, duration_ns }
}

/// Sleeps until a buffer fills up, `stop_event` is readable, or the poll interval is over. Returns whether `stop_event` is
/// readable.
fn wait_for_records(rings: &[Ring], stop_event: &OwnedFd) -> bool {
    let mut fds = vec![PollFd::new(stop_event, PollFlags::IN)];
    fds.extend(rings.iter().map(|ring| {
        // SAFETY: the ring owns the descriptor and outlives this borrow.
        let fd = unsafe { BorrowedFd::borrow_raw(ring.sampler.as_raw_fd()) };
        PollFd::from_borrowed_fd(fd, PollFlags::IN)
    }));
    match rustix::event::poll(&mut fds, Some(&POLL_INTERVAL)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        // The kernel is short of memory. The buffers can still be read.
        Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
    }
    !fds[0].revents().is_empty()
}

/// Moves all records from the ring buffers to the queue.
fn queue_records(rings: &mut [Ring], tally: &mut TraceTally, queue: &mut Vec<TraceEvent>) {
    for Ring { cpu, decoder, sampler } in rings {
        while let Some(record) = sampler.next_record() {
            match decoder.decode(*cpu, record.ty(), &record.to_contiguous(), &mut tally.chains) {
                Ok(Some(event)) => queue.push(event),
                Ok(None) => {}
                // Never observed. It counts as lost, so that the profile is not shown as complete.
                Err(MalformedRecord) => tally.lost_records += 1,
            }
        }
    }
}

/// Removes the events up to a time from a queue and returns them, oldest first.
///
/// A wait may begin on one CPU and end on another, and the reader reads the buffers one after the other. After it has read all
/// buffers once, no event older than the start of that pass can follow.
fn drain_until(queue: &mut Vec<TraceEvent>, end_ns: u64) -> std::vec::Drain<'_, TraceEvent> {
    // The events are mostly sorted sequences, which this sort merges quickly.
    queue.sort_by_key(|event| event.time_ns);
    let count = queue.partition_point(|event| event.time_ns <= end_ns);
    queue.drain(..count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::decode::EventKind;

    #[test]
    fn a_missing_process_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/7")).unwrap();
        let kernel = SysRoot::at(dir.path());
        check_processes(&kernel, &TracedTasks::Pids(vec![7])).unwrap();
        check_processes(&kernel, &TracedTasks::WholeMachine).unwrap();
        let error = check_processes(&kernel, &TracedTasks::Pids(vec![7, 8])).unwrap_err();
        assert!(matches!(error, TraceError::NoProcess { pid: 8 }), "{error}");
    }

    fn event_at(time_ns: u64, cpu: u32) -> TraceEvent {
        TraceEvent { time_ns, cpu, pid: 1, tid: 1, kind: EventKind::Fork { parent: 0 } }
    }

    #[test]
    fn the_queue_returns_events_of_all_cpus_sorted_by_time() {
        let mut queue = vec![event_at(10, 0), event_at(30, 0), event_at(50, 0), event_at(20, 1), event_at(40, 1)];
        let first: Vec<TraceEvent> = drain_until(&mut queue, 30).collect();
        assert_eq!(first, [event_at(10, 0), event_at(20, 1), event_at(30, 0)]);
        queue.push(event_at(35, 1));
        let rest: Vec<TraceEvent> = drain_until(&mut queue, u64::MAX).collect();
        assert_eq!(rest, [event_at(35, 1), event_at(40, 1), event_at(50, 0)]);
    }
}
