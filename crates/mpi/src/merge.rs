//! Merges the samples of all clients for a task into one sample.
//!
//! Times reach from the first start to the last end. Rates are the amounts of all clients divided by that time, as IOR
//! defines them, so a late client lowers the rate. The merged sample also has the rates in the common time, in which all
//! clients worked: from the last start to the first end.

use crate::wire::{ClockOffset, Machine};
use fsarena_core::average::median;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::latency::LatencyHistogram;
use fsarena_core::metric::{DataPath, reading};
use fsarena_core::sample::{Fold, FoldRules, MetricSpec, Readings, Sample};
use fsarena_run::registry;
use std::collections::{BTreeMap, HashMap};

/// The definitions of readings, by id.
pub type ReadingSpecs = HashMap<String, MetricSpec>;

/// The definitions of all readings that fsarena takes.
pub fn built_in_specs() -> ReadingSpecs {
    registry::reading_defs().map(|reading| (reading.id.to_string(), MetricSpec::from(&reading))).collect()
}

/// The sample of one client.
#[derive(Debug, Clone)]
pub struct ClientSample<'a> {
    /// The machine of the client.
    pub machine: &'a Machine,
    /// The offset of the client's clock from the clock of rank 0.
    pub clock: ClockOffset,
    /// The sample.
    pub sample: &'a Sample,
}

/// A time window by the clock of rank 0, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Window {
    start: f64,
    end: f64,
}

impl Window {
    /// The length in seconds.
    fn length(self) -> f64 {
        self.end - self.start
    }

    /// The window from the first start to the last end.
    fn around(windows: impl IntoIterator<Item = Window>) -> Window {
        let nothing = Window { start: f64::INFINITY, end: f64::NEG_INFINITY };
        let extend = |a: Window, b: Window| Window { start: a.start.min(b.start), end: a.end.max(b.end) };
        windows.into_iter().fold(nothing, extend)
    }

    /// The window from the last start to the first end; of length 0 if one client ended before another began.
    fn common(windows: &[Window]) -> Window {
        let start = windows.iter().map(|window| window.start).fold(f64::NEG_INFINITY, f64::max);
        let end = windows.iter().map(|window| window.end).fold(f64::INFINITY, f64::min);
        Window { start, end: end.max(start) }
    }

    /// The fraction of this window that is inside another one; 0 for an empty window.
    fn share_in(self, other: Window) -> f64 {
        let overlap = self.end.min(other.end) - self.start.max(other.start);
        if self.length() > 0.0 { (overlap / self.length()).clamp(0.0, 1.0) } else { 0.0 }
    }
}

