//! Only valid figures rank variants, and no sentence claims more than the data show.

use crate::fixture::{self, run, unwrap_lines};
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::{Direction, Unit};
use fsarena_core::setting::{SettingValue as Setting, Settings};
use proptest::prelude::*;
use serde_json::Value;

/// Analyses a run by these metrics, and exports the report.
fn export_run(record: &RunRecord, format: &str, metrics: &[&str]) -> String {
    fixture::export(&fixture::report(record.clone(), metrics).unwrap(), format)
}

fn json_report(record: &RunRecord, metrics: &[&str]) -> Value {
    fixture::export_json(&fixture::report(record.clone(), metrics).unwrap())
}

fn decision(record: &RunRecord) -> Value {
    json_report(record, &["elapsed"])["decision"].clone()
}

/// The run with a further reading: `value` for "untar" on one variant, `other_value` for all other samples.
fn with_reading(mut record: RunRecord, id: &str, variant: usize, (value, other_value): (f64, f64)) -> RunRecord {
    let mut values = vec![other_value; record.samples.len()];
    for (row, row_value) in values.iter_mut().enumerate() {
        let task = &record.tasks[record.samples.task[row] as usize].id.name;
        if task == "untar" && record.cells[record.samples.cell[row] as usize].variant == variant {
            *row_value = value;
        }
    }
    record.readings.push(MetricSpec::new(id.into(), Unit::Ratio, Direction::Neutral, String::new()));
    record.samples.values.push(values);
    record
}

#[test]
fn the_rows_of_a_task_follow_each_other_although_a_metric_lacks_a_task() {
    let mut record = run(&["ext4", "xfs"], 9);
    record.readings.push(MetricSpec::new("x_count".into(), Unit::Count, Direction::Lower, String::new()));
    // Of touch, untar and rm-tree, which have the indexes 2 to 4, the first has no value.
    let value = |(row, task): (usize, &u32)| if *task > 2 { (100 + row) as f64 } else { f64::NAN };
    record.samples.values.push(record.samples.task.iter().enumerate().map(value).collect());
    let json = json_report(&record, &["elapsed", "x_count"]);
    let rows = json["pair"]["rows"].as_array().unwrap().iter();
    let tasks: Vec<&str> =
        rows.filter(|row| row["metric"] != "total_cpu").map(|row| row["task"].as_str().unwrap()).collect();
    let overall = ["ALL 3 tasks", "ALL 2 tasks", "ALL 3 tasks"];
    let [touch, others] = [vec!["touch"; 2], [["untar"; 3], ["rm-tree"; 3]].concat()];
    assert_eq!(tasks, [&overall[..], &touch[..], &others[..]].concat());
}

#[test]
fn the_range_of_a_few_rounds_is_not_called_a_confidence_interval() {
    let text = unwrap_lines(&export_run(&fixture::run_with_failure(&["ext4", "xfs"], 10), "md", &["elapsed"]));
    // Only the variant that failed in its second round has fewer than eight rounds.
    assert!(text.contains("confidence interval, or the range of its rounds if they are fewer than 8."), "{text}");
}

#[test]
fn warm_up_rounds_do_not_count_in_the_time_of_a_round() {
    let mut record = run(&["ext4", "xfs"], 6);
    record.plan.stop.warmup = 2;
    // A round takes 54 s, so the missing four of eight rounds take 216 s.
    for cell in &mut record.cells {
        cell.spent.iter_mut().for_each(|(_, ns)| *ns *= 9);
    }
    let text = unwrap_lines(&export_run(&record, "md", &["elapsed"]));
    assert!(text.contains("4 more rounds: about 4 min."), "{text}");
}

#[test]
fn the_legend_of_ratios_holds_for_all_metrics() {
    let mut record = run(&["ext4", "xfs"], 12);
    let column = record.reading_column("elapsed_ns").unwrap();
    for row in 0..record.samples.len() {
        if record.cells[record.samples.cell[row] as usize].round >= 4 {
            record.samples.values[column][row] = f64::NAN;
        }
    }
    // By elapsed the run is provisional, by synced it is not.
    let text = unwrap_lines(&export_run(&record, "md", &["elapsed", "synced"]));
    assert!(text.contains("confidence interval, or for figures marked ? the range of the rounds. ≈ marks"), "{text}");
}

