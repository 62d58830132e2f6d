//! What to trace, and of whom.

/// Whose waits are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// These processes with all their threads, and the processes they start while they are traced. What
    /// kernel threads do on their behalf is not theirs.
    Pids(Vec<u32>),
    /// Every task, kernel threads included.
    WholeMachine,
}

/// What to trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whose waits.
    pub target: Target,
    /// Whether waits for locks are traced.
    pub locks: bool,
    /// CPU samples per second and CPU; 0 for none. The kernel's limit
    /// (`kernel.perf_event_max_sample_rate`) holds.
    pub cpu_samples_hz: u32,
    /// Whether the program's part of the chains is kept too. It is right only for programs built with frame
    /// pointers.
    pub user_chains: bool,
    /// Whether every chain of the CPU samples is kept, not only the functions and their heaviest paths.
    pub stacks: bool,
}

impl Options {
    /// Waits for locks, and CPU samples `cpu_samples_hz` times a second.
    pub fn locks(target: Target, cpu_samples_hz: u32) -> Options {
        Options { target, locks: true, cpu_samples_hz, user_chains: false, stacks: false }
    }

    /// CPU samples with every chain, without locks.
    pub fn stacks(target: Target, cpu_samples_hz: u32) -> Options {
        Options { target, locks: false, cpu_samples_hz, user_chains: false, stacks: true }
    }
}
