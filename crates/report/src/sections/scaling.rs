//! Where the load ran with several numbers of clients: the law that each variant follows, where it saturates and peaks.

use crate::document::{Source, row_with_source};
use crate::scaling::curves::Curves;
use crate::scaling::{grounds, misfit_sentence, overview};
use crate::section::{Chapter, Detail, Document, Report, Section};

/// How throughput scales with clients.
pub const SCALING: Section = Section::new(Chapter::Answer, add_scaling);

/// A table with a row for each curve; nothing where the clients do not vary.
fn add_scaling(document: &mut Document, report: &Report, detail: Detail) {
    let Some(run) = Curves::shown(&report.record) else { return };
    let curves = run.analysed(report.record.plan.seed);
    document.heading(3, format!("How {} scales with clients", run.metric.id));
    let mut table = overview(curves.iter().map(|(_, one)| one));
    for (row, (variant, _)) in table.rows.iter_mut().zip(&curves) {
        *row = row_with_source(Source::of(None, [*variant]), std::mem::take(row));
    }
    if detail < Detail::Full {
        // The laws take many words.
        table.header.remove(1);
        for row in &mut table.rows {
            row.remove(1);
        }
        return document.table(table);
    }
    document.table(table);
    let misfit =
        |(_, one): &(usize, _)| misfit_sentence(one).map(|words| format!("{}: {words}", one.series.name));
    document.list(curves.iter().filter_map(misfit).collect());
    let rest = run.left_out().map_or(String::new(), |words| format!(" {words}"));
    document.text(format!("{}{rest}", grounds(curves.iter().map(|(_, one)| one))));
}
