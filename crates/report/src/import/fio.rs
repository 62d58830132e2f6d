//! The importer of fio's JSON (`--output-format=json`), versions 2.1 to 3.42. Each JSON document is one run. Of the snapshots
//! that `--status-interval` prints of one run, only the last counts.

use super::importer::{FileFault, Importer};
use super::series::{Conditions, SampleCollector, ToolRun};
use super::text::{is_one_of, parse_documents_with, value_text};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The importer of fio's JSON.
pub const FIO: Importer = Importer {
    id: "fio",
    help: "JSON of `fio --output-format=json`, one document a run, one after the other",
    recognises: |text| {
        text.contains("\"fio version\"") && (text.contains("\"jobs\"") || text.contains("\"client_stats\""))
    },
    lead_metrics: &["bandwidth", "iops"],
    read: read_fio_output,
};

/// The conditions of a job: the name of the condition, and fio's options that state it: two names of one option, or for `path`
/// two options. If a job sets both `directory` and `filename`, the condition joins them with `/`, because fio looks for
/// `filename` in `directory`.
const CONDITIONS: [(&str, &[&str]); 15] = [
    ("rw", &["rw", "readwrite"]),
    ("bs", &["bs", "blocksize"]),
    ("bssplit", &["bssplit"]),
    ("rwmixread", &["rwmixread"]),
    ("iodepth", &["iodepth"]),
    ("numjobs", &["numjobs"]),
    ("ioengine", &["ioengine"]),
    ("direct", &["direct"]),
    ("sync", &["sync"]),
    ("fsync", &["fsync"]),
    ("fdatasync", &["fdatasync"]),
    ("size", &["size"]),
    ("rate", &["rate"]),
    ("rate_iops", &["rate_iops"]),
    ("path", &["directory", "filename"]),
];

/// Options that do not affect what a job measures.
const IGNORED_OPTIONS: &str = "name description stonewall wait_for_previous new_group group_reporting startdelay \
                               log_avg_msec write_bw_log write_lat_log write_iops_log write_hist_log";

/// One JSON document of fio.
#[derive(Deserialize)]
struct FioOutput {
    #[serde(rename = "fio version")]
    version: String,
    timestamp: Option<f64>,
    timestamp_ms: Option<f64>,
    /// An object. In client mode with several servers, newer versions print a list with an object for each server: its
    /// `hostname`, its `port` and its options.
    #[serde(rename = "global options")]
    options: Option<Value>,
    #[serde(default)]
    jobs: Vec<Job>,
    #[serde(default)]
    client_stats: Vec<Job>,
}

/// The results of a job. `elapsed` is in seconds.
#[derive(Deserialize)]
struct Job {
    jobname: String,
    groupid: Option<f64>,
    hostname: Option<String>,
    port: Option<f64>,
    error: Option<i32>,
    elapsed: Option<f64>,
    #[serde(rename = "job options")]
    options: Option<Value>,
    read: Option<JobIo>,
    write: Option<JobIo>,
    trim: Option<JobIo>,
    sync: Option<JobIo>,
    mixed: Option<JobIo>,
}

/// The I/O of a job in one direction, such as `read`. Older versions of fio lack some fields. `bw` is in KiB/s, `bw_bytes` in
/// B/s, `runtime` in milliseconds, `lat_ns` in nanoseconds and `lat` in microseconds.
#[derive(Deserialize, Default, Clone)]
#[serde(default)]
struct JobIo {
    total_ios: Option<f64>,
    io_bytes: Option<f64>,
    runtime: Option<f64>,
    bw_bytes: Option<f64>,
    bw: Option<f64>,
    iops: Option<f64>,
    lat_ns: Option<Latency>,
    lat: Option<Latency>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default)]
struct Latency {
    mean: Option<f64>,
}

impl JobIo {
    /// The bandwidth in B/s; `None` if fio printed 0, as it does for values that it did not measure.
    fn bandwidth_bytes_per_s(&self) -> Option<f64> {
        self.bw_bytes.or(self.bw.map(|kib| kib * 1024.0)).filter(|value| *value > 0.0)
    }

