//! Checks the requirements of guests: an emulator, kernels with the filesystems, and the mkfs programs.

use super::fs_capabilities;
use crate::error::{Result, RunError, require};
use crate::layout::{Layout, filesystem_of};
use crate::{layers, power_cut, settings::setting, work};
use fsarena_core::event::{CommandRecord, Note, NoteKind};
use fsarena_core::factor::{self, faults};
use fsarena_core::plan::{Accelerator, Backing, Emulator, GuestPlan, Plan};
use fsarena_core::{cell::Variant, factor::raid::Raid, setting::Settings};
use fsarena_fs::{available, def::FsDef, filesystems::FILESYSTEMS};
use fsarena_guest::config::{Array, Stack};
use fsarena_guest::kernel::{self, GuestKernel, Places};
use fsarena_guest::{emulator::QEMU, modules::Modules, trial};
use fsarena_load::workload::{Job, Workload};
use fsarena_load::workloads::WORKLOADS;
use fsarena_sys::{links, program};
use std::collections::BTreeMap;

/// Refuses a workload that runs programs: the only program in a guest is fsarena.
pub fn hold_programs(plan: &Plan, _: &[Variant]) -> Result<()> {
    let in_guests = matches!(plan.device.backing, Backing::Guest(_));
    for asked in plan.workloads.iter().filter(|_| in_guests) {
        let (workload, job) = work::workload(plan, asked)?;
        require(workload.programs(&job).is_empty(), || {
            let (name, others) = (&asked.name, without_programs(&job).join(", "));
            RunError::Missing(format!(
                "guests hold no programs, so the workload {name} cannot run there. Run it as root on a loop image (`{}`), or \
                 in a directory (`{}`). Workloads that run in guests: {others}",
                setting("on", "loop"),
                setting("on", "dir:PATH")
            ))
        })?;
    }
    Ok(())
}

/// The workloads that can do without programs.
fn without_programs(job: &Job) -> Vec<&'static str> {
    let can = |workload: &&&dyn Workload| {
        let mut settings = Settings::defaults(workload.def().settings);
        settings.do_without_programs();
        workload.programs(&Job { settings, ..job.clone() }).is_empty()
    };
    WORKLOADS.iter().filter(can).map(|workload| workload.def().id).collect()
}

/// The kernels of a plan, by the level of the factor `kernel`.
#[derive(Debug, Clone, Default)]
pub struct Kernels {
    /// Each level with its kernel.
    pub by_level: BTreeMap<String, GuestKernel>,
    /// Commands that it took to find them.
    pub commands: Vec<CommandRecord>,
    /// The filesystems that they mount: those of all variants, and that of the source disk.
    pub mounted: Vec<&'static FsDef>,
}

/// Finds the kernels of these levels.
///
/// # Errors
/// An emulator that is not installed, a kernel that is not there or damaged.
pub fn kernels<'a>(guest: &GuestPlan, levels: impl Iterator<Item = &'a str>) -> Result<Kernels> {
    let places = Places::usual(guest.modules.clone());
    require(program::find(QEMU).is_some(), || {
        RunError::Missing(format!(
            "{QEMU} is not installed: apt-get install qemu-system-x86, or benchmark the filesystem a directory is on ({}); \
             `fsarena doctor` says what else is possible",
            setting("on", "dir:PATH")
        ))
    })?;
    let mut kernels = Kernels::default();
    for level in levels {
        if !kernels.by_level.contains_key(level) {
            let log = &mut |record| kernels.commands.push(record);
            let found = kernel::find(level, &places, log)?;
            kernels.by_level.insert(level.to_string(), found);
        }
    }
    Ok(kernels)
}

