//! Hearing a guest to its end: its words, its silence, its last words.

use crate::executor::Fatal;
use crate::protocol::Line;
use fsarena_core::event::{CellEvent, Outcome};
use fsarena_core::plan::GuestPlan;
use fsarena_guest::launch::{Guest, Heard, Launch};
use fsarena_sys::kernel::Kernel;
use fsarena_sys::undo::{Journal, Undo};
use fsarena_sys::{cancel, process};
use std::time::{Duration, Instant};

/// How often a signal is looked for while the guest is silent.
const LISTEN: Duration = Duration::from_millis(50);
/// How long a guest may take to power off.
const POWER_OFF: Duration = Duration::from_secs(10);
/// The longest silence of a guest that has not said anything yet: kernels boot in seconds.
const BOOT: Duration = Duration::from_secs(120);

/// Starts a guest, passes on what it says, and ends it. A guest that fails is an outcome.
///
/// # Errors
/// Where the emulator cannot be started, or the journal cannot be written.
pub fn hear(
    journal: &Journal,
    launch: Launch,
    plan: &GuestPlan,
    emit: &mut dyn FnMut(CellEvent),
) -> Result<Outcome, Fatal> {
    emit(CellEvent::Phase { name: "booting".into() });
    let mut guest = launch.start()?;
    let pgid = guest.pid();
    // From here on a SIGKILL of ours leaves a process group, which `recover` ends.
    let start_time = process::start_time(&Kernel::host(), pgid).unwrap_or(0);
    let group = journal.arm(Undo::KillGroup { pgid, start_time })?;
    let outcome = listen(&mut guest, plan, emit);
    let words = guest.last_words();
    let ended = guest.end(if outcome.is_ok() { POWER_OFF } else { Duration::ZERO });
    group.undo()?;
    match outcome {
        Ok(outcome) => Ok(outcome),
        Err(Lost::Interrupted) => Ok(Outcome::Interrupted),
        Err(Lost::Failed(why)) => {
            let status = ended.map_or(String::new(), |status| format!(" ({status})"));
            let words = if words.is_empty() { "it said nothing".to_string() } else { words };
            Ok(Outcome::Failed { why: format!("{why}{status}; the end of its console:\n{words}") })
        }
    }
}

/// Why a guest was not heard to its end.
enum Lost {
    Interrupted,
    Failed(String),
}

fn listen(guest: &mut Guest, plan: &GuestPlan, emit: &mut dyn FnMut(CellEvent)) -> Result<Outcome, Lost> {
    let patience = Duration::from_secs_f64(plan.patience_s);
    let begun = Instant::now();
    let mut heard: Option<Instant> = None;
    loop {
        if cancel::requested().is_some() {
            return Err(Lost::Interrupted);
        }
        match guest.listen(LISTEN) {
            Heard::Line(line) => {
                if heard.replace(Instant::now()).is_none() {
                    emit(CellEvent::Spent { what: "boot".into(), ns: begun.elapsed().as_nanos() as u64 });
                }
                match serde_json::from_str(&line) {
                    Ok(Line::Event(event)) => emit(event),
                    Ok(Line::End(outcome)) => return Ok(outcome),
                    Err(error) => {
                        return Err(Lost::Failed(format!(
                            "the guest said {line:?}, which is no event: {error}"
                        )));
                    }
                }
            }
            Heard::Silence => {
                let limit = if heard.is_none() { patience.min(BOOT) } else { patience };
                let silent = heard.unwrap_or(begun).elapsed();
                if silent > limit {
                    let since = if heard.is_none() { "since it was started" } else { "in its work" };
                    let why = format!(
                        "the guest has said nothing for {:.0} s {since} and was ended",
                        silent.as_secs_f64()
                    );
                    return Err(Lost::Failed(why));
                }
            }
            Heard::End => return Err(Lost::Failed("the guest ended before its work did".into())),
        }
    }
}
