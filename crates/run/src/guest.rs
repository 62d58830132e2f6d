//! Runs cells in guests: formats image files on this machine, and boots a guest kernel that runs the workload on them.
//! This requires neither root nor a device of this machine.

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
pub use start::GuestExecutor;

use crate::aged_images::AgedImages;
use crate::axes;
use crate::context::{RunContext, facts_before_mount};
use crate::device_layout::filesystem_of;
use crate::error::{CellError, Result, RunError};
use crate::executor::{CellSink, CommandLog, Executor, RunSink, emit_logged_commands};
use crate::format_cache::{self, FormatCache, MadeFilesystem};
use crate::power_cut::{self, PowerSupply};
use crate::preflight::Kernels;
use crate::shell::HostTerminal;
use ager::GuestAger;
use early::EarlyGuests;
use fsarena_core::cell::Cell;
use fsarena_core::event::{Cause, CellEvent, Event, Note, NoteKind, Outcome, Phase};
use fsarena_core::plan::{Accelerator, Backing, Emulator, GuestPlan};
use fsarena_core::setting_text::setting;
use fsarena_core::{factor, matrix, metric::reading};
use fsarena_fs::lifecycle::{self, Devices};
use fsarena_guest::cache;
use fsarena_guest::emulator::QEMU;
use fsarena_guest::instruction_counter::{COUNTS_FILE, CounterPlugin, read_counts};
use fsarena_guest::kernel::GuestKernel;
use fsarena_sys::{Error, argv::Argv, cancel, kernel::SysRoot};
use host_programs::HostPrograms;
use images::Images;
use initramfs::InitramfsPacker;
use saved_machines::{SavedMachines, StartedGuest};
use session::GuestExit;
use snapshot_pool::SnapshotPool;
use start::{CellFilesystem, GuestPurpose, GuestRun, make_dir};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

impl GuestExecutor {
    /// Makes the images and the inputs that all cells share. The directory of the run gets the console output and the
    /// command line of each guest.
    ///
    /// # Errors
    /// There is not enough space, or a command fails.
    pub fn start(guest: GuestPlan, run: RunContext, emit: RunSink) -> Result<GuestExecutor> {
        let RunContext { plan, requirements, journal, dir, .. } = &run;
        let programs = HostPrograms::of_run(&run, &guest);
        for command in &requirements.kernels.commands {
            emit(Event::Command(command.clone()))?;
        }
        make_dir(&dir.join("guests"))?;
        let images = Images::make(&run, &dir.join("images"), emit)?;
        emit(Event::Note(caveat_note(&guest, &requirements.kernels)))?;
        let source_fs = fsarena_fs::filesystems::find(&plan.device.other_fs)?;
        let counter = match guest.emulator {
            Emulator::Exact => install_counter(images.guest_files.path(), emit)?,
            Emulator::Qemu => None,
        };
        let variants = matrix::expand(plan);
        let starts_programs = programs.is_some() || variants.iter().any(axes::age::is_aged_by_program);
        let mut guests = GuestExecutor {
            packer: InitramfsPacker::new(
                guest.emulator,
                source_fs,
                &requirements.kernels.mounted_filesystems,
                starts_programs,
                images.guest_files.path(),
            ),
            snapshots: snapshot_pool::uses_snapshots(&guest).then(|| SnapshotPool::new(images.guest_files.path())),
            format_cache: FormatCache::new(images.dir.path(), requirements.size_bytes, journal),
            facts: BTreeMap::new(),
            boot_times: vec![],
            counter,
            saved_machines: SavedMachines::new(images.guest_files.path(), run.shared_machines_dir.clone()),
            why_not_restored: saved_machines::why_not_saved(&guest, &requirements.kernels),
            early_guests: EarlyGuests::new(&SysRoot::host(), guest.memory.as_u64()),
            images,
            aged_images: None,
            programs,
            guest_plan: guest,
            run,
        };
        if variants.iter().any(|variant| axes::age::age_of(variant).is_some()) {
            let run = guests.run.clone();
            guests.aged_images = AgedImages::make(&run, &GuestAger::new(&mut guests), emit)?;
        }
        Ok(guests)
    }

