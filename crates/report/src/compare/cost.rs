//! What a request costs, service by service: the tables that watches and published proxies share.

use super::Compared;
use super::answer::{self, Figure, first_of};
use crate::difference::{Finding, ratio_cell};
use crate::document::{Cell, Document, Table, labelled, row};
use crate::number::{self, plural, three};
use fsarena_core::{names::distinct, sample::Direction};
use fsarena_stats::cost::{Answer, FEWEST, Method, compare};
use fsarena_stats::cost::{Estimate, Windows};
use fsarena_stats::cost::{Line, PerRequest};
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
        let both = self.load.iter().copied().zip(self.spent[resource].iter().copied());
        let both = both.filter(|(load, spent)| load.is_finite() && spent.is_finite());
        Some(both.unzip()).filter(|(load, _): &(Vec<f64>, _)| load.len() >= 2)
    }

    /// What these windows say of a resource.
    fn of<T>(&self, resource: usize, say: impl Fn(Windows) -> Option<T>) -> Option<T> {
        say(windows(&self.windows(resource)?))
    }
}

fn windows((load, spent): &(Vec<f64>, Vec<f64>)) -> Windows<'_> {
    Windows { load, spent }
}

fn overhead(windows: Windows) -> Option<Estimate> {
    Line::of(windows)?.overhead()
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

impl Pair<'_> {
    fn name(&self) -> String {
        format!("{} over {}", self.b, self.a)
    }
}

/// Every two of some things.
pub fn couples<T>(all: &[T]) -> impl Iterator<Item = (&T, &T)> {
    all.iter().enumerate().flat_map(|(at, a)| all[at + 1..].iter().map(move |b| (a, b)))
}

/// Every pair of services on every resource that both have.
pub fn pairs<'a>(services: &'a [Service], resources: &'a [Resource]) -> Vec<Pair<'a>> {
    let of = |(at, resource): (usize, &'a Resource)| {
        couples(services).filter_map(move |(a, b)| {
            let answer = compare(windows(&a.windows(at)?), windows(&b.windows(at)?));
            Some(Pair { resource, a: &a.name, b: &b.name, answer })
        })
    };
    resources.iter().enumerate().flat_map(of).collect()
}

/// Loads, costs, overheads and comparisons, as tables.
pub fn tables(document: &mut Document, services: &[Service], resources: &[Resource]) {
    document.heading(3, "Load");
    let load = |service: &Service| {
        let load: Vec<f64> = service.load.iter().copied().filter(|load| load.is_finite()).collect();
        let end = |end: fn(f64, f64) -> f64| three(load.iter().copied().fold(f64::NAN, end));
        let mean = load.iter().sum::<f64>() / load.len().max(1) as f64;
        let range = format!("{}–{}", end(f64::min), end(f64::max));
        row![service.name.as_str(), load.len().to_string(), three(mean), range]
    };
    let header = ["service", "windows", "requests/s", "from–to"];
    document.table(Table::figures(header).with(services.iter().map(load)));

    document.heading(3, "Cost of a request");
    let table = |cell: &dyn Fn(&Service, usize, &Resource) -> Cell| {
        let heads = services.iter().map(|service| service.name.as_str());
        let row = |(at, resource): (usize, &Resource)| {
            labelled(title(resource), services.iter().map(|service| cell(service, at, resource)))
        };
        let rows = resources.iter().enumerate().map(row);
        Table::figures(std::iter::once("resource").chain(heads)).with(rows)
    };
    document.table(table(&|service, at, resource| {
        let cost = service.of(at, PerRequest::of);
        cost.map_or("–".into(), |cost| resource.cell(cost.value, cost.estimate(), ""))
    }));
    document.text(
        "All that was spent over all that was served (R = ΣC/ΣQ), and its 95% interval with as many windows as \
         are independent (n·(1−ρ₁)/(1+ρ₁)). ~ marks what the kernel samples at clock ticks.",
    );
    document.heading(3, "Fixed overhead a second");
    document.table(table(&|service, at, resource| {
        service.of(at, overhead).map_or("–".into(), |overhead| {
            let mark = if overhead.excludes(0.0) { " *" } else { "" };
            resource.cell(overhead.value, Some(overhead), mark)
        })
    }));
    document.text(
        "The intercept of spending over load with its 95% interval (least squares, HC3 errors). Where an interval \
         excludes 0 (marked *) the cost of a request depends on the load, and pairs are compared at a load that \
         both had.",
    );
}

