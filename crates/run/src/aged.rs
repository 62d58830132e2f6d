//! The aged filesystems of a run: one image for each variant and seed, made once and kept in the cache.
//!
//! An image is aged on the devices of the run, and saved after each part of its history. Each cell gets its image by a write
//! of its whole devices, also a cell without age, so that the state of the devices is the same; see
//! `docs/adr/0031-checkpoints-of-aged-images.md`.

use crate::ageing::{AGED, AgeStep, AgeWork, read_digest};
use crate::axes::{Confine, age::age_of, age::keeps_images, age::setup_of, fill::fullness};
use crate::backing::{BackingDevices, make_links};
use crate::checkpoint::{Checkpoint, Checkpoints, Saved};
use crate::child;
use crate::context::RunContext;
use crate::error::{CellError, Result};
use crate::executor::{RunSink, remove};
use crate::layout::filesystem_of;
use crate::packed::WORK;
use crate::protocol::{MountRequest, Request};
use bytesize::ByteSize;
use fsarena_core::cell::{Cell, Variant, WorkloadPlan};
use fsarena_core::event::{Cause, CellEvent, Event, Note, NoteKind};
use fsarena_core::factor::{self, age::Age};
use fsarena_core::{matrix, plan::Plan, setting::Value};
use fsarena_fs::lifecycle::{self, Devices, VariantOptions};
use fsarena_fs::{def::FsDef, filesystems, grammar};
use fsarena_load::ageing::tree_copy::TreeDigest;
use fsarena_load::ageing::{ChurnPlan, GitPulls};
use fsarena_load::workloads::SETUP_ONCE;
use fsarena_sys::undo::{MadeDir, Undo};
use fsarena_sys::{Error, cancel, mount, program};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The version of what makes histories: it changes whenever equal seeds no longer give equal operations.
const GENERATOR: u32 = 1;

/// The images of a run.
pub struct AgedImages {
    _checkpoints: Checkpoints,
    images: Images,
    /// Whether a variant is aged.
    ages: bool,
}

/// For each variant, seed, and directory of a workload that has a setup which is kept, the image, or why it could not be made. The
/// directory is empty for the image before such a setup.
type Images = BTreeMap<(String, u64, String), Result<Rc<Saved>, CellError>>;

/// Whether the filesystem of a variant can be aged. Other filesystems are made anew for each cell.
fn is_general(variant: &Variant) -> bool {
    !variant.is_bare_device() && filesystems::find(variant.level(factor::FS)).is_ok_and(FsDef::is_general)
}

impl AgedImages {
    /// Makes the images that are missing in the cache. Returns None if no variant is aged and no workload has a setup that is
    /// kept.
    ///
    /// # Errors
    /// A signal, or a device that cannot be released. An image that cannot be made is a failure of its variant.
    pub fn make(run: &RunContext, backing: &BackingDevices, emit: RunSink) -> Result<Option<AgedImages>> {
        let variants = matrix::expand(&run.plan);
        if !keeps_images(&run.plan, &variants) {
            return Ok(None);
        }
        let ages = variants.iter().any(|variant| age_of(variant).is_some());
        let checkpoints = Checkpoints::open()?;
        let (images, trees) = (Images::new(), BTreeMap::new());
        let mut maker = Maker { run, backing, checkpoints: &checkpoints, images, trees, stage: None };
        let (aged, fresh): (Vec<&Variant>, Vec<&Variant>) = variants
            .iter()
            .filter(|variant| is_general(variant))
            .partition(|variant| age_of(variant).is_some());
        let seeds = if ages { seeds(&run.plan) } else { BTreeSet::from([ONLY_SEED]) };
        for seed in seeds.iter().copied() {
            for variant in &aged {
                maker.make(variant, seed, "", |maker| maker.age(variant, seed, emit))?;
            }
            for variant in fresh.iter().filter(|_| !aged.is_empty()) {
                let model = model_of(variant, &aged);
                maker.make(variant, seed, "", |maker| maker.copy(variant, model, seed, emit))?;
            }
            for variant in aged.iter().chain(&fresh) {
                for planned in &run.plan.workloads {
                    let workload = matrix::work_of(variant, planned);
                    if setup_of(&workload).is_some() {
                        let dir = workload.directory();
                        maker.make(variant, seed, &dir, |maker| {
                            maker.set_up(variant, &workload, seed, emit)
                        })?;
                    }
                }
            }
            maker.clear_stage(emit)?;
        }
        let images = maker.images;
        for variant in aged.iter().chain(&fresh) {
            let model = (age_of(variant).is_none() && ages).then(|| model_of(variant, &aged));
            if let Some(text) = describe(variant, model, &seeds, &images) {
                let note = Note::new(NoteKind::Options, text).task(factor::AGE);
                emit(Event::Note(note.variant(&variant.name)))?;
            }
        }
        Ok(Some(AgedImages { _checkpoints: checkpoints, images, ages }))
    }

