//! What a request costs, service by service: the tables that watches and published proxies share.

use super::answer::{self, Figure};
use super::picture::Picture;
use super::{Compared, first_of};
use crate::difference::Finding;
use crate::document::{Cell, Document, Table, row};
use crate::number::{self, plural, three};
use fsarena_core::sample::Direction;
use fsarena_stats::cost::compare::{Answer, FEWEST, Method, compare};
use fsarena_stats::cost::line::Line;
use fsarena_stats::cost::per_request::PerRequest;
use fsarena_stats::cost::{Estimate, Windows};
use serde_json::{Value, json};

/// Something that spends.
pub struct Resource {
    /// The name in JSON, its unit at the end: `iowait_s`.
    pub id: String,
    /// For people.
    pub title: String,
    /// A value for each request, with its unit.
    pub shown: fn(f64) -> String,
    /// Whether the kernel samples it at clock ticks.
    pub tick_sampled: bool,
}

/// One service, watched.
pub struct Service {
    /// Its name.
    pub name: String,
    /// Requests a second, window by window.
    pub load: Vec<f64>,
    /// Consumption per second, by resource and window; NaN without a reading.
    pub spent: Vec<Vec<f64>>,
}

impl Service {
    /// The windows that have both; none where there are fewer than two.
    fn windows(&self, resource: usize) -> Option<(Vec<f64>, Vec<f64>)> {
        let both = self.load.iter().zip(&self.spent[resource]);
        let both = both.filter(|(load, spent)| load.is_finite() && spent.is_finite());
        let (load, spent): (Vec<f64>, Vec<f64>) = both.map(|(load, spent)| (*load, *spent)).unzip();
        (load.len() >= 2).then_some((load, spent))
    }
}

/// One comparison of two services on one resource.
pub struct Pair<'a> {
    /// The resource.
    pub resource: &'a Resource,
    /// The one.
    pub a: &'a str,
    /// The other.
    pub b: &'a str,
    /// b over a.
    pub answer: Answer,
}

/// Every pair of services on every resource that both have.
pub fn pairs<'a>(services: &'a [Service], resources: &'a [Resource]) -> Vec<Pair<'a>> {
    let mut pairs = vec![];
    for (at, resource) in resources.iter().enumerate() {
        for (i, a) in services.iter().enumerate() {
            for b in &services[i + 1..] {
                let (Some(first), Some(second)) = (a.windows(at), b.windows(at)) else { continue };
                let answer = compare(
                    Windows { load: &first.0, spent: &first.1 },
                    Windows { load: &second.0, spent: &second.1 },
                );
                pairs.push(Pair { resource, a: &a.name, b: &b.name, answer });
            }
        }
    }
    pairs
}

/// Loads, costs, overheads and comparisons, as tables.
pub fn tables(document: &mut Document, services: &[Service], resources: &[Resource]) {
    document.heading(3, "Load");
    let mut table = Table::figures(["service", "windows", "requests/s", "from–to"]);
    for service in services {
        let load: Vec<f64> = service.load.iter().copied().filter(|load| load.is_finite()).collect();
        let (least, most) =
            (load.iter().copied().fold(f64::NAN, f64::min), load.iter().copied().fold(f64::NAN, f64::max));
        let mean = load.iter().sum::<f64>() / load.len().max(1) as f64;
        let range = format!("{}–{}", three(least), three(most));
        table.rows.push(row![service.name.as_str(), load.len().to_string(), three(mean), range]);
    }
    document.table(table);

    document.heading(3, "Cost of a request");
    let heads = || std::iter::once("resource".to_string()).chain(services.iter().map(|s| s.name.clone()));
    let mut costs = Table::figures(heads());
    let mut overheads = Table::figures(heads());
    for (at, resource) in resources.iter().enumerate() {
        let cost = |service: &Service| of_service(service, at, resource);
        costs.rows.push(std::iter::once(title(resource)).chain(services.iter().map(cost)).collect());
        let overhead = |service: &Service| overhead(service, at, resource);
        overheads.rows.push(std::iter::once(title(resource)).chain(services.iter().map(overhead)).collect());
    }
    document.table(costs);
    document.text(
        "All that was spent over all that was served (R = ΣC/ΣQ), and its 95% interval with as many windows as \
         are independent (n·(1−ρ₁)/(1+ρ₁)). ~ marks what the kernel samples at clock ticks.",
    );
    document.heading(3, "Fixed overhead a second");
    document.table(overheads);
    document.text(
        "The intercept of spending over load with its 95% interval (least squares, HC3 errors). Where an interval \
         excludes 0 (marked *) the cost of a request depends on the load, and pairs are compared at a load that \
         both had.",
    );
}

