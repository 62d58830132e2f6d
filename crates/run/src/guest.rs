//! Runs cells in guests: formats image files on this machine, and boots a guest kernel that runs the workload on them. This
//! requires neither root nor a device of this machine.

mod ageing;
pub(crate) mod ager;
mod boot;
mod early;
mod host_programs;
mod images;
mod initramfs;
mod readings;
mod saved_machines;
mod session;
mod snapshot_pool;

pub use initramfs::guest_modules;

use crate::aged::AgedImages;
use crate::ageing::AGED;
use crate::axes;
use crate::context::RunContext;
use crate::error::{CellError, Result, RunError};
use crate::executor::{CellSink, Executor, Log, RunSink, logged};
use crate::format_cache::{self, FormatCache, MadeFilesystem};
use crate::layers;
use crate::layout::Layout;
use crate::packed::WORK;
use crate::packed_programs::{self, OTHER};
use crate::power_cut::{self, PowerSupply};
use crate::preflight::{Kernels, guests};
use crate::protocol::{Guest, MountRequest, Power, ProcessRole, Request};
use crate::shell::{HostTerminal, ShellSession};
use ageing::Ageing;
use boot::{GuestCell, GuestStarter};
use early::EarlyGuests;
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{Cause, CellEvent, Event, Note, NoteKind, Outcome, Phase};
use fsarena_core::plan::{Accelerator, Backing, Emulator, GuestPlan};
use fsarena_core::setting_text::setting;
use fsarena_core::{factor, matrix, metric::reading};
use fsarena_fs::lifecycle::{self, Devices, VariantOptions};
use fsarena_fs::{def::FsDef, fairness::VariantFacts, grammar, safety::ScratchDevice};
use fsarena_guest::cache;
use fsarena_guest::config::{GuestConfig, Stack};
use fsarena_guest::counter::{COUNTS, Counter, counts};
use fsarena_guest::emulator::{self, Machine, QEMU};
use fsarena_guest::kernel::GuestKernel;
use fsarena_guest::layout::MemoryLayout;
use fsarena_sys::{Error, argv::Argv, cancel, dirs, kernel::SysRoot};
use host_programs::HostPrograms;
use images::Images;
use initramfs::{KernelDemands, Packer};
use saved_machines::{RestoredGuest, SavedMachines};
use session::{GuestExit, GuestOwner};
use snapshot_pool::SnapshotPool;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, time::Duration};

/// With less free space than this many bytes, sparse images on the host can no longer grow.
const SCARCE_BYTES: u64 = 1 << 20;
/// Where the guest mounts the filesystem under test. Programs of this machine have no file below `/run`.
const TARGET: &str = "/run/fsarena/test";

/// A freshly made filesystem for a cell, with its facts and its image.
struct Formatted {
    facts: VariantFacts,
    image: PathBuf,
    /// The size of a read-only filesystem with all its files, in bytes; None for other filesystems.
    packed_bytes: Option<u64>,
    /// Whether the image has the filesystem, so that the guest need not make it.
    is_made: bool,
}

/// How a guest runs.
struct GuestRun<'a> {
    supply: &'a PowerSupply,
    /// The connection to the terminal of a shell.
    terminal: Option<OwnedFd>,
    /// What it does instead of the tasks of its cell, to age a filesystem.
    ageing: Option<&'a Ageing<'a>>,
}

impl GuestRun<'_> {
    /// A guest for the tasks of its cell.
    fn with(supply: &PowerSupply) -> GuestRun<'_> {
        GuestRun { supply, terminal: None, ageing: None }
    }
}

/// What a guest is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To find out which files of this machine the programs of a cell open.
    Rehearse,
    /// To see whether the programs do the same without the files of this machine.
    Verify,
    /// To measure the cell.
    Measure,
}

impl Purpose {
    /// The end of the name of the guest's directory.
    fn suffix(self) -> &'static str {
        match self {
            Purpose::Rehearse => "-rehearsal",
            Purpose::Verify => "-without-host",
            Purpose::Measure => "",
        }
    }
}

/// A guest that was started.
enum Started {
    /// It has ended.
    Ended(GuestExit),
    /// It can run on a thread of its own.
    Restored(Box<RestoredGuest>),
}

/// The executor of guest kernels.
pub struct Guests {
    run: RunContext,
    guest: GuestPlan,
    facts: BTreeMap<String, VariantFacts>,
    packer: Packer,
    /// The snapshots of booted machines that guests start from; None if each guest boots.
    snapshots: Option<SnapshotPool>,
    /// The time from launch to the first timed operation, for each guest that got there.
    boot_times: Vec<Duration>,
    /// The plugin that counts the instructions of exact guests; None if this QEMU cannot load it.
    counter: Option<Counter>,
    /// The formatted filesystems of exact guests.
    format_cache: FormatCache,
    images: Images,
    /// The aged filesystems, if the run has any.
    aged: Option<AgedImages>,
    /// The programs of this machine that the guests start, if any.
    programs: Option<HostPrograms>,
    /// The machines that guests begin with which count instructions.
    machines: SavedMachines,
    /// Why such guests boot instead, each by itself; empty if they do not.
    why_booted: Option<String>,
    /// The guests that began before the turns of their cells.
    early: EarlyGuests,
}

