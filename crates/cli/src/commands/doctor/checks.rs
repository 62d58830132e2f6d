//! What `fsarena doctor` looks at.

mod guests;

use super::{Finding, State};
use bytesize::ByteSize;
use fsarena_core::app;
use fsarena_fs::available::{Availability, find_program, to_install};
use fsarena_load::workload::Job;
use fsarena_sys::kernel::Kernel;
use std::path::Path;

/// Everything, in the order in which a run needs it.
pub fn all(kernel: &Kernel, survey: &[Availability], runs: &Path) -> Vec<Finding> {
    let mut findings = vec![user(), loop_devices(kernel), confinement(), workloads()];
    findings.extend(filesystems(survey));
    findings.extend(guests::all(survey));
    findings.push(commands());
    findings.push(load_tools());
    findings.push(services());
    findings.push(applications());
    findings.push(room(runs));
    findings.push(memory(kernel));
    findings.push(cpu_accounting(kernel));
    findings.push(readable(
        kernel,
        "stall information (PSI)",
        "proc/pressure/io",
        "boot with psi=1 (CONFIG_PSI); without it the idle wait cannot see I/O pressure",
    ));
    findings.push(readable(
        kernel,
        "I/O of a process",
        "proc/self/io",
        "CONFIG_TASK_IO_ACCOUNTING; without it fsarena cannot measure write amplification",
    ));
    findings.push(governor(kernel));
    findings.push(left_overs());
    findings
}

fn finding(what: &'static str, state: State, found: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { what, state, found: found.into(), fix: fix.into() }
}

fn user() -> Finding {
    if rustix::process::geteuid().is_root() {
        return finding("user", State::Ok, "root: filesystems can be made and mounted", "");
    }
    let fix = "`sudo fsarena run` for filesystems in this kernel, on loop images only";
    match guests::emulators().is_empty() {
        false => finding(
            "user",
            State::Limited,
            "not root: filesystems run in guest kernels, directories as they are",
            fix,
        ),
        true => finding(
            "user",
            State::Limited,
            "not root, and no emulator for guest kernels: only directories as they are (--on dir:PATH)",
            format!("apt-get install qemu-system-x86; or {fix}"),
        ),
    }
}

/// The packages that bring the missing mkfs programs of filesystems which the kernel mounts.
pub fn missing_packages(found: &[Availability]) -> Vec<&'static str> {
    let mountable = found.iter().filter(|have| have.kernel);
    let mut packages: Vec<&str> = mountable.flat_map(|have| have.missing_packages).copied().collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn loop_devices(kernel: &Kernel) -> Finding {
    if kernel.path("dev/loop-control").exists() {
        return finding("loop devices", State::Ok, "/dev/loop-control", "");
    }
    finding(
        "loop devices",
        State::Missing,
        "no /dev/loop-control",
        "modprobe loop, or a kernel with CONFIG_BLK_DEV_LOOP",
    )
}

fn confinement() -> Finding {
    if fsarena_sys::argv::can_confine() {
        return finding("confinement of mkfs", State::Ok, "Landlock: mkfs can write to its target only", "");
    }
    let found = "no Landlock: only the checks of its arguments keep mkfs to its target";
    finding(
        "confinement of mkfs",
        State::Limited,
        found,
        "Linux 5.13 with CONFIG_SECURITY_LANDLOCK and lsm=landlock",
    )
}

/// The user of workloads, and the means that keep them from writing elsewhere.
fn workloads() -> Finding {
    let what = "confinement of workloads";
    let user = fsarena_sys::rights::User::invoking();
    match (rustix::process::geteuid().is_root(), fsarena_sys::rights::can_confine()) {
        (true, true) => {
            let found = format!("user {}, read-only mounts around them, capabilities dropped", user.name);
            finding(what, State::Ok, found, "")
        }
        (true, false) => {
            let found = format!("user {}, capabilities dropped; no mount namespaces", user.name);
            finding(
                what,
                State::Limited,
                found,
                "Linux 5.12, with CAP_SYS_ADMIN where root is in a container",
            )
        }
        (false, _) => finding(what, State::Ok, format!("the rights of user {}", user.name), ""),
    }
}

fn filesystems(found: &[Availability]) -> Vec<Finding> {
    let names = |wanted: &dyn Fn(&Availability) -> bool| {
        found.iter().filter(|have| wanted(have)).map(|have| have.def.id).collect::<Vec<_>>().join(" ")
    };
    let usable = names(&|have| have.kernel && have.mkfs.is_some());
    let mut findings = vec![match usable.as_str() {
        "" => finding("filesystems", State::Missing, "none can be made and mounted", "see the next lines"),
        usable if rustix::process::geteuid().is_root() => finding("filesystems", State::Ok, usable, ""),
        usable => {
            finding("filesystems", State::Limited, usable, "root mounts them here; without it guests do")
        }
    }];
    let packages = missing_packages(found);
    if !packages.is_empty() {
        let without = names(&|have| have.kernel && have.mkfs.is_none());
        let unmade = found.iter().filter(|have| have.kernel && have.mkfs.is_none()).map(|have| have.def);
        let fix = to_install(unmade);
        findings.push(finding("mkfs programs", State::Missing, format!("none for {without}"), fix));
    }
    let foreign = names(&|have| !have.kernel);
    if !foreign.is_empty() {
        let fix = "guests have some of them: see the next lines";
        findings.push(finding("not in this kernel", State::Limited, foreign, fix));
    }
    findings
}

