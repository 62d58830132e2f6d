//! dbench: its table of operations and its last line. Each run of a file begins with its version line.

use super::importer::{Fault, Importer};
use super::series::Collector;
use fsarena_core::dbench::{Said, read, recognises};
use std::collections::BTreeSet;

/// dbench's text.
pub const DBENCH: Importer = Importer {
    id: "dbench",
    help: "text of dbench: throughput, and the latency of each operation, one run after the other",
    recognises,
    read: collect,
};

fn collect(text: &str, into: &mut Collector) -> Result<(), Fault> {
    // Nothing distinguishes runs of one load; runs of several loads differ in their loads.
    let load = |(_, said)| if let Ok(Said::Load(load)) = said { Some(load) } else { None };
    let loads: BTreeSet<&str> = read(text).filter_map(load).collect();
    let mut of = String::new();
    for (line, said) in read(text) {
        match said.map_err(|message| Fault::at(line, message))? {
            Said::Load(load) if loads.len() > 1 => of = format!("{load}: "),
            Said::Load(_) => {}
            Said::Operation { name, mean_ms, max_ms, .. } => {
                let name = &format!("{of}{name}");
                into.add(name, ("latency", "ms"), None, mean_ms);
                into.add(name, ("latency max", "ms"), None, max_ms);
            }
            Said::Throughput { mb_s, clients, max_ms } => {
                let clients = clients.map_or("all".to_string(), |clients| format!("{clients} clients"));
                let name = format!("{of}{clients}");
                into.add(&name, ("throughput", "MB/s"), None, mb_s);
                max_ms.into_iter().for_each(|max| into.add(&name, ("latency max", "ms"), None, max));
            }
        }
    }
    Ok(())
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
    fn runs_of_several_loads_are_told_apart() {
        let both = format!("{TEXT}{}", TEXT.replace("client.txt", "nfs.txt"));
        let samples = parse("a.txt", both.as_bytes(), None).unwrap();
        let of = |name: &str| samples.series.iter().filter(|s| s.name == name).count();
        assert_eq!((of("client.txt: 2 clients"), of("nfs.txt: Flush"), of("2 clients")), (2, 2, 0));
        assert!(samples.series.iter().all(|s| s.values.len() == 1));
    }

    #[test]
    fn faults_have_their_line() {
        let error = parse("a", TEXT.replace("2.500", "slow").as_bytes(), None).unwrap_err().to_string();
        assert_eq!(error, "a, line 9: `slow` is not a latency");
        let error = parse("a", TEXT.replace("321.5", "x").as_bytes(), None).unwrap_err().to_string();
        assert_eq!(error, "a, line 11: `x` is not a throughput");
    }
}
