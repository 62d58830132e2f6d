//! The kinds of kernel locks, by the flags of `lock:contention_begin`.

use serde::{Deserialize, Serialize};

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
        let entry = KINDS.iter().find(|(kind_flags, ..)| *kind_flags == flags);
        entry.map_or(LockKind::Unknown, |(_, kind, _)| *kind)
    }

    /// The name in text: `rwsem read`.
    pub fn name(self) -> &'static str {
        let entry = KINDS.iter().find(|(_, kind, _)| *kind == self);
        entry.map_or("unknown lock", |(.., name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_decode_as_the_kernel_sets_them() {
        // The calls of trace_contention_begin in kernel/locking of Linux 6.18.
        let calls = [
            (0, "semaphore"),
            (0x01, "spinlock"),
            (0x03, "rwlock read"),
            (0x05, "rwlock write"),
            (0x02, "rwsem read"),
            (0x04, "rwsem write"),
            (0x20, "mutex"),
            (0x21, "mutex"),
            (0x08, "rt_mutex"),
            (0x0a, "rt_rwlock read"),
            (0x0c, "rt_rwlock write"),
            (0x12, "percpu_rwsem read"),
            (0x14, "percpu_rwsem write"),
            (0x40, "unknown lock"),
        ];
        for (flags, name) in calls {
            assert_eq!(LockKind::from_flags(flags).name(), name, "{flags:#x}");
        }
    }
}
