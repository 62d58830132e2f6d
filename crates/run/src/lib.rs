//! Runs plans: schedules the rounds, waits until the machine is idle, measures each cell, and decides when to stop.
//!
//! [`execute`] turns a plan into a stored run. An [`executor::Executor`] runs the cells in this kernel, in directories
//! or in guests, and emits their events. Each cell is measured in a separate agent process ([`agent`]); see
//! [`run_as_agent_if_requested`].
//!
//! | module | what it has |
//! |---|---|
//! | `execute`, `preflight`, `registry`, `context` | a run from its plan to its end: the names that a plan may use, the checks of the machine, and what every executor needs |
//! | `runner`, `recorder`, `stopping`, `claim_forecast`, `elimination` | the rounds, the events of a run, and when a run or a variant ends |
//! | `executor`, `local`, `directories`, `guest` | the interface of the executors, and an executor for this kernel, for existing directories and for guests |
//! | `agent`, `child`, `protocol`, `privsep`, `guest_init` | the process that runs a cell, the process that starts it, their messages, their rights, and the agent as the first process of a guest |
//! | `bench`, `tasks`, `work`, `idle`, `target`, `printed_metrics` | in the agent: the measurement of a task, the tasks of a cell, the workloads, the wait for an idle machine, the mounts, and the metrics of commands |
//! | `axes`, `layers`, `pools`, `power_cut`, `file_layout` | factors that change the machine, directories over the filesystem, pools, power cuts, and the layout of files on the device |
//! | `ageing`, `ager`, `aged_images` | one step of ageing in the agent, the interface to agents that age, and the aged images of a run |
//! | `backing`, `device_layout`, `erased_device`, `format_cache`, `checkpoint` | devices and images, and the stored contents of devices |
//! | `packed_filesystems`, `packed_programs`, `digests` | read-only filesystems, the programs of guests, and digests of what a run uses |
//! | `stages`, `baseline`, `bisect`, `alarms`, `confirmation`, `json_files` | several runs: the stages of a study, saved baselines, bisections, changes in the history of runs, and the files of these |
//! | `config`, `shell`, `error` | the config file, a shell in a guest, and errors |

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
mod json_files;
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

/// If fsarena started this process as an agent, runs the agent and ends the process; else returns.
///
/// Each cell runs in a separate process, the agent, so that fsarena can kill it with everything that it started, and so
/// that its CPU time is that of the cell alone. The agent is this same program, started with the argument `agent`, or
/// as the first process of a guest. A program that calls [`execute`] therefore calls this first in `main`, before it
/// reads its arguments or starts a thread; without that call [`execute`] fails.
///
/// In every process, also one that is not an agent, it first raises the soft limits, such as that of open files, to the
/// hard ones ([`fsarena_sys::limits::raise_soft_limits`]).
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
