//! Sums up the events of the traced processes: pairs the beginning and the end of each wait, and adds the durations of waits
//! to histograms.

use crate::trace::decode::{CallChains, ChainId, EventKind, TraceEvent};
use crate::trace::{lock_kind::LockKind, options::TracedTasks};
use hdrhistogram::Histogram;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

/// The counts and durations of a trace so far.
#[derive(Debug, Default)]
pub struct TraceTally {
    /// The traced processes, also those that have ended; None for all. A process that reuses the pid of an ended one counts.
    processes: Option<HashSet<u32>>,
    /// The thread of the tracer that reads the events. Its own events do not count.
    pub reader_thread: Option<u32>,
    /// The distinct call chains of the events. Each is stored once, because many events share it and refer to it by its
    /// id.
    pub chains: CallChains,
    /// The waits that have begun and not ended.
    pub pairing: WaitPairing,
    /// Waits by kind of lock and chain.
    pub waits_by_lock: HashMap<(LockKind, ChainId), WaitStats>,
    /// Samples of running code by chain.
    pub cpu_samples: HashMap<ChainId, u64>,
    /// The number of records that the kernel dropped because a buffer was full.
    pub lost_records: u64,
}

impl TraceTally {
    /// An empty tally.
    pub fn new(target: &TracedTasks) -> TraceTally {
        let processes = match target {
            TracedTasks::Pids(pids) => Some(pids.iter().copied().collect()),
            TracedTasks::WholeMachine => None,
        };
        TraceTally { processes, ..TraceTally::default() }
    }

    /// Adds the next event. Events must arrive sorted by time.
    pub fn add(&mut self, event: &TraceEvent) {
        match event.kind {
            EventKind::Lost { records } => {
                self.lost_records += records;
                self.pairing.discard_open_waits();
            }
            EventKind::Fork { parent } => self.add_child(event.pid, parent),
            _ if !self.is_traced(event) => {}
            EventKind::Begin { lock, flags, chain } => {
                self.pairing.begin(task_of(event), lock, WaitBegin { time_ns: event.time_ns, flags, chain });
            }
            EventKind::End { lock, gave_up } => self.end_wait(event, lock, gave_up),
            // The idle task (pid 0) does not count as running.
            EventKind::Cpu { .. } if event.pid == 0 => {}
            EventKind::Cpu { chain } => *self.cpu_samples.entry(chain).or_default() += 1,
        }
    }

    /// Whether an event is of a traced process, and not of the reader thread.
    fn is_traced(&self, event: &TraceEvent) -> bool {
        Some(event.tid) != self.reader_thread
            && self.processes.as_ref().is_none_or(|processes| processes.contains(&event.pid))
    }

    /// Adds the child of a traced process to the traced processes.
    fn add_child(&mut self, pid: u32, parent: u32) {
        if let Some(processes) = &mut self.processes
            && processes.contains(&parent)
        {
            processes.insert(pid);
        }
    }

    /// Adds a wait that ends with this event, if its beginning is known.
    fn end_wait(&mut self, event: &TraceEvent, lock: u64, gave_up: bool) {
        let Some(begin) = self.pairing.end(task_of(event), lock) else { return };
        let waits =
            self.waits_by_lock.entry((LockKind::from_flags(begin.flags), begin.chain)).or_insert_with(WaitStats::new);
        waits.add(event.time_ns.saturating_sub(begin.time_ns), gave_up);
    }
}

fn task_of(event: &TraceEvent) -> Task {
    if event.tid == 0 { Task::Idle(event.cpu) } else { Task::Thread(event.tid) }
}

/// A waiting task: a thread, or the idle task of a CPU (the idle tasks of all CPUs share one thread number).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Task {
    /// A thread.
    Thread(u32),
    /// The idle task of a CPU. Interrupts during it count as its events.
    Idle(u32),
}

/// The beginning of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitBegin {
    /// The time in nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The LCB_F_* flags of the kernel's tracepoint `lock:contention_begin`.
    pub flags: u32,
    /// The call chain.
    pub chain: ChainId,
}

