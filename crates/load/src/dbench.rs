//! A player for dbench's loadfiles, and a load of our own in the same form.
//!
//! ```text
//! loadfile::load / synthetic::program → Program → client_mode (clients, phases) → counters (counters) → Outcome
//! ```
//!
//! Semantics are those of dbench 4.0 and 5.0 on local files: every operation that has a name looks it up first. If
//! the lookup fails, it reads the whole directory, as a case-insensitive file server does.

mod calls;
mod client;
mod client_mode;
mod cursor;
mod error;
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

use crate::dbench::client::{Payloads, Shared};
use crate::dbench::shared_counters::SharedCounters;
use fsarena_engine::Content;
use fsarena_engine::clock::{self, Clock, Monotonic};
use fsarena_sys::cpu::Cpu;
use std::ffi::{CString, NulError};
use std::{os::unix::ffi::OsStrExt, path::Path, time::Duration};

pub use client_mode::check_open_file_limit;
pub use error::Error;
pub use kind::{KINDS, Kind};
pub use outcome::{Outcome, defs};
pub use program::Program;

/// Plays a program in a directory.
///
/// # Errors
/// Clients that cannot be had, and the first that could not go on.
pub fn play(program: &Program, options: &Options, root: &Path) -> Result<Outcome, Error> {
    program.check_clients(options.clients)?;
    match clock::best_clock().tsc {
        Some(tsc) => play_by(program, options, root, tsc),
        None => play_by(program, options, root, Monotonic),
    }
}

fn play_by(program: &Program, options: &Options, root: &Path, clock: impl Clock) -> Result<Outcome, Error> {
    client_mode::check_open_file_limit(options.clients, options.mode, 0)?;
    let counters = SharedCounters::new(options.clients)?;
    let payloads = Payloads::new(program, options.content, options.seed);
    let no_path =
        |error: NulError| Error::Resource { what: format!("play in {root:?}"), source: error.into() };
    let root = CString::new(root.as_os_str().as_bytes()).map_err(no_path)?;
    let shared = Shared {
        program,
        counters: &counters,
        payloads: &payloads,
        root,
        options,
        rate: options.rate_mb_s.map(|mb| mb * 1e6 / 1e9),
        clock,
        scale: clock::best_clock().scale,
    };
    let used = || match options.mode {
        ClientMode::Threads => Cpu::of_this_process(),
        ClientMode::Processes => Cpu::of_ended_children(),
    };
    let before = used();
    let times = client_mode::run(&shared)?;
    Ok(Outcome::of(&counters, times, used().since(before)))
}

/// What clients are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientMode {
    /// Processes, as in the real dbench.
    Processes,
    /// Threads of one process: they share its table of open files.
    Threads,
}

/// How a program is played.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Clients at work.
    pub clients: u32,
    /// What they are.
    pub mode: ClientMode,
    /// Before anything counts. Zero for no warm-up.
    pub warm_up: Duration,
    /// While it counts.
    pub measured: Duration,
    /// Megabytes (10⁶) a second that each client is held to.
    pub rate_mb_s: Option<f64>,
    /// The content of writes for which the loadfile gives no pattern.
    pub content: Content,
    /// The seed of all that is random.
    pub seed: u64,
}
