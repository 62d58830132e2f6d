//! The facts of a machine that someone needs to repeat a run.

use crate::argv::Argv;
use crate::device::{self, BlockDevice};
use crate::kernel::{SysRoot, bracketed, names};
use fsarena_core::event::CommandRecord;
use fsarena_core::host::{Host, Storage};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// One-line kernel files, and the names reports give them.
const FILES: &[(&str, &str)] = &[
    ("kernel_build", "proc/sys/kernel/version"),
    ("kernel_cmdline", "proc/cmdline"),
    ("clocksource", "sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("dirty_ratio", "proc/sys/vm/dirty_ratio"),
    ("dirty_bytes", "proc/sys/vm/dirty_bytes"),
    ("dirty_background_ratio", "proc/sys/vm/dirty_background_ratio"),
    ("dirty_background_bytes", "proc/sys/vm/dirty_background_bytes"),
    ("dirty_expire_centisecs", "proc/sys/vm/dirty_expire_centisecs"),
    ("dirty_writeback_centisecs", "proc/sys/vm/dirty_writeback_centisecs"),
    ("swappiness", "proc/sys/vm/swappiness"),
    ("vfs_cache_pressure", "proc/sys/vm/vfs_cache_pressure"),
    ("cpus_online", "sys/devices/system/cpu/online"),
    ("cpu_isolated", "sys/devices/system/cpu/isolated"),
    ("smt", "sys/devices/system/cpu/smt/control"),
    ("hypervisor", "sys/hypervisor/type"),
    ("machine", "sys/class/dmi/id/product_name"),
];

/// Collects the facts of a machine from its kernel. It leaves out facts that it cannot read.
pub fn collect(kernel: &SysRoot) -> Host {
    let cpuinfo = kernel.read("proc/cpuinfo").unwrap_or_default();
    let meminfo = kernel.read("proc/meminfo").unwrap_or_default();
    let threads = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    let guest =
        field(&cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let huge_pages = kernel.fact("sys/kernel/mm/transparent_hugepage/enabled");
    let found = [
        ("transparent_hugepages", huge_pages.and_then(|text| bracketed(&text))),
        ("governor", Some(governors(kernel))),
        ("mitigations", mitigations(kernel)),
        ("architecture", Some(std::env::consts::ARCH.to_string())),
        ("cpu", field(&cpuinfo, "model name").or_else(|| field(&cpuinfo, "Processor"))),
        ("cpu_threads", (threads > 0).then(|| threads.to_string())),
        ("cpu_cores", cores(&cpuinfo)),
        ("virtual_machine", guest.then(|| "yes, by the CPU's hypervisor flag".into())),
        ("memory", field(&meminfo, "MemTotal")),
        ("swap", field(&meminfo, "SwapTotal")),
        ("distribution", distribution(kernel)),
    ];
    let files = FILES.iter().map(|(name, rel)| (*name, kernel.fact(rel)));
    let facts = files.chain(found).filter_map(|(name, fact)| Some((name.to_string(), fact?))).collect();
    Host {
        hostname: kernel.fact("proc/sys/kernel/hostname").unwrap_or_default(),
        boot_id: crate::process::boot_id(kernel).unwrap_or_default(),
        kernel: kernel.fact("proc/sys/kernel/osrelease").unwrap_or_default(),
        facts,
    }
}

/// The storage below a directory: filesystem, device, model and firmware. Unreadable facts are left out.
pub fn storage_of(kernel: &SysRoot, dir: &Path) -> Storage {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    let mount = kernel.mount_of(&dir);
    let device = device::behind(kernel, &dir).ok().flatten();
    let source = mount.as_ref().map(|mount| mount.source.as_str());
    let source = source.map(|source| source.strip_prefix("/dev/").unwrap_or(source).to_string());
    Storage {
        directory: Some(dir.display().to_string()),
        filesystem: mount.map(|mount| mount.fs_type),
        device: source,
        ..device.map_or(Storage::default(), |device| storage_at(&device))
    }
}

/// The storage of a device: its name, and the model and firmware of its disk. Unreadable facts are left out.
pub fn storage_at(device: &BlockDevice) -> Storage {
    let (model, firmware) = device.identity();
    Storage { device: Some(device.name.clone()), model, firmware, ..Storage::default() }
}

/// The memory that is available without swapping, in bytes; None if the kernel does not report it.
pub fn available_memory(kernel: &SysRoot) -> Option<u64> {
    kernel.bytes("proc/meminfo", "MemAvailable:")
}

/// The version that a program reports: the first line of its output that has one. None if the program is
/// not installed.
pub fn tool_version(program: &str, log: &mut dyn FnMut(CommandRecord)) -> Option<String> {
    // Some know only -V, and some print it on standard error and fail. Those that do not know a flag print
    // their usage, in which a name like mkfs.ext2 looks like a number.
    ["--version", "-V"].iter().find_map(|flag| {
        let argv = Argv::new(program).arg(flag).env("LC_ALL", "C");
        let finished = argv.run().ok()?;
        log(argv.record(&finished));
        let said = [finished.stdout, finished.stderr];
        let mut lines = said.iter().flat_map(|text| text.lines());
        lines.find(|line| line.split_whitespace().any(is_version)).map(|line| line.trim().to_string())
    })
}

/// Whether a word is like `1.47.0`, `v6.1` or `2.2.9)`.
fn is_version(word: &str) -> bool {
    let digits = |text: &str| text.chars().next().is_some_and(|c| c.is_ascii_digit());
    let word = word.trim_start_matches(['v', '(']);
    word.split_once('.').is_some_and(|(whole, rest)| digits(whole) && digits(rest))
}

/// The value of `name : value` or `name: value`.
fn field(text: &str, name: &str) -> Option<String> {
    let value =
        |line: &str| Some(line.split_once(':').filter(|(key, _)| key.trim() == name)?.1.trim().to_string());
    text.lines().find_map(value).filter(|value| !value.is_empty())
}

/// Distinct pairs of package and core.
fn cores(cpuinfo: &str) -> Option<String> {
    let blocks = cpuinfo.split("\n\n");
    let cores: BTreeSet<_> =
        blocks.filter_map(|block| Some((field(block, "physical id")?, field(block, "core id")?))).collect();
    (!cores.is_empty()).then(|| cores.len().to_string())
}

/// The frequency governor of each CPU, `performance` or `cpu0 powersave, cpu1 performance`.
fn governors(kernel: &SysRoot) -> String {
    let mut of: BTreeMap<usize, String> = BTreeMap::new();
    for name in names(&kernel.path("sys/devices/system/cpu")).unwrap_or_default() {
        let number = name.strip_prefix("cpu").and_then(|number| number.parse().ok());
        let governor = kernel.fact(&format!("sys/devices/system/cpu/{name}/cpufreq/scaling_governor"));
        if let (Some(number), Some(governor)) = (number, governor) {
            of.insert(number, governor);
        }
    }
    let kinds: BTreeSet<_> = of.values().collect();
    match kinds.len() {
        0 => "none offered".into(),
        1 => kinds.into_iter().cloned().collect(),
        _ => of.iter().map(|(cpu, governor)| format!("cpu{cpu} {governor}")).collect::<Vec<_>>().join(", "),
    }
}

/// The kernel's report on each CPU vulnerability that affects this machine.
fn mitigations(kernel: &SysRoot) -> Option<String> {
    let dir = "sys/devices/system/cpu/vulnerabilities";
    let names = names(&kernel.path(dir)).ok()?;
    let state = |name: &String| Some(format!("{name}: {}", kernel.fact(&format!("{dir}/{name}"))?));
    let told: Vec<_> =
        names.iter().filter_map(state).filter(|text| !text.ends_with(": Not affected")).collect();
    Some(if told.is_empty() { "not affected".into() } else { told.join("; ") })
}

fn distribution(kernel: &SysRoot) -> Option<String> {
    let text = kernel.read("etc/os-release").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches('"').to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> Host {
        collect(&SysRoot::at(fsarena_testkit::FakeRoot::with(files).path()))
    }

    #[test]
    fn facts_are_read() {
        let cpu = |n: u32, core: u32| {
            format!(
                "processor\t: {n}\nmodel name\t: Some CPU\nphysical id\t: 0\ncore id\t: {core}\nflags\t: fpu hypervisor sse\n"
            )
        };
        let host = machine(&[
            ("proc/cpuinfo", &format!("{}\n{}\n", cpu(0, 0), cpu(1, 0))),
            ("proc/meminfo", "MemTotal:       16384 kB\nSwapTotal:      0 kB\n"),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("proc/sys/kernel/hostname", "box\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n"),
            ("sys/devices/system/cpu/vulnerabilities/mds", "Not affected\n"),
        ]);
        assert_eq!((host.hostname.as_str(), host.kernel.as_str()), ("box", "6.1.0"));
        for (name, fact) in [
            ("cpu", "Some CPU"),
            ("cpu_threads", "2"),
            ("cpu_cores", "1"),
            ("memory", "16384 kB"),
            ("swap", "0 kB"),
            ("transparent_hugepages", "madvise"),
            ("governor", "cpu0 powersave, cpu1 performance"),
            ("mitigations", "meltdown: Mitigation: PTI"),
            ("virtual_machine", "yes, by the CPU's hypervisor flag"),
        ] {
            assert_eq!(host.facts.get(name).map(String::as_str), Some(fact), "{name}");
        }
    }

    #[test]
    fn what_is_not_there_is_not_invented() {
        let host = machine(&[("proc/cmdline", "quiet\n")]);
        let names: Vec<_> = host.facts.keys().map(String::as_str).collect();
        assert_eq!(names, ["architecture", "governor", "kernel_cmdline"]);
        assert_eq!(host.facts["governor"], "none offered");
    }

    #[test]
    fn versions_of_tools() {
        let mut asked = vec![];
        let version = tool_version("losetup", &mut |record| asked.push(record.argv));
        assert!(version.unwrap().contains("util-linux"));
        assert_eq!(tool_version("no-such-program-anywhere", &mut |record| asked.push(record.argv)), None);
        assert_eq!(asked, [["losetup", "--version"]]);
    }

    #[test]
    fn usage_is_no_version() {
        let any = |line: &str| line.split_whitespace().any(is_version);
        assert!(!any("Usage: mkfs.ext2 [-c|-l filename] [-b block-size]"));
        assert!(!any("mkfs.xfs: invalid option -- '2'"));
        assert!(any("mke2fs 1.47.0 (5-Feb-2023)") && any("mkfs.btrfs, part of btrfs-progs v6.2"));
        assert!(any("mkfs.nilfs2 (nilfs-utils 2.2.9)") && any("exfatprogs version : 1.2.0"));
    }
}
