//! The permanent lines of a run in progress, and the rows of variants and claims, which have at most 80 columns.

use fsarena_core::claim::ClaimOutcome;
use fsarena_core::event::{Event, NoteKind};
use fsarena_core::number::plural;
use fsarena_core::plan::{OPEN_ENDED_ROUNDS, StopPlan};
use fsarena_report::live::{ClaimView, RunView, VariantRow};
use std::collections::{HashMap, HashSet};

/// The width of a line, in columns. Terminals have this width by default.
const MAX_LINE_WIDTH: usize = 80;
/// Columns of a variant's name.
const NAME_WIDTH: usize = 28;

/// The least time between the lines of two rounds in a log, in seconds.
pub const MIN_ROUND_LINE_GAP_S: f64 = 10.0;
/// The legend of the rows of variants.
pub const VARIANT_LEGEND: &str = "  ratio to the best [95% interval; with ? the extremes so far]; bars: its width";
/// The legend of the rows of claims.
pub const CLAIM_LEGEND: &str = "  claims: change [95% interval], rounds; bars: width of the interval";

/// Chooses the permanent lines to print after each event. Each note appears once.
#[derive(Debug, Default)]
pub struct EventLines {
    /// Whether bars show rounds and open claims, so that these need no lines.
    has_bars: bool,
    /// The least time between the lines of two rounds, in seconds.
    min_gap_s: f64,
    /// The notes that were printed.
    printed_notes: HashSet<String>,
    /// Whether each claim was open after the last event about it.
    was_open: HashMap<String, bool>,
    /// The time in seconds of the last line of a round in a log, and whether the last round that ended had a line.
    last_round_line: Option<(f64, bool)>,
}

impl EventLines {
    /// The lines above bars.
    pub fn above_bars() -> EventLines {
        EventLines { has_bars: true, ..EventLines::default() }
    }

    /// The lines of a log. Lines of rounds and open claims are at least `min_gap_s` seconds apart.
    pub fn for_log(min_gap_s: f64) -> EventLines {
        EventLines { min_gap_s, ..EventLines::default() }
    }

    /// The lines to print after an event.
    pub fn after_event(&mut self, event: &Event, view: &RunView) -> Vec<String> {
        match event {
            Event::Note(note) if note.kind == NoteKind::VariantFailed => self.new_notes(&view.notices.failures, ""),
            Event::RoundFinished { .. } => {
                let mut lines = self.new_notes(&view.notices.fairness, "note: ");
                lines.extend(self.round_line(view));
                lines
            }
            Event::Claims { .. } => self.claim_lines(view),
            Event::Forecast { text } => vec![format!("  {text}")],
            Event::RunFinished { why, .. } => {
                let mut lines = self.new_notes(&view.notices.fairness, "note: ");
                lines.extend(view.notices.busy_sentence().map(|busy| format!("  {busy}; the report names them")));
                lines.push(format!("stopped after {}: {why}", elapsed(view)));
                lines
            }
            _ => vec![],
        }
    }

    /// The line of a finished round in a log; None with bars, or if the last line is too recent.
    fn round_line(&mut self, view: &RunView) -> Option<String> {
        let last_line_s = self.last_round_line.map_or(f64::NEG_INFINITY, |(seconds, _)| seconds);
        if self.has_bars || view.last_event_s - last_line_s < self.min_gap_s {
            self.last_round_line = Some((last_line_s, false));
            return None;
        }
        self.last_round_line = Some((view.last_event_s, true));
        Some(format!("{} done after {}{}", round_number(view, view.rounds_done), elapsed(view), time_left(view)))
    }

    /// The lines of claims that have just been decided. A log also has lines of open claims, if the round had a line.
    fn claim_lines(&mut self, view: &RunView) -> Vec<String> {
        let is_first_event = self.was_open.is_empty() && !view.claims.is_empty();
        let round_had_line = self.last_round_line.is_some_and(|(_, had_line)| had_line);
        let mut lines = vec![];
        for claim in &view.claims {
            let open = claim.status.open;
            let changed = self.was_open.insert(claim.status.claim.clone(), open) != Some(open);
            let has_line = if open { round_had_line } else { changed };
            if has_line {
                lines.push(claim_line(claim));
            }
        }
        if is_first_event && !lines.is_empty() {
            lines.insert(0, CLAIM_LEGEND.into());
        }
        lines
    }

