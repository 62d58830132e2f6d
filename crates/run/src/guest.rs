//! Runs cells in guests: formats image files on this machine, and boots a guest kernel that runs the workload on them. This
//! requires neither root nor a device of this machine.

mod ager;
mod boot;
mod early;
mod host_programs;
mod images;
mod initramfs;
mod readings;
mod saved_machines;
mod session;
mod snapshot_pool;
mod start;

pub use initramfs::guest_modules;
pub use start::Guests;

use crate::aged::AgedImages;
use crate::axes;
use crate::context::RunContext;
use crate::error::{CellError, Result, RunError};
use crate::executor::{CellSink, Executor, Log, RunSink, logged};
use crate::format_cache::{self, FormatCache, MadeFilesystem};
use crate::power_cut::{self, PowerSupply};
use crate::preflight::Kernels;
use crate::shell::HostTerminal;
use ager::GuestAger;
use early::EarlyGuests;
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{Cause, CellEvent, Event, Note, NoteKind, Outcome, Phase};
use fsarena_core::plan::{Accelerator, Backing, Emulator, GuestPlan};
use fsarena_core::setting_text::setting;
use fsarena_core::{factor, matrix, metric::reading};
use fsarena_fs::lifecycle::{self, Devices};
use fsarena_fs::{def::FsDef, fairness::VariantFacts};
use fsarena_guest::cache;
use fsarena_guest::counter::{COUNTS, Counter, counts};
use fsarena_guest::emulator::QEMU;
use fsarena_guest::kernel::GuestKernel;
use fsarena_sys::{Error, argv::Argv, cancel, kernel::SysRoot};
use host_programs::HostPrograms;
use images::Images;
use initramfs::Packer;
use saved_machines::SavedMachines;
use session::GuestExit;
use snapshot_pool::SnapshotPool;
use start::{Formatted, GuestRun, Purpose, Started, make_dir};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

impl Guests {
    /// Makes the images and the inputs that all cells share. The directory of the run gets the console output and the
    /// command line of each guest.
    ///
    /// # Errors
    /// There is not enough space, or a command fails.
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
        let mut guests = Guests {
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
        };
        if variants.iter().any(|variant| axes::age::age_of(variant).is_some()) {
            let run = guests.run.clone();
            guests.aged = AgedImages::make(&run, &GuestAger::new(&mut guests), emit)?;
        }
        Ok(guests)
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

    /// Rehearses the programs of a cell if no cell with the same programs has run, on a separate filesystem. Where
    /// instructions are counted, a second rehearsal shows that they do the same without the files of this machine. Returns
    /// the outcome of the cell if they cannot run.
    ///
    /// # Errors
    /// The emulator cannot be started, or its files cannot be written.
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
    /// The emulator cannot be started, or its files cannot be written.
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

    /// Begins to run the guest of a cell on a thread, unless the guest has begun before its turn. Runs a guest that cannot run on a
    /// thread to its end, and returns how it ended.
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

    /// Begins guests of the cells that come next, while CPUs are free. If a guest cannot begin, the turn of its cell reports why.
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

/// The message that the programs of a cell looked for a file which the guest lacks.
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
/// `truth` of the program measures how many differences guests reproduce; the table is in docs/internals/guests.md.
fn caveat(guest: &GuestPlan, kernels: &Kernels) -> Note {
    let kernels = kernel_names(kernels);
    let worth = match (guest.emulator, guest.accelerator) {
        (Emulator::Exact, _) => {
            "the figures are instructions, not time: they ignore caches, memory, the device, waiting and parallelism; the \
             disk is in memory, and copying to it counts as work of the kernel; compare them only with runs in such a guest \
             (such counts kept all 15 differences between filesystems on a machine; with another kernel they kept 16 of 18 \
             and reversed 2: docs/guide/guests.md)"
        }
        (Emulator::Qemu, Some(Accelerator::Kvm)) => {
            "its device and its exits have costs that no real machine has: these times are not comparable with those of \
             the machine itself"
        }
        (Emulator::Qemu, _) => {
            "times are several times longer than on the machine itself and not comparable with them; trust only \
             differences above 1.5 times in the same table (such times showed 6 of 15 differences between filesystems on a \
             machine, reversed none, and left 9 inconclusive: docs/guide/guests.md)"
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
