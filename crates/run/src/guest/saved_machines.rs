//! Saved machines for guests that count instructions, and the guests that begin with them.
//!
//! One guest boots and loads its modules, and QEMU saves its machine. Each cell begins with the saved machine, which
//! takes a second. If the cells start programs of this machine, the saved guest has copied their files into its memory
//! and no longer reads files of the host. Else the speed of the host would decide when the guest is interrupted, and
//! counts would differ.
//!
//! A saved machine has two files. Every cell maps the file with the memory privately. The other file has the state of
//! the devices without the contents of the disks, because QEMU would write these over the disks of the cell.

use super::boot::{GuestCell, GuestStarter};
use super::session::{GuestExit, GuestOwner, SessionEnd, run_guest, run_until_ready};
use super::snapshot_pool::write_command_line;
use crate::error::{Result, RunError};
use crate::executor::CellSink;
use crate::preflight::Kernels;
use fsarena_core::event::Outcome;
use fsarena_core::plan::{Emulator, GuestPlan};
use fsarena_core::setting_text::setting;
use fsarena_guest::cache;
use fsarena_guest::config::{GuestConfig, PLACEHOLDER_CONFIG};
use fsarena_guest::emulator::{self, CLOCK_START, MEMORY_DISK_DRIVERS, Machine, MemoryFile};
use fsarena_guest::host_tree::HostTree;
use fsarena_guest::instruction_counter::COUNTS_FILE;
use fsarena_guest::launch::GuestCommand;
use fsarena_guest::snapshot::{self, RESTORE_ARGUMENTS, SnapshotDraft, restore_machine, save_machine};
use fsarena_sys::{Error, undo::Journal};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

/// The saved machines of a run.
pub struct SavedMachines {
    /// The directory of files that only this run uses.
    dir: PathBuf,
    /// The time at which the clocks of machines with programs of the host begin, as QEMU reads it. It is the time of
    /// this run, so that no input has a later time.
    clock_start: String,
    /// The saved machines, by a key of kernel, modules and workload.
    saved: BTreeMap<String, SavedMachine>,
    /// The directory of machines that this run shares with others, if it does.
    shared_dir: Option<PathBuf>,
}

/// The files of a saved machine, which has everything that its cells need except their disks and requests.
#[derive(Debug, Clone)]
struct SavedMachine {
    memory_file: PathBuf,
    /// The file with the state of the devices. It exists only if the machine was saved completely.
    state_file: PathBuf,
}

/// A guest that is ready to begin with a saved machine. It shares no mutable state with the run, so it can run on a
/// separate thread.
pub struct RestoredGuest {
    journal: Journal,
    plan: GuestPlan,
    launch: GuestCommand,
    /// The connection to the monitor of QEMU.
    monitor: UnixStream,
    /// The file with the state of the devices.
    state_file: PathBuf,
    /// The file with the config that the guest reads.
    config_file: PathBuf,
    cut_after: Option<Duration>,
}

/// Why the guests of a run cannot begin with a saved machine, so that each boots; None if they can.
pub fn why_not_saved(guest: &GuestPlan, kernels: &Kernels) -> Option<String> {
    if guest.emulator != Emulator::Exact {
        return Some("it does not count instructions".into());
    }
    if guest.boots_anew {
        return Some(format!("as {} says", setting("fresh_guests", "")));
    }
    if kernels.by_level.len() > 1 {
        return Some(
            "the run compares kernels, and where a kernel puts things in memory should not be decided once for all cells".into(),
        );
    }
    let kernel_without_disks = kernels.by_level.values().find(|kernel| !emulator::has_memory_disks(&kernel.modules));
    kernel_without_disks
        .map(|kernel| format!("{} has no disks in memory ({})", kernel.name(), MEMORY_DISK_DRIVERS.join(", ")))
}

impl SavedMachine {
    /// The machine in this directory. Removes the files of a machine that an interrupted run did not save completely.
    fn in_dir(dir: &Path) -> Result<SavedMachine, Error> {
        let saved = SavedMachine { memory_file: dir.join("memory"), state_file: dir.join("state") };
        if !saved.state_file.exists() {
            let _ = std::fs::remove_dir_all(dir);
            std::fs::create_dir_all(dir).map_err(Error::io("making", dir))?;
        }
        Ok(saved)
    }
}

/// The result of starting a guest.
pub enum StartedGuest {
    /// The guest was run to its end.
    Ended(GuestExit),
    /// The guest is ready, and can run on a separate thread.
    Restored(Box<RestoredGuest>),
}

