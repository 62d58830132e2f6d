//! Snapshots of booted machines, from which guests start: found in the cache, or made by booting a machine.

use super::initramfs::{InitramfsPacker, KernelDemands};
use super::session::{CONSOLE_HEADING, GuestOwner, SessionEnd, run_until_ready};
use crate::error::{Result, RunError};
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::plan::{Accelerator, Emulator, GuestPlan};
use fsarena_core::setting_text::setting;
use fsarena_guest::config::{GuestConfig, PLACEHOLDER_CONFIG};
use fsarena_guest::snapshot::{self, Snapshot, SnapshotDraft};
use fsarena_guest::{cache, emulator::Machine, launch::GuestCommand};
use fsarena_sys::{Error, argv::Argv, dirs, undo::MadeDir};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{os::unix::fs::DirBuilderExt, time::Instant};

/// The least memory that a kernel needs besides its initramfs, in bytes. With less it fails without a message.
pub const MIN_MEMORY_BYTES: u64 = 64 << 20;

/// The snapshots that guests of a run start from.
pub struct SnapshotPool {
    cache_dir: PathBuf,
    /// The file with the config of the next guest.
    pub config_file: PathBuf,
    /// Snapshots that this run has made, or verified, by their directories.
    verified: BTreeSet<PathBuf>,
    /// Snapshots that failed and that this run does not try again, by their directories.
    failed: BTreeSet<PathBuf>,
    /// A note for the report on each snapshot, by its directory.
    notes: BTreeMap<PathBuf, Note>,
}

/// Whether guests of a plan start from snapshots. With KVM booting is fast enough. A guest that counts instructions
/// always boots, because its counts must not depend on other cells.
pub fn uses_snapshots(guest: &GuestPlan) -> bool {
    guest.emulator == Emulator::Qemu && guest.accelerator != Some(Accelerator::Kvm) && !guest.boots_anew
}

impl SnapshotPool {
    /// A pool that uses the cache of this user. Files of the run go into `dir`.
    pub fn new(dir: &Path) -> SnapshotPool {
        let cache_dir = std::path::absolute(dirs::cache_dir()).unwrap_or_else(|_| dirs::cache_dir());
        // Without a cache directory each guest boots.
        let _ = std::fs::DirBuilder::new().recursive(true).mode(0o755).create(&cache_dir);
        let (verified, failed, notes) = Default::default();
        SnapshotPool { cache_dir, config_file: dir.join("config"), verified, failed, notes }
    }

