//! Memory that all clients and the thread that watches them share, also after fork(2): the phase of the run, and
//! counters for each client. Only the client itself writes to its counters.

use crate::dbench::kind::{KIND_DEFS, OperationKind};
use crate::error::{Result, TaskError};
use hdrhistogram::Histogram;
use memmap2::MmapRaw;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::{thread::futex, time::Timespec};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64};
use std::time::Duration;

/// A phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Phase {
    /// Clients get ready.
    Preparing,
    /// Clients work, and nothing counts.
    WarmUp,
    /// Clients work, and their operations count.
    Measured,
    /// Clients end.
    Over,
}

/// Counters of one kind of operations in the measured phase.
#[derive(Debug)]
#[repr(C)]
pub struct KindCounters {
    /// Number of operations.
    pub count: AtomicU64,
    /// Nanoseconds of all operations together.
    pub total_ns: AtomicU64,
    /// Nanoseconds of the longest operation.
    pub max_ns: AtomicU64,
    /// The latencies of all operations.
    pub latencies: LatencyBuckets,
}

/// Largest size of a message in bytes.
const MESSAGE_BYTES: usize = 1024;

/// The first message of a kind from a client, and the number of all messages of this kind.
#[derive(Debug)]
#[repr(C)]
pub struct FirstMessage {
    /// Number of messages of this kind, including the first.
    pub count: AtomicU64,
    line: AtomicU32,
    errno: AtomicI32,
    length: AtomicU32,
    text: [AtomicU8; MESSAGE_BYTES],
}

/// The counters and messages of one client.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ClientCounters {
    /// Operations in all phases.
    pub operations: AtomicU64,
    /// Bytes read and written in all phases.
    pub bytes: AtomicU64,
    /// Bytes read, and bytes written, in the measured phase.
    pub measured_bytes: [AtomicU64; 2],
    /// Largest delay between the due time of an operation and its start, in nanoseconds.
    pub lateness_ns: AtomicU64,
    /// The point that the client has reached ([`super::program::InstructionAction::SetSyncPoint`]).
    pub sync_point: AtomicI64,
    /// The failure that ended the client.
    pub failure: FirstMessage,
    /// Operations with another result than the loadfile states. The real dbench continues after them, too.
    pub unexpected_result: FirstMessage,
    /// Counters of the measured phase, by [`OperationKind`].
    pub kinds: [KindCounters; KIND_DEFS.len()],
}

/// The counters that all clients share.
#[repr(C)]
struct SharedHead {
    phase: AtomicU32,
    ready_clients: AtomicU32,
}

/// The shared memory of a run.
#[derive(Debug)]
pub struct SharedCounters {
    memory: MmapRaw,
    clients: u32,
}

/// Offset of the clients' counters in the memory. The head has a page of its own: all clients read the phase all the
/// time, and counters that change in the same cache line would slow that down.
const CLIENTS_OFFSET: usize = 4096;

