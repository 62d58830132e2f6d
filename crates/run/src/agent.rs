//! The agent: runs one cell in a separate process, here or in a guest, and reports what happened.
//!
//! If the workload runs without root's rights, two processes share the work: the supervisor mounts and unmounts the
//! filesystem and does what only root may do, and the worker that it starts runs the tasks. Else one process does
//! everything.

use crate::axes::fill;
use crate::bench::{Bench, lifecycle_task};
use crate::error::{CellError, CellResult};
use crate::executor::CellSink;
use crate::protocol::{self, AgentMessage, AgentRequest, Answers, Power, ProcessRole};
use crate::target::{self, measure_mount, measure_unmount};
use crate::tasks::{perform_privileged, run_tasks};
use crate::{file_layout, power_cut, privsep, work};
use fsarena_core::{event::Outcome, factor};
use fsarena_guest::instruction_counter::{self, Mark};
use fsarena_sys::kernel::SysRoot;
use std::io::{BufRead, BufReader, Result, Write};

/// Runs the cell that standard input requests, writes its events to standard output, and ends the process.
pub fn run() -> ! {
    let result = serve(BufReader::new(std::io::stdin()), std::io::stdout().lock(), instruction_counter::mark);
    if let Err(error) = &result {
        eprintln!("fsarena: agent: {error}");
    }
    std::process::exit(i32::from(result.is_err()))
}

/// Reads a request, runs its cell, and writes the events and the outcome as lines of JSON. For each timed task, calls
/// `mark` at each moment of [`Mark`]: before the readings of the task, when its work begins and returns, and when its
/// data is synced.
///
/// # Errors
/// The request cannot be read, or the parent closed the pipe.
pub fn serve(input: impl BufRead, mut output: impl Write, mark: fn(Mark)) -> Result<()> {
    let outcome = run_request(input, &mut output, mark)?;
    protocol::write_message(&mut output, &AgentMessage::End(outcome))
}

/// Like [`serve`], but returns the outcome instead of writing it as the last line.
///
/// # Errors
/// Those of [`serve`].
pub fn run_request(mut input: impl BufRead, output: &mut impl Write, mark: fn(Mark)) -> Result<Outcome> {
    die_with_parent()?;
    let mut text = String::new();
    input.read_line(&mut text)?;
    let request: AgentRequest = serde_json::from_str(&text)?;
    let mut write_result = Ok(());
    let mut emit = |event| {
        if write_result.is_ok() {
            write_result = protocol::write_message(output, &AgentMessage::Event(event));
        }
    };
    let result = run_cell(&request, mark, &mut input, &mut emit);
    write_result?;
    match result {
        Ok(()) => Ok(Outcome::Done),
        Err(error) => Ok(error.into()),
    }
}

/// Makes the kernel kill this process when its parent ends. Without its parent, no process would read its events or
/// stop it.
fn die_with_parent() -> Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}

/// Runs a cell in the role of this process: mounts the filesystem, runs every task, and unmounts the filesystem. After
/// a failure before the tasks, the filesystem stays mounted until the parent process unmounts it; in a guest it ends
/// with the guest.
fn run_cell(request: &AgentRequest, mark: fn(Mark), answers: Answers, emit: CellSink) -> CellResult {
    let kernel = &SysRoot::host();
    // Open the probes first: one of them writes to a file in /proc, which becomes read-only.
    let mut bench = Bench::open(kernel, request.device, &request.idle, mark, emit);
    privsep::confine_process(kernel, request)?;
    // The kernel clears the death signal when the user of a process changes, so set it again.
    die_with_parent().map_err(fsarena_sys::Error::io("following", "the parent process"))?;
    if let ProcessRole::Worker(_) = request.role {
        return run_tasks(request, &mut bench, &mut |privileged, _| protocol::send_privileged(answers, privileged));
    }
    if request.power == Power::Restored {
        return power_cut::recover_and_check(kernel, request, &mut bench);
    }
    if request.ageing_step.is_some()
        && let Some(mount) = &request.mount
    {
        target::mount(mount, &mut bench.log())?;
    } else if let Some(mount) = &request.mount {
        let level = request.cell.variant.level(factor::MOUNT);
        measure_mount(kernel, mount, &lifecycle_task("mount", "Mount"), |_| Ok(()), &mut bench)
            .map_err(|error| error.blame_options(level))?;
        fill::fill(&request.cell, &mount.target, &mut bench)?;
        if request.measures_layout {
            file_layout::measure_before(&request.cell, mount, &mut bench)?;
        }
    }
    let result = match &request.role {
        ProcessRole::Supervisor(rights) => privsep::supervise_worker(request, rights, &mut bench, answers),
        _ => run_tasks(request, &mut bench, &mut |privileged, bench| {
            perform_privileged(request, privileged, bench, answers)
        }),
    };
    match &request.mount {
        // Unmount a full or broken filesystem too. If both fail, the failure of the tasks is reported.
        Some(mount) if request.ageing_step.is_some() => {
            let unmounted = target::unmount(mount, &mut bench.log());
            result.and(unmounted.map_err(CellError::from))
        }
        Some(mount) => {
            let measured = match result {
                Ok(()) if request.measures_layout => file_layout::measure_after(&request.cell, mount, &mut bench),
                result => result,
            };
            measured.and(measure_unmount(mount, work::only_reads(&request.cell), &mut bench))
        }
        None => result,
    }
}