    /// Writes the aged image that a cell begins with, and returns its path; None if the cell begins with a new
    /// filesystem. Guests that count instructions can begin before the turns of their cells, so each of these cells
    /// gets a separate image.
    fn restore_aged(&mut self, cell: &Cell) -> Result<Option<(PathBuf, MadeFilesystem)>, CellError> {
        let Some(aged_images) = &self.aged_images else { return Ok(None) };
        let Some(checkpoint) = aged_images.image_of_cell(&self.run.plan, cell)? else { return Ok(None) };
        let image = if self.guest_plan.emulator == Emulator::Exact {
            self.images.prepare_cell_image(&self.run, cell, checkpoint)?
        } else {
            checkpoint.restore(&Devices::from(&*self.images.mkfs_image))?;
            self.images.mkfs_image.path().to_path_buf()
        };
        let features = checkpoint.info.features.clone();
        let description = format!("{}, once for each image: {features}", checkpoint.info.mkfs);
        Ok(Some((image, MadeFilesystem { description, features, packed_bytes: None })))
    }

    /// Makes the filesystem of a cell on its image. This is not a timed task, because mkfs runs on the host, not in the
    /// guest. An error is a failure of the variant.
    fn format(&mut self, cell: &Cell, emit: CellSink) -> Result<CellFilesystem, CellError> {
        emit(CellEvent::Phase { name: Phase::Task("mkfs".into()) });
        let (def, mut options) = filesystem_of(&cell.variant)?;
        let mkfs_level = cell.variant.level(factor::MKFS);
        let failed = |error: RunError| CellError::from_mkfs(error, mkfs_level);
        let layout = self.run.device_layout(&cell.variant)?;
        let whole_image = self.images.mkfs_image.path().to_path_buf();
        let made_in_guest = |description: String| {
            (whole_image.clone(), MadeFilesystem { description, features: String::new(), packed_bytes: None })
        };
        let restored = self.restore_aged(cell)?;
        let has_filesystem = restored.is_some();
        let mut log = |record| emit(CellEvent::Command(record));
        let (image, made) = if let Some(restored) = restored {
            restored
        } else if def.traits.volatile {
            options.limit_size(def, self.run.requirements.size_bytes);
            made_in_guest(String::new())
        } else if def.traits.read_only {
            let packed = self.images.packed.as_mut();
            let packed = packed.ok_or_else(|| CellError::internal("no files to pack were made"))?;
            options = packed.options(cell, def)?;
            let image = packed.image(&cell.variant, def, &options, &mut log)?;
            (image.device.path().to_path_buf(), image.filesystem.clone())
        } else if layout.is_stacked || def.pool.is_some() {
            // Only the guest has the device for the filesystem, or the driver that makes it. An exact guest does not
            // write to its images.
            if self.guest_plan.emulator != Emulator::Exact {
                self.images.clear(&layout)?;
            }
            let argv = self.mkfs_words(def, &options).map_err(RunError::from).map_err(failed)?;
            made_in_guest(argv.join(" ") + ", in the guest")
        } else if self.guest_plan.emulator == Emulator::Exact {
            let image = self.format_cache.get_or_format(def, &options, &mut log).map_err(failed)?;
            (image.device.path().to_path_buf(), image.filesystem.clone())
        } else {
            self.images.clear(&layout)?;
            let device = &*self.images.mkfs_image;
            let devices = Devices { members: vec![device], journal: self.images.journal(&layout) };
            (whole_image, format_cache::format(&devices, def, &options, &mut log).map_err(failed)?)
        };
        let MadeFilesystem { description, features, packed_bytes } = made;
        if !self.facts.contains_key(&cell.variant.name) {
            let size_text = packed_bytes.map_or(String::new(), |bytes| format!("once in the run: {bytes} bytes; "));
            let mkfs_note = Note::new(NoteKind::Options, size_text + &description).task("mkfs");
            let mkfs_note = Some(mkfs_note).filter(|_| !description.is_empty());
            for note in lifecycle::recipe_change_note(&cell.variant).into_iter().chain(mkfs_note) {
                emit(CellEvent::Note(note.variant(&cell.variant.name)));
            }
        }
        let size_bytes = self.images.mkfs_image.size_bytes();
        let facts = facts_before_mount(&cell.variant, def, options, size_bytes, features);
        Ok(CellFilesystem { cell: cell.clone(), facts, image, packed_bytes, has_filesystem })
    }