    /// The image that a cell begins with; None for a variant whose filesystem is made anew for each cell.
    ///
    /// # Errors
    /// Why it could not be made.
    pub fn find(&self, plan: &Plan, cell: &Cell) -> Result<Option<&Saved>, CellError> {
        let seed = if self.ages { plan.age.seed(cell.round) } else { ONLY_SEED };
        let key = |dir: String| (cell.variant.name.clone(), seed, dir);
        let of_setup = self.images.get(&key(cell.workload.directory()));
        match of_setup.or_else(|| self.images.get(&key(String::new()))) {
            None => Ok(None),
            Some(Ok(saved)) => Ok(Some(saved)),
            Some(Err(failed)) => Err(failed.clone()),
        }
    }

    /// The seed of the aged image that a cell begins with; None if it is not aged.
    pub fn seed(&self, plan: &Plan, cell: &Cell) -> Option<u64> {
        let has_image = matches!(self.find(plan, cell), Ok(Some(_)));
        (self.ages && has_image).then(|| plan.age.seed(cell.round))
    }
}

/// The seed of the images of a run that only keeps a setup.
const ONLY_SEED: u64 = 1;

/// The seeds of the images that the rounds of a plan begin with.
fn seeds(plan: &Plan) -> BTreeSet<u64> {
    (0..plan.stop.all_rounds())
        .filter(|round| plan.stop.has(*round))
        .map(|round| plan.age.seed(round))
        .collect()
}

/// The aged variant whose files a variant without age gets: the one that has the most levels in common.
fn model_of<'a>(variant: &Variant, aged: &[&'a Variant]) -> &'a Variant {
    let common =
        |other: &Variant| variant.levels.iter().filter(|(id, level)| other.level(id) == **level).count();
    let mut model = aged[0];
    for other in &aged[1..] {
        if common(other) > common(model) {
            model = other;
        }
    }
    model
}

/// A sentence about the images of a variant; None if it has none.
fn describe(
    variant: &Variant,
    model: Option<&Variant>,
    seeds: &BTreeSet<u64>,
    images: &Images,
) -> Option<String> {
    let of_seed = |seed: &u64| images.get(&(variant.name.clone(), *seed, String::new()))?.as_ref().ok();
    let saved: Vec<&Rc<Saved>> = seeds.iter().filter_map(of_seed).collect();
    let about = &saved.first()?.about;
    let tree = about.tree.as_ref()?;
    let (size, kept) = (about.devices.iter().sum(), saved.iter().map(|saved| saved.bytes).sum());
    let how = match model {
        None => format!("age={}", variant.level(factor::AGE)),
        Some(model) => {
            format!("the files of {}, copied in the order of their names to a new filesystem", model.name)
        }
    };
    Some(format!(
        "{how}: {} images of {}, from seeds 1 to {}, in {} of the cache; the first holds {} files with {}",
        saved.len(),
        ByteSize(size),
        seeds.last()?,
        ByteSize(kept),
        tree.files,
        ByteSize(tree.bytes),
    ))
}

