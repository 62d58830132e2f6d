//! Runs an agent as a child process: starts it, reads its events, and kills it with all processes that it started.
//!
//! An agent measures one cell. It is a single process, or two: the supervisor does what only root may do, and starts
//! the worker, which runs the workload with the rights of an ordinary user.

use crate::axes::Confinement;
use crate::error::{CellError, Result, RunError};
use crate::protocol::{AgentMessage, AgentRequest, PrivilegedRequest, write_message};
use crate::work;
use fsarena_core::event::{Cause, CellEvent, Outcome};
use fsarena_core::setting_text::setting;
use fsarena_core::{cell::Variant, factor};
use fsarena_sys::cgroup::{self, ControlGroup};
use fsarena_sys::process_output::{describe_output, make_memory_file, read_tail, receive_lines};
use fsarena_sys::wait::{Cancel, wait_until};
use fsarena_sys::{argv, cancel, kernel::SysRoot, limits, process, undo};
use rustix::process::Signal;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// The interval at which fsarena checks for a signal while an agent sends nothing.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The interval at which fsarena checks whether a silent agent is stopped.
const STOPPED_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How long fsarena waits for a killed agent to end.
const REAP_TIMEOUT: Duration = Duration::from_secs(1);
/// The message about an agent that sends [`AgentMessage::Request`] to a parent which cannot answer it.
pub const UNEXPECTED_REQUEST: &str =
    "it sent a privileged request, which only an agent that is one of several clients may send";
/// The message about a process that sends [`AgentMessage::OpenedFiles`] or [`AgentMessage::ShellExited`] but is not the
/// init of a guest.
pub const UNEXPECTED_GUEST_MESSAGE: &str = "it sent a message that only the init of a guest may send";
/// The number of bytes at the end of an agent's standard error that an error message quotes.
const QUOTED_STDERR_BYTES: u64 = 2048;

/// Whether this program can become an agent.
static IS_AGENT_PROGRAM: AtomicBool = AtomicBool::new(false);

/// Records that this program calls [`crate::run_as_agent_if_requested`].
pub(crate) fn note_agent_program() {
    IS_AGENT_PROGRAM.store(true, Ordering::Release);
}

/// Whether this program calls [`crate::run_as_agent_if_requested`]. fsarena starts an agent from this program's own
/// file: without that call the agent would do the program's own work, and start further agents without end.
pub(crate) fn is_agent_program() -> bool {
    IS_AGENT_PROGRAM.load(Ordering::Acquire)
}

/// Handles the messages of an agent in the process that started it: receives its events and answers its requests.
pub trait AgentParent {
    /// Receives an event.
    fn receive(&mut self, event: CellEvent);

    /// Executes a request of the agent, which waits for the outcome. Only an agent that is one of several clients sends
    /// one.
    ///
    /// # Errors
    /// By default [`RunError::Agent`].
    fn answer(&mut self, _request: PrivilegedRequest) -> Result<Outcome> {
        Err(RunError::Agent(UNEXPECTED_REQUEST.into()))
    }

    /// Called after each message of the agent, and about every [`POLL_INTERVAL`] while the agent sends nothing. If it
    /// returns an outcome, fsarena kills the agent and the cell has that outcome.
    fn poll(&mut self) -> Option<Outcome> {
        None
    }
}

impl<F: FnMut(CellEvent)> AgentParent for F {
    fn receive(&mut self, event: CellEvent) {
        self(event);
    }
}

