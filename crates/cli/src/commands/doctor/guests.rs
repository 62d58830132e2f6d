//! Checks guests: the emulator, the kernels, KVM, the counting of instructions, and the filesystems.

use super::finding::{Finding, join_ids, limited, missing, ok};
use fsarena_fs::available::{Availability, install_command};
use fsarena_fs::def::FsDef;
use fsarena_guest::emulator::{QEMU, has_memory_disks};
use fsarena_guest::kernel::KernelDirs;
use fsarena_guest::{instruction_counter::CounterPlugin, kvm_trial, modules::Modules};
use fsarena_run::preflight::guests::{modules_support, where_to_get};
use fsarena_sys::{argv::Argv, program};

/// All checks of guests. `survey` has the filesystems of this machine with their mkfs programs.
pub(super) fn check_guests(survey: &[Availability]) -> Vec<Finding> {
    let kernel_dirs = KernelDirs::of_this_machine(None);
    if !has_emulator() {
        return vec![missing("guests", "no emulator", "apt-get install qemu-system-x86")];
    }
    let emulator = ok("guests", format!("{QEMU} (--on qemu, --on exact)"));
    let mut findings = vec![emulator, check_kernels(&kernel_dirs), check_kvm(&kernel_dirs)];
    let check = "filesystems in guests";
    match kernel_dirs.default_kernel() {
        Ok(Some((release, modules))) => {
            findings.push(check_counting(&modules));
            let is_supported = |def: &FsDef| modules_support(&modules, def);
            findings.extend(check_filesystems(check, &release, survey, is_supported));
            findings.extend(unsupported_filesystems(&kernel_dirs, survey, is_supported));
        }
        Ok(None) => {}
        Err(error) => findings.push(missing(check, error.to_string(), "")),
    }
    findings
}

/// Whether the emulator of guests is installed.
pub fn has_emulator() -> bool {
    program::find(QEMU).is_some()
}

/// Checks for kernels that guests can boot.
fn check_kernels(kernel_dirs: &KernelDirs) -> Finding {
    let releases = kernel_dirs.releases();
    if releases.is_empty() {
        let fix = "with apt, nothing to do: the first run in a guest fetches a kernel; without apt, give one with --kernel PATH";
        return limited("guest kernels", "no readable kernel in /boot or the cache", fix);
    }
    ok("guest kernels", releases.join(" "))
}

/// Checks KVM: whether this user may open it, and the results of earlier trial boots.
fn check_kvm(kernel_dirs: &KernelDirs) -> Finding {
    let check = "KVM";
    if let Err(error) = kvm_trial::check_device() {
        let fix = if std::path::Path::new(kvm_trial::KVM_DEVICE).exists() {
            "without it QEMU emulates the processor, which is slower; to use it, become a member of its group: adduser USER kvm"
        } else {
            "nothing to do: on a machine without KVM, QEMU emulates the processor, which is slower"
        };
        return limited(check, error, fix);
    }
    // The result of each trial boot in the caches: why it failed, or None if it succeeded.
    let caches = [&kernel_dirs.cache, &kernel_dirs.shared_cache];
    let trials: Vec<Option<String>> = caches.into_iter().flat_map(|cache| kvm_trial::cached_trials(cache)).collect();
    // One failure is enough: guests of that kernel run without KVM until its cached result expires, after an hour.
    if let Some(why) = trials.iter().flatten().next() {
        return limited(check, why.as_str(), "nothing to do: QEMU emulates the processor, which is slower");
    }
    if trials.is_empty() {
        return ok(check, "this user may open it; the first run in a guest tries whether it works");
    }
    ok(check, "a trial boot has succeeded")
}

/// Checks how precisely this QEMU and this kernel count instructions.
fn check_counting(modules: &Modules) -> Finding {
    let check = "counting instructions";
    let version = Argv::new(QEMU).arg("--version").run().map(|finished| finished.stdout).unwrap_or_default();
    let qemu = version.lines().next().unwrap_or("a QEMU of unknown version");
    if !CounterPlugin::supports(&version) {
        let found = format!("tells instructions of programs from those of the kernel only at clock ticks: {qemu}");
        return limited(check, found, "QEMU 6 to 8, whose plugins can count; sums are exact anyway");
    }
    if !has_memory_disks(modules) {
        let found = "the usual kernel has no driver for memory disks (pmem), so the instructions of disk interrupts are counted too";
        return limited(check, found, "a kernel with the modules nfit and nd_pmem, such as Debian's");
    }
    ok(check, format!("by a plugin of {qemu}"))
}

/// Checks which filesystems the guest kernel supports, and which of them have no mkfs on this machine.
fn check_filesystems(
    check: &'static str,
    release: &str,
    survey: &[Availability],
    is_supported: impl Fn(&FsDef) -> bool,
) -> Vec<Finding> {
    let supported = survey.iter().filter(|fs| is_supported(fs.def));
    let (usable, without_mkfs): (Vec<&Availability>, Vec<_>) = supported.partition(|fs| fs.can_make());
    let mut findings = vec![ok(check, format!("{release}: {}", join_ids(usable)))];
    if !without_mkfs.is_empty() {
        let fix = install_command(without_mkfs.iter().map(|fs| fs.def));
        findings.push(limited("mkfs for guests", format!("none for {}", join_ids(without_mkfs)), fix));
    }
    findings
}

/// The filesystems that the usual kernel does not support, each with a kernel that does. None if it supports all.
fn unsupported_filesystems(
    kernel_dirs: &KernelDirs,
    survey: &[Availability],
    is_supported: impl Fn(&FsDef) -> bool,
) -> Option<Finding> {
    let unsupported: Vec<&Availability> = survey.iter().filter(|fs| !is_supported(fs.def)).collect();
    if unsupported.is_empty() {
        return None;
    }
    let mut fixes = vec![];
    for def in unsupported.iter().map(|fs| fs.def) {
        let newest_release = kernel_dirs.releases_with(|modules| modules_support(modules, def)).pop();
        fixes.push(format!("{}: {}", def.id, where_to_get(def, newest_release)));
    }
    Some(limited("not in the guest kernel", join_ids(unsupported), fixes.join("; ")))
}
