//! The aged filesystems of a run: one image for each variant and seed, made once and kept in the cache.
//!
//! An image is aged on the devices of the run, and saved after each part of its history. Each cell gets its image by a write
//! of its whole devices, also a cell without age, so that the state of the devices is the same; see
//! `docs/adr/0030-checkpoints-of-aged-images.md`.

use crate::ageing::{AGED, AgeStep, AgeWork, read_digest};
use crate::axes::{Confine, age::age_of, fill::fullness};
use crate::backing::{BackingDevices, make_links};
use crate::checkpoint::{Checkpoint, Checkpoints, Saved};
use crate::child;
use crate::context::RunContext;
use crate::error::{CellError, Result};
use crate::executor::{RunSink, remove};
use crate::layout::filesystem_of;
use crate::protocol::{MountRequest, Request};
use bytesize::ByteSize;
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{CellEvent, Event, Note, NoteKind};
use fsarena_core::factor::{self, age::Age};
use fsarena_core::matrix;
use fsarena_fs::lifecycle::{self, Devices, VariantOptions};
use fsarena_fs::{def::FsDef, filesystems, grammar};
use fsarena_load::ageing::ChurnPlan;
use fsarena_load::ageing::tree_copy::TreeDigest;
use fsarena_sys::undo::{MadeDir, Undo};
use fsarena_sys::{Error, cancel, mount, program};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The version of what makes histories: it changes whenever equal seeds no longer give equal operations.
const GENERATOR: u32 = 1;

/// The images of a run.
pub struct AgedImages {
    _checkpoints: Checkpoints,
    images: Images,
}

/// For each variant and seed, its image, or why it could not be made.
type Images = BTreeMap<(String, u64), Result<Saved, CellError>>;

/// Whether the filesystem of a variant can be aged. Other filesystems are made anew for each cell.
fn is_general(variant: &Variant) -> bool {
    !variant.is_bare_device() && filesystems::find(variant.level(factor::FS)).is_ok_and(FsDef::is_general)
}

impl AgedImages {
    /// Makes the images that are missing in the cache. Returns None if no variant is aged.
    ///
    /// # Errors
    /// A signal, or a device that cannot be released. An image that cannot be made is a failure of its variant.
    pub fn make(run: &RunContext, backing: &BackingDevices, emit: RunSink) -> Result<Option<AgedImages>> {
        let variants = matrix::expand(&run.plan);
        if variants.iter().all(|variant| age_of(variant).is_none()) {
            return Ok(None);
        }
        let checkpoints = Checkpoints::open()?;
        let mut maker = Maker {
            run,
            backing,
            checkpoints: &checkpoints,
            images: Images::new(),
            trees: BTreeMap::new(),
            stage: None,
        };
        let (aged, fresh): (Vec<&Variant>, Vec<&Variant>) = variants
            .iter()
            .filter(|variant| is_general(variant))
            .partition(|variant| age_of(variant).is_some());
        let rounds = (0..run.plan.stop.all_rounds()).filter(|round| run.plan.stop.has(*round));
        let seeds: BTreeSet<u64> = rounds.map(|round| run.plan.age.seed(round)).collect();
        for seed in &seeds {
            for variant in &aged {
                maker.make(variant, *seed, |maker| maker.age(variant, *seed, emit))?;
            }
            for variant in &fresh {
                maker.make(variant, *seed, |maker| {
                    maker.copy(variant, model_of(variant, &aged), *seed, emit)
                })?;
            }
            maker.clear_stage(emit)?;
        }
        let images = maker.images;
        for variant in aged.iter().chain(&fresh) {
            let model = age_of(variant).is_none().then(|| model_of(variant, &aged));
            if let Some(text) = describe(variant, model, &seeds, &images) {
                emit(Event::Note(
                    Note::new(NoteKind::Options, text).task(factor::AGE).variant(&variant.name),
                ))?;
            }
        }
        Ok(Some(AgedImages { _checkpoints: checkpoints, images }))
    }

