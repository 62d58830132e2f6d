//! The backing devices of a run in this kernel: the devices under test, the source disk (a second device that tasks
//! copy from and to), and the directories of their images.

use crate::context::RunContext;
use crate::device_layout::{DeviceLayout, DeviceSpec, DeviceStorage, filesystem_of};
use crate::error::{CellError, Result, RunError};
use crate::executor::{RunSink, emit_logged_commands, remove_run_dir};
use crate::preflight::{RAM_DIR, open_source_disk, open_to_erase};
use crate::work;
use fsarena_core::event::{Event, Note, NoteKind};
use fsarena_core::factor::device::BackingDevice;
use fsarena_core::plan::{Backing, DevicePlan};
use fsarena_core::setting_text::setting;
use fsarena_core::{cell::Variant, factor};
use fsarena_fs::lifecycle::{self, Devices, VariantOptions};
use fsarena_fs::{def::FsDef, safety::ScratchDevice};
use fsarena_sys::argv::Argv;
use fsarena_sys::device_mapper::DeviceMapper;
use fsarena_sys::links::{self, DeviceStack};
use fsarena_sys::loopdev::{self, LoopOptions};
use fsarena_sys::mount::{self, MountedFilesystem};
use fsarena_sys::{image, undo::MadeDir, zram};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The devices and directories that are made once per run. All cells of the run share them.
pub struct BackingDevices {
    // The fields are dropped in this order. Mount points come before devices: removing a mount point also ends copies
    // of the mount in containers that started meanwhile. The directories of the images come last.
    /// The mount point of the filesystem under test.
    pub mount_point: MadeDir,
    /// The source disk.
    pub source_disk: SourceDisk,
    devices: BTreeMap<DeviceSpec, ScratchDevice>,
    /// The directories of images and mount points, in the order in which they are removed.
    directories: Vec<MadeDir>,
}

impl BackingDevices {
    /// Makes the devices and the inputs of all cells.
    ///
    /// # Errors
    /// There is not enough space, the safety guard refuses a device, or a command fails.
    pub fn make(run: &RunContext, emit: RunSink) -> Result<BackingDevices> {
        let image_dirs = ImageDirs(run);
        let mounts = run.dir.join("mnt");
        let (mount_point, source_mount_point) = (mounts.join("test"), mounts.join("other"));
        let mut directories = vec![];
        for dir in image_dirs.all_dirs().into_iter().chain([mounts]) {
            directories.insert(0, MadeDir::make(&run.journal, &dir)?);
        }
        let source_disk =
            SourceDisk::make(run, &image_dirs.source_disk_dir().unwrap_or_default(), &source_mount_point, emit)?;
        let mut devices = BTreeMap::new();
        for spec in &run.requirements.devices {
            let device = image_dirs.make_device(spec, emit)?;
            emit_device_note(&device, &run.plan.device, spec, emit)?;
            devices.insert(*spec, device);
        }
        let mount_point = MadeDir::make(&run.journal, &mount_point)?;
        let shared_disk_note = devices.values().find_map(|device| source_disk.shared_disk_note(device));
        if let Some(note) = shared_disk_note.filter(|_| run.requirements.uses_source_disk) {
            emit(Event::Note(note))?;
        }
        Ok(BackingDevices { mount_point, source_disk, devices, directories })
    }

    /// The devices of a variant.
    ///
    /// # Errors
    /// The run did not make one of them.
    pub fn devices(&self, layout: &DeviceLayout) -> Result<Devices<'_>> {
        let members = layout.members.iter().map(|spec| self.device(spec)).collect::<Result<_>>()?;
        let journal = layout.journal.as_ref().map(|spec| self.device(spec)).transpose()?;
        Ok(Devices { members, journal })
    }

    fn device(&self, spec: &DeviceSpec) -> Result<&ScratchDevice> {
        self.devices
            .get(spec)
            .ok_or_else(|| RunError::Plan(format!("the run was begun without a device for {}", spec.image_name())))
    }

    /// The device that the user named for erasing, if any.
    pub fn erased_device(&self) -> Option<&ScratchDevice> {
        self.devices.values().find(|device| !device.is_made_by_fsarena())
    }

    /// Unmounts, detaches and removes everything.
    ///
    /// # Errors
    /// A device or directory is still in use; it stays in the undo journal.
    pub fn finish(self, emit: RunSink) -> Result<()> {
        // If something fails, Rust drops the rest in the same order as the steps below, which is the reverse of the
        // order of these variables.
        let BackingDevices { directories, devices, source_disk, mount_point } = self;
        remove_run_dir(mount_point, emit)?;
        source_disk.finish(emit)?;
        for device in devices.into_values() {
            emit_logged_commands(emit, |log| device.release(log))??;
        }
        directories.into_iter().try_for_each(|dir| remove_run_dir(dir, emit))
    }
}

