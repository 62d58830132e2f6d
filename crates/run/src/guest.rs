//! Guests: image files formatted here, worked on by a kernel of their own. No root, no device of this machine.

mod asking;
mod booted;
mod booting;
mod caveat;
mod hearing;
mod images;
mod packed;
mod power;
mod pristine;
mod readings;

use crate::executor::{Emit, Executor, Failed, Fatal, Tell, logged};
use crate::layout::Layout;
use crate::preflight::{Check, guests};
use crate::protocol::Profiling;
use crate::work::workload;
use booted::Booted;
use booting::{Starting, ThisCell};
use fsarena_core::cell::Cell;
use fsarena_core::event::{Cause, CellEvent, Event, Note, NoteKind, Outcome};
use fsarena_core::factor;
use fsarena_core::plan::{Accelerator, Emulator, GuestPlan, Plan};
use fsarena_fs::def::FsDef;
use fsarena_fs::fairness::{self, VariantFacts};
use fsarena_fs::lifecycle::{self, Devices};
use fsarena_fs::safety::ScratchDevice;
use fsarena_guest::cache;
use fsarena_guest::config::GuestConfig;
use fsarena_guest::counter::{COUNTS, Counter, counts};
use fsarena_guest::emulator::{Machine, QEMU};
use fsarena_guest::kernel::GuestKernel;
use fsarena_sys::argv::Argv;
use fsarena_sys::image;
use fsarena_sys::undo::Journal;
use images::Images;
use packed::{Asked, Packer};
use power::Supply;
use pristine::Pristine;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Under this an image that has to grow cannot.
const SCARCE: u64 = 1 << 20;
/// A filesystem that a cell can begin with.
struct Formatted {
    facts: VariantFacts,
    image: PathBuf,
}

/// The executor of guest kernels.
pub struct Guests {
    plan: Plan,
    guest: GuestPlan,
    kernels: BTreeMap<String, GuestKernel>,
    journal: Journal,
    size_bytes: u64,
    facts: BTreeMap<String, VariantFacts>,
    packer: Packer,
    /// The machines that guests begin with; none where each boots.
    booted: Option<Booted>,
    /// From launch to the first timed operation, of every guest that came so far.
    boots: Vec<Duration>,
    /// Where the consoles and command lines of all guests are kept.
    kept: PathBuf,
    /// What counts the instructions of exact guests, where this QEMU can load it.
    counter: Option<Counter>,
    /// The filesystems of exact guests.
    pristine: Pristine,
    profiling: Option<Profiling>,
    images: Images,
}

impl Guests {
    /// Makes the images and the inputs that all cells share.
    ///
    /// # Errors
    /// If there is not enough room, or a command fails.
    pub fn start(
        plan: &Plan,
        guest: &GuestPlan,
        check: &Check,
        journal: &Journal,
        run_dir: &Path,
        profiling: Option<Profiling>,
        tell: Tell,
    ) -> Result<Guests, Fatal> {
        check.kernels.commands.iter().cloned().try_for_each(|record| tell(Event::Command(record)))?;
        let kept = run_dir.join("guests");
        std::fs::create_dir_all(&kept).map_err(fsarena_sys::Error::io("making", &kept))?;
        let images = Images::make(plan, check, journal, &run_dir.join("images"), tell)?;
        tell(Event::Note(caveat::caveat(guest, &check.kernels)))?;
        let other = fsarena_fs::filesystems::find(&plan.device.other_fs)?;
        let exact = guest.emulator == Emulator::Exact;
        let counter = if exact { counter(images.guests(), tell)? } else { None };
        Ok(Guests {
            plan: plan.clone(),
            guest: guest.clone(),
            kernels: check.kernels.by_level.clone(),
            journal: journal.clone(),
            size_bytes: check.size_bytes,
            facts: BTreeMap::new(),
            packer: Packer::new(guest.emulator, other, &check.kernels.mounted, images.guests()),
            booted: booted::wanted(guest).then(|| Booted::new(images.guests())),
            boots: vec![],
            kept,
            counter,
            pristine: Pristine::new(images.dir(), check.size_bytes, journal),
            profiling,
            images,
        })
    }

    /// mkfs on the image file. It is not a task: the host spends its time, not the guest. The error is the variant's own.
    fn format(&mut self, cell: &Cell, def: &'static FsDef, emit: Emit) -> Result<Formatted, Failed> {
        emit(CellEvent::Phase { name: "mkfs".into() });
        let options = lifecycle::options(def, &cell.variant)?;
        let asked = cell.variant.level(factor::MKFS);
        let mut log = |record| emit(CellEvent::Command(record));
        let (image, said, features) = if self.guest.emulator == Emulator::Exact {
            let made = self
                .pristine
                .of(def, &options, &mut log)
                .map_err(|error| Failed::from(error).with_options(asked))?;
            (made.path().to_path_buf(), made.said.clone(), made.features.clone())
        } else {
            let layout = Layout::of(&self.plan, &cell.variant, self.size_bytes)?;
            self.images.clear(&layout)?;
            let whole = self.images.whole();
            let devices = Devices { members: vec![whole], journal: self.images.journal(&layout) };
            let (said, features) = pristine::make(&devices, def, &options, &mut log)
                .map_err(|error| Failed::from(error).with_options(asked))?;
            (whole.path().to_path_buf(), said, features)
        };
        if !self.facts.contains_key(&cell.variant.name) {
            let made = Note::new(NoteKind::Options, said).task("mkfs");
            let notes = lifecycle::changes(&cell.variant).into_iter().chain([made]);
            notes.for_each(|note| emit(CellEvent::Note(note.variant(&cell.variant.name))));
        }
        let facts = VariantFacts {
            variant: cell.variant.name.clone(),
            def,
            options,
            effective: String::new(),
            features,
            size_bytes: self.images.whole().size_bytes(),
            levels: cell.variant.levels.clone(),
        };
        Ok(Formatted { facts, image })
    }

