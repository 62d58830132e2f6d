//! The guest's own side: what `/init` does before and after the agent. No program runs in a guest but this one, so
//! everything is a system call.

mod array;
mod devices;
mod fw_cfg;
mod later;
mod mapper;

pub use devices::power_off;

use crate::config::{CONFIG, Disks, GuestConfig, JOURNAL, OTHER, Stack, TEST, WORKS, member};
use devices::{by_serial, events, load, mount, sectors, there};
use std::io::{Result, Write};
use std::path::{Path, PathBuf};

/// A guest that is ready to work.
pub struct Booted {
    /// What it was told.
    pub config: GuestConfig,
    /// Where its words go, one line at a time.
    pub events: Box<dyn Write>,
    /// The disks under test.
    pub disks: Vec<PathBuf>,
    /// The disk of the journal, where there is one.
    pub journal: Option<PathBuf>,
    /// The source disk.
    pub other: PathBuf,
}

/// Whether this process is the first of a guest that fsarena booted.
pub fn is_here() -> bool {
    std::process::id() == 1 && Path::new(CONFIG).exists()
}

/// Mounts what programs expect, loads modules, and finds disks and the way out.
///
/// # Errors
/// Where the kernel lacks something; the text says what.
pub fn boot() -> Result<Booted> {
    for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp")] {
        mount(kind, target, kind, "")?;
    }
    let mut config: GuestConfig = serde_json::from_slice(&std::fs::read(CONFIG)?)?;
    if config.trial {
        println!("{WORKS}");
        power_off();
    }
    if config.later {
        config = later::config(&config)?;
    }
    config.modules.iter().try_for_each(|module| load(module))?;
    let events = events(&config.events)?;
    let Stack { more, journal: apart, .. } = config.stack;
    // The order in which exact guests have them.
    let disk = |number: usize, name: &str| match config.disks {
        Disks::BySerial => by_serial(name),
        Disks::Memory => there(format!("/dev/pmem{number}")),
    };
    let mut disks = vec![disk(0, TEST)?];
    for number in 1..=more {
        disks.push(disk(number + 1, &member(number))?);
    }
    let journal = apart.then(|| disk(more + 2, JOURNAL)).transpose()?;
    let other = disk(1, OTHER)?;
    if config.disks == Disks::Memory {
        // Enables the counters of written sectors. Where the kernel cannot, the probe adds a note.
        let _ = std::fs::write("/sys/block/pmem0/queue/iostats", "1");
    }
    Ok(Booted { config, events, disks, journal, other })
}

impl Booted {
    /// Puts on the disks what is to lie between them and the filesystem. The device to mount.
    ///
    /// # Errors
    /// What the kernel does not take.
    pub fn stack(&self) -> Result<PathBuf> {
        let stack = &self.config.stack;
        let below = match stack.array {
            Some(array) => there(array::assemble(array, &self.disks)?)?,
            None => self.disks[0].clone(),
        };
        match stack.faults {
            Some(faults) => there(mapper::make(faults, &below, sectors(&below)?)?),
            None => Ok(below),
        }
    }
}
