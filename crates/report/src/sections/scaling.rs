//! The section about scaling, for a load that ran with several numbers of clients: the fitted scaling law of each
//! variant (throughput by number of clients), its saturation and its peak.

use crate::document::{Detail, Document, Source, row_with_source};
use crate::scaling::{method_paragraph, misfit_sentence, overview_table};
use crate::{report::Report, scaling::curves::ClientCurves};

/// Adds a table with a row for each curve; nothing if the number of clients does not vary.
pub fn add_scaling(document: &mut Document, report: &Report, detail: Detail) {
    let Some(measured) = ClientCurves::for_report(&report.record) else { return };
    let curves = measured.analyse(report.record.plan.seed);
    document.heading(3, format!("How {} scales with clients", measured.metric.id));
    let mut table = overview_table(curves.iter().map(|(_, one)| one));
    for (row, (variant, _)) in table.rows.iter_mut().zip(&curves) {
        *row = row_with_source(Source::new(None, [*variant]), std::mem::take(row));
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
    let misfit =
        |(_, one): &(usize, _)| misfit_sentence(one).map(|sentence| format!("{}: {sentence}", one.series.name));
    document.list(curves.iter().filter_map(misfit).collect());
    let rest = measured.left_out_sentence().map_or(String::new(), |sentence| format!(" {sentence}"));
    document.text(format!("{}{rest}", method_paragraph(curves.iter().map(|(_, one)| one))));
}
