//! The guard: a [`ScratchDevice`] is a device that fsarena may overwrite. Only this file makes one, and fsarena formats nothing
//! else.

mod checks;
mod nodes;

use crate::{Error, error::refused};
use fsarena_core::event::CommandRecord;
use fsarena_sys::device::{BlockDevice, is_claimed};
use fsarena_sys::links::DeviceStack;
use fsarena_sys::loopdev::{self, LoopDevice};
use fsarena_sys::{argv::Argv, image::Image, kernel::SysRoot, lock::LockedFile, zram::ZramDevice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

pub use crate::written_log::WrittenLog;
use crate::written_log::{SampledContent, read_signatures};
pub use checks::check_image_path;

use checks::{check_content, check_exclusive, check_name, check_unused};

/// A device that fsarena may overwrite.
#[derive(Debug)]
pub struct ScratchDevice {
    backing: Backing,
}

/// What a scratch device consists of.
#[derive(Debug)]
enum Backing {
    /// A loop device, and the image that is attached to it. The fields are dropped in this order, so that the image is removed
    /// after it is detached.
    Loop(LoopDevice, Image, BlockDevice),
    /// A zram device.
    Zram(ZramDevice, BlockDevice),
    /// A stack of devices over another scratch device, which outlives the stack. The block device is the topmost one.
    Stack(DeviceStack, BlockDevice),
    /// An image file that a guest uses as a disk.
    File(Image),
    /// A device that the user named for erasing.
    UserNamed(UserDevice),
}

/// A device that the user named. When it is released or dropped, fsarena writes the fingerprint of its content to the log.
#[derive(Debug)]
struct UserDevice {
    device: BlockDevice,
    /// Its path in `/dev/disk/by-id`, which means the same disk after a reboot.
    stable_name: PathBuf,
    log: WrittenLog,
    /// Whether fsarena has begun to overwrite it.
    is_changed: AtomicBool,
    /// The lock that keeps other runs from it.
    _lock: LockedFile,
}

impl ScratchDevice {
    /// A loop device of an image; fsarena made both.
    ///
    /// # Errors
    /// [`Error::Refused`] if another file is attached to the device.
    pub fn from_loop(device: LoopDevice, image: Image) -> Result<ScratchDevice, Error> {
        if device.image() != image.path() {
            let why = format!("{:?} is attached to it and not the image {:?}", device.image(), image.path());
            return Err(refused(device.path(), why, "Run `fsarena recover`"));
        }
        let block = BlockDevice::open(&SysRoot::host(), device.path())?;
        Ok(ScratchDevice { backing: Backing::Loop(device, image, block) })
    }

    /// A zram device that fsarena made.
    ///
    /// # Errors
    /// The kernel does not list the device.
    pub fn from_zram(zram: ZramDevice) -> Result<ScratchDevice, Error> {
        let block = BlockDevice::open(&SysRoot::host(), zram.path())?;
        Ok(ScratchDevice { backing: Backing::Zram(zram, block) })
    }

    /// The topmost device of a stack that fsarena made over another scratch device.
    ///
    /// # Errors
    /// The kernel does not list the device.
    pub fn from_stack(devices: DeviceStack) -> Result<ScratchDevice, Error> {
        let block = BlockDevice::open(&SysRoot::host(), devices.path())?;
        Ok(ScratchDevice { backing: Backing::Stack(devices, block) })
    }

    /// Finishes the devices of a stack after mkfs: takes the snapshots. Does nothing for a device that is not a stack.
    ///
    /// # Errors
    /// The kernel refuses a request.
    pub fn finish_stack(&self) -> std::io::Result<()> {
        if let Backing::Stack(devices, _) = &self.backing { devices.finish_after_mkfs() } else { Ok(()) }
    }

    /// An image file that a guest uses as a disk. Every [`Image`] was made by fsarena, so no check is necessary.
    pub fn from_image(image: Image) -> ScratchDevice {
        ScratchDevice { backing: Backing::File(image) }
    }

    /// A device that the user named for erasing, by its stable name. `erasable_signature` is the type of signature that the
    /// user allows fsarena to overwrite; `log` shows what fsarena itself has written.
    ///
    /// # Errors
    /// [`Error::Refused`] if the device is in use, also by another run, or may have data of the user.
    pub fn from_user_named(
        kernel: &SysRoot,
        path: &Path,
        erasable_signature: Option<&str>,
        log: &WrittenLog,
    ) -> Result<ScratchDevice, Error> {
        check_name(path)?;
        let device = BlockDevice::open(kernel, path)?;
        let lock = log.lock_device(&device, path)?;
        check_unused(kernel, &device, path)?;
        check_exclusive(&device, path)?;
        // Without this list, `check_other_nodes` refuses a loop device, because its file is unknown.
        let loops = loopdev::backing_files(kernel).unwrap_or_default();
        let signatures = read_signatures(&device.path)?;
        nodes::check_other_nodes(kernel, &device, path, &loops, &signatures)?;
        check_content(&device, path, &signatures, erasable_signature, log)?;
        // Checks again at the end, because reading the content takes a while.
        check_exclusive(&device, path)?;
        let is_changed = AtomicBool::new(false);
        let user_device = UserDevice { device, stable_name: path.into(), log: log.clone(), is_changed, _lock: lock };
        Ok(ScratchDevice { backing: Backing::UserNamed(user_device) })
    }

    /// The path of the device node or of the image file.
    pub fn path(&self) -> &Path {
        match &self.backing {
            Backing::File(image) => image.path(),
            Backing::Loop(_, _, device) | Backing::Zram(_, device) | Backing::Stack(_, device) => &device.path,
            Backing::UserNamed(user_device) => &user_device.device.path,
        }
    }

    /// The block device; None for an image file.
    pub fn device(&self) -> Option<&BlockDevice> {
        match &self.backing {
            Backing::Loop(_, _, device) | Backing::Zram(_, device) | Backing::Stack(_, device) => Some(device),
            Backing::UserNamed(user_device) => Some(&user_device.device),
            Backing::File(_) => None,
        }
    }

    /// The image file that a guest uses as a disk; None for a block device.
    pub fn file(&self) -> Option<&Image> {
        if let Backing::File(image) = &self.backing { Some(image) } else { None }
    }

    /// Its size in bytes; 0 if the kernel reports none.
    pub fn size_bytes(&self) -> u64 {
        match &self.backing {
            Backing::Loop(_, image, _) | Backing::File(image) => image.size_bytes(),
            Backing::Zram(zram, _) => zram.size_bytes(),
            Backing::Stack(_, device) => device.size_bytes().unwrap_or(0),
            Backing::UserNamed(user_device) => user_device.device.size_bytes().unwrap_or(0),
        }
    }

    /// Whether fsarena made it for this run, so that it has no data of the user.
    pub fn is_made_by_fsarena(&self) -> bool {
        !matches!(self.backing, Backing::UserNamed(_))
    }

    /// Removes a device or image that fsarena made. Leaves a device of the user as it is, and logs the fingerprint of its
    /// content, so that a later run may overwrite it.
    ///
    /// # Errors
    /// A device or image that fsarena made is still in use; its undo step then stays in the journal.
    /// The content of a device of the user cannot be read or logged. It is not an error if such a device is in use.
    pub fn release(self, log_command: &mut dyn FnMut(CommandRecord)) -> Result<(), Error> {
        match self.backing {
            Backing::Loop(device, image, _) => {
                device.detach(log_command)?;
                image.remove()?;
            }
            Backing::File(image) => image.remove()?,
            Backing::Zram(zram, _) => zram.remove()?,
            Backing::Stack(devices, _) => devices.remove()?,
            Backing::UserNamed(user_device) => user_device.log_content()?,
        }
        Ok(())
    }

    /// Discards the whole device, with blkdiscard(8).
    ///
    /// # Errors
    /// The device does not support discard, or [`ScratchDevice::begin_overwriting`] refuses it.
    pub fn discard(&self, log_command: &mut dyn FnMut(CommandRecord)) -> Result<(), Error> {
        self.begin_overwriting()?;
        // Without --force blkdiscard refuses a device with a signature. The guard has already accepted the device.
        Argv::new("blkdiscard").arg("--force").arg(self.path()).run_checked(log_command)?;
        Ok(())
    }

    /// Checks that it is still the device that the guard accepted, and records that fsarena is about to overwrite it.
    ///
    /// # Errors
    /// [`Error::Refused`] if another device has replaced it, or if the device of the user is in use.
    pub fn begin_overwriting(&self) -> Result<(), Error> {
        if let Some(device) = self.device().filter(|device| !device.is_in_place()) {
            let why = "another disk or image has replaced the one that fsarena was about to overwrite";
            return Err(refused(&device.path, why, "Run again, and leave the device alone meanwhile"));
        }
        if let Backing::UserNamed(user_device) = &self.backing {
            check_exclusive(&user_device.device, &user_device.stable_name)?;
            user_device.is_changed.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Logs the signatures that mkfs has just written to a device of the user, so that a later run recognises them.
    pub(crate) fn log_signatures(&self) -> Result<(), Error> {
        let Backing::UserNamed(user_device) = &self.backing else { return Ok(()) };
        user_device.log.add_signatures(&user_device.stable_name, &read_signatures(self.path())?)
    }
}

impl UserDevice {
    /// Logs the fingerprint of the content, if fsarena changed it, the device is still in place and nothing uses it.
    fn log_content(&self) -> Result<(), Error> {
        let was_changed = self.is_changed.swap(false, Ordering::Relaxed);
        if !was_changed || !self.device.is_in_place() || is_claimed(&self.device.path)? {
            return Ok(());
        }
        let samples = SampledContent::read(&self.device, || Ok(()))?;
        self.log.add_fingerprint(&self.stable_name, samples.fingerprint)
    }
}

impl Drop for UserDevice {
    fn drop(&mut self) {
        // If this fails, the next run requires --erase-signature, which is safe.
        let _ = self.log_content();
    }
}

#[cfg(test)]
mod tests;
