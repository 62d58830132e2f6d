//! Makes devices of the device mapper by ioctl, because guests and some machines have no dmsetup. The structures are those of
//! `linux/dm-ioctl.h`, version 4.

use crate::check_return;
use crate::undo::{Journal, UndoGuard, UndoStep};
use crate::wait::retry_while_busy;
use fsarena_core::factor::device::DeviceFault;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs::File, os::fd::AsRawFd};

/// The node through which the device mapper takes requests.
const CONTROL: &str = "/dev/mapper/control";

// The numbers of requests, by the kernel's names.
const DM_DEV_CREATE: u64 = 3;
const DM_DEV_REMOVE: u64 = 4;
/// Suspends a device; resumes it if [`DM_SUSPEND_FLAG`] is not set.
const DM_DEV_SUSPEND: u64 = 6;
const DM_DEV_STATUS: u64 = 7;
const DM_TABLE_LOAD: u64 = 9;
const DM_TARGET_MSG: u64 = 14;
/// Reports the version of a target, and loads its module first.
const DM_GET_TARGET_VERSION: u64 = 17;
const DM_SUSPEND_FLAG: u32 = 1 << 1;
/// The bytes of a sector, the unit of tables.
pub const SECTOR_BYTES: u64 = 512;

/// The size of `struct dm_ioctl` in bytes, and the offsets of its flags, its device number and its name.
const HEADER_BYTES: usize = 312;
const FLAGS_OFFSET: usize = 28;
const DEVICE_OFFSET: usize = 40;
const NAME_OFFSET: usize = 48;
/// The offset of its UUID, and the length of that field.
const UUID_OFFSET: usize = 176;
const UUID_BYTES: usize = 128;
/// The size of `struct dm_target_spec` in bytes.
const TARGET_SPEC_BYTES: usize = 40;

/// One line of the table of a mapped device, called a target: which sectors of the device it maps, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DmTarget {
    /// The first sector of the device that it maps.
    pub start: u64,
    /// The number of sectors.
    pub sectors: u64,
    /// The kind of target: `linear`, `crypt`.
    pub kind: &'static str,
    /// The arguments of the target.
    pub arguments: String,
}

impl DmTarget {
    /// The only target of a table, for a whole device of this number of sectors.
    pub fn whole(sectors: u64, kind: &'static str, arguments: String) -> DmTarget {
        DmTarget { start: 0, sectors, kind, arguments }
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
    pub fn make(&self, name: &str, table: &[DmTarget]) -> Result<PathBuf> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let uuid = format!("FSARENA-{}-{}", std::process::id(), now.as_nanos());
        if let Some(journal) = &self.journal {
            let undo = UndoStep::RemoveMapperDevice { name: name.into(), uuid: uuid.clone() };
            let guard = journal.record(undo).map_err(Error::other)?;
            self.guards.lock().expect("no thread panics while it holds the lock").push(guard);
        }
        let mut bytes = request_bytes(name, 0, 0, &[]);
        bytes[UUID_OFFSET..UUID_OFFSET + uuid.len()].copy_from_slice(uuid.as_bytes());
        send_request(&self.control, DM_DEV_CREATE, &mut bytes)?;
        self.replace_table(name, table)
    }

    /// Removes the devices that are in its undo journal, the last first.
    ///
    /// # Errors
    /// A device is still in use; it stays in the journal.
    pub fn remove_all(&self) -> std::result::Result<(), crate::Error> {
        let mut guards = self.guards.lock().expect("no thread panics while it holds the lock");
        while let Some(guard) = guards.pop() {
            guard.undo()?;
        }
        Ok(())
    }

    /// Whether the kernel has a target; loads its module if necessary. True before Linux 5.6, which cannot report it.
    pub fn has_target(&self, kind: &str) -> bool {
        let mut bytes = request_bytes(kind, 0, 0, &[0; 256]);
        match send_request(&self.control, DM_GET_TARGET_VERSION, &mut bytes) {
            Err(error) => error.raw_os_error().is_some_and(|code| code == libc::ENOTTY),
            Ok(_) => true,
        }
    }

    /// Makes a device of `sectors` sectors of `disk`, from the sector `start` on, and returns its path.
    ///
    /// # Errors
    /// The kernel refuses the device.
    pub fn make_part(&self, name: &str, disk: &Path, start: u64, sectors: u64) -> Result<PathBuf> {
        self.make(name, &[DmTarget::whole(sectors, "linear", format!("{} {start}", disk.display()))])
    }

    /// Replaces the table of a device, and returns its path.
    ///
    /// # Errors
    /// The kernel refuses the table.
    pub fn replace_table(&self, name: &str, table: &[DmTarget]) -> Result<PathBuf> {
        self.request(DM_TABLE_LOAD, name, 0, table.len(), &table_bytes(table))?;
        self.resume(name)
    }

