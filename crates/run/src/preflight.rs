//! Everything that can be known to fail, found before anything is made.

mod fs_capabilities;
pub mod guests;
mod room;
pub mod trial;

pub use guests::Kernels;
pub use room::RAM;
pub(crate) use room::{named, to_erase};

use crate::error::{Result, RunError, require};
use crate::layout::{self, DeviceSpec, filesystem_of};
use crate::work::{Work, workload};
use crate::{axes, guest_programs, settings::setting};
use bytesize::ByteSize;
use fsarena_core::host::{self, Storage};
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::{cell::Variant, event::Note, factor};
use fsarena_fs::{available::survey, def::FsDef};
use fsarena_load::workload::{Demands, Room};
use fsarena_sys::device::BlockDevice;
use fsarena_sys::host::{storage_at, storage_of};
use fsarena_sys::permitted::{self, Obstacle};
use fsarena_sys::{Error, argv, kernel::SysRoot, limits, program, user::User};
use room::{erased, image_size, images, images_dir, needed, other_device, other_size};
use rustix::fs::Access;
use std::collections::{BTreeMap, BTreeSet};
use std::{os::unix::fs::MetadataExt, path::Path};

/// Why a bare device of the user's own is refused.
pub fn raw_needs_an_image() -> String {
    let (image, memory) = (setting("on", "loop"), setting("on", "ram"));
    format!(
        "fs=raw writes to the bare device, and fsarena does that only to images that it made: use `{image}` or `{memory}`"
    )
}

/// The size of the database of a small run, in bytes. SQLite keeps to itself why it cannot write one.
const DATABASE: u64 = 1 << 20;

/// What a run needs.
#[derive(Debug, Clone)]
pub struct Check {
    /// Size of the filesystem under test, in bytes; 0 where nothing is formatted.
    pub size_bytes: u64,
    /// The devices that the variants lie on.
    pub devices: BTreeSet<DeviceSpec>,
    /// Size of the source disk's image, in bytes; 0 where a directory stands for it.
    pub other_bytes: u64,
    /// Whether the work copies from the source disk or to it.
    pub copies: bool,
    /// Programs that the run executes.
    pub programs: Vec<String>,
    /// What every report of these workloads must say.
    pub remarks: Vec<Note>,
    /// Programs that run in guests and lie on their source disk.
    pub guest_programs: Vec<String>,
    /// Timed tasks of all workloads.
    pub tasks: u32,
    /// The kernels of guests, where there are any.
    pub kernels: Kernels,
    /// Whether the run goes on with an earlier one.
    pub resumed: bool,
    /// What lies below the images, the directories or the erased device: the name of each and its storage.
    pub(crate) storage: BTreeMap<String, Storage>,
}

impl Check {
    /// For people: what the plan takes.
    pub fn describe(&self, plan: &Plan) -> String {
        let what = match &plan.device.backing {
            Backing::Dir => return format!("{} tasks a cell, in a directory", self.tasks),
            Backing::Erase { path, .. } => path.display().to_string(),
            Backing::Loop { .. } | Backing::Ram => "image".into(),
            Backing::Zram => "zram device".into(),
            Backing::Guest(guest) => format!("{} guest, image", guest.emulator.name()),
        };
        let (size, other) = (ByteSize(self.size_bytes), ByteSize(self.other_bytes));
        let images = self.storage.get(host::IMAGES);
        let at = images.map_or(String::new(), |storage| format!("; images in {storage}"));
        format!("{} tasks a cell; {what} of {size}, source disk of {other}{at}", self.tasks)
    }
}

/// Why a program of the user's own cannot be executed. Under sudo a missing one may be in a directory of the user's PATH.
fn not_executable(error: argv::Error, by_sudo: bool) -> RunError {
    match error {
        argv::Error::NotFound { program } if by_sudo => RunError::Missing(format!(
            "{program} is in no directory of PATH, which sudo has replaced; keep yours: sudo env \"PATH=$PATH\" fsarena …"
        )),
        error => fsarena_sys::Error::from(error).into(),
    }
}

/// What a plan alone can be refused for.
type Refusing = fn(&Plan, &[Variant]) -> Result<()>;

/// The checks that take nothing but a plan and its variants, in the order in which their faults are told.
const REFUSING: [Refusing; 6] = [
    something_to_compare,
    only_erased_devices_are_preconditioned,
    bare_devices,
    options,
    kernels_are_guests,
    guests::hold_programs,
];

