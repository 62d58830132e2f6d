//! Guests that begin with a machine that has booted already: found in the cache, or booted now and kept.

use super::booting::{LEAST_MEMORY, file_size, keep_command_line};
use super::hearing::attend;
use super::packed::{Asked, Packer};
use crate::executor::Fatal;
use fsarena_core::event::{Note, NoteKind, Outcome};
use fsarena_core::plan::{Accelerator, Emulator, GuestPlan};
use fsarena_guest::cache;
use fsarena_guest::emulator::Machine;
use fsarena_guest::launch::Launch;
use fsarena_guest::orders::Orders;
use fsarena_guest::snapshot::{self, Draft, Known, NO_ORDERS, NOT_READY, READY, Snapshot};
use fsarena_sys::undo::{Journal, Undo};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How a guest begins.
pub enum Beginning {
    /// With this machine.
    Kept(Snapshot),
    /// With its kernel's first instruction.
    Boot,
    /// Not at all: the kernel did not come up.
    Never(Outcome),
}

/// The machines that guests of a run begin with.
pub struct Booted {
    cache: PathBuf,
    /// The file with the orders of the next guest.
    orders: PathBuf,
    /// Machines that are not tried again in this run.
    given_up: BTreeSet<PathBuf>,
    /// What a reader should know.
    notes: Vec<Note>,
}

/// Whether guests of a plan begin with a machine that has booted. Where the CPU itself runs them, booting is no matter;
/// where instructions are counted, nothing of a cell may depend on another; User Mode Linux has no such state.
pub fn wanted(guest: &GuestPlan) -> bool {
    guest.emulator == Emulator::Qemu && guest.accelerator != Some(Accelerator::Kvm) && !guest.fresh
}

impl Booted {
    /// Nothing is known yet. Files go into this directory.
    pub fn new(dir: &Path) -> Booted {
        let (given_up, notes) = (BTreeSet::new(), vec![]);
        Booted { cache: cache::dir(), orders: dir.join("orders"), given_up, notes }
    }

    /// Where a guest finds its orders.
    pub fn orders(&self) -> PathBuf {
        self.orders.clone()
    }

    /// What a reader should know.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// What a guest of this shape begins with. The first of its kind boots now, for as long as that takes.
    ///
    /// # Errors
    /// Where its files cannot be written, or the emulator cannot be started.
    pub fn beginning(
        &mut self,
        machine: &Machine,
        orders: &Orders,
        asked: Asked,
        packer: &mut Packer,
        (journal, plan): (&Journal, &GuestPlan),
    ) -> Result<Beginning, Fatal> {
        let place = snapshot::place(&self.cache, machine, &packer.particular(asked));
        if self.given_up.contains(&place) {
            return Ok(Beginning::Boot);
        }
        match snapshot::known(&place) {
            Known::Kept(snapshot) => return Ok(Beginning::Kept(snapshot)),
            Known::Refused(why) => return Ok(self.give_up(place, &why)),
            Known::Nothing => {}
        }
        std::fs::write(&self.orders, NO_ORDERS).map_err(fsarena_sys::Error::io("writing", &self.orders))?;
        let (mut initramfs, modules) = packer.for_any(asked)?;
        // While it is unpacked it is there twice.
        if (machine.memory_mib << 20) < 2 * file_size(initramfs.path()) + LEAST_MEMORY {
            return Ok(self.give_up(place, "there is too little memory for all modules: --guest-memory"));
        }
        let first = Orders { later: true, modules, request: serde_json::Value::Null, ..orders.clone() };
        initramfs.hand_over(&first)?;
        let machine = Machine { initramfs: Some(initramfs.path()), ..machine.clone() };
        let made = self.make(&machine, place, journal, plan);
        let _ = std::fs::remove_file(initramfs.path());
        made
    }

    /// Boots a machine and keeps it.
    fn make(
        &mut self,
        machine: &Machine,
        place: PathBuf,
        journal: &Journal,
        plan: &GuestPlan,
    ) -> Result<Beginning, Fatal> {
        let begun = Instant::now();
        let dir = self.cache.join(format!("saving-{}", std::process::id()));
        // What is half written does not stay, however this ends.
        let armed = journal.arm(Undo::RemoveTree { path: dir.clone() })?;
        let (draft, stdin) = match Draft::begin(dir, place.clone()) {
            Ok(begun) => begun,
            Err(error) => {
                armed.undo()?;
                return Ok(self.give_up(place, &self.not_kept(&error)));
            }
        };
        let launch = Launch {
            argv: machine.argv().into_iter().chain(Draft::words()).collect(),
            console: machine.console(),
            voice: machine.voice_file(),
            user_mode: false,
            stdin,
        };
        keep_command_line(machine.dir, "boot.json", &launch)?;
        let mut draft = Some(draft);
        let heard = attend(journal, launch, plan, &mut |line| {
            if let Some(why) = line.strip_prefix(NOT_READY) {
                return Ok(Some(Err(std::io::Error::other(why.to_string()))));
            }
            match draft.take().filter(|_| line == READY) {
                Some(draft) => Ok(Some(draft.keep(&machine.console()))),
                None => Err(format!("the guest said {line:?} in place of being ready")),
            }
        });
        armed.undo()?;
        Ok(match heard? {
            Err(outcome) => Beginning::Never(outcome),
            Ok((Ok(kept), _)) => {
                self.notes.push(booted(machine, begun.elapsed()));
                Beginning::Kept(kept)
            }
            Ok((Err(error), _)) => {
                // A full disk is another one tomorrow; what QEMU or the kernel cannot do they cannot do.
                if error.kind() == ErrorKind::Other {
                    snapshot::refuse(&place, &error.to_string());
                }
                self.give_up(place, &self.not_kept(&error))
            }
        })
    }

    /// Makes no more use of a machine that a guest could not begin with.
    pub fn failed(&mut self, snapshot: Snapshot, why: &str) {
        self.give_up(snapshot.dir().to_path_buf(), why);
        snapshot.discard();
    }

    fn not_kept(&self, error: &std::io::Error) -> String {
        match error.kind() {
            ErrorKind::Other => error.to_string(),
            _ => format!("{}: {error}", self.cache.display()),
        }
    }

    fn give_up(&mut self, place: PathBuf, why: &str) -> Beginning {
        if self.given_up.insert(place) {
            let text = format!("each guest boots anew, because none can be kept that has booted: {why}");
            self.notes.push(Note::new(NoteKind::Remark, text).step("boot"));
        }
        Beginning::Boot
    }
}

fn booted(machine: &Machine, took: Duration) -> Note {
    let text = format!(
        "a machine with {} was booted in {:.1} s and is kept for this and later runs: guests begin with it",
        machine.kernel.name(),
        took.as_secs_f64()
    );
    Note::new(NoteKind::Remark, text).step("boot")
}