impl ClientSample<'_> {
    /// The value of a reading, if the sample has it.
    fn reading(&self, id: &str) -> Option<f64> {
        self.sample.readings.get(id)
    }

    /// The window that starts with the task and is as long as the reading `id`, a time in nanoseconds.
    fn window_of_reading(&self, id: &str) -> Window {
        // `started_at` is in seconds since 1970.
        let start = self.sample.started_at - self.clock.ahead_s;
        Window { start, end: start + self.reading(id).unwrap_or(0.0) / 1e9 }
    }

    /// The window to which the rates of the client refer: the whole task, or if the task is a load, the load without its warm-up
    /// and its final syncs.
    fn measured_window(&self) -> Window {
        let task = self.window_of_reading(reading::ELAPSED);
        let Some(load_ns) = self.reading(reading::LOAD_ELAPSED) else { return task };
        let end = task.end - self.reading("final_sync_ns").unwrap_or(0.0) / 1e9;
        Window { start: end - load_ns / 1e9, end }
    }

    /// The operations and the bytes of the client per second; `None` for a rate that the sample lacks.
    fn rates(&self) -> (Option<f64>, Option<f64>) {
        let sum = |a: &str, b: &str| {
            let sum = self.reading(a).unwrap_or(0.0) + self.reading(b).unwrap_or(0.0);
            (sum > 0.0).then_some(sum)
        };
        let operations = sum(reading::READ_RATE, reading::WRITE_RATE).or(self.reading("all_iops_per_s"));
        let bytes = sum(reading::READ_BANDWIDTH, reading::WRITE_BANDWIDTH).or(self.reading(reading::SERVED_BANDWIDTH));
        (operations, bytes.filter(|rate| *rate > 0.0))
    }

    /// The operations and bytes of the client in a window: from its time series, else from its mean rates.
    fn amounts_in(&self, window: Window) -> (f64, f64) {
        let own_window = self.measured_window();
        let Some(first) = self.sample.series.iter().find(|point| !point.warm_up) else {
            let (operations, bytes) = self.rates();
            let seconds = own_window.length() * own_window.share_in(window);
            return (operations.unwrap_or(0.0) * seconds, bytes.unwrap_or(0.0) * seconds);
        };
        let (mut operations, mut bytes) = (0.0, 0.0);
        for point in self.sample.series.iter().filter(|point| !point.warm_up) {
            let start = own_window.start + point.start_s - first.start_s;
            let share = Window { start, end: start + point.length_s }.share_in(window);
            operations += share * point.operations as f64;
            bytes += share * point.bytes as f64;
        }
        (operations, bytes)
    }

    /// The fraction of the bytes read that came from the device or the network instead of a cache; `None` below 64 KiB read.
    pub fn fetched_share(&self) -> Option<f64> {
        const MIN_BYTES: f64 = 65_536.0;
        let read = self.reading(reading::READ_BYTES).filter(|read| *read >= MIN_BYTES)?;
        Some(self.reading(reading::FETCHED_BYTES)? / read)
    }
}

/// The rates by which clients are compared, in the same unit for all of them: bytes per second if any client has a rate of bytes,
/// else operations per second if any client has such a rate, else tasks per second. A client without the rate has 0.
fn compared_rates(samples: &[ClientSample]) -> Vec<f64> {
    let (operations, bytes): (Vec<Option<f64>>, Vec<Option<f64>>) = samples.iter().map(ClientSample::rates).unzip();
    let rates = [bytes, operations].into_iter().find(|rates| rates.iter().any(Option::is_some));
    let task_rate = |client: &ClientSample| 1e9 / client.reading(reading::ELAPSED).unwrap_or(f64::INFINITY);
    match rates {
        Some(rates) => rates.into_iter().map(Option::unwrap_or_default).collect(),
        None => samples.iter().map(task_rate).collect(),
    }
}

/// Merges the samples of all clients for a task. `samples` must not be empty. The result has no time series, and only the
/// readings that `specs` defines or that the merge itself sets.
pub fn merge_samples(samples: &[ClientSample], specs: &ReadingSpecs) -> Sample {
    let measured: Vec<Window> = samples.iter().map(ClientSample::measured_window).collect();
    let common = Window::common(&measured);
    let clients: Vec<ClientAndWindow> = samples.iter().zip(measured).collect();
    let mut readings = Readings::default();
    for id in samples.iter().flat_map(|client| client.sample.readings.0.keys()) {
        if readings.get(id).is_none()
            && let Some(spec) = specs.get(id)
            && let Some(value) = merge_reading(&clients, specs, spec)
        {
            readings.set(id, value);
        }
    }
    let whole = Window::around(samples.iter().map(|client| client.window_of_reading(reading::ELAPSED)));
    readings.set(reading::ELAPSED, whole.length() * 1e9);
    if samples.iter().all(|client| client.reading(reading::SYNCED).is_some()) {
        let ends = samples.iter().map(|client| client.window_of_reading(reading::SYNCED).end);
        readings.set(reading::SYNCED, (ends.fold(whole.end, f64::max) - whole.start) * 1e9);
    }
    set_common_readings(samples, common, &mut readings);
    let mut latencies = LatencyHistogram::default();
    for client in samples {
        latencies.merge(&client.sample.latencies);
    }
    Sample { task: samples[0].sample.task.clone(), started_at: whole.start, readings, series: vec![], latencies }
}

