//! Checks a plan against this machine before the run makes anything: programs, filesystems, devices, directories,
//! space.

mod fs_capabilities;
pub mod guests;
mod host_programs;
mod room;
mod special_filesystems;
pub mod trial;

pub use guests::Kernels;
pub use host_programs::HostProgramNeeds;
pub use room::RAM_DIR;
pub(crate) use room::{open_source_disk, open_to_erase};

use crate::device_layout::{self, DeviceSpec, filesystem_of};
use crate::error::{Result, RunError, require};
use crate::work::{find_workload, workload_versions};
use crate::{axes, axes::fill, layers, packed_programs, printed_metrics};
use bytesize::ByteSize;
use fsarena_core::host::{self, Storage};
use fsarena_core::metric::{Declaration, DeclaredMetrics};
use fsarena_core::number::plural;
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::setting_text::setting;
use fsarena_core::{cell::Variant, event::Note, factor};
use fsarena_fs::{available::survey, def::FsDef, filesystems};
use fsarena_load::workload::{Demands, Room};
use fsarena_sys::device::BlockDevice;
use fsarena_sys::host::{storage_of_device, storage_of_directory};
use fsarena_sys::permission::{self, Obstacle};
use fsarena_sys::{CommandError, Error, kernel::SysRoot, limits, program, user::User};
use room::{check_images, check_source_device, erased_size, image_size, images_dir, needed_bytes, source_disk_bytes};
use rustix::fs::Access;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::{os::unix::fs::MetadataExt, path::Path};

/// The message that refuses `fs=raw` on a device of the user.
pub fn raw_device_refusal() -> String {
    let (image, memory) = (setting("on", "loop"), setting("on", "ram"));
    format!(
        "fs=raw writes to the bare device, and fsarena does that only to images that it made: use `{image}` or `{memory}`"
    )
}

/// The size of the database of a small run, in bytes. fsarena checks before a run that it may write a file of this
/// size, because SQLite does not report a file size limit as the cause of an error.
const DATABASE_BYTES: u64 = 1 << 20;

/// The requirements of a run, found by [`check`].
#[derive(Debug, Clone, Default)]
pub struct Requirements {
    /// Size of the filesystem under test, in bytes; 0 if the run formats nothing.
    pub size_bytes: u64,
    /// The devices that hold the filesystems of the variants.
    pub devices: BTreeSet<DeviceSpec>,
    /// Size of the source disk's image, in bytes; 0 if the source disk is a directory.
    pub source_disk_bytes: u64,
    /// Whether a workload copies from the source disk or to it.
    pub uses_source_disk: bool,
    /// Programs that the run executes, by name or path.
    pub programs: BTreeSet<String>,
    /// Programs that the user wrote into the settings, by name or path.
    pub user_programs: BTreeSet<String>,
    /// Notes for every report of these workloads.
    pub remarks: Vec<Note>,
    /// Programs that run in guests and lie on their source disk.
    pub packed_programs: Vec<String>,
    /// Number of timed tasks of all workloads.
    pub task_count: u32,
    /// The kernels of guests; empty for other backings.
    pub kernels: Kernels,
    /// The programs of this machine that guests start; None if they start none.
    pub host_programs: Option<HostProgramNeeds>,
    /// Whether an earlier part of the run has measured cells, so that it has prepared the devices.
    pub has_measured_cells: bool,
    /// The storage below the images, the directories or the erased device, by the name of each.
    pub(crate) storage: BTreeMap<String, Storage>,
}

