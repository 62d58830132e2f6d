//! Snapshots of booted machines, from which guests start: found in the cache, or booted now and kept.

use super::initramfs::{KernelDemands, Packer};
use super::session::{CONSOLE, GuestOwner, SessionEnd, run_until};
use crate::error::{CellError, Result, RunError};
use crate::settings::setting;
use fsarena_core::event::{Cause, Note, NoteKind};
use fsarena_core::plan::{Accelerator, Emulator, GuestPlan};
use fsarena_guest::config::{GuestConfig, NO_CONFIG, NOT_READY, READY};
use fsarena_guest::snapshot::{self, Draft, Snapshot};
use fsarena_guest::{cache, emulator::Machine, launch::Launch};
use fsarena_sys::{Error, argv::Argv, undo::MadeDir};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{os::unix::fs::DirBuilderExt, time::Instant};

/// What a kernel takes beside its initramfs before it can even complain, in bytes.
pub const LEAST_MEMORY: u64 = 64 << 20;

/// The snapshots that guests of a run start from.
pub struct SnapshotPool {
    cache: PathBuf,
    /// The file with the config of the next guest.
    pub config: PathBuf,
    /// Machines whose states this run has made, or verified.
    verified: BTreeSet<PathBuf>,
    /// Machines that are not tried again in this run.
    given_up: BTreeSet<PathBuf>,
    /// What a reader should know of each machine.
    notes: BTreeMap<PathBuf, Note>,
}

/// Whether guests of a plan begin with a machine that has booted. Where the CPU itself runs them, booting is fast enough;
/// where instructions are counted, nothing of a cell may depend on another.
pub fn wanted(guest: &GuestPlan) -> bool {
    guest.emulator == Emulator::Qemu && guest.accelerator != Some(Accelerator::Kvm) && !guest.fresh
}

impl SnapshotPool {
    /// Nothing is known yet. Files of the run go into this directory.
    pub fn new(dir: &Path) -> SnapshotPool {
        let cache = std::path::absolute(cache::dir()).unwrap_or_else(|_| cache::dir());
        // Where it cannot be made, nothing is kept.
        let _ = std::fs::DirBuilder::new().recursive(true).mode(0o755).create(&cache);
        let (verified, given_up, notes) = Default::default();
        SnapshotPool { cache, config: dir.join("config"), verified, given_up, notes }
    }

