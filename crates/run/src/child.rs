//! The agent as a child process: started, listened to, and killed with all its own.

use crate::axes::Confine;
use crate::executor::{Failed, Fatal, Result};
use crate::protocol::{Ask, Line, Request, write};
use crate::work;
use fsarena_core::event::{Cause, CellEvent, Outcome};
use fsarena_core::{cell::Variant, factor};
use fsarena_sys::cgroup::{self, Group};
use fsarena_sys::said::{lines, shown, tail};
use fsarena_sys::{argv, cancel, kernel::Kernel, limits, process, shortage, undo};
use rustix::process::Signal;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// How often a signal is looked for while an agent is silent.
pub const LISTEN: Duration = Duration::from_millis(50);
/// How often a silent agent is looked at whether it is stopped.
const LOOK: Duration = Duration::from_millis(500);
/// What an agent does that has no keeper.
pub const ASKED: &str = "asked for what only a worker asks for";
/// How much of what an agent says at its end is shown.
const LAST_BYTES: u64 = 2048;

/// The process that an agent belongs to.
pub trait Parent {
    /// Hears what happens.
    fn hear(&mut self, event: CellEvent);

    /// Does what the agent, as one of several clients, waits for.
    ///
    /// # Errors
    /// Where it is not one of several.
    fn answer(&mut self, _ask: Ask) -> Result<Outcome> {
        Err(Fatal::Agent(ASKED.into()))
    }

    /// Is called every `LISTEN`. An outcome ends the agent.
    fn look(&mut self) -> Option<Outcome> {
        None
    }
}

impl<F: FnMut(CellEvent)> Parent for F {
    fn hear(&mut self, event: CellEvent) {
        self(event);
    }
}

/// Runs one request in an agent, which has a separate process group, confined as the cell's conditions say, and passes on
/// what it says.
///
/// # Errors
/// Where the agent cannot be started or does not speak the protocol.
pub fn run(
    journal: &undo::Journal,
    request: &Request,
    confine: &Confine,
    parent: &mut dyn Parent,
) -> Result<Outcome> {
    let mut errors = argv::memory_file("stderr").map_err(agent)?;
    // A separate group: Ctrl-C reaches only this process, which ends the whole group at once.
    let mut command = command(errors.try_clone().map_err(agent)?);
    command.env("FSARENA_VARIANT", &request.cell.variant.name);
    command.env("FSARENA_SCALE", request.cell.scale.name());
    command.env("FSARENA_ROUND", (request.cell.round + 1).to_string());
    let mut child = limits::spawn(command.process_group(0)).map_err(agent)?;
    // From here on a SIGKILL of ours leaves a process group, which `recover` ends before it unmounts.
    let group = journal.note(group_of(child.id() as i32))?;
    // It waits for the request, so that it has done nothing yet where it should not run.
    let confined = confine.enter(child.id() as i32).map_err(|error| std::io::Error::other(error.to_string()));
    let tracked = track(journal, request, confine, child.id() as i32)?;
    let asked = confined.and_then(|()| ask(&mut child, request));
    let deadline = Deadline { pgid: child.id() as i32, limit: work::time_limit(&request.cell) };
    let outcome = asked.map_err(agent).and_then(|(stdin, stdout)| listen(stdin, stdout, parent, &deadline));
    group.undo()?;
    // A worker that crashed leaves its commands, which have process groups of their own, and its keeper tells a failure.
    // Those in a PID namespace ended with the group; others are found by their control group or by our mark.
    if !matches!(outcome, Ok(Some(Outcome::Done))) {
        confine.end_processes()?;
        if let Some((_, journal)) = argv::mark() {
            process::kill_marked(&Kernel::host(), &journal)?;
        }
    }
    if let Some(tracked) = tracked {
        tracked.remove()?;
    }
    let status = child.wait().map_err(agent)?;
    let outcome = match outcome? {
        Some(outcome) => outcome,
        None => ended("the measuring process", status, &mut errors).map_err(agent)?.into(),
    };
    Ok(out_of_memory(outcome, &request.cell.variant, confine))
}

/// The failure to start an agent or to talk to it.
fn agent(error: std::io::Error) -> Fatal {
    match shortage::remedy(&error) {
        Some(remedy) => Fatal::Missing(format!("the measuring process: {error}; {remedy}")),
        None => Fatal::Agent(error.to_string()),
    }
}

/// Puts an agent into a control group that says which processes it started. None where it needs no such group, because
/// they run in a PID namespace, or a limit of the cell has a group already; and where the kernel refuses: then only the
/// mark in their environment tells.
///
/// # Errors
/// Where the journal cannot be written.
fn track(
    journal: &undo::Journal,
    request: &Request,
    confine: &Confine,
    agent: i32,
) -> Result<Option<Group>, fsarena_sys::Error> {
    if request.role.ends_all() || confine.has_group() {
        return Ok(None);
    }
    let group = cgroup::tracking_group(&Kernel::host(), journal)?;
    Ok(group.filter(|group| cgroup::enter(group.path(), agent).is_ok()))
}

