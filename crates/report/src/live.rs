//! What people see of a run in progress: how its variants compare, how its claims stand and what a reader should know. The
//! terminal draws this view and the live page shows it.

use crate::number::plural;
use fsarena_core::event::{ClaimStatus, Event, Note, NoteKind};
use fsarena_core::observations::{combine_tasks, references};
use fsarena_core::record::{RunRecord, RunStatus};
use fsarena_core::state::{ClaimState, RunState};
use fsarena_stats::comparison::{Comparison, compare_with};
use fsarena_stats::cost::Estimate;
use fsarena_stats::ratio::Ratio;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// A run in progress: times in seconds, intervals as ratios to the best variant.
#[derive(Debug, Serialize)]
pub struct RunView<'a> {
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
    pub variants: &'a [VariantRow],
    /// How the claims stand.
    pub claims: Vec<ClaimView<'a>>,
    /// What a reader should know.
    pub words: Notices,
    /// Tasks that began on a busy machine.
    pub timeouts: usize,
    /// How it ended.
    pub ended: Option<&'a RunStatus>,
}

impl<'a> RunView<'a> {
    /// The view of a run, with its intervals.
    pub fn of(state: &'a RunState, intervals: &'a Intervals) -> RunView<'a> {
        let words = Notices::of(state);
        let cell = state.cell.as_ref().filter(|_| state.ended.is_none());
        RunView {
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
            claims: state.claims.iter().map(ClaimView::of).collect(),
            timeouts: words.timeouts,
            words,
            ended: state.ended.as_ref(),
        }
    }
}

/// One claim of a run in progress.
#[derive(Debug, Serialize)]
pub struct ClaimView<'a> {
    /// The claim and what is known of it.
    #[serde(flatten)]
    pub standing: &'a ClaimStatus,
    /// Its effect and interval in words: `−1.2% [−2.9%, +0.4%]`.
    pub known: String,
    /// How the interval narrowed, as bars.
    pub narrowing: String,
}

impl ClaimView<'_> {
    /// The claim as people see it.
    pub fn of(claim: &ClaimState) -> ClaimView<'_> {
        let known = match claim.standing.effect {
            None => "nothing known yet".to_string(),
            Some((effect, low, high)) => {
                let few = if claim.standing.provisional { " so far" } else { "" };
                format!("{} [{}, {}]{few}", change(effect), change(low), change(high))
            }
        };
        ClaimView { standing: &claim.standing, known, narrowing: sparkline(&claim.widths) }
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

/// The most rounds that one sparkline shows.
const SPARKS: usize = 20;

/// How the variants compare by the total over tasks, or by the geometric mean of what does not add up.
#[derive(Debug, Default)]
pub struct Intervals {
    metric: String,
    /// The comparison of the first `n` rounds by `n`, for the latest values of `n`. It caches them, because they no
    /// longer change and comparing them again after every round would take far longer.
    after: BTreeMap<usize, Comparison>,
    rows: Vec<VariantRow>,
}

/// How a variant compares with the best so far.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariantRow {
    /// Its name.
    pub variant: String,
    /// Its ratio to the best; `None` of the best itself.
    #[serde(rename = "ratio_to_best", serialize_with = "ratio")]
    pub ratio: Option<Ratio>,
    /// The ratio and its interval in words: `1.50 [1.48–1.52]`.
    pub known: String,
    /// How the interval narrowed, as bars.
    pub narrowing: String,
}

impl Intervals {
    /// Intervals of this metric; there are none of one that the run does not have.
    pub fn of(metric: &str) -> Intervals {
        Intervals { metric: metric.into(), ..Intervals::default() }
    }

    /// Compares again where a round ended with this event.
    pub fn see(&mut self, event: &Event, state: &RunState) {
        if matches!(event, Event::RoundFinished { .. }) {
            self.compare(&state.record);
        }
    }

    /// A row for each variant, the best first. Nothing before there are two variants and two rounds.
    pub fn rows(&self) -> &[VariantRow] {
        &self.rows
    }

