//! Factors: the properties in which variants may differ, such as filesystem, mount options or I/O scheduler.
//!
//! This module defines the filesystem and its options. `fsarena_run::axes` has one file for each axis of the machine, which
//! defines the factor and applies its levels. The names of all factors are here, because several crates use them.

pub mod age;
pub mod device;

use crate::names::{self, UnknownName};
use crate::row::Row;
use crate::setting::{SettingValue, Settings};
use serde::Serialize;

/// The definition of a factor that a plan may vary.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct FactorDef {
    /// The name in plans, on the command line and in reports.
    #[serde(rename = "name")]
    pub id: &'static str,
    /// The level if a plan does not name the factor.
    pub default: &'static str,
    /// Example levels, comma-separated.
    #[serde(rename = "levels")]
    pub example_levels: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Checks a level; returns what is accepted if it is wrong. The preflight checks later whether this machine supports it.
    #[serde(skip)]
    pub check: fn(&str) -> Result<(), String>,
}

impl Row for FactorDef {
    const COLUMNS: &'static [&'static str] = &["name: FACTOR", "default", "levels: LEVELS, FOR EXAMPLE", "help"];
}

/// The filesystem.
pub const FS: &str = "fs";
/// The level of [`FS`] for the bare device, for workloads that do not require a filesystem.
pub const RAW: &str = "raw";
/// A named set of options of that filesystem.
pub const OPTIONS: &str = "options";
/// Further arguments for mkfs.
pub const MKFS: &str = "mkfs";
/// The program that makes the filesystem, instead of the installed one.
pub const MKFS_PROGRAM: &str = "mkfs_program";
/// Further mount options.
pub const MOUNT: &str = "mount";
/// The place of the journal or log: inside the filesystem, or on a separate device.
pub const JOURNAL: &str = "journal";
/// How data and metadata are spread over several devices.
pub const RAID: &str = "raid";
/// What lies between the device and the filesystem: encryption, checksums, thin provisioning, snapshots.
pub const STACK: &str = "stack";
/// What lies between the mounted filesystem and the load.
pub const LAYER: &str = "layer";
/// How the filesystem was used before the work.
pub const AGE: &str = "age";
/// The share of the space that other files take before the work.
pub const FILL: &str = "fill";
/// The backing device of the filesystem.
pub const DEVICE: &str = "device";
/// Simulated faults of the device.
pub const FAULTS: &str = "faults";
/// A limit on the speed of the device.
pub const LIMIT: &str = "limit";
/// The I/O scheduler of the device.
pub const SCHEDULER: &str = "scheduler";
/// The CPUs that the load may run on.
pub const CPUS: &str = "cpus";
/// The speed of these CPUs.
pub const CPU_SPEED: &str = "cpu_speed";
/// The memory that the load may use, its page cache included.
pub const MEMORY: &str = "memory";
/// The number of clients or threads of the load.
pub const CLIENTS: &str = "clients";
/// An extra pause after the idle wait.
pub const FURTHER_IDLE: &str = "further_idle";
/// The directory benchmarked instead of a formatted filesystem.
pub const DIR: &str = "dir";
/// The kernel that a guest boots.
pub const KERNEL: &str = "kernel";
/// The prefix of factors that are settings of the workload: `set.journal`. An empty level keeps the workload's own value.
pub const SETTING_PREFIX: &str = "set.";

/// The base of the other definitions: no default level, and every level is accepted.
const BASE: FactorDef = FactorDef { id: "", default: "", example_levels: "", help: "", check: |_| Ok(()) };

/// The factors that name the filesystem and its options. The runner adds the axes of the machine: `fsarena_run::axes`.
pub const BUILT_IN: &[FactorDef] = &[
    FactorDef {
        id: FS,
        default: "ext4",
        example_levels: "ext4, xfs",
        help: "filesystem that is made and mounted (see `fsarena list filesystems`); `raw` is the bare device, for workloads that need no filesystem",
        ..BASE
    },
    FactorDef {
        id: OPTIONS,
        default: "default",
        example_levels: "default, durable, fast-unsafe, tuned-2011",
        help: "named option set of the filesystem (`fsarena list filesystems`)",
        ..BASE
    },
    FactorDef {
        id: MKFS,
        example_levels: "-b 1024, ^has_journal",
        help: "further mkfs arguments, split at blanks: `-b 1024`; a bare feature list as in `^has_journal` means `-O`. None may name a device or file",
        ..BASE
    },
    FactorDef {
        id: MKFS_PROGRAM,
        example_levels: "/opt/e2fsprogs/sbin/mkfs.ext4",
        help: "mkfs program instead of the installed one, by its absolute path; fsarena runs it as it runs mkfs, with write access to its devices only",
        check: check_mkfs_program,
        ..BASE
    },
    FactorDef {
        id: MOUNT,
        example_levels: "noatime, data=writeback",
        help: "further mount options, comma-separated: `data=writeback,noatime`. None may name a device or file",
        ..BASE
    },
    FactorDef {
        id: DIR,
        example_levels: "/srv, /home",
        help: "existing directory that is benchmarked as it is, without mkfs or mount",
        ..BASE
    },
    FactorDef {
        id: KERNEL,
        example_levels: "debian:6.1, ~/linux",
        help: "kernel of a guest: a bzImage, the tree where you built one, or `debian:6.1` for the newest Debian package of that version",
        check: check_kernel,
        ..BASE
    },
];

/// The factors that apply to existing directories, where fsarena makes no filesystem.
pub const DIRECTORY_FACTORS: [&str; 6] = [DIR, CPUS, CPU_SPEED, MEMORY, CLIENTS, FURTHER_IDLE];

