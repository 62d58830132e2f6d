//! Guests: image files formatted here, worked on by a kernel of their own. No root, no device of this machine.

mod hearing;
mod pristine;
mod readings;

use crate::executor::{Executor, Fatal, Tell, logged};
use crate::other::inputs;
use crate::preflight::{Check, guests};
use crate::protocol::{Guest as Asked, MountRequest, Request};
use crate::work::workload;
use fsarena_core::cell::{Arm, Cell};
use fsarena_core::event::{CellEvent, Event, Note, NoteKind, Outcome};
use fsarena_core::factor;
use fsarena_core::plan::{Emulator, GuestPlan, Plan};
use fsarena_fs::def::FsDef;
use fsarena_fs::fairness::{self, ArmFacts};
use fsarena_fs::lifecycle;
use fsarena_fs::safety::ScratchDevice;
use fsarena_guest::counter::{Counter, counts};
use fsarena_guest::emulator::{Accelerator, Machine, QEMU};
use fsarena_guest::exact;
use fsarena_guest::kernel::GuestKernel;
use fsarena_guest::launch::Launch;
use fsarena_guest::orders::Orders;
use fsarena_guest::packing::Initramfs;
use fsarena_load::workload::Place;
use fsarena_sys::argv::Argv;
use fsarena_sys::image;
use fsarena_sys::undo::{Armed, Journal, Undo};
use pristine::Pristine;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where the guest mounts the filesystem under test.
const TARGET: &str = "/mnt/test";
/// Where it mounts the other disk.
const OTHER: &str = "/mnt/other";
/// Modules of virtual hardware that nothing else asks for.
const HARDWARE: [&str; 3] = ["virtio_pci", "virtio_blk", "virtio_console"];

/// The file of a guest with the instructions of its steps.
const COUNTS: &str = "counts";

/// A filesystem that a cell can begin with.
struct Formatted {
    facts: ArmFacts,
    image: PathBuf,
}

/// The executor of guest kernels.
pub struct Guests {
    plan: Plan,
    guest: GuestPlan,
    kernels: BTreeMap<String, GuestKernel>,
    journal: Journal,
    accelerator: Accelerator,
    facts: BTreeMap<String, ArmFacts>,
    /// What is booted beside a kernel, by the kernel's level and the filesystem.
    packed: BTreeMap<(String, String), Initramfs>,
    /// Where the consoles and command lines of all guests are kept.
    kept: PathBuf,
    images: PathBuf,
    /// What counts the instructions of exact guests, where this QEMU can load it.
    counter: Option<Counter>,
    /// The filesystems of exact guests.
    pristine: Pristine,
    /// How often a second of the guest it is asked what it runs.
    sample_hz: Option<u32>,
    // Dropped in this order: the images, then their directory.
    device: ScratchDevice,
    other: ScratchDevice,
    directory: Armed,
}

impl Guests {
    /// Makes the images and the inputs that all cells share.
    ///
    /// # Errors
    /// Where there is no room or a command fails.
    pub fn start(
        plan: &Plan,
        guest: &GuestPlan,
        check: &Check,
        journal: &Journal,
        run_dir: &Path,
        tell: Tell,
    ) -> Result<Guests, Fatal> {
        check.kernels.commands.iter().cloned().try_for_each(|record| tell(Event::Command(record)))?;
        let (images, kept) = (run_dir.join("images"), run_dir.join("guests"));
        let directory = journal.arm(Undo::RemoveTree { path: images.clone() })?;
        for dir in [&images, &kept] {
            std::fs::create_dir_all(dir).map_err(fsarena_sys::Error::io("making", dir))?;
        }
        let file = |name: &str, size| image::create(journal, &images.join(name), size, false);
        let device = ScratchDevice::from_image(file("test.img", check.size_bytes)?);
        let other = ScratchDevice::from_image(file("other.img", check.other_bytes)?);
        fill(plan, &other, &images.join("inputs"), tell)?;
        let accelerator = Accelerator::Tcg;
        tell(Event::Note(caveat(guest.emulator, accelerator)))?;
        let exact = guest.emulator == Emulator::Exact;
        let counter = if exact { counter(&images, tell)? } else { None };
        Ok(Guests {
            plan: plan.clone(),
            guest: guest.clone(),
            kernels: check.kernels.by_level.clone(),
            journal: journal.clone(),
            accelerator,
            facts: BTreeMap::new(),
            packed: BTreeMap::new(),
            kept,
            counter,
            pristine: Pristine::new(&images, device.size_bytes(), journal),
            sample_hz: None,
            images,
            device,
            other,
            directory,
        })
    }

