//! Guests: what emulates them, what they boot, and which filesystems they can have.

use super::finding::{Finding, ids, limited, missing, ok};
use fsarena_fs::available::{Availability, to_install};
use fsarena_fs::def::FsDef;
use fsarena_guest::emulator::{QEMU, has_memory_disks};
use fsarena_guest::kernel::Places;
use fsarena_guest::{counter::Counter, modules::Modules, trial};
use fsarena_run::preflight::guests::{in_modules, where_to_get};
use fsarena_sys::{argv::Argv, program};

/// Everything about guests. The survey is of the machine itself: it knows the mkfs programs.
pub fn all(survey: &[Availability]) -> Vec<Finding> {
    let places = Places::usual(None);
    if !has_emulator() {
        return vec![missing("guests", "no emulator", "apt-get install qemu-system-x86")];
    }
    let emulator = ok("guests", format!("{QEMU} (--on qemu, --on exact)"));
    let mut findings = vec![emulator, kernels(&places), kvm(&places)];
    let what = "filesystems in guests";
    match places.usual_kernel() {
        Ok(Some((release, modules))) => {
            findings.push(counts(&modules));
            let able = |def: &FsDef| in_modules(&modules, def);
            findings.extend(filesystems(what, &release, survey, able));
            findings.extend(lacked(&places, survey, able));
        }
        Ok(None) => {}
        Err(error) => findings.push(missing(what, error.to_string(), "")),
    }
    findings
}

/// Whether what emulates guests is installed.
pub fn has_emulator() -> bool {
    program::find(QEMU).is_some()
}

fn kernels(places: &Places) -> Finding {
    let releases = places.releases();
    if releases.is_empty() {
        let fix = "nothing to do where apt is: the first run in a guest fetches one; or --kernel PATH";
        return limited("guest kernels", "none in /boot or the cache that may be read", fix);
    }
    ok("guest kernels", releases.join(" "))
}

/// What the trial boots of this machine have shown.
fn kvm(places: &Places) -> Finding {
    let what = "KVM";
    if let Err(error) = trial::open() {
        let fix = match std::path::Path::new(trial::DEVICE).exists() {
            true => {
                "guests are translated without it; to use it, become a member of its group: adduser USER kvm"
            }
            false => "nothing to do: guests are translated where a machine offers no KVM",
        };
        return limited(what, error, fix);
    }
    let caches = [&places.cache, &places.shared];
    let known: Vec<Option<String>> = caches.into_iter().flat_map(|cache| trial::known(cache)).collect();
    match known.iter().flatten().next() {
        Some(why) => limited(what, why.as_str(), "nothing to do: guests are translated"),
        None if known.is_empty() => {
            ok(what, "may be opened; the first run in a guest tries whether it works")
        }
        None => ok(what, "a trial boot has succeeded"),
    }
}

/// How exactly instructions are counted with this QEMU and this kernel.
fn counts(modules: &Modules) -> Finding {
    let what = "counting instructions";
    let version = Argv::new(QEMU).arg("--version").run().map(|finished| finished.stdout).unwrap_or_default();
    let qemu = version.lines().next().unwrap_or("a QEMU of no known version");
    if !Counter::fits(&version) {
        let found =
            format!("separates the instructions of programs and the kernel at clock ticks only: {qemu}");
        return limited(what, found, "QEMU 6 to 8, whose plugins can count; sums are exact anyway");
    }
    if !has_memory_disks(modules) {
        let found = "the usual kernel has no disks that are memory, so interrupts of disks are counted too";
        return limited(what, found, "a kernel with the modules nfit and nd_pmem, as Debian's");
    }
    ok(what, format!("by a plugin of {qemu}"))
}

/// The filesystems of a guest kernel, and those of them that nothing here can make.
fn filesystems(
    what: &'static str,
    release: &str,
    survey: &[Availability],
    able: impl Fn(&FsDef) -> bool,
) -> Vec<Finding> {
    let had = survey.iter().filter(|have| able(have.def));
    let (made, unmade): (Vec<&Availability>, Vec<_>) = had.partition(|have| have.mkfs.is_some());
    let mut findings = vec![ok(what, format!("{release}: {}", ids(made)))];
    if !unmade.is_empty() {
        let fix = to_install(unmade.iter().map(|have| have.def));
        findings.push(limited("mkfs for guests", format!("none for {}", ids(unmade)), fix));
    }
    findings
}

/// The filesystems that the usual kernel has not, with a kernel that has them.
fn lacked(places: &Places, survey: &[Availability], able: impl Fn(&FsDef) -> bool) -> Option<Finding> {
    let lacked: Vec<&Availability> = survey.iter().filter(|have| !able(have.def)).collect();
    let fix = |have: &&Availability| {
        let def = have.def;
        let here = places.releases_with(|modules| in_modules(modules, def)).pop();
        format!("{}: {}", def.id, where_to_get(def, here))
    };
    let fixes = lacked.iter().map(fix).collect::<Vec<_>>().join("; ");
    (!lacked.is_empty()).then(|| limited("not in the guest kernel", ids(lacked), fixes))
}