    /// The lines of notes that were not printed yet, each with a label.
    fn new_notes(&mut self, notes: &[String], label: &str) -> Vec<String> {
        let new = notes.iter().filter(|note| self.printed_notes.insert(note.to_string()));
        new.map(|note| format!("  {label}{note}")).collect()
    }
}

/// The time left: `, about 5 s left`; empty if it is unknown.
pub fn time_left(view: &RunView) -> String {
    let about = if view.left_is_at_most { "at most" } else { "about" };
    view.left_s.map_or(String::new(), |left| format!(", {about} {} left", format_duration(left)))
}

/// Describes when a run ends: `about 2 min 30 s, at most 15 rounds`.
pub fn describe_run_length(stop: &StopPlan) -> String {
    let end = match stop.best_within {
        Some(within) => Some(format!("until the choice costs at most {:.2}% over the best", 100.0 * within)),
        None if stop.ends_when_decided => Some("until every claim is decided".to_string()),
        None => None,
    };
    let mut parts = vec![];
    if let Some(budget) = stop.budget_s {
        parts.push(format!("about {}", format_duration(budget)));
    }
    let at_most = if stop.budget_s.is_some() || end.is_some() { "at most " } else { "" };
    if stop.rounds_here() < OPEN_ENDED_ROUNDS {
        parts.push(format!("{at_most}{}", plural(stop.rounds_here() as usize, "round")));
    }
    if stop.warmup_here() > 0 {
        parts.push(format!("{} of warm-up", stop.warmup_here()));
    }
    parts.extend(end);
    parts.join(", ")
}

/// The number of a round: `round 1/8`, or `round 1` if the number of planned rounds is unknown.
pub fn round_number(view: &RunView, number: u32) -> String {
    let planned = view.rounds_planned.map_or(String::new(), |rounds| format!("/{rounds}"));
    format!("round {number}{planned}{}", if number <= view.warmup_rounds { " (warm-up)" } else { "" })
}

/// The time from the beginning of the run to the last event.
fn elapsed(view: &RunView) -> String {
    format_duration(view.last_event_s - view.begun_at_s.unwrap_or(view.last_event_s))
}

/// Formats seconds: `3 min 05 s`.
fn format_duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, min, s) => format!("{min} min {s:02} s"),
        (h, min, _) => format!("{h} h {min} min"),
    }
}

/// The row of a variant: `  ext4/data=journal   1.50 [1.48–1.52] █▄▂▁`.
pub fn variant_line(row: &VariantRow) -> String {
    let line = format!(
        "  {:NAME_WIDTH$} {:22} {}",
        shorten(&row.variant, NAME_WIDTH),
        row.ratio_in_words,
        row.width_sparkline
    );
    line.trim_end().chars().take(MAX_LINE_WIDTH).collect()
}

/// The row of a claim: `  open −1.2% [−2.9%, +0.4%]  12 rounds █▄▂▁  untar.elapsed: xfs < ext4`. A long claim is shortened
/// in its middle.
pub fn claim_line(ClaimView { status, effect_in_words, width_sparkline }: &ClaimView) -> String {
    let mark = match status.outcome {
        ClaimOutcome::Inconclusive => "open",
        outcome => outcome.name(),
    };
    let rounds = plural(status.rounds as usize, "round");
    let gap = if width_sparkline.is_empty() { "" } else { " " };
    let beginning = format!("  {mark} {effect_in_words}  {rounds}{gap}{width_sparkline}  ");
    let room = MAX_LINE_WIDTH.saturating_sub(beginning.chars().count());
    format!("{beginning}{}", shorten(&status.claim, room.max(10)))
}

