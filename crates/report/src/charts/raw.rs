//! Bars in the unit of the metric: one panel a task, the total first.

use super::bars::MOST;
use super::{Kind, Seen, tasks};
use crate::number::{plural, with_unit};
use crate::plot::colour::theme;
use crate::plot::{Anchor, Axis, Chart, Mark, Panel, Variant};
use crate::sections::matrix;
use fsarena_core::sample::Unit;
use fsarena_stats::analyse::Analysis;
use fsarena_stats::comparison::median;
use fsarena_stats::composite::sums;
use fsarena_stats::ratio::Ratio;

/// Bars in the unit of the metric.
pub struct Raw;

impl Kind for Raw {
    fn id(&self) -> &'static str {
        "raw"
    }

    fn charts(&self, seen: &Seen) -> Vec<Chart> {
        let analyses = seen.report.analyses.iter().filter(|analysis| !matrix::fits(analysis));
        analyses.filter_map(|analysis| chart(seen, analysis)).collect()
    }
}

fn chart(seen: &Seen, analysis: &Analysis) -> Option<Chart> {
    let (info, grid) = seen.grid(&analysis.metric.id)?;
    let tasks = tasks(seen.record(), &grid);
    let arms: Vec<usize> = (0..seen.record().arms.len())
        .filter(|arm| tasks.iter().any(|(_, values)| values[*arm].iter().any(|value| !value.is_nan())))
        .collect();
    if tasks.is_empty() || arms.len() < 2 {
        return None;
    }
    let mut panels = vec![];
    if tasks.len() > 1 && analysis.overall.as_ref().is_some_and(|overall| overall.total.is_some()) {
        let all: Vec<_> = tasks.iter().map(|(_, values)| *values).collect();
        panels.push(panel(
            seen,
            &arms,
            format!("TOTAL of {}", plural(tasks.len(), "task")),
            &sums(&all),
            info.unit,
        ));
    }
    if tasks.len() <= MOST {
        panels.extend(tasks.into_iter().map(|(name, values)| panel(seen, &arms, name, values, info.unit)));
    }
    let about = format!(
        "Bars from zero of {}, one panel a task, each with a scale of its own. A bar is the median over blocks; its \
         whisker the 95% interval of the typical value (under 8 blocks the extremes seen), which includes the drift \
         of the machine that comparisons within blocks are free of.",
        info.help
    );
    Some(Chart {
        variant: Variant::Raw,
        columns: if panels.len() > 1 { 2 } else { 1 },
        panels,
        legend: seen.legend(arms, false),
        ..Chart::new(format!("raw-{}", info.id), format!("{}, medians", info.id), about)
    })
    .filter(|chart| !chart.panels.is_empty())
}

fn panel(seen: &Seen, arms: &[usize], title: String, values: &[Vec<f64>], unit: Unit) -> Panel {
    let typical = |arm: usize| {
        let logs = values[arm].iter().filter(|value| **value > 0.0).map(|value| value.ln());
        Ratio::of(logs.collect())
    };
    let shown: Vec<_> = arms.iter().map(|arm| (*arm, median(&values[*arm]), typical(*arm))).collect();
    let longest = shown.iter().filter_map(|(_, middle, _)| *middle).fold(0.0, f64::max);
    let furthest = shown.iter().filter_map(|(_, _, typical)| typical.map(|t| t.high)).fold(longest, f64::max);
    let limit = furthest.min(longest * 1.6);
    let mut marks = vec![];
    for (row, (arm, middle, typical)) in shown.iter().enumerate() {
        let Some(middle) = middle else { continue };
        let at = Axis::slot(row);
        marks.push(Mark::Box {
            x: (0.0, *middle),
            y: (at - 0.38, at + 0.38),
            colour: seen.colours[*arm],
            opacity: 1.0,
        });
        let mut end = *middle;
        if let Some(typical) = typical.filter(|typical| typical.blocks > 1) {
            marks.push(Mark::Across {
                x: (typical.low, typical.high.min(limit)),
                y: at,
                open: typical.high > limit,
            });
            end = end.max(typical.high.min(limit));
        }
        marks.push(Mark::Words {
            at: (end, at),
            shift: (6, 0),
            text: with_unit(*middle, unit),
            colour: theme::SOFT,
            anchor: Anchor::Start,
            strong: false,
        });
    }
    let names: Vec<String> = arms.iter().map(|arm| seen.name(*arm).to_string()).collect();
    Panel {
        title,
        x: Axis::from_zero("", limit * 1.3, unit),
        y: Axis::names(&names),
        marks,
        height: 54 + 17 * arms.len() as u32,
    }
}
