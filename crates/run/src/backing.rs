//! The backing devices of a run in this kernel: those under test, the source disk (a second device that tasks copy from and
//! to), and the directories that their images are in.

use crate::context::RunContext;
use crate::error::{Result, RunError};
use crate::executor::{RunSink, logged, remove};
use crate::layout::filesystem_of;
use crate::layout::{Carrier, DeviceSpec, Layout};
use crate::preflight::{RAM, named, to_erase};
use crate::{settings::setting, work};
use fsarena_core::event::{Event, Note, NoteKind};
use fsarena_core::factor::device::BackingDevice as Made;
use fsarena_core::plan::{Backing, DevicePlan};
use fsarena_core::{cell::Variant, factor};
use fsarena_fs::lifecycle::{self, Devices, VariantOptions};
use fsarena_fs::{def::FsDef, safety::ScratchDevice};
use fsarena_sys::loopdev::{self, LoopOptions};
use fsarena_sys::mount::{self, Mounted};
use fsarena_sys::{image, undo::MadeDir, zram};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Everything that is made once a run and that its cells share.
pub struct BackingDevices {
    // Dropped in this order: the mount points before the devices, since removing a mount point also ends the copies of the
    // mount that a container has which started meanwhile; then the directories that all were in.
    /// Where a filesystem under test is mounted.
    pub target: MadeDir,
    /// The source disk.
    pub other: SourceDisk,
    devices: BTreeMap<DeviceSpec, ScratchDevice>,
    /// The innermost first.
    directories: Vec<MadeDir>,
}

impl BackingDevices {
    /// Makes the devices and the inputs of all cells.
    ///
    /// # Errors
    /// If there is not enough room, the guard refuses, or a command fails.
    pub fn make(run: &RunContext, tell: RunSink) -> Result<BackingDevices> {
        let places = Places(run);
        let mounts = run.dir.join("mnt");
        let (target, other) = (mounts.join("test"), mounts.join("other"));
        let mut directories = vec![];
        for dir in places.needed().into_iter().chain([mounts]) {
            directories.insert(0, MadeDir::make(&run.journal, &dir)?);
        }
        let other = SourceDisk::make(run, &places.of_other().unwrap_or_default(), &other, tell)?;
        let mut devices = BTreeMap::new();
        for wanted in &run.check.devices {
            let device = places.device(wanted, tell)?;
            describe_device(&device, &run.plan.device, wanted, tell)?;
            devices.insert(*wanted, device);
        }
        let target = MadeDir::make(&run.journal, &target)?;
        let shared = devices.values().find_map(|device| other.shares(device));
        if let Some(note) = shared.filter(|_| run.check.copies) {
            tell(Event::Note(note))?;
        }
        Ok(BackingDevices { target, other, devices, directories })
    }

    /// The devices of a variant.
    ///
    /// # Errors
    /// Where the run was begun without one of them.
    pub fn devices(&self, layout: &Layout) -> Result<Devices<'_>> {
        let missing = |wanted: &DeviceSpec| {
            RunError::Plan(format!("the run was begun without a device for {}", wanted.image()))
        };
        let one = |wanted| self.devices.get(wanted).ok_or_else(|| missing(wanted));
        let members = layout.members.iter().map(one).collect::<Result<_, _>>()?;
        Ok(Devices { members, journal: layout.journal.as_ref().map(one).transpose()? })
    }

    /// The device that the user named for erasing, if any.
    pub fn erased(&self) -> Option<&ScratchDevice> {
        self.devices.values().find(|device| !device.is_made())
    }

    /// Takes it all down.
    ///
    /// # Errors
    /// Where something is still in use; it stays in the undo journal.
    pub fn finish(self, tell: RunSink) -> Result<()> {
        // Where something fails, the rest is dropped in the same order: the reverse of these lines.
        let (directories, devices) = (self.directories, self.devices);
        remove(self.target, tell)?;
        self.other.finish(tell)?;
        for device in devices.into_values() {
            logged(tell, |log| device.release(log))??;
        }
        directories.into_iter().try_for_each(|dir| remove(dir, tell))
    }
}

/// Where images lie.
struct Places<'a>(&'a RunContext);

