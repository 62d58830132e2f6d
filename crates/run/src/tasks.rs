//! Runs the tasks of a cell: prepares, measures and checks one after another.

use crate::ageing::{self, AgeingStep};
use crate::bench::Bench;
use crate::error::{CellError, CellResult};
use crate::executor::CommandLog;
use crate::protocol::{self, AgentRequest, Answers, Power, PrivilegedRequest, ProfileContent};
use crate::target::{self, sync_all};
use crate::{axes::load::parse_idle_time, packed_programs, printed_metrics, work};
use fsarena_core::event::{Activity, CellEvent, Note, NoteKind};
use fsarena_core::metric::{DeclaredMetrics, reading};
use fsarena_core::{factor, sample::TaskOutput, setting_text::setting};
use fsarena_guest::host_root;
use fsarena_load::task::{Action, StartState, Task, TaskError};
use fsarena_load::workload::{Client, Place};
use fsarena_probe::trace::{TraceError, TraceOptions, TracedTasks, Tracer};
use std::path::Path;
use std::time::Instant;

/// CPU samples per second while the locks of a task are traced. It is a prime, so that samples do not coincide with
/// periodic work.
const CPU_SAMPLES_HZ: u32 = 997;

/// A function that executes a [`PrivilegedRequest`] in this process, or sends it to the supervisor. Most of these
/// requests require root; [`PrivilegedRequest::Meet`] and [`PrivilegedRequest::WaitUntilIdle`] wait for all clients
/// instead.
type Privileged<'a> = &'a mut dyn FnMut(PrivilegedRequest, &mut Bench) -> CellResult;

/// Runs every task of the workload of a cell; or does the other work that the request names instead, such as a step of
/// ageing or a shell.
///
/// # Errors
/// The failure of the first task or check that failed, with the id of the task.
pub fn run_tasks(request: &AgentRequest, bench: &mut Bench, privileged: Privileged) -> CellResult {
    let cell = &request.cell;
    let (workload, job) = work::workload_of_cell(cell).map_err(CellError::internal)?;
    let mut place = Place::for_workload(&cell.workload, &request.root, &request.source_dir);
    if let Some(client) = request.client.filter(|_| !workload.shares_directory()) {
        place = place.for_client(client);
    }
    place.server_user.clone_from(&request.server_user);
    make_root(&place)?;
    // A request with one of the next four fields replaces the tasks by other work.
    if let Some(step) = &request.ageing_step {
        if *step == AgeingStep::Setup {
            perform_all(workload.input_commands(&job, &place), bench)?;
            perform_all(workload.setup_once_actions(&job, &place), bench)?;
        }
        let tree = ageing::perform_step(step, &request.root, &request.source_dir, &mut bench.log())?;
        tree.into_iter().for_each(|tree| bench.emit(CellEvent::Tree(tree)));
        return Ok(());
    }
    if request.only_makes_files {
        return perform_all(workload.fill_actions(&job, &place)?, bench);
    }
    if let Some(paths) = &request.paths_to_copy {
        perform_all(workload.input_commands(&job, &place), bench)?;
        return Ok(packed_programs::copy_host_paths(paths, &request.source_dir, &mut bench.log())?);
    }
    if let Some(shell) = &request.shell {
        return shell.run(&place.root, bench);
    }
    sync_prepared_files(request)?;
    if request.mount.is_some() && !place.is_device() {
        bench.enable_space_reading(&request.root);
    }
    let process_start_ns = measure_process_start_ns(|| workload.empty_action(&job, &place))?;
    // Only workloads that run commands of the user have an empty action. Such commands can write to other devices.
    if process_start_ns.is_some() {
        // With a mount, the root directory is read-only for a confined workload (see `privsep`), or it is the memory of
        // a guest.
        let root = request.mount.is_none().then_some((reading::ROOT_WRITTEN_BYTES, Path::new("/")));
        let source = (reading::SOURCE_WRITTEN_BYTES, request.source_dir.as_path());
        bench.count_writes_to_other_devices([source].into_iter().chain(root));
    }
    let mut tasks = workload.client_tasks(&job, &place, request.client.unwrap_or(Client::ALONE))?;
    match request.power {
        Power::On => {}
        // The power is cut during the first task; the others run after it is restored.
        Power::Cut => tasks.truncate(1),
        Power::Restored => drop(tasks.remove(0)),
    }
    let mut declared = request.declared_metrics.clone();
    printed_metrics::build_tables();
    for mut task in tasks {
        task.info.id.remove_factor_params(&cell.variant);
        cell.workload.add_grid_params(&mut task.info.id);
        let id = task.info.id.clone();
        let task_name = format!("task {id} of {} in round {}", cell.variant.name, cell.round + 1);
        let with_task_id = |error: CellError| error.with_part(&id.to_string());
        run_task((request, &mut declared), task, process_start_ns, bench, privileged).map_err(with_task_id)?;
        let checks = workload.check_actions(&job, &place, &id);
        // The metrics that checks print are not recorded, so they must not count as declared for later tasks.
        perform_actions(checks, &task_name, &mut declared.clone(), &mut bench.log())
            .map_err(|error| with_task_id(CellError::from(error)))?;
    }
    Ok(())
}

