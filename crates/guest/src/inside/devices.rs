//! The devices of a guest: mounting, loading modules, finding disks and the way out for words, and the end.

use crate::{config::EventChannel, packing::module_path};
use rustix::{io::Errno, mount::MountFlags, system::RebootCommand};
use std::io::{Error, Result, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs::File, os::unix::fs::FileExt};

/// How long disks and ports are waited for: drivers find them in threads of their own.
const DEVICES: Duration = Duration::from_secs(20);

/// Ends the guest. Everything of it is lost but what is on its disks.
pub fn power_off() -> ! {
    rustix::fs::sync();
    // A machine that cannot power off is not rebooted either: its emulator was told to end then.
    for how in [RebootCommand::PowerOff, RebootCommand::Restart, RebootCommand::Halt] {
        let _ = rustix::system::reboot(how);
    }
    loop {
        std::thread::sleep(DEVICES);
    }
}

pub fn mount(kind: &str, target: &str, source: &str, data: &str) -> Result<()> {
    let data = std::ffi::CString::new(data)?;
    match rustix::mount::mount(source, target, kind, MountFlags::empty(), data.as_c_str()) {
        // The kernel has mounted it by itself.
        Err(Errno::BUSY) => Ok(()),
        mounted => mounted.map_err(|error| Error::other(format!("mounting {kind} on {target}: {error}"))),
    }
}

pub fn load(name: &str) -> Result<()> {
    match rustix::system::finit_module(&File::open(module_path(name))?, c"", 0) {
        Err(Errno::EXIST) => Ok(()),
        loaded => loaded.map_err(|error| Error::other(format!("loading module {name}: {error}"))),
    }
}

pub fn events(events: &EventChannel) -> Result<Box<dyn Write>> {
    Ok(match events {
        EventChannel::Console => Box::new(std::io::stdout()),
        EventChannel::Port(name) => {
            let port = wait_for(name, || named("/sys/class/virtio-ports", "name", name))?;
            Box::new(File::options().write(true).open(port)?)
        }
        EventChannel::Io(number) => Box::new(Io(File::options().write(true).open("/dev/port")?, *number)),
    })
}

/// An I/O port: the kernel writes what follows the first byte to the ports that follow.
struct Io(File, u64);

impl Write for Io {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.write_at(&bytes[..bytes.len().min(1)], self.1)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A device, once it is there.
pub fn there(path: impl Into<PathBuf>) -> Result<PathBuf> {
    let path = path.into();
    wait_for(&path.display().to_string(), || Some(path.clone()).filter(|path| path.exists()))
}

/// The disk of a serial number.
pub fn by_serial(serial: &str) -> Result<PathBuf> {
    let what = format!("a disk with the serial number {serial}");
    wait_for(&what, || named("/sys/block", "serial", serial))
}

/// The device whose attribute has a value.
fn named(class: &str, attribute: &str, value: &str) -> Option<PathBuf> {
    let is = |dir: &PathBuf| {
        let text = std::fs::read_to_string(dir.join(attribute));
        text.is_ok_and(|text| text.trim_end_matches(['\n', '\0']) == value)
    };
    let found = std::fs::read_dir(class).ok()?.flatten().map(|entry| entry.path()).find(is)?;
    Some(Path::new("/dev").join(found.file_name()?)).filter(|path| path.exists())
}

/// Something, once it is there.
pub fn wait_for<T>(what: &str, look: impl Fn() -> Option<T>) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if begun.elapsed() > DEVICES {
            return Err(Error::other(format!("this kernel does not find {what}")));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The size of a device in sectors of 512 bytes.
pub fn sectors(device: &Path) -> Result<u64> {
    let size = Path::new("/sys/block").join(device.file_name().unwrap_or_default()).join("size");
    std::fs::read_to_string(size)?.trim().parse().map_err(Error::other)
}
