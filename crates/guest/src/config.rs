//! The config of a guest: a file at the end of its initramfs.

use crate::host_tree::HostTree;
use fsarena_core::factor::device::{DeviceFault, Raid};
use fsarena_sys::links::{LINKS, LinkDef};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The path of the config in the guest.
pub const CONFIG_PATH: &str = "/config.json";

/// The text that a guest prints on its console in a trial boot.
pub const WORKS_MESSAGE: &str = "fsarena: this kernel works";

/// The message of a guest that is ready for its machine to be saved.
pub const READY_MESSAGE: &str = "fsarena: ready";
/// The beginning of the message that the machine cannot be saved; the reason follows.
pub const NOT_READY_MESSAGE: &str = "fsarena: not ready: ";
/// The message of a guest that has found its config and disks.
pub const CONTINUING_MESSAGE: &str = "fsarena: going on";
/// The content of the config file until the machine is saved.
pub const PLACEHOLDER_CONFIG: &[u8] = b"-";

/// The name of the file in QEMU's `fw_cfg` that has the config of a guest whose machine was saved after its boot. The config at the
/// end of its initramfs has [`GuestConfig::config_follows`].
pub(crate) const FW_CFG_NAME: &str = "opt/fsarena/config";

/// The work of a guest.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GuestConfig {
    /// Whether it only prints [`WORKS_MESSAGE`] on its console and ends.
    #[serde(rename = "trial")]
    pub is_trial: bool,
    /// Whether this config is only for the boot. The guest then waits until its machine is saved, and reads the config for its work
    /// from QEMU's `fw_cfg`.
    #[serde(rename = "later")]
    pub config_follows: bool,
    /// The files of the host that a guest copies into its memory before its machine is saved, so that its programs run without
    /// the host; None for other guests.
    pub host_tree: Option<HostTree>,
    /// The time of the host since 1970, for a guest that resumes from a saved machine, whose clock is old.
    #[serde(rename = "now")]
    pub host_time: Option<Duration>,
    /// Modules to load, in this order: names, with underscores.
    pub modules: Vec<String>,
    /// Where the guest writes its events.
    pub events: EventChannel,
    /// How the guest identifies its disks.
    #[serde(rename = "disks")]
    pub disk_lookup: DiskLookup,
    /// The devices between the disks and the filesystem under test.
    pub stack: StackConfig,
    /// The request to the agent, unparsed. The guest's boot does not read it.
    pub request: serde_json::Value,
}

/// The devices between the disks and the filesystem under test.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StackConfig {
    /// The number of disks besides the first.
    #[serde(rename = "more")]
    pub further_disk_count: usize,
    /// Whether there is a disk for the journal.
    #[serde(rename = "journal")]
    pub has_journal: bool,
    /// The md array that the disks under test form, if any.
    pub array: Option<Raid>,
    /// The faults of the device under test, if any.
    pub faults: Option<DeviceFault>,
    /// The names of the links over that device, from the disks up. A link is a device over another device, such as encryption
    /// ([`fsarena_sys::links`]).
    #[serde(default)]
    pub links: Vec<String>,
    /// The size in bytes of the device above the links.
    #[serde(default, rename = "bytes")]
    pub size_bytes: u64,
    /// The command that makes the filesystem, without the path of the device; empty if the disks have the filesystem already.
    #[serde(default)]
    pub mkfs: Vec<String>,
}

impl StackConfig {
    /// The modules that arrays and faults require.
    const MODULES: [&str; 6] = ["md_mod", "raid0", "raid1", "dm_mod", "dm_delay", "dm_flakey"];

    /// All modules that any stack requires, or that make one faster.
    pub fn all_modules() -> impl Iterator<Item = &'static str> {
        let links = LINKS.iter().flat_map(|link| link.modules.iter().chain(link.accelerators).copied());
        StackConfig::MODULES.into_iter().chain(links)
    }

    /// The links of this stack. Every name is in [`LINKS`], because the same program has written the config.
    pub fn links(&self) -> Vec<&'static LinkDef> {
        let find = |id: &String| LINKS.iter().find(|link| link.id == id);
        self.links.iter().filter_map(find).collect()
    }

    /// The modules that make this stack faster, if the kernel has them.
    pub fn accelerator_modules(&self) -> impl Iterator<Item = &'static str> {
        self.links().into_iter().flat_map(|link| link.accelerators.iter().copied())
    }

    /// The modules that this stack requires.
    pub fn modules(&self) -> Vec<&'static str> {
        let array = self.array.map_or(vec![], |array| vec!["md_mod", array.profile()]);
        let faults = match self.faults {
            None => vec![],
            Some(DeviceFault::Delay { .. }) => vec!["dm_mod", "dm_delay"],
            Some(DeviceFault::Flaky { .. }) => vec!["dm_mod", "dm_flakey"],
            Some(DeviceFault::Error { .. }) => vec!["dm_mod"],
        };
        let links = self.links().into_iter().flat_map(|link| link.modules.iter().copied()).collect();
        [array, faults, links].concat()
    }
}

/// The channel for the events of a guest.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventChannel {
    /// A virtio serial port of this name.
    Port(String),
    /// An I/O port of this number, which takes a byte at a time and completes at once, so that the speed of the host
    /// has no effect on the guest.
    #[serde(rename = "io")]
    IoPort(u64),
    /// The console.
    #[default]
    Console,
}

/// How the guest identifies its disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskLookup {
    /// By their virtio serial numbers, because the order of their names is not predictable.
    #[default]
    BySerial,
    /// `pmem0`, `pmem1`: disks in memory, which exist from the start, in the order of the command line.
    #[serde(rename = "memory")]
    InMemory,
}

/// The serial number of the disk with the filesystem under test.
pub const TEST_DISK: &str = "test";
/// Further disks of an array under test, by their numbers from 1: `test1`.
pub fn member_disk(number: usize) -> String {
    format!("{TEST_DISK}{number}")
}
/// The disk of the journal.
pub const JOURNAL_DISK: &str = "journal";
/// The serial number of the source disk, which has the inputs of tasks. Tasks also copy to it.
pub const SOURCE_DISK: &str = "other";
/// The virtio serial port of the terminal of a shell.
pub const TERMINAL_PORT: &str = "fsarena.terminal";
