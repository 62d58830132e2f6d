//! A player for dbench's loadfiles, and a load of our own in the same form.
//!
//! ```text
//! loadfile::load / like::program → Program → client_mode (clients, phases) → board (counters) → Outcome
//! ```
//!
//! Semantics are those of dbench 4.0 and 5.0 on local files: every operation that has a name looks it up first. If
//! the lookup fails, it reads the whole directory, as a case-insensitive file server does.

mod board;
mod buckets;
mod c_library;
mod calls;
pub mod census;
mod client;
mod client_mode;
pub mod compact;
mod cursor;
mod error;
mod handles;
mod kind;
pub mod like;
pub mod limits;
pub mod loadfile;
mod name;
mod number;
mod options;
mod outcome;
mod parse;
mod payload;
mod program;
mod random_string;
#[cfg(test)]
mod tests;
mod time_series;

pub use error::Error;
pub use kind::{KINDS, Kind};
pub use options::{ClientMode, Options};
pub use outcome::{Outcome, defs};
pub use program::Program;

use board::Board;
use client::Shared;
use fsarena_engine::clock::{self, Clock, Monotonic};
use fsarena_sys::cpu::Cpu;
use payload::Payloads;
use std::ffi::{CString, NulError};
use std::{os::unix::ffi::OsStrExt, path::Path};

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
    limits::check(options.clients, options.mode, 0)?;
    let board = Board::new(options.clients)?;
    let payloads = Payloads::new(program, options.content, options.seed);
    let no_path =
        |error: NulError| Error::Resource { what: format!("play in {root:?}"), source: error.into() };
    let root = CString::new(root.as_os_str().as_bytes()).map_err(no_path)?;
    let shared = Shared {
        program,
        board: &board,
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
    Ok(Outcome::of(&board, times, used().since(before)))
}
