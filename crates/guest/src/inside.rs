//! The guest's own side: what `/init` does before and after the agent. No program runs in a guest but this one, so
//! everything is a system call.

mod array;
pub(crate) mod fw_cfg;
mod later;
mod mapper;

use crate::config::{CONFIG, Disks, EventChannel, GuestConfig, JOURNAL, OTHER, Stack, TEST, WORKS, member};
use crate::packing::module_path;
use rustix::mount::MountFlags;
use rustix::system::RebootCommand;
use std::fs::File;
use std::io::{Error, Result, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long disks and ports are waited for: drivers find them in threads of their own.
const DEVICES: Duration = Duration::from_secs(20);
/// Where the directory of the host is mounted.
const HOST: &str = "/host";

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
    let (disks, journal, other) = match config.disks {
        Disks::Ubd => {
            let further = (0..more).map(|number| ubd(number + 2));
            let disks = std::iter::once(ubd(0)).chain(further).collect::<Result<_>>()?;
            (disks, apart.then(|| ubd(more + 2)).transpose()?, ubd(1)?)
        }
        Disks::BySerial => {
            let further = (1..=more).map(|number| by_serial(&member(number)));
            let disks = std::iter::once(by_serial(TEST)).chain(further).collect::<Result<_>>()?;
            (disks, apart.then(|| by_serial(JOURNAL)).transpose()?, by_serial(OTHER)?)
        }
        Disks::Memory => {
            let [test, other] = ["/dev/pmem0", "/dev/pmem1"].map(|path| wait_for(|| there(path), path));
            // Enables the counters of written sectors. Where the kernel cannot, the probe adds a note.
            let _ = std::fs::write("/sys/block/pmem0/queue/iostats", "1");
            (vec![test?], None, other?)
        }
    };
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
            Some(array) => wait_for_made(array::assemble(array, &self.disks)?)?,
            None => self.disks[0].clone(),
        };
        match stack.faults {
            Some(faults) => wait_for_made(mapper::make(faults, &below, sectors(&below)?)?),
            None => Ok(below),
        }
    }
}

/// The size of a device in sectors of 512 bytes.
fn sectors(device: &Path) -> Result<u64> {
    let size = Path::new("/sys/block").join(device.file_name().unwrap_or_default()).join("size");
    std::fs::read_to_string(size)?.trim().parse().map_err(Error::other)
}

fn wait_for_made(device: PathBuf) -> Result<PathBuf> {
    wait_for(|| Some(device.clone()).filter(|device| device.exists()), &device.display().to_string())
}

/// A disk of User Mode Linux, by its number: `/dev/ubda` is 0.
fn ubd(number: usize) -> Result<PathBuf> {
    let path = format!("/dev/ubd{}", char::from(b'a' + number as u8));
    wait_for(|| there(&path), &path)
}

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

fn mount(kind: &str, target: &str, source: &str, data: &str) -> Result<()> {
    let data = std::ffi::CString::new(data)?;
    match rustix::mount::mount(source, target, kind, MountFlags::empty(), data.as_c_str()) {
        // The kernel has mounted it by itself.
        Err(rustix::io::Errno::BUSY) => Ok(()),
        mounted => mounted.map_err(|error| Error::other(format!("mounting {kind} on {target}: {error}"))),
    }
}

fn load(name: &str) -> Result<()> {
    let file = File::open(module_path(name))?;
    match rustix::system::finit_module(&file, c"", 0) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        loaded => loaded.map_err(|error| Error::other(format!("loading module {name}: {error}"))),
    }
}

fn events(events: &EventChannel) -> Result<Box<dyn Write>> {
    match events {
        EventChannel::Console => Ok(Box::new(std::io::stdout())),
        EventChannel::Port(name) => {
            let port = wait_for(|| port(name), name)?;
            Ok(Box::new(File::options().write(true).open(port)?))
        }
        EventChannel::Io(number) => Ok(Box::new(Io(File::options().write(true).open("/dev/port")?, *number))),
        EventChannel::Hostfs { dir, file } => {
            mount("hostfs", HOST, "none", dir)?;
            let file = File::options().append(true).open(Path::new(HOST).join(file))?;
            Ok(Box::new(Synced(file)))
        }
    }
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

/// A file of the host: what is written to it has to get there now.
struct Synced(File);

impl Write for Synced {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.0.sync_data()
    }
}

fn there(path: &str) -> Option<PathBuf> {
    Some(PathBuf::from(path)).filter(|path| path.exists())
}

/// The virtio serial port of a name.
fn port(name: &str) -> Option<PathBuf> {
    named("/sys/class/virtio-ports", "name", name)
}

/// The disk of a serial number.
fn by_serial(serial: &str) -> Result<PathBuf> {
    wait_for(|| named("/sys/block", "serial", serial), &format!("a disk with the serial number {serial}"))
}

/// The device whose attribute has a value.
fn named(class: &str, attribute: &str, value: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(class).ok()?.flatten();
    let is = |dir: &Path| {
        std::fs::read_to_string(dir.join(attribute))
            .is_ok_and(|text| text.trim_end_matches(['\n', '\0']) == value)
    };
    let found = entries.map(|entry| entry.path()).find(|dir| is(dir))?;
    there(&format!("/dev/{}", found.file_name()?.to_str()?))
}

fn wait_for(look: impl Fn() -> Option<PathBuf>, what: &str) -> Result<PathBuf> {
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