/// The programs of every workload with its default settings.
fn commands() -> Finding {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let absent = |program: &&str| find_program(&path, program).is_none();
    let elsewhere = |program: &str| {
        LOAD_TOOLS.contains(&program) || SERVICES.iter().any(|(own, _)| own.contains(&program))
    };
    let mut missing = Vec::new();
    for workload in fsarena_load::workloads::WORKLOADS {
        let settings = fsarena_core::setting::Settings::defaults(workload.def().settings);
        let programs = workload.programs(&Job { settings, scale: Default::default(), seed: 0 });
        missing.extend(programs.into_iter().filter(|program| !elsewhere(program)).filter(absent));
    }
    missing.extend(["mount", "umount", "losetup", "wipefs"].into_iter().filter(absent));
    if missing.is_empty() {
        return finding("commands", State::Ok, "all that the workloads run are here", "");
    }
    let fix = "apt-get install coreutils findutils tar util-linux mount, or run with `--set driver=native`";
    finding("commands", State::Missing, missing.join(" "), fix)
}

/// What `--engine` can put in the place of fsarena's own load engine.
const LOAD_TOOLS: [&str; 3] = ["sysbench", "fio", "dbench"];

/// Services that workloads run themselves: their programs, and the package that brings these.
const SERVICES: [(&[&str], &str); 2] =
    [(&["squid"], "squid"), (&["postgres", "initdb", "pgbench", "psql"], "postgresql")];

/// The packages of those that are not here.
pub fn missing_services() -> Vec<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let absent = |(programs, _): &&(&[&str], &str)| fsarena_sys::program::together(&path, programs).is_none();
    SERVICES.iter().filter(absent).map(|(_, package)| *package).collect()
}

fn services() -> Finding {
    let missing = missing_services();
    let all = SERVICES.map(|(programs, _)| programs[0]).join(" ");
    if missing.is_empty() {
        return finding("services", State::Ok, all, "");
    }
    let packages = missing.join(" ");
    let fix = format!("apt-get install {packages}, for the workloads {all}");
    finding("services", State::Limited, format!("no {packages}"), fix)
}

/// The programs of applications that are not here. Their packages bear their names.
pub fn missing_for_apps() -> Vec<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    app::programs().into_iter().filter(|program| find_program(&path, program).is_none()).collect()
}

fn applications() -> Finding {
    let missing = missing_for_apps().join(" ");
    if missing.is_empty() {
        let found = app::APPS.iter().map(|app| app.name).collect::<Vec<_>>().join(" ");
        return finding("applications", State::Ok, found, "");
    }
    finding("applications", State::Limited, format!("no {missing}"), format!("apt-get install {missing}"))
}

fn load_tools() -> Finding {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let (here, missing): (Vec<&str>, Vec<&str>) =
        LOAD_TOOLS.into_iter().partition(|program| find_program(&path, program).is_some());
    let found = if here.is_empty() { "only the native engine".into() } else { here.join(" ") };
    match missing.is_empty() {
        true => finding("other load engines", State::Ok, found, ""),
        false => {
            let fix = format!("apt-get install {}, for `--engine {}`", missing.join(" "), missing.join("|"));
            finding("other load engines", State::Limited, found, fix)
        }
    }
}

fn room(runs: &Path) -> Finding {
    let dir = runs.ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new("."));
    match fsarena_sys::image::free_bytes(dir) {
        Ok(free) if free >= 4 << 30 => {
            finding("room for images", State::Ok, format!("{} in {dir:?}", ByteSize(free)), "")
        }
        Ok(free) => finding(
            "room for images",
            State::Limited,
            format!("{} in {dir:?}", ByteSize(free)),
            "images elsewhere: `--on loop:DIR`, in memory: `--on ram`",
        ),
        Err(error) => finding(
            "room for images",
            State::Missing,
            error.to_string(),
            "--runs DIR with one that can be written",
        ),
    }
}

fn memory(kernel: &Kernel) -> Finding {
    let free = fsarena_sys::host::available_memory(kernel).map(ByteSize);
    let found = free.map_or("the kernel does not say".into(), |free| format!("{free} available"));
    finding("memory", State::Ok, found, "")
}

/// In the order in which the probe prefers its sources.
fn cpu_accounting(kernel: &Kernel) -> Finding {
    let what = "CPU of the whole machine";
    for path in ["proc/schedstat", "sys/fs/cgroup/cpuacct/cpuacct.usage"] {
        if kernel.path(path).exists() {
            return finding(what, State::Ok, format!("/{path}: exact"), "");
        }
    }
    finding(
        what,
        State::Limited,
        "only sampled by ticks",
        "a kernel with CONFIG_SCHED_INFO (/proc/schedstat): tick sampling lies under paced load",
    )
}

fn readable(kernel: &Kernel, what: &'static str, path: &str, fix: &str) -> Finding {
    match kernel.read(path) {
        Ok(_) => finding(what, State::Ok, format!("/{path}"), ""),
        Err(error) => finding(what, State::Limited, format!("/{path}: {error}"), fix),
    }
}

fn governor(kernel: &Kernel) -> Finding {
    match kernel.fact("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        None => finding("CPU frequency", State::Ok, "no governor is offered (a virtual machine, often)", ""),
        Some(name) if name == "performance" => finding("CPU frequency", State::Ok, name, ""),
        Some(name) => finding(
            "CPU frequency",
            State::Limited,
            format!("governor {name}"),
            "cpupower frequency-set -g performance",
        ),
    }
}

fn left_overs() -> Finding {
    let state = fsarena_sys::undo::state_dir();
    let journals = std::fs::read_dir(state.join("undo")).map_or(0, |entries| entries.flatten().count());
    match journals {
        0 => finding("left by killed runs", State::Ok, "nothing", ""),
        n => finding(
            "left by killed runs",
            State::Limited,
            format!("{n} undo {} in {state:?}", if n == 1 { "journal" } else { "journals" }),
            "fsarena recover, if no run is going on",
        ),
    }
}
