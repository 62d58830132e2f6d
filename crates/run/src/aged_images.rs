//! The images of a run whose filesystems are aged or set up once: one image for each variant and seed, made once and
//! kept in the cache.
//!
//! An image is aged on the devices of the run, and saved after each part of its history. Before each cell, fsarena
//! writes the image of its variant over the whole devices, also for variants without age, so that all cells find the
//! devices in the same state; see `docs/adr/0031-checkpoints-of-aged-images.md`.

use crate::ageing::{AgeingMethod, AgeingStep};
use crate::ager::{Ager, VariantFilesystem};
use crate::axes::{age::age_of, age::keeps_images, age::setup_once_script, fill::fullness};
use crate::checkpoint::{Checkpoint, CheckpointCache, CheckpointInfo};
use crate::context::RunContext;
use crate::device_layout::filesystem_of;
use crate::digests::digest_of_input;
use crate::error::{CellError, Result};
use crate::executor::{CommandLog, RunSink, emit_logged_commands};
use crate::work;
use bytesize::ByteSize;
use fsarena_core::cell::{Cell, Variant, WorkloadPlan};
use fsarena_core::event::{Cause, Event, Note, NoteKind, TreeDigest, TreeState};
use fsarena_core::factor::{self, age::Age};
use fsarena_core::{matrix, plan::Plan, setting::SettingValue};
use fsarena_fs::lifecycle::{self, Devices};
use fsarena_fs::{def::FsDef, filesystems, grammar};
use fsarena_load::ageing::{ChurnPlan, GitPulls};
use fsarena_load::workloads::SETUP_ONCE;
use fsarena_sys::{Error, cancel, image::Image, program};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The version of the code that generates histories from seeds. Increase it whenever equal seeds no longer give equal
/// operations.
const GENERATOR_VERSION: u32 = 1;

/// The images that the cells of a run begin with.
pub struct AgedImages {
    /// Kept open, because its lock prevents other runs from attaching the same images.
    _checkpoints: CheckpointCache,
    images: ImageResults,
    /// Whether any variant of the run is aged.
    has_aged_variants: bool,
}

/// The images, or why each could not be made. The key is the name of the variant, the seed, and the directory of the
/// workload whose setup the image includes; the directory is empty for an image without a setup.
type ImageResults = BTreeMap<(String, u64, String), Result<Rc<Checkpoint>, CellError>>;

/// Whether the filesystem of a variant can be aged. Other filesystems are made anew for each cell.
fn can_be_aged(variant: &Variant) -> bool {
    !variant.is_bare_device() && filesystems::find(variant.level(factor::FS)).is_ok_and(FsDef::is_general)
}

impl AgedImages {
    /// Makes the images that are missing in the cache. Returns None if no variant is aged and no workload has a setup
    /// that is kept.
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
        let (images, trees) = (ImageResults::new(), BTreeMap::new());
        let mut maker = ImageMaker { run, ager, checkpoints: &checkpoints, images, trees, staged_tree: None };
        let (aged, fresh): (Vec<&Variant>, Vec<&Variant>) =
            variants.iter().filter(|variant| can_be_aged(variant)).partition(|variant| age_of(variant).is_some());
        let seeds = if has_aged_variants { image_seeds(&run.plan) } else { BTreeSet::from([ONLY_SEED]) };
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
    /// The image could not be made.
    pub fn image_of_cell(&self, plan: &Plan, cell: &Cell) -> Result<Option<&Checkpoint>, CellError> {
        let seed = if self.has_aged_variants { plan.age.image_seed(cell.round) } else { ONLY_SEED };
        match find_image(&self.images, &cell.variant.name, seed, &cell.workload) {
            None => Ok(None),
            Some(Ok(checkpoint)) => Ok(Some(checkpoint)),
            Some(Err(error)) => Err(error.clone()),
        }
    }

