//! Machines that were saved for guests that count instructions and start programs of this machine.
//!
//! While such a guest reads files of the host, the host's pace determines when it is interrupted, and counts differ from
//! one guest to the next. So one guest copies the files into its memory and gives the host up; QEMU saves it; and each cell
//! begins with that state. The memory stays in a file, which every cell maps privately, and the state has the devices
//! alone: QEMU would otherwise write the disks of the saved machine over those of the cell.

use super::boot::{GuestCell, GuestStarter};
use super::session::{GuestExit, SessionEnd, run_until};
use super::snapshot_pool::keep_command_line;
use crate::error::{CellError, Result, RunError};
use crate::executor::CellSink;
use fsarena_core::event::{Cause, Outcome};
use fsarena_guest::config::{GuestConfig, NO_CONFIG, NOT_READY, READY};
use fsarena_guest::counter::COUNTS;
use fsarena_guest::emulator::{MEMORY_DISKS, Machine, MemoryFile};
use fsarena_guest::host_tree::HostTree;
use fsarena_guest::snapshot::{Draft, RESTORED, restore_devices, save_devices};
use fsarena_sys::Error;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::SystemTime;

/// The saved machines of a run.
pub struct SavedMachines {
    dir: PathBuf,
    /// The time that their clocks begin with: later than that of every input.
    clock: String,
    /// By kernel, modules and workload.
    saved: BTreeMap<String, SavedMachine>,
}

/// A machine that has all files of the host that its programs read.
#[derive(Debug, Clone)]
struct SavedMachine {
    memory: PathBuf,
    state: PathBuf,
}

impl SavedMachines {
    /// Nothing is saved yet. Files of the run go into this directory.
    pub fn new(dir: &Path) -> SavedMachines {
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        // QEMU takes no time zone: it is UTC.
        SavedMachines { dir: dir.into(), clock: now.trim_end_matches('Z').into(), saved: BTreeMap::new() }
    }

    fn config(&self) -> PathBuf {
        self.dir.join("config")
    }
}

impl GuestStarter<'_> {
    /// Starts a guest of a cell from a saved machine with these files, and runs it to its end. The first of its kind is saved
    /// now.
    ///
    /// # Errors
    /// Where the emulator cannot be started, or its files cannot be written.
    pub fn start_from_machine(
        &mut self,
        machines: &mut SavedMachines,
        key: &str,
        tree: &HostTree,
        cell: &GuestCell,
        emit: CellSink,
    ) -> Result<GuestExit> {
        if !machines.saved.contains_key(key) {
            match self.save_machine(machines, tree, cell)? {
                SessionEnd::Value(machine) => drop(machines.saved.insert(key.into(), machine)),
                SessionEnd::Failed(error) => return Ok(GuestExit::not_started(error.into())),
                SessionEnd::PowerCut | SessionEnd::Interrupted => {
                    return Ok(GuestExit::not_started(Outcome::Interrupted));
                }
            }
        }
        let SavedMachine { memory, state } = machines.saved[key].clone();
        let path = machines.config();
        let text = serde_json::to_vec(cell.config).map_err(|error| RunError::Agent(error.to_string()))?;
        std::fs::write(&path, text).map_err(Error::io("writing", &path))?;
        let memory = Some(MemoryFile { path: &memory, is_written: false });
        let machine = Machine { config: Some(&path), memory, clock: &machines.clock, ..cell.machine.clone() };
        let (ours, theirs) = UnixStream::pair().map_err(Error::io("connecting", "QEMU"))?;
        let counting = self.counter.iter().flat_map(|counter| counter.words(&machine.dir.join(COUNTS)));
        let further = RESTORED.map(OsString::from).into_iter().chain(Draft::words()).chain(counting);
        let launch = machine.launch(further, Stdio::from(OwnedFd::from(theirs)));
        // A guest that does not continue is silent, and is ended for that.
        let restoring = std::thread::spawn(move || restore_devices(ours, &state));
        let mut exit = self.run(&machine, launch, emit)?;
        if let (Ok(Err(error)), Outcome::Failed { why, .. }) = (restoring.join(), &mut exit.outcome) {
            *why = format!("the saved machine did not continue: {error}; {why}");
        }
        Ok(exit)
    }

    /// Boots a machine, has it copy these files of the host, and saves it.
    fn save_machine(
        &mut self,
        machines: &SavedMachines,
        tree: &HostTree,
        cell: &GuestCell,
    ) -> Result<SessionEnd<SavedMachine>> {
        let number = machines.saved.len();
        let file = |kind: &str| machines.dir.join(format!("machine-{number}.{kind}"));
        let saved = SavedMachine { memory: file("memory"), state: file("state") };
        let config = machines.config();
        std::fs::write(&config, NO_CONFIG).map_err(Error::io("writing", &config))?;
        let (mut initramfs, mut modules) = self.packer.pack_for_snapshot(cell.demands)?;
        // The drivers of disks are loaded by each guest, so that they read its own.
        modules.retain(|name| !MEMORY_DISKS.contains(&name.as_str()));
        let first = GuestConfig {
            later: true,
            modules,
            host_tree: Some(tree.clone()),
            request: serde_json::Value::Null,
            ..cell.config.clone()
        };
        initramfs.hand_over(&first)?;
        let test = [blank(&file("test"), &cell.machine.test[0])?];
        let other = blank(&file("other"), cell.machine.other)?;
        let machine = Machine {
            initramfs: Some(&initramfs.path),
            config: Some(&config),
            test: &test,
            other: &other,
            memory: Some(MemoryFile { path: &saved.memory, is_written: true }),
            clock: &machines.clock,
            ..cell.machine.clone()
        };
        let (ours, theirs) = UnixStream::pair().map_err(Error::io("connecting", "QEMU"))?;
        let launch = machine.launch(Draft::words(), Stdio::from(OwnedFd::from(theirs)));
        keep_command_line(machine.dir, "boot.json", &launch)?;
        let mut monitor = Some(ours);
        let failed = |why: String| CellError::new(Cause::Work, format!("saving a machine: {why}"));
        let (end, _) = run_until(self.owner, launch, &mut |line, _| {
            if let Some(why) = line.strip_prefix(NOT_READY) {
                return Err(failed(why.into()));
            }
            let Some(monitor) = monitor.take().filter(|_| line == READY) else {
                return Err(failed(format!("the guest said {line:?} instead of being ready")));
            };
            save_devices(monitor, &saved.state)
                .map(|()| Some(saved.clone()))
                .map_err(|error| failed(error.to_string()))
        })?;
        // They are in a directory that goes with the run, and may be large.
        for used in [&initramfs.path, &test[0], &other] {
            let _ = std::fs::remove_file(used);
        }
        Ok(end)
    }
}

/// Makes an empty file that is as large as an image, and returns its path.
fn blank(path: &Path, image: &Path) -> Result<PathBuf, Error> {
    let make = || File::create(path)?.set_len(image.metadata()?.len());
    make().map_err(Error::io("writing", path))?;
    Ok(path.into())
}
