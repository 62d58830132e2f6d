//! dbench: its table of operations and its last line. Each run of a file begins with its version line.

use super::series::{Collector, Quantity};
use super::{Fault, Importer};
use fsarena_core::sample::Direction;

/// dbench's text.
pub struct Dbench;

impl Importer for Dbench {
    fn id(&self) -> &'static str {
        "dbench"
    }

    fn help(&self) -> &'static str {
        "text of dbench: throughput, and the latency of each operation, one run after the other"
    }

    fn recognises(&self, text: &str) -> bool {
        text.lines().any(|line| throughput(line).is_some()) || text.starts_with("dbench version")
    }

    fn read(&self, text: &str, into: &mut Collector) -> Result<(), Fault> {
        let mut in_table = false;
        for (at, line) in text.lines().enumerate() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let Some(words) = throughput(line) {
                in_table = false;
                summary(&words, into).map_err(|message| Fault::at(at + 1, message))?;
            } else if fields == ["Operation", "Count", "AvgLat", "MaxLat"] {
                in_table = true;
            } else if let ([operation, count, mean, max], true) = (fields.as_slice(), in_table) {
                let latency = |text: &str| {
                    text.parse::<f64>().map_err(|_| Fault::at(at + 1, format!("`{text}` is no latency")))
                };
                count.parse::<u64>().map_err(|_| Fault::at(at + 1, format!("`{count}` is no count")))?;
                push(into, operation, ("latency", "ms", Direction::Lower), latency(mean)?);
                push(into, operation, ("latency max", "ms", Direction::Lower), latency(max)?);
            }
        }
        Ok(())
    }
}

/// `Throughput 123.456 MB/sec  4 clients  4 procs  max_latency=12.345 ms`: the words behind the first.
fn throughput(line: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = line.strip_prefix("Throughput ")?.split_whitespace().collect();
    (words.len() >= 2 && words[1] == "MB/sec").then_some(words)
}

fn summary(words: &[&str], into: &mut Collector) -> Result<(), String> {
    let value = words[0].parse().map_err(|_| format!("`{}` is no throughput", words[0]))?;
    let clients = words.windows(2).find(|pair| pair[1] == "clients").map_or("", |pair| pair[0]);
    let name = if clients.is_empty() { "all".into() } else { format!("{clients} clients") };
    push(into, &name, ("throughput", "MB/s", Direction::Higher), value);
    let longest = words.iter().find_map(|word| word.strip_prefix("max_latency="));
    if let Some(longest) = longest {
        let value = longest.parse().map_err(|_| format!("`{longest}` is no latency"))?;
        push(into, &name, ("latency max", "ms", Direction::Lower), value);
    }
    Ok(())
}

fn push(into: &mut Collector, name: &str, (metric, unit, direction): (&str, &str, Direction), value: f64) {
    into.push(Quantity { name, metric, unit, direction }, None, value);
}

#[cfg(test)]
mod tests {
    use super::super::parse;

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

    #[test]
    fn throughput_and_latencies() {
        let samples = parse("a.txt", format!("{TEXT}{TEXT}").as_bytes(), None).unwrap();
        let shown: Vec<_> =
            samples.series.iter().map(|s| (s.name.as_str(), s.metric.as_str(), s.values.clone())).collect();
        assert_eq!(shown[0], ("NTCreateX", "latency", vec![0.046, 0.046]));
        assert_eq!(shown[4], ("2 clients", "throughput", vec![321.5, 321.5]));
        assert_eq!((samples.format, shown.len()), ("dbench", 6));
    }

    #[test]
    fn faults_have_their_line() {
        let error = parse("a", TEXT.replace("2.500", "slow").as_bytes(), None).unwrap_err().to_string();
        assert_eq!(error, "a, line 9: `slow` is no latency");
        let error = parse("a", TEXT.replace("321.5", "x").as_bytes(), None).unwrap_err().to_string();
        assert_eq!(error, "a, line 11: `x` is no throughput");
    }
}