/// Performs actions that are not measured.
fn perform_all(actions: Vec<Action>, bench: &mut Bench) -> CellResult {
    for action in actions {
        action.perform(&mut bench.log())?;
    }
    Ok(())
}

/// Makes the directory to work in. Does nothing on a bare device.
pub fn make_root(place: &Place) -> Result<(), fsarena_sys::Error> {
    if place.is_device() {
        return Ok(());
    }
    fsarena_sys::dirs::make_dirs(&place.root).map_err(fsarena_sys::Error::io("making", &place.root))
}

/// Measures the nanoseconds that the workload takes to start a command which does nothing: the median of five. None if
/// the workload has no such command.
fn measure_process_start_ns(empty_action: impl Fn() -> Option<Action>) -> Result<Option<f64>, TaskError> {
    let mut times = [0.0; 5];
    for time in &mut times {
        let Some(action) = empty_action() else { return Ok(None) };
        let started = Instant::now();
        action.perform(&mut |_| ())?;
        *time = started.elapsed().as_nanos() as f64;
    }
    times.sort_by(f64::total_cmp);
    Ok(Some(times[2]))
}

/// Prepares and measures one task. `declared` are the metrics that commands of the run have printed so far.
/// `process_start_ns` becomes a reading of the task.
fn run_task(
    (request, declared): (&AgentRequest, &mut DeclaredMetrics),
    task: Task,
    process_start_ns: Option<f64>,
    bench: &mut Bench,
    privileged: Privileged,
) -> CellResult {
    let has_preparation = !task.preparation.is_empty();
    if has_preparation {
        // The task reads what its preparation leaves in the cache, so earlier drops of the cache do not matter.
        bench.take_cache_drop();
    }
    if has_preparation && request.client.is_some() {
        // The preparation may depend on the earlier tasks of all clients.
        privileged(PrivilegedRequest::Meet(task.info.id.to_string()), bench)?;
    }
    for action in task.preparation {
        let result = action.perform(&mut bench.log());
        if let Err(TaskError::SkipTask(why)) = result {
            bench.note(Note::new(NoteKind::Unavailable, why).variant(&request.cell.variant.name));
            return Ok(());
        }
        result?;
    }
    if has_preparation {
        if request.layer_copies_up() {
            privileged(PrivilegedRequest::CommitLayer, bench)?;
        }
        sync_prepared_files(request)?;
    }
    match task.start_state {
        StartState::Warm => {}
        StartState::Remounted => privileged(PrivilegedRequest::Remount, bench)?,
        StartState::ColdCache => privileged(PrivilegedRequest::DropCaches, bench)?,
    }
    if task.start_state != StartState::Warm {
        // These drops were fsarena's own.
        bench.take_cache_drop();
    }
    privileged(PrivilegedRequest::WaitUntilIdle(task.info.id.to_string()), bench)?;
    let profiled_task = request.profiled_task.as_ref().filter(|profiled| profiled.task == task.info.id);
    let tracer = profiled_task.map(|profiled| start_tracer(profiled.content)).transpose()?;
    let task_name =
        format!("task {} of {} in round {}", task.info.id, request.cell.variant.name, request.cell.round + 1);
    let work = |log: CommandLog| {
        let mut output = perform_actions(task.work, &task_name, declared, log)?;
        if let Some(ns) = process_start_ns {
            output.readings.set(reading::PROCESS_START, ns);
        }
        Ok::<_, TaskError>(output)
    };
    bench.measure(&task.info, Activity::Timed, work, || sync_all(&request.paths_to_sync()))?;
    // With several clients, a drop may be fsarena's own: one client drops the cache while another runs a task.
    if request.client.is_none() && bench.take_cache_drop() {
        bench.note(cache_dropped_note().variant(&request.cell.variant.name));
    }
    if request.layer_copies_up() {
        privileged(PrivilegedRequest::NoteCopies(task.info.id.to_string()), bench)?;
    }
    if let Some(tracer) = tracer {
        let profile = serde_json::to_value(tracer.stop())
            .map_err(|error| CellError::internal(format!("the profile: {error}")))?;
        bench.emit(CellEvent::Profile { task: task.info.id, profile });
    }
    Ok(())
}

