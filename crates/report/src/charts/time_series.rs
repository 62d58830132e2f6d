//! Throughput within a task: operations a second, stretch by stretch, and what was left out as warm-up.

use super::latency::shown;
use crate::drawing::{Axis, Chart, Key, Mark, Panel, Sign, theme};
use crate::time_series::{self, TimeSeries, left_out};
use crate::{seen::Seen, words::label};
use fsarena_core::sample::Unit;

/// How much the mark of the warm-up covers.
const WARM_UP: f64 = 0.35;

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    let all = time_series::of(seen.record());
    let several = all.iter().filter(|series| series.stretches.len() > 1);
    let mut tasks: Vec<usize> = several.map(|series| series.task).collect();
    tasks.dedup();
    let (shown, rest) = shown(seen, &tasks);
    let of_task = |task: usize| all.iter().filter(|series| series.task == task).collect::<Vec<_>>();
    let panels = shown.into_iter().map(|task| panel(seen, task, &of_task(task))).collect();
    let variants = seen.variants(|variant| all.iter().any(|series| series.variant == variant));
    let absent = seen.not_drawn(&variants, "no time series");
    let mut legend = seen.legend(&variants, true);
    if all.iter().flat_map(|series| &series.stretches).any(|stretch| stretch.warm_up) {
        legend.push(Key::new("warm-up, left out of all figures", theme::WARM, Sign::Area(WARM_UP)));
    }
    let about = format!(
        "Operations a second in each stretch of a task: lines are medians over rounds, bands the least and the most \
         of all rounds, none of one round. A load that is steady is level.{rest}{absent}{}",
        left_out(&seen.record().series)
            .map_or(String::new(), |rest| format!(" Not all rounds are drawn: {rest}."))
    );
    let chart = Chart::new("time-series", "Throughput within a task", about);
    vec![Chart { legend, ..chart.in_pairs(panels) }]
}

fn panel(seen: &Seen, task: usize, all: &[&TimeSeries]) -> Panel {
    let stretches = || all.iter().flat_map(|series| &series.stretches);
    let end = stretches().map(|stretch| stretch.start_s + stretch.length_s).fold(0.0, f64::max);
    let most = stretches().map(|stretch| stretch.operations_range_per_s.1).fold(0.0, f64::max);
    let warm = stretches().filter(|stretch| stretch.warm_up);
    let warm = warm.map(|stretch| stretch.start_s + stretch.length_s).fold(0.0, f64::max);
    let mut marks = vec![];
    if warm > 0.0 {
        let (x, y) = ((0.0, warm), (0.0, most * 1.02));
        marks.push(Mark::Box { x, y, colour: theme::WARM, opacity: WARM_UP });
    }
    for series in all {
        let look = seen.looks[series.variant];
        let middles = || series.stretches.iter().map(|one| (one.start_s + one.length_s / 2.0, one));
        let band = middles().map(|(x, one)| (x, one.operations_range_per_s.0, one.operations_range_per_s.1));
        let points: Vec<(f64, f64)> = middles().map(|(x, one)| (x, one.operations_per_s)).collect();
        if series.rounds > 1 {
            marks.push(Mark::Band { points: band.collect(), colour: look.colour });
        }
        marks.push(look.line(&points, 1.5));
        // A few points tell lines apart where colours do not.
        let every = points.len().div_ceil(8).max(1);
        marks.extend(look.dots(points.into_iter().step_by(every)));
    }
    let x = Axis::from_zero("since the load began", end, Unit::Seconds);
    let y = Axis::from_zero("operations a second", most, Unit::PerSecond);
    Panel::new(label(&seen.record().tasks[task]), x, y, 230, marks)
}
