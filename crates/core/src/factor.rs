//! Factors: what may vary between arms.

/// A factor that a plan may vary, and how it is understood.
#[derive(Debug, Clone, Copy)]
pub struct FactorDef {
    /// The name in plans, on the command line and in reports.
    pub id: &'static str,
    /// The level taken where a plan says nothing.
    pub default: &'static str,
    /// One line for people.
    pub help: &'static str,
}

/// The filesystem.
pub const FS: &str = "fs";
/// The level of [`FS`] that is no filesystem: the bare device, for workloads that can do without one.
pub const RAW: &str = "raw";
/// A named set of options of that filesystem.
pub const OPTIONS: &str = "options";
/// Further arguments for mkfs.
pub const MKFS: &str = "mkfs";
/// Further mount options.
pub const MOUNT: &str = "mount";
/// The directory benchmarked in place of a formatted filesystem.
pub const DIR: &str = "dir";

/// Every factor, in the order in which arm names spell their levels.
pub const FACTORS: &[FactorDef] = &[
    FactorDef {
        id: FS,
        default: "ext4",
        help: "filesystem that is made and mounted (see `fsarena list filesystems`); `raw` for the bare device, where the workload can do without one",
    },
    FactorDef {
        id: OPTIONS,
        default: "default",
        help: "named option set of the filesystem (`default`, `noatime`, …)",
    },
    FactorDef {
        id: MKFS,
        default: "",
        help: "further mkfs arguments, split at blanks: `-b 1024`; a bare feature list as in `^has_journal` means `-O`",
    },
    FactorDef {
        id: MOUNT,
        default: "",
        help: "further mount options, comma-separated: `data=writeback,noatime`",
    },
    FactorDef {
        id: DIR,
        default: "",
        help: "existing directory that is benchmarked as it is, without mkfs or mount",
    },
];

/// Finds a factor by its name.
pub fn find(id: &str) -> Option<&'static FactorDef> {
    FACTORS.iter().find(|factor| factor.id == id)
}