/// The programs besides fsarena that run in the guests of a plan: those that check filesystems after a power cut, that serve
/// layers, and that make filesystems on stacked devices.
///
/// # Errors
/// A power cut that this machine cannot do.
pub fn programs(plan: &Plan, variants: &[Variant]) -> Result<Vec<String>> {
    let mut programs = power_cut::check_plan(plan, variants)?;
    if matches!(plan.device.backing, Backing::Guest(_)) {
        for variant in variants {
            programs.extend(layers::program(variant.level(factor::LAYER)).map(String::from));
            if !link_names(variant)?.is_empty() {
                programs.insert(filesystem_of(variant)?.0.mkfs.into());
                let of_links = links::programs(variant.level(factor::STACK));
                programs.extend(of_links.into_iter().map(|(name, _)| name.to_string()));
            }
        }
    }
    Ok(programs.into_iter().collect())
}

/// Decides what runs the instructions of guests whose time is time: the CPU itself where a trial boot of each kernel succeeds. What
/// a reader should know of that.
///
/// # Errors
/// Where the run was begun with KVM and that works no more.
pub fn accelerate(guest: &mut GuestPlan, kernels: &Kernels) -> Result<Option<Note>> {
    if guest.emulator != Emulator::Qemu || guest.accelerator == Some(Accelerator::Tcg) {
        return Ok(None);
    }
    let cache = fsarena_guest::cache::dir();
    let failed = kernels.by_level.values().find_map(|kernel| trial::kvm(kernel, &cache).err());
    let Some(why) = failed else {
        guest.accelerator = Some(Accelerator::Kvm);
        return Ok(None);
    };
    if guest.accelerator.is_some() {
        return Err(RunError::Missing(format!(
            "this run was begun with KVM, which does not work here: {why}"
        )));
    }
    guest.accelerator = Some(Accelerator::Tcg);
    let text = format!("instructions are translated, not run by KVM: {why}");
    Ok(Some(Note::new(NoteKind::Remark, text)))
}

/// The filesystems that can be made here and that all of these kernels have.
pub fn available(kernels: &Kernels) -> Vec<&'static str> {
    let all_have = |def: &FsDef| kernels.by_level.values().all(|kernel| has(kernel, def));
    let usable = |def: &&&FsDef| program::find(def.mkfs).is_some() && all_have(def);
    FILESYSTEMS.iter().filter(usable).map(|def| def.id).collect()
}

/// The module that has a filesystem: ext4 can stand for ext2 and ext3.
pub fn module<'a>(modules: &Modules, kernel_type: &'a str) -> &'a str {
    match kernel_type {
        "ext2" | "ext3" if !modules.has(kernel_type) => "ext4",
        own => own,
    }
}

/// Whether modules have a filesystem among them.
pub fn in_modules(modules: &Modules, def: &FsDef) -> bool {
    modules.has(module(modules, def.id))
}

/// Whether a kernel has a filesystem.
pub fn has(kernel: &GuestKernel, def: &FsDef) -> bool {
    kernel.has(module(&kernel.modules, def.id)) || kernel.has(def.id)
}

/// The definitions of all variants' filesystems and of the source disk's, which can be made here, and which every kernel
/// that is to mount them has. The same one can come several times.
pub fn mountable(
    plan: &Plan,
    emulator: Emulator,
    variants: &[Variant],
    kernels: &Kernels,
) -> Result<Vec<&'static FsDef>> {
    let other = plan.device.other_fs.as_str();
    // Their mkfs fills them from a directory.
    let fillable = FILESYSTEMS.iter().filter(|def| def.contents.is_some()).map(|def| def.id);
    require(fillable.clone().any(|id| id == other), || {
        let able = fillable.collect::<Vec<_>>().join(", ");
        RunError::Plan(format!(
            "other_fs = {other}: for a guest the source disk is made without mounting it, as {able}"
        ))
    })?;
    let pairs = variants.iter().map(|variant| (variant.level(factor::FS), variant.level(factor::KERNEL)));
    let others = kernels.by_level.keys().map(|level| (other, level.as_str()));
    let usable = |(id, level): (&str, &str)| {
        let (def, kernel) = (fsarena_fs::filesystems::find(id)?, &kernels.by_level[level]);
        match (has(kernel, def), program::find(def.mkfs)) {
            (false, _) => Err(lacks(kernel, def)),
            (true, None) => Err(fs_capabilities::no_mkfs(def)),
            (true, Some(_)) => Ok(def),
        }
    };
    let defs = pairs.chain(others).map(usable).collect::<Result<_, _>>()?;
    for variant in variants {
        if emulator == Emulator::Exact {
            nothing_around(variant)?;
        }
        around(variant, &kernels.by_level[variant.level(factor::KERNEL)])?;
    }
    Ok(defs)
}

