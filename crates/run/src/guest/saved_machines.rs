//! Saved machines for guests that count instructions, and the guests that begin with them.
//!
//! One guest boots and loads its modules, and QEMU saves it. Each cell begins with that state, which takes a second. If the cells
//! start programs of this machine, the saved guest has copied their files into its memory and no longer uses the host: while a
//! guest reads files of the host, the pace of the host determines when the guest is interrupted, so that counts would differ.
//! The memory stays in a file, which every cell maps privately, and the state has the devices alone: QEMU would otherwise write
//! the disks of the saved machine over those of the cell.

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
use fsarena_guest::config::{GuestConfig, NO_CONFIG};
use fsarena_guest::counter::COUNTS_FILE;
use fsarena_guest::emulator::{self, CLOCK_START, MEMORY_DISK_DRIVERS, Machine, MemoryFile};
use fsarena_guest::host_tree::HostTree;
use fsarena_guest::launch::GuestCommand;
use fsarena_guest::snapshot::{self, RESTORE_ARGUMENTS, SnapshotDraft, restore_devices, save_devices};
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
    dir: PathBuf,
    /// The first time of the clocks of machines with programs of the host: later than the time of every input.
    clock_start: String,
    /// The saved machines, by kernel, modules and workload.
    saved: BTreeMap<String, SavedMachine>,
    /// The directory of machines that this run shares with others, if it does.
    shared_dir: Option<PathBuf>,
}

/// A machine that has everything that its cells need, except their disks and requests.
#[derive(Debug, Clone)]
struct SavedMachine {
    memory: PathBuf,
    state: PathBuf,
}

/// A guest that begins with a saved machine. It holds nothing of the run that changes, so it can run on a separate thread.
pub struct RestoredGuest {
    journal: Journal,
    plan: GuestPlan,
    launch: GuestCommand,
    /// The connection to the monitor of QEMU.
    monitor: UnixStream,
    state: PathBuf,
    /// The file with the config that the guest reads.
    config: PathBuf,
    cut_after: Option<Duration>,
}

/// Why the guests of a run that counts instructions boot instead, each by itself; None if they begin with a saved machine.
pub fn why_not_saved(guest: &GuestPlan, kernels: &Kernels) -> Option<String> {
    if guest.emulator != Emulator::Exact {
        return Some("it does not count instructions".into());
    }
    if guest.fresh {
        return Some(format!("as {} says", setting("fresh_guests", "")));
    }
    if kernels.by_level.len() > 1 {
        return Some(
            "the run compares kernels, and where a kernel puts things in memory should not be decided once for all cells".into(),
        );
    }
    let lacking = kernels.by_level.values().find(|kernel| !emulator::has_memory_disks(&kernel.modules));
    lacking.map(|kernel| format!("{} has no disks in memory ({})", kernel.name(), MEMORY_DISK_DRIVERS.join(", ")))
}

impl SavedMachine {
    /// The machine of this directory. What an interrupted run left there is removed; its state was then not complete.
    fn at(dir: &Path) -> Result<SavedMachine, Error> {
        let saved = SavedMachine { memory: dir.join("memory"), state: dir.join("state") };
        if !saved.state.exists() {
            let _ = std::fs::remove_dir_all(dir);
            std::fs::create_dir_all(dir).map_err(Error::io("making", dir))?;
        }
        Ok(saved)
    }
}

impl RestoredGuest {
    /// Runs the guest to its end, or until `is_needless` is set.
    ///
    /// # Errors
    /// The emulator cannot be started, or the undo journal cannot be written.
    pub fn run(self, is_needless: &AtomicBool, emit: CellSink) -> Result<GuestExit> {
        let RestoredGuest { journal, plan, launch, monitor, state, config, cut_after } = self;
        let owner = GuestOwner { journal: &journal, guest_plan: &plan, is_needless: Some(is_needless) };
        // A guest that does not continue is silent, and is ended for that.
        let restoring = std::thread::spawn(move || restore_devices(monitor, &state));
        let mut exit = run_guest(owner, launch, cut_after, emit)?;
        if let (Ok(Err(error)), Outcome::Failed { why, .. }) = (restoring.join(), &mut exit.outcome) {
            *why = format!("the saved machine did not continue: {error}; {why}");
        }
        // If this fails, the file goes with its directory at the end of the run.
        let _ = std::fs::remove_file(&config);
        Ok(exit)
    }
}

