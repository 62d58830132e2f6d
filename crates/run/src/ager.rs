//! The interface to agents that age filesystems, in this kernel or in guests, and its implementation for this kernel.
//! The format of checkpoints is the same for both.

use crate::ageing::AgeingStep;
use crate::axes::Confinement;
use crate::backing::{BackingDevices, make_stack};
use crate::child;
use crate::context::RunContext;
use crate::device_layout::DeviceLayout;
use crate::error::{CellError, Result};
use crate::executor::{RunSink, remove_run_dir, to_run_event};
use crate::packed_filesystems::WORK_DIR;
use crate::protocol::{AgentRequest, MountRequest};
use fsarena_core::cell::{Cell, Variant, WorkloadPlan};
use fsarena_core::event::{CellEvent, Event, TreeState};
use fsarena_core::matrix;
use fsarena_fs::def::FsDef;
use fsarena_fs::lifecycle::{Devices, VariantOptions};
use fsarena_fs::safety::ScratchDevice;
use fsarena_load::ageing::AGED_DIR;
use fsarena_sys::undo::{MadeDir, UndoStep};
use fsarena_sys::{cancel, mount};
use std::cell::RefCell;
use std::path::PathBuf;

/// The filesystem of a variant, and the devices that it is made on.
pub struct VariantFilesystem<'a> {
    /// The variant.
    pub variant: &'a Variant,
    /// Its filesystem.
    pub def: &'static FsDef,
    /// The options of mkfs and mount.
    pub options: VariantOptions,
    /// The devices of the filesystem. If the variant has a stack, the device above its links.
    pub devices: Devices<'a>,
    /// Whether the next step must make the filesystem first, because only the guest has its driver.
    pub needs_mkfs: std::cell::Cell<bool>,
}

/// Performs the steps of ageing, by agents in this kernel or in guests.
pub trait Ager {
    /// The devices of a variant, below the links of its stack.
    ///
    /// # Errors
    /// If the run did not make one of them.
    fn devices(&self, layout: &DeviceLayout) -> Result<Devices<'_>>;

    /// Makes the links of the variant's stack. Returns the device above them; None without links.
    ///
    /// # Errors
    /// If a link cannot be made.
    fn make_links(&self, variant: &Variant, devices: &Devices) -> Result<Option<ScratchDevice>, CellError>;

    /// Describes the kernel that a filesystem is aged in: release, version, and whatever else decides where the
    /// filesystem puts its files. An image is used again only with the same description.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    fn describe_kernel(&self, variant: &Variant) -> Result<String, CellError>;

    /// The id of the user that the files belong to.
    fn owner_uid(&self) -> u32;

    /// Whether it can also make images that include the setup of a workload.
    fn supports_setups(&self) -> bool;

    /// Makes an agent mount the filesystem of a variant, perform a step on it, and unmount it. Returns the state of the
    /// files that the agent reports, if it reports any. `workload` is the workload whose setup the step runs; None for
    /// other steps.
    ///
    /// # Errors
    /// If the step fails.
    fn perform_step(
        &self,
        filesystem: &VariantFilesystem,
        step: AgeingStep,
        workload: Option<&WorkloadPlan>,
        emit: RunSink,
    ) -> Result<Option<TreeState>, CellError>;

    /// Removes the directory or disk in which agents keep copies of trees, and what later steps of a history need.
    ///
    /// # Errors
    /// If a directory cannot be removed.
    fn remove_staged_files(&self, emit: RunSink) -> Result<()>;
}

/// A cell that stands for the ageing of a variant in the request to an agent. `workload` is the workload whose setup
/// the agent runs; None for other steps.
pub fn ageing_cell(run: &RunContext, variant: &Variant, workload: Option<&WorkloadPlan>) -> Result<Cell, CellError> {
    let workload = workload.or(run.plan.workloads.first());
    let workload = workload.ok_or_else(|| CellError::internal("a plan without workload"))?;
    Ok(Cell {
        round: 0,
        position: 0,
        variant: variant.clone(),
        workload: matrix::workload_of_variant(variant, workload),
        scale: run.plan.scale,
        seed: 1,
    })
}

