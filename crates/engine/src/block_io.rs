//! How the engines that perform one operation at a time read and write blocks: by system calls or in mapped files.

use crate::error::{EngineError, Result};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::{fd::BorrowedFd, io::Errno};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once};
use std::{io, path::PathBuf};

/// Reads and writes blocks. The hot loop is compiled for each implementation.
pub trait BlockIo: Sync {
    /// Reads a block and returns the number of bytes read.
    ///
    /// # Errors
    /// The error of the system call.
    fn read(&self, file: u32, offset: u64, block: &mut [u8]) -> Result<usize, Errno>;

    /// Writes a block and returns the number of bytes written.
    ///
    /// # Errors
    /// The error of the system call.
    fn write(&self, file: u32, offset: u64, block: &[u8]) -> Result<usize, Errno>;

    /// Syncs a file to the device.
    ///
    /// # Errors
    /// The error of the system call.
    fn sync(&self, file: u32) -> Result<(), Errno>;

    /// Checks for an error that operations did not report, such as a page fault in a mapping.
    ///
    /// # Errors
    /// The number of the file and the offset of the error.
    fn check_late_error(&self) -> Result<(), (u32, u64)> {
        Ok(())
    }
}

/// Moves no data, to measure the cost of the load generator.
#[derive(Debug, Clone, Copy)]
pub struct NullIo;

impl BlockIo for NullIo {
    #[inline(always)]
    fn read(&self, _: u32, _: u64, block: &mut [u8]) -> Result<usize, Errno> {
        Ok(std::hint::black_box(block).len())
    }

    #[inline(always)]
    fn write(&self, _: u32, _: u64, block: &[u8]) -> Result<usize, Errno> {
        Ok(std::hint::black_box(block).len())
    }

    fn sync(&self, _: u32) -> Result<(), Errno> {
        Ok(())
    }
}

/// Reads and writes by `pread` and `pwrite`.
#[derive(Debug, Clone, Copy)]
pub struct SyscallIo<'a> {
    /// The open files.
    pub files: &'a [BorrowedFd<'a>],
    /// Whether to sync with `fdatasync` instead of `fsync`.
    pub data_only: bool,
}

impl BlockIo for SyscallIo<'_> {
    #[inline(always)]
    fn read(&self, file: u32, offset: u64, block: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::pread(self.files[file as usize], block, offset)
    }

    #[inline(always)]
    fn write(&self, file: u32, offset: u64, block: &[u8]) -> Result<usize, Errno> {
        rustix::io::pwrite(self.files[file as usize], block, offset)
    }

    fn sync(&self, file: u32) -> Result<(), Errno> {
        sync_file(self.files[file as usize], self.data_only)
    }
}

/// Syncs a file to the device, with `fdatasync` if `data_only`.
///
/// # Errors
/// The error of the system call.
pub fn sync_file(file: BorrowedFd, data_only: bool) -> Result<(), Errno> {
    if data_only { rustix::fs::fdatasync(file) } else { rustix::fs::fsync(file) }
}

/// Checks that a system call moved a whole block.
///
/// # Errors
/// The system call failed or moved fewer bytes.
#[inline(always)]
pub fn check_whole_block(moved: Result<usize, Errno>, block_bytes: usize) -> io::Result<()> {
    match moved {
        Ok(bytes) if bytes == block_bytes => Ok(()),
        moved => Err(incomplete_block_error(moved, block_bytes)),
    }
}

/// The error of a system call that failed or moved fewer bytes than a block.
#[cold]
fn incomplete_block_error(moved: Result<usize, Errno>, block_bytes: usize) -> io::Error {
    match moved {
        Ok(bytes) => io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("only {bytes} of {block_bytes} bytes were moved; the file may be shorter than it was, or full"),
        ),
        Err(error) => error.into(),
    }
}

/// The first address that raised SIGBUS in a mapping of the engine; 0 if none did.
static FAULT_ADDRESS: AtomicUsize = AtomicUsize::new(0);
/// Held by the only run that may have mapped files.
static MAPPING_LOCK: Mutex<()> = Mutex::new(());
/// The first address of the mapped files.
static MAPPED_START: AtomicUsize = AtomicUsize::new(0);
/// The address after the last of the mapped files; 0 if no files are mapped.
static MAPPED_END: AtomicUsize = AtomicUsize::new(0);

/// The files of a job, mapped one after the other into one range of addresses.
///
/// A page that cannot be read raises SIGBUS, which ends a process by default. While files are mapped, a handler catches
/// the signal: it replaces the bad page with an empty one and stores the address. The worker finds the address at the
/// end of its run and ends the job with an error that has the file and offset.
pub struct Mappings<'a> {
    /// The address of the first file.
    base: usize,
    /// The distance in bytes between the beginnings of two files.
    stride: usize,
    files: &'a [BorrowedFd<'a>],
    data_only: bool,
    /// Held while the files are mapped, because only one run can have mapped files.
    _lock: MutexGuard<'static, ()>,
}

