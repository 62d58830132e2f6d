//! The cost of a request, service by service: the comparison of watches (runs that only observe a service), and the tables
//! that it shares with the comparison of published proxies.

use crate::compare::answer::{ComparedRatio, RatioSummary, join_first};
use crate::document::{Cell, Document, Table, labelled_row, row};
use crate::number::{self, plural, three_digits, with_unit};
use crate::phrases::{describe_machines, format_start_time};
use crate::ratio_verdict::{RatioVerdict, ratio_cell};
use crate::{advice, error::Error, page::ComparisonReport};
use fsarena_core::sample::{Direction, Unit};
use fsarena_core::{metric::reading, names::distinct, observations::dropped_rounds, record::RunRecord};
use fsarena_stats::cost::{
    CostComparison, CostLine, Estimate, LoadWindows, MIN_WINDOWS, RatioMethod, RequestCost, compare_costs,
};
use serde_json::{Value, json};

/// A resource that requests consume: CPU time, bytes, reads.
pub struct Resource {
    /// The name in JSON, with the unit at its end: `iowait_s`.
    pub id: String,
    /// The name in texts and tables.
    pub title: String,
    /// Formats a cost per request, with its unit.
    pub format_cost: fn(f64) -> String,
    /// Whether the kernel samples it at clock ticks.
    pub is_tick_sampled: bool,
}

/// The load and the consumption of one service, window by window.
pub struct Service {
    /// Its name.
    pub name: String,
    /// Requests per second in each window; NaN if they were not counted.
    pub load: Vec<f64>,
    /// Consumption per second, by resource and then by window; NaN without a reading.
    pub consumption: Vec<Vec<f64>>,
}

impl Service {
    /// The number of windows whose requests were counted. No figure uses the other windows.
    fn count_known_windows(&self) -> usize {
        self.load.iter().filter(|load| load.is_finite()).count()
    }

    /// The load and the consumption of the resource with this index, in the windows that have both; `None` if fewer than two
    /// windows have.
    fn windows(&self, resource: usize) -> Option<(Vec<f64>, Vec<f64>)> {
        let windows = self.load.iter().copied().zip(self.consumption[resource].iter().copied());
        let known = windows.filter(|(load, consumption)| load.is_finite() && consumption.is_finite());
        let (load, consumption): (Vec<f64>, Vec<f64>) = known.unzip();
        (load.len() >= 2).then_some((load, consumption))
    }

    /// All consumption of the resource with this index, divided by all requests.
    fn cost_per_request(&self, resource: usize) -> Option<RequestCost> {
        RequestCost::from_windows(as_load_windows(&self.windows(resource)?))
    }

    /// The consumption a second of the resource with this index without any request: the intercept of consumption over load.
    fn fixed_overhead(&self, resource: usize) -> Option<Estimate> {
        CostLine::fit(as_load_windows(&self.windows(resource)?))?.overhead()
    }
}

/// Borrows a load and a consumption by window for the statistics of costs.
fn as_load_windows((load, consumption): &(Vec<f64>, Vec<f64>)) -> LoadWindows<'_> {
    LoadWindows { load, consumption }
}

/// The comparison of two services on one resource.
pub struct ServicePair<'a> {
    /// The resource.
    pub resource: &'a Resource,
    /// The service in the denominator.
    pub a: &'a str,
    /// The service in the numerator.
    pub b: &'a str,
    /// The cost of a request of b over that of a, or why there is no such ratio.
    pub comparison: CostComparison,
}

impl ServicePair<'_> {
    fn name(&self) -> String {
        format!("{} over {}", self.b, self.a)
    }
}

/// All pairs of two items, each pair once, in order.
pub fn all_pairs<T>(items: &[T]) -> impl Iterator<Item = (&T, &T)> {
    items.iter().enumerate().flat_map(|(index, a)| items[index + 1..].iter().map(move |b| (a, b)))
}