impl Guests {
    /// Makes the images and the inputs that all cells share. The directory of the run gets the console output and the
    /// command line of each guest.
    ///
    /// # Errors
    /// If there is not enough space, or a command fails.
    pub fn start(guest: GuestPlan, run: RunContext, emit: RunSink) -> Result<Guests> {
        let RunContext { plan, check, journal, dir, .. } = &run;
        let programs = HostPrograms::of_run(&run, &guest);
        for command in &check.kernels.commands {
            emit(Event::Command(command.clone()))?;
        }
        make_dir(&dir.join("guests"))?;
        let images = Images::make(&run, &dir.join("images"), emit)?;
        emit(Event::Note(caveat(&guest, &check.kernels)))?;
        let other = fsarena_fs::filesystems::find(&plan.device.other_fs)?;
        let counter = match guest.emulator {
            Emulator::Exact => install_counter(images.guests.path(), emit)?,
            Emulator::Qemu => None,
        };
        let variants = matrix::expand(plan);
        let starts_programs = programs.is_some() || variants.iter().any(axes::age::starts_programs);
        Ok(Guests {
            packer: Packer::new(
                guest.emulator,
                other,
                &check.kernels.mounted,
                starts_programs,
                images.guests.path(),
            ),
            snapshots: snapshot_pool::is_useful(&guest).then(|| SnapshotPool::new(images.guests.path())),
            format_cache: FormatCache::new(images.dir.path(), check.size_bytes, journal),
            facts: BTreeMap::new(),
            boot_times: vec![],
            counter,
            machines: SavedMachines::new(images.guests.path(), run.machines.clone()),
            why_booted: saved_machines::why_not(&guest, &check.kernels),
            early: EarlyGuests::new(&SysRoot::host(), guest.memory.as_u64()),
            images,
            aged: None,
            programs,
            guest,
            run,
        })
    }

    /// The image of an aged run that a cell begins with, written in full; None in other runs. An exact guest does not write to its
    /// image and may begin before its turn, so each has its own.
    fn restore_aged(&mut self, cell: &Cell) -> Result<Option<(PathBuf, MadeFilesystem)>, CellError> {
        let Some(aged) = &self.aged else { return Ok(None) };
        let Some(saved) = aged.find(&self.run.plan, cell)? else { return Ok(None) };
        let image = if self.guest.emulator == Emulator::Exact {
            self.images.of_cell(&self.run, cell, saved)?
        } else {
            saved.restore(&Devices::from(&*self.images.whole))?;
            self.images.whole.path().to_path_buf()
        };
        let features = saved.about.features.clone();
        let description = format!("{}, once for each image: {features}", saved.about.mkfs);
        Ok(Some((image, MadeFilesystem { description, features, packed_bytes: None })))
    }

