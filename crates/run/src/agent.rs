//! The agent: runs one cell in a separate process, here or in a guest, and reports what happened.

use crate::axes::further_idle;
use crate::bench::{Bench, Moment};
use crate::confined;
use crate::failed::Failed;
use crate::protocol::{Ask, Line, MountRequest, Power, Profiling, Request, Role};
use crate::{recovery, target, vocabulary};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::event::{Cause, CellEvent, CommandRecord, Note, NoteKind, Outcome};
use fsarena_core::factor;
use fsarena_core::metric::reading;
use fsarena_core::sample::{Found, MetricInfo, Readings};
use fsarena_load::task::{Action, Before, Error, Task};
use fsarena_load::workload::{Client, Job, Place};
use fsarena_sys::kernel::Kernel;
use fsarena_trace::{Options, Target, Tracer};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Instant;

/// Samples per second of a traced task: a prime, so that they do not fall into step with anything.
const CPU_SAMPLES_HZ: u32 = 997;

/// Runs the cell that standard input asks for, says on standard output what happens, and ends the process.
pub fn main() -> ! {
    let served = serve(BufReader::new(std::io::stdin()), std::io::stdout().lock(), |_| ());
    if let Err(error) = &served {
        eprintln!("fsarena: agent: {error}");
    }
    std::process::exit(i32::from(served.is_err()))
}

/// Reads a request, runs its cell, and writes what happens as JSON lines. `mark` is called at the moments of each
/// timed task.
///
/// # Errors
/// If the request cannot be read, or the parent closed the pipe.
pub fn serve(mut input: impl BufRead, mut output: impl Write, mark: fn(Moment)) -> std::io::Result<()> {
    die_with_parent()?;
    let mut text = String::new();
    input.read_line(&mut text)?;
    let request: Request = serde_json::from_str(&text)?;
    let mut line = |line: &Line| -> std::io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        output.write_all(&text)?;
        output.flush()
    };
    let mut unheard = None;
    let mut emit = |event| unheard = unheard.take().or(line(&Line::Event(event)).err());
    let outcome = match cell(&Kernel::host(), &request, mark, &mut input, &mut emit) {
        Ok(()) => Outcome::Done,
        Err(failed) => failed.into(),
    };
    match unheard {
        Some(error) => Err(error),
        None => line(&Line::End(outcome)),
    }
}

/// Without a parent, no process would end this one or read its events.
fn die_with_parent() -> std::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    Ok(())
}

/// Mount, every task, unmount.
fn cell(
    kernel: &Kernel,
    request: &Request,
    mark: fn(Moment),
    answers: &mut dyn BufRead,
    emit: &mut dyn FnMut(CellEvent),
) -> Result<(), Failed> {
    // The probes first: one of them writes to a file in /proc, which becomes read-only.
    let mut bench = Bench::open(kernel, request.device, &request.idle, mark, emit);
    confined::begin(kernel, request)?;
    // A process whose user changes forgets it.
    die_with_parent().map_err(fsarena_sys::Error::io("following", "the parent process"))?;
    if let Role::Worker(_) = request.role {
        return tasks(request, &mut bench, &mut |ask, _| confined::ask(answers, ask));
    }
    if request.power == Power::Back {
        return recovery::back(kernel, request, &mut bench);
    }
    if let Some(mount) = &request.mount {
        let asked = request.cell.variant.level(factor::MOUNT);
        mount_task(kernel, mount, &lifecycle("mount", "Mount"), |_| Ok(()), &mut bench)
            .map_err(|failed| failed.with_options(asked))?;
    }
    let result = match &request.role {
        Role::Keeper(rights) => confined::keep(request, rights, &mut bench, answers),
        _ => tasks(request, &mut bench, &mut |ask, bench| perform(request, ask, bench, answers)),
    };
    match &request.mount {
        // A full or broken filesystem is unmounted all the same, and its own failure is what is told.
        Some(mount) => result.and(unmount_task(mount, &mut bench)),
        None => result,
    }
}

/// Does what a task needs root for, here or in the keeper.
type Privileged<'a> = &'a mut dyn FnMut(Ask, &mut Bench) -> Result<(), Failed>;