impl RestoredGuest {
    /// Runs the guest to its end, or until `is_needless` is set.
    ///
    /// # Errors
    /// The emulator cannot be started, or the undo journal cannot be written.
    pub fn run(self, is_needless: &AtomicBool, emit: CellSink) -> Result<GuestExit> {
        let RestoredGuest { journal, plan, launch, monitor, state_file, config_file, cut_after } = self;
        let owner = GuestOwner { journal: &journal, guest_plan: &plan, is_needless: Some(is_needless) };
        // If this fails, the guest stays silent, and `run_guest` ends it for its silence.
        let restoring = std::thread::spawn(move || restore_machine(monitor, &state_file));
        let mut exit = run_guest(owner, launch, cut_after, emit)?;
        if let (Ok(Err(error)), Outcome::Failed { why, .. }) = (restoring.join(), &mut exit.outcome) {
            *why = format!("the saved machine did not continue: {error}; {why}");
        }
        // If this fails, the file is removed with its directory at the end of the run.
        let _ = std::fs::remove_file(&config_file);
        Ok(exit)
    }
}

impl SavedMachines {
    /// No saved machines yet. Files of the run go into `dir`. Machines without programs of the host go into
    /// `shared_dir`, if the run shares them with other runs.
    pub fn new(dir: &Path, shared_dir: Option<PathBuf>) -> SavedMachines {
        let clock_start = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        // QEMU reads a time without a time zone, in UTC.
        let (clock_start, saved) = (clock_start.trim_end_matches('Z').into(), BTreeMap::new());
        SavedMachines { dir: dir.into(), clock_start, saved, shared_dir }
    }

    /// The time at which the clock of a machine begins. `tree` has the files of the host in the machine. For a machine
    /// without such files the time is the same in all runs, because the random numbers of the kernel depend on it too.
    fn clock_start(&self, tree: Option<&HostTree>) -> &str {
        if tree.is_some() { &self.clock_start } else { CLOCK_START }
    }
}

