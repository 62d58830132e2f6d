//! The terminal and the live page show the same facts: both are fed one recorded run.

use super::lines::{self, Lines};
use fsarena_core::{event::Event, plan::Plan, record::RunRecord, state::RunState};
use fsarena_report::live::{Intervals, RunView};
use fsarena_store::TimedEvent;
use serde_json::{Value, json};

/// `fsarena run`: four rounds of ext2 and ext4 on a busy machine, with a claim that they are equivalent.
const EVENTS: &str = include_str!("tests/events.jsonl");
const PLAN: &str = include_str!("tests/plan.toml");

/// The recorded run before its first event.
pub fn state() -> RunState {
    let plan: Plan = toml::from_str(PLAN).unwrap();
    let variants = fsarena_core::matrix::expand(&plan);
    RunState::new(RunRecord::new(plan, variants))
}

/// What the terminal says after an event, its lines of variants, and what the page is sent.
struct Shown {
    event: Event,
    said: String,
    variants: Vec<String>,
    page: Value,
}

fn shown() -> Vec<Shown> {
    let (mut state, mut intervals, mut terminal) = (state(), Intervals::of("elapsed"), Lines::of_log(0.0));
    let show = |line: &str| {
        let TimedEvent { at, event } = serde_json::from_str(line).unwrap();
        state.apply(at, &event);
        intervals.see(&event, &state);
        let view = RunView::of(&state, &intervals);
        let said = terminal.of(&event, &view).join("\n");
        let variants = view.variants.iter().map(lines::variant).collect();
        Shown { said, variants, page: json!(view), event }
    };
    EVENTS.lines().map(show).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[test]
fn a_round_has_the_same_number_and_time_left() {
    let shown = shown();
    let rounds: Vec<&Shown> =
        shown.iter().filter(|shown| matches!(shown.event, Event::RoundFinished { .. })).collect();
    assert_eq!(rounds.len(), 4);
    for (number, Shown { said, page, .. }) in (1..).zip(rounds) {
        assert_eq!(
            (&page["done"], &page["at_most"], &page["planned"]),
            (&json!(number), &json!(true), &Value::Null)
        );
        assert!(said.contains(&format!("round {number} done")), "{said}");
        match page["left_s"].as_f64() {
            Some(left) => assert!(said.contains(&format!("at most {left:.0} s left")), "{said}"),
            None => assert!(number == 4 && !said.contains("left"), "{said}"),
        }
    }
}

#[test]
fn variants_and_claims_have_the_same_intervals() {
    let (mut intervals, mut claims) = (0, 0);
    for Shown { event, said, variants, page } in shown() {
        assert_eq!(variants.len(), page["variants"].as_array().unwrap().len());
        for (line, row) in variants.iter().zip(page["variants"].as_array().unwrap()) {
            assert!(
                line.contains(text(&row["variant"])) && line.contains(text(&row["known"])),
                "{line} {row}"
            );
            assert!(
                line.ends_with(text(&row["narrowing"])) || row["ratio_to_best"].is_null(),
                "{line} {row}"
            );
            intervals += usize::from(!row["ratio_to_best"].is_null());
        }
        if let Event::Claims { .. } = event {
            let claim = &page["claims"][0];
            assert!(
                said.contains(text(&claim["known"])) && said.contains(text(&claim["narrowing"])),
                "{said} {claim}"
            );
            assert!(said.contains(&format!("{} round", claim["rounds"])), "{said} {claim}");
            claims += 1;
        }
    }
    assert!(intervals > 0 && claims == 4, "{intervals} {claims}");
}

#[test]
fn what_a_reader_should_know_is_on_both() {
    let shown = shown();
    let said: Vec<&str> = shown.iter().flat_map(|shown| shown.said.lines()).collect();
    let page = &shown.last().unwrap().page;
    let words: Vec<&str> = page["words"].as_array().unwrap().iter().map(text).collect();
    // Three about fairness, the forecast, and the tasks on a busy machine.
    assert_eq!(words.len(), 5, "{words:#?}");
    for words in words {
        assert_eq!(said.iter().filter(|line| line.contains(words)).count(), 1, "{words}: {said:#?}");
    }
    assert!(said.last().unwrap().ends_with(text(&page["ended"]["why"])), "{said:?}");
}
