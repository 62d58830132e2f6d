//! Bars in the unit of the metric: one panel a task, the total first.

use crate::matrix;
use crate::number::plural;
use crate::seen::{MOST, REACH, Seen, bar, tasks, typical};
use crate::words::{listed, not_drawn};
use fsarena_charts::{Axis, Chart, Form, Panel};
use fsarena_core::sample::Unit;
use fsarena_stats::analyse::Analysis;
use fsarena_stats::comparison::median;
use fsarena_stats::composite::sums;
use fsarena_stats::simulate::parallel;

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    let analyses = seen.report.analyses.iter().filter(|analysis| !matrix::fits(analysis));
    analyses.filter_map(|analysis| chart(seen, analysis)).collect()
}

fn chart(seen: &Seen, analysis: &Analysis) -> Option<Chart> {
    let (info, tasks) = (&analysis.metric, tasks(seen.record(), &analysis.grid));
    let variants: Vec<usize> = (0..seen.record().variants.len())
        .filter(|variant| {
            tasks.iter().any(|(_, values)| values[*variant].iter().any(|value| !value.is_nan()))
        })
        .collect();
    if tasks.is_empty() || variants.len() < 2 {
        return None;
    }
    let rest = left_out(seen, &variants, &tasks);
    let mut panels = vec![];
    if tasks.len() > 1 && analysis.overall.as_ref().is_some_and(|overall| overall.total.is_some()) {
        let all: Vec<_> = tasks.iter().map(|(_, values)| *values).collect();
        panels.push(panel(
            seen,
            &variants,
            format!("TOTAL of {}", plural(tasks.len(), "task")),
            &sums(&all),
            info.unit,
        ));
    }
    if tasks.len() <= MOST {
        panels.extend(parallel(tasks.len(), |at| {
            let (name, values) = &tasks[at as usize];
            panel(seen, &variants, name.clone(), values, info.unit)
        }));
    }
    let about = format!(
        "Bars from zero of {}, one panel a task, each with a scale of its own. A bar is the median over rounds; its \
         whisker the 95% interval of the typical value (under 8 rounds the extremes seen), which includes the drift \
         of the machine that comparisons within rounds are free of. One that goes on beyond the picture has an arrow \
         and its end behind it.{rest}",
        info.help
    );
    Some(Chart {
        form: Form::Raw,
        columns: if panels.len() > 1 { 2 } else { 1 },
        panels,
        legend: seen.legend(variants, false),
        ..Chart::new(format!("raw-{}", info.id), format!("{}, medians", info.id), about)
    })
    .filter(|chart| !chart.panels.is_empty())
}

/// Names each missing bar and whisker, and the reason.
fn left_out(seen: &Seen, variants: &[usize], tasks: &[(String, &Vec<Vec<f64>>)]) -> String {
    let all = 0..seen.record().variants.len();
    let none: Vec<String> =
        all.filter(|variant| !variants.contains(variant)).map(|variant| seen.name(variant).into()).collect();
    let mut words = not_drawn(&none, "no value");
    if tasks.len() > MOST {
        words.push_str(&format!(
            " Of {}, all together are drawn and none alone.",
            plural(tasks.len(), "task")
        ));
    }
    let known =
        |variant: usize, values: &[Vec<f64>]| values[variant].iter().filter(|value| !value.is_nan()).count();
    let of = |count: usize| -> Vec<String> {
        let places = tasks
            .iter()
            .flat_map(|(task, values)| variants.iter().map(move |variant| (task, *values, *variant)));
        let found = places.filter(|(_, values, variant)| known(*variant, values) == count);
        found.map(|(task, _, variant)| format!("{} in {task}", seen.name(variant))).collect()
    };
    words.push_str(&not_drawn(&of(0), "no value"));
    match of(1) {
        one if one.is_empty() => {}
        one => words.push_str(&format!(" Without an interval, which takes two rounds: {}.", listed(&one))),
    }
    words
}

fn panel(seen: &Seen, variants: &[usize], title: String, values: &[Vec<f64>], unit: Unit) -> Panel {
    let shown: Vec<_> = variants
        .iter()
        .map(|variant| (*variant, median(&values[*variant]), typical(&values[*variant])))
        .collect();
    let longest = shown.iter().filter_map(|(_, middle, _)| *middle).fold(0.0, f64::max);
    let furthest = shown.iter().filter_map(|(_, _, typical)| typical.map(|t| t.high)).fold(longest, f64::max);
    // Of bars of zero only the intervals are seen.
    let limit = if longest > 0.0 { furthest.min(longest * REACH) } else { furthest };
    let mut marks = vec![];
    for (row, (variant, middle, typical)) in shown.iter().enumerate() {
        let Some(middle) = middle else { continue };
        let at = Axis::slot(row);
        let whisker = typical.map(|typical| (typical.low, typical.high));
        marks.extend(bar(at, *middle, whisker, limit, seen.colours[*variant], unit));
    }
    let names: Vec<String> = variants.iter().map(|variant| seen.name(*variant).to_string()).collect();
    Panel {
        title,
        x: Axis::from_zero("", limit * 1.3, unit),
        y: Axis::names(&names),
        marks,
        height: 54 + 17 * variants.len() as u32,
    }
}