    /// Starts a guest for the cell and hears it to its end.
    fn boot(
        &mut self,
        cell: &Cell,
        formatted: &Formatted,
        supply: &Supply,
        emit: Emit,
    ) -> Result<Outcome, Fatal> {
        emit(CellEvent::Phase { name: "booting".into() });
        let mut dir = self.dir(cell).into_os_string();
        dir.push(if supply.cut.is_some() { "-before" } else { "" });
        let dir = PathBuf::from(dir);
        let (image, record) = match &supply.recorded {
            Some((image, record)) => (image, Some(record.as_path())),
            None => (&formatted.image, None),
        };
        std::fs::create_dir_all(&dir).map_err(fsarena_sys::Error::io("making", &dir))?;
        let level = cell.variant.level(factor::KERNEL);
        let layout = Layout::of(&self.plan, &cell.variant, self.size_bytes)?;
        let options = &formatted.facts.options;
        let stack = guests::stack(&cell.variant, &layout, options.raid)?;
        let test = self.images.backing_devices(image, &layout, stack.array)?;
        let further = guests::further_modules(&cell.variant, &stack, &options.mount);
        let machine = Machine {
            emulator: self.guest.emulator,
            accelerator: self.guest.accelerator.unwrap_or(Accelerator::Tcg),
            kernel: &self.kernels[level],
            initramfs: None,
            config: None,
            test: &test,
            record,
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
            request: asking::request(
                &self.plan,
                self.guest.emulator,
                self.profiling,
                cell,
                &formatted.facts,
                supply.power,
            )?,
            ..GuestConfig::default()
        };
        let cell = ThisCell { machine: &machine, config: &config, asked };
        let Guests { guest, journal, packer, booted, counter, .. } = self;
        let mut starting = Starting { guest, journal, packer, counter: counter.as_ref(), cut: supply.cut };
        let end = match booted.as_mut() {
            None => starting.anew(&cell, emit)?,
            Some(booted) => starting.with(booted, &cell, emit)?,
        };
        self.boots.extend(end.boot);
        Ok(self.with_room(end.outcome))
    }

    /// Where what a guest leaves is kept.
    fn dir(&self, cell: &Cell) -> PathBuf {
        self.kept.join(format!("{:03}-{}", cell.round + 1, cell.id()))
    }
}

impl Guests {
    /// The outcome; where the host has no room left for a growing image, a failure says that too.
    fn with_room(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Failed { why, .. }
                if image::free_bytes(self.images.dir()).is_ok_and(|free| free < SCARCE) =>
            {
                let dir = self.images.dir().display();
                let why = format!("no room is left in {dir}, where the images grow: {why}");
                Failed::new(Cause::Missing, why).into()
            }
            outcome => outcome,
        }
    }

    /// How long guests took to start.
    fn started(&self) -> Option<Note> {
        let mut boots = self.boots.clone();
        boots.sort_unstable();
        let (middle, longest) = (boots.get(boots.len() / 2)?, boots.last()?);
        let text = format!(
            "from launch to the first timed operation: {:.1} s, the longest of {} {:.1} s",
            middle.as_secs_f64(),
            boots.len(),
            longest.as_secs_f64()
        );
        Some(Note::new(NoteKind::Remark, text).task("boot"))
    }
}

impl Executor for Guests {
    fn run(&mut self, cell: &Cell, emit: Emit) -> Result<Outcome, Fatal> {
        let def = fsarena_fs::filesystems::find(cell.variant.level(factor::FS))?;
        let mut formatted = match self.format(cell, def, emit) {
            Ok(formatted) => formatted,
            Err(_) if fsarena_sys::cancel::requested().is_some() => return Ok(Outcome::Interrupted),
            Err(failed) => return Ok(self.with_room(failed.into())),
        };
        let known = self.facts.contains_key(&cell.variant.name);
        let (name, emulator) = (cell.variant.name.clone(), self.guest.emulator);
        let mut effective = String::new();
        let (out, mut task) = (self.dir(cell).join(COUNTS), 0..);
        let outcome = self.powered(cell, &formatted, &mut |event| match event {
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
                let counts = task.next().and_then(|task| counts(&out, task));
                emit(CellEvent::Sample(readings::of(emulator, sample, counts)));
            }
            event => emit(event),
        })?;
        if matches!(outcome, Outcome::Failed { cause: Cause::Died, .. }) {
            // What the first that died has left stays beside what the next leaves.
            let dir = self.dir(cell);
            let mut died = dir.clone().into_os_string();
            died.push("-died");
            let _ = std::fs::rename(&dir, died);
        }
        formatted.facts.effective = effective;
        if !known && outcome == Outcome::Done {
            self.facts.insert(name, formatted.facts);
        }
        Ok(outcome)
    }

    fn remarks(&self) -> Vec<Note> {
        let clones = |asked| workload(&self.plan, asked).is_ok_and(|(work, job)| work.may_clone(&job));
        let may_clone = self.plan.workloads.iter().any(clones);
        let mut notes = fairness::lint(&self.facts.values().cloned().collect::<Vec<_>>(), may_clone);
        notes.extend(cache::damage().into_iter().map(|line| Note::new(NoteKind::Remark, line)));
        notes.extend(self.booted.iter().flat_map(Booted::notes));
        notes.extend(self.started());
        notes
    }

    fn finish(self: Box<Self>, tell: Tell) -> Result<(), Fatal> {
        let Guests { images, pristine, .. } = *self;
        logged(tell, |log| pristine.release(log))??;
        images.finish(tell)
    }
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
