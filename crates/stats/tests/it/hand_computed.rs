//! A whole run whose analysis was computed by hand.

use fsarena_core::cell::{TaskId, TaskInfo, Variant, WorkloadPlan};
use fsarena_core::event::{Note, NoteKind, Outcome};
use fsarena_core::observations::{Grid, InvalidReason, MetricSeries, invalid_figures, reading_totals};
use fsarena_core::plan::{Backing, DevicePlan, IdlePlan, Plan, StopPlan};
use fsarena_core::record::{CellRecord, RunRecord, RunStatus, SampleTable};
use fsarena_core::sample::{Direction, Fold, FoldRules, MetricSpec, Unit};
use fsarena_core::setting::{SettingValue, Settings};
use fsarena_core::{host::Host, scale::Scale, series::SeriesTable};
use fsarena_stats::analyse::{Analysis, analyse, log_ratios_of_tasks, task_medians};

const ROUNDS: u32 = 8;
// Elapsed seconds of each variant in round 0, by task. The machine drifts: round b takes (1 + b) times as long, for every
// variant.
const UNTAR: [f64; 3] = [2.0, 3.0, 2.5];
const TAR: [f64; 3] = [4.0, 2.0, 4.0];
const MKFS: [f64; 3] = [0.5, 0.5, 0.25];

fn plan() -> Plan {
    Plan {
        name: "hand".into(),
        title: "By hand".into(),
        question: "Which?".into(),
        scale: Scale::Tiny,
        seed: 1,
        claims: vec![],
        stage: None,
        omitted: vec![],
        age: Default::default(),
        baseline: None,
        vary: Default::default(),
        factors: [("fs".to_string(), vec!["ext4".to_string(), "xfs".into(), "btrfs".into()])].into(),
        device: DevicePlan {
            backing: Backing::Loop { path: None },
            size: None,
            direct_io: true,
            discard: false,
            precondition: false,
            other_fs: "ext4".into(),
            source_dir: None,
            source_device: None,
        },
        stop: StopPlan { rounds: ROUNDS, ..StopPlan::default() },
        idle: IdlePlan { timeout_s: 1.0, dirty: bytesize::ByteSize::mib(4), io_pressure_percent: 5.0 },
        variants: vec![],
        workloads: vec![],
    }
}

/// A run in which variant 2 (btrfs) fails before "tar" in round 1, and never runs again.
fn record() -> RunRecord {
    let task = |name: &str, in_totals| TaskInfo { id: TaskId::new(name), title: name.into(), number: None, in_totals };
    let tasks = vec![task("mkfs", false), task("untar", true), task("tar", true)];
    let (mut cells, mut samples) = (Vec::new(), SampleTable { values: vec![vec![]], ..Default::default() });
    for round in 0..ROUNDS {
        for variant in 0..3 {
            let failed = variant == 2 && round == 1;
            if variant == 2 && round > 1 {
                continue;
            }
            let outcome = if failed {
                Outcome::Failed { why: "no space".into(), cause: Default::default() }
            } else {
                Outcome::Done
            };
            for (task, seconds) in [MKFS, UNTAR, TAR].iter().enumerate().take(if failed { 2 } else { 3 }) {
                samples.cell.push(cells.len() as u32);
                samples.task.push(task as u32);
                samples.started_at.push(0.0);
                samples.values[0].push(seconds[variant] * f64::from(1 + round) * 1e9);
            }
            cells.push(CellRecord {
                id: format!("{round}-{variant}"),
                round,
                position: variant as u32,
                variant,
                workload: "tasks".into(),
                outcome,
                host: 0,
                started_at: 0.0,
                spent: vec![],
            });
        }
    }
    let variant = |name: &str| Variant { name: name.into(), levels: Default::default() };
    RunRecord {
        id: "r1".into(),
        version: "0".into(),
        started: String::new(),
        ended: String::new(),
        status: RunStatus { complete: true, why: "done".into() },
        plan: plan(),
        hosts: vec![Host::default()],
        variants: vec![variant("ext4"), variant("xfs"), variant("btrfs")],
        tasks,
        readings: vec![MetricSpec {
            over: FoldRules::all(Fold::Sum),
            ..MetricSpec::new("elapsed_ns".into(), Unit::Nanoseconds, Direction::Lower, String::new())
        }],
        cells,
        samples,
        series: SeriesTable::default(),
        latencies: Default::default(),
        notes: vec![],
        command_count: 0,
    }
}