impl SavedMachines {
    /// Files of the run go into this directory, and machines without programs of the host into `shared_dir`, if the run
    /// shares them.
    pub fn new(dir: &Path, shared_dir: Option<PathBuf>) -> SavedMachines {
        let clock_start = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        // QEMU takes no time zone: it is UTC.
        let (clock_start, saved) = (clock_start.trim_end_matches('Z').into(), BTreeMap::new());
        SavedMachines { dir: dir.into(), clock_start, saved, shared_dir }
    }

    /// The first time of the clock of a machine with these files of the host. Without files it is the same in all runs,
    /// because the kernel also draws its random numbers from it.
    fn clock(&self, tree: Option<&HostTree>) -> &str {
        if tree.is_some() { &self.clock_start } else { CLOCK_START }
    }
}

impl GuestStarter<'_> {
    /// Prepares the guest of a cell that begins with the saved machine of this key, which has the files of `tree`. Saves the
    /// machine if it is the first of its key. Returns how the cell ended if the machine cannot be saved.
    ///
    /// # Errors
    /// The emulator cannot be started, or its files cannot be written.
    pub fn prepare_restored(
        &mut self,
        machines: &mut SavedMachines,
        key: &str,
        tree: Option<&HostTree>,
        cell: &GuestCell,
    ) -> Result<std::result::Result<RestoredGuest, GuestExit>> {
        if !machines.saved.contains_key(key) {
            match self.save_machine(machines, tree, cell)? {
                SessionEnd::Value(machine) => drop(machines.saved.insert(key.into(), machine)),
                SessionEnd::Failed(error) => return Ok(Err(GuestExit::not_started(error.into()))),
                SessionEnd::PowerCut | SessionEnd::Interrupted => {
                    return Ok(Err(GuestExit::not_started(Outcome::Interrupted)));
                }
            }
        }
        let SavedMachine { memory, state } = machines.saved[key].clone();
        let name = cell.machine.dir.file_name().unwrap_or_default().to_string_lossy();
        let config = machines.dir.join(format!("config-{name}"));
        let text = serde_json::to_vec(cell.config).map_err(|error| RunError::Agent(error.to_string()))?;
        std::fs::write(&config, text).map_err(Error::io("writing", &config))?;
        let memory = Some(MemoryFile { path: &memory, is_written: false });
        let machine =
            Machine { config: Some(&config), memory, clock_start: machines.clock(tree), ..cell.machine.clone() };
        let (monitor, qemu_end) = UnixStream::pair().map_err(Error::io("connecting", "QEMU"))?;
        let counting = self.counter.iter().flat_map(|counter| counter.count_arguments(&machine.dir.join(COUNTS_FILE)));
        let further =
            RESTORE_ARGUMENTS.map(OsString::from).into_iter().chain(SnapshotDraft::monitor_arguments()).chain(counting);
        let launch = machine.guest_command(further, Stdio::from(OwnedFd::from(qemu_end)));
        write_command_line(machine.dir, "command.json", &launch)?;
        let (journal, plan) = (self.owner.journal.clone(), self.owner.guest_plan.clone());
        Ok(Ok(RestoredGuest { journal, plan, launch, monitor, state, config, cut_after: self.cut_after }))
    }

    /// Boots a machine, has it copy these files of the host if there are any, and saves it.
    fn save_machine(
        &mut self,
        machines: &SavedMachines,
        tree: Option<&HostTree>,
        cell: &GuestCell,
    ) -> Result<SessionEnd<SavedMachine>> {
        let number = machines.saved.len();
        let file = |kind: &str| machines.dir.join(format!("machine-{number}.{kind}"));
        let config = machines.dir.join("config");
        std::fs::write(&config, NO_CONFIG).map_err(Error::io("writing", &config))?;
        let (mut initramfs, mut modules) = self.packer.pack_for_snapshot(cell.demands)?;
        // The drivers of disks are loaded by each guest, so that they read its own.
        modules.retain(|name| !MEMORY_DISK_DRIVERS.contains(&name.as_str()));
        let boot_config = GuestConfig {
            config_follows: true,
            modules,
            host_tree: tree.cloned(),
            request: serde_json::Value::Null,
            ..cell.config.clone()
        };
        initramfs.set_config(&boot_config)?;
        let shared = machines.shared_dir.as_ref().filter(|_| tree.is_none());
        let shared_machine_dir =
            shared.map(|shared| shared_machine_dir_of(shared, cell, &initramfs.path)).transpose()?.flatten();
        let saved = match shared_machine_dir {
            Some(shared_machine_dir) => SavedMachine::at(&shared_machine_dir)?,
            None => SavedMachine { memory: file("memory"), state: file("state") },
        };
        if saved.state.exists() {
            return Ok(SessionEnd::Value(saved));
        }
        let test = [make_blank_copy(&file("test"), &cell.machine.test_images[0])?];
        let other = make_blank_copy(&file("other"), cell.machine.source_image)?;
        let machine = Machine {
            initramfs: Some(&initramfs.path),
            config: Some(&config),
            test_images: &test,
            source_image: &other,
            memory: Some(MemoryFile { path: &saved.memory, is_written: true }),
            clock_start: machines.clock(tree),
            ..cell.machine.clone()
        };
        let (our_end, qemu_end) = UnixStream::pair().map_err(Error::io("connecting", "QEMU"))?;
        let hold = self.counter.map(|counter| (counter, file("hold")));
        let holding = hold.iter().flat_map(|(counter, hold)| counter.hold_arguments(hold));
        let launch = machine.guest_command(
            SnapshotDraft::monitor_arguments().into_iter().chain(holding),
            Stdio::from(OwnedFd::from(qemu_end)),
        );
        write_command_line(machine.dir, "boot.json", &launch)?;
        let save = || {
            let new = saved.state.with_extension("new");
            save_devices(our_end, &new, hold.as_ref().map(|(_, hold)| hold.as_path()))?;
            std::fs::rename(&new, &saved.state)?;
            Ok(saved.clone())
        };
        let end = run_until_ready(self.owner, launch, save)?;
        // Their directory goes with the run, but they may be large.
        for used in [&initramfs.path, &test[0], &other] {
            let _ = std::fs::remove_file(used);
        }
        Ok(match end {
            SessionEnd::Failed(error) => SessionEnd::Failed(error.with_part("saving a machine")),
            end => end,
        })
    }
}

/// The directory of the machine that runs share which boot this initramfs with this kernel and disks of these sizes. None
/// if other users can write there.
fn shared_machine_dir_of(shared: &Path, cell: &GuestCell, initramfs: &Path) -> Result<Option<PathBuf>, Error> {
    let digest = |path: &Path| cache::digest(File::open(path)?).map_err(std::io::Error::other);
    let mut parts = vec![digest(initramfs).map_err(Error::io("reading", initramfs))?];
    for image in cell.machine.test_images.iter().map(PathBuf::as_path).chain([cell.machine.source_image]) {
        parts.push(image.metadata().map_err(Error::io("examining", image))?.len().to_string());
    }
    std::fs::create_dir_all(shared).map_err(Error::io("making", shared))?;
    Ok(snapshot::snapshot_dir(shared, cell.machine, &parts))
}

/// Makes an empty file that is as large as an image, and returns its path.
fn make_blank_copy(path: &Path, image: &Path) -> Result<PathBuf, Error> {
    let make = || File::create(path)?.set_len(image.metadata()?.len());
    make().map_err(Error::io("writing", path))?;
    Ok(path.into())
}