    /// The same, and each timed step says what ran in it: sampled so many times a second of the guest, which is work
    /// too, so no count of it is worth keeping.
    pub fn sampling(self, hz: u32) -> Guests {
        Guests { sample_hz: Some(hz), ..self }
    }

    /// mkfs on the image file. It is no step: its time is the host's and no guest's. The error is the arm's own.
    fn format(
        &mut self,
        cell: &Cell,
        def: &'static FsDef,
        emit: &mut dyn FnMut(CellEvent),
    ) -> Result<Formatted, String> {
        emit(CellEvent::Phase { name: "mkfs".into() });
        let options = lifecycle::options(def, &cell.arm).map_err(|error| error.to_string())?;
        let mut log = |record| emit(CellEvent::Command(record));
        let (image, said, features) = if self.guest.emulator == Emulator::Exact {
            let made = self.pristine.of(def, &options, &mut log).map_err(|error| error.to_string())?;
            (made.path().to_path_buf(), made.said.clone(), made.features.clone())
        } else {
            self.device.file().map_or(Ok(()), image::Image::clear).map_err(|error| error.to_string())?;
            let (said, features) =
                pristine::make(&self.device, def, &options, &mut log).map_err(|error| error.to_string())?;
            (self.device.path().to_path_buf(), said, features)
        };
        if !self.facts.contains_key(&cell.arm.name) {
            emit(CellEvent::Note(Note::new(NoteKind::Options, said).step("mkfs").arm(&cell.arm.name)));
        }
        let facts = ArmFacts {
            arm: cell.arm.name.clone(),
            def,
            options,
            effective: String::new(),
            features,
            size_bytes: self.device.size_bytes(),
            levels: cell.arm.levels.clone(),
        };
        Ok(Formatted { facts, image })
    }

    /// What is booted beside the kernel for a filesystem, packed once.
    fn packed(&mut self, level: &str, def: &FsDef) -> Result<&mut Initramfs, Fatal> {
        let key = (level.to_string(), def.id.to_string());
        if !self.packed.contains_key(&key) {
            let modules = self.modules(level, def)?;
            let path = self.images.join(format!("initramfs-{}", self.packed.len()));
            self.packed.insert(key.clone(), Initramfs::pack(&path, &modules)?);
        }
        Ok(self.packed.get_mut(&key).expect("just inserted"))
    }

    fn modules(&self, level: &str, def: &FsDef) -> Result<Vec<fsarena_guest::modules::Module>, Fatal> {
        let modules = &self.kernels[level].modules;
        if !modules.is_known() {
            return Ok(vec![]);
        }
        let mut wanted = vec![];
        if self.guest.emulator == Emulator::Exact && exact::has_memory_disks(modules) {
            wanted.extend(exact::MEMORY_DISKS);
        } else if self.guest.emulator != Emulator::Uml {
            wanted.extend(HARDWARE);
        }
        // Under translation the CPU's CRC32C is slower than the generic one; counted, it is what hardware would do.
        let crc32c = if self.guest.emulator == Emulator::Exact { "crc32c_intel" } else { "crc32c_generic" };
        wanted.extend([crc32c].into_iter().filter(|name| modules.has(name)));
        wanted
            .extend([def.kernel_type, &self.plan.device.other_fs].map(|kind| guests::module(modules, kind)));
        Ok(modules.closure(&wanted, crc32c)?)
    }

    fn request(&self, cell: &Cell, facts: &ArmFacts) -> Asked {
        let mount = MountRequest {
            // The guest finds it by its serial number.
            source: PathBuf::new(),
            target: TARGET.into(),
            fs_type: facts.def.kernel_type.to_string(),
            options: facts.options.mount.clone(),
            by_call: true,
        };
        let request = Request {
            cell: if self.guest.emulator == Emulator::Exact { unnamed(cell) } else { cell.clone() },
            settle: self.plan.settle.clone(),
            mount: Some(mount),
            root: Path::new(TARGET).join("work"),
            other: OTHER.into(),
            device: None,
            trace: false,
            sample_hz: self.sample_hz,
        };
        Asked { request, other_type: self.plan.device.other_fs.clone() }
    }

