//! IOR: the rows of its results. A file can have the output of several runs, one after the other: each is a round.

use super::importer::{Fault, Importer};
use super::series::Collector;
use std::collections::HashMap;

/// IOR's text.
pub const IOR: Importer = Importer {
    id: "ior",
    help: "text of IOR: bandwidth and time of each access, one run after the other",
    recognises: |text| {
        text.lines().take(100).any(|line| line.contains("MPI Coordinated Test of Parallel I/O"))
    },
    read,
};

fn read(text: &str, into: &mut Collector) -> Result<(), Fault> {
    let (mut files, mut in_table) = ("", false);
    let mut rounds: HashMap<String, u32> = HashMap::new();
    for (at, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            // `access : file-per-process`, among the options.
            ["access", ":", kind] => files = kind,
            ["access", "bw(MiB/s)", ..] => in_table = true,
            [] => in_table = false,
            // access, bandwidth, IOPS, latency, block, transfer, open, wr/rd, close, total, iteration
            [access, bandwidth, .., total, _]
                if in_table && words.len() == 11 && !access.starts_with('-') =>
            {
                let name = &format!("{access} {files}");
                let round = rounds.entry(name.clone()).and_modify(|round| *round += 1).or_insert(1);
                let round = &round.to_string();
                for (metric, unit, word) in [("bandwidth", "MiB/s", bandwidth), ("elapsed", "s", total)] {
                    let value = Fault::number(at, word, &format!("is not a {metric}"))?;
                    into.add(name, (metric, unit), Some(round), value);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    /// As IOR 4.1 prints it, shortened.
    const TEXT: &str = "\
IOR-4.1.0+dev: MPI Coordinated Test of Parallel I/O
Options:
access              : file-per-process
xfersize            : 262144 bytes

Results:

access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ----       ----------  ---------- ---------  --------   --------   --------   --------   ----
write     323.05     1300.18    0.001531    2048.00    256.00     0.000115   0.012306   0.000040   0.012382   0
read      17386      72707      0.000027    2048.00    256.00     0.000010   0.000220   0.000042   0.000230   0

Summary of all tests:
write         323.05     323.05
";

    #[test]
    fn each_run_is_a_sample() {
        let again = TEXT.replace("323.05     1300", "300.05     1300");
        let samples = parse("a.txt", format!("{TEXT}{again}").as_bytes(), None).unwrap();
        let shown: Vec<_> =
            samples.series.iter().map(|s| (s.name.as_str(), s.metric.as_str(), s.values.clone())).collect();
        assert_eq!(samples.format, "ior");
        assert_eq!(shown[0], ("write file-per-process", "bandwidth", vec![323.05, 300.05]));
        assert_eq!(shown[1], ("write file-per-process", "elapsed", vec![0.012382, 0.012382]));
        assert_eq!(shown[2], ("read file-per-process", "bandwidth", vec![17386.0, 17386.0]));
        assert_eq!(shown.len(), 4);
    }

    #[test]
    fn faults_have_their_line() {
        let error = parse("a", TEXT.replace("17386", "fast").as_bytes(), None).unwrap_err().to_string();
        assert_eq!(error, "a, line 11: `fast` is not a bandwidth");
    }
}