/// Makes the links of the stack of a variant. Returns the device above them; None for a variant without a stack.
///
/// # Errors
/// A link cannot be made; only the cell of the variant fails then.
pub fn make_stack(run: &RunContext, variant: &Variant, devices: &Devices) -> Result<Option<ScratchDevice>, CellError> {
    let links = links::parse_level(variant.level(factor::STACK)).map_err(CellError::missing)?;
    if links.is_empty() {
        return Ok(None);
    }
    let prefix = format!("fsarena-{}-", std::process::id());
    let make = || {
        let mapper = DeviceMapper::open(Some(&run.journal))?;
        let bytes = run.requirements.size_bytes;
        DeviceStack::make(mapper, |name| Argv::new(name), &prefix, &links, devices.first(), bytes)
    };
    let stack = make().map_err(|error| CellError::missing(error.to_string()))?;
    Ok(Some(ScratchDevice::from_stack(stack)?))
}

/// The directories of the images of a run.
struct ImageDirs<'a>(&'a RunContext);

impl ImageDirs<'_> {
    /// The directory of this run below a directory that other runs may use too.
    fn run_dir_in(&self, dir: &Path) -> PathBuf {
        dir.join(format!("fsarena-{}", self.0.id()))
    }

    /// The directory of the source disk's image: below the directory that the user named, else with the images of the
    /// run. None if the source disk is a device.
    fn source_disk_dir(&self) -> Option<PathBuf> {
        let device = &self.0.plan.device;
        match (&device.source_device, &device.source_dir, &device.backing) {
            (Some(_), ..) => None,
            (None, Some(dir), _) => Some(self.run_dir_in(dir)),
            (None, None, Backing::Ram | Backing::Zram) => Some(self.images_dir(BackingDevice::Ram)),
            (None, None, _) => Some(self.images_dir(BackingDevice::Loop)),
        }
    }

    /// The directory of the images on disk or in memory.
    fn images_dir(&self, kind: BackingDevice) -> PathBuf {
        match (kind, &self.0.plan.device.backing) {
            (BackingDevice::Loop, Backing::Loop { path: Some(dir) }) => self.run_dir_in(dir),
            (BackingDevice::Loop, _) => self.0.dir.join("images"),
            _ => self.run_dir_in(Path::new(RAM_DIR)),
        }
    }

    /// Every directory that the run puts images into.
    fn all_dirs(&self) -> BTreeSet<PathBuf> {
        let of_device = |spec: &DeviceSpec| match spec.storage {
            DeviceStorage::Made(BackingDevice::Zram) | DeviceStorage::Erased => None,
            DeviceStorage::Made(kind) => Some(self.images_dir(kind)),
        };
        self.0.requirements.devices.iter().filter_map(of_device).chain(self.source_disk_dir()).collect()
    }

    /// Makes a device: a zram device, or an image with a loop device. Opens the erased device, which exists.
    fn make_device(&self, spec: &DeviceSpec, emit: RunSink) -> Result<ScratchDevice> {
        let RunContext { kernel, plan, journal, .. } = self.0;
        let kind = match (spec.storage, &plan.device.backing) {
            (DeviceStorage::Made(BackingDevice::Zram), _) => {
                return Ok(ScratchDevice::from_zram(zram::make(journal, spec.bytes)?)?);
            }
            (DeviceStorage::Made(kind), _) => kind,
            (DeviceStorage::Erased, Backing::Erase { path, signature }) => {
                return Ok(open_to_erase(kernel, path, signature.as_deref())?);
            }
            (DeviceStorage::Erased, _) => {
                let flag = setting("erase", "/dev/disk/by-id/…");
                return Err(RunError::Plan(format!("name the device to erase: {flag}")));
            }
        };
        let image = image::create(journal, &self.images_dir(kind).join(spec.image_name()), spec.bytes, true)?;
        let options = loop_options(&plan.device);
        let device = emit_logged_commands(emit, |log| loopdev::attach(journal, image.path(), options, log))??;
        if options.direct_io && !device.uses_direct_io() {
            let text = "the loop device does not bypass the page cache below it: the filesystem that holds the image \
                        has no direct I/O, so reads and writes of the device can be answered from memory";
            let note = Note::new(NoteKind::Fairness, text)
                .fix(format!("put the image elsewhere: {}", setting("on", "loop:DIR")));
            emit(Event::Note(note))?;
        }
        Ok(ScratchDevice::from_loop(device, image)?)
    }
}