/// Compares every two services on every resource for which both have at least two windows.
pub fn service_pairs<'a>(services: &'a [Service], resources: &'a [Resource]) -> Vec<ServicePair<'a>> {
    let mut pairs = vec![];
    for (index, resource) in resources.iter().enumerate() {
        for (a, b) in all_pairs(services) {
            let (Some(windows_a), Some(windows_b)) = (a.windows(index), b.windows(index)) else { continue };
            let comparison = compare_costs(as_load_windows(&windows_a), as_load_windows(&windows_b));
            pairs.push(ServicePair { resource, a: &a.name, b: &b.name, comparison });
        }
    }
    pairs
}

/// Adds the tables of loads, costs of a request, and fixed overheads.
pub fn add_cost_tables(document: &mut Document, services: &[Service], resources: &[Resource]) {
    document.heading(3, "Load");
    let header = ["service", "windows", "requests/s", "from–to"];
    document.table(Table::of_figures(header).with_rows(services.iter().map(load_row)));

    document.heading(3, "Cost of a request");
    document.table(resource_table(services, resources, |service, index, resource| {
        let cost = service.cost_per_request(index)?;
        Some(resource.cell(cost.value, cost.estimate(), ""))
    }));
    document.text(
        "The sum of the consumption divided by the number of requests (R = ΣC/ΣQ). Its 95% interval assumes \
         n·(1−ρ₁)/(1+ρ₁) independent windows, where ρ₁ is the autocorrelation of successive windows. ~ marks a \
         resource that the kernel samples at clock ticks.",
    );
    document.heading(3, "Fixed overhead a second");
    document.table(resource_table(services, resources, |service, index, resource| {
        let overhead = service.fixed_overhead(index)?;
        let mark = if overhead.excludes(0.0) { " *" } else { "" };
        Some(resource.cell(overhead.value, Some(overhead), mark))
    }));
    document.text(
        "The intercept of consumption over load with its 95% interval (least squares, HC3 errors). If the interval excludes \
         0, marked *, the cost of a request depends on the load, and pairs are compared at a load that both services had.",
    );
}

/// A service's number of windows, and the mean and range of its load.
fn load_row(service: &Service) -> Vec<Cell> {
    let load: Vec<f64> = service.load.iter().copied().filter(|load| load.is_finite()).collect();
    let mean = load.iter().sum::<f64>() / load.len().max(1) as f64;
    let smallest = load.iter().copied().fold(f64::NAN, f64::min);
    let largest = load.iter().copied().fold(f64::NAN, f64::max);
    let range = format!("{}–{}", three_digits(smallest), three_digits(largest));
    row![service.name.as_str(), load.len().to_string(), three_digits(mean), range]
}

/// A table with a row for each resource and a column for each service. `cell` makes the cell of a service and a resource,
/// given with its index; `None` shows a dash.
fn resource_table(
    services: &[Service],
    resources: &[Resource],
    cell: impl Fn(&Service, usize, &Resource) -> Option<Cell>,
) -> Table {
    let names = services.iter().map(|service| service.name.as_str());
    let mut table = Table::of_figures(std::iter::once("resource").chain(names));
    for (index, resource) in resources.iter().enumerate() {
        let cells = services.iter().map(|service| cell(service, index, resource).unwrap_or("–".into()));
        table.rows.push(labelled_row(resource_title(resource), cells));
    }
    table
}

/// The title of a resource, with `~` before it if the kernel samples it at clock ticks.
fn resource_title(resource: &Resource) -> Cell {
    format!("{}{}", if resource.is_tick_sampled { "~" } else { "" }, resource.title).into()
}

impl Resource {
    /// A cell with a value and a mark behind it, and the interval in its second line.
    fn cell(&self, value: f64, interval: Option<Estimate>, mark: &str) -> Cell {
        let ends = |end: Estimate| format!("{}–{}", (self.format_cost)(end.low), (self.format_cost)(end.high));
        Cell::two_lines(format!("{}{mark}", (self.format_cost)(value)), interval.map_or(String::new(), ends))
    }
}

