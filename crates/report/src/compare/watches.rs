//! Watches beside each other: what a request costs on each.

use super::Compared;
use super::cost::{self, Resource, Service};
use crate::document::{Table, row};
use crate::error::Error;
use crate::number::{plural, with_unit};
use crate::words::{begun, machines};
use fsarena_core::observations::dropped;
use fsarena_core::{metric::reading, record::RunRecord, sample::Unit};
use serde_json::json;

/// What windows may have been read of: the reading, what people call it, and whether ticks sample it.
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

/// The unit in which a run has a reading; none where it has not.
fn unit(record: &RunRecord, id: &str) -> Option<Unit> {
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
pub fn compare_watches(records: &[RunRecord]) -> Result<Compared, Error> {
    let mut compared = Compared { title: "What a request costs".into(), ..Compared::default() };
    let mut services = vec![];
    for (number, record) in records.iter().enumerate() {
        services.push(service(record, number, records)?);
        if let Some(text) = left_out(record, &services[number]) {
            compared.answer.loud(text);
        }
    }
    let has = |at: &usize| services.iter().any(|s| s.spent[*at].iter().any(|value| value.is_finite()));
    let kept: Vec<usize> = (0..READINGS.len()).filter(has).collect();
    for service in &mut services {
        service.spent = kept.iter().map(|at| std::mem::take(&mut service.spent[*at])).collect();
    }
    let resources: Vec<Resource> = kept.iter().map(|at| resource(READINGS[*at], records)).collect();
    let pairs = cost::pairs(&services, &resources);
    compared.json = cost::json(&services, &resources, &pairs);
    compared.json["runs"] = json!(records.iter().map(|record| &record.id).collect::<Vec<_>>());
    let facts = records.iter().zip(&services);
    compared.facts = facts.map(|(record, service)| format!("{}: {}", service.name, record.id)).collect();
    if services.len() > 1 {
        cost::answer(&mut compared, &pairs, vec![]);
        cost::pair_table(&mut compared.data, &pairs);
    }
    cost::tables(&mut compared.data, &services, &resources);
    compared.method.table(circumstances(records, &services));
    Ok(compared)
}

/// What each watch ran on.
fn circumstances(records: &[RunRecord], services: &[Service]) -> Table {
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

fn resource((id, title, tick_sampled): (&str, &str, bool), records: &[RunRecord]) -> Resource {
    let unit = records.iter().find_map(|record| unit(record, id));
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
fn service(record: &RunRecord, number: usize, all: &[RunRecord]) -> Result<Service, Error> {
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
        let worth = if unit(record, id) == Some(Unit::Nanoseconds) { 1.0 } else { 1e9 };
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
fn left_out(record: &RunRecord, service: &Service) -> Option<String> {
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
