//! What a guest is told when it is booted: a file at the end of its initramfs.

use serde::{Deserialize, Serialize};

/// Where the guest finds its orders.
pub const ORDERS: &str = "/orders.json";

/// What a guest has to do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Orders {
    /// Modules to load, in this order: names, with underscores.
    pub modules: Vec<String>,
    /// Where its words go.
    pub voice: Voice,
    /// How its disks are told apart.
    pub disks: Disks,
    /// What is asked of the agent, as it is. The guest's boot does not read it.
    pub request: serde_json::Value,
}

/// Where a guest's words go.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Voice {
    /// A virtio serial port of this name.
    Port(String),
    /// An I/O port of this number, which takes a byte at a time and answers at once: nothing of the host's pace
    /// reaches the guest.
    Io(u64),
    /// A file of this name in a directory of the host, which User Mode Linux mounts.
    Hostfs {
        /// The directory.
        dir: String,
        /// The file in it.
        file: String,
    },
    /// The console.
    #[default]
    Console,
}

/// How disks are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disks {
    /// By the serial number that virtio gives them: their names follow an order of their own.
    #[default]
    BySerial,
    /// `ubda`, `ubdb`, in the order of the command line.
    Ubd,
    /// `pmem0`, `pmem1`: memory that is there from the beginning, in the order of the command line.
    Memory,
}

/// The disk that carries the filesystem under test.
pub const TEST: &str = "test";
/// The disk that tasks copy from and to.
pub const OTHER: &str = "other";
