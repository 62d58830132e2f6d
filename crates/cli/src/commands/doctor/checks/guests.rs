//! Guests: what emulates them, what they boot, and which filesystems they can have.

use super::{Finding, State, finding};
use fsarena_fs::available::{Availability, find_program};
use fsarena_guest::emulator::QEMU;
use fsarena_guest::kernel::{Places, UML};
use fsarena_guest::trial;
use fsarena_run::preflight::guests::in_modules;

/// Emulators, with the words of `--on` that need them and the package that brings each.
const EMULATORS: [(&str, &str, &str); 2] =
    [(QEMU, "--on qemu, --on exact", "qemu-system-x86"), (UML, "--on uml", "user-mode-linux")];

/// Everything about guests. The survey is of the machine itself: it knows the mkfs programs.
pub fn all(survey: &[Availability]) -> Vec<Finding> {
    let places = Places::usual(None);
    let mut findings = vec![emulated(), kernels(&places)];
    if emulators().contains(&QEMU) {
        findings.push(kvm(&places));
    }
    findings.extend(filesystems(&places, survey));
    findings
}

/// The emulators that are installed.
pub fn emulators() -> Vec<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let here = |program: &&str| find_program(&path, program).is_some();
    EMULATORS.into_iter().map(|(program, ..)| program).filter(here).collect()
}

fn emulated() -> Finding {
    let here = emulators();
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
        let fix = "where there is one, membership in its group (kvm); without it guests are translated";
        return finding(what, State::Limited, error, fix);
    }
    let caches = [&places.cache, &places.shared];
    let known: Vec<Option<String>> = caches.into_iter().flat_map(|cache| trial::known(cache)).collect();
    match known.iter().flatten().next() {
        Some(why) => finding(what, State::Limited, why.as_str(), "guests are translated: nothing to do"),
        None if known.is_empty() => {
            finding(what, State::Ok, "may be opened; the first run in a guest tries whether it works", "")
        }
        None => finding(what, State::Ok, "a trial boot has succeeded", ""),
    }
}

/// The filesystems of the usual guest kernel, and those of them that nothing here can make.
fn filesystems(places: &Places, survey: &[Availability]) -> Vec<Finding> {
    let modules = match places.usual_modules() {
        Ok(Some(modules)) => modules,
        Ok(None) => return vec![],
        Err(error) => return vec![finding("filesystems in guests", State::Missing, error.to_string(), "")],
    };
    let names = |of: &[&Availability]| of.iter().map(|have| have.def.id).collect::<Vec<_>>().join(" ");
    let (had, lacked): (Vec<&Availability>, Vec<_>) =
        survey.iter().partition(|have| in_modules(&modules, have.def));
    let (made, unmade): (Vec<&Availability>, Vec<_>) = had.into_iter().partition(|have| have.mkfs.is_some());
    let mut findings = vec![finding("filesystems in guests", State::Ok, names(&made), "")];
    if !unmade.is_empty() {
        let mut packages: Vec<&str> = unmade.iter().flat_map(|have| have.missing_packages).copied().collect();
        packages.sort_unstable();
        packages.dedup();
        let fix = format!("apt-get install {}", packages.join(" "));
        findings.push(finding(
            "mkfs for guests",
            State::Limited,
            format!("none for {}", names(&unmade)),
            fix,
        ));
    }
    if !lacked.is_empty() {
        let fix = "a kernel of your own: --kernel PATH --modules DIR";
        findings.push(finding("not in the guest kernel", State::Limited, names(&lacked), fix));
    }
    findings
}
