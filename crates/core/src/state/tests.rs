use super::*;
use crate::cell::{TaskId, TaskInfo};
use crate::{
    event::{NoteKind, Phase},
    metric::reading,
    plan::tests::plan_with,
    sample::{Direction, MetricSpec, Readings, Unit},
};

fn new_state(filesystems: &[&str]) -> RunState {
    let plan = plan_with(&[("fs", filesystems)]);
    let variants = crate::matrix::expand(&plan);
    RunState::new(RunRecord::new(plan, variants))
}

/// The events of one cell whose only task takes `seconds`.
fn cell_events(state: &RunState, variant: usize, round: u32, seconds: f64, outcome: Outcome) -> Vec<Event> {
    let plan = &state.record.plan;
    let (variant, workload) = (state.record.variants[variant].clone(), plan.workloads[0].clone());
    let cell = Cell { round, position: 0, variant, workload, scale: plan.scale, seed: 1 };
    let id = cell.id();
    let cell_event = |event| Event::Cell { cell: id.clone(), event };
    let task = TaskInfo { id: TaskId::new("touch"), title: "Touch".into(), number: None, in_totals: true };
    let readings = Readings([(reading::ELAPSED.to_string(), seconds * 1e9)].into());
    vec![
        Event::CellStarted { cell },
        cell_event(CellEvent::Phase { name: Phase::Task("touch".into()) }),
        cell_event(CellEvent::Sample(Sample {
            task,
            started_at: 5.0,
            readings,
            series: vec![],
            latencies: Default::default(),
        })),
        cell_event(CellEvent::Note(Note::new(NoteKind::IdleTimeout, "slow"))),
        cell_event(CellEvent::Spent { activity: Activity::Timed, ns: 3 }),
        cell_event(CellEvent::Spent { activity: Activity::Timed, ns: 4 }),
        Event::CellFinished { cell: id, outcome },
    ]
}

fn apply_all(state: &mut RunState, time_s: f64, events: &[Event]) {
    events.iter().for_each(|event| state.apply(time_s, event));
}

fn run_started(rounds: u32, budget_s: Option<f64>) -> Event {
    Event::RunStarted { rounds, variants: vec![], tasks_per_cell: 1, already_done: 0, budget_s }
}

/// Applies the events of a round that starts at `time_s` and ends four seconds later.
fn apply_round(state: &mut RunState, number: u32, time_s: f64) {
    state.apply(time_s, &Event::RoundStarted { round: number, order: vec!["ext4".into(), "xfs".into()] });
    for variant in 0..2 {
        let events = cell_events(state, variant, number, 1.0, Outcome::Done);
        apply_all(state, time_s, &events);
    }
    state.apply(time_s + 4.0, &Event::RoundFinished { round: number });
}

#[test]
fn a_cell_that_begins_again_drops_the_samples_of_its_first_attempt() {
    let mut state = new_state(&["ext4"]);
    let events = cell_events(&state, 0, 0, 1.0, Outcome::Done);
    apply_all(&mut state, 10.0, &events[..6]);
    assert_eq!(state.tasks_done, 1);
    apply_all(&mut state, 20.0, &events[..1]);
    assert_eq!(state.tasks_done, 0);
    apply_all(&mut state, 21.0, &events[1..]);
    assert_eq!((state.tasks_done, state.record.samples.len(), state.record.notes.len()), (1, 1, 1));
    assert_eq!((state.record.cells.len(), state.record.cells[0].started_at), (1, 20.0));
}

#[test]
fn the_record_has_finished_and_failed_cells_but_no_interrupted_ones() {
    let mut state = new_state(&["ext4", "xfs"]);
    let failed = Outcome::Failed { why: "mkfs".into(), cause: Cause::Missing };
    for (variant, round, outcome) in [(0, 0, Outcome::Done), (1, 0, failed), (0, 1, Outcome::Interrupted)] {
        let events = cell_events(&state, variant, round, 2.0 + f64::from(round), outcome);
        apply_all(&mut state, 10.0, &events[..1]);
        apply_all(&mut state, 12.0, &events[1..]);
    }
    let record = &state.record;
    let cells: Vec<(usize, u32)> = record.cells.iter().map(|cell| (cell.variant, cell.round)).collect();
    assert_eq!(cells, [(0, 0), (1, 0)]);
    assert_eq!((record.samples.len(), &record.samples.values[0]), (2, &vec![2e9, 2e9]));
    assert_eq!((record.tasks.len(), record.notes.len()), (1, 2));
    assert_eq!(record.metric("elapsed").unwrap().1[..], [2.0, 2.0]);
    assert_eq!(record.cells[0].spent, [(Activity::Total, 2_000_000_000), (Activity::Timed, 7)]);
    let cell_id = |index: usize| CellId(record.cells[index].id.clone());
    assert!(state.has_measured(&cell_id(0)) && !state.has_measured(&cell_id(1)));
    let departure = VariantDeparture { round: 0, why: "mkfs".into(), cause: Cause::Missing };
    assert_eq!(state.departures(), [("xfs".to_string(), departure)].into());
}

