//! Runs the rounds of a plan: orders the cells, passes each to the executor and records what happens. It depends on no
//! filesystem, workload or display.

use crate::claim_forecast::{self, RoundForecast, VariantNames, expected_round_s};
use crate::error::{Result, RunError};
use crate::executor::Executor;
use crate::stopping::{
    BudgetFit, RunSize, StoppingRule, forecast_difference, format_duration, rounds_for_an_answer, rounds_for_candidates,
};
use crate::{elimination, printed_metrics, recorder::Recorder};
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{Cause, CellEvent, Event, Note, NoteKind, Outcome, VariantDeparture};
use fsarena_core::setting_text::setting;
use fsarena_core::{matrix, plan::Plan, state::RunState};
use fsarena_sys::cancel;
use std::collections::BTreeMap;
use std::time::Instant;

/// Rounds after which the runner forecasts the smallest detectable difference.
const PILOT_ROUNDS: u32 = 3;
/// The budget to forecast for if the plan has none, in seconds.
const USUAL_BUDGET_S: f64 = 600.0;

/// The number of variants that the pilot of a search for the best always tries, however long they take.
const MIN_TRIED_VARIANTS: usize = 3;

/// The number of rounds whose cells the runner announces to the executor: the current round and those after it.
const ROUNDS_AHEAD: usize = 8;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// As planned.
    Done,
    /// Every variant failed. By the name of each variant: in which round it left the run, and why.
    EveryVariantFailed(BTreeMap<String, VariantDeparture>),
    /// By a signal.
    Interrupted,
}

/// Runs a plan: rounds in order, every live variant once per round, until the stopping rule ends the run. Returns how
/// the run ended, and in words why.
///
/// # Errors
/// A failure that makes every further cell pointless. The recorder already has all finished cells.
pub fn run(
    plan: &Plan,
    variants: &[Variant],
    tasks_per_cell: u32,
    executor: &mut dyn Executor,
    recorder: &mut Recorder,
) -> Result<(RunEnd, String)> {
    if let Some(why) = elimination::why_search_impossible(plan, variants) {
        return Err(RunError::Plan(why.into()));
    }
    let already_done = recorder.state.record.cells.len() as u32;
    let mut runner = Runner { plan, variants, started_at: Instant::now(), executor, recorder };
    runner.recorder.record(Event::RunStarted {
        rounds: plan.stop.warmup_here() + plan.stop.rounds_here(),
        variants: variants.iter().map(|variant| variant.name.clone()).collect(),
        tasks_per_cell,
        already_done,
        budget_s: plan.stop.budget_s,
    })?;
    let (end, why) = runner.run_rounds()?;
    for note in runner.executor.remarks() {
        runner.recorder.record(Event::Note(note))?;
    }
    runner.recorder.record(Event::RunFinished { why: why.clone(), complete: end == RunEnd::Done })?;
    Ok((end, why))
}

/// Whether all variants of a run have left it. The bare device does not count beside filesystems: it is only their
/// reference.
fn all_have_failed(variants: &[Variant], departed: &BTreeMap<String, VariantDeparture>) -> bool {
    let has_failed = |variant: &Variant| departed.contains_key(&variant.name);
    let has_filesystems = variants.iter().any(|variant| !variant.is_bare_device());
    variants.iter().all(|variant| has_failed(variant) || (has_filesystems && variant.is_bare_device()))
}

struct Runner<'a, 'b, 'c> {
    plan: &'a Plan,
    variants: &'a [Variant],
    /// The start of the run in this process. A budget counts from here.
    started_at: Instant,
    executor: &'a mut dyn Executor,
    recorder: &'a mut Recorder<'b, 'c>,
}

