//! Where filesystems are aged: by agents of this kernel, or in guests. Checkpoints do not depend on it.

use crate::ageing::{AGED_DIR, AgeStep};
use crate::axes::Confinement;
use crate::backing::{BackingDevices, make_stack};
use crate::child;
use crate::context::RunContext;
use crate::device_layout::DeviceLayout;
use crate::error::{CellError, Result};
use crate::executor::{RunSink, remove_run_dir};
use crate::packed::WORK_DIR;
use crate::protocol::{AgentRequest, MountRequest};
use fsarena_core::cell::{Cell, Variant, WorkloadPlan};
use fsarena_core::event::{CellEvent, Event, TreeState};
use fsarena_core::matrix;
use fsarena_fs::def::FsDef;
use fsarena_fs::lifecycle::{self, Devices, VariantOptions};
use fsarena_fs::safety::ScratchDevice;
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
    /// The devices, those above the links of a stack.
    pub devices: Devices<'a>,
    /// Whether the next step has to make the filesystem first, because only a guest has its driver.
    pub needs_mkfs: std::cell::Cell<bool>,
}

/// Something that performs the steps of ageing.
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
    fn make_links(
        &self,
        variant: &Variant,
        layout: &DeviceLayout,
        devices: &Devices,
    ) -> Result<Option<ScratchDevice>, CellError>;

    /// The kernel that a filesystem is aged in, which decides with the history where the filesystem puts its files.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    fn kernel_version(&self, variant: &Variant) -> Result<String, CellError>;

    /// The number of the user that the files belong to.
    fn owner_uid(&self) -> u32;

    /// Whether it also keeps images of filesystems after the setup of a workload.
    fn keeps_setups(&self) -> bool;

    /// Has an agent mount the filesystem of a variant, perform a step on it, and unmount it. Returns what the agent reports
    /// of the files. `workload` is the one whose setup the step runs.
    ///
    /// # Errors
    /// If the step fails.
    fn perform_step(
        &self,
        filesystem: &VariantFilesystem,
        step: AgeStep,
        workload: Option<&WorkloadPlan>,
        emit: RunSink,
    ) -> Result<Option<TreeState>, CellError>;

    /// Removes the copies of trees and the histories that agents have kept.
    ///
    /// # Errors
    /// If a directory cannot be removed.
    fn remove_stage(&self, emit: RunSink) -> Result<()>;
}

/// A cell that stands for the ageing of a variant in the request to an agent.
pub fn ageing_cell(run: &RunContext, variant: &Variant, workload: Option<&WorkloadPlan>) -> Result<Cell, CellError> {
    let workload = workload.or(run.plan.workloads.first());
    let workload = workload.ok_or_else(|| CellError::internal("a plan without workload"))?;
    Ok(Cell {
        round: 0,
        position: 0,
        variant: variant.clone(),
        workload: matrix::workload_of(variant, workload),
        scale: run.plan.scale,
        seed: 1,
    })
}

/// Ages filesystems in this kernel.
pub struct LocalAger<'a> {
    run: &'a RunContext,
    backing: &'a BackingDevices,
    /// The directory that agents keep copies of trees and histories in.
    stage_dir: RefCell<Option<MadeDir>>,
}

impl LocalAger<'_> {
    /// Ages on the devices of a run.
    pub fn new<'a>(run: &'a RunContext, backing: &'a BackingDevices) -> LocalAger<'a> {
        LocalAger { run, backing, stage_dir: RefCell::new(None) }
    }

    /// The directory that agents keep copies of trees and histories in. The workload's user may write to it.
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

    fn make_links(
        &self,
        variant: &Variant,
        layout: &DeviceLayout,
        devices: &Devices,
    ) -> Result<Option<ScratchDevice>, CellError> {
        make_stack(self.run, variant, layout, devices)
    }

    fn kernel_version(&self, _: &Variant) -> Result<String, CellError> {
        let facts = ["osrelease", "version"];
        let facts = facts.map(|name| self.run.kernel.fact(&format!("proc/sys/kernel/{name}")));
        Ok(facts.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }

    fn owner_uid(&self) -> u32 {
        self.run.agent_config.user.uid
    }

    fn keeps_setups(&self) -> bool {
        true
    }

    fn perform_step(
        &self,
        filesystem: &VariantFilesystem,
        step: AgeStep,
        workload: Option<&WorkloadPlan>,
        emit: RunSink,
    ) -> Result<Option<TreeState>, CellError> {
        let VariantFilesystem { variant, def, options, devices, .. } = filesystem;
        let (run, target) = (self.run, self.backing.target.path());
        let cell = ageing_cell(run, variant, workload)?;
        let mount = MountRequest {
            source: devices.source(def).into(),
            target: target.into(),
            fs_type: def.id.into(),
            options: lifecycle::mount_options(def, options, devices),
            journal: devices.journal.map(|device| device.path().into()),
            by_syscall: false,
            layer: None,
            packed_bytes: None,
        };
        let (root, source_dir) = match step {
            AgeStep::Setup => (target.join(WORK_DIR), self.backing.source_disk.root().to_path_buf()),
            _ => (target.join(AGED_DIR), self.stage_dir()?),
        };
        let request =
            AgentRequest { mount: Some(mount), age_step: Some(step), ..run.request(&cell, &root, &source_dir) };
        let mounted = run.journal.note(UndoStep::unmount(target))?;
        let (mut events, mut left_tree) = (vec![], None);
        let mut keep = |event: CellEvent| match event {
            CellEvent::Tree(tree) => left_tree = Some(tree),
            event => events.extend(to_run_event(event)),
        };
        let outcome = child::run_agent(&run.journal, &request, &Confinement::default(), &mut keep);
        // The agent unmounts the filesystem itself. This is for an agent that could not.
        mount::unmount(target, &mut |record| events.push(Event::Command(record)))?;
        mounted.disarm()?;
        events.into_iter().try_for_each(emit)?;
        let outcome = outcome?;
        cancel::check()?;
        CellError::result_of(outcome)?;
        Ok(left_tree)
    }

    fn remove_stage(&self, emit: RunSink) -> Result<()> {
        match self.stage_dir.borrow_mut().take() {
            Some(dir) => remove_run_dir(dir, emit),
            None => Ok(()),
        }
    }
}

/// The event of the run that an event of an ageing agent becomes; None for one that the run does not keep.
pub fn to_run_event(event: CellEvent) -> Option<Event> {
    match event {
        CellEvent::Command(record) => Some(Event::Command(record)),
        CellEvent::Note(note) => Some(Event::Note(note)),
        _ => None,
    }
}