fn title(resource: &Resource) -> Cell {
    format!("{}{}", if resource.tick_sampled { "~" } else { "" }, resource.title).into()
}

fn of_service(service: &Service, at: usize, resource: &Resource) -> Cell {
    let found = service.windows(at).and_then(|(load, spent)| {
        let cost = PerRequest::of(Windows { load: &load, spent: &spent })?;
        Some((cost.value, cost.estimate()))
    });
    match found {
        None => "–".into(),
        Some((value, None)) => (resource.shown)(value).into(),
        Some((value, Some(estimate))) => {
            let ends = format!("{}–{}", (resource.shown)(estimate.low), (resource.shown)(estimate.high));
            Cell::two((resource.shown)(value), ends)
        }
    }
}

fn overhead(service: &Service, at: usize, resource: &Resource) -> Cell {
    let found = service
        .windows(at)
        .and_then(|(load, spent)| Line::of(Windows { load: &load, spent: &spent })?.overhead());
    match found {
        None => "–".into(),
        Some(estimate) => {
            let mark = if estimate.excludes(0.0) { " *" } else { "" };
            let ends = format!("{}–{}", (resource.shown)(estimate.low), (resource.shown)(estimate.high));
            Cell::two(format!("{}{mark}", (resource.shown)(estimate.value)), ends)
        }
    }
}

/// The pairs, a row each.
pub fn pair_table(document: &mut Document, pairs: &[Pair]) {
    document.heading(3, "Compared");
    let mut table = Table::figures(["resource", "B over A", "ratio", "by", "verdict"]);
    for pair in pairs {
        let (ratio, by) = match pair.answer {
            Answer::Ratio { ratio, method, .. } => (
                Cell::two(number::beside(ratio.value, &[1.0]), number::interval(ratio.low, ratio.high)),
                words(method),
            ),
            Answer::Refused(_) | Answer::Unknown => ("–".into(), String::new()),
        };
        table.rows.push(row![
            title(pair.resource),
            format!("{} over {}", pair.b, pair.a),
            ratio,
            by,
            verdict(pair),
        ]);
    }
    document.table(table);
    document.text(
        "Intervals are 95% for each pair and not corrected for their number. Services whose load ranges have less \
         than half in common are not compared.",
    );
}

fn words(method: Method) -> String {
    match method {
        Method::Sums => "sums".into(),
        Method::AtLoad(load) => format!("lines, at {}/s", three(load)),
    }
}

/// What a pair says, in words.
pub fn verdict(pair: &Pair) -> String {
    match pair.answer {
        Answer::Refused(overlap) => {
            format!("refused: the load ranges have only {} in common", number::percent(overlap.share))
        }
        Answer::Unknown => "unknown: the cost does not differ significantly from zero".into(),
        Answer::Ratio { provisional: true, .. } => {
            format!("provisional: fewer than {}", plural(FEWEST, "window"))
        }
        Answer::Ratio { ratio, .. } if ratio.low > 1.0 => format!("{} costs more", pair.b),
        Answer::Ratio { ratio, .. } if ratio.high < 1.0 => format!("{} costs less", pair.b),
        Answer::Ratio { .. } => "no significant difference".into(),
    }
}

