//! dbench's text, for the programs that read that: a run for each sample.

use crate::sampled::{Row, rows};
use crate::{error::Error, exporter::Exporter, report::Report};
use fsarena_core::{dbench::OPERATIONS, metric::reading};
use std::io::Write;

/// dbench's text.
pub const DBENCH: Exporter = Exporter::new(
    "dbench",
    "the text of dbench: throughput and operations, a run for each sample, its load named by task and variant",
    export,
);

const LONGEST: &str = "all_latency_max_ns";
/// The figures of an operation.
const FIGURES: [&str; 3] = ["operations_count", "latency_mean_ns", "latency_max_ns"];

fn export(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let figures = OPERATIONS.iter().flat_map(|one| FIGURES.map(|figure| format!("{}_{figure}", one.reading)));
    let metrics: Vec<String> = figures.chain([reading::THROUGHPUT, LONGEST].map(String::from)).collect();
    let measured = |row: &Row| row.get(reading::THROUGHPUT).is_some();
    let rows = rows(&report.record, &metrics, ("dbench", "throughput of clients"), measured)?;
    rows.iter().try_for_each(|row| run(row, out))
}

fn run(row: &Row, out: &mut dyn Write) -> Result<(), Error> {
    let name: String = row.name.chars().map(|c| if c.is_control() || c == '\'' { ' ' } else { c }).collect();
    writeln!(out, "dbench version 4.00 - as fsarena {} writes it\n", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "Running with load '{name}'\n")?;
    writeln!(out, " Operation      Count    AvgLat    MaxLat\n ----------------------------------------")?;
    for one in &OPERATIONS {
        let [count, mean, max] =
            FIGURES.map(|figure| row.get(&format!("{}_{figure}", one.reading)).unwrap_or(0.0));
        if count > 0.0 {
            writeln!(out, " {:<14} {count} {} {}", one.printed, mean / 1e6, max / 1e6)?;
        }
    }
    let throughput = row.get(reading::THROUGHPUT).unwrap_or(0.0) / 1e6;
    let clients = row.variant.clients(row.task).unwrap_or(1);
    write!(out, "\nThroughput {throughput} MB/sec  {clients} clients  {clients} procs")?;
    if let Some(longest) = row.get(LONGEST) {
        write!(out, "  max_latency={} ms", longest / 1e6)?;
    }
    Ok(writeln!(out, "\n")?)
}
