//! What a request costs, service by service: the tables that watches and published proxies share, and watches beside each other.

use crate::compare::answer::{ComparedRatio, RatioSummary, first_of};
use crate::difference::{Finding, ratio_cell};
use crate::document::{Cell, Document, Table, labelled_row, row};
use crate::number::{self, plural, three, with_unit};
use crate::words::{begun, machines};
use crate::{compare::comparison_report::ComparisonReport, error::Error};
use fsarena_core::observations::dropped;
use fsarena_core::sample::{Direction, Unit};
use fsarena_core::{metric::reading, names::distinct, record::RunRecord};
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
    /// The windows that have both; `None` if there are fewer than two.
    fn windows(&self, resource: usize) -> Option<(Vec<f64>, Vec<f64>)> {
        let both = self.load.iter().copied().zip(self.spent[resource].iter().copied());
        let both = both.filter(|(load, spent)| load.is_finite() && spent.is_finite());
        Some(both.unzip()).filter(|(load, _): &(Vec<f64>, _)| load.len() >= 2)
    }

    /// Applies an estimate to the windows of a resource; `None` with fewer than two.
    fn of<T>(&self, resource: usize, say: impl Fn(Windows) -> Option<T>) -> Option<T> {
        say(as_windows(&self.windows(resource)?))
    }
}

fn as_windows((load, spent): &(Vec<f64>, Vec<f64>)) -> Windows<'_> {
    Windows { load, spent }
}

fn fixed_overhead(windows: Windows) -> Option<Estimate> {
    Line::of(windows)?.overhead()
}

/// One comparison of two services on one resource.
pub struct ServicePair<'a> {
    /// The resource.
    pub resource: &'a Resource,
    /// The one.
    pub a: &'a str,
    /// The other.
    pub b: &'a str,
    /// b over a.
    pub answer: Answer,
}

impl ServicePair<'_> {
    fn name(&self) -> String {
        format!("{} over {}", self.b, self.a)
    }
}

/// Every two of some things.
pub fn every_two<T>(all: &[T]) -> impl Iterator<Item = (&T, &T)> {
    all.iter().enumerate().flat_map(|(at, a)| all[at + 1..].iter().map(move |b| (a, b)))
}

/// Every pair of services on every resource that both have.
pub fn service_pairs<'a>(services: &'a [Service], resources: &'a [Resource]) -> Vec<ServicePair<'a>> {
    let of = |(at, resource): (usize, &'a Resource)| {
        every_two(services).filter_map(move |(a, b)| {
            let answer = compare(as_windows(&a.windows(at)?), as_windows(&b.windows(at)?));
            Some(ServicePair { resource, a: &a.name, b: &b.name, answer })
        })
    };
    resources.iter().enumerate().flat_map(of).collect()
}