/// Pairs the beginnings and ends of waits.
///
/// A task may wait for several locks at a time: a waiter for a mutex also takes the mutex's internal spinlock, and an
/// interrupt may occur. Task and lock together identify a wait.
#[derive(Debug, Default)]
pub struct WaitPairing {
    open_waits: HashMap<(Task, u64), WaitBegin>,
    /// The number of ends whose beginning was before the trace, was lost, or was discarded. If the end of a discarded
    /// wait does arrive, that wait counts here and in `without_end`.
    pub without_begin: u64,
    /// The number of beginnings whose end was after the trace or may be lost.
    pub without_end: u64,
}

impl WaitPairing {
    /// Records that a task begins to wait. A mutex reports another beginning when the wait changes between spinning and
    /// sleeping; the first one counts. For any other lock, a second beginning means that the end of the previous wait was lost.
    pub fn begin(&mut self, task: Task, lock: u64, begin: WaitBegin) {
        match self.open_waits.entry((task, lock)) {
            Entry::Occupied(_) if LockKind::from_flags(begin.flags) == LockKind::Mutex => {}
            Entry::Occupied(mut entry) => {
                entry.insert(begin);
                self.without_end += 1;
            }
            Entry::Vacant(entry) => drop(entry.insert(begin)),
        }
    }

    /// Records that a task stops waiting. Returns the beginning of the wait, if the trace has it.
    pub fn end(&mut self, task: Task, lock: u64) -> Option<WaitBegin> {
        let begin = self.open_waits.remove(&(task, lock));
        if begin.is_none() {
            self.without_begin += 1;
        }
        begin
    }

    /// Counts all open waits as waits without an end. Call it at the end of the trace, and after a loss of records: the lost
    /// records may include the end of an open wait. That wait would then seem to last until the task has waited for the same
    /// lock again.
    pub fn discard_open_waits(&mut self) {
        self.without_end += self.open_waits.len() as u64;
        self.open_waits.clear();
    }
}

/// The significant digits of the histogram: quantiles are exact within 1%.
const HISTOGRAM_DIGITS: u8 = 2;

/// The sum and the distribution of the waits at one place.
#[derive(Debug, Clone)]
pub struct WaitStats {
    /// The number of waits.
    pub count: u64,
    /// The number of waits that ended without the lock.
    pub gave_up: u64,
    /// The sum of all waits in nanoseconds.
    pub total_ns: u64,
    /// The longest wait in nanoseconds.
    pub max_ns: u64,
    histogram: Histogram<u32>,
}

impl WaitStats {
    /// No waits.
    pub fn new() -> WaitStats {
        let histogram = Histogram::new(HISTOGRAM_DIGITS).expect("two digits are within the histogram's one to five");
        WaitStats { count: 0, gave_up: 0, total_ns: 0, max_ns: 0, histogram }
    }

    /// Adds a wait.
    pub fn add(&mut self, ns: u64, gave_up: bool) {
        self.count += 1;
        self.gave_up += u64::from(gave_up);
        self.total_ns += ns;
        self.max_ns = self.max_ns.max(ns);
        self.histogram.record(ns).expect("a histogram that resizes itself accepts any duration");
    }

    /// Adds all waits of `other`.
    pub fn merge(&mut self, other: &WaitStats) {
        self.count += other.count;
        self.gave_up += other.gave_up;
        self.total_ns += other.total_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.histogram.add(&other.histogram).expect("a histogram that resizes itself holds any other");
    }

    /// The mean wait in nanoseconds; 0 without waits.
    pub fn mean_ns(&self) -> u64 {
        self.total_ns.checked_div(self.count).unwrap_or(0)
    }

