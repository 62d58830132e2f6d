//! How many rounds it takes to decide inconclusive comparisons.

use crate::charts::{ChartContext, differences::paired_differences};
use crate::document::{Table, made_of, row};
use crate::number::percent;
use crate::section::{Chapter, Detail, Document, Report, Section};
use crate::words::{interval, rounds_needed};
use fsarena_stats::power::{rounds_for, spread};
use fsarena_stats::ratio::Ratio;

/// What it takes to decide the rest.
pub const SECTION: Section = Section::full(Chapter::Method, add);

/// A table of the comparisons that are open, and of how many rounds would find the difference that matters.
fn add(document: &mut Document, report: &Report, _: Detail) {
    let margin = percent(report.margin);
    let open = |d| Ratio::of(d).filter(|ratio| !ratio.separated());
    let all = paired_differences(&ChartContext::new(report));
    let open: Vec<_> = all.into_iter().filter_map(|series| Some((open(series.d.clone())?, series))).collect();
    if open.is_empty() {
        return;
    }
    let so_far = match open.iter().any(|(ratio, _)| ratio.provisional) {
        true => "so far, range of the rounds if fewer than 8, else 95% interval",
        false => "so far, 95% interval",
    };
    let rows = open.into_iter().map(|(ratio, series)| {
        let sigma = spread(&series.d).filter(|sigma| *sigma > 0.0);
        let needed = |sigma| rounds_needed(rounds_for(sigma, report.margin));
        let rounds = sigma.map_or("requires 3 rounds".to_string(), needed);
        let cells = row![series.label, interval(ratio), sigma.map_or("–".into(), percent), rounds];
        made_of(series.source, cells)
    });
    document.heading(3, "Rounds needed for the rest");
    let header = ["inconclusive", so_far, "spread of a round", &format!("rounds that find {margin}")];
    document.table(Table::figures(header).with(rows));
    document.text(format!(
        "With the spread so far, that number of rounds finds a difference of {margin}, the margin of this run, in four of \
         five runs."
    ));
}
