//! The result of a trace.

use crate::trace::kind::LockKind;
use serde::{Deserialize, Serialize};

/// A place in the kernel where tasks waited for a lock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LockSite {
    /// The kind of lock.
    pub kind: LockKind,
    /// The function by which it was taken: `down_read`.
    pub function: String,
    /// The function that took it, the first outside the locking layer, and its callers, nearest first, on
    /// the path on which most of the time was spent.
    pub callers: Vec<String>,
    /// Where the program stood on that path, innermost first, as file and offset; empty where user chains
    /// were not asked for.
    pub program: Vec<String>,
    /// Its part of the time that all tasks waited for any lock, 0 to 1.
    pub share: f64,
    /// Number of waits.
    pub waits: u64,
    /// Waits that ended without the lock: by a signal or a time-out.
    pub gave_up: u64,
    /// Nanoseconds waited, by all tasks together.
    pub total_ns: u64,
    /// The mean wait in nanoseconds.
    pub mean_ns: u64,
    /// The wait in nanoseconds that 99% did not exceed, within 1%.
    pub p99_ns: u64,
    /// The longest wait in nanoseconds.
    pub max_ns: u64,
}

impl LockSite {
    /// The function that took the lock: the first caller outside the locking layer.
    pub fn taker(&self) -> &str {
        self.callers.first().map_or("(unknown)", String::as_str)
    }
}

/// A function of the kernel that tasks were found in when the clock ticked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuSite {
    /// The function, or `(user code)` for all that runs outside the kernel.
    pub function: String,
    /// Its callers, nearest first, on the path with most samples.
    pub callers: Vec<String>,
    /// The program's frames on that path; empty unless the options request user chains.
    pub program: Vec<String>,
    /// Its part of all samples, 0 to 1.
    pub share: f64,
    /// Number of samples.
    pub samples: u64,
}

/// A call chain that tasks were found in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    /// The functions, outermost first; `(user code)` alone for all that runs outside the kernel.
    pub frames: Vec<String>,
    /// Number of samples.
    pub samples: u64,
}

/// The result of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// How long was traced, in nanoseconds.
    pub duration_ns: u64,
    /// Contended locks, the longest waits together first.
    pub locks: Vec<LockSite>,
    /// Number of waits.
    pub waits: u64,
    /// Nanoseconds waited for locks, by all tasks together: with many tasks more than the duration.
    pub total_wait_ns: u64,
    /// The functions that took CPU time, most first.
    pub cpu: Vec<CpuSite>,
    /// Every chain of the CPU samples, in the order of their names, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<Stack>,
    /// Number of CPU samples.
    pub cpu_samples: u64,
    /// What the samples count: `cycles` or, where the machine has no such counter, `cpu-clock`; none where
    /// none were asked for. `cpu-clock` is a timer's interrupt: where the kernel has interrupts off, the
    /// sample is taken when it allows them again.
    pub cpu_event: Option<String>,
    /// Records that the kernel dropped because a buffer was full. The figures are then of the rest.
    pub lost: u64,
    /// Waits that had begun before the trace, or whose beginning was lost; not counted above.
    pub waits_without_begin: u64,
    /// Waits that were not over at the end of the trace, or whose end may have been lost; not counted above.
    pub waits_without_end: u64,
}
