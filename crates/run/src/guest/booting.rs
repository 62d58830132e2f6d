//! Boots one guest for one cell: its config, its command line, and the files that are kept of it.

use super::booted::{Beginning, Booted};
use super::hearing::{self, End};
use super::packed::{Asked, Packer};
use super::{COUNTS, Formatted, Guests};
use crate::executor::Fatal;
use crate::failed::Failed;
use crate::layout::Layout;
use crate::preflight::guests;
use crate::protocol::{Guest, MountRequest, Request, Role};
use bytesize::ByteSize;
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{Cause, CellEvent, Outcome};
use fsarena_core::factor;
use fsarena_core::plan::{Accelerator, Emulator, GuestPlan};
use fsarena_fs::fairness::VariantFacts;
use fsarena_fs::safety::ScratchDevice;
use fsarena_guest::config::GuestConfig;
use fsarena_guest::counter::Counter;
use fsarena_guest::emulator::Machine;
use fsarena_guest::launch::Launch;
use fsarena_sys::argv::Argv;
use fsarena_sys::undo::Journal;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Instant, SystemTime};

/// Where the guest mounts the filesystem under test.
const TARGET: &str = "/mnt/test";
/// Where it mounts the source disk.
const OTHER: &str = "/mnt/other";
/// The memory that a kernel needs beside its initramfs to report an error at all, in bytes.
pub const LEAST_MEMORY: u64 = 64 << 20;

impl Guests {
    /// Starts a guest for the cell and hears it to its end.
    pub(super) fn boot(
        &mut self,
        cell: &Cell,
        formatted: &Formatted,
        emit: &mut dyn FnMut(CellEvent),
    ) -> Result<Outcome, Fatal> {
        emit(CellEvent::Phase { name: "booting".into() });
        let dir = self.dir(cell);
        std::fs::create_dir_all(&dir).map_err(fsarena_sys::Error::io("making", &dir))?;
        let level = cell.variant.level(factor::KERNEL);
        let layout = Layout::of(&self.plan, &cell.variant, self.size_bytes)?;
        let options = &formatted.facts.options;
        let stack = guests::stack(&cell.variant, &layout, options.raid)?;
        let test = self.images.backing_devices(&formatted.image, &layout, stack.array)?;
        let further = guests::further_modules(&cell.variant, &stack, &options.mount);
        let machine = Machine {
            emulator: self.guest.emulator,
            accelerator: self.guest.accelerator.unwrap_or(Accelerator::Tcg),
            kernel: &self.kernels[level],
            initramfs: None,
            config: None,
            test: &test,
            journal: self.images.journal(&layout).map(ScratchDevice::path),
            other: self.images.other(),
            memory_mib: self.guest.memory.as_u64() >> 20,
            dir: &dir,
        };
        let asked =
            Asked { level, modules: &machine.kernel.modules, def: formatted.facts.def, further: &further };
        let modules = self.packer.modules(asked)?.iter().map(|module| module.name.clone()).collect();
        let config = GuestConfig {
            modules,
            events: machine.events(),
            disks: machine.disks(),
            stack,
            request: self.request(cell, &formatted.facts)?,
            ..GuestConfig::default()
        };
        let cell = ThisCell { machine: &machine, config: &config, asked };
        let Guests { guest, journal, packer, booted, counter, .. } = self;
        let mut starting = Starting { guest, journal, packer, counter: counter.as_ref() };
        let end = match booted.as_mut() {
            None => starting.anew(&cell, emit)?,
            Some(booted) => starting.with(booted, &cell, emit)?,
        };
        self.boots.extend(end.boot);
        Ok(self.with_room(end.outcome))
    }

    /// The request to the agent.
    fn request(&self, cell: &Cell, facts: &VariantFacts) -> Result<serde_json::Value, Fatal> {
        let mount = MountRequest {
            // The guest finds it by its serial number.
            source: PathBuf::new(),
            target: TARGET.into(),
            fs_type: facts.def.kernel_type.to_string(),
            options: facts.options.mount.clone(),
            journal: None,
            by_call: true,
        };
        let request = Request {
            cell: if self.guest.emulator == Emulator::Exact { unnamed(cell) } else { cell.clone() },
            idle: self.plan.idle.clone(),
            mount: Some(mount),
            root: Path::new(TARGET).join("work"),
            other: OTHER.into(),
            device: None,
            profiling: self.profiling,
            // It is root in a kernel that is there for this cell alone.
            role: Role::Alone,
        };
        let asked = Guest { request, other_type: self.plan.device.other_fs.clone() };
        serde_json::to_value(&asked).map_err(|error| Fatal::Agent(error.to_string()))
    }
}

