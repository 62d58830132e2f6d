//! The view of a run in progress.

use crate::fixture;
use fsarena_core::cell::{Cell, TaskId, TaskInfo, WorkloadPlan};
use fsarena_core::event::{CellEvent, Event, Note, NoteKind, Outcome, Phase};
use fsarena_core::sample::{Readings, Sample};
use fsarena_core::{metric::reading, record::RunRecord, state::RunState};
use fsarena_report::live::{LiveComparison, RunView};
use serde_json::{Value, json};

/// A run in progress, and the comparison of its variants.
struct LiveRun {
    state: RunState,
    comparison: LiveComparison,
}

impl LiveRun {
    /// A run of ext4 and xfs, compared by this metric.
    fn new(metric: &str) -> LiveRun {
        let RunRecord { plan, variants, .. } = fixture::run(&["ext4", "xfs"], 0);
        LiveRun { state: RunState::new(RunRecord::new(plan, variants)), comparison: LiveComparison::new(metric) }
    }

    fn apply(&mut self, time_s: f64, event: &Event) {
        self.state.apply(time_s, event);
        self.comparison.update(event, &self.state);
    }

    fn view(&self) -> Value {
        json!(RunView::new(&self.state, &self.comparison))
    }

    /// Runs a round in which the only task has these readings on ext4 and on xfs.
    fn run_round(&mut self, round: u32, readings: [Readings; 2]) {
        self.apply(100.0, &Event::RoundStarted { round, order: vec!["xfs".into(), "ext4".into()] });
        for (variant, readings) in self.state.record.variants.clone().into_iter().zip(readings) {
            let workload = WorkloadPlan { name: "tasks".into(), ..WorkloadPlan::default() };
            let cell = Cell { round, position: 0, variant, workload, scale: Default::default(), seed: 1 };
            let id = cell.id();
            let cell_event = |event| Event::Cell { cell: id.clone(), event };
            let task = |name: &str, in_totals| {
                let id = TaskId::new(name);
                TaskInfo { id, title: name.into(), number: None, in_totals }
            };
            let sample = |task, readings| {
                cell_event(CellEvent::Sample(Sample {
                    task,
                    started_at: 0.0,
                    readings,
                    series: vec![],
                    latencies: Default::default(),
                }))
            };
            self.apply(101.0, &Event::CellStarted { cell });
            self.apply(101.0, &cell_event(CellEvent::Phase { name: Phase::Task("mkfs".into()) }));
            self.apply(102.0, &sample(task("mkfs", false), elapsed(99.0)));
            self.apply(102.0, &sample(task("touch", true), readings));
            self.apply(103.0, &Event::CellFinished { cell: id.clone(), outcome: Outcome::Done });
        }
        self.apply(104.0, &Event::RoundFinished { round });
    }
}

fn elapsed(seconds: f64) -> Readings {
    Readings([(reading::ELAPSED.to_string(), seconds * 1e9)].into())
}

fn run_started(rounds: u32) -> Event {
    let variants = vec!["ext4".into(), "xfs".into()];
    Event::RunStarted { rounds, variants, tasks_per_cell: 2, already_done: 0, budget_s: None }
}

#[test]
fn the_view_follows_the_events() {
    let mut run = LiveRun::new("elapsed");
    run.apply(100.0, &run_started(4));
    run.run_round(0, [elapsed(1.0), elapsed(2.0)]);
    let view = run.view();
    assert_eq!((&view["done"], &view["planned"], &view["tasks"]), (&json!(1), &json!(4), &json!(4)));
    assert_eq!((&view["tasks_of_round"], &view["variant"]), (&json!(4), &json!("xfs")));
    assert_eq!((&view["phase"], &view["left_s"]), (&json!("mkfs"), &json!(12.0)));
    assert_eq!(view["variants"], json!([]));
    run.run_round(1, [elapsed(1.0), elapsed(2.0)]);
    let variants = &run.view()["variants"];
    assert_eq!((&variants[0]["variant"], &variants[0]["ratio_to_best"]), (&json!("ext4"), &Value::Null));
    let ratio = &variants[1]["ratio_to_best"];
    assert_eq!(
        (&variants[1]["variant"], &ratio["value"], &ratio["provisional"]),
        (&json!("xfs"), &json!(2.0), &json!(true))
    );
    run.apply(110.0, &Event::RunFinished { why: "done".into(), complete: true });
    let view = run.view();
    assert_eq!((&view["ended"]["why"], &view["variant"]), (&json!("done"), &json!("")));
}

#[test]
fn the_sparkline_has_a_bar_for_each_of_the_last_20_rounds() {
    let mut run = LiveRun::new("elapsed");
    let mut bars = 0;
    for round in 0..30 {
        let drift = 1.0 + f64::from(round % 3) / 10.0;
        run.run_round(round, [elapsed(2.0 * drift), elapsed(3.0 * drift)]);
        let rows = run.comparison.rows();
        let xfs = rows.iter().find(|row| row.variant == "xfs");
        bars = xfs.map_or(0, |row| row.width_sparkline.chars().count());
        assert_eq!(bars, if round == 0 { 0 } else { (round as usize).min(20) });
        let mark = if round < 7 { "?" } else { " " };
        assert!(xfs.is_none_or(|row| row.ratio_in_words == format!("1.50{mark}[1.50–1.50]")), "{rows:?}");
    }
    assert_eq!(bars, 20);
}

#[test]
fn a_ratio_close_to_1_keeps_the_digits_that_differ_from_1() {
    let mut run = LiveRun::new("elapsed");
    for round in 0..8 {
        run.run_round(round, [elapsed(1.0), elapsed(1.002)]);
    }
    assert_eq!(run.comparison.rows()[1].ratio_in_words, "1.002 [1.002–1.002]");
}

#[test]
fn the_faster_of_two_loads_has_the_higher_rate() {
    let mut run = LiveRun::new("throughput");
    let rate = |rate: f64| Readings([(reading::SERVED_BANDWIDTH.to_string(), rate)].into());
    for round in 0..2 {
        run.run_round(round, [rate(1e6), rate(2e6)]);
    }
    let rows = run.comparison.rows();
    assert_eq!((rows[0].variant.as_str(), rows[1].ratio_in_words.starts_with("0.500?")), ("xfs", true), "{rows:?}");
}

#[test]
fn each_notice_is_in_the_view_once() {
    let mut run = LiveRun::new("elapsed");
    let note = |kind, variant: &str, text: &str| Event::Note(Note::new(kind, text).variant(variant));
    run.apply(1.0, &note(NoteKind::Fairness, "ext2", "keeps no journal"));
    run.apply(1.0, &note(NoteKind::Fairness, "exfat", "keeps no journal"));
    run.apply(1.0, &note(NoteKind::Options, "ext2", "rw"));
    run.apply(1.0, &note(NoteKind::VariantFailed, "xfs", "failed in round 1"));
    run.apply(1.0, &note(NoteKind::IdleTimeout, "xfs", "busy"));
    run.apply(2.0, &Event::Forecast { text: "5%".into() });
    let view = run.view();
    let notices = [
        "xfs failed in round 1",
        "ext2 and 1 more variant: keeps no journal",
        "5%",
        "1 task began while the machine was still busy",
    ];
    assert_eq!((&view["words"], &view["timeouts"]), (&json!(notices), &json!(1)));
}