/// What decides the content of an image.
#[derive(Serialize)]
struct History<'a> {
    generator: u32,
    work: Work<'a>,
    filesystem: &'a str,
    mkfs: &'a [String],
    /// The digest of the program.
    mkfs_program: String,
    mount: &'a str,
    journal: &'a str,
    raid: &'a str,
    stack: &'a str,
    devices: Vec<u64>,
    kernel: String,
    /// The user that the files belong to.
    user: u32,
}

/// What decides the files that a setup adds to an image.
#[derive(Serialize)]
struct SetupHistory<'a> {
    /// The history before it.
    before: String,
    /// The settings that its commands use.
    settings: BTreeMap<&'a str, &'a Value>,
    /// The size and time of the input.
    input: Option<(u64, i64)>,
    directory: String,
}

/// The files of an image.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Work<'a> {
    /// None.
    Empty,
    /// What this history leaves.
    Aged(&'a AgeWork),
    /// A copy of the tree with this digest.
    Fresh(&'a TreeDigest),
}

/// Makes the images of a run.
struct Maker<'a> {
    run: &'a RunContext,
    backing: &'a BackingDevices,
    checkpoints: &'a Checkpoints,
    images: Images,
    /// The tree that each history of files has left so far.
    trees: BTreeMap<String, TreeDigest>,
    /// The directory that agents keep copies of trees and histories in, and the digest of the tree that it has.
    stage: Option<(MadeDir, Option<TreeDigest>)>,
}

/// The filesystem of a variant, and the devices that it is made on.
struct Bed<'a> {
    variant: &'a Variant,
    def: &'static FsDef,
    options: VariantOptions,
    devices: Devices<'a>,
}