    /// Makes the filesystem of a cell on its image. This is not a timed task, because mkfs runs on the host, not in the
    /// guest. An error is a failure of the variant.
    fn format(&mut self, cell: &Cell, def: &'static FsDef, emit: CellSink) -> Result<Formatted, CellError> {
        emit(CellEvent::Phase { name: Phase::Task("mkfs".into()) });
        let mut options = lifecycle::variant_options(def, &cell.variant)?;
        let written = cell.variant.level(factor::MKFS);
        let failed = |error: RunError| CellError::of_mkfs(error, written);
        let layout = self.run.layout(&cell.variant)?;
        let whole = self.images.whole.path().to_path_buf();
        let in_guest = |description: String| {
            (whole.clone(), MadeFilesystem { description, features: String::new(), packed_bytes: None })
        };
        let restored = self.restore_aged(cell)?;
        let is_made = restored.is_some();
        let mut log = |record| emit(CellEvent::Command(record));
        let (image, made) = if let Some(restored) = restored {
            restored
        } else if def.traits.volatile {
            options.limit_size(def, self.run.check.size_bytes);
            in_guest(String::new())
        } else if def.traits.read_only {
            let packed = self.images.packed.as_mut();
            let packed = packed.ok_or_else(|| CellError::internal("no files to pack were made"))?;
            options = packed.options(cell, def)?;
            let image = packed.image(&cell.variant, def, &options, &mut log)?;
            (image.device.path().to_path_buf(), image.made.clone())
        } else if layout.is_stacked() || def.pool.is_some() {
            // Only the guest has the device for the filesystem, or the driver that makes it. An exact guest does not write to
            // its images.
            if self.guest.emulator != Emulator::Exact {
                self.images.clear(&layout)?;
            }
            let words = self.mkfs_words(def, &options).map_err(RunError::from).map_err(failed)?;
            in_guest(words.join(" ") + ", in the guest")
        } else if self.guest.emulator == Emulator::Exact {
            let image = self.format_cache.get(def, &options, &mut log).map_err(failed)?;
            (image.device.path().to_path_buf(), image.made.clone())
        } else {
            self.images.clear(&layout)?;
            let device = &*self.images.whole;
            let devices = Devices { members: vec![device], journal: self.images.journal(&layout) };
            (whole, format_cache::format(&devices, def, &options, &mut log).map_err(failed)?)
        };
        let MadeFilesystem { description, features, packed_bytes } = made;
        if !self.facts.contains_key(&cell.variant.name) {
            let bytes =
                packed_bytes.map_or(String::new(), |bytes| format!("once in the run: {bytes} bytes; "));
            let made = Note::new(NoteKind::Options, bytes + &description).task("mkfs");
            let made = Some(made).filter(|_| !description.is_empty());
            for note in lifecycle::note_recipe_changes(&cell.variant).into_iter().chain(made) {
                emit(CellEvent::Note(note.variant(&cell.variant.name)));
            }
        }
        let Variant { name: variant, levels } = cell.variant.clone();
        let facts = VariantFacts {
            variant,
            def,
            options,
            effective: String::new(),
            features,
            size_bytes: self.images.whole.size_bytes(),
            levels,
        };
        Ok(Formatted { facts, image, packed_bytes, is_made })
    }

    /// Makes the filesystem of a cell. An error is the outcome of the cell.
    fn format_or_explain(
        &mut self,
        cell: &Cell,
        def: &'static FsDef,
        emit: CellSink,
    ) -> Result<Formatted, Outcome> {
        self.format(cell, def, emit).map_err(|failed| match cancel::requested() {
            Some(_) => Outcome::Interrupted,
            None => self.explain_full_disk(failed.into()),
        })
    }

    /// Rehearses the programs of a cell if no cell with the same programs has run, on a filesystem of their own. Where
    /// instructions are counted, a second rehearsal shows that they do the same without the files of this machine. Returns
    /// the outcome of the cell if they cannot run.
    ///
    /// # Errors
    /// If the emulator cannot be started, or its files cannot be written.
    fn rehearse_new_programs(
        &mut self,
        cell: &Cell,
        def: &'static FsDef,
        emit: CellSink,
    ) -> Result<Option<Outcome>> {
        let is_new = self.programs.as_ref().is_some_and(|programs| programs.is_new(cell));
        if !is_new || self.run.shell.is_some() {
            return Ok(None);
        }
        let formatted = match self.format_or_explain(cell, def, emit) {
            Ok(formatted) => formatted,
            Err(outcome) => return Ok(Some(outcome)),
        };
        let rehearsals = if self.guest.emulator == Emulator::Exact { 2 } else { 1 };
        for _ in 0..rehearsals {
            let outcome = self.rehearse(cell, &formatted, emit)?;
            if outcome != Outcome::Done {
                return Ok(Some(self.explain_full_disk(outcome)));
            }
        }
        Ok(None)
    }

    /// Runs a cell to find out which files of this machine its programs open. Of its events only commands that fail are
    /// passed on, and nothing that it measures is kept.
    ///
    /// # Errors
    /// If the emulator cannot be started, or its files cannot be written.
    fn rehearse(&mut self, cell: &Cell, formatted: &Formatted, emit: CellSink) -> Result<Outcome> {
        emit(CellEvent::Phase { name: Phase::Rehearsal });
        let mut hear = |event| match event {
            CellEvent::Command(record) if !record.ended.is_success() => {
                emit(CellEvent::Command(record));
            }
            _ => {}
        };
        self.boot(cell, formatted, &PowerSupply::on(), &mut hear)
    }

    /// The command that makes a filesystem in the guest. Where instructions are counted, it draws nothing at random.
    fn mkfs_words(&self, def: &FsDef, options: &VariantOptions) -> Result<Vec<String>, fsarena_fs::Error> {
        let mut options = options.clone();
        if self.guest.emulator == Emulator::Exact {
            grammar::pin_random_values(def, &mut options.mkfs);
        }
        lifecycle::mkfs_words(def, &options)
    }