impl Places<'_> {
    fn below(&self, dir: &Path) -> PathBuf {
        dir.join(format!("fsarena-{}", self.0.id()))
    }

    /// Where the source disk's image lies: where the user says, or in memory if the run as a whole does. None if it is a
    /// device.
    fn of_other(&self) -> Option<PathBuf> {
        let device = &self.0.plan.device;
        match (&device.other_device, &device.other_dir, &device.backing) {
            (Some(_), ..) => None,
            (None, Some(dir), _) => Some(self.below(dir)),
            (None, None, Backing::Ram | Backing::Zram) => Some(self.of(Made::Ram)),
            (None, None, _) => Some(self.of(Made::Loop)),
        }
    }

    fn of(&self, made: Made) -> PathBuf {
        match (made, &self.0.plan.device.backing) {
            (Made::Loop, Backing::Loop { path: Some(dir) }) => self.below(dir),
            (Made::Loop, _) => self.0.dir.join("images"),
            _ => self.below(Path::new(RAM)),
        }
    }

    /// Every directory that a run puts images into.
    fn needed(&self) -> BTreeSet<PathBuf> {
        let of_device = |wanted: &DeviceSpec| match wanted.on {
            Carrier::Made(Made::Zram) | Carrier::Erased => None,
            Carrier::Made(made) => Some(self.of(made)),
        };
        self.0.check.devices.iter().filter_map(of_device).chain(self.of_other()).collect()
    }

    /// One device.
    fn device(&self, wanted: &DeviceSpec, tell: RunSink) -> Result<ScratchDevice> {
        let RunContext { kernel, plan, journal, .. } = self.0;
        let made = match (wanted.on, &plan.device.backing) {
            (Carrier::Made(Made::Zram), _) => {
                return Ok(ScratchDevice::from_zram(zram::make(journal, wanted.bytes)?)?);
            }
            (Carrier::Made(made), _) => made,
            (Carrier::Erased, Backing::Erase { path, signature }) => {
                return Ok(to_erase(kernel, path, signature.as_deref())?);
            }
            (Carrier::Erased, _) => {
                let flag = setting("erase", "/dev/disk/by-id/…");
                return Err(RunError::Plan(format!("name the device to erase: {flag}")));
            }
        };
        let image = image::create(journal, &self.of(made).join(wanted.image()), wanted.bytes, true)?;
        let options = loop_options(&plan.device);
        let device = logged(tell, |log| loopdev::attach(journal, image.path(), options, log))??;
        if options.direct_io && !device.direct_io() {
            let text = "the loop device does not bypass the page cache below it: the filesystem that holds the image \
                        has no direct I/O, so reads and writes of the device can be answered from memory";
            let note = Note::new(NoteKind::Fairness, text)
                .fix(format!("put the image elsewhere: {}", setting("on", "loop:DIR")));
            tell(Event::Note(note))?;
        }
        Ok(ScratchDevice::from_loop(device, image)?)
    }
}

/// What a reader must know of the device to repeat the run.
fn describe_device(
    device: &ScratchDevice,
    plan: &DevicePlan,
    wanted: &DeviceSpec,
    tell: RunSink,
) -> Result<()> {
    let Some(block) = device.device() else { return Ok(()) };
    let DevicePlan { direct_io, discard, .. } = plan;
    let made = match wanted.on {
        Carrier::Erased => None,
        Carrier::Made(Made::Zram) => Some("zram, compressed memory".into()),
        Carrier::Made(made) => {
            Some(format!("{} image, direct I/O {direct_io}, discard {discard}", made.name()))
        }
    };
    let fact = |name: &str, value: Option<String>| value.map(|value| format!("{name} {value}"));
    let facts = [
        Some(device.path().display().to_string()),
        fact("size", block.size_bytes().map(|size| bytesize::ByteSize(size).to_string())),
        fact("scheduler", block.scheduler()),
        fact("logical block size", block.logical_block_size().map(|size| size.to_string())),
        fact("rotational", block.rotational().map(|yes| yes.to_string())),
        fact("write cache", block.write_cache()),
        fact("model", block.model()),
        made,
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    tell(Event::Note(Note::new(NoteKind::Options, facts.join(", ")).task("device")))
}

/// A mounted second device with the inputs that all cells share.
pub struct SourceDisk {
    // Dropped in this order: unmounted first, the mount point removed, then detached and removed.
    mounted: Mounted,
    /// Its mount point. A container that started meanwhile has a copy of the mount, which ends with this directory.
    dir: MadeDir,
    device: ScratchDevice,
}

/// How the loop devices of a plan are attached.
fn loop_options(device: &DevicePlan) -> LoopOptions {
    LoopOptions { direct_io: device.direct_io, discard: device.discard }
}

/// The filesystem of a plan's source disk, and its options.
///
/// # Errors
/// An unknown filesystem.
pub fn source_filesystem(device: &DevicePlan) -> Result<(&'static FsDef, VariantOptions), fsarena_fs::Error> {
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
        let (def, options) = source_filesystem(&plan.device)?;
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
        let note = Note::new(NoteKind::Remark, text)
            .fix(format!("put it on another one: {}", setting("other", "DIR")));
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
