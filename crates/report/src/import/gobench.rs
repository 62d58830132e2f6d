//! The Go benchmark format, as `go test -bench` prints it and benchstat reads it
//! (golang.org/design/14313-benchmark-format).

use super::importer::{Fault, Importer};
use super::series::{Collector, Quantity, direction};
use fsarena_core::sample::Direction;
use std::collections::BTreeMap;

/// The configuration line that numbers the round.
const ROUND: &str = "round:";

/// Go benchmark text.
pub const GOBENCH: Importer = Importer {
    id: "gobench",
    help: "Go benchmark text; a configuration line `round: N` pairs the results after it",
    recognises: |text| text.lines().any(|line| result(line).is_some()),
    read,
};

fn read(text: &str, into: &mut Collector) -> Result<(), Fault> {
    let mut round: Option<String> = None;
    let mut better: BTreeMap<String, Direction> = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        if let Some(number) = line.strip_prefix(ROUND) {
            round = Some(number.trim().to_string()).filter(|number| !number.is_empty());
        } else if let Some(rest) = line.strip_prefix("Unit ") {
            better.extend(unit_line(rest));
        } else if let Some((name, pairs)) = result(line) {
            for pair in pairs.chunks(2) {
                let [value, unit] = pair else {
                    return Err(Fault::at(at + 1, "a value without its unit"));
                };
                let value = Fault::number(at + 1, value, &format!("before {unit} is not a number"))?;
                let direction = better.get(*unit).copied().or_else(|| direction(unit));
                // benchstat takes all for costs that no unit line says otherwise of.
                let direction = direction.unwrap_or(Direction::Lower);
                into.push(Quantity { name, metric: unit, unit, direction }, round.as_deref(), value);
            }
        }
    }
    Ok(())
}

/// `BenchmarkName-8 1000 123 ns/op 45 B/op`: the name, and what follows the number of iterations.
fn result(line: &str) -> Option<(&str, Vec<&str>)> {
    let mut fields = line.split_whitespace();
    let name = fields.next()?.strip_prefix("Benchmark").filter(|_| line.starts_with("Benchmark"))?;
    fields.next()?.parse::<u64>().ok()?;
    let pairs: Vec<&str> = fields.collect();
    (!pairs.is_empty()).then_some((name, pairs))
}

/// `ns/op better=lower`.
fn unit_line(rest: &str) -> Option<(String, Direction)> {
    let mut fields = rest.split_whitespace();
    let unit = fields.next()?.to_string();
    let direction = fields.find_map(|field| match field {
        "better=higher" => Some(Direction::Higher),
        "better=lower" => Some(Direction::Lower),
        _ => None,
    })?;
    Some((unit, direction))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use fsarena_core::sample::Direction;

    #[test]
    fn each_unit_is_a_metric() {
        let text = "goos: linux\nUnit hits better=higher\nround: 3\n\
                    BenchmarkCopy/fs=ext4-8 \t 100\t 12.5 ns/op\t 3 hits\t 80 MB/s\nPASS\n";
        let samples = parse("a.txt", text.as_bytes(), None).unwrap();
        assert_eq!(samples.format, "gobench");
        let shown: Vec<_> =
            samples.series.iter().map(|s| (s.metric.as_str(), s.direction, s.values[0])).collect();
        let (up, down) = (Direction::Higher, Direction::Lower);
        assert_eq!(shown, [("ns/op", down, 12.5), ("hits", up, 3.0), ("MB/s", up, 80.0)]);
        assert_eq!(samples.series[0].name, "Copy/fs=ext4-8");
        assert!(samples.series[0].rounds.as_ref().unwrap().contains_key("3"));
    }

    #[test]
    fn faults_have_their_line() {
        let error = |text: &str| parse("a", text.as_bytes(), None).unwrap_err().to_string();
        assert_eq!(error("ok\nBenchmarkX 1 2 ns/op 3\n"), "a, line 2: a value without its unit");
        assert_eq!(error("BenchmarkX 1 many ns/op\n"), "a, line 1: `many` before ns/op is not a number");
    }
}
