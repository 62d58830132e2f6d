//! sysbench: what `sysbench … run` prints. Each run of a file begins with its version line.

use super::importer::{Fault, Importer};
use super::series::Collector;

/// sysbench's text.
pub const SYSBENCH: Importer = Importer {
    id: "sysbench",
    help: "text of `sysbench … run`, one run after the other",
    recognises: |text| text.lines().any(begins),
    read,
};

/// The lines of the summary that say how it went: label, metric, unit.
const LINES: [(&str, &str, &str); 11] = [
    ("reads/s", "reads", "/s"),
    ("writes/s", "writes", "/s"),
    ("fsyncs/s", "fsyncs", "/s"),
    ("read, MiB/s", "read", "MiB/s"),
    ("written, MiB/s", "written", "MiB/s"),
    ("events per second", "events", "/s"),
    ("transactions", "transactions", "/s"),
    ("total time", "time", "s"),
    ("avg", "latency", "ms"),
    ("95th percentile", "latency 95%", "ms"),
    ("max", "latency max", "ms"),
];

fn read(text: &str, into: &mut Collector) -> Result<(), Fault> {
    let mut test = String::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if begins(line) {
            test.clear();
        } else if let Some(what) = line.strip_prefix("Doing ") {
            test = what.to_string();
        } else if let Some((label, rest)) = line.split_once(':') {
            let known = LINES.iter().find(|(known, ..)| *known == label.trim());
            let Some((label, metric, unit)) = known else { continue };
            let value = number(label, rest).ok_or_else(|| {
                Fault::at(at + 1, format!("`{}` behind {label} is not a number", rest.trim()))
            })?;
            into.add(&test, (metric, unit), None, value);
        }
    }
    Ok(())
}

fn begins(line: &str) -> bool {
    line.strip_prefix("sysbench ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// `10.0161s`, `0.21`; of `transactions: 1234 (123.4 per sec.)` the rate.
fn number(label: &str, rest: &str) -> Option<f64> {
    let text = match label {
        "transactions" => rest.split_once('(')?.1.split_whitespace().next()?,
        _ => rest.trim(),
    };
    text.strip_suffix('s').unwrap_or(text).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    /// Two runs of sysbench 1.0.20, shortened.
    const TEXT: &str = "\
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Doing random r/w test
File operations:
    reads/s:                      8921.07
Throughput:
    read, MiB/s:                  139.39
General statistics:
    total time:                          1.0069s
    total number of events:              15150
Latency (ms):
         avg:                                    0.07
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)
Doing random r/w test
    reads/s:                      9000.00
    transactions:                        2 (1.99 per sec.)
";

    #[test]
    fn the_summary_of_each_run() {
        let samples = parse("a.txt", TEXT.as_bytes(), None).unwrap();
        assert_eq!(samples.format, "sysbench");
        let values = |metric: &str| {
            samples.series.iter().find(|s| s.metric == metric).map(|s| s.values.clone()).unwrap()
        };
        assert_eq!(values("reads"), [8921.07, 9000.0]);
        assert_eq!(values("time"), [1.0069]);
        assert_eq!(values("transactions"), [1.99]);
        assert_eq!(samples.series[0].name, "random r/w test");
    }

    #[test]
    fn faults_have_their_line() {
        let error = parse("a", TEXT.replace("0.07", "fast").as_bytes(), None).unwrap_err().to_string();
        assert_eq!(error, "a, line 12: `fast` behind avg is not a number");
    }
}
