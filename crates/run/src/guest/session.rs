//! Runs one guest: receives the lines that it sends, ends it if it is silent for too long, and determines its outcome.

use crate::child::{POLL_INTERVAL, UNEXPECTED_REQUEST, kill_group_step};
use crate::error::{CellError, Result};
use crate::{executor::CellSink, protocol::AgentMessage};
use fsarena_core::event::{Activity, Cause, CellEvent, Outcome, Phase};
use fsarena_core::plan::GuestPlan;
use fsarena_core::setting_text::setting;
use fsarena_guest::access_recorder::AccessedPaths;
use fsarena_guest::config::{CONTINUING_MESSAGE, NOT_READY_MESSAGE, READY_MESSAGE};
use fsarena_guest::launch::ConsoleEnd;
use fsarena_guest::launch::{Guest, GuestCommand, GuestMessage};
use fsarena_load::workload::PowerCut;
use fsarena_sys::{cancel, process_output::describe_output, undo::Journal};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time that a guest may take to power off.
const POWER_OFF_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest silence of a guest that has not sent anything yet: kernels boot in seconds.
const BOOT_TIMEOUT: Duration = Duration::from_secs(120);
/// The name of the first timed task of a guest.
const FIRST_TASK: &str = "mount";
/// The text between the reason of a failure and the last lines of the console.
pub const CONSOLE_HEADING: &str = "; the end of its console:\n";

/// The run that a guest belongs to.
#[derive(Clone, Copy)]
pub struct GuestOwner<'a> {
    /// The undo journal of the run.
    pub journal: &'a Journal,
    /// The settings of guests in its plan.
    pub guest_plan: &'a GuestPlan,
    /// Becomes true when the run no longer needs the guest; None for a guest that the run needs to its end.
    pub is_needless: Option<&'a AtomicBool>,
}

/// How the guest of a cell ended.
pub struct GuestExit {
    /// The outcome of the cell.
    pub outcome: Outcome,
    /// The time from launch to the first timed task; None if the guest did not get there.
    pub boot_time: Option<Duration>,
    /// Whether it sent anything. If a guest that starts from a snapshot sent nothing, the snapshot did not resume.
    pub has_sent: bool,
    /// The files that the programs of a rehearsal opened, and the paths that they looked up. A rehearsal runs a cell
    /// only to find out which files its programs open, or to verify that a guest has them all. Empty for other guests.
    pub accessed_paths: AccessedPaths,
    /// The exit code of its shell, if it ran one.
    pub shell_exit_code: Option<i32>,
}

impl GuestExit {
    /// How a guest ended that sent nothing, for example because it was not started.
    pub fn without_messages(outcome: Outcome) -> GuestExit {
        let accessed_paths = AccessedPaths::default();
        GuestExit { outcome, boot_time: None, has_sent: false, accessed_paths, shell_exit_code: None }
    }
}