/// Adds the table of comparisons, a row for each pair of services and resource.
pub fn add_pair_table(document: &mut Document, pairs: &[ServicePair]) {
    document.heading(3, "Compared");
    let row = |pair: &ServicePair| {
        let (ratio, method) = match pair.comparison {
            CostComparison::Ratio { ratio, method: RatioMethod::Sums, .. } => (ratio_cell(ratio, ""), "sums".into()),
            CostComparison::Ratio { ratio, method: RatioMethod::AtLoad(load), .. } => {
                (ratio_cell(ratio, ""), format!("lines, at {}/s", three_digits(load)))
            }
            CostComparison::Refused(_) | CostComparison::Unknown => ("–".into(), String::new()),
        };
        row![resource_title(pair.resource), pair.name(), ratio, method, describe_pair_verdict(pair)]
    };
    let header = ["resource", "B over A", "ratio", "by", "verdict"];
    document.table(Table::of_figures(header).with_rows(pairs.iter().map(row)));
    document.text(
        "Intervals are 95% for each pair and not corrected for their number. Services whose load ranges have less \
         than half in common are not compared.",
    );
}

/// The verdict on a pair of services, in words.
fn describe_pair_verdict(pair: &ServicePair) -> String {
    match pair.comparison {
        CostComparison::Refused(overlap) => {
            format!("refused: the load ranges have only {} in common", number::percent(overlap.share))
        }
        CostComparison::Unknown => "unknown: the cost does not differ significantly from zero".into(),
        CostComparison::Ratio { provisional: true, .. } => {
            format!("provisional: fewer than {}", plural(MIN_WINDOWS, "window"))
        }
        CostComparison::Ratio { ratio, .. } => describe_cost_verdict(pair.b, ratio, ratio.excludes(1.0)),
    }
}

/// States whether a service costs more or less than another. `ratio` is its cost divided by that of the other service, and
/// `is_significant` whether the two differ significantly.
pub fn describe_cost_verdict(service: &str, ratio: Estimate, is_significant: bool) -> String {
    if !is_significant {
        "no significant difference".into()
    } else if ratio.low > 1.0 {
        format!("{service} costs more")
    } else {
        format!("{service} costs less")
    }
}

/// Sets the answer of a comparison of services, and its chart. The answer starts with `first_sentences`.
pub fn set_cost_answer(report: &mut ComparisonReport, pairs: &[ServicePair], first_sentences: Vec<String>) {
    let pair_names = distinct(pairs.iter().map(ServicePair::name));
    let mut ratios = vec![];
    for pair in pairs {
        let index = pair_names.iter().position(|name| *name == pair.name()).unwrap_or(0);
        ratios.extend(compared_ratio(pair).map(|ratio| ComparedRatio { comparison: index, ..ratio }));
    }
    let terms = ["cheaper", "dearer"];
    let summary = RatioSummary { ratios: &ratios, comparisons: &pair_names, margin: None, terms };
    let refused = pairs.iter().filter(|pair| matches!(pair.comparison, CostComparison::Refused(_)));
    let unknown = pairs.iter().filter(|pair| matches!(pair.comparison, CostComparison::Unknown));
    let mut sentences = first_sentences;
    sentences.extend(summary.sentences());
    sentences.extend(not_compared_sentence("the loads have too little in common", refused));
    sentences.extend(not_compared_sentence("the cost does not differ significantly from zero", unknown));
    report.add_answer(sentences);
    let title = "Cost of a request, ratios with 95% intervals";
    report.chart = summary.chart(title.into(), "cost of a request".into());
}

/// Names the pairs that are not compared, with the reason; `None` without pairs.
fn not_compared_sentence<'a>(reason: &str, pairs: impl Iterator<Item = &'a ServicePair<'a>>) -> Option<String> {
    let name = |pair: &ServicePair| format!("{} of {}", pair.resource.title, pair.name());
    let names: Vec<String> = pairs.map(name).collect();
    let (count, named) = (names.len(), join_first(&names, "; "));
    (count > 0).then(|| format!("Not compared because {reason}: {count} ({named})."))
}