/// A note that the page cache was dropped while the tasks of a cell were prepared or ran, and not by fsarena for this
/// cell.
fn cache_dropped_note() -> Note {
    let text = "another program, or the preparation of a task, dropped the page cache of the machine during a cell: a \
                task may have read from the device what was in the cache before";
    let fix = format!(
        "run no other program that drops caches during the run, such as another run with cold caches; if a preparation \
         drops them, use `{}` instead",
        setting("set", "cache=cold")
    );
    Note::new(NoteKind::Fairness, text).fix(fix)
}

/// Writes the files that were prepared for a task to the device. The kernel would write them within seconds, in the
/// middle of the task.
fn sync_prepared_files(request: &AgentRequest) -> Result<(), fsarena_sys::Error> {
    sync_all(&request.paths_to_sync()).map_err(fsarena_sys::Error::io("syncing", &request.root))
}

/// Starts the tracer: of this process with its threads and children for locks, of the whole machine for stacks.
fn start_tracer(content: ProfileContent) -> Result<Tracer, TraceError> {
    Tracer::start(&match content {
        ProfileContent::Locks => TraceOptions::locks(TracedTasks::Pids(vec![std::process::id()]), CPU_SAMPLES_HZ),
        ProfileContent::Stacks { hz } => TraceOptions::stacks(TracedTasks::WholeMachine, hz),
    })
}

/// Performs the actions of a task and returns their combined output. It declares only those printed metrics that no
/// earlier command of the run has declared. `task_name` names the task in errors.
fn perform_actions(
    actions: Vec<Action>,
    task_name: &str,
    declared: &mut DeclaredMetrics,
    log: CommandLog,
) -> Result<TaskOutput, TaskError> {
    let mut total = TaskOutput::default();
    let mut all_printed = vec![];
    for action in actions {
        let mut output = action.perform(log)?;
        all_printed.extend(output.printed_metrics.iter().cloned());
        output.printed_metrics =
            printed_metrics::declare_all(declared, &output.printed_metrics, task_name).map_err(TaskError::Unfit)?;
        total.extend(output);
    }
    printed_metrics::check_quotients(declared, &all_printed).map_err(TaskError::Unfit)?;
    Ok(total)
}

