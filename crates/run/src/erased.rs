//! A device that the user named for erasing: the same state before every filesystem, and its health.

mod health;
mod precondition;

use crate::context::RunContext;
use crate::error::{CellResult, Result};
use crate::executor::{Log, RunSink, logged};
use fsarena_core::event::{Event, Note, NoteKind};
use fsarena_fs::{lifecycle::Devices, safety::ScratchDevice};
use fsarena_sys::device::BlockDevice;
use health::Health;

/// How the erased device of a run is treated.
pub struct Erased {
    device: BlockDevice,
    /// Whether it is discarded before each mkfs.
    discards: bool,
    health: Health,
}

impl Erased {
    /// Brings the device into the state that the plan asks for. None where the run
    /// erases no device.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn begin(run: &RunContext, device: Option<&ScratchDevice>, tell: RunSink) -> Result<Option<Erased>> {
        let Some((scratch, device)) = device.and_then(|scratch| Some((scratch, scratch.device()?))) else {
            return Ok(None);
        };
        let path = device.path.display();
        let (plan, begins) = (&run.plan, !run.check.resumed);
        // A device that was brought into its steady state stays in it.
        let keeps = plan.device.precondition && !begins;
        let discards = !keeps && device.discards() && logged(tell, |log| scratch.discard(log))?.is_ok();
        if plan.device.precondition && begins {
            tell(Event::Note(precondition::run(scratch, discards)?))?;
        } else if !keeps && !discards {
            let text = format!(
                "{path} takes no discard: an SSD remembers what earlier variants wrote, and its speed can depend on that"
            );
            tell(Event::Note(Note::new(NoteKind::Fairness, text).fix("--precondition")))?;
        }
        let health = Health::read(device);
        let facts = health.facts();
        if !facts.is_empty() {
            tell(Event::Note(Note::new(NoteKind::Options, facts.join(", ")).task("device")))?;
        }
        let discards = discards && !plan.device.precondition;
        Ok(Some(Erased { device: device.clone(), discards, health }))
    }

    /// Before mkfs: whatever the variant before wrote, the device knows nothing of it any more.
    ///
    /// # Errors
    /// Where blkdiscard(8) fails.
    pub fn before_mkfs(&self, devices: &Devices, log: Log) -> CellResult {
        let mut erased = devices.all().filter(|device| self.discards && !device.is_made());
        Ok(erased.try_for_each(|device| device.discard(log))?)
    }

    /// After a cell: says that the device was too hot for its full speed.
    pub fn throttled(&mut self) -> Option<Note> {
        let before = std::mem::replace(&mut self.health, Health::read(&self.device));
        let why = self.health.throttled_since(&before)?;
        let path = self.device.path.display();
        let text = format!("{path} was too hot for its full speed in this cell: {why}");
        Some(Note::new(NoteKind::Fairness, text).fix("cool the device"))
    }
}