/// Sets the readings that only several clients together have, such as their number, fairness (Jain's index, from 1/n to
/// 1), and rates in the common window.
fn set_common_readings(samples: &[ClientSample], common: Window, readings: &mut Readings) {
    readings.set(reading::CLIENTS, samples.len() as f64);
    readings.set(reading::COMMON_TIME, common.length() * 1e9);
    if common.length() > 0.0 {
        let (mut operations, mut bytes) = (0.0, 0.0);
        for client in samples {
            let (own_operations, own_bytes) = client.amounts_in(common);
            operations += own_operations;
            bytes += own_bytes;
        }
        for (id, amount) in [(reading::COMMON_RATE, operations), (reading::COMMON_BANDWIDTH, bytes)] {
            if amount > 0.0 {
                readings.set(id, amount / common.length());
            }
        }
    }
    let tasks: Vec<Window> = samples.iter().map(|client| client.window_of_reading(reading::ELAPSED)).collect();
    readings.set(reading::START_SPREAD, (Window::common(&tasks).start - Window::around(tasks).start) * 1e9);
    let errors = samples.iter().map(|client| client.clock.error_s);
    readings.set(reading::CLOCK_ERROR, errors.fold(0.0, f64::max) * 1e9);
    let rates = compared_rates(samples);
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|rate| rate * rate).sum::<f64>());
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let fastest = rates.iter().copied().fold(0.0, f64::max);
    if squares > 0.0 {
        readings.set(reading::CLIENT_FAIRNESS, sum * sum / (rates.len() as f64 * squares));
        readings.set(reading::SLOWEST_CLIENT, slowest / fastest);
    }
    let paths: Vec<DataPath> = samples.iter().filter_map(ClientSample::fetched_share).map(DataPath::of).collect();
    if !paths.is_empty() {
        let cached = paths.iter().filter(|path| **path == DataPath::Cache).count();
        readings.set(reading::CACHED_CLIENTS, cached as f64);
    }
}

/// A client, and the window to which its rates refer.
type ClientAndWindow<'a> = (&'a ClientSample<'a>, Window);

/// The value of a reading for all clients together. A quotient is the combined numerator divided by the combined denominator.
fn merge_reading(clients: &[ClientAndWindow], specs: &ReadingSpecs, spec: &MetricSpec) -> Option<f64> {
    let Some(operand_ids) = &spec.quotient_of else { return combine_clients(clients, spec) };
    let operand = |id: &String| {
        let spec = specs.get(id)?;
        Some((combine_clients(clients, spec)?, spec.unit))
    };
    let [numerator, denominator] = operand_ids.each_ref().map(operand);
    spec.quotient([numerator?, denominator?])
}

/// Combines the values of a reading of all clients. If its rules for clients and for machines differ, this function first
/// combines the clients of each machine, and then the values of the machines.
fn combine_clients(clients: &[ClientAndWindow], spec: &MetricSpec) -> Option<f64> {
    let FoldRules { ranks, hosts, .. } = spec.over;
    let whole = Window::around(clients.iter().map(|(_, window)| *window));
    if ranks == hosts {
        return fold_values(ranks, client_values(clients, spec), whole);
    }
    let mut machines: BTreeMap<&Machine, Vec<ClientAndWindow>> = BTreeMap::new();
    for client in clients {
        machines.entry(client.0.machine).or_default().push(*client);
    }
    let mut machine_values = vec![];
    for clients in machines.values() {
        let window = Window::around(clients.iter().map(|(_, window)| *window));
        if let Some(value) = fold_values(ranks, client_values(clients, spec), window) {
            machine_values.push((value, window));
        }
    }
    fold_values(hosts, machine_values, whole)
}

