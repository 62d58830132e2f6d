//! `fsarena doctor`: checks what this machine supports, and prints how to enable the rest.

mod finding;
mod guests;
mod install;

use crate::flags::{ListFormat, RunsDir};
use crate::{commands::is_root, failure::CommandResult, output};
use bytesize::ByteSize;
use finding::{Finding, join_ids, limited, missing, ok, split_by_presence};
use fsarena_core::{exit::ExitCode, number::plural, setting::Settings, study};
use fsarena_fs::available::{Availability, install_command, survey};
use fsarena_load::{workload::Job, workloads::WORKLOADS};
use fsarena_run::layers;
use fsarena_sys::permission::{self, Obstacle};
use fsarena_sys::user::UserDatabase;
use fsarena_sys::{Error, argv, device_mapper, dirs, host, kernel::SysRoot, limits, links, program, rights, undo};
use install::{fetch_for_guests, install};
use std::path::Path;

/// Check what this machine supports and how to enable the rest
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Install missing mkfs programs, squid, PostgreSQL and the packages of applications (`fsarena list apps`) with apt-get, as
    /// root; services are not started
    #[arg(long, conflicts_with = "format")]
    install: bool,
    /// With --install: prepare guests with these filesystems instead, without root: fetch a kernel and mkfs into the cache; for
    /// zfs also compile its modules, which takes about 8 minutes once
    #[arg(value_name = "FILESYSTEM", requires = "install")]
    filesystems: Vec<String>,
    /// Guest kernel to fetch or compile for: `debian:6.12`; default: the newest at hand that has the filesystems
    #[arg(long, value_name = "KERNEL", requires = "filesystems")]
    kernel: Option<String>,
    /// Format on standard output
    #[arg(long, value_enum, default_value = "term")]
    format: ListFormat,
    #[command(flatten)]
    runs: RunsDir,
}

/// Checks, or with `--install` installs what is missing. The exit code of a check is 0, whatever is missing.
pub fn run(args: Args) -> CommandResult {
    let sys_root = SysRoot::host();
    if !args.filesystems.is_empty() {
        return fetch_for_guests(&args.filesystems, args.kernel.as_deref().unwrap_or_default());
    }
    if args.install {
        install(&missing_packages(&sys_root)?)?;
        return Ok(ExitCode::Done);
    }
    output::print_rows(&check_all(&sys_root, &args.runs.dir), args.format)
}

/// The results of all checks, in the order in which a run needs them. `runs_dir` is the directory for images. Checks of rights
/// try the operation itself, because root in a container often may not mount.
fn check_all(sys_root: &SysRoot, runs_dir: &Path) -> Vec<Finding> {
    let (survey, survey_error) = match survey(sys_root) {
        Ok(survey) => (survey, None),
        Err(error) => (vec![], Some(error)),
    };
    let mount_permission = permission::check_mount(sys_root);
    let mut findings = vec![
        check_kernel_files(sys_root),
        check_user(&mount_permission),
        check_loop_devices(sys_root),
        check_mkfs_confinement(),
        check_workload_confinement(),
    ];
    match survey_error {
        Some(error) => findings.push(missing("filesystems", error.to_string(), "")),
        None => findings.extend(check_filesystems(&survey, mount_permission.is_ok())),
    }
    findings.extend(guests::check_guests(&survey));
    let psi_fix = "boot with psi=1 (CONFIG_PSI); without it the idle wait cannot see I/O pressure";
    let io_fix = "CONFIG_TASK_IO_ACCOUNTING; without it fsarena cannot measure write amplification";
    findings.extend([
        check_workload_programs(),
        check_load_tools(),
        check_layers(sys_root),
        check_stacks(),
        check_services(),
        check_applications(),
        check_room(runs_dir),
        check_open_files(),
        check_memory(sys_root),
        check_cpu_accounting(sys_root),
        check_readable(sys_root, "stall information (PSI)", "proc/pressure/io", psi_fix),
        check_readable(sys_root, "I/O of a process", "proc/self/io", io_fix),
        check_governor(sys_root),
        check_leftovers(),
    ]);
    findings
}

/// Checks `/proc` and `/sys`, without which fsarena cannot run anything.
fn check_kernel_files(sys_root: &SysRoot) -> Finding {
    let check = "files of the kernel";
    match sys_root.check_proc().and_then(|()| sys_root.check_sys()) {
        Ok(()) => ok(check, "/proc, /sys"),
        Err(Error::KernelUnreadable { path, source, fix }) => {
            missing(check, format!("{}: {source}", path.display()), fix)
        }
        Err(error) => missing(check, error.to_string(), ""),
    }
}