    /// Operations per second; `None` if fio did not measure them.
    fn iops(&self) -> Option<f64> {
        self.iops.filter(|value| *value > 0.0)
    }

    /// The mean latency in nanoseconds; `None` if fio did not measure it.
    fn latency_ns(&self) -> Option<f64> {
        let mean = |latency: &Option<Latency>| latency.as_ref()?.mean;
        mean(&self.lat_ns).or(mean(&self.lat).map(|us| us * 1e3)).filter(|value| *value > 0.0)
    }

    /// Whether the job did any I/O in this direction.
    fn has_io(&self) -> bool {
        let counts = [self.total_ios, self.io_bytes, self.bw_bytes, self.bw, self.iops];
        counts.into_iter().flatten().any(|count| count > 0.0)
    }
}

impl Job {
    /// The directions in the output of this job, with their names.
    fn directions(&self) -> impl Iterator<Item = (&'static str, &JobIo)> {
        let directions = [
            ("read", &self.read),
            ("write", &self.write),
            ("trim", &self.trim),
            ("sync", &self.sync),
            ("mixed", &self.mixed),
        ];
        directions.into_iter().filter_map(|(name, io)| Some((name, io.as_ref()?)))
    }

    /// The conditions under which the job ran: its host, its options, and fio's version.
    fn conditions(&self, output: &FioOutput) -> Conditions {
        let mut conditions = Conditions::default();
        if let Some(host) = &self.hostname {
            let port = self.port.map_or(String::new(), |port| format!(":{port}"));
            conditions.set("host", format!("{host}{port}"));
        }
        if let Some(group) = self.groupid {
            conditions.set("group", group.to_string());
        }
        let options = self.all_options(output);
        for (name, known) in CONDITIONS {
            let values = known.iter().filter_map(|option| Some(value_text(options.get(*option)?)));
            conditions.set(name, values.collect::<Vec<_>>().join("/"));
        }
        conditions.set("options", describe_other_options(&options));
        conditions.set("version", &output.version);
        conditions
    }

    /// The options of the job, by name: those of its section, and the global ones that its section does not set.
    fn all_options<'a>(&'a self, output: &'a FioOutput) -> BTreeMap<&'a str, &'a Value> {
        let mut options = output.global_options(self);
        let section = self.options.iter().filter_map(Value::as_object).flatten();
        options.extend(section.map(|(name, value)| (name.as_str(), value)));
        options
    }
}

/// The options that have no entry in [`CONDITIONS`], as one text: `end_fsync=1 random_distribution=zipf:1.2`.
fn describe_other_options(options: &BTreeMap<&str, &Value>) -> String {
    let mut texts = vec![];
    for (name, value) in options {
        let is_condition = CONDITIONS.iter().any(|(_, known)| known.contains(name));
        if is_condition || is_one_of(name, IGNORED_OPTIONS) {
            continue;
        }
        let text = value_text(value);
        texts.push(if text.is_empty() { name.to_string() } else { format!("{name}={text}") });
    }
    texts.join(" ")
}

/// Reads fio's JSON documents, and adds the runs in each one, except for earlier snapshots of the same run.
fn read_fio_output(text: &str, collector: &mut SampleCollector) -> Result<(), FileFault> {
    let outputs: Vec<FioOutput> = parse_documents_with("fio version", text)?;
    for (index, output) in outputs.iter().enumerate() {
        if outputs.get(index + 1).is_some_and(|next| next.is_later_snapshot_of(output)) {
            collector.leave_out("document", "", "an earlier snapshot of the same run (--status-interval)");
        } else {
            output.add_tool_runs(collector);
        }
    }
    Ok(())
}

impl FioOutput {
    /// The global options of a job, by name. In a list for several servers, those of the server on which the job ran.
    fn global_options(&self, job: &Job) -> BTreeMap<&str, &Value> {
        let Some(global) = &self.options else { return BTreeMap::new() };
        let ran_on = |server: &&Value| {
            server["hostname"].as_str() == job.hostname.as_deref() && server["port"].as_f64() == job.port
        };
        let options = match global {
            Value::Array(servers) => servers.iter().find(ran_on),
            _ => Some(global),
        };
        let options = options.and_then(Value::as_object).into_iter().flatten();
        let mut options: BTreeMap<&str, &Value> = options.map(|(name, value)| (name.as_str(), value)).collect();
        if global.is_array() {
            options.retain(|name, _| !["hostname", "port"].contains(name));
        }
        options
    }

