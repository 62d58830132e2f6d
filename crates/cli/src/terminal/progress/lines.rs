//! The lines that stay on the screen, no wider than 80 columns where they are tables.

use fsarena_core::claim::ClaimOutcome;
use fsarena_core::event::{Event, NoteKind};
use fsarena_core::plan::{MOST_ROUNDS, StopPlan};
use fsarena_report::live::{ClaimView, RunView, VariantRow};
use std::collections::{HashMap, HashSet};

/// Default width of a terminal, in columns.
const WIDTH: usize = 80;
/// Columns of a variant's name.
const NAME: usize = 28;

/// The least time between the lines of two rounds in a log.
pub const PAUSE_S: f64 = 10.0;
/// What the signs behind a variant are.
pub const SIGNS: &str = "  ratio to the best [95% interval; with ? the extremes so far]; bars: its width";
/// What the signs of a claim are.
pub const SIGNS_OF_CLAIMS: &str = "  claims: change [95% interval], rounds; bars: width of the interval";

/// Chooses the lines that stay. Each note appears once.
#[derive(Debug)]
pub struct Lines {
    /// Whether bars show rounds and open claims, so that only what stays true needs a line.
    bars: bool,
    /// The least time between the lines of two rounds.
    pause_s: f64,
    notes: HashSet<String>,
    /// Whether each claim was open when it was last told of.
    open: HashMap<String, bool>,
    /// When the last round of a log was told, and whether that was the last one there was.
    round: Option<(f64, bool)>,
}

impl Lines {
    /// Lines above bars.
    pub fn besides_bars() -> Lines {
        Lines { bars: true, pause_s: 0.0, notes: HashSet::new(), open: HashMap::new(), round: None }
    }

    /// Lines of a log: of rounds and open claims only after such a pause.
    pub fn of_log(pause_s: f64) -> Lines {
        Lines { bars: false, pause_s, ..Lines::besides_bars() }
    }

    /// The lines to add after an event.
    pub fn of(&mut self, event: &Event, view: &RunView) -> Vec<String> {
        match event {
            Event::Note(note) if note.kind == NoteKind::VariantFailed => {
                self.new_notes(&view.words.failures, "")
            }
            Event::RoundFinished { .. } => {
                let notes = self.new_notes(&view.words.fairness, "note: ");
                [notes, self.round_done(view).into_iter().collect()].concat()
            }
            Event::Claims { .. } => self.claims(view),
            Event::Forecast { text } => vec![format!("  {text}")],
            Event::RunFinished { why, .. } => {
                let mut lines = self.new_notes(&view.words.fairness, "note: ");
                lines.extend(view.words.busy().map(|busy| format!("  {busy}; the report names them")));
                lines.push(format!("stopped after {}: {why}", elapsed(view)));
                lines
            }
            _ => vec![],
        }
    }

    /// The line of a round in a log, unless the last one is too young.
    fn round_done(&mut self, view: &RunView) -> Option<String> {
        let last = self.round.map_or(f64::NEG_INFINITY, |(at, _)| at);
        let tells = !self.bars && view.told_at_s - last >= self.pause_s;
        self.round = Some((if tells { view.told_at_s } else { last }, tells));
        tells.then(|| format!("{} done after {}{}", round(view, view.done), elapsed(view), left(view)))
    }

    /// The claims that were decided just now, and in a log the open ones after the line of a round.
    fn claims(&mut self, view: &RunView) -> Vec<String> {
        let first = self.open.is_empty() && !view.claims.is_empty();
        let tells_open = self.round.is_some_and(|(_, told)| told);
        let mut lines = vec![];
        for one in &view.claims {
            let open = one.standing.open;
            let changed = self.open.insert(one.standing.claim.clone(), open) != Some(open);
            if if open { tells_open } else { changed } {
                lines.push(claim(one));
            }
        }
        if first && !lines.is_empty() {
            lines.insert(0, SIGNS_OF_CLAIMS.into());
        }
        lines
    }

    fn new_notes(&mut self, notes: &[String], label: &str) -> Vec<String> {
        let new = notes.iter().filter(|note| self.notes.insert(note.to_string()));
        new.map(|note| format!("  {label}{note}")).collect()
    }
}

/// `, about 5 s left`; empty if the remaining time is unknown.
pub fn left(view: &RunView) -> String {
    let about = if view.at_most { "at most" } else { "about" };
    view.left_s.map_or(String::new(), |left| format!(", {about} {} left", duration(left)))
}

/// `about 2 min 30 s, at most 15 rounds`: when a run ends.
pub fn expected(stop: &StopPlan) -> String {
    let rounds = match stop.rounds_here() {
        MOST_ROUNDS.. => None,
        1 => Some("1 round".to_string()),
        rounds => Some(format!("{rounds} rounds")),
    };
    let warmup = match stop.warmup_here() {
        0 => None,
        rounds => Some(format!("{rounds} of warm-up")),
    };
    let ends = match stop.best_within {
        Some(within) => Some(format!("until the choice costs at most {:.2}% over the best", 100.0 * within)),
        None => stop.when_decided.then(|| "until every claim is decided".to_string()),
    };
    let time = stop.budget_s.map(|budget| format!("about {}", duration(budget)));
    let rounds = match (&time, &ends) {
        (None, None) => rounds,
        _ => rounds.map(|rounds| format!("at most {rounds}")),
    };
    [time, rounds, warmup, ends].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// `round 1/8`, or without the rounds that are planned where that is not known.
pub fn round(view: &RunView, number: u32) -> String {
    let planned = view.planned.map_or(String::new(), |rounds| format!("/{rounds}"));
    format!("round {number}{planned}{}", if number <= view.warmup { " (warm-up)" } else { "" })
}

fn elapsed(view: &RunView) -> String {
    duration(view.told_at_s - view.begun_at_s.unwrap_or(view.told_at_s))
}

fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, min, s) => format!("{min} min {s:02} s"),
        (h, min, _) => format!("{h} h {min} min"),
    }
}

