//! The measurement: the runner's blocks, with the work of each cell made its arm's own.

use super::{MORE, plant};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::room::Room;
use fsarena_core::cell::{Arm, Cell};
use fsarena_core::event::{CellEvent, Event, Note, Outcome};
use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::metric;
use fsarena_core::plan::Plan;
use fsarena_core::sample::Sample;
use fsarena_run::executor::{Executor, Fatal, Tell};
use fsarena_run::local::Local;
use fsarena_run::preflight::Check;
use fsarena_run::runner::{self, Earlier, End};
use fsarena_sys::kernel::Kernel;
use std::collections::BTreeMap;

/// The metrics that are looked at.
pub const METRICS: [&str; 4] = ["elapsed", "durable", "system", "total_cpu"];

/// What was measured.
#[derive(Debug, Default)]
pub struct Measured {
    /// The names of the arms, the base first.
    pub arms: Vec<String>,
    /// By step and metric: for each arm the value of each block, NaN where there is none.
    pub values: BTreeMap<(String, &'static str), Vec<Vec<f64>>>,
    /// Whole blocks.
    pub blocks: usize,
}

impl Measured {
    fn take(&mut self, cell: &Cell, sample: &Sample) {
        let Some(arm) = self.arms.iter().position(|arm| *arm == cell.arm.name) else { return };
        if !sample.step.in_composite {
            return;
        }
        for id in METRICS {
            let def = metric::find(id).expect("these are metrics");
            let Some(value) = (def.from)(&|reading| sample.readings.get(reading)) else { continue };
            let key = (sample.step.id.to_string(), id);
            let arms = self.values.entry(key).or_insert_with(|| vec![vec![]; self.arms.len()]);
            let blocks = &mut arms[arm];
            blocks.resize(blocks.len().max(cell.block as usize + 1), f64::NAN);
            blocks[cell.block as usize] = value;
        }
    }
}

/// Runs the plan, with the inputs of another. None where a signal ended it.
pub fn measure(
    kernel: &Kernel,
    plan: &Plan,
    inputs: &Plan,
    arms: &[Arm],
    check: &Check,
    room: &Room,
    progress: &mut Progress,
) -> Result<Option<Measured>, Failure> {
    let mut silent = |_: Event| Ok(());
    let local = Local::start(kernel, inputs, check, room.journal(), room.dir(), &mut silent)?;
    let mut executor = Box::new(Inflated(Box::new(local)));
    let mut measured =
        Measured { arms: arms.iter().map(|arm| arm.name.clone()).collect(), ..Measured::default() };
    let mut cell: Option<Cell> = None;
    let mut failed = None;
    let mut consume = |event: &Event| -> Result<(), Box<dyn Exits>> {
        match event {
            Event::CellStarted { cell: begun } => cell = Some(begun.clone()),
            Event::Cell { what: CellEvent::Sample(sample), .. } => {
                cell.iter().for_each(|cell| measured.take(cell, sample));
            }
            Event::CellFinished { outcome: Outcome::Failed { why }, .. } => failed = Some(why.clone()),
            Event::BlockFinished { .. } => measured.blocks += 1,
            _ => {}
        }
        progress.show(event);
        Ok(())
    };
    let steps = check.steps_per_cell() / inputs.workloads.len() as u32;
    let end = runner::run(plan, arms, steps, Earlier::default(), &mut *executor, &mut consume)?;
    executor.finish(&mut silent)?;
    match (end, failed) {
        // All arms are alike: where one fails, there is nothing to learn from the others.
        (_, Some(why)) => {
            Err(Failure::new(ExitCode::Internal, format!("the self-test's work failed: {why}")))
        }
        (End::Interrupted, None) => Ok(None),
        (_, None) => Ok(Some(measured)),
    }
}

/// An executor that gives each arm its own amount of work.
struct Inflated(Box<dyn Executor>);

impl Executor for Inflated {
    fn run(&mut self, cell: &Cell, emit: &mut dyn FnMut(CellEvent)) -> Result<Outcome, Fatal> {
        let mut cell = cell.clone();
        let more = MORE.iter().find(|(name, _)| *name == cell.arm.name).map(|(_, more)| *more);
        let more = more.ok_or_else(|| Fatal::Plan(format!("arm {} has no work", cell.arm.name)))?;
        plant(&mut cell.workload.settings, more);
        self.0.run(&cell, emit)
    }

    fn remarks(&self) -> Vec<Note> {
        vec![]
    }

    fn finish(self: Box<Self>, tell: Tell) -> Result<(), Fatal> {
        self.0.finish(tell)
    }
}
