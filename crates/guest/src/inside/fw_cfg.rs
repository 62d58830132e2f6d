//! QEMU's own way of handing files to a guest, by two I/O ports: docs/specs/fw_cfg.rst in QEMU. Other ways need a driver
//! that a kernel may not have, or end at a size that was read when it booted.

use std::io::{Error, Result};
use std::marker::PhantomData;

const SELECTOR: u16 = 0x510;
const DATA: u16 = 0x511;
/// The selector of the directory of files.
const DIRECTORY: u16 = 0x19;
/// A file in the directory: size, selector, two bytes of nothing, name; numbers in big-endian order.
const ENTRY: usize = 64;
const NAME_AT: usize = 8;

/// Both ports, open to this thread, which they cannot leave.
pub struct Ports(PhantomData<*const ()>);

impl Ports {
    /// Asks the kernel for them.
    ///
    /// # Errors
    /// Where it gives no ports to programs.
    pub fn open() -> Result<Ports> {
        if ports::open(SELECTOR, 2) { Ok(Ports(PhantomData)) } else { Err(Error::last_os_error()) }
    }

    /// The file of a name, where there is one.
    pub fn file(&self, name: &str) -> Option<Vec<u8>> {
        self.select(DIRECTORY);
        let count = u32::from_be_bytes(self.read(4).try_into().ok()?);
        let named = |entry: &Vec<u8>| {
            let text = entry[NAME_AT..].split(|byte| *byte == 0).next();
            text == Some(name.as_bytes())
        };
        let entry = (0..count).map(|_| self.read(ENTRY)).find(named)?;
        let size = u32::from_be_bytes(entry[..4].try_into().ok()?);
        self.select(u16::from_be_bytes([entry[4], entry[5]]));
        Some(self.read(size as usize))
    }

    /// Selects what is read next, from its beginning.
    fn select(&self, what: u16) {
        ports::write(self, SELECTOR, what);
    }

    fn read(&self, count: usize) -> Vec<u8> {
        (0..count).map(|_| ports::read(self, DATA)).collect()
    }
}

/// Whoever has [`Ports`] has opened these, and they reach nothing but QEMU.
#[cfg(target_arch = "x86_64")]
mod ports {
    use super::Ports;
    use std::arch::asm;

    pub fn open(first: u16, count: u16) -> bool {
        // SAFETY: a plain system call.
        unsafe { libc::ioperm(first.into(), count.into(), 1) == 0 }
    }

    pub fn write(_: &Ports, port: u16, what: u16) {
        // SAFETY: the port is open.
        unsafe { asm!("out dx, ax", in("dx") port, in("ax") what, options(nomem, nostack, preserves_flags)) }
    }

    pub fn read(_: &Ports, port: u16) -> u8 {
        let byte: u8;
        // SAFETY: the port is open.
        unsafe { asm!("in al, dx", in("dx") port, out("al") byte, options(nomem, nostack, preserves_flags)) }
        byte
    }
}

/// Other machines have no such ports, and QEMU's x86 runs nothing of theirs.
#[cfg(not(target_arch = "x86_64"))]
mod ports {
    use super::Ports;

    pub fn open(_: u16, _: u16) -> bool {
        false
    }

    pub fn write(_: &Ports, _: u16, _: u16) {}

    pub fn read(_: &Ports, _: u16) -> u8 {
        0
    }
}
