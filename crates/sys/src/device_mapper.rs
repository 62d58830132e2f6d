//! Makes devices of the device mapper by ioctl, because guests and some machines have no dmsetup. The structures are those of
//! `linux/dm-ioctl.h`, version 4.

use crate::undo::{Journal, UndoGuard, UndoStep};
use crate::wait::retry;
use fsarena_core::factor::device::Faults;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs::File, os::fd::AsRawFd};

const CONTROL: &str = "/dev/mapper/control";
/// `DM_DEV_CREATE`.
const CREATE: u64 = 3;
/// `DM_DEV_REMOVE`.
const REMOVE: u64 = 4;
/// `DM_DEV_STATUS`.
const STATUS: u64 = 7;
/// `DM_GET_TARGET_VERSION`, which loads the module of a target.
const TARGET_VERSION: u64 = 17;
/// `DM_TABLE_LOAD`.
const LOAD: u64 = 9;
/// `DM_DEV_SUSPEND`, which resumes a device if its flag is not set.
const SUSPEND: u64 = 6;
/// `DM_TARGET_MSG`.
const MESSAGE: u64 = 14;
/// `DM_SUSPEND_FLAG`.
const SUSPEND_FLAG: u32 = 1 << 1;
/// The bytes of a sector, the unit of tables.
pub const SECTOR_BYTES: u64 = 512;

/// The size of `struct dm_ioctl` in bytes, and the offsets of its flags, its device number and its name.
const HEADER_BYTES: usize = 312;
const FLAGS_AT: usize = 28;
const DEVICE_AT: usize = 40;
const NAME_AT: usize = 48;
/// The offset of its UUID, and the length of that field.
const UUID_AT: usize = 176;
const UUID_BYTES: usize = 128;
/// How often fsarena tries to remove a device: udev may have it open.
const REMOVE_ATTEMPTS: u32 = 100;

/// One line of a table: its start and length in sectors, the kind of target, and the arguments of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The first sector.
    pub start: u64,
    /// The number of sectors.
    pub length: u64,
    /// The kind of target: `linear`, `crypt`.
    pub kind: &'static str,
    /// The arguments of the target.
    pub arguments: String,
}

impl Target {
    /// The target of a table that has only one, for a whole device of this many sectors.
    pub fn whole(sectors: u64, kind: &'static str, arguments: String) -> Target {
        Target { start: 0, length: sectors, kind, arguments }
    }
}

/// The device mapper of this kernel. Dropping it removes the devices that are in its undo journal, the last first.
#[derive(Debug)]
pub struct DeviceMapper {
    control: File,
    journal: Option<Journal>,
    guards: Mutex<Vec<UndoGuard>>,
}

/// Whether this kernel has the device mapper and this process may use it.
pub fn is_supported() -> bool {
    open_control().is_ok()
}

fn open_control() -> Result<File> {
    File::options().read(true).write(true).open(CONTROL)
}

impl DeviceMapper {
    /// Opens the control device. With a journal, fsarena writes the undo step of each device to it before it makes the device.
    /// Without one the devices stay.
    ///
    /// # Errors
    /// The kernel has no device mapper, or this process may not use it.
    pub fn open(journal: Option<&Journal>) -> Result<DeviceMapper> {
        let opened = open_control();
        let control = opened.map_err(|error| Error::other(format!("opening {CONTROL}: {error}")))?;
        Ok(DeviceMapper { control, journal: journal.cloned(), guards: Mutex::default() })
    }