/// Runs one request in a new agent, in a separate process group under the limits of the cell, and passes its events to
/// `parent`.
///
/// # Errors
/// The agent cannot be started or breaks the protocol.
pub fn run_agent(
    journal: &undo::Journal,
    request: &AgentRequest,
    confinement: &Confinement,
    parent: &mut dyn AgentParent,
) -> Result<Outcome> {
    let mut stderr_file = make_memory_file("stderr").map_err(agent_error)?;
    let mut command = agent_command(stderr_file.try_clone().map_err(agent_error)?);
    command.env("FSARENA_VARIANT", &request.cell.variant.name);
    command.env("FSARENA_SCALE", request.cell.scale.name());
    command.env("FSARENA_ROUND", (request.cell.round + 1).to_string());
    // The agent gets a separate process group, so that Ctrl-C reaches only this process, which then kills the group.
    let mut agent = AgentProcess(limits::spawn(command.process_group(0)).map_err(agent_error)?);
    let pid = agent.0.id() as i32;
    // If this process is killed from here on, `recover` kills that group before it unmounts.
    let kill_guard = journal.record(kill_group_step(pid))?;
    // The agent does nothing until it gets its request, so all its work is under these limits. If they cannot be set,
    // the agent gets no request, and this function returns the failure only after the cleanup below.
    let confined = confinement.enter(pid).map_err(|error| std::io::Error::other(error.to_string()));
    let tracking_group = make_tracking_group(journal, request, confinement, pid)?;
    let pipes = confined.and_then(|()| send_request(&mut agent.0, request));
    let stopped_timeout = StoppedAgentTimeout::new(pid, work::time_limit(&request.cell));
    let outcome =
        pipes.map_err(agent_error).and_then(|(stdin, stdout)| receive_outcome(stdin, stdout, parent, stopped_timeout));
    // Kills the processes that are left in the process group of the agent, also after a success.
    kill_guard.undo()?;
    // The commands of a worker that crashed or was killed have separate process groups, so they may still run, unless a
    // PID namespace ended them with the agent. fsarena finds them by their control group, or by the name of the journal
    // in their environment.
    if !matches!(outcome, Ok(Some(Outcome::Done))) {
        confinement.end_processes()?;
        if let Some((_, journal_name)) = argv::journal_variable() {
            process::kill_processes_of_journal(&SysRoot::host(), &journal_name)?;
        }
    }
    if let Some(group) = tracking_group {
        group.remove()?;
    }
    let status = agent.0.wait().map_err(agent_error)?;
    let outcome = match outcome? {
        Some(outcome) => outcome,
        None => exit_error("the measuring process", status, &mut stderr_file).map_err(agent_error)?.into(),
    };
    Ok(explain_out_of_memory(outcome, &request.cell.variant, confinement))
}

/// The process of an agent. Dropping it kills its process group and reaps it, so that it never stays as a zombie.
struct AgentProcess(Child);

impl Drop for AgentProcess {
    fn drop(&mut self) {
        // Once a process is reaped, the kernel may give its number to another process group, which must not be killed.
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        process::kill_group_of(&self.0);
        // A killed process can stay for ever in a system call on a broken device, so the wait has a limit.
        let _ = wait_until(Instant::now() + REAP_TIMEOUT, Cancel::Never, || self.0.try_wait().transpose());
    }
}

/// The failure to start an agent or to talk to it.
fn agent_error(error: std::io::Error) -> RunError {
    match limits::limit_remedy(&error) {
        Some(remedy) => RunError::Missing(format!("the measuring process: {error}; {remedy}")),
        None => RunError::Agent(error.to_string()),
    }
}

/// Moves an agent into a control group, through which fsarena can find all its processes later. None if the agent needs
/// no group, because its processes run in a PID namespace or in the group of a limit. Also None if the kernel refuses:
/// then fsarena finds the processes by the name of the journal in their environment.
///
/// # Errors
/// The journal cannot be written.
fn make_tracking_group(
    journal: &undo::Journal,
    request: &AgentRequest,
    confinement: &Confinement,
    agent_pid: i32,
) -> Result<Option<ControlGroup>, fsarena_sys::Error> {
    if request.role.ends_all_processes() || confinement.has_group() {
        return Ok(None);
    }
    let group = cgroup::make_tracking_group(&SysRoot::host(), journal)?;
    Ok(group.filter(|group| cgroup::add_process(group.path(), agent_pid).is_ok()))
}

/// Watches for an agent that a signal has stopped. The agent applies the time limits of its commands itself, which it
/// cannot do while it is stopped.
struct StoppedAgentTimeout {
    /// The process group of the agent; its worker is in the same group.
    pgid: i32,
    /// The time limit of each command of the work; None if there is no limit.
    limit: Option<Duration>,
    /// When fsarena first found the agent stopped, if it was stopped at every check since then.
    stopped_since: Option<Instant>,
}

impl StoppedAgentTimeout {
    fn new(pgid: i32, limit: Option<Duration>) -> StoppedAgentTimeout {
        StoppedAgentTimeout { pgid, limit, stopped_since: None }
    }

