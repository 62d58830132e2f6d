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
    read: read_dbench_output,
};

/// The subject of the figures of a whole run.
const ALL_OPERATIONS: &str = "all operations";

/// The run whose lines are being read. Its last line, which has the number of clients and the throughput, is still to come.
#[derive(Default)]
struct DbenchRun {
    /// The version of dbench.
    version: String,
    /// The name of the file with the load.
    load: String,
    /// The error that dbench printed.
    error: Option<String>,
    /// The name of each operation, its mean latency and its largest latency, both in milliseconds.
    operations: Vec<(String, f64, f64)>,
}

impl DbenchRun {
    /// Adds the figures of a complete run: its throughput in MB/s, its largest latency, and the latencies of its operations.
    fn finish(
        self,
        conditions: &Conditions,
        throughput_mb_s: f64,
        max_latency_ms: Option<f64>,
        collector: &mut SampleCollector,
    ) {
        let succeeded = self.error.is_none();
        let mut whole_run = ToolRun { failure: self.error, ..ToolRun::new(ALL_OPERATIONS, conditions) };
        whole_run.add_figure("throughput", "MB/s", Some(throughput_mb_s));
        whole_run.add_figure("latency max", "ms", max_latency_ms);
        collector.add_run(whole_run);
        if !succeeded {
            return;
        }
        for (name, mean_ms, max_ms) in self.operations {
            let mut operation = ToolRun::new(name, conditions);
            // dbench prints times below its resolution as 0.000 ms.
            operation.add_figure("latency", "ms", Some(mean_ms).filter(|ms| *ms != 0.0));
            operation.add_figure("latency max", "ms", Some(max_ms).filter(|ms| *ms != 0.0));
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
fn read_dbench_output(text: &str, collector: &mut SampleCollector) -> Result<(), FileFault> {
    let mut run = DbenchRun::default();
    for (line_number, line) in parse_lines(text) {
        match line.map_err(|message| FileFault::in_line(line_number, message))? {
            DbenchLine::Version(version) => {
                std::mem::take(&mut run).leave_out_unfinished(collector);
                run.version = version.into();
            }
            DbenchLine::Loadfile(load) => run.load = load.into(),
            DbenchLine::Failed(why) => run.error = Some(why.into()),
            DbenchLine::Operation { name, mean_ms, max_ms, count } => {
                if count > 0 {
                    run.operations.push((name.into(), mean_ms, max_ms));
                }
            }
            DbenchLine::Throughput { mb_per_s, clients, processes, sync_options, max_ms } => {
                let run = std::mem::take(&mut run);
                let mut conditions = Conditions::default();
                // By default each process has one client, so the number of processes adds nothing to that of clients.
                let processes = processes.filter(|processes| Some(*processes) != clients);
                conditions.set("load", &run.load);
                conditions.set("clients", clients.unwrap_or(""));
                conditions.set("processes", processes.unwrap_or(""));
                conditions.set("sync", sync_options);
                conditions.set("version", &run.version);
                run.finish(&conditions, mb_per_s, max_ms, collector);
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

    fn parse_samples(text: &str) -> Samples {
        parse("a.txt", text.as_bytes(), None).unwrap()
    }

    #[test]
    fn throughput_is_the_first_series_and_operations_have_latencies() {
        let samples = parse_samples(&format!("{TEXT}{TEXT}"));
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
        let samples = parse_samples(&several);
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
        let samples = parse_samples(&format!("{failed}{TEXT}"));
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