/// Emits a note with the properties of a device, which people need to repeat the run.
fn emit_device_note(device: &ScratchDevice, plan: &DevicePlan, spec: &DeviceSpec, emit: RunSink) -> Result<()> {
    let Some(block) = device.device() else { return Ok(()) };
    let DevicePlan { direct_io, discard, .. } = plan;
    let made_as = match spec.storage {
        DeviceStorage::Erased => None,
        DeviceStorage::Made(BackingDevice::Zram) => Some("zram, compressed memory".into()),
        DeviceStorage::Made(kind) => Some(format!("{} image, direct I/O {direct_io}, discard {discard}", kind.name())),
    };
    let fact = |name: &str, value: Option<String>| value.map(|value| format!("{name} {value}"));
    let facts = [
        Some(device.path().display().to_string()),
        fact("size", block.size_bytes().map(|size| bytesize::ByteSize(size).to_string())),
        fact("scheduler", block.scheduler()),
        fact("logical block size", block.logical_block_size().map(|size| size.to_string())),
        fact("rotational", block.is_rotational().map(|is_rotational| is_rotational.to_string())),
        fact("write cache", block.write_cache()),
        fact("model", block.model()),
        made_as,
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    emit(Event::Note(Note::new(NoteKind::Options, facts.join(", ")).task("device")))
}

/// A mounted second device with the inputs that all cells share.
pub struct SourceDisk {
    // The fields are dropped in this order: unmount, remove the mount point, detach and remove the device.
    mounted: MountedFilesystem,
    /// Its mount point. Removing it also ends copies of the mount in containers that started meanwhile.
    mount_point: MadeDir,
    device: ScratchDevice,
}

/// The options of a plan for its loop devices.
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
    /// Makes the filesystem on an image in `images_dir` or on the device that the user named, mounts it at `target`,
    /// and makes the inputs of every workload.
    ///
    /// # Errors
    /// There is not enough space, or a command fails.
    pub fn make(run: &RunContext, images_dir: &Path, target: &Path, emit: RunSink) -> Result<SourceDisk> {
        let RunContext { kernel, plan, requirements, journal, .. } = run;
        let device = match &plan.device.source_device {
            Some(other) => open_source_disk(kernel, other)?,
            None => {
                let image =
                    image::create(journal, &images_dir.join("other.img"), requirements.source_disk_bytes, true)?;
                let options = loop_options(&plan.device);
                let device = emit_logged_commands(emit, |log| loopdev::attach(journal, image.path(), options, log))??;
                ScratchDevice::from_loop(device, image)?
            }
        };
        let (def, options) = source_filesystem(&plan.device)?;
        emit_logged_commands(emit, |log| lifecycle::format(&device, def, &options, log))??;
        let mount_point = MadeDir::make(journal, target)?;
        let mounted = emit_logged_commands(emit, |log| {
            mount::mount(journal, log, device.path(), target, def.id, &options.mount)
        })??;
        let source_disk = SourceDisk { mounted, mount_point, device };
        work::make_inputs(plan, source_disk.root())?;
        Ok(source_disk)
    }

    /// A note that the source disk lies on the same physical disk as a device under test; None if it does not, or if
    /// the kernel does not show the disks below both.
    pub fn shared_disk_note(&self, device: &ScratchDevice) -> Option<Note> {
        let own_disks = self.device.device()?.disk_names();
        let shared: Vec<String> = device.device()?.disk_names().intersection(&own_disks).cloned().collect();
        if shared.is_empty() {
            return None;
        }
        let text = format!(
            "the source disk lies on the same physical disk as the filesystems under test: {}",
            shared.join(", ")
        );
        let fix = format!("put it on another one: {}", setting("other", "DIR"));
        Some(Note::new(NoteKind::Remark, text).fix(fix))
    }

    /// Its mount point.
    pub fn root(&self) -> &Path {
        self.mounted.target()
    }

    /// Unmounts it, detaches it and removes its image.
    ///
    /// # Errors
    /// The source disk is still in use; it stays in the undo journal.
    pub fn finish(self, emit: RunSink) -> Result<()> {
        emit_logged_commands(emit, |log| self.mounted.unmount(log))??;
        remove_run_dir(self.mount_point, emit)?;
        Ok(emit_logged_commands(emit, |log| self.device.release(log))??)
    }
}