    /// The 99th percentile of the waits in nanoseconds, within 1%.
    pub fn p99_ns(&self) -> u64 {
        self.histogram.value_at_quantile(0.99).min(self.max_ns)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::trace::decode::tests::addresses;

    // The LCB_F_* flags of the waits.
    const RWSEM_READ: u32 = 2;
    const MUTEX: u32 = 0x20;
    const MUTEX_SPINNING: u32 = 0x21;

    pub fn new_tally(target: TracedTasks) -> TraceTally {
        TraceTally::new(&target)
    }

    pub fn event(time_ns: u64, pid: u32, tid: u32, kind: EventKind) -> TraceEvent {
        TraceEvent { time_ns, cpu: 0, pid, tid, kind }
    }

    /// Adds a wait of a thread for the lock at address 100, of `ns` nanoseconds, with a call chain.
    pub fn add_wait(tally: &mut TraceTally, (pid, tid): (u32, u32), flags: u32, ns: u64, chain: &[u64]) {
        let chain = tally.chains.intern(&addresses(chain));
        tally.add(&event(1_000, pid, tid, EventKind::Begin { lock: 100, flags, chain }));
        tally.add(&event(1_000 + ns, pid, tid, EventKind::End { lock: 100, gave_up: false }));
    }

    fn total_wait_ns(tally: &TraceTally) -> u64 {
        tally.waits_by_lock.values().map(|waits| waits.total_ns).sum()
    }

    #[test]
    fn only_traced_processes_and_their_children_count() {
        let mut tally = new_tally(TracedTasks::Pids(vec![10]));
        add_wait(&mut tally, (10, 11), RWSEM_READ, 5, &[1]);
        add_wait(&mut tally, (20, 20), RWSEM_READ, 70, &[1]);
        assert_eq!(total_wait_ns(&tally), 5);
        tally.add(&event(2_000, 20, 20, EventKind::Fork { parent: 10 }));
        tally.add(&event(2_000, 30, 30, EventKind::Fork { parent: 20 }));
        tally.add(&event(2_000, 50, 50, EventKind::Fork { parent: 40 }));
        add_wait(&mut tally, (20, 20), RWSEM_READ, 70, &[1]);
        add_wait(&mut tally, (30, 31), RWSEM_READ, 900, &[1]);
        add_wait(&mut tally, (50, 50), RWSEM_READ, 8_000, &[1]);
        assert_eq!(total_wait_ns(&tally), 975);
        assert_eq!(tally.pairing.without_begin, 0, "the ends of untraced processes do not count as lost");
    }

    #[test]
    fn the_whole_machine_excludes_the_reader_thread() {
        let mut tally = new_tally(TracedTasks::WholeMachine);
        tally.reader_thread = Some(99);
        add_wait(&mut tally, (10, 11), RWSEM_READ, 5, &[1]);
        add_wait(&mut tally, (10, 99), RWSEM_READ, 70, &[1]);
        assert_eq!(total_wait_ns(&tally), 5);
    }

    #[test]
    fn a_loss_of_records_discards_open_waits() {
        let mut tally = new_tally(TracedTasks::WholeMachine);
        let chain = tally.chains.intern(&[]);
        tally.add(&event(1, 1, 1, EventKind::Begin { lock: 100, flags: 0, chain }));
        tally.add(&event(2, 0, 0, EventKind::Lost { records: 7 }));
        tally.add(&event(900, 1, 1, EventKind::End { lock: 100, gave_up: false }));
        assert_eq!((total_wait_ns(&tally), tally.lost_records), (0, 7));
        assert_eq!((tally.pairing.without_begin, tally.pairing.without_end), (1, 1));
    }

    #[test]
    fn samples_of_the_idle_task_do_not_count() {
        let mut tally = new_tally(TracedTasks::WholeMachine);
        let chain = tally.chains.intern(&addresses(&[1]));
        tally.add(&event(1, 0, 0, EventKind::Cpu { chain }));
        tally.add(&event(2, 5, 6, EventKind::Cpu { chain }));
        assert_eq!(tally.cpu_samples.values().sum::<u64>(), 1);
    }

    const FIRST_TASK: Task = Task::Thread(1);
    const SECOND_TASK: Task = Task::Thread(2);

    fn begin_at(time_ns: u64) -> WaitBegin {
        begin_with_flags(time_ns, RWSEM_READ)
    }

    fn begin_with_flags(time_ns: u64, flags: u32) -> WaitBegin {
        WaitBegin { time_ns, flags, chain: CallChains::default().intern(&[]) }
    }

    #[test]
    fn waits_are_paired_by_task_and_lock() {
        let mut pairing = WaitPairing::default();
        pairing.begin(FIRST_TASK, 100, begin_at(1));
        pairing.begin(SECOND_TASK, 100, begin_at(2));
        pairing.begin(FIRST_TASK, 200, begin_at(3));
        assert_eq!(pairing.end(FIRST_TASK, 200), Some(begin_at(3)));
        assert_eq!(pairing.end(FIRST_TASK, 100), Some(begin_at(1)));
        assert_eq!(pairing.end(SECOND_TASK, 100), Some(begin_at(2)));
        pairing.discard_open_waits();
        assert_eq!((pairing.without_begin, pairing.without_end), (0, 0));
    }

    #[test]
    fn the_first_of_several_beginnings_of_a_mutex_wait_counts() {
        let mut pairing = WaitPairing::default();
        pairing.begin(FIRST_TASK, 100, begin_with_flags(1, MUTEX_SPINNING));
        pairing.begin(FIRST_TASK, 100, begin_with_flags(9, MUTEX));
        assert_eq!(pairing.end(FIRST_TASK, 100), Some(begin_with_flags(1, MUTEX_SPINNING)));
        assert_eq!(pairing.end(FIRST_TASK, 100), None);
        assert_eq!((pairing.without_begin, pairing.without_end), (1, 0));
    }

    #[test]
    fn a_second_beginning_means_that_the_end_was_lost() {
        let mut pairing = WaitPairing::default();
        pairing.begin(FIRST_TASK, 100, begin_at(1));
        pairing.begin(FIRST_TASK, 100, begin_at(9));
        assert_eq!(pairing.end(FIRST_TASK, 100), Some(begin_at(9)));
        assert_eq!((pairing.without_begin, pairing.without_end), (0, 1));
    }

    #[test]
    fn idle_tasks_of_two_cpus_are_different_tasks() {
        let mut pairing = WaitPairing::default();
        pairing.begin(Task::Idle(0), 100, begin_at(1));
        assert_eq!(pairing.end(Task::Idle(1), 100), None);
        assert_eq!(pairing.end(Task::Idle(0), 100), Some(begin_at(1)));
    }

    #[test]
    fn a_lost_end_does_not_prolong_a_wait() {
        let mut pairing = WaitPairing::default();
        pairing.begin(FIRST_TASK, 100, begin_at(1));
        // Here its end, and the beginning of the next wait, are lost.
        pairing.discard_open_waits();
        assert_eq!(pairing.end(FIRST_TASK, 100), None);
        assert_eq!((pairing.without_begin, pairing.without_end), (1, 1));
        pairing.begin(FIRST_TASK, 100, begin_at(50));
        assert_eq!(pairing.end(FIRST_TASK, 100), Some(begin_at(50)));
    }

    #[test]
    fn a_wait_without_an_end_is_counted() {
        let mut pairing = WaitPairing::default();
        pairing.begin(FIRST_TASK, 100, begin_at(1));
        pairing.discard_open_waits();
        assert_eq!(pairing.without_end, 1);
    }

    #[test]
    fn merged_waits_have_the_sums_and_quantiles_of_both() {
        let (mut low, mut high) = (WaitStats::new(), WaitStats::new());
        for ns in 1..=98 {
            low.add(ns * 1_000, false);
        }
        high.add(99_000, true);
        high.add(3_000_000_000, false);
        low.merge(&high);
        assert_eq!((low.count, low.gave_up, low.max_ns), (100, 1, 3_000_000_000));
        assert_eq!(low.total_ns, 99 * 100 / 2 * 1_000 + 3_000_000_000);
        assert_eq!(low.mean_ns(), low.total_ns / 100);
        assert!((99_000..=99_990).contains(&low.p99_ns()), "{}", low.p99_ns());
    }

    #[test]
    fn without_waits_mean_and_p99_are_zero() {
        assert_eq!((WaitStats::new().mean_ns(), WaitStats::new().p99_ns()), (0, 0));
    }

    #[test]
    fn the_p99_of_one_wait_is_its_duration() {
        let mut waits = WaitStats::new();
        waits.add(1_234_567, false);
        assert_eq!(waits.p99_ns(), 1_234_567);
    }
}