    /// The notes on the snapshots, for the report.
    pub fn notes(&self) -> impl Iterator<Item = Note> + use<'_> {
        self.notes.values().cloned()
    }

    /// Returns the snapshot that a guest on this machine starts from. Makes it if it is missing, which takes as long as
    /// a boot of the machine. None if the guest must boot instead, or if a signal arrived.
    ///
    /// # Errors
    /// Its files cannot be written, or the emulator cannot be started.
    pub fn get_or_make(
        &mut self,
        machine: &Machine,
        config: &GuestConfig,
        demands: KernelDemands,
        packer: &mut InitramfsPacker,
        owner: GuestOwner,
    ) -> Result<Option<Snapshot>> {
        let Some(snapshot_dir) =
            snapshot::snapshot_dir(&self.cache_dir, machine, &packer.distinguishing_names(demands))
        else {
            let why = format!("{} is missing, or other users can write to it", self.cache_dir.display());
            self.give_up(&self.cache_dir.clone(), machine, &why);
            return Ok(None);
        };
        if self.failed.contains(&snapshot_dir) {
            return Ok(None);
        }
        if let Some(snapshot) = self.find_intact(&snapshot_dir) {
            let text = "guests with it start from a snapshot of an earlier run";
            self.add_note(&snapshot_dir, machine, text);
            return Ok(Some(snapshot));
        }
        std::fs::write(&self.config_file, PLACEHOLDER_CONFIG).map_err(Error::io("writing", &self.config_file))?;
        let (mut initramfs, modules) = packer.pack_for_snapshot(demands)?;
        // During unpacking memory holds both the file and its contents, and the contents may take at most half of
        // memory.
        if (machine.memory_mib << 20) < 3 * file_size(&initramfs.path) + MIN_MEMORY_BYTES {
            let flag = setting("guest_memory", "");
            self.give_up(&snapshot_dir, machine, &format!("it has too little memory for all modules ({flag})"));
            return Ok(None);
        }
        let boot_config =
            GuestConfig { config_follows: true, modules, request: serde_json::Value::Null, ..config.clone() };
        initramfs.set_config(&boot_config)?;
        let machine = Machine { initramfs: Some(&initramfs.path), ..machine.clone() };
        let result = self.make(&machine, &snapshot_dir, owner);
        // Free the space now. If this fails, the file is removed with its directory at the end of the run.
        let _ = std::fs::remove_file(&initramfs.path);
        result
    }

    /// The snapshot in the directory `snapshot_dir`, if it is intact. Removes a damaged one, so that another is made.
    fn find_intact(&mut self, snapshot_dir: &Path) -> Option<Snapshot> {
        let snapshot = snapshot::find_snapshot(snapshot_dir)?;
        if !self.verified.contains(snapshot_dir) && !snapshot.is_intact() {
            cache::record_damage(snapshot_dir, "boots that machine again");
            snapshot.discard();
            return None;
        }
        self.verified.insert(snapshot_dir.into());
        Some(snapshot)
    }

    /// Boots a machine and saves its snapshot in the directory `snapshot_dir`. None if that fails: the guest of the
    /// cell then boots by itself, and reports a failure of the boot.
    fn make(&mut self, machine: &Machine, snapshot_dir: &Path, owner: GuestOwner) -> Result<Option<Snapshot>> {
        let started = Instant::now();
        let (draft, stdin) = match SnapshotDraft::begin(&self.cache_dir, snapshot_dir.into()) {
            Ok(draft) => draft,
            Err(error) => {
                self.give_up(snapshot_dir, machine, &format!("{}: {error}", self.cache_dir.display()));
                return Ok(None);
            }
        };
        // Removes an incomplete snapshot, even after a crash.
        let draft_dir = MadeDir::adopt_tree(owner.journal, &draft.dir)?;
        let launch = machine.guest_command(SnapshotDraft::monitor_arguments(), stdin);
        write_command_line(machine.dir, "boot.json", &launch)?;
        let dir = draft.dir.display().to_string();
        let save = || draft.save(&machine.console()).map_err(|error| std::io::Error::other(format!("{dir}: {error}")));
        let end = run_until_ready(owner, launch, save)?;
        draft_dir.remove()?;
        match end {
            SessionEnd::Value(snapshot) => {
                let seconds = started.elapsed().as_secs_f64();
                let text = format!("a machine with it was booted in {seconds:.1} s and is kept: guests begin with it");
                self.add_note(snapshot_dir, machine, &text);
                self.verified.insert(snapshot_dir.into());
                Ok(Some(snapshot))
            }
            SessionEnd::Failed(error) => {
                self.give_up(snapshot_dir, machine, &error.why);
                Ok(None)
            }
            SessionEnd::PowerCut | SessionEnd::Interrupted => Ok(None),
        }
    }

    /// Removes a snapshot that a guest could not start from.
    pub fn discard(&mut self, snapshot: Snapshot, machine: &Machine, why: &str) {
        self.give_up(&snapshot.dir, machine, why);
        snapshot.discard();
    }

    /// Stops using the snapshot in the directory `snapshot_dir`, and notes why.
    fn give_up(&mut self, snapshot_dir: &Path, machine: &Machine, why: &str) {
        self.failed.insert(snapshot_dir.into());
        let why = why.split(CONSOLE_HEADING).next().unwrap_or_default();
        let text = format!("each guest with it boots by itself, because no machine could be kept: {why}");
        self.add_note(snapshot_dir, machine, &text);
    }

    /// Adds the note on a snapshot. The first note stays, but the note of a failure replaces it.
    fn add_note(&mut self, snapshot_dir: &Path, machine: &Machine, text: &str) {
        let text = format!("kernel {}: {text}", machine.kernel.name());
        let note = Note::new(NoteKind::Remark, text).task("boot");
        if self.failed.contains(snapshot_dir) {
            self.notes.remove(snapshot_dir);
        }
        self.notes.entry(snapshot_dir.into()).or_insert(note);
    }
}

/// The size of a file in bytes; 0 if it cannot be read.
pub fn file_size(path: &Path) -> u64 {
    path.metadata().map_or(0, |meta| meta.len())
}

/// Writes the command line of a guest to the file `name` in `dir`, as a JSON list. If the guest has a standard input,
/// the last words describe it: the state of a snapshot, or the process that requests the state from QEMU.
pub fn write_command_line(dir: &Path, name: &str, launch: &GuestCommand) -> Result<()> {
    let path = dir.join(name);
    let words = Argv::new(&launch.argv[0]).args(&launch.argv[1..]).words();
    let text = serde_json::to_string_pretty(&words).map_err(|error| RunError::Agent(error.to_string()))?;
    Ok(std::fs::write(&path, text + "\n").map_err(Error::io("writing", &path))?)
}
