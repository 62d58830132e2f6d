//! The view of a run in progress: how its variants compare, the status of its claims, and notices to the user. The terminal
//! draws this view, and the live web page receives it as JSON.

use crate::number::{plural, ratio_interval, three_digits_beside};
use fsarena_core::event::{ClaimStatus, Event, Note, NoteKind};
use fsarena_core::names::distinct;
use fsarena_core::observations::{bare_devices, combine_tasks};
use fsarena_core::record::{RunRecord, RunStatus};
use fsarena_core::state::{ClaimState, RunState};
use fsarena_stats::comparison::{Comparison, compare_with_references};
use fsarena_stats::{cost::Estimate, ratio::Ratio};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// The state of a run in progress, as it is displayed. Times are in seconds, intervals are ratios to the best variant.
#[derive(Debug, Serialize)]
pub struct RunView<'a> {
    /// The number of rounds planned; `None` if claims or the clock decide when the run ends.
    #[serde(rename = "planned")]
    pub rounds_planned: Option<u32>,
    /// The number of warm-up rounds at the beginning.
    #[serde(rename = "warmup")]
    pub warmup_rounds: u32,
    /// The number of rounds done.
    #[serde(rename = "done")]
    pub rounds_done: u32,
    /// The round in progress, from 0. The rounds of other shards do not count, here and in the numbers above.
    pub round: Option<u32>,
    /// The names of the variants, in the order of the round in progress.
    pub order: &'a [String],
    /// The number of tasks measured in the round in progress.
    #[serde(rename = "tasks")]
    pub tasks_done: u32,
    /// The total number of tasks in the round in progress.
    pub tasks_of_round: u32,
    /// The variant that runs now; empty if none does.
    pub variant: &'a str,
    /// The phase of the variant that runs now, such as a task; empty if none does.
    pub phase: &'a str,
    /// The time at which the run began or was resumed.
    pub begun_at_s: Option<f64>,
    /// The time of the last event.
    #[serde(rename = "told_at_s")]
    pub last_event_s: f64,
    /// The estimated time left; `None` if fsarena cannot estimate it yet.
    pub left_s: Option<f64>,
    /// Whether the run may end earlier than `left_s`, because claims are decided or the budget is used up.
    #[serde(rename = "at_most")]
    pub left_is_at_most: bool,
    /// How the variants compare, the best first.
    pub variants: &'a [VariantRow],
    /// The claims and their status.
    pub claims: Vec<ClaimView<'a>>,
    /// Notices to the user: failures, unfair comparisons, the forecast.
    #[serde(rename = "words")]
    pub notices: Notices,
    /// The number of tasks that began while the machine was still busy.
    #[serde(rename = "timeouts")]
    pub busy_starts: usize,
    /// The status with which the run ended; `None` while it runs.
    pub ended: Option<&'a RunStatus>,
}

impl<'a> RunView<'a> {
    /// The view of a run, from its state and the comparison of its variants.
    pub fn new(state: &'a RunState, comparison: &'a LiveComparison) -> RunView<'a> {
        let notices = Notices::new(state);
        let (cell, stop) = (state.cell.as_ref().filter(|_| state.end_status.is_none()), &state.record.plan.stop);
        RunView {
            rounds_planned: (state.max_rounds > 0 && !state.is_open_ended()).then_some(state.max_rounds),
            warmup_rounds: stop.warmup_here(),
            rounds_done: state.rounds_done,
            round: state.round.map(|round| stop.rounds_here_before(round)),
            order: &state.order,
            tasks_done: state.tasks_done,
            tasks_of_round: state.tasks_per_cell.saturating_mul(state.order.len() as u32),
            variant: cell.map_or("", |cell| &cell.cell.variant.name),
            phase: cell.map_or("", |cell| &cell.phase),
            begun_at_s: state.started_at,
            last_event_s: state.last_event_at,
            left_s: state.time_left().map(|left| left.as_secs_f64()),
            // Before the first round is done, `time_left` is the whole budget.
            left_is_at_most: state.is_open_ended() || state.rounds_done == 0,
            variants: comparison.rows(),
            claims: state.claims.iter().map(ClaimView::new).collect(),
            busy_starts: notices.busy_starts,
            notices,
            ended: state.end_status.as_ref(),
        }
    }
}

/// One claim of a run in progress.
#[derive(Debug, Serialize)]
pub struct ClaimView<'a> {
    /// The claim and its status so far.
    #[serde(flatten)]
    pub status: &'a ClaimStatus,
    /// The effect and its interval in words: `−1.2% [−2.9%, +0.4%]`.
    #[serde(rename = "known")]
    pub effect_in_words: String,
    /// A sparkline of the interval's width after each round.
    #[serde(rename = "narrowing")]
    pub width_sparkline: String,
}

