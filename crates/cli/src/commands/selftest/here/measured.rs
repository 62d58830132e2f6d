//! What the self-test measures of its variants.

use fsarena_core::cell::Cell;
use fsarena_core::event::{CellEvent, Event};
use fsarena_core::metric;
use fsarena_core::sample::Sample;
use std::collections::BTreeMap;

/// How many files more, in per cent, the variants have; in the order of the plan.
pub const MORE: [(&str, u64); 5] =
    [("base", 0), ("same", 0), ("1% more files", 1), ("2% more files", 2), ("5% more files", 5)];
/// The metrics that are looked at.
pub const METRICS: [&str; 4] = ["elapsed", "durable", "system", "total_cpu"];

/// What was measured.
#[derive(Debug, Default)]
pub struct Measured {
    cell: Option<Cell>,
    /// By task and metric: for each variant the value of each round, NaN where there is none.
    pub values: BTreeMap<(String, &'static str), Vec<Vec<f64>>>,
    /// Whole rounds.
    pub rounds: usize,
}

impl Measured {
    /// Takes note of an event.
    pub fn take(&mut self, event: &Event) {
        match event {
            Event::CellStarted { cell } => self.cell = Some(cell.clone()),
            Event::Cell { what: CellEvent::Sample(sample), .. } => self.sample(sample),
            Event::RoundFinished { .. } => self.rounds += 1,
            _ => {}
        }
    }

    fn sample(&mut self, sample: &Sample) {
        let Some(cell) = self.cell.as_ref().filter(|_| sample.task.in_composite) else { return };
        let Some(variant) = MORE.iter().position(|(name, _)| *name == cell.variant.name) else { return };
        for id in METRICS {
            let def = metric::find(id).expect("these are metrics");
            let Some(value) = (def.from)(&|reading| sample.readings.get(reading)) else { continue };
            let key = (sample.task.id.to_string(), id);
            let variants = self.values.entry(key).or_insert_with(|| vec![vec![]; MORE.len()]);
            let rounds = &mut variants[variant];
            rounds.resize(rounds.len().max(cell.round as usize + 1), f64::NAN);
            rounds[cell.round as usize] = value;
        }
    }
}
