//! The tasks of a cell: prepared, timed one after another, and checked.

use crate::bench::Bench;
use crate::error::{CellError, CellResult};
use crate::executor::Log;
use crate::protocol::{self, Answers, Power, PrivilegedRequest, Profiling, Request};
use crate::target::{self, sync_all};
use crate::{axes::load::parse_idle_time, printed, work};
use fsarena_core::event::{CellEvent, Note, NoteKind, SpentOn};
use fsarena_core::metric::{Declared, reading};
use fsarena_core::{factor, sample::TaskOutput};
use fsarena_load::task::{Action, Before, Task, TaskError};
use fsarena_load::workload::{Client, Place};
use fsarena_probe::trace::{Options, Target, Tracer, Unavailable};
use std::{path::Path, time::Instant};

/// Samples per second of a traced task: a prime, so that they do not fall into step with anything.
const CPU_SAMPLES_HZ: u32 = 997;

/// Does what a task needs root for, here or in the supervisor.
type Privileged<'a> = &'a mut dyn FnMut(PrivilegedRequest, &mut Bench) -> CellResult;

/// Every task of the workload.
pub fn tasks(request: &Request, bench: &mut Bench, privileged: Privileged) -> CellResult {
    let cell = &request.cell;
    let (workload, job) = work::of_cell(cell).map_err(CellError::internal)?;
    let mut place = Place::for_workload(&cell.workload, &request.root, &request.other);
    if let Some(client) = request.client.filter(|_| !workload.shares()) {
        place = place.of_client(client);
    }
    place.server_user.clone_from(&request.server_user);
    make_root(&place)?;
    sync_prepared(request)?;
    let start_ns = start_ns(|| workload.nothing(&job, &place))?;
    if start_ns.is_some() {
        // Where the filesystem is mounted for the cell, all but it and the source disk is read-only.
        let root = request.mount.is_none().then_some((reading::ROOT_WRITTEN, Path::new("/")));
        let source = (reading::SOURCE_WRITTEN, request.other.as_path());
        bench.count_elsewhere([source].into_iter().chain(root));
    }
    let mut steps = workload.steps_of(&job, &place, request.client.unwrap_or(Client::ALONE))?;
    match request.power {
        Power::On => {}
        Power::Cut => steps.truncate(1),
        Power::Restored => drop(steps.remove(0)),
    }
    let mut declared = request.declared.clone();
    printed::prepare();
    for mut task in steps {
        task.info.id.forget_factors(&cell.variant);
        let id = task.info.id.clone();
        let by = format!("task {id} of {} in round {}", cell.variant.name, cell.round + 1);
        let mut done = one_task((request, &mut declared), task, start_ns, bench, privileged);
        if done.is_ok() {
            let checks = workload.checks(&job, &place, &id);
            let checked = perform_all(checks, &by, &mut declared, &mut bench.log());
            done = checked.map(drop).map_err(CellError::from);
        }
        done.map_err(|failed| failed.of(&id.to_string()))?;
    }
    Ok(())
}

/// The directory to work in; a bare device is there already.
pub fn make_root(place: &Place) -> Result<(), fsarena_sys::Error> {
    if place.is_device() {
        return Ok(());
    }
    fsarena_sys::dirs::make_dirs(&place.root).map_err(fsarena_sys::Error::io("making", &place.root))
}

/// Nanoseconds that an action without work takes, where there is one: the median of five.
fn start_ns(nothing: impl Fn() -> Option<Action>) -> Result<Option<f64>, TaskError> {
    let mut times = [0.0; 5];
    for time in &mut times {
        let Some(action) = nothing() else { return Ok(None) };
        let begun = Instant::now();
        action.perform(&mut |_| ())?;
        *time = begun.elapsed().as_nanos() as f64;
    }
    times.sort_by(f64::total_cmp);
    Ok(Some(times[2]))
}

