//! Finds what guests need to start programs of this machine, and checks that they have it.

use super::guests::Kernels;
use crate::error::{Result, RunError, require};
use crate::work::{find_workload, workload_versions};
use fsarena_core::cell::Variant;
use fsarena_core::plan::{Backing, Emulator, Plan};
use fsarena_core::setting_text::setting;
use fsarena_guest::emulator::{HOST_FILES_QEMU_DEVICE, MEMORY_DISK_DRIVERS, QEMU};
use fsarena_guest::host_root::{MODULES, is_in_own_dir};
use fsarena_sys::{Error, argv::Argv, dirs, program};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs::File, os::unix::fs::PermissionsExt};

/// The least number of bytes that each copied file counts as. By default, mkfs.ext4 makes one inode for each 16 KiB of a disk,
/// so the source disk then has an inode for every file.
const MIN_FILE_BYTES: u64 = 16 << 10;

/// What guests need to start programs of this machine.
#[derive(Debug, Clone, Default)]
pub struct HostProgramNeeds {
    /// The paths of this machine that guests read from copies on their source disk.
    pub copied_paths: Vec<PathBuf>,
    /// The room that the copies take, in bytes.
    pub copied_bytes: u64,
}

/// Finds what guests need to start these programs of this machine, which the workloads execute. None if a plan does not run in
/// guests, or if it starts no programs.
///
/// # Errors
/// A program or an input that this process cannot read.
pub fn find_needs(plan: &Plan, variants: &[Variant], programs: &BTreeSet<&str>) -> Result<Option<HostProgramNeeds>> {
    let Backing::Guest(guest) = &plan.device.backing else { return Ok(None) };
    if programs.is_empty() {
        return Ok(None);
    }
    require(!(guest.emulator == Emulator::Exact && guest.boots_anew), || {
        let (fresh, exact) = (setting("fresh_guests", ""), setting("on", "exact"));
        RunError::Plan(format!(
            "{fresh}: does not work with {exact}, because guests that start programs of this machine then begin with a saved \
             machine; leave out {fresh}"
        ))
    })?;
    let mut copied_paths = vec![];
    for file in programs.iter().copied().filter_map(program::find_by_name_or_path) {
        check_readable(&file)?;
        // A guest has its own directory there, so it cannot read the program from the directory of this machine.
        copied_paths.extend(is_in_own_dir(&file).then_some(file));
    }
    for planned in &plan.workloads {
        for version in workload_versions(planned, variants) {
            let (workload, job) = find_workload(plan, &version)?;
            copied_paths.extend(workload.paths_in_settings(&job).into_iter().filter(|path| is_input(path)));
        }
    }
    let copied_paths = outermost_paths(copied_paths);
    let sizes = copied_paths.iter().map(|path| dirs::tree_bytes(path, MIN_FILE_BYTES));
    let copied_bytes = sizes.sum::<Result<u64, Error>>()?;
    Ok(Some(HostProgramNeeds { copied_paths, copied_bytes }))
}

/// Refuses a program that this process may not read, because QEMU reads it for the guest.
fn check_readable(file: &Path) -> Result<()> {
    File::open(file).map(drop).map_err(|error| {
        let why = format!(
            "{}: {error}; QEMU reads programs for a guest as the user who started fsarena. Let that user read it, or run \
             elsewhere ({})",
            file.display(),
            setting("on", "loop")
        );
        RunError::Plan(why)
    })
}

/// Whether a path in a command is input data, which guests get as a copy. Paths directly below the root, such as `/usr`, belong
/// to the system. Executable files are programs, which guests read from this machine, except below their own directories
/// ([`is_in_own_dir`]).
fn is_input(path: &Path) -> bool {
    let is_root_or_directly_below = path.parent().is_none_or(|parent| parent == Path::new("/"));
    let is_below_shm = path.parent().is_some_and(|parent| parent.starts_with("/dev/shm"));
    let is_virtual = !is_below_shm && ["/proc", "/sys", "/dev"].iter().any(|dir| path.starts_with(dir));
    let Some(meta) = path.metadata().ok().filter(|_| !is_root_or_directly_below && !is_virtual) else { return false };
    meta.is_dir() || meta.is_file() && (meta.permissions().mode() & 0o111 == 0 || is_in_own_dir(path))
}

/// Resolves the symbolic links of these paths, and leaves out paths that lie below another one.
fn outermost_paths(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let paths: BTreeSet<PathBuf> = paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let mut outermost: Vec<PathBuf> = vec![];
    for path in paths {
        if outermost.last().is_none_or(|last| !path.starts_with(last)) {
            outermost.push(path);
        }
    }
    outermost
}

/// Checks that QEMU can export the files of this machine, and that these kernels can read them in guests of this emulator.
///
/// # Errors
/// QEMU or a kernel lacks a part. The error names the part, and the package or kernel that has it.
pub fn check_guests(emulator: Emulator, kernels: &Kernels) -> Result<()> {
    let devices = Argv::new(QEMU).args(["-device", "help"]).run().map_err(Error::from)?.stdout;
    require(devices.contains(&format!("\"{HOST_FILES_QEMU_DEVICE}\"")), || {
        RunError::Missing(format!(
            "this QEMU lacks {HOST_FILES_QEMU_DEVICE} (9p), by which guests read the programs of this machine: \
             apt-get install qemu-system-x86 qemu-system-common"
        ))
    })?;
    for kernel in kernels.by_level.values().filter(|kernel| kernel.modules.is_known()) {
        let disks = MEMORY_DISK_DRIVERS.into_iter().filter(|_| emulator == Emulator::Exact);
        let lacking: Vec<&str> = MODULES.into_iter().chain(disks).filter(|name| !kernel.modules.has(name)).collect();
        require(lacking.is_empty(), || {
            let (kernel, modules) = (kernel.name(), lacking.join(", "));
            let cloud_note = if kernel.contains("cloud") { ", as all of Debian's cloud kernels" } else { "" };
            RunError::Missing(format!(
                "the guest kernel {kernel} has no module {modules}{cloud_note}, so its guests cannot start programs of this \
                 machine; take another one: {}",
                setting("kernel", "debian:6.12")
            ))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_data_and_no_part_of_the_system() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("data");
        std::fs::write(&file, "x").unwrap();
        assert!(is_input(&file) && is_input(dir.path()));
        for path in ["/", "/usr", "/usr/bin/env", "/proc/self", "/dev/shm", "/no/such"] {
            assert!(!is_input(Path::new(path)), "{path}");
        }
        let below = vec![file.clone(), dir.path().into(), "/usr/bin".into(), "/usr/bin/../share".into()];
        let outermost = outermost_paths(below);
        assert!(outermost.contains(&dir.path().canonicalize().unwrap()) && !outermost.contains(&file), "{outermost:?}");
        assert!(outermost.contains(&"/usr/share".into()));
    }
}
