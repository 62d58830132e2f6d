//! The aged filesystems of a run: one image for each variant and seed, made once and kept in the cache.
//!
//! An image is aged on the devices of the run, and saved after each part of its history. Each cell gets its image by a write
//! of its whole devices, also a cell without age, so that the state of the devices is the same; see
//! `docs/adr/0031-checkpoints-of-aged-images.md`.

use crate::ageing::{AgeStep, AgeWork};
use crate::ager::{Ager, Bed};
use crate::axes::{age::age_of, age::keeps_images, age::setup_of, fill::fullness};
use crate::checkpoint::{Checkpoint, Checkpoints, Saved};
use crate::context::RunContext;
use crate::digests::digest_of_input;
use crate::error::{CellError, Result};
use crate::executor::RunSink;
use crate::layout::filesystem_of;
use crate::work;
use bytesize::ByteSize;
use fsarena_core::cell::{Cell, Variant, WorkloadPlan};
use fsarena_core::event::{Cause, Event, LeftTree, Note, NoteKind, TreeDigest};
use fsarena_core::factor::{self, age::Age};
use fsarena_core::{matrix, plan::Plan, setting::Value};
use fsarena_fs::lifecycle::{self, Devices};
use fsarena_fs::{def::FsDef, filesystems, grammar};
use fsarena_load::ageing::{ChurnPlan, GitPulls};
use fsarena_load::workloads::SETUP_ONCE;
use fsarena_sys::{Error, cancel, image::Image, program};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
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
    pub fn make(run: &RunContext, ager: &dyn Ager, emit: RunSink) -> Result<Option<AgedImages>> {
        let variants = matrix::expand(&run.plan);
        if !keeps_images(&run.plan, &variants) {
            return Ok(None);
        }
        let ages = variants.iter().any(|variant| age_of(variant).is_some());
        let checkpoints = Checkpoints::open()?;
        let (images, trees) = (Images::new(), BTreeMap::new());
        let mut maker = Maker { run, ager, checkpoints: &checkpoints, images, trees, staged: None };
        let (aged, fresh): (Vec<&Variant>, Vec<&Variant>) = variants
            .iter()
            .filter(|variant| is_general(variant))
            .partition(|variant| age_of(variant).is_some());
        let seeds = if ages { seeds(&run.plan) } else { BTreeSet::from([ONLY_SEED]) };
        for seed in &seeds {
            maker.make_of_seed(&aged, &fresh, *seed, emit)?;
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
    let LeftTree { tree, layout } = about.left.as_ref()?;
    let (size, kept) = (about.devices.iter().sum(), saved.iter().map(|saved| saved.bytes).sum());
    let how = match model {
        None => format!("age={}", variant.level(factor::AGE)),
        Some(model) => {
            format!("the files of {}, copied in the order of their names to a new filesystem", model.name)
        }
    };
    Some(format!(
        "{how}: {} images of {}, from seeds 1 to {}, in {} of the cache; the first holds {} files with {} (digest {}), {}",
        saved.len(),
        ByteSize(size),
        seeds.last()?,
        ByteSize(kept),
        tree.files,
        ByteSize(tree.bytes),
        short(&tree.digest),
        match layout {
            Some(layout) => format!("whose extents have the digest {}", short(layout)),
            None => "and this kernel reports no places of their extents".into(),
        },
    ))
}

/// The beginning of a digest, enough for a reader to compare two.
fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
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
    /// The scale, which the commands find in their environment.
    scale: &'a str,
    /// The files and directories that the workload names, each with a digest.
    inputs: BTreeMap<PathBuf, String>,
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
    ager: &'a dyn Ager,
    checkpoints: &'a Checkpoints,
    images: Images,
    /// The tree that each history of files has left so far.
    trees: BTreeMap<String, TreeDigest>,
    /// The tree that agents have copied, for variants without age.
    staged: Option<TreeDigest>,
}