    /// What a reader should know.
    pub fn notes(&self) -> impl Iterator<Item = Note> + use<'_> {
        self.notes.values().cloned()
    }

    /// The machine that a guest of this shape begins with; none where it boots by itself, or a signal came. The first of
    /// its kind boots now, for as long as that takes.
    ///
    /// # Errors
    /// Where its files cannot be written, or the emulator cannot be started.
    pub fn take(
        &mut self,
        machine: &Machine,
        config: &GuestConfig,
        demands: KernelDemands,
        packer: &mut Packer,
        owner: GuestOwner,
    ) -> Result<Option<Snapshot>> {
        let Some(place) = snapshot::place(&self.cache, machine, &packer.particular(demands)) else {
            let why = format!("{} is not this user's alone, or not there", self.cache.display());
            return Ok(self.give_up(&self.cache.clone(), machine, &why));
        };
        if self.given_up.contains(&place) {
            return Ok(None);
        }
        if let Some(found) = self.whole(&place) {
            let text = "guests with it begin with a machine that an earlier run has booted and kept";
            self.note(&place, machine, text);
            return Ok(Some(found));
        }
        std::fs::write(&self.config, NO_CONFIG).map_err(Error::io("writing", &self.config))?;
        let (mut initramfs, modules) = packer.for_any(demands)?;
        // While it is unpacked it is there twice, and what is unpacked may take half of the memory.
        if (machine.memory_mib << 20) < 3 * file_size(&initramfs.path) + LEAST_MEMORY {
            let flag = setting("guest_memory", "");
            let why = format!("it has too little memory for all modules ({flag})");
            return Ok(self.give_up(&place, machine, &why));
        }
        let first = GuestConfig { later: true, modules, request: serde_json::Value::Null, ..config.clone() };
        initramfs.hand_over(&first)?;
        let machine = Machine { initramfs: Some(&initramfs.path), ..machine.clone() };
        let made = self.make(&machine, &place, owner);
        // It is in a directory that goes with the run.
        let _ = std::fs::remove_file(&initramfs.path);
        made
    }

    /// The machine that is kept there. A damaged one is removed, so that another is made.
    fn whole(&mut self, place: &Path) -> Option<Snapshot> {
        let found = snapshot::find(place)?;
        if !self.verified.contains(place) && !found.is_whole() {
            cache::was_damaged(place, "boots that machine again");
            found.discard();
            return None;
        }
        self.verified.insert(place.into());
        Some(found)
    }

    /// Boots a machine and keeps it. One that does not come up boots again, for the cell alone, and that is the cell's own
    /// failure then.
    fn make(&mut self, machine: &Machine, place: &Path, owner: GuestOwner) -> Result<Option<Snapshot>> {
        let begun = Instant::now();
        let (draft, stdin) = match Draft::begin(&self.cache, place.into()) {
            Ok(begun) => begun,
            Err(error) => {
                return Ok(self.give_up(place, machine, &format!("{}: {error}", self.cache.display())));
            }
        };
        // A half-written state never stays, however this ends.
        let unfinished = MadeDir::adopt_tree(owner.journal, &draft.dir)?;
        let launch = machine.launch(Draft::words(), stdin);
        keep_command_line(machine.dir, "boot.json", &launch)?;
        let mut draft = Some(draft);
        let failed = |why: String| CellError::new(Cause::Work, why);
        let (end, _) = run_until(owner, launch, &mut |line, _| {
            if let Some(why) = line.strip_prefix(NOT_READY) {
                return Err(failed(why.into()));
            }
            let Some(draft) = draft.take().filter(|_| line == READY) else {
                return Err(failed(format!("the guest said {line:?} instead of being ready")));
            };
            let place = draft.dir.display().to_string();
            draft.keep(&machine.console()).map(Some).map_err(|error| failed(format!("{place}: {error}")))
        })?;
        unfinished.remove()?;
        match end {
            SessionEnd::Value(snapshot) => {
                let took = begun.elapsed().as_secs_f64();
                let text =
                    format!("a machine with it was booted in {took:.1} s and is kept: guests begin with it");
                self.note(place, machine, &text);
                self.verified.insert(place.into());
                Ok(Some(snapshot))
            }
            SessionEnd::Failed(error) => Ok(self.give_up(place, machine, &error.why)),
            SessionEnd::PowerCut | SessionEnd::Interrupted => Ok(None),
        }
    }

    /// Makes no more use of a machine that a guest could not begin with.
    pub fn discard(&mut self, snapshot: Snapshot, machine: &Machine, why: &str) {
        self.give_up(&snapshot.dir, machine, why);
        snapshot.discard();
    }

    /// Notes why guests of this kind boot by themselves. They then have no machine to begin with.
    fn give_up(&mut self, place: &Path, machine: &Machine, why: &str) -> Option<Snapshot> {
        self.given_up.insert(place.into());
        let why = why.split(CONSOLE).next().unwrap_or_default();
        let text = format!("each guest with it boots by itself, because no machine could be kept: {why}");
        self.note(place, machine, &text);
        None
    }

    /// Notes it once per machine; the last note counts, except that the machine was used again.
    fn note(&mut self, place: &Path, machine: &Machine, text: &str) {
        let text = format!("kernel {}: {text}", machine.kernel.name());
        let note = Note::new(NoteKind::Remark, text).task("boot");
        if self.given_up.contains(place) {
            self.notes.remove(place);
        }
        self.notes.entry(place.into()).or_insert(note);
    }
}

/// The size of a file in bytes.
pub fn file_size(path: &Path) -> u64 {
    path.metadata().map_or(0, |meta| meta.len())
}

/// Keeps what a guest is started with. Its standard input, where that is not empty, is what the last words say: the
/// state of a kept machine, or who asks QEMU for it.
pub fn keep_command_line(dir: &Path, name: &str, launch: &Launch) -> Result<()> {
    let path = dir.join(name);
    let words = Argv::new(&launch.argv[0]).args(&launch.argv[1..]).words();
    let text = serde_json::to_string_pretty(&words).map_err(|error| RunError::Agent(error.to_string()))?;
    Ok(std::fs::write(&path, text + "\n").map_err(Error::io("writing", &path))?)
}
