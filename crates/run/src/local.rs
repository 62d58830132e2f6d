//! This kernel: filesystems made on a loop image or an erased device, mounted, worked on, unmounted.

use crate::bench::Bench;
use crate::executor::{Executor, Fatal, Tell};
use crate::other::OtherDisk;
use crate::preflight::{Check, RAM};
use crate::protocol::{MountRequest, Request};
use crate::{agent, child, preflight};
use fsarena_core::cell::Cell;
use fsarena_core::event::{CellEvent, CommandRecord, Event, Note, NoteKind, Outcome};
use fsarena_core::factor;
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::sample::Readings;
use fsarena_fs::def::FsDef;
use fsarena_fs::fairness::{self, ArmFacts};
use fsarena_fs::lifecycle;
use fsarena_fs::safety::{ScratchDevice, WrittenLog};
use fsarena_sys::image;
use fsarena_sys::kernel::Kernel;
use fsarena_sys::loopdev::{self, LoopOptions};
use fsarena_sys::mount;
use fsarena_sys::undo::{self, Armed, Journal, Undo};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The executor of this kernel.
pub struct Local {
    kernel: Kernel,
    plan: Plan,
    journal: Journal,
    facts: BTreeMap<String, ArmFacts>,
    trace: bool,
    // Dropped in this order: the other disk, the device, then the directories both were in.
    other: OtherDisk,
    device: ScratchDevice,
    target: PathBuf,
    directories: Vec<Armed>,
}

impl Local {
    /// Makes the devices and the inputs that all cells share.
    ///
    /// # Errors
    /// Where there is no room, the guard refuses, or a command fails.
    pub fn start(
        kernel: &Kernel,
        plan: &Plan,
        check: &Check,
        journal: &Journal,
        run_dir: &Path,
        tell: Tell,
    ) -> Result<Local, Fatal> {
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
        Ok(Local {
            kernel: kernel.clone(),
            plan: plan.clone(),
            journal: journal.clone(),
            facts: BTreeMap::new(),
            trace: false,
            other,
            device,
            target,
            directories,
        })
    }

    /// The same executor; it traces what each timed step waits for. What is measured meanwhile also measures
    /// the tracer.
    pub fn tracing(self) -> Self {
        Self { trace: true, ..self }
    }

    fn numbers(&self) -> (u32, u32) {
        let device = self.device.device();
        (device.major, device.minor)
    }

    /// mkfs, as a measured step. The error is the arm's own.
    fn format(
        &self,
        cell: &Cell,
        def: &'static FsDef,
        emit: &mut dyn FnMut(CellEvent),
    ) -> Result<ArmFacts, String> {
        let words = |error: fsarena_fs::Error| error.to_string();
        let options = lifecycle::options(def, &cell.arm).map_err(words)?;
        let mut bench = Bench::open(&self.kernel, Some(self.numbers()), &self.plan.settle, emit);
        bench.settle("mkfs");
        let device = &self.device;
        let mut formatted = None;
        let work = |log: &mut dyn FnMut(_)| {
            let done = lifecycle::format(device, def, &options, log)?;
            formatted = Some(done);
            Ok((Readings::default(), 0))
        };
        let sync = || std::fs::File::open(device.path())?.sync_all();
        bench
            .measure(&agent::lifecycle("mkfs", "Make the filesystem"), "lifecycle", work, sync)
            .map_err(words)?;
        let formatted = formatted.expect("measured without an error");
        let mut log = |record| bench.say(CellEvent::Command(record));
        let features = lifecycle::describe(device, def, &mut log).unwrap_or_default();
        if !self.facts.contains_key(&cell.arm.name) {
            let made = formatted.argv.join(" ");
            let text = if features.is_empty() { made } else { format!("{made}: {features}") };
            bench.say(CellEvent::Note(Note::new(NoteKind::Options, text).step("mkfs").arm(&cell.arm.name)));
        }
        Ok(ArmFacts {
            arm: cell.arm.name.clone(),
            def,
            options,
            effective: String::new(),
            features,
            size_bytes: device.size_bytes(),
        })
    }