impl ClaimView<'_> {
    /// The view of a claim, from its state.
    pub fn new(claim: &ClaimState) -> ClaimView<'_> {
        let effect_in_words = match claim.status.effect {
            None => "nothing known yet".to_string(),
            Some((effect, low, high)) => {
                let suffix = if claim.status.provisional { " so far" } else { "" };
                format!("{} [{}, {}]{suffix}", format_change(effect), format_change(low), format_change(high))
            }
        };
        ClaimView { status: &claim.status, effect_in_words, width_sparkline: sparkline(&claim.interval_widths) }
    }
}

/// A relative change in words: `−1.25%`, `+12.3%`; the ratio if the value at least doubled: `2.5×`.
fn format_change(fraction: f64) -> String {
    if fraction >= 1.0 {
        return format!("{:.1}×", 1.0 + fraction);
    }
    let percent = 100.0 * fraction;
    let digits = if percent.abs() < 9.95 { 2 } else { usize::from(percent.abs() < 99.5) };
    format!("{percent:+.digits$}%").replace('-', "−")
}

/// The largest number of bars in a sparkline: one for each of the last rounds.
const MAX_SPARKLINE_BARS: usize = 20;

/// Compares the variants after each round by one metric: by its total over all tasks, or by its geometric mean if the metric
/// has no total.
#[derive(Debug, Default)]
pub struct LiveComparison {
    /// The id of the metric.
    metric: String,
    /// The comparison of the first `n` rounds, by `n`, for the last [`MAX_SPARKLINE_BARS`] values of `n`. A cache:
    /// computing all of them again after each round would take far longer.
    by_round_count: BTreeMap<usize, Comparison>,
    rows: Vec<VariantRow>,
}

/// How a variant compares with the best variant so far.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariantRow {
    /// The name of the variant.
    pub variant: String,
    /// The ratio of the variant to the best one; `None` for the best one itself.
    #[serde(rename = "ratio_to_best", serialize_with = "serialize_ratio")]
    pub ratio: Option<Ratio>,
    /// The ratio and its interval in words: `1.50 [1.48–1.52]`.
    #[serde(rename = "known")]
    pub ratio_in_words: String,
    /// A sparkline of the interval's width after each round.
    #[serde(rename = "narrowing")]
    pub width_sparkline: String,
}

impl LiveComparison {
    /// The comparison by this metric, before any round. It stays empty if the run does not have the metric.
    pub fn new(metric: &str) -> LiveComparison {
        LiveComparison { metric: metric.into(), ..LiveComparison::default() }
    }

    /// Compares the variants again if `event` is the end of a round.
    pub fn update(&mut self, event: &Event, state: &RunState) {
        if matches!(event, Event::RoundFinished { .. }) {
            self.compare(&state.record);
        }
    }

    /// A row for each variant, the best first. Empty unless there are at least two variants and two rounds.
    pub fn rows(&self) -> &[VariantRow] {
        &self.rows
    }

    fn compare(&mut self, record: &RunRecord) {
        self.rows.clear();
        let Ok((metric, values)) = combine_tasks(record, &self.metric) else { return };
        let rounds = values.iter().map(Vec::len).max().unwrap_or(0);
        // fsarena dropped a round, so later rounds changed their places and the cache is invalid.
        if self.by_round_count.last_key_value().is_some_and(|(last, _)| *last > rounds) {
            self.by_round_count.clear();
        }
        let smallest_count = (rounds + 1).saturating_sub(MAX_SPARKLINE_BARS).max(2);
        self.by_round_count.retain(|count, _| (smallest_count..rounds).contains(count));
        for count in smallest_count..=rounds {
            self.by_round_count.entry(count).or_insert_with(|| {
                let first_rounds: Vec<Vec<f64>> = values.iter().map(|values| values[..count].to_vec()).collect();
                compare_with_references(&first_rounds, &bare_devices(record), metric.direction)
            });
        }
        let Some((_, latest)) = self.by_round_count.last_key_value().filter(|(_, latest)| latest.order.len() >= 2)
        else {
            return;
        };
        for &variant in &latest.order {
            let ratios = self.by_round_count.values().filter_map(|comparison| comparison.variants[variant].ratio);
            let widths: Vec<f64> = ratios.map(|ratio| (ratio.high / ratio.low).ln()).collect();
            let ratio = latest.variants[variant].ratio;
            let ratio_in_words = match ratio {
                None => "best so far".to_string(),
                Some(ratio) => {
                    let mark = if ratio.provisional { "?" } else { " " };
                    let value = three_digits_beside(ratio.value, &[1.0]);
                    format!("{value}{mark}[{}]", ratio_interval(ratio.low, ratio.high))
                }
            };
            let variant = record.variants[variant].name.clone();
            self.rows.push(VariantRow { variant, ratio, ratio_in_words, width_sparkline: sparkline(&widths) });
        }
    }
}