    /// Where what a guest leaves is kept.
    fn dir(&self, cell: &Cell) -> PathBuf {
        self.kept.join(format!("{:03}-{}", cell.block + 1, cell.id()))
    }

    /// Boots a guest for the cell and hears it to its end.
    fn boot(
        &mut self,
        cell: &Cell,
        Formatted { facts, image }: &Formatted,
        emit: &mut dyn FnMut(CellEvent),
    ) -> Result<Outcome, Fatal> {
        let level = cell.arm.level(factor::KERNEL).to_string();
        let asked = self.request(cell, facts);
        let request = serde_json::to_value(&asked).map_err(|error| Fatal::Agent(error.to_string()))?;
        let module_names = self.modules(&level, facts.def)?.into_iter().map(|module| module.name).collect();
        let dir = self.dir(cell);
        std::fs::create_dir_all(&dir).map_err(fsarena_sys::Error::io("making", &dir))?;
        let initramfs = self.packed(&level, facts.def)?.path().to_path_buf();
        let machine = Machine {
            emulator: self.guest.emulator,
            accelerator: self.accelerator,
            kernel: &self.kernels[&level],
            initramfs: &initramfs,
            test: image,
            other: self.other.path(),
            memory_mib: self.guest.memory.as_u64() >> 20,
            dir: &dir,
        };
        let orders =
            Orders { modules: module_names, voice: machine.voice(), disks: machine.disks(), request };
        let counting = self.counter.iter().flat_map(|counter| counter.words(&dir.join(COUNTS)));
        let launch = Launch {
            argv: machine.argv().into_iter().chain(counting).collect(),
            console: machine.console(),
            voice: machine.voice_file(),
            user_mode: self.guest.emulator == Emulator::Uml,
        };
        self.packed(&level, facts.def)?.hand_over(&orders)?;
        keep_command_line(&dir, &launch)?;
        hearing::hear(&self.journal, launch, &self.guest, emit)
    }
}

impl Executor for Guests {
    fn run(&mut self, cell: &Cell, emit: &mut dyn FnMut(CellEvent)) -> Result<Outcome, Fatal> {
        let def = fsarena_fs::filesystems::find(cell.arm.level(factor::FS))?;
        let mut formatted = match self.format(cell, def, emit) {
            Ok(formatted) => formatted,
            Err(_) if fsarena_sys::cancel::requested().is_some() => return Ok(Outcome::Interrupted),
            Err(why) => return Ok(Outcome::Failed { why }),
        };
        let known = self.facts.contains_key(&cell.arm.name);
        let (name, emulator) = (cell.arm.name.clone(), self.guest.emulator);
        let mut effective = String::new();
        let (out, mut step) = (self.dir(cell).join(COUNTS), 0..);
        let outcome = self.boot(cell, &formatted, &mut |event| match event {
            CellEvent::Note(note) if note.kind == NoteKind::Options => {
                if note.step.as_deref() == Some("mount") {
                    effective = note.text.clone();
                }
                if !known {
                    emit(CellEvent::Note(note.arm(&name)));
                }
            }
            CellEvent::Note(note) if note.arm.is_some() => emit(CellEvent::Note(note.arm(&name))),
            CellEvent::Sample(sample) => {
                let counts = step.next().and_then(|step| counts(&out, step));
                emit(CellEvent::Sample(readings::of(emulator, sample, counts)));
            }
            event => emit(event),
        })?;
        formatted.facts.effective = effective;
        if !known && outcome == Outcome::Done {
            self.facts.insert(name, formatted.facts);
        }
        Ok(outcome)
    }

    fn remarks(&self) -> Vec<Note> {
        let clones = |asked| workload(&self.plan, asked).is_ok_and(|(work, job)| work.may_clone(&job));
        let may_clone = self.plan.workloads.iter().any(clones);
        fairness::lint(&self.facts.values().cloned().collect::<Vec<_>>(), may_clone)
    }