/// The values of a reading, each with the window of its client. Clients without the reading are left out.
fn client_values(clients: &[ClientAndWindow], spec: &MetricSpec) -> Vec<(f64, Window)> {
    clients.iter().filter_map(|(sample, window)| Some((sample.reading(&spec.id)?, *window))).collect()
}

/// Combines values, each with its window. A rate is the sum of the amounts divided by the length of `around`, the window
/// around all clients. With [`Fold::None`] a single value is the result, and several values have none. A rate over a window of
/// length 0 has no value.
fn fold_values(fold: Fold, values: Vec<(f64, Window)>, around: Window) -> Option<f64> {
    match (fold, &values[..]) {
        (Fold::Rate, [_, ..]) if around.length() > 0.0 => {
            let amounts = values.iter().map(|(value, window)| value * window.length());
            Some(amounts.sum::<f64>() / around.length())
        }
        (Fold::None, [(value, _)]) => Some(*value),
        _ => fold.combine(values.into_iter().map(|(value, _)| value)),
    }
}

/// A client straggles if its rate is below this share of the median rate.
const STRAGGLER_RATE: f64 = 2.0 / 3.0;

/// Observations of single clients over all rounds: which straggled, and which read from a cache.
#[derive(Debug, Default)]
pub struct ClientObservations {
    /// By task and variant.
    tasks: BTreeMap<(String, String), TaskObservations>,
}

/// The observations of the clients for one task of one variant.
#[derive(Debug, Default)]
struct TaskObservations {
    rounds: u32,
    /// By rank and host: the number of rounds in which the client straggled, and its smallest share of the median rate.
    stragglers: BTreeMap<(usize, String), (u32, f64)>,
    /// The number of clients that read, added up over all rounds: a client counts once in each round.
    reader_count: u32,
    /// The number of readers whose data came from a cache, by host.
    cached_readers: BTreeMap<String, u32>,
}

impl ClientObservations {
    /// Records the samples of one round, one for each rank in order. Rank 0 is a client, too.
    pub fn record(&mut self, variant: &str, samples: &[ClientSample]) {
        let task = samples[0].sample.task.id.to_string();
        let observations = self.tasks.entry((task, variant.to_string())).or_default();
        observations.rounds += 1;
        let rates = compared_rates(samples);
        let median_rate = median(&rates).unwrap_or_default();
        for (rank, (sample, rate)) in samples.iter().zip(rates).enumerate() {
            let share = rate / median_rate;
            if share < STRAGGLER_RATE {
                let key = (rank, sample.machine.host.clone());
                let (rounds, smallest) = observations.stragglers.entry(key).or_insert((0, share));
                *rounds += 1;
                *smallest = smallest.min(share);
            }
            if let Some(fetched) = sample.fetched_share() {
                observations.reader_count += 1;
                if DataPath::of(fetched) == DataPath::Cache {
                    *observations.cached_readers.entry(sample.machine.host.clone()).or_default() += 1;
                }
            }
        }
    }

    /// Notes for the report about stragglers and cached reads.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = vec![];
        for ((task, variant), observations) in &self.tasks {
            notes.extend(observations.notes().into_iter().map(|note| note.task(task).variant(variant)));
        }
        notes
    }
}