fn check_mkfs_program(level: &str) -> Result<(), String> {
    if level.is_empty() || level.starts_with('/') { Ok(()) } else { Err(format!("`{level}`: write its absolute path")) }
}

fn check_kernel(level: &str) -> Result<(), String> {
    match level.strip_suffix(':') {
        Some("debian") => Err("`debian:` lacks its version; write debian:6.1, or debian for the newest".into()),
        _ => Ok(()),
    }
}

/// The order of the levels in the name of a variant. Factors that are not listed follow in alphabetical order.
const NAME_ORDER: [&str; 22] = [
    FS,
    OPTIONS,
    MKFS,
    MKFS_PROGRAM,
    MOUNT,
    LAYER,
    AGE,
    FILL,
    JOURNAL,
    RAID,
    STACK,
    DEVICE,
    FAULTS,
    LIMIT,
    SCHEDULER,
    CPUS,
    CPU_SPEED,
    MEMORY,
    CLIENTS,
    FURTHER_IDLE,
    DIR,
    KERNEL,
];

/// Sorts factors into the order of the levels in the name of a variant.
pub fn sorted_for_names<T>(mut factors: Vec<T>, id: impl Fn(&T) -> &str) -> Vec<T> {
    let rank = |id: &str| NAME_ORDER.iter().position(|name| *name == id).unwrap_or(NAME_ORDER.len());
    factors.sort_by(|a, b| (rank(id(a)), id(a)).cmp(&(rank(id(b)), id(b))));
    factors
}

/// Whether a factor changes the machine, not the filesystem or the workload.
pub fn is_machine_factor(id: &str) -> bool {
    !id.starts_with(SETTING_PREFIX) && BUILT_IN.iter().all(|factor| factor.id != id)
}

/// The level of a factor that a plan does not name. Empty for all factors except some built-in ones.
pub fn default_level(id: &str) -> &'static str {
    BUILT_IN.iter().find(|factor| factor.id == id).map_or("", |factor| factor.default)
}

/// Checks that a name is the name of one of these factors, or of a setting (`set.journal`). Resolving the plan later checks
/// whether its workload has the setting.
///
/// # Errors
/// No factor has this name.
pub fn check_name(id: &str, factors: &[FactorDef]) -> Result<(), UnknownName> {
    let is_setting = id.strip_prefix(SETTING_PREFIX).is_some_and(|setting| !setting.is_empty());
    if is_setting { Ok(()) } else { find(id, factors).map(drop) }
}

/// Finds a factor by its name.
///
/// # Errors
/// No factor has this name.
pub fn find<'a>(id: &str, factors: &'a [FactorDef]) -> Result<&'a FactorDef, UnknownName> {
    names::find_by_id("factor", id, factors, |factor| factor.id)
}

/// Parses a level with `parse`; None for an empty level.
///
/// # Errors
/// `parse` returned None. The message names the kind of level and shows its `syntax`.
fn parse_level<T>(
    level: &str,
    kind: &str,
    syntax: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    if level.is_empty() {
        return Ok(None);
    }
    parse(level).map(Some).ok_or_else(|| format!("invalid {kind} `{level}`; write {syntax}"))
}

/// The names of the settings that hold the number of clients of a workload.
pub(crate) const CLIENT_SETTINGS: [&str; 2] = [CLIENTS, "threads"];

/// Parses a level of [`CLIENTS`]. None for an empty level, which keeps the workload's own number.
///
/// # Errors
/// The level is not a number from 1 to 1024.
pub fn parse_client_count(level: &str) -> Result<Option<u32>, String> {
    let parse_count = |level: &str| level.parse().ok().filter(|clients| (1..=1024).contains(clients));
    parse_level(level, "number of clients", "a number from 1 to 1024", parse_count)
}

/// Whether these settings of a workload include a number of clients.
pub fn has_client_setting(settings: &Settings) -> bool {
    CLIENT_SETTINGS.iter().any(|id| settings.0.contains_key(*id))
}

/// Sets the number of clients in the settings.
pub fn set_client_count(settings: &mut Settings, clients: u32) {
    for id in CLIENT_SETTINGS {
        if let Some(value) = settings.0.get_mut(id) {
            let number = SettingValue::Int(i64::from(clients));
            *value = if matches!(value, SettingValue::List(_)) { SettingValue::List(vec![number]) } else { number };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variant_names_begin_with_the_filesystem_and_unlisted_factors_come_last_by_name() {
        let ids = vec!["read_ahead", "clients", "kernel", "aging", "fs", "journal"];
        assert_eq!(sorted_for_names(ids, |id| id), ["fs", "journal", "clients", "kernel", "aging", "read_ahead"]);
        assert_eq!((default_level(FS), default_level(JOURNAL), default_level("aging")), ("ext4", "", ""));
        assert!(
            is_machine_factor("aging")
                && is_machine_factor(JOURNAL)
                && !is_machine_factor(MKFS)
                && !is_machine_factor("set.files")
        );
    }

    #[test]
    fn set_client_count_replaces_a_number_or_a_list() {
        let list = SettingValue::List(vec![SettingValue::Int(1), SettingValue::Int(16)]);
        let mut settings = Settings([("threads".to_string(), list), ("bs".into(), SettingValue::Int(5))].into());
        assert!(has_client_setting(&settings));
        set_client_count(&mut settings, 4);
        assert_eq!(settings.0["threads"], SettingValue::List(vec![SettingValue::Int(4)]));
        assert_eq!(settings.0["bs"], SettingValue::Int(5));
        assert!(
            parse_client_count("0").is_err()
                && parse_client_count("many").is_err()
                && parse_client_count("5") == Ok(Some(5))
        );
    }
}
