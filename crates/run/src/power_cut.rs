//! Cells whose power is cut, in three steps: a guest works while each write to its disk is recorded, and is killed; the
//! writes that the disk would have kept are replayed on the image as mkfs left it; a second guest mounts the filesystem,
//! verifies its files, and checks it.
//!
//! The programs that check filesystems lie on the source disk: [`guest_programs`].

use crate::bench::{Bench, lifecycle};
use crate::error::{CellError, CellResult, Result, RunError, require};
use crate::executor::{CellSink, Log};
use crate::protocol::{Power, Request};
use crate::target::{mount_task, unmount_task};
use crate::tasks::{perform, tasks};
use crate::work::{self, workload};
use crate::{guest_programs, layout::filesystem_of, settings::setting};
use fsarena_core::cell::{Cell, TaskInfo, Variant, WorkloadPlan};
use fsarena_core::event::{CellEvent, NoteKind, Outcome, SpentOn};
use fsarena_core::plan::{Backing, Emulator, Plan};
use fsarena_core::sample::{Readings, TaskOutput};
use fsarena_core::{factor, metric::reading};
use fsarena_fs::{def::CheckDef, filesystems};
use fsarena_guest::writes::{self, Later};
use fsarena_guest::{config::Array, stripes};
use fsarena_load::workload::Cut;
use fsarena_sys::argv::{self, Argv};
use fsarena_sys::{Error, kernel::SysRoot};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs::File, time::Duration};

/// The bits of the exit status with which e2fsck and jfs_fsck report corrected errors. Other bits are failures.
const CORRECTED: i32 = 3;

/// Refuses a plan whose power cuts this machine cannot do. Returns the programs that check its filesystems; none if the
/// plan cuts no power.
///
/// # Errors
/// The missing part, and what to do.
pub fn check_plan(plan: &Plan, variants: &[Variant]) -> Result<BTreeSet<String>> {
    let mut programs = BTreeSet::new();
    let cuts = |asked: &&WorkloadPlan| {
        workload(plan, asked).is_ok_and(|(workload, job)| workload.cut(&job).is_some())
    };
    let Some(asked) = plan.workloads.iter().find(cuts) else { return Ok(programs) };
    let name = &asked.name;
    let qemu = matches!(&plan.device.backing, Backing::Guest(guest) if guest.emulator == Emulator::Qemu);
    require(qemu, || {
        RunError::Missing(format!(
            "{name} cuts the power, for which each write to the disk is recorded. QEMU does that for a guest: {}. \
             In this kernel dm-log-writes would have to, and fsarena cannot use that yet",
            setting("on", "qemu")
        ))
    })?;
    for variant in variants {
        let (def, own) = filesystem_of(variant)?;
        let around = [factor::FAULTS, factor::STACK, factor::LAYER];
        let plain = around.iter().all(|id| variant.level(id).is_empty());
        let one = own.raid.is_none() && own.journal.is_none() && plain;
        let why =
            "only the writes to one disk are recorded, so leave out raid, journal, faults, stack and layer";
        require(one, || RunError::variant(variant, format!("{name} cuts the power: {why}")))?;
        let check = def.check.ok_or_else(|| {
            let id = def.id;
            RunError::Plan(format!("{name}: fsarena knows no check of {id} after a power cut; leave it out"))
        })?;
        programs.insert(check.program.into());
    }
    Ok(programs)
}

/// Does everything after the cut: mounts the filesystem, verifies its files, unmounts it, checks it.
///
/// # Errors
/// A filesystem that does not come back, has damaged a synced file, or is inconsistent.
pub fn recover_and_check(kernel: &SysRoot, request: &Request, bench: &mut Bench) -> CellResult {
    let def = filesystems::find(request.cell.variant.level(factor::FS))?;
    let missing = || CellError::internal(format!("no mount or check of {}", def.id));
    let mount = request.mount.as_ref().ok_or_else(missing)?;
    let checking = Checking { check: def.check.ok_or_else(missing)?, request, device: &mount.source };
    let info = TaskInfo { in_totals: true, ..lifecycle("recover", "Come back after a power cut") };
    mount_task(kernel, mount, &info, |log| checking.before(log), bench)
        .map_err(|failed| failed.of("recover"))?;
    let verified =
        tasks(request, bench, &mut |ask, bench| perform(request, ask, bench, &mut std::io::empty()));
    // A filesystem that lost files is unmounted all the same.
    let unmounted = unmount_task(mount, bench);
    verified.and(unmounted)?;
    bench.wait_until_idle("fsck");
    let info = lifecycle("fsck", "Check the filesystem");
    let full = |log: Log| checking.run(checking.check.full).expect(log).map(|_| TaskOutput::default());
    bench
        .measure(&info, SpentOn::Timed, full, || Ok(()))
        .map_err(|error: argv::Error| CellError::from(error).of("fsck"))
}

