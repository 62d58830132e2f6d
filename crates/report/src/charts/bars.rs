//! Grouped bars, normalised: every task, the total and the geometric mean in per cent of the best variant.

mod words;

use crate::matrix;
use crate::number::three;
use crate::seen::{MOST, REACH, Seen};
use crate::words::label;
use fsarena_charts::colour::{Colour, theme};
use fsarena_charts::{Axis, Chart, Form, Mark, Panel};
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::analyse::Analysis;
use fsarena_stats::comparison::Comparison;

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    let analyses = seen.report.analyses.iter().filter(|analysis| !matrix::fits(analysis));
    analyses.filter_map(|analysis| chart(seen, analysis)).collect()
}

fn chart(seen: &Seen, analysis: &Analysis) -> Option<Chart> {
    let (groups, without): (Vec<_>, Vec<_>) =
        groups(analysis).into_iter().partition(|(_, comparison)| comparison.compares());
    if groups.is_empty() {
        return None;
    }
    let variants: Vec<usize> = (0..seen.record().variants.len())
        .filter(|variant| groups.iter().any(|(_, c)| c.order.contains(variant)))
        .collect();
    let limit = limit(groups.iter().map(|(_, comparison)| *comparison));
    let names: Vec<String> = groups.iter().map(|(name, _)| name.clone()).collect();
    let panel = Panel {
        title: String::new(),
        x: Axis::from_zero(measure(analysis), limit * 1.1, Unit::Percent),
        y: Axis::names(&names),
        marks: groups
            .iter()
            .enumerate()
            .flat_map(|(at, (_, c))| group(seen, &variants, at, c, limit))
            .collect(),
        height: 60 + (groups.len() * (variants.len() * 13 + 10)) as u32,
    };
    let metric = &analysis.metric;
    let about = format!(
        "Bars of {} for each task, in per cent of the best variant of that task, which is 100% and has no interval: the \
         others are measured by it. Whiskers are {}; one that goes on beyond the picture has an arrow and its end \
         behind it. Variants that share a letter are not significantly different.{}",
        metric.help,
        words::whiskers(groups.iter().map(|(_, comparison)| *comparison), analysis.grid.rounds.len()),
        words::left_out(seen, analysis, &groups, &without)
    );
    Some(Chart {
        form: Form::Normalised,
        panels: vec![panel],
        legend: seen.legend(variants, false),
        ..Chart::new(format!("ratios-{}", metric.id), format!("{}, best = 100%", metric.id), about)
    })
}

/// The comparisons: of each task, and of all tasks together.
fn groups(analysis: &Analysis) -> Vec<(String, &Comparison)> {
    let mut groups: Vec<(String, &Comparison)> = vec![];
    let several = analysis.tasks().count() > 1;
    if let Some(overall) = analysis.overall.as_ref().filter(|_| several) {
        if let Some(total) = &overall.total {
            groups.push(("TOTAL".into(), &total.comparison));
        }
        groups.push(("GEOMETRIC MEAN".into(), &overall.geometric.comparison));
    }
    if analysis.tasks().count() <= MOST {
        groups.extend(analysis.tasks().map(|task| (label(&task.task), &task.comparison)));
    }
    groups
}

fn measure(analysis: &Analysis) -> String {
    let better = match analysis.metric.direction {
        Direction::Lower => "; shorter is better",
        Direction::Higher => "; longer is better",
        Direction::Neutral => "",
    };
    format!("{} in per cent of the best{better}", analysis.metric.id)
}

fn group(seen: &Seen, variants: &[usize], at: usize, comparison: &Comparison, limit: f64) -> Vec<Mark> {
    let height = 0.84 / variants.len() as f64;
    let row = |(row, variant): (usize, &usize)| {
        let top = -(at as f64) - 0.08 - row as f64 * height;
        bar(comparison, *variant, seen.colours[*variant], (top - height * 0.9, top), limit)
    };
    variants.iter().enumerate().flat_map(row).collect()
}

/// Where bars and whiskers of these comparisons end, in per cent of the best.
pub fn limit<'c>(comparisons: impl Iterator<Item = &'c Comparison>) -> f64 {
    let ratios = comparisons.flat_map(|comparison| &comparison.variants).filter_map(|variant| variant.ratio);
    let (longest, furthest) = ratios.fold((1f64, 1f64), |(longest, furthest), ratio| {
        (longest.max(ratio.value), furthest.max(ratio.high))
    });
    100.0 * furthest.max(longest).min(longest * REACH)
}

/// One variant in per cent of the best: a bar from zero, its interval, its figure and letters.
pub fn bar(comparison: &Comparison, variant: usize, colour: Colour, y: (f64, f64), limit: f64) -> Vec<Mark> {
    let (result, is_best) = (&comparison.variants[variant], comparison.best() == Some(variant));
    let value = if is_best { Some(100.0) } else { result.ratio.map(|ratio| 100.0 * ratio.value) };
    let Some(value) = value else { return vec![] };
    let middle = (y.0 + y.1) / 2.0;
    let mut marks = vec![Mark::Box { x: (0.0, value), y, colour, opacity: 1.0 }];
    let mut end = String::new();
    if let Some(ratio) = result.ratio.filter(|ratio| !is_best && ratio.rounds > 1) {
        let (low, high) = (100.0 * ratio.low, 100.0 * ratio.high);
        if high > limit {
            end = format!(" →{}%", three(high));
        }
        marks.push(Mark::Across { x: (low, high), y: middle, beyond: (high > limit).then(String::new) });
    }
    let few = !is_best && result.ratio.is_some_and(|ratio| ratio.provisional);
    let letters = if few || comparison.provisional() { "?" } else { &result.letters };
    marks.push(Mark::Figure {
        y: middle,
        text: format!("{}% {letters}{end}", three(value)),
        colour: if is_best { theme::INK } else { theme::SOFT },
        strong: is_best,
    });
    marks
}