/// The ratio of a pair for the answer and its chart; `None` if the pair has no ratio.
fn compared_ratio(pair: &ServicePair) -> Option<ComparedRatio> {
    let CostComparison::Ratio { ratio, provisional, .. } = pair.comparison else { return None };
    // Watches have no margin within which a difference would not matter.
    let is_within_margin = false;
    let verdict = RatioVerdict::from_tests(provisional, ratio.excludes(1.0), is_within_margin);
    Some(ComparedRatio::new(&pair.resource.title, Some(ratio), verdict, Direction::Lower))
}

/// The costs of all services and the comparisons of pairs, as JSON.
pub fn service_costs_json(services: &[Service], resources: &[Resource], pairs: &[ServicePair]) -> Value {
    let service = |service: &Service| {
        let resources = resources.iter().enumerate();
        let costs: Vec<Value> =
            resources.filter_map(|(index, resource)| resource_cost_json(service, index, resource)).collect();
        json!({ "name": service.name, "costs": costs })
    };
    json!({
        "services": services.iter().map(service).collect::<Vec<_>>(),
        "pairs": pairs.iter().map(pair_json).collect::<Vec<_>>(),
    })
}

/// The cost of a request to a service in one resource, which has this index, as JSON; `None` with fewer than two windows.
fn resource_cost_json(service: &Service, index: usize, resource: &Resource) -> Option<Value> {
    let cost = service.cost_per_request(index)?;
    let mut value = json!({
        "resource": resource.id,
        "per_request": cost.value,
        "windows": cost.windows,
        "effective_windows": cost.effective_windows,
        "tick_sampled": resource.is_tick_sampled,
    });
    if let Some(estimate) = cost.estimate() {
        value["interval"] = json!([estimate.low, estimate.high]);
    }
    if let Some(overhead) = service.fixed_overhead(index) {
        value["overhead_per_s"] = json!(overhead);
    }
    Some(value)
}

fn pair_json(pair: &ServicePair) -> Value {
    let mut value = json!({ "resource": pair.resource.id, "a": pair.a, "b": pair.b });
    match pair.comparison {
        CostComparison::Ratio { ratio, method, provisional } => {
            value["ratio_b_to_a"] = json!(ratio);
            value["provisional"] = json!(provisional);
            value["significantly_different"] = json!(pair.comparison.is_significant());
            value["by"] = json!(if method == RatioMethod::Sums { "sums" } else { "lines" });
            if let RatioMethod::AtLoad(load) = method {
                value["at_requests_per_s"] = json!(load);
            }
        }
        CostComparison::Refused(overlap) => value["refused_overlap"] = json!(overlap.share),
        CostComparison::Unknown => value["unknown"] = json!(true),
    }
    value
}

/// The readings of a watch: id, title, and whether the kernel samples the reading at clock ticks.
const WATCH_READINGS: [(&str, &str, bool); 13] = [
    (reading::MACHINE_CPU, "CPU, whole machine", false),
    ("service_cpu_ns", "CPU, service", false),
    (reading::KERNEL_THREADS_CPU, "CPU, kernel threads", false),
    ("machine_user_ns", "user", true),
    ("machine_system_ns", "system", true),
    (reading::IOWAIT, "iowait", true),
    ("pressure_io_some_ns", "I/O pressure, some", false),
    ("pressure_io_full_ns", "I/O pressure, full", false),
    ("device_busy_ns", "device busy", false),
    ("device_reads", "device reads", false),
    ("device_writes", "device writes", false),
    (reading::DEVICE_READ_BYTES, "bytes read", false),
    (reading::DEVICE_WRITTEN_BYTES, "bytes written", false),
];

/// The unit of a reading in a run; `None` if the run lacks the reading.
fn reading_unit(record: &RunRecord, id: &str) -> Option<Unit> {
    record.reading_column(id).map(|column| record.readings[column].unit)
}

/// Whether a run is a watch: it only observed a service, in windows of time.
pub fn is_watch(record: &RunRecord) -> bool {
    record.plan.workloads.iter().any(|workload| workload.name == "watch")
}