impl Runner<'_, '_, '_> {
    fn state(&self) -> &RunState {
        &self.recorder.state
    }

    /// Runs rounds until the stopping rule, a signal or the failure of every variant ends the run.
    fn run_rounds(&mut self) -> Result<(RunEnd, String)> {
        let rounds_needed = rounds_for_an_answer(self.variants, self.plan.error_split());
        let mut stopping = StoppingRule::new(&self.plan.stop, rounds_needed);
        let mut reported_fit = BudgetFit::Fits;
        for round in self.first_round().. {
            // Check this first: if every variant failed in the last round, the run has no answer.
            let departed = self.state().departures();
            if all_have_failed(self.variants, &departed) {
                return Ok((RunEnd::EveryVariantFailed(departed), "every variant has failed".into()));
            }
            let forecast = self.forecast(round);
            let fit = self.budget_fit(&stopping, round, forecast.as_ref());
            if let Some(why) = stopping.stop_reason(round, self.started_at.elapsed(), forecast.as_ref()) {
                let answered = forecast.is_some_and(|forecast| forecast.answered.is_some());
                if !answered && let Some(fit) = &fit {
                    self.note_shortfall(&reported_fit, fit)?;
                }
                let why = match self.plan.stop.shard {
                    Some(shard) => format!("all rounds of shard {shard} are done"),
                    None => why,
                };
                return Ok((RunEnd::Done, why));
            }
            if !self.plan.stop.runs_round(round) {
                // Another shard of the run has this round.
                continue;
            }
            if let Some(forecast) = &forecast {
                self.note_dropped_variants(forecast)?;
            }
            if let Some(fit) = fit {
                self.announce_budget_fit(&reported_fit, &fit)?;
                reported_fit = fit;
            }
            let round_started = Instant::now();
            let variants = self.variants_of_round(round, forecast);
            let cells = matrix::cells_of_round(self.plan, self.variants, &variants, round);
            if cells.iter().all(|cell| self.is_over(cell)) {
                // This run was interrupted and resumed, and has done this round before.
                continue;
            }
            let begins_at_first_cell = !cells.iter().any(|cell| self.state().has_measured(&cell.id()));
            if !self.run_round(round, &variants, cells)? {
                return Ok((RunEnd::Interrupted, "a signal ended it".into()));
            }
            // The rest of an interrupted round takes less time than a whole round, so it does not count.
            if begins_at_first_cell {
                stopping.record_round(round_started.elapsed());
            }
            self.record_status(round, stopping.mean_round_s())?;
        }
        unreachable!("the stopping rule ends every run")
    }

    /// The indices of the variants that a round runs: the variants of the forecast, or without a forecast all live
    /// ones.
    fn variants_of_round(&self, round: u32, forecast: Option<RoundForecast>) -> Vec<usize> {
        let names = forecast.map_or_else(|| self.live_variants(round), |forecast| forecast.variants);
        (0..self.variants.len()).filter(|index| names.contains(&self.variants[*index].name)).collect()
    }

    /// If the budget was too short for a first answer, records a note about it at the end of the run. `reported_fit` is
    /// the fit that the run has reported so far.
    fn note_shortfall(&mut self, reported_fit: &BudgetFit, fit: &BudgetFit) -> Result<()> {
        let BudgetFit::TooShort(shortfall) = fit else { return Ok(()) };
        // A run that ends after its first round has not reported it yet.
        self.announce_budget_fit(reported_fit, fit)?;
        let note = Note::new(NoteKind::Remark, shortfall.final_message()).fix(shortfall.remedy.clone());
        self.recorder.record(Event::Note(note))
    }

    /// The variants that are still in the run: they neither failed before this round nor were excluded from the
    /// comparison. A variant that failed in this round keeps its place in the order of the round, also when a resumed
    /// run continues it.
    fn live_variants(&self, round: u32) -> VariantNames {
        let departures = self.state().departures();
        let not_compared = self.state().record.not_compared();
        let mut live = VariantNames::new();
        for Variant { name, .. } in self.variants {
            let has_left = departures.get(name).is_some_and(|departure| departure.round < round);
            if !has_left && !not_compared.contains(&name.as_str()) {
                live.insert(name.clone());
            }
        }
        live
    }

    /// Notes the variants that leave the run because the budget is too short for them.
    fn note_dropped_variants(&mut self, forecast: &RoundForecast) -> Result<()> {
        let RoundForecast { dropped_for_time, variants, rounds_needed, .. } = forecast;
        let budget = format_duration(self.plan.stop.budget_s.unwrap_or_default());
        for name in dropped_for_time {
            let text = format!(
                "tried once and not compared: within the budget of {budget} only {} variants can have the {rounds_needed} rounds \
                 that a first answer requires",
                variants.len()
            );
            self.note_not_compared(name, text)?;
        }
        Ok(())
    }

    /// Notes that a variant is not compared because the budget is too short for it.
    fn note_not_compared(&mut self, variant: &str, text: String) -> Result<()> {
        let advice = format!("a larger {}", setting("budget", ""));
        self.recorder.record(Event::Note(Note::new(NoteKind::NotCompared, text).variant(variant).fix(advice)))
    }

    /// Returns whether the budget is long enough for the rounds of a first answer; see [`StoppingRule::budget_fit`].
    fn budget_fit(&self, stopping: &StoppingRule, round: u32, forecast: Option<&RoundForecast>) -> Option<BudgetFit> {
        let live = forecast.map_or_else(|| self.live_variants(round), |forecast| forecast.variants.clone());
        let candidates =
            self.variants.iter().filter(|variant| !variant.is_bare_device() && live.contains(&variant.name));
        let size = RunSize::of_plan(self.plan, candidates.count());
        stopping.budget_fit(round, self.started_at.elapsed(), forecast, &size)
    }

    /// Reports before a round whether the budget is long enough for a first answer, if that differs from
    /// `reported_fit`, which the run has reported so far.
    fn announce_budget_fit(&mut self, reported_fit: &BudgetFit, fit: &BudgetFit) -> Result<()> {
        let text = match (reported_fit, fit) {
            (BudgetFit::Fits, BudgetFit::TooShort(shortfall)) => shortfall.forecast_message(),
            (BudgetFit::Fits | BudgetFit::TooShort(_), BudgetFit::ExceedsDefault(text)) => text.clone(),
            (BudgetFit::TooShort(_), BudgetFit::Fits) => {
                "Rounds are shorter than the first one was: the budget is now long enough for a first answer.".into()
            }
            _ => return Ok(()),
        };
        self.recorder.record(Event::Forecast { text })
    }

    /// The first round to look at. In an adaptive run, earlier rounds skipped variants on purpose. A resumed run must
    /// not run them now, so it begins with the last recorded round.
    fn first_round(&self) -> u32 {
        if self.plan.stop.is_adaptive() { self.state().last_round() } else { 0 }
    }

    /// The forecast of a round in a run that adapts to its samples. None in other runs, and for warm-up rounds, which
    /// run every variant.
    fn forecast(&self, round: u32) -> Option<RoundForecast> {
        let counted_index = round.checked_sub(self.plan.stop.warmup)?;
        let elapsed_s = self.started_at.elapsed().as_secs_f64();
        if let Some(max_regret) = self.plan.stop.best_within {
            let budget_left_s = self.plan.stop.extended_budget_s().map(|budget_s| budget_s - elapsed_s);
            return Some(elimination::eliminate(
                &self.state().record,
                &self.live_variants(round),
                counted_index,
                max_regret,
                budget_left_s,
            ));
        }
        if !self.plan.stop.ends_when_decided {
            return None;
        }
        let budget_left_s = self.plan.stop.budget_s.map(|budget_s| budget_s - elapsed_s);
        let live = self.live_variants(round);
        Some(claim_forecast::forecast_claims(&self.state().record, &live, counted_index, budget_left_s))
    }

    /// Records the status of the claims after a round, and after the pilot rounds the smallest difference that the
    /// budget can detect. `round_s` is the mean time of the rounds of this process; None if it has run no whole round.
    fn record_status(&mut self, round: u32, round_s: Option<f64>) -> Result<()> {
        let Some(counted_index) = round.checked_sub(self.plan.stop.warmup) else { return Ok(()) };
        // A run with neither claims nor a budget needs no status. A shard gets none, because only all shards together
        // can decide a claim.
        let needs_status = !self.plan.claims.is_empty() || self.plan.stop.budget_s.is_some();
        if !needs_status || self.plan.stop.shard.is_some() {
            return Ok(());
        }
        if !self.plan.claims.is_empty() {
            let statuses = claim_forecast::claim_statuses(&self.state().record);
            self.recorder.record(Event::Claims { statuses })?;
        }
        let Some(round_s) = round_s.filter(|_| counted_index + 1 == PILOT_ROUNDS) else { return Ok(()) };
        let budget_s = self.plan.stop.budget_s.unwrap_or(USUAL_BUDGET_S);
        if let Some(text) = forecast_difference(&self.state().record, round_s, budget_s) {
            let note = Note::new(NoteKind::Remark, format!("from a pilot of {PILOT_ROUNDS} rounds: {text}"));
            self.recorder.record(Event::Forecast { text })?;
            self.recorder.record(Event::Note(note))?;
        }
        Ok(())
    }

    /// Runs the cells of a round that are not over. `variants` are the variants of the round. Returns false if a signal
    /// ended the round.
    fn run_round(&mut self, round: u32, variants: &[usize], mut cells: Vec<Cell>) -> Result<bool> {
        if self.is_pilot(round) {
            self.sort_by_priority(&mut cells);
        }
        let mut order: Vec<String> = cells.iter().map(|cell| cell.variant.name.clone()).collect();
        order.dedup();
        self.recorder.record(Event::RoundStarted { round, order })?;
        if !self.is_pilot(round) {
            self.executor.announce(self.upcoming_cells(round, variants));
        }
        for cell in cells {
            if self.is_pilot(round) && self.exceeds_budget(&cell) {
                self.note_not_tried(&cell)?;
                continue;
            }
            if !self.is_over(&cell) && (cancel::received_signal().is_some() || !self.run_cell(cell)?) {
                return Ok(false);
            }
        }
        self.recorder.record(Event::RoundFinished { round })?;
        Ok(true)
    }

    /// The cells that will come next if these variants stay in the run: the cells of this round and of up to
    /// [`ROUNDS_AHEAD`] - 1 further rounds.
    fn upcoming_cells(&self, round: u32, variants: &[usize]) -> Vec<Cell> {
        let stop = &self.plan.stop;
        let end = if stop.is_adaptive() { u32::MAX } else { stop.warmup + stop.rounds };
        let mut cells = vec![];
        for round in (round..end).filter(|round| stop.runs_round(*round)).take(ROUNDS_AHEAD) {
            cells.extend(matrix::cells_of_round(self.plan, self.variants, variants, round));
        }
        cells.retain(|cell| !self.is_over(cell));
        cells
    }

    /// Whether a round only measures how long the variants take: a warm-up round of a search for the best with a
    /// budget.
    fn is_pilot(&self, round: u32) -> bool {
        let stop = &self.plan.stop;
        round < stop.warmup && stop.best_within.is_some() && stop.budget_s.is_some()
    }

    /// Sorts the cells of a pilot round by the order in which a short budget tries variants. A random order is not
    /// needed, because no figure of a pilot is compared.
    fn sort_by_priority(&self, cells: &mut [Cell]) {
        let order = elimination::by_priority(self.plan, self.variants);
        let priority = |cell: &Cell| order.iter().position(|index| self.variants[*index].name == cell.variant.name);
        cells.sort_by_key(priority);
        for (position, cell) in (0..).zip(cells) {
            cell.position = position;
        }
    }

    /// Whether the budget is too short to try the variant of this cell: after its pilot there would be no time for the
    /// rounds that compare two variants, even if both were as fast as the fastest variant so far. The first
    /// [`MIN_TRIED_VARIANTS`] variants always run.
    fn exceeds_budget(&self, cell: &Cell) -> bool {
        let record = &self.state().record;
        let tried: VariantNames =
            record.cells.iter().map(|cell| record.variant_name(cell.variant).to_string()).collect();
        if tried.contains(&cell.variant.name) || tried.len() < MIN_TRIED_VARIANTS {
            return false;
        }
        let fastest_s = tried.iter().filter_map(|name| expected_round_s(record, name)).reduce(f64::min);
        let (Some(fastest_s), Some(budget_s)) = (fastest_s, self.plan.stop.extended_budget_s()) else { return false };
        let cell_count = 1 + 2 * rounds_for_candidates(2, self.plan.error_split());
        self.started_at.elapsed().as_secs_f64() + f64::from(cell_count) * fastest_s > budget_s
    }

    /// Notes that the pilot did not try a variant, once per variant.
    fn note_not_tried(&mut self, cell: &Cell) -> Result<()> {
        let name = &cell.variant.name;
        if self.state().record.not_compared().contains(&name.as_str()) {
            return Ok(()); // Noted already, for the cell of another workload.
        }
        let budget = format_duration(self.plan.stop.budget_s.unwrap_or_default());
        self.note_not_compared(name, format!("not tried: the budget of {budget} is too short"))
    }

    /// Whether there is nothing to do for a cell: it has been measured, or its variant has left the run.
    fn is_over(&self, cell: &Cell) -> bool {
        self.state().has_measured(&cell.id()) || self.state().departures().contains_key(&cell.variant.name)
    }

    /// Runs one cell, and runs it once more if a program that it needs died, such as its guest or mkfs. Returns false
    /// if a signal ended the cell.
    fn run_cell(&mut self, cell: Cell) -> Result<bool> {
        let mut outcome = self.attempt_cell(&cell)?;
        if let Outcome::Failed { why, cause: Cause::Died } = &outcome {
            let round = cell.round + 1;
            let text = format!("a program that it needs died in round {round}, and fsarena ran the cell again: {why}");
            self.recorder.record(Event::Note(Note::new(NoteKind::Remark, text).variant(&cell.variant.name)))?;
            outcome = self.attempt_cell(&cell)?;
        }
        if let (Outcome::Failed { why, .. }, Some(path)) = (&mut outcome, self.recorder.output_file(&cell)) {
            why.push_str(&format!("; its output is in {}", path.display()));
        }
        self.recorder.record(Event::CellFinished { cell: cell.id(), outcome: outcome.clone() })?;
        match outcome {
            Outcome::Done => Ok(true),
            Outcome::Interrupted => Ok(false),
            Outcome::Failed { why, .. } => {
                let text = format!("failed in round {} and left the run: {why}", cell.round + 1);
                let note = Note::new(NoteKind::VariantFailed, text).variant(&cell.variant.name);
                self.recorder.record(Event::Note(note))?;
                Ok(true)
            }
        }
    }

    /// Records the start of a cell, which discards the samples of an earlier attempt, and runs it to its outcome.
    fn attempt_cell(&mut self, cell: &Cell) -> Result<Outcome> {
        let id = cell.id();
        self.recorder.record(Event::CellStarted { cell: cell.clone() })?;
        let mut record_error = None;
        let recorder = &mut *self.recorder;
        let mut emit = |mut event: CellEvent| {
            let is_known_note = match &mut event {
                CellEvent::Note(note) if note.kind == NoteKind::IdleTimeout => {
                    note.variant = Some(cell.variant.name.clone());
                    false
                }
                // Most notes hold for every cell: record each once.
                CellEvent::Note(note) => recorder.state.notes().any(|recorded| recorded == note),
                _ => false,
            };
            if record_error.is_none() && !is_known_note {
                record_error = recorder.record(Event::Cell { cell: id.clone(), event }).err();
            }
        };
        let outcome = self.executor.run(cell, &mut emit)?;
        if let Some(record_error) = record_error {
            return Err(record_error);
        }
        // A clash of two metrics is known only after the cell has ended. The cell then fails, so that the user renames
        // one.
        Ok(match (&outcome, printed_metrics::find_name_clash(&self.recorder.state)) {
            (Outcome::Done, Some(clash)) => clash.into(),
            _ => outcome,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::factor::{FS, RAW};

    #[test]
    fn the_bare_device_alone_does_not_continue_a_run() {
        let variant = |fs: &str| Variant { name: fs.into(), levels: [(FS.to_string(), fs.to_string())].into() };
        let failed = VariantDeparture { round: 0, why: "mkfs".into(), cause: Cause::Work };
        let departed = BTreeMap::from([("ext4".to_string(), failed)]);
        assert!(all_have_failed(&[variant("ext4"), variant(RAW)], &departed));
        assert!(!all_have_failed(&[variant("ext4"), variant("xfs"), variant(RAW)], &departed));
        assert!(!all_have_failed(&[variant(RAW)], &departed));
    }
}
