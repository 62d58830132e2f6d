//! Latency by percentile, as HdrHistogram plots it: each nine as wide as the one before.

use super::{Kind, Seen, not_drawn, typical};
use crate::plot::{Axis, Chart, Mark, Panel, Shape};
use crate::sections::{label, matrix};
use fsarena_core::cell::StepInfo;
use fsarena_core::sample::Unit;
use fsarena_stats::comparison::median;
use fsarena_stats::grid::Grid;

/// Latency percentiles.
pub struct Latency;

/// The percentiles that readings have, and where they stand: −lg(1 − q).
const PERCENTILES: [(&str, &str, f64); 4] =
    [("p50", "50%", 0.301), ("p95", "95%", 1.301), ("p99", "99%", 2.0), ("p999", "99.9%", 3.0)];
/// Where the longest stands: beyond all of them.
const LONGEST: f64 = 3.7;
/// The kinds of operations that readings tell apart.
const KINDS: [(&str, &str); 5] = [
    ("read", "reads"),
    ("write", "writes"),
    ("sync", "syncs"),
    ("flush", "dbench's Flush, which syncs a file"),
    ("corrected", "operations from their intended start"),
];
/// The most panels of a picture.
const MOST: usize = 12;

impl Kind for Latency {
    fn id(&self) -> &'static str {
        "latency"
    }

    fn charts(&self, seen: &Seen) -> Vec<Chart> {
        KINDS.iter().filter_map(|(prefix, words)| chart(seen, prefix, words)).collect()
    }
}

fn chart(seen: &Seen, prefix: &str, words: &str) -> Option<Chart> {
    let quantiles: Vec<(&str, f64, Grid)> = (PERCENTILES.iter().map(|(id, name, at)| (*id, *name, *at)))
        .chain([("max", "longest", LONGEST)])
        .filter_map(|(id, name, at)| Some((name, at, seen.grid(&format!("{prefix}_latency_{id}_ns"))?.1)))
        .collect();
    let (_, _, first) = quantiles.first()?;
    // Some loads tell only some of the percentiles.
    let any = |of: &dyn Fn(&Grid) -> bool| quantiles.iter().any(|(_, _, grid)| of(grid));
    let steps: Vec<usize> = (0..first.values.len())
        .filter(|step| any(&|grid| grid.values[*step].iter().flatten().any(|value| *value > 0.0)))
        .collect();
    let has = |arm: &usize| {
        any(&|grid| steps.iter().any(|step| grid.values[*step][*arm].iter().any(|value| *value > 0.0)))
    };
    let arms: Vec<usize> = (0..seen.record().arms.len()).filter(has).collect();
    let mut shown = chosen(seen, &steps);
    // Loads run in random order; a reader wants theirs.
    shown.sort_by_key(|step| place(&seen.record().steps[*step]));
    let panels: Vec<Panel> = shown.iter().map(|step| panel(seen, &quantiles, *step)).collect();
    if panels.is_empty() {
        return None;
    }
    let rest = match steps.len() - shown.len() {
        0 => String::new(),
        _ => format!(" Of {} steps, those with the most threads of each mode are shown.", steps.len()),
    };
    let about = format!(
        "Latency of {words} by percentile; every nine is as wide as the one before, and the longest of all stands at \
         the right. Lines are medians over blocks, bars 95% intervals (under 8 blocks the extremes seen), none of one \
         block.{rest}{}",
        not_drawn(&seen.others(&arms), "no such operations")
    );
    Some(Chart {
        columns: if panels.len() > 1 { 2 } else { 1 },
        panels,
        legend: seen.legend(arms, true),
        ..Chart::new(format!("latency-{prefix}"), format!("Latency of {words}"), about)
    })
}

/// Where a step stands among others: by name, block size and threads.
pub fn place(step: &StepInfo) -> (String, Option<(u64, u32)>) {
    (step.id.name.clone(), matrix::place(&step.id))
}

/// All steps where they are few; else of each name those with the most threads.
pub fn chosen(seen: &Seen, steps: &[usize]) -> Vec<usize> {
    if steps.len() <= MOST {
        return steps.to_vec();
    }
    let threads = |step: &usize| {
        let id = &seen.record().steps[*step].id;
        let count = id.params.get("threads").or(id.params.get("clients"));
        count.and_then(|count| count.parse::<u32>().ok()).unwrap_or(0)
    };
    let name = |step: &usize| seen.record().steps[*step].id.name.as_str();
    let most = |of: &str| steps.iter().filter(|step| name(step) == of).map(threads).max().unwrap_or(0);
    steps.iter().copied().filter(|step| threads(step) == most(name(step))).take(MOST).collect()
}

fn panel(seen: &Seen, quantiles: &[(&str, f64, Grid)], step: usize) -> Panel {
    let mut marks = vec![];
    let (mut low, mut high) = (f64::INFINITY, 0f64);
    for (arm, colour) in seen.colours.iter().copied().enumerate() {
        let mut points = vec![];
        for (_, at, grid) in quantiles {
            let values: Vec<f64> =
                grid.values[step][arm].iter().copied().filter(|value| *value > 0.0).collect();
            let Some(middle) = median(&values) else { continue };
            points.push((*at, middle));
            (low, high) = (low.min(middle), high.max(middle));
            if let Some(typical) = typical(&values) {
                (low, high) = (low.min(typical.low), high.max(typical.high));
                marks.push(Mark::Up { x: *at, y: (typical.low, typical.high), colour });
            }
        }
        marks.push(Mark::Line { points: points.clone(), colour, width: 1.75, dash: seen.dashes[arm] });
        marks.extend(points.into_iter().map(|at| Mark::Dot { at, colour, shape: Shape::of_series(arm) }));
    }
    let ticks = quantiles.iter().map(|(name, at, _)| (*at, name.to_string())).collect();
    Panel {
        title: label(&seen.record().steps[step]),
        x: Axis { label: "percentile".into(), range: (0.0, 4.0), log: false, ticks, grid: true },
        y: Axis::log_in("latency", low / 1.2, high * 1.2, Unit::Nanoseconds),
        marks,
        height: 230,
    }
}