/// Prepares and measures one task of a cell that has declared these metrics; `start_ns` goes into its sample.
fn one_task(
    (request, declared): (&Request, &mut Declared),
    task: Task,
    start_ns: Option<f64>,
    bench: &mut Bench,
    privileged: Privileged,
) -> CellResult {
    let prepared = !task.prepare.is_empty();
    if prepared && request.client.is_some() {
        privileged(PrivilegedRequest::Meet(task.info.id.to_string()), bench)?;
    }
    for action in task.prepare {
        let done = action.perform(&mut bench.log());
        match done {
            Err(TaskError::LeftOut(why)) => {
                bench.note(Note::new(NoteKind::Unavailable, why).variant(&request.cell.variant.name));
                return Ok(());
            }
            done => drop(done?),
        }
    }
    if prepared {
        sync_prepared(request)?;
    }
    match task.before {
        Before::Warm => {}
        Before::Remount => privileged(PrivilegedRequest::Remount, bench)?,
        Before::ColdCache => privileged(PrivilegedRequest::DropCaches, bench)?,
    }
    privileged(PrivilegedRequest::WaitUntilIdle(task.info.id.to_string()), bench)?;
    let tracer = request.profiling.map(start_tracer).transpose()?;
    let by =
        format!("task {} of {} in round {}", task.info.id, request.cell.variant.name, request.cell.round + 1);
    let work = |log: Log| {
        let mut found = perform_all(task.work, &by, declared, log)?;
        start_ns.into_iter().for_each(|ns| found.readings.set(reading::START, ns));
        Ok::<_, TaskError>(found)
    };
    bench.measure(&task.info, SpentOn::Timed, work, || sync_all(&request.places()))?;
    if let Some(tracer) = tracer {
        let profile = serde_json::to_value(tracer.stop())
            .map_err(|error| CellError::internal(format!("the profile: {error}")))?;
        bench.say(CellEvent::Profile { task: task.info.id, profile });
    }
    Ok(())
}

/// Has the device hold what was made for a task: the kernel would write it within seconds, in the middle of the task.
fn sync_prepared(request: &Request) -> Result<(), fsarena_sys::Error> {
    sync_all(&request.places()).map_err(fsarena_sys::Error::io("syncing", &request.root))
}

/// Follows this process, its threads and what it starts, or samples the whole machine.
fn start_tracer(profiling: Profiling) -> Result<Tracer, Unavailable> {
    Tracer::start(&match profiling {
        Profiling::Locks => Options::locks(Target::Pids(vec![std::process::id()]), CPU_SAMPLES_HZ),
        Profiling::Stacks { hz } => Options::stacks(Target::WholeMachine, hz),
    })
}

/// Does the work of a task. Of the metrics that its commands printed, those remain that are new to the run.
fn perform_all(
    work: Vec<Action>,
    by: &str,
    declared: &mut Declared,
    log: Log,
) -> Result<TaskOutput, TaskError> {
    let mut total = TaskOutput::default();
    let mut all = vec![];
    for action in work {
        let mut found = action.perform(log)?;
        all.extend(found.printed.iter().cloned());
        found.printed = printed::take(declared, &found.printed, by).map_err(TaskError::Unfit)?;
        total.extend(found);
    }
    printed::check_parts(declared, &all).map_err(TaskError::Unfit)?;
    Ok(total)
}

/// Does what a task may need root for. What concerns all clients is for the process that started this one to do.
pub fn perform(request: &Request, ask: PrivilegedRequest, bench: &mut Bench, answers: Answers) -> CellResult {
    let begun = Instant::now();
    match (ask, &request.mount) {
        (ask @ (PrivilegedRequest::Meet(_) | PrivilegedRequest::WaitUntilIdle(_)), _)
            if request.client.is_some() =>
        {
            return protocol::ask(answers, ask);
        }
        (PrivilegedRequest::Meet(_), _) => return Ok(()),
        (PrivilegedRequest::WaitUntilIdle(task), _) => {
            bench.wait_until_idle(&task);
            let level = request.cell.variant.level(factor::FURTHER_IDLE);
            bench.rest(parse_idle_time(level).unwrap_or_default());
            return Ok(());
        }
        (PrivilegedRequest::Remount, Some(mount)) => {
            target::unmount(mount, &mut bench.log())?;
            target::mount(mount, &mut bench.log())?;
        }
        // A directory cannot be remounted; dropping the caches comes nearest.
        (PrivilegedRequest::Remount, None) if !target::may_drop_caches() => {
            let text = "only root can drop the caches of a directory: they stay warm before tasks that begin with a new mount elsewhere";
            bench.note(Note::new(NoteKind::Unavailable, text).fix("run as root"));
        }
        (PrivilegedRequest::DropCaches | PrivilegedRequest::Remount, _) => {
            target::drop_caches(&request.places())?
        }
    }
    bench.spent(SpentOn::Lifecycle, begun.elapsed());
    Ok(())
}
