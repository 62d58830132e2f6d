//! Starts the guest of a cell: from a snapshot of a booted machine, or by booting its kernel.

use super::initramfs::{InitramfsPacker, KernelDemands};
use super::session::{GuestExit, GuestOwner, run_guest};
use super::snapshot_pool::{MIN_MEMORY_BYTES, SnapshotPool, file_size, write_command_line};
use crate::error::{CellError, Result, RunError};
use crate::executor::CellSink;
use bytesize::ByteSize;
use fsarena_core::event::{Activity, CellEvent, Outcome};
use fsarena_core::setting_text::setting;
use fsarena_guest::instruction_counter::{COUNTS_FILE, CounterPlugin};
use fsarena_guest::{config::GuestConfig, emulator::Machine, launch::GuestCommand};
use fsarena_sys::cancel;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

/// The guest of a cell: its machine, its config, and the modules of its kernel.
pub struct GuestCell<'a> {
    /// The virtual machine.
    pub machine: &'a Machine<'a>,
    /// The config that the guest reads.
    pub config: &'a GuestConfig,
    /// The modules that its kernel needs.
    pub demands: KernelDemands<'a>,
}

/// Starts the guest of a cell.
pub struct GuestStarter<'a> {
    /// The run that the guest belongs to.
    pub owner: GuestOwner<'a>,
    /// The packer of the initramfs.
    pub packer: &'a mut InitramfsPacker,
    /// The plugin that counts instructions; None for a guest that counts none, or if this emulator cannot load it. A
    /// guest that counts instructions never starts from a snapshot.
    pub counter: Option<&'a CounterPlugin>,
    /// When the power is cut, counted from the beginning of the work; None if it stays on.
    pub cut_after: Option<Duration>,
    /// The connection to a terminal, which becomes the standard input of the emulator; None for guests without a
    /// terminal. A guest with a terminal must boot: the standard input of one that starts from a snapshot is the
    /// snapshot.
    pub terminal: Option<OwnedFd>,
}

impl GuestStarter<'_> {
    /// Boots a guest and runs it to its end.
    ///
    /// # Errors
    /// The emulator cannot be started, or its files cannot be written.
    pub fn boot(&mut self, cell: &GuestCell, emit: CellSink) -> Result<GuestExit> {
        let initramfs = self.packer.initramfs(cell.demands)?;
        let (memory_bytes, initramfs_bytes) = (self.owner.guest_plan.memory.as_u64(), file_size(&initramfs.path));
        if memory_bytes < initramfs_bytes + MIN_MEMORY_BYTES {
            let (memory, size) = (ByteSize(memory_bytes), ByteSize(initramfs_bytes));
            let why = format!(
                "a guest with {memory} of memory cannot boot, because its initramfs takes {size}: raise {}",
                setting("guest_memory", "")
            );
            return Ok(GuestExit::without_messages(CellError::missing(why).into()));
        }
        initramfs.set_config(cell.config)?;
        let path = initramfs.path.clone();
        let machine = Machine { initramfs: Some(&path), ..cell.machine.clone() };
        let counting = self.counter.iter().flat_map(|counter| counter.count_arguments(&machine.dir.join(COUNTS_FILE)));
        let stdin = self.terminal.take().map_or_else(Stdio::null, Stdio::from);
        self.run(&machine, machine.guest_command(counting, stdin), emit)
    }

    /// Starts a guest from a snapshot of a booted machine, if the pool has one, and runs it to its end; else boots it.
    /// For guests without a terminal that count no instructions.
    ///
    /// # Errors
    /// Those of [`GuestStarter::boot`].
    pub fn start_from_snapshot(
        &mut self,
        pool: &mut SnapshotPool,
        cell: &GuestCell,
        emit: CellSink,
    ) -> Result<GuestExit> {
        let config_file = pool.config_file.clone();
        let machine = Machine { config: Some(&config_file), ..cell.machine.clone() };
        let started = Instant::now();
        // Only the writes of a cell are recorded. The machine of the snapshot only boots; its guest cannot see the
        // difference.
        let unrecorded = Machine { write_recording: None, ..machine.clone() };
        let snapshot = pool.get_or_make(&unrecorded, cell.config, cell.demands, self.packer, self.owner)?;
        emit(CellEvent::Spent { activity: Activity::Boot, ns: started.elapsed().as_nanos() as u64 });
        let Some(snapshot) = snapshot else {
            if cancel::received_signal().is_some() {
                return Ok(GuestExit::without_messages(Outcome::Interrupted));
            }
            return self.boot(cell, emit);
        };
        // The clock of the snapshot is old; the guest sets it to this time.
        let host_time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok();
        let config = GuestConfig { host_time, ..cell.config.clone() };
        let text = serde_json::to_vec(&config).map_err(|error| RunError::Agent(error.to_string()))?;
        std::fs::write(&config_file, text).map_err(fsarena_sys::Error::io("writing", &config_file))?;
        let why = match snapshot.guest_command(&machine) {
            Ok(launch) => match self.run(&machine, launch, emit)? {
                // The snapshot did not resume, so this is no failure of the cell. Boot its guest instead.
                GuestExit { outcome: Outcome::Failed { why, .. }, has_sent: false, .. } => why,
                exit => return Ok(exit),
            },
            Err(error) => error.to_string(),
        };
        pool.discard(snapshot, &machine, &why);
        self.boot(cell, emit)
    }

    /// Writes the command line of a guest to a file in the directory of its machine, and runs the guest to its end.
    pub(super) fn run(&self, machine: &Machine, launch: GuestCommand, emit: CellSink) -> Result<GuestExit> {
        write_command_line(machine.dir, "command.json", &launch)?;
        run_guest(self.owner, launch, self.cut_after, emit)
    }
}
