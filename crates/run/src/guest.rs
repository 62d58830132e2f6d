//! Runs cells in guests: formats image files on this machine, and boots a guest kernel that runs the workload on them. This
//! requires neither root nor a device of this machine.

mod boot;
mod images;
mod initramfs;
mod readings;
mod session;
mod snapshot_pool;

use crate::context::RunContext;
use crate::error::{CellError, Result, RunError};
use crate::executor::{CellSink, Executor, Log, RunSink, logged};
use crate::guest_programs::{self, OTHER};
use crate::layers;
use crate::power_cut::{self, PowerSupply};
use crate::preflight::{Kernels, guests};
use crate::protocol::{Guest, MountRequest, Power, ProcessRole, Request};
use boot::{GuestCell, GuestStarter};
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{Cause, CellEvent, Event, Note, NoteKind, Outcome};
use fsarena_core::factor;
use fsarena_core::plan::{Accelerator, Backing, Emulator, GuestPlan};
use fsarena_fs::lifecycle::{self, Devices, VariantOptions};
use fsarena_fs::{def::FsDef, fairness::VariantFacts, grammar, safety::ScratchDevice};
use fsarena_guest::counter::{COUNTS, Counter, counts};
use fsarena_guest::emulator::{Machine, QEMU};
use fsarena_guest::kernel::GuestKernel;
use fsarena_guest::{cache, config::GuestConfig};
use fsarena_sys::{Error, argv::Argv, cancel, dirs};
use images::{FormatCache, Images};
use initramfs::{KernelDemands, Packer};
use session::GuestOwner;
use snapshot_pool::SnapshotPool;
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, time::Duration};

/// With less free space than this many bytes, sparse images on the host can no longer grow.
const SCARCE_BYTES: u64 = 1 << 20;
/// Where the guest mounts the filesystem under test.
const TARGET: &str = "/mnt/test";

/// A freshly made filesystem for a cell, with its facts and its image.
struct Formatted {
    facts: VariantFacts,
    image: PathBuf,
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
}

impl Guests {
    /// Makes the images and the inputs that all cells share. The directory of the run gets the console output and the
    /// command line of each guest.
    ///
    /// # Errors
    /// If there is not enough space, or a command fails.
    pub fn start(guest: GuestPlan, run: RunContext, emit: RunSink) -> Result<Guests> {
        let RunContext { plan, check, journal, dir, .. } = &run;
        for command in &check.kernels.commands {
            emit(Event::Command(command.clone()))?;
        }
        make_dir(&dir.join("guests"))?;
        let images = Images::make(plan, check, journal, &dir.join("images"), emit)?;
        emit(Event::Note(caveat(&guest, &check.kernels)))?;
        let other = fsarena_fs::filesystems::find(&plan.device.other_fs)?;
        let counter = match guest.emulator {
            Emulator::Exact => install_counter(images.guests.path(), emit)?,
            Emulator::Qemu => None,
        };
        Ok(Guests {
            packer: Packer::new(guest.emulator, other, &check.kernels.mounted, images.guests.path()),
            snapshots: snapshot_pool::is_useful(&guest).then(|| SnapshotPool::new(images.guests.path())),
            format_cache: FormatCache::new(images.dir.path(), check.size_bytes, journal),
            facts: BTreeMap::new(),
            boot_times: vec![],
            counter,
            images,
            guest,
            run,
        })
    }

