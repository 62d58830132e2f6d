//! sysbench's text, for the programs that read that: a run for each sample of a load.

use crate::sampled::{Row, rows};
use crate::{error::Error, exporter::Exporter, report::Report};
use std::io::Write;

/// sysbench's text.
pub const SYSBENCH: Exporter = Exporter::new(
    "sysbench",
    "the text of sysbench fileio: reads and writes of loads, a run for each sample; it has no place for rounds",
    export,
);

const MIB: f64 = (1 << 20) as f64;

/// The lines of a run: its part, label, metric, what one of its units is there, and what follows.
const LINES: [(&str, &str, &str, f64, &str); 9] = [
    ("File operations:", "reads/s", "read_iops_per_s", 1.0, ""),
    ("File operations:", "writes/s", "write_iops_per_s", 1.0, ""),
    ("File operations:", "fsyncs/s", "sync_iops_per_s", 1.0, ""),
    ("Throughput:", "read, MiB/s", "read_bandwidth_bytes_per_s", MIB, ""),
    ("Throughput:", "written, MiB/s", "write_bandwidth_bytes_per_s", MIB, ""),
    ("General statistics:", "total time", "load_elapsed_ns", 1e9, "s"),
    ("Latency (ms):", "avg", "all_latency_mean_ns", 1e6, ""),
    ("Latency (ms):", "max", "all_latency_max_ns", 1e6, ""),
    ("Latency (ms):", "95th percentile", "all_latency_p95_ns", 1e6, ""),
];

fn export(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let loads = |row: &Row| row.get("read_iops_per_s").or(row.get("write_iops_per_s")).is_some();
    let metrics = LINES.map(|(_, _, metric, ..)| metric);
    let rows = rows(&report.record, &metrics, ("sysbench", "reads or writes of a load"), loads)?;
    rows.iter().try_for_each(|row| run(row, out))
}

fn run(row: &Row, out: &mut dyn Write) -> Result<(), Error> {
    let name: String = row.name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    writeln!(out, "sysbench 1.0.20 (as fsarena {} writes it)\n\nDoing {name}", env!("CARGO_PKG_VERSION"))?;
    let mut part = "";
    for (of, label, metric, unit, suffix) in LINES {
        let Some(value) = row.get(metric) else { continue };
        if of != part {
            writeln!(out, "\n{of}")?;
            part = of;
        }
        writeln!(out, "    {label}: {}{suffix}", value / unit)?;
    }
    Ok(writeln!(out)?)
}