    /// The seed of the aged image that a cell begins with; None if it is not aged.
    pub fn seed_of_cell(&self, plan: &Plan, cell: &Cell) -> Option<u64> {
        let has_image = matches!(self.image_of_cell(plan, cell), Ok(Some(_)));
        (self.has_aged_variants && has_image).then(|| plan.age.image_seed(cell.round))
    }
}

/// The image of a variant and seed that the cells of a workload begin with: the image with the setup of the workload, else
/// the image without a setup. If it is missing because an earlier image of the variant could not be made, returns why that
/// one could not. None if the cells begin with a new filesystem.
fn find_image<'a>(
    images: &'a ImageResults,
    variant: &str,
    seed: u64,
    workload: &WorkloadPlan,
) -> Option<&'a Result<Rc<Checkpoint>, CellError>> {
    let image_in = |dir: String| images.get(&(variant.to_string(), seed, dir));
    let of_variant: Vec<_> = images.iter().filter(|((name, ..), _)| name == variant).collect();
    let mut failed = of_variant.iter().filter(|(_, image)| image.is_err());
    if let Some(with_setup) = image_in(workload.directory_name()) {
        return Some(with_setup);
    }
    if setup_once_script(workload).is_some()
        && let Some((_, failed_of_seed)) = failed.clone().find(|((_, image_seed, _), _)| *image_seed == seed)
    {
        return Some(*failed_of_seed);
    }
    if let Some(without_setup) = image_in(String::new()) {
        return Some(without_setup);
    }
    // If the variant has images without a setup, that of this seed is missing because an earlier one failed.
    let has_images_without_setup = of_variant.iter().any(|((.., dir), _)| dir.is_empty());
    failed.next().filter(|_| has_images_without_setup).map(|(_, failed)| *failed)
}

/// The seed of the images of a run without aged variants, which only has images with setups.
const ONLY_SEED: u64 = 1;

/// The seeds of the images that the rounds of a plan begin with.
fn image_seeds(plan: &Plan) -> BTreeSet<u64> {
    (0..plan.stop.all_rounds())
        .filter(|round| plan.stop.runs_round(*round))
        .map(|round| plan.age.image_seed(round))
        .collect()
}

/// The aged variant whose files a variant without age gets: the aged variant with which it has the most levels in
/// common.
fn most_similar_aged<'a>(variant: &Variant, aged: &[&'a Variant]) -> &'a Variant {
    let common_levels =
        |candidate: &Variant| variant.levels.iter().filter(|(id, level)| candidate.level(id) == **level).count();
    let mut model = aged[0];
    for candidate in &aged[1..] {
        if common_levels(candidate) > common_levels(model) {
            model = candidate;
        }
    }
    model
}