    /// Runs the guest of a cell to its end, and passes its events on. Begins the guests of further cells if they can run beside.
    fn boot(
        &mut self,
        cell: &Cell,
        formatted: &Formatted,
        supply: &PowerSupply,
        emit: CellSink,
    ) -> Result<Outcome> {
        emit(CellEvent::Phase { name: Phase::Boot });
        let purpose = self.purpose(cell);
        let exit = if self.run.shell.is_some() {
            self.run_shell(cell, formatted, supply, emit)?
        } else {
            match self.begin_or_run(cell, formatted, supply, emit)? {
                Some(exit) => exit,
                None => {
                    if purpose == Purpose::Measure {
                        self.begin_further()?;
                    }
                    self.early.wait(cell, emit)?
                }
            }
        };
        self.boot_times.extend(exit.boot_time);
        let Some(programs) = &mut self.programs else { return Ok(exit.outcome) };
        match (purpose, exit.outcome) {
            (Purpose::Rehearse, Outcome::Done) => programs.learn(cell, exit.opened),
            (Purpose::Verify, outcome) => {
                if let Some(missed) = programs.verify(cell, &exit.opened) {
                    return Ok(CellError::missing(missed_file(&missed)).into());
                }
                if let Outcome::Failed { why, cause: Cause::Work } = outcome {
                    return Ok(CellError::missing(differs_without_host(&why)).into());
                }
                return Ok(outcome);
            }
            (_, outcome) => return Ok(outcome),
        }
        Ok(Outcome::Done)
    }

    /// Begins to run the guest of a cell on a thread, unless that was done before its turn. A guest that cannot run on a thread is
    /// run to its end; returns how it ended.
    fn begin_or_run(
        &mut self,
        cell: &Cell,
        formatted: &Formatted,
        supply: &PowerSupply,
        emit: CellSink,
    ) -> Result<Option<GuestExit>> {
        if self.early.has_begun(cell) {
            return Ok(None);
        }
        match self.start_guest(cell, formatted, GuestRun::with(supply), emit)? {
            Started::Ended(exit) => Ok(Some(exit)),
            Started::Restored(guest) => {
                self.early.begin(cell, vec![], *guest);
                Ok(None)
            }
        }
    }

    /// What the next guest of a cell is for.
    fn purpose(&self, cell: &Cell) -> Purpose {
        match &self.programs {
            Some(programs) if self.run.shell.is_none() && programs.is_new(cell) => Purpose::Rehearse,
            Some(programs) if self.run.shell.is_none() && programs.is_unverified(cell) => Purpose::Verify,
            _ => Purpose::Measure,
        }
    }

    /// Begins guests of the cells that come next, as far as there are CPUs for them. A guest that cannot begin is left to the
    /// turn of its cell, which reports why.
    fn begin_further(&mut self) -> Result<()> {
        while let Some(cell) = self.early.next_cell() {
            if self.purpose(&cell) != Purpose::Measure || power_cut::cuts(&cell) {
                continue;
            }
            let def = fsarena_fs::filesystems::find(cell.variant.level(factor::FS))?;
            let mut before = vec![];
            let mut keep_command = |event| {
                if let CellEvent::Command(_) = event {
                    before.push(event);
                }
            };
            let Ok(formatted) = self.format(&cell, def, &mut keep_command) else { continue };
            let started =
                self.start_guest(&cell, &formatted, GuestRun::with(&PowerSupply::on()), &mut keep_command)?;
            if let Started::Restored(guest) = started {
                self.early.begin(&cell, before, *guest);
            }
        }
        Ok(())
    }

    /// Runs the guest of a shell to its end, connected with the terminal of this process.
    fn run_shell(
        &mut self,
        cell: &Cell,
        formatted: &Formatted,
        supply: &PowerSupply,
        emit: CellSink,
    ) -> Result<GuestExit> {
        let (mut host, guest) = HostTerminal::connect().map_err(Error::io("connecting", "the terminal"))?;
        let is_terminal = self.run.shell.as_ref().is_some_and(|shell| shell.is_terminal);
        let mut emit = |event| {
            if let CellEvent::Phase { name: Phase::Shell } = &event {
                // Without a terminal in the right mode the shell still reads and writes.
                let _ = host.begin(is_terminal);
            }
            emit(event);
        };
        let run = GuestRun { terminal: Some(guest), ..GuestRun::with(supply) };
        let exit = match self.start_guest(cell, formatted, run, &mut emit)? {
            Started::Ended(exit) => exit,
            Started::Restored(guest) => {
                self.early.begin(cell, vec![], *guest);
                self.early.wait(cell, &mut emit)?
            }
        };
        if let (Some(shell), Some(code)) = (&self.run.shell, exit.exited) {
            shell.ended(code);
        }
        Ok(exit)
    }

