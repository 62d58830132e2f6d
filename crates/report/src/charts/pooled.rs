//! Latency by percentile of all rounds together, every latency that was counted.

use super::latency::{by_percentile, chosen};
use crate::drawing::{Chart, Panel};
use crate::seen::Seen;
use fsarena_core::latency::Latencies;

/// The most points of a line.
const POINTS: usize = 200;

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    let latencies = &seen.record().latencies;
    let mut tasks: Vec<usize> = latencies.keys().map(|(task, _)| *task).collect();
    tasks.dedup();
    let shown = chosen(seen, &tasks);
    let variants = seen.variants(|at| latencies.keys().any(|(_, of)| *of == at));
    let panels = shown.into_iter().map(|task| panel(seen, task)).collect();
    let about = format!(
        "Latency of all requests of all rounds by percentile; every nine is as wide as the one before. A line ends where \
         ten requests lie beyond it. These are shown, not compared: comparisons take the percentile of each round.{}",
        seen.not_drawn(&variants, "no latencies")
    );
    let chart = Chart::new("latency-pooled", "Latency of all rounds together", about);
    vec![Chart { legend: seen.legend(&variants, false), ..chart.in_pairs(panels) }]
}

fn panel(seen: &Seen, task: usize) -> Panel {
    let (mut marks, mut all) = (vec![], vec![]);
    for ((_, variant), of) in seen.record().latencies.iter().filter(|((at, _), _)| *at == task) {
        let points = curve(of);
        marks.push(seen.looks[*variant].line(&points, 1.75));
        all.extend(points);
    }
    let nines = |nines: u32| match nines {
        0 => "0%".to_string(),
        1 => "90%".into(),
        2 => "99%".into(),
        more => format!("99.{}%", "9".repeat(more as usize - 2)),
    };
    let last = (all.iter().map(|(x, _)| *x).fold(0.0, f64::max).ceil() as u32).max(1);
    let ticks = (0..=last).map(|at| (f64::from(at), nines(at))).collect();
    by_percentile(seen, task, (ticks, f64::from(last)), all.into_iter().map(|(_, y)| y), marks)
}

/// Points at −lg(1 − q), evenly spaced up to where ten requests lie beyond; the latencies in nanoseconds.
fn curve(of: &Latencies) -> Vec<(f64, f64)> {
    let last = (of.count() as f64 / 10.0).log10().max(0.0);
    let at = |point: usize| last * point as f64 / POINTS as f64;
    let point = |x: f64| Some((x, of.quantile(1.0 - 10f64.powf(-x))?.max(1) as f64));
    (0..=POINTS).filter_map(|number| point(at(number))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_ends_where_ten_requests_lie_beyond_it() {
        let curve = curve(&Latencies::new([(100, 900), (200, 90), (240, 10)]));
        let (first, last) = (curve[0], curve[POINTS]);
        assert_eq!((first, last.1), ((0.0, 100.0), 200.0));
        assert!((last.0 - 2.0).abs() < 1e-9, "1000 requests: the 99th percentile is the last");
    }
}
