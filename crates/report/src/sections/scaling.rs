//! Two sections about scaling: throughput over the number of clients, for loads that ran with several numbers; and the cost of
//! one unit of work over the values of a setting, for runs with a grid.

use crate::document::{Detail, Document, FigureSource, row_with_source};
use crate::report::Report;
use crate::scaling::curves::ClientCurves;
use crate::scaling::growth::{METHOD_NOTE, grid_setting, growth_metrics, growth_of_run};
use crate::scaling::{method_paragraph, misfit_sentence, overview_table};

/// Adds a table with a row for each curve (a variant and a load): its scaling law, its saturation and its peak. Adds nothing if
/// the number of clients does not vary.
pub fn add_scaling(document: &mut Document, report: &Report, detail: Detail) {
    let Some(client_curves) = ClientCurves::for_report(&report.record) else { return };
    let scalings = client_curves.analyse(report.record.plan.seed);
    document.heading(3, format!("How {} scales with clients", client_curves.metric.id));
    let mut table = overview_table(scalings.iter().map(|(_, scaling)| scaling));
    for (row, (variant, _)) in table.rows.iter_mut().zip(&scalings) {
        *row = row_with_source(FigureSource::new(None, [*variant]), std::mem::take(row));
    }
    if detail < Detail::Full {
        // Drop the column of the laws, which takes much room.
        table.header.remove(1);
        for row in &mut table.rows {
            row.remove(1);
        }
        return document.table(table);
    }
    document.table(table);
    let mut misfits = vec![];
    for (_, scaling) in &scalings {
        misfits.extend(misfit_sentence(scaling).map(|sentence| format!("{}: {sentence}", scaling.series.name)));
    }
    document.list(misfits);
    let left_out = client_curves.left_out_sentence().map_or(String::new(), |sentence| format!(" {sentence}"));
    document.text(format!("{}{left_out}", method_paragraph(scalings.iter().map(|(_, scaling)| scaling))));
}

/// Adds a table for each metric of the report, with a row for each variant and task: the law of the cost, where it bends,
/// and the cost beyond the data. Adds nothing if the run has no grid, or no curve over it.
pub fn add_growth(document: &mut Document, report: &Report, detail: Detail) {
    let Some(setting) = grid_setting(&report.record) else { return };
    // A brief report has the main metric only.
    let max_metrics = if detail < Detail::Full { 1 } else { usize::MAX };
    let metrics = growth_metrics(report.analyses.iter().map(|analysis| analysis.metric.id.as_str()));
    let mut has_tables = false;
    for metric in metrics.into_iter().take(max_metrics) {
        let Ok(run) = growth_of_run(&report.record, setting, metric) else { continue };
        if run.curves.is_empty() {
            continue;
        }
        document.heading(3, format!("How {} grows with {setting}", run.quantity()));
        let mut table = run.table();
        for (row, curve) in table.rows.iter_mut().zip(&run.curves) {
            *row = row_with_source(FigureSource::new(None, [curve.variant]), std::mem::take(row));
        }
        document.table(table);
        has_tables = true;
        if let Some(note) = run.left_out_sentence().filter(|_| detail >= Detail::Full) {
            document.text(note);
        }
    }
    if has_tables && detail >= Detail::Full {
        document.text(METHOD_NOTE);
    }
}