    fn finish(self: Box<Self>, tell: Tell) -> Result<(), Fatal> {
        let Guests { device, other, pristine, directory, .. } = *self;
        logged(tell, |log| device.release(log))??;
        logged(tell, |log| pristine.release(log))??;
        logged(tell, |log| other.release(log))??;
        Ok(directory.undo()?)
    }
}

/// The cell without what tells it from others that do the same: a longer name would be more to read, and lie elsewhere
/// in memory.
fn unnamed(cell: &Cell) -> Cell {
    let arm = Arm { name: "arm".into(), levels: BTreeMap::new() };
    Cell { block: 0, position: 0, arm, ..cell.clone() }
}

/// What counts instructions; a report says where they cannot be counted.
fn counter(dir: &Path, tell: Tell) -> Result<Option<Counter>, Fatal> {
    let asked = logged(tell, |log| Argv::new(QEMU).arg("--version").expect(log))?;
    let version = asked.map_err(fsarena_sys::Error::from)?.stdout;
    let counter = Counter::install(dir, &version)?;
    if counter.is_none() {
        let text = format!(
            "instructions of programs and of the kernel are told apart at clock ticks: the counter is for QEMU 6 to 8, and \
             this is {}",
            version.lines().next().unwrap_or("of no known version")
        );
        tell(Event::Note(Note::new(NoteKind::Remark, text)))?;
    }
    Ok(counter)
}

/// The other disk: its inputs are made in a directory, which mkfs then copies into the image.
fn fill(plan: &Plan, other: &ScratchDevice, dir: &Path, tell: Tell) -> Result<(), Fatal> {
    std::fs::create_dir_all(dir).map_err(fsarena_sys::Error::io("making", dir))?;
    inputs(plan, &Place { root: dir.into(), other: dir.into() })?;
    let def = fsarena_fs::filesystems::find(&plan.device.other_fs)?;
    let arm =
        Arm { name: "other disk".into(), levels: [(factor::FS.to_string(), def.id.to_string())].into() };
    let mut options = lifecycle::options(def, &arm)?;
    // Nothing is left to initialise, which cells would wait for. Its directories are read by every cell, so their order
    // is part of the work.
    options.mkfs.extend(["-E".to_string(), "lazy_itable_init=0,lazy_journal_init=0".to_string()]);
    fsarena_fs::pinned::pin(def.mkfs, &mut options.mkfs);
    options.mkfs.extend(["-d".to_string(), dir.to_string_lossy().into_owned()]);
    logged(tell, |log| lifecycle::format(other, def, &options, log))??;
    std::fs::remove_dir_all(dir).map_err(fsarena_sys::Error::io("removing", dir))?;
    Ok(())
}

/// A guest can be started again by hand with what is kept.
fn keep_command_line(dir: &Path, launch: &Launch) -> Result<(), Fatal> {
    let path = dir.join("command.json");
    let mut argv = Argv::new(&launch.argv[0]);
    argv = argv.args(&launch.argv[1..]);
    let text =
        serde_json::to_string_pretty(&argv.words()).map_err(|error| Fatal::Agent(error.to_string()))?;
    Ok(std::fs::write(&path, text + "\n").map_err(fsarena_sys::Error::io("writing", &path))?)
}

/// What every report of guests must say.
fn caveat(emulator: Emulator, accelerator: Accelerator) -> Note {
    let text = match (emulator, accelerator) {
        (Emulator::Exact, _) => {
            "these are instructions that a guest executed, not time: they know no caches, no memory, no device, no \
             waiting and no parallelism; the disk is memory, and copying to it is counted with the kernel (QEMU with \
             instruction counting)"
        }
        (Emulator::Uml, _) => {
            "these filesystems ran in User Mode Linux, where system calls are tens of times dearer than on the machine: \
             its times say that something works, and neither rank filesystems nor compare with those of a machine"
        }
        (Emulator::Qemu, Accelerator::Tcg) => {
            "these filesystems ran in an emulated machine (QEMU, translated): times are several times those of the \
             machine itself and not comparable with them, and only differences above 1.5 times mean anything"
        }
        (Emulator::Qemu, Accelerator::Kvm) => {
            "these filesystems ran in a virtual machine (QEMU with KVM): times are not comparable with those of the \
             machine itself"
        }
    };
    Note::new(NoteKind::Fairness, text)
}
