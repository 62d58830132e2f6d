//! What guests need: an emulator, kernels that have the filesystems, and the programs that make them.

use crate::executor::Fatal;
use fsarena_core::cell::Arm;
use fsarena_core::event::CommandRecord;
use fsarena_core::factor;
use fsarena_core::plan::{Emulator, GuestPlan, Plan};
use fsarena_fs::available::find_program;
use fsarena_fs::def::FsDef;
use fsarena_fs::filesystems::FILESYSTEMS;
use fsarena_guest::emulator::QEMU;
use fsarena_guest::kernel::{self, GuestKernel, Places};
use fsarena_guest::modules::Modules;
use std::collections::BTreeMap;

/// Filesystems of an other disk that their mkfs can fill from a directory, without mounting it.
const FILLABLE: [&str; 3] = ["ext2", "ext3", "ext4"];

/// The emulator that is taken where nobody chooses one: QEMU, unless only User Mode Linux is here.
pub fn usual() -> Emulator {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |program| find_program(&path, program).is_some();
    if !has(QEMU) && has(kernel::UML) { Emulator::Uml } else { Emulator::Qemu }
}

/// The kernels of a plan, by the level of the factor `kernel`.
#[derive(Debug, Clone, Default)]
pub struct Kernels {
    /// Each level with its kernel.
    pub by_level: BTreeMap<String, GuestKernel>,
    /// Commands that it took to find them.
    pub commands: Vec<CommandRecord>,
}

/// Finds the kernels of these levels.
///
/// # Errors
/// An emulator that is not installed, a kernel that is not there or damaged.
pub fn kernels<'a>(guest: &GuestPlan, levels: impl Iterator<Item = &'a str>) -> Result<Kernels, Fatal> {
    let places = Places { root: "/".into(), cache: kernel::cache_dir(), modules: guest.modules.clone() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    if guest.emulator != Emulator::Uml && find_program(&path, QEMU).is_none() {
        let message = format!(
            "{QEMU} is not installed: apt-get install qemu-system-x86, or take User Mode Linux (--on uml), or benchmark \
             the filesystem a directory is on (--on dir:PATH); `fsarena doctor` says what else is possible"
        );
        return Err(Fatal::Missing(message));
    }
    let mut kernels = Kernels::default();
    for level in levels {
        if !kernels.by_level.contains_key(level) {
            let log = &mut |record| kernels.commands.push(record);
            let found = kernel::find(guest.emulator, level, &places, log)?;
            kernels.by_level.insert(level.to_string(), found);
        }
    }
    Ok(kernels)
}

/// The filesystems that can be made here and that all of these kernels have.
pub fn available(kernels: &Kernels) -> Vec<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all_have = |def: &FsDef| kernels.by_level.values().all(|kernel| has(&kernel.modules, def));
    let usable = |def: &&&FsDef| find_program(&path, def.mkfs).is_some() && all_have(def);
    FILESYSTEMS.iter().filter(usable).map(|def| def.id).collect()
}

/// The module that has a filesystem: ext4 can stand for ext2 and ext3.
pub fn module<'a>(modules: &Modules, kernel_type: &'a str) -> &'a str {
    match kernel_type {
        "ext2" | "ext3" if !modules.has(kernel_type) => "ext4",
        own => own,
    }
}

/// Where nothing is known of a kernel's modules it has to say itself, when it is booted.
fn has(modules: &Modules, def: &FsDef) -> bool {
    !modules.is_known() || modules.has(module(modules, def.kernel_type))
}

/// The definitions of all arms' filesystems and of the other disk's, each of which can be made here, and which
/// every kernel that is to mount it has.
pub fn mountable(plan: &Plan, arms: &[Arm], kernels: &Kernels) -> Result<Vec<&'static FsDef>, Fatal> {
    if !FILLABLE.contains(&plan.device.other_fs.as_str()) {
        return Err(Fatal::Plan(format!(
            "other_fs = {}: for a guest the other disk is made without mounting it, as {}",
            plan.device.other_fs,
            FILLABLE.join(", ")
        )));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut defs: Vec<&'static FsDef> = vec![];
    let pairs = arms.iter().map(|arm| (arm.level(factor::FS), arm.level(factor::KERNEL)));
    let others = kernels.by_level.keys().map(|level| (plan.device.other_fs.as_str(), level.as_str()));
    for (id, level) in pairs.chain(others) {
        let def = fsarena_fs::filesystems::find(id)?;
        let kernel = &kernels.by_level[level];
        if !has(&kernel.modules, def) {
            return Err(Fatal::Missing(format!(
                "the guest kernel {} has no {id}; name one that has it: --kernel PATH --modules DIR",
                kernel.release
            )));
        }
        if find_program(&path, def.mkfs).is_none() {
            let packages = def.packages.join(" ");
            return Err(Fatal::Missing(format!("{} is not installed: apt-get install {packages}", def.mkfs)));
        }
        if !defs.iter().any(|known| known.id == def.id) {
            defs.push(def);
        }
    }
    arms.iter().try_for_each(one_plain_disk)?;
    Ok(defs)
}

/// A guest has one disk under test, and nothing around it is varied.
fn one_plain_disk(arm: &Arm) -> Result<(), Fatal> {
    let options = fsarena_fs::lifecycle::options(fsarena_fs::filesystems::find(arm.level(factor::FS))?, arm)?;
    let varied = factor::axes().find(|axis| axis.id != factor::CLIENTS && !arm.level(axis.id).is_empty());
    let of_options = options.journal.map(|_| factor::JOURNAL).or(options.raid.map(|_| factor::RAID));
    match varied.map(|axis| axis.id).or(of_options) {
        None => Ok(()),
        Some(axis) => Err(Fatal::Plan(format!(
            "arm {}: a guest has one plain disk, so `{axis}` cannot be had in it; leave it out, or take `--on loop`",
            arm.name
        ))),
    }
}