    /// Starts a guest for a cell. A guest that boots, or begins with a snapshot, is run to its end at once.
    fn start_guest(
        &mut self,
        cell: &Cell,
        formatted: &Formatted,
        GuestRun { supply, terminal, ageing }: GuestRun,
        emit: CellSink,
    ) -> Result<Started> {
        let dir = match ageing {
            Some(ageing) => self.run.dir.join(format!("guests/ageing-{:03}", ageing.number)),
            None if supply.cut.is_some() => self.dir(cell, "-before"),
            None => self.dir(cell, self.purpose(cell).suffix()),
        };
        make_dir(&dir)?;
        let (image, record) = match &supply.recorded {
            Some((image, record)) => (image, Some(record.as_path())),
            None => (&formatted.image, None),
        };
        let level = cell.variant.level(factor::KERNEL);
        let layout = self.run.layout(&cell.variant)?;
        let options = &formatted.facts.options;
        let stack = self.stack(cell, formatted, &layout)?;
        let test = self.images.disks(image, &layout, &stack)?;
        let mut further = guests::further_modules(&cell.variant, &stack, &options.mount);
        let kernel = &self.run.check.kernels.by_level[level];
        further.extend(stack.faster_modules().filter(|name| kernel.modules.has(name)).map(String::from));
        let mut log = |record| emit(CellEvent::Command(record));
        let other = match ageing {
            Some(ageing) => ageing.stage.to_path_buf(),
            None => self.images.source_disk(&self.run, cell, &mut log)?.to_path_buf(),
        };
        let machine = Machine {
            emulator: self.guest.emulator,
            accelerator: self.guest.accelerator.unwrap_or(Accelerator::Tcg),
            kernel,
            initramfs: None,
            config: None,
            test: &test,
            record,
            journal: self.images.journal(&layout).map(ScratchDevice::path),
            other: &other,
            host_files: match ageing {
                Some(ageing) => ageing.starts_programs(),
                None => self.programs.is_some(),
            },
            terminal: terminal.is_some(),
            memory: None,
            keeps_disks: ageing.is_some(),
            clock: emulator::CLOCK,
            memory_mib: self.guest.memory.as_u64() >> 20,
            dir: &dir,
        };
        let demands = KernelDemands {
            level,
            modules: &machine.kernel.modules,
            def: formatted.facts.def,
            further: &further,
        };
        let config = GuestConfig {
            modules: self.packer.modules(demands)?.iter().map(|module| module.name.clone()).collect(),
            events: machine.events(),
            disks: machine.disks(),
            stack,
            request: self.request(cell, formatted, supply.power, ageing)?,
            ..GuestConfig::default()
        };
        let guest_cell = GuestCell { machine: &machine, config: &config, demands };
        let patience_s = match (&self.run.shell, ageing) {
            (_, Some(ageing)) => self.guest.patience_s.max(ageing.patience_s()),
            // Its user may be silent for as long as it likes.
            (Some(_), None) => f64::INFINITY,
            (None, None) => host_programs::patience(&self.guest, cell),
        };
        let patient = GuestPlan { patience_s, ..self.guest.clone() };
        let tree = self.programs.as_ref().and_then(|programs| programs.tree(cell));
        let begins_saved = match &self.programs {
            // Where equal histories put files at equal places, nothing may depend on when the host saved a machine.
            _ if ageing.is_some() => false,
            Some(_) => tree.is_some(),
            None => self.why_booted.is_none(),
        };
        let mut starter = GuestStarter {
            owner: GuestOwner { journal: &self.run.journal, guest: &patient, is_needless: None },
            packer: &mut self.packer,
            counter: self.counter.as_ref().filter(|_| ageing.is_none()),
            cut: supply.cut,
            terminal,
        };
        if self.guest.emulator == Emulator::Exact && begins_saved {
            let workload = tree.as_ref().map(|_| format!("{:?}", cell.workload)).unwrap_or_default();
            let key = [level, &further.join(" "), &workload].join("\n");
            match starter.prepare_restored(&mut self.machines, &key, tree.as_ref(), &guest_cell)? {
                Ok(guest) => return Ok(Started::Restored(Box::new(guest))),
                // Cells without programs of this machine can boot instead.
                Err(GuestExit { outcome: Outcome::Failed { why, .. }, .. }) if tree.is_none() => {
                    self.why_booted = Some(why);
                }
                Err(exit) => return Ok(Started::Ended(exit)),
            }
        }
        let exit = match self.snapshots.as_mut().filter(|_| starter.terminal.is_none()) {
            None => starter.boot(&guest_cell, emit)?,
            Some(pool) => starter.start_from_snapshot(pool, &guest_cell, emit)?,
        };
        Ok(Started::Ended(exit))
    }

