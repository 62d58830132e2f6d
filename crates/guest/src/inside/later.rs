//! A guest that boots before anybody knows what for. It gets as far as it can, says so, and waits: QEMU keeps the whole
//! machine at that point, and whoever begins with it finds orders and disks of its own.

use super::fw_cfg::{ORDERS_FILE, Ports};
use crate::orders::{Orders, Stack};
use crate::snapshot::{NOT_READY, READY};
use std::io::{Error, Result, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The driver whose disks are let go: only what is probed anew has the size of the disk that is there then.
const DRIVER: &str = "/sys/bus/virtio/drivers/virtio_blk";
/// How often orders are looked for.
const LOOK: Duration = Duration::from_millis(2);

/// Loads what it was told to, and waits for the orders: their modules are those that are not loaded yet. Where that is
/// not possible it says why, and ends the guest.
///
/// # Errors
/// Where it has no voice.
pub fn orders(first: &Orders) -> Result<Orders> {
    // Without the modules it may have none.
    let loaded: Result<()> = first.modules.iter().try_for_each(|module| super::load(module));
    let mut voice = super::voice(&first.voice)?;
    match loaded.and_then(|()| wait(&first.stack, &mut voice)) {
        Ok(mut orders) => {
            orders.modules.retain(|module| !first.modules.contains(module));
            Ok(orders)
        }
        Err(error) => {
            voice.write_all(format!("{NOT_READY}{error}\n").as_bytes())?;
            voice.flush()?;
            super::power_off()
        }
    }
}

fn wait(stack: &Stack, voice: &mut dyn Write) -> Result<Orders> {
    let ports = Ports::open()?;
    let disks = probed(2 + stack.more + usize::from(stack.journal))?;
    disks.iter().try_for_each(|disk| tell_driver("unbind", disk))?;
    voice.write_all(format!("{READY}\n").as_bytes())?;
    voice.flush()?;
    let orders: Orders = loop {
        // What is kept may be a machine in the midst of reading. What is no orders is looked at again.
        match ports.file(ORDERS_FILE).and_then(|text| serde_json::from_slice(&text).ok()) {
            Some(orders) => break orders,
            None => std::thread::sleep(LOOK),
        }
    };
    if let Some(now) = orders.now {
        set_clock(now)?;
    }
    disks.iter().try_for_each(|disk| tell_driver("bind", disk))?;
    Ok(orders)
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
    super::wait_for(|| names().map(|_| PathBuf::new()), "its disks")?;
    names().ok_or_else(|| Error::other("its disks come and go"))
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
