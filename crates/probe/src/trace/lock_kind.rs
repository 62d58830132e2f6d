//! The kinds of kernel locks, by the flags of `lock:contention_begin`.

use serde::{Deserialize, Serialize};
use std::fmt;

// The kernel's LCB_F_* flags (include/trace/events/lock.h). perf(1) relies on them too
// (tools/perf/util/bpf_skel/lock_data.h), and no release has changed one.
const SPIN: u32 = 1 << 0;
const READ: u32 = 1 << 1;
const WRITE: u32 = 1 << 2;
const RT: u32 = 1 << 3;
const PERCPU: u32 = 1 << 4;
const MUTEX: u32 = 1 << 5;

/// The kind of a kernel lock, and whether the task waited to read or to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LockKind {
    /// A spinlock.
    Spinlock,
    /// A spinning reader-writer lock, to read.
    RwlockRead,
    /// A spinning reader-writer lock, to write.
    RwlockWrite,
    /// A sleeping reader-writer semaphore, to read.
    RwsemRead,
    /// A sleeping reader-writer semaphore, to write.
    RwsemWrite,
    /// A mutex.
    Mutex,
    /// A counting semaphore. Linux 5.19 reports a mutex as this kind too; there the function's name shows the kind.
    Semaphore,
    /// A mutex with priority inheritance. On PREEMPT_RT, spinlocks are these.
    RtMutex,
    /// A reader-writer lock of PREEMPT_RT, to read.
    RtRwlockRead,
    /// A reader-writer lock of PREEMPT_RT, to write.
    RtRwlockWrite,
    /// A per-CPU reader-writer semaphore, to read.
    PercpuRwsemRead,
    /// A per-CPU reader-writer semaphore, to write.
    PercpuRwsemWrite,
    /// A combination of flags that is newer than fsarena.
    Unknown,
}

/// The kinds with their flags and names. A mutex may have further flags, and [`LockKind::Unknown`] has none.
const KINDS: [(u32, LockKind, &str); 12] = [
    (SPIN, LockKind::Spinlock, "spinlock"),
    (SPIN | READ, LockKind::RwlockRead, "rwlock read"),
    (SPIN | WRITE, LockKind::RwlockWrite, "rwlock write"),
    (READ, LockKind::RwsemRead, "rwsem read"),
    (WRITE, LockKind::RwsemWrite, "rwsem write"),
    (MUTEX, LockKind::Mutex, "mutex"),
    (0, LockKind::Semaphore, "semaphore"),
    (RT, LockKind::RtMutex, "rt_mutex"),
    (RT | READ, LockKind::RtRwlockRead, "rt_rwlock read"),
    (RT | WRITE, LockKind::RtRwlockWrite, "rt_rwlock write"),
    (PERCPU | READ, LockKind::PercpuRwsemRead, "percpu_rwsem read"),
    (PERCPU | WRITE, LockKind::PercpuRwsemWrite, "percpu_rwsem write"),
];

impl LockKind {
    /// Decodes the flags of `lock:contention_begin`.
    pub fn from_flags(flags: u32) -> LockKind {
        // A task that spins for a mutex before it sleeps sets another flag too.
        let flags = if flags & MUTEX != 0 { MUTEX } else { flags };
        let found = KINDS.iter().find(|(known, ..)| *known == flags);
        found.map_or(LockKind::Unknown, |(_, kind, _)| *kind)
    }

    /// The name in text: `rwsem read`.
    pub fn name(self) -> &'static str {
        let found = KINDS.iter().find(|(_, kind, _)| *kind == self);
        found.map_or("unknown lock", |(.., name)| name)
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