/// Serializes a ratio with its interval, and whether it is provisional.
fn serialize_ratio<S: serde::Serializer>(ratio: &Option<Ratio>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Numbers {
        #[serde(flatten)]
        ratio: Estimate,
        provisional: bool,
    }
    let numbers = |ratio: Ratio| Numbers { ratio: ratio.into(), provisional: ratio.provisional };
    ratio.map(numbers).serialize(serializer)
}

/// The last [`MAX_SPARKLINE_BARS`] widths as a sparkline; the largest width has the highest bar.
pub(super) fn sparkline(widths: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &widths[widths.len().saturating_sub(MAX_SPARKLINE_BARS)..];
    let widest = shown.iter().copied().filter(|width| width.is_finite()).fold(0.0, f64::max);
    let bar = |width: &f64| {
        let share = width / widest;
        // The share is NaN if all widths are 0.
        if share.is_nan() { BARS[0] } else { BARS[((share * 8.0).ceil() as usize).clamp(1, 8) - 1] }
    };
    shown.iter().map(bar).collect()
}

/// Notices to the user about a run in progress, by topic.
#[derive(Debug, Default)]
pub struct Notices {
    /// The variants that failed and left the run, and why.
    pub failures: Vec<String>,
    /// Reasons why the comparison may be unfair, dropped rounds, and remarks that require the user to act.
    pub fairness: Vec<String>,
    /// The smallest difference that the run can detect within its budget.
    pub forecast: Option<String>,
    /// The number of tasks that began while the machine was still busy.
    pub busy_starts: usize,
}

impl Notices {
    /// The notices of a run so far.
    pub fn new(state: &RunState) -> Notices {
        let mut notices = Notices { forecast: state.forecast.clone(), ..Notices::default() };
        let mut fairness: Vec<(&str, Vec<&str>)> = vec![];
        for note @ Note { kind, variant, text, .. } in state.notes() {
            match kind {
                NoteKind::IdleTimeout => notices.busy_starts += 1,
                NoteKind::VariantFailed => {
                    let failure = format!("{} {text}", variant.as_deref().unwrap_or_default());
                    notices.failures.push(failure.trim_start().into());
                }
                NoteKind::Fairness | NoteKind::DebugKernel | NoteKind::Dropped | NoteKind::NotCompared => {
                    add_note(&mut fairness, note)
                }
                NoteKind::Remark if note.is_advice() => add_note(&mut fairness, note),
                NoteKind::Options | NoteKind::Weaker | NoteKind::Unavailable | NoteKind::Remark => {}
            }
        }
        notices.fairness = fairness.into_iter().map(|(text, variants)| variants_sentence(text, variants)).collect();
        notices
    }

    /// A sentence with the number of tasks that began while the machine was still busy; `None` if no task did.
    pub fn busy_sentence(&self) -> Option<String> {
        let tasks = plural(self.busy_starts, "task");
        (self.busy_starts > 0).then(|| format!("{tasks} began while the machine was still busy"))
    }
}

/// Adds the variant of a note to the variants of the notes with the same text.
fn add_note<'a>(variants_by_text: &mut Vec<(&'a str, Vec<&'a str>)>, note: &'a Note) {
    let variant = note.variant.as_deref();
    match variants_by_text.iter_mut().find(|(text, _)| *text == note.text) {
        Some((_, variants)) => variants.extend(variant),
        None => variants_by_text.push((&note.text, variant.into_iter().collect())),
    }
}

/// One sentence for all variants with the same note, which each may have several times. It names the first variant and counts
/// the others.
fn variants_sentence(text: &str, variants: Vec<&str>) -> String {
    match distinct(variants).as_slice() {
        [] => text.into(),
        [variant] => format!("{variant}: {text}"),
        [variant, others @ ..] => format!("{variant} and {}: {text}", plural(others.len(), "more variant")),
    }
}

impl Serialize for Notices {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sentences = self.failures.iter().chain(&self.fairness).chain(&self.forecast);
        serializer.collect_seq(sentences.chain(&self.busy_sentence()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_with_the_same_note_in_two_rounds_counts_once() {
        assert_eq!(variants_sentence("lazy", vec!["ext4", "xfs", "ext4", "xfs"]), "ext4 and 1 more variant: lazy");
        assert_eq!(variants_sentence("lazy", vec!["ext4", "ext4"]), "ext4: lazy");
    }

    #[test]
    fn the_largest_width_has_the_highest_bar() {
        assert_eq!(sparkline(&[0.8, 0.4, 0.2, 0.1]), "█▄▂▁");
        assert_eq!(sparkline(&[0.0, 0.0]), "▁▁");
        assert_eq!(sparkline(&[f64::INFINITY, 1.0]), "██");
    }
}