    /// Makes the filesystem of a cell. If that fails, returns the outcome of the cell as the error, with the cause if a
    /// disk of the host is full.
    fn format_or_explain(&mut self, cell: &Cell, emit: CellSink) -> Result<CellFilesystem, Outcome> {
        self.format(cell, emit).map_err(|error| match cancel::received_signal() {
            Some(_) => Outcome::Interrupted,
            None => self.explain_full_disk(error.into()),
        })
    }

    /// Rehearses the programs of a cell on a separate filesystem, if no earlier cell ran the same programs. In guests
    /// that count instructions, a second rehearsal checks that the programs succeed without the files of this machine.
    /// Returns the outcome of the cell if a rehearsal fails; else None.
    ///
    /// # Errors
    /// The emulator cannot be started, or its files cannot be written.
    fn rehearse_new_programs(&mut self, cell: &Cell, emit: CellSink) -> Result<Option<Outcome>> {
        let needs_rehearsal = self.programs.as_ref().is_some_and(|programs| programs.needs_rehearsal(cell));
        if !needs_rehearsal || self.run.shell.is_some() {
            return Ok(None);
        }
        let formatted = match self.format_or_explain(cell, emit) {
            Ok(formatted) => formatted,
            Err(outcome) => return Ok(Some(outcome)),
        };
        let rehearsals = if self.guest_plan.emulator == Emulator::Exact { 2 } else { 1 };
        for _ in 0..rehearsals {
            let outcome = self.run_rehearsal(&formatted, emit)?;
            if outcome != Outcome::Done {
                return Ok(Some(self.explain_full_disk(outcome)));
            }
        }
        Ok(None)
    }

    /// Runs a cell to find out which files of this machine its programs open. Emits only the commands that fail; keeps
    /// nothing that the cell measures.
    ///
    /// # Errors
    /// The emulator cannot be started, or its files cannot be written.
    fn run_rehearsal(&mut self, formatted: &CellFilesystem, emit: CellSink) -> Result<Outcome> {
        emit(CellEvent::Phase { name: Phase::Rehearsal });
        let mut emit_failures = |event| match event {
            CellEvent::Command(record) if !record.ended.is_success() => {
                emit(CellEvent::Command(record));
            }
            _ => {}
        };
        self.run_guest_of_cell(formatted, &PowerSupply::on(), &mut emit_failures)
    }

    /// Runs the guest of a cell to its end, and emits its events. Meanwhile begins the guests of the cells that come
    /// next, if they can run at the same time.
    fn run_guest_of_cell(
        &mut self,
        formatted: &CellFilesystem,
        supply: &PowerSupply,
        emit: CellSink,
    ) -> Result<Outcome> {
        let cell = &formatted.cell;
        emit(CellEvent::Phase { name: Phase::Boot });
        let purpose = self.next_purpose(cell);
        let exit = if self.run.shell.is_some() {
            self.run_shell(formatted, supply, emit)?
        } else {
            match self.begin_or_run(formatted, GuestRun::for_tasks(supply), emit)? {
                Some(exit) => exit,
                None => {
                    if purpose == GuestPurpose::Measure {
                        self.begin_upcoming_guests()?;
                    }
                    self.early_guests.wait(cell, emit)?
                }
            }
        };
        self.boot_times.extend(exit.boot_time);
        let Some(programs) = &mut self.programs else { return Ok(exit.outcome) };
        match (purpose, &exit.outcome) {
            (GuestPurpose::Rehearse, Outcome::Done) => programs.record_rehearsal(cell, exit.accessed_paths),
            (GuestPurpose::Verify, outcome) => {
                if let Some(missed) = programs.verify_packed_files(cell, &exit.accessed_paths) {
                    return Ok(CellError::missing(missed_file_message(&missed)).into());
                }
                if let Outcome::Failed { why, cause: Cause::Work } = outcome {
                    return Ok(CellError::missing(fails_without_host_message(why)).into());
                }
            }
            _ => {}
        }
        Ok(exit.outcome)
    }