/// Checks the limit of open files of a process.
fn check_open_files() -> Finding {
    let check = "open files";
    match (limits::check_open_files(), limits::max_open_files()) {
        (Err(error), _) => missing(check, error.to_string(), ""),
        (Ok(()), Some(max)) => ok(check, format!("{max} in one process")),
        (Ok(()), None) => ok(check, "no limit"),
    }
}

/// The packages that contain the missing mkfs programs, services and applications.
///
/// # Errors
/// If the kernel's list of filesystems cannot be read.
fn missing_packages(sys_root: &SysRoot) -> Result<Vec<String>, Error> {
    let mut packages = missing_mkfs_packages(&survey(sys_root)?);
    packages.extend(missing_services().map(|(_, package)| package));
    Ok(packages.into_iter().map(String::from).chain(missing_app_packages()).collect())
}

/// Checks what this user can run: filesystems in this kernel, guests, or only directories. `mount_permission`
/// is whether this process may mount.
fn check_user(mount_permission: &Result<(), Obstacle>) -> Finding {
    let who = if is_root() { "root" } else { "not root" };
    let Err(obstacle) = mount_permission else {
        return ok("user", format!("{who}: filesystems can be made and mounted"));
    };
    let fix =
        if is_root() { obstacle.fix } else { "to use filesystems of this kernel, on loop images: `sudo fsarena run`" };
    let why = if is_root() { format!(" ({obstacle})") } else { String::new() };
    if guests::has_emulator() {
        let found = format!(
            "{who}{why}: filesystems run in guest kernels (--on qemu), directories as they are (--on dir:PATH)"
        );
        return limited("user", found, fix);
    }
    let found = format!("{who}{why}, and no emulator for guest kernels: only directories as they are (--on dir:PATH)");
    limited("user", found, format!("apt-get install qemu-system-x86; or {fix}"))
}

/// The packages with the missing mkfs programs of filesystems that the kernel mounts.
fn missing_mkfs_packages(survey: &[Availability]) -> Vec<&'static str> {
    let without_mkfs = survey.iter().filter(|fs| fs.is_mountable && !fs.can_make() && fs.def.pool.is_none());
    let mut packages: Vec<&str> = without_mkfs.flat_map(|fs| fs.def.packages).copied().collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Checks loop devices by attaching one for a moment.
fn check_loop_devices(sys_root: &SysRoot) -> Finding {
    let check = "loop devices";
    match permission::check_loop_device(sys_root) {
        Ok(()) => ok(check, "one was attached and detached"),
        Err(_) if !is_root() => limited(check, "only for root", "guests and directories need none"),
        Err(Obstacle { why, fix }) => missing(check, why, fix),
    }
}

/// Checks whether the kernel can restrict mkfs to write to its target only.
fn check_mkfs_confinement() -> Finding {
    let check = "confinement of mkfs";
    if argv::has_landlock() {
        return ok(check, "Landlock: mkfs can write to its target only");
    }
    let found = "no Landlock: only the checks of its arguments keep mkfs to its target";
    limited(check, found, "Linux 5.13 with CONFIG_SECURITY_LANDLOCK and lsm=landlock")
}

/// Checks which user workloads run as, and how the kernel keeps them from writing elsewhere.
fn check_workload_confinement() -> Finding {
    let check = "confinement of workloads";
    let user = match UserDatabase::host().invoking_user() {
        Ok(user) => user.name,
        Err(error) => return missing(check, "the user of workloads is unknown", error.to_string()),
    };
    match (is_root(), rights::can_restrict_writes()) {
        (true, true) => {
            let found = "all but their directories mounted read-only, capabilities dropped";
            ok(check, format!("user {user}, {found}"))
        }
        (true, false) => {
            let found = format!("user {user}, capabilities dropped; no mount namespaces");
            limited(check, found, "Linux 5.12, with CAP_SYS_ADMIN where root is in a container")
        }
        (false, _) => ok(check, format!("the rights of user {user}")),
    }
}

