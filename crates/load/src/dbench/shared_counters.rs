//! What clients and the one that watches them share, in memory that fork(2) leaves shared: the phase, and a recorder
//! for each client. Only a client writes to its recorder.

use super::kind::{KINDS, Kind};
use super::{buckets::Buckets, error::Error};
use memmap2::MmapRaw;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::{thread::futex, time::Timespec};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64};
use std::time::Duration;

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Phase {
    /// Clients get ready.
    Preparing,
    /// They work; nothing counts.
    WarmUp,
    /// They work, and it counts.
    Measured,
    /// They end.
    Over,
}

/// Counters of one kind of operations in the measured phase.
#[derive(Debug)]
#[repr(C)]
pub struct Counted {
    /// Operations.
    pub count: AtomicU64,
    /// Nanoseconds of all of them.
    pub total_ns: AtomicU64,
    /// Nanoseconds of the longest.
    pub max_ns: AtomicU64,
    /// All of them.
    pub latencies: Buckets,
}

/// Bytes of text that a client can leave behind.
const TEXT: usize = 1024;

/// Something a client has to say, once.
#[derive(Debug)]
#[repr(C)]
pub struct Remark {
    /// How often it would have said something of the kind.
    pub count: AtomicU64,
    line: AtomicU32,
    errno: AtomicI32,
    length: AtomicU32,
    text: [AtomicU8; TEXT],
}

/// What one client tells.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Recorder {
    /// Operations in all phases.
    pub operations: AtomicU64,
    /// Bytes read and written in all phases.
    pub bytes: AtomicU64,
    /// Bytes read and written in the measured phase.
    pub measured_bytes: [AtomicU64; 2],
    /// The longest that an operation began after it was due, nanoseconds.
    pub lateness_ns: AtomicU64,
    /// The point it has reached ([`super::program::Action::SetPoint`]).
    pub point: AtomicI64,
    /// Why it could not go on.
    pub failure: Remark,
    /// What went otherwise than its status says, where the real dbench goes on.
    pub surprise: Remark,
    /// By [`Kind`].
    pub kinds: [Counted; KINDS.len()],
}

#[repr(C)]
struct Head {
    phase: AtomicU32,
    ready: AtomicU32,
}

/// The shared memory.
#[derive(Debug)]
pub struct Board {
    memory: MmapRaw,
    clients: u32,
}

/// Offset of the recorders. The phase has the page before them alone: all clients read it and one thread writes it.
const RECORDERS_AT: usize = 4096;

impl Board {
    /// A zeroed board for `clients` clients. The kernel allocates each page at its first write.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn new(clients: u32) -> Result<Board, Error> {
        let bytes = RECORDERS_AT + clients as usize * size_of::<Recorder>();
        let map = || -> std::io::Result<MmapRaw> {
            let file = memfd_create(c"fsarena-dbench", MemfdFlags::CLOEXEC)?;
            ftruncate(&file, bytes as u64)?;
            MmapRaw::map_raw(&file)
        };
        let what = || format!("no memory for the counters of {clients} clients; take fewer");
        let memory = map().map_err(|source| Error::Resource { what: what(), source })?;
        Ok(Board { memory, clients })
    }

    /// The recorder of a client, from 0.
    ///
    /// # Panics
    /// If `client` is not below the number of clients.
    pub fn recorder(&self, client: u32) -> &Recorder {
        assert!(client < self.clients);
        // SAFETY: the mapping is page-aligned, zero is valid for atomics, and the client is one of those
        // it was made for.
        unsafe { &*self.memory.as_ptr().add(RECORDERS_AT + client as usize * size_of::<Recorder>()).cast() }
    }

    /// Every recorder.
    pub fn recorders(&self) -> impl Iterator<Item = &Recorder> {
        (0..self.clients).map(|client| self.recorder(client))
    }

    fn head(&self) -> &Head {
        // SAFETY: as for recorders, and the first page is the head's.
        unsafe { &*self.memory.as_ptr().cast() }
    }

    /// Where the run is.
    #[inline]
    pub fn phase(&self) -> Phase {
        match self.head().phase.load(Relaxed) {
            0 => Phase::Preparing,
            1 => Phase::WarmUp,
            2 => Phase::Measured,
            _ => Phase::Over,
        }
    }

    /// Goes on to the next phase and wakes all who wait for one.
    pub fn enter(&self, phase: Phase) {
        self.head().phase.store(phase as u32, Release);
        // It fails only for addresses that are none.
        let _ = futex::wake(&self.head().phase, futex::Flags::empty(), i32::MAX as u32);
    }

    /// Says that one more client is ready, and waits for the start.
    pub fn wait_for_start(&self) {
        self.head().ready.fetch_add(1, Release);
        while self.phase() == Phase::Preparing {
            self.wait(Phase::Preparing, Duration::from_secs(1));
        }
    }

    /// Clients that are ready.
    pub fn ready(&self) -> u32 {
        self.head().ready.load(Acquire)
    }

    /// Waits so long, or until the phase is another one.
    pub fn wait(&self, phase: Phase, time: Duration) {
        let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        // Whatever wakes it, the caller looks again.
        let _ = futex::wait(&self.head().phase, futex::Flags::empty(), phase as u32, Some(&timeout));
    }
}