/// Runs a guest to its end, and emits its events. If `cut_after` is set, kills the guest that long after its work
/// began, as a power cut does. If the work ends before that, the outcome is that of the guest. A failure of the guest
/// is an outcome, not an error.
///
/// # Errors
/// The emulator cannot be started, or the undo journal cannot be written.
pub fn run_guest(
    owner: GuestOwner,
    launch: GuestCommand,
    cut_after: Option<Duration>,
    emit: CellSink,
) -> Result<GuestExit> {
    let launched_at = Instant::now();
    let mut exit = GuestExit::without_messages(Outcome::Done);
    let protocol_error = |why: String| CellError::internal(format!("the guest {why}"));
    let (end, console) = run_until(owner, launch, &mut |line, power_cut_at| {
        exit.has_sent = true;
        // A guest that starts from a snapshot sends this before its events; it shows only that the snapshot resumed.
        if line == CONTINUING_MESSAGE {
            return Ok(None);
        }
        match AgentMessage::parse(line).map_err(protocol_error)? {
            AgentMessage::Event(event) => {
                if let CellEvent::Phase { name: Phase::Task(name) } = &event {
                    if name == FIRST_TASK {
                        exit.boot_time.get_or_insert(launched_at.elapsed());
                    }
                    if name == PowerCut::WORK_TASK {
                        *power_cut_at = cut_after.map(|after| Instant::now() + after);
                    }
                }
                emit(event);
                Ok(None)
            }
            AgentMessage::OpenedFiles(paths) => {
                exit.accessed_paths = paths;
                Ok(None)
            }
            AgentMessage::ShellExited(code) => {
                exit.shell_exit_code = Some(code);
                Ok(None)
            }
            AgentMessage::End(outcome) => Ok(Some(outcome)),
            AgentMessage::Request(_) => Err(protocol_error(UNEXPECTED_REQUEST.into())),
        }
    })?;
    if let Some(time) = exit.boot_time {
        emit(CellEvent::Spent { activity: Activity::Boot, ns: time.as_nanos() as u64 });
    }
    exit.outcome = match end {
        // A filesystem that lost synced files is a finding. The guest reports it in full, so the console is not quoted.
        SessionEnd::Value(Outcome::Failed { why, cause }) if !console.lines.is_empty() && cause != Cause::Violation => {
            Outcome::Failed { why: describe_failure(&why, None, &console), cause }
        }
        SessionEnd::Value(outcome) => outcome,
        SessionEnd::PowerCut => Outcome::Done,
        SessionEnd::Interrupted => Outcome::Interrupted,
        SessionEnd::Failed(error) => error.into(),
    };
    Ok(exit)
}

/// How a session ended.
pub enum SessionEnd<T> {
    /// A line of the guest had the value that the caller waited for.
    Value(T),
    /// The guest was killed at the time of its power cut.
    PowerCut,
    /// A signal interrupted fsarena, or the run needs the guest no longer.
    Interrupted,
    /// The guest failed, ended too early, or fell silent.
    Failed(CellError),
}

/// A function that receives a line of a guest, and may set the time of its power cut. Returns the value that the
/// session waits for, or None to continue.
type OnLine<'a, T> = &'a mut dyn FnMut(&str, &mut Option<Instant>) -> Result<Option<T>, CellError>;

/// Starts a guest, passes each line that it sends to `on_line` until `on_line` returns a value, and ends the guest.
/// Also returns the last lines of its console; a failure already quotes them.
///
/// # Errors
/// The emulator cannot be started, or the undo journal cannot be written.
fn run_until<T>(owner: GuestOwner, launch: GuestCommand, on_line: OnLine<T>) -> Result<(SessionEnd<T>, ConsoleEnd)> {
    let mut guest = launch.start()?;
    // A supervisor process kills the guest if this process is killed. If both are killed, `fsarena recover` kills the
    // rest of the process group.
    let kill_guard = owner.journal.record(kill_group_step(guest.pid()))?;
    let end = receive_until(&mut guest, owner, on_line);
    // A guest whose work is done powers off, and QEMU quits after it has saved its machine.
    let timeout = if let SessionEnd::Value(_) = end { POWER_OFF_TIMEOUT } else { Duration::ZERO };
    let (status, console) = guest.wait_and_kill(timeout);
    kill_guard.undo()?;
    let end = match end {
        SessionEnd::Failed(mut error) => {
            error.why = describe_failure(&error.why, status, &console);
            SessionEnd::Failed(error)
        }
        end => end,
    };
    Ok((end, console))
}

/// Boots a guest until it reports that its machine can be saved, calls `save`, and ends the guest. The session has the
/// result of `save`, or fails with its error.
///
/// # Errors
/// Those of [`run_until`].
pub fn run_until_ready<T>(
    owner: GuestOwner,
    launch: GuestCommand,
    save: impl FnOnce() -> std::io::Result<T>,
) -> Result<SessionEnd<T>> {
    let mut save = Some(save);
    let failed = |why: String| CellError::new(Cause::Work, why);
    let (end, _) = run_until(owner, launch, &mut |line, _| {
        if let Some(why) = line.strip_prefix(NOT_READY_MESSAGE) {
            return Err(failed(why.into()));
        }
        let Some(save) = save.take().filter(|_| line == READY_MESSAGE) else {
            return Err(failed(format!("the guest sent {line:?} instead of its report that it is ready")));
        };
        save().map(Some).map_err(|error| failed(error.to_string()))
    })?;
    Ok(end)
}

