//! The importer of dbench's text, versions 1 to 5: its table of operations, and its last line with the throughput.

use super::importer::{FileFault, Importer};
use super::series::{Conditions, SampleCollector, ToolRun};
use fsarena_core::dbench::{DbenchLine, is_dbench_output, parse_lines};

/// The importer of dbench's text.
pub const DBENCH: Importer = Importer {
    id: "dbench",
    help: "text of dbench: throughput, and the latency of each operation, one run after the other",
    recognises: is_dbench_output,
    lead_metrics: &["throughput"],
    read: add_runs,
};

/// The subject of the figures of a whole run.
const ALL_OPERATIONS: &str = "all operations";

/// The run whose lines are being read. Its last line, which has the number of clients and the throughput, is still to come.
#[derive(Default)]
struct DbenchRun {
    version: String,
    /// The file with the load.
    load: String,
    /// The error that dbench printed.
    error: Option<String>,
    /// Name, mean latency and maximum latency of each operation, in milliseconds.
    operations: Vec<(String, f64, f64)>,
}

impl DbenchRun {
    /// Adds the figures of a complete run. `mb_s` is its throughput, `max_ms` its largest latency.
    fn finish(self, conditions: &Conditions, mb_s: f64, max_ms: Option<f64>, collector: &mut SampleCollector) {
        let succeeded = self.error.is_none();
        let mut whole_run = ToolRun { failure: self.error, ..ToolRun::new(ALL_OPERATIONS, conditions) };
        whole_run.add_figure("throughput", "MB/s", Some(mb_s));
        whole_run.add_figure("latency max", "ms", max_ms);
        collector.add_run(whole_run);
        for (name, mean, max) in self.operations.into_iter().filter(|_| succeeded) {
            let mut operation = ToolRun::new(name, conditions);
            // dbench prints times below its resolution as 0.000 ms.
            operation.add_figure("latency", "ms", Some(mean).filter(|mean| *mean != 0.0));
            operation.add_figure("latency max", "ms", Some(max).filter(|max| *max != 0.0));
            collector.add_run(operation);
        }
    }

    /// Counts a run without a last line as left out, if it failed or has operations. Its first lines alone are not a run,
    /// because children that fail print them again.
    fn leave_out_unfinished(self, collector: &mut SampleCollector) {
        if let Some(why) = self.error {
            collector.leave_out("run", ALL_OPERATIONS, &why);
        } else if !self.operations.is_empty() {
            collector.leave_out("run", ALL_OPERATIONS, "it has no last line");
        }
    }
}

/// Reads the output of dbench, and adds the figures of each run.
fn add_runs(text: &str, collector: &mut SampleCollector) -> Result<(), FileFault> {
    let mut run = DbenchRun::default();
    for (line, parsed) in parse_lines(text) {
        match parsed.map_err(|message| FileFault::in_line(line, message))? {
            DbenchLine::Version(version) => {
                std::mem::take(&mut run).leave_out_unfinished(collector);
                run.version = version.into();
            }
            DbenchLine::Load(load) => run.load = load.into(),
            DbenchLine::Failed(why) => run.error = Some(why.into()),
            DbenchLine::Operation { name, mean_ms, max_ms, count } => {
                if count > 0 {
                    run.operations.push((name.into(), mean_ms, max_ms));
                }
            }
            DbenchLine::Throughput { mb_s, clients, processes, sync, max_ms } => {
                let run = std::mem::take(&mut run);
                let mut conditions = Conditions::default();
                // By default each process has one client. Then the number of processes is not a condition of its own.
                let processes = processes.filter(|processes| Some(*processes) != clients);
                conditions.set("load", &run.load);
                conditions.set("clients", clients.unwrap_or(""));
                conditions.set("processes", processes.unwrap_or(""));
                conditions.set("sync", sync);
                conditions.set("version", &run.version);
                run.finish(&conditions, mb_s, max_ms, collector);
            }
        }
    }
    run.leave_out_unfinished(collector);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Samples, parse};

    /// As dbench 4.0 prints it, shortened.
    const TEXT: &str = "\
dbench version 4.00 - Copyright Andrew Tridgell 1999-2004

Running for 10 seconds with load 'client.txt' and minimum warmup 2 secs
   2      1234   123.45 MB/sec  execute   1 sec  latency 3.456 ms

 Operation      Count    AvgLat    MaxLat
 ----------------------------------------
 NTCreateX      88123     0.046    12.345
 Flush           6214     2.500    30.100

Throughput 321.5 MB/sec  2 clients  2 procs  max_latency=30.112 ms
";

    fn read(text: &str) -> Samples {
        parse("a.txt", text.as_bytes(), None).unwrap()
    }

    #[test]
    fn throughput_is_the_first_series_and_operations_have_latencies() {
        let samples = read(&format!("{TEXT}{TEXT}"));
        let shown: Vec<_> = samples
            .series
            .iter()
            .map(|series| (series.name.as_str(), series.metric.as_str(), series.values.clone()))
            .collect();
        assert_eq!(shown[0], ("all operations", "throughput", vec![321.5, 321.5]));
        assert_eq!(shown[2], ("NTCreateX", "latency", vec![0.046, 0.046]));
        assert_eq!((samples.format, shown.len()), ("dbench", 6));
        assert!(samples.series.iter().all(|series| series.rounds.is_none()));
    }

    #[test]
    fn runs_with_other_loads_clients_or_sync_modes_are_separate_series() {
        let several = format!(
            "{TEXT}{}{}{}",
            TEXT.replace("client.txt", "nfs.txt"),
            TEXT.replace("2 clients  2 procs", "8 clients  8 procs"),
            TEXT.replace("sec  2", "sec (sync open)  2")
        );
        let samples = read(&several);
        let names: Vec<&str> = samples
            .series
            .iter()
            .filter(|series| series.metric == "throughput")
            .map(|series| series.name.as_str())
            .collect();
        assert_eq!(
            names,
            [
                "all operations[load=client.txt,clients=2]",
                "all operations[load=nfs.txt,clients=2]",
                "all operations[load=client.txt,clients=8]",
                "all operations[load=client.txt,clients=2,sync=(sync open)]"
            ]
        );
        assert!(samples.series.iter().all(|series| series.values.len() == 1));
    }

    #[test]
    fn a_run_whose_client_failed_is_left_out() {
        let failed = "dbench version 4.00 - x\nRunning for 2 seconds with load 'a' and x\nChild failed with status 1\n";
        let samples = read(&format!("{failed}{TEXT}"));
        assert_eq!(samples.series[0].values, [321.5]);
        assert_eq!(samples.left_out[0].to_string(), "1 run of all operations: Child failed with status 1");
        let error = parse("a", failed.as_bytes(), None).unwrap_err().to_string();
        assert!(error.contains("no sample in it") && error.contains("Child failed with status 1"), "{error}");
    }

    #[test]
    fn errors_name_the_line() {
        let error = parse("a", TEXT.replace("2.500", "slow").as_bytes(), None).unwrap_err().to_string();
        assert_eq!(error, "a, line 9: `slow` is not a latency");
        let error = parse("a", TEXT.replace("321.5", "x").as_bytes(), None).unwrap_err().to_string();
        assert_eq!(error, "a, line 11: `x` is not a throughput");
    }
}
