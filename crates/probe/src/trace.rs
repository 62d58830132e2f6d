//! Traces contention of kernel locks: which lock a workload waits for, and which function takes it.
//!
//! The tracer opens the tracepoints `lock:contention_begin` and `lock:contention_end` with perf_event_open(2), without
//! kprobes, BPF or an external program. A wait is the time between both events in one task. The profile skips the frames of
//! the kernel's locking layer in the call chain, so it names the lock call and the function that made it: `down_read ←
//! ext4_file_write_iter`. The tracer also takes samples of what runs on the CPUs ([`CpuSite`]).
//!
//! ```no_run
//! use fsarena_probe::trace::{TraceOptions, TracedTasks, Tracer};
//!
//! let target = TracedTasks::Pids(vec![std::process::id()]);
//! // 997 CPU samples a second; not a multiple of the timer's rate.
//! let tracer = Tracer::start(&TraceOptions::locks(target, 997))?;
//! // … the work …
//! // The 10 most contended locks and the 10 busiest functions, each with up to 3 callers.
//! println!("{}", tracer.stop().format_text(10, 3));
//! # Ok::<(), fsarena_probe::trace::TraceError>(())
//! ```

mod decode;
mod lock_kind;
mod options;
mod profile;
mod render;
mod rings;
mod symbols;
mod tally;
mod tracer;

pub use lock_kind::LockKind;
pub use options::{TraceError, TraceOptions, TracedTasks};
pub use profile::{CpuSite, CpuStack, LockSite, Profile};
pub use tracer::Tracer;