/// That a kernel has no such filesystem, and where there is one that has it.
fn lacks(kernel: &GuestKernel, def: &FsDef) -> RunError {
    let here = Places::usual(None).releases_with(|modules| in_modules(modules, def));
    let fix = match here.last() {
        Some(release) => {
            format!("one that has it is here: {}", setting("kernel", &format!("debian:{release}")))
        }
        None if !def.kernels.is_empty() => def.kernels.into(),
        None => format!(
            "name one that has it: {}, or {} {}",
            setting("kernel", "debian:VERSION"),
            setting("kernel", "PATH"),
            setting("modules", "DIR")
        ),
    };
    RunError::Missing(format!("the guest kernel {} has no {}; {fix}", kernel.name(), def.id))
}

/// A guest that counts instructions has one disk in memory, and nothing around it is varied.
fn nothing_around(variant: &Variant) -> Result<()> {
    let (_, options) = filesystem_of(variant)?;
    let mut set = variant.levels.iter().filter(|(_, level)| !level.is_empty()).map(|(id, _)| id.as_str());
    let varied =
        set.find(|id| ![factor::CLIENTS, factor::LAYER, factor::STACK].contains(id) && factor::is_axis(id));
    let Some(axis) = varied.or(options.raid.map(|_| factor::RAID)) else { return Ok(()) };
    let why = format!(
        "a guest that counts instructions has one disk, which is memory, so `{axis}` cannot be had in it; leave it out, or \
         take `{}`",
        setting("on", "qemu")
    );
    Err(RunError::variant(variant, why))
}

/// Whether a guest can have what is varied around a variant's filesystem.
fn around(variant: &Variant, kernel: &GuestKernel) -> Result<()> {
    let (_, options) = filesystem_of(variant)?;
    let named = (!variant.level(factor::DEVICE).is_empty()).then_some(factor::DEVICE);
    let apart = options.journal.is_some_and(|journal| journal.on.is_some()).then_some(factor::JOURNAL);
    if let Some(axis) = named.or(apart) {
        let why = format!(
            "the disks of a guest are image files, so `{axis}` cannot name another backing device; leave it out, or take \
             `{}`",
            setting("on", "loop")
        );
        return Err(RunError::variant(variant, why));
    }
    let layer = variant.level(factor::LAYER);
    if layers::module(layer).is_some() {
        layers::check_filesystem(variant)?;
        let missing = |why| RunError::Missing(format!("variant {}: layer={layer}: {why}", variant.name));
        layers::check_program(layer).map_err(missing)?;
    }
    require(["", "0"].contains(&variant.level(factor::CPUS)), || {
        RunError::Missing(format!("variant {}: a guest has one CPU, number 0", variant.name))
    })?;
    let faults = faults::parse(variant.level(factor::FAULTS)).map_err(RunError::Plan)?;
    let links = link_names(variant)?;
    require(links.is_empty() || options.journal.is_none(), || {
        let why =
            "the journal of a filesystem on stacked devices lies inside it: leave out `journal` or `stack`";
        RunError::variant(variant, why)
    })?;
    let level = variant.level(factor::STACK);
    let missing = |why| RunError::Missing(format!("variant {}: stack={level}: {why}", variant.name));
    links::check_programs(level).map_err(missing)?;
    let stack = Stack { array: options.raid.map(Array::from_raid), faults, links, ..Stack::default() };
    let mut further = further_modules(variant, &stack, &options.mount).into_iter();
    let lacked = further.find(|name| kernel.modules.is_known() && !kernel.modules.has(name));
    let Some(module) = lacked else { return Ok(()) };
    let (variant, kernel) = (&variant.name, kernel.name());
    Err(RunError::Missing(format!("variant {variant}: the guest kernel {kernel} has no module {module}")))
}

