//! Bars in the unit of the metric: one panel a task, the total first.

use crate::drawing::{Chart, Form};
use crate::matrix;
use crate::seen::{MOST, Seen, only_together};
use crate::words::{label, listed, not_drawn};
use fsarena_core::cell::TaskInfo;
use fsarena_stats::{analyse::Analysis, comparison::median, ratio::Ratio, simulate::parallel};

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    let analyses = seen.report.analyses.iter().filter(|analysis| !matrix::fits(analysis));
    analyses.filter_map(|analysis| chart(seen, analysis)).collect()
}

fn chart(seen: &Seen, analysis: &Analysis) -> Option<Chart> {
    let (info, grid) = (&analysis.metric, &analysis.grid);
    let tasks = grid.comparable_tasks().into_iter();
    let tasks: Vec<Task> = tasks.map(|at| (&grid.tasks[at], &grid.values[at])).collect();
    let has = |variant: usize| tasks.iter().any(|(_, values)| values[variant].iter().any(|v| !v.is_nan()));
    let variants = seen.variants(has);
    if tasks.is_empty() || variants.len() < 2 {
        return None;
    }
    let rest = left_out(seen, &variants, &tasks);
    let panel = |title: &str, values: &[Vec<f64>]| {
        let row = |variant: &usize| {
            let whisker = Ratio::typical(&values[*variant]).map(|typical| (typical.low, typical.high));
            (*variant, median(&values[*variant]), whisker)
        };
        let rows: Vec<_> = variants.iter().map(row).collect();
        seen.bars((title, ""), info.unit, &rows, (54, 17))
    };
    let mut panels = vec![];
    if tasks.len() > 1
        && let Some(overall) = &analysis.overall
        && let Some(total) = &overall.total
    {
        let title = format!("{} of {}", overall.name.to_uppercase(), overall.scope());
        panels.push(panel(&title, &total.values));
    }
    if tasks.len() <= MOST {
        panels.extend(parallel(tasks.len(), |at| {
            let (task, values) = tasks[at as usize];
            panel(&label(task), values)
        }));
    }
    let about = format!(
        "Bars from zero of {}, one panel a task, each with a scale of its own. A bar is the median over rounds; its \
         whisker the 95% interval of the typical value (under 8 rounds the extremes seen), which includes the drift \
         of the machine that comparisons within rounds are free of. One that goes on beyond the picture has an arrow \
         and its end behind it.{rest}",
        info.help
    );
    let chart = Chart::new(format!("raw-{}", info.id), format!("{}, medians", info.id), about);
    Some(Chart { form: Form::Raw, legend: seen.legend(&variants, false), ..chart.in_pairs(panels) })
}

/// A task, and its values by variant and round.
type Task<'a> = (&'a TaskInfo, &'a Vec<Vec<f64>>);

/// Names each missing bar and whisker, and the reason.
fn left_out(seen: &Seen, variants: &[usize], tasks: &[Task]) -> String {
    let of = |count: usize| -> Vec<String> {
        let places = tasks.iter().flat_map(|task| variants.iter().map(move |variant| (task, *variant)));
        let known = |((_, values), variant): &(&Task, usize)| {
            values[*variant].iter().filter(|value| !value.is_nan()).count()
        };
        let found = places.filter(|place| known(place) == count);
        found.map(|((task, _), variant)| format!("{} in {}", seen.name(variant), label(task))).collect()
    };
    let one = match listed(&of(1)) {
        one if one.is_empty() => one,
        one => format!(" Without an interval, which takes two rounds: {one}."),
    };
    let none = seen.not_drawn(variants, "no value") + &only_together(tasks.len());
    none + &not_drawn(&of(0), "no value") + &one
}