/// Checks a plan against this machine. `runs` holds the directories of runs; it need not exist yet. Each of the clients
/// needs the room of the work, and this user runs it.
///
/// # Errors
/// A filesystem, program, directory or room that is missing, with what to do.
pub fn check(
    kernel: &SysRoot,
    plan: &Plan,
    variants: &[Variant],
    runs: &Path,
    clients: u32,
    user: &User,
) -> Result<Check> {
    readable(kernel, plan, variants, runs)?;
    able_to_mount(kernel, plan)?;
    REFUSING.iter().try_for_each(|refuse| refuse(plan, variants))?;
    axes::check(kernel, plan, variants)?;
    let Work { mut room, demands, mut programs, own_programs, remarks, tasks } = Work::of(plan, variants)?;
    for name in &own_programs {
        program::check(name, user)
            .map_err(|error| not_executable(error, std::env::var_os("SUDO_UID").is_some()))?;
    }
    room.bytes = room.bytes.saturating_mul(u64::from(clients));
    let copies = room.other_bytes > 0;
    let guest_programs = guests::programs(plan, variants)?;
    room.other_bytes += guest_programs::ROOM * guest_programs.len() as u64;
    if !guest_programs.is_empty() {
        programs.extend(guest_programs.iter().cloned().chain([guest_programs::LISTER.into()]));
    }
    let mut check = Check {
        size_bytes: 0,
        devices: BTreeSet::new(),
        other_bytes: 0,
        copies,
        programs: vec![],
        guest_programs,
        remarks,
        tasks,
        kernels: Kernels::default(),
        resumed: false,
        storage: storage(kernel, plan, variants, runs),
    };
    let backing = &plan.device.backing;
    if *backing == Backing::Dir {
        directories(variants, room, &demands)?;
    } else {
        let guest = matches!(backing, Backing::Guest(_));
        let mut defs = match backing {
            Backing::Guest(guest) => {
                let levels = variants.iter().map(|variant| variant.level(factor::KERNEL));
                check.kernels = guests::kernels(guest, levels)?;
                guests::mountable(plan, guest.emulator, variants, &check.kernels)?
            }
            _ => mountable(kernel, plan, variants)?,
        };
        defs.sort_by_key(|def| def.id);
        defs.dedup_by_key(|def| def.id);
        fs_capabilities::check(formatted(variants), &demands)?;
        programs.extend(defs.iter().map(|def| def.mkfs.to_string()));
        let of_mounting: &[&str] = if guest { &[] } else { &["mount", "umount", "losetup"] };
        programs.extend(of_mounting.iter().map(|name| name.to_string()));
        check.other_bytes = other_size(plan, room);
        let needed = needed(&defs, room);
        check.size_bytes = match backing {
            Backing::Erase { path, signature } => erased(kernel, path, signature.as_deref(), needed)?,
            _ => image_size(plan, needed)?,
        };
        check.devices = layout::wanted(plan, variants, check.size_bytes)?;
        programs.extend(of_journals(variants, guest)?);
        if !guest {
            other_device(kernel, plan, check.other_bytes)?;
        }
        check.kernels.mounted = defs;
        images(kernel, &plan.device, runs, &check.devices, check.other_bytes)?;
    }
    all_installed(&programs)?;
    able_to_attach(kernel, plan, check.other_bytes)?;
    check.programs = programs.into_iter().collect();
    Ok(check)
}

/// What lies below the images, the directories or the erased device of a run; nothing of what is in memory.
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

/// The variants with a filesystem that is made for them.
fn formatted(variants: &[Variant]) -> impl Iterator<Item = &Variant> {
    variants.iter().filter(|variant| !variant.is_bare_device())
}

/// The plan with what only a trial on this machine can decide.
///
/// # Errors
/// Where a run that was begun one way cannot go on that way.
pub fn decided(mut plan: Plan, check: &mut Check) -> Result<Plan> {
    if let Backing::Guest(guest) = &mut plan.device.backing {
        check.remarks.extend(guests::accelerate(guest, &check.kernels)?);
    }
    Ok(plan)
}

/// Whether filesystems are made and mounted in this kernel.
fn mounts_here(plan: &Plan) -> bool {
    !matches!(plan.device.backing, Backing::Dir | Backing::Guest(_))
}

/// What every run goes by can be read: the kernel's files, and paths that the undo journal can hold.
fn readable(kernel: &SysRoot, plan: &Plan, variants: &[Variant], runs: &Path) -> Result<()> {
    kernel.check_proc()?;
    // Also of a run in a directory: a file is removed only where no loop device carries it.
    kernel.check_sys()?;
    limits::check_open_files()?;
    limits::check_file_size("the database of a run", DATABASE)?;
    let mut paths = vec![runs, room::images_dir(&plan.device, runs)];
    paths.extend(plan.device.other_dir.as_deref());
    paths.extend(variants.iter().map(|variant| Path::new(variant.level(factor::DIR))));
    for path in paths.into_iter().filter(|path| !path.as_os_str().is_empty()) {
        let there = room::existing(path);
        // As the kernel names it: the directory above a relative path counts too.
        let whole = there.canonicalize().unwrap_or_else(|_| there.into());
        if path.to_str().is_none() || whole.to_str().is_none() {
            return Err(Error::NotText(whole.join(path)).into());
        }
    }
    Ok(())
}

