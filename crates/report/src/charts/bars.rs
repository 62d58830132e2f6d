//! Grouped bars, normalised: every task, the total and the geometric mean in per cent of the best variant.

mod words;

use crate::drawing::{Axis, Chart, Colour, Form, Mark, Panel, theme};
use crate::seen::{MOST, REACH, Seen, whisker_to};
use crate::{matrix, number::with_unit, words::label};
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::{analyse::Analysis, comparison::Comparison, ratio::Ratio};

/// Why a variant is better than the best, which beats most others.
const CIRCLE: &str = " Where three variants beat each other in a circle, one is better than 100%: that is no significant \
                      difference.";

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
    let compared = || groups.iter().map(|(_, comparison)| *comparison);
    let variants = seen.variants(|variant| compared().any(|c| c.order.contains(&variant)));
    let limit = limit(compared());
    let marks = compared().enumerate().flat_map(|(at, c)| group(seen, &variants, at, c, limit)).collect();
    let x = Axis::from_zero(measure(analysis), limit * 1.1, Unit::Percent);
    let each = (variants.len() * 13 + 10) as u32;
    let panel = Panel::rows("", x, groups.iter().map(|(name, _)| name), (60, each), marks);
    let metric = &analysis.metric;
    let about = format!(
        "Bars of {} for each task, in per cent of the best variant of that task, which is 100% and has no interval: the \
         others are measured by it. Whiskers are {}; one that goes on beyond the picture has an arrow and its end \
         behind it. Variants that share a letter are not significantly different.{}{}",
        metric.help,
        words::whiskers(compared(), analysis.grid.rounds.len()),
        if compared().any(Comparison::has_circle) { CIRCLE } else { "" },
        words::left_out(seen, analysis, &groups, &without)
    );
    let chart = Chart::new(format!("ratios-{}", metric.id), format!("{}, best = 100%", metric.id), about);
    let legend = seen.legend(&variants, false);
    Some(Chart { form: Form::Normalised, panels: vec![panel], legend, ..chart })
}

/// The comparisons: of each task, and of all tasks together.
fn groups(analysis: &Analysis) -> Vec<(String, &Comparison)> {
    let tasks = analysis.tasks().count();
    let overall = analysis.overall.as_ref().filter(|_| tasks > 1);
    let total = overall.and_then(|overall| Some((overall.name.to_uppercase(), overall.total.as_ref()?)));
    let mean = overall.map(|overall| ("GEOMETRIC MEAN".to_string(), &overall.geometric));
    let all = total.into_iter().chain(mean).map(|(name, all)| (name, &all.comparison));
    let each = analysis.tasks().filter(|_| tasks <= MOST);
    all.chain(each.map(|task| (label(&task.task), &task.comparison))).collect()
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
        bar(comparison, *variant, seen.looks[*variant].colour, (top - height * 0.9, top), limit)
    };
    variants.iter().enumerate().flat_map(row).collect()
}

/// Where bars and whiskers of these comparisons end, in per cent of the best.
pub fn limit<'c>(comparisons: impl Iterator<Item = &'c Comparison>) -> f64 {
    let ratios = comparisons.flat_map(|comparison| &comparison.variants).filter_map(|variant| variant.ratio);
    let most =
        |(longest, furthest): (f64, f64), ratio: Ratio| (longest.max(ratio.value), furthest.max(ratio.high));
    let (longest, furthest) = ratios.fold((1.0, 1.0), most);
    100.0 * furthest.max(longest).min(longest * REACH)
}

/// One variant in per cent of the best: a bar from zero, its interval, its figure and letters.
pub fn bar(comparison: &Comparison, variant: usize, colour: Colour, y: (f64, f64), limit: f64) -> Vec<Mark> {
    let (result, is_best) = (&comparison.variants[variant], comparison.best() == Some(variant));
    let value = if is_best { Some(100.0) } else { result.ratio.map(|ratio| 100.0 * ratio.value) };
    let Some(value) = value else { return vec![] };
    let middle = (y.0 + y.1) / 2.0;
    let mut marks = vec![Mark::Box { x: (0.0, value), y, colour, opacity: 1.0 }];
    let ratio = result.ratio.filter(|ratio| !is_best && ratio.rounds > 1);
    let interval = ratio.map(|ratio| (100.0 * ratio.low, 100.0 * ratio.high));
    let (whisker, end) = whisker_to(limit, interval, middle, |high| with_unit(high, Unit::Percent));
    marks.extend(whisker);
    let few = !is_best && result.ratio.is_some_and(|ratio| ratio.provisional);
    let letters = if few || comparison.provisional() { "?" } else { &result.letters };
    marks.push(Mark::Figure {
        y: middle,
        text: format!("{} {letters}{end}", with_unit(value, Unit::Percent)),
        colour: if is_best { theme::INK } else { theme::SOFT },
        strong: is_best,
    });
    marks
}
