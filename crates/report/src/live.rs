//! A run in progress: what its events say of it so far. Displays of all kinds show this.

mod intervals;

pub use intervals::{Intervals, Row, sparkline};

use fsarena_core::event::{CellEvent, Event, Note, NoteKind, Outcome, Standing};
use fsarena_core::plan::MOST_ROUNDS;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// How many of the last words are kept.
const WORDS: usize = 50;
/// Rounds and variants beyond these are those of a damaged log.
const PLAUSIBLE: (u32, usize) = (10_000, 1_000);

/// What is known of a run from its events.
#[derive(Debug, Default)]
pub struct Live {
    intervals: Intervals,
    rows: Vec<Row>,
    open_ended: bool,
    rounds: u32,
    budget: Option<Duration>,
    tasks_per_cell: u32,
    begun_at: f64,
    told_at: f64,
    round: Option<u32>,
    /// Rounds that ended, and how many of them before this part of the run began.
    done: u32,
    done_before: u32,
    order: Vec<String>,
    variant: String,
    phase: String,
    tasks: u32,
    claims: Vec<(Standing, Vec<f64>)>,
    words: VecDeque<String>,
    timeouts: u32,
    variants_of_cells: HashMap<String, String>,
    ended: Option<(String, bool)>,
}

impl Live {
    /// A run whose variants compare by this metric; `open_ended` where nobody knows how many rounds it will take.
    pub fn of(metric: &str, open_ended: bool) -> Live {
        Live { intervals: Intervals::of(metric), open_ended, ..Live::default() }
    }

    /// Takes one event; `at` is in seconds since 1970.
    pub fn hear(&mut self, at: f64, event: &Event) {
        if !plausible(event) {
            return;
        }
        self.told_at = at;
        match event {
            Event::RunStarted { rounds, variants, tasks_per_cell, budget_s, .. } => {
                self.intervals.start_or_go_on(variants);
                self.rounds = *rounds;
                self.open_ended |= *rounds >= MOST_ROUNDS;
                self.tasks_per_cell = *tasks_per_cell;
                self.budget = budget_s.and_then(|budget| Duration::try_from_secs_f64(budget).ok());
                (self.begun_at, self.done_before, self.ended) = (at, self.done, None);
            }
            Event::RoundStarted { round, order } => {
                (self.round, self.order, self.tasks) = (Some(*round), order.clone(), 0);
            }
            Event::CellStarted { cell } => {
                self.variants_of_cells.insert(cell.id().0, cell.variant.name.clone());
                (self.variant, self.phase) = (cell.variant.name.clone(), String::new());
                self.intervals.cell(&cell.variant.name);
            }
            Event::Cell { what: CellEvent::Phase { name }, .. } => self.phase.clone_from(name),
            Event::Cell { what: CellEvent::Sample(sample), .. } => {
                self.intervals.sample(sample);
                self.tasks += 1;
            }
            Event::Cell { what: CellEvent::Note(note), .. } | Event::Note(note) => self.note(note),
            Event::Cell { .. } | Event::Command(_) => {}
            Event::CellFinished { cell, outcome } => self.cell_finished(&cell.0, outcome),
            Event::RoundFinished { round } => {
                self.done = self.done.max(round + 1);
                self.rows = self.intervals.rows();
            }
            Event::Claims { standing } => self.claims(standing),
            Event::Forecast { text } => self.say(text.clone()),
            Event::RunFinished { why, complete } => self.end(why, *complete),
        }
    }

    /// Notes that nobody runs it any more.
    pub fn end(&mut self, why: &str, complete: bool) {
        (self.variant, self.phase) = Default::default();
        self.ended = Some((why.into(), complete));
    }

