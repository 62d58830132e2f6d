//! The aged filesystems of a run: one image for each variant and seed, made once and kept in the cache.
//!
//! An image is aged on the devices of the run, and saved after each part of its history. Before each cell, also one without
//! age, fsarena writes the image over the whole devices, so that all cells find the devices in the same state; see
//! `docs/adr/0031-checkpoints-of-aged-images.md`.

use crate::ageing::{AgeStep, AgeWork};
use crate::ager::{Ager, VariantFilesystem};
use crate::axes::{age::age_of, age::keeps_images, age::kept_setup_of, fill::fullness};
use crate::checkpoint::{Checkpoint, CheckpointCache, CheckpointInfo};
use crate::context::RunContext;
use crate::device_layout::filesystem_of;
use crate::digests::digest_of_input;
use crate::error::{CellError, Result};
use crate::executor::RunSink;
use crate::work;
use bytesize::ByteSize;
use fsarena_core::cell::{Cell, Variant, WorkloadPlan};
use fsarena_core::event::{Cause, Event, Note, NoteKind, TreeDigest, TreeState};
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

/// The version of the generator of histories: it changes whenever equal seeds no longer give equal operations.
const GENERATOR_VERSION: u32 = 1;

/// The images of a run.
pub struct AgedImages {
    _checkpoints: CheckpointCache,
    images: Images,
    /// Whether a variant is aged.
    has_aged_variants: bool,
}

/// The images, each by its variant, its seed and the directory of its workload, or why it could not be made. The directory is
/// empty for an image without the setup of a workload.
type Images = BTreeMap<(String, u64, String), Result<Rc<Checkpoint>, CellError>>;

/// Whether the filesystem of a variant can be aged. Other filesystems are made anew for each cell.
fn can_be_aged(variant: &Variant) -> bool {
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
        let has_aged_variants = variants.iter().any(|variant| age_of(variant).is_some());
        let checkpoints = CheckpointCache::open()?;
        let (images, trees) = (Images::new(), BTreeMap::new());
        let mut maker = ImageMaker { run, ager, checkpoints: &checkpoints, images, trees, staged: None };
        let (aged, fresh): (Vec<&Variant>, Vec<&Variant>) =
            variants.iter().filter(|variant| can_be_aged(variant)).partition(|variant| age_of(variant).is_some());
        let seeds = if has_aged_variants { seeds(&run.plan) } else { BTreeSet::from([ONLY_SEED]) };
        for seed in &seeds {
            maker.make_images_of_seed(&aged, &fresh, *seed, emit)?;
        }
        let images = maker.images;
        for variant in aged.iter().chain(&fresh) {
            let model = (age_of(variant).is_none() && has_aged_variants).then(|| most_similar_aged(variant, &aged));
            if let Some(text) = describe_images(variant, model, &seeds, &images) {
                let note = Note::new(NoteKind::Options, text).task(factor::AGE);
                emit(Event::Note(note.variant(&variant.name)))?;
            }
        }
        Ok(Some(AgedImages { _checkpoints: checkpoints, images, has_aged_variants }))
    }

    /// The image that a cell begins with; None for a variant whose filesystem is made anew for each cell.
    ///
    /// # Errors
    /// Why it could not be made.
    pub fn find(&self, plan: &Plan, cell: &Cell) -> Result<Option<&Checkpoint>, CellError> {
        let seed = if self.has_aged_variants { plan.age.image_seed(cell.round) } else { ONLY_SEED };
        let key = |dir: String| (cell.variant.name.clone(), seed, dir);
        let of_setup = self.images.get(&key(cell.workload.directory_name()));
        match of_setup.or_else(|| self.images.get(&key(String::new()))) {
            None => Ok(None),
            Some(Ok(saved)) => Ok(Some(saved)),
            Some(Err(failed)) => Err(failed.clone()),
        }
    }

    /// The seed of the aged image that a cell begins with; None if it is not aged.
    pub fn seed(&self, plan: &Plan, cell: &Cell) -> Option<u64> {
        let has_image = matches!(self.find(plan, cell), Ok(Some(_)));
        (self.has_aged_variants && has_image).then(|| plan.age.image_seed(cell.round))
    }
}