/// Describes the images of a variant in a sentence; None if it has none. `model` is the variant whose files were
/// copied; None for an aged variant.
fn describe_images(
    variant: &Variant,
    model: Option<&Variant>,
    seeds: &BTreeSet<u64>,
    images: &ImageResults,
) -> Option<String> {
    let of_seed = |seed: &u64| images.get(&(variant.name.clone(), *seed, String::new()))?.as_ref().ok();
    let checkpoints: Vec<&Rc<Checkpoint>> = seeds.iter().filter_map(of_seed).collect();
    let info = &checkpoints.first()?.info;
    let TreeState { tree, layout } = info.final_tree.as_ref()?;
    let (device_bytes, cached_bytes) =
        (info.device_bytes.iter().sum(), checkpoints.iter().map(|checkpoint| checkpoint.file_bytes).sum());
    let origin = match model {
        None => format!("age={}", variant.level(factor::AGE)),
        Some(model) => {
            format!("the files of {}, copied in the order of their names to a new filesystem", model.name)
        }
    };
    Some(format!(
        "{origin}: {} images of {}, from seeds 1 to {}, in {} of the cache; the first holds {} files with {} (digest {}), {}",
        checkpoints.len(),
        ByteSize(device_bytes),
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

/// The first 12 characters of a digest, enough for people to compare two digests.
fn short_digest(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// The history of an image: everything that decides its content.
#[derive(Serialize)]
struct History<'a> {
    /// [`GENERATOR_VERSION`].
    generator: u32,
    /// The files of the image.
    work: ImageFiles<'a>,
    filesystem: &'a str,
    mkfs: &'a [String],
    /// The digest of the mkfs program.
    mkfs_program: String,
    mount: &'a str,
    journal: &'a str,
    raid: &'a str,
    stack: &'a str,
    devices: Vec<u64>,
    kernel: String,
    /// The id of the user that the files belong to.
    user: u32,
}

/// The history of an image that includes a setup: the history before the setup, and everything that decides which files
/// the setup adds.
#[derive(Serialize)]
struct SetupHistory<'a> {
    /// The history before the setup, as JSON.
    before: String,
    /// The settings that its commands use.
    settings: BTreeMap<&'a str, &'a SettingValue>,
    /// The scale, which the commands find in their environment.
    scale: &'a str,
    /// The files and directories that the workload names, each with a digest.
    inputs: BTreeMap<PathBuf, String>,
    /// The directory of the workload in the filesystem.
    directory: String,
}

/// The files of an image.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ImageFiles<'a> {
    /// No files.
    Empty,
    /// The files that this method of ageing leaves.
    Aged(&'a AgeingMethod),
    /// A copy of the tree with this digest.
    Fresh(&'a TreeDigest),
}

/// Makes the images of a run.
struct ImageMaker<'a> {
    run: &'a RunContext,
    ager: &'a dyn Ager,
    checkpoints: &'a CheckpointCache,
    images: ImageResults,
    /// The tree that each method of ageing, as JSON, left first.
    trees: BTreeMap<String, TreeDigest>,
    /// The tree that an agent has copied out, to be copied to variants without age.
    staged_tree: Option<TreeDigest>,
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
            for planned in run.plan.workloads.iter().filter(|_| ager.supports_setups()) {
                let workload = matrix::workload_of_variant(variant, planned);
                if setup_once_script(&workload).is_some() {
                    let dir = workload.directory_name();
                    self.make_image(variant, seed, &dir, |maker| maker.set_up_image(variant, &workload, seed, emit))?;
                }
            }
        }
        self.staged_tree = None;
        ager.remove_staged_files(emit)
    }

    /// Makes an image by calling `make`, unless an earlier image of the variant has failed.
    fn make_image(
        &mut self,
        variant: &Variant,
        seed: u64,
        dir: &str,
        make: impl FnOnce(&mut Self) -> Result<Checkpoint, CellError>,
    ) -> Result<()> {
        if self.images.iter().any(|((name, ..), image)| *name == variant.name && image.is_err()) {
            return Ok(());
        }
        let image = make(self).map(Rc::new);
        cancel::check()?;
        self.images.insert((variant.name.clone(), seed, dir.into()), image);
        Ok(())
    }

    /// The image of a variant without the setup of a workload; None if it was not made.
    fn base_image(&self, variant: &Variant, seed: u64) -> Option<Rc<Checkpoint>> {
        self.images.get(&(variant.name.clone(), seed, String::new()))?.as_ref().ok().cloned()
    }

    /// Makes the image of an aged variant, or continues an interrupted history.
    fn age_image(&mut self, variant: &Variant, seed: u64, emit: RunSink) -> Result<Checkpoint, CellError> {
        let method = self.ageing_method(variant, seed)?;
        let checkpoint = self.with_filesystem(variant, emit, |maker, filesystem, emit| {
            let history = maker.history(filesystem, ImageFiles::Aged(&method))?;
            let mut checkpoint = maker.checkpoints.find_last(&history);
            let parts_done = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.info.parts_done);
            let part_count = method.part_count();
            if let Some(checkpoint) = checkpoint.as_ref().filter(|_| parts_done < part_count) {
                checkpoint.restore(&filesystem.devices)?;
            }
            for part in parts_done..part_count {
                let text = format!("Ageing {}, image {seed}: part {} of {part_count}.", variant.name, part + 1);
                emit(Event::Forecast { text })?;
                let mut info = match &checkpoint {
                    Some(checkpoint) => checkpoint.info.clone(),
                    None => make_filesystem(filesystem, &history, emit)?,
                };
                info.parts_done = part + 1;
                info.final_tree = maker.ager.perform_step(
                    filesystem,
                    AgeingStep::Part { method: method.clone(), part },
                    None,
                    emit,
                )?;
                checkpoint = Some(maker.checkpoints.save(info, &filesystem.devices)?);
            }
            checkpoint.ok_or_else(|| CellError::internal("the history has no parts"))
        })?;
        let tree = tree_of(&checkpoint)?;
        if method.is_reproducible() && !self.equals_first_tree(to_json(&method)?, &tree) {
            let why = format!("its history left other files than on another filesystem: {tree:?}");
            return Err(CellError::internal(why));
        }
        Ok(checkpoint)
    }

    /// Whether a history has left the same tree as the first time in this run. The first time it records `tree` and
    /// returns true.
    fn equals_first_tree(&mut self, history: String, tree: &TreeDigest) -> bool {
        *self.trees.entry(history).or_insert_with(|| tree.clone()) == *tree
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
            maker.history(filesystem, ImageFiles::Fresh(&tree))
        })?;
        if let Some(checkpoint) = self.checkpoints.find_last(&history) {
            return Ok(checkpoint);
        }
        if self.staged_tree.as_ref() != Some(&tree) {
            self.with_filesystem(model, emit, |maker, filesystem, emit| {
                source.restore(&filesystem.devices)?;
                maker.ager.perform_step(filesystem, AgeingStep::CopyOut, None, emit).map(drop)
            })?;
            self.staged_tree = Some(tree.clone());
        }
        let text = format!("Copying the files of {}, image {seed}, to {}.", model.name, variant.name);
        emit(Event::Forecast { text })?;
        self.with_filesystem(variant, emit, |maker, filesystem, emit| {
            let mut info = make_filesystem(filesystem, &history, emit)?;
            info.final_tree = maker.ager.perform_step(filesystem, AgeingStep::CopyIn, None, emit)?;
            let copied = info.final_tree.as_ref().map(|state| &state.tree);
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
        let (inputs, scale) = (digest_inputs(self.run, workload)?, self.run.plan.scale.name());
        let mut setup = SetupHistory { before: String::new(), settings, scale, inputs, directory };
        // Without the history before it, the setup must leave the same files on every filesystem.
        let setup_json = to_json(&setup)?;
        let checkpoint = self.with_filesystem(variant, emit, |maker, filesystem, emit| {
            setup.before = match &base {
                Some(base) => base.info.history.clone(),
                None => maker.history(filesystem, ImageFiles::Empty)?,
            };
            let history = to_json(&setup)?;
            if let Some(checkpoint) = maker.checkpoints.find_last(&history) {
                return Ok(checkpoint);
            }
            emit(Event::Forecast { text: format!("Setting up {} once.", variant.name) })?;
            let mut info = match &base {
                Some(base) => {
                    base.restore(&filesystem.devices)?;
                    CheckpointInfo::new(&history, &base.info.mkfs, &base.info.features)
                }
                None => make_filesystem(filesystem, &history, emit)?,
            };
            info.final_tree = maker.ager.perform_step(filesystem, AgeingStep::Setup, Some(workload), emit)?;
            Ok(maker.checkpoints.save(info, &filesystem.devices)?)
        })?;
        let tree = tree_of(&checkpoint)?;
        if !self.equals_first_tree(setup_json, &tree) {
            let why = "setup_once left other files than before: its result differs from time to time, or from filesystem to \
                       filesystem; use `setup`, which runs in each round";
            return Err(CellError::new(Cause::Usage, why));
        }
        Ok(checkpoint)
    }

    /// The method that the level of a variant describes, with this seed.
    fn ageing_method(&self, variant: &Variant, seed: u64) -> Result<AgeingMethod, CellError> {
        let capacity_bytes = self.run.requirements.size_bytes;
        match age_of(variant) {
            Some(Age::Churn { percent }) => {
                let fullness = fullness(variant);
                Ok(AgeingMethod::Churn(ChurnPlan { seed, capacity_bytes, fullness, churn_percent: percent }))
            }
            Some(Age::Git { pulls }) => {
                let repository = self.run.plan.age.repository.clone();
                Ok(AgeingMethod::Git(GitPulls::new(seed, pulls, repository)?))
            }
            Some(Age::Command { runs, argv }) => {
                let program_digest = digest_of_program(&argv[0])?;
                Ok(AgeingMethod::Command { seed, runs, argv, program_digest })
            }
            None => Err(CellError::internal("a variant that is not aged")),
        }
    }

    /// Makes the links of the stack of a variant, calls `work` with its filesystem, and releases the links.
    fn with_filesystem<T>(
        &mut self,
        variant: &Variant,
        emit: RunSink,
        work: impl FnOnce(&mut Self, &VariantFilesystem, RunSink) -> Result<T, CellError>,
    ) -> Result<T, CellError> {
        let (run, ager) = (self.run, self.ager);
        let layout = run.device_layout(variant)?;
        let devices = ager.devices(&layout)?;
        let (def, mut options) = filesystem_of(variant)?;
        if run.plan.device.precondition {
            options.disable_discard(def);
        }
        grammar::pin_random_values(def, &mut options.mkfs);
        let stack = ager.make_links(variant, &devices)?;
        let top_devices: Devices = stack.as_ref().map_or_else(|| devices.clone(), Devices::from);
        let filesystem =
            VariantFilesystem { variant, def, options, devices: top_devices, needs_mkfs: std::cell::Cell::new(false) };
        let result = work(self, &filesystem, emit);
        if let Some(stack) = stack {
            stack.release(&mut |_| ())?;
        }
        result
    }

    /// The history of an image of this filesystem with these files, as JSON.
    fn history(&self, filesystem: &VariantFilesystem, files: ImageFiles) -> Result<String, CellError> {
        let VariantFilesystem { variant, def, options, devices, .. } = filesystem;
        to_json(&History {
            generator: GENERATOR_VERSION,
            work: files,
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
            devices: devices.iter().map(|device| device.size_bytes()).collect(),
            kernel: self.ager.describe_kernel(variant)?,
            user: self.ager.owner_uid(),
        })
    }
}