    /// Checks an agent that has sent nothing for the time `silent`. Returns the failure of the cell if the agent has
    /// been stopped for longer than the limit; else None. Looks for stopped processes only once `silent` exceeds the
    /// limit, because the search takes CPU time.
    fn check(&mut self, silent: Duration) -> Option<Outcome> {
        let limit = self.limit?;
        // If `/proc` cannot be read, the agent counts as running.
        let is_stopped = silent > limit
            && process::find_stopped_process(&SysRoot::host(), self.pgid).is_ok_and(|found| found.is_some());
        if !is_stopped {
            self.stopped_since = None;
            return None;
        }
        if self.stopped_since.get_or_insert_with(Instant::now).elapsed() < limit {
            return None;
        }
        let seconds = limit.as_secs_f64();
        let why = format!(
            "the measuring process was stopped (SIGSTOP) and did not continue within {seconds} s ({}): a command of the work \
             stopped it, or a user",
            setting("timeout", "")
        );
        Some(CellError::new(Cause::Work, why).into())
    }
}

/// The failure of a process that ended without an outcome. The work is the cause if SIGKILL ended the process, or a
/// signal that a user or a limit sends. Otherwise the cause is a lack of threads, or a bug of fsarena. The signal of a
/// program fault, such as SIGSEGV, counts as a bug.
///
/// `process_name` begins the message. `stderr_file` is the standard error of the process; the message about a bug
/// quotes its end.
///
/// # Errors
/// The standard error cannot be read.
pub fn exit_error(
    process_name: &str,
    status: ExitStatus,
    stderr_file: &mut std::fs::File,
) -> std::io::Result<CellError> {
    if let Some(signal) = status.signal()
        && (signal == Signal::KILL.as_raw() || cancel::terminating_signals().any(|ending| ending == signal))
    {
        let reason = if signal == Signal::XCPU.as_raw() {
            "it used up its CPU time (`ulimit -t`)"
        } else {
            "a command of the work killed it, or the kernel for want of memory, or a user"
        };
        return Ok(CellError::new(Cause::Work, format!("{process_name} ended ({status}): {reason}")));
    }
    let text = read_tail(stderr_file, QUOTED_STDERR_BYTES)?;
    if text.contains(limits::SPAWN_PANIC_TEXT) {
        return Ok(CellError::missing(format!("{process_name} ended: {}", limits::NO_THREADS_MESSAGE)));
    }
    Ok(CellError::internal(format!("{process_name} ended ({status}): {}", describe_output(&text))))
}

/// Adds the memory limit to the message of a failure, if the OOM killer killed a process in the cell's control groups.
fn explain_out_of_memory(outcome: Outcome, variant: &Variant, confinement: &Confinement) -> Outcome {
    match outcome {
        Outcome::Failed { why, .. } if confinement.ran_out_of_memory() => {
            let level = variant.level(factor::MEMORY);
            CellError::missing(format!("{why}; memory={level} is too little for this work")).into()
        }
        outcome => outcome,
    }
}

/// The undo step that kills a process group. If the leader of the group has ended, the step has the start time 0 and
/// kills nothing.
pub fn kill_group_step(pgid: i32) -> undo::UndoStep {
    undo::UndoStep::KillProcessGroup { pgid, start_time: process::start_time(&SysRoot::host(), pgid).unwrap_or(0) }
}

/// The command that starts an agent. The standard error of the agent goes to `stderr_file`.
pub fn agent_command(stderr_file: std::fs::File) -> Command {
    // This program, even if its file has been replaced since it was started.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("fsarena").arg("agent").envs(argv::journal_variable());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr_file);
    command
}

/// Sends a request to an agent. Returns the pipes to and from the agent. If the agent has ended already, the caller finds
/// that when it reads.
///
/// # Errors
/// Those of the pipes.
pub fn send_request(child: &mut Child, request: &AgentRequest) -> std::io::Result<(ChildStdin, ChildStdout)> {
    let pipes = child.stdin.take().zip(child.stdout.take());
    let (mut stdin, stdout) = pipes.ok_or_else(|| std::io::Error::other("no pipes"))?;
    match write_message(&mut stdin, request) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        written => written?,
    }
    Ok((stdin, stdout))
}