/// The seed of the images of a run that only keeps a setup.
const ONLY_SEED: u64 = 1;

/// The seeds of the images that the rounds of a plan begin with.
fn seeds(plan: &Plan) -> BTreeSet<u64> {
    (0..plan.stop.all_rounds())
        .filter(|round| plan.stop.runs_round(*round))
        .map(|round| plan.age.image_seed(round))
        .collect()
}

/// The aged variant whose files a variant without age gets: the one that has the most levels in common.
fn most_similar_aged<'a>(variant: &Variant, aged: &[&'a Variant]) -> &'a Variant {
    let common =
        |candidate: &Variant| variant.levels.iter().filter(|(id, level)| candidate.level(id) == **level).count();
    let mut model = aged[0];
    for candidate in &aged[1..] {
        if common(candidate) > common(model) {
            model = candidate;
        }
    }
    model
}

/// A sentence about the images of a variant; None if it has none.
fn describe_images(
    variant: &Variant,
    model: Option<&Variant>,
    seeds: &BTreeSet<u64>,
    images: &Images,
) -> Option<String> {
    let of_seed = |seed: &u64| images.get(&(variant.name.clone(), *seed, String::new()))?.as_ref().ok();
    let saved: Vec<&Rc<Checkpoint>> = seeds.iter().filter_map(of_seed).collect();
    let info = &saved.first()?.info;
    let TreeState { tree, layout } = info.left_tree.as_ref()?;
    let (size, cached_bytes) = (info.device_bytes.iter().sum(), saved.iter().map(|saved| saved.bytes).sum());
    let origin = match model {
        None => format!("age={}", variant.level(factor::AGE)),
        Some(model) => {
            format!("the files of {}, copied in the order of their names to a new filesystem", model.name)
        }
    };
    Some(format!(
        "{origin}: {} images of {}, from seeds 1 to {}, in {} of the cache; the first holds {} files with {} (digest {}), {}",
        saved.len(),
        ByteSize(size),
        seeds.last()?,
        ByteSize(cached_bytes),
        tree.files,
        ByteSize(tree.bytes),
        short_digest(&tree.digest),
        match layout {
            Some(layout) => format!("whose extents have the digest {}", short_digest(layout)),
            None => "and this kernel reports no places of their extents".into(),
        },
    ))
}

