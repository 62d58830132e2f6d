//! Names the hot lock: which kernel lock a workload waits for, and which function took it.
//!
//! The tracepoints `lock:contention_begin` and `lock:contention_end` are opened with
//! perf_event_open(2), with call chains: no kprobes, no BPF, no external program. Each wait is the time
//! between the two in one task; the frames of the kernel's locking layer are skipped, so that what
//! stands in front is the function that wanted the lock: `down_read ← ext4_file_write_iter`.
//!
//! ```no_run
//! use fsarena_probe::trace::{Options, Target, Tracer};
//!
//! let target = Target::Pids(vec![std::process::id()]);
//! let tracer = Tracer::start(&Options::locks(target, 997))?;
//! // … the work …
//! println!("{}", tracer.stop().text(10, 3));
//! # Ok::<(), fsarena_probe::trace::Unavailable>(())
//! ```

mod decode;
mod error;
mod profile;
mod render;
mod rings;
mod symbols;
mod tally;
mod tracer;

pub use error::Unavailable;
pub use profile::{CpuSite, LockKind, LockSite, Profile, Stack};
pub use tracer::{Options, Target, Tracer};
