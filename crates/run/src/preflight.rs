//! Checks a plan against this machine before the run makes anything: programs, filesystems, devices, directories, space.

mod fs_capabilities;
pub mod guests;
mod host_programs;
mod room;
mod special;
pub mod trial;

pub use guests::Kernels;
pub use host_programs::HostPrograms;
pub use room::RAM;
pub(crate) use room::{open_source_disk, open_to_erase};

use crate::error::{Result, RunError, require};
use crate::layout::{self, DeviceSpec, filesystem_of};
use crate::work::{Work, workload};
use crate::{axes, axes::fill, layers, packed_programs};
use bytesize::ByteSize;
use fsarena_core::host::{self, Storage};
use fsarena_core::number::plural;
use fsarena_core::plan::{Backing, Emulator, Plan};
use fsarena_core::setting_text::setting;
use fsarena_core::{cell::Variant, event::Note, factor};
use fsarena_fs::{available::survey, def::FsDef, filesystems};
use fsarena_load::workload::{Demands, Room};
use fsarena_sys::device::BlockDevice;
use fsarena_sys::host::{storage_at, storage_of};
use fsarena_sys::permitted::{self, Obstacle};
use fsarena_sys::{CommandError, Error, kernel::SysRoot, limits, program, user::User};
use room::{check_images, check_other_device, erased_size, image_size, images_dir, needed_bytes, other_size};
use rustix::fs::Access;
use std::collections::{BTreeMap, BTreeSet};
use std::{os::unix::fs::MetadataExt, path::Path};

/// The message that refuses `fs=raw` on a device of the user.
pub fn raw_needs_an_image() -> String {
    let (image, memory) = (setting("on", "loop"), setting("on", "ram"));
    format!(
        "fs=raw writes to the bare device, and fsarena does that only to images that it made: use `{image}` or `{memory}`"
    )
}

/// The size of the database of a small run, in bytes. fsarena checks that it may write such a file, because SQLite does not
/// report a file size limit as the cause of its error.
const DATABASE_BYTES: u64 = 1 << 20;

/// The requirements of a run, found by [`check`].
#[derive(Debug, Clone)]
pub struct Check {
    /// Size of the filesystem under test, in bytes; 0 if the run formats nothing.
    pub size_bytes: u64,
    /// The devices that hold the filesystems of the variants.
    pub devices: BTreeSet<DeviceSpec>,
    /// Size of the source disk's image, in bytes; 0 if the source disk is a directory.
    pub other_bytes: u64,
    /// Whether a workload copies from the source disk or to it.
    pub copies: bool,
    /// Programs that the run executes.
    pub programs: Vec<String>,
    /// Programs that the user wrote into the settings, by name or path.
    pub own_programs: Vec<String>,
    /// Notes for every report of these workloads.
    pub remarks: Vec<Note>,
    /// Programs that run in guests and lie on their source disk.
    pub packed_programs: Vec<String>,
    /// Number of timed tasks of all workloads.
    pub tasks: u32,
    /// The kernels of guests; empty for other backings.
    pub kernels: Kernels,
    /// The programs of this machine that guests start; None if they start none.
    pub host_programs: Option<HostPrograms>,
    /// Whether the run continues an interrupted one.
    pub resumed: bool,
    /// The storage below the images, the directories or the erased device, by the name of each.
    pub(crate) storage: BTreeMap<String, Storage>,
}

impl Check {
    /// Describes the cells of a plan in a line: tasks, size of the filesystem and of the source disk, place of the images.
    pub fn describe(&self, plan: &Plan) -> String {
        let what = match &plan.device.backing {
            Backing::Dir => return format!("{}, in a directory", self.tasks_of(plan)),
            Backing::Erase { path, .. } => path.display().to_string(),
            Backing::Loop { .. } | Backing::Ram => "image".into(),
            Backing::Zram => "zram device".into(),
            Backing::Guest(guest) => format!("{} guest, image", guest.emulator.name()),
        };
        let (size, other) = (ByteSize(self.size_bytes), ByteSize(self.other_bytes));
        let images = self.storage.get(host::IMAGES);
        let at = images.map_or(String::new(), |storage| format!("; images in {storage}"));
        format!("{}; {what} of {size}, source disk of {other}{at}", self.tasks_of(plan))
    }

