//! The session with one guest: how it is started, what it sends, its silence, and how it ends.

use super::initramfs::{KernelDemands, Packer};
use super::snapshot_pool::{LEAST_MEMORY, SnapshotPool, file_size, keep_command_line};
use crate::child::{POLL_INTERVAL, UNEXPECTED_REQUEST, group_of};
use crate::error::{CellError, Result, RunError};
use crate::{executor::CellSink, protocol::Line, settings::setting};
use bytesize::ByteSize;
use fsarena_core::event::{Cause, CellEvent, Outcome};
use fsarena_core::plan::GuestPlan;
use fsarena_guest::config::{GOING_ON, GuestConfig};
use fsarena_guest::console::LastWords;
use fsarena_guest::counter::{COUNTS, Counter};
use fsarena_guest::emulator::Machine;
use fsarena_guest::launch::{Guest, Heard, Launch};
use fsarena_load::workload::Cut;
use fsarena_sys::{cancel, said::shown, undo::Journal};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// How long a guest may take to power off.
const POWER_OFF_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest silence of a guest that has not sent anything yet: kernels boot in seconds.
const BOOT_TIMEOUT: Duration = Duration::from_secs(120);
/// The first task that is timed.
const FIRST_TASK: &str = "mount";
/// Stands between the reason of a failure and the last lines of the console.
pub const CONSOLE: &str = "; the end of its console:\n";
/// What the time of booting is spent on.
const SPENT_ON: &str = "boot";

/// The run that a guest belongs to.
#[derive(Clone, Copy)]
pub struct GuestOwner<'a> {
    /// The undo journal of the run.
    pub journal: &'a Journal,
    /// The settings of guests in its plan.
    pub guest: &'a GuestPlan,
}

/// How the guest of a cell ended.
pub struct GuestExit {
    /// The outcome of the cell.
    pub outcome: Outcome,
    /// The time from launch to the first timed task; None if the guest did not get there.
    pub boot_time: Option<Duration>,
    /// Whether it sent anything. A guest that begins with a snapshot sends a line once it continues.
    pub has_sent: bool,
}

impl GuestExit {
    /// A guest that was not started.
    fn not_started(outcome: Outcome) -> GuestExit {
        GuestExit { outcome, boot_time: None, has_sent: false }
    }
}

/// The cell of a guest, and the machine that it needs.
pub struct GuestCell<'a> {
    /// The machine.
    pub machine: &'a Machine<'a>,
    /// The config for the guest.
    pub config: &'a GuestConfig,
    /// The requirements of its kernel.
    pub demands: KernelDemands<'a>,
}

/// Starts the guest of a cell.
pub struct GuestStarter<'a> {
    /// The run.
    pub owner: GuestOwner<'a>,
    /// Packs the initramfs.
    pub packer: &'a mut Packer,
    /// Counts the instructions, if the emulator can.
    pub counter: Option<&'a Counter>,
    /// When the power is cut, counted from the beginning of the work; None if it stays on.
    pub cut: Option<Duration>,
}

