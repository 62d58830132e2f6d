//! QEMU's own way of handing files to a guest, by two I/O ports: docs/specs/fw_cfg.rst in QEMU. Other ways need a driver
//! that a kernel may not have, or end at a size that was read when it booted.

#[cfg(target_arch = "x86_64")]
use std::io::{Error, Result};
use std::{arch::asm, marker::PhantomData};

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
        // Other machines have no such ports, and QEMU's x86 runs nothing of theirs.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a plain system call.
        if unsafe { libc::ioperm(SELECTOR.into(), 2, 1) } == 0 {
            return Ok(Ports(PhantomData));
        }
        Err(Error::last_os_error())
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
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the port is open, and reaches nothing but QEMU.
        unsafe {
            asm!("out dx, ax", in("dx") SELECTOR, in("ax") what, options(nomem, nostack, preserves_flags));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (SELECTOR, what);
    }

    fn read(&self, count: usize) -> Vec<u8> {
        let byte = |_| {
            let byte: u8;
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the port is open, and reaches nothing but QEMU.
            unsafe {
                asm!("in al, dx", in("dx") DATA, out("al") byte, options(nomem, nostack, preserves_flags));
            }
            #[cfg(not(target_arch = "x86_64"))]
            {
                byte = (DATA & 0) as u8;
            }
            byte
        };
        (0..count).map(byte).collect()
    }
}
