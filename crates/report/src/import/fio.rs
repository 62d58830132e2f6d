//! fio: `--output-format=json`, of versions 2.0 to 3.41. Each document is one run; the snapshots of `--status-interval`
//! are one run, its last.

use super::series::Collector;
use super::series::{Conditions, ToolRun};
use super::text::json_documents;
use super::{Fault, Importer};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// fio's JSON.
pub const FIO: Importer = Importer {
    id: "fio",
    help: "JSON of `fio --output-format=json`, one document a run, one after the other",
    recognises: |text| {
        text.contains("\"fio version\"") && (text.contains("\"jobs\"") || text.contains("\"client_stats\""))
    },
    leads: &["bandwidth", "iops"],
    read,
};

/// Options of a job that are conditions of its figures, and their names in series. The first that is set counts.
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
    ("path", &["filename", "directory"]),
];

/// Options that change nothing of what a job measures.
const NO_CONDITIONS: [&str; 12] = [
    "name",
    "description",
    "stonewall",
    "wait_for_previous",
    "new_group",
    "group_reporting",
    "startdelay",
    "log_avg_msec",
    "write_bw_log",
    "write_lat_log",
    "write_iops_log",
    "write_hist_log",
];

#[derive(Deserialize)]
struct Output {
    #[serde(rename = "fio version")]
    version: String,
    timestamp: Option<f64>,
    timestamp_ms: Option<f64>,
    /// A list in the output of a client.
    #[serde(rename = "global options")]
    options: Option<Value>,
    #[serde(default)]
    jobs: Vec<Job>,
    #[serde(default)]
    client_stats: Vec<Job>,
}

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
    read: Option<Io>,
    write: Option<Io>,
    trim: Option<Io>,
    sync: Option<Io>,
    mixed: Option<Io>,
}

/// What went in one direction. Older versions lack some of it, and `bw` and `lat` are in KiB/s and µs.
#[derive(Deserialize, Default, Clone)]
#[serde(default)]
struct Io {
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

impl Io {
    /// fio prints 0 for what it did not measure.
    fn bandwidth(&self) -> Option<f64> {
        self.bw_bytes.or(self.bw.map(|kib| kib * 1024.0)).filter(|value| *value > 0.0)
    }

    fn iops(&self) -> Option<f64> {
        self.iops.filter(|value| *value > 0.0)
    }

    fn latency_ns(&self) -> Option<f64> {
        let mean = |latency: &Option<Latency>| latency.as_ref()?.mean;
        mean(&self.lat_ns).or(mean(&self.lat).map(|us| us * 1e3)).filter(|value| *value > 0.0)
    }

    fn ran(&self) -> bool {
        let counts = [self.total_ios, self.io_bytes, self.bw_bytes, self.bw, self.iops];
        counts.into_iter().flatten().any(|count| count > 0.0)
    }
}

impl Job {
    fn directions(&self) -> impl Iterator<Item = (&'static str, &Io)> {
        let all = [
            ("read", &self.read),
            ("write", &self.write),
            ("trim", &self.trim),
            ("sync", &self.sync),
            ("mixed", &self.mixed),
        ];
        all.into_iter().filter_map(|(word, io)| Some((word, io.as_ref()?)))
    }

    fn conditions(&self, output: &Output) -> Conditions {
        let option = |name: &&str| {
            let of = |options: &Option<Value>| match options.as_ref()?.get(name)? {
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            };
            of(&self.options).or_else(|| of(&output.options))
        };
        let mut conditions = Conditions::default();
        let port = self.port.map_or(String::new(), |port| format!(":{port}"));
        conditions.set("host", self.hostname.as_ref().map_or(String::new(), |host| format!("{host}{port}")));
        conditions.set("group", self.groupid.map_or(String::new(), |group| group.to_string()));
        for (name, options) in CONDITIONS {
            conditions.set(name, options.iter().find_map(option).unwrap_or_default());
        }
        conditions.set("options", self.other_options(output));
        conditions.set("version", &output.version);
        conditions
    }