/// The tree of files at the end of the history of a checkpoint.
fn tree_of(checkpoint: &Checkpoint) -> Result<TreeDigest, CellError> {
    checkpoint
        .info
        .final_tree
        .as_ref()
        .map(|state| state.tree.clone())
        .ok_or_else(|| CellError::internal("the checkpoint has no digest of its files"))
}

/// Makes the filesystem of a variant, and emits the commands for that; see [`make_filesystem_and_log`].
fn make_filesystem(filesystem: &VariantFilesystem, history: &str, emit: RunSink) -> Result<CheckpointInfo, CellError> {
    emit_logged_commands(emit, |log| make_filesystem_and_log(filesystem, history, log))?
}

/// Makes the filesystem of a variant, or leaves that to a guest that alone has its driver. Returns the description of
/// its first checkpoint.
fn make_filesystem_and_log(
    filesystem: &VariantFilesystem,
    history: &str,
    log: CommandLog,
) -> Result<CheckpointInfo, CellError> {
    let VariantFilesystem { variant, def, devices, .. } = filesystem;
    // Each image has its own UUID: another run with another cache may have attached one at the same time.
    let mut options = filesystem.options.clone();
    let key = CheckpointCache::history_key(history);
    let uuid = [&key[..8], &key[8..12], &key[12..16], &key[16..20], &key[20..]].join("-");
    grammar::replace_pinned_uuid(&mut options.mkfs, &uuid);
    devices.iter().filter_map(|device| device.file()).try_for_each(Image::clear)?;
    if def.pool.is_some() {
        filesystem.needs_mkfs.set(true);
        let words = lifecycle::mkfs_words(def, &options)?;
        return Ok(CheckpointInfo::new(history, &format!("{}, in the guest", words.join(" ")), ""));
    }
    let formatted = lifecycle::format(devices.clone(), def, &options, log);
    let formatted = formatted.map_err(|error| CellError::from(error).blame_options(variant.level(factor::MKFS)))?;
    lifecycle::reformat_if_work_left(devices, def, &options, log)?;
    devices
        .members
        .iter()
        .try_for_each(|device| device.finish_stack())
        .map_err(Error::io("finishing", devices.first()))?;
    let features = lifecycle::describe_features(devices.members[0], def, log).unwrap_or_default();
    Ok(CheckpointInfo::new(history, &formatted.argv.join(" "), &features))
}

