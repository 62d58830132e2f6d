//! Creates a device-mapper device by ioctl, because guests do not contain dmsetup. The structures are those of
//! `linux/dm-ioctl.h`, version 4.

use fsarena_core::factor::faults::Faults;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::{fs::File, os::fd::AsRawFd};

const CONTROL: &str = "/dev/mapper/control";
const NAME: &[u8] = b"faults";
/// `DM_DEV_CREATE`.
const CREATE: u64 = 3;
/// `DM_TABLE_LOAD`.
const LOAD: u64 = 9;
/// `DM_DEV_SUSPEND`, which resumes a device if its flag is not set.
const RESUME: u64 = 6;
const SECTOR: u64 = 512;

/// The size of `struct dm_ioctl` in bytes, and the offsets of its device number and of its name.
const HEAD: usize = 312;
const DEVICE_AT: usize = 40;
const NAME_AT: usize = 48;

/// One line of a table: its start and length in sectors, the kind of target, and the arguments of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    start: u64,
    length: u64,
    kind: &'static str,
    words: String,
}

/// Makes a faulty device on top of a disk, and returns its path.
///
/// # Errors
/// Where the kernel refuses a request.
pub fn make(faults: Faults, disk: &Path, sectors: u64) -> Result<PathBuf> {
    let control = File::options().read(true).write(true).open(CONTROL)?;
    send_request(&control, CREATE, &[])?;
    send_request(&control, LOAD, &table(faults, &disk.to_string_lossy(), sectors)?)?;
    let device = send_request(&control, RESUME, &[])?;
    Ok(PathBuf::from(format!("/dev/dm-{}", device & 0xff)))
}

/// The table of a faulty device.
fn table(faults: Faults, disk: &str, sectors: u64) -> Result<Vec<Target>> {
    let whole = |kind, words| vec![Target { start: 0, length: sectors, kind, words }];
    let (start, end) = match faults {
        Faults::Delay { ms } => return Ok(whole("delay", format!("{disk} 0 {ms}"))),
        Faults::Flaky { up_s, down_s } => return Ok(whole("flakey", format!("{disk} 0 {up_s} {down_s}"))),
        Faults::Error { start, bytes } => (start / SECTOR, (start + bytes) / SECTOR),
    };
    if end > sectors {
        let size = sectors * SECTOR;
        return Err(Error::other(format!("the faulty range ends behind the device's {size} bytes")));
    }
    let part = |start, end: u64, kind, words| Target { start, length: end - start, kind, words };
    let good = |from, to| part(from, to, "linear", format!("{disk} {from}"));
    let mut table = vec![good(0, start), part(start, end, "error", String::new()), good(end, sectors)];
    table.retain(|target| target.length > 0);
    Ok(table)
}

/// Makes a request with the targets of a table. Returns the number of the device.
fn send_request(control: &File, request: u64, targets: &[Target]) -> Result<u64> {
    let mut bytes = request_bytes(targets);
    let number = 0xC000_0000 | (HEAD as u64) << 16 | 0xFD << 8 | request;
    // SAFETY: the buffer is as long as its head says, and the kernel copies it, so it needs no alignment.
    if unsafe { libc::ioctl(control.as_raw_fd(), number as libc::Ioctl, bytes.as_mut_ptr()) } < 0 {
        let error = Error::last_os_error();
        return Err(Error::other(format!("the device mapper refused request {request}: {error}")));
    }
    let device = bytes[DEVICE_AT..DEVICE_AT + 8].try_into().map_err(Error::other)?;
    Ok(u64::from_ne_bytes(device))
}

fn request_bytes(targets: &[Target]) -> Vec<u8> {
    let mut specs = Vec::new();
    for target in targets {
        let words = [target.words.as_bytes(), b"\0"].concat();
        let next = (40 + words.len()).next_multiple_of(8);
        let begin = specs.len();
        specs.extend([target.start, target.length].map(u64::to_ne_bytes).concat());
        specs.extend([0, next as u32].map(u32::to_ne_bytes).concat());
        specs.extend(target.kind.as_bytes());
        specs.resize(begin + 40, 0);
        specs.extend(words);
        specs.resize(begin + next, 0);
    }
    // Version 4.0.0, the sizes of the request and of the header, the number of targets. All else but the name is zero.
    let numbers = [4, 0, 0, (HEAD + specs.len()) as u32, HEAD as u32, targets.len() as u32];
    let mut head = numbers.map(u32::to_ne_bytes).concat();
    head.resize(HEAD, 0);
    head[NAME_AT..NAME_AT + NAME.len()].copy_from_slice(NAME);
    [head, specs].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faulty_range_is_between_two_good_ones() {
        let faults = Faults::Error { start: 1024, bytes: 512 };
        let lines: Vec<_> = table(faults, "/dev/vda", 10)
            .unwrap()
            .into_iter()
            .map(|target| format!("{} {} {} {}", target.start, target.length, target.kind, target.words))
            .collect();
        assert_eq!(lines, ["0 2 linear /dev/vda 0", "2 1 error ", "3 7 linear /dev/vda 3"]);
        assert!(table(faults, "/dev/vda", 2).is_err());
    }

    #[test]
    fn a_request_has_the_layout_of_the_kernel() {
        assert_eq!(HEAD, 312);
        let bytes = request_bytes(&table(Faults::Delay { ms: 5 }, "/dev/vda", 8).unwrap());
        assert_eq!(bytes.len(), 312 + 40 + "/dev/vda 0 5\0".len().next_multiple_of(8));
        assert_eq!(&bytes[48..54], NAME);
        assert_eq!(&bytes[312 + 24..312 + 29], b"delay");
        assert_eq!(&bytes[352..365], b"/dev/vda 0 5\0");
    }
}