    /// What lies between the disks of the guest of a cell and its filesystem. Only the guest has the device for a filesystem
    /// above links, so it gets the command that makes the filesystem.
    fn stack(&self, cell: &Cell, formatted: &Formatted, layout: &Layout) -> Result<Stack> {
        let VariantFacts { def, options, size_bytes, .. } = &formatted.facts;
        let mut stack = guests::stack(&cell.variant, layout, options.raid)?;
        if !stack.links.is_empty() {
            stack.bytes = *size_bytes;
        }
        if !formatted.is_made && (!stack.links.is_empty() || def.pool.is_some()) {
            stack.mkfs = self.mkfs_words(def, options)?;
            stack.mkfs.splice(..1, packed_programs::command(Path::new(OTHER), def.mkfs).words());
        }
        Ok(stack)
    }

    /// The request to the agent in a guest. It names no devices, because the guest finds its disks itself.
    fn request(
        &self,
        cell: &Cell,
        formatted: &Formatted,
        power: Power,
        ageing: Option<&Ageing>,
    ) -> Result<serde_json::Value> {
        let level = cell.variant.level(factor::LAYER);
        let facts = &formatted.facts;
        let all_programs = match ageing {
            Some(ageing) => ageing.programs,
            None => self.programs.as_ref(),
        };
        let owner = all_programs.filter(|_| !facts.def.traits.unix).map(HostPrograms::owner);
        let options = [Some(facts.options.mount.clone()).filter(|options| !options.is_empty()), owner];
        let mount = MountRequest {
            source: PathBuf::new(),
            target: TARGET.into(),
            fs_type: facts.def.id.into(),
            options: options.into_iter().flatten().collect::<Vec<_>>().join(","),
            journal: None,
            by_call: true,
            layer: layers::request(level, Path::new(TARGET), Some(Path::new(OTHER))),
            packed_bytes: formatted.packed_bytes,
        };
        let root = layers::root(Path::new(TARGET), level);
        let root = root.join(if ageing.is_some() { AGED } else { WORK });
        let counts = self.guest.emulator == Emulator::Exact;
        let layout = (counts && ageing.is_none()).then(|| match self.guest.fixed_layout {
            true => MemoryLayout::FIXED,
            false => MemoryLayout::draw(&format!("{} {:?}", cell.seed, cell.workload)),
        });
        let cell = if counts { &without_names(cell) } else { cell };
        let whole = self.run.request(cell, &root, Path::new(OTHER));
        // Without programs the workload runs as root: the guest kernel serves this cell alone.
        let (role, server_user) = match all_programs {
            // The tracer of a profile requires root.
            Some(_) if whole.profiling.is_some() => (ProcessRole::Single, whole.server_user.clone()),
            Some(programs) => (programs.role(), whole.server_user.clone()),
            None => (ProcessRole::Single, None),
        };
        let shell = self.run.shell.as_ref().map(ShellSession::request);
        let age = ageing.map(|ageing| ageing.step.clone());
        let request = Request { mount: Some(mount), role, server_user, power, shell, age, ..whole };
        let programs = match ageing {
            Some(ageing) => {
                all_programs.filter(|_| ageing.starts_programs()).map(|all| all.for_ageing_guest(cell))
            }
            None => all_programs.map(|programs| programs.for_guest(cell, self.run.shell.as_ref())),
        };
        let other_type = self.run.plan.device.other_fs.clone();
        let request = Guest { request, other_type, layout, programs };
        serde_json::to_value(&request).map_err(|error| RunError::Agent(error.to_string()))
    }

    /// The directory for the console output and other files of the guest of a cell.
    fn dir(&self, cell: &Cell, suffix: &str) -> PathBuf {
        self.run.dir.join(format!("guests/{:03}-{}{suffix}", cell.round + 1, cell.id()))
    }

    /// Returns the outcome of a cell. If the cell failed and the host has no space left for growing images, adds that to
    /// the reason.
    fn explain_full_disk(&self, outcome: Outcome) -> Outcome {
        let dir = self.images.dir.path();
        match outcome {
            Outcome::Failed { why, .. } if dirs::free_bytes(dir).is_ok_and(|free| free < SCARCE_BYTES) => {
                let dir = dir.display();
                CellError::missing(format!("no room is left in {dir}, where the images grow: {why}")).into()
            }
            outcome => outcome,
        }
    }

    /// A note on the median and the longest time that guests took to start; None before the first guest.
    fn boot_time_note(&self) -> Option<Note> {
        let mut boots = self.boot_times.clone();
        boots.sort_unstable();
        let median = boots.get(boots.len() / 2)?.as_secs_f64();
        let longest = boots.last()?.as_secs_f64();
        let count = boots.len();
        let text = format!(
            "from launch to the first timed operation: {median:.1} s, the longest of {count} {longest:.1} s"
        );
        Some(Note::new(NoteKind::Remark, text).task("boot"))
    }
}

impl Executor for Guests {
    fn announce(&mut self, cells: Vec<Cell>) {
        if self.guest.emulator == Emulator::Exact && self.run.shell.is_none() {
            self.early.announce(cells);
        }
    }