impl Requirements {
    /// Describes the cells of a plan in a line: the number of tasks, the sizes of the filesystem and the source disk,
    /// and where the images lie.
    pub fn describe(&self, plan: &Plan) -> String {
        let device = match &plan.device.backing {
            Backing::Dir => return format!("{}, in a directory", self.describe_tasks(plan)),
            Backing::Erase { path, .. } => path.display().to_string(),
            Backing::Loop { .. } | Backing::Ram => "image".into(),
            Backing::Zram => "zram device".into(),
            Backing::Guest(guest) => format!("{} guest, image", guest.emulator.name()),
        };
        let (size, source_disk) = (ByteSize(self.size_bytes), ByteSize(self.source_disk_bytes));
        let images = self.storage.get(host::IMAGES_PREFIX);
        let place = images.map_or(String::new(), |storage| format!("; images in {storage}"));
        format!("{}; {device} of {size}, source disk of {source_disk}{place}", self.describe_tasks(plan))
    }

    /// The number of tasks, and of the cells that have them: a variant has a cell for each workload, and for each value
    /// of a grid.
    fn describe_tasks(&self, plan: &Plan) -> String {
        let tasks = plural(self.task_count as usize, "task");
        match plan.workloads.len() {
            1 => format!("{tasks} a cell"),
            cells => format!("{tasks} in {cells} cells for each variant"),
        }
    }
}

/// The error of a program in the user's settings that cannot be executed. Under sudo, a missing program may be in a
/// directory of the PATH that sudo has replaced.
fn not_executable_error(error: CommandError, is_under_sudo: bool) -> RunError {
    match error {
        CommandError::NotFound { program } if is_under_sudo => RunError::Missing(format!(
            "{program} is in no directory of PATH, which sudo has replaced; keep yours: sudo env \"PATH=$PATH\" fsarena …"
        )),
        error => fsarena_sys::Error::from(error).into(),
    }
}

/// Checks a plan against this machine. `runs_dir` is the directory of runs, which need not exist yet. Each of the
/// `client_count` clients needs the space of the workloads; the workloads run as `user`.
///
/// # Errors
/// A filesystem, program, directory or free space that is missing, with what to do.
pub fn check(
    kernel: &SysRoot,
    plan: &Plan,
    variants: &[Variant],
    runs_dir: &Path,
    client_count: u32,
    user: &User,
) -> Result<Requirements> {
    check_readable(kernel, plan, variants, runs_dir)?;
    check_can_mount(kernel, plan)?;
    check_has_variants(variants)?;
    check_precondition(plan)?;
    check_bare_devices(plan, variants)?;
    check_options(plan, variants)?;
    special_filesystems::check(plan, variants)?;
    check_kernel_levels(plan, variants)?;
    axes::check(kernel, plan, variants)?;
    let (mut requirements, mut room, demands) = requirements_of_workloads(plan, variants)?;
    for name in &requirements.user_programs {
        program::check_executable(name, user)
            .map_err(|error| not_executable_error(error, std::env::var_os("SUDO_UID").is_some()))?;
    }
    let room_of_ages = axes::age::room_of_ages(plan, variants)?;
    (room.bytes, room.inodes) = (room.bytes + room_of_ages.bytes, room.inodes + room_of_ages.inodes);
    room.bytes = fill::bytes_with_fill(variants, room.bytes.saturating_mul(u64::from(client_count)));
    requirements.uses_source_disk = room.source_bytes > 0;
    let programs = requirements.programs.iter().chain(&requirements.user_programs).map(String::as_str).collect();
    requirements.host_programs = host_programs::find_needs(plan, variants, &programs)?;
    room.source_bytes += requirements.host_programs.as_ref().map_or(0, |programs| programs.copied_bytes);
    requirements.packed_programs = guests::guest_programs(plan, variants)?;
    room.source_bytes += packed_programs::BYTES_PER_PROGRAM * requirements.packed_programs.len() as u64;
    if !requirements.packed_programs.is_empty() {
        requirements.programs.extend(requirements.packed_programs.iter().cloned());
        requirements.programs.insert(packed_programs::LDD.into());
    }
    requirements.storage = storage_below(kernel, plan, variants, runs_dir);
    if plan.device.backing == Backing::Dir {
        check_directories(variants, room, &demands)?;
    } else {
        check_devices(&mut requirements, kernel, plan, variants, runs_dir, (room, &demands))?;
    }
    check_installed(&requirements.programs)?;
    check_can_attach(kernel, plan, requirements.source_disk_bytes)?;
    Ok(requirements)
}