/// What lies between the disks of a guest and the filesystem of a variant.
///
/// # Errors
/// A level that is none.
pub fn stack(variant: &Variant, layout: &Layout, raid: Option<Raid>) -> Result<Stack> {
    let faults = faults::parse(variant.level(factor::FAULTS)).map_err(RunError::Plan)?;
    let (more, journal) = (layout.members.len() - 1, layout.journal.is_some());
    let array = raid.map(Array::from_raid);
    Ok(Stack { more, journal, array, faults, links: link_names(variant)?, ..Stack::default() })
}

/// The names of the links of a variant's stack.
fn link_names(variant: &Variant) -> Result<Vec<String>> {
    let links = links::parse(variant.level(factor::STACK)).map_err(RunError::Plan)?;
    Ok(links.into_iter().map(|link| link.id.to_string()).collect())
}

/// The modules that a variant takes besides those of its filesystem, which is mounted with these options.
pub fn further_modules(variant: &Variant, stack: &Stack, mount: &str) -> Vec<String> {
    let scheduler = SCHEDULERS.into_iter().find(|(level, _)| *level == variant.level(factor::SCHEDULER));
    let fixed = stack.modules().into_iter().chain(scheduler.map(|(_, module)| module));
    let layer = layers::module(variant.level(factor::LAYER));
    fixed.chain(layer).map(String::from).chain(available::charset_modules(mount)).collect()
}

/// The modules that mount a filesystem: its own, and those that it asks for by name and this kernel has.
pub fn of_filesystem(modules: &Modules, def: &FsDef) -> Vec<&'static str> {
    let asked_for = def.modules.iter().copied().filter(|name| modules.has(name));
    std::iter::once(module(modules, def.id)).chain(asked_for).collect()
}

/// I/O schedulers and their modules.
pub const SCHEDULERS: [(&str, &str); 3] =
    [("mq-deadline", "mq_deadline"), ("kyber", "kyber_iosched"), ("bfq", "bfq")];

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_fs::filesystems;

    /// A kernel with these built in.
    fn modules(names: &[&str]) -> (tempfile::TempDir, Modules) {
        let dir = tempfile::tempdir().unwrap();
        let lines: String = names.iter().map(|name| format!("kernel/{name}.ko\n")).collect();
        std::fs::write(dir.path().join("modules.builtin"), lines).unwrap();
        let modules = Modules::open(dir.path()).unwrap();
        (dir, modules)
    }

    #[test]
    fn what_a_driver_asks_for_by_name_comes_with_it_where_the_kernel_has_it() {
        let (_dir, modules) = modules(&["vfat", "nls_cp437", "nls_ascii", "ext4", "f2fs"]);
        let of = |fs: &str| of_filesystem(&modules, filesystems::find(fs).unwrap());
        assert_eq!(of("vfat"), ["vfat", "nls_cp437", "nls_ascii"]);
        assert_eq!((of("ext3"), of("f2fs")), (vec!["ext4"], vec!["f2fs"]));
    }

    #[test]
    fn character_sets_of_mount_options_are_modules_of_the_variant() {
        let levels = [(factor::SCHEDULER.to_string(), "bfq".to_string())].into();
        let variant = Variant { name: "vfat".into(), levels };
        let further = further_modules(&variant, &Stack::default(), "codepage=850,flush");
        assert_eq!(further, ["bfq", "nls_cp850"]);
    }

    #[test]
    fn a_kernel_without_the_filesystem_is_told_with_what_has_it() {
        let (_dir, modules) = modules(&["ext4"]);
        let kernel =
            GuestKernel { image: "/k".into(), release: "6.1".into(), modules, ..GuestKernel::default() };
        let def = filesystems::find("reiser4").unwrap();
        let why = lacks(&kernel, def).to_string();
        assert_eq!(
            why,
            "the guest kernel 6.1 has no reiser4; Linux has never had it: a kernel with its patch, by --kernel PATH \
             --modules DIR"
        );
    }
}
