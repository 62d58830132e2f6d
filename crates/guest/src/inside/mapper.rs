//! Creates a device-mapper device by ioctl: guests do not contain dmsetup. The structures are those of
//! `linux/dm-ioctl.h`, version 4.

use fsarena_core::factor::faults::Faults;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const CONTROL: &str = "/dev/mapper/control";
const NAME: &[u8] = b"faults";
/// `DM_DEV_CREATE`.
const CREATE: u64 = 3;
/// `DM_TABLE_LOAD`.
const LOAD: u64 = 9;
/// `DM_DEV_SUSPEND`, which without its flag resumes.
const RESUME: u64 = 6;
const SECTOR: u64 = 512;

/// `struct dm_ioctl`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    version: [u32; 3],
    data_size: u32,
    data_start: u32,
    target_count: u32,
    open_count: i32,
    flags: u32,
    event_nr: u32,
    padding: u32,
    dev: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
}

const HEAD: usize = size_of::<Head>();

/// One line of a table: where it begins and how long it is, in sectors, its target, and the target's words.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    start: u64,
    length: u64,
    kind: &'static str,
    words: String,
}

/// Makes a device over a disk that misbehaves. Where it is.
///
/// # Errors
/// What the kernel does not take.
pub fn make(faults: Faults, disk: &Path, sectors: u64) -> Result<PathBuf> {
    let control = File::options().read(true).write(true).open(CONTROL)?;
    call(&control, CREATE, &[])?;
    call(&control, LOAD, &table(faults, &disk.to_string_lossy(), sectors)?)?;
    let head = call(&control, RESUME, &[])?;
    Ok(PathBuf::from(format!("/dev/dm-{}", head.dev & 0xff)))
}

/// The table of a device that misbehaves.
fn table(faults: Faults, disk: &str, sectors: u64) -> Result<Vec<Target>> {
    let target = |start, length, kind, words| Target { start, length, kind, words };
    Ok(match faults {
        Faults::Delay { ms } => vec![target(0, sectors, "delay", format!("{disk} 0 {ms}"))],
        Faults::Flaky { up_s, down_s } => {
            vec![target(0, sectors, "flakey", format!("{disk} 0 {up_s} {down_s}"))]
        }
        Faults::Error { start, bytes } => {
            let (start, end) = (start / SECTOR, (start + bytes) / SECTOR);
            if end > sectors {
                let size = sectors * SECTOR;
                return Err(Error::other(format!("the faulty range ends behind the device's {size} bytes")));
            }
            let good = |from: u64, to: u64| target(from, to - from, "linear", format!("{disk} {from}"));
            let mut table = vec![good(0, start), target(start, end - start, "error", String::new())];
            table.push(good(end, sectors));
            table.retain(|target| target.length > 0);
            table
        }
    })
}

/// One request, with the targets of its table.
fn call(control: &File, request: u64, targets: &[Target]) -> Result<Head> {
    let mut bytes = request_bytes(targets);
    let number = 0xC000_0000 | (HEAD as u64) << 16 | 0xFD << 8 | request;
    // SAFETY: the buffer is as long as its head says, and aligned by nothing stricter than the kernel's copying.
    if unsafe { libc::ioctl(control.as_raw_fd(), number as libc::Ioctl, bytes.as_mut_ptr()) } < 0 {
        let error = Error::last_os_error();
        return Err(Error::other(format!("the device mapper refused request {request}: {error}")));
    }
    // SAFETY: the buffer begins with a head, which is plain data.
    Ok(unsafe { bytes.as_ptr().cast::<Head>().read_unaligned() })
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
    let mut name = [0; 128];
    name[..NAME.len()].copy_from_slice(NAME);
    let head = Head {
        version: [4, 0, 0],
        data_size: (HEAD + specs.len()) as u32,
        data_start: HEAD as u32,
        target_count: targets.len() as u32,
        open_count: 0,
        flags: 0,
        event_nr: 0,
        padding: 0,
        dev: 0,
        name,
        uuid: [0; 129],
        data: [0; 7],
    };
    // SAFETY: the head is plain data without padding.
    let head = unsafe { std::slice::from_raw_parts((&raw const head).cast::<u8>(), HEAD) };
    [head, &specs].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_fails_is_between_two_that_do_not() {
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
    fn a_request_is_laid_out_as_the_kernel_reads_it() {
        assert_eq!(HEAD, 312);
        let bytes = request_bytes(&table(Faults::Delay { ms: 5 }, "/dev/vda", 8).unwrap());
        assert_eq!(bytes.len(), 312 + 40 + "/dev/vda 0 5\0".len().next_multiple_of(8));
        assert_eq!(&bytes[48..54], NAME);
        assert_eq!(&bytes[312 + 24..312 + 29], b"delay");
        assert_eq!(&bytes[352..365], b"/dev/vda 0 5\0");
    }
}
