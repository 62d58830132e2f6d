//! Reports of runs whose rounds begin with aged images, and the layout of their files.

use crate::fixture::{self, run};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::metric::reading::{DYNAMIC_LAYOUT_SCORE, LAYOUT_BEFORE, LAYOUT_READINGS};
use fsarena_core::metric::{LIFECYCLE_READINGS, reading::IMAGE_SEED};
use fsarena_core::record::RunRecord;
use fsarena_core::sample::MetricSpec;
use fsarena_report::report::Report;

/// Adds a task with one reading to every cell of a run. `value` returns the reading for a round and a variant.
fn add_reading(record: &mut RunRecord, task: &str, id: &str, value: impl Fn(u32, usize) -> f64) {
    let spec = LIFECYCLE_READINGS.iter().chain(LAYOUT_READINGS).find(|spec| spec.id == id).unwrap();
    record.readings.push(MetricSpec::from(spec));
    let id = TaskId::new(task);
    record.tasks.push(TaskInfo { id, title: task.into(), number: None, in_totals: false });
    let samples = &mut record.samples;
    samples.values.push(vec![f64::NAN; samples.cell.len()]);
    for (index, cell) in record.cells.iter().enumerate() {
        samples.cell.push(index as u32);
        samples.task.push(record.tasks.len() as u32 - 1);
        samples.started_at.push(cell.started_at);
        samples.values.iter_mut().for_each(|column| column.push(f64::NAN));
        *samples.values.last_mut().unwrap().last_mut().unwrap() = value(cell.round, cell.variant);
    }
}

/// A run of 20 rounds on aged images. The rounds use the images in turn.
fn aged_run(image_count: u32) -> RunRecord {
    let mut record = run(&["ext4/none", "ext4/git:10"], 20);
    for (variant, level) in record.variants.iter_mut().zip(["none", "git:10"]) {
        variant.levels.insert("fs".into(), "ext4".into());
        variant.levels.insert("age".into(), level.into());
    }
    add_reading(&mut record, "image", IMAGE_SEED, |round, _| f64::from(round % image_count + 1));
    add_reading(&mut record, LAYOUT_BEFORE, DYNAMIC_LAYOUT_SCORE, |_, variant| 0.9 - 0.2 * variant as f64);
    record
}

fn report_of_aged_run(image_count: u32) -> Report {
    fixture::report(aged_run(image_count), &[]).unwrap()
}

#[test]
fn intervals_are_over_images() {
    let report = report_of_aged_run(8);
    let json = fixture::export_json(&report);
    let analysis = &json["analyses"][0];
    assert_eq!(analysis["rounds"].as_array().unwrap().len(), 20);
    let images = &analysis["aged_images"];
    assert_eq!([&images["count"], &images["rounds_on_each"], &images["left_out_rounds"]], [8, 2, 4]);
    assert_eq!(analysis["tasks"][0]["variants"][1]["ratio_to_best"]["rounds"], 8);
    assert_eq!((&json["decision"]["rounds"], &json["decision"]["answer"]), (&8.into(), &"use".into()));
    let text = fixture::export(&report, "md");
    assert!(text.contains("8 aged images, 2 rounds on each"), "{text}");
    assert!(text.contains("dynamic layout score, before the work"), "{text}");
}

#[test]
fn fewer_than_eight_images_are_about_these_images_only() {
    let text = fixture::export(&report_of_aged_run(5), "md");
    assert!(text.contains("PROVISIONAL: 5 aged images") && text.contains("about these images only"), "{text}");
}

#[test]
fn cost_is_drawn_over_age_and_layout() {
    let page = fixture::export(&report_of_aged_run(8), "html");
    assert!(page.contains("over age: pulls") && page.contains("over the layout of the files"));
}