impl SharedCounters {
    /// Allocates zeroed counters for `clients` clients. The kernel allocates each page at its first write.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn new(clients: u32) -> Result<SharedCounters> {
        let bytes = CLIENTS_OFFSET + clients as usize * size_of::<ClientCounters>();
        let memory = map_shared_memory(bytes).map_err(|error| {
            TaskError::Missing(format!("no memory for the counters of {clients} clients; take fewer: {error}"))
        })?;
        Ok(SharedCounters { memory, clients })
    }

    /// The counters of a client, which is numbered from 0.
    ///
    /// # Panics
    /// If `client` is not below the number of clients.
    pub fn client(&self, client: u32) -> &ClientCounters {
        assert!(client < self.clients);
        // SAFETY: the mapping is page-aligned and has room for the counters of every client below `clients`, and zero
        // is valid for atomics.
        unsafe { &*self.memory.as_ptr().add(CLIENTS_OFFSET + client as usize * size_of::<ClientCounters>()).cast() }
    }

    /// The counters of all clients.
    pub fn clients(&self) -> impl Iterator<Item = &ClientCounters> {
        (0..self.clients).map(|client| self.client(client))
    }

    fn head(&self) -> &SharedHead {
        // SAFETY: the mapping is page-aligned, its first page is only for the head, and zero is valid for atomics.
        unsafe { &*self.memory.as_ptr().cast() }
    }

    /// The current phase. Relaxed accesses suffice, because clients read no other data that the watching thread writes
    /// before it starts a phase.
    #[inline]
    pub fn phase(&self) -> Phase {
        match self.head().phase.load(Relaxed) {
            0 => Phase::Preparing,
            1 => Phase::WarmUp,
            2 => Phase::Measured,
            _ => Phase::Over,
        }
    }

    /// Starts a phase and wakes all threads that wait for one.
    pub fn start_phase(&self, phase: Phase) {
        self.head().phase.store(phase as u32, Relaxed);
        // It fails only for an invalid address.
        let _ = futex::wake(&self.head().phase, futex::Flags::empty(), i32::MAX as u32);
    }

    /// Counts this client as ready and waits for the start.
    pub fn wait_for_start(&self) {
        self.head().ready_clients.fetch_add(1, Release);
        while self.phase() == Phase::Preparing {
            self.wait_for_phase_change(Phase::Preparing, Duration::from_secs(1));
        }
    }

    /// Number of clients that are ready.
    pub fn ready_count(&self) -> u32 {
        self.head().ready_clients.load(Acquire)
    }

    /// Waits until another phase than `phase` starts, at most for the timeout.
    pub fn wait_for_phase_change(&self, phase: Phase, timeout: Duration) {
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        // The caller checks the phase again in any case.
        let _ = futex::wait(&self.head().phase, futex::Flags::empty(), phase as u32, Some(&timeout));
    }
}

/// Maps zeroed memory that processes share after fork(2).
fn map_shared_memory(bytes: usize) -> std::io::Result<MmapRaw> {
    let file = memfd_create(c"fsarena-dbench", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, bytes as u64)?;
    MmapRaw::map_raw(&file)
}

impl ClientCounters {
    /// Counts an operation of the measured phase.
    #[inline]
    pub fn count_operation(&self, kind: OperationKind, ns: u64) {
        let counters = &self.kinds[kind as usize];
        add_unshared(&counters.count, 1);
        add_unshared(&counters.total_ns, ns);
        if ns > counters.max_ns.load(Relaxed) {
            counters.max_ns.store(ns, Relaxed);
        }
        counters.latencies.record(ns);
    }
}

/// Adds to a counter that only this client writes. It needs no atomic addition, which would be slower.
#[inline]
pub fn add_unshared(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
}

/// A message of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientMessage {
    /// The line of the loadfile.
    pub line: u32,
    /// The error number of the system call, if there is one.
    pub errno: Option<i32>,
    /// The text.
    pub text: String,
}

impl FirstMessage {
    /// Records a message. `parts` together are its text, which is not empty. Only the first message is kept.
    pub fn record(&self, line: u32, error: Option<std::io::Error>, parts: &[&[u8]]) {
        add_unshared(&self.count, 1);
        if self.count.load(Relaxed) > 1 {
            return;
        }
        let mut length = 0;
        for (slot, byte) in self.text.iter().zip(parts.iter().copied().flatten()) {
            slot.store(*byte, Relaxed);
            length += 1;
        }
        self.line.store(line, Relaxed);
        self.errno.store(error.and_then(|error| error.raw_os_error()).unwrap_or(0), Relaxed);
        self.length.store(length, Release);
    }

    /// Returns the message, if there is one.
    pub fn message(&self) -> Option<ClientMessage> {
        let length = self.length.load(Acquire) as usize;
        let text: Vec<u8> = self.text.iter().take(length).map(|byte| byte.load(Relaxed)).collect();
        (length > 0).then(|| ClientMessage {
            line: self.line.load(Relaxed),
            errno: Some(self.errno.load(Relaxed)).filter(|errno| *errno != 0),
            text: String::from_utf8_lossy(&text).into_owned(),
        })
    }
}

/// Binary logarithm of the number of buckets in each doubling of the latency.
const BUCKET_BITS: u32 = 6;
/// Number of doublings above the first 2⁶ nanoseconds. The largest latency is 73 minutes.
const DOUBLINGS: usize = 36;
/// Number of buckets.
const BUCKET_COUNT: usize = (DOUBLINGS + 1) << BUCKET_BITS;

