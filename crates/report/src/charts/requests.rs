//! What a request costs: bars for each variant, and what was spent over the load, with the line that fits it.

use crate::number::three;
use crate::seen::{REACH, Seen, bar};
use crate::words::not_drawn;
use fsarena_charts::{Axis, Chart, Mark, Panel, Shape};
use fsarena_core::metric;
use fsarena_core::sample::Unit;
use fsarena_stats::cost::Windows;
use fsarena_stats::cost::line::Line;
use fsarena_stats::cost::per_request::PerRequest;
use fsarena_stats::grid::Grid;

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

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    let served = |grid: &Grid| grid.values.iter().flatten().flatten().any(|load| *load > 0.0);
    let Some((_, loads)) = seen.grid(LOAD).filter(|(_, loads)| served(loads)) else { return vec![] };
    // A panel of nothing but zeros says nothing.
    let spends = |services: &[Service]| services.iter().flat_map(|of| &of.spent).any(|spent| *spent > 0.0);
    let (costs, zeros): (Vec<(&str, Vec<Service>)>, Vec<_>) = (COSTS.into_iter())
        .map(|id| (id, services(seen, &loads, id)))
        .filter(|(_, services)| !services.is_empty())
        .partition(|(_, services)| spends(services));
    if costs.is_empty() {
        return vec![];
    }
    let variants = || {
        (0..seen.record().variants.len())
            .filter(|variant| costs.iter().any(|(_, of)| of.iter().any(|s| s.variant == *variant)))
    };
    let zeros: Vec<String> = zeros.iter().map(|(id, _)| id.to_string()).collect();
    let drawn: Vec<usize> = variants().collect();
    let rest = not_drawn(&zeros, "zero throughout")
        + &not_drawn(&seen.others(&drawn), "under two windows in which requests were served");
    let chart =
        |id: &str, title: &str, about: &str, panel: fn(&Seen, &str, &[Service]) -> Panel, shapes: bool| {
            Chart {
                columns: if costs.len() > 1 { 2 } else { 1 },
                panels: costs.iter().map(|(id, services)| panel(seen, id, services)).collect(),
                legend: seen.legend(variants(), shapes),
                ..Chart::new(id, title, format!("{about}{rest}"))
            }
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

fn services(seen: &Seen, loads: &Grid, cost: &str) -> Vec<Service> {
    let Some((_, grid)) = seen.grid(cost) else { return vec![] };
    // Where requests come at set rates, what has none only fills the cache before them.
    let rated: Vec<bool> =
        seen.record().tasks.iter().map(|task| task.id.params.contains_key("rate")).collect();
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
    (0..seen.record().variants.len()).map(service).filter(|service| service.load.len() > 1).collect()
}

fn bars(seen: &Seen, cost: &str, services: &[Service]) -> Panel {
    let ratios: Vec<_> = services.iter().map(|service| PerRequest::of(service.windows())).collect();
    let longest = ratios.iter().flatten().fold(0f64, |most, ratio| most.max(ratio.value));
    let highs = ratios.iter().flatten().filter_map(|ratio| Some(ratio.estimate()?.high));
    let limit = highs.fold(longest, f64::max).min(longest * REACH);
    let mut marks = vec![];
    for (row, (service, ratio)) in services.iter().zip(&ratios).enumerate() {
        let Some(ratio) = ratio else { continue };
        let at = Axis::slot(row);
        let colour = seen.colours[service.variant];
        let whisker = ratio.estimate().map(|estimate| (estimate.low, estimate.high));
        marks.extend(bar(at, ratio.value, whisker, limit, colour, Unit::Seconds));
    }
    let names: Vec<String> = services.iter().map(|service| seen.name(service.variant).to_string()).collect();
    Panel {
        title: cost.to_string(),
        x: Axis::from_zero("a request", limit * 1.3, Unit::Seconds),
        y: Axis::names(&names),
        marks,
        height: 66 + 18 * names.len() as u32,
    }
}

fn scatter(seen: &Seen, cost: &str, services: &[Service]) -> Panel {
    let most = |of: fn(&Service) -> &Vec<f64>| {
        services.iter().flat_map(of).fold(0f64, |most, value| most.max(*value))
    };
    let (load, spent) = (most(|service| &service.load) * 1.05, most(|service| &service.spent) * 1.1);
    let mut marks = vec![];
    for service in services {
        let colour = seen.colours[service.variant];
        if let Some(line) = Line::of(service.windows()) {
            const STEPS: u32 = 24;
            let at = |step: u32| load * f64::from(step) / f64::from(STEPS);
            let band = (0..=STEPS).filter_map(|step| {
                let spent = line.interval(at(step))?;
                Some((at(step), spent.low.max(0.0), spent.high.max(0.0)))
            });
            marks.push(Mark::Band { points: band.collect(), colour });
            let dash = seen.dashes[service.variant];
            let points = [0.0, load].map(|load| (load, line.at(load).0.max(0.0))).to_vec();
            marks.push(Mark::Line { points, colour, width: 1.5, dash });
        }
        let shape = Shape::of_series(service.variant);
        let points = service.load.iter().copied().zip(service.spent.iter().copied());
        marks.extend(points.map(|at| Mark::Dot { at, colour, shape }));
    }
    let resource = metric::find(cost).map_or("", |_| cost.trim_end_matches("_per_request"));
    Panel {
        title: resource.to_string(),
        x: Axis::linear("requests a second", 0.0, load, three),
        y: Axis::from_zero("spent a second", spent, Unit::Seconds),
        marks,
        height: 230,
    }
}