/// Passes the events and requests of an agent to `parent`, and returns the outcome that the agent sends; None if the
/// agent closes the pipe without one. Ends early with an outcome if a signal arrives, `parent` returns one, or the
/// agent stays stopped for longer than the limit.
fn receive_outcome(
    mut stdin: ChildStdin,
    stdout: ChildStdout,
    parent: &mut dyn AgentParent,
    mut stopped_timeout: StoppedAgentTimeout,
) -> Result<Option<Outcome>> {
    let lines = receive_lines(stdout);
    let (mut last_line_at, mut checked_at) = (Instant::now(), Instant::now());
    loop {
        if cancel::received_signal().is_some() {
            return Ok(Some(Outcome::Interrupted));
        }
        if let Some(outcome) = parent.poll() {
            return Ok(Some(outcome));
        }
        match lines.recv_timeout(POLL_INTERVAL) {
            Ok(line) => {
                last_line_at = Instant::now();
                match AgentMessage::parse(&line).map_err(RunError::Agent)? {
                    AgentMessage::Event(event) => parent.receive(event),
                    AgentMessage::End(outcome) => return Ok(Some(outcome)),
                    AgentMessage::OpenedFiles(_) | AgentMessage::ShellExited(_) => {
                        return Err(RunError::Agent(UNEXPECTED_GUEST_MESSAGE.into()));
                    }
                    AgentMessage::Request(privileged_request) => match parent.answer(privileged_request)? {
                        // If the agent has ended meanwhile, the next read finds that.
                        Outcome::Done => drop(write_message(&mut stdin, &Outcome::Done)),
                        outcome => return Ok(Some(outcome)),
                    },
                }
            }
            Err(RecvTimeoutError::Timeout) if checked_at.elapsed() > STOPPED_CHECK_INTERVAL => {
                if let Some(outcome) = stopped_timeout.check(last_line_at.elapsed()) {
                    return Ok(Some(outcome));
                }
                checked_at = Instant::now();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::empty_record;
    use fsarena_core::matrix;
    use rustix::process::{Pid, kill_process};

    fn spawn(program: &str, argument: &str) -> Child {
        let mut command = Command::new(program);
        command.arg(argument).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    #[test]
    fn an_agent_fails_only_after_it_was_stopped_for_the_whole_limit() {
        let mut agent = spawn("sleep", "60");
        let pid = Pid::from_child(&agent);
        let mut stopped_timeout = StoppedAgentTimeout::new(agent.id() as i32, Some(Duration::from_millis(20)));
        let long_silence = Duration::from_secs(1);
        assert_eq!(stopped_timeout.check(long_silence), None);
        kill_process(pid, Signal::STOP).unwrap();
        let is_stopped = || process::find_stopped_process(&SysRoot::host(), agent.id() as i32).unwrap().is_some();
        while !is_stopped() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // However long the agent was silent before, the time of the stop begins now.
        stopped_timeout.check(long_silence);
        assert!(stopped_timeout.stopped_since.is_some());
        std::thread::sleep(Duration::from_millis(25));
        let outcome = stopped_timeout.check(long_silence);
        assert!(matches!(&outcome, Some(Outcome::Failed { cause: Cause::Work, .. })), "{outcome:?}");
        assert_eq!(stopped_timeout.check(Duration::ZERO), None);
        assert_eq!(stopped_timeout.stopped_since, None);
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    #[test]
    fn an_agent_that_is_dropped_is_killed_and_reaped() {
        let agent = AgentProcess(spawn("sleep", "60"));
        let pid = Pid::from_child(&agent.0);
        drop(agent);
        let waited = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
        assert_eq!(waited.unwrap_err(), rustix::io::Errno::CHILD);
    }

    #[test]
    fn an_agent_that_ended_before_its_request_ends_without_an_outcome() {
        let mut agent = spawn("true", "");
        while agent.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let record = empty_record(&["ext4"], &[]);
        let cell = matrix::cells_of_round(&record.plan, &record.variants, &[0], 0).remove(0);
        let request = serde_json::json!({
            "cell": cell, "idle": record.plan.idle, "mount": null, "root": "/", "other": "/", "device": null
        });
        let request: AgentRequest = serde_json::from_value(request).unwrap();
        let (stdin, stdout) = send_request(&mut agent, &request).unwrap();
        let stopped_timeout = StoppedAgentTimeout::new(agent.id() as i32, None);
        assert_eq!(receive_outcome(stdin, stdout, &mut |_| (), stopped_timeout).unwrap(), None);
    }

    #[test]
    fn messages_of_guests_are_refused_from_agents_outside_of_guests() {
        let mut agent = spawn("echo", &serde_json::to_string(&AgentMessage::ShellExited(0)).unwrap());
        let (stdin, stdout) = agent.stdin.take().zip(agent.stdout.take()).unwrap();
        let stopped_timeout = StoppedAgentTimeout::new(agent.id() as i32, None);
        let error = receive_outcome(stdin, stdout, &mut |_| (), stopped_timeout).unwrap_err();
        assert_eq!(error.to_string(), RunError::Agent(UNEXPECTED_GUEST_MESSAGE.into()).to_string());
        agent.wait().unwrap();
    }
}