/// The check of a filesystem on its device.
struct Checking<'a> {
    check: CheckDef,
    request: &'a Request,
    device: &'a PathBuf,
}

impl Checking<'_> {
    fn run(&self, args: &[&str]) -> Argv {
        guest_programs::command(&self.request.other, self.check.program).args(args).arg(self.device)
    }

    /// What the filesystem needs before it is mounted.
    fn before(&self, log: Log) -> Result<(), Error> {
        let mut result = Ok(());
        for args in self.check.before {
            let argv = self.run(args);
            let finished = argv.run()?;
            log(argv.record(&finished));
            if finished.status.code().is_some_and(|code| code & !CORRECTED == 0) {
                return Ok(());
            }
            result = argv.check(finished).map(|_| ()).map_err(Into::into);
        }
        result
    }
}

/// The power supply of one guest.
pub struct PowerSupply {
    /// Whether it is on, will be cut, or was restored.
    pub power: Power,
    /// When it is cut, counted from the beginning of the work.
    pub cut: Option<Duration>,
    /// The image that the guest has, and the file that records what it writes there. None for the image that was
    /// formatted.
    pub recorded: Option<(PathBuf, PathBuf)>,
}

impl PowerSupply {
    fn steady(power: Power) -> PowerSupply {
        PowerSupply { power, cut: None, recorded: None }
    }
}

/// Boots a guest with this power to its end.
type Boot<'a> = &'a mut dyn FnMut(&PowerSupply, CellSink) -> Result<Outcome>;

/// Runs a cell in one guest, or in two if its work cuts the power. `image` is as mkfs left it; `dir` takes files of guests.
///
/// # Errors
/// Those of `boot`, or a file that cannot be copied.
pub fn run_cell(cell: &Cell, image: &Path, dir: &Path, boot: Boot, emit: CellSink) -> Result<Outcome> {
    let cut = work::of_cell(cell).ok().and_then(|(workload, job)| workload.cut(&job));
    let Some(Cut { after, chosen }) = cut else { return boot(&PowerSupply::steady(Power::On), emit) };
    let [recorded, log] = ["recorded.img", "writes"].map(|name| dir.join(name));
    copy_image(image, &recorded)?;
    writes::begin(&log)?;
    let files = Some((recorded.clone(), log.clone()));
    let outcome = boot(&PowerSupply { power: Power::Cut, cut: Some(after), recorded: files }, emit)?;
    if outcome != Outcome::Done {
        return Ok(outcome);
    }
    emit(CellEvent::Phase { name: "power cut".into() });
    let replayed = match writes::replay(&log, image, chosen.map_or(Later::Lost, Later::Chosen)) {
        Ok(replayed) => replayed,
        Err(error) => return Ok(CellError::from(error).of("power cut").into()),
    };
    for path in [&recorded, &log] {
        std::fs::remove_file(path).map_err(Error::io("removing", path))?;
    }
    let (mut samples, mut found) = (vec![], Readings::default());
    let outcome = boot(&PowerSupply::steady(Power::Restored), &mut |event| match event {
        // The first guest has sent them already.
        CellEvent::Note(note) if note.kind == NoteKind::Options => {}
        // What became of the files is a reading of the recovery.
        CellEvent::Sample(sample) if sample.task.id.name == Cut::VERIFY => {
            let counts = [reading::FILES_SYNCED, reading::FILES_LOST];
            found.0.extend(sample.readings.0.into_iter().filter(|(id, _)| counts.contains(&id.as_str())));
        }
        CellEvent::Sample(sample) => samples.push(sample),
        event => emit(event),
    })?;
    // A filesystem that came back without its files has not come back.
    if outcome == Outcome::Done {
        found.set(reading::REPLAYED, replayed.bytes as f64);
        samples.iter_mut().take(1).for_each(|recover| recover.readings.extend(found.clone()));
        samples.into_iter().for_each(|sample| emit(CellEvent::Sample(sample)));
    }
    Ok(outcome)
}

/// Copies an image with its holes.
fn copy_image(from: &Path, to: &Path) -> Result<()> {
    let size = from.metadata().map_or(0, |meta| meta.len());
    File::create(to).and_then(|file| file.set_len(size)).map_err(Error::io("making", to))?;
    // A mirror of one.
    Ok(stripes::spread(from, &[to], Array::Raid1)?)
}
