//! Checks the requirements of guests: an emulator, kernels with the filesystems, and the mkfs programs.

use super::fs_capabilities;
use crate::axes;
use crate::device_layout::filesystem_of;
use crate::error::{Result, RunError, require};
use crate::{layers, power_cut};
use fsarena_core::event::{CommandRecord, Note, NoteKind};
use fsarena_core::factor::{self, device};
use fsarena_core::plan::{Accelerator, Backing, Emulator, GuestPlan, Plan};
use fsarena_core::setting_text::setting;
use fsarena_core::{cell::Variant, factor::device::Raid};
use fsarena_fs::def::{FsDef, KernelRange};
use fsarena_fs::{available, filesystems::FILESYSTEMS};
use fsarena_guest::config::StackConfig;
use fsarena_guest::kernel::{self, DEBIAN, GuestKernel, KernelDirs};
use fsarena_guest::{emulator::QEMU, kvm_trial, module_build, modules::Modules};
use fsarena_sys::{links, program};
use std::collections::BTreeMap;

/// The kernels of a plan, by the level of the factor `kernel`.
#[derive(Debug, Clone, Default)]
pub struct Kernels {
    /// The kernel of each level.
    pub by_level: BTreeMap<String, GuestKernel>,
    /// The commands that found the kernels.
    pub commands: Vec<CommandRecord>,
    /// The filesystems that the kernels mount, sorted by id: those of all variants, and that of the source disk.
    pub mounted_filesystems: Vec<&'static FsDef>,
}

/// Finds the kernel of each of these levels of the factor `kernel`. For an empty level it chooses a kernel that can
/// mount `filesystems`.
///
/// # Errors
/// An emulator that is not installed, or a kernel that is missing or damaged.
pub fn find_kernels<'a>(
    guest: &GuestPlan,
    levels: impl Iterator<Item = &'a str>,
    filesystems: &[&FsDef],
) -> Result<Kernels> {
    let kernel_dirs = KernelDirs::of_this_machine(guest.modules.clone());
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
            let chosen = if level.is_empty() { choose_kernel(&kernel_dirs, filesystems) } else { level.to_string() };
            let kernel = kernel::find_or_fetch_kernel(&chosen, &kernel_dirs, log)?;
            kernels.by_level.insert(level.to_string(), kernel);
        }
    }
    Ok(kernels)
}

/// The programs besides fsarena that run in the guests of a plan: those that check filesystems after a power cut, that
/// serve layers, and that make filesystems on stacked devices.
///
/// # Errors
/// A power cut that this machine cannot do.
pub fn guest_programs(plan: &Plan, variants: &[Variant]) -> Result<Vec<String>> {
    let mut programs = power_cut::required_check_programs(plan, variants)?;
    if matches!(plan.device.backing, Backing::Guest(_)) {
        for variant in variants {
            let of_layer = layers::programs(variant.level(factor::LAYER));
            programs.extend(of_layer.iter().map(|(name, _)| name.to_string()));
            let (def, _) = filesystem_of(variant)?;
            let is_stacked = !link_names(variant)?.is_empty();
            if is_stacked || def.pool.is_some() {
                programs.insert(def.mkfs.into());
            }
            if is_stacked {
                let of_links = links::required_programs(variant.level(factor::STACK));
                programs.extend(of_links.into_iter().map(|(name, _)| name.to_string()));
            }
        }
    }
    Ok(programs.into_iter().collect())
}

/// Chooses the kernel for these filesystems, as a level of the factor `kernel`:
///
/// 1. The newest available kernel, as an empty level, if it supports all of them.
/// 2. The newest available kernel that supports all of them.
/// 3. The same, if filesystems whose modules fsarena can compile for any kernel are left out.
/// 4. The Debian kernel that the definition of one of the filesystems names.
///
/// If no kernel fits, the level is empty too, and a later check reports what the newest kernel lacks.
fn choose_kernel(kernel_dirs: &KernelDirs, filesystems: &[&FsDef]) -> String {
    if filesystems.is_empty() {
        // Any kernel fits, so the thousands of module files of the newest need not be listed here.
        return String::new();
    }
    let not_compiled: Vec<&FsDef> = filesystems.iter().copied().filter(|def| def.module_source.is_none()).collect();
    for filesystems in [filesystems, &not_compiled] {
        if let Some(level) = find_available_kernel(kernel_dirs, filesystems) {
            return level;
        }
    }
    let debian_kernel = filesystems.iter().filter_map(|def| def.kernel_range).find(|range| !range.debian.is_empty());
    debian_kernel.map_or(String::new(), |range| format!("{DEBIAN}:{}", range.debian))
}