fn title(resource: &Resource) -> Cell {
    format!("{}{}", if resource.tick_sampled { "~" } else { "" }, resource.title).into()
}

impl Resource {
    /// A value over its interval, with a mark behind it.
    fn cell(&self, value: f64, interval: Option<Estimate>, mark: &str) -> Cell {
        let ends = |end: Estimate| format!("{}–{}", (self.shown)(end.low), (self.shown)(end.high));
        Cell::two(format!("{}{mark}", (self.shown)(value)), interval.map_or(String::new(), ends))
    }
}

/// The pairs, a row each.
pub fn pair_table(document: &mut Document, pairs: &[Pair]) {
    document.heading(3, "Compared");
    let row = |pair: &Pair| {
        let (ratio, by) = match pair.answer {
            Answer::Ratio { ratio, method: Method::Sums, .. } => (ratio_cell(ratio, ""), "sums".into()),
            Answer::Ratio { ratio, method: Method::AtLoad(load), .. } => {
                (ratio_cell(ratio, ""), format!("lines, at {}/s", three(load)))
            }
            Answer::Refused(_) | Answer::Unknown => ("–".into(), String::new()),
        };
        row![title(pair.resource), pair.name(), ratio, by, verdict(pair)]
    };
    let header = ["resource", "B over A", "ratio", "by", "verdict"];
    document.table(Table::figures(header).with(pairs.iter().map(row)));
    document.text(
        "Intervals are 95% for each pair and not corrected for their number. Services whose load ranges have less \
         than half in common are not compared.",
    );
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
        Answer::Ratio { ratio, .. } => costs(pair.b, ratio, ratio.excludes(1.0)),
    }
}

/// Whether a service costs more, by its ratio to another.
pub fn costs(service: &str, ratio: Estimate, separated: bool) -> String {
    match separated {
        false => "no significant difference".into(),
        true if ratio.low > 1.0 => format!("{service} costs more"),
        true => format!("{service} costs less"),
    }
}

/// The answer over all pairs of services below its first sentences, and its picture.
pub fn answer(compared: &mut Compared, pairs: &[Pair], lead: Vec<String>) {
    let sides = distinct(pairs.iter().map(Pair::name));
    let side = |pair: &Pair| sides.iter().position(|name| *name == pair.name()).unwrap_or(0);
    let figure = |pair: &Pair| Some(Figure { side: side(pair), ..figure(pair)? });
    let figures: Vec<Figure> = pairs.iter().filter_map(figure).collect();
    let terms = ["cheaper", "dearer"];
    let answer = answer::Answer { figures: &figures, sides: &sides, margin: None, terms };
    let mut words = answer.words();
    let mut not_compared = |why: &str, is: fn(&Answer) -> bool| {
        let name = |pair: &Pair| format!("{} of {}", pair.resource.title, pair.name());
        let names: Vec<String> = pairs.iter().filter(|pair| is(&pair.answer)).map(name).collect();
        let (count, named) = (names.len(), first_of(&names, "; "));
        words.extend((count > 0).then(|| format!("Not compared because {why}: {count} ({named}).")));
    };
    not_compared("the loads have too little in common", |answer| matches!(answer, Answer::Refused(_)));
    not_compared("the cost does not differ significantly from zero", |answer| {
        matches!(answer, Answer::Unknown)
    });
    compared.say(lead.into_iter().chain(words).collect());
    let title = "Cost of a request, ratios with 95% intervals";
    compared.chart = answer.chart(title.into(), "cost of a request".into());
}

fn figure(pair: &Pair) -> Option<Figure> {
    let Answer::Ratio { ratio, provisional, .. } = pair.answer else { return None };
    let finding = Finding::judged(provisional, ratio.excludes(1.0), false);
    Some(Figure::new(&pair.resource.title, Some(ratio), finding, Direction::Lower))
}

/// All of it for programs.
pub fn json(services: &[Service], resources: &[Resource], pairs: &[Pair]) -> Value {
    let cost = |service: &Service, at: usize, resource: &Resource| {
        let found = service.of(at, PerRequest::of)?;
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
        if let Some(overhead) = service.of(at, overhead) {
            value["overhead_per_s"] = json!(overhead);
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
                value["ratio_b_to_a"] = json!(ratio);
                value["provisional"] = json!(provisional);
                value["significantly_different"] = json!(pair.answer.separated());
                value["by"] = json!(if method == Method::Sums { "sums" } else { "lines" });
                if let Method::AtLoad(load) = method {
                    value["at_requests_per_s"] = json!(load);
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