    /// The number of tasks, and of the cells that have them: a variant has a cell for each workload, and for each value of a grid.
    fn tasks_of(&self, plan: &Plan) -> String {
        let tasks = plural(self.tasks as usize, "task");
        match plan.workloads.len() {
            1 => format!("{tasks} a cell"),
            cells => format!("{tasks} in {cells} cells for each variant"),
        }
    }
}

/// The error of a program in the user's settings that cannot be executed. A program that is missing under sudo may be in a
/// directory of the user's own PATH.
fn not_executable(error: CommandError, by_sudo: bool) -> RunError {
    match error {
        CommandError::NotFound { program } if by_sudo => RunError::Missing(format!(
            "{program} is in no directory of PATH, which sudo has replaced; keep yours: sudo env \"PATH=$PATH\" fsarena …"
        )),
        error => fsarena_sys::Error::from(error).into(),
    }
}

/// Checks a plan against this machine. `runs` is the directory of runs, which need not exist yet. Each of the `clients`
/// needs the space of the workloads; the workloads run as `user`.
///
/// # Errors
/// A filesystem, program, directory or free space that is missing, with what to do.
pub fn check(
    kernel: &SysRoot,
    plan: &Plan,
    variants: &[Variant],
    runs: &Path,
    clients: u32,
    user: &User,
) -> Result<Check> {
    check_readable(kernel, plan, variants, runs)?;
    check_can_mount(kernel, plan)?;
    check_has_variants(variants)?;
    check_precondition(plan)?;
    check_bare_devices(plan, variants)?;
    check_options(plan, variants)?;
    special::check(plan, variants)?;
    check_kernel_levels(plan, variants)?;
    axes::check(kernel, plan, variants)?;
    let Work { mut room, demands, mut programs, own_programs, remarks, tasks } =
        Work::of_plan(plan, variants)?;
    for name in &own_programs {
        program::check(name, user)
            .map_err(|error| not_executable(error, std::env::var_os("SUDO_UID").is_some()))?;
    }
    let aged = axes::age::room(plan, variants)?;
    (room.bytes, room.inodes) = (room.bytes + aged.bytes, room.inodes + aged.inodes);
    room.bytes = fill::bytes_with_fill(variants, room.bytes.saturating_mul(u64::from(clients)));
    let copies = room.other_bytes > 0;
    let host_programs = host_programs::check(plan, variants, &programs, &own_programs)?;
    room.other_bytes += host_programs.as_ref().map_or(0, |programs| programs.bytes);
    let packed_programs = guests::programs(plan, variants)?;
    room.other_bytes += packed_programs::ROOM * packed_programs.len() as u64;
    if !packed_programs.is_empty() {
        programs.extend(packed_programs.iter().cloned().chain([packed_programs::LISTER.into()]));
    }
    let mut check = Check {
        size_bytes: 0,
        devices: BTreeSet::new(),
        other_bytes: 0,
        copies,
        programs: vec![],
        packed_programs,
        own_programs: own_programs.into_iter().collect(),
        remarks,
        tasks,
        kernels: Kernels::default(),
        host_programs,
        resumed: false,
        storage: storage(kernel, plan, variants, runs),
    };
    if plan.device.backing == Backing::Dir {
        check_directories(variants, room, &demands)?;
    } else {
        programs.extend(check_devices(&mut check, kernel, plan, variants, runs, (room, &demands))?);
    }
    check_installed(&programs)?;
    check_can_attach(kernel, plan, check.other_bytes)?;
    check.programs = programs.into_iter().collect();
    Ok(check)
}

