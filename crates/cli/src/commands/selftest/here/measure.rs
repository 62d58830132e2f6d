//! The measurement: the runner's rounds, with the work of each cell made its variant's own.

use super::{MORE, plant};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::room::Room;
use fsarena_core::cell::{Cell, Variant};
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
    /// The names of the variants, the base first.
    pub variants: Vec<String>,
    /// By task and metric: for each variant the value of each round, NaN where there is none.
    pub values: BTreeMap<(String, &'static str), Vec<Vec<f64>>>,
    /// Whole rounds.
    pub rounds: usize,
}

impl Measured {
    fn take(&mut self, cell: &Cell, sample: &Sample) {
        let Some(variant) = self.variants.iter().position(|variant| *variant == cell.variant.name) else {
            return;
        };
        if !sample.task.in_composite {
            return;
        }
        for id in METRICS {
            let def = metric::find(id).expect("these are metrics");
            let Some(value) = (def.from)(&|reading| sample.readings.get(reading)) else { continue };
            let key = (sample.task.id.to_string(), id);
            let variants = self.values.entry(key).or_insert_with(|| vec![vec![]; self.variants.len()]);
            let rounds = &mut variants[variant];
            rounds.resize(rounds.len().max(cell.round as usize + 1), f64::NAN);
            rounds[cell.round as usize] = value;
        }
    }
}

/// Runs the plan, with the inputs of another. None where a signal ended it.
pub fn measure(
    kernel: &Kernel,
    plan: &Plan,
    inputs: &Plan,
    variants: &[Variant],
    check: &Check,
    room: &Room,
    progress: &mut Progress,
) -> Result<Option<Measured>, Failure> {
    let mut silent = |_: Event| Ok(());
    let local = Local::start(kernel, inputs, check, room.journal(), room.dir(), &mut silent)?;
    let mut executor = Box::new(Inflated(Box::new(local)));
    let mut measured = Measured {
        variants: variants.iter().map(|variant| variant.name.clone()).collect(),
        ..Measured::default()
    };
    let mut cell: Option<Cell> = None;
    let mut failed = None;
    let mut consume = |event: &Event| -> Result<(), Box<dyn Exits>> {
        match event {
            Event::CellStarted { cell: begun } => cell = Some(begun.clone()),
            Event::Cell { what: CellEvent::Sample(sample), .. } => {
                cell.iter().for_each(|cell| measured.take(cell, sample));
            }
            Event::CellFinished { outcome: Outcome::Failed { why }, .. } => failed = Some(why.clone()),
            Event::RoundFinished { .. } => measured.rounds += 1,
            _ => {}
        }
        progress.show(event);
        Ok(())
    };
    let tasks = check.tasks_per_cell() / inputs.workloads.len() as u32;
    let end = runner::run(plan, variants, tasks, Earlier::default(), &mut *executor, &mut consume)?;
    executor.finish(&mut silent)?;
    match (end, failed) {
        // All variants are alike: where one fails, there is nothing to learn from the others.
        (_, Some(why)) => {
            Err(Failure::new(ExitCode::Internal, format!("the self-test's work failed: {why}")))
        }
        (End::Interrupted, None) => Ok(None),
        (_, None) => Ok(Some(measured)),
    }
}

/// An executor that gives each variant its own amount of work.
struct Inflated(Box<dyn Executor>);

impl Executor for Inflated {
    fn run(&mut self, cell: &Cell, emit: &mut dyn FnMut(CellEvent)) -> Result<Outcome, Fatal> {
        let mut cell = cell.clone();
        let more = MORE.iter().find(|(name, _)| *name == cell.variant.name).map(|(_, more)| *more);
        let more = more.ok_or_else(|| Fatal::Plan(format!("variant {} has no work", cell.variant.name)))?;
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