impl GuestStarter<'_> {
    /// Prepares the guest of a cell, which begins with the saved machine of this key. Saves that machine first if it is
    /// missing; it then has the files of `tree`. Returns how the cell ended if the machine cannot be saved.
    ///
    /// # Errors
    /// The emulator cannot be started, or its files cannot be written.
    pub fn prepare_restored(
        &mut self,
        machines: &mut SavedMachines,
        key: &str,
        tree: Option<&HostTree>,
        cell: &GuestCell,
    ) -> Result<StartedGuest> {
        if !machines.saved.contains_key(key) {
            match self.save_machine(machines, tree, cell)? {
                SessionEnd::Value(machine) => drop(machines.saved.insert(key.into(), machine)),
                SessionEnd::Failed(error) => return Ok(StartedGuest::Ended(GuestExit::without_messages(error.into()))),
                SessionEnd::PowerCut | SessionEnd::Interrupted => {
                    return Ok(StartedGuest::Ended(GuestExit::without_messages(Outcome::Interrupted)));
                }
            }
        }
        let SavedMachine { memory_file, state_file } = machines.saved[key].clone();
        let name = cell.machine.dir.file_name().unwrap_or_default().to_string_lossy();
        let config_file = machines.dir.join(format!("config-{name}"));
        let text = serde_json::to_vec(cell.config).map_err(|error| RunError::Agent(error.to_string()))?;
        std::fs::write(&config_file, text).map_err(Error::io("writing", &config_file))?;
        let memory = Some(MemoryFile { path: &memory_file, keeps_writes: false });
        let machine = Machine {
            config: Some(&config_file),
            memory,
            clock_start: machines.clock_start(tree),
            ..cell.machine.clone()
        };
        let (monitor, qemu_end) = UnixStream::pair().map_err(Error::io("connecting", "QEMU"))?;
        let counting = self.counter.iter().flat_map(|counter| counter.count_arguments(&machine.dir.join(COUNTS_FILE)));
        let further_arguments =
            RESTORE_ARGUMENTS.map(OsString::from).into_iter().chain(SnapshotDraft::monitor_arguments()).chain(counting);
        let launch = machine.guest_command(further_arguments, Stdio::from(OwnedFd::from(qemu_end)));
        write_command_line(machine.dir, "command.json", &launch)?;
        let (journal, plan) = (self.owner.journal.clone(), self.owner.guest_plan.clone());
        let cut_after = self.cut_after;
        let guest = RestoredGuest { journal, plan, launch, monitor, state_file, config_file, cut_after };
        Ok(StartedGuest::Restored(Box::new(guest)))
    }

    /// Boots a machine, lets it copy the files of `tree` from the host, and saves it. Returns a shared machine that was
    /// saved already, if the run shares machines.
    fn save_machine(
        &mut self,
        machines: &SavedMachines,
        tree: Option<&HostTree>,
        cell: &GuestCell,
    ) -> Result<SessionEnd<SavedMachine>> {
        let number = machines.saved.len();
        let path_of = |kind: &str| machines.dir.join(format!("machine-{number}.{kind}"));
        let config_file = machines.dir.join("config");
        std::fs::write(&config_file, PLACEHOLDER_CONFIG).map_err(Error::io("writing", &config_file))?;
        let (mut initramfs, mut modules) = self.packer.pack_for_snapshot(cell.demands)?;
        // Each guest loads the drivers of the disks itself, so that they find the disks of its cell.
        modules.retain(|name| !MEMORY_DISK_DRIVERS.contains(&name.as_str()));
        let boot_config = GuestConfig {
            config_follows: true,
            modules,
            host_tree: tree.cloned(),
            request: serde_json::Value::Null,
            ..cell.config.clone()
        };
        initramfs.set_config(&boot_config)?;
        let shared_dir = machines.shared_dir.as_ref().filter(|_| tree.is_none());
        let shared_machine_dir =
            shared_dir.map(|dir| shared_machine_dir_of(dir, cell, &initramfs.path)).transpose()?.flatten();
        let saved = match shared_machine_dir {
            Some(shared_machine_dir) => SavedMachine::in_dir(&shared_machine_dir)?,
            None => SavedMachine { memory_file: path_of("memory"), state_file: path_of("state") },
        };
        if saved.state_file.exists() {
            return Ok(SessionEnd::Value(saved));
        }
        let test_images = [make_blank_copy(&path_of("test"), &cell.machine.test_images[0])?];
        let source_image = make_blank_copy(&path_of("other"), cell.machine.source_image)?;
        let machine = Machine {
            initramfs: Some(&initramfs.path),
            config: Some(&config_file),
            test_images: &test_images,
            source_image: &source_image,
            memory: Some(MemoryFile { path: &saved.memory_file, keeps_writes: true }),
            clock_start: machines.clock_start(tree),
            ..cell.machine.clone()
        };
        let (our_end, qemu_end) = UnixStream::pair().map_err(Error::io("connecting", "QEMU"))?;
        let hold = self.counter.map(|counter| (counter, path_of("hold")));
        let hold_arguments = hold.iter().flat_map(|(counter, hold_file)| counter.hold_arguments(hold_file));
        let launch = machine.guest_command(
            SnapshotDraft::monitor_arguments().into_iter().chain(hold_arguments),
            Stdio::from(OwnedFd::from(qemu_end)),
        );
        write_command_line(machine.dir, "boot.json", &launch)?;
        let save = || {
            let new_file = saved.state_file.with_extension("new");
            save_machine(our_end, &new_file, hold.as_ref().map(|(_, hold_file)| hold_file.as_path()))?;
            std::fs::rename(&new_file, &saved.state_file)?;
            Ok(saved.clone())
        };
        let end = run_until_ready(self.owner, launch, save)?;
        // Free the space now. If this fails, the files are removed with their directory at the end of the run.
        for file in [&initramfs.path, &test_images[0], &source_image] {
            let _ = std::fs::remove_file(file);
        }
        Ok(match end {
            SessionEnd::Failed(error) => SessionEnd::Failed(error.with_part("saving a machine")),
            end => end,
        })
    }
}

/// The directory below `shared_dir` of the machine that runs share if they boot the same initramfs with the same kernel
/// and disks of the same sizes. None if other users can write to `shared_dir`.
fn shared_machine_dir_of(shared_dir: &Path, cell: &GuestCell, initramfs: &Path) -> Result<Option<PathBuf>, Error> {
    let digest = |path: &Path| cache::digest(File::open(path)?).map_err(std::io::Error::other);
    let mut parts = vec![digest(initramfs).map_err(Error::io("reading", initramfs))?];
    for image in cell.machine.test_images.iter().map(PathBuf::as_path).chain([cell.machine.source_image]) {
        parts.push(image.metadata().map_err(Error::io("examining", image))?.len().to_string());
    }
    std::fs::create_dir_all(shared_dir).map_err(Error::io("making", shared_dir))?;
    Ok(snapshot::snapshot_dir(shared_dir, cell.machine, &parts))
}

/// Makes a file of zeros that is as large as an image, and returns its path.
fn make_blank_copy(path: &Path, image: &Path) -> Result<PathBuf, Error> {
    let make = || File::create(path)?.set_len(image.metadata()?.len());
    make().map_err(Error::io("writing", path))?;
    Ok(path.into())
}
