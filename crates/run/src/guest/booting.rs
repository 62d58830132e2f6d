//! How a guest of a cell is started: from a machine that has booted, or from the first instruction of its kernel.

use super::booted::{Booted, LEAST_MEMORY, file_size, keep_command_line};
use super::hearing::{self, End, Running};
use super::packed::{Asked, Packer};
use crate::executor::{Emit, Failed, Fatal, Result};
use bytesize::ByteSize;
use fsarena_core::event::{CellEvent, Outcome};
use fsarena_guest::counter::{COUNTS, Counter};
use fsarena_guest::{config::GuestConfig, emulator::Machine, launch::Launch};
use fsarena_sys::cancel;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

/// A cell, as far as starting a guest for it goes.
pub struct ThisCell<'a> {
    /// Its machine.
    pub machine: &'a Machine<'a>,
    /// What the machine is told.
    pub config: &'a GuestConfig,
    /// What it asks of its kernel.
    pub asked: Asked<'a>,
}

/// What starting takes.
pub struct Starting<'a> {
    /// The run.
    pub running: Running<'a>,
    /// What packs its initramfs.
    pub packer: &'a mut Packer,
    /// What counts its instructions.
    pub counter: Option<&'a Counter>,
    /// When its power is cut, counted from the beginning of the work.
    pub cut: Option<Duration>,
}

impl Starting<'_> {
    /// From the first instruction of its kernel.
    ///
    /// # Errors
    /// Where the emulator cannot be started, or its files cannot be written.
    pub fn anew(&mut self, cell: &ThisCell, emit: Emit) -> Result<End> {
        let initramfs = self.packer.initramfs(cell.asked)?;
        let (memory, size) = (self.running.guest.memory.as_u64(), file_size(&initramfs.path));
        if memory < size + LEAST_MEMORY {
            let (memory, size) = (ByteSize(memory), ByteSize(size));
            let why =
                format!("a guest with {memory} of memory has no room to boot with {size}: --guest-memory");
            return Ok(End::unstarted(Failed::missing(why).into()));
        }
        initramfs.hand_over(cell.config)?;
        let path = initramfs.path.clone();
        let machine = Machine { initramfs: Some(&path), ..cell.machine.clone() };
        let counting = self.counter.iter().flat_map(|counter| counter.words(&machine.dir.join(COUNTS)));
        self.hear(&machine, machine.launch(counting, Stdio::null()), emit)
    }

    fn hear(&self, machine: &Machine, launch: Launch, emit: Emit) -> Result<End> {
        keep_command_line(machine.dir, "command.json", &launch)?;
        hearing::hear(self.running, launch, self.cut, emit)
    }

    /// With a machine that has booted, where one can be had.
    ///
    /// # Errors
    /// As above.
    pub fn with(&mut self, booted: &mut Booted, cell: &ThisCell, emit: Emit) -> Result<End> {
        let path = booted.config.clone();
        let machine = Machine { config: Some(&path), ..cell.machine.clone() };
        let begun = Instant::now();
        let unrecorded = Machine { record: None, ..machine.clone() };
        let kept = booted.beginning(&unrecorded, cell.config, cell.asked, self.packer, self.running)?;
        emit(CellEvent::Spent { what: hearing::SPENT, ns: begun.elapsed().as_nanos() as u64 });
        let Some(snapshot) = kept else {
            return match cancel::requested() {
                Some(_) => Ok(End::unstarted(Outcome::Interrupted)),
                None => self.anew(cell, emit),
            };
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok();
        let config = GuestConfig { now, ..cell.config.clone() };
        let text = serde_json::to_vec(&config).map_err(|error| Fatal::Agent(error.to_string()))?;
        std::fs::write(&path, text).map_err(fsarena_sys::Error::io("writing", &path))?;
        let why = match snapshot.launch(&machine) {
            Ok(launch) => match self.hear(&machine, launch, emit)? {
                // If the kept machine does not resume, the cell is not to blame: it gets a second chance by booting.
                End { outcome: Outcome::Failed { why, .. }, spoke: false, .. } => why,
                end => return Ok(end),
            },
            Err(error) => error.to_string(),
        };
        booted.failed(snapshot, &machine, &why);
        self.anew(cell, emit)
    }
}
