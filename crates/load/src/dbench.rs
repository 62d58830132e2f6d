//! A player for dbench's loadfiles, and a synthetic load in the same form.
//!
//! ```text
//! loadfile::load / synthetic::program → Program → client_mode (clients, phases) → SharedCounters → DbenchOutcome
//! ```
//!
//! The semantics are those of dbench 4.0 and 5.0 on local files. Every operation with a name looks the name up first. If the
//! name is missing, the operation reads the whole directory, as a case-insensitive file server does.

mod calls;
mod client;
mod client_runner;
mod cursor;
mod kind;
pub mod load_stats;
pub mod loadfile;
mod name;
mod number;
mod outcome;
mod program;
mod shared_counters;
pub mod synthetic;
#[cfg(test)]
mod tests;

use crate::dbench::client::{SharedState, WritePayloads};
use crate::dbench::shared_counters::SharedCounters;
use crate::error::{Result, TaskError};
use fsarena_engine::clock::Clock;
use fsarena_sys::cpu::CpuTime;
use std::ffi::{CString, NulError};
use std::{os::unix::ffi::OsStrExt, path::Path};

pub use client::{ClientMode, PlayerOptions};
pub use client_runner::check_open_file_limit;
pub use kind::{KIND_DEFS, OperationKind};
pub use outcome::{DbenchOutcome, reading_defs};
pub use program::LoadProgram;

/// Plays a program in a directory.
///
/// # Errors
/// If the clients cannot be started, or a client fails; the error is that of the first client that failed.
pub fn play(program: &LoadProgram, options: &PlayerOptions, root: &Path) -> Result<DbenchOutcome> {
    program.check_clients(options.clients)?;
    client_runner::check_open_file_limit(options.clients, options.mode, 0)?;
    let counters = SharedCounters::new(options.clients)?;
    let payloads = WritePayloads::new(program, options.content, options.seed);
    let nul_in_path = |error: NulError| TaskError::io(format!("play in {root:?}"))(error);
    let root = CString::new(root.as_os_str().as_bytes()).map_err(nul_in_path)?;
    let shared = SharedState {
        program,
        counters: &counters,
        payloads: &payloads,
        root,
        options,
        // Bytes per nanosecond.
        bytes_per_ns: options.rate_mb_s.map(|mb| mb * 1e6 / 1e9),
        clock: Clock::best(),
    };
    let before = client_cpu(options.mode);
    let measurements = client_runner::run_clients(&shared)?;
    Ok(DbenchOutcome::from_counters(&counters, measurements, client_cpu(options.mode).since(before)))
}

/// The CPU time that clients have used so far. Client processes count once they have ended.
fn client_cpu(mode: ClientMode) -> CpuTime {
    match mode {
        ClientMode::Threads => CpuTime::of_this_process(),
        ClientMode::Processes => CpuTime::of_ended_children(),
    }
}
