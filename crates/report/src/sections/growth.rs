//! The section about the cost of one unit of work over the values of a setting, for a run with a grid: the law of each variant,
//! where it bends, and the cost beyond the data.

use crate::document::{Detail, Document, Source, row_with_source};
use crate::report::Report;
use crate::scaling::growth::{METHOD, grid_setting, growth_metrics, growth_of_run};

/// Adds a table for each metric of the report, with a row for each variant and task; nothing if the run has no grid.
pub fn add_growth(document: &mut Document, report: &Report, detail: Detail) {
    let Some(setting) = grid_setting(&report.record) else { return };
    // A short report has the main metric only.
    let metrics = growth_metrics(report.analyses.iter().map(|analysis| analysis.metric.id.as_str()));
    for metric in metrics.into_iter().take(if detail < Detail::Full { 1 } else { usize::MAX }) {
        let Ok(run) = growth_of_run(&report.record, setting, metric) else { continue };
        if run.curves.is_empty() {
            continue;
        }
        document.heading(3, format!("How {} grows with {setting}", run.quantity()));
        let mut table = run.table();
        for (row, curve) in table.rows.iter_mut().zip(&run.curves) {
            *row = row_with_source(Source::new(None, [curve.variant]), std::mem::take(row));
        }
        document.table(table);
        if let Some(note) = run.left_out_sentence().filter(|_| detail >= Detail::Full) {
            document.text(note);
        }
    }
    if detail >= Detail::Full {
        document.text(METHOD);
    }
}