/// Checks the filesystems, devices and images of a run that formats filesystems, and sets their sizes in `check`. Returns
/// the programs that make and mount the filesystems.
fn check_devices(
    check: &mut Check,
    kernel: &SysRoot,
    plan: &Plan,
    variants: &[Variant],
    runs: &Path,
    (room, demands): (Room, &Demands),
) -> Result<BTreeSet<String>> {
    let backing = &plan.device.backing;
    let guest = matches!(backing, Backing::Guest(_));
    let mut defs = match backing {
        Backing::Guest(guest) => {
            let levels = variants.iter().map(|variant| variant.level(factor::KERNEL));
            let wanted =
                variants.iter().filter_map(|variant| filesystems::find(variant.level(factor::FS)).ok());
            let wanted: Vec<&FsDef> = wanted.collect();
            check.kernels = guests::find_kernels(guest, levels, &wanted)?;
            let counts = guest.emulator == Emulator::Exact;
            let age = variants.iter().any(axes::age::starts_programs);
            let of_ageing = age.then(|| HostPrograms { counts, ..HostPrograms::default() });
            if let Some(programs) = check.host_programs.as_ref().or(of_ageing.as_ref()) {
                programs.check_guests(&check.kernels)?;
            }
            guests::fetch_programs(variants, &mut check.kernels)?;
            check.remarks.extend(guests::debug_kernels(&check.kernels));
            guests::check_guest_variants(plan, guest.emulator, variants, &check.kernels)?
        }
        _ => mountable(kernel, plan, variants)?,
    };
    defs.sort_by_key(|def| def.id);
    defs.dedup_by_key(|def| def.id);
    fs_capabilities::check(formatted(variants), demands)?;
    let mut programs = journal_programs(variants, guest)?;
    programs.extend(defs.iter().map(|def| def.mkfs.to_string()).filter(|mkfs| !mkfs.is_empty()));
    if !guest {
        programs.extend(["mount", "umount", "losetup"].map(String::from));
    }
    check.other_bytes = other_size(plan, room);
    let needed = needed_bytes(&defs, variants, layers::room(variants, room));
    check.size_bytes = match backing {
        Backing::Erase { path, signature } => erased_size(kernel, path, signature.as_deref(), needed)?,
        _ => image_size(plan, needed)?,
    };
    check.devices = layout::all_devices(plan, variants, check.size_bytes)?;
    if !guest {
        axes::age::check_one_device(plan, variants, &check.devices)?;
        check_other_device(kernel, plan, check.other_bytes)?;
    }
    check.kernels.mounted = defs;
    check_images(kernel, &plan.device, runs, &check.devices, check.other_bytes)?;
    special::check_room(kernel, plan, variants, runs, room)?;
    Ok(programs)
}

/// The storage below the images, the directories or the erased device of a run; empty for a run in memory.
fn storage(kernel: &SysRoot, plan: &Plan, variants: &[Variant], runs: &Path) -> BTreeMap<String, Storage> {
    let mut storage = BTreeMap::new();
    match &plan.device.backing {
        Backing::Loop { .. } | Backing::Guest(_) => {
            storage.insert(host::IMAGES.to_string(), storage_of(kernel, images_dir(&plan.device, runs)));
        }
        Backing::Erase { path, .. } => {
            let device = BlockDevice::open(kernel, path).ok();
            storage.extend(device.map(|device| (host::ERASED.to_string(), storage_at(&device))));
        }
        Backing::Dir => {
            let dirs = variants.iter().map(|variant| variant.level(factor::DIR));
            storage.extend(dirs.map(|dir| (host::directory(dir), storage_of(kernel, Path::new(dir)))));
        }
        Backing::Ram | Backing::Zram => {}
    }
    storage
}

/// The variants that have a filesystem, not a bare device.
fn formatted(variants: &[Variant]) -> impl Iterator<Item = &Variant> {
    variants.iter().filter(|variant| !variant.is_bare_device())
}

/// Returns the plan with the accelerator of its guests, which a trial boot on this machine determines. Plans without guests
/// do not change.
///
/// # Errors
/// A run that began with KVM, on a machine where KVM does not work.
pub fn choose_accelerator(mut plan: Plan, check: &mut Check) -> Result<Plan> {
    if let Backing::Guest(guest) = &mut plan.device.backing {
        check.remarks.extend(guests::choose_accelerator(guest, &check.kernels)?);
    }
    Ok(plan)
}

/// Whether this kernel mounts the filesystems of a plan.
fn mounts_here(plan: &Plan) -> bool {
    !matches!(plan.device.backing, Backing::Dir | Backing::Guest(_))
}

/// Checks that this process can read the kernel's files, can open enough files, and that all paths of the run are UTF-8,
/// because the undo journal stores them as text.
fn check_readable(kernel: &SysRoot, plan: &Plan, variants: &[Variant], runs: &Path) -> Result<()> {
    kernel.check_proc()?;
    // A run in a directory needs sysfs too: before it removes a file it checks that no loop device uses the file.
    kernel.check_sys()?;
    limits::check_open_files()?;
    limits::check_file_size("the database of a run", DATABASE_BYTES)?;
    let mut paths = vec![runs, room::images_dir(&plan.device, runs)];
    paths.extend(plan.device.other_dir.as_deref());
    paths.extend(variants.iter().map(|variant| Path::new(variant.level(factor::DIR))));
    for path in paths.into_iter().filter(|path| !path.as_os_str().is_empty()) {
        let existing = room::nearest_existing(path);
        // The absolute path counts too: a relative path can lie below a directory whose name is not UTF-8.
        let absolute = existing.canonicalize().unwrap_or_else(|_| existing.into());
        if path.to_str().is_none() || absolute.to_str().is_none() {
            return Err(Error::NotText(absolute.join(path)).into());
        }
    }
    Ok(())
}