impl<'a> Mappings<'a> {
    /// Maps every file. Only one run in a process can have mapped files; this waits until another run has ended.
    ///
    /// # Errors
    /// The kernel refuses a mapping.
    pub fn new(
        files: &'a [BorrowedFd<'a>],
        paths: &[PathBuf],
        bytes_per_file: u64,
        writes: bool,
        data_only: bool,
    ) -> Result<Mappings<'a>> {
        let lock = MAPPING_LOCK.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let stride = (bytes_per_file as usize).next_multiple_of(rustix::param::page_size());
        let length = stride * files.len();
        let (no_access, flags) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new private mapping at an address of the kernel's choice touches no memory in use.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, no_access, flags) };
        let base = base.map_err(EngineError::io("mapping", &paths[0]))? as usize;
        let mappings = Mappings { base, stride, files, data_only, _lock: lock };
        let protection = if writes { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        for (number, (file, path)) in files.iter().zip(paths).enumerate() {
            let address = (base + number * stride) as *mut std::ffi::c_void;
            // SAFETY: the range was reserved above and belongs to this value.
            let mapped = unsafe {
                rustix::mm::mmap(
                    address,
                    bytes_per_file as usize,
                    protection,
                    MapFlags::SHARED | MapFlags::FIXED,
                    file,
                    0,
                )
            };
            mapped.map_err(EngineError::io("mapping", path))?;
        }
        FAULT_ADDRESS.store(0, Ordering::Relaxed);
        MAPPED_START.store(base, Ordering::Relaxed);
        MAPPED_END.store(base + length, Ordering::Relaxed);
        install_sigbus_handler();
        Ok(mappings)
    }

    /// The address of a byte of a file.
    fn address(&self, file: u32, offset: u64) -> *mut u8 {
        (self.base + file as usize * self.stride + offset as usize) as *mut u8
    }
}

impl Drop for Mappings<'_> {
    fn drop(&mut self) {
        MAPPED_END.store(0, Ordering::Relaxed);
        // SAFETY: the range is this value's own, and no worker is left that uses it.
        let _ = unsafe { rustix::mm::munmap(self.base as *mut _, self.stride * self.files.len()) };
    }
}

impl BlockIo for Mappings<'_> {
    #[inline(always)]
    fn read(&self, file: u32, offset: u64, block: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the block is within the mapping of its file, and buffers are elsewhere. Other threads may
        // write the same bytes; then the copy has old or new bytes, as with any shared file.
        unsafe { std::ptr::copy_nonoverlapping(self.address(file, offset), block.as_mut_ptr(), block.len()) };
        std::hint::black_box(&mut *block);
        Ok(block.len())
    }

    #[inline(always)]
    fn write(&self, file: u32, offset: u64, block: &[u8]) -> Result<usize, Errno> {
        // SAFETY: as for reading; a job that writes maps its files writable.
        unsafe { std::ptr::copy_nonoverlapping(block.as_ptr(), self.address(file, offset), block.len()) };
        Ok(block.len())
    }

    fn sync(&self, file: u32) -> Result<(), Errno> {
        sync_file(self.files[file as usize], self.data_only)
    }

    fn check_late_error(&self) -> Result<(), (u32, u64)> {
        match FAULT_ADDRESS.load(Ordering::Relaxed) {
            0 => Ok(()),
            address => {
                let distance = address - self.base;
                Err(((distance / self.stride) as u32, (distance % self.stride) as u64))
            }
        }
    }
}

/// Installs the SIGBUS handler once in a process.
fn install_sigbus_handler() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: the handler only stores to atomics and makes system calls, so it may run anywhere.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_sigbus as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
        }
    });
}

/// Handles SIGBUS: replaces the page that could not be read with an empty one, and stores the address. A SIGBUS elsewhere ends
/// the process.
extern "C" fn on_sigbus(signal: i32, info: *mut libc::siginfo_t, _: *mut std::ffi::c_void) {
    // SAFETY: the kernel passes a valid siginfo, and SIGBUS sets its address.
    let address = unsafe { (*info).si_addr() } as usize;
    let page_bytes = rustix::param::page_size();
    if !(MAPPED_START.load(Ordering::Relaxed)..MAPPED_END.load(Ordering::Relaxed)).contains(&address) {
        // The address is not in a mapping of the engine. With the default action, the signal is raised again and ends the
        // process.
        // SAFETY: setting a default action touches no memory.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    let _ = FAULT_ADDRESS.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: replaces one page inside the engine's own mapping.
    unsafe { libc::mmap((address / page_bytes * page_bytes) as *mut _, page_bytes, protection, flags, -1, 0) };
}