/// The newest kernel on this machine that supports all of these filesystems, as a level of the factor `kernel`: empty
/// for the default kernel. None if no kernel here supports them.
fn find_available_kernel(kernel_dirs: &KernelDirs, filesystems: &[&FsDef]) -> Option<String> {
    let has_all = |modules: &Modules| filesystems.iter().all(|def| modules_support(modules, def));
    let default_kernel_fits = match kernel_dirs.default_kernel() {
        Ok(Some((_, modules))) => has_all(&modules),
        // No kernel is available, so fsarena will fetch the kernel of Debian stable. It has every filesystem whose
        // definition does not name certain kernels.
        Ok(None) => filesystems.iter().all(|def| def.kernel_range.is_none()),
        // The search for the default kernel, which follows, reports the error.
        Err(_) => true,
    };
    if default_kernel_fits {
        return Some(String::new());
    }
    kernel_dirs.releases_with(has_all).last().map(|release| format!("{DEBIAN}:{release}"))
}

/// Sets the accelerator of guests that measure time: KVM if a trial boot of each kernel succeeds, else translation
/// (TCG). Returns a note for the report if translation is used. Guests that count instructions do not change.
///
/// # Errors
/// A run that began with KVM, on a machine where KVM does not work.
pub fn choose_accelerator(guest: &mut GuestPlan, kernels: &Kernels) -> Result<Option<Note>> {
    if guest.emulator != Emulator::Qemu || guest.accelerator == Some(Accelerator::Tcg) {
        return Ok(None);
    }
    let cache = fsarena_sys::dirs::cache_dir();
    let failed = kernels.by_level.values().find_map(|kernel| kvm_trial::check_kvm(kernel, &cache).err());
    let Some(why) = failed else {
        guest.accelerator = Some(Accelerator::Kvm);
        return Ok(None);
    };
    if guest.accelerator.is_some() {
        return Err(RunError::Missing(format!("this run was begun with KVM, which does not work here: {why}")));
    }
    guest.accelerator = Some(Accelerator::Tcg);
    let text = format!("instructions are translated, not run by KVM: {why}");
    Ok(Some(Note::new(NoteKind::Remark, text)))
}

/// A note for each kernel that checks itself while it runs.
pub fn debug_kernel_notes(kernels: &Kernels) -> impl Iterator<Item = Note> {
    kernels.by_level.iter().filter(|(_, kernel)| !kernel.debug_options().is_empty()).map(|(level, kernel)| {
        let (name, parts) = (kernel.name(), kernel.debug_options().join(", "));
        let level_text = if level.is_empty() { String::new() } else { format!(" ({level})") };
        let text = format!(
            "DEBUG KERNEL: {name}{level_text} is built with {parts}, which can cost a filesystem several times its time; compare it only \
             with a kernel of the same configuration"
        );
        Note::new(NoteKind::DebugKernel, text)
    })
}

/// The ids of the filesystems that this machine can make and that all of these kernels support.
pub fn available_filesystems(kernels: &Kernels) -> Vec<&'static str> {
    let all_have = |def: &FsDef| kernels.by_level.values().all(|kernel| kernel_supports(kernel, def));
    let is_usable = |def: &&&FsDef| def.is_general() && available::has_mkfs(def) && all_have(def);
    FILESYSTEMS.iter().filter(is_usable).map(|def| def.id).collect()
}

/// The name of the kernel module that contains a filesystem. The module ext4 also mounts ext2 and ext3.
pub fn main_module<'a>(modules: &Modules, kernel_type: &'a str) -> &'a str {
    match kernel_type {
        "ext2" | "ext3" if !modules.has(kernel_type) => "ext4",
        own => own,
    }
}

