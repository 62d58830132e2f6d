//! The charts, where they lie in files beside the report.

use crate::charts;
use crate::document::{Document, Image, Part};
use crate::report::Report;

/// Every chart, each with its words; where there are no files of them, how to get them.
pub fn add(document: &mut Document, report: &Report, folder: Option<&str>) {
    let Some(folder) = folder else {
        if !report.record.samples.is_empty() {
            document.heading(2, "Pictures");
            document.text(format!(
                "They are files: `fsarena report {} --format md --export svg=charts` draws them into a folder, and this \
                 text refers to them.",
                report.record.id
            ));
        }
        return;
    };
    let charts = charts::all(report);
    if charts.is_empty() {
        return;
    }
    document.heading(2, "Pictures");
    for chart in charts {
        document.heading(3, &*chart.title);
        let link = format!("{folder}/{}.svg", chart.id);
        document.parts.push(Part::Image(Image { about: chart.title, link }));
        document.text(chart.about);
    }
}
