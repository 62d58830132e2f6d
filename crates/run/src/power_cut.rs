//! Runs cells whose workload cuts the power, in three steps. First a guest runs the workload, until fsarena kills the
//! guest; QEMU records each write to its disk. Then fsarena replays on the new image the writes that a disk would have
//! kept. Then a second guest mounts that filesystem, verifies its files, and checks it.
//!
//! The programs that check filesystems lie on the source disk: [`packed_programs`].

use crate::bench::{Bench, lifecycle_task};
use crate::error::{CellError, CellResult, Result, RunError, require};
use crate::executor::{CellSink, CommandLog};
use crate::pools::Pool;
use crate::protocol::{AgentRequest, Power};
use crate::target::{measure_mount, measure_unmount};
use crate::tasks::{perform_privileged, run_tasks};
use crate::work::{self, find_workload};
use crate::{device_layout::filesystem_of, packed_programs};
use fsarena_core::cell::{Cell, TaskInfo, Variant, WorkloadPlan};
use fsarena_core::event::{Activity, CellEvent, NoteKind, Outcome, Phase};
use fsarena_core::plan::{Backing, Emulator, Plan};
use fsarena_core::sample::{Readings, TaskOutput};
use fsarena_core::setting_text::setting;
use fsarena_core::{factor, metric::reading};
use fsarena_fs::{def::CheckDef, filesystems};
use fsarena_guest::array_members;
use fsarena_guest::write_recording::{self, UnflushedWrites};
use fsarena_load::workload::PowerCut;
use fsarena_sys::argv::Argv;
use fsarena_sys::{Error, kernel::SysRoot};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs::File, time::Duration};

/// The bits of the exit status with which e2fsck and jfs_fsck report corrected errors. Other bits are failures.
const CORRECTED_ERRORS: i32 = 3;

/// Refuses a plan whose power cuts this machine cannot make. Returns the programs that check its filesystems after a
/// cut; none if no workload of the plan cuts the power.
///
/// # Errors
/// The part of the plan that cannot be combined with a power cut, and what to do.
pub fn required_check_programs(plan: &Plan, variants: &[Variant]) -> Result<BTreeSet<String>> {
    let mut programs = BTreeSet::new();
    let cuts_power = |planned: &&WorkloadPlan| {
        find_workload(plan, planned).is_ok_and(|(workload, job)| workload.power_cut(&job).is_some())
    };
    let Some(cutting_workload) = plan.workloads.iter().find(cuts_power) else { return Ok(programs) };
    let name = &cutting_workload.name;
    let runs_in_qemu = matches!(&plan.device.backing, Backing::Guest(guest) if guest.emulator == Emulator::Qemu);
    require(runs_in_qemu, || {
        RunError::Missing(format!(
            "{name} requires {}: it cuts the power, and QEMU records each write to the disk. Without a guest \
             dm-log-writes would record them, which fsarena does not support yet",
            setting("on", "qemu")
        ))
    })?;
    for variant in variants {
        let (def, options) = filesystem_of(variant)?;
        let has_one_disk = options.raid.is_none()
            && options.journal.is_none()
            && [factor::FAULTS, factor::STACK, factor::LAYER].iter().all(|id| variant.level(id).is_empty());
        let why = "only the writes to one disk are recorded, so leave out raid, journal, faults, stack and layer";
        require(has_one_disk, || RunError::in_variant(variant, format!("{name} cuts the power: {why}")))?;
        let check = def.check.ok_or_else(|| {
            let id = def.id;
            RunError::Plan(format!("{name}: fsarena knows no check of {id} after a power cut; leave it out"))
        })?;
        programs.insert(check.program.into());
    }
    Ok(programs)
}

/// Does the work of the second guest: mounts the filesystem after the cut, verifies its files, unmounts it, and checks
/// it.
///
/// # Errors
/// A filesystem that cannot be mounted, has lost or damaged a synced file, or is inconsistent.
pub fn recover_and_check(kernel: &SysRoot, request: &AgentRequest, bench: &mut Bench) -> CellResult {
    let def = filesystems::find(request.cell.variant.level(factor::FS))?;
    let missing = || CellError::internal(format!("no mount or check of {}", def.id));
    let mount = request.mount.as_ref().ok_or_else(missing)?;
    let checker = Checker { check: def.check.ok_or_else(missing)?, request, device: &mount.source };
    let info = TaskInfo { in_totals: true, ..lifecycle_task("recover", "Come back after a power cut") };
    measure_mount(kernel, mount, &info, |log| checker.prepare_mount(log), bench)
        .map_err(|error| error.with_part("recover"))?;
    let verified = run_tasks(request, bench, &mut |privileged, bench| {
        perform_privileged(request, privileged, bench, &mut std::io::empty())
    });
    // Unmount a filesystem that lost files too.
    let unmounted = measure_unmount(mount, false, bench);
    verified.and(unmounted)?;
    bench.wait_until_idle("fsck");
    let info = lifecycle_task("fsck", "Check the filesystem");
    let check = |log: CommandLog| checker.check_fully(log).map(|()| TaskOutput::default());
    bench
        .measure(&info, Activity::Timed, check, || Ok(()))
        .map_err(|error: Error| CellError::from(error).with_part("fsck"))
}

/// Checks a filesystem on its device after a power cut, with programs on the source disk.
struct Checker<'a> {
    check: CheckDef,
    request: &'a AgentRequest,
    device: &'a PathBuf,
}

