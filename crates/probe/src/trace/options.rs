//! The options of a trace, and the reasons why a trace cannot start, each with its remedy.

use fsarena_core::exit::{ExitCode, HasExitCode};
use std::path::PathBuf;

/// The tasks whose waits are traced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TracedTasks {
    /// These processes with all their threads, and the processes that they start during the trace. Without the kernel threads
    /// that work for them.
    Pids(Vec<u32>),
    /// Every task, kernel threads included.
    WholeMachine,
}

/// The options of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceOptions {
    /// The tasks to trace.
    pub target: TracedTasks,
    /// Whether to trace waits for locks.
    pub traces_locks: bool,
    /// CPU samples per second on each CPU; 0 for none. The kernel limits it (`kernel.perf_event_max_sample_rate`).
    pub cpu_samples_hz: u32,
    /// Whether to keep the whole call stack of every CPU sample. Otherwise only the functions and their heaviest call paths are
    /// kept.
    pub keeps_stacks: bool,
}

impl TraceOptions {
    /// Options to trace waits for locks and take `cpu_samples_hz` CPU samples per second.
    pub fn locks(target: TracedTasks, cpu_samples_hz: u32) -> TraceOptions {
        TraceOptions { target, traces_locks: true, cpu_samples_hz, keeps_stacks: false }
    }

    /// Options to take CPU samples with their whole call stacks, without locks.
    pub fn stacks(target: TracedTasks, cpu_samples_hz: u32) -> TraceOptions {
        TraceOptions { target, traces_locks: false, cpu_samples_hz, keeps_stacks: true }
    }
}

/// Why a trace could not start. Each message names the requirement and how to meet it.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The kernel has no such tracepoint.
    #[error(
        "kernel {release} has no tracepoint lock:{event}: it needs Linux 5.19 or later, built with CONFIG_PERF_EVENTS and CONFIG_EVENT_TRACING (any CONFIG_FTRACE tracer selects it)"
    )]
    NoTracepoint {
        /// The output of `uname -r`.
        release: String,
        /// `contention_begin` or `contention_end`.
        event: &'static str,
    },
    /// The kernel has no tracefs, or it cannot be reached.
    #[error(
        "no tracefs, where the kernel describes its tracepoints: {why}; as root, `mount -t tracefs tracefs /sys/kernel/tracing`, or use a kernel built with CONFIG_TRACING"
    )]
    NoTracefs {
        /// The attempts, with the system's messages.
        why: String,
    },
    /// This user may not trace.
    #[error(
        "tracing the kernel's locks is not permitted ({doing}: {source}; kernel.perf_event_paranoid is {paranoid}): run as root, or give fsarena CAP_PERFMON, CAP_SYSLOG and CAP_DAC_READ_SEARCH with setcap(8), or, as root, `sysctl kernel.perf_event_paranoid=-1`; inside a container the host must allow perf_event_open(2)"
    )]
    NotPermitted {
        /// The refused operation.
        doing: &'static str,
        /// The value of the sysctl, or `unknown`.
        paranoid: String,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The kernel hides the addresses of its functions.
    #[error(
        "the kernel hides the addresses of its functions in {path:?} (kernel.kptr_restrict is {restrict}), so no lock could be named: run as root or with CAP_SYSLOG and kernel.kptr_restrict below 2 (as root, `sysctl kernel.kptr_restrict=1`); a kernel without CONFIG_KALLSYMS lists none"
    )]
    NoSymbols {
        /// The list of symbols.
        path: PathBuf,
        /// The value of the sysctl, or `unknown`.
        restrict: String,
    },
    /// A file of the kernel cannot be read, or has an unexpected format.
    #[error("{file}: {why}; a trace needs this file of the kernel, in the format that fsarena knows")]
    Unreadable {
        /// The file.
        file: String,
        /// The error of the system, or the missing part of the file.
        why: String,
    },
    /// The kernel refused an event or its buffer for lack of a resource.
    #[error(
        "{doing} on CPU {cpu}: {source}; each CPU takes up to three open files (`ulimit -n`) and about {mib} MiB of locked memory (`ulimit -l`, kernel.perf_event_mlock_kb)"
    )]
    Refused {
        /// The refused operation.
        doing: &'static str,
        /// The CPU.
        cpu: usize,
        /// The size of its buffers for all events together, in mebibytes, rounded up.
        mib: usize,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The process does not exist.
    #[error("process {pid} does not exist: it has ended, or the number is wrong")]
    NoProcess {
        /// Its number.
        pid: u32,
    },
    /// The reader could not be set up.
    #[error("the thread that reads the trace could not be set up: {0}")]
    Reader(#[source] std::io::Error),
}

impl HasExitCode for TraceError {
    fn exit_code(&self) -> ExitCode {
        match self {
            TraceError::Reader(_) => ExitCode::Internal,
            TraceError::NoProcess { .. } => ExitCode::Usage,
            _ => ExitCode::Missing,
        }
    }
}
