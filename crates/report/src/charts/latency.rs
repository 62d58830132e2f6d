//! Latency by percentile, as HdrHistogram plots it: each nine as wide as the one before.

use crate::matrix;
use crate::seen::{Seen, typical};
use crate::words::{label, not_drawn};
use fsarena_charts::{Axis, Chart, Mark, Panel, Shape};
use fsarena_core::cell::TaskInfo;
use fsarena_core::sample::Unit;
use fsarena_stats::comparison::median;
use fsarena_stats::grid::Grid;

/// The percentiles that readings have, and where they stand: −lg(1 − q).
const PERCENTILES: [(&str, &str, f64); 4] =
    [("p50", "50%", 0.301), ("p95", "95%", 1.301), ("p99", "99%", 2.0), ("p999", "99.9%", 3.0)];
/// Where the longest stands: beyond all of them.
const LONGEST: f64 = 3.7;
/// The kinds of operations that readings tell apart.
const KINDS: [(&str, &str); 6] = [
    ("commit", "durable commits"),
    ("read", "reads"),
    ("write", "writes"),
    ("sync", "syncs"),
    ("flush", "dbench's Flush, which syncs a file"),
    ("corrected", "operations from their intended start"),
];
/// The most panels of a picture.
const MOST: usize = 12;

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    KINDS.iter().filter_map(|(prefix, words)| chart(seen, prefix, words)).collect()
}

fn chart(seen: &Seen, prefix: &str, words: &str) -> Option<Chart> {
    let quantiles: Vec<(&str, f64, Grid)> = (PERCENTILES.iter().map(|(id, name, at)| (*id, *name, *at)))
        .chain([("max", "longest", LONGEST)])
        .filter_map(|(id, name, at)| Some((name, at, seen.grid(&format!("{prefix}_latency_{id}_ns"))?.1)))
        .collect();
    let (_, _, first) = quantiles.first()?;
    // Some loads tell only some of the percentiles.
    let any = |of: &dyn Fn(&Grid) -> bool| quantiles.iter().any(|(_, _, grid)| of(grid));
    let tasks: Vec<usize> = (0..first.values.len())
        .filter(|task| any(&|grid| grid.values[*task].iter().flatten().any(|value| *value > 0.0)))
        .collect();
    let has = |variant: &usize| {
        any(&|grid| tasks.iter().any(|task| grid.values[*task][*variant].iter().any(|value| *value > 0.0)))
    };
    let variants: Vec<usize> = (0..seen.record().variants.len()).filter(has).collect();
    let mut shown = chosen(seen, &tasks);
    // Loads run in random order; a reader wants theirs.
    shown.sort_by_key(|task| place(&seen.record().tasks[*task]));
    let panels: Vec<Panel> = shown.iter().map(|task| panel(seen, &quantiles, *task)).collect();
    if panels.is_empty() {
        return None;
    }
    let rest = match tasks.len() - shown.len() {
        0 => String::new(),
        _ => format!(" Of {} tasks, those with the most threads of each mode are shown.", tasks.len()),
    };
    let about = format!(
        "Latency of {words} by percentile; every nine is as wide as the one before, and the longest of all stands at \
         the right. Lines are medians over rounds, bars 95% intervals (under 8 rounds the extremes seen), none of one \
         round.{rest}{}",
        not_drawn(&seen.others(&variants), "no such operations")
    );
    Some(Chart {
        columns: if panels.len() > 1 { 2 } else { 1 },
        panels,
        legend: seen.legend(variants, true),
        ..Chart::new(format!("latency-{prefix}"), format!("Latency of {words}"), about)
    })
}

/// Where a task stands among others: by name, block size and threads.
pub fn place(task: &TaskInfo) -> (String, Option<(u64, u32)>) {
    (task.id.name.clone(), matrix::place(&task.id))
}

/// All tasks where they are few; else of each name those with the most threads.
pub fn chosen(seen: &Seen, tasks: &[usize]) -> Vec<usize> {
    if tasks.len() <= MOST {
        return tasks.to_vec();
    }
    let threads = |task: &usize| {
        let id = &seen.record().tasks[*task].id;
        let count = id.params.get("threads").or(id.params.get("clients"));
        count.and_then(|count| count.parse::<u32>().ok()).unwrap_or(0)
    };
    let name = |task: &usize| seen.record().tasks[*task].id.name.as_str();
    let most = |of: &str| tasks.iter().filter(|task| name(task) == of).map(threads).max().unwrap_or(0);
    tasks.iter().copied().filter(|task| threads(task) == most(name(task))).take(MOST).collect()
}

fn panel(seen: &Seen, quantiles: &[(&str, f64, Grid)], task: usize) -> Panel {
    let mut marks = vec![];
    let (mut low, mut high) = (f64::INFINITY, 0f64);
    for (variant, colour) in seen.colours.iter().copied().enumerate() {
        let mut points = vec![];
        for (_, at, grid) in quantiles {
            let values: Vec<f64> =
                grid.values[task][variant].iter().copied().filter(|value| *value > 0.0).collect();
            let Some(middle) = median(&values) else { continue };
            points.push((*at, middle));
            (low, high) = (low.min(middle), high.max(middle));
            if let Some(typical) = typical(&values) {
                (low, high) = (low.min(typical.low), high.max(typical.high));
                marks.push(Mark::Up { x: *at, y: (typical.low, typical.high), colour });
            }
        }
        marks.push(Mark::Line { points: points.clone(), colour, width: 1.75, dash: seen.dashes[variant] });
        marks.extend(points.into_iter().map(|at| Mark::Dot { at, colour, shape: Shape::of_series(variant) }));
    }
    let ticks = quantiles.iter().map(|(name, at, _)| (*at, name.to_string())).collect();
    Panel {
        title: label(&seen.record().tasks[task]),
        x: Axis { label: "percentile".into(), range: (0.0, 4.0), log: false, ticks, grid: true },
        y: Axis::log_in("latency", low / 1.2, high * 1.2, Unit::Nanoseconds),
        marks,
        height: 230,
    }
}
