//! A filesystem after a power cut: it comes back, its files are verified, and it is checked.
//!
//! The programs that check filesystems are put on the source disk with their libraries, because a guest has no other
//! program than fsarena.

use crate::bench::{Bench, lifecycle};
use crate::executor::{Done, Failed, Fatal, Log, Result, require};
use crate::target::{mount_task, unmount_task};
use crate::tasks::{perform, tasks};
use crate::{layout::filesystem_of, protocol::Request, work::workload};
use fsarena_core::cell::{TaskInfo, Variant, WorkloadPlan};
use fsarena_core::event::SpentOn;
use fsarena_core::plan::{Backing, Emulator, Plan};
use fsarena_core::{factor, matrix, sample::TaskOutput};
use fsarena_fs::{def::CheckDef, filesystems};
use fsarena_sys::argv::{Argv, Error};
use fsarena_sys::{kernel::SysRoot, program};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The directory on the source disk with the programs and their libraries.
const PROGRAMS: &str = ".check";
/// The name there of what loads a program with its libraries.
const LOADER: &str = "loader";
/// The bits of the exit status with which e2fsck and jfs_fsck report corrected errors. Other bits are failures.
const CORRECTED: i32 = 3;

/// Refuses a plan whose power cuts cannot be had. Returns the programs that check its filesystems.
///
/// # Errors
/// The missing part, and what to do.
pub fn check(plan: &Plan, variants: &[Variant]) -> Result<BTreeSet<String>> {
    let mut programs = BTreeSet::new();
    let cuts = |asked: &&WorkloadPlan| {
        workload(plan, asked).is_ok_and(|(workload, job)| workload.cut(&job).is_some())
    };
    let Some(asked) = plan.workloads.iter().find(cuts) else { return Ok(programs) };
    let name = &asked.name;
    let qemu = matches!(&plan.device.backing, Backing::Guest(guest) if guest.emulator == Emulator::Qemu);
    require(qemu, || {
        Fatal::Missing(format!(
            "{name} cuts the power, for which each write to the disk is recorded. QEMU does that for a guest: --on qemu. \
             In this kernel dm-log-writes would have to, and fsarena cannot use that yet"
        ))
    })?;
    for variant in variants {
        let (def, own) = filesystem_of(variant)?;
        let one = own.raid.is_none() && own.journal.is_none() && variant.level(factor::FAULTS).is_empty();
        let why = "only the writes to one disk are recorded, so leave out raid, journal and faults";
        require(one, || Fatal::variant(variant, format!("{name} cuts the power: {why}")))?;
        let check = def.check.ok_or_else(|| {
            let id = def.id;
            Fatal::Plan(format!("{name}: fsarena knows no check of {id} after a power cut; leave it out"))
        })?;
        programs.extend([check.program, "ldd"].map(String::from));
    }
    Ok(programs)
}

/// Puts the programs that check a plan's filesystems below a directory, where its power is cut.
///
/// # Errors
/// Where one cannot be found or copied.
pub fn pack(plan: &Plan, other: &Path, log: Log) -> Result<()> {
    let dir = other.join(PROGRAMS);
    for name in check(plan, &matrix::expand(plan))?.iter().filter(|name| *name != "ldd") {
        std::fs::create_dir_all(&dir).map_err(fsarena_sys::Error::io("making", &dir))?;
        let found = program::find(name).ok_or_else(|| Fatal::Missing(format!("{name} is missing")))?;
        let said = Argv::new("ldd").arg(&found).expect(log).map_err(fsarena_sys::Error::from)?.stdout;
        copy(&found, &dir.join(name))?;
        for library in libraries(&said) {
            let name = Path::new(library).file_name().unwrap_or_default();
            let is_loader = name.to_string_lossy().starts_with("ld-");
            copy(Path::new(library), &dir.join(if is_loader { LOADER.as_ref() } else { name }))?;
        }
    }
    Ok(())
}

/// The files that ldd(1) names.
fn libraries(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).map_err(fsarena_sys::Error::io("copying", from))?;
    Ok(())
}

/// Everything after the cut: recover, verify, unmount, check.
///
/// # Errors
/// A filesystem that does not come back, has damaged a synced file, or is inconsistent.
pub fn back(kernel: &SysRoot, request: &Request, bench: &mut Bench) -> Done {
    let def = filesystems::find(request.cell.variant.level(factor::FS))?;
    let missing = || Failed::internal(format!("no mount or check of {}", def.id));
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
        .map_err(|error: Error| Failed::from(error).of("fsck"))
}

/// The check of a filesystem on its device.
struct Checking<'a> {
    check: CheckDef,
    request: &'a Request,
    device: &'a PathBuf,
}

impl Checking<'_> {
    fn run(&self, args: &[&str]) -> Argv {
        let dir = self.request.other.join(PROGRAMS);
        let loader = Argv::new(dir.join(LOADER)).arg("--library-path").arg(&dir);
        loader.arg(dir.join(self.check.program)).args(args).arg(self.device)
    }

    /// What the filesystem needs before it is mounted.
    fn before(&self, log: Log) -> Result<(), fsarena_sys::Error> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldd_names_libraries_and_the_loader() {
        let said = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibext2fs.so.2 => /lib/x86_64-linux-gnu/libext2fs.so.2 (0x7f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        let found: Vec<&str> = libraries(said).collect();
        assert_eq!(found, ["/lib/x86_64-linux-gnu/libext2fs.so.2", "/lib64/ld-linux-x86-64.so.2"]);
    }
}