/// Finds the combined requirements of all workloads of a plan: enough for each of its variants. Also returns the room that
/// they need, and what the filesystem must support, such as symbolic links or direct I/O.
///
/// On the filesystem under test, the room is the space and inodes of the largest workload, because the filesystem is made
/// anew for each workload. On the source disk, it is the space of the inputs of all workloads.
///
/// # Errors
/// An unknown workload, inputs that are missing, or a printed metric whose name is taken.
fn requirements_of_workloads(plan: &Plan, variants: &[Variant]) -> Result<(Requirements, Room, Demands)> {
    let (mut requirements, mut room, mut demands) = (Requirements::default(), Room::default(), Demands::default());
    let mut declared = DeclaredMetrics::default();
    for planned in &plan.workloads {
        // The bytes of the inputs by their directory. Versions of the workload with the same directory share the inputs.
        let mut input_bytes = BTreeMap::new();
        for (index, version) in workload_versions(planned, variants).iter().enumerate() {
            let (workload, job) = find_workload(plan, version)?;
            let survey = workload.survey(&job)?;
            survey.printed_metrics.iter().try_for_each(|declaration| declare_metric(&mut declared, declaration))?;
            demands = demands.merge(survey.demands);
            room.bytes = room.bytes.max(survey.room.bytes);
            room.inodes = room.inodes.max(survey.room.inodes);
            let shared_bytes: &mut u64 = input_bytes.entry(version.directory_name()).or_default();
            *shared_bytes = survey.room.source_bytes.max(*shared_bytes);
            requirements.programs.extend(workload.programs(&job).into_iter().map(String::from));
            requirements.user_programs.extend(workload.user_programs(&job));
            // The variants share the tasks, so the first version counts; its remarks stand for those of all versions.
            if index == 0 {
                requirements.remarks.extend(survey.remarks);
                requirements.task_count += workload.outline(&job).len() as u32;
            }
        }
        // The settings of the plan have inputs too, even if all variants change them (see [`crate::work::make_inputs`]).
        if let Entry::Vacant(entry) = input_bytes.entry(planned.directory_name()) {
            let (workload, job) = find_workload(plan, planned)?;
            entry.insert(workload.survey(&job)?.room.source_bytes);
        }
        room.source_bytes += input_bytes.values().sum::<u64>();
    }
    Ok((requirements, room, demands))
}

/// Declares a metric that a command will print.
///
/// # Errors
/// A metric that has the name of one of fsarena's own metrics, or contradicts an earlier declaration.
fn declare_metric(declared: &mut DeclaredMetrics, Declaration { metric, origin }: &Declaration) -> Result<()> {
    // The message: "ORIGIN finds NAME, which fsarena measures itself as METRIC: give it another name".
    if let Some(name_and_reason) = printed_metrics::why_name_is_taken(&metric.id) {
        return Err(RunError::Plan(format!("{origin} finds {name_and_reason}")));
    }
    match declared.declare_printed(metric, origin) {
        Ok(_) => Ok(()),
        Err(error) => Err(RunError::Plan(error.to_string())),
    }
}