impl Maker<'_> {
    /// Makes an image by `work`, unless an image of the variant has failed already.
    fn make(
        &mut self,
        variant: &Variant,
        seed: u64,
        dir: &str,
        work: impl FnOnce(&mut Self) -> Result<Saved, CellError>,
    ) -> Result<()> {
        if self.images.iter().any(|((name, ..), image)| *name == variant.name && image.is_err()) {
            return Ok(());
        }
        let made = work(self).map(Rc::new);
        cancel::check()?;
        self.images.insert((variant.name.clone(), seed, dir.into()), made);
        Ok(())
    }

    /// The image of a variant before a setup that is kept.
    fn base(&self, variant: &Variant, seed: u64) -> Option<Rc<Saved>> {
        self.images.get(&(variant.name.clone(), seed, String::new()))?.as_ref().ok().cloned()
    }

    /// Makes the image of an aged variant, or continues an interrupted history.
    fn age(&mut self, variant: &Variant, seed: u64, emit: RunSink) -> Result<Saved, CellError> {
        let work = self.work(variant, seed)?;
        let saved = self.on_bed(variant, emit, |maker, bed, emit| {
            let history = json(&maker.history(bed, Work::Aged(&work))?)?;
            let mut saved = maker.checkpoints.find(&history);
            let (done, of) = (saved.as_ref().map_or(0, |saved| saved.about.part), work.parts());
            if let Some(saved) = saved.as_ref().filter(|_| done < of) {
                saved.restore(&bed.devices)?;
            }
            for part in done..of {
                let text = format!("Ageing {}, image {seed}: part {} of {of}.", variant.name, part + 1);
                emit(Event::Forecast { text })?;
                let mut about = match &saved {
                    Some(saved) => saved.about.clone(),
                    None => bed.format(&history, emit)?,
                };
                about.part = part + 1;
                let stage = maker.stage()?;
                maker.perform(bed, AgeStep::Part { work: work.clone(), part }, None, &stage, emit)?;
                if part + 1 == of {
                    about.tree = Some(read_digest(&stage)?);
                }
                saved = Some(maker.checkpoints.save(about, &bed.devices)?);
            }
            saved.ok_or_else(|| CellError::internal("the history has no parts"))
        })?;
        let tree = tree_of(&saved)?;
        if work.is_reproducible() && self.first_tree(json(&work)?, &tree) != tree {
            let why = format!("its history left other files than on another filesystem: {tree:?}");
            return Err(CellError::internal(why));
        }
        Ok(saved)
    }

    /// The tree that a history left first in this run, which is `tree` if it is the first time.
    fn first_tree(&mut self, history: String, tree: &TreeDigest) -> TreeDigest {
        self.trees.entry(history).or_insert_with(|| tree.clone()).clone()
    }

    /// Makes the image of a variant without age: a copy of the files of its model.
    fn copy(
        &mut self,
        variant: &Variant,
        model: &Variant,
        seed: u64,
        emit: RunSink,
    ) -> Result<Saved, CellError> {
        let missing = || CellError::missing(format!("the files of {} could not be made", model.name));
        let source = self.base(model, seed).ok_or_else(missing)?;
        let tree = tree_of(&source)?;
        let history =
            self.on_bed(variant, emit, |maker, bed, _| json(&maker.history(bed, Work::Fresh(&tree))?))?;
        if let Some(saved) = self.checkpoints.find(&history) {
            return Ok(saved);
        }
        let stage = self.stage()?;
        if self.stage.as_ref().is_none_or(|(_, staged)| staged.as_ref() != Some(&tree)) {
            self.on_bed(model, emit, |maker, bed, emit| {
                source.restore(&bed.devices)?;
                maker.perform(bed, AgeStep::CopyOut, None, &stage, emit)
            })?;
            if let Some((_, staged)) = &mut self.stage {
                *staged = Some(tree.clone());
            }
        }
        let text = format!("Copying the files of {}, image {seed}, to {}.", model.name, variant.name);
        emit(Event::Forecast { text })?;
        self.on_bed(variant, emit, |maker, bed, emit| {
            let mut about = bed.format(&history, emit)?;
            maker.perform(bed, AgeStep::CopyIn, None, &stage, emit)?;
            let copied = read_digest(&stage)?;
            if copied != tree {
                let why = format!("the copy differs from its original: {copied:?}, {tree:?}");
                return Err(CellError::internal(why));
            }
            about.tree = Some(copied);
            Ok(maker.checkpoints.save(about, &bed.devices)?)
        })
    }

    /// Makes the image with the setup of a workload that is kept, on that of the variant before.
    fn set_up(
        &mut self,
        variant: &Variant,
        workload: &WorkloadPlan,
        seed: u64,
        emit: RunSink,
    ) -> Result<Saved, CellError> {
        let settings = [SETUP_ONCE, "once", "env", "amount", "input"];
        let settings = settings.iter().filter_map(|id| Some((*id, workload.settings.0.get(*id)?))).collect();
        let input =
            std::fs::metadata(workload.settings.text("input")).ok().map(|meta| (meta.len(), meta.mtime()));
        let (base, directory) = (self.base(variant, seed), workload.directory());
        let mut setup = SetupHistory { before: String::new(), settings, input, directory };
        let of_setup = json(&setup)?;
        let saved = self.on_bed(variant, emit, |maker, bed, emit| {
            setup.before = match &base {
                Some(base) => base.about.history.clone(),
                None => json(&maker.history(bed, Work::Empty)?)?,
            };
            let history = json(&setup)?;
            if let Some(saved) = maker.checkpoints.find(&history) {
                return Ok(saved);
            }
            emit(Event::Forecast { text: format!("Setting up {} once.", variant.name) })?;
            let mut about = match &base {
                Some(base) => {
                    base.restore(&bed.devices)?;
                    Checkpoint::new(&history, 1, &base.about.mkfs, &base.about.features)
                }
                None => bed.format(&history, emit)?,
            };
            let source_disk = maker.backing.other.root();
            maker.perform(bed, AgeStep::Setup, Some(workload), source_disk, emit)?;
            about.part = 1;
            about.tree = Some(read_digest(source_disk)?);
            Ok(maker.checkpoints.save(about, &bed.devices)?)
        })?;
        let tree = tree_of(&saved)?;
        if self.first_tree(of_setup, &tree) != tree {
            let why = "setup_once left other files than before: its result differs from time to time, or from filesystem to \
                       filesystem; use `setup`, which runs in each round";
            return Err(CellError::new(Cause::Usage, why));
        }
        Ok(saved)
    }

    /// The history of files that the level of a variant asks for.
    fn work(&self, variant: &Variant, seed: u64) -> Result<AgeWork, CellError> {
        let capacity = self.run.check.size_bytes;
        match age_of(variant) {
            Some(Age::Churn { percent }) => {
                let fullness = fullness(variant);
                Ok(AgeWork::Churn(ChurnPlan { seed, capacity, fullness, percent }))
            }
            Some(Age::Git { pulls }) => {
                let repository = self.run.plan.age.repository.clone();
                Ok(AgeWork::Git(GitPulls::new(seed, pulls, repository)?))
            }
            Some(Age::Command { runs, words }) => {
                let program = digest_of_program(&words[0])?;
                Ok(AgeWork::Command { seed, runs, words, program })
            }
            None => Err(CellError::internal("a variant that is not aged")),
        }
    }

    /// Calls `work` with the filesystem and the devices of a variant, with the links of its stack.
    fn on_bed<T>(
        &mut self,
        variant: &Variant,
        emit: RunSink,
        work: impl FnOnce(&mut Self, &Bed, RunSink) -> Result<T, CellError>,
    ) -> Result<T, CellError> {
        let (run, backing) = (self.run, self.backing);
        let layout = run.layout(variant)?;
        let devices = backing.devices(&layout)?;
        let (def, mut options) = filesystem_of(variant)?;
        if run.plan.device.precondition {
            options.without_discard(def);
        }
        grammar::pin_random_values(def, &mut options.mkfs);
        let linked = make_links(run, variant, &layout, &devices)?;
        let top: Devices = linked.as_ref().map_or_else(|| devices.clone(), Devices::from);
        let done = work(self, &Bed { variant, def, options, devices: top }, emit);
        if let Some(linked) = linked {
            linked.release(&mut |_| ())?;
        }
        done
    }

    /// Everything that decides the content of an image.
    fn history<'b>(&self, bed: &'b Bed, work: Work<'b>) -> Result<History<'b>, CellError> {
        let Bed { variant, def, options, devices } = bed;
        let kernel =
            ["osrelease", "version"].map(|name| self.run.kernel.fact(&format!("proc/sys/kernel/{name}")));
        Ok(History {
            generator: GENERATOR,
            work,
            filesystem: def.id,
            mkfs: &options.mkfs,
            mkfs_program: digest_of_program(def.mkfs)?,
            mount: &options.mount,
            journal: variant.level(factor::JOURNAL),
            raid: variant.level(factor::RAID),
            stack: variant.level(factor::STACK),
            devices: devices.all().map(|device| device.size_bytes()).collect(),
            kernel: kernel.into_iter().flatten().collect::<Vec<_>>().join(" "),
            user: self.run.agents.user.uid,
        })
    }

    /// The directory that agents keep copies of trees and histories in. The workload's user may write to it.
    fn stage(&mut self) -> Result<PathBuf, CellError> {
        if let Some((dir, _)) = &self.stage {
            return Ok(dir.path().into());
        }
        let dir = MadeDir::make_tree(&self.run.journal, &self.run.dir.join("ageing"))?;
        self.run.agents.role.give_to_workload_user(dir.path())?;
        let path = dir.path().to_path_buf();
        self.stage = Some((dir, None));
        Ok(path)
    }

    fn clear_stage(&mut self, emit: RunSink) -> Result<()> {
        match self.stage.take() {
            Some((dir, _)) => remove(dir, emit),
            None => Ok(()),
        }
    }

    /// Has an agent mount the filesystem, perform a step, and unmount it. `other` is the directory that the agent reads from and
    /// writes to besides; `workload` is the one whose setup the step runs.
    fn perform(
        &self,
        bed: &Bed,
        step: AgeStep,
        workload: Option<&WorkloadPlan>,
        other: &Path,
        emit: RunSink,
    ) -> Result<(), CellError> {
        let Bed { variant, def, options, devices } = bed;
        let (run, target) = (self.run, self.backing.target.path());
        let workload = workload.or(run.plan.workloads.first());
        let workload = workload.ok_or_else(|| CellError::internal("a plan without workload"))?;
        let cell = Cell {
            round: 0,
            position: 0,
            variant: (*variant).clone(),
            workload: matrix::work_of(variant, workload),
            scale: run.plan.scale,
            seed: run.plan.seed,
        };
        let mount = MountRequest {
            source: devices.source(def).into(),
            target: target.into(),
            fs_type: def.id.into(),
            options: lifecycle::mount_options(def, options, devices),
            journal: devices.journal.map(|device| device.path().into()),
            by_call: false,
            layer: None,
            packed_bytes: None,
        };
        let root = target.join(if step == AgeStep::Setup { WORK } else { AGED });
        let request = Request { mount: Some(mount), age: Some(step), ..run.request(&cell, &root, other) };
        let mounted = run.journal.note(Undo::unmount(target))?;
        let mut events = vec![];
        let mut keep = |event: CellEvent| match event {
            CellEvent::Command(record) => events.push(Event::Command(record)),
            CellEvent::Note(note) => events.push(Event::Note(note)),
            _ => {}
        };
        let outcome = child::run(&run.journal, &request, &Confine::default(), &mut keep);
        // The agent unmounts the filesystem itself. This is for an agent that could not.
        mount::unmount(target, &mut |record| events.push(Event::Command(record)))?;
        mounted.disarm()?;
        events.into_iter().try_for_each(emit)?;
        let outcome = outcome?;
        cancel::check()?;
        CellError::check(outcome)
    }
}

