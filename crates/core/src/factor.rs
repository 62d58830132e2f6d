//! Factors: what may vary between variants. Each axis of the machine is one file; it says what its levels mean, and
//! a file of the same name in the runner brings them about.

pub mod clients;
pub mod cpu_speed;
pub mod cpus;
pub mod device;
pub mod faults;
pub mod journal;
pub mod limit;
pub mod memory;
pub mod raid;
pub mod scheduler;

use crate::names::{self, Unknown};

/// A factor that a plan may vary, and how it is understood.
#[derive(Debug, Clone, Copy)]
pub struct FactorDef {
    /// The name in plans, on the command line and in reports.
    pub id: &'static str,
    /// The level taken where a plan says nothing.
    pub default: &'static str,
    /// Levels, as an example.
    pub example: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// Checks a level; returns what is accepted if it is wrong. The preflight checks later whether this machine supports it.
    pub check: fn(&str) -> Result<(), String>,
}

/// The filesystem.
pub const FS: &str = "fs";
/// The level of [`FS`] for the bare device, for workloads that do not require a filesystem.
pub const RAW: &str = "raw";
/// A named set of options of that filesystem.
pub const OPTIONS: &str = "options";
/// Further arguments for mkfs.
pub const MKFS: &str = "mkfs";
/// Further mount options.
pub const MOUNT: &str = "mount";
/// Where the journal or log lies.
pub const JOURNAL: &str = "journal";
/// How data and metadata are spread over several devices.
pub const RAID: &str = "raid";
/// What carries the filesystem.
pub const DEVICE: &str = "device";
/// How the device misbehaves.
pub const FAULTS: &str = "faults";
/// How slow the device is made.
pub const LIMIT: &str = "limit";
/// The I/O scheduler of the device.
pub const SCHEDULER: &str = "scheduler";
/// The CPUs that the load may run on.
pub const CPUS: &str = "cpus";
/// How fast these are.
pub const CPU_SPEED: &str = "cpu_speed";
/// The memory that the load may use, its page cache included.
pub const MEMORY: &str = "memory";
/// How many clients or threads the load has.
pub const CLIENTS: &str = "clients";
/// The directory benchmarked instead of a formatted filesystem.
pub const DIR: &str = "dir";
/// The kernel that a guest boots.
pub const KERNEL: &str = "kernel";
/// What a level begins with that is a setting of the workload: `set.files`. The self-test gives its variants different
/// work by it; plan files have no such factor.
pub const SETTING: &str = "set.";

/// Every factor, in the order in which variant names spell their levels.
pub const FACTORS: &[FactorDef] = &[
    FactorDef {
        id: FS,
        default: "ext4",
        example: "ext4, xfs",
        help: "filesystem that is made and mounted (see `fsarena list filesystems`); `raw` for the bare device, where the workload can do without one",
        check: any,
    },
    FactorDef {
        id: OPTIONS,
        default: "default",
        example: "default, durable, fast-unsafe, tuned-2011",
        help: "named option set of the filesystem (`fsarena list filesystems`)",
        check: any,
    },
    FactorDef {
        id: MKFS,
        default: "",
        example: "-b 1024, ^has_journal",
        help: "further mkfs arguments, split at blanks: `-b 1024`; a bare feature list as in `^has_journal` means `-O`. None may name a device or file",
        check: any,
    },
    FactorDef {
        id: MOUNT,
        default: "",
        example: "noatime, data=writeback",
        help: "further mount options, comma-separated: `data=writeback,noatime`. None may name a device or file",
        check: any,
    },
    journal::DEF,
    raid::DEF,
    device::DEF,
    faults::DEF,
    limit::DEF,
    scheduler::DEF,
    cpus::DEF,
    cpu_speed::DEF,
    memory::DEF,
    clients::DEF,
    FactorDef {
        id: DIR,
        default: "",
        example: "/srv, /home",
        help: "existing directory that is benchmarked as it is, without mkfs or mount",
        check: any,
    },
    FactorDef {
        id: KERNEL,
        default: "",
        example: "debian:6.1, ./bzImage",
        help: "kernel of a guest: a path, or `debian:6.1` for the newest Debian package of that version",
        check: any,
    },
];

/// The factors of directories that fsarena uses as they are: those that make no filesystem.
pub const OF_DIRECTORIES: [&str; 5] = [DIR, CPUS, CPU_SPEED, MEMORY, CLIENTS];

/// Accepts every level: the filesystem checks it.
fn any(_: &str) -> Result<(), String> {
    Ok(())
}

/// Finds a factor by its name.
pub fn find(id: &str) -> Option<&'static FactorDef> {
    named(id).ok()
}

/// Finds the factor that a person named.
///
/// # Errors
/// Where no factor has this name.
pub fn named(id: &str) -> Result<&'static FactorDef, Unknown> {
    names::find("factor", id, FACTORS, |factor| factor.id)
}

/// The factors that change the machine around a filesystem, and not the filesystem.
pub fn axes() -> impl Iterator<Item = &'static FactorDef> {
    FACTORS.iter().filter(|factor| ![FS, OPTIONS, MKFS, MOUNT, DIR, KERNEL].contains(&factor.id))
}

/// A size in bytes: `256MiB`, `20MB`.
fn bytes(text: &str) -> Option<u64> {
    text.parse::<bytesize::ByteSize>().ok().map(|size| size.as_u64()).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_axis_is_registered_and_takes_its_own_default_and_examples() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/factor")).unwrap();
        let mut files: Vec<String> =
            files.map(|f| f.unwrap().path().file_stem().unwrap().to_str().unwrap().to_string()).collect();
        let mut ids: Vec<&str> = axes().map(|factor| factor.id).collect();
        files.sort();
        ids.sort_unstable();
        assert_eq!(files, ids);
        for factor in FACTORS {
            assert!((factor.check)(factor.default).is_ok(), "{}", factor.id);
            let examples = factor.example.split(", ").all(|level| (factor.check)(level).is_ok());
            assert!(examples, "{}: {}", factor.id, factor.example);
        }
    }
}