    /// Every option that is no condition of its own: `end_fsync=1 random_distribution=zipf:1.2`.
    fn other_options(&self, output: &Output) -> String {
        let named = |name: &str| CONDITIONS.iter().any(|(_, options)| options.contains(&name));
        let mut all = BTreeMap::new();
        for options in [&output.options, &self.options].into_iter().flatten() {
            all.extend(options.as_object().into_iter().flatten());
        }
        let others =
            all.into_iter().filter(|(name, _)| !named(name) && !NO_CONDITIONS.contains(&name.as_str()));
        let word = |(name, value): (&String, &Value)| match value.as_str() {
            Some("") => name.clone(),
            Some(text) => format!("{name}={text}"),
            None => format!("{name}={value}"),
        };
        others.map(word).collect::<Vec<_>>().join(" ")
    }
}

fn read(text: &str, into: &mut Collector) -> Result<(), Fault> {
    let mut outputs: Vec<Output> = vec![];
    for (line, document) in json_documents(text)? {
        if document.get("fio version").is_none() {
            continue;
        }
        let output = serde_json::from_value(document);
        outputs.push(output.map_err(|error| Fault::at(line, format!("in this document: {error}")))?);
    }
    for (at, output) in outputs.iter().enumerate() {
        if outputs.get(at + 1).is_some_and(|next| next.continues(output)) {
            into.leave_out("document", "", "an earlier snapshot of the same run (--status-interval)");
        } else {
            output.collect(into);
        }
    }
    Ok(())
}

impl Output {
    fn all(&self) -> impl Iterator<Item = &Job> {
        // The last entry of a client's output sums up all jobs.
        let clients = self.client_stats.iter().filter(|job| job.jobname != "All clients");
        self.jobs.iter().chain(clients)
    }

    /// Jobs of one name under the same conditions ran at the same time: their rates add up, their latency is that of all
    /// requests.
    fn collect(&self, into: &mut Collector) {
        let mut places: BTreeMap<(String, Conditions), usize> = BTreeMap::new();
        let mut runs: Vec<Vec<(&Job, &Io)>> = vec![];
        let mut readings: Vec<ToolRun> = vec![];
        for job in self.all() {
            let ran = job.directions().filter(|(_, io)| io.ran());
            let conditions = job.conditions(self);
            for (word, io) in ran {
                let key = (format!("{} {word}", job.jobname), conditions.clone());
                let at = *places.entry(key).or_insert_with_key(|(subject, conditions)| {
                    readings.push(ToolRun::new(subject, conditions));
                    runs.push(vec![]);
                    runs.len() - 1
                });
                runs[at].push((job, io));
            }
            if job.error.is_some_and(|error| error != 0) && !job.directions().any(|(_, io)| io.ran()) {
                into.leave_out("run", &job.jobname, &failure(job).unwrap_or_default());
            }
        }
        for (mut reading, jobs) in readings.into_iter().zip(runs) {
            let sum = |of: fn(&Io) -> Option<f64>| {
                jobs.iter().filter_map(|(_, io)| of(io)).reduce(|sum, value| sum + value)
            };
            reading.failed = jobs.iter().find_map(|(job, _)| failure(job));
            reading.add_figure("bandwidth", "B/s", sum(Io::bandwidth));
            reading.add_figure("iops", "/s", sum(Io::iops));
            reading.add_figure("latency", "ns", mean_latency(jobs.iter().map(|(_, io)| *io)));
            into.add_run(reading);
        }
    }

    /// When it was printed, in milliseconds.
    fn printed_ms(&self) -> Option<f64> {
        self.timestamp_ms.or(self.timestamp.map(|seconds| seconds * 1e3))
    }

