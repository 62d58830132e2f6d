//! Mapped files.
//!
//! A page that cannot be read raises SIGBUS, which ends a process by default. While files are mapped a
//! handler takes it: it puts an empty page instead of the bad one and notes where that was. The worker
//! finds the note at the end of its run and ends the job with file and offset.

use super::device::{Device, sync};
use super::error::{Error, Result};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::{fd::BorrowedFd, io::Errno};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once};

/// The first address that raised SIGBUS in a mapping of the engine; 0 where none did.
static FAULT: AtomicUsize = AtomicUsize::new(0);
/// The mappings of the one run that has any: first and last address of each file are found from them.
static MAPPED: Mutex<()> = Mutex::new(());
static LOW: AtomicUsize = AtomicUsize::new(0);
static HIGH: AtomicUsize = AtomicUsize::new(0);

/// The files of a job, mapped one after the other into one range of addresses.
pub struct Mappings<'a> {
    base: usize,
    stride: usize,
    files: &'a [BorrowedFd<'a>],
    data_only: bool,
    _one_at_a_time: MutexGuard<'static, ()>,
}

impl<'a> Mappings<'a> {
    /// Maps every file. Only one run of a process maps files at a time; others wait.
    ///
    /// # Errors
    /// Where a mapping is refused.
    pub fn new(
        files: &'a [BorrowedFd<'a>],
        paths: &[PathBuf],
        bytes: u64,
        writes: bool,
        data_only: bool,
    ) -> Result<Mappings<'a>> {
        let guard = MAPPED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let stride = (bytes as usize).next_multiple_of(rustix::param::page_size());
        let length = stride * files.len();
        let (none, flags) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new private mapping at an address of the kernel's choice touches no memory in use.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, none, flags) };
        let base = base.map_err(Error::io("mapping", &paths[0]))? as usize;
        let mappings = Mappings { base, stride, files, data_only, _one_at_a_time: guard };
        let protection = if writes { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        for (number, (file, path)) in files.iter().zip(paths).enumerate() {
            let at = (base + number * stride) as *mut std::ffi::c_void;
            // SAFETY: the range was reserved above and belongs to this value.
            let mapped = unsafe {
                rustix::mm::mmap(at, bytes as usize, protection, MapFlags::SHARED | MapFlags::FIXED, file, 0)
            };
            mapped.map_err(Error::io("mapping", path))?;
        }
        FAULT.store(0, Ordering::Relaxed);
        LOW.store(base, Ordering::Relaxed);
        HIGH.store(base + length, Ordering::Relaxed);
        take_sigbus();
        Ok(mappings)
    }

    fn at(&self, file: u32, offset: u64) -> *mut u8 {
        (self.base + file as usize * self.stride + offset as usize) as *mut u8
    }
}

impl Drop for Mappings<'_> {
    fn drop(&mut self) {
        HIGH.store(0, Ordering::Relaxed);
        // SAFETY: the range is this value's own, and no worker is left that uses it.
        let _ = unsafe { rustix::mm::munmap(self.base as *mut _, self.stride * self.files.len()) };
    }
}

impl Device for Mappings<'_> {
    #[inline(always)]
    fn read(&self, file: u32, offset: u64, block: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the block lies within the mapping of its file, and buffers lie elsewhere. Other threads may
        // write the same bytes; what is copied then is one or the other, as with any shared file.
        unsafe { std::ptr::copy_nonoverlapping(self.at(file, offset), block.as_mut_ptr(), block.len()) };
        std::hint::black_box(&mut *block);
        Ok(block.len())
    }

    #[inline(always)]
    fn write(&self, file: u32, offset: u64, block: &[u8]) -> Result<usize, Errno> {
        // SAFETY: as for reading; a job that writes maps its files writable.
        unsafe { std::ptr::copy_nonoverlapping(block.as_ptr(), self.at(file, offset), block.len()) };
        Ok(block.len())
    }

    fn sync(&self, file: u32) -> Result<(), Errno> {
        sync(self.files[file as usize], self.data_only)
    }

    fn late_error(&self) -> Result<(), (u32, u64)> {
        match FAULT.load(Ordering::Relaxed) {
            0 => Ok(()),
            at => Err((((at - self.base) / self.stride) as u32, ((at - self.base) % self.stride) as u64)),
        }
    }
}

/// Installs the handler, once a process.
fn take_sigbus() {
    static TAKEN: Once = Once::new();
    TAKEN.call_once(|| {
        // SAFETY: the handler only stores to atomics and makes system calls, so it may run anywhere.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_sigbus as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
        }
    });
}

extern "C" fn on_sigbus(signal: i32, info: *mut libc::siginfo_t, _: *mut std::ffi::c_void) {
    // SAFETY: the kernel passes a valid siginfo, and SIGBUS sets its address.
    let at = unsafe { (*info).si_addr() } as usize;
    let page = rustix::param::page_size();
    if !(LOW.load(Ordering::Relaxed)..HIGH.load(Ordering::Relaxed)).contains(&at) {
        // Not of the engine: it happens again, and ends the process as it would have.
        // SAFETY: setting a default action touches no memory.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    let _ = FAULT.compare_exchange(0, at, Ordering::Relaxed, Ordering::Relaxed);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: replaces one page inside the engine's own mapping.
    unsafe { libc::mmap((at / page * page) as *mut _, page, protection, flags, -1, 0) };
}