    /// Notes that so many rounds are done at least, whatever the events told.
    pub fn has_done(&mut self, rounds: u32) {
        self.done = self.done.max(rounds);
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    fn cell_finished(&mut self, cell: &str, outcome: &Outcome) {
        self.intervals.cell_done(self.round.unwrap_or(0), *outcome == Outcome::Done);
        let variant = self.variants_of_cells.remove(cell).unwrap_or_default();
        if let Outcome::Failed { why, .. } = outcome {
            self.say(format!("{variant} FAILED: {why}"));
        }
    }

    fn claims(&mut self, standing: &[Standing]) {
        let known = std::mem::take(&mut self.claims);
        for claim in standing {
            let of_claim = |(other, _): &&(Standing, Vec<f64>)| other.claim == claim.claim;
            let mut widths = known.iter().find(of_claim).map_or(vec![], |(_, widths)| widths.clone());
            widths.extend(claim.effect.map(|(_, low, high)| ((1.0 + high) / (1.0 + low)).ln()));
            self.claims.push((claim.clone(), widths));
        }
    }

    fn note(&mut self, note: &Note) {
        match note.kind {
            NoteKind::IdleTimeout => self.timeouts += 1,
            NoteKind::Fairness | NoteKind::Dropped | NoteKind::VariantFailed => {
                let variant = note.variant.as_ref().map_or(String::new(), |variant| format!("{variant}: "));
                self.say(format!("{variant}{}", note.text));
            }
            _ => {}
        }
    }

    fn say(&mut self, words: String) {
        if self.words.len() == WORDS {
            self.words.pop_front();
        }
        self.words.push_back(words);
    }

    /// All of it as JSON: times in seconds, intervals as ratios to the best variant.
    pub fn state(&self) -> Value {
        let elapsed = Duration::try_from_secs_f64(self.told_at - self.begun_at).unwrap_or_default();
        let left =
            left(self.done - self.done_before, elapsed, self.rounds.saturating_sub(self.done), self.budget);
        let known = self.begun_at > 0.0 && self.done > self.done_before && self.ended.is_none();
        json!({
            "planned": (self.rounds > 0 && !self.open_ended).then_some(self.rounds),
            "done": self.done,
            "round": self.round,
            "order": self.order,
            "tasks": self.tasks,
            "tasks_of_round": self.tasks_per_cell.saturating_mul(self.order.len() as u32),
            "variant": self.variant,
            "phase": self.phase,
            "begun_at_s": (self.begun_at > 0.0).then_some(self.begun_at),
            "told_at_s": self.told_at,
            "left_s": known.then_some(left.as_secs_f64()),
            "at_most": self.open_ended,
            "variants": self.rows.iter().map(row).collect::<Vec<_>>(),
            "claims": self.claims.iter().map(claim).collect::<Vec<_>>(),
            "words": self.words,
            "timeouts": self.timeouts,
            "ended": self.ended.as_ref().map(|(why, complete)| json!({"why": why, "complete": complete})),
        })
    }
}

fn plausible(event: &Event) -> bool {
    match event {
        Event::RunStarted { variants, .. } | Event::RoundStarted { order: variants, .. }
            if variants.len() > PLAUSIBLE.1 =>
        {
            false
        }
        Event::RoundStarted { round, .. } | Event::RoundFinished { round } => *round < PLAUSIBLE.0,
        _ => true,
    }
}

fn row(row: &Row) -> Value {
    let ratio = row.ratio.map(|ratio| {
        json!({"value": ratio.value, "low": ratio.low, "high": ratio.high, "provisional": ratio.provisional})
    });
    json!({"variant": row.variant, "ratio_to_best": ratio, "narrowing": row.narrowing})
}

fn claim((standing, widths): &(Standing, Vec<f64>)) -> Value {
    let mut value = json!(standing);
    value["narrowing"] = json!(sparkline(widths));
    value
}

/// The time left: rounds to come at the pace of those done, but no longer than the budget.
pub fn left(done: u32, elapsed: Duration, to_come: u32, budget: Option<Duration>) -> Duration {
    let left = (elapsed / done.max(1)).saturating_mul(to_come);
    budget.map_or(left, |budget| left.min(budget.saturating_sub(elapsed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::cell::{Cell, TaskId, TaskInfo, Variant, WorkloadPlan};
    use fsarena_core::metric::reading;
    use fsarena_core::sample::{Readings, Sample};

    fn cell(variant: &str, round: u32) -> Cell {
        let variant = Variant { name: variant.into(), levels: Default::default() };
        let workload = WorkloadPlan { name: "tasks".into(), settings: Default::default() };
        Cell { round, position: 0, variant, workload, scale: Default::default(), seed: 1 }
    }

    fn sample(elapsed_ns: f64) -> CellEvent {
        let task = TaskInfo { id: TaskId::new("a"), title: "A".into(), number: None, in_composite: true };
        let readings = Readings([(reading::ELAPSED.to_string(), elapsed_ns)].into());
        CellEvent::Sample(Sample { task, started_at: 0.0, readings, series: vec![] })
    }

    fn round(live: &mut Live, number: u32) {
        live.hear(100.0, &Event::RoundStarted { round: number, order: vec!["xfs".into(), "ext4".into()] });
        for (variant, elapsed) in [("ext4", 1e9), ("xfs", 2e9)] {
            let cell = cell(variant, number);
            let inside = |what| Event::Cell { cell: cell.id(), what };
            live.hear(101.0, &Event::CellStarted { cell: cell.clone() });
            live.hear(101.0, &inside(CellEvent::Phase { name: "idle".into() }));
            live.hear(102.0, &inside(sample(elapsed)));
            live.hear(103.0, &Event::CellFinished { cell: cell.id(), outcome: Outcome::Done });
        }
        live.hear(104.0, &Event::RoundFinished { round: number });
    }

    fn started(rounds: u32, budget_s: Option<f64>) -> Event {
        let variants = vec!["ext4".into(), "xfs".into()];
        Event::RunStarted { rounds, variants, tasks_per_cell: 1, already_done: 0, budget_s }
    }

    #[test]
    fn the_state_follows_the_events() {
        let mut live = Live::of("elapsed", false);
        live.hear(100.0, &started(4, None));
        round(&mut live, 0);
        let state = live.state();
        assert_eq!((&state["done"], &state["planned"], &state["tasks"]), (&json!(1), &json!(4), &json!(2)));
        assert_eq!((&state["tasks_of_round"], &state["variant"]), (&json!(2), &json!("xfs")));
        // Four seconds for one round, three to come.
        assert_eq!(state["left_s"], 12.0);
        assert_eq!(state["variants"], json!([]));
        round(&mut live, 1);
        let variants = &live.state()["variants"];
        assert_eq!((&variants[0]["variant"], &variants[0]["ratio_to_best"]), (&json!("ext4"), &Value::Null));
        assert_eq!(
            (&variants[1]["variant"], &variants[1]["ratio_to_best"]["value"]),
            (&json!("xfs"), &json!(2.0))
        );
        live.hear(110.0, &Event::RunFinished { why: "done".into(), complete: true });
        let state = live.state();
        assert_eq!(
            (&state["ended"]["why"], &state["left_s"], &state["variant"]),
            (&json!("done"), &Value::Null, &json!(""))
        );
    }

    #[test]
    fn a_resumed_run_keeps_its_rounds_and_counts_its_own_pace() {
        let mut live = Live::of("elapsed", false);
        live.hear(50.0, &started(5, None));
        round(&mut live, 0);
        live.end("interrupted", false);
        assert!(live.has_ended());
        live.hear(96.0, &started(5, None));
        assert!(!live.has_ended() && live.state()["left_s"].is_null());
        round(&mut live, 1);
        let state = live.state();
        assert_eq!((&state["done"], &state["left_s"]), (&json!(2), &json!(24.0)));
        assert_eq!(state["variants"][1]["ratio_to_best"]["value"], 2.0);
    }

    #[test]
    fn a_damaged_log_does_no_harm() {
        let mut live = Live::of("elapsed", false);
        live.hear(f64::NAN, &started(u32::MAX, Some(f64::NAN)));
        live.hear(-1e300, &Event::RoundFinished { round: u32::MAX });
        live.hear(1.0, &Event::RoundStarted { round: u32::MAX, order: vec![] });
        round(&mut live, 1);
        assert_eq!(live.state()["done"], 2);
    }

    #[test]
    fn a_budget_ends_earlier_than_the_rounds() {
        let second = Duration::from_secs(1);
        assert_eq!(left(2, 10 * second, 4, None), 20 * second);
        assert_eq!(left(2, 10 * second, 4, Some(12 * second)), 2 * second);
        assert_eq!(left(0, second, u32::MAX, Some(Duration::ZERO)), Duration::ZERO);
    }

    #[test]
    fn what_people_should_know_is_kept_and_the_rest_is_counted() {
        let mut live = Live::of("elapsed", true);
        live.hear(1.0, &Event::Note(Note::new(NoteKind::Fairness, "keeps no journal").variant("ext2")));
        live.hear(1.0, &Event::Note(Note::new(NoteKind::IdleTimeout, "slow")));
        for _ in 0..2 * WORDS {
            live.hear(2.0, &Event::Forecast { text: "5%".into() });
        }
        let state = live.state();
        assert_eq!((state["words"].as_array().unwrap().len(), &state["timeouts"]), (WORDS, &json!(1)));
        assert!(state["planned"].is_null() && state["begun_at_s"].is_null());
    }
}