#[test]
fn a_variant_that_failed_was_not_stopped_by_fsarena() {
    let mut record = run(&["ext4", "xfs"], 16);
    record.plan.stop.best_within = Some(0.02);
    // The later rounds have no cell of xfs.
    for cell in record.cells.iter_mut().filter(|cell| cell.round >= 10) {
        cell.variant = 0;
    }
    let text = |record: &RunRecord| unwrap_lines(&export_run(record, "md", &["elapsed"]));
    assert!(
        text(&record)
            .contains("stopped measuring variants that are not the best (95% confidence): xfs after round 10.")
    );
    record.notes.push((Some(9), Note::new(NoteKind::VariantFailed, "no space").variant("xfs")));
    assert!(!text(&record).contains("stopped measuring"), "{}", text(&record));
    assert_eq!(decision(&record)["left"], serde_json::json!({"xfs": 10}));
}

#[test]
fn an_invalid_figure_is_shown_but_does_not_rank_variants() {
    let run_with_setting = |setting: &str| {
        let mut record = run(&["ext4", "xfs"], 12);
        record.plan.workloads[0].settings = Settings([(setting.to_string(), Setting::Bool(true))].into());
        record
    };
    for (record, words) in [
        (with_reading(run_with_setting("direct"), "client_ratio", 1, (0.3, 0.01)), "was bound by the load generator"),
        (with_reading(run_with_setting("verify"), "verified_count", 1, (0.0, 9.0)), "verified no block"),
    ] {
        for format in ["term", "md", "html"] {
            let text = unwrap_lines(&export_run(&record, format, &["elapsed"]));
            assert!(text.contains(&format!("xfs at untar {words}")), "{format}: {text}");
            assert!(!text.contains("TOTAL of 3 tasks"), "{format}");
        }
        let term = unwrap_lines(&export_run(&record, "term", &["elapsed"]));
        assert!(term.contains("untar, not ranked: ext4 1.6"), "{term}");
        assert!(term.contains(" (2 of 3 tasks)"), "{term}");
        let json = json_report(&record, &["elapsed"]).to_string();
        assert!(json.contains(&format!("\"left_out\":\"xfs at untar {words}")), "{json}");
    }
}

#[test]
fn an_unsteady_load_ranks_variants_and_the_warning_states_how_to_run_it_longer() {
    let mut record = with_reading(run(&["ext4", "xfs"], 12), "steady_ratio", 1, (0.0, 1.0));
    for (has_seconds, remedy) in [(false, ""), (true, " For the steady state: set=seconds=8.")] {
        if has_seconds {
            record.plan.workloads[0].settings.0.insert("seconds".into(), Setting::Float(0.0));
        }
        for format in ["term", "md", "html"] {
            let text = unwrap_lines(&export_run(&record, format, &["elapsed"]));
            let warning = "Steady in no round: xfs at untar. The ranking holds for loads of this length.";
            assert!(text.contains(&format!("{warning}{remedy}")), "{format}: {text}");
            assert!(!text.contains("left out of the ranking"), "{format}: {text}");
        }
    }
    let decision = decision(&record);
    assert_eq!((&decision["choose"], &decision["provisional"]), (&"ext4".into(), &false.into()), "{decision}");
}

#[test]
fn tasks_in_different_units_of_work_have_no_common_figure() {
    // Only "touch" commits; the rate of all three tasks is of operations.
    let mut record = run(&["ext4", "xfs"], 12);
    for (id, unit) in [("commit_iops_per_s", Unit::PerSecond), ("all_latency_p50_ns", Unit::Nanoseconds)] {
        let value = |row: usize| {
            let task = &record.tasks[record.samples.task[row] as usize];
            let has_value = if id.starts_with("commit") { task.id.name == "touch" } else { task.in_totals };
            if has_value { 1000.0 + row as f64 } else { f64::NAN }
        };
        let values = (0..record.samples.len()).map(value).collect();
        record.readings.push(MetricSpec::new(id.into(), unit, Direction::Lower, String::new()));
        record.samples.values.push(values);
    }
    let metrics = ["commits_per_s", "latency_p50", "elapsed"];
    let json = json_report(&record, &metrics);
    let combined_tasks = [0, 1, 2].map(|metric| json["analyses"][metric]["overall"]["tasks"].as_u64());
    assert_eq!(combined_tasks, [Some(1), Some(1), Some(3)]);
    let shown_tasks = |metric: usize| json["analyses"][metric]["tasks"].as_array().unwrap().len();
    assert_eq!((shown_tasks(0), shown_tasks(1)), (1, 3), "latencies of reads are shown");
    let text = export_run(&record, "md", &metrics).replace('\\', "");
    assert!(text.contains("commits_per_s (1 of 3 tasks)"), "{text}");
    assert!(text.contains("latency_p50 (1 of 3 tasks)") && !text.contains("elapsed (1"), "{text}");
}