/// A latency histogram of fixed size without pointers, so that processes can share it. One client writes, others read.
///
/// The buckets are those of an HDR histogram, 64 for each doubling, so the error of a latency is at most 1.6%.
#[derive(Debug)]
#[repr(transparent)]
pub struct LatencyBuckets([AtomicU32; BUCKET_COUNT]);

/// The index of the bucket of a latency in nanoseconds. Buckets 0 to 63 are of one nanosecond each. After them, each
/// doubling of the latency has 64 buckets: 64 to 127 ns has buckets of 1 ns, 128 to 255 ns has buckets of 2 ns, and so
/// on.
fn bucket_index(ns: u64) -> usize {
    let doubling = (u64::BITS - BUCKET_BITS - 1).saturating_sub(ns.leading_zeros());
    let sub_bucket = (ns >> doubling) as usize;
    // From 64 ns on `sub_bucket` is 64 to 127, so the sum lands in the 64 buckets after those of the doubling below.
    (((doubling as usize) << BUCKET_BITS) + sub_bucket).min(BUCKET_COUNT - 1)
}

/// The latency in the middle of a bucket, in nanoseconds.
fn bucket_middle(index: usize) -> u64 {
    let doubling = (index >> BUCKET_BITS).saturating_sub(1);
    let sub_bucket = index - (doubling << BUCKET_BITS);
    ((sub_bucket as u64) << doubling) + ((1 << doubling) >> 1)
}

impl LatencyBuckets {
    /// Counts a latency.
    #[inline]
    pub fn record(&self, ns: u64) {
        let count = &self.0[bucket_index(ns)];
        count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Adds all counted latencies to a histogram.
    pub fn add_to(&self, histogram: &mut Histogram<u64>) {
        for (index, count) in self.0.iter().enumerate() {
            match count.load(Relaxed) {
                0 => {}
                // The histogram resizes itself, so it accepts every latency.
                count => histogram.record_n(bucket_middle(index), count.into()).unwrap_or_default(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_message_is_kept_and_all_are_counted() {
        let counters = SharedCounters::new(3).unwrap();
        let first_message = &counters.client(2).unexpected_result;
        assert_eq!(first_message.message(), None);
        first_message.record(7, Some(std::io::Error::from_raw_os_error(libc::ENOENT)), &[b"open ", b"/a"]);
        first_message.record(8, None, &[&[b'x'; 5000]]);
        assert_eq!(first_message.message(), Some(ClientMessage { line: 7, errno: Some(2), text: "open /a".into() }));
        assert_eq!(first_message.count.load(Relaxed), 2);
        assert_eq!(counters.client(0).unexpected_result.message(), None);
    }

    #[test]
    fn a_client_waits_for_the_start() {
        let counters = SharedCounters::new(2).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| counters.wait_for_start());
            while counters.ready_count() == 0 {
                std::thread::yield_now();
            }
            assert!(!waiting.is_finished());
            counters.start_phase(Phase::WarmUp);
            waiting.join().unwrap();
        });
        assert_eq!(counters.phase(), Phase::WarmUp);
    }

    #[test]
    fn the_middle_of_a_bucket_is_within_a_64th_of_the_latency() {
        for ns in (0..200).chain([1000, 65_535, 65_536, 1_000_000, 123_456_789, 60_000_000_000]) {
            let middle = bucket_middle(bucket_index(ns));
            assert!(middle.abs_diff(ns) as f64 <= ns as f64 / 64.0, "{ns} becomes {middle}");
        }
        assert_eq!(bucket_index(u64::MAX), BUCKET_COUNT - 1);
        assert!((0..BUCKET_COUNT - 1).all(|index| bucket_index(bucket_middle(index)) == index));
    }

    #[test]
    fn recorded_latencies_are_added_to_a_histogram() {
        let buckets: Box<LatencyBuckets> = Box::new(LatencyBuckets(std::array::from_fn(|_| AtomicU32::new(0))));
        (1..=100).for_each(|us| buckets.record(us * 1000));
        let mut histogram = Histogram::new(3).unwrap();
        buckets.add_to(&mut histogram);
        assert_eq!(histogram.len(), 100);
        let p50 = histogram.value_at_quantile(0.5);
        assert!(p50.abs_diff(50_000) < 1000, "{p50}");
    }
}