/// Whether one of these modules contains a filesystem.
pub fn modules_support(modules: &Modules, def: &FsDef) -> bool {
    // Every kernel has tmpfs, which is never a module.
    def.traits.volatile || modules.has(main_module(modules, def.id))
}

/// Whether a kernel supports a filesystem, built in or as a module.
pub fn kernel_supports(kernel: &GuestKernel, def: &FsDef) -> bool {
    def.traits.volatile || kernel.supports(main_module(&kernel.modules, def.id)) || kernel.supports(def.id)
}

/// Fetches the programs of these variants that are neither installed nor fetched, with their libraries: mkfs, and those
/// of layers and stacked devices. An ordinary user can do that, because they work on image files or in guests.
///
/// # Errors
/// A program cannot be fetched; the message names the package.
pub fn fetch_programs(variants: &[Variant], kernels: &mut Kernels) -> Result<()> {
    for variant in variants {
        let def = fsarena_fs::filesystems::find(variant.level(factor::FS))?;
        let log: kernel::OnCommand = &mut |record| kernels.commands.push(record);
        if kernel_supports(&kernels.by_level[variant.level(factor::KERNEL)], def) {
            fetch_mkfs_of(def, log)?;
        }
        let of_layer = layers::programs(variant.level(factor::LAYER)).iter().copied();
        for (name, package) in of_layer.chain(links::required_programs(variant.level(factor::STACK))) {
            let install = format!("{name} is not installed: apt-get install {package}");
            fetch_program(name, package, install, log)?;
        }
    }
    Ok(())
}

/// Fetches the mkfs program of a filesystem, unless it is installed or fetched.
fn fetch_mkfs_of(def: &FsDef, log: kernel::OnCommand) -> Result<()> {
    match def.packages.first().filter(|_| !available::has_mkfs(def)) {
        Some(package) => fetch_program(def.mkfs, package, fs_capabilities::missing_mkfs_error(def).to_string(), log),
        None => Ok(()),
    }
}

/// Fetches a program of a package, unless it is installed or has been fetched. `missing_message` begins the error if it
/// cannot be fetched.
fn fetch_program(name: &str, package: &str, missing_message: String, log: kernel::OnCommand) -> Result<()> {
    if program::find(name).is_some() {
        return Ok(());
    }
    let kernel_dirs = KernelDirs::of_this_machine(None);
    kernel_dirs.apt_dirs.fetch_program(package, &kernel_dirs.cache, log).map_err(|error| {
        RunError::Missing(format!("{missing_message}\nfsarena could not fetch {package} itself: {error}"))
    })
}

/// Fetches everything that guests need for these filesystems and that this machine lacks: one kernel for all of them,
/// and each mkfs. `level` names the kernel as a level of the factor `kernel`. Compiles the modules that the kernel
/// lacks, and calls `show` with each step of that. Returns the name of the kernel.
///
/// # Errors
/// QEMU is not installed, something cannot be fetched or compiled, or no kernel has all of them.
pub fn fetch_kernel_and_mkfs(defs: &[&FsDef], level: &str, show: module_build::OnStep) -> Result<String> {
    let plan = GuestPlan::of(Emulator::Qemu);
    let find = || find_kernels(&plan, [level].into_iter(), defs);
    let mut kernels = find()?;
    for def in defs {
        let is_unsupported = !kernel_supports(&kernels.by_level[level], def);
        if let Some(package) = def.module_source.filter(|_| is_unsupported) {
            let release = &kernels.by_level[level].release;
            let kernel_dirs = KernelDirs::of_this_machine(None);
            module_build::build_modules(
                package,
                release,
                (&kernel_dirs.cache, &kernel_dirs.apt_dirs),
                show,
                &mut |_| {},
            )?;
            kernels = find()?;
        }
    }
    let kernel = &kernels.by_level[level];
    for def in defs {
        require(kernel_supports(kernel, def), || unsupported_error(kernel, def))?;
        fetch_mkfs_of(def, &mut |_| {})?;
    }
    Ok(kernel.name())
}

