//! Every variant over all tasks: to the best by total and by geometric mean, by each metric.

use super::tasks::row;
use super::{Detail, Section, label as task_label};
use crate::charts::{Seen, standing};
use crate::document::{Cell, Chapter, Document, Part, Table};
use crate::number::plural;
use crate::report::Report;
use crate::typical;
use fsarena_core::metric::label;
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::analyse::Analysis;
use fsarena_stats::comparison::Comparison;

/// The most variants that a screen holds, and the most columns.
const BRIEF: (usize, usize) = (8, 4);

/// The most tasks of an only variant that a screen holds.
const TASKS: usize = 21;

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
    let Some((_, first, _)) = columns.first() else {
        if detail == Detail::Brief {
            alone(&mut document, report);
        }
        return document;
    };
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

/// The figures of a run's only variant, a row for each task and a column for each metric.
fn alone(document: &mut Document, report: &Report) {
    let analyses = report.analyses.iter().filter(|analysis| !analysis.tasks.is_empty());
    let analyses: Vec<&Analysis> = analyses.take(BRIEF.1).collect();
    let [variant] = report.record.variants.as_slice() else { return };
    let Some(first) = analyses.first().filter(|_| report.ranks()) else { return };
    let mut table = Table::figures(
        std::iter::once(variant.name.clone())
            .chain(analyses.iter().map(|one| label(&one.metric.id).to_string())),
    );
    table.rows = (first.tasks.iter().take(TASKS))
        .map(|task| {
            let at = report.record.task(&task.task.id);
            let of = |one: &&Analysis| at.map(|at| typical::cell(&one.grid.values[at][0], one.metric.unit));
            let figures = analyses.iter().map(|one| on_a_line(&of(one).unwrap_or_default()));
            std::iter::once(task_label(&task.task).into()).chain(figures).collect()
        })
        .collect();
    document.table(table);
    let rest = first.tasks.len().saturating_sub(TASKS);
    if rest > 0 {
        document.text(format!("{} not shown.", plural(rest, "more task")));
    }
}

/// What all tasks add up to by each metric: a title, the comparison and the unit.
fn columns(report: &Report) -> Vec<(String, &Comparison, Unit)> {
    let better = |direction: Direction| direction != Direction::Neutral && report.ranks();
    let mut columns = vec![];
    for analysis in report.analyses.iter().filter(|analysis| better(analysis.metric.direction)) {
        let Some(overall) = &analysis.overall else { continue };
        let (id, unit) = (&analysis.metric.id, analysis.metric.unit);
        let name = label(id).trim_end_matches("_ns"); // The figures have their unit.
        let one = overall.tasks == 1;
        let [total, mean] = overall.wholes();
        let total = total.map(|total| (if one { "" } else { "total " }, total)).into_iter();
        let both = total.chain(mean.map(|mean| ("geomean ", mean)));
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
