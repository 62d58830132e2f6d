//! The runner: rounds to events, idle wait, stopping, and the executors behind the seam.
//!
//! Cell in, samples out: an [`executor::Executor`] takes a cell and says what happened. Everything that
//! is measured happens in an agent process ([`agent`]), on this kernel as in any other place, so that a
//! cell can be killed whole and its CPU time is its own.

pub mod again;
pub mod agent;
pub mod agents;
pub mod axes;
mod backing;
pub mod bench;
pub mod child;
pub mod clients;
pub mod config;
mod confined;
pub mod context;
pub mod deciding;
pub mod dir;
pub mod doctor;
mod erased;
mod execute;
pub mod executor;
mod finding;
pub mod fit;
pub mod guest;
pub mod idle;
pub mod inside;
pub mod layout;
pub mod listing;
pub mod local;
pub mod preflight;
mod printed;
pub mod protocol;
mod recorder;
mod recovery;
mod runner;
pub mod scratch;
pub mod selftest;
pub mod sides;
mod source_disk;
pub mod stages;
pub mod stopping;
mod target;
mod tasks;
#[cfg(test)]
mod testing;
pub mod vocabulary;
pub mod work;

pub use execute::{Keep, Request, RunError, RunOutcome, check, execute, execute_by, try_options};
pub use recorder::{Beginning, Consumer};

/// Takes the process over where fsarena started it to measure a cell: as the agent, which is the same program with the
/// argument `agent`, or as the first process of a guest. A program that runs plans calls it first in `main`.
///
/// It also prepares the process for its limits ([`fsarena_sys::limits`]).
pub fn take_over() {
    fsarena_sys::limits::prepare();
    if inside::is_guest_init() {
        inside::main();
    }
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == "agent") && args.next().is_none() {
        agent::main();
    }
}