/// Every task of the workload.
pub fn tasks(request: &Request, bench: &mut Bench, privileged: Privileged) -> Result<(), Failed> {
    let workload = fsarena_load::workloads::find(&request.cell.workload.name).ok_or_else(|| {
        Failed::new(Cause::Internal, format!("unknown workload `{}`", request.cell.workload.name))
    })?;
    let job = Job {
        settings: request.cell.workload.settings.clone(),
        scale: request.cell.scale,
        seed: request.cell.seed,
    };
    let mut place = Place::of(&request.cell.workload, &request.root, &request.other);
    if let Some(client) = request.client.filter(|_| !workload.shares()) {
        place = place.of_client(client);
    }
    make_root(&place)?;
    sync_prepared(request)?;
    let start_ns = start_ns(|| workload.nothing(&job, &place))?;
    if start_ns.is_some() {
        // Where the filesystem is mounted for the cell, all but it and the source disk is read-only.
        let root = request.mount.is_none().then_some((reading::ROOT_WRITTEN, Path::new("/")));
        let source = (reading::SOURCE_WRITTEN, request.other.as_path());
        bench.count_elsewhere(&[source].into_iter().chain(root).collect::<Vec<_>>());
    }
    let mut steps = workload.steps_of(&job, &place, request.client.unwrap_or(Client::ALONE))?;
    match request.power {
        Power::On => {}
        Power::Cut => steps.truncate(1),
        Power::Back => drop(steps.remove(0)),
    }
    for mut task in steps {
        if !request.cell.variant.level(factor::CLIENTS).is_empty() {
            workload.forget_clients(&mut task.info.id);
        }
        let (id, name) = (task.info.id.clone(), task.info.id.to_string());
        let mut done = one_task(request, task, start_ns, bench, privileged);
        if done.is_ok() {
            let mut log = |record| bench.say(CellEvent::Command(record));
            done = perform_all(workload.checks(&job, &place, &id), &mut log).map(drop).map_err(Failed::from);
        }
        done.map_err(|failed| failed.of(&name))?;
    }
    Ok(())
}

/// The directory to work in; a bare device is there already.
pub fn make_root(place: &Place) -> Result<(), Failed> {
    if place.is_device() {
        return Ok(());
    }
    std::fs::create_dir_all(&place.root).map_err(fsarena_sys::Error::io("making", &place.root))?;
    Ok(())
}