/// When an agent that a signal has stopped is given up: it cannot end a command of the user at its time limit.
struct Deadline {
    /// Its process group. A worker is in that of its keeper.
    pgid: i32,
    /// The time limit of each command; none where the work has none.
    limit: Option<Duration>,
}

impl Deadline {
    /// The outcome of an agent that has said nothing for this time, where it is stopped and a command that began after its
    /// last word would be too late.
    fn missed(&self, silent: Duration) -> Option<Outcome> {
        let limit = self.limit.filter(|limit| silent > *limit)?;
        // A `/proc` that cannot be read does not say that it is stopped.
        process::stopped(&Kernel::host(), self.pgid).ok()??;
        let seconds = limit.as_secs_f64();
        let why = format!(
            "the measuring process was stopped (SIGSTOP) and did not go on within {seconds} s (--timeout): a command of the \
             work stopped it, or a user"
        );
        Some(Failed::new(Cause::Work, why).into())
    }
}

/// The failure of a process that ended without an outcome, with its last words. One that was killed did nothing wrong.
pub fn ended(what: &str, status: ExitStatus, errors: &mut std::fs::File) -> std::io::Result<Failed> {
    if let Some(signal) = status.signal()
        && (signal == Signal::KILL.as_raw() || cancel::signals().any(|ending| ending == signal))
    {
        let by = if signal == Signal::XCPU.as_raw() {
            "it used up its CPU time (`ulimit -t`)"
        } else {
            "a command of the work killed it, or the kernel for want of memory, or a user"
        };
        return Ok(Failed::new(Cause::Work, format!("{what} ended ({status}): {by}")));
    }
    let words = tail(errors, LAST_BYTES)?;
    if words.contains(shortage::NO_THREAD) {
        return Ok(Failed::missing(format!("{what} ended: {}", shortage::NO_THREADS)));
    }
    Ok(Failed::internal(format!("{what} ended ({status}): {}", shown(&words))))
}

/// The outcome of a cell whose memory is limited. The kernel tells its victims nothing, but it counts them.
fn out_of_memory(outcome: Outcome, variant: &Variant, confine: &Confine) -> Outcome {
    match outcome {
        Outcome::Failed { why, .. } if confine.ran_out_of_memory() => {
            let level = variant.level(factor::MEMORY);
            Failed::missing(format!("{why}; memory={level} is too little for this work")).into()
        }
        outcome => outcome,
    }
}

/// What ends the group of a process. One that is gone already has no start time, and no group to end.
pub fn group_of(pgid: i32) -> undo::Undo {
    undo::Undo::KillGroup { pgid, start_time: process::start_time(&Kernel::host(), pgid).unwrap_or(0) }
}

/// An agent that is not started yet.
pub fn command(errors: std::fs::File) -> Command {
    // This very program, even where its file has been replaced since it was started.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("fsarena").arg("agent").envs(argv::mark());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
    command
}

/// Hands its request to an agent. What it is told and says next.
///
/// # Errors
/// Those of the pipes.
pub fn ask(child: &mut Child, request: &Request) -> std::io::Result<(ChildStdin, ChildStdout)> {
    let pipes = child.stdin.take().zip(child.stdout.take());
    let (mut stdin, stdout) = pipes.ok_or_else(|| std::io::Error::other("no pipes"))?;
    write(&mut stdin, request)?;
    Ok((stdin, stdout))
}

/// Passes on events until the agent ends, falls silent for good, or a signal comes.
fn listen(
    mut stdin: ChildStdin,
    stdout: ChildStdout,
    parent: &mut dyn Parent,
    deadline: &Deadline,
) -> Result<Option<Outcome>> {
    let lines = lines(stdout);
    let (mut heard, mut looked) = (Instant::now(), Instant::now());
    loop {
        if cancel::requested().is_some() {
            return Ok(Some(Outcome::Interrupted));
        }
        if let Some(outcome) = parent.look() {
            return Ok(Some(outcome));
        }
        match lines.recv_timeout(LISTEN) {
            Ok(line) => {
                heard = Instant::now();
                match Line::read(&line).map_err(Fatal::Agent)? {
                    Line::Event(event) => parent.hear(event),
                    Line::End(outcome) => return Ok(Some(outcome)),
                    Line::Ask(ask) => match parent.answer(ask)? {
                        // One that has ended meanwhile says so next.
                        Outcome::Done => drop(write(&mut stdin, &Outcome::Done)),
                        outcome => return Ok(Some(outcome)),
                    },
                }
            }
            Err(RecvTimeoutError::Timeout) if looked.elapsed() > LOOK => {
                if let Some(outcome) = deadline.missed(heard.elapsed()) {
                    return Ok(Some(outcome));
                }
                looked = Instant::now();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}