impl Checker<'_> {
    /// The command that runs the checking program with these arguments, through the dynamic loader on the source disk.
    fn command(&self, args: &[&str]) -> Argv {
        packed_programs::packed_command(&self.request.source_dir, self.check.program).args(args)
    }

    /// Runs the full check: of the device, or of the opened pool.
    fn check_fully(&self, log: CommandLog) -> Result<(), Error> {
        let Some(pool) = Pool::of(self.request.cell.variant.level(factor::FS)) else {
            self.command(self.check.full_check).arg(self.device).run_checked(log)?;
            return Ok(());
        };
        pool.open(log)?;
        self.command(self.check.full_check).run_checked(log)?;
        pool.check_health(log)?;
        pool.close(log)
    }

    /// Runs the commands that make the filesystem mountable after a power cut, until one succeeds. Does nothing for a
    /// filesystem that needs none.
    fn prepare_mount(&self, log: CommandLog) -> Result<(), Error> {
        let mut result = Ok(());
        for args in self.check.repairs {
            let argv = self.command(args).arg(self.device);
            let finished = argv.run()?;
            log(argv.log_record(&finished));
            if finished.status.code().is_some_and(|code| code & !CORRECTED_ERRORS == 0) {
                return Ok(());
            }
            result = argv.check_success(finished).map(|_| ()).map_err(Into::into);
        }
        result
    }
}

/// The power supply of one guest, and the disk image on which its writes are recorded.
pub struct PowerSupply {
    /// Whether it is on, will be cut, or was restored.
    pub power: Power,
    /// The time of the cut, counted from the beginning of the work; None if the power stays on.
    pub cut_after: Option<Duration>,
    /// A copy of the formatted image for the guest, and the file that records its writes. None if the guest gets the
    /// formatted image itself.
    pub recording: Option<(PathBuf, PathBuf)>,
}

impl PowerSupply {
    /// A power supply that is never cut.
    pub fn on() -> PowerSupply {
        PowerSupply::without_cut(Power::On)
    }

    /// A power supply that is not cut while this guest runs: it was always on, or it was restored after the cut in an
    /// earlier guest.
    fn without_cut(power: Power) -> PowerSupply {
        PowerSupply { power, cut_after: None, recording: None }
    }
}

/// The power cut of a cell, if its workload has one.
fn cut_of(cell: &Cell) -> Option<PowerCut> {
    let (workload, job) = work::workload_of_cell(cell).ok()?;
    workload.power_cut(&job)
}

/// Whether the workload of a cell cuts the power.
pub fn cuts_power(cell: &Cell) -> bool {
    cut_of(cell).is_some()
}

/// A function that runs a guest with this power supply to its end.
type RunGuest<'a> = &'a mut dyn FnMut(&PowerSupply, CellSink) -> Result<Outcome>;

/// Runs a cell in one guest, or in two if its workload cuts the power. `image` has the new filesystem; `dir` is for
/// temporary files. If the first guest or the replay fails, they stay there until the next cell with a power cut or the
/// end of the run.
///
/// # Errors
/// Those of `run_guest`, or a file that cannot be copied or removed.
pub fn run_cell(cell: &Cell, image: &Path, dir: &Path, run_guest: RunGuest, emit: CellSink) -> Result<Outcome> {
    let Some(PowerCut { delay, survivors_seed }) = cut_of(cell) else {
        return run_guest(&PowerSupply::on(), emit);
    };
    let [recorded_image, write_log] = ["recorded.img", "writes"].map(|name| dir.join(name));
    copy_image(image, &recorded_image)?;
    write_recording::create_recording(&write_log)?;
    let recording = Some((recorded_image.clone(), write_log.clone()));
    let outcome = run_guest(&PowerSupply { power: Power::Cut, cut_after: Some(delay), recording }, emit)?;
    if outcome != Outcome::Done {
        return Ok(outcome);
    }
    emit(CellEvent::Phase { name: Phase::PowerCut });
    // Writes before the last flush are on the disk. The later ones are all lost, or `survivors_seed` selects some that
    // are kept.
    let replayed = match write_recording::replay(
        &write_log,
        image,
        survivors_seed.map_or(UnflushedWrites::Lost, UnflushedWrites::Chosen),
    ) {
        Ok(replayed) => replayed,
        Err(error) => return Ok(CellError::from(error).with_part("power cut").into()),
    };
    for path in [&recorded_image, &write_log] {
        std::fs::remove_file(path).map_err(Error::io("removing", path))?;
    }
    let (mut samples, mut recovery) = (vec![], Readings::default());
    let outcome = run_guest(&PowerSupply::without_cut(Power::Restored), &mut |event| match event {
        // The first guest has sent them already.
        CellEvent::Note(note) if note.kind == NoteKind::Options => {}
        // The counts of synced and lost files become readings of the recovery.
        CellEvent::Sample(sample) if sample.task.id.name == PowerCut::VERIFY_TASK => {
            let counts = [reading::FILES_SYNCED, reading::FILES_LOST];
            recovery.0.extend(sample.readings.0.into_iter().filter(|(id, _)| counts.contains(&id.as_str())));
        }
        CellEvent::Sample(sample) => samples.push(sample),
        event => emit(event),
    })?;
    // Without its files the filesystem has not recovered, so a failed cell has no samples.
    if outcome == Outcome::Done {
        recovery.set(reading::REPLAYED_BYTES, replayed.replayed_bytes as f64);
        if let Some(first) = samples.first_mut() {
            first.readings.extend(recovery);
        }
        samples.into_iter().for_each(|sample| emit(CellEvent::Sample(sample)));
    }
    Ok(outcome)
}

/// Copies an image with its holes.
fn copy_image(image: &Path, copy: &Path) -> Result<()> {
    let size = image.metadata().map_or(0, |meta| meta.len());
    File::create(copy).and_then(|file| file.set_len(size)).map_err(Error::io("making", copy))?;
    // A mirror with one member: this copies the image and leaves its holes out, so the copy has the same holes.
    Ok(array_members::spread_over_members(image, &[copy], true)?)
}