    fn compare(&mut self, record: &RunRecord) {
        self.rows.clear();
        let Ok((info, values)) = combine_tasks(record, &self.metric) else { return };
        let rounds = values.iter().map(Vec::len).max().unwrap_or(0);
        // A round that was dropped moves those behind it.
        let moved = self.after.last_key_value().is_some_and(|(last, _)| *last > rounds);
        let first = (rounds + 1).saturating_sub(SPARKS).max(2);
        self.after.retain(|after, _| !moved && (first..rounds).contains(after));
        for after in first..=rounds {
            self.after.entry(after).or_insert_with(|| {
                let until: Vec<Vec<f64>> = values.iter().map(|values| values[..after].to_vec()).collect();
                compare_with(&until, &references(record), info.direction)
            });
        }
        let Some((_, now)) = self.after.last_key_value().filter(|(_, now)| now.order.len() >= 2) else {
            return;
        };
        let row = |&variant: &usize| {
            let ratios = self.after.values().filter_map(|comparison| comparison.variants[variant].ratio);
            let widths: Vec<f64> = ratios.map(|ratio| (ratio.high / ratio.low).ln()).collect();
            let ratio = now.variants[variant].ratio;
            let known = ratio.map_or("best so far".to_string(), |ratio| {
                let few = if ratio.provisional { "?" } else { " " };
                format!("{:.2}{few}[{:.2}–{:.2}]", ratio.value, ratio.low, ratio.high)
            });
            let variant = record.variants[variant].name.clone();
            VariantRow { variant, ratio, known, narrowing: sparkline(&widths) }
        };
        self.rows = now.order.iter().map(row).collect();
    }
}

fn ratio<S: serde::Serializer>(ratio: &Option<Ratio>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Numbers {
        #[serde(flatten)]
        ratio: Estimate,
        provisional: bool,
    }
    let numbers = |ratio: Ratio| Numbers { ratio: ratio.into(), provisional: ratio.provisional };
    ratio.map(numbers).serialize(serializer)
}

/// The last of some widths as bars, the widest of them as the highest.
pub(super) fn sparkline(widths: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &widths[widths.len().saturating_sub(SPARKS)..];
    let most = shown.iter().copied().filter(|width| width.is_finite()).fold(0.0, f64::max);
    let bar = |width: &f64| match width / most {
        share if share.is_nan() => BARS[0],
        share => BARS[((share * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    shown.iter().map(bar).collect()
}

/// Sentences by what they are about.
#[derive(Debug, Default)]
pub struct Notices {
    /// The variants that left the run.
    pub failures: Vec<String>,
    /// What makes the comparison unfair, the rounds that were dropped, and what the user should do.
    pub fairness: Vec<String>,
    /// What the budget can resolve.
    pub forecast: Option<String>,
    /// Tasks that began on a busy machine.
    pub timeouts: usize,
}

impl Notices {
    /// The sentences so far.
    pub fn of(state: &RunState) -> Notices {
        let mut words = Notices { forecast: state.forecast.clone(), ..Notices::default() };
        let mut fairness: Vec<(&str, Vec<&str>)> = vec![];
        for note @ Note { kind, variant, text, .. } in state.notes() {
            match kind {
                NoteKind::IdleTimeout => words.timeouts += 1,
                NoteKind::VariantFailed => {
                    let failure = format!("{} {text}", variant.as_deref().unwrap_or_default());
                    words.failures.push(failure.trim_start().into());
                }
                NoteKind::Fairness | NoteKind::Dropped | NoteKind::NotCompared => {
                    add_note(&mut fairness, note)
                }
                NoteKind::Remark if note.asks_the_user() => add_note(&mut fairness, note),
                NoteKind::Options | NoteKind::Weaker | NoteKind::Unavailable | NoteKind::Remark => {}
            }
        }
        words.fairness =
            fairness.into_iter().map(|(text, variants)| variants_sentence(text, variants)).collect();
        words
    }

    /// How many tasks began on a busy machine, where any did.
    pub fn busy(&self) -> Option<String> {
        let tasks = plural(self.timeouts, "task");
        (self.timeouts > 0).then(|| format!("{tasks} began while the machine was still busy"))
    }
}

/// Adds a note's variant to those of the same text.
fn add_note<'a>(sentences: &mut Vec<(&'a str, Vec<&'a str>)>, note: &'a Note) {
    let variant = note.variant.as_deref();
    match sentences.iter_mut().find(|(known, _)| *known == note.text) {
        Some((_, variants)) => variants.extend(variant),
        None => sentences.push((&note.text, variant.into_iter().collect())),
    }
}

/// One sentence for all variants that share `text`: it names the first and counts the others.
fn variants_sentence(text: &str, mut variants: Vec<&str>) -> String {
    variants.dedup();
    match variants.as_slice() {
        [] => text.into(),
        [variant] => format!("{variant}: {text}"),
        [variant, others @ ..] => format!("{variant} and {} more: {text}", others.len()),
    }
}

impl Serialize for Notices {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let said = self.failures.iter().chain(&self.fairness).chain(&self.forecast);
        serializer.collect_seq(said.chain(&self.busy()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrowing_bars() {
        assert_eq!(sparkline(&[0.8, 0.4, 0.2, 0.1]), "█▄▂▁");
        assert_eq!(sparkline(&[0.0, 0.0]), "▁▁");
        assert_eq!(sparkline(&[f64::INFINITY, 1.0]), "██");
    }
}