/// Nanoseconds that an action without work takes, where there is one: the median of five.
fn start_ns(nothing: impl Fn() -> Option<Action>) -> Result<Option<f64>, Error> {
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

/// Prepares and measures one task; `start_ns` goes into its sample.
fn one_task(
    request: &Request,
    task: Task,
    start_ns: Option<f64>,
    bench: &mut Bench,
    privileged: Privileged,
) -> Result<(), Failed> {
    let prepared = !task.prepare.is_empty();
    if prepared && request.client.is_some() {
        privileged(Ask::Meet(task.info.id.to_string()), bench)?;
    }
    for action in task.prepare {
        let mut log = |record| bench.say(CellEvent::Command(record));
        match action.perform(&mut log) {
            Err(Error::LeftOut(why)) => {
                let note = Note::new(NoteKind::Unavailable, why).variant(&request.cell.variant.name);
                bench.say(CellEvent::Note(note));
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
        Before::Remount if request.mount.is_some() => privileged(Ask::Remount, bench)?,
        // A directory cannot be remounted; dropping the caches comes nearest.
        Before::ColdCache | Before::Remount => privileged(Ask::DropCaches, bench)?,
    }
    privileged(Ask::WaitUntilIdle(task.info.id.to_string()), bench)?;
    let tracer = request.profiling.map(start_tracer).transpose()?;
    let sync = || sync_all(&[&request.root, &request.other]);
    let work = |log: &mut dyn FnMut(_)| {
        let mut found = perform_all(task.work, log)?;
        start_ns.into_iter().for_each(|ns| found.readings.set(reading::START, ns));
        Ok::<_, Error>(found)
    };
    bench.measure(&task.info, "timed", work, sync)?;
    if let Some(tracer) = tracer {
        let profile = serde_json::to_value(tracer.stop())
            .map_err(|error| Failed::new(Cause::Internal, format!("the profile: {error}")))?;
        bench.say(CellEvent::Profile { task: task.info.id, profile });
    }
    Ok(())
}

/// Has the device hold what was made for a task: the kernel would write it within seconds, in the middle of the task.
fn sync_prepared(request: &Request) -> Result<(), Failed> {
    sync_all(&[&request.root, &request.other])
        .map_err(fsarena_sys::Error::io("syncing", &request.root))
        .map_err(Failed::from)
}

/// Follows this process, its threads and what it starts, or samples the whole machine.
fn start_tracer(profiling: Profiling) -> Result<Tracer, fsarena_trace::Unavailable> {
    Tracer::start(&match profiling {
        Profiling::Locks => Options::locks(Target::Pids(vec![std::process::id()]), CPU_SAMPLES_HZ),
        Profiling::Stacks { hz } => Options::stacks(Target::WholeMachine, hz),
    })
}

fn perform_all(work: Vec<Action>, log: &mut dyn FnMut(CommandRecord)) -> Result<Found, Error> {
    let mut total = Found::default();
    for action in work {
        total.extend(action.perform(log)?);
    }
    let own = |info: &&MetricInfo| vocabulary::readings().any(|reading| reading.id == info.id);
    match total.printed.iter().find(own) {
        Some(info) => Err(Error::Unfit(format!(
            "the command printed {}, which fsarena measures itself: give it another name",
            info.id
        ))),
        None => Ok(total),
    }
}

/// Does what a task may need root for. What concerns all clients is for the process that started this one to do.
pub fn perform(
    request: &Request,
    ask: Ask,
    bench: &mut Bench,
    answers: &mut dyn BufRead,
) -> Result<(), Failed> {
    let begun = Instant::now();
    match (ask, &request.mount) {
        (ask @ (Ask::Meet(_) | Ask::WaitUntilIdle(_)), _) if request.client.is_some() => {
            return confined::ask(answers, ask);
        }
        (Ask::Meet(_), _) => return Ok(()),
        (Ask::WaitUntilIdle(task), _) => {
            bench.wait_until_idle(&task);
            bench.rest(
                further_idle::time(request.cell.variant.level(factor::FURTHER_IDLE)).unwrap_or_default(),
            );
            return Ok(());
        }
        (Ask::Remount, Some(mount)) => {
            let mut log = |record| bench.say(CellEvent::Command(record));
            target::unmount(mount, &mut log)?;
            target::mount(mount, &mut log)?;
        }
        (Ask::DropCaches | Ask::Remount, _) => target::drop_caches(&[&request.root, &request.other])?,
    }
    bench.spent("lifecycle", begun.elapsed());
    Ok(())
}

/// Mounts the filesystem, as a task; `first` comes before that and is timed with it.
pub fn mount_task(
    kernel: &Kernel,
    mount: &MountRequest,
    info: &TaskInfo,
    first: impl FnOnce(&mut dyn FnMut(CommandRecord)) -> Result<(), fsarena_sys::Error>,
    bench: &mut Bench,
) -> Result<(), Failed> {
    bench.wait_until_idle(&info.id.to_string());
    let mut space = Readings::default();
    let work = |log: &mut dyn FnMut(_)| {
        first(log)?;
        let peak = target::mount(mount, log)?;
        if let Ok(usable) = target::usable_bytes(&mount.target) {
            space.set(reading::USABLE, usable as f64);
        }
        if let Some(size) =
            fsarena_sys::device::BlockDevice::open(kernel, &mount.source).ok().and_then(|d| d.size_bytes())
        {
            space.set(reading::DEVICE_SIZE, size as f64);
        }
        Ok::<_, fsarena_sys::Error>(Found { peak_bytes: peak, ..Found::from(space) })
    };
    bench.measure(info, "lifecycle", work, || sync_all(&[&mount.target]))?;
    mount.journal.iter().try_for_each(|journal| uses(journal))?;
    let options = fsarena_sys::mount::effective_options(kernel, &mount.target)?;
    bench.say(CellEvent::Note(Note::new(NoteKind::Options, options.to_string()).task("mount")));
    Ok(())
}

/// A filesystem claims the device of its journal. One that was mounted without it is not what the variant stands for.
fn uses(journal: &Path) -> Result<(), Failed> {
    if fsarena_sys::device::is_claimed(journal)? {
        return Ok(());
    }
    let why = format!("the filesystem is mounted and does not use its journal on {}", journal.display());
    Err(Failed::new(Cause::Work, why))
}

/// Unmounts the filesystem, as a task.
pub fn unmount_task(mount: &MountRequest, bench: &mut Bench) -> Result<(), Failed> {
    bench.wait_until_idle("unmount");
    let work = |log: &mut dyn FnMut(_)| target::unmount(mount, log).map(|()| Found::default());
    Ok(bench.measure(&lifecycle("unmount", "Unmount"), "lifecycle", work, || Ok(()))?)
}

/// A task that every filesystem goes through and no task asks for.
pub fn lifecycle(id: &str, title: &str) -> TaskInfo {
    TaskInfo { id: TaskId::new(id), title: title.into(), number: None, in_composite: false }
}

/// Flushes the filesystems that carry these directories, and bare devices by themselves.
fn sync_all(places: &[&Path]) -> std::io::Result<()> {
    places.iter().try_for_each(|place| {
        let file = File::open(place)?;
        if file.metadata()?.file_type().is_block_device() {
            return file.sync_all();
        }
        Ok(rustix::fs::syncfs(file)?)
    })
}
