//! The read-only filesystems of a run. For each workload an agent makes the files that the workload reads, once, in a
//! directory. For each filesystem and set of options mkfs packs this directory into an image. The cells start from
//! these images.

use crate::axes::Confinement;
use crate::child;
use crate::context::RunContext;
use crate::error::{CellError, Result};
use crate::executor::{CommandLog, RunSink, emit_logged_commands, remove_run_dir, to_run_event};
use crate::format_cache::{FormatCache, FormattedImage};
use crate::protocol::{AgentRequest, ProcessRole};
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{CellEvent, Outcome};
use fsarena_core::{factor, matrix};
use fsarena_fs::lifecycle::{self, VariantOptions};
use fsarena_fs::{def::FsDef, filesystems};
use fsarena_sys::{Error, dirs, undo::MadeDir};
use std::collections::BTreeMap;
use std::path::Path;

/// The directory that a workload works in, below the root of each filesystem.
pub const WORK_DIR: &str = "work";

/// The read-only filesystems of a run.
pub struct PackedFilesystems {
    // Dropped in this order: the images and the files, then their directory.
    images: FormatCache,
    /// The files of each workload, by its directory, and how the agent that made them ended.
    files: BTreeMap<String, (MadeDir, Outcome)>,
    dir: MadeDir,
}

/// Whether a variant has a read-only filesystem.
pub fn is_packed(variant: &Variant) -> bool {
    filesystems::find(variant.level(factor::FS)).is_ok_and(|def| def.traits.read_only)
}

impl PackedFilesystems {
    /// Makes the files that the workloads of a run read, in new directories below `dir`. `role` determines the rights
    /// of the agent that makes them, and `source_dir` is the directory on the source disk. Returns None if the run has
    /// no read-only filesystem.
    ///
    /// # Errors
    /// An agent cannot be started, or a directory cannot be made.
    pub fn make(
        run: &RunContext,
        role: ProcessRole,
        dir: &Path,
        source_dir: &Path,
        emit: RunSink,
    ) -> Result<Option<PackedFilesystems>> {
        let variants: Vec<Variant> = matrix::expand(&run.plan).into_iter().filter(is_packed).collect();
        if variants.is_empty() {
            return Ok(None);
        }
        let dir = MadeDir::make(&run.journal, dir)?;
        let images = FormatCache::new(dir.path(), run.requirements.size_bytes, &run.journal);
        let mut files = BTreeMap::new();
        for variant in &variants {
            for planned in &run.plan.workloads {
                let workload = matrix::workload_of_variant(variant, planned);
                let name = workload.directory_name();
                if files.contains_key(&name) {
                    // The files have been made for another variant.
                    continue;
                }
                let files_dir = MadeDir::make_tree(&run.journal, &dir.path().join(&name))?;
                let root = files_dir.path().join(WORK_DIR);
                dirs::make_dirs(&root).map_err(Error::io("making", &root))?;
                let (variant, plan) = (variant.clone(), &run.plan);
                // No stored event names this cell: `to_run_event` keeps only commands and notes.
                let cell = Cell { round: 0, position: 0, variant, workload, scale: plan.scale, seed: plan.seed };
                let agent_request = run.agent_request(&cell, &root, source_dir);
                let request = AgentRequest { only_makes_files: true, role: role.clone(), ..agent_request };
                // Emitted after the agent ended, because `emit` can fail and a receiver of cell events cannot.
                let mut events = vec![];
                let mut collect_event = |event: CellEvent| events.extend(to_run_event(event));
                let outcome = child::run_agent(&run.journal, &request, &Confinement::default(), &mut collect_event);
                events.into_iter().try_for_each(&mut *emit)?;
                files.insert(name, (files_dir, outcome?));
            }
        }
        Ok(Some(PackedFilesystems { images, files, dir }))
    }

    /// The options of a cell's filesystem, with the files that mkfs packs.
    ///
    /// # Errors
    /// The options are wrong, or the files could not be made.
    pub fn options(&self, cell: &Cell, def: &FsDef) -> Result<VariantOptions, CellError> {
        let mut options = lifecycle::variant_options(def, &cell.variant)?;
        let workload = matrix::workload_of_variant(&cell.variant, &cell.workload);
        let missing = || CellError::internal(format!("no files of {} were made", workload.name));
        let (files, outcome) = self.files.get(&workload.directory_name()).ok_or_else(missing)?;
        CellError::check_outcome(outcome.clone()).map_err(|error| error.with_part("the files to pack"))?;
        options.contents = Some(files.path().into());
        Ok(options)
    }

    /// Whether the image for these options exists, so that [`PackedFilesystems::image`] does not have to make it.
    pub fn has_image(&self, def: &'static FsDef, options: &VariantOptions) -> bool {
        self.images.has_image(def, options)
    }

    /// The image for these options. mkfs makes it if it is missing.
    ///
    /// # Errors
    /// mkfs fails, or has ignored options of the option set.
    pub fn image(
        &mut self,
        variant: &Variant,
        def: &'static FsDef,
        options: &VariantOptions,
        log: CommandLog,
    ) -> Result<&FormattedImage, CellError> {
        let level = variant.level(factor::MKFS);
        let image = self.images.get_or_format(def, options, log).map_err(|error| CellError::from_mkfs(error, level))?;
        lifecycle::check_option_set(def, variant, image.device.path())?;
        Ok(image)
    }

    /// Removes the images and the files.
    ///
    /// # Errors
    /// Something is still in use; it stays in the undo journal.
    pub fn finish(self, emit: RunSink) -> Result<()> {
        emit_logged_commands(emit, |log| self.images.release(log))??;
        for (files, _) in self.files.into_values() {
            remove_run_dir(files, emit)?;
        }
        remove_run_dir(self.dir, emit)
    }
}
