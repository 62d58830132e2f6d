//! A guest that boots before it has a config or disks. It boots as far as it can, reports that, and waits; QEMU saves
//! the whole machine at that point. Each guest that resumes from the saved state then reads its own config and disks.

use super::devices::{events, load, power_off, wait_for};
use super::fw_cfg::Ports;
use crate::config::{CONFIG_FILE, GOING_ON, GuestConfig, NOT_READY, READY, Stack};
use std::io::{Error, Result, Write};
use std::{path::Path, time::Duration};

/// The driver whose disks are let go: only what is probed anew has the size of the disk that is there then.
const DRIVER: &str = "/sys/bus/virtio/drivers/virtio_blk";
/// How often a guest looks for its config.
const LOOK: Duration = Duration::from_millis(2);

/// Loads what it was told to, and waits for the config: its modules are those that are not loaded yet. Where its state
/// cannot be kept it says why, and ends the guest.
///
/// # Errors
/// Where it has no event channel, or cannot continue.
pub fn config(first: &GuestConfig) -> Result<GuestConfig> {
    // Without the modules it may have none.
    let loaded: Result<()> = first.modules.iter().try_for_each(|module| load(module));
    let mut out = events(&first.events)?;
    let mut say = |words: &str| out.write_all(format!("{words}\n").as_bytes()).and_then(|()| out.flush());
    let (ports, disks) = match loaded.and_then(|()| let_go(&first.stack)) {
        Ok(ready) => ready,
        Err(error) => {
            say(&format!("{NOT_READY}{error}"))?;
            power_off()
        }
    };
    say(READY)?;
    let mut config = wait(&ports);
    if let Some(now) = config.now {
        set_clock(now)?;
    }
    disks.iter().try_for_each(|disk| tell_driver("bind", disk))?;
    // From here on it is the cell that fails.
    say(GOING_ON)?;
    config.modules.retain(|module| !first.modules.contains(module));
    Ok(config)
}

/// Lets the disks go. The ports that the config comes by, and the disks.
fn let_go(stack: &Stack) -> Result<(Ports, Vec<String>)> {
    let ports =
        Ports::open().map_err(|error| Error::other(format!("its kernel gives no I/O ports: {error}")))?;
    let disks = probed(2 + stack.more + usize::from(stack.journal))?;
    disks.iter().try_for_each(|disk| tell_driver("unbind", disk))?;
    Ok((ports, disks))
}

fn wait(ports: &Ports) -> GuestConfig {
    loop {
        // QEMU may have saved the machine while it was reading: if the text is not a config, read again.
        match ports.file(CONFIG_FILE).and_then(|text| serde_json::from_slice(&text).ok()) {
            Some(config) => return config,
            None => std::thread::sleep(LOOK),
        }
    }
}

/// The disks that the driver has, once it has all of them.
fn probed(count: usize) -> Result<Vec<String>> {
    let names = || -> Option<Vec<String>> {
        let entries = std::fs::read_dir(DRIVER).ok()?.flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let disks: Vec<String> = names.filter(|name| name.starts_with("virtio")).collect();
        // A disk that is still being probed has no directory yet.
        let ready = |disk: &String| Path::new(DRIVER).join(disk).join("block").exists();
        (disks.len() == count && disks.iter().all(ready)).then_some(disks)
    };
    wait_for("its disks", names)
}

fn tell_driver(word: &str, disk: &str) -> Result<()> {
    std::fs::write(Path::new(DRIVER).join(word), disk)
        .map_err(|error| Error::other(format!("{word} of the disk {disk}: {error}")))
}

/// The clock stood still while the machine was kept.
fn set_clock(now: Duration) -> Result<()> {
    let time = rustix::time::Timespec { tv_sec: now.as_secs() as i64, tv_nsec: now.subsec_nanos().into() };
    Ok(rustix::time::clock_settime(rustix::time::ClockId::Realtime, time)?)
}
