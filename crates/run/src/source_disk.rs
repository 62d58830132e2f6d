//! The source disk: a second device, made once a run, that tasks copy from and to.

use crate::error::Result;
use crate::executor::{RunSink, logged, remove};
use crate::{context::RunContext, layout::filesystem_of, preflight::named, work};
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::{cell::Variant, factor, plan::DevicePlan};
use fsarena_fs::lifecycle::{self, VariantOptions};
use fsarena_fs::{def::FsDef, safety::ScratchDevice};
use fsarena_sys::image;
use fsarena_sys::loopdev::{self, LoopOptions};
use fsarena_sys::mount::{self, Mounted};
use fsarena_sys::undo::MadeDir;
use std::path::Path;

/// A mounted second device with the inputs that all cells share.
pub struct SourceDisk {
    // Dropped in this order: unmounted first, the mount point removed, then detached and removed.
    mounted: Mounted,
    /// Its mount point. A container that started meanwhile has a copy of the mount, which ends with this directory.
    dir: MadeDir,
    device: ScratchDevice,
}

/// How the loop devices of a plan are attached.
pub fn loop_options(device: &DevicePlan) -> LoopOptions {
    LoopOptions { direct_io: device.direct_io, discard: device.discard }
}

/// The filesystem of a plan's source disk, and its options.
///
/// # Errors
/// An unknown filesystem.
pub fn filesystem(device: &DevicePlan) -> Result<(&'static FsDef, VariantOptions), fsarena_fs::Error> {
    let levels = [(factor::FS.to_string(), device.other_fs.clone())].into();
    filesystem_of(&Variant { name: "source disk".into(), levels })
}

impl SourceDisk {
    /// Makes the image, the filesystem, and the inputs of every workload.
    ///
    /// # Errors
    /// If there is not enough room, or a command fails.
    pub fn make(run: &RunContext, images: &Path, target: &Path, tell: RunSink) -> Result<SourceDisk> {
        let RunContext { kernel, plan, check, journal, .. } = run;
        let device = match &plan.device.other_device {
            Some(other) => named(kernel, other)?,
            None => {
                let image = image::create(journal, &images.join("other.img"), check.other_bytes, true)?;
                let options = loop_options(&plan.device);
                let device = logged(tell, |log| loopdev::attach(journal, image.path(), options, log))??;
                ScratchDevice::from_loop(device, image)?
            }
        };
        let (def, options) = filesystem(&plan.device)?;
        logged(tell, |log| lifecycle::format(&device, def, &options, log))??;
        let dir = MadeDir::make(journal, target)?;
        let mounted =
            logged(tell, |log| mount::mount(journal, log, device.path(), target, def.id, &options.mount))??;
        let other = SourceDisk { mounted, dir, device };
        work::inputs(plan, other.root())?;
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
    pub fn root(&self) -> &Path {
        self.mounted.target()
    }

    /// Unmounts it, detaches it and removes its image.
    ///
    /// # Errors
    /// Where it is still in use; it stays in the undo journal.
    pub fn finish(self, tell: RunSink) -> Result<()> {
        logged(tell, |log| self.mounted.unmount(log))??;
        remove(self.dir, tell)?;
        Ok(logged(tell, |log| self.device.release(log))??)
    }
}
