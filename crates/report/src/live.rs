//! What people see of a run in progress. The terminal draws this view and the live page shows it.

mod intervals;
mod words;

pub use intervals::{Intervals, Row};
pub use words::Words;

use fsarena_core::state::{ClaimState, RunState};
use fsarena_core::{event::ClaimStatus, record::RunStatus};
use intervals::sparkline;
use serde::Serialize;

/// A run in progress: times in seconds, intervals as ratios to the best variant.
#[derive(Debug, Serialize)]
pub struct View<'a> {
    /// Rounds planned, where anybody knows how many there will be.
    pub planned: Option<u32>,
    /// The first rounds, which only warm up.
    pub warmup: u32,
    /// Rounds done.
    pub done: u32,
    /// The round in progress, from 0.
    pub round: Option<u32>,
    /// The order of its variants.
    pub order: &'a [String],
    /// Tasks measured in it.
    pub tasks: u32,
    /// Tasks that it has.
    pub tasks_of_round: u32,
    /// The variant whose cell runs; empty where none does.
    pub variant: &'a str,
    /// What happens in that cell.
    pub phase: &'a str,
    /// When this part of the run began.
    pub begun_at_s: Option<f64>,
    /// When the last event happened.
    pub told_at_s: f64,
    /// The time left, where the rounds so far tell.
    pub left_s: Option<f64>,
    /// Whether claims or the clock may end the run before that.
    pub at_most: bool,
    /// How the variants compare, the best first.
    pub variants: &'a [Row],
    /// How the claims stand.
    pub claims: Vec<Claim<'a>>,
    /// What a reader should know.
    pub words: Words,
    /// Tasks that began on a busy machine.
    pub timeouts: usize,
    /// How it ended.
    pub ended: Option<&'a RunStatus>,
}

impl<'a> View<'a> {
    /// The view of a run, with its intervals.
    pub fn of(state: &'a RunState, intervals: &'a Intervals) -> View<'a> {
        let words = Words::of(state);
        let cell = state.cell.as_ref().filter(|_| state.ended.is_none());
        View {
            planned: (state.rounds > 0 && !state.open_ended()).then_some(state.rounds),
            warmup: state.record.plan.stop.warmup,
            done: state.done,
            round: state.round,
            order: &state.order,
            tasks: state.tasks,
            tasks_of_round: state.tasks_per_cell.saturating_mul(state.order.len() as u32),
            variant: cell.map_or("", |cell| &cell.cell.variant.name),
            phase: cell.map_or("", |cell| &cell.phase),
            begun_at_s: state.begun_at,
            told_at_s: state.last_event_at,
            left_s: state.left().map(|left| left.as_secs_f64()),
            // Before a round is done only the budget tells.
            at_most: state.open_ended() || state.done == 0,
            variants: intervals.rows(),
            claims: state.claims.iter().map(Claim::of).collect(),
            timeouts: words.timeouts,
            words,
            ended: state.ended.as_ref(),
        }
    }
}

/// One claim of a run in progress.
#[derive(Debug, Serialize)]
pub struct Claim<'a> {
    /// The claim and what is known of it.
    #[serde(flatten)]
    pub standing: &'a ClaimStatus,
    /// Its effect and interval in words: `−1.2% [−2.9%, +0.4%]`.
    pub known: String,
    /// How the interval narrowed, as bars.
    pub narrowing: String,
}

impl Claim<'_> {
    /// The claim as people see it.
    pub fn of(claim: &ClaimState) -> Claim<'_> {
        let known = match claim.standing.effect {
            None => "nothing known yet".to_string(),
            Some((effect, low, high)) => {
                let few = if claim.standing.provisional { " so far" } else { "" };
                format!("{} [{}, {}]{few}", change(effect), change(low), change(high))
            }
        };
        Claim { standing: &claim.standing, known, narrowing: sparkline(&claim.widths) }
    }
}

/// Per cent; from twice as much on the ratio itself.
fn change(fraction: f64) -> String {
    if fraction >= 1.0 {
        return format!("{:.1}×", 1.0 + fraction);
    }
    let percent = 100.0 * fraction;
    let digits = if percent.abs() < 9.95 { 2 } else { usize::from(percent.abs() < 99.5) };
    format!("{percent:+.digits$}%").replace('-', "−")
}