impl TaskObservations {
    fn notes(&self) -> Vec<Note> {
        let mut notes = vec![];
        for ((rank, host), (rounds, share)) in &self.stragglers {
            let text = format!(
                "rank {rank} on {host} straggled in {rounds} of {} rounds; in the worst at {:.0}% of the \
                 median rate",
                self.rounds,
                100.0 * share
            );
            notes.push(Note::new(NoteKind::Remark, text));
        }
        if !self.cached_readers.is_empty() {
            let hosts: Vec<&str> = self.cached_readers.keys().map(String::as_str).collect();
            let text = format!(
                "{} of {} readers got their data from a cache of {} (a client counts once in each round): the bytes did \
                 not come from the device or the server",
                self.cached_readers.values().sum::<u32>(),
                self.reader_count,
                hosts.join(", ")
            );
            let fix = "run ranks on more machines, or read past the page cache (--set direct=true)";
            notes.push(Note::new(NoteKind::Fairness, text).fix(fix));
        }
        notes
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use fsarena_core::cell::{TaskId, TaskInfo};
    use fsarena_core::sample::{Direction, Unit};
    use fsarena_core::series::SeriesPoint;

    /// A sample of a task that began `start_s` seconds after 100 and took `elapsed_s`.
    pub fn sample(start_s: f64, elapsed_s: f64, readings: &[(&str, f64)]) -> Sample {
        let task = TaskInfo { id: TaskId::new("t"), title: "T".into(), number: None, in_totals: true };
        let mut all_readings = Readings::default();
        all_readings.set(reading::ELAPSED, elapsed_s * 1e9);
        all_readings.set(reading::SYNCED, (elapsed_s + 0.5) * 1e9);
        for (id, value) in readings {
            all_readings.set(id, *value);
        }
        Sample {
            task,
            started_at: 100.0 + start_s,
            readings: all_readings,
            series: vec![],
            latencies: LatencyHistogram::default(),
        }
    }

    fn machine(host: &str) -> Machine {
        Machine { host: host.into(), boot_id: String::new() }
    }

    /// Merges samples of clients: each with its host, the seconds that its clock is ahead, and the sample.
    fn merge_clients(samples: &[(&str, f64, Sample)]) -> Readings {
        merge_by_specs(samples, built_in_specs())
    }

    fn merge_by_specs(samples: &[(&str, f64, Sample)], specs: ReadingSpecs) -> Readings {
        let machines: Vec<Machine> = samples.iter().map(|(host, ..)| machine(host)).collect();
        let client_samples: Vec<ClientSample> = samples
            .iter()
            .zip(&machines)
            .map(|((_, ahead_s, sample), machine)| ClientSample {
                machine,
                clock: ClockOffset { ahead_s: *ahead_s, error_s: 0.001 },
                sample,
            })
            .collect();
        merge_samples(&client_samples, &specs).readings
    }

    #[test]
    fn times_and_rates_go_from_the_first_start_to_the_last_end() {
        // 100 bytes a second for 2 s from 0, and 50 for 4 s from 1: 400 bytes in 5 s. The second clock is 10 s ahead.
        let rate = |value| [(reading::WRITE_BANDWIDTH, value)];
        let readings =
            merge_clients(&[("a", 0.0, sample(0.0, 2.0, &rate(100.0))), ("b", 10.0, sample(11.0, 4.0, &rate(50.0)))]);
        let assert_reading =
            |id: &str, value: f64| assert!((readings.get(id).unwrap() - value).abs() < 1.0, "{id}: {readings:?}");
        assert_reading(reading::ELAPSED, 5e9);
        assert_reading(reading::SYNCED, 5.5e9);
        assert_reading(reading::WRITE_BANDWIDTH, 80.0);
        // From 1 to 2, both worked.
        assert_reading(reading::COMMON_TIME, 1e9);
        assert_reading(reading::COMMON_BANDWIDTH, 150.0);
        assert_reading(reading::START_SPREAD, 1e9);
        assert_reading(reading::CLOCK_ERROR, 1e6);
        assert!((readings.get(reading::SLOWEST_CLIENT).unwrap() - 0.5).abs() < 1e-9);
        assert!((readings.get(reading::CLIENT_FAIRNESS).unwrap() - 0.9).abs() < 1e-9);
    }

    #[test]
    fn amounts_in_the_common_time_come_from_the_time_series() {
        // The first client writes everything in its first second, before the other client starts.
        let point = |start_s, bytes| SeriesPoint {
            start_s,
            length_s: 1.0,
            warm_up: false,
            operations: 0,
            bytes,
            latency: None,
        };
        let early = Sample {
            series: vec![point(0.0, 300), point(1.0, 0), point(2.0, 0)],
            ..sample(0.0, 3.0, &[(reading::WRITE_BANDWIDTH, 100.0)])
        };
        let late = sample(1.0, 2.0, &[(reading::WRITE_BANDWIDTH, 10.0)]);
        let readings = merge_clients(&[("a", 0.0, early), ("b", 0.0, late)]);
        assert!((readings.get(reading::COMMON_BANDWIDTH).unwrap() - 10.0).abs() < 1e-6);
    }

    #[test]
    fn counters_of_a_machine_count_once_however_many_clients_it_has() {
        let client_sample = |device: f64, own: f64| {
            sample(0.0, 1.0, &[("device_write_bytes", device), ("written_bytes", own), ("all_latency_p99_ns", own)])
        };
        let readings = merge_clients(&[
            ("a", 0.0, client_sample(10.0, 1.0)),
            ("a", 0.0, client_sample(12.0, 2.0)),
            ("b", 0.0, client_sample(5.0, 4.0)),
        ]);
        assert_eq!(readings.get("device_write_bytes"), Some(17.0));
        assert_eq!(readings.get("written_bytes"), Some(7.0));
        assert_eq!(readings.get("all_latency_p99_ns"), Some(4.0));
        assert_eq!(readings.get(reading::CLIENTS), Some(3.0));
    }

    #[test]
    fn readings_combine_by_their_definitions_and_not_by_their_names() {
        let client_sample = |value: f64| {
            let ids = ["device_reads", "peak_memory_bytes", "cpu_per_operation_ns", "generator_ns", "steady_ratio"];
            sample(0.0, 1.0, &ids.map(|id| (id, value)))
        };
        let readings = merge_clients(&[
            ("a", 0.0, client_sample(1.0)),
            ("a", 0.0, client_sample(3.0)),
            ("b", 0.0, client_sample(5.0)),
        ]);
        let ids = ["device_reads", "peak_memory_bytes", "cpu_per_operation_ns", "generator_ns", "steady_ratio"];
        assert_eq!(ids.map(|id| readings.get(id).unwrap()), [8.0, 9.0, 3.0, 5.0, 1.0]);
    }

    #[test]
    fn printed_metrics_combine_as_declared_and_a_metric_of_a_single_rank_is_kept() {
        let spec = |id: &str, unit, over, operands: Option<[&str; 2]>| {
            let quotient_of = operands.map(|ids| ids.map(String::from));
            (
                id.to_string(),
                MetricSpec { over, quotient_of, ..MetricSpec::new(id.into(), unit, Direction::Lower, String::new()) },
            )
        };
        let by = |unit| FoldRules::of_unit(unit);
        let specs: ReadingSpecs = [
            spec("device_ops_count", Unit::Count, by(Unit::Count), None),
            spec("cost_per_op_s", Unit::Seconds, by(Unit::Seconds), Some(["spent_s", "device_ops_count"])),
            spec("spent_s", Unit::Seconds, FoldRules::all(Fold::Sum), None),
            spec("bare_ratio", Unit::Ratio, by(Unit::Ratio), None),
            spec("alone_count", Unit::Count, FoldRules::all(Fold::None), None),
            spec("mixed_count", Unit::Count, FoldRules { ranks: Fold::Max, ..FoldRules::all(Fold::Mean) }, None),
        ]
        .into();
        let client_sample = |value: f64, alone: bool| {
            let mut values = vec![
                ("device_ops_count", 10.0 * value),
                ("cost_per_op_s", 99.0),
                ("spent_s", value),
                ("bare_ratio", value),
                ("mixed_count", value),
            ];
            values.extend(alone.then_some(("alone_count", 7.0)));
            sample(0.0, 1.0, &values)
        };
        let readings = merge_by_specs(
            &[
                ("a", 0.0, client_sample(1.0, false)),
                ("a", 0.0, client_sample(3.0, true)),
                ("b", 0.0, client_sample(5.0, false)),
            ],
            specs,
        );
        let ids = ["device_ops_count", "cost_per_op_s", "spent_s", "bare_ratio", "alone_count", "mixed_count"];
        assert_eq!(ids.map(|id| readings.get(id).unwrap()), [90.0, 0.1, 9.0, 3.0, 7.0, 4.0]);
    }

    #[test]
    fn clients_that_read_from_a_cache_are_counted() {
        let client_sample =
            |fetched: f64| sample(0.0, 1.0, &[(reading::READ_BYTES, 1e6), (reading::FETCHED_BYTES, fetched)]);
        let readings = merge_clients(&[
            ("a", 0.0, client_sample(1e6)),
            ("a", 0.0, client_sample(0.0)),
            ("b", 0.0, client_sample(5e5)),
        ]);
        assert_eq!(readings.get(reading::CACHED_CLIENTS), Some(1.0));
        let nothing = merge_clients(&[(
            "a",
            0.0,
            sample(0.0, 1.0, &[(reading::READ_BYTES, 10.0), (reading::FETCHED_BYTES, 0.0)]),
        )]);
        assert_eq!(nothing.get(reading::CACHED_CLIENTS), None);
    }

    #[test]
    fn stragglers_and_caches_are_named_by_host() {
        let machines = ["a", "b", "c"].map(|host| Machine { host: host.into(), boot_id: String::new() });
        let mut observations = ClientObservations::default();
        for slow in [4.0, 1.0] {
            let samples = [(1.0, 1e6), (1.0, 0.0), (slow, 1e6)]
                .map(|(s, fetched)| sample(0.0, s, &[(reading::READ_BYTES, 1e6), (reading::FETCHED_BYTES, fetched)]));
            let client_samples: Vec<ClientSample> = machines
                .iter()
                .zip(&samples)
                .map(|(machine, sample)| ClientSample { machine, clock: ClockOffset::default(), sample })
                .collect();
            observations.record("v", &client_samples);
        }
        let notes = observations.notes();
        let texts: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "rank 2 on c straggled in 1 of 2 rounds; in the worst at 25% of the median rate",
                "2 of 6 readers got their data from a cache of b (a client counts once in each round): the bytes did not \
                 come from the device or the server"
            ]
        );
        assert_eq!(notes[0].task.as_deref(), Some("t"));
    }

    #[test]
    fn clients_are_compared_in_the_same_unit() {
        let client_sample = |id: &str, rate| sample(0.0, 1.0, &[(id, rate)]);
        let readings = merge_clients(&[
            ("a", 0.0, client_sample(reading::WRITE_BANDWIDTH, 100.0)),
            ("b", 0.0, client_sample(reading::WRITE_RATE, 100.0)),
        ]);
        assert_eq!(readings.get(reading::SLOWEST_CLIENT), Some(0.0));
    }

    #[test]
    fn of_two_clients_one_straggles_at_less_than_two_thirds_of_their_mean_rate() {
        let machine = machine("a");
        // Rates of 1 and 0.6 tasks per second have the median 0.8, of 1 and 0.25 the median 0.625.
        for (slow_s, straggler_count) in [(1.0 / 0.6, 0), (4.0, 1)] {
            let samples = [sample(0.0, 1.0, &[]), sample(0.0, slow_s, &[])];
            let client_samples = samples.each_ref().map(|sample| ClientSample {
                machine: &machine,
                clock: ClockOffset::default(),
                sample,
            });
            let mut observations = ClientObservations::default();
            observations.record("v", &client_samples);
            assert_eq!(observations.notes().len(), straggler_count, "{slow_s}");
        }
    }
}