/// Ages filesystems in this kernel.
pub struct LocalAger<'a> {
    run: &'a RunContext,
    backing: &'a BackingDevices,
    /// The directory in which agents keep copies of trees, and what later steps of a history need; None until it is
    /// made.
    stage_dir: RefCell<Option<MadeDir>>,
}

impl LocalAger<'_> {
    /// Ages on the devices of a run.
    pub fn new<'a>(run: &'a RunContext, backing: &'a BackingDevices) -> LocalAger<'a> {
        LocalAger { run, backing, stage_dir: RefCell::new(None) }
    }

    /// Returns the directory in which agents keep copies of trees; makes it if it is missing. The workload's user may
    /// write to it.
    fn stage_dir(&self) -> Result<PathBuf, CellError> {
        let mut stage_dir = self.stage_dir.borrow_mut();
        if let Some(dir) = &*stage_dir {
            return Ok(dir.path().into());
        }
        let dir = MadeDir::make_tree(&self.run.journal, &self.run.dir.join("ageing"))?;
        self.run.agent_config.role.give_to_workload_user(dir.path())?;
        let path = dir.path().to_path_buf();
        *stage_dir = Some(dir);
        Ok(path)
    }
}

impl Ager for LocalAger<'_> {
    fn devices(&self, layout: &DeviceLayout) -> Result<Devices<'_>> {
        self.backing.devices(layout)
    }

    fn make_links(&self, variant: &Variant, devices: &Devices) -> Result<Option<ScratchDevice>, CellError> {
        make_stack(self.run, variant, devices)
    }

    fn describe_kernel(&self, _: &Variant) -> Result<String, CellError> {
        let facts =
            ["osrelease", "version"].map(|name| self.run.kernel.read_trimmed(&format!("proc/sys/kernel/{name}")));
        Ok(facts.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }

    fn owner_uid(&self) -> u32 {
        self.run.agent_config.user.uid
    }

    fn supports_setups(&self) -> bool {
        true
    }

    fn perform_step(
        &self,
        filesystem: &VariantFilesystem,
        step: AgeingStep,
        workload: Option<&WorkloadPlan>,
        emit: RunSink,
    ) -> Result<Option<TreeState>, CellError> {
        let VariantFilesystem { variant, def, options, devices, .. } = filesystem;
        let (run, target) = (self.run, self.backing.mount_point.path());
        let cell = ageing_cell(run, variant, workload)?;
        let mount = MountRequest::on_devices(def, options, devices, target);
        let (root, source_dir) = match step {
            AgeingStep::Setup => (target.join(WORK_DIR), self.backing.source_disk.root().to_path_buf()),
            _ => (target.join(AGED_DIR), self.stage_dir()?),
        };
        let request = AgentRequest {
            mount: Some(mount),
            ageing_step: Some(step),
            ..run.agent_request(&cell, &root, &source_dir)
        };
        let unmount_guard = run.journal.record(UndoStep::unmount(target))?;
        let (mut events, mut final_tree) = (vec![], None);
        let mut collect_event = |event: CellEvent| match event {
            CellEvent::Tree(tree) => final_tree = Some(tree),
            event => events.extend(to_run_event(event)),
        };
        let outcome = child::run_agent(&run.journal, &request, &Confinement::default(), &mut collect_event);
        // Usually the agent has unmounted the filesystem. It may have ended before that.
        let unmounted = mount::unmount(target, &mut |record| events.push(Event::Command(record)));
        events.into_iter().try_for_each(emit)?;
        unmounted?;
        unmount_guard.disarm()?;
        let outcome = outcome?;
        cancel::check()?;
        CellError::check_outcome(outcome)?;
        Ok(final_tree)
    }

    fn remove_staged_files(&self, emit: RunSink) -> Result<()> {
        match self.stage_dir.borrow_mut().take() {
            Some(dir) => remove_run_dir(dir, emit),
            None => Ok(()),
        }
    }
}