/// Executes a request that may require root. An agent that is one of several clients sends [`PrivilegedRequest::Meet`]
/// and [`PrivilegedRequest::WaitUntilIdle`] to the process that started it, which answers once all clients are ready.
pub fn perform_privileged(
    request: &AgentRequest,
    privileged_request: PrivilegedRequest,
    bench: &mut Bench,
    answers: Answers,
) -> CellResult {
    let started = Instant::now();
    match (privileged_request, &request.mount) {
        (privileged_request @ (PrivilegedRequest::Meet(_) | PrivilegedRequest::WaitUntilIdle(_)), _)
            if request.client.is_some() =>
        {
            let begins_task = matches!(privileged_request, PrivilegedRequest::WaitUntilIdle(_));
            protocol::send_privileged(answers, privileged_request)?;
            if begins_task {
                idle_further(request, bench);
            }
            return Ok(());
        }
        (PrivilegedRequest::Meet(_), _) => return Ok(()),
        (PrivilegedRequest::WaitUntilIdle(task), mount) => {
            if let Some(mount) = mount {
                target::finish_background_writes(mount, &mut bench.log())?;
            }
            bench.wait_until_idle(&task);
            idle_further(request, bench);
            return Ok(());
        }
        (PrivilegedRequest::Remount, Some(mount)) if !mount.is_volatile() => {
            target::unmount(mount, &mut bench.log())?;
            target::mount(mount, &mut bench.log())?;
        }
        (PrivilegedRequest::CommitLayer, Some(mount)) => target::commit_layer(mount, &mut bench.log())?,
        (PrivilegedRequest::NoteCopies(task), Some(mount)) => {
            let note = target::copies_note(mount, &task)?;
            note.into_iter().for_each(|note| bench.note(note.variant(&request.cell.variant.name)));
        }
        (PrivilegedRequest::CommitLayer | PrivilegedRequest::NoteCopies(_), None) => {}
        // A directory cannot be remounted, so fsarena drops its caches instead, if it may.
        (PrivilegedRequest::Remount, None) if !target::can_drop_caches() => {
            let text = "only root can drop the caches of a directory: tasks that require a freshly mounted filesystem \
                        start with warm caches";
            bench.note(Note::new(NoteKind::Unavailable, text).fix("run as root"));
        }
        // Without root this fails, so the task fails: with warm caches it would measure something else.
        (PrivilegedRequest::DropCaches | PrivilegedRequest::Remount, mount) => {
            if let Some(mount) = mount {
                target::drop_own_cache(mount, &mut bench.log())?;
            }
            target::drop_caches(&request.paths_to_sync())?;
            host_root::look_up(&request.paths_to_look_up);
        }
    }
    bench.record_time(Activity::Lifecycle, started.elapsed());
    Ok(())
}

/// Idles for the time that the variant sets by the factor `further_idle`. Called after each idle wait, before the task.
fn idle_further(request: &AgentRequest, bench: &mut Bench) {
    let level = request.cell.variant.level(factor::FURTHER_IDLE);
    bench.idle_for(parse_idle_time(level).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::cell::{Cell, Variant, WorkloadPlan};
    use fsarena_core::{plan::IdlePlan, scale::Scale};
    use fsarena_load::task;
    use fsarena_sys::kernel::SysRoot;
    use serde_json::json;

    /// The number of notes about fairness of a warm task with a preparation. The cache is dropped once, before or during it.
    fn count_fairness_notes(drops_during_preparation: bool) -> usize {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let counter = root.path().join("proc/vmstat");
        std::fs::write(&counter, "drop_pagecache 0\n").unwrap();
        let cell = Cell {
            round: 0,
            position: 0,
            variant: Variant { name: "ext4".into(), levels: Default::default() },
            workload: WorkloadPlan::default(),
            scale: Scale::Tiny,
            seed: 1,
        };
        let idle = IdlePlan { timeout_s: 1.0, ..IdlePlan::default() };
        let request = json!({ "cell": cell, "idle": idle, "root": root.path(), "other": root.path() });
        let request: AgentRequest = serde_json::from_value(request).unwrap();
        let mut notes = 0;
        let mut emit = |event| {
            if let CellEvent::Note(note) = event {
                notes += usize::from(note.kind == NoteKind::Fairness);
            }
        };
        let mut bench = Bench::open(&SysRoot::at(root.path()), None, &request.idle, |_| (), &mut emit);
        if !drops_during_preparation {
            std::fs::write(&counter, "drop_pagecache 1\n").unwrap();
        }
        let drop_cache = Action::call_on("drop", &counter, |counter| {
            std::fs::write(counter, "drop_pagecache 1\n").unwrap();
            Ok(())
        });
        let read = Action::call_on("read", root.path(), |_| Ok(()));
        let task = Task::new(task::info("read", "Read", []), read).with_preparation([drop_cache]);
        let declared = &mut DeclaredMetrics::default();
        run_task((&request, declared), task, None, &mut bench, &mut |_, _| Ok(())).unwrap();
        notes
    }

    #[test]
    fn a_warm_task_has_a_note_if_the_cache_was_dropped_while_it_was_prepared() {
        assert_eq!((count_fairness_notes(true), count_fairness_notes(false)), (1, 0));
    }
}
