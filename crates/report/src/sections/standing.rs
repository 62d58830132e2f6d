//! Every variant over all tasks: to the best by total and by geometric mean, by each metric.

use super::tasks::ratio_row;
use crate::document::{Cell, Table, labelled_row};
use crate::figures::{fewest_rounds, has_mean_interval, mean_cost_caveat, mean_cost_row, typical_cell};
use crate::section::{Chapter, Detail, Document, Report, Section};
use crate::{chart_context::ChartContext, charts::standing, number::plural, words::label as task_label};
use fsarena_core::sample::Direction;
use fsarena_stats::{analyse::Analysis, comparison::Comparison};

/// The most variants that a screen holds, and the most columns.
const BRIEF: (usize, usize) = (8, 4);

/// The most tasks of an only variant that a screen holds.
const MAX_TASKS: usize = 21;

/// How the variants stand.
pub const STANDING: Section = Section::new(Chapter::Answer, add_standing);

/// A table, below a dot plot where there are charts; nothing where no two variants compare.
fn add_standing(document: &mut Document, report: &Report, detail: Detail) {
    if detail == Detail::Charts {
        document.charts(standing::charts(&ChartContext::new(report)));
    }
    let mut columns = columns(report);
    let Some(first) = columns.first().map(|(_, comparison, _)| *comparison) else {
        if detail == Detail::Brief {
            add_only_variant(document, report);
        }
        return;
    };
    let order = first.by_ratio();
    let (variants, most) = if detail < Detail::Full { BRIEF } else { (usize::MAX, usize::MAX) };
    columns.truncate(most);
    let header = std::iter::once("variant").chain(columns.iter().map(|(title, ..)| title.as_str()));
    let rows = order.iter().take(variants).map(|variant| {
        let cells = columns.iter().map(|(_, _, column)| on_a_line(&column[variant + 1]));
        labelled_row(report.record.name(*variant), cells)
    });
    document.table(Table::figures(header).with(rows));
    if let Some(rounds) = fewest_rounds(first).filter(|_| has_mean_interval(first)) {
        let of_two = !report.pair().is_empty(); // The next section has the caveat.
        let caveat = if of_two { String::new() } else { format!(" {}", mean_cost_caveat(rounds)) };
        document.text(format!(
            "Ratios are those of a typical round, and mean is the ratio of mean cost.{caveat}"
        ));
    }
    not_shown(document, order.len().saturating_sub(variants), "more variant");
}

/// The figures of a run's only variant, a row for each task and a column for each metric.
fn add_only_variant(document: &mut Document, report: &Report) {
    let analyses = report.analyses.iter().filter(|analysis| !analysis.tasks.is_empty());
    let analyses: Vec<&Analysis> = analyses.take(BRIEF.1).collect();
    let [variant] = report.record.variants.as_slice() else { return };
    let Some(first) = analyses.first() else { return };
    let header =
        std::iter::once(variant.name.as_str()).chain(analyses.iter().map(|one| one.metric.id.as_str()));
    let rows = first.tasks.iter().take(MAX_TASKS).map(|task| {
        let at = report.record.task(&task.task.id);
        let of = |one: &&Analysis| at.map(|at| typical_cell(&one.grid.values[at][0], one.metric.unit));
        labelled_row(
            task_label(&task.task),
            analyses.iter().map(|one| on_a_line(&of(one).unwrap_or_default())),
        )
    });
    document.table(Table::figures(header).with(rows));
    not_shown(document, first.tasks.len().saturating_sub(MAX_TASKS), "more task");
}

fn not_shown(document: &mut Document, rest: usize, what: &str) {
    if rest > 0 {
        document.text(format!("{} not shown.", plural(rest, what)));
    }
}

/// The columns of the table: for each metric a title, the comparison over all tasks and the cells of the variants.
fn columns(report: &Report) -> Vec<(String, &Comparison, Vec<Cell>)> {
    let better = |direction: Direction| direction != Direction::Neutral;
    let mut columns = vec![];
    for analysis in report.analyses.iter().filter(|analysis| better(analysis.metric.direction)) {
        let Some(overall) = &analysis.overall else { continue };
        let (id, unit) = (&analysis.metric.id, analysis.metric.unit);
        let name = id.trim_end_matches("_ns"); // The figures have their unit.
        let one = overall.tasks == 1;
        let [total, mean] = overall.wholes();
        let total = total.map(|total| (if one { "" } else { "total " }, total)).into_iter();
        let both = total.chain(mean.map(|mean| ("geomean ", mean)));
        let compared = both.filter(|(_, comparison)| comparison.compares());
        // A column over a part of the tasks says so.
        let part = if overall.tasks < overall.of { format!(" ({})", overall.scope()) } else { String::new() };
        let mut own: Vec<(String, &Comparison, Vec<Cell>)> = compared
            .map(|(what, comparison)| {
                (format!("{what}{name}{part}"), comparison, ratio_row(String::new(), comparison, unit, None))
            })
            .collect();
        let main = overall.main();
        if !own.is_empty() && has_mean_interval(&main.comparison) {
            let title = format!("mean {name}{part}");
            own.insert(1, (title.clone(), &main.comparison, mean_cost_row(title, main, unit)));
        }
        columns.extend(own);
    }
    columns
}

/// `1.12 [1.10–1.14]` of a cell whose interval is in a second line.
fn on_a_line(cell: &Cell) -> Cell {
    let line = match cell.lines.as_slice() {
        [figure, median] if cell.strong => format!("{figure} ({median})"),
        [figure, interval] => format!("{figure} [{interval}]"),
        _ => return cell.clone(),
    };
    Cell { lines: vec![line], ..cell.clone() }
}