/// The files and directories of this machine that the workload of a variant names, each with a digest.
fn digest_inputs(run: &RunContext, workload: &WorkloadPlan) -> Result<BTreeMap<PathBuf, String>, CellError> {
    let (workload, job) = work::find_workload(&run.plan, workload)?;
    let mut inputs = BTreeMap::new();
    for path in workload.paths_in_settings(&job) {
        // Directories directly below the root hold the system.
        let is_input = path.parent().is_some_and(|parent| parent != Path::new("/"));
        let is_virtual = ["/proc", "/sys", "/dev"].iter().any(|dir| path.starts_with(dir));
        if is_input
            && !is_virtual
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

/// The digest of a program, by its name or path. Another version of the program may work differently.
fn digest_of_program(name: &str) -> Result<String, CellError> {
    let path =
        program::find_by_name_or_path(name).ok_or_else(|| CellError::missing(format!("{name} is not installed")))?;
    let bytes = std::fs::read(&path).map_err(Error::io("reading", &path))?;
    Ok(blake3::hash(&bytes).to_hex()[..32].into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::empty_record;

    #[test]
    fn a_workload_whose_setup_was_skipped_fails_like_the_image_before() {
        let workload = |name: &str, script: &str| {
            let mut workload = empty_record(&["ext4"], &[]).plan.workloads.remove(0);
            workload.name = name.into();
            workload.settings.0.insert(SETUP_ONCE.into(), SettingValue::Text(script.into()));
            workload
        };
        let (first, second, without_setup) = (workload("first", "a"), workload("second", "b"), workload("third", ""));
        let key = |variant: &str, seed| (variant.to_string(), seed, first.directory_name());
        let failed = || Err(CellError::missing("the setup failed"));
        let images =
            ImageResults::from([(key("ext4", 1), failed()), (key("ext4", 2), failed()), (key("xfs", 2), failed())]);
        let is_failure = |variant: &str, seed, workload: &WorkloadPlan| {
            matches!(find_image(&images, variant, seed, workload), Some(Err(_)))
        };
        assert!(is_failure("ext4", 1, &first) && is_failure("ext4", 1, &second));
        assert!(!is_failure("ext4", 1, &without_setup), "it needs no setup");
        assert!(!is_failure("xfs", 1, &second) && !is_failure("ext4", 3, &second), "nothing failed there");
        let aged = ImageResults::from([(("ext4".to_string(), 1, String::new()), failed())]);
        assert!(matches!(find_image(&aged, "ext4", 2, &without_setup), Some(Err(_))), "it was skipped after seed 1");
        assert!(find_image(&aged, "xfs", 2, &without_setup).is_none());
    }
}