impl GuestStarter<'_> {
    /// Boots a guest from the first instruction of its kernel, and runs it to its end.
    ///
    /// # Errors
    /// Where the emulator cannot be started, or its files cannot be written.
    pub fn boot(&mut self, cell: &GuestCell, emit: CellSink) -> Result<GuestExit> {
        let initramfs = self.packer.initramfs(cell.demands)?;
        let (memory, size) = (self.owner.guest.memory.as_u64(), file_size(&initramfs.path));
        if memory < size + LEAST_MEMORY {
            let (memory, size) = (ByteSize(memory), ByteSize(size));
            let why = format!(
                "a guest with {memory} of memory has no room to boot with {size}: {}",
                setting("guest_memory", "")
            );
            return Ok(GuestExit::not_started(CellError::missing(why).into()));
        }
        initramfs.hand_over(cell.config)?;
        let path = initramfs.path.clone();
        let machine = Machine { initramfs: Some(&path), ..cell.machine.clone() };
        let counting = self.counter.iter().flat_map(|counter| counter.words(&machine.dir.join(COUNTS)));
        self.run(&machine, machine.launch(counting, Stdio::null()), emit)
    }

    /// Starts a guest from a snapshot of a booted machine, if the pool has one, and runs it to its end; else boots it.
    ///
    /// # Errors
    /// Those of [`GuestStarter::boot`].
    pub fn start_from_snapshot(
        &mut self,
        pool: &mut SnapshotPool,
        cell: &GuestCell,
        emit: CellSink,
    ) -> Result<GuestExit> {
        let path = pool.config.clone();
        let machine = Machine { config: Some(&path), ..cell.machine.clone() };
        let begun = Instant::now();
        let unrecorded = Machine { record: None, ..machine.clone() };
        let snapshot = pool.take(&unrecorded, cell.config, cell.demands, self.packer, self.owner)?;
        emit(CellEvent::Spent { what: SPENT_ON.into(), ns: begun.elapsed().as_nanos() as u64 });
        let Some(snapshot) = snapshot else {
            if cancel::requested().is_some() {
                return Ok(GuestExit::not_started(Outcome::Interrupted));
            }
            return self.boot(cell, emit);
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok();
        let config = GuestConfig { now, ..cell.config.clone() };
        let text = serde_json::to_vec(&config).map_err(|error| RunError::Agent(error.to_string()))?;
        std::fs::write(&path, text).map_err(fsarena_sys::Error::io("writing", &path))?;
        let why = match snapshot.launch(&machine) {
            Ok(launch) => match self.run(&machine, launch, emit)? {
                // If the snapshot does not resume, the cell is not the cause: its guest boots instead.
                GuestExit { outcome: Outcome::Failed { why, .. }, has_sent: false, .. } => why,
                exit => return Ok(exit),
            },
            Err(error) => error.to_string(),
        };
        pool.discard(snapshot, &machine, &why);
        self.boot(cell, emit)
    }

    fn run(&self, machine: &Machine, launch: Launch, emit: CellSink) -> Result<GuestExit> {
        keep_command_line(machine.dir, "command.json", &launch)?;
        run_guest(self.owner, launch, self.cut, emit)
    }
}

/// Starts a guest, passes its events on, and ends it: during its work if its power is cut, `cut` after the work began.
/// A guest that fails is an outcome.
///
/// # Errors
/// Where the emulator cannot be started, or the journal cannot be written.
fn run_guest(owner: GuestOwner, launch: Launch, cut: Option<Duration>, emit: CellSink) -> Result<GuestExit> {
    let launched_at = Instant::now();
    let (mut boot_time, mut has_sent) = (None, false);
    let broken = |why: String| CellError::internal(format!("the guest {why}"));
    let (end, console) = run_until(owner, launch, &mut |line, power_cut_at| {
        has_sent = true;
        if line == GOING_ON {
            return Ok(None);
        }
        match Line::read(line).map_err(broken)? {
            Line::Event(event) => {
                if let CellEvent::Phase { name } = &event {
                    if name == FIRST_TASK {
                        boot_time.get_or_insert(launched_at.elapsed());
                    }
                    if name == Cut::WORK {
                        *power_cut_at = cut.map(|after| Instant::now() + after);
                    }
                }
                emit(event);
                Ok(None)
            }
            Line::End(outcome) => Ok(Some(outcome)),
            Line::Ask(_) => Err(broken(UNEXPECTED_REQUEST.into())),
        }
    })?;
    if let Some(time) = boot_time {
        emit(CellEvent::Spent { what: SPENT_ON.into(), ns: time.as_nanos() as u64 });
    }
    let outcome = match end {
        SessionEnd::Value(Outcome::Failed { why, cause })
            if !console.lines.is_empty() && cause != Cause::Violation =>
        {
            Outcome::Failed { why: describe_failure(&why, None, &console), cause }
        }
        SessionEnd::Value(outcome) => outcome,
        SessionEnd::PowerCut => Outcome::Done,
        SessionEnd::Interrupted => Outcome::Interrupted,
        SessionEnd::Failed(error) => error.into(),
    };
    Ok(GuestExit { outcome, boot_time, has_sent })
}

