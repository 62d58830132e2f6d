//! The facts of a machine that a reader of a report needs to judge or repeat a run.

use crate::argv::Argv;
use crate::device::{self, BlockDevice};
use crate::kernel::{SysRoot, sorted_names, word_in_brackets};
use fsarena_core::event::CommandRecord;
use fsarena_core::host::{Host, Storage};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Facts that are the text of one kernel file: the name of the fact, and the path of the file.
const FACT_FILES: &[(&str, &str)] = &[
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
pub fn collect_facts(kernel: &SysRoot) -> Host {
    let cpuinfo = kernel.read("proc/cpuinfo").unwrap_or_default();
    let meminfo = kernel.read("proc/meminfo").unwrap_or_default();
    let cpu_threads = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    let is_guest =
        field_value(&cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let huge_pages = kernel.read_trimmed("sys/kernel/mm/transparent_hugepage/enabled");
    let computed = [
        ("transparent_hugepages", huge_pages.and_then(|text| word_in_brackets(&text))),
        ("governor", Some(governors(kernel).unwrap_or("none offered".into()))),
        ("mitigations", mitigations(kernel)),
        ("architecture", Some(std::env::consts::ARCH.to_string())),
        ("cpu", field_value(&cpuinfo, "model name").or_else(|| field_value(&cpuinfo, "Processor"))),
        ("cpu_threads", (cpu_threads > 0).then(|| cpu_threads.to_string())),
        ("cpu_cores", count_cores(&cpuinfo)),
        ("virtual_machine", is_guest.then(|| "yes, by the CPU's hypervisor flag".into())),
        ("memory", field_value(&meminfo, "MemTotal")),
        ("swap", field_value(&meminfo, "SwapTotal")),
        ("distribution", distribution(kernel)),
    ];
    let read = FACT_FILES.iter().map(|(name, path)| (*name, kernel.read_trimmed(path)));
    let facts = read.chain(computed).filter_map(|(name, fact)| Some((name.to_string(), fact?))).collect();
    Host {
        hostname: kernel.read_trimmed("proc/sys/kernel/hostname").unwrap_or_default(),
        boot_id: crate::process::boot_id(kernel).unwrap_or_default(),
        kernel: kernel.read_trimmed("proc/sys/kernel/osrelease").unwrap_or_default(),
        facts,
    }
}

/// The storage below a directory: filesystem, device, model and firmware. Unreadable facts are left out.
pub fn storage_of_directory(kernel: &SysRoot, dir: &Path) -> Storage {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    let mount = kernel.mount_of(&dir);
    let device = device::device_of_path(kernel, &dir).ok().flatten();
    let source = mount.as_ref().map(|mount| mount.source.as_str());
    let device_name = source.map(|source| source.strip_prefix("/dev/").unwrap_or(source).to_string());
    Storage {
        directory: Some(dir.display().to_string()),
        filesystem: mount.map(|mount| mount.fs_type),
        device: device_name,
        ..device.map_or(Storage::default(), |device| storage_of_device(&device))
    }
}

/// The storage of a device: its name, the model and firmware of its disk, and whether it rotates. Unreadable facts are left
/// out.
pub fn storage_of_device(device: &BlockDevice) -> Storage {
    let (model, firmware) = device.model_and_firmware();
    // The kernel calls every virtual disk a rotating one; those have no model.
    let is_rotating = model.is_some() && device.is_rotational() == Some(true);
    Storage { device: Some(device.name.clone()), model, firmware, is_rotating, ..Storage::default() }
}

/// The memory that is available without swapping, in bytes; None if the kernel does not report it.
pub fn available_memory_bytes(kernel: &SysRoot) -> Option<u64> {
    kernel.bytes_of_line("proc/meminfo", "MemAvailable:")
}

/// The version that a program reports: the first line of its output that has one. None if the program is
/// not installed.
pub fn tool_version(program: &str, log: &mut dyn FnMut(CommandRecord)) -> Option<String> {
    // Some programs have only -V, and some print the version on standard error and fail. A program that lacks the flag
    // prints its usage, in which a name like mkfs.ext2 resembles a version number.
    ["--version", "-V"].iter().find_map(|flag| {
        let argv = Argv::new(program).arg(flag).env("LC_ALL", "C");
        let finished = argv.run().ok()?;
        log(argv.log_record(&finished));
        let outputs = [finished.stdout, finished.stderr];
        let mut lines = outputs.iter().flat_map(|text| text.lines());
        lines.find(|line| line.split_whitespace().any(is_version)).map(|line| line.trim().to_string())
    })
}

/// Whether a word has the form of a version: `1.47.0`, `v6.1` or `2.2.9)`.
fn is_version(word: &str) -> bool {
    let starts_with_digit = |text: &str| text.chars().next().is_some_and(|c| c.is_ascii_digit());
    let word = word.trim_start_matches(['v', '(']);
    word.split_once('.').is_some_and(|(major, rest)| starts_with_digit(major) && starts_with_digit(rest))
}

/// The value of the first line `name : value` or `name: value`; None if there is no such line or the value is empty.
fn field_value(text: &str, name: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = pairs.find(|(key, _)| key.trim() == name)?;
    Some(value.trim().to_string()).filter(|value| !value.is_empty())
}

/// The number of physical cores: distinct pairs of package and core in `/proc/cpuinfo`. None if it lists none.
fn count_cores(cpuinfo: &str) -> Option<String> {
    let blocks = cpuinfo.split("\n\n");
    let cores: BTreeSet<_> =
        blocks.filter_map(|block| Some((field_value(block, "physical id")?, field_value(block, "core id")?))).collect();
    (!cores.is_empty()).then(|| cores.len().to_string())
}

/// The frequency governor of the CPUs: `performance` if all have the same, else for each CPU (`cpu0 powersave, cpu1
/// performance`). None if the kernel has none, as in many virtual machines.
pub fn governors(kernel: &SysRoot) -> Option<String> {
    let mut by_cpu: BTreeMap<usize, String> = BTreeMap::new();
    for name in sorted_names(&kernel.path("sys/devices/system/cpu")).unwrap_or_default() {
        let number = name.strip_prefix("cpu").and_then(|number| number.parse().ok());
        let governor = kernel.read_trimmed(&format!("sys/devices/system/cpu/{name}/cpufreq/scaling_governor"));
        if let (Some(number), Some(governor)) = (number, governor) {
            by_cpu.insert(number, governor);
        }
    }
    let mut distinct: BTreeSet<_> = by_cpu.values().collect();
    if distinct.len() < 2 {
        return distinct.pop_first().cloned();
    }
    let each = by_cpu.iter().map(|(cpu, governor)| format!("cpu{cpu} {governor}"));
    Some(each.collect::<Vec<_>>().join(", "))
}

/// The kernel's mitigation of each CPU vulnerability that affects this machine: `meltdown: Mitigation: PTI`.
fn mitigations(kernel: &SysRoot) -> Option<String> {
    let dir = "sys/devices/system/cpu/vulnerabilities";
    let names = sorted_names(&kernel.path(dir)).ok()?;
    let state = |name: &String| Some(format!("{name}: {}", kernel.read_trimmed(&format!("{dir}/{name}"))?));
    let affected: Vec<_> = names.iter().filter_map(state).filter(|text| !text.ends_with(": Not affected")).collect();
    Some(if affected.is_empty() { "not affected".into() } else { affected.join("; ") })
}

/// The name and version of the distribution, from os-release(5).
fn distribution(kernel: &SysRoot) -> Option<String> {
    let text = kernel.read("etc/os-release").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches(['"', '\'']).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect_from(files: &[(&str, &str)]) -> Host {
        collect_facts(&SysRoot::at(crate::testkit::FakeRoot::with(files).path()))
    }

    #[test]
    fn facts_are_read_from_kernel_files() {
        let cpu = |number: u32, core: u32| {
            format!(
                "processor\t: {number}\nmodel name\t: Some CPU\nphysical id\t: 0\ncore id\t: {core}\nflags\t: fpu hypervisor sse\n"
            )
        };
        let host = collect_from(&[
            ("proc/cpuinfo", &format!("{}\n{}\n", cpu(0, 0), cpu(1, 0))),
            ("proc/meminfo", "MemTotal:       16384 kB\nSwapTotal:      0 kB\n"),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("proc/sys/kernel/hostname", "box\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n"),
            ("sys/devices/system/cpu/vulnerabilities/mds", "Not affected\n"),
            ("etc/os-release", "NAME=Some\nPRETTY_NAME='Some Linux 7'\n"),
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
            ("distribution", "Some Linux 7"),
        ] {
            assert_eq!(host.facts.get(name).map(String::as_str), Some(fact), "{name}");
        }
    }

    #[test]
    fn a_fact_that_cannot_be_read_is_left_out() {
        let host = collect_from(&[("proc/cmdline", "quiet\n")]);
        let names: Vec<_> = host.facts.keys().map(String::as_str).collect();
        assert_eq!(names, ["architecture", "governor", "kernel_cmdline"]);
        assert_eq!(host.facts["governor"], "none offered");
    }

    #[test]
    fn the_version_of_a_tool_is_found_and_its_command_logged() {
        let mut commands = vec![];
        let version = tool_version("losetup", &mut |record| commands.push(record.argv));
        assert!(version.unwrap().contains("util-linux"));
        assert_eq!(tool_version("no-such-program-anywhere", &mut |record| commands.push(record.argv)), None);
        assert_eq!(commands, [["losetup", "--version"]]);
    }

    #[test]
    fn a_usage_message_is_not_taken_for_a_version() {
        let has_version = |line: &str| line.split_whitespace().any(is_version);
        assert!(!has_version("Usage: mkfs.ext2 [-c|-l filename] [-b block-size]"));
        assert!(!has_version("mkfs.xfs: invalid option -- '2'"));
        assert!(has_version("mke2fs 1.47.0 (5-Feb-2023)") && has_version("mkfs.btrfs, part of btrfs-progs v6.2"));
        assert!(has_version("mkfs.nilfs2 (nilfs-utils 2.2.9)") && has_version("exfatprogs version : 1.2.0"));
    }
}