#[test]
fn a_variant_that_the_budget_excluded_is_named() {
    let mut record = run(&["ext4", "xfs"], 12);
    let note = Note::new(NoteKind::NotCompared, "not tried: the budget of 3 min is too short");
    record.notes.push((Some(0), note.variant("f2fs")));
    assert_eq!(record.not_compared(), ["f2fs"]);
    let text = unwrap_lines(&export_run(&record, "term", &["elapsed"]));
    assert!(text.contains("Not tested: f2fs, which did not fit in the budget; other mkfs"), "{text}");
    assert!(text.contains("; not compared: f2fs."), "{text}");
}

#[test]
fn the_bare_device_is_a_reference_and_never_a_candidate() {
    // The first variant, the bare device, is the fastest.
    let record = run(&["raw", "ext4", "xfs"], 12);
    let decision = decision(&record);
    assert_eq!((&decision["choose"], &decision["regret"]), (&"ext4".into(), &0.0.into()), "{decision}");
    let text = export_run(&record, "md", &["elapsed"]);
    assert!(text.contains("Over all 3 tasks, ext4 was fastest") && !text.contains("raw was fastest"), "{text}");
    let text = export_run(&run(&["raw", "ext4"], 12), "md", &["elapsed"]);
    assert!(text.contains("Only one variant has data"), "{text}");
}

#[test]
fn a_less_safe_variant_is_cheaper_but_not_recommended() {
    let mut record = run(&["ext2", "ext4", "xfs"], 12);
    let note = Note::new(NoteKind::Weaker, "no journal, so an inconsistent filesystem after a crash");
    record.notes.push((Some(0), note.clone().variant("ext2")));
    let text = export_run(&record, "md", &["elapsed"]);
    assert!(text.contains("Use ext4: in a typical round "), "{text}");
    assert!(text.contains("faster in total, but gives up safety: no journal"), "{text}");
    let json = decision(&record);
    assert_eq!(json["cheaper_but_less_safe"][0]["variant"], "ext2", "{json}");
    // If only one variant gives up no safety, the report recommends it.
    record.notes.push((Some(0), note.clone().variant("xfs")));
    let json = decision(&record);
    assert_eq!(json["headline"], "Use ext4: every other variant gives up safety.", "{json}");
    // If all variants give up safety, the fastest one is recommended.
    record.notes.push((Some(0), note.variant("ext4")));
    assert_eq!(decision(&record)["choose"], "ext2");
}

/// Texts that occur in a sentence only if one of its values is missing or not a number.
const INCOMPLETE_TEXTS: [&str; 12] =
    [": .", ":.", " or .", " or ,", ", .", " ≈ .", "NaN", "inf%", "inf ", " and .", "(,", "differs from :"];

/// The number of generated cases: `PROPTEST_CASES`, or as many as run within about a second.
fn case_count() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(case_count()))]
    #[test]
    fn all_sentences_are_complete_and_provisional_decisions_recommend_nothing(
        names in proptest::sample::subsequence(vec!["ext4", "xfs", "btrfs", "raw"], 1..=4),
        rounds in 0u32..14,
        faults in proptest::collection::vec((0usize..4, 0usize..5, 0u32..14, 0usize..3), 0..12),
        first_is_zero in any::<bool>(),
    ) {
        let mut record = run(&names, rounds);
        let column = record.reading_column("elapsed_ns").unwrap();
        for row in 0..record.samples.len() {
            let cell = &record.cells[record.samples.cell[row] as usize];
            let sample = (cell.variant, record.samples.task[row] as usize, cell.round);
            for (variant, task, round, kind) in &faults {
                if sample == (*variant, *task, *round) {
                    record.samples.values[column][row] = [0.0, f64::NAN, 1e18][*kind];
                }
            }
            if first_is_zero && cell.variant == 0 {
                record.samples.values[column][row] = 0.0;
            }
        }
        for format in ["md", "term", "junit", "github"] {
            let text = export_run(&record, format, &["elapsed", "system"]);
            for line in text.lines() {
                prop_assert!(!INCOMPLETE_TEXTS.iter().any(|text| line.contains(text)), "{line}");
            }
            // The brief report fits on a screen.
            prop_assert!(format != "term" || text.lines().count() <= 45, "{text}");
        }
        let decision = decision(&record);
        if let Some(regret) = decision["regret"].as_f64() {
            prop_assert!(regret >= 0.0 && decision["choose"] != "raw", "{decision}");
        }
        if decision["provisional"] == true {
            prop_assert!(decision["headline"].as_str().unwrap().starts_with("No answer"), "{decision}");
            prop_assert!(decision["choose"].is_null() && decision["answer"] == "too_few_rounds", "{decision}");
        }
    }
}