/// How a session ended.
pub enum SessionEnd<T> {
    /// A line of the guest had the value that the caller waited for.
    Value(T),
    /// The guest was killed at the time of its power cut.
    PowerCut,
    /// A signal asked fsarena to stop.
    Interrupted,
    /// The guest failed, ended too early, or fell silent.
    Failed(CellError),
}

/// Takes a line of a guest, and may set the time of its power cut. Returns the value that the session is for, or None to
/// continue.
type TakeLine<'a, T> = &'a mut dyn FnMut(&str, &mut Option<Instant>) -> Result<Option<T>, CellError>;

/// Starts a guest, passes each of its lines to `take` until that returns a value, and ends the guest. Also returns the
/// last lines of its console; a failure already quotes them.
///
/// # Errors
/// Where the emulator cannot be started, or the journal cannot be written.
pub fn run_until<T>(
    owner: GuestOwner,
    launch: Launch,
    take: TakeLine<T>,
) -> Result<(SessionEnd<T>, LastWords)> {
    let mut guest = launch.start()?;
    // If the keeper of the guest dies with this process, `recover` ends what is left of the group.
    let group = owner.journal.note(group_of(guest.pid()))?;
    let end = receive_until(&mut guest, owner.guest, take);
    let timeout = if let SessionEnd::Value(_) = end { POWER_OFF_TIMEOUT } else { Duration::ZERO };
    let (status, console) = guest.end(timeout);
    group.undo()?;
    let end = match end {
        SessionEnd::Failed(mut error) => {
            error.why = describe_failure(&error.why, status, &console);
            SessionEnd::Failed(error)
        }
        end => end,
    };
    Ok((end, console))
}

/// The reason of a failure, its meaning, and the last lines of the console.
fn describe_failure(why: &str, status: Option<ExitStatus>, console: &LastWords) -> String {
    let meaning = console.meaning.map_or(String::new(), |meaning| format!(": {meaning}"));
    let status = status.map_or(String::new(), |status| format!(" ({status})"));
    format!("{why}{meaning}{status}{CONSOLE}{}", shown(&console.lines))
}

/// Passes the lines of a guest to `take` until the session ends; the guest itself still runs then.
fn receive_until<T>(guest: &mut Guest, plan: &GuestPlan, take: TakeLine<T>) -> SessionEnd<T> {
    let started_at = Instant::now();
    let (mut last_line_at, mut power_cut_at) = (None::<Instant>, None::<Instant>);
    loop {
        if cancel::requested().is_some() {
            return SessionEnd::Interrupted;
        }
        if power_cut_at.is_some_and(|time| Instant::now() >= time) {
            return SessionEnd::PowerCut;
        }
        match guest.listen(POLL_INTERVAL) {
            Heard::Line(line) => {
                last_line_at = Some(Instant::now());
                match take(&line, &mut power_cut_at) {
                    Ok(Some(value)) => return SessionEnd::Value(value),
                    Ok(None) => {}
                    Err(error) => return SessionEnd::Failed(error),
                }
            }
            Heard::Silence => {
                let silent = last_line_at.unwrap_or(started_at).elapsed();
                if let Some(error) = silence_failure(plan, silent, last_line_at.is_none()) {
                    return SessionEnd::Failed(error);
                }
            }
            Heard::End => {
                let error = CellError::new(Cause::Died, "the guest ended before its work did");
                return SessionEnd::Failed(error);
            }
        }
    }
}

/// The failure of a guest that has been silent for longer than it may be; None if it may.
fn silence_failure(plan: &GuestPlan, silent: Duration, is_booting: bool) -> Option<CellError> {
    let patience = Duration::from_secs_f64(plan.patience_s);
    let (limit, since) = match is_booting {
        true => (patience.min(BOOT_TIMEOUT), "since it was started"),
        false => (patience, "in its work"),
    };
    if silent <= limit {
        return None;
    }
    let seconds = silent.as_secs_f64();
    let flag = setting("guest_timeout", "");
    let why = format!("the guest has said nothing for {seconds:.0} s {since} and was ended ({flag})");
    Some(CellError::new(Cause::Work, why))
}
