//! How many rounds it takes to decide inconclusive comparisons.

use super::{Detail, Section};
use crate::charts::Seen;
use crate::document::{Chapter, Document, Table, row, source};
use crate::number::percent;
use crate::paired;
use crate::report::Report;
use fsarena_stats::power::{rounds_for, spread};
use fsarena_stats::ratio::Ratio;

/// What it takes to decide the rest.
pub const SECTION: Section = Section { chapter: Some(Chapter::Method), parts };

/// A table of the comparisons that are open, and of how many rounds would find the difference that matters.
fn parts(report: &Report, detail: Detail) -> Document {
    let mut document = Document::default();
    if detail < Detail::Full || !report.ranks() {
        return document;
    }
    let margin = report.margin;
    let open = |d| Ratio::of(d).filter(|ratio| !ratio.separated());
    let all = paired::of(&Seen::of(report));
    let open: Vec<_> = all.into_iter().filter_map(|series| Some((open(series.d.clone())?, series))).collect();
    let so_far = match open.iter().any(|(ratio, _)| ratio.provisional) {
        true => "so far, range of the rounds if fewer than 8, else 95% interval",
        false => "so far, 95% interval",
    };
    let header =
        ["inconclusive", so_far, "spread of a round", &format!("rounds that find {}", percent(margin))];
    let mut table = Table::figures(header);
    for (ratio, series) in open {
        let sigma = spread(&series.d).filter(|sigma| *sigma > 0.0);
        let rounds = match sigma {
            None => "requires 3 rounds".to_string(),
            Some(sigma) => rounds_for(sigma, margin).map_or("over 400".into(), |rounds| rounds.to_string()),
        };
        let cells = row![
            series.label,
            crate::sections::answer::interval(ratio),
            sigma.map_or("–".into(), percent),
            rounds,
        ];
        table.rows.push(source::row(series.source.as_ref(), cells));
    }
    if !table.rows.is_empty() {
        document.heading(3, "Rounds needed for the rest");
        document.table(table);
        document.text(format!(
            "With the spread so far, that number of rounds finds a difference of {}, the margin of this run, in four of \
             five runs.",
            percent(margin)
        ));
    }
    document
}
