//! Ages filesystems in guests, so that the kernel of the guest decides where their files lie.

use super::host_programs::HostPrograms;
use super::saved_machines::StartedGuest;
use super::start::{AgeingGuest, CellFilesystem, GuestExecutor, GuestRun};
use crate::ageing::AgeingStep;
use crate::ager::{Ager, VariantFilesystem, ageing_cell};
use crate::axes::age::{age_of, is_aged_by_program};
use crate::context::facts_before_mount;
use crate::device_layout::DeviceLayout;
use crate::error::{CellError, Result};
use crate::executor::{RunSink, emit_logged_commands, to_run_event};
use crate::power_cut::PowerSupply;
use crate::protocol::ProcessRole;
use fsarena_core::cell::{Variant, WorkloadPlan};
use fsarena_core::event::{CellEvent, TreeState};
use fsarena_core::factor::{self, age::Age};
use fsarena_core::matrix;
use fsarena_fs::lifecycle::Devices;
use fsarena_fs::safety::ScratchDevice;
use fsarena_guest::{cache, host_root::is_in_own_dir};
use fsarena_sys::{Error, cancel};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::rc::Rc;

/// Ages filesystems in the guests of a run.
pub struct GuestAger<'a> {
    guests: RefCell<&'a mut GuestExecutor>,
    /// The image that the filesystems lie on.
    mkfs_image: Rc<ScratchDevice>,
    /// The disk on which agents keep copies of trees, and what later steps of a history need; None until it is made.
    stage_disk: RefCell<Option<ScratchDevice>>,
    /// The programs of this machine, and the rights of the agents; None if the agents run as root and start no
    /// programs.
    programs: Option<HostPrograms>,
    /// The descriptions of kernels, by the level of the factor `kernel`.
    kernel_descriptions: RefCell<BTreeMap<String, String>>,
    /// The number of guests that have aged a filesystem so far.
    guest_count: Cell<u32>,
}

/// The programs and data of this machine that ageing needs, and that guests cannot read at their paths because they lie
/// below a directory that guests have themselves.
fn paths_to_copy(guests: &GuestExecutor) -> Vec<PathBuf> {
    let mut paths = vec![];
    for variant in matrix::expand(&guests.run.plan) {
        match age_of(&variant) {
            Some(Age::Command { argv, .. }) => paths.extend(argv.first().map(PathBuf::from)),
            Some(Age::Git { .. }) => paths.extend(guests.run.plan.age.repository.clone()),
            _ => {}
        }
    }
    paths.retain(|path| is_in_own_dir(path));
    paths
}