    /// Makes a device with a table, and returns its path.
    ///
    /// # Errors
    /// The kernel refuses the device or the table.
    pub fn make(&self, name: &str, table: &[Target]) -> Result<PathBuf> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let uuid = format!("FSARENA-{}-{}", std::process::id(), now.as_nanos());
        if let Some(journal) = &self.journal {
            let undo = UndoStep::RemoveMapped { name: name.into(), uuid: uuid.clone() };
            let guard = journal.note(undo).map_err(Error::other)?;
            self.guards.lock().expect("no thread panics with it").push(guard);
        }
        let mut bytes = request_bytes(name, 0, 0, &[]);
        bytes[UUID_AT..UUID_AT + uuid.len()].copy_from_slice(uuid.as_bytes());
        send_request(&self.control, CREATE, &mut bytes)?;
        self.replace_table(name, table)
    }

    /// Removes the devices that are in its undo journal, the last first.
    ///
    /// # Errors
    /// A device is still in use; it stays in the journal.
    pub fn remove_all(&self) -> std::result::Result<(), crate::Error> {
        let mut guards = self.guards.lock().expect("no thread panics with it");
        while let Some(guard) = guards.pop() {
            guard.undo()?;
        }
        Ok(())
    }

    /// Whether the kernel has a target; loads its module if necessary. True before Linux 5.6, which cannot report it.
    pub fn has_target(&self, kind: &str) -> bool {
        let mut bytes = request_bytes(kind, 0, 0, &[0; 256]);
        match send_request(&self.control, TARGET_VERSION, &mut bytes) {
            Err(error) => error.raw_os_error().is_some_and(|code| code == libc::ENOTTY),
            Ok(_) => true,
        }
    }

    /// Makes a device of a part of `disk`, and returns its path; `start` and `length` are in sectors.
    ///
    /// # Errors
    /// The kernel refuses the device.
    pub fn make_part(&self, name: &str, disk: &Path, start: u64, length: u64) -> Result<PathBuf> {
        self.make(name, &[Target::whole(length, "linear", format!("{} {start}", disk.display()))])
    }

    /// Replaces the table of a device, and returns its path.
    ///
    /// # Errors
    /// The kernel refuses the table.
    pub fn replace_table(&self, name: &str, table: &[Target]) -> Result<PathBuf> {
        self.request(LOAD, name, 0, table.len(), &table_bytes(table))?;
        self.resume(name)
    }

    /// Suspends a device: waits for the requests in flight, and holds back later ones.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn suspend(&self, name: &str) -> Result<()> {
        self.request(SUSPEND, name, SUSPEND_FLAG, 0, &[]).map(drop)
    }

    /// Resumes a device, and returns its path.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn resume(&self, name: &str) -> Result<PathBuf> {
        let device = self.request(SUSPEND, name, 0, 0, &[])?;
        Ok(PathBuf::from(format!("/dev/dm-{}", device & 0xff)))
    }

    /// Sends a message to the target at the beginning of a device.
    ///
    /// # Errors
    /// The target refuses the message.
    pub fn send_message(&self, name: &str, text: &str) -> Result<()> {
        self.request(MESSAGE, name, 0, 0, &message_bytes(text)).map(drop)
    }

    /// Makes a request with these flags, this number of targets, and the bytes `payload` after the header. Returns the number of
    /// the device.
    fn request(&self, request: u64, name: &str, flags: u32, targets: usize, payload: &[u8]) -> Result<u64> {
        let mut bytes = request_bytes(name, flags, targets, payload);
        send_request(&self.control, request, &mut bytes).map_err(|error| {
            Error::other(format!("the device mapper refused request {request} for {name}: {error}"))
        })?;
        let device = bytes[DEVICE_AT..DEVICE_AT + 8].try_into().map_err(Error::other)?;
        Ok(u64::from_ne_bytes(device))
    }
}

impl Drop for DeviceMapper {
    fn drop(&mut self) {
        // A device that cannot be removed stays in the journal.
        let _ = self.remove_all();
    }
}