    /// All jobs of this document, of fio and of its clients.
    fn all_jobs(&self) -> impl Iterator<Item = &Job> {
        // In client mode the last entry is the sum of all jobs.
        let clients = self.client_stats.iter().filter(|job| job.jobname != "All clients");
        self.jobs.iter().chain(clients)
    }

    /// Adds a [`ToolRun`] for each combination of name, direction and conditions of the jobs.
    ///
    /// Jobs with the same combination ran at the same time: fsarena adds their rates, and takes the mean latency of all
    /// requests.
    fn add_tool_runs(&self, collector: &mut SampleCollector) {
        let mut indices: BTreeMap<(String, Conditions), usize> = BTreeMap::new();
        let mut runs: Vec<(ToolRun, Vec<(&Job, &JobIo)>)> = vec![];
        for job in self.all_jobs() {
            let conditions = job.conditions(self);
            let mut is_idle = true;
            for (direction, io) in job.directions().filter(|(_, io)| io.has_io()) {
                is_idle = false;
                let key = (format!("{} {direction}", job.jobname), conditions.clone());
                let index = *indices.entry(key).or_insert_with_key(|(subject, conditions)| {
                    runs.push((ToolRun::new(subject, conditions), vec![]));
                    runs.len() - 1
                });
                runs[index].1.push((job, io));
            }
            if let (true, Some(why)) = (is_idle, describe_failure(job)) {
                collector.leave_out("run", &job.jobname, &why);
            }
        }
        for (mut run, jobs) in runs {
            let sum = |value: fn(&JobIo) -> Option<f64>| {
                jobs.iter().filter_map(|(_, io)| value(io)).reduce(|sum, value| sum + value)
            };
            run.failure = jobs.iter().find_map(|(job, _)| describe_failure(job));
            run.add_figure("bandwidth", "B/s", sum(JobIo::bandwidth_bytes_per_s));
            run.add_figure("iops", "/s", sum(JobIo::iops));
            run.add_figure("latency", "ns", mean_latency_ns(jobs.iter().map(|(_, io)| *io)));
            collector.add_run(run);
        }
    }

    /// The time at which fio printed this document, in milliseconds since 1970; `None` for versions before 2.2.
    fn printed_ms(&self) -> Option<f64> {
        self.timestamp_ms.or(self.timestamp.map(|seconds| seconds * 1e3))
    }

    /// Whether this is a later snapshot of the run of `earlier`: the same jobs did more I/O, and ran longer by about the time
    /// between the two documents.
    fn is_later_snapshot_of(&self, earlier: &FioOutput) -> bool {
        // fsarena's own export in this format has no snapshots.
        if self.version.starts_with("fsarena-") || self.job_identities() != earlier.job_identities() {
            return false;
        }
        let mut did_more_io = false;
        for counter in [|io: &JobIo| io.total_ios, |io: &JobIo| io.io_bytes] {
            let (old, new) = (earlier.counters(counter), self.counters(counter));
            if !none_decreased(&old, &new) {
                return false;
            }
            did_more_io |= old != new;
        }
        let (old_ms, new_ms) = (earlier.counters(|io| io.runtime), self.counters(|io| io.runtime));
        if !did_more_io || !none_decreased(&old_ms, &new_ms) {
            return false;
        }
        // The additional running time of the job that ran longest since `earlier`.
        let added_runtime_ms = new_ms.iter().zip(&old_ms).map(|(new, old)| new - old).fold(0.0, f64::max);
        let (Some(earlier_ms), Some(now_ms)) = (earlier.printed_ms(), self.printed_ms()) else {
            // Versions before 2.2 print no time, so the running time alone decides.
            return added_runtime_ms >= 200.0;
        };
        let elapsed_ms = self.all_jobs().filter_map(|job| job.elapsed).fold(f64::NAN, f64::max) * 1e3;
        // Whether this run started at least 3 seconds before fio printed the earlier document.
        let started_before = earlier_ms - (now_ms - elapsed_ms) >= 3e3;
        let clock_resolution_ms = if self.timestamp_ms.and(earlier.timestamp_ms).is_some() { 500.0 } else { 1e3 };
        // Whether the jobs ran during the whole time between the two documents. The added running time of a separate run is
        // shorter than that, because it is only the difference from the running time of the run before.
        let ran_all_the_time = now_ms - earlier_ms - added_runtime_ms <= clock_resolution_ms;
        // In a snapshot, the jobs ran for at least half of the time between the two documents.
        now_ms >= earlier_ms && added_runtime_ms * 2.0 >= now_ms - earlier_ms && (started_before || ran_all_the_time)
    }