/// Shortens a text to `max_chars` characters: its beginning and its end around `…`. Replaces control characters.
fn shorten(text: &str, max_chars: usize) -> String {
    let chars: Vec<char> = text.chars().map(|c| if c.is_control() { '·' } else { c }).collect();
    if chars.len() <= max_chars {
        return chars.into_iter().collect();
    }
    let end = (max_chars - 1) / 2;
    let (first, last) = (&chars[..max_chars - 1 - end], &chars[chars.len() - end..]);
    first.iter().chain(['…'].iter()).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::{event::ClaimStatus, state::ClaimState};

    fn format_claim(claim: &str, outcome: &str, effect: Option<(f64, f64, f64)>, widths: &[f64]) -> String {
        let outcome = ClaimOutcome::ALL.into_iter().find(|known| known.name() == outcome).unwrap();
        let (claim, open) = (claim.into(), outcome == ClaimOutcome::Inconclusive);
        let status = ClaimStatus { claim, outcome, open, rounds: 12, provisional: false, effect };
        claim_line(&ClaimView::new(&ClaimState { status, interval_widths: widths.to_vec() }))
    }

    #[test]
    fn the_end_of_a_run_is_described_by_time_rounds_and_claims() {
        let describe = |rounds, budget_s, ends_when_decided| {
            describe_run_length(&StopPlan { rounds, budget_s, ends_when_decided, ..StopPlan::default() })
        };
        assert_eq!(describe(15, Some(150.0), false), "about 2 min 30 s, at most 15 rounds");
        assert_eq!(describe(OPEN_ENDED_ROUNDS, Some(20.0), true), "about 20 s, until every claim is decided");
        assert_eq!(describe(12, None, false), "12 rounds");
        assert_eq!(describe(1, None, false), "1 round");
        assert_eq!(
            describe_run_length(&StopPlan { rounds: 8, warmup: 1, ..StopPlan::default() }),
            "8 rounds, 1 of warm-up"
        );
    }

    #[test]
    fn a_log_has_a_line_of_a_round_at_most_every_ten_seconds() {
        let state = super::super::tests::initial_state();
        let comparison = fsarena_report::live::LiveComparison::default();
        let mut view = RunView::new(&state, &comparison);
        let mut seconds_with_line = |lines: &mut EventLines| {
            let seconds = (0..25).map(f64::from).filter(|second| {
                view.last_event_s = *second;
                lines.round_line(&view).is_some()
            });
            seconds.collect::<Vec<_>>()
        };
        assert_eq!(seconds_with_line(&mut EventLines::for_log(MIN_ROUND_LINE_GAP_S)), [0.0, 10.0, 20.0]);
        assert_eq!(seconds_with_line(&mut EventLines::above_bars()), [0.0; 0]);
    }

    #[test]
    fn a_claim_is_one_line_of_eighty_columns() {
        let claim = "untar.elapsed: xfs < ext4";
        assert_eq!(
            format_claim(claim, "inconclusive", Some((-0.0123, -0.029, 0.5)), &[0.8, 0.4, 0.2]),
            "  open −1.23% [−2.90%, +50.0%]  12 rounds █▄▂  untar.elapsed: xfs < ext4"
        );
        assert_eq!(
            format_claim(claim, "inconclusive", None, &[]),
            "  open nothing known yet  12 rounds  untar.elapsed: xfs < ext4"
        );
        let long = format_claim(&"a.very-long-claim ".repeat(9), "held", Some((20.0, 19.0, 21.0)), &[]);
        assert_eq!(long.chars().count(), 80);
        assert!(long.starts_with("  held 21.0× [20.0×, 22.0×]  12 rounds  a.very") && long.contains('…'));
        assert!(!format_claim("a\u{1b}[2J\n", "held", None, &[]).contains(char::is_control));
    }

    #[test]
    fn a_variant_is_one_line_of_eighty_columns() {
        let row = |name: &str| VariantRow {
            variant: name.into(),
            ratio: None,
            ratio_in_words: "1.50 [1.48–1.52]".into(),
            width_sparkline: "█".repeat(20),
        };
        for name in ["x\u{1b}[2Jfs".to_string(), "ext4/".repeat(30)] {
            let line = variant_line(&row(&name));
            assert!(line.chars().count() <= MAX_LINE_WIDTH && !line.contains('\u{1b}'), "{line}");
        }
    }

    #[test]
    fn durations_have_at_most_two_units() {
        assert_eq!([0.4, 59.0, 185.0, 7300.0].map(format_duration), ["0 s", "59 s", "3 min 05 s", "2 h 1 min"]);
    }
}