/// Checks that guests can run these variants. Returns the definitions of the filesystems of all variants and of the
/// source disk; a filesystem can occur several times.
///
/// # Errors
/// A filesystem that this machine cannot make or that its guest kernel does not support, or a level that a guest cannot
/// have.
pub fn check_guest_variants(plan: &Plan, variants: &[Variant], kernels: &Kernels) -> Result<Vec<&'static FsDef>> {
    let source_fs = plan.device.other_fs.as_str();
    // The filesystems whose mkfs can copy the files of a directory into the new filesystem.
    let fillable =
        FILESYSTEMS.iter().filter(|def| def.contents_argument.is_some() && def.is_general()).map(|def| def.id);
    require(fillable.clone().any(|id| id == source_fs), || {
        let fillable = fillable.collect::<Vec<_>>().join(", ");
        RunError::Plan(format!(
            "other_fs = {source_fs}: mkfs fills the source disk of a guest without a mount, so other_fs can only be one of: \
             {fillable}"
        ))
    })?;
    let pairs = variants.iter().map(|variant| (variant.level(factor::FS), variant.level(factor::KERNEL)));
    let source_pairs = kernels.by_level.keys().map(|level| (source_fs, level.as_str()));
    let check_pair = |(id, level): (&str, &str)| {
        let (def, kernel) = (fsarena_fs::filesystems::find(id)?, &kernels.by_level[level]);
        match (kernel_supports(kernel, def), available::has_mkfs(def)) {
            (false, _) => Err(unsupported_error(kernel, def)),
            (true, false) => Err(fs_capabilities::missing_mkfs_error(def)),
            (true, true) => Ok(def),
        }
    };
    let defs = pairs.chain(source_pairs).map(check_pair).collect::<Result<_, _>>()?;
    if variants.iter().any(|variant| axes::age::age_of(variant).is_some()) {
        check_aged_on_one_disk(variants)?;
    }
    for variant in variants {
        if plan.device.backing.counts_instructions() {
            check_exact_levels(variant)?;
        }
        check_levels(variant, &kernels.by_level[variant.level(factor::KERNEL)])?;
    }
    Ok(defs)
}

/// Describes where to get a kernel with a filesystem. `local_release` is the release of such a kernel on this machine;
/// None if no kernel here has the filesystem.
pub fn where_to_get(def: &FsDef, local_release: Option<String>) -> String {
    let own_kernel = format!("{} {}", setting("kernel", "PATH"), setting("modules", "DIR"));
    if let Some(release) = local_release {
        return format!("this machine has one that has it: {}", setting("kernel", &format!("debian:{release}")));
    }
    if def.module_source.is_some() {
        let install = setting("install", def.id);
        return format!("`fsarena doctor {install}` compiles it for a guest kernel, once, in some 8 minutes");
    }
    match def.kernel_range {
        Some(KernelRange { text, debian: "" }) => format!("{text}: {own_kernel}"),
        Some(KernelRange { text, debian }) => {
            format!("{text}: {}", setting("kernel", &format!("debian:{debian}")))
        }
        None => format!("name one that has it: {}, or {own_kernel}", setting("kernel", "debian:VERSION")),
    }
}

/// The error that a guest kernel does not support a filesystem; it names a kernel that does.
fn unsupported_error(kernel: &GuestKernel, def: &FsDef) -> RunError {
    let local_releases = KernelDirs::of_this_machine(None).releases_with(|modules| modules_support(modules, def));
    let mut fix = where_to_get(def, local_releases.last().cloned());
    if let (Some(_), false) = (def.module_source, local_releases.is_empty()) {
        let release = &kernel.release;
        fix += &format!(
            "; `fsarena doctor {} {}` compiles it for this one",
            setting("install", def.id),
            setting("kernel", &format!("debian:{release}"))
        );
    }
    RunError::Missing(format!("the guest kernel {} has no {}; {fix}", kernel.name(), def.id))
}