/// The message of a failure: its reason, the known cause that the console shows, if any, the exit status, and the last
/// lines of the console.
fn describe_failure(why: &str, status: Option<ExitStatus>, console: &ConsoleEnd) -> String {
    let cause = console.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    let status = status.map_or(String::new(), |status| format!(" ({status})"));
    format!("{why}{cause}{status}{CONSOLE_HEADING}{}", describe_output(&console.lines))
}

/// Passes the lines of a guest to `on_line` until the session ends. Does not end the guest.
fn receive_until<T>(guest: &mut Guest, owner: GuestOwner, on_line: OnLine<T>) -> SessionEnd<T> {
    let started_at = Instant::now();
    let (mut last_line_at, mut power_cut_at) = (None::<Instant>, None::<Instant>);
    loop {
        if cancel::received_signal().is_some() || owner.is_needless.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return SessionEnd::Interrupted;
        }
        if power_cut_at.is_some_and(|time| Instant::now() >= time) {
            return SessionEnd::PowerCut;
        }
        match guest.next_message(POLL_INTERVAL) {
            GuestMessage::Line(line) => {
                last_line_at = Some(Instant::now());
                match on_line(&line, &mut power_cut_at) {
                    Ok(Some(value)) => return SessionEnd::Value(value),
                    Ok(None) => {}
                    Err(error) => return SessionEnd::Failed(error),
                }
            }
            GuestMessage::Silence => {
                let silent = last_line_at.unwrap_or(started_at).elapsed();
                if let Some(error) = silence_failure(owner.guest_plan, silent, last_line_at.is_none()) {
                    return SessionEnd::Failed(error);
                }
            }
            GuestMessage::End => {
                let error = CellError::new(Cause::Died, "the guest ended before its work did");
                return SessionEnd::Failed(error);
            }
        }
    }
}

/// The failure of a guest that has been silent for longer than its limit; None within the limit.
fn silence_failure(plan: &GuestPlan, silent: Duration, is_booting: bool) -> Option<CellError> {
    let timeout = Duration::try_from_secs_f64(plan.silence_timeout_s).unwrap_or(Duration::MAX);
    let (limit, since) =
        if is_booting { (timeout.min(BOOT_TIMEOUT), "since it was started") } else { (timeout, "in its work") };
    if silent <= limit {
        return None;
    }
    let seconds = silent.as_secs_f64();
    // A longer setting does not lengthen the limit of the boot.
    let advice = if is_booting && timeout >= BOOT_TIMEOUT {
        format!("guests boot within {} s", BOOT_TIMEOUT.as_secs())
    } else {
        setting("guest_timeout", "")
    };
    let why = format!("the guest has sent nothing for {seconds:.0} s {since}, so fsarena ended it ({advice})");
    Some(CellError::new(Cause::Work, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::plan::Emulator;

    #[test]
    fn the_timeout_is_advised_only_where_a_longer_one_helps() {
        let why = |patience_s, is_booting| {
            let plan = GuestPlan { silence_timeout_s: patience_s, ..GuestPlan::of(Emulator::Qemu) };
            silence_failure(&plan, Duration::from_secs(700), is_booting).unwrap().why
        };
        for patience_s in [120.0, 600.0] {
            assert!(why(patience_s, true).contains("guests boot within 120 s"), "{}", why(patience_s, true));
        }
        for (patience_s, is_booting) in [(600.0, false), (120.0, false), (5.0, true)] {
            assert!(why(patience_s, is_booting).contains(&setting("guest_timeout", "")));
        }
    }
}