/// Checks that this process may mount filesystems, if the plan needs that.
fn check_can_mount(kernel: &SysRoot, plan: &Plan) -> Result<()> {
    if mounts_here(plan) { permitted::check_mount(kernel).map_err(mount_error) } else { Ok(()) }
}

/// Checks that this process may attach loop devices, if the plan needs that. This check comes last, because it attaches a
/// loop device for a moment.
fn check_can_attach(kernel: &SysRoot, plan: &Plan, other_bytes: u64) -> Result<()> {
    let other = other_bytes > 0 && plan.device.other_device.is_none();
    let needed = matches!(plan.device.backing, Backing::Loop { .. } | Backing::Ram) || other;
    if mounts_here(plan) && needed {
        permitted::check_loop_device(kernel).map_err(mount_error)
    } else {
        Ok(())
    }
}

/// The error of a machine that cannot make and mount filesystems, with the places where the plan can run instead.
fn mount_error(obstacle: Obstacle) -> RunError {
    let guest = setting("on", "qemu");
    if !rustix::process::geteuid().is_root() {
        let directory = setting("on", "dir:PATH");
        return RunError::Missing(format!(
            "making and mounting filesystems in this kernel needs root; as an ordinary user take a guest kernel \
             (`{guest}`) or the filesystem a directory is on (`{directory}`), and see `fsarena doctor` for what else is \
             possible"
        ));
    }
    let Obstacle { what, fix } = obstacle;
    let directory = setting("on", "dir:DIR");
    RunError::Missing(format!(
        "this machine lets root make and mount no filesystems ({what}), as in many containers: {fix}; or take a guest \
         kernel (`{guest}`) or the filesystem a directory is on (`{directory}`)"
    ))
}

/// Refuses a plan without variants: this machine supports none of its filesystems.
fn check_has_variants(variants: &[Variant]) -> Result<()> {
    let why = "this machine can make and mount no filesystem that fsarena knows; see `fsarena doctor`";
    require(!variants.is_empty(), || RunError::Missing(why.into()))
}

/// Refuses to precondition anything but a device that the user named for erasing.
fn check_precondition(plan: &Plan) -> Result<()> {
    let erases = matches!(plan.device.backing, Backing::Erase { .. });
    let why = || format!("precondition: requires a device of your own, {}", setting("erase", "DEVICE"));
    require(!plan.device.precondition || erases, || RunError::Plan(why()))
}

/// Refuses a variant that names a kernel outside a guest.
fn check_kernel_levels(plan: &Plan, variants: &[Variant]) -> Result<()> {
    let guest = matches!(plan.device.backing, Backing::Guest(_));
    let (qemu, exact) = (setting("on", "qemu"), setting("on", "exact"));
    let why = format!("a kernel is booted in a guest: {qemu} or {exact}");
    let allowed = |variant: &Variant| guest || variant.level(factor::KERNEL).is_empty();
    variants.iter().try_for_each(|variant| require(allowed(variant), || RunError::variant(variant, &why)))
}

/// Refuses the bare device as a variant if the device is not an image of fsarena, if the variant has options, or if a
/// workload needs a filesystem.
fn check_bare_devices(plan: &Plan, variants: &[Variant]) -> Result<()> {
    let Some(variant) = variants.iter().find(|variant| variant.is_bare_device()) else { return Ok(()) };
    let image = matches!(plan.device.backing, Backing::Loop { .. } | Backing::Ram | Backing::Zram);
    require(image, || RunError::Plan(raw_needs_an_image()))?;
    let optional = [
        factor::MKFS,
        factor::MKFS_PROGRAM,
        factor::MOUNT,
        factor::JOURNAL,
        factor::RAID,
        factor::LAYER,
        factor::STACK,
        factor::FILL,
    ];
    let bare = optional.iter().all(|id| variant.level(id).is_empty());
    let why = "the bare device takes no options of mkfs or mount, no journal, raid, layer, stack or fill";
    require(bare && variant.level(factor::OPTIONS) == "default", || RunError::variant(variant, why))?;
    plan.workloads.iter().try_for_each(|planned| {
        let why = || format!("workload {} needs a filesystem; leave out fs=raw", planned.name);
        require(workload(plan, planned)?.0.supports_raw(), || RunError::variant(variant, why()))
    })
}