fn analysed(record: &RunRecord, metric: &str) -> Analysis {
    analyse(MetricSeries::of(record, metric).unwrap())
}

fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{found} is not {expected}");
}

#[test]
fn tasks_totals_and_winners_match_values_computed_by_hand() {
    let analysis = analysed(&record(), "elapsed");
    assert!(!analysis.is_provisional());
    assert_eq!(analysis.grid.rounds, (0..8).collect::<Vec<_>>());
    let untar = &analysis.tasks[1].comparison;
    // 2(1+b) over b = 0…7 has the median 2 × 4.5.
    assert_near(untar.variants[0].median.unwrap(), 9.0);
    // Within each round xfs takes 3/2 of ext4, whatever the drift.
    let ratio = untar.variants[1].ratio.unwrap();
    assert_near(ratio.value, 1.5);
    assert_near(ratio.low, 1.5);
    assert_near(ratio.high, 1.5);
    assert_eq!(untar.winner(), Some(0));
    // btrfs has two rounds, with a ratio of 1.25 to ext4 in both, which are too few for a verdict.
    assert_near(untar.variants[2].ratio.unwrap().value, 1.25);
    assert!(untar.variants[2].ratio.unwrap().provisional);
    assert_eq!(untar.with_too_few_rounds(), [2]);
    // ext4 and xfs differ significantly; btrfs differs from neither.
    assert_eq!(untar.variants.iter().map(|variant| variant.letters.as_str()).collect::<Vec<_>>(), ["a", "b", "ab"]);
}

#[test]
fn the_geometric_mean_needs_every_task() {
    let analysis = analysed(&record(), "elapsed");
    let overall = analysis.overall.unwrap();
    assert_eq!(overall.task_count, 2);
    let total = overall.total.as_ref().unwrap();
    // (3+2)/(2+4) = 5/6 in each round: xfs wins the sum.
    assert_eq!(total.comparison.winner(), Some(1));
    assert_near(total.comparison.variants[0].ratio.unwrap().value, 6.0 / 5.0);
    assert_near(total.comparison.variants[0].median.unwrap(), 6.0 * 4.5);
    // btrfs has one complete round and one that lacks "tar".
    assert_eq!(total.left_out_rounds, [0, 0, 1]);
    assert_eq!(total.comparison.variants[2].rounds, 1);
    assert_near(total.comparison.variants[2].ratio.unwrap().value, 6.5 / 5.0);
    // Geometric: √(2·4) against √(3·2).
    assert_near(overall.geometric.comparison.variants[0].ratio.unwrap().value, (8.0f64 / 6.0).sqrt());
    assert!(overall.with_all_rounds.is_none());
}

#[test]
fn a_dropped_round_is_excluded_and_its_effect_is_reported() {
    let mut record = record();
    record.notes.push((Some(3), Note::new(NoteKind::Dropped, "throttled")));
    let analysis = analysed(&record, "elapsed");
    assert_eq!((analysis.grid.rounds.len(), analysis.dropped.as_slice()), (7, &[3][..]));
    // Seven rounds are too few for a verdict; with the dropped round there would be one.
    assert!(analysis.is_provisional());
    let overall = analysis.overall.unwrap();
    assert_eq!(overall.total.as_ref().unwrap().comparison.winner(), None);
    assert_eq!(overall.with_all_rounds.unwrap().winner(), Some(1));
}

#[test]
fn warm_up_rounds_are_neither_compared_nor_dropped() {
    let mut record = record();
    record.plan.stop.warmup = 2;
    record.notes.push((Some(1), Note::new(NoteKind::Dropped, "throttled")));
    let analysis = analysed(&record, "elapsed");
    assert_eq!((analysis.grid.rounds.as_slice(), analysis.dropped.len()), (&[2, 3, 4, 5, 6, 7][..], 0));
    assert!(analysis.overall.unwrap().with_all_rounds.is_none());
}

#[test]
fn repeats_in_one_round_are_averaged() {
    let mut record = record();
    let rows = record.samples.len();
    for row in 0..rows {
        record.samples.cell.push(record.samples.cell[row]);
        record.samples.task.push(record.samples.task[row]);
        record.samples.started_at.push(0.0);
        let value = record.samples.values[0][row];
        record.samples.values[0].push(3.0 * value);
    }
    let analysis = analysed(&record, "elapsed");
    // Each value is the mean of the old value and three times it; the number of rounds is the same.
    assert_near(analysis.tasks[1].comparison.variants[0].median.unwrap(), 18.0);
    assert_eq!(analysis.tasks[1].comparison.variants[1].ratio.unwrap().rounds, 8);
}