/// Checks which filesystems this machine can make and mount, which lack mkfs, and which the kernel lacks. `can_mount` is
/// whether this process may mount.
fn check_filesystems(survey: &[Availability], can_mount: bool) -> Vec<Finding> {
    // Pools are made in guests only.
    let outside_guests: Vec<&Availability> = survey.iter().filter(|fs| fs.def.pool.is_none()).collect();
    let (mountable, unsupported): (Vec<&Availability>, Vec<_>) =
        outside_guests.into_iter().partition(|fs| fs.is_mountable);
    let (usable, without_mkfs): (Vec<&Availability>, Vec<_>) = mountable.into_iter().partition(|fs| fs.can_make());
    let usable = join_ids(usable);
    let mut findings = vec![if usable.is_empty() {
        missing("filesystems", "none can be made and mounted", "see the next lines")
    } else if can_mount {
        ok("filesystems", usable)
    } else {
        let fix = "only root on the machine itself can mount them; without root, guests can";
        limited("filesystems", usable, fix)
    }];
    if !without_mkfs.is_empty() {
        let fix = install_command(without_mkfs.iter().map(|fs| fs.def));
        findings.push(missing("mkfs programs", format!("none for {}", join_ids(without_mkfs)), fix));
    }
    if !unsupported.is_empty() {
        let fix = "guests have some of them: see the next lines";
        findings.push(limited("not in this kernel", join_ids(unsupported), fix));
    }
    findings
}

/// Checks the programs of every workload with its default settings, except those that other checks cover.
fn check_workload_programs() -> Finding {
    let has_other_check = |program: &str| {
        LOAD_TOOLS.contains(&program) || SERVICES.iter().any(|(programs, _)| programs.contains(&program))
    };
    let programs = WORKLOADS.iter().flat_map(|workload| {
        let settings = Settings::defaults(workload.def().settings);
        workload.programs(&Job { settings, scale: Default::default(), seed: 0 })
    });
    let needed = programs.filter(|program| !has_other_check(program));
    // fsarena itself runs these four around each workload.
    let (_, absent) = split_by_presence(needed.chain(["mount", "umount", "losetup", "wipefs"]));
    if absent.is_empty() {
        return ok("commands", "all that the workloads run are here");
    }
    let fix = "install what brings them (most are in coreutils, findutils, tar, util-linux or mount), or run with `--set \
               driver=native`";
    missing("commands", absent.join(" "), fix)
}

/// The programs that `--engine` can use instead of fsarena's own load engine.
const LOAD_TOOLS: [&str; 3] = ["sysbench", "fio", "dbench"];

/// Services that workloads start: their programs, and the package with the programs.
const SERVICES: [(&[&str], &str); 2] =
    [(&["squid"], "squid"), (&["postgres", "initdb", "pgbench", "psql"], "postgresql")];

/// The services of which programs are missing: the name of the workload of each, and its package.
fn missing_services() -> impl Iterator<Item = (&'static str, &'static str)> {
    let missing = SERVICES.into_iter().filter(|(programs, _)| program::find_dir_with_programs(programs).is_none());
    // The workload of a service has the name of its first program.
    missing.map(|(programs, package)| (programs[0], package))
}

/// Checks the services that workloads start.
fn check_services() -> Finding {
    let (workloads, packages): (Vec<&str>, Vec<&str>) = missing_services().unzip();
    if packages.is_empty() {
        return ok("services", SERVICES.map(|(programs, _)| programs[0]).join(" "));
    }
    let packages = packages.join(" ");
    let fix = format!("apt-get install {packages}, for the workloads {}", workloads.join(" "));
    limited("services", format!("no {packages}"), fix)
}

/// The packages of the applications that are not installed. Each package has the name of its program.
fn missing_app_packages() -> Vec<String> {
    let programs = study::programs_of_apps();
    split_by_presence(programs.iter().map(String::as_str)).1.into_iter().map(String::from).collect()
}

/// Checks the programs of the application plans.
fn check_applications() -> Finding {
    let packages = missing_app_packages().join(" ");
    if packages.is_empty() {
        return ok("applications", study::APPS.iter().map(|app| app.name).collect::<Vec<_>>().join(" "));
    }
    limited("applications", format!("no {packages}"), format!("apt-get install {packages}"))
}

/// Checks the other load engines.
fn check_load_tools() -> Finding {
    let (present, absent) = split_by_presence(LOAD_TOOLS);
    let found = if present.is_empty() { "only the native engine".into() } else { present.join(" ") };
    if absent.is_empty() {
        return ok("other load engines", found);
    }
    let fix = format!("apt-get install {}, for `--engine {}`", absent.join(" "), absent.join("|"));
    limited("other load engines", found, fix)
}

/// Checks the layers over a filesystem, which the kernel or a program serves.
fn check_layers(sys_root: &SysRoot) -> Finding {
    let check = "layers over a filesystem";
    let types = sys_root.mountable_filesystems().unwrap_or_default();
    let (usable, unusable): (Vec<_>, Vec<_>) = layers::layer_ids().partition(|level| {
        layers::module(level).is_some_and(|module| types.contains(module)) && layers::check_programs(level).is_ok()
    });
    let found = if usable.is_empty() { "none".into() } else { usable.join(" ") };
    if unusable.is_empty() {
        return ok(check, found);
    }
    let fixes = unusable.iter().map(|level| match layers::check_programs(level) {
        Err(why) => format!("layer={level}: {why}"),
        Ok(()) => format!("layer={level}: this kernel does not support it, but guests do: --on qemu"),
    });
    limited(check, found, fixes.collect::<Vec<_>>().join("; "))
}

