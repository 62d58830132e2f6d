//! The terminal and the live page show the same facts: both are fed one recorded run.

use super::lines::{self, EventLines};
use fsarena_core::{event::Event, plan::Plan, record::RunRecord, state::RunState};
use fsarena_report::live::{LiveComparison, RunView};
use fsarena_store::TimedEvent;
use serde_json::{Value, json};

/// `fsarena run`: four rounds of ext2 and ext4 on a busy machine, with a claim that they are equivalent.
const EVENTS: &str = include_str!("tests/events.jsonl");
const PLAN: &str = include_str!("tests/plan.toml");

/// The recorded run before its first event.
pub fn initial_state() -> RunState {
    let plan: Plan = toml::from_str(PLAN).unwrap();
    let variants = fsarena_core::matrix::expand(&plan);
    RunState::new(RunRecord::new(plan, variants))
}

/// The lines that the terminal prints after an event, its rows of variants, and the data of the page.
struct ShownAfterEvent {
    event: Event,
    printed: String,
    variants: Vec<String>,
    page: Value,
}

/// Feeds the recorded events to the terminal and to the page.
fn replay() -> Vec<ShownAfterEvent> {
    let (mut state, mut comparison) = (initial_state(), LiveComparison::new("elapsed"));
    let mut event_lines = EventLines::for_log(0.0);
    let replay_event = |line: &str| {
        let TimedEvent { time_s, event } = serde_json::from_str(line).unwrap();
        state.apply(time_s, &event);
        comparison.update(&event, &state);
        let view = RunView::new(&state, &comparison);
        let printed = event_lines.after_event(&event, &view).join("\n");
        let variants = view.variants.iter().map(lines::variant_line).collect();
        ShownAfterEvent { printed, variants, page: json!(view), event }
    };
    EVENTS.lines().map(replay_event).collect()
}

fn as_text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[test]
fn a_round_has_the_same_number_and_time_left() {
    let shown = replay();
    let rounds: Vec<&ShownAfterEvent> =
        shown.iter().filter(|shown| matches!(shown.event, Event::RoundFinished { .. })).collect();
    assert_eq!(rounds.len(), 4);
    for (number, ShownAfterEvent { printed, page, .. }) in (1..).zip(rounds) {
        assert_eq!((&page["done"], &page["at_most"], &page["planned"]), (&json!(number), &json!(true), &Value::Null));
        assert!(printed.contains(&format!("round {number} done")), "{printed}");
        match page["left_s"].as_f64() {
            Some(left) => assert!(printed.contains(&format!("at most {left:.0} s left")), "{printed}"),
            None => assert!(number == 4 && !printed.contains("left"), "{printed}"),
        }
    }
}

#[test]
fn variants_and_claims_have_the_same_intervals() {
    let (mut intervals, mut claims) = (0, 0);
    for ShownAfterEvent { event, printed, variants, page } in replay() {
        assert_eq!(variants.len(), page["variants"].as_array().unwrap().len());
        for (line, row) in variants.iter().zip(page["variants"].as_array().unwrap()) {
            assert!(line.contains(as_text(&row["variant"])) && line.contains(as_text(&row["known"])), "{line} {row}");
            assert!(line.ends_with(as_text(&row["narrowing"])) || row["ratio_to_best"].is_null(), "{line} {row}");
            intervals += usize::from(!row["ratio_to_best"].is_null());
        }
        if let Event::Claims { .. } = event {
            let claim = &page["claims"][0];
            assert!(
                printed.contains(as_text(&claim["known"])) && printed.contains(as_text(&claim["narrowing"])),
                "{printed} {claim}"
            );
            assert!(printed.contains(&format!("{} round", claim["rounds"])), "{printed} {claim}");
            claims += 1;
        }
    }
    assert!(intervals > 0 && claims == 4, "{intervals} {claims}");
}

#[test]
fn notes_and_forecasts_are_on_the_terminal_and_on_the_page() {
    let shown = replay();
    let printed: Vec<&str> = shown.iter().flat_map(|shown| shown.printed.lines()).collect();
    let page = &shown.last().unwrap().page;
    let notices: Vec<&str> = page["words"].as_array().unwrap().iter().map(as_text).collect();
    // Three about fairness, the forecast, and the tasks on a busy machine.
    assert_eq!(notices.len(), 5, "{notices:#?}");
    for notice in notices {
        assert_eq!(printed.iter().filter(|line| line.contains(notice)).count(), 1, "{notice}: {printed:#?}");
    }
    assert!(printed.last().unwrap().ends_with(as_text(&page["ended"]["why"])), "{printed:?}");
}