/// Compares the cost of a request between watches, for every two of them and every resource.
///
/// # Errors
/// If one of them is not a watch, or has fewer than two windows with a count of requests.
pub fn compare_watches(records: &[RunRecord]) -> Result<ComparisonReport, Error> {
    let mut report = ComparisonReport { title: "What a request costs".into(), ..ComparisonReport::default() };
    let mut services = vec![];
    for (index, record) in records.iter().enumerate() {
        services.push(watched_service(records, index)?);
        if let Some(text) = left_out_windows_warning(record, &services[index]) {
            report.answer.warning(text);
        }
    }
    // The comparison has only the readings that some service has.
    let is_measured = |reading: &usize| {
        services.iter().any(|service| service.consumption[*reading].iter().any(|value| value.is_finite()))
    };
    let measured: Vec<usize> = (0..WATCH_READINGS.len()).filter(is_measured).collect();
    for service in &mut services {
        service.consumption =
            measured.iter().map(|reading| std::mem::take(&mut service.consumption[*reading])).collect();
    }
    let resources: Vec<Resource> =
        measured.iter().map(|reading| watched_resource(WATCH_READINGS[*reading], records)).collect();
    let pairs = service_pairs(&services, &resources);
    report.json = service_costs_json(&services, &resources, &pairs);
    report.json["runs"] = json!(records.iter().map(|record| &record.id).collect::<Vec<_>>());
    report.facts =
        records.iter().zip(&services).map(|(record, service)| format!("{}: {}", service.name, record.id)).collect();
    if services.len() > 1 {
        set_cost_answer(&mut report, &pairs, vec![]);
        add_pair_table(&mut report.data, &pairs);
    }
    add_cost_tables(&mut report.data, &services, &resources);
    report.method.table(circumstance_table(records, &services));
    Ok(report)
}

/// The table of circumstances: run, time, machine and windows of each watch. A window is left out if it was dropped or its
/// requests were not counted.
fn circumstance_table(records: &[RunRecord], services: &[Service]) -> Table {
    let row = |(record, service): (&RunRecord, &Service)| {
        row![
            service.name.as_str(),
            record.id.as_str(),
            format_start_time(&record.started),
            describe_machines(record),
            service.count_known_windows().to_string(),
            (dropped_rounds(record).len() + service.load.len() - service.count_known_windows()).to_string(),
        ]
    };
    let header = ["service", "run", "begun", "machine", "windows", "left out"];
    Table::of_words(header).with_rows(records.iter().zip(services).map(row))
}

/// The resource of a reading, in the unit that the runs have for it.
fn watched_resource((id, title, is_tick_sampled): (&str, &str, bool), records: &[RunRecord]) -> Resource {
    let unit = records.iter().find_map(|record| reading_unit(record, id));
    let (id, format_cost): (String, fn(f64) -> String) = match unit {
        // A consumption in nanoseconds becomes a cost in seconds, and the id gets the suffix of seconds.
        Some(Unit::Nanoseconds) => {
            let id = Unit::Seconds.with_suffix(Unit::Nanoseconds.without_suffix(id));
            (id, |value| with_unit(value, Unit::Seconds))
        }
        Some(Unit::Bytes) => (id.into(), |value| with_unit(value, Unit::Bytes)),
        _ => (id.into(), three_digits),
    };
    Resource { id, title: title.into(), format_cost, is_tick_sampled }
}

