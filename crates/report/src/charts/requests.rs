//! Charts of the cost of a request: a bar for each variant, and consumption over load with the line that fits it.

use crate::drawing::{Axis, Chart, Mark, Panel};
use crate::{chart_context::ChartContext, number::three_digits, phrases::not_drawn_note};
use fsarena_core::{metric, observations::Grid, sample::Unit};
use fsarena_stats::cost::{CostLine, LoadWindows, RequestCost};

/// The metrics of the cost of a request.
const COST_METRICS: [&str; 4] = ["user_per_request", "system_per_request", "cpu_per_request", "iowait_per_request"];
/// The metric of requests a second.
const LOAD_METRIC: &str = "request_rate";

/// The windows of one variant in order of time.
struct ServiceWindows {
    variant: usize,
    /// Requests a second.
    load: Vec<f64>,
    /// Consumption a second.
    consumption: Vec<f64>,
}

impl ServiceWindows {
    fn windows(&self) -> LoadWindows<'_> {
        LoadWindows { load: &self.load, consumption: &self.consumption }
    }
}

/// Two charts: the cost of a request of each variant, and consumption over load with the line that fits.
pub fn charts(context: &ChartContext) -> Vec<Chart> {
    let has_requests = |grid: &Grid| grid.values.iter().flatten().flatten().any(|load| *load > 0.0);
    let Some(loads) = Grid::of(context.record(), LOAD_METRIC).filter(has_requests) else {
        return vec![];
    };
    let (mut costs, mut zeros) = (vec![], vec![]);
    for id in COST_METRICS {
        let services = service_windows(context, &loads, id);
        if services.iter().flat_map(|service| &service.consumption).any(|consumption| *consumption > 0.0) {
            costs.push((id, services));
        } else if !services.is_empty() {
            zeros.push(id.to_string());
        }
    }
    let drawn = context
        .variants(|variant| costs.iter().flat_map(|(_, services)| services).any(|service| service.variant == variant));
    let left_out = not_drawn_note(&zeros, "zero throughout")
        + &context.not_drawn_note(&drawn, "under two windows in which requests were served");
    let about_bars = "The sum of the consumption divided by the number of requests, a panel for each resource, bars from \
                      zero. Whiskers are 95% intervals by the number of independent windows; a whisker that is cut off has \
                      an arrow, and after it the number at which it ends. A resource that is zero in every window has no \
                      panel.";
    let about_load = "Every point is one window: its requests a second and its consumption a second. The line is the \
                      least-squares fit, the band its 95% interval (HC3); a line that is above zero without load shows a \
                      fixed overhead.";
    let bar_panels = costs.iter().map(|(id, services)| cost_panel(context, id, services)).collect();
    let load_panels = costs.iter().map(|(id, services)| load_panel(context, id, services)).collect();
    let bars = Chart::new("requests", "What a request costs", format!("{about_bars}{left_out}"));
    let over_load = Chart::new("requests-load", "Consumption over load", format!("{about_load}{left_out}"));
    vec![
        Chart { legend: context.legend(&drawn, false), ..bars.with_panels(bar_panels) },
        Chart { legend: context.legend(&drawn, true), ..over_load.with_panels(load_panels) },
    ]
}

/// The windows of the variants with at least two windows in which requests were served. `cost` is the metric.
fn service_windows(context: &ChartContext, loads: &Grid, cost: &str) -> Vec<ServiceWindows> {
    let Some(grid) = Grid::of(context.record(), cost) else { return vec![] };
    // If some tasks have a request rate, the tasks without one only fill the cache.
    let has_rate: Vec<bool> = context.record().tasks.iter().map(|task| task.id.params.contains_key("rate")).collect();
    let serves = |task: usize| has_rate[task] || !has_rate.contains(&true);
    let mut services = vec![];
    for variant in 0..context.record().variants.len() {
        let mut service = ServiceWindows { variant, load: vec![], consumption: vec![] };
        // Round by round: the estimate requires windows in order of time.
        for round in 0..grid.rounds.len() {
            for task in (0..grid.values.len()).filter(|task| serves(*task)) {
                let (load, cost) = (loads.values[task][variant][round], grid.values[task][variant][round]);
                if load > 0.0 && cost.is_finite() {
                    service.load.push(load);
                    service.consumption.push(load * cost);
                }
            }
        }
        if service.load.len() > 1 {
            services.push(service);
        }
    }
    services
}

/// The panel of bars of the cost of a request.
fn cost_panel(context: &ChartContext, cost: &str, services: &[ServiceWindows]) -> Panel {
    let row = |service: &ServiceWindows| {
        let ratio = RequestCost::of(service.windows());
        let whisker = ratio.as_ref().and_then(RequestCost::estimate).map(|estimate| (estimate.low, estimate.high));
        (service.variant, ratio.map(|ratio| ratio.value), whisker)
    };
    let rows: Vec<_> = services.iter().map(row).collect();
    context.bar_panel((cost, "a request"), Unit::Seconds, &rows, (66, 18))
}

/// The panel of consumption over load: a point for each window, and the fitted line with its band.
fn load_panel(context: &ChartContext, cost: &str, services: &[ServiceWindows]) -> Panel {
    let max_load = services.iter().flat_map(|service| &service.load).copied().fold(0.0, f64::max);
    let max_consumption = services.iter().flat_map(|service| &service.consumption).copied().fold(0.0, f64::max);
    let (load, consumption) = (max_load * 1.05, max_consumption * 1.1);
    let mut marks = vec![];
    for service in services {
        let style = context.styles[service.variant];
        if let Some(line) = CostLine::of(service.windows()) {
            const STEPS: u32 = 24;
            let load_at = |step: u32| load * f64::from(step) / f64::from(STEPS);
            let band = (0..=STEPS).filter_map(|step| {
                let consumption = line.interval_at(load_at(step))?;
                Some((load_at(step), consumption.low.max(0.0), consumption.high.max(0.0)))
            });
            marks.push(Mark::Band { points: band.collect(), colour: style.colour });
            marks.push(style.line_mark(&[0.0, load].map(|load| (load, line.consumption_at(load).0.max(0.0))), 1.5));
        }
        marks.extend(style.dot_marks(service.load.iter().copied().zip(service.consumption.iter().copied())));
    }
    let resource = metric::find(cost).map_or("", |_| cost.trim_end_matches("_per_request"));
    let x = Axis::linear("requests a second", 0.0, load, three_digits);
    Panel::new(resource, x, Axis::from_zero("consumption a second", consumption, Unit::Seconds), 230, marks)
}
