//! Only figures that measured what they claim rank, and no sentence says more than its data.

use crate::fixture::run;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::{Direction, Unit};
use fsarena_core::setting::{Settings, Value as Setting};
use fsarena_report::exporters;
use fsarena_report::report::{self, ReportOptions};
use proptest::prelude::*;
use serde_json::Value;

fn exported(record: &RunRecord, format: &str, metrics: &[&str]) -> String {
    let metrics = metrics.iter().map(|metric| metric.to_string()).collect();
    let report = report::analyse_run(record.clone(), ReportOptions { metrics, ..ReportOptions::default() }).unwrap();
    let mut out = vec![];
    exporters::find(format).unwrap().export(&report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn decision(record: &RunRecord) -> Value {
    let json: Value = serde_json::from_str(&exported(record, "json", &["elapsed"])).unwrap();
    json["decision"].clone()
}

/// Calls `each` with the readings of every sample of a task: its variant and its row.
fn each(record: &RunRecord, task: &str, mut each: impl FnMut(usize, usize)) {
    for row in 0..record.samples.len() {
        if record.tasks[record.samples.task[row] as usize].id.name == task {
            each(record.cells[record.samples.cell[row] as usize].variant, row);
        }
    }
}

/// The run with a reading that has this value for "untar" of one variant, and another everywhere else.
fn with_reading(mut record: RunRecord, id: &str, variant: usize, (here, elsewhere): (f64, f64)) -> RunRecord {
    let mut values = vec![elsewhere; record.samples.len()];
    each(&record, "untar", |of, row| {
        if of == variant {
            values[row] = here;
        }
    });
    let info = MetricSpec::new(id.into(), Unit::Ratio, Direction::Neutral, String::new());
    record.readings.push(info);
    record.samples.values.push(values);
    record
}

#[test]
fn a_figure_that_did_not_measure_its_task_is_shown_and_ranks_nothing() {
    let ask = |setting: &str| {
        let mut record = run(&["ext4", "xfs"], 12);
        record.plan.workloads[0].settings = Settings([(setting.to_string(), Setting::Bool(true))].into());
        record
    };
    for (record, words) in [
        (with_reading(ask("direct"), "client_ratio", 1, (0.3, 0.01)), "was bound by the load generator"),
        (with_reading(ask("verify"), "verified_count", 1, (0.0, 9.0)), "verified no block"),
    ] {
        for format in ["term", "md", "html"] {
            let text = exported(&record, format, &["elapsed"]).split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(&format!("xfs at untar {words}")), "{format}: {text}");
            assert!(!text.contains("TOTAL of 3 tasks"), "{format}");
        }
        let screen = exported(&record, "term", &["elapsed"]).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(screen.contains("untar, not ranked: ext4 1.6"), "{screen}");
        assert!(screen.contains(" (2 of 3 tasks)"), "{screen}");
        let json: Value = serde_json::from_str(&exported(&record, "json", &["elapsed"])).unwrap();
        let left_out = json.to_string();
        assert!(left_out.contains(&format!("\"left_out\":\"xfs at untar {words}")), "{left_out}");
    }
}

#[test]
fn an_unsteady_load_ranks_and_the_warning_says_how_to_run_it_longer() {
    let mut record = with_reading(run(&["ext4", "xfs"], 12), "steady_ratio", 1, (0.0, 1.0));
    for (seconds, remedy) in [(false, ""), (true, " For the steady state: set=seconds=8.")] {
        if seconds {
            record.plan.workloads[0].settings.0.insert("seconds".into(), Setting::Float(0.0));
        }
        for format in ["term", "md", "html"] {
            let text = exported(&record, format, &["elapsed"]).split_whitespace().collect::<Vec<_>>().join(" ");
            let warning = "Steady in no round: xfs at untar. The ranking holds for loads of this length.";
            assert!(text.contains(&format!("{warning}{remedy}")), "{format}: {text}");
            assert!(!text.contains("left out of the ranking"), "{format}: {text}");
        }
    }
    let said = decision(&record);
    assert_eq!((&said["choose"], &said["provisional"]), (&"ext4".into(), &false.into()), "{said}");
}

#[test]
fn reads_and_commits_make_no_common_figure() {
    // Only "touch" commits; the rate of all three tasks is of operations.
    let mut record = run(&["ext4", "xfs"], 12);
    for (id, unit) in [("commit_iops_per_s", Unit::PerSecond), ("all_latency_p50_ns", Unit::Nanoseconds)] {
        let value = |row: usize| {
            let task = &record.tasks[record.samples.task[row] as usize];
            let there = if id.starts_with("commit") { task.id.name == "touch" } else { task.in_totals };
            if there { 1000.0 + row as f64 } else { f64::NAN }
        };
        let values = (0..record.samples.len()).map(value).collect();
        record.readings.push(MetricSpec::new(id.into(), unit, Direction::Lower, String::new()));
        record.samples.values.push(values);
    }
    let metrics = ["commits_per_s", "latency_p50", "elapsed"];
    let json: Value = serde_json::from_str(&exported(&record, "json", &metrics)).unwrap();
    let tasks = [0, 1, 2].map(|at| json["analyses"][at]["overall"]["tasks"].as_u64());
    assert_eq!(tasks, [Some(1), Some(1), Some(3)]);
    let all = |at: usize| json["analyses"][at]["tasks"].as_array().unwrap().len();
    assert_eq!((all(0), all(1)), (1, 3), "latencies of reads are shown");
    let text = exported(&record, "md", &metrics).replace('\\', "");
    assert!(text.contains("commits_per_s (1 of 3 tasks)"), "{text}");
    assert!(text.contains("latency_p50 (1 of 3 tasks)") && !text.contains("elapsed (1"), "{text}");
}

#[test]
fn what_the_budget_did_not_hold_is_named() {
    let mut record = run(&["ext4", "xfs"], 12);
    let note = Note::new(NoteKind::NotCompared, "not tried: the budget of 3 min is too short");
    record.notes.push((Some(0), note.variant("f2fs")));
    assert_eq!(record.not_compared(), ["f2fs"]);
    let text = exported(&record, "term", &["elapsed"]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Not tested: f2fs, which the budget did not hold; other mkfs"), "{text}");
    assert!(text.contains("; not compared: f2fs."), "{text}");
}

#[test]
fn the_bare_device_is_a_reference_and_never_a_candidate() {
    // The first is the fastest.
    let record = run(&["raw", "ext4", "xfs"], 12);
    let decision = decision(&record);
    assert_eq!((&decision["choose"], &decision["regret"]), (&"ext4".into(), &0.0.into()), "{decision}");
    let text = exported(&record, "md", &["elapsed"]);
    assert!(text.contains("Over all 3 tasks, ext4 was fastest") && !text.contains("raw was fastest"), "{text}");
    let alone = exported(&run(&["raw", "ext4"], 12), "md", &["elapsed"]);
    assert!(alone.contains("Only one variant has data"), "{alone}");
}

#[test]
fn a_less_safe_variant_is_cheaper_but_not_recommended() {
    let mut record = run(&["ext2", "ext4", "xfs"], 12);
    let note = Note::new(NoteKind::Weaker, "no journal, so an inconsistent filesystem after a crash");
    record.notes.push((Some(0), note.clone().variant("ext2")));
    let text = exported(&record, "md", &["elapsed"]);
    assert!(text.contains("Use ext4: in a typical round "), "{text}");
    assert!(text.contains("faster in total, but gives up safety: no journal"), "{text}");
    let said = decision(&record);
    assert_eq!(said["cheaper_but_less_safe"][0]["variant"], "ext2", "{said}");
    // Where one alone gives up none, nothing is left to weigh.
    record.notes.push((Some(0), note.clone().variant("xfs")));
    let said = decision(&record);
    assert_eq!(said["headline"], "Use ext4: every other variant gives up safety.", "{said}");
    // Where all give it up, speed decides.
    record.notes.push((Some(0), note.variant("ext4")));
    assert_eq!(decision(&record)["choose"], "ext2");
}

/// What a sentence with a hole in it looks like.
const HOLES: [&str; 12] =
    [": .", ":.", " or .", " or ,", ", .", " ≈ .", "NaN", "inf%", "inf ", " and .", "(,", "differs from :"];

/// Some in a second; more where `PROPTEST_CASES` asks for them.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]
    #[test]
    fn no_sentence_has_a_hole_and_no_verdict_beyond_its_interval(
        names in proptest::sample::subsequence(vec!["ext4", "xfs", "btrfs", "raw"], 1..=4),
        rounds in 0u32..14,
        faults in proptest::collection::vec((0usize..4, 0usize..5, 0u32..14, 0usize..3), 0..12),
        all_zero in any::<bool>(),
    ) {
        let mut record = run(&names, rounds);
        let column = record.reading("elapsed_ns").unwrap();
        for row in 0..record.samples.len() {
            let cell = &record.cells[record.samples.cell[row] as usize];
            let at = (cell.variant, record.samples.task[row] as usize, cell.round);
            for (variant, task, round, kind) in &faults {
                if at == (*variant, *task, *round) {
                    record.samples.values[column][row] = [0.0, f64::NAN, 1e18][*kind];
                }
            }
            if all_zero && at.0 == 0 {
                record.samples.values[column][row] = 0.0;
            }
        }
        for format in ["md", "term", "junit", "github"] {
            let text = exported(&record, format, &["elapsed", "system"]);
            for line in text.lines() {
                prop_assert!(!HOLES.iter().any(|hole| line.contains(hole)), "{line}");
            }
            // What a terminal shows by default fits on a screen.
            prop_assert!(format != "term" || text.lines().count() <= 45, "{text}");
        }
        let said = decision(&record);
        if let Some(regret) = said["regret"].as_f64() {
            prop_assert!(regret >= 0.0 && said["choose"] != "raw", "{said}");
        }
        if said["provisional"] == true {
            prop_assert!(said["headline"].as_str().unwrap().starts_with("No answer"), "{said}");
            prop_assert!(said["choose"].is_null() && said["answer"] == "too_few_rounds", "{said}");
        }
    }
}