/// Refuses a run that ages filesystems on several disks.
fn check_aged_on_one_disk(variants: &[Variant]) -> Result<()> {
    for variant in variants {
        let (_, options) = filesystem_of(variant)?;
        let multi_disk_axes = [
            (options.raid.is_some(), factor::RAID),
            (options.journal.is_some(), factor::JOURNAL),
            (!variant.level(factor::STACK).is_empty(), factor::STACK),
        ];
        if let Some((_, axis)) = multi_disk_axes.iter().find(|(is_set, _)| *is_set) {
            let why = format!(
                "in guests fsarena keeps aged filesystems that lie on one disk, so `age` does not go with `{axis}`; leave one of \
                 them out, or take {}",
                setting("on", "loop")
            );
            return Err(RunError::in_variant(variant, why));
        }
    }
    Ok(())
}

/// Refuses axes of devices and the machine in a guest that counts instructions: its only disk is memory.
fn check_exact_levels(variant: &Variant) -> Result<()> {
    let (_, options) = filesystem_of(variant)?;
    let mut set_factors = variant.levels.iter().filter(|(_, level)| !level.is_empty()).map(|(id, _)| id.as_str());
    let refused = set_factors.find(|id| {
        ![factor::AGE, factor::CLIENTS, factor::LAYER, factor::STACK, factor::FILL].contains(id)
            && factor::is_machine_factor(id)
    });
    let Some(axis) = refused.or(options.raid.map(|_| factor::RAID)) else { return Ok(()) };
    let why = format!(
        "a guest that counts instructions has one disk, which is memory, so `{axis}` is impossible in it; leave it out, or \
         take `{}`",
        setting("on", "qemu")
    );
    Err(RunError::in_variant(variant, why))
}

/// Refuses levels that no guest can have, such as another backing device or a second CPU, and levels that require a
/// module which the kernel lacks.
fn check_levels(variant: &Variant, kernel: &GuestKernel) -> Result<()> {
    let (def, options) = filesystem_of(variant)?;
    require(def.pool.is_none() || variant.level(factor::LIMIT).is_empty(), || {
        let why = format!(
            "threads of the kernel write for {}, and no control group holds them, so `limit` would not slow it; leave it out",
            def.id
        );
        RunError::in_variant(variant, why)
    })?;
    let device = (!variant.level(factor::DEVICE).is_empty()).then_some(factor::DEVICE);
    let journal = options.journal.is_some_and(|journal| journal.device.is_some()).then_some(factor::JOURNAL);
    if let Some(axis) = device.or(journal) {
        let why = format!(
            "the disks of a guest are image files, so `{axis}` cannot name another backing device; leave it out, or take \
             `{}`",
            setting("on", "loop")
        );
        return Err(RunError::in_variant(variant, why));
    }
    let layer = variant.level(factor::LAYER);
    if layers::module(layer).is_some() {
        layers::check_filesystem(variant)?;
        let missing = |why| RunError::Missing(format!("variant {}: layer={layer}: {why}", variant.name));
        layers::check_programs(layer).map_err(missing)?;
    }
    require(["", "0"].contains(&variant.level(factor::CPUS)), || {
        RunError::Missing(format!("variant {}: a guest has one CPU, number 0", variant.name))
    })?;
    let stack = guest_stack(variant, options.raid)?;
    require(stack.links.is_empty() || options.journal.is_none(), || {
        let why = "the journal of a filesystem on stacked devices lies inside it: leave out `journal` or `stack`";
        RunError::in_variant(variant, why)
    })?;
    let level = variant.level(factor::STACK);
    let missing = |why| RunError::Missing(format!("variant {}: stack={level}: {why}", variant.name));
    links::check_programs(level).map_err(missing)?;
    for module in further_modules(variant, &stack, &options.mount) {
        if kernel.modules.is_known() && !kernel.modules.has(&module) {
            let (variant, kernel) = (&variant.name, kernel.name());
            let why = format!("variant {variant}: the guest kernel {kernel} has no module {module}");
            return Err(RunError::Missing(why));
        }
    }
    Ok(())
}

/// The config of the devices between the disks of a guest and the filesystem of a variant: an array, links, or a device
/// that injects faults. It does not have the number of disks.
///
/// # Errors
/// An invalid level of the factor `faults` or `stack`.
pub fn guest_stack(variant: &Variant, raid: Option<Raid>) -> Result<StackConfig> {
    let faults = device::parse_faults(variant.level(factor::FAULTS)).map_err(RunError::Plan)?;
    Ok(StackConfig { array: raid, faults, links: link_names(variant)?, ..StackConfig::default() })
}