/// Checks the devices that can be stacked below a filesystem.
fn check_stacks() -> Finding {
    let ids = || links::LINKS.iter().map(|link| link.id);
    let usable: Vec<&str> = ids().filter(|id| links::check_programs(id).is_ok()).collect();
    let mut fixes: Vec<String> =
        ids().filter_map(|id| Some(format!("stack={id}: {}", links::check_programs(id).err()?))).collect();
    let place_note = if device_mapper::is_supported() { "" } else { ", in guests" };
    if !place_note.is_empty() {
        fixes.push("this kernel has no device mapper, or this process may not use it: --on qemu".into());
    }
    let found = if usable.is_empty() { "none".into() } else { usable.join(" ") + place_note };
    if fixes.is_empty() { ok("stacked devices", found) } else { limited("stacked devices", found, fixes.join("; ")) }
}

/// The least free space that [`check_room`] reports as enough. Larger runs check their own room before they start.
const MIN_FREE_BYTES: u64 = 4 << 30;

/// Checks the free space for images in `runs_dir`, or in its nearest parent directory that exists.
fn check_room(runs_dir: &Path) -> Finding {
    let check = "room for images";
    let dir = runs_dir.ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new("."));
    match dirs::free_bytes(dir).map(|bytes| (bytes, format!("{} in {dir:?}", ByteSize(bytes)))) {
        Ok((bytes, found)) if bytes >= MIN_FREE_BYTES => ok(check, found),
        Ok((_, found)) => limited(check, found, "images elsewhere: `--on loop:DIR`, in memory: `--on ram`"),
        Err(error) => missing(check, error.to_string(), "--runs DIR, where DIR is a directory that you can write to"),
    }
}

/// Reports the available memory.
fn check_memory(sys_root: &SysRoot) -> Finding {
    let free = host::available_memory_bytes(sys_root).map(ByteSize);
    ok("memory", free.map_or("the kernel does not say".into(), |free| format!("{free} available")))
}

/// Checks whether the kernel accounts CPU time exactly.
fn check_cpu_accounting(sys_root: &SysRoot) -> Finding {
    let check = "CPU of the whole machine";
    // The probe prefers its sources in this order.
    let sources = ["proc/schedstat", "sys/fs/cgroup/cpuacct/cpuacct.usage"];
    if let Some(path) = sources.iter().find(|path| sys_root.path(path).exists()) {
        return ok(check, format!("/{path}: exact"));
    }
    let fix = "use a kernel with CONFIG_SCHED_INFO, which has /proc/schedstat; ticks miss threads that run only between \
               two ticks";
    limited(check, "only sampled by ticks", fix)
}

/// Checks whether a file of the kernel can be read; `fix` describes how to enable it.
fn check_readable(sys_root: &SysRoot, check: &'static str, path: &str, fix: &str) -> Finding {
    match sys_root.read(path) {
        Ok(_) => ok(check, format!("/{path}")),
        Err(error) => limited(check, format!("/{path}: {error}"), fix),
    }
}

/// Checks that the frequency governors of all CPUs keep the highest frequency.
fn check_governor(sys_root: &SysRoot) -> Finding {
    let check = "CPU frequency";
    match host::governors(sys_root) {
        None => ok(check, "no governor is offered (a virtual machine, often)"),
        Some(name) if name == "performance" => ok(check, name),
        Some(name) => limited(check, format!("governor {name}"), "cpupower frequency-set -g performance"),
    }
}

/// Checks for undo journals that killed runs left.
fn check_leftovers() -> Finding {
    let check = "left by killed runs";
    let state_dir = undo::state_dir();
    let journals = match fsarena_sys::none_if_missing(std::fs::read_dir(state_dir.join("undo"))) {
        Ok(entries) => entries.map_or(0, |entries| entries.flatten().count()),
        Err(error) => {
            let fix = "run `fsarena doctor` as the user who ran fsarena";
            return limited(check, format!("{state_dir:?}: {error}"), fix);
        }
    };
    if journals == 0 {
        return ok(check, "nothing");
    }
    let found = format!("{} in {state_dir:?}", plural(journals, "undo journal"));
    limited(check, found, "fsarena recover, if no run is going on")
}