/// Checks the filesystems, devices and images of a run that formats filesystems. Adds to `requirements` their sizes, and
/// the programs that make and mount the filesystems.
fn check_devices(
    requirements: &mut Requirements,
    kernel: &SysRoot,
    plan: &Plan,
    variants: &[Variant],
    runs_dir: &Path,
    (room, demands): (Room, &Demands),
) -> Result<()> {
    let backing = &plan.device.backing;
    let is_in_guest = matches!(backing, Backing::Guest(_));
    let mut defs = match backing {
        Backing::Guest(guest) => {
            let levels = variants.iter().map(|variant| variant.level(factor::KERNEL));
            let tested = variants.iter().filter_map(|variant| filesystems::find(variant.level(factor::FS)).ok());
            let tested: Vec<&FsDef> = tested.collect();
            requirements.kernels = guests::find_kernels(guest, levels, &tested)?;
            if requirements.host_programs.is_some() || variants.iter().any(axes::age::is_aged_by_program) {
                host_programs::check_guests(guest.emulator, &requirements.kernels)?;
            }
            guests::fetch_programs(variants, &mut requirements.kernels)?;
            requirements.remarks.extend(guests::debug_kernel_notes(&requirements.kernels));
            guests::check_guest_variants(plan, variants, &requirements.kernels)?
        }
        _ => find_mountable(kernel, plan, variants)?,
    };
    defs.sort_by_key(|def| def.id);
    defs.dedup_by_key(|def| def.id);
    fs_capabilities::check(variants_with_filesystem(variants), demands)?;
    requirements.programs.extend(journal_programs(variants, is_in_guest)?);
    requirements.programs.extend(defs.iter().map(|def| def.mkfs.to_string()).filter(|mkfs| !mkfs.is_empty()));
    if !is_in_guest {
        requirements.programs.extend(["mount", "umount", "losetup"].map(String::from));
    }
    requirements.source_disk_bytes = source_disk_bytes(plan, room);
    let needed = needed_bytes(&defs, variants, layers::room_with_layers(variants, room));
    requirements.size_bytes = match backing {
        Backing::Erase { path, signature } => erased_size(kernel, path, signature.as_deref(), needed)?,
        _ => image_size(plan, needed)?,
    };
    requirements.devices = device_layout::all_devices(plan, variants, requirements.size_bytes)?;
    if !is_in_guest {
        axes::age::check_on_one_device(plan, variants, &requirements.devices)?;
        check_source_device(kernel, plan, requirements.source_disk_bytes)?;
    }
    requirements.kernels.mounted_filesystems = defs;
    check_images(kernel, &plan.device, runs_dir, &requirements.devices, requirements.source_disk_bytes)?;
    special_filesystems::check_room(kernel, plan, variants, runs_dir, room)
}

/// The storage below the images, the directories or the erased device of a run; empty for a run in memory.
fn storage_below(kernel: &SysRoot, plan: &Plan, variants: &[Variant], runs_dir: &Path) -> BTreeMap<String, Storage> {
    let mut storage = BTreeMap::new();
    match &plan.device.backing {
        Backing::Loop { .. } | Backing::Guest(_) => {
            storage.insert(
                host::IMAGES_PREFIX.to_string(),
                storage_of_directory(kernel, images_dir(&plan.device, runs_dir)),
            );
        }
        Backing::Erase { path, .. } => {
            let device = BlockDevice::open(kernel, path).ok();
            storage.extend(device.map(|device| (host::ERASED_PREFIX.to_string(), storage_of_device(&device))));
        }
        Backing::Dir => {
            let dirs = variants.iter().map(|variant| variant.level(factor::DIR));
            storage.extend(dirs.map(|dir| (host::directory_prefix(dir), storage_of_directory(kernel, Path::new(dir)))));
        }
        Backing::Ram | Backing::Zram => {}
    }
    storage
}

/// The variants that have a filesystem instead of a bare device.
fn variants_with_filesystem(variants: &[Variant]) -> impl Iterator<Item = &Variant> {
    variants.iter().filter(|variant| !variant.is_bare_device())
}

/// Whether this kernel mounts the filesystems of a plan.
fn mounts_in_this_kernel(plan: &Plan) -> bool {
    !matches!(plan.device.backing, Backing::Dir | Backing::Guest(_))
}