    /// Suspends a device: waits for the requests in flight, and holds back later ones.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn suspend(&self, name: &str) -> Result<()> {
        self.request(DM_DEV_SUSPEND, name, DM_SUSPEND_FLAG, 0, &[]).map(drop)
    }

    /// Resumes a device, and returns its path.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn resume(&self, name: &str) -> Result<PathBuf> {
        let device_number = self.request(DM_DEV_SUSPEND, name, 0, 0, &[])?;
        Ok(PathBuf::from(format!("/dev/dm-{}", minor_number(device_number))))
    }

    /// Sends a message to the target at the beginning of a device.
    ///
    /// # Errors
    /// The target refuses the message.
    pub fn send_message(&self, name: &str, text: &str) -> Result<()> {
        self.request(DM_TARGET_MSG, name, 0, 0, &message_bytes(text)).map(drop)
    }

    /// Sends the request with this number (`DM_…`), with the bytes `payload` after its header. Returns the device number of the
    /// device, as the kernel encodes it.
    fn request(&self, number: u64, name: &str, flags: u32, target_count: usize, payload: &[u8]) -> Result<u64> {
        let mut bytes = request_bytes(name, flags, target_count, payload);
        send_request(&self.control, number, &mut bytes)
            .map_err(|error| Error::other(format!("the device mapper refused request {number} for {name}: {error}")))?;
        let device = bytes[DEVICE_OFFSET..DEVICE_OFFSET + 8].try_into().map_err(Error::other)?;
        Ok(u64::from_ne_bytes(device))
    }
}

impl Drop for DeviceMapper {
    fn drop(&mut self) {
        // A device that cannot be removed stays in the journal.
        let _ = self.remove_all();
    }
}

/// The minor number in a device number as the kernel encodes it (`huge_encode_dev`): the lowest 8 bits and those from 20 on.
fn minor_number(device_number: u64) -> u64 {
    device_number & 0xff | device_number >> 12 & 0xf_ff00
}

/// Sends the request with this number (`DM_…`); the kernel writes its response into the same bytes.
fn send_request(control: &File, number: u64, bytes: &mut [u8]) -> Result<()> {
    let ioctl_number = 0xC000_0000 | (HEADER_BYTES as u64) << 16 | 0xFD << 8 | number;
    // SAFETY: the buffer has the length in its header, and the kernel copies it, so it needs no alignment.
    check_return(unsafe { libc::ioctl(control.as_raw_fd(), ioctl_number as libc::Ioctl, bytes.as_mut_ptr()) })?;
    Ok(())
}

/// Whether a mapped device with this name and UUID exists. False without a device mapper.
///
/// # Errors
/// The kernel refuses the request.
pub(crate) fn device_exists(name: &str, uuid: &str) -> std::result::Result<bool, crate::Error> {
    if !Path::new(CONTROL).exists() {
        return Ok(false);
    }
    let control = match open_control() {
        // The kernel has no driver for the control device.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => return Ok(false),
        control => control.map_err(crate::Error::io("opening", CONTROL))?,
    };
    let mut bytes = request_bytes(name, 0, 0, &[]);
    match send_request(&control, DM_DEV_STATUS, &mut bytes) {
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(false),
        done => {
            done.map_err(crate::Error::io("looking for a device by", CONTROL))?;
            let found_uuid = bytes[UUID_OFFSET..UUID_OFFSET + UUID_BYTES].split(|byte| *byte == 0).next();
            Ok(found_uuid == Some(uuid.as_bytes()))
        }
    }
}

/// Removes the mapped device with this name and UUID; succeeds if it is gone.
///
/// # Errors
/// The device is still in use, or the kernel refuses the request.
pub(crate) fn remove_device(name: &str, uuid: &str) -> std::result::Result<(), crate::Error> {
    if !device_exists(name, uuid)? {
        return Ok(());
    }
    let control = open_control().map_err(crate::Error::io("opening", CONTROL))?;
    let remove = || send_request(&control, DM_DEV_REMOVE, &mut request_bytes(name, 0, 0, &[]));
    retry_while_busy(remove).map_err(crate::Error::io("removing a device of", CONTROL))
}

/// Makes a faulty device on top of a disk, and returns its path.
///
/// # Errors
/// The kernel refuses a request.
pub fn make_faulty(faults: DeviceFault, disk: &Path, sectors: u64) -> Result<PathBuf> {
    DeviceMapper::open(None)?.make("faults", &faulty_table(faults, &disk.to_string_lossy(), sectors)?)
}