    /// The name, the host and the group of each job.
    fn job_identities(&self) -> Vec<(&str, Option<&str>, Option<f64>)> {
        self.all_jobs().map(|job| (&*job.jobname, job.hostname.as_deref(), job.groupid)).collect()
    }

    /// The values of a counter, for each direction of each job; 0 if fio did not print it.
    fn counters(&self, counter: fn(&JobIo) -> Option<f64>) -> Vec<f64> {
        self.all_jobs().flat_map(Job::directions).map(|(_, io)| counter(io).unwrap_or(0.0)).collect()
    }
}

/// Whether both lists have the same length, and no counter is smaller in the new one.
fn none_decreased(old: &[f64], new: &[f64]) -> bool {
    old.len() == new.len() && old.iter().zip(new).all(|(old, new)| old <= new)
}

/// Why a job failed; `None` if it succeeded.
fn describe_failure(job: &Job) -> Option<String> {
    let error = job.error.filter(|error| *error != 0)?;
    Some(format!("fio's error: {}", std::io::Error::from_raw_os_error(error)))
}

/// The mean latency of all requests in nanoseconds; `None` if fio measured no latency.
fn mean_latency_ns<'a>(ios: impl Iterator<Item = &'a JobIo>) -> Option<f64> {
    let (mut sum, mut requests) = (0.0, 0.0);
    for io in ios {
        // Versions before 2.2 print no number of requests. Jobs that ran together have requests in the ratio of their IOPS.
        if let (Some(latency), Some(count)) = (io.latency_ns(), io.total_ios.or(io.iops)) {
            sum += latency * count;
            requests += count;
        }
    }
    (requests > 0.0).then(|| sum / requests)
}

#[cfg(test)]
mod tests {
    use super::super::{Samples, parse};

    const DOCUMENT: &str = r#"note: both iodepth >= 1 and synchronous I/O engine are selected
{ "fio version" : "fio-3.33", "jobs" : [
 {"jobname": "r", "read": {"total_ios": 0}, "write": {"total_ios": 100, "bw_bytes": 400, "iops": 10.0, "lat_ns": {"mean": 5.0}}},
 {"jobname": "r", "write": {"total_ios": 300, "bw_bytes": 800, "iops": 30.0, "lat_ns": {"mean": 9.0}}}]}
note: more words
{ "fio version" : "fio-3.33", "jobs" : [{"jobname": "r", "write": {"total_ios": 1, "bw_bytes": 1000, "iops": 20.0}}]}
Run status group 0 (all jobs):
"#;

    fn parse_samples(text: &str) -> Samples {
        parse("a.json", text.as_bytes(), None).unwrap()
    }

    #[test]
    fn jobs_of_one_name_add_up_and_each_document_is_a_run() {
        let samples = parse_samples(DOCUMENT);
        assert_eq!(samples.format, "fio");
        let series = |metric: &str| samples.series.iter().find(|series| series.metric == metric).unwrap();
        assert_eq!(series("bandwidth").values, [1200.0, 1000.0]);
        assert_eq!(series("iops").values, [40.0, 20.0]);
        // (100·5 + 300·9)/400 = 8. The second run did not measure its latency.
        assert_eq!(series("latency").values, [8.0]);
        assert_eq!(samples.series[0].name, "r write");
    }

