//! The charts, where they lie in files beside the report.

use crate::charts;
use crate::document::{Document, Image, Part};
use crate::report::Report;

/// Every chart, each with its words.
pub fn add(document: &mut Document, report: &Report) {
    let Some(folder) = &report.pictures else { return };
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