/// The tree that the history of a checkpoint has left.
fn tree_of(saved: &Saved) -> Result<TreeDigest, CellError> {
    saved.about.tree.clone().ok_or_else(|| CellError::internal("the checkpoint has no digest of its files"))
}

impl Bed<'_> {
    /// Makes the filesystem. Returns the description of its first checkpoint.
    fn format(&self, history: &str, emit: RunSink) -> Result<Checkpoint, CellError> {
        let mut commands = vec![];
        let mut log = |record| commands.push(record);
        let level = self.variant.level(factor::MKFS);
        // Each image has its own UUID: another run with another cache may have attached one at the same time.
        let mut options = self.options.clone();
        let key = Checkpoints::key(history);
        let uuid = [&key[..8], &key[8..12], &key[12..16], &key[16..20], &key[20..]].join("-");
        grammar::replace_pinned_uuid(&mut options.mkfs, &uuid);
        let made = lifecycle::format(self.devices.clone(), self.def, &options, &mut log);
        let made = made.map_err(|error| CellError::from(error).with_options(level))?;
        lifecycle::complete(&self.devices, self.def, &options, &mut log)?;
        self.devices
            .members
            .iter()
            .try_for_each(|device| device.finish_links())
            .map_err(Error::io("finishing", self.devices.first()))?;
        let features = lifecycle::describe(self.devices.members[0], self.def, &mut log).unwrap_or_default();
        commands.into_iter().try_for_each(|record| emit(Event::Command(record)))?;
        Ok(Checkpoint::new(history, 1, &made.argv.join(" "), &features))
    }
}

fn json(value: &impl Serialize) -> Result<String, CellError> {
    serde_json::to_string(value).map_err(|error| CellError::internal(error.to_string()))
}

/// The digest of a program: another version of it may do something else.
fn digest_of_program(name: &str) -> Result<String, CellError> {
    let path = if name.contains('/') { Some(PathBuf::from(name)) } else { program::find(name) };
    let path = path.ok_or_else(|| CellError::missing(format!("{name} is not installed")))?;
    let bytes = std::fs::read(&path).map_err(Error::io("reading", &path))?;
    Ok(blake3::hash(&bytes).to_hex()[..32].into())
}