/// Loads, costs, overheads and comparisons, as tables.
pub fn add_cost_tables(document: &mut Document, services: &[Service], resources: &[Resource]) {
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
            labelled_row(resource_title(resource), services.iter().map(|service| cell(service, at, resource)))
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
        service.of(at, fixed_overhead).map_or("–".into(), |overhead| {
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

fn resource_title(resource: &Resource) -> Cell {
    format!("{}{}", if resource.tick_sampled { "~" } else { "" }, resource.title).into()
}

impl Resource {
    /// A value over its interval, with a mark behind it.
    fn cell(&self, value: f64, interval: Option<Estimate>, mark: &str) -> Cell {
        let ends = |end: Estimate| format!("{}–{}", (self.shown)(end.low), (self.shown)(end.high));
        Cell::two_lines(format!("{}{mark}", (self.shown)(value)), interval.map_or(String::new(), ends))
    }
}

/// The pairs, a row each.
pub fn add_pair_table(document: &mut Document, pairs: &[ServicePair]) {
    document.heading(3, "Compared");
    let row = |pair: &ServicePair| {
        let (ratio, by) = match pair.answer {
            Answer::Ratio { ratio, method: Method::Sums, .. } => (ratio_cell(ratio, ""), "sums".into()),
            Answer::Ratio { ratio, method: Method::AtLoad(load), .. } => {
                (ratio_cell(ratio, ""), format!("lines, at {}/s", three(load)))
            }
            Answer::Refused(_) | Answer::Unknown => ("–".into(), String::new()),
        };
        row![resource_title(pair.resource), pair.name(), ratio, by, pair_verdict(pair)]
    };
    let header = ["resource", "B over A", "ratio", "by", "verdict"];
    document.table(Table::figures(header).with(pairs.iter().map(row)));
    document.text(
        "Intervals are 95% for each pair and not corrected for their number. Services whose load ranges have less \
         than half in common are not compared.",
    );
}

/// The verdict on a pair of services, in words.
pub fn pair_verdict(pair: &ServicePair) -> String {
    match pair.answer {
        Answer::Refused(overlap) => {
            format!("refused: the load ranges have only {} in common", number::percent(overlap.share))
        }
        Answer::Unknown => "unknown: the cost does not differ significantly from zero".into(),
        Answer::Ratio { provisional: true, .. } => {
            format!("provisional: fewer than {}", plural(FEWEST, "window"))
        }
        Answer::Ratio { ratio, .. } => cost_verdict(pair.b, ratio, ratio.excludes(1.0)),
    }
}

/// Whether a service costs more, by its ratio to another.
pub fn cost_verdict(service: &str, ratio: Estimate, separated: bool) -> String {
    match separated {
        false => "no significant difference".into(),
        true if ratio.low > 1.0 => format!("{service} costs more"),
        true => format!("{service} costs less"),
    }
}

/// The answer over all pairs of services below its first sentences, and its picture.
pub fn set_cost_answer(compared: &mut ComparisonReport, pairs: &[ServicePair], lead: Vec<String>) {
    let sides = distinct(pairs.iter().map(ServicePair::name));
    let mut figures = vec![];
    for pair in pairs {
        let side = sides.iter().position(|name| *name == pair.name()).unwrap_or(0);
        figures.extend(compared_ratio(pair).map(|ratio| ComparedRatio { side, ..ratio }));
    }
    let terms = ["cheaper", "dearer"];
    let answer = RatioSummary { figures: &figures, sides: &sides, margin: None, terms };
    let mut words = answer.words();
    let mut not_compared = |why: &str, is: fn(&Answer) -> bool| {
        let name = |pair: &ServicePair| format!("{} of {}", pair.resource.title, pair.name());
        let names: Vec<String> = pairs.iter().filter(|pair| is(&pair.answer)).map(name).collect();
        let (count, named) = (names.len(), first_of(&names, "; "));
        words.extend((count > 0).then(|| format!("Not compared because {why}: {count} ({named}).")));
    };
    not_compared("the loads have too little in common", |answer| matches!(answer, Answer::Refused(_)));
    not_compared("the cost does not differ significantly from zero", |answer| {
        matches!(answer, Answer::Unknown)
    });
    compared.set_answer(lead.into_iter().chain(words).collect());
    let title = "Cost of a request, ratios with 95% intervals";
    compared.chart = answer.chart(title.into(), "cost of a request".into());
}

fn compared_ratio(pair: &ServicePair) -> Option<ComparedRatio> {
    let Answer::Ratio { ratio, provisional, .. } = pair.answer else { return None };
    let finding = Finding::judged(provisional, ratio.excludes(1.0), false);
    Some(ComparedRatio::new(&pair.resource.title, Some(ratio), finding, Direction::Lower))
}

/// All of it for programs.
pub fn costs_json(services: &[Service], resources: &[Resource], pairs: &[ServicePair]) -> Value {
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
        if let Some(overhead) = service.of(at, fixed_overhead) {
            value["overhead_per_s"] = json!(overhead);
        }
        Some(value)
    };
    let service = |service: &Service| {
        let costs = resources.iter().enumerate().filter_map(|(at, resource)| cost(service, at, resource));
        json!({ "name": service.name, "costs": costs.collect::<Vec<_>>() })
    };
    let pair = |pair: &ServicePair| {
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

/// The readings of windows: id, title, and whether the kernel samples it at clock ticks.
const READINGS: [(&str, &str, bool); 13] = [
    (reading::MACHINE_CPU, "CPU, whole machine", false),
    ("service_cpu_ns", "CPU, service", false),
    (reading::KERNEL_THREADS, "CPU, kernel threads", false),
    ("machine_user_ns", "user", true),
    ("machine_system_ns", "system", true),
    (reading::IOWAIT, "iowait", true),
    ("pressure_io_some_ns", "I/O pressure, some", false),
    ("pressure_io_full_ns", "I/O pressure, full", false),
    ("device_busy_ns", "device busy", false),
    ("device_reads", "device reads", false),
    ("device_writes", "device writes", false),
    (reading::DEVICE_READ, "bytes read", false),
    (reading::DEVICE_WRITTEN, "bytes written", false),
];

/// The unit in which a run has a reading; `None` if it has not.
fn reading_unit(record: &RunRecord, id: &str) -> Option<Unit> {
    record.reading(id).map(|column| record.readings[column].unit)
}

/// Whether a run is a watch.
pub fn is_watch(record: &RunRecord) -> bool {
    record.plan.workloads.iter().any(|workload| workload.name == "watch")
}

/// Compares watches, pair by pair, resource by resource.
///
/// # Errors
/// If one of them is not a watch, or has fewer than two windows with a count of requests.
pub fn compare_watches(records: &[RunRecord]) -> Result<ComparisonReport, Error> {
    let mut compared =
        ComparisonReport { title: "What a request costs".into(), ..ComparisonReport::default() };
    let mut services = vec![];
    for (number, record) in records.iter().enumerate() {
        services.push(watched_service(record, number, records)?);
        if let Some(text) = left_out_windows(record, &services[number]) {
            compared.answer.warning(text);
        }
    }
    let has = |at: &usize| services.iter().any(|s| s.spent[*at].iter().any(|value| value.is_finite()));
    let kept: Vec<usize> = (0..READINGS.len()).filter(has).collect();
    for service in &mut services {
        service.spent = kept.iter().map(|at| std::mem::take(&mut service.spent[*at])).collect();
    }
    let resources: Vec<Resource> = kept.iter().map(|at| watched_resource(READINGS[*at], records)).collect();
    let pairs = service_pairs(&services, &resources);
    compared.json = costs_json(&services, &resources, &pairs);
    compared.json["runs"] = json!(records.iter().map(|record| &record.id).collect::<Vec<_>>());
    let facts = records.iter().zip(&services);
    compared.facts = facts.map(|(record, service)| format!("{}: {}", service.name, record.id)).collect();
    if services.len() > 1 {
        set_cost_answer(&mut compared, &pairs, vec![]);
        add_pair_table(&mut compared.data, &pairs);
    }
    add_cost_tables(&mut compared.data, &services, &resources);
    compared.method.table(circumstance_table(records, &services));
    Ok(compared)
}

/// The machine and the windows of each watch.
fn circumstance_table(records: &[RunRecord], services: &[Service]) -> Table {
    let row = |(record, service): (&RunRecord, &Service)| {
        row![
            service.name.as_str(),
            record.id.as_str(),
            begun(&record.started),
            machines(record),
            service.load.len().to_string(),
            dropped(record).len().to_string(),
        ]
    };
    let header = ["service", "run", "begun", "machine", "windows", "left out"];
    Table::words(header).with(records.iter().zip(services).map(row))
}

fn watched_resource((id, title, tick_sampled): (&str, &str, bool), records: &[RunRecord]) -> Resource {
    let unit = records.iter().find_map(|record| reading_unit(record, id));
    let (id, shown): (String, fn(f64) -> String) = match unit {
        // Costs are in seconds.
        Some(Unit::Nanoseconds) => {
            let id = Unit::Seconds.named(Unit::Nanoseconds.bare(id));
            (id, |value| with_unit(value, Unit::Seconds))
        }
        Some(Unit::Bytes) => (id.into(), |value| with_unit(value, Unit::Bytes)),
        _ => (id.into(), crate::number::three),
    };
    Resource { id, title: title.into(), shown, tick_sampled }
}

/// The rates of a watch, in order of time; windows that were spoilt are left out.
fn watched_service(record: &RunRecord, number: usize, all: &[RunRecord]) -> Result<Service, Error> {
    let fault = |what| Error::Usage(format!("{} {what}", record.id));
    if !is_watch(record) {
        return Err(fault("is not a watch; compare watches with watches"));
    }
    let spoilt = dropped(record);
    let mut rows: Vec<usize> = (0..record.samples.len()).collect();
    rows.retain(|row| !spoilt.contains(&record.cells[record.samples.cell[*row] as usize].round));
    rows.sort_by(|a, b| record.samples.started_at[*a].total_cmp(&record.samples.started_at[*b]));
    let column = |id: &str| record.metric(id).map(|(_, values)| values);
    let elapsed = column(reading::ELAPSED).unwrap_or_default();
    let rates = |id: &str| -> Vec<f64> {
        let Some(values) = column(id) else { return vec![f64::NAN; rows.len()] };
        // Readings are in nanoseconds, costs in seconds.
        let worth = if reading_unit(record, id) == Some(Unit::Nanoseconds) { 1.0 } else { 1e9 };
        rows.iter().map(|row| worth * values[*row] / elapsed[*row]).collect()
    };
    let load = rates(reading::REQUESTS);
    if load.iter().filter(|load| load.is_finite()).count() < 2 {
        return Err(fault(
            "has fewer than two windows whose requests are known; watch with a counter, for longer",
        ));
    }
    let name = record.variants.first().map_or(record.id.clone(), |variant| variant.name.clone());
    let alike = |other: &RunRecord| other.variants.first().is_some_and(|variant| variant.name == name);
    let shared = all.iter().filter(|other| alike(other)).count() > 1;
    let name = if shared { format!("{name} ({})", number + 1) } else { name };
    Ok(Service { name, load, spent: READINGS.iter().map(|(id, ..)| rates(id)).collect() })
}

/// The windows left out, and why: never because of their values.
fn left_out_windows(record: &RunRecord, service: &Service) -> Option<String> {
    let spoilt = dropped(record).len();
    let unknown = service.load.iter().filter(|load| !load.is_finite()).count();
    (spoilt + unknown > 0).then(|| {
        format!(
            "{}: {} left out because something disturbed them, {} because their requests are not known; \
             `fsarena report {}` says what happened",
            service.name,
            plural(spoilt, "window"),
            plural(unknown, "window"),
            record.id
        )
    })
}
