//! Every kind of chart, one file each: from an analysed run to plain data for the renderer. A kind draws nothing that
//! the run does not carry: where it has no data it makes no chart.

use crate::{report::Report, seen::Seen};
use fsarena_charts::Chart;

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

/// Every kind by the name of its file, in the order of a report. A new kind is a file in `charts/` and a line here.
const KINDS: &[(&str, Kind)] = &[
    ("standing", standing::charts),
    ("bars", bars::charts),
    ("raw", raw::charts),
    ("clients", clients::charts),
    ("schedulers", schedulers::charts),
    ("requests", requests::charts),
    ("heatmaps", heatmaps::charts),
    ("curves", curves::charts),
    ("modes", modes::charts),
    ("strips", strips::charts),
    ("narrowing", narrowing::charts),
    ("latency", latency::charts),
    ("pooled", pooled::charts),
    ("time_series", time_series::charts),
    ("timeline", timeline::charts),
    ("cpu", cpu::charts),
    ("spent", spent::charts),
];

/// Every chart of a report. Bars side by side rank whatever the words say, so a run that can rank nothing has none.
pub fn all(report: &Report) -> Vec<Chart> {
    if !report.ranks() {
        return vec![];
    }
    let seen = Seen::of(report);
    let all = KINDS.iter().flat_map(|(_, charts)| charts(&seen));
    all.filter(|chart| !chart.panels.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_registered() {
        let mut files: Vec<String> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/charts"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let mut ids: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        files.sort();
        ids.sort_unstable();
        assert_eq!(files, ids);
    }
}