/// The beginning of a digest, enough for a reader to compare two.
fn short_digest(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// What decides the content of an image.
#[derive(Serialize)]
struct History<'a> {
    generator: u32,
    work: ImageFiles<'a>,
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
enum ImageFiles<'a> {
    /// No files.
    Empty,
    /// The files that this history leaves.
    Aged(&'a AgeWork),
    /// A copy of the tree with this digest.
    Fresh(&'a TreeDigest),
}

/// Makes the images of a run.
struct ImageMaker<'a> {
    run: &'a RunContext,
    ager: &'a dyn Ager,
    checkpoints: &'a CheckpointCache,
    images: Images,
    /// The tree that each history of files has left so far.
    trees: BTreeMap<String, TreeDigest>,
    /// The tree that agents have copied, for variants without age.
    staged: Option<TreeDigest>,
}

impl ImageMaker<'_> {
    /// Makes the images of all variants from one seed.
    fn make_images_of_seed(&mut self, aged: &[&Variant], fresh: &[&Variant], seed: u64, emit: RunSink) -> Result<()> {
        for variant in aged {
            self.make_image(variant, seed, "", |maker| maker.age_image(variant, seed, emit))?;
        }
        for variant in fresh.iter().filter(|_| !aged.is_empty()) {
            let model = most_similar_aged(variant, aged);
            self.make_image(variant, seed, "", |maker| maker.copy_image(variant, model, seed, emit))?;
        }
        let (run, ager) = (self.run, self.ager);
        for variant in aged.iter().chain(fresh) {
            for planned in run.plan.workloads.iter().filter(|_| ager.keeps_setups()) {
                let workload = matrix::workload_of(variant, planned);
                if kept_setup_of(&workload).is_some() {
                    let dir = workload.directory_name();
                    self.make_image(variant, seed, &dir, |maker| maker.set_up_image(variant, &workload, seed, emit))?;
                }
            }
        }
        self.staged = None;
        ager.remove_stage(emit)
    }

    /// Makes an image by `work`, unless an image of the variant has failed already.
    fn make_image(
        &mut self,
        variant: &Variant,
        seed: u64,
        dir: &str,
        work: impl FnOnce(&mut Self) -> Result<Checkpoint, CellError>,
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
    fn base_image(&self, variant: &Variant, seed: u64) -> Option<Rc<Checkpoint>> {
        self.images.get(&(variant.name.clone(), seed, String::new()))?.as_ref().ok().cloned()
    }

    /// Makes the image of an aged variant, or continues an interrupted history.
    fn age_image(&mut self, variant: &Variant, seed: u64, emit: RunSink) -> Result<Checkpoint, CellError> {
        let work = self.age_work(variant, seed)?;
        let saved = self.with_filesystem(variant, emit, |maker, filesystem, emit| {
            let history = to_json(&maker.history(filesystem, ImageFiles::Aged(&work))?)?;
            let mut saved = maker.checkpoints.find(&history);
            let (parts_done, part_count) = (saved.as_ref().map_or(0, |saved| saved.info.parts_done), work.part_count());
            if let Some(saved) = saved.as_ref().filter(|_| parts_done < part_count) {
                saved.restore(&filesystem.devices)?;
            }
            for part in parts_done..part_count {
                let text = format!("Ageing {}, image {seed}: part {} of {part_count}.", variant.name, part + 1);
                emit(Event::Forecast { text })?;
                let mut info = match &saved {
                    Some(saved) => saved.info.clone(),
                    None => make_filesystem(filesystem, &history, emit)?,
                };
                info.parts_done = part + 1;
                info.left_tree =
                    maker.ager.perform_step(filesystem, AgeStep::Part { work: work.clone(), part }, None, emit)?;
                saved = Some(maker.checkpoints.save(info, &filesystem.devices)?);
            }
            saved.ok_or_else(|| CellError::internal("the history has no parts"))
        })?;
        let tree = tree_of(&saved)?;
        if work.is_reproducible() && self.first_tree_of(to_json(&work)?, &tree) != tree {
            let why = format!("its history left other files than on another filesystem: {tree:?}");
            return Err(CellError::internal(why));
        }
        Ok(saved)
    }

    /// The tree that a history left first in this run, which is `tree` if it is the first time.
    fn first_tree_of(&mut self, history: String, tree: &TreeDigest) -> TreeDigest {
        self.trees.entry(history).or_insert_with(|| tree.clone()).clone()
    }

    /// Makes the image of a variant without age: a copy of the files of its model.
    fn copy_image(
        &mut self,
        variant: &Variant,
        model: &Variant,
        seed: u64,
        emit: RunSink,
    ) -> Result<Checkpoint, CellError> {
        let missing = || CellError::missing(format!("the files of {} could not be made", model.name));
        let source = self.base_image(model, seed).ok_or_else(missing)?;
        let tree = tree_of(&source)?;
        let history = self.with_filesystem(variant, emit, |maker, filesystem, _| {
            to_json(&maker.history(filesystem, ImageFiles::Fresh(&tree))?)
        })?;
        if let Some(saved) = self.checkpoints.find(&history) {
            return Ok(saved);
        }
        if self.staged.as_ref() != Some(&tree) {
            self.with_filesystem(model, emit, |maker, filesystem, emit| {
                source.restore(&filesystem.devices)?;
                maker.ager.perform_step(filesystem, AgeStep::CopyOut, None, emit).map(drop)
            })?;
            self.staged = Some(tree.clone());
        }
        let text = format!("Copying the files of {}, image {seed}, to {}.", model.name, variant.name);
        emit(Event::Forecast { text })?;
        self.with_filesystem(variant, emit, |maker, filesystem, emit| {
            let mut info = make_filesystem(filesystem, &history, emit)?;
            info.left_tree = maker.ager.perform_step(filesystem, AgeStep::CopyIn, None, emit)?;
            let copied = info.left_tree.as_ref().map(|left| &left.tree);
            if copied != Some(&tree) {
                let why = format!("the copy differs from its original: {copied:?}, {tree:?}");
                return Err(CellError::internal(why));
            }
            Ok(maker.checkpoints.save(info, &filesystem.devices)?)
        })
    }

    /// Makes the image of a variant after the setup of a workload, from its image before the setup.
    fn set_up_image(
        &mut self,
        variant: &Variant,
        workload: &WorkloadPlan,
        seed: u64,
        emit: RunSink,
    ) -> Result<Checkpoint, CellError> {
        let settings = [SETUP_ONCE, "once", "env", "amount", "input"];
        let settings = settings.iter().filter_map(|id| Some((*id, workload.settings.0.get(*id)?))).collect();
        let (base, directory) = (self.base_image(variant, seed), workload.directory_name());
        let (inputs, scale) = (inputs_of(self.run, variant, workload)?, self.run.plan.scale.name());
        let mut setup = SetupHistory { before: String::new(), settings, scale, inputs, directory };
        let of_setup = to_json(&setup)?;
        let saved = self.with_filesystem(variant, emit, |maker, filesystem, emit| {
            setup.before = match &base {
                Some(base) => base.info.history.clone(),
                None => to_json(&maker.history(filesystem, ImageFiles::Empty)?)?,
            };
            let history = to_json(&setup)?;
            if let Some(saved) = maker.checkpoints.find(&history) {
                return Ok(saved);
            }
            emit(Event::Forecast { text: format!("Setting up {} once.", variant.name) })?;
            let mut info = match &base {
                Some(base) => {
                    base.restore(&filesystem.devices)?;
                    CheckpointInfo::new(&history, 1, &base.info.mkfs, &base.info.features)
                }
                None => make_filesystem(filesystem, &history, emit)?,
            };
            info.left_tree = maker.ager.perform_step(filesystem, AgeStep::Setup, Some(workload), emit)?;
            info.parts_done = 1;
            Ok(maker.checkpoints.save(info, &filesystem.devices)?)
        })?;
        let tree = tree_of(&saved)?;
        if self.first_tree_of(of_setup, &tree) != tree {
            let why = "setup_once left other files than before: its result differs from time to time, or from filesystem to \
                       filesystem; use `setup`, which runs in each round";
            return Err(CellError::new(Cause::Usage, why));
        }
        Ok(saved)
    }

    /// The ageing of a variant from this seed, as its level describes it.
    fn age_work(&self, variant: &Variant, seed: u64) -> Result<AgeWork, CellError> {
        let capacity = self.run.requirements.size_bytes;
        match age_of(variant) {
            Some(Age::Churn { percent }) => {
                let fullness = fullness(variant);
                Ok(AgeWork::Churn(ChurnPlan { seed, capacity, fullness, percent }))
            }
            Some(Age::Git { pulls }) => {
                let repository = self.run.plan.age.repository.clone();
                Ok(AgeWork::Git(GitPulls::new(seed, pulls, repository)?))
            }
            Some(Age::Command { runs, argv }) => {
                let program_digest = digest_of_program(&argv[0])?;
                Ok(AgeWork::Command { seed, runs, words: argv, program_digest })
            }
            None => Err(CellError::internal("a variant that is not aged")),
        }
    }

    /// Calls `work` with the filesystem and the devices of a variant, with the links of its stack.
    fn with_filesystem<T>(
        &mut self,
        variant: &Variant,
        emit: RunSink,
        work: impl FnOnce(&mut Self, &VariantFilesystem, RunSink) -> Result<T, CellError>,
    ) -> Result<T, CellError> {
        let (run, ager) = (self.run, self.ager);
        let layout = run.layout(variant)?;
        let devices = ager.devices(&layout)?;
        let (def, mut options) = filesystem_of(variant)?;
        if run.plan.device.precondition {
            options.disable_discard(def);
        }
        grammar::pin_random_values(def, &mut options.mkfs);
        let stack = ager.make_links(variant, &layout, &devices)?;
        let top: Devices = stack.as_ref().map_or_else(|| devices.clone(), Devices::from);
        let filesystem =
            VariantFilesystem { variant, def, options, devices: top, needs_mkfs: std::cell::Cell::new(false) };
        let result = work(self, &filesystem, emit);
        if let Some(stack) = stack {
            stack.release(&mut |_| ())?;
        }
        result
    }

    /// Everything that decides the content of an image.
    fn history<'b>(&self, filesystem: &'b VariantFilesystem, work: ImageFiles<'b>) -> Result<History<'b>, CellError> {
        let VariantFilesystem { variant, def, options, devices, .. } = filesystem;
        Ok(History {
            generator: GENERATOR_VERSION,
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
            kernel: self.ager.kernel_version(variant)?,
            user: self.ager.owner_uid(),
        })
    }
}

/// The tree that the history of a checkpoint has left.
fn tree_of(saved: &Checkpoint) -> Result<TreeDigest, CellError> {
    saved
        .info
        .left_tree
        .as_ref()
        .map(|left| left.tree.clone())
        .ok_or_else(|| CellError::internal("the checkpoint has no digest of its files"))
}

/// Makes the filesystem of a variant. Returns the description of its first checkpoint.
fn make_filesystem(filesystem: &VariantFilesystem, history: &str, emit: RunSink) -> Result<CheckpointInfo, CellError> {
    let VariantFilesystem { variant, def, devices, .. } = filesystem;
    let mut commands = vec![];
    let mut log = |record| commands.push(record);
    // Each image has its own UUID: another run with another cache may have attached one at the same time.
    let mut options = filesystem.options.clone();
    let key = CheckpointCache::history_key(history);
    let uuid = [&key[..8], &key[8..12], &key[12..16], &key[16..20], &key[20..]].join("-");
    grammar::replace_pinned_uuid(&mut options.mkfs, &uuid);
    devices.all().filter_map(|device| device.file()).try_for_each(Image::clear)?;
    if def.pool.is_some() {
        filesystem.needs_mkfs.set(true);
        let words = lifecycle::mkfs_words(def, &options)?;
        return Ok(CheckpointInfo::new(history, 1, &format!("{}, in the guest", words.join(" ")), ""));
    }
    let made = lifecycle::format(devices.clone(), def, &options, &mut log);
    let made = made.map_err(|error| CellError::from(error).blame_options(variant.level(factor::MKFS)))?;
    lifecycle::reformat_if_work_left(devices, def, &options, &mut log)?;
    devices
        .members
        .iter()
        .try_for_each(|device| device.finish_stack())
        .map_err(Error::io("finishing", devices.first()))?;
    let features = lifecycle::describe(devices.members[0], def, &mut log).unwrap_or_default();
    commands.into_iter().try_for_each(|record| emit(Event::Command(record)))?;
    Ok(CheckpointInfo::new(history, 1, &made.argv.join(" "), &features))
}

/// The files and directories of this machine that a workload names, each with a digest.
fn inputs_of(
    run: &RunContext,
    variant: &Variant,
    planned: &WorkloadPlan,
) -> Result<BTreeMap<PathBuf, String>, CellError> {
    let (workload, job) = work::find_workload(&run.plan, &matrix::workload_of(variant, planned))?;
    let mut inputs = BTreeMap::new();
    for path in workload.paths_in_settings(&job) {
        // Directories directly below the root hold the system.
        let is_input = path.parent().is_some_and(|parent| parent != Path::new("/"));
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

fn to_json(value: &impl Serialize) -> Result<String, CellError> {
    serde_json::to_string(value).map_err(|error| CellError::internal(error.to_string()))
}

/// The digest of a program: another version of it may do something else.
fn digest_of_program(name: &str) -> Result<String, CellError> {
    let path = if name.contains('/') { Some(PathBuf::from(name)) } else { program::find(name) };
    let path = path.ok_or_else(|| CellError::missing(format!("{name} is not installed")))?;
    let bytes = std::fs::read(&path).map_err(Error::io("reading", &path))?;
    Ok(blake3::hash(&bytes).to_hex()[..32].into())
}