    fn run(&mut self, cell: &Cell, emit: CellSink) -> Result<Outcome> {
        self.images.forget_rounds_before(cell.round, &mut |record| emit(CellEvent::Command(record)))?;
        let def = fsarena_fs::filesystems::find(cell.variant.level(factor::FS))?;
        if let Some(outcome) = self.rehearse_new_programs(cell, def, emit)? {
            return Ok(outcome);
        }
        let mut formatted = match self.format_or_explain(cell, def, emit) {
            Ok(formatted) => formatted,
            Err(outcome) => return Ok(outcome),
        };
        let known = self.facts.contains_key(&cell.variant.name);
        let (name, emulator) = (cell.variant.name.clone(), self.guest.emulator);
        // The mount options that are in effect, as the guest reports them.
        let mut effective = String::new();
        let counts_file = self.dir(cell, "").join(COUNTS);
        let image_seed = self.aged.as_ref().and_then(|aged| aged.seed(&self.run.plan, cell));
        let mut samples = vec![];
        let mut emit = |event| match event {
            CellEvent::Note(note) if note.kind == NoteKind::Options => {
                if note.task.as_deref() == Some("mount") {
                    effective = note.text.clone();
                }
                if !known {
                    emit(CellEvent::Note(note.variant(&name)));
                }
            }
            CellEvent::Note(note) if note.variant.is_some() => emit(CellEvent::Note(note.variant(&name))),
            // The counter counts whole tasks.
            CellEvent::Sample(part) if part.is_of_part() => {
                emit(CellEvent::Sample(readings::for_emulator(emulator, part, None)));
            }
            CellEvent::Sample(mut sample) => {
                let counts = counts(&counts_file, samples.len());
                if let Some(seed) = image_seed.filter(|_| sample.task.id.name == "mount") {
                    sample.readings.set(reading::IMAGE_SEED, seed as f64);
                }
                samples.push(sample.clone());
                emit(CellEvent::Sample(readings::for_emulator(emulator, sample, counts)));
            }
            event => emit(event),
        };
        let guests = self.images.guests.path().to_path_buf();
        let mut boot = |supply: &PowerSupply, emit: CellSink| self.boot(cell, &formatted, supply, emit);
        let outcome = power_cut::run_cell(cell, &formatted.image, &guests, &mut boot, &mut emit)?;
        let outcome = self.explain_full_disk(outcome);
        self.images.forget_cell(cell, &mut |record| emit(CellEvent::Command(record)))?;
        if let Some(programs) = &mut self.programs {
            samples.iter().for_each(|sample| programs.count(sample));
        }
        if matches!(outcome, Outcome::Failed { cause: Cause::Died, .. }) {
            // The runner runs the cell again. Keep the files of the guest that died.
            let _ = std::fs::rename(self.dir(cell, ""), self.dir(cell, "-died"));
        }
        formatted.facts.effective = effective;
        if !known && outcome == Outcome::Done {
            self.facts.insert(name, formatted.facts);
        }
        Ok(outcome)
    }

    fn remarks(&self) -> Vec<Note> {
        let mut notes = self.run.fairness_notes(&self.facts);
        notes.extend(cache::damage().into_iter().map(|line| Note::new(NoteKind::Remark, line)));
        notes.extend(self.snapshots.iter().flat_map(SnapshotPool::notes));
        notes.extend(self.programs.iter().flat_map(HostPrograms::notes));
        if let Some(why) = self.why_booted.iter().find(|_| self.programs.is_none()) {
            notes.push(Note::new(NoteKind::Remark, format!("each guest booted by itself: {why}")));
        }
        if self.guest.emulator == Emulator::Exact {
            notes.push(layout_note(self.guest.fixed_layout));
        }
        notes.extend(self.boot_time_note());
        notes
    }

    fn finish(self: Box<Self>, emit: RunSink) -> Result<()> {
        let Guests { images, format_cache, early, .. } = *self;
        // Guests of rounds that the run did not need use the images.
        drop(early);
        logged(emit, |log: Log| format_cache.release(log))??;
        images.finish(emit)
    }
}

/// Why the programs of a cell cannot run without the files of this machine.
fn missed_file(path: &Path) -> String {
    let (path, qemu) = (path.display(), setting("on", "qemu"));
    format!(
        "a program looked for {path}, which it had not looked for in its rehearsal, so the guest does not have it: programs that \
         choose other files each time cannot be counted; take `{qemu}`"
    )
}

/// The reason for refusing programs that succeeded in their rehearsal and failed on copies of the files that they opened there.
fn differs_without_host(why: &str) -> String {
    let qemu = setting("on", "qemu");
    format!(
        "a program succeeded in its rehearsal, where it read the files of this machine, and failed on copies of those that it \
         read there: {why}; such programs cannot be counted; take `{qemu}`"
    )
}