/// A cell, as far as starting a guest for it goes.
struct ThisCell<'a> {
    machine: &'a Machine<'a>,
    config: &'a GuestConfig,
    asked: Asked<'a>,
}

/// What starting takes.
struct Starting<'a> {
    guest: &'a GuestPlan,
    journal: &'a Journal,
    packer: &'a mut Packer,
    counter: Option<&'a Counter>,
}

impl Starting<'_> {
    /// From the first instruction of its kernel.
    fn anew(&mut self, cell: &ThisCell, emit: &mut dyn FnMut(CellEvent)) -> Result<End, Fatal> {
        let initramfs = self.packer.initramfs(cell.asked)?;
        let (memory, size) = (self.guest.memory.as_u64(), file_size(initramfs.path()));
        if memory < size + LEAST_MEMORY {
            let (memory, size) = (ByteSize(memory), ByteSize(size));
            let why =
                format!("a guest with {memory} of memory has no room to boot with {size}: --guest-memory");
            return Ok(End::failed(Failed::new(Cause::Missing, why)));
        }
        initramfs.hand_over(cell.config)?;
        let machine = Machine { initramfs: Some(initramfs.path()), ..cell.machine.clone() };
        let counting = self.counter.iter().flat_map(|counter| counter.words(&machine.dir.join(COUNTS)));
        let launch = Launch {
            argv: machine.argv().into_iter().chain(counting).collect(),
            console: machine.console(),
            events: machine.events_file(),
            user_mode: machine.emulator == Emulator::Uml,
            stdin: Stdio::null(),
        };
        keep_command_line(machine.dir, "command.json", &launch)?;
        hearing::hear(self.journal, launch, self.guest, emit)
    }

    /// With a machine that has booted, where one can be had.
    fn with(
        &mut self,
        booted: &mut Booted,
        cell: &ThisCell,
        emit: &mut dyn FnMut(CellEvent),
    ) -> Result<End, Fatal> {
        let path = booted.config();
        let machine = Machine { config: Some(&path), ..cell.machine.clone() };
        let begun = Instant::now();
        let running = (self.journal, self.guest);
        let beginning = booted.beginning(&machine, cell.config, cell.asked, self.packer, running)?;
        emit(CellEvent::Spent { what: hearing::SPENT.into(), ns: begun.elapsed().as_nanos() as u64 });
        let snapshot = match beginning {
            Beginning::Kept(snapshot) => snapshot,
            Beginning::Boot => return self.anew(cell, emit),
            Beginning::Interrupted => {
                return Ok(End { outcome: Outcome::Interrupted, boot: None, spoke: false });
            }
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok();
        let config = GuestConfig { now, ..cell.config.clone() };
        let text = serde_json::to_vec(&config).map_err(|error| Fatal::Agent(error.to_string()))?;
        std::fs::write(&path, text).map_err(fsarena_sys::Error::io("writing", &path))?;
        let launch = match snapshot.launch(&machine) {
            Ok(launch) => launch,
            Err(error) => {
                booted.failed(snapshot, &machine, &error.to_string());
                return self.anew(cell, emit);
            }
        };
        keep_command_line(machine.dir, "command.json", &launch)?;
        let end = hearing::hear(self.journal, launch, self.guest, emit)?;
        match &end.outcome {
            // If the kept machine does not resume, the cell is not to blame: it gets a second chance by booting.
            Outcome::Failed { why, .. } if !end.spoke => {
                booted.failed(snapshot, &machine, why);
                self.anew(cell, emit)
            }
            _ => Ok(end),
        }
    }
}

/// The cell without what tells it from others that do the same: a longer name would be more to read, and lie elsewhere
/// in memory. The factor that the names of tasks depend on stays.
fn unnamed(cell: &Cell) -> Cell {
    let mut levels = cell.variant.levels.clone();
    levels.retain(|factor, level| factor == factor::CLIENTS && !level.is_empty());
    let variant = Variant { name: "variant".into(), levels };
    Cell { round: 0, position: 0, variant, ..cell.clone() }
}

/// The size of a file in bytes.
pub fn file_size(path: &Path) -> u64 {
    path.metadata().map_or(0, |meta| meta.len())
}

/// Keeps what a guest is started with. Its standard input, where that is not empty, is what the last words say: the
/// state of a kept machine, or who asks QEMU for it.
pub fn keep_command_line(dir: &Path, name: &str, launch: &Launch) -> Result<(), Fatal> {
    let path = dir.join(name);
    let mut argv = Argv::new(&launch.argv[0]);
    argv = argv.args(&launch.argv[1..]);
    let text =
        serde_json::to_string_pretty(&argv.words()).map_err(|error| Fatal::Agent(error.to_string()))?;
    Ok(std::fs::write(&path, text + "\n").map_err(fsarena_sys::Error::io("writing", &path))?)
}
