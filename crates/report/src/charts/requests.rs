//! What a request costs: bars for each variant, and what was spent over the load, with the line that fits it.

use crate::drawing::{Axis, Chart, Mark, Panel};
use crate::{chart_context::ChartContext, number::three, words::not_drawn};
use fsarena_core::observations::Grid;
use fsarena_core::{metric, sample::Unit};
use fsarena_stats::cost::{Line, PerRequest, Windows};

/// The metrics that are a cost of a request.
const COSTS: [&str; 4] = ["user_per_request", "system_per_request", "cpu_per_request", "iowait_per_request"];
/// Requests a second.
const LOAD: &str = "request_rate";

/// The windows of one variant: loads and spendings, both a second.
struct Service {
    variant: usize,
    load: Vec<f64>,
    spent: Vec<f64>,
}

impl Service {
    fn windows(&self) -> Windows<'_> {
        Windows { load: &self.load, spent: &self.spent }
    }
}

/// The cost of a request of each variant, and spending over load with the line that fits.
pub fn charts(context: &ChartContext) -> Vec<Chart> {
    let served = |grid: &Grid| grid.values.iter().flatten().flatten().any(|load| *load > 0.0);
    let Some(loads) = Grid::of(context.record(), LOAD).filter(served) else {
        return vec![];
    };
    // A panel of nothing but zeros says nothing.
    let spends = |services: &[Service]| services.iter().flat_map(|of| &of.spent).any(|spent| *spent > 0.0);
    let costs = COSTS.into_iter().map(|id| (id, services(context, &loads, id)));
    let (costs, zeros): (Vec<(&str, Vec<Service>)>, Vec<_>) =
        costs.filter(|(_, services)| !services.is_empty()).partition(|(_, services)| spends(services));
    let drawn = context.variants(|variant| costs.iter().flat_map(|(_, of)| of).any(|s| s.variant == variant));
    let zeros: Vec<String> = zeros.iter().map(|(id, _)| id.to_string()).collect();
    let rest = not_drawn(&zeros, "zero throughout")
        + &context.not_drawn(&drawn, "under two windows in which requests were served");
    let chart = |id: &str,
                 title: &str,
                 about: &str,
                 panel: fn(&ChartContext, &str, &[Service]) -> Panel,
                 shapes: bool| {
        let panels = costs.iter().map(|(id, services)| panel(context, id, services)).collect();
        let chart = Chart::new(id, title, format!("{about}{rest}"));
        Chart { legend: context.legend(&drawn, shapes), ..chart.in_pairs(panels) }
    };
    vec![
        chart(
            "requests",
            "What a request costs",
            "The ratio of all that was spent to all requests served, a panel for each resource, bars from zero. \
             Whiskers are 95% intervals with as many windows as are independent; one that goes on beyond the picture \
             has an arrow and its end behind it. What is zero in every window has none.",
            bars,
            false,
        ),
        chart(
            "requests-load",
            "Spending over load",
            "Every point is one window: requests a second, and what was spent a second. The line is the least-squares \
             fit and the band its 95% interval (HC3); a line that does not meet zero at no load is a fixed overhead.",
            scatter,
            true,
        ),
    ]
}

fn services(context: &ChartContext, loads: &Grid, cost: &str) -> Vec<Service> {
    let Some(grid) = Grid::of(context.record(), cost) else { return vec![] };
    // Where requests come at set rates, what has none only fills the cache before them.
    let rated: Vec<bool> =
        context.record().tasks.iter().map(|task| task.id.params.contains_key("rate")).collect();
    let serves = |task: usize| rated[task] || !rated.contains(&true);
    let service = |variant: usize| {
        let mut service = Service { variant, load: vec![], spent: vec![] };
        // Round by round: neighbours in time stay neighbours.
        for round in 0..grid.rounds.len() {
            for task in (0..grid.values.len()).filter(|task| serves(*task)) {
                let (load, cost) = (loads.values[task][variant][round], grid.values[task][variant][round]);
                if load > 0.0 && cost.is_finite() {
                    service.load.push(load);
                    service.spent.push(load * cost);
                }
            }
        }
        service
    };
    (0..context.record().variants.len()).map(service).filter(|service| service.load.len() > 1).collect()
}

fn bars(context: &ChartContext, cost: &str, services: &[Service]) -> Panel {
    let row = |service: &Service| {
        let ratio = PerRequest::of(service.windows());
        let whisker =
            ratio.as_ref().and_then(PerRequest::estimate).map(|estimate| (estimate.low, estimate.high));
        (service.variant, ratio.map(|ratio| ratio.value), whisker)
    };
    let rows: Vec<_> = services.iter().map(row).collect();
    context.bars((cost, "a request"), Unit::Seconds, &rows, (66, 18))
}

fn scatter(context: &ChartContext, cost: &str, services: &[Service]) -> Panel {
    let most = |of: fn(&Service) -> &Vec<f64>| {
        services.iter().flat_map(of).fold(0f64, |most, value| most.max(*value))
    };
    let (load, spent) = (most(|service| &service.load) * 1.05, most(|service| &service.spent) * 1.1);
    let mut marks = vec![];
    for service in services {
        let look = context.looks[service.variant];
        if let Some(line) = Line::of(service.windows()) {
            const STEPS: u32 = 24;
            let at = |step: u32| load * f64::from(step) / f64::from(STEPS);
            let band = (0..=STEPS).filter_map(|step| {
                let spent = line.interval(at(step))?;
                Some((at(step), spent.low.max(0.0), spent.high.max(0.0)))
            });
            marks.push(Mark::Band { points: band.collect(), colour: look.colour });
            marks.push(look.line(&[0.0, load].map(|load| (load, line.at(load).0.max(0.0))), 1.5));
        }
        marks.extend(look.dots(service.load.iter().copied().zip(service.spent.iter().copied())));
    }
    let resource = metric::find(cost).map_or("", |_| cost.trim_end_matches("_per_request"));
    let x = Axis::linear("requests a second", 0.0, load, three);
    Panel::new(resource, x, Axis::from_zero("spent a second", spent, Unit::Seconds), 230, marks)
}
