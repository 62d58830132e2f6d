//! Every kind of chart, one file each: from an analysed run to plain data for the renderer. A kind draws nothing that
//! the run does not carry: where it has no data it makes no chart.

use crate::drawing::Chart;
use crate::{report::Report, seen::Seen};

mod bars;
mod clients;
mod cpu;
mod curves;
mod heatmaps;
mod latency;
mod modes;
mod narrowing;
mod pooled;
mod raw;
mod requests;
mod schedulers;
mod spent;
pub mod standing;
mod strips;
mod time_series;
mod timeline;

/// A kind of chart: the charts of it that a run has data for. One without a panel is none.
type Kind = fn(&Seen) -> Vec<Chart>;

/// Every kind, in the order of a report. A new kind is a file in `charts/` and a line here.
const KINDS: &[Kind] = &[
    standing::charts,
    bars::charts,
    raw::charts,
    clients::charts,
    schedulers::charts,
    requests::charts,
    heatmaps::charts,
    curves::charts,
    modes::charts,
    strips::charts,
    narrowing::charts,
    latency::charts,
    pooled::charts,
    time_series::charts,
    timeline::charts,
    cpu::charts,
    spent::charts,
];

/// Every chart of a report.
pub fn all(report: &Report) -> Vec<Chart> {
    let seen = Seen::of(report);
    let all = KINDS.iter().flat_map(|charts| charts(&seen));
    all.filter(|chart| !chart.panels.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_file_is_registered() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/charts")).unwrap();
        let files = files.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        for file in files {
            let line = format!("    {}::charts,", file.file_stem().unwrap().to_string_lossy());
            assert!(include_str!("charts.rs").lines().any(|found| found == line), "{line}");
        }
    }
}