    /// Whether this is a later snapshot of the run of `before`: the same jobs have gone on, for as long as the clock says.
    fn continues(&self, before: &Output) -> bool {
        let names = |output: &Output| -> Vec<_> {
            output
                .all()
                .map(|job| (job.jobname.clone(), job.hostname.clone(), job.groupid.map(f64::to_bits)))
                .collect()
        };
        if self.version.starts_with("fsarena-") || names(self) != names(before) {
            return false;
        }
        let counters = |of: fn(&Io) -> Option<f64>| {
            let all = |output: &Output| -> Vec<f64> {
                output.all().flat_map(Job::directions).map(|(_, io)| of(io).unwrap_or(0.0)).collect()
            };
            (all(before), all(self))
        };
        let grows = |(before, after): &(Vec<f64>, Vec<f64>)| {
            before.len() == after.len() && before.iter().zip(after).all(|(before, after)| before <= after)
        };
        let (ios, bytes, ran_ms) =
            (counters(|io| io.total_ios), counters(|io| io.io_bytes), counters(|io| io.runtime));
        if ![&ios, &bytes, &ran_ms].into_iter().all(grows) {
            return false;
        }
        let longer_ms =
            ran_ms.1.iter().zip(&ran_ms.0).map(|(after, before)| after - before).fold(0.0, f64::max);
        if ios.0 == ios.1 && bytes.0 == bytes.1 {
            return false;
        }
        match (before.printed_ms(), self.printed_ms()) {
            (Some(then), Some(now)) => {
                let elapsed_ms = self.all().filter_map(|job| job.elapsed).fold(f64::NAN, f64::max) * 1e3;
                // Whether this run had been going on for a while when the other document was printed.
                let had_begun = then - (now - elapsed_ms) >= 3e3;
                // A run that began later took all its time since then, and not only the difference.
                let clock_ms = if self.timestamp_ms.and(before.timestamp_ms).is_some() { 500.0 } else { 1e3 };
                let all_since_then = now - then - longer_ms <= clock_ms;
                now >= then && longer_ms * 2.0 >= now - then && (had_begun || all_since_then)
            }
            // Versions before 2.2 print no clock.
            _ => longer_ms >= 200.0,
        }
    }
}

fn failure(job: &Job) -> Option<String> {
    let error = job.error.filter(|error| *error != 0)?;
    Some(format!("fio's error: {}", std::io::Error::from_raw_os_error(error)))
}

/// The mean latency of all requests.
fn mean_latency<'a>(all: impl Iterator<Item = &'a Io>) -> Option<f64> {
    // Versions before 2.2 do not count requests; jobs that ran together have them in the ratio of their rates.
    let weighed = all.filter_map(|io| Some((io.latency_ns()?, io.total_ios.or(io.iops)?)));
    let (sum, weight) =
        weighed.fold((0.0, 0.0), |(sum, weight), (value, of)| (sum + value * of, weight + of));
    (weight > 0.0).then(|| sum / weight)
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

    fn read(text: &str) -> Samples {
        parse("a.json", text.as_bytes(), None).unwrap()
    }

    #[test]
    fn jobs_of_one_name_add_up_and_documents_are_runs() {
        let samples = read(DOCUMENT);
        assert_eq!(samples.format, "fio");
        let series = |metric: &str| samples.series.iter().find(|s| s.metric == metric).unwrap();
        assert_eq!(series("bandwidth").values, [1200.0, 1000.0]);
        assert_eq!(series("iops").values, [40.0, 20.0]);
        // (100·5 + 300·9)/400 = 8. The second run did not measure its latency.
        assert_eq!(series("latency").values, [8.0]);
        assert_eq!(samples.series[0].name, "r write");
    }

    #[test]
    fn every_option_that_differs_is_a_condition() {
        let document = |options: &str| {
            format!(
                "{{\"fio version\": \"fio-3.33\", \"jobs\": [{{\"jobname\": \"r\", \"job options\": {{{options}}}, \"read\": \
                 {{\"total_ios\": 1, \"bw_bytes\": 9}}}}]}}\n"
            )
        };
        let names = |first: &str, second: &str| -> Vec<String> {
            let samples = read(&format!("{}{}", document(first), document(second)));
            samples.series.into_iter().map(|one| one.name).collect()
        };
        assert_eq!(
            names("\"bs\": \"4k\"", "\"bs\": \"4k\", \"end_fsync\": \"1\", \"buffered\": \"1\""),
            ["r read", "r read[options=buffered=1 end_fsync=1]"]
        );
        assert_eq!(names("\"stonewall\": \"\"", "\"description\": \"cold\""), ["r read"]);
    }

    #[test]
    fn a_job_with_an_error_is_left_out() {
        let samples = read(&DOCUMENT.replacen("\"jobname\": \"r\"", "\"jobname\": \"r\", \"error\": 5", 1));
        assert_eq!(samples.series[0].values, [1000.0]);
        let said = samples.left_out[0].to_string();
        assert!(said.starts_with("1 run of r write: fio's error: Input/output error"), "{said}");
    }

    #[test]
    fn snapshots_are_one_run_and_runs_in_a_row_are_not() {
        let document = |ms: u32, ios: u32, runtime: u32| {
            format!(
                "{{\"fio version\": \"fio-3.33\", \"timestamp_ms\": {ms}, \"jobs\": [{{\"jobname\": \"a\", \"read\": \
                 {{\"total_ios\": {ios}, \"runtime\": {runtime}, \"iops\": {ios}}}}}]}}\n"
            )
        };
        let values = |documents: [String; 3]| read(&documents.concat()).series[0].values.clone();
        assert_eq!(
            values([document(1000, 5, 1000), document(2000, 9, 2000), document(2100, 10, 2080)]),
            [10.0]
        );
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
    fn faults_have_their_line() {
        let broken = DOCUMENT.replace("\"iops\": 30.0", "\"iops\": [");
        let error = parse("a.json", broken.as_bytes(), None).unwrap_err().to_string();
        assert!(error.starts_with("a.json, line 4: "), "{error}");
        let broken = DOCUMENT.replace("\"iops\": 20.0", "\"iops\": \"x\"");
        let error = parse("a.json", broken.as_bytes(), None).unwrap_err().to_string();
        assert!(error.starts_with("a.json, line 6: "), "{error}");
    }
}
