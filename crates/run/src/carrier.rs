//! What carries the filesystems: the device under test, the other disk, and the directories they are in.

use crate::executor::{Fatal, Tell, logged};
use crate::other::OtherDisk;
use crate::preflight::{Check, RAM};
use fsarena_core::event::{Event, Note, NoteKind};
use fsarena_core::plan::{Backing, Plan};
use fsarena_fs::safety::{ScratchDevice, WrittenLog};
use fsarena_sys::image;
use fsarena_sys::kernel::Kernel;
use fsarena_sys::loopdev::{self, LoopOptions};
use fsarena_sys::undo::{self, Armed, Journal, Undo};
use std::path::{Path, PathBuf};

/// Everything that is made once a run and that its cells share.
pub struct Carrier {
    // Dropped in this order: the other disk, the device, then the directories both were in.
    other: OtherDisk,
    device: ScratchDevice,
    target: PathBuf,
    directories: Vec<Armed>,
}

impl Carrier {
    /// Makes the devices and the inputs of all cells.
    ///
    /// # Errors
    /// Where there is no room, the guard refuses, or a command fails.
    pub fn make(
        kernel: &Kernel,
        plan: &Plan,
        check: &Check,
        journal: &Journal,
        run_dir: &Path,
        tell: Tell,
    ) -> Result<Carrier, Fatal> {
        let images = image_dir(plan, run_dir);
        let mounts = run_dir.join("mnt");
        let mut directories = vec![];
        for dir in [&images, &mounts] {
            directories.extend(make_dir(journal, dir)?);
        }
        let target = mounts.join("test");
        std::fs::create_dir_all(&target).map_err(fsarena_sys::Error::io("making", &target))?;
        let other = OtherDisk::make(plan, check, journal, &images, &mounts.join("other"), tell)?;
        let device = device(kernel, plan, check, journal, &images, tell)?;
        describe_device(&device, plan, tell)?;
        Ok(Carrier { other, device, target, directories })
    }

    /// The device under test.
    pub fn device(&self) -> &ScratchDevice {
        &self.device
    }

    /// Its numbers: major and minor.
    pub fn numbers(&self) -> (u32, u32) {
        let device = self.device.device();
        (device.major, device.minor)
    }

    /// Where a filesystem on it is mounted.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Where the other disk is mounted.
    pub fn other(&self) -> PathBuf {
        self.other.root()
    }

    /// Takes it all down.
    ///
    /// # Errors
    /// Where something is still in use; it stays in the undo journal.
    pub fn finish(self, tell: Tell) -> Result<(), Fatal> {
        // Where something fails, the rest is dropped in the same order: the reverse of these lines.
        let (directories, device) = (self.directories, self.device);
        self.other.finish(tell)?;
        logged(tell, |log| device.release(log))??;
        directories.into_iter().try_for_each(|dir| Ok(dir.undo()?))
    }
}

/// Where the images lie.
fn image_dir(plan: &Plan, run_dir: &Path) -> PathBuf {
    let id = run_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match &plan.device.backing {
        Backing::Loop { path: Some(dir) } => dir.join(format!("fsarena-{id}")),
        Backing::Ram => Path::new(RAM).join(format!("fsarena-{id}")),
        _ => run_dir.join("images"),
    }
}

/// Makes a directory of ours, with its removal in the journal first; nothing where it is there already.
fn make_dir(journal: &Journal, dir: &Path) -> Result<Option<Armed>, Fatal> {
    if dir.exists() {
        return Ok(None);
    }
    let armed = journal.arm(Undo::RemoveTree { path: dir.to_path_buf() })?;
    std::fs::create_dir_all(dir).map_err(fsarena_sys::Error::io("making", dir))?;
    Ok(Some(armed))
}

/// The device under test.
fn device(
    kernel: &Kernel,
    plan: &Plan,
    check: &Check,
    journal: &Journal,
    images: &Path,
    tell: Tell,
) -> Result<ScratchDevice, Fatal> {
    if let Backing::Erase { path, signature } = &plan.device.backing {
        let written = WrittenLog::open(&undo::state_dir());
        return Ok(ScratchDevice::from_erase(kernel, path, signature.as_deref(), &written)?);
    }
    let options = LoopOptions { direct_io: plan.device.direct_io, discard: plan.device.discard };
    let image = image::create(journal, &images.join("test.img"), check.size_bytes, true)?;
    let device = logged(tell, |log| loopdev::attach(journal, image.path(), options, log))??;
    if plan.device.direct_io && !device.direct_io() {
        let text = "the loop device does not bypass the page cache below it: the filesystem that holds the image \
                    has no direct I/O, so reads and writes of the device can be answered from memory";
        tell(Event::Note(Note::new(NoteKind::Fairness, text).fix("put the image elsewhere: --on loop:DIR")))?;
    }
    Ok(ScratchDevice::from_loop(device, image)?)
}

/// What a reader must know of the device to repeat the run.
fn describe_device(device: &ScratchDevice, plan: &Plan, tell: Tell) -> Result<(), Fatal> {
    let block = device.device();
    let fact = |name: &str, value: Option<String>| value.map(|value| format!("{name} {value}"));
    let facts: Vec<String> = [
        Some(device.path().display().to_string()),
        fact("size", block.size_bytes().map(|size| bytesize::ByteSize(size).to_string())),
        fact("scheduler", block.scheduler()),
        fact("logical block size", block.logical_block_size().map(|size| size.to_string())),
        fact("rotational", block.rotational().map(|yes| yes.to_string())),
        fact("write cache", block.write_cache()),
        fact("model", block.model()),
        match &plan.device.backing {
            Backing::Erase { .. } => None,
            _ => Some(format!(
                "loop image, direct I/O {}, discard {}",
                plan.device.direct_io, plan.device.discard
            )),
        },
    ]
    .into_iter()
    .flatten()
    .collect();
    tell(Event::Note(Note::new(NoteKind::Options, facts.join(", ")).step("device")))
}
