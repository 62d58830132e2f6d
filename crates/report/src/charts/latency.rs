//! Latency by percentile, as HdrHistogram plots it: each nine as wide as the one before.

use crate::drawing::{Axis, Chart, Mark, Panel};
use crate::seen::{Seen, ends};
use crate::{matrix, words::label};
use fsarena_core::observations::Grid;
use fsarena_core::sample::Unit;
use fsarena_stats::comparison::median;
use fsarena_stats::ratio::Ratio;

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
/// The most panels of a chart.
const MOST: usize = 12;

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    KINDS.iter().map(|kind| chart(seen, kind)).collect()
}

fn chart(seen: &Seen, (prefix, words): &(&str, &str)) -> Chart {
    let quantiles: Vec<(&str, f64, Grid)> = (PERCENTILES.iter().map(|(id, name, at)| (*id, *name, *at)))
        .chain([("max", "longest", LONGEST)])
        .filter_map(|(id, name, at)| {
            Some((name, at, Grid::of(seen.record(), &format!("{prefix}_latency_{id}_ns"))?))
        })
        .collect();
    // Some loads tell only some of the percentiles.
    let measured = |task: usize, variant: usize| {
        quantiles.iter().any(|(.., grid)| grid.values[task][variant].iter().any(|value| *value > 0.0))
    };
    let has_any = |task: &usize| !seen.variants(|variant| measured(*task, variant)).is_empty();
    let tasks: Vec<usize> = (0..seen.record().tasks.len()).filter(has_any).collect();
    let variants = seen.variants(|variant| tasks.iter().any(|task| measured(*task, variant)));
    let (shown, rest) = shown(seen, &tasks);
    let panels = shown.into_iter().map(|task| panel(seen, &quantiles, task)).collect();
    let about = format!(
        "Latency of {words} by percentile; every nine is as wide as the one before, and the longest of all stands at \
         the right. Lines are medians over rounds, bars 95% intervals (under 8 rounds the extremes seen), none of one \
         round.{rest}{}",
        seen.not_drawn(&variants, "no such operations")
    );
    let chart = Chart::new(format!("latency-{prefix}"), format!("Latency of {words}"), about);
    Chart { legend: seen.legend(&variants, true), ..chart.in_pairs(panels) }
}

/// The tasks of [`chosen`] by name, block size and threads, and a sentence where others are not shown.
pub fn shown(seen: &Seen, tasks: &[usize]) -> (Vec<usize>, String) {
    let mut shown = chosen(seen, tasks);
    // Loads run in random order; a reader wants theirs.
    let id = |task: &usize| &seen.record().tasks[*task].id;
    shown.sort_by_key(|task| (&id(task).name, matrix::place(id(task))));
    let rest = match tasks.len() - shown.len() {
        0 => String::new(),
        _ => format!(" Of {} tasks, those with the most threads of each mode are shown.", tasks.len()),
    };
    (shown, rest)
}

/// All tasks where they are few; else of each name those with the most threads.
pub fn chosen(seen: &Seen, tasks: &[usize]) -> Vec<usize> {
    if tasks.len() <= MOST {
        return tasks.to_vec();
    }
    let threads = |task: &usize| {
        seen.record().tasks[*task].id.clients().and_then(|count| count.parse::<u32>().ok()).unwrap_or(0)
    };
    let name = |task: &usize| seen.record().tasks[*task].id.name.as_str();
    let most = |of: &str| tasks.iter().filter(|task| name(task) == of).map(threads).max().unwrap_or(0);
    tasks.iter().copied().filter(|task| threads(task) == most(name(task))).take(MOST).collect()
}

fn panel(seen: &Seen, quantiles: &[(&str, f64, Grid)], task: usize) -> Panel {
    let (mut marks, mut all) = (vec![], vec![]);
    for (variant, look) in seen.looks.iter().enumerate() {
        let mut points = vec![];
        for (_, at, grid) in quantiles {
            let mut values = grid.values[task][variant].clone();
            values.retain(|value| *value > 0.0);
            let Some(middle) = median(&values) else { continue };
            points.push((*at, middle));
            all.push(middle);
            if let Some(Ratio { low, high, .. }) = Ratio::typical(&values) {
                all.extend([low, high]);
                marks.push(look.up(*at, (low, high)));
            }
        }
        marks.push(look.line(&points, 1.75));
        marks.extend(look.dots(points));
    }
    let ticks = quantiles.iter().map(|(name, at, _)| (*at, name.to_string())).collect();
    by_percentile(seen, task, (ticks, 4.0), all, marks)
}

/// A panel of one task: percentiles as far as `last`, and an axis that these latencies fit.
pub fn by_percentile(
    seen: &Seen,
    task: usize,
    (ticks, last): (Vec<(f64, String)>, f64),
    latencies: impl IntoIterator<Item = f64>,
    marks: Vec<Mark>,
) -> Panel {
    let (low, high) = ends((f64::INFINITY, 0.0), latencies);
    let x = Axis { label: "percentile".into(), range: (0.0, last), log: false, ticks, grid: true };
    let y = Axis::log_in("latency", low / 1.2, high * 1.2, Unit::Nanoseconds);
    Panel::new(label(&seen.record().tasks[task]), x, y, 230, marks)
}