fn make_dir(dir: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(dir).map_err(Error::io("making", dir))
}

/// Seeds of guests that count instructions.
const SEEDS: std::ops::Range<u64> = 1_000_000_000_000_000_000..10_000_000_000_000_000_000;

/// The cell without the names of its variant and levels, so that cells with the same work execute the same instructions: a
/// longer name takes more instructions to read, and changes memory addresses. The factor `clients` stays, because the names
/// of tasks depend on it.
fn without_names(cell: &Cell) -> Cell {
    let mut levels = cell.variant.levels.clone();
    levels.retain(|factor, level| factor == factor::CLIENTS && !level.is_empty());
    let variant = Variant { name: "variant".into(), levels };
    // Of the same number of digits in each round.
    let seed = SEEDS.start + cell.seed % (SEEDS.end - SEEDS.start);
    Cell { round: 0, position: 0, variant, seed, ..cell.clone() }
}

/// The note on where the work of cells lies in memory.
fn layout_note(is_fixed: bool) -> Note {
    let text = if is_fixed {
        format!("all cells have one memory layout, as {} says", setting("fixed_layout", ""))
    } else {
        "each round draws its memory layout: before its work each guest takes 100 to 999 pages and makes as many files in memory, \
         so intervals include what a layout changes"
            .into()
    };
    Note::new(NoteKind::Remark, text)
}

/// Installs the plugin that counts instructions in a directory. Returns None, and emits a note, if this version of QEMU
/// cannot load it.
fn install_counter(dir: &Path, emit: RunSink) -> Result<Option<Counter>> {
    let version = logged(emit, |log| Argv::new(QEMU).arg("--version").expect(log))?;
    let version = version.map_err(Error::from)?.stdout;
    let counter = Counter::install(dir, &version)?;
    if counter.is_none() {
        let this = version.lines().next().unwrap_or("of no known version");
        let text = format!(
            "instructions of programs and of the kernel are told apart at clock ticks: the counter is for QEMU 6 to 8, and \
             this is {this}"
        );
        emit(Event::Note(Note::new(NoteKind::Remark, text)))?;
    }
    Ok(counter)
}

/// The caveat in every report of a run in guests: where the filesystems ran, and what their figures are worth. The example
/// `truth` of the program measures how many differences guests reproduce; the table is in docs/guide/guests.md.
fn caveat(guest: &GuestPlan, kernels: &Kernels) -> Note {
    let kernels = kernel_names(kernels);
    let worth = match (guest.emulator, guest.accelerator) {
        (Emulator::Exact, _) => {
            "the figures are instructions, not time: they know no caches, no memory, no device, no waiting and no \
             parallelism; the disk is memory, and copying to it is counted with the kernel; compare them with no \
             other run's than of such a guest (of 15 differences between filesystems on a machine they kept all, and with \
             another kernel 16 of 18, and turned 2: docs/guide/guests.md)"
        }
        (Emulator::Qemu, Some(Accelerator::Kvm)) => {
            "its device and its exits cost what those of no machine cost: these times are not comparable with those of \
             the machine itself"
        }
        (Emulator::Qemu, _) => {
            "times are several times those of the machine itself and not comparable with them, and only differences \
             above 1.5 times in the same table mean anything (of 15 differences between filesystems on a machine they \
             showed 6 and turned none: docs/guide/guests.md)"
        }
    };
    let text =
        format!("these filesystems ran in {}, {kernels}: {worth}", Backing::Guest(guest.clone()).executor());
    Note::new(NoteKind::Fairness, text)
}

/// The names of the kernels; if there are several, with the levels by which variants name them.
fn kernel_names(kernels: &Kernels) -> String {
    let several = kernels.by_level.len() > 1;
    let name = |(level, kernel): (&String, &GuestKernel)| match kernel.name() {
        name if several && *level != name => format!("{name} ({level})"),
        name => name,
    };
    let names: Vec<String> = kernels.by_level.iter().map(name).collect();
    format!("{} {}", if several { "kernels" } else { "kernel" }, names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_kernels_are_listed_with_the_levels_of_the_variants() {
        let kernel = |release: &str| GuestKernel {
            image: "/k".into(),
            release: release.into(),
            ..GuestKernel::default()
        };
        let mut kernels = Kernels::default();
        kernels.by_level.insert("debian:6.1".into(), kernel("6.1.0-9-amd64"));
        assert_eq!(kernel_names(&kernels), "kernel 6.1.0-9-amd64");
        kernels.by_level.insert("debian:6.12".into(), kernel("6.12.1-amd64"));
        assert_eq!(kernel_names(&kernels), "kernels 6.1.0-9-amd64 (debian:6.1), 6.12.1-amd64 (debian:6.12)");
    }
}