    fn mount_request(&self, facts: &ArmFacts) -> MountRequest {
        MountRequest {
            source: self.device.path().to_path_buf(),
            target: self.target.clone(),
            fs_type: facts.def.kernel_type.to_string(),
            options: facts.options.mount.clone(),
        }
    }

    /// The same work on the bare device, without mkfs and mount. Only on an image that fsarena made.
    fn raw(&self, cell: &Cell, emit: &mut dyn FnMut(CellEvent)) -> Result<Outcome, Fatal> {
        if self.device.loop_image().is_none() {
            return Err(Fatal::Plan(preflight::RAW_NEEDS_AN_IMAGE.into()));
        }
        let request = self.request(cell, None, self.device.path().to_path_buf());
        child::run(&self.journal, &request, emit)
    }

    fn request(&self, cell: &Cell, mount: Option<MountRequest>, root: PathBuf) -> Request {
        Request {
            cell: cell.clone(),
            settle: self.plan.settle.clone(),
            mount,
            root,
            other: self.other.root().to_path_buf(),
            device: Some(self.numbers()),
            trace: self.trace,
        }
    }
}

impl Executor for Local {
    fn run(&mut self, cell: &Cell, emit: &mut dyn FnMut(CellEvent)) -> Result<Outcome, Fatal> {
        if cell.arm.level(factor::FS) == factor::RAW {
            return self.raw(cell, emit);
        }
        let def = fsarena_fs::filesystems::find(cell.arm.level(factor::FS))?;
        let mut facts = match self.format(cell, def, emit) {
            Ok(facts) => facts,
            Err(_) if fsarena_sys::cancel::requested().is_some() => return Ok(Outcome::Interrupted),
            Err(why) => return Ok(Outcome::Failed { why }),
        };
        let request = self.request(cell, Some(self.mount_request(&facts)), self.target.join("work"));
        let mounted = self.journal.arm(Undo::Unmount { target: self.target.clone() })?;
        let known = self.facts.contains_key(&cell.arm.name);
        let outcome = child::run(&self.journal, &request, &mut |event| match event {
            CellEvent::Note(note) if note.kind == NoteKind::Options => {
                facts.effective = note.text.clone();
                if !known {
                    emit(CellEvent::Note(note.arm(&cell.arm.name)));
                }
            }
            event => emit(event),
        });
        // The agent unmounts by itself; this is for one that could not.
        mount::unmount(&self.target, &mut |record| emit(CellEvent::Command(record)))?;
        mounted.forget()?;
        if !known && matches!(outcome, Ok(Outcome::Done)) {
            self.facts.insert(cell.arm.name.clone(), facts);
        }
        outcome
    }

    fn remarks(&self) -> Vec<Note> {
        let clones =
            |asked| preflight::workload(&self.plan, asked).is_ok_and(|(work, job)| work.may_clone(&job));
        let may_clone = self.plan.workloads.iter().any(clones);
        fairness::lint(&self.facts.values().cloned().collect::<Vec<_>>(), may_clone)
    }

    fn finish(self: Box<Self>, tell: Tell) -> Result<(), Fatal> {
        // Where something fails, the rest is dropped in the same order: the reverse of these lines.
        let this = *self;
        let directories = this.directories;
        let device = this.device;
        this.other.finish(tell)?;
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

/// Runs something that logs its commands, and tells of them.
pub fn logged<T>(tell: Tell, work: impl FnOnce(&mut dyn FnMut(CommandRecord)) -> T) -> Result<T, Fatal> {
    let mut commands = Vec::new();
    let result = work(&mut |record| commands.push(record));
    commands.into_iter().try_for_each(|record| tell(Event::Command(record)))?;
    Ok(result)
}