/// The service of the watch with this index. Its rates are in order of time, without windows that were dropped.
///
/// # Errors
/// If the run is not a watch, or has fewer than two windows with a count of requests.
fn watched_service(records: &[RunRecord], index: usize) -> Result<Service, Error> {
    let record = &records[index];
    let usage_error = |fault| Error::Usage(format!("{} {fault}", record.id));
    if !is_watch(record) {
        return Err(usage_error("is not a watch; compare watches with watches"));
    }
    let dropped = dropped_rounds(record);
    let mut rows: Vec<usize> = (0..record.samples.len()).collect();
    rows.retain(|row| !dropped.contains(&record.cells[record.samples.cell[*row] as usize].round));
    rows.sort_by(|a, b| record.samples.started_at[*a].total_cmp(&record.samples.started_at[*b]));
    let load = rates_per_second(record, reading::REQUESTS, &rows);
    let consumption = WATCH_READINGS.iter().map(|(id, ..)| rates_per_second(record, id, &rows)).collect();
    let service = Service { name: service_name(records, index), load, consumption };
    if service.count_known_windows() < 2 {
        return Err(usage_error(
            "has fewer than two windows whose requests are known; watch with a counter, for longer",
        ));
    }
    Ok(service)
}

/// The values of a metric divided by the seconds of their windows, for these rows of samples. Nanoseconds become seconds. NaN if
/// the run lacks the metric or the time of its windows.
fn rates_per_second(record: &RunRecord, id: &str, rows: &[usize]) -> Vec<f64> {
    let (Some((_, values)), Some((_, elapsed_ns))) = (record.metric(id), record.metric(reading::ELAPSED)) else {
        return vec![f64::NAN; rows.len()];
    };
    // Nanoseconds per nanosecond are already seconds per second.
    let scale = if reading_unit(record, id) == Some(Unit::Nanoseconds) { 1.0 } else { 1e9 };
    rows.iter().map(|row| scale * values[*row] / elapsed_ns[*row]).collect()
}

/// The name of the service of the watch with this index. The number of the watch follows if several watches have this name.
fn service_name(records: &[RunRecord], index: usize) -> String {
    let first_variant = |record: &RunRecord| record.variants.first().map(|variant| variant.name.clone());
    let Some(name) = first_variant(&records[index]) else { return records[index].id.clone() };
    let count = records.iter().filter(|record| first_variant(record).as_ref() == Some(&name)).count();
    if count > 1 { format!("{name} ({})", index + 1) } else { name }
}

/// The warning with the number of windows that are left out, and the reasons; `None` if none is left out. The value of a window
/// is never a reason.
fn left_out_windows_warning(record: &RunRecord, service: &Service) -> Option<String> {
    let dropped = dropped_rounds(record).len();
    let uncounted = service.load.len() - service.count_known_windows();
    (dropped + uncounted > 0).then(|| {
        format!(
            "{}: {} left out because something disturbed them, {} because their requests are not known; \
             {} shows what happened",
            service.name,
            plural(dropped, "window"),
            plural(uncounted, "window"),
            advice::report_command(&record.id)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::record::MetricSpec;

    #[test]
    fn a_run_without_the_time_of_its_windows_has_no_rates() {
        let mut record = RunRecord::default();
        let spec = |id: &str, unit| MetricSpec::new(id.into(), unit, Direction::Neutral, String::new());
        record.readings.push(spec(reading::REQUESTS, Unit::Count));
        record.samples.values.push(vec![600.0]);
        (record.samples.cell, record.samples.task) = (vec![0], vec![0]);
        assert!(rates_per_second(&record, reading::REQUESTS, &[0])[0].is_nan());
        record.readings.push(spec(reading::ELAPSED, Unit::Nanoseconds));
        record.samples.values.push(vec![60e9]);
        assert_eq!(rates_per_second(&record, reading::REQUESTS, &[0]), [10.0]);
    }

    #[test]
    fn a_window_without_a_count_of_requests_is_left_out_in_both_tables() {
        let service = Service { name: "squid".into(), load: vec![5.0, f64::NAN, 7.0], consumption: vec![] };
        let record = RunRecord { started: "2026-11-26T12:00:00Z".into(), ..RunRecord::default() };
        assert_eq!(load_row(&service)[1].lines, ["2"]);
        let warning = left_out_windows_warning(&record, &service).unwrap();
        assert!(warning.contains("1 window because"), "{warning}");
        let table = circumstance_table(&[record], &[service]);
        assert_eq!((&table.rows[0][4].lines[0][..], &table.rows[0][5].lines[0][..]), ("2", "1"));
    }
}
