//! mdtest: the summary of its rates. A file can have the output of several runs, one after the other: each is a round.

use super::importer::{Fault, Importer};
use super::series::Collector;

/// mdtest's text.
pub const MDTEST: Importer = Importer {
    id: "mdtest",
    help: "text of mdtest: the mean rate of each operation, one run after the other",
    recognises: |text| text.lines().take(100).any(|line| line.starts_with("mdtest-")),
    read,
};

fn read(text: &str, into: &mut Collector) -> Result<(), Fault> {
    let (mut round, mut in_table) = (0, false);
    for (at, line) in (1..).zip(text.lines()) {
        if line.starts_with("SUMMARY rate") {
            (round, in_table) = (round + 1, true);
            continue;
        } else if line.starts_with("-- finished") {
            in_table = false;
        }
        // The operation, which can have several words; maximum, minimum, mean and standard deviation.
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let Some((name, [_, _, mean, deviation])) = words.split_last_chunk() else { continue };
        if !in_table || name.is_empty() || *deviation == "Dev" || deviation.starts_with('-') {
            continue;
        }
        let value = Fault::number(at, mean, "is not a rate")?;
        into.add(&name.join(" "), ("rate", "ops/s"), Some(&round.to_string()), value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    /// As mdtest 4.1 prints it, shortened.
    const TEXT: &str = "\
-- started at 11/24/2026 04:01:03 --

mdtest-4.1.0+dev was launched with 2 total task(s) on 1 node(s)
2 tasks, 100 files/directories

SUMMARY rate (in ops/sec): (of 2 iterations)
   Operation                     Max            Min           Mean        Std Dev
   ---------                     ---            ---           ----        -------
   Directory creation           5091.411       2776.232       3933.821       1637.078
   File stat                  546845.372       3543.983     275194.677     384172.096
-- finished at 11/24/2026 04:01:04 --
";

    #[test]
    fn each_run_is_a_round() {
        let samples = parse("a.txt", format!("{TEXT}{TEXT}").as_bytes(), None).unwrap();
        let shown: Vec<_> = samples.series.iter().map(|s| (s.name.as_str(), s.values.clone())).collect();
        assert_eq!(samples.format, "mdtest");
        assert_eq!(shown, [("Directory creation", vec![3933.821; 2]), ("File stat", vec![275_194.677; 2])]);
    }

    #[test]
    fn faults_have_their_line() {
        let error = parse("a", TEXT.replace("3933.821", "fast").as_bytes(), None).unwrap_err().to_string();
        assert_eq!(error, "a, line 9: `fast` is not a rate");
    }
}