    /// Makes the filesystem of a cell on its image. This is not a timed task, because mkfs runs on the host, not in the
    /// guest. An error is a failure of the variant.
    fn format(&mut self, cell: &Cell, def: &'static FsDef, emit: CellSink) -> Result<Formatted, CellError> {
        emit(CellEvent::Phase { name: "mkfs".into() });
        let options = lifecycle::variant_options(def, &cell.variant)?;
        let written = cell.variant.level(factor::MKFS);
        let with_options = |error| CellError::from(error).with_options(written);
        let layout = self.run.layout(&cell.variant)?;
        let mut log = |record| emit(CellEvent::Command(record));
        let (image, description, features) = if layout.is_stacked() || def.pool.is_some() {
            // Only the guest has the device for the filesystem, or the driver that makes it.
            self.images.clear(&layout)?;
            let words = self.mkfs_words(def, &options).map_err(|error| with_options(error.into()))?;
            (self.images.whole.path().to_path_buf(), words.join(" ") + ", in the guest", String::new())
        } else if self.guest.emulator == Emulator::Exact {
            let made = self.format_cache.get(def, &options, &mut log).map_err(with_options)?;
            (made.device.path().to_path_buf(), made.description.clone(), made.features.clone())
        } else {
            self.images.clear(&layout)?;
            let whole = &self.images.whole;
            let devices = Devices { members: vec![whole], journal: self.images.journal(&layout) };
            let (description, features) =
                images::format(&devices, def, &options, &mut log).map_err(with_options)?;
            (whole.path().to_path_buf(), description, features)
        };
        if !self.facts.contains_key(&cell.variant.name) {
            let made = Note::new(NoteKind::Options, description).task("mkfs");
            for note in lifecycle::note_recipe_changes(&cell.variant).into_iter().chain([made]) {
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
        Ok(Formatted { facts, image })
    }

    /// The command that makes a filesystem in the guest. Where instructions are counted, it draws nothing at random.
    fn mkfs_words(&self, def: &FsDef, options: &VariantOptions) -> Result<Vec<String>, fsarena_fs::Error> {
        let mut options = options.clone();
        if self.guest.emulator == Emulator::Exact {
            grammar::pin_random_values(def, &mut options.mkfs);
        }
        lifecycle::mkfs_words(def, &options)
    }

    /// Starts a guest for the cell, passes its events on, and waits for its end.
    fn boot(
        &mut self,
        cell: &Cell,
        formatted: &Formatted,
        supply: &PowerSupply,
        emit: CellSink,
    ) -> Result<Outcome> {
        emit(CellEvent::Phase { name: "booting".into() });
        let dir = self.dir(cell, if supply.cut.is_some() { "-before" } else { "" });
        make_dir(&dir)?;
        let (image, record) = match &supply.recorded {
            Some((image, record)) => (image, Some(record.as_path())),
            None => (&formatted.image, None),
        };
        let level = cell.variant.level(factor::KERNEL);
        let layout = self.run.layout(&cell.variant)?;
        let options = &formatted.facts.options;
        let mut stack = guests::stack(&cell.variant, &layout, options.raid)?;
        if layout.is_stacked() {
            stack.bytes = formatted.facts.size_bytes;
        }
        if layout.is_stacked() || formatted.facts.def.pool.is_some() {
            stack.mkfs = self.mkfs_words(formatted.facts.def, options)?;
            stack
                .mkfs
                .splice(..1, guest_programs::command(Path::new(OTHER), formatted.facts.def.mkfs).words());
        }
        let test = self.images.disks(image, &layout, &stack)?;
        let mut further = guests::further_modules(&cell.variant, &stack, &options.mount);
        let kernel = &self.run.check.kernels.by_level[level];
        further.extend(stack.faster_modules().filter(|name| kernel.modules.has(name)).map(String::from));
        let machine = Machine {
            emulator: self.guest.emulator,
            accelerator: self.guest.accelerator.unwrap_or(Accelerator::Tcg),
            kernel,
            initramfs: None,
            config: None,
            test: &test,
            record,
            journal: self.images.journal(&layout).map(ScratchDevice::path),
            other: self.images.other.path(),
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
            request: self.request(cell, &formatted.facts, supply.power)?,
            ..GuestConfig::default()
        };
        let cell = GuestCell { machine: &machine, config: &config, demands };
        let mut starter = GuestStarter {
            owner: GuestOwner { journal: &self.run.journal, guest: &self.guest },
            packer: &mut self.packer,
            counter: self.counter.as_ref(),
            cut: supply.cut,
        };
        let exit = match &mut self.snapshots {
            None => starter.boot(&cell, emit)?,
            Some(pool) => starter.start_from_snapshot(pool, &cell, emit)?,
        };
        self.boot_times.extend(exit.boot_time);
        Ok(exit.outcome)
    }

    /// The request to the agent in a guest. It names no devices, because the guest finds its disks itself.
    fn request(&self, cell: &Cell, facts: &VariantFacts, power: Power) -> Result<serde_json::Value> {
        let level = cell.variant.level(factor::LAYER);
        let mount = MountRequest {
            source: PathBuf::new(),
            target: TARGET.into(),
            fs_type: facts.def.id.into(),
            options: facts.options.mount.clone(),
            journal: None,
            by_call: true,
            layer: layers::request(level, Some(Path::new(OTHER))),
        };
        let root = layers::root(Path::new(TARGET), level).join("work");
        let cell = if self.guest.emulator == Emulator::Exact { &without_names(cell) } else { cell };
        // The workload runs as root: the guest kernel serves this cell alone.
        let request = Request {
            mount: Some(mount),
            role: ProcessRole::Single,
            server_user: None,
            power,
            ..self.run.request(cell, &root, Path::new(OTHER))
        };
        let request = Guest { request, other_type: self.run.plan.device.other_fs.clone() };
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
    fn run(&mut self, cell: &Cell, emit: CellSink) -> Result<Outcome> {
        let def = fsarena_fs::filesystems::find(cell.variant.level(factor::FS))?;
        let mut formatted = match self.format(cell, def, emit) {
            Ok(formatted) => formatted,
            Err(_) if cancel::requested().is_some() => return Ok(Outcome::Interrupted),
            Err(failed) => return Ok(self.explain_full_disk(failed.into())),
        };
        let known = self.facts.contains_key(&cell.variant.name);
        let (name, emulator) = (cell.variant.name.clone(), self.guest.emulator);
        // The mount options that are in effect, as the guest reports them.
        let mut effective = String::new();
        let counts_file = self.dir(cell, "").join(COUNTS);
        let mut samples_so_far = 0;
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
            CellEvent::Sample(sample) => {
                let counts = counts(&counts_file, samples_so_far);
                samples_so_far += 1;
                emit(CellEvent::Sample(readings::for_emulator(emulator, sample, counts)));
            }
            event => emit(event),
        };
        let guests = self.images.guests.path().to_path_buf();
        let mut boot = |supply: &PowerSupply, emit: CellSink| self.boot(cell, &formatted, supply, emit);
        let outcome = power_cut::run_cell(cell, &formatted.image, &guests, &mut boot, &mut emit)?;
        let outcome = self.explain_full_disk(outcome);
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
        notes.extend(self.boot_time_note());
        notes
    }

    fn finish(self: Box<Self>, emit: RunSink) -> Result<()> {
        let Guests { images, format_cache, .. } = *self;
        logged(emit, |log: Log| format_cache.release(log))??;
        images.finish(emit)
    }
}

fn make_dir(dir: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(dir).map_err(Error::io("making", dir))
}

/// The cell without the names of its variant and levels, so that cells with the same work execute the same instructions: a
/// longer name takes more instructions to read, and changes memory addresses. The factor `clients` stays, because the names
/// of tasks depend on it.
fn without_names(cell: &Cell) -> Cell {
    let mut levels = cell.variant.levels.clone();
    levels.retain(|factor, level| factor == factor::CLIENTS && !level.is_empty());
    let variant = Variant { name: "variant".into(), levels };
    Cell { round: 0, position: 0, variant, ..cell.clone() }
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