/// `  ext4/data=journal   1.50 [1.48–1.52] █▄▂▁`.
pub fn variant(row: &VariantRow) -> String {
    let line = format!("  {:NAME$} {:22} {}", shortened(&row.variant, NAME), row.known, row.narrowing);
    line.trim_end().chars().take(WIDTH).collect()
}

/// `  open −1.2% [−2.9%, +0.4%]  12 rounds █▄▂▁  untar.elapsed: xfs < ext4`: a long claim loses its middle.
pub fn claim(ClaimView { standing, known, narrowing }: &ClaimView) -> String {
    let mark = match standing.outcome {
        ClaimOutcome::Inconclusive => "open",
        outcome => outcome.name(),
    };
    let rounds = if standing.rounds == 1 { "1 round".into() } else { format!("{} rounds", standing.rounds) };
    let gap = if narrowing.is_empty() { "" } else { " " };
    let head = format!("  {mark} {known}  {rounds}{gap}{narrowing}  ");
    let room = WIDTH.saturating_sub(head.chars().count());
    format!("{head}{}", shortened(&standing.claim, room.max(10)))
}

/// The beginning and the end of a text that is too long.
fn shortened(text: &str, room: usize) -> String {
    let chars: Vec<char> = text.chars().map(|c| if c.is_control() { '·' } else { c }).collect();
    if chars.len() <= room {
        return chars.into_iter().collect();
    }
    let end = (room - 1) / 2;
    let (first, last) = (&chars[..room - 1 - end], &chars[chars.len() - end..]);
    first.iter().chain(['…'].iter()).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::{event::ClaimStatus, state::ClaimState};

    fn line(claim: &str, outcome: &str, effect: Option<(f64, f64, f64)>, widths: &[f64]) -> String {
        let outcome = ClaimOutcome::ALL.into_iter().find(|known| known.name() == outcome).unwrap();
        let (claim, open) = (claim.into(), outcome == ClaimOutcome::Inconclusive);
        let standing = ClaimStatus { claim, outcome, open, rounds: 12, provisional: false, effect };
        super::claim(&ClaimView::of(&ClaimState { standing, widths: widths.to_vec() }))
    }

    #[test]
    fn the_end_of_a_run_in_words() {
        let of = |rounds, budget_s, when_decided| {
            expected(&StopPlan { rounds, budget_s, when_decided, ..StopPlan::default() })
        };
        assert_eq!(of(15, Some(150.0), false), "about 2 min 30 s, at most 15 rounds");
        assert_eq!(of(MOST_ROUNDS, Some(20.0), true), "about 20 s, until every claim is decided");
        assert_eq!(of(12, None, false), "12 rounds");
        assert_eq!(of(1, None, false), "1 round");
        assert_eq!(
            expected(&StopPlan { rounds: 8, warmup: 1, ..StopPlan::default() }),
            "8 rounds, 1 of warm-up"
        );
    }

    #[test]
    fn a_log_has_a_line_of_a_round_at_most_every_ten_seconds() {
        let state = super::super::tests::state();
        let intervals = fsarena_report::live::Intervals::default();
        let mut view = RunView::of(&state, &intervals);
        let mut told = |lines: &mut Lines| {
            let seconds = (0..25).map(f64::from).filter(|second| {
                view.told_at_s = *second;
                lines.round_done(&view).is_some()
            });
            seconds.collect::<Vec<_>>()
        };
        assert_eq!(told(&mut Lines::of_log(PAUSE_S)), [0.0, 10.0, 20.0]);
        assert_eq!(told(&mut Lines::besides_bars()), [0.0; 0]);
    }

    #[test]
    fn a_claim_is_one_line_of_eighty_columns() {
        let claim = "untar.elapsed: xfs < ext4";
        assert_eq!(
            line(claim, "inconclusive", Some((-0.0123, -0.029, 0.5)), &[0.8, 0.4, 0.2]),
            "  open −1.23% [−2.90%, +50.0%]  12 rounds █▄▂  untar.elapsed: xfs < ext4"
        );
        assert_eq!(
            line(claim, "inconclusive", None, &[]),
            "  open nothing known yet  12 rounds  untar.elapsed: xfs < ext4"
        );
        let long = line(&"a.very-long-claim ".repeat(9), "held", Some((20.0, 19.0, 21.0)), &[]);
        assert_eq!(long.chars().count(), 80);
        assert!(long.starts_with("  held 21.0× [20.0×, 22.0×]  12 rounds  a.very") && long.contains('…'));
        assert!(!line("a\u{1b}[2J\n", "held", None, &[]).contains(char::is_control));
    }

    #[test]
    fn a_variant_is_one_line_of_eighty_columns() {
        let row = |name: &str| VariantRow {
            variant: name.into(),
            ratio: None,
            known: "1.50 [1.48–1.52]".into(),
            narrowing: "█".repeat(20),
        };
        for name in ["x\u{1b}[2Jfs".to_string(), "ext4/".repeat(30)] {
            let line = variant(&row(&name));
            assert!(line.chars().count() <= WIDTH && !line.contains('\u{1b}'), "{line}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!([0.4, 59.0, 185.0, 7300.0].map(duration), ["0 s", "59 s", "3 min 05 s", "2 h 1 min"]);
    }
}