/// Checks that this process can read the kernel's files, can open enough files, and that all paths of the run are
/// UTF-8, because the undo journal stores them as text.
fn check_readable(kernel: &SysRoot, plan: &Plan, variants: &[Variant], runs_dir: &Path) -> Result<()> {
    kernel.check_proc()?;
    // A run in a directory needs sysfs too: before it removes a file it checks that no loop device uses the file.
    kernel.check_sys()?;
    limits::check_open_files()?;
    limits::check_file_size("the database of a run", DATABASE_BYTES)?;
    let mut paths = vec![runs_dir, room::images_dir(&plan.device, runs_dir)];
    paths.extend(plan.device.source_dir.as_deref());
    paths.extend(variants.iter().map(|variant| Path::new(variant.level(factor::DIR))));
    for path in paths.into_iter().filter(|path| !path.as_os_str().is_empty()) {
        let existing = room::nearest_existing(path);
        // The absolute path counts too: a relative path can lie below a directory whose name is not UTF-8.
        let absolute = existing.canonicalize().unwrap_or_else(|_| existing.into());
        if path.to_str().is_none() || absolute.to_str().is_none() {
            return Err(Error::NotUtf8(absolute.join(path)).into());
        }
    }
    Ok(())
}

/// Checks that this process may mount filesystems, if the plan needs that.
fn check_can_mount(kernel: &SysRoot, plan: &Plan) -> Result<()> {
    if mounts_in_this_kernel(plan) { permission::check_mount(kernel).map_err(mount_error) } else { Ok(()) }
}

/// Checks that this process may attach loop devices, if the plan needs that. This check comes last, because it attaches
/// a loop device for a moment.
fn check_can_attach(kernel: &SysRoot, plan: &Plan, source_disk_bytes: u64) -> Result<()> {
    let needs_source_image = source_disk_bytes > 0 && plan.device.source_device.is_none();
    let needs_loop_device = matches!(plan.device.backing, Backing::Loop { .. } | Backing::Ram) || needs_source_image;
    if mounts_in_this_kernel(plan) && needs_loop_device {
        permission::check_loop_device(kernel).map_err(mount_error)
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
    let Obstacle { why, fix } = obstacle;
    let directory = setting("on", "dir:DIR");
    RunError::Missing(format!(
        "this machine lets root make and mount no filesystems ({why}), as in many containers: {fix}; or take a guest \
         kernel (`{guest}`) or the filesystem a directory is on (`{directory}`)"
    ))
}

/// Refuses a plan without variants. It has none if this machine supports none of its filesystems.
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
    let is_in_guest = matches!(plan.device.backing, Backing::Guest(_));
    let (qemu, exact) = (setting("on", "qemu"), setting("on", "exact"));
    let why = format!("a kernel is booted in a guest: {qemu} or {exact}");
    let is_allowed = |variant: &Variant| is_in_guest || variant.level(factor::KERNEL).is_empty();
    variants.iter().try_for_each(|variant| require(is_allowed(variant), || RunError::in_variant(variant, &why)))
}

/// Refuses the bare device as a variant if the device is not an image of fsarena, if the variant has options, or if a
/// workload needs a filesystem.
fn check_bare_devices(plan: &Plan, variants: &[Variant]) -> Result<()> {
    let Some(variant) = variants.iter().find(|variant| variant.is_bare_device()) else { return Ok(()) };
    let is_made_by_fsarena = matches!(plan.device.backing, Backing::Loop { .. } | Backing::Ram | Backing::Zram);
    require(is_made_by_fsarena, || RunError::Plan(raw_device_refusal()))?;
    let filesystem_factors = [
        factor::MKFS,
        factor::MKFS_PROGRAM,
        factor::MOUNT,
        factor::JOURNAL,
        factor::RAID,
        factor::LAYER,
        factor::STACK,
        factor::FILL,
    ];
    let has_no_options = filesystem_factors.iter().all(|id| variant.level(id).is_empty());
    let why = "the bare device takes no options of mkfs or mount, no journal, raid, layer, stack or fill";
    require(has_no_options && variant.level(factor::OPTIONS) == "default", || RunError::in_variant(variant, why))?;
    plan.workloads.iter().try_for_each(|planned| {
        let why = || format!("workload {} needs a filesystem; leave out fs=raw", planned.name);
        require(find_workload(plan, planned)?.0.supports_bare_device(), || RunError::in_variant(variant, why()))
    })
}