/// The names of the links of a variant's stack.
fn link_names(variant: &Variant) -> Result<Vec<String>> {
    let links = links::parse_level(variant.level(factor::STACK)).map_err(RunError::Plan)?;
    Ok(links.into_iter().map(|link| link.id.to_string()).collect())
}

/// The modules that a variant requires besides the modules of its filesystem: for its stack, I/O scheduler and layer,
/// and for the character sets in the mount options `mount`.
pub fn further_modules(variant: &Variant, stack: &StackConfig, mount: &str) -> Vec<String> {
    let scheduler = SCHEDULER_MODULES.into_iter().find(|(level, _)| *level == variant.level(factor::SCHEDULER));
    let fixed = stack.modules().into_iter().chain(scheduler.map(|(_, module)| module));
    let layer = layers::module(variant.level(factor::LAYER));
    fixed.chain(layer).map(String::from).chain(available::charset_modules(mount)).collect()
}

/// The modules that mount a filesystem: its own module, and those that it loads by name and that this kernel has.
pub fn filesystem_modules(modules: &Modules, def: &FsDef) -> Vec<&'static str> {
    let by_name = def.modules.iter().copied().filter(|name| modules.has(name));
    let main = Some(main_module(modules, def.id)).filter(|_| !def.traits.volatile);
    main.into_iter().chain(by_name).collect()
}

/// I/O schedulers and their modules.
pub const SCHEDULER_MODULES: [(&str, &str); 3] =
    [("mq-deadline", "mq_deadline"), ("kyber", "kyber_iosched"), ("bfq", "bfq")];

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_fs::filesystems;

    /// The modules of a kernel that has these built in, and their directory.
    fn modules(names: &[&str]) -> (tempfile::TempDir, Modules) {
        let dir = tempfile::tempdir().unwrap();
        let lines: String = names.iter().map(|name| format!("kernel/{name}.ko\n")).collect();
        std::fs::write(dir.path().join("modules.builtin"), lines).unwrap();
        let modules = Modules::open(dir.path()).unwrap();
        (dir, modules)
    }

    #[test]
    fn a_filesystem_includes_the_modules_that_it_loads_by_name_if_the_kernel_has_them() {
        let (_dir, modules) = modules(&["vfat", "nls_cp437", "nls_ascii", "ext4", "f2fs"]);
        let of = |fs: &str| filesystem_modules(&modules, filesystems::find(fs).unwrap());
        assert_eq!(of("vfat"), ["vfat", "nls_cp437", "nls_ascii"]);
        assert_eq!((of("ext3"), of("f2fs")), (vec!["ext4"], vec!["f2fs"]));
    }

    #[test]
    fn character_sets_of_mount_options_are_modules_of_the_variant() {
        let levels = [(factor::SCHEDULER.to_string(), "bfq".to_string())].into();
        let variant = Variant { name: "vfat".into(), levels };
        let further = further_modules(&variant, &StackConfig::default(), "codepage=850,flush");
        assert_eq!(further, ["bfq", "nls_cp850"]);
    }

    #[test]
    fn the_error_of_a_filesystem_that_can_be_compiled_says_how() {
        let def = filesystems::find("zfs").unwrap();
        assert!(where_to_get(def, None).starts_with("`fsarena doctor install=zfs` compiles it"));
        assert_eq!(
            where_to_get(def, Some("6.12.1-amd64".into())),
            "this machine has one that has it: kernel=debian:6.12.1-amd64"
        );
    }

    #[test]
    fn the_error_of_an_unsupported_filesystem_names_a_kernel_that_supports_it() {
        let (_dir, modules) = modules(&["ext4"]);
        let kernel = GuestKernel { image: "/k".into(), release: "6.1".into(), modules, ..GuestKernel::default() };
        let def = filesystems::find("reiser4").unwrap();
        let why = unsupported_error(&kernel, def).to_string();
        assert_eq!(
            why,
            "the guest kernel 6.1 has no reiser4; Linux does not include it; use a kernel with its patch: kernel=PATH \
             modules=DIR"
        );
    }
}