/// The answer over all pairs of services below its first sentences, and its picture.
pub fn answer(compared: &mut Compared, pairs: &[Pair], lead: Vec<String>) {
    let mut sides: Vec<String> = vec![];
    let mut figures = vec![];
    for pair in pairs {
        let name = format!("{} over {}", pair.b, pair.a);
        let side = sides.iter().position(|known| *known == name).unwrap_or_else(|| {
            sides.push(name);
            sides.len() - 1
        });
        figures.extend(figure(pair, side));
    }
    let (sides, terms) = (&sides[..], ["cheaper", "dearer"]);
    let mut words = answer::Answer { figures: &figures, sides, margin: None, terms }.words();
    let refused = pairs.iter().filter(|pair| matches!(pair.answer, Answer::Refused(_)));
    let unknown = pairs.iter().filter(|pair| matches!(pair.answer, Answer::Unknown));
    let name = |pair: &Pair| format!("{} of {} over {}", pair.resource.title, pair.b, pair.a);
    let reasons = [
        (refused.map(name).collect::<Vec<_>>(), "the loads have too little in common"),
        (unknown.map(name).collect::<Vec<_>>(), "the cost does not differ significantly from zero"),
    ];
    words.extend(reasons.into_iter().filter(|(names, _)| !names.is_empty()).map(|(names, why)| {
        format!("Not compared because {why}: {} ({}).", names.len(), first_of(&names, "; "))
    }));
    compared.say(lead.into_iter().chain(words).collect());
    let (title, axis) = ("Cost of a request, ratios with 95% intervals".into(), "cost of a request".into());
    compared.chart = Picture { figures: &figures, sides, title, axis, terms }.chart();
}

fn figure(pair: &Pair, side: usize) -> Option<Figure> {
    let Answer::Ratio { ratio, provisional, .. } = pair.answer else { return None };
    let finding = match (provisional, ratio.excludes(1.0)) {
        (true, _) => Finding::Provisional,
        (_, true) => Finding::Different,
        _ => Finding::Inconclusive,
    };
    let (what, direction) = (pair.resource.title.clone(), Direction::Lower);
    Some(Figure {
        what,
        variant: String::new(),
        side,
        ratio: Some(ratio),
        finding,
        direction,
        over_all: false,
        then: None,
    })
}

/// All of it for programs.
pub fn json(services: &[Service], resources: &[Resource], pairs: &[Pair]) -> Value {
    let interval =
        |estimate: Estimate| json!({"value": estimate.value, "low": estimate.low, "high": estimate.high});
    let cost = |service: &Service, at: usize, resource: &Resource| {
        let (load, spent) = service.windows(at)?;
        let windows = Windows { load: &load, spent: &spent };
        let found = PerRequest::of(windows)?;
        let mut value = json!({
            "resource": resource.id,
            "per_request": found.value,
            "windows": found.windows,
            "effective_windows": found.effective,
            "tick_sampled": resource.tick_sampled,
        });
        if let Some(estimate) = found.estimate() {
            value["interval"] = json!([estimate.low, estimate.high]);
        }
        if let Some(overhead) = Line::of(windows).and_then(|line| line.overhead()) {
            value["overhead_per_s"] = interval(overhead);
        }
        Some(value)
    };
    let service = |service: &Service| {
        let costs = resources.iter().enumerate().filter_map(|(at, resource)| cost(service, at, resource));
        json!({ "name": service.name, "costs": costs.collect::<Vec<_>>() })
    };
    let pair = |pair: &Pair| {
        let mut value = json!({ "resource": pair.resource.id, "a": pair.a, "b": pair.b });
        match pair.answer {
            Answer::Ratio { ratio, method, provisional } => {
                value["ratio_b_to_a"] = interval(ratio);
                value["provisional"] = json!(provisional);
                value["significantly_different"] = json!(pair.answer.separated());
                match method {
                    Method::Sums => value["by"] = json!("sums"),
                    Method::AtLoad(load) => {
                        value["by"] = json!("lines");
                        value["at_requests_per_s"] = json!(load);
                    }
                }
            }
            Answer::Refused(overlap) => value["refused_overlap"] = json!(overlap.share),
            Answer::Unknown => value["unknown"] = json!(true),
        }
        value
    };
    json!({
        "services": services.iter().map(service).collect::<Vec<_>>(),
        "pairs": pairs.iter().map(pair).collect::<Vec<_>>(),
    })
}
