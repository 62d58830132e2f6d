//! The source disk: a second device, made once a run, that tasks copy from and to.

use crate::executor::{Fatal, Tell, logged};
use crate::preflight::Check;
use crate::work;
use fsarena_core::cell::Variant;
use fsarena_core::factor;
use fsarena_core::plan::Plan;
use fsarena_fs::lifecycle;
use fsarena_fs::safety::ScratchDevice;
use fsarena_sys::loopdev::LoopOptions;
use fsarena_sys::mount::Mounted;
use fsarena_sys::undo::Journal;
use fsarena_sys::{image, loopdev, mount};
use std::path::{Path, PathBuf};

/// A mounted second device with the inputs that all cells share.
pub struct SourceDisk {
    // Dropped in this order: unmounted first, then detached and removed.
    mounted: Mounted,
    device: ScratchDevice,
}

impl SourceDisk {
    /// Makes the image, the filesystem, and the inputs of every workload.
    ///
    /// # Errors
    /// If there is not enough room, or a command fails.
    pub fn make(
        plan: &Plan,
        check: &Check,
        journal: &Journal,
        images: &Path,
        target: &Path,
        tell: Tell,
    ) -> Result<SourceDisk, Fatal> {
        let def = fsarena_fs::filesystems::find(&plan.device.other_fs)?;
        let image = image::create(journal, &images.join("other.img"), check.other_bytes, true)?;
        let options = LoopOptions { direct_io: plan.device.direct_io, discard: plan.device.discard };
        let device = logged(tell, |log| loopdev::attach(journal, image.path(), options, log))??;
        let device = ScratchDevice::from_loop(device, image)?;
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
