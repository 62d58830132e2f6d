//! How long the report of a run with a million readings takes, by exporter.
//!
//! `cargo run --release -p fsarena-report --example million`

#[path = "../tests/it/fixture/mod.rs"]
#[allow(dead_code)] // the tests use more of this file
mod fixture;

use fsarena_core::record::MetricSpec;
use fsarena_core::sample::{Direction, Unit};
use fsarena_report::exporters;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut record = fixture::run(&["ext2", "ext3", "ext4", "xfs", "btrfs"], 400);
    // The fixture's five tasks, five times over: 25 tasks, 50000 rows.
    let (rows, tasks) = (record.samples.len(), record.tasks.len());
    for copy in 1..5 {
        for task in 0..tasks {
            let mut task = record.tasks[task].clone();
            task.id.name = format!("{}-{copy}", task.id.name);
            record.tasks.push(task);
        }
        for row in 0..rows {
            record.samples.cell.push(record.samples.cell[row]);
            record.samples.task.push(record.samples.task[row] + (copy * tasks) as u32);
            record.samples.started_at.push(record.samples.started_at[row]);
            record.samples.values.iter_mut().for_each(|column| column.push(column[row]));
        }
    }
    for number in record.readings.len()..20 {
        let reading = MetricSpec::new(format!("more_{number}_count"), Unit::Count, Direction::Lower, String::new());
        record.readings.push(reading);
        record.samples.values.push(record.samples.values[0].clone());
    }
    let values = record.samples.len() * record.samples.values.len();
    let start = Instant::now();
    let report = fixture::report(record, &[])?;
    println!("{values} readings; analysis {} ms", start.elapsed().as_millis());
    for exporter in exporters::EXPORTERS.iter().filter(|exporter| !exporter.writes_folder()) {
        let (start, mut out) = (Instant::now(), Vec::new());
        exporter.export(&report, &mut out)?;
        println!("{:>4}: {} ms, {} KiB", exporter.id, start.elapsed().as_millis(), out.len() / 1024);
    }
    Ok(())
}
