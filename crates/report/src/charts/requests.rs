//! Charts of the cost of a request: a bar for each variant, and consumption over load with the line that fits it.

use crate::chart_context::{ChartContext, VariantBar};
use crate::drawing::{Axis, Chart, Mark, Panel};
use crate::number::three_digits;
use crate::phrases::{REQUEST_COST_METRICS, not_drawn_note};
use fsarena_core::{observations::Grid, sample::Unit};
use fsarena_stats::cost::{CostLine, LoadWindows, RequestCost};

/// The metric of requests a second.
const LOAD_METRIC: &str = "request_rate";

/// The windows of the service on one variant, in order of time.
struct ServiceWindows {
    /// The index of the variant.
    variant: usize,
    /// Requests a second in each window.
    load: Vec<f64>,
    /// CPU seconds a second in each window.
    consumption: Vec<f64>,
}

impl ServiceWindows {
    fn load_windows(&self) -> LoadWindows<'_> {
        LoadWindows { load: &self.load, consumption: &self.consumption }
    }
}

/// Two charts: the cost of a request of each variant, and consumption over load with the line that fits.
pub fn request_cost_charts(context: &ChartContext) -> Vec<Chart> {
    let has_requests = |grid: &Grid| grid.values.iter().flatten().flatten().any(|load| *load > 0.0);
    let Some(loads) = Grid::of(context.record(), LOAD_METRIC).filter(has_requests) else {
        return vec![];
    };
    let (mut costs, mut metrics_without_cost) = (vec![], vec![]);
    for metric in REQUEST_COST_METRICS {
        let services = service_windows(context, &loads, metric);
        if services.iter().flat_map(|service| &service.consumption).any(|consumption| *consumption > 0.0) {
            costs.push((metric, services));
        } else if !services.is_empty() {
            metrics_without_cost.push(metric.to_string());
        }
    }
    let drawn = context.variants_where(|variant| {
        costs.iter().flat_map(|(_, services)| services).any(|service| service.variant == variant)
    });
    let left_out_note = not_drawn_note(&metrics_without_cost, "zero throughout")
        + &context.undrawn_variants_note(&drawn, "under two windows in which requests were served");
    let bars_meaning = "The sum of the consumption divided by the number of requests, a panel for each resource, bars from \
                      zero. Whiskers are 95% intervals by the number of independent windows; a whisker that is cut off has \
                      an arrow, and after it the number at which it ends. A resource that is zero in every window has no \
                      panel.";
    let load_meaning = "Every point is one window: its requests a second and its consumption a second. The line is the \
                      least-squares fit, the band its 95% interval (HC3); a line that is above zero without load shows a \
                      fixed overhead.";
    let bar_panels = costs.iter().map(|(metric, services)| cost_panel(context, metric, services)).collect();
    let load_panels = costs.iter().map(|(metric, services)| load_panel(context, metric, services)).collect();
    let bars = Chart::new("requests", "What a request costs", format!("{bars_meaning}{left_out_note}"));
    let over_load = Chart::new("requests-load", "Consumption over load", format!("{load_meaning}{left_out_note}"));
    vec![
        Chart { legend: context.area_legend(&drawn), ..bars.with_panels(bar_panels) },
        Chart { legend: context.line_legend(&drawn), ..over_load.with_panels(load_panels) },
    ]
}

/// The windows of each variant with at least two windows in which requests were served, and the consumption by this metric of
/// the cost of a request.
fn service_windows(context: &ChartContext, loads: &Grid, cost_metric: &str) -> Vec<ServiceWindows> {
    let Some(costs) = Grid::of(context.record(), cost_metric) else { return vec![] };
    // If some tasks have a request rate, the tasks without one only fill the cache.
    let has_request_rate: Vec<bool> =
        context.record().tasks.iter().map(|task| task.id.params.contains_key("rate")).collect();
    let serves_requests = |task: usize| has_request_rate[task] || !has_request_rate.contains(&true);
    let mut services = vec![];
    for variant in 0..context.record().variants.len() {
        let mut service = ServiceWindows { variant, load: vec![], consumption: vec![] };
        // Round by round: the estimate requires windows in order of time.
        for round in 0..costs.rounds.len() {
            for task in (0..costs.values.len()).filter(|task| serves_requests(*task)) {
                let (load, cost) = (loads.values[task][variant][round], costs.values[task][variant][round]);
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
fn cost_panel(context: &ChartContext, cost_metric: &str, services: &[ServiceWindows]) -> Panel {
    let bar = |service: &ServiceWindows| {
        let cost = RequestCost::from_windows(service.load_windows());
        let whisker = cost.as_ref().and_then(RequestCost::estimate).map(|estimate| (estimate.low, estimate.high));
        VariantBar { variant: service.variant, value: cost.map(|cost| cost.value), whisker }
    };
    let bars: Vec<_> = services.iter().map(bar).collect();
    context.bar_panel((cost_metric, "a request"), Unit::Seconds, &bars, (66, 18))
}

/// The panel of consumption over load: a point for each window, and the fitted line with its band.
fn load_panel(context: &ChartContext, cost_metric: &str, services: &[ServiceWindows]) -> Panel {
    let max_load = services.iter().flat_map(|service| &service.load).copied().fold(0.0, f64::max);
    let max_consumption = services.iter().flat_map(|service| &service.consumption).copied().fold(0.0, f64::max);
    let (x_end, y_end) = (max_load * 1.05, max_consumption * 1.1);
    let mut marks = vec![];
    for service in services {
        let style = context.styles[service.variant];
        if let Some(line) = CostLine::fit(service.load_windows()) {
            const STEPS: u32 = 24;
            let load_at = |step: u32| x_end * f64::from(step) / f64::from(STEPS);
            let band = (0..=STEPS).filter_map(|step| {
                let interval = line.interval_at(load_at(step))?;
                Some((load_at(step), interval.low.max(0.0), interval.high.max(0.0)))
            });
            marks.push(Mark::Band { points: band.collect(), colour: style.colour });
            marks.push(style.line_mark(&[0.0, x_end].map(|load| (load, line.consumption_at(load).0.max(0.0))), 1.5));
        }
        marks.extend(style.dot_marks(service.load.iter().copied().zip(service.consumption.iter().copied())));
    }
    let resource = cost_metric.trim_end_matches("_per_request");
    let x_axis = Axis::linear("requests a second", 0.0, x_end, three_digits);
    Panel::new(resource, x_axis, Axis::from_zero("consumption a second", y_end, Unit::Seconds), 230, marks)
}