/// The definitions of the filesystems of all variants and of the source disk.
///
/// # Errors
/// The first filesystem that this machine cannot make or mount.
fn find_mountable(kernel: &SysRoot, plan: &Plan, variants: &[Variant]) -> Result<Vec<&'static FsDef>> {
    let surveyed = survey(kernel)?;
    let mut defs = vec![];
    let ids = variants_with_filesystem(variants).map(|variant| variant.level(factor::FS));
    for id in ids.chain([plan.device.other_fs.as_str()]) {
        let Some(filesystem) = surveyed.iter().find(|filesystem| filesystem.def.id == id) else {
            return Err(RunError::Plan(format!("fsarena knows no filesystem {id}")));
        };
        let only_in_guests = || {
            let guest = setting("on", "qemu");
            format!("fsarena makes {id} in guests only, where it has the whole kernel: {guest}")
        };
        require(filesystem.def.pool.is_none(), || RunError::Missing(only_in_guests()))?;
        let why = || format!("this kernel cannot mount {id}; `fsarena list filesystems` shows which it can");
        require(filesystem.is_mountable, || RunError::Missing(why()))?;
        require(filesystem.can_make(), || fs_capabilities::missing_mkfs_error(filesystem.def))?;
        defs.push(filesystem.def);
    }
    Ok(defs)
}

/// Refuses options of mkfs and mount that are invalid, or with which they would write to another device or file.
fn check_options(plan: &Plan, variants: &[Variant]) -> Result<()> {
    if plan.device.backing == Backing::Dir {
        return Ok(());
    }
    for variant in variants_with_filesystem(variants) {
        filesystem_of(variant)?;
    }
    Ok(())
}

/// The programs that make journals on separate devices, or in separate image files if `in_files` is set.
fn journal_programs(variants: &[Variant], in_files: bool) -> Result<BTreeSet<String>> {
    let mut programs = BTreeSet::new();
    for variant in variants_with_filesystem(variants) {
        let (def, options) = filesystem_of(variant)?;
        if let Some(journal) = options.journal.and(def.journal) {
            programs.extend(journal.programs(in_files).map(String::from));
        }
    }
    Ok(programs)
}

/// Checks that the directories under test exist, differ, are writable, support the files of the workloads, and have
/// free space.
fn check_directories(variants: &[Variant], room: Room, demands: &Demands) -> Result<()> {
    let mut dirs_by_inode = BTreeMap::new();
    for dir in variants.iter().map(|variant| variant.level(factor::DIR)) {
        let path = Path::new(dir);
        let flag = setting("on", "dir:PATH");
        let why = || format!("{path:?} is not a directory; {flag} needs one that exists");
        require(path.is_dir(), || RunError::Plan(why()))?;
        rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
            let error = std::io::Error::from(error);
            RunError::Plan(format!("{path:?}: {error}; name a directory that you can write to"))
        })?;
        fs_capabilities::check_direct_io(path, demands)?;
        let meta = path.metadata().map_err(fsarena_sys::Error::io("looking at", path))?;
        if let Some(earlier) = dirs_by_inode.insert((meta.dev(), meta.ino()), dir).filter(|earlier| *earlier != dir) {
            let message = format!("{earlier} and {dir} are the same directory; name it once");
            return Err(RunError::Plan(message));
        }
        let free_bytes = fsarena_sys::dirs::free_bytes(path)?;
        let needed_bytes = room.bytes.saturating_add(room.bytes / 4).saturating_add(room.source_bytes);
        require(free_bytes >= needed_bytes, || {
            let (needed, free) = (ByteSize(needed_bytes), ByteSize(free_bytes));
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