/// The definitions of the filesystems of all variants and of the source disk.
///
/// # Errors
/// The first filesystem that this machine cannot make or mount.
fn mountable(kernel: &SysRoot, plan: &Plan, variants: &[Variant]) -> Result<Vec<&'static FsDef>> {
    let found = survey(kernel)?;
    let mut defs = vec![];
    let ids = formatted(variants).map(|variant| variant.level(factor::FS));
    for id in ids.chain([plan.device.other_fs.as_str()]) {
        let Some(available) = found.iter().find(|available| available.def.id == id) else {
            return Err(RunError::Plan(format!("fsarena knows no filesystem {id}")));
        };
        let in_guests = || {
            let guest = setting("on", "qemu");
            format!("fsarena makes {id} in guests only, where it has the whole kernel: {guest}")
        };
        require(available.def.pool.is_none(), || RunError::Missing(in_guests()))?;
        let why = || format!("this kernel cannot mount {id}; `fsarena list filesystems` shows which it can");
        require(available.kernel, || RunError::Missing(why()))?;
        require(available.can_make(), || fs_capabilities::no_mkfs(available.def))?;
        defs.push(available.def);
    }
    Ok(defs)
}

/// Refuses options of mkfs and mount that are invalid, or that would write to another device or file.
fn check_options(plan: &Plan, variants: &[Variant]) -> Result<()> {
    if plan.device.backing == Backing::Dir {
        return Ok(());
    }
    for variant in formatted(variants) {
        filesystem_of(variant)?;
    }
    Ok(())
}

/// The programs that make journals on separate devices, or in separate files if `files` is set.
fn journal_programs(variants: &[Variant], files: bool) -> Result<BTreeSet<String>> {
    let mut programs = BTreeSet::new();
    for variant in formatted(variants) {
        let (def, options) = filesystem_of(variant)?;
        if let Some(journal) = options.journal.and(def.journal) {
            programs.extend(journal.programs(files).map(String::from));
        }
    }
    Ok(programs)
}

/// Checks that the directories under test exist, differ, are writable, support the files of the workloads, and have free
/// space.
fn check_directories(variants: &[Variant], room: Room, demands: &Demands) -> Result<()> {
    let mut known = BTreeMap::new();
    for dir in variants.iter().map(|variant| variant.level(factor::DIR)) {
        let path = Path::new(dir);
        let flag = setting("on", "dir:PATH");
        let why = || format!("{path:?} is not a directory; {flag} needs one that exists");
        require(path.is_dir(), || RunError::Plan(why()))?;
        rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
            let error = std::io::Error::from(error);
            RunError::Plan(format!("{path:?}: {error}; name a directory that you can write to"))
        })?;
        fs_capabilities::check_directory(path, demands)?;
        let found = path.metadata().map_err(fsarena_sys::Error::io("looking at", path))?;
        if let Some(other) = known.insert((found.dev(), found.ino()), dir).filter(|other| *other != dir) {
            let message = format!("{other} and {dir} are the same directory; name it once");
            return Err(RunError::Plan(message));
        }
        let free = fsarena_sys::dirs::free_bytes(path)?;
        let needed = room.bytes.saturating_add(room.bytes / 4).saturating_add(room.other_bytes);
        require(free >= needed, || {
            let (needed, free) = (ByteSize(needed), ByteSize(free));
            RunError::Missing(format!(
                "too little room in {path:?}: {needed} needed, {free} free; free some, or take a smaller {}",
                setting("scale", "")
            ))
        })?;
    }
    Ok(())
}

/// Checks that all programs are installed.
fn check_installed(programs: &BTreeSet<String>) -> Result<()> {
    let missing: Vec<&str> =
        programs.iter().map(String::as_str).filter(|program| program::find(program).is_none()).collect();
    let missing = missing.join(", ");
    require(missing.is_empty(), || {
        RunError::Missing(format!(
            "not installed: {missing}; install what brings them (on Debian: coreutils, findutils, tar, util-linux, \
             sysbench, fio, dbench, squid, postgresql), or do the work natively: `{}` for programs, `{}` for loads, \
             proxy-cache for squid",
            setting("set", "driver=native"),
            setting("engine", "native")
        ))
    })
}
