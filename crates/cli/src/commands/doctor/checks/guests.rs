//! Guests: what emulates them, what they boot, and which filesystems they can have.

use super::{Finding, State, finding};
use fsarena_core::plan::Emulator;
use fsarena_fs::available::{Availability, find_program, to_install};
use fsarena_fs::def::FsDef;
use fsarena_guest::counter::Counter;
use fsarena_guest::emulator::QEMU;
use fsarena_guest::exact::has_memory_disks;
use fsarena_guest::kernel::{self, Places, UML};
use fsarena_guest::modules::Modules;
use fsarena_guest::trial;
use fsarena_run::preflight::guests::{has, in_modules};
use fsarena_sys::argv::Argv;

/// Emulators, with the words of `--on` that need them and the package that brings each.
const EMULATORS: [(&str, &str, &str); 2] =
    [(QEMU, "--on qemu, --on exact", "qemu-system-x86"), (UML, "--on uml", "user-mode-linux")];

/// Everything about guests. The survey is of the machine itself: it knows the mkfs programs.
pub fn all(survey: &[Availability]) -> Vec<Finding> {
    let places = Places::usual(None);
    let here = emulators();
    let mut findings = vec![emulated(&here)];
    let mut unmade = vec![];
    if here.contains(&QEMU) {
        findings.extend([kernels(&places), kvm(&places)]);
        match places.usual_kernel() {
            Ok(Some((release, modules))) => {
                findings.push(counts(&modules));
                let able = |def: &FsDef| in_modules(&modules, def);
                findings.push(filesystems("filesystems in guests", &release, survey, able, &mut unmade));
                findings.extend(lacked(&places, survey, able));
            }
            Ok(None) => {}
            Err(error) => {
                findings.push(finding("filesystems in guests", State::Missing, error.to_string(), ""));
            }
        }
    }
    if here.contains(&UML) {
        let what = "filesystems in UML";
        match kernel::find(Emulator::Uml, "", &places, &mut |_| {}) {
            Ok(kernel) => {
                let able = |def: &FsDef| has(&kernel, def);
                findings.push(filesystems(what, &kernel.name(), survey, able, &mut unmade));
            }
            Err(error) => findings.push(finding(what, State::Missing, error.to_string(), "")),
        }
    }
    findings.extend(no_mkfs(&unmade));
    findings
}

/// The emulators that are installed.
pub fn emulators() -> Vec<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let here = |program: &&str| find_program(&path, program).is_some();
    EMULATORS.into_iter().map(|(program, ..)| program).filter(here).collect()
}

fn emulated(here: &[&str]) -> Finding {
    let (found, missing): (Vec<_>, Vec<_>) =
        EMULATORS.into_iter().partition(|(name, ..)| here.contains(name));
    let found = found.iter().map(|(program, on, _)| format!("{program} ({on})")).collect::<Vec<_>>();
    let fix = match missing.is_empty() {
        true => String::new(),
        false => {
            let packages = missing.iter().map(|(.., package)| *package).collect::<Vec<_>>();
            format!("apt-get install {}", packages.join(" "))
        }
    };
    match found.is_empty() {
        true => finding("guests", State::Missing, "no emulator", fix),
        false => finding("guests", State::Ok, found.join(", "), fix),
    }
}

fn kernels(places: &Places) -> Finding {
    let releases = places.releases();
    if releases.is_empty() {
        let fix = "nothing to do where apt is: the first run in a guest fetches one; or --kernel PATH";
        return finding("guest kernels", State::Limited, "none in /boot or the cache that may be read", fix);
    }
    finding("guest kernels", State::Ok, releases.join(" "), "")
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
        return finding(what, State::Limited, error, fix);
    }
    let caches = [&places.cache, &places.shared];
    let known: Vec<Option<String>> = caches.into_iter().flat_map(|cache| trial::known(cache)).collect();
    match known.iter().flatten().next() {
        Some(why) => finding(what, State::Limited, why.as_str(), "nothing to do: guests are translated"),
        None if known.is_empty() => {
            finding(what, State::Ok, "may be opened; the first run in a guest tries whether it works", "")
        }
        None => finding(what, State::Ok, "a trial boot has succeeded", ""),
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
        return finding(
            what,
            State::Limited,
            found,
            "QEMU 6 to 8, whose plugins can count; sums are exact anyway",
        );
    }
    if !has_memory_disks(modules) {
        let found = "the usual kernel has no disks that are memory, so interrupts of disks are counted too";
        return finding(
            what,
            State::Limited,
            found,
            "a kernel with the modules nfit and nd_pmem, as Debian's",
        );
    }
    finding(what, State::Ok, format!("by a plugin of {qemu}"), "")
}

/// The filesystems of a guest kernel; those of them that nothing here can make are handed on.
fn filesystems<'a>(
    what: &'static str,
    release: &str,
    survey: &'a [Availability],
    able: impl Fn(&FsDef) -> bool,
    unmade: &mut Vec<&'a Availability>,
) -> Finding {
    let had = survey.iter().filter(|have| able(have.def));
    let (made, without): (Vec<&Availability>, Vec<_>) = had.partition(|have| have.mkfs.is_some());
    for have in without {
        if !unmade.iter().any(|known| known.def.id == have.def.id) {
            unmade.push(have);
        }
    }
    let names = made.iter().map(|have| have.def.id).collect::<Vec<_>>().join(" ");
    finding(what, State::Ok, format!("{release}: {names}"), "")
}

/// The filesystems that the usual kernel has not, with a kernel that has them.
fn lacked(places: &Places, survey: &[Availability], able: impl Fn(&FsDef) -> bool) -> Option<Finding> {
    let lacked: Vec<&FsDef> = survey.iter().map(|have| have.def).filter(|def| !able(def)).collect();
    let names: Vec<&str> = lacked.iter().map(|def| def.id).collect();
    let fix = |def: &&FsDef| {
        let here = places.releases_with(|modules| in_modules(modules, def)).pop();
        let own = "--kernel PATH --modules DIR";
        let elsewhere = if def.kernels.is_empty() { own } else { def.kernels };
        here.map_or(format!("{}: {elsewhere}", def.id), |release| {
            format!("{}: --kernel debian:{release}", def.id)
        })
    };
    let fixes = lacked.iter().map(fix).collect::<Vec<_>>().join("; ");
    (!lacked.is_empty()).then(|| finding("not in the guest kernel", State::Limited, names.join(" "), fixes))
}

fn no_mkfs(unmade: &[&Availability]) -> Option<Finding> {
    let names: Vec<&str> = unmade.iter().map(|have| have.def.id).collect();
    (!unmade.is_empty()).then(|| {
        let fix = to_install(unmade.iter().map(|have| have.def));
        finding("mkfs for guests", State::Limited, format!("none for {}", names.join(" ")), fix)
    })
}