    /// The image of a variant for a seed; None for a variant whose filesystem is made anew for each cell.
    ///
    /// # Errors
    /// Why it could not be made.
    pub fn find(&self, variant: &str, seed: u64) -> Result<Option<&Saved>, CellError> {
        match self.images.get(&(variant.to_string(), seed)) {
            None => Ok(None),
            Some(Ok(saved)) => Ok(Some(saved)),
            Some(Err(failed)) => Err(failed.clone()),
        }
    }
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
    let of_seed = |seed: &u64| images.get(&(variant.name.clone(), *seed))?.as_ref().ok();
    let saved: Vec<&Saved> = seeds.iter().filter_map(of_seed).collect();
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

/// The files of an image.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Work<'a> {
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
    /// The directory with the copy of a tree, and the digest of the tree.
    stage: Option<(TreeDigest, MadeDir)>,
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
        work: impl FnOnce(&mut Self) -> Result<Saved, CellError>,
    ) -> Result<()> {
        if self.images.iter().any(|((name, _), image)| *name == variant.name && image.is_err()) {
            return Ok(());
        }
        let made = work(self);
        cancel::check()?;
        self.images.insert((variant.name.clone(), seed), made);
        Ok(())
    }

    /// Makes the image of an aged variant, or continues an interrupted history.
    fn age(&mut self, variant: &Variant, seed: u64, emit: RunSink) -> Result<Saved, CellError> {
        let work = self.work(variant, seed)?;
        let saved = self.on_bed(variant, emit, |maker, bed, emit| {
            let history = maker.history(bed, Work::Aged(&work))?;
            let mut saved = maker.checkpoints.find(&history);
            let done = saved.as_ref().map_or(0, |saved| saved.about.part);
            if let Some(saved) = saved.as_ref().filter(|_| done < work.parts()) {
                saved.restore(&bed.devices)?;
            }
            for part in done..work.parts() {
                let of = work.parts();
                let text = format!("Ageing {}, image {seed}: part {} of {of}.", variant.name, part + 1);
                emit(Event::Forecast { text })?;
                let mut about = match &saved {
                    Some(saved) => saved.about.clone(),
                    None => bed.format(&history, emit)?,
                };
                about.part = part + 1;
                let stage = maker.make_stage()?;
                maker.perform(bed, AgeStep::Part { work: work.clone(), part }, stage.path(), emit)?;
                if part + 1 == of {
                    about.tree = Some(read_digest(stage.path())?);
                }
                remove(stage, emit)?;
                saved = Some(maker.checkpoints.save(about, &bed.devices)?);
            }
            saved.ok_or_else(|| CellError::internal("the history has no parts"))
        })?;
        self.compare_tree(&work, &saved)?;
        Ok(saved)
    }

    /// Checks that a history has left the same tree as on other filesystems.
    fn compare_tree(&mut self, work: &AgeWork, saved: &Saved) -> Result<(), CellError> {
        let tree = saved.about.tree.clone().ok_or_else(|| CellError::internal("the image has no digest"))?;
        let known = self.trees.entry(json(work)?).or_insert_with(|| tree.clone());
        if *known == tree || !work.is_reproducible() {
            return Ok(());
        }
        Err(CellError::internal(format!(
            "the same history left other files than elsewhere: {tree:?}, {known:?}"
        )))
    }

    /// Makes the image of a variant without age: a copy of the files of its model.
    fn copy(
        &mut self,
        variant: &Variant,
        model: &Variant,
        seed: u64,
        emit: RunSink,
    ) -> Result<Saved, CellError> {
        let Some(Ok(source)) = self.images.get(&(model.name.clone(), seed)) else {
            return Err(CellError::missing(format!("the files of {} could not be made", model.name)));
        };
        let tree = source.about.tree.clone().ok_or_else(|| CellError::internal("the image has no digest"))?;
        let known = self.on_bed(variant, emit, |maker, bed, _| {
            Ok(maker.checkpoints.find(&maker.history(bed, Work::Fresh(&tree))?))
        })?;
        if let Some(saved) = known {
            return Ok(saved);
        }
        if self.stage.as_ref().is_none_or(|(staged, _)| *staged != tree) {
            self.clear_stage(emit)?;
            let stage = self.make_stage()?;
            self.on_bed(model, emit, |maker, bed, emit| {
                let source =
                    maker.images.get(&(model.name.clone(), seed)).and_then(|image| image.as_ref().ok());
                let source = source.ok_or_else(|| CellError::internal("the image of the model is gone"))?;
                source.restore(&bed.devices)?;
                maker.perform(bed, AgeStep::CopyOut, stage.path(), emit)
            })?;
            self.stage = Some((tree.clone(), stage));
        }
        let text = format!("Copying the files of {}, image {seed}, to {}.", model.name, variant.name);
        emit(Event::Forecast { text })?;
        self.on_bed(variant, emit, |maker, bed, emit| {
            let mut about = bed.format(&maker.history(bed, Work::Fresh(&tree))?, emit)?;
            let (_, stage) = maker.stage.as_ref().ok_or_else(|| CellError::internal("no tree was copied"))?;
            maker.perform(bed, AgeStep::CopyIn, stage.path(), emit)?;
            let copied = read_digest(stage.path())?;
            if copied != tree {
                return Err(CellError::internal(format!(
                    "the copy differs from its original: {copied:?}, {tree:?}"
                )));
            }
            about.tree = Some(copied);
            Ok(maker.checkpoints.save(about, &bed.devices)?)
        })
    }

    /// The history of files that the level of a variant asks for.
    fn work(&self, variant: &Variant, seed: u64) -> Result<AgeWork, CellError> {
        let capacity = self.run.check.size_bytes;
        match age_of(variant) {
            Some(Age::Churn { percent }) => {
                let fullness = fullness(variant);
                Ok(AgeWork::Churn(ChurnPlan { seed, capacity, fullness, percent }))
            }
            Some(_) | None => Err(CellError::internal("not a level of age")),
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

    /// The history of an image as JSON: everything that decides its content.
    fn history(&self, bed: &Bed, work: Work) -> Result<String, CellError> {
        let Bed { variant, def, options, devices } = bed;
        let kernel =
            ["osrelease", "version"].map(|name| self.run.kernel.fact(&format!("proc/sys/kernel/{name}")));
        json(&History {
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

    /// Makes an empty directory that the workload's user may write to.
    fn make_stage(&self) -> Result<MadeDir, CellError> {
        let dir = MadeDir::make_tree(&self.run.journal, &self.run.dir.join("ageing"))?;
        self.run.agents.role.give_to_workload_user(dir.path())?;
        Ok(dir)
    }

    fn clear_stage(&mut self, emit: RunSink) -> Result<()> {
        match self.stage.take() {
            Some((_, dir)) => remove(dir, emit),
            None => Ok(()),
        }
    }

    /// Has an agent mount the filesystem, perform a step, and unmount it. `stage` is the directory of the agent.
    fn perform(&self, bed: &Bed, step: AgeStep, stage: &Path, emit: RunSink) -> Result<(), CellError> {
        let Bed { variant, def, options, devices } = bed;
        let (run, target) = (self.run, self.backing.target.path());
        let workload =
            run.plan.workloads.first().ok_or_else(|| CellError::internal("a plan without workload"))?;
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
        let request =
            Request { mount: Some(mount), age: Some(step), ..run.request(&cell, &target.join(AGED), stage) };
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
            .map_err(|failed| failed.with_part(&format!("age={}", variant.level(factor::AGE))))
    }
}

impl Bed<'_> {
    /// Makes the filesystem. Returns the description of its first checkpoint.
    fn format(&self, history: &str, emit: RunSink) -> Result<Checkpoint, CellError> {
        let mut commands = vec![];
        let mut log = |record| commands.push(record);
        let level = self.variant.level(factor::MKFS);
        let made = lifecycle::format(self.devices.clone(), self.def, &self.options, &mut log);
        let made = made.map_err(|error| CellError::from(error).with_options(level))?;
        lifecycle::complete(&self.devices, self.def, &self.options, &mut log)?;
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
    let path = program::find(name).ok_or_else(|| CellError::missing(format!("{name} is not installed")))?;
    let bytes = std::fs::read(&path).map_err(Error::io("reading", &path))?;
    Ok(blake3::hash(&bytes).to_hex()[..32].into())
}
