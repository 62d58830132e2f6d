//! Hearing a guest to its end: its words, its silence, its last words.

use crate::child::{ASKED, LISTEN, group_of};
use crate::executor::{Emit, Failed, Result};
use crate::protocol::Line;
use fsarena_core::event::{Cause, CellEvent, Outcome, SpentOn};
use fsarena_core::plan::GuestPlan;
use fsarena_guest::launch::{Guest, Heard, Launch};
use fsarena_guest::{config::GOING_ON, console::LastWords};
use fsarena_load::workload::Cut;
use fsarena_sys::{cancel, said::shown, undo::Journal};
use std::time::{Duration, Instant};
use std::{cell::Cell, process::ExitStatus};

/// How long a guest may take to power off.
const POWER_OFF: Duration = Duration::from_secs(10);
/// The longest silence of a guest that has not said anything yet: kernels boot in seconds.
const BOOT: Duration = Duration::from_secs(120);
/// The first task that is timed.
const FIRST: &str = "mount";
/// What stands between why a guest failed and the last lines of its console.
pub const CONSOLE: &str = "; the end of its console:\n";
/// What the time of booting is called.
pub const SPENT: SpentOn = SpentOn::Boot;

/// The run that a guest belongs to.
#[derive(Clone, Copy)]
pub struct Running<'a> {
    /// What undoes a guest.
    pub journal: &'a Journal,
    /// What the plan says of guests.
    pub guest: &'a GuestPlan,
}

/// How a guest's cell went.
pub struct End {
    /// Its outcome.
    pub outcome: Outcome,
    /// From its launch to its first timed operation, where it came so far.
    pub boot: Option<Duration>,
    /// Whether it said anything at all: one that begins with a kept machine does once it goes on.
    pub spoke: bool,
}

impl End {
    /// A guest that is not even started.
    pub fn unstarted(outcome: Outcome) -> End {
        End { outcome, boot: None, spoke: false }
    }
}

/// Starts a guest, passes on what it says, and ends it: in the middle of its work, if its power is cut some time after
/// that has begun. A guest that fails is an outcome.
///
/// # Errors
/// Where the emulator cannot be started, or the journal cannot be written.
pub fn hear(running: Running, launch: Launch, cut: Option<Duration>, emit: Emit) -> Result<End> {
    let begun = Instant::now();
    let due = Cell::new(None);
    let (mut boot, mut spoke) = (None, false);
    let heard = attend(running, launch, &due, &mut |line| {
        spoke = true;
        if line == GOING_ON {
            return Ok(None);
        }
        let why = |why: String| Failed::internal(format!("the guest {why}"));
        match Line::read(line).map_err(why)? {
            Line::Event(event) => {
                match &event {
                    CellEvent::Phase { name } if name == FIRST => drop(boot.get_or_insert(begun.elapsed())),
                    CellEvent::Phase { name } if name == Cut::WORK => {
                        due.set(cut.map(|after| Instant::now() + after));
                    }
                    _ => {}
                }
                emit(event);
                Ok(None)
            }
            Line::End(outcome) => Ok(Some(outcome)),
            Line::Ask(_) => Err(why(ASKED.into())),
        }
    })?;
    if let Some(boot) = boot {
        emit(CellEvent::Spent { what: SPENT, ns: boot.as_nanos() as u64 });
    }
    let outcome = match heard {
        Ok((Outcome::Failed { why, cause }, words))
            if !words.lines.is_empty() && cause != Cause::Violation =>
        {
            Outcome::Failed { why: told(why, None, &words), cause }
        }
        Ok((outcome, _)) | Err(outcome) => outcome,
    };
    Ok(End { outcome, boot, spoke })
}

/// Starts a guest and hands on each line until something comes of one. With its last words; or the outcome of a guest
/// that was not heard so far, which is done if it was killed when that was due.
///
/// # Errors
/// Where the emulator cannot be started, or the journal cannot be written.
pub fn attend<T>(
    running: Running,
    launch: Launch,
    due: &Cell<Option<Instant>>,
    take: &mut dyn FnMut(&str) -> Result<Option<T>, Failed>,
) -> Result<Result<(T, LastWords), Outcome>> {
    let mut guest = launch.start()?;
    // Should its keeper die with us, `recover` ends what is left of the group.
    let group = running.journal.note(group_of(guest.pid()))?;
    let heard = listen(&mut guest, running.guest, due, take);
    let (status, words) = guest.end(if heard.is_ok() { POWER_OFF } else { Duration::ZERO });
    group.undo()?;
    Ok(match heard {
        Ok(got) => Ok((got, words)),
        Err(Outcome::Failed { why, cause }) => Err(Outcome::Failed { why: told(why, status, &words), cause }),
        Err(outcome) => Err(outcome),
    })
}

/// What failed, what that means, and the last lines of the console.
fn told(why: String, status: Option<ExitStatus>, words: &LastWords) -> String {
    let meaning = words.meaning.map_or(String::new(), |meaning| format!(": {meaning}"));
    let status = status.map_or(String::new(), |status| format!(" ({status})"));
    format!("{why}{meaning}{status}{CONSOLE}{}", shown(&words.lines))
}

/// Hears a guest until something comes of a line; or the outcome of one that ended, fell silent, was interrupted, or whose
/// power was cut.
fn listen<T>(
    guest: &mut Guest,
    plan: &GuestPlan,
    due: &Cell<Option<Instant>>,
    take: &mut dyn FnMut(&str) -> Result<Option<T>, Failed>,
) -> Result<T, Outcome> {
    let patience = Duration::from_secs_f64(plan.patience_s);
    let begun = Instant::now();
    let mut heard: Option<Instant> = None;
    loop {
        if cancel::requested().is_some() {
            return Err(Outcome::Interrupted);
        }
        if due.get().is_some_and(|due| Instant::now() >= due) {
            return Err(Outcome::Done);
        }
        match guest.listen(LISTEN) {
            Heard::Line(line) => {
                heard = Some(Instant::now());
                if let Some(got) = take(&line)? {
                    return Ok(got);
                }
            }
            Heard::Silence => {
                let (limit, since) = match heard {
                    None => (patience.min(BOOT), "since it was started"),
                    Some(_) => (patience, "in its work"),
                };
                let silent = heard.unwrap_or(begun).elapsed();
                if silent > limit {
                    let seconds = silent.as_secs_f64();
                    let why = format!(
                        "the guest has said nothing for {seconds:.0} s {since} and was ended (--guest-timeout)"
                    );
                    return Err(Failed::new(Cause::Work, why).into());
                }
            }
            Heard::End => {
                return Err(Failed::new(Cause::Died, "the guest ended before its work did").into());
            }
        }
    }
}