#[test]
fn a_reading_that_first_appears_in_a_later_sample_is_nan_in_earlier_ones() {
    let mut state = new_state(&["ext4"]);
    let first = cell_events(&state, 0, 0, 1.0, Outcome::Done);
    let mut second = cell_events(&state, 0, 1, 1.0, Outcome::Done);
    for event in &mut second {
        if let Event::Cell { event: CellEvent::Sample(sample), .. } = event {
            sample.readings.set("user_ns", 7.0);
        }
    }
    apply_all(&mut state, 1.0, &[first, second].concat());
    let late_values = &state.record.samples.values[state.record.reading_column("user_ns").unwrap()];
    assert!(late_values[0].is_nan() && late_values[1] == 7.0);
}

#[test]
fn notes_keep_their_round() {
    let mut state = new_state(&["ext4"]);
    state.apply(1.0, &Event::RoundStarted { round: 3, order: vec![] });
    state.apply(1.0, &Event::Note(Note::new(NoteKind::Dropped, "throttled")));
    assert_eq!((state.record.notes.len(), state.record.notes[0].0), (1, Some(3)));
}

#[test]
fn the_time_left_is_the_remaining_rounds_at_the_mean_pace() {
    let mut state = new_state(&["ext4", "xfs"]);
    state.apply(100.0, &run_started(4, None));
    assert_eq!(state.time_left(), None);
    apply_round(&mut state, 0, 100.0);
    // One round took four seconds, and three rounds remain.
    assert_eq!((state.rounds_done, state.tasks_done, state.time_left()), (1, 2, Some(Duration::from_secs(12))));
    state.apply(105.0, &Event::RoundStarted { round: 1, order: vec![] });
    assert_eq!(state.time_left(), Some(Duration::from_secs(11)));
    state.apply(110.0, &Event::RunFinished { why: "done".into(), complete: true });
    assert_eq!(state.time_left(), None);
}

#[test]
fn only_the_rounds_of_its_shard_count_for_a_machine() {
    let mut plan = plan_with(&[("fs", &["ext4", "xfs"])]);
    (plan.stop.rounds, plan.stop.shard) = (4, "2/2".parse().ok());
    let variants = crate::matrix::expand(&plan);
    let mut state = RunState::new(RunRecord::new(plan, variants));
    assert_eq!((state.max_rounds, state.rounds_done), (2, 0));
    state.apply(100.0, &run_started(2, None));
    // Rounds 1 and 3 of the plan.
    apply_round(&mut state, 1, 100.0);
    assert_eq!((state.rounds_done, state.time_left()), (1, Some(Duration::from_secs(4))));
    apply_round(&mut state, 3, 104.0);
    assert_eq!((state.rounds_done, state.time_left()), (2, None));
}

#[test]
fn a_resumed_run_keeps_its_rounds_and_counts_its_own_pace() {
    let mut state = new_state(&["ext4", "xfs"]);
    state.apply(50.0, &run_started(5, None));
    apply_round(&mut state, 0, 100.0);
    state.apply(104.0, &Event::RunFinished { why: "a signal ended it".into(), complete: false });
    state.apply(200.0, &run_started(5, None));
    assert_eq!((state.rounds_done, state.time_left()), (1, None));
    assert!(state.end_status.is_none());
    apply_round(&mut state, 1, 204.0);
    assert_eq!((state.rounds_done, state.time_left()), (2, Some(Duration::from_secs(24))));
    // A state made from the stored record behaves the same.
    let mut resumed = RunState::new(state.record);
    resumed.apply(300.0, &run_started(5, None));
    apply_round(&mut resumed, 2, 306.0);
    assert_eq!((resumed.rounds_done, resumed.time_left()), (3, Some(Duration::from_secs(20))));
}

