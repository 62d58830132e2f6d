//! fio: `--output-format=json`. Each document of a file is one run.

use super::importer::{Fault, Importer};
use super::series::Collector;
use serde::Deserialize;
use std::collections::BTreeMap;

/// fio's JSON.
pub const FIO: Importer = Importer {
    id: "fio",
    help: "JSON of `fio --output-format=json`, one document a run, one after the other",
    recognises: |text| text.contains("\"fio version\"") && text.contains("\"jobs\""),
    read,
};

#[derive(Deserialize)]
struct Output {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    #[serde(default)]
    read: Io,
    #[serde(default)]
    write: Io,
    #[serde(default)]
    trim: Io,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default)]
struct Io {
    total_ios: f64,
    bw_bytes: f64,
    iops: f64,
    lat_ns: Latency,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default)]
struct Latency {
    mean: f64,
}

impl Io {
    /// Jobs of one name ran at the same time: their rates add up, their latency is that of all requests.
    fn add(&mut self, other: Io) {
        let total = self.total_ios + other.total_ios;
        self.lat_ns.mean = (self.lat_ns.mean * self.total_ios + other.lat_ns.mean * other.total_ios) / total;
        self.total_ios = total;
        self.bw_bytes += other.bw_bytes;
        self.iops += other.iops;
    }
}

fn read(text: &str, into: &mut Collector) -> Result<(), Fault> {
    // fio prints notes and warnings before the document.
    let start = text.find("\n{").map_or(0, |at| if text.starts_with('{') { 0 } else { at + 1 });
    let before = text[..start].lines().count();
    for output in serde_json::Deserializer::from_str(&text[start..]).into_iter::<Output>() {
        let output = output.map_err(|error| Fault::at(before + error.line(), error.to_string()))?;
        run(&output, into);
    }
    Ok(())
}

fn run(output: &Output, into: &mut Collector) {
    let mut sums: BTreeMap<String, Io> = BTreeMap::new();
    for job in &output.jobs {
        for (word, io) in [("read", job.read), ("write", job.write), ("trim", job.trim)] {
            if io.total_ios > 0.0 {
                sums.entry(format!("{} {word}", job.jobname)).or_default().add(io);
            }
        }
    }
    for (name, io) in sums {
        into.add(&name, ("bandwidth", "B/s"), None, io.bw_bytes);
        into.add(&name, ("iops", "/s"), None, io.iops);
        into.add(&name, ("latency", "ns"), None, io.lat_ns.mean);
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    const DOCUMENT: &str = r#"note: both iodepth >= 1 and synchronous I/O engine are selected
{ "fio version" : "fio-3.33", "jobs" : [
 {"jobname": "r", "read": {"total_ios": 0}, "write": {"total_ios": 100, "bw_bytes": 400, "iops": 10.0, "lat_ns": {"mean": 5.0}}},
 {"jobname": "r", "write": {"total_ios": 300, "bw_bytes": 800, "iops": 30.0, "lat_ns": {"mean": 9.0}}}]}
{ "fio version" : "fio-3.33", "jobs" : [{"jobname": "r", "write": {"total_ios": 1, "bw_bytes": 1000, "iops": 20.0}}]}
"#;

    #[test]
    fn jobs_of_one_name_add_up_and_documents_are_runs() {
        let samples = parse("a.json", DOCUMENT.as_bytes(), None).unwrap();
        assert_eq!(samples.format, "fio");
        let series = |metric: &str| samples.series.iter().find(|s| s.metric == metric).unwrap();
        assert_eq!(series("bandwidth").values, [1200.0, 1000.0]);
        assert_eq!(series("iops").values, [40.0, 20.0]);
        // (100·5 + 300·9)/400 = 8.
        assert_eq!(series("latency").values[0], 8.0);
        assert_eq!(samples.series[0].name, "r write");
    }

    #[test]
    fn faults_have_their_line() {
        let broken = DOCUMENT.replace("\"iops\": 30.0", "\"iops\": [");
        let error = parse("a.json", broken.as_bytes(), None).unwrap_err().to_string();
        assert!(error.starts_with("a.json, line 4: "), "{error}");
    }
}
