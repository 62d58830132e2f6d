//! Every kind of chart, one file each: from an analysed run to plain data for the renderer. A kind draws nothing that
//! the run does not carry: where it has no data it makes no chart.

use crate::plot::colour::{Colour, of_arms};
use crate::plot::{Chart, Key, Shape, Sign};
use crate::report::Report;
use fsarena_core::record::{MetricInfo, RunRecord};
use fsarena_stats::analyse::Analysis;
use fsarena_stats::grid::{Grid, dropped, grid};

mod bars;
mod clients;
mod courses;
mod cpu;
mod curves;
mod heatmaps;
mod latency;
mod narrowing;
mod raw;
mod requests;
mod schedulers;
mod spent;
mod strips;
mod timeline;

/// A kind of chart.
pub trait Kind: Sync {
    /// Its name: that of its file.
    fn id(&self) -> &'static str;

    /// The charts of this kind that a run has data for.
    fn charts(&self, seen: &Seen) -> Vec<Chart>;
}

/// Every kind, in the order of a report.
pub const KINDS: &[&dyn Kind] = &[
    &bars::Bars,
    &raw::Raw,
    &clients::Clients,
    &schedulers::Schedulers,
    &requests::Requests,
    &heatmaps::HeatMaps,
    &curves::Curves,
    &strips::Strips,
    &narrowing::Narrowing,
    &latency::Latency,
    &courses::Courses,
    &timeline::Timeline,
    &cpu::Cpu,
    &spent::Spent,
];

/// Every chart of a report. Bars side by side rank whatever the words say, so a run that can rank nothing has none.
pub fn all(report: &Report) -> Vec<Chart> {
    if !report.ranks() {
        return vec![];
    }
    let seen = Seen::of(report);
    KINDS.iter().flat_map(|kind| kind.charts(&seen)).collect()
}

/// A report as charts see it.
pub struct Seen<'a> {
    /// The report.
    pub report: &'a Report,
    /// The colour of each arm.
    pub colours: Vec<Colour>,
}

impl<'a> Seen<'a> {
    /// A report and the colours of its arms.
    pub fn of(report: &'a Report) -> Seen<'a> {
        Seen { report, colours: of_arms(&report.record.arms) }
    }

    /// The run.
    pub fn record(&self) -> &'a RunRecord {
        &self.report.record
    }

    /// The name of an arm.
    pub fn name(&self, arm: usize) -> &'a str {
        &self.report.record.arms[arm].name
    }

    /// The values of a metric by step, arm and block; without the blocks that were dropped.
    pub fn grid(&self, metric: &str) -> Option<(MetricInfo, Grid)> {
        let (info, rows) = self.record().metric(metric)?;
        Some((info, grid(self.record(), &rows, &dropped(self.record()))))
    }

    /// The legend of some arms, with the shapes of their points where they have some.
    pub fn legend(&self, arms: impl IntoIterator<Item = usize>, shapes: bool) -> Vec<Key> {
        let key = |arm: usize| Key {
            label: self.name(arm).to_string(),
            colour: self.colours[arm],
            sign: if shapes { Sign::Point(Shape::of_series(arm)) } else { Sign::Area(1.0) },
        };
        arms.into_iter().map(key).collect()
    }
}

/// The values of each composite task, `[task][arm][block]`.
pub fn tasks<'g>(record: &RunRecord, grid: &'g Grid) -> Vec<(String, &'g Vec<Vec<f64>>)> {
    let some = |values: &[Vec<f64>]| values.iter().flatten().any(|value| !value.is_nan());
    let kept =
        record.steps.iter().zip(&grid.values).filter(|(step, values)| step.in_composite && some(values));
    kept.map(|(step, values)| (crate::sections::label(step), values)).collect()
}

/// `total elapsed`, `geometric mean of iops`, or the one task there is: what an analysis says of all tasks.
pub fn over_all(analysis: &Analysis) -> String {
    let metric = &analysis.metric.id;
    match &analysis.overall {
        Some(overall) if overall.steps == 1 => metric.clone(),
        Some(overall) if overall.total.is_some() => format!("total {metric}"),
        _ => format!("geometric mean of {metric}"),
    }
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
        let mut ids: Vec<&str> = KINDS.iter().map(|kind| kind.id()).collect();
        files.sort();
        ids.sort_unstable();
        assert_eq!(files, ids);
    }
}
