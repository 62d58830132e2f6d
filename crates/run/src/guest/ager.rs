//! Ages filesystems in guests, so that the guest's kernel puts their files in place.

use super::host_programs::HostPrograms;
use super::start::{Ageing, Formatted, GuestRun, Guests, Started};
use crate::ageing::AgeStep;
use crate::ager::{Ager, Bed, ageing_cell, event_of_run};
use crate::axes::age::{age_of, starts_programs};
use crate::error::{CellError, Result};
use crate::executor::{RunSink, logged};
use crate::layout::Layout;
use crate::power_cut::PowerSupply;
use crate::protocol::ProcessRole;
use fsarena_core::cell::{Variant, WorkloadPlan};
use fsarena_core::event::{CellEvent, LeftTree};
use fsarena_core::factor::{self, age::Age};
use fsarena_core::matrix;
use fsarena_fs::fairness::VariantFacts;
use fsarena_fs::lifecycle::Devices;
use fsarena_fs::safety::ScratchDevice;
use fsarena_guest::{cache, host_root::is_own};
use fsarena_sys::{Error, cancel};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::rc::Rc;

/// Ages filesystems in the guests of a run.
pub struct GuestAger<'a> {
    guests: RefCell<&'a mut Guests>,
    /// The image that the filesystems lie on.
    whole: Rc<ScratchDevice>,
    /// The disk with the copies of trees and histories.
    stage: RefCell<Option<ScratchDevice>>,
    /// The programs of this machine, and the rights of the agents; None for agents of the guest's root that start none.
    programs: Option<HostPrograms>,
    /// What is known of kernels, by the level of the factor `kernel`.
    kernels: RefCell<BTreeMap<String, String>>,
    /// The number of guests so far.
    count: Cell<u32>,
}

/// The programs and data of this machine that ageing needs and that guests do not see at their own paths.
fn copies(guests: &Guests) -> Vec<PathBuf> {
    let mut paths = vec![];
    for variant in matrix::expand(&guests.run.plan) {
        match age_of(&variant) {
            Some(Age::Command { words, .. }) => paths.extend(words.first().map(PathBuf::from)),
            Some(Age::Git { .. }) => paths.extend(guests.run.plan.age.repository.clone()),
            _ => {}
        }
    }
    paths.retain(|path| is_own(path));
    paths
}

impl<'a> GuestAger<'a> {
    /// Ages on the image of these guests.
    pub fn new(guests: &'a mut Guests) -> GuestAger<'a> {
        let variants = matrix::expand(&guests.run.plan);
        let is_needed = guests.programs.is_some() || variants.iter().any(starts_programs);
        let programs = is_needed.then(|| HostPrograms::for_ageing(&guests.run, copies(guests)));
        GuestAger {
            whole: guests.images.whole.clone(),
            guests: RefCell::new(guests),
            stage: RefCell::new(None),
            programs,
            kernels: RefCell::new(BTreeMap::new()),
            count: Cell::new(0),
        }
    }

    /// The disk with the copies of trees and histories.
    fn stage(&self, guests: &Guests, emit: RunSink) -> Result<PathBuf, CellError> {
        let mut stage = self.stage.borrow_mut();
        if let Some(device) = &*stage {
            return Ok(device.path().into());
        }
        let copies = self.programs.as_ref().map_or(&[][..], |programs| programs.copies());
        let made = logged(emit, |log| guests.images.make_stage(&guests.run, copies, log))??;
        let path = made.path().to_path_buf();
        *stage = Some(made);
        Ok(path)
    }
}

impl Ager for GuestAger<'_> {
    fn devices(&self, _: &Layout) -> Result<Devices<'_>> {
        Ok(Devices::from(&*self.whole))
    }

    fn links(&self, _: &Variant, _: &Layout, _: &Devices) -> Result<Option<ScratchDevice>, CellError> {
        Ok(None)
    }

    fn kernel(&self, variant: &Variant) -> Result<String, CellError> {
        let level = variant.level(factor::KERNEL);
        if let Some(known) = self.kernels.borrow().get(level) {
            return Ok(known.clone());
        }
        let guests = self.guests.borrow();
        let kernel = &guests.run.check.kernels.by_level[level];
        let code = File::open(&kernel.code).and_then(cache::digest);
        let code = code.map_err(Error::io("reading", &kernel.code))?;
        let (name, emulator, memory) =
            (kernel.name(), guests.guest.emulator.name(), guests.guest.memory.as_u64());
        let known = format!("{name} {code}, {emulator} guest with {memory} bytes of memory");
        self.kernels.borrow_mut().insert(level.into(), known.clone());
        Ok(known)
    }

    fn user(&self) -> u32 {
        match self.programs.as_ref().map(HostPrograms::role) {
            Some(ProcessRole::Supervisor(rights)) => rights.user.uid,
            _ => 0,
        }
    }

    fn keeps_setups(&self) -> bool {
        false
    }

    fn perform(
        &self,
        bed: &Bed,
        step: AgeStep,
        workload: Option<&WorkloadPlan>,
        emit: RunSink,
    ) -> Result<Option<LeftTree>, CellError> {
        let guests = &mut **self.guests.borrow_mut();
        let mut cell = ageing_cell(&guests.run, bed.variant, workload)?;
        // Limits and layers are for the work.
        cell.variant.levels.retain(|id, _| [factor::FS, factor::KERNEL].contains(&id.as_str()));
        let stage = self.stage(guests, emit)?;
        let facts = VariantFacts {
            variant: cell.variant.name.clone(),
            def: bed.def,
            options: bed.options.clone(),
            effective: String::new(),
            features: String::new(),
            size_bytes: self.whole.size_bytes(),
            levels: cell.variant.levels.clone(),
        };
        let image = self.whole.path().to_path_buf();
        let is_made = !bed.is_unmade.take();
        let formatted = Formatted { facts, image, packed_bytes: None, is_made };
        self.count.set(self.count.get() + 1);
        let ageing =
            Ageing { step: &step, stage: &stage, programs: self.programs.as_ref(), number: self.count.get() };
        let supply = PowerSupply::on();
        let run = GuestRun { ageing: Some(&ageing), ..GuestRun::with(&supply) };
        let (mut events, mut left) = (vec![], None);
        let mut keep = |event: CellEvent| match event {
            CellEvent::Tree(tree) => left = Some(tree),
            event => events.extend(event_of_run(event)),
        };
        let started = guests.start_guest(&cell, &formatted, run, &mut keep);
        events.into_iter().try_for_each(emit)?;
        let Started::Ended(exit) = started? else {
            return Err(CellError::internal("a guest that ages began with a saved machine"));
        };
        cancel::check()?;
        CellError::check(guests.explain_full_disk(exit.outcome))?;
        Ok(left)
    }

    fn clear_stage(&self, emit: RunSink) -> Result<()> {
        match self.stage.borrow_mut().take() {
            Some(device) => Ok(logged(emit, |log| device.release(log))??),
            None => Ok(()),
        }
    }
}