/// Makes a request; the kernel answers in the same bytes.
fn send_request(control: &File, request: u64, bytes: &mut [u8]) -> Result<()> {
    let ioctl_number = 0xC000_0000 | (HEADER_BYTES as u64) << 16 | 0xFD << 8 | request;
    // SAFETY: the buffer has the length in its head, and the kernel copies it, so it needs no alignment.
    match unsafe { libc::ioctl(control.as_raw_fd(), ioctl_number as libc::Ioctl, bytes.as_mut_ptr()) } {
        0.. => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// Whether a device with this name and UUID exists. False without a device mapper.
///
/// # Errors
/// The kernel refuses the request.
pub(crate) fn exists(name: &str, uuid: &str) -> std::result::Result<bool, crate::Error> {
    if !Path::new(CONTROL).exists() {
        return Ok(false);
    }
    let control = match open_control() {
        // The kernel has no driver for the control device.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => return Ok(false),
        control => control.map_err(crate::Error::io("opening", CONTROL))?,
    };
    let mut bytes = request_bytes(name, 0, 0, &[]);
    match send_request(&control, STATUS, &mut bytes) {
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(false),
        done => {
            done.map_err(crate::Error::io("looking for a device by", CONTROL))?;
            let found_uuid = bytes[UUID_AT..UUID_AT + UUID_BYTES].split(|byte| *byte == 0).next();
            Ok(found_uuid == Some(uuid.as_bytes()))
        }
    }
}

/// Removes the device of this name and UUID; succeeds if it is gone.
pub(crate) fn remove(name: &str, uuid: &str) -> std::result::Result<(), crate::Error> {
    if !exists(name, uuid)? {
        return Ok(());
    }
    let control = open_control().map_err(crate::Error::io("opening", CONTROL))?;
    let is_busy = |error: &Error| error.kind() == std::io::ErrorKind::ResourceBusy;
    let removed =
        retry(REMOVE_ATTEMPTS, is_busy, || send_request(&control, REMOVE, &mut request_bytes(name, 0, 0, &[])));
    removed.map_err(crate::Error::io("removing a device of", CONTROL))
}

/// Makes a faulty device on top of a disk, and returns its path.
///
/// # Errors
/// The kernel refuses a request.
pub fn make_faulty(faults: Faults, disk: &Path, sectors: u64) -> Result<PathBuf> {
    DeviceMapper::open(None)?.make("faults", &faulty_table(faults, &disk.to_string_lossy(), sectors)?)
}

/// The table of a faulty device.
fn faulty_table(faults: Faults, disk: &str, sectors: u64) -> Result<Vec<Target>> {
    let whole = |kind, arguments| vec![Target::whole(sectors, kind, arguments)];
    let (start, end) = match faults {
        Faults::Delay { ms } => return Ok(whole("delay", format!("{disk} 0 {ms}"))),
        Faults::Flaky { up_s, down_s } => return Ok(whole("flakey", format!("{disk} 0 {up_s} {down_s}"))),
        Faults::Error { start, bytes } => (start / SECTOR_BYTES, (start + bytes) / SECTOR_BYTES),
    };
    if end > sectors {
        let size = sectors * SECTOR_BYTES;
        return Err(Error::other(format!("the faulty range ends behind the device's {size} bytes")));
    }
    let target = |start, end: u64, kind, arguments| Target { start, length: end - start, kind, arguments };
    let good = |from, to| target(from, to, "linear", format!("{disk} {from}"));
    let mut table = vec![good(0, start), target(start, end, "error", String::new()), good(end, sectors)];
    table.retain(|target| target.length > 0);
    Ok(table)
}

/// The targets of a table as `struct dm_target_spec`, each followed by its arguments.
fn table_bytes(table: &[Target]) -> Vec<u8> {
    let mut specs = Vec::new();
    for target in table {
        let arguments = [target.arguments.as_bytes(), b"\0"].concat();
        let next = (40 + arguments.len()).next_multiple_of(8);
        let begin = specs.len();
        specs.extend([target.start, target.length].map(u64::to_ne_bytes).concat());
        specs.extend([0, next as u32].map(u32::to_ne_bytes).concat());
        specs.extend(target.kind.as_bytes());
        specs.resize(begin + 40, 0);
        specs.extend(arguments);
        specs.resize(begin + next, 0);
    }
    specs
}

/// A message as `struct dm_target_msg`: the first sector of the target, and the text.
fn message_bytes(text: &str) -> Vec<u8> {
    [&0_u64.to_ne_bytes(), text.as_bytes(), b"\0"].concat()
}

/// A request: `struct dm_ioctl`, and the bytes `payload` after it.
fn request_bytes(name: &str, flags: u32, targets: usize, payload: &[u8]) -> Vec<u8> {
    // Version 4.0.0, the size of the request, the offset of `payload`, the number of targets.
    let numbers = [4, 0, 0, (HEADER_BYTES + payload.len()) as u32, HEADER_BYTES as u32, targets as u32];
    let mut head = numbers.map(u32::to_ne_bytes).concat();
    head.resize(HEADER_BYTES, 0);
    head[FLAGS_AT..FLAGS_AT + 4].copy_from_slice(&flags.to_ne_bytes());
    head[NAME_AT..NAME_AT + name.len()].copy_from_slice(name.as_bytes());
    [&head, payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faulty_range_is_between_two_good_ones() {
        let faults = Faults::Error { start: 1024, bytes: 512 };
        let lines: Vec<_> = faulty_table(faults, "/dev/vda", 10)
            .unwrap()
            .into_iter()
            .map(|target| format!("{} {} {} {}", target.start, target.length, target.kind, target.arguments))
            .collect();
        assert_eq!(lines, ["0 2 linear /dev/vda 0", "2 1 error ", "3 7 linear /dev/vda 3"]);
        assert!(faulty_table(faults, "/dev/vda", 2).is_err());
    }

    #[test]
    fn a_request_has_the_layout_of_the_kernel() {
        assert_eq!(HEADER_BYTES, 312);
        let table = faulty_table(Faults::Delay { ms: 5 }, "/dev/vda", 8).unwrap();
        let bytes = request_bytes("faults", SUSPEND_FLAG, table.len(), &table_bytes(&table));
        assert_eq!(bytes.len(), 312 + 40 + "/dev/vda 0 5\0".len().next_multiple_of(8));
        assert_eq!((&bytes[28..32], &bytes[48..54]), (&2_u32.to_ne_bytes()[..], &b"faults"[..]));
        assert_eq!(&bytes[312 + 24..312 + 29], b"delay");
        assert_eq!(&bytes[352..365], b"/dev/vda 0 5\0");
    }

    #[test]
    fn a_message_follows_its_sector() {
        assert_eq!(message_bytes("create_thin 0"), b"\0\0\0\0\0\0\0\0create_thin 0\0");
    }
}