/// The table of a faulty device.
fn faulty_table(faults: DeviceFault, disk: &str, sectors: u64) -> Result<Vec<DmTarget>> {
    let (start, end) = match faults {
        DeviceFault::Delay { ms } => return Ok(vec![DmTarget::whole(sectors, "delay", format!("{disk} 0 {ms}"))]),
        DeviceFault::Flaky { up_s, down_s } => {
            return Ok(vec![DmTarget::whole(sectors, "flakey", format!("{disk} 0 {up_s} {down_s}"))]);
        }
        DeviceFault::Error { start, bytes } => (start / SECTOR_BYTES, (start + bytes) / SECTOR_BYTES),
    };
    if end > sectors {
        let size = sectors * SECTOR_BYTES;
        return Err(Error::other(format!("the faulty range ends behind the device's {size} bytes")));
    }
    let mut table = vec![
        DmTarget { start: 0, sectors: start, kind: "linear", arguments: format!("{disk} 0") },
        DmTarget { start, sectors: end - start, kind: "error", arguments: String::new() },
        DmTarget { start: end, sectors: sectors - end, kind: "linear", arguments: format!("{disk} {end}") },
    ];
    table.retain(|target| target.sectors > 0);
    Ok(table)
}

/// The targets of a table as `struct dm_target_spec`, each followed by its arguments and padded to 8 bytes.
fn table_bytes(table: &[DmTarget]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for target in table {
        let arguments = [target.arguments.as_bytes(), b"\0"].concat();
        let entry_bytes = (TARGET_SPEC_BYTES + arguments.len()).next_multiple_of(8);
        let begin = bytes.len();
        bytes.extend([target.start, target.sectors].map(u64::to_ne_bytes).concat());
        bytes.extend([0, entry_bytes as u32].map(u32::to_ne_bytes).concat());
        bytes.extend(target.kind.as_bytes());
        bytes.resize(begin + TARGET_SPEC_BYTES, 0);
        bytes.extend(arguments);
        bytes.resize(begin + entry_bytes, 0);
    }
    bytes
}

/// A message as `struct dm_target_msg`: the first sector of the target, and the text.
fn message_bytes(text: &str) -> Vec<u8> {
    [&0_u64.to_ne_bytes(), text.as_bytes(), b"\0"].concat()
}

/// A request: `struct dm_ioctl`, and the bytes `payload` after it.
fn request_bytes(name: &str, flags: u32, target_count: usize, payload: &[u8]) -> Vec<u8> {
    // Version 4.0.0, the size of the request, the offset of `payload`, the number of targets.
    let numbers = [4, 0, 0, (HEADER_BYTES + payload.len()) as u32, HEADER_BYTES as u32, target_count as u32];
    let mut header = numbers.map(u32::to_ne_bytes).concat();
    header.resize(HEADER_BYTES, 0);
    header[FLAGS_OFFSET..FLAGS_OFFSET + 4].copy_from_slice(&flags.to_ne_bytes());
    header[NAME_OFFSET..NAME_OFFSET + name.len()].copy_from_slice(name.as_bytes());
    [&header, payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faulty_range_is_between_two_good_ones() {
        let faults = DeviceFault::Error { start: 1024, bytes: 512 };
        let lines: Vec<_> = faulty_table(faults, "/dev/vda", 10)
            .unwrap()
            .into_iter()
            .map(|target| format!("{} {} {} {}", target.start, target.sectors, target.kind, target.arguments))
            .collect();
        assert_eq!(lines, ["0 2 linear /dev/vda 0", "2 1 error ", "3 7 linear /dev/vda 3"]);
        assert!(faulty_table(faults, "/dev/vda", 2).is_err());
    }

    #[test]
    fn a_request_has_the_layout_of_the_kernel() {
        assert_eq!(HEADER_BYTES, 312);
        let table = faulty_table(DeviceFault::Delay { ms: 5 }, "/dev/vda", 8).unwrap();
        let bytes = request_bytes("faults", DM_SUSPEND_FLAG, table.len(), &table_bytes(&table));
        assert_eq!(bytes.len(), 312 + 40 + "/dev/vda 0 5\0".len().next_multiple_of(8));
        assert_eq!((&bytes[28..32], &bytes[48..54]), (&2_u32.to_ne_bytes()[..], &b"faults"[..]));
        assert_eq!(&bytes[312 + 24..312 + 29], b"delay");
        assert_eq!(&bytes[352..365], b"/dev/vda 0 5\0");
    }

    #[test]
    fn minor_numbers_above_255_are_decoded() {
        assert_eq!((minor_number(0xfd03), minor_number(0x0010_fd2c)), (3, 300));
    }

    #[test]
    fn a_message_follows_its_sector() {
        assert_eq!(message_bytes("create_thin 0"), b"\0\0\0\0\0\0\0\0create_thin 0\0");
    }
}