impl Recorder {
    /// Counts an operation of the measured phase.
    #[inline]
    pub fn count(&self, kind: Kind, ns: u64) {
        let counted = &self.kinds[kind as usize];
        add(&counted.count, 1);
        add(&counted.total_ns, ns);
        if ns > counted.max_ns.load(Relaxed) {
            counted.max_ns.store(ns, Relaxed);
        }
        counted.latencies.record(ns);
    }
}

/// Adds to a counter that only this client writes.
#[inline]
pub fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}

/// A remark as it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The line of the loadfile.
    pub line: u32,
    /// The system's error number, if there is one.
    pub errno: Option<i32>,
    /// What happened.
    pub text: String,
}

impl Remark {
    /// Says it; only the first of its kind is kept.
    pub fn say(&self, line: u32, error: Option<std::io::Error>, parts: &[&[u8]]) {
        add(&self.count, 1);
        if self.count.load(Relaxed) > 1 {
            return;
        }
        let mut length = 0;
        for (place, byte) in self.text.iter().zip(parts.iter().copied().flatten()) {
            place.store(*byte, Relaxed);
            length += 1;
        }
        self.line.store(line, Relaxed);
        self.errno.store(error.and_then(|error| error.raw_os_error()).unwrap_or(0), Relaxed);
        self.length.store(length, Release);
    }

    /// The remark, if the client made one.
    pub fn said(&self) -> Option<Said> {
        let length = self.length.load(Acquire) as usize;
        let text: Vec<u8> = self.text.iter().take(length).map(|byte| byte.load(Relaxed)).collect();
        (length > 0).then(|| Said {
            line: self.line.load(Relaxed),
            errno: Some(self.errno.load(Relaxed)).filter(|errno| *errno != 0),
            text: String::from_utf8_lossy(&text).into_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_is_kept_once_and_counted() {
        let board = Board::new(3).unwrap();
        let remark = &board.recorder(2).surprise;
        assert_eq!(remark.said(), None);
        remark.say(7, Some(std::io::Error::from_raw_os_error(libc::ENOENT)), &[b"open ", b"/a"]);
        remark.say(8, None, &[&[b'x'; 5000]]);
        assert_eq!(remark.said(), Some(Said { line: 7, errno: Some(2), text: "open /a".into() }));
        assert_eq!(remark.count.load(Relaxed), 2);
        assert_eq!(board.recorder(0).surprise.said(), None);
    }

    #[test]
    fn clients_start_together() {
        let board = Board::new(2).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| board.wait_for_start());
            while board.ready() == 0 {
                std::thread::yield_now();
            }
            assert!(!waiting.is_finished());
            board.enter(Phase::WarmUp);
            waiting.join().unwrap();
        });
        assert_eq!(board.phase(), Phase::WarmUp);
    }
}
