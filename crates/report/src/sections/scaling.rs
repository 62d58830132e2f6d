//! Where the load ran with several numbers of clients: the law that each variant follows, where it saturates and peaks.

use super::{Detail, Section};
use crate::document::source::{self, Source};
use crate::document::{Chapter, Document};
use crate::report::Report;
use crate::scaling::curves::Curves;
use crate::scaling::{grounds, overview, words};

/// How throughput scales with clients.
pub const SECTION: Section = Section { chapter: Some(Chapter::Answer), parts };

/// A table with a row for each curve; nothing where the clients do not vary.
fn parts(report: &Report, detail: Detail) -> Document {
    let mut document = Document::default();
    let Some(run) = Curves::shown(&report.record) else { return document };
    let curves = run.analysed(report.record.plan.seed);
    document.heading(3, format!("How {} scales with clients", run.metric.id));
    let mut table = overview(curves.iter().map(|(_, one)| one));
    for (row, (variant, _)) in table.rows.iter_mut().zip(&curves) {
        *row = source::row(Source::of(None, [*variant]).as_ref(), std::mem::take(row));
    }
    if detail < Detail::Full {
        // The laws take many words.
        table.header.remove(1);
        table.rows.iter_mut().for_each(|row| drop(row.remove(1)));
        document.table(table);
        return document;
    }
    document.table(table);
    let misfit =
        |(_, one): &(usize, _)| words::misfit(one).map(|words| format!("{}: {words}", one.series.name));
    document.list(curves.iter().filter_map(misfit).collect());
    let rounds = curves.iter().map(|(_, one)| one.series.rounds()).max().unwrap_or(0);
    document
        .text([Some(grounds(rounds)), run.left_out()].into_iter().flatten().collect::<Vec<_>>().join(" "));
    document
}
