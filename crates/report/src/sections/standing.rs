//! Every variant over all tasks: to the best by total and by geometric mean, by each metric.

use super::tasks::row;
use super::{Detail, Section};
use crate::charts::{Seen, standing};
use crate::document::{Cell, Chapter, Document, Part, Table};
use crate::number::plural;
use crate::report::Report;
use fsarena_core::metric::label;
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::comparison::Comparison;

/// The most variants that a screen holds, and the most columns.
const BRIEF: (usize, usize) = (8, 4);

/// How the variants stand.
pub const SECTION: Section = Section { chapter: Some(Chapter::Answer), parts };

/// A table, below a dot plot where there are charts; nothing where no two variants compare.
fn parts(report: &Report, detail: Detail) -> Document {
    let mut document = Document::default();
    if detail == Detail::Charts {
        let charts = if report.ranks() { standing::charts(&Seen::of(report)) } else { vec![] };
        document.parts.extend(charts.into_iter().map(|chart| Part::Chart(Box::new(chart))));
    }
    let mut columns = columns(report);
    let Some((_, first, _)) = columns.first() else { return document };
    let order = first.order.clone();
    let (variants, most) = if detail < Detail::Full { BRIEF } else { (usize::MAX, usize::MAX) };
    columns.truncate(most);
    let header =
        std::iter::once("variant".to_string()).chain(columns.iter().map(|(title, ..)| title.clone()));
    let cells = columns.iter().map(|(title, comparison, unit)| row(title.clone(), comparison, *unit, None));
    let cells: Vec<Vec<Cell>> = cells.collect();
    let mut table = Table::figures(header);
    table.rows = (order.iter().take(variants))
        .map(|variant| {
            let name = report.record.variants[*variant].name.as_str();
            let figures = cells.iter().map(|column| on_a_line(&column[variant + 1]));
            std::iter::once(Cell::from(name)).chain(figures).collect()
        })
        .collect();
    document.table(table);
    let rest = order.len().saturating_sub(variants);
    if rest > 0 {
        document.text(format!("{} not shown.", plural(rest, "more variant")));
    }
    document
}

/// What all tasks add up to by each metric: a title, the comparison and the unit.
fn columns(report: &Report) -> Vec<(String, &Comparison, Unit)> {
    let better = |direction: Direction| direction != Direction::Neutral && report.ranks();
    let mut columns = vec![];
    for analysis in report.analyses.iter().filter(|analysis| better(analysis.metric.direction)) {
        let Some(overall) = &analysis.overall else { continue };
        let (name, unit) = (label(&analysis.metric.id), analysis.metric.unit);
        let one = overall.tasks == 1;
        let total = overall.total.iter().map(|total| (if one { "" } else { "total " }, &total.comparison));
        let mean = [("geomean ", &overall.geometric.comparison)];
        let both = total.chain(mean.into_iter().filter(|_| !one || overall.total.is_none()));
        let compared = both.filter(|(_, comparison)| comparison.compares());
        columns.extend(compared.map(|(what, comparison)| (format!("{what}{name}"), comparison, unit)));
    }
    columns
}

/// `1.12 [1.10–1.14]` of a cell whose interval is in a second line.
fn on_a_line(cell: &Cell) -> Cell {
    match cell.lines.as_slice() {
        [figure, median] if cell.strong => {
            Cell { lines: vec![format!("{figure} ({median})")], ..cell.clone() }
        }
        [figure, interval] => Cell { lines: vec![format!("{figure} [{interval}]")], ..cell.clone() },
        _ => cell.clone(),
    }
}