#[test]
fn a_resumed_run_counts_its_last_round_only_if_all_its_cells_are_done() {
    let mut state = new_state(&["ext4", "xfs"]);
    let cells = crate::matrix::cells_of_round(&state.record.plan, &state.record.variants, &[0, 1], 0);
    assert_eq!(cells.len(), 2);
    for (cell, rounds_done) in cells.into_iter().zip([0, 1]) {
        let finished = Event::CellFinished { cell: cell.id(), outcome: Outcome::Done };
        apply_all(&mut state, 1.0, &[Event::CellStarted { cell }, finished]);
        assert_eq!(RunState::new(state.record.clone()).rounds_done, rounds_done);
    }
}

#[test]
fn a_reading_that_a_command_printed_keeps_its_definition() {
    let mut state = new_state(&["ext4"]);
    let mut events = cell_events(&state, 0, 0, 1.0, Outcome::Done);
    let (unit, direction) = (Unit::PerSecond, Direction::Higher);
    let definition = MetricSpec::new("tps".into(), unit, direction, String::new());
    let Event::Cell { event: CellEvent::Sample(sample), cell } = &mut events[2] else { unreachable!() };
    sample.readings.set("tps", 7.0);
    let defined = Event::Cell { cell: cell.clone(), event: CellEvent::Reading(definition.clone()) };
    events.insert(2, defined);
    apply_all(&mut state, 1.0, &events);
    let (known, values) = state.record.metric("tps").unwrap();
    assert_eq!((known, values.into_owned()), (definition, vec![7.0]));
}

#[test]
fn the_time_left_is_at_most_the_rest_of_the_budget() {
    let seconds_left = |rounds, budget_s| {
        let mut state = new_state(&["ext4", "xfs"]);
        state.apply(0.0, &run_started(rounds, budget_s));
        apply_round(&mut state, 0, 1.0);
        apply_round(&mut state, 1, 6.0);
        state.time_left().map(|time| time.as_secs())
    };
    assert_eq!(seconds_left(6, None), Some(20));
    assert_eq!(seconds_left(6, Some(12.0)), Some(2));
    assert_eq!(seconds_left(2, None), None);
    assert_eq!(seconds_left(u32::MAX, Some(0.0)), None);
    let mut state = new_state(&["ext4", "xfs"]);
    state.apply(1.0, &run_started(15, Some(150.0)));
    assert_eq!(state.time_left(), Some(Duration::from_secs(150)), "before any round is done");
}

#[test]
fn invalid_events_of_a_damaged_log_are_ignored() {
    let mut state = new_state(&["ext4", "xfs"]);
    apply_round(&mut state, 20_000, 1.0);
    assert_eq!(state.rounds_done, 20_001, "a window of a watch");
    let mut state = new_state(&["ext4", "xfs"]);
    state.apply(f64::NAN, &run_started(u32::MAX, Some(f64::NAN)));
    state.apply(-1e300, &Event::RoundFinished { round: u32::MAX });
    state.apply(1.0, &Event::RoundStarted { round: u32::MAX, order: vec![] });
    state.apply(1.0, &Event::CellFinished { cell: CellId("none".into()), outcome: Outcome::Done });
    apply_round(&mut state, 1, 2.0);
    assert_eq!((state.rounds_done, state.record.cells.len()), (2, 2));
}

#[test]
fn the_width_of_a_claims_interval_is_kept_after_each_round() {
    let mut state = new_state(&["ext4"]);
    let status = |claim: &str, effect| ClaimStatus {
        claim: claim.into(),
        outcome: crate::claim::ClaimOutcome::Inconclusive,
        open: true,
        rounds: 2,
        provisional: true,
        effect,
    };
    let update = |state: &mut RunState, statuses| state.apply(1.0, &Event::Claims { statuses });
    update(&mut state, vec![status("a", None), status("b", Some((0.0, -0.5, 1.0)))]);
    update(&mut state, vec![status("a", Some((0.0, 0.0, 0.0))), status("b", Some((0.0, 0.0, 1.0)))]);
    let widths: Vec<&[f64]> = state.claims.iter().map(|claim| &claim.interval_widths[..]).collect();
    assert_eq!(widths, [&[0.0][..], &[4f64.ln(), 2f64.ln()]]);
}