impl Maker<'_> {
    /// Makes the images of all variants from one seed.
    fn make_of_seed(
        &mut self,
        aged: &[&Variant],
        fresh: &[&Variant],
        seed: u64,
        emit: RunSink,
    ) -> Result<()> {
        for variant in aged {
            self.make(variant, seed, "", |maker| maker.age(variant, seed, emit))?;
        }
        for variant in fresh.iter().filter(|_| !aged.is_empty()) {
            let model = model_of(variant, aged);
            self.make(variant, seed, "", |maker| maker.copy(variant, model, seed, emit))?;
        }
        let (run, ager) = (self.run, self.ager);
        for variant in aged.iter().chain(fresh) {
            for planned in run.plan.workloads.iter().filter(|_| ager.keeps_setups()) {
                let workload = matrix::workload_of(variant, planned);
                if setup_of(&workload).is_some() {
                    let dir = workload.directory();
                    self.make(variant, seed, &dir, |maker| maker.set_up(variant, &workload, seed, emit))?;
                }
            }
        }
        self.staged = None;
        ager.clear_stage(emit)
    }

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
                    None => format(bed, &history, emit)?,
                };
                about.part = part + 1;
                about.left =
                    maker.ager.perform(bed, AgeStep::Part { work: work.clone(), part }, None, emit)?;
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
        if self.staged.as_ref() != Some(&tree) {
            self.on_bed(model, emit, |maker, bed, emit| {
                source.restore(&bed.devices)?;
                maker.ager.perform(bed, AgeStep::CopyOut, None, emit).map(drop)
            })?;
            self.staged = Some(tree.clone());
        }
        let text = format!("Copying the files of {}, image {seed}, to {}.", model.name, variant.name);
        emit(Event::Forecast { text })?;
        self.on_bed(variant, emit, |maker, bed, emit| {
            let mut about = format(bed, &history, emit)?;
            about.left = maker.ager.perform(bed, AgeStep::CopyIn, None, emit)?;
            let copied = about.left.as_ref().map(|left| &left.tree);
            if copied != Some(&tree) {
                let why = format!("the copy differs from its original: {copied:?}, {tree:?}");
                return Err(CellError::internal(why));
            }
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
        let (base, directory) = (self.base(variant, seed), workload.directory());
        let (inputs, scale) = (inputs_of(self.run, variant, workload)?, self.run.plan.scale.name());
        let mut setup = SetupHistory { before: String::new(), settings, scale, inputs, directory };
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
                None => format(bed, &history, emit)?,
            };
            about.left = maker.ager.perform(bed, AgeStep::Setup, Some(workload), emit)?;
            about.part = 1;
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
                let program_digest = digest_of_program(&words[0])?;
                Ok(AgeWork::Command { seed, runs, words, program_digest })
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
        let (run, ager) = (self.run, self.ager);
        let layout = run.layout(variant)?;
        let devices = ager.devices(&layout)?;
        let (def, mut options) = filesystem_of(variant)?;
        if run.plan.device.precondition {
            options.without_discard(def);
        }
        grammar::pin_random_values(def, &mut options.mkfs);
        let linked = ager.links(variant, &layout, &devices)?;
        let top: Devices = linked.as_ref().map_or_else(|| devices.clone(), Devices::from);
        let bed = Bed { variant, def, options, devices: top, is_unmade: std::cell::Cell::new(false) };
        let done = work(self, &bed, emit);
        if let Some(linked) = linked {
            linked.release(&mut |_| ())?;
        }
        done
    }

    /// Everything that decides the content of an image.
    fn history<'b>(&self, bed: &'b Bed, work: Work<'b>) -> Result<History<'b>, CellError> {
        let Bed { variant, def, options, devices, .. } = bed;
        Ok(History {
            generator: GENERATOR,
            work,
            filesystem: def.id,
            mkfs: &options.mkfs,
            mkfs_program: match &options.program {
                Some(program) => digest_of_program(&program.to_string_lossy())?,
                None => digest_of_program(def.mkfs)?,
            },
            mount: &options.mount,
            journal: variant.level(factor::JOURNAL),
            raid: variant.level(factor::RAID),
            stack: variant.level(factor::STACK),
            devices: devices.all().map(|device| device.size_bytes()).collect(),
            kernel: self.ager.kernel(variant)?,
            user: self.ager.user(),
        })
    }
}

/// The tree that the history of a checkpoint has left.
fn tree_of(saved: &Saved) -> Result<TreeDigest, CellError> {
    saved
        .about
        .left
        .as_ref()
        .map(|left| left.tree.clone())
        .ok_or_else(|| CellError::internal("the checkpoint has no digest of its files"))
}

/// Makes the filesystem of a bed. Returns the description of its first checkpoint.
fn format(bed: &Bed, history: &str, emit: RunSink) -> Result<Checkpoint, CellError> {
    let Bed { variant, def, devices, .. } = bed;
    let mut commands = vec![];
    let mut log = |record| commands.push(record);
    // Each image has its own UUID: another run with another cache may have attached one at the same time.
    let mut options = bed.options.clone();
    let key = Checkpoints::key(history);
    let uuid = [&key[..8], &key[8..12], &key[12..16], &key[16..20], &key[20..]].join("-");
    grammar::replace_pinned_uuid(&mut options.mkfs, &uuid);
    devices.all().filter_map(|device| device.file()).try_for_each(Image::clear)?;
    if def.pool.is_some() {
        bed.is_unmade.set(true);
        let words = lifecycle::mkfs_words(def, &options)?;
        return Ok(Checkpoint::new(history, 1, &format!("{}, in the guest", words.join(" ")), ""));
    }
    let made = lifecycle::format(devices.clone(), def, &options, &mut log);
    let made = made.map_err(|error| CellError::from(error).with_options(variant.level(factor::MKFS)))?;
    lifecycle::complete(devices, def, &options, &mut log)?;
    devices
        .members
        .iter()
        .try_for_each(|device| device.finish_stack())
        .map_err(Error::io("finishing", devices.first()))?;
    let features = lifecycle::describe(devices.members[0], def, &mut log).unwrap_or_default();
    commands.into_iter().try_for_each(|record| emit(Event::Command(record)))?;
    Ok(Checkpoint::new(history, 1, &made.argv.join(" "), &features))
}

/// The files and directories of this machine that a workload names, each with a digest.
fn inputs_of(
    run: &RunContext,
    variant: &Variant,
    planned: &WorkloadPlan,
) -> Result<BTreeMap<PathBuf, String>, CellError> {
    let (workload, job) = work::workload(&run.plan, &matrix::workload_of(variant, planned))?;
    let mut inputs = BTreeMap::new();
    for path in workload.named_paths(&job) {
        // Directories directly below the root hold the system.
        let is_input = path.parent().is_some_and(|above| above != Path::new("/"));
        let of_kernel = ["/proc", "/sys", "/dev"].iter().any(|dir| path.starts_with(dir));
        if is_input
            && !of_kernel
            && let Ok(digest) = digest_of_input(&path)
        {
            inputs.insert(path, digest);
        }
    }
    Ok(inputs)
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