/// This process may mount filesystems, where the plan needs that.
fn able_to_mount(kernel: &SysRoot, plan: &Plan) -> Result<()> {
    if mounts_here(plan) { permitted::mount(kernel).map_err(unable) } else { Ok(()) }
}

/// This process may attach loop devices, where the plan needs that. Tried last, as it takes one for a moment.
fn able_to_attach(kernel: &SysRoot, plan: &Plan, other_bytes: u64) -> Result<()> {
    let other = other_bytes > 0 && plan.device.other_device.is_none();
    let needed = matches!(plan.device.backing, Backing::Loop { .. } | Backing::Ram) || other;
    if mounts_here(plan) && needed { permitted::loop_device(kernel).map_err(unable) } else { Ok(()) }
}

/// Why this machine cannot make and mount filesystems, and where it can run instead.
fn unable(obstacle: Obstacle) -> RunError {
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

fn something_to_compare(_: &Plan, variants: &[Variant]) -> Result<()> {
    let why = "this machine can make and mount no filesystem that fsarena knows; see `fsarena doctor`";
    require(!variants.is_empty(), || RunError::Missing(why.into()))
}

fn only_erased_devices_are_preconditioned(plan: &Plan, _: &[Variant]) -> Result<()> {
    let erases = matches!(plan.device.backing, Backing::Erase { .. });
    let why = || format!("precondition: requires a device of your own, {}", setting("erase", "DEVICE"));
    require(!plan.device.precondition || erases, || RunError::Plan(why()))
}

/// Only a guest boots a separate kernel.
fn kernels_are_guests(plan: &Plan, variants: &[Variant]) -> Result<()> {
    let guest = matches!(plan.device.backing, Backing::Guest(_));
    let (qemu, exact) = (setting("on", "qemu"), setting("on", "exact"));
    let why = format!("a kernel is booted in a guest: {qemu} or {exact}");
    let allowed = |variant: &Variant| guest || variant.level(factor::KERNEL).is_empty();
    variants.iter().try_for_each(|variant| require(allowed(variant), || RunError::variant(variant, &why)))
}

/// Bare devices are images of ours, have no options, and every workload can do without a filesystem.
fn bare_devices(plan: &Plan, variants: &[Variant]) -> Result<()> {
    let Some(variant) = variants.iter().find(|variant| variant.is_bare_device()) else { return Ok(()) };
    let image = matches!(plan.device.backing, Backing::Loop { .. } | Backing::Ram | Backing::Zram);
    require(image, || RunError::Plan(raw_needs_an_image()))?;
    let optional = [factor::MKFS, factor::MOUNT, factor::JOURNAL, factor::RAID, factor::LAYER, factor::STACK];
    let bare = optional.iter().all(|id| variant.level(id).is_empty());
    let why = "the bare device takes no options of mkfs or mount, no journal, raid, layer or stack";
    require(bare && variant.level(factor::OPTIONS) == "default", || RunError::variant(variant, why))?;
    plan.workloads.iter().try_for_each(|asked| {
        let why = || format!("workload {} needs a filesystem; leave out fs=raw", asked.name);
        require(workload(plan, asked)?.0.supports_raw(), || RunError::variant(variant, why()))
    })
}

/// The definitions of all variants' filesystems, each of which this machine can make and mount.
fn mountable(kernel: &SysRoot, plan: &Plan, variants: &[Variant]) -> Result<Vec<&'static FsDef>> {
    let found = survey(kernel)?;
    let asked = formatted(variants).map(|variant| variant.level(factor::FS));
    let usable = |id: &str| {
        let Some(have) = found.iter().find(|have| have.def.id == id) else {
            return Err(RunError::Plan(format!("fsarena knows no filesystem {id}")));
        };
        let why = || format!("this kernel cannot mount {id}; `fsarena list filesystems` says which it can");
        require(have.kernel, || RunError::Missing(why()))?;
        have.mkfs.is_some().then_some(have.def).ok_or_else(|| fs_capabilities::no_mkfs(have.def))
    };
    asked.chain([plan.device.other_fs.as_str()]).map(usable).collect()
}

/// The options of mkfs and mount can be used, and none of them reaches a second device or file.
fn options(plan: &Plan, variants: &[Variant]) -> Result<()> {
    let made = formatted(variants).filter(|_| plan.device.backing != Backing::Dir);
    Ok(made.map(filesystem_of).try_for_each(|options| options.map(drop))?)
}

/// Programs that make journals on devices of their own, where these are files or are not.
fn of_journals(variants: &[Variant], files: bool) -> Result<BTreeSet<String>> {
    let mut programs = BTreeSet::new();
    for variant in formatted(variants) {
        let (def, options) = filesystem_of(variant)?;
        let apart = options.journal.and(def.journal);
        programs.extend(apart.iter().flat_map(|able| able.programs(files)).map(String::from));
    }
    Ok(programs)
}

fn directories(variants: &[Variant], room: Room, demands: &Demands) -> Result<()> {
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

fn all_installed(programs: &BTreeSet<String>) -> Result<()> {
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