    /// Begins to run the guest of a cell on a separate thread, unless it has begun already, and returns None. A guest
    /// that cannot run on a separate thread is run to its end; then returns how it ended.
    fn begin_or_run(&mut self, formatted: &CellFilesystem, run: GuestRun, emit: CellSink) -> Result<Option<GuestExit>> {
        if self.early_guests.has_begun(&formatted.cell) {
            return Ok(None);
        }
        match self.start_guest(formatted, run, emit)? {
            StartedGuest::Ended(exit) => Ok(Some(exit)),
            StartedGuest::Restored(guest) => {
                self.early_guests.begin(&formatted.cell, vec![], *guest);
                Ok(None)
            }
        }
    }

    /// Begins the guests of the cells that come next, while CPUs are free. A cell whose filesystem cannot be made is
    /// skipped: its run reports the error later. Ends at a guest whose machine cannot be saved, because such a guest runs
    /// to its end here, and its cell runs again later.
    fn begin_upcoming_guests(&mut self) -> Result<()> {
        while let Some(cell) = self.early_guests.next_cell() {
            if self.next_purpose(&cell) != GuestPurpose::Measure || power_cut::cuts_power(&cell) {
                continue;
            }
            let mut earlier_events = vec![];
            let mut keep_command = |event| {
                if let CellEvent::Command(_) = event {
                    earlier_events.push(event);
                }
            };
            let Ok(formatted) = self.format(&cell, &mut keep_command) else { continue };
            let started = self.start_guest(&formatted, GuestRun::for_tasks(&PowerSupply::on()), &mut keep_command)?;
            match started {
                StartedGuest::Restored(guest) => self.early_guests.begin(&cell, earlier_events, *guest),
                StartedGuest::Ended(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Runs the guest of a shell to its end. The shell uses the terminal of this process.
    fn run_shell(&mut self, formatted: &CellFilesystem, supply: &PowerSupply, emit: CellSink) -> Result<GuestExit> {
        let (mut host_terminal, guest_end) =
            HostTerminal::connect().map_err(Error::io("connecting", "the terminal"))?;
        let is_terminal = self.run.shell.as_ref().is_some_and(|shell| shell.is_terminal);
        let mut has_begun = false;
        let mut emit = |event| {
            if let CellEvent::Phase { name: Phase::Shell } = &event {
                has_begun = true;
                // Without a terminal in the right mode the shell still reads and writes.
                let _ = host_terminal.begin(is_terminal);
            }
            emit(event);
        };
        let run = GuestRun { terminal: Some(guest_end), ..GuestRun::for_tasks(supply) };
        let mut exit = match self.begin_or_run(formatted, run, &mut emit)? {
            Some(exit) => exit,
            None => self.early_guests.wait(&formatted.cell, &mut emit)?,
        };
        // The runner runs a cell again if its guest died. It must not start the user's program a second time.
        if let Outcome::Failed { cause: cause @ Cause::Died, .. } = &mut exit.outcome
            && has_begun
        {
            *cause = Cause::Work;
        }
        if let (Some(shell), Some(code)) = (&self.run.shell, exit.shell_exit_code) {
            shell.set_exit_code(code);
        }
        Ok(exit)
    }

    /// A note on the median and the longest time that guests took to start; None before the first guest.
    fn boot_time_note(&self) -> Option<Note> {
        let mut times = self.boot_times.clone();
        times.sort_unstable();
        let median = times.get(times.len() / 2)?.as_secs_f64();
        let longest = times.last()?.as_secs_f64();
        let count = times.len();
        let text =
            format!("from launch to the first timed operation: {median:.1} s, the longest of {count} {longest:.1} s");
        Some(Note::new(NoteKind::Remark, text).task("boot"))
    }
}

impl Executor for GuestExecutor {
    fn announce(&mut self, cells: Vec<Cell>) {
        if self.guest_plan.emulator == Emulator::Exact && self.run.shell.is_none() {
            self.early_guests.announce(cells);
        }
    }

    fn run(&mut self, cell: &Cell, emit: CellSink) -> Result<Outcome> {
        self.images.remove_source_disks_before(cell.round, &mut |record| emit(CellEvent::Command(record)))?;
        if let Some(outcome) = self.rehearse_new_programs(cell, emit)? {
            return Ok(outcome);
        }
        let mut formatted = match self.format_or_explain(cell, emit) {
            Ok(formatted) => formatted,
            Err(outcome) => return Ok(outcome),
        };
        let is_reported = self.facts.contains_key(&cell.variant.name);
        let (name, emulator) = (cell.variant.name.clone(), self.guest_plan.emulator);
        // The mount options that are in effect, as the guest reports them.
        let mut effective_options = String::new();
        let counts_file = self.guest_dir(cell, "").join(COUNTS_FILE);
        let image_seed =
            self.aged_images.as_ref().and_then(|aged_images| aged_images.seed_of_cell(&self.run.plan, cell));
        let mut samples = vec![];
        let mut emit = |event| match event {
            CellEvent::Note(note) if note.kind == NoteKind::Options => {
                if note.task.as_deref() == Some("mount") {
                    effective_options = note.text.clone();
                }
                if !is_reported {
                    emit(CellEvent::Note(note.variant(&name)));
                }
            }
            CellEvent::Note(note) if note.variant.is_some() => emit(CellEvent::Note(note.variant(&name))),
            // The instruction counter has no counts of parts of a task.
            CellEvent::Sample(part) if part.is_of_part() => {
                emit(CellEvent::Sample(readings::sample_for_emulator(emulator, part, None)));
            }
            CellEvent::Sample(mut sample) => {
                let counts = read_counts(&counts_file, samples.len());
                if let Some(seed) = image_seed.filter(|_| sample.task.id.name == "mount") {
                    sample.readings.set(reading::IMAGE_SEED, seed as f64);
                }
                samples.push(sample.clone());
                emit(CellEvent::Sample(readings::sample_for_emulator(emulator, sample, counts)));
            }
            event => emit(event),
        };
        let guest_files = self.images.guest_files.path().to_path_buf();
        let mut run_guest = |supply: &PowerSupply, emit: CellSink| self.run_guest_of_cell(&formatted, supply, emit);
        let outcome = power_cut::run_cell(cell, &formatted.image, &guest_files, &mut run_guest, &mut emit)?;
        let outcome = self.explain_full_disk(outcome);
        self.images.remove_cell_image(cell, &mut |record| emit(CellEvent::Command(record)))?;
        if let Some(programs) = &mut self.programs {
            samples.iter().for_each(|sample| programs.record_requests(sample));
        }
        if matches!(outcome, Outcome::Failed { cause: Cause::Died, .. }) {
            // The runner runs the cell again. Keep the files of the guest that died.
            let _ = std::fs::rename(self.guest_dir(cell, ""), self.guest_dir(cell, "-died"));
        }
        formatted.facts.effective_options = effective_options;
        if !is_reported && outcome == Outcome::Done {
            self.facts.insert(name, formatted.facts);
        }
        Ok(outcome)
    }

    fn remarks(&self) -> Vec<Note> {
        let mut notes = self.run.fairness_notes(&self.facts);
        notes.extend(cache::take_damage().into_iter().map(|line| Note::new(NoteKind::Remark, line)));
        notes.extend(self.snapshots.iter().flat_map(SnapshotPool::notes));
        notes.extend(self.programs.iter().flat_map(HostPrograms::notes));
        if let Some(why) = self.why_not_restored.iter().find(|_| self.programs.is_none()) {
            notes.push(Note::new(NoteKind::Remark, format!("each guest booted by itself: {why}")));
        }
        if self.guest_plan.emulator == Emulator::Exact {
            notes.push(memory_layout_note(self.guest_plan.fixed_layout));
        }
        notes.extend(self.boot_time_note());
        notes
    }

    fn finish(self: Box<Self>, emit: RunSink) -> Result<()> {
        let GuestExecutor { images, format_cache, early_guests, .. } = *self;
        // Ends the guests of cells that the run did not reach, because they use the images.
        drop(early_guests);
        emit_logged_commands(emit, |log: CommandLog| format_cache.release(log))??;
        images.finish(emit)
    }
}

/// The message that the programs of a cell looked for a file which the guest lacks.
fn missed_file_message(path: &Path) -> String {
    let (path, qemu) = (path.display(), setting("on", "qemu"));
    format!(
        "a program looked for {path}, which it had not looked for in its rehearsal, so the guest does not have it: programs that \
         choose other files each time cannot be counted; take `{qemu}`"
    )
}

/// The message that a program succeeded in its rehearsal, and failed in a guest that has only copies of the files that
/// it opened there.
fn fails_without_host_message(why: &str) -> String {
    let qemu = setting("on", "qemu");
    format!(
        "a program succeeded in its rehearsal, where it read the files of this machine, and failed on copies of those that it \
         read there: {why}; such programs cannot be counted; take `{qemu}`"
    )
}

/// The note on whether all cells have the same memory layout.
fn memory_layout_note(is_fixed: bool) -> Note {
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
fn install_counter(dir: &Path, emit: RunSink) -> Result<Option<CounterPlugin>> {
    let version = emit_logged_commands(emit, |log| Argv::new(QEMU).arg("--version").run_checked(log))?;
    let version = version.map_err(Error::from)?.stdout;
    let counter = CounterPlugin::install(dir, &version)?;
    if counter.is_none() {
        let this_version = version.lines().next().unwrap_or("of no known version");
        let text = format!(
            "instructions of programs and of the kernel are separated only at clock ticks: the counter is for QEMU 6 to 8, and \
             this is {this_version}"
        );
        emit(Event::Note(Note::new(NoteKind::Remark, text)))?;
    }
    Ok(counter)
}

/// The note in every report of a run in guests: where the filesystems ran, and how far their figures can be trusted.
/// The example `truth` of the program `fsarena` measures how many differences guests reproduce; the table is in
/// docs/internals/guests.md.
fn caveat_note(guest: &GuestPlan, kernels: &Kernels) -> Note {
    let kernels = describe_kernels(kernels);
    let caveat = match (guest.emulator, guest.accelerator) {
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
    let text = format!("these filesystems ran in {}, {kernels}: {caveat}", Backing::Guest(guest.clone()).executor());
    Note::new(NoteKind::Fairness, text)
}

/// The names of the kernels; if there are several, with the levels by which variants name them.
fn describe_kernels(kernels: &Kernels) -> String {
    let has_several = kernels.by_level.len() > 1;
    let name = |(level, kernel): (&String, &GuestKernel)| match kernel.name() {
        name if has_several && *level != name => format!("{name} ({level})"),
        name => name,
    };
    let names: Vec<String> = kernels.by_level.iter().map(name).collect();
    format!("{} {}", if has_several { "kernels" } else { "kernel" }, names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_kernels_are_listed_with_the_levels_of_the_variants() {
        let kernel =
            |release: &str| GuestKernel { image: "/k".into(), release: release.into(), ..GuestKernel::default() };
        let mut kernels = Kernels::default();
        kernels.by_level.insert("debian:6.1".into(), kernel("6.1.0-9-amd64"));
        assert_eq!(describe_kernels(&kernels), "kernel 6.1.0-9-amd64");
        kernels.by_level.insert("debian:6.12".into(), kernel("6.12.1-amd64"));
        assert_eq!(describe_kernels(&kernels), "kernels 6.1.0-9-amd64 (debian:6.1), 6.12.1-amd64 (debian:6.12)");
    }
}