impl<'a> GuestAger<'a> {
    /// An ager that uses the guests and the image of this executor.
    pub fn new(guests: &'a mut GuestExecutor) -> GuestAger<'a> {
        let variants = matrix::expand(&guests.run.plan);
        let starts_programs = guests.programs.is_some() || variants.iter().any(is_aged_by_program);
        let programs = starts_programs.then(|| HostPrograms::for_ageing(&guests.run, paths_to_copy(guests)));
        GuestAger {
            mkfs_image: guests.images.mkfs_image.clone(),
            guests: RefCell::new(guests),
            stage_disk: RefCell::new(None),
            programs,
            kernel_descriptions: RefCell::new(BTreeMap::new()),
            guest_count: Cell::new(0),
        }
    }

    /// Returns the disk on which agents keep copies of trees; makes it if it is missing.
    fn stage_disk(&self, guests: &GuestExecutor, emit: RunSink) -> Result<PathBuf, CellError> {
        let mut stage_disk = self.stage_disk.borrow_mut();
        if let Some(device) = &*stage_disk {
            return Ok(device.path().into());
        }
        let copied_paths = self.programs.as_ref().map_or(&[][..], |programs| programs.copied_paths());
        let device = emit_logged_commands(emit, |log| guests.images.make_stage_disk(&guests.run, copied_paths, log))??;
        let path = device.path().to_path_buf();
        *stage_disk = Some(device);
        Ok(path)
    }
}

impl Ager for GuestAger<'_> {
    fn devices(&self, _: &DeviceLayout) -> Result<Devices<'_>> {
        Ok(Devices::from(&*self.mkfs_image))
    }

    fn make_links(&self, _: &Variant, _: &Devices) -> Result<Option<ScratchDevice>, CellError> {
        Ok(None)
    }

    fn describe_kernel(&self, variant: &Variant) -> Result<String, CellError> {
        let level = variant.level(factor::KERNEL);
        if let Some(description) = self.kernel_descriptions.borrow().get(level) {
            return Ok(description.clone());
        }
        let guests = self.guests.borrow();
        let kernel = &guests.run.requirements.kernels.by_level[level];
        let code = File::open(&kernel.code).and_then(cache::digest);
        let code = code.map_err(Error::io("reading", &kernel.code))?;
        let (name, emulator, memory) =
            (kernel.name(), guests.guest_plan.emulator.name(), guests.guest_plan.memory.as_u64());
        let description = format!("{name} {code}, {emulator} guest with {memory} bytes of memory");
        self.kernel_descriptions.borrow_mut().insert(level.into(), description.clone());
        Ok(description)
    }

    fn owner_uid(&self) -> u32 {
        match self.programs.as_ref().map(HostPrograms::role) {
            Some(ProcessRole::Supervisor(rights)) => rights.user.uid,
            _ => 0,
        }
    }

    fn supports_setups(&self) -> bool {
        false
    }

    fn perform_step(
        &self,
        filesystem: &VariantFilesystem,
        step: AgeingStep,
        workload: Option<&WorkloadPlan>,
        emit: RunSink,
    ) -> Result<Option<TreeState>, CellError> {
        let guests = &mut **self.guests.borrow_mut();
        let mut cell = ageing_cell(&guests.run, filesystem.variant, workload)?;
        // Limits and layers are for the work.
        cell.variant.levels.retain(|id, _| [factor::FS, factor::KERNEL].contains(&id.as_str()));
        let stage_disk = self.stage_disk(guests, emit)?;
        let (options, size_bytes) = (filesystem.options.clone(), self.mkfs_image.size_bytes());
        let facts = facts_before_mount(&cell.variant, filesystem.def, options, size_bytes, String::new());
        let image = self.mkfs_image.path().to_path_buf();
        let has_filesystem = !filesystem.needs_mkfs.take();
        let formatted = CellFilesystem { cell, facts, image, packed_bytes: None, has_filesystem };
        self.guest_count.set(self.guest_count.get() + 1);
        let ageing = AgeingGuest {
            step: &step,
            stage_disk: &stage_disk,
            programs: self.programs.as_ref(),
            number: self.guest_count.get(),
        };
        let supply = PowerSupply::on();
        let run = GuestRun { ageing: Some(&ageing), ..GuestRun::for_tasks(&supply) };
        let (mut events, mut final_tree) = (vec![], None);
        let mut collect_event = |event: CellEvent| match event {
            CellEvent::Tree(tree) => final_tree = Some(tree),
            event => events.extend(to_run_event(event)),
        };
        let started = guests.start_guest(&formatted, run, &mut collect_event);
        events.into_iter().try_for_each(emit)?;
        let StartedGuest::Ended(exit) = started? else {
            return Err(CellError::internal("a guest that ages began with a saved machine"));
        };
        cancel::check()?;
        CellError::check_outcome(guests.explain_full_disk(exit.outcome))?;
        Ok(final_tree)
    }

    fn remove_staged_files(&self, emit: RunSink) -> Result<()> {
        match self.stage_disk.borrow_mut().take() {
            Some(device) => Ok(emit_logged_commands(emit, |log| device.release(log))??),
            None => Ok(()),
        }
    }
}
