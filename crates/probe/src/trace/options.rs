//! What a trace records, and which tasks it follows.

/// The tasks whose waits are traced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// These processes with all their threads, and the processes that they start during the trace. Without the kernel threads
    /// that work for them.
    Pids(Vec<u32>),
    /// Every task, kernel threads included.
    WholeMachine,
}

/// The options of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The tasks to trace.
    pub target: Target,
    /// Whether to trace waits for locks.
    pub locks: bool,
    /// CPU samples per second on each CPU; 0 for none. The kernel limits it (`kernel.perf_event_max_sample_rate`).
    pub cpu_samples_hz: u32,
    /// Whether to keep the program's part of call chains. It is correct only for programs built with frame pointers.
    pub user_chains: bool,
    /// Whether to keep every chain of the CPU samples, not only the functions and their heaviest paths.
    pub stacks: bool,
}

impl Options {
    /// Options to trace waits for locks and take `cpu_samples_hz` CPU samples per second.
    pub fn locks(target: Target, cpu_samples_hz: u32) -> Options {
        Options { target, locks: true, cpu_samples_hz, user_chains: false, stacks: false }
    }

    /// Options to take CPU samples with every chain, without locks.
    pub fn stacks(target: Target, cpu_samples_hz: u32) -> Options {
        Options { target, locks: false, cpu_samples_hz, user_chains: false, stacks: true }
    }
}
