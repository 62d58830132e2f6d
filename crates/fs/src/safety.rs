//! The guard: only this file makes a [`ScratchDevice`], and only a scratch device is ever formatted.

mod checks;

use crate::Error;
use crate::written::signatures;
use fsarena_core::event::CommandRecord;
use fsarena_sys::device::BlockDevice;
use fsarena_sys::image::Image;
use fsarena_sys::kernel::Kernel;
use fsarena_sys::loopdev::LoopDevice;
use fsarena_sys::zram::Zram;
use std::path::{Path, PathBuf};

pub use crate::written::WrittenLog;
pub use checks::check_image_path;

use checks::{check_exclusive, check_name, check_signatures, check_unused, refused};

/// A device that fsarena may overwrite.
#[derive(Debug)]
pub struct ScratchDevice {
    backing: Backing,
}

#[derive(Debug)]
enum Backing {
    /// Dropped in this order: the image goes when nothing carries it any more.
    Loop(LoopDevice, Image, BlockDevice),
    Zram(Zram, BlockDevice),
    /// The file itself, for a guest.
    File(Image),
    Erase {
        device: BlockDevice,
        id: PathBuf,
        written: WrittenLog,
    },
}

impl ScratchDevice {
    /// A loop device of an image; fsarena made both.
    ///
    /// # Errors
    /// Where the device carries another file.
    pub fn from_loop(device: LoopDevice, image: Image) -> Result<ScratchDevice, Error> {
        if device.image() != image.path() {
            let why = format!("it carries {:?} and not the image {:?}", device.image(), image.path());
            return Err(refused(device.path(), why, "Run `fsarena recover`"));
        }
        let block = BlockDevice::open(&Kernel::host(), device.path())?;
        Ok(ScratchDevice { backing: Backing::Loop(device, image, block) })
    }

    /// A zram device that fsarena made.
    ///
    /// # Errors
    /// Where the kernel does not know it.
    pub fn from_zram(zram: Zram) -> Result<ScratchDevice, Error> {
        let block = BlockDevice::open(&Kernel::host(), zram.path())?;
        Ok(ScratchDevice { backing: Backing::Zram(zram, block) })
    }

    /// An image file as it is, which a guest will take for a disk. That fsarena made it is what an [`Image`] says.
    pub fn from_image(image: Image) -> ScratchDevice {
        ScratchDevice { backing: Backing::File(image) }
    }

    /// A device that the user named for erasing, by its stable name, with the one signature given up.
    ///
    /// # Errors
    /// [`Error::Refused`] where anything on it or around it could be lost.
    pub fn from_erase(
        kernel: &Kernel,
        path: &Path,
        signature_given_up: Option<&str>,
        written: &WrittenLog,
    ) -> Result<ScratchDevice, Error> {
        check_name(path)?;
        let device = BlockDevice::open(kernel, path)?;
        check_unused(kernel, &device, path)?;
        check_signatures(&device, path, signature_given_up, written)?;
        check_exclusive(&device, path)?;
        let written = written.clone();
        Ok(ScratchDevice { backing: Backing::Erase { device, id: path.into(), written } })
    }

    /// The device node, or the file.
    pub fn path(&self) -> &Path {
        match &self.backing {
            Backing::Loop(_, _, device) | Backing::Zram(_, device) | Backing::Erase { device, .. } => {
                &device.path
            }
            Backing::File(image) => image.path(),
        }
    }

    /// The device, for its facts; none where it is a file.
    pub fn device(&self) -> Option<&BlockDevice> {
        match &self.backing {
            Backing::Loop(_, _, device) | Backing::Zram(_, device) | Backing::Erase { device, .. } => {
                Some(device)
            }
            Backing::File(_) => None,
        }
    }

    /// The image, where it is a file as it is.
    pub fn file(&self) -> Option<&Image> {
        match &self.backing {
            Backing::File(image) => Some(image),
            Backing::Loop(..) | Backing::Zram(..) | Backing::Erase { .. } => None,
        }
    }

    /// Its size in bytes.
    pub fn size_bytes(&self) -> u64 {
        match &self.backing {
            Backing::Loop(_, image, _) | Backing::File(image) => image.size_bytes(),
            Backing::Zram(zram, _) => zram.size_bytes(),
            Backing::Erase { device, .. } => device.size_bytes().unwrap_or(0),
        }
    }

    /// The loop device and its image, where it is one.
    pub fn loop_image(&self) -> Option<(&LoopDevice, &Image)> {
        match &self.backing {
            Backing::Loop(device, image, _) => Some((device, image)),
            Backing::Zram(..) | Backing::File(_) | Backing::Erase { .. } => None,
        }
    }

    /// Whether fsarena made it for this run, so that nothing on it can be of worth.
    pub fn is_made(&self) -> bool {
        !matches!(self.backing, Backing::Erase { .. })
    }

    /// Removes what fsarena made; leaves any other device as it is.
    ///
    /// # Errors
    /// Where it is still in use; it then stays in the undo journal.
    pub fn release(self, log: &mut dyn FnMut(CommandRecord)) -> Result<(), Error> {
        match self.backing {
            Backing::Loop(device, image, _) => {
                device.detach(log)?;
                image.remove()?;
            }
            Backing::File(image) => image.remove()?,
            Backing::Zram(zram, _) => zram.remove()?,
            Backing::Erase { .. } => {}
        }
        Ok(())
    }

    /// Notes what mkfs has just written to an erased device as fsarena's own.
    pub(crate) fn note_written(&self) -> Result<(), Error> {
        match &self.backing {
            Backing::Loop(..) | Backing::Zram(..) | Backing::File(_) => Ok(()),
            Backing::Erase { id, written, .. } => written.note(id, &signatures(self.path())?),
        }
    }
}

#[cfg(test)]
mod tests;