    #[test]
    fn options_that_differ_are_in_the_series_name() {
        let document = |options: &str| {
            format!(
                "{{\"fio version\": \"fio-3.33\", \"jobs\": [{{\"jobname\": \"r\", \"job options\": {{{options}}}, \"read\": \
                 {{\"total_ios\": 1, \"bw_bytes\": 9}}}}]}}\n"
            )
        };
        let names = |first: &str, second: &str| -> Vec<String> {
            let samples = parse_samples(&format!("{}{}", document(first), document(second)));
            samples.series.into_iter().map(|series| series.name).collect()
        };
        assert_eq!(
            names("\"bs\": \"4k\"", "\"bs\": \"4k\", \"end_fsync\": \"1\", \"buffered\": \"1\""),
            ["r read", "r read[options=buffered=1 end_fsync=1]"]
        );
        assert_eq!(names("\"stonewall\": \"\"", "\"description\": \"cold\""), ["r read"]);
        let in_directory = |directory: &str| format!("\"directory\": \"{directory}\", \"filename\": \"f\"");
        assert_eq!(
            names(&in_directory("/ext4"), &in_directory("/xfs")),
            ["r read[path=/ext4/f]", "r read[path=/xfs/f]"]
        );
    }

    #[test]
    fn global_options_of_several_servers_are_conditions() {
        let document = |block_size: &str| {
            let server = |host: &str, options: &str| format!(r#"{{"hostname": "{host}", "port": 8765, {options}}}"#);
            let global = [server("a", r#""bs": "1m""#), server("b", &format!(r#""bs": "{block_size}""#))].join(", ");
            let job = server("b", r#""jobname": "r", "read": {"total_ios": 1, "bw_bytes": 9}"#);
            format!(r#"{{"fio version": "fio-3.42", "global options": [{global}], "client_stats": [{job}]}}"#) + "\n"
        };
        let samples = parse_samples(&[document("4k"), document("8k")].concat());
        let names: Vec<&str> = samples.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["r read[bs=4k]", "r read[bs=8k]"]);
    }

    #[test]
    fn jobs_with_an_error_are_left_out() {
        let samples = parse_samples(&DOCUMENT.replacen("\"jobname\": \"r\"", "\"jobname\": \"r\", \"error\": 5", 1));
        assert_eq!(samples.series[0].values, [1000.0]);
        let reason = samples.left_out[0].to_string();
        assert!(reason.starts_with("1 run of r write: fio's error: Input/output error"), "{reason}");
    }

    #[test]
    fn snapshots_form_one_run_but_consecutive_runs_do_not() {
        let document = |timestamp_ms: u32, ios: u32, runtime_ms: u32| {
            format!(
                "{{\"fio version\": \"fio-3.33\", \"timestamp_ms\": {timestamp_ms}, \"jobs\": [{{\"jobname\": \"a\", \"read\": \
                 {{\"total_ios\": {ios}, \"runtime\": {runtime_ms}, \"iops\": {ios}}}}}]}}\n"
            )
        };
        let values = |documents: [String; 3]| parse_samples(&documents.concat()).series[0].values.clone();
        assert_eq!(values([document(1000, 5, 1000), document(2000, 9, 2000), document(2100, 10, 2080)]), [10.0]);
        assert_eq!(
            values([document(1000, 5, 1000), document(2100, 9, 1001), document(3200, 10, 1001)]),
            [5.0, 9.0, 10.0]
        );
        // The second run was ten times as long as the first.
        assert_eq!(
            values([document(1000, 5, 1000), document(11_200, 90, 10_000), document(12_300, 6, 1000)]),
            [5.0, 90.0, 6.0]
        );
    }

    #[test]
    fn errors_name_the_line() {
        let broken = DOCUMENT.replace("\"iops\": 30.0", "\"iops\": [");
        let error = parse("a.json", broken.as_bytes(), None).unwrap_err().to_string();
        assert!(error.starts_with("a.json, line 4: "), "{error}");
        let broken = DOCUMENT.replace("\"iops\": 20.0", "\"iops\": \"x\"");
        let error = parse("a.json", broken.as_bytes(), None).unwrap_err().to_string();
        assert!(error.starts_with("a.json, line 6: "), "{error}");
    }
}