#[test]
fn metrics_without_data_are_empty_and_unknown_ones_are_errors() {
    let analysis = analysed(&record(), "user");
    assert!(analysis.tasks.is_empty() && analysis.overall.is_none() && analysis.is_provisional());
    let error = MetricSeries::of(&record(), "speed").unwrap_err().to_string();
    assert_eq!(error, "Unknown metric `speed` in run r1. List them: fsarena list metrics");
}

#[test]
fn totals_of_readings_equal_the_totals_of_the_grid() {
    let mut record = record();
    // "untar" once more in the first round of ext4: one observation, the mean of both.
    let samples = &mut record.samples;
    samples.cell.push(0);
    samples.task.push(1);
    samples.started_at.push(0.0);
    samples.values[0].push(4e9);
    record.notes.push((Some(3), Note::new(NoteKind::Dropped, "throttled")));
    let grid = Grid::of(&record, "elapsed_ns").unwrap();
    assert_eq!((grid.rounds.len(), grid.values[1][0][0]), (7, 3e9));
    let totals = reading_totals(&record, &["elapsed_ns", "elapsed", "user"]);
    assert_eq!(totals.iter().map(|total| total.id).collect::<Vec<_>>(), ["elapsed_ns", "elapsed"]);
    let mut of_grid = grid.totals(&grid.comparable_tasks()).unwrap();
    of_grid.iter_mut().for_each(|rounds| rounds.retain(|total| !total.is_nan()));
    assert_eq!(totals[0].values, of_grid);
    assert_near(totals[1].values[0][0], 7.0);
}

#[test]
fn medians_are_computed_for_each_task_in_the_totals() {
    let medians = task_medians(&Grid::of(&record(), "elapsed").unwrap());
    assert_eq!(medians.iter().map(|task| task.task.id.name.as_str()).collect::<Vec<_>>(), ["untar", "tar"]);
    assert_near(medians[0].medians[0].unwrap(), 9.0);
}

#[test]
fn a_round_in_which_both_variants_have_a_value_of_zero_is_excluded() {
    let mut record = record();
    // "untar" in the first round of ext4 and xfs; each has three rows.
    for row in [1, 4] {
        record.samples.values[0][row] = 0.0;
    }
    let grid = Grid::of(&record, "elapsed_ns").unwrap();
    let found = log_ratios_of_tasks(&grid, (0, 1), &[1, 2], None);
    assert_eq!((found.d.len(), found.excluded_rounds), (7, 1));
    // The means of ln(3/2) and ln(2/4).
    found.d.iter().for_each(|d| assert_near(*d, 0.75f64.ln() / 2.0));
}

/// If "untar" requests direct I/O and the page cache served btrfs, no variant is ranked in "untar", only in "tar".
#[test]
fn a_task_that_the_page_cache_served_is_not_ranked() {
    let mut record = record();
    let direct = |direct| WorkloadPlan {
        name: record.cells[0].workload.clone(),
        settings: Settings([("direct".to_string(), SettingValue::Bool(direct))].into()),
        ..WorkloadPlan::default()
    };
    let (yes, no) = (direct(true), direct(false));
    let reading = |id: &str| MetricSpec { id: id.into(), ..record.readings[0].clone() };
    let readings = ["written_bytes", "device_write_bytes"].map(reading);
    let served =
        |row: usize| record.samples.task[row] == 1 && record.cells[record.samples.cell[row] as usize].variant == 2;
    let device = (0..record.samples.len()).map(|row| if served(row) { 0.0 } else { 100.0 }).collect();
    let rows = record.samples.len();
    record.readings.extend(readings);
    record.samples.values.extend([vec![100.0; rows], device]);

    record.plan.workloads = vec![no];
    assert_eq!(analysed(&record, "elapsed").overall.unwrap().task_count, 2);
    record.plan.workloads = vec![yes];
    assert_eq!(invalid_figures(&record, "elapsed"), [((1, 2), InvalidReason::Cache)].into());
    let analysis = analysed(&record, "elapsed");
    assert_eq!(analysis.overall.as_ref().unwrap().task_count, 1);
    let untar = analysis.tasks_in_totals().next().unwrap();
    assert!(untar.unranked_because == Some(InvalidReason::Cache) && untar.comparison.order.is_empty());
    assert!(untar.comparison.variants.iter().all(|variant| variant.median.is_some()), "shown all the same");
}
