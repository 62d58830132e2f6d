//! The source disk: a second device, made once a run, that tasks copy from and to.

use crate::executor::{Fatal, Tell, logged};
use crate::preflight::Check;
use crate::work;
use fsarena_core::cell::Variant;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::factor;
use fsarena_core::plan::{OtherDevice, Plan};
use fsarena_fs::Error;
use fsarena_fs::lifecycle;
use fsarena_fs::safety::{ScratchDevice, WrittenLog};
use fsarena_sys::kernel::Kernel;
use fsarena_sys::loopdev::LoopOptions;
use fsarena_sys::mount::Mounted;
use fsarena_sys::undo::{self, Journal};
use fsarena_sys::{image, loopdev, mount};
use std::path::{Path, PathBuf};

/// A mounted second device with the inputs that all cells share.
pub struct SourceDisk {
    // Dropped in this order: unmounted first, then detached and removed.
    mounted: Mounted,
    device: ScratchDevice,
}

/// The device that the user named to be the source disk, which passes the guard.
///
/// # Errors
/// Where the guard refuses it.
pub fn named(kernel: &Kernel, other: &OtherDevice) -> Result<ScratchDevice, Fatal> {
    let written = WrittenLog::open(&undo::state_dir());
    let found = ScratchDevice::from_erase(kernel, &other.path, other.signature.as_deref(), &written);
    Ok(found.map_err(|error| match error {
        // The guard names the flags of the devices under test.
        Error::Refused { what, why, fix } => {
            let fix =
                fix.replace("--erase-signature", "--other-signature").replace("--on loop:DIR", "--other DIR");
            Error::Refused { what, why, fix }
        }
        error => error,
    })?)
}

impl SourceDisk {
    /// Makes the image, the filesystem, and the inputs of every workload.
    ///
    /// # Errors
    /// If there is not enough room, or a command fails.
    pub fn make(
        kernel: &Kernel,
        plan: &Plan,
        check: &Check,
        journal: &Journal,
        images: &Path,
        target: &Path,
        tell: Tell,
    ) -> Result<SourceDisk, Fatal> {
        let def = fsarena_fs::filesystems::find(&plan.device.other_fs)?;
        let device = match &plan.device.other_device {
            Some(other) => named(kernel, other)?,
            None => {
                let image = image::create(journal, &images.join("other.img"), check.other_bytes, true)?;
                let options = LoopOptions { direct_io: plan.device.direct_io, discard: plan.device.discard };
                let device = logged(tell, |log| loopdev::attach(journal, image.path(), options, log))??;
                ScratchDevice::from_loop(device, image)?
            }
        };
        let variant = Variant {
            name: "source disk".into(),
            levels: [(factor::FS.to_string(), def.id.to_string())].into(),
        };
        let options = lifecycle::options(def, &variant)?;
        logged(tell, |log| lifecycle::format(&device, def, &options, log))??;
        let mounted = logged(tell, |log| {
            mount::mount(journal, log, device.path(), target, def.kernel_type, &options.mount)
        })??;
        let other = SourceDisk { mounted, device };
        work::inputs(plan, &other.root())?;
        Ok(other)
    }

    /// That it lies on the same physical disk as a device under test, as far as the kernel says what is below both.
    pub fn shares(&self, device: &ScratchDevice) -> Option<Note> {
        let own = self.device.device()?.disks();
        let shared: Vec<String> = device.device()?.disks().intersection(&own).cloned().collect();
        let text = format!(
            "the source disk lies on the same physical disk as the filesystems under test: {}",
            shared.join(", ")
        );
        let note = Note::new(NoteKind::Remark, text).fix("put it on another one: --other DIR");
        (!shared.is_empty()).then_some(note)
    }

    /// Its mount point.
    pub fn root(&self) -> PathBuf {
        self.mounted.target().to_path_buf()
    }

    /// Unmounts it, detaches it and removes its image.
    ///
    /// # Errors
    /// Where it is still in use; it stays in the undo journal.
    pub fn finish(self, tell: Tell) -> Result<(), Fatal> {
        logged(tell, |log| self.mounted.unmount(log))??;
        Ok(logged(tell, |log| self.device.release(log))??)
    }
}
