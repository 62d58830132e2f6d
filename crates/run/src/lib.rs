//! Runs plans: schedules the rounds, waits until the machine is idle, measures each cell, and decides when to stop.
//!
//! [`execute`] turns a plan into a stored run. An [`executor::Executor`] runs the cells in this kernel, in directories
//! or in guests, and emits their events. Each cell is measured in a separate agent process ([`agent`]); see
//! [`run_as_agent_if_requested`].

mod aged_images;
mod ageing;
pub mod agent;
mod ager;
pub mod alarms;
pub mod axes;
mod backing;
pub mod baseline;
mod bench;
pub mod bisect;
mod checkpoint;
pub mod child;
pub mod claim_forecast;
pub mod config;
pub mod confirmation;
pub mod context;
mod device_layout;
mod digests;
pub mod directories;
mod elimination;
mod erased_device;
mod error;
mod execute;
pub mod executor;
mod file_layout;
mod format_cache;
pub mod guest;
pub mod guest_init;
pub mod idle;
pub mod layers;
pub mod local;
mod packed_filesystems;
mod packed_programs;
mod pools;
mod power_cut;
pub mod preflight;
mod printed_metrics;
pub mod privsep;
pub mod protocol;
mod recorder;
pub mod registry;
mod runner;
mod shell;
pub mod stages;
pub mod stopping;
mod target;
mod tasks;
#[cfg(test)]
mod testing;
pub mod work;

pub use error::{CellError, RunError};
pub use execute::{Destination, RunOutcome, RunRequest, check, execute, execute_by, program_build, try_options};
pub use executor::ScratchDir;
pub use fsarena_core::setting_text::{SettingFormat, format_settings_by};
pub use recorder::{Consumer, RunSetup};
pub use shell::ShellSession;

/// If fsarena started this process as an agent, runs the agent and ends the process; else returns at once.
///
/// Each cell runs in a separate process, the agent, so that fsarena can kill it with everything that it started, and so
/// that its CPU time is that of the cell alone. The agent is this same program, started with the argument `agent`, or
/// as the first process of a guest. A program that calls [`execute`] therefore calls this first in `main`, before it
/// reads its arguments or starts a thread; without that call [`execute`] fails.
///
/// It also prepares the process for its limits ([`fsarena_sys::limits`]).
pub fn run_as_agent_if_requested() {
    child::note_agent_program();
    fsarena_sys::limits::raise_soft_limits();
    if guest_init::is_guest_init() {
        guest_init::run_guest();
    }
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == "agent") && args.next().is_none() {
        agent::run();
    }
}
