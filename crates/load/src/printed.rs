//! Metrics in the output of a command: lines `fsarena-metric: tps 1234.5 per_s higher`, and matches of regular expressions.

mod number;

use fsarena_core::metric::Declared;
use fsarena_core::sample::{Direction, Fold, MetricSpec, Over, Unit};
pub use number::figure;
use number::{number, whole};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// The beginning of a line that declares a metric.
const MARK: &str = "fsarena-metric:";
/// The longest part of a line that is searched for metrics, in bytes.
const MAX_LINE_BYTES: usize = 4096;
/// The most metrics of one command.
const MAX_METRICS: usize = 64;
/// The longest name of a metric, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// A metric to look for in every line: `tps per_s higher: tps = ([0-9.]+)`.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The definition of the metric.
    pub metric: MetricSpec,
    regex: Regex,
}

impl Rule {
    /// Parses a rule from a plan or a command line: `NAME UNIT DIRECTION: REGEX`.
    ///
    /// # Errors
    /// What is wrong with the text, as a message.
    pub fn parse(text: &str) -> Result<Rule, String> {
        let form = "write `NAME UNIT DIRECTION: REGEX`, such as `tps per_s higher: tps = ([0-9.]+)`";
        let (words, regex) = text.split_once(": ").ok_or_else(|| format!("`{text}` has no `: `; {form}"))?;
        let words: Vec<&str> = words.split_whitespace().collect();
        let [name, unit, direction, over @ ..] = &words[..] else {
            return Err(format!("`{}` is not a name, a unit and a direction; {form}", words.join(" ")));
        };
        let regex = Regex::new(regex).map_err(|error| format!("{error}"))?;
        if regex.captures_len() != 2 {
            return Err(format!("`{}` needs one group in parentheses, the value", regex.as_str()));
        }
        Ok(Rule { metric: parse_declaration(name, unit, direction, over)?, regex })
    }

    /// The value in a line; None where the line does not match. An error if the group matches only part of a number.
    fn find(&self, line: &str) -> Option<Result<f64, String>> {
        let group = self.regex.captures(line)?.get(1)?;
        let percent = self.metric.unit == Unit::Percent;
        // Whether the pattern requires the character that `without` lacks: `([0-9.]+)ms` does not match without `m`.
        let named = |without: &str| {
            let found = self.regex.captures(without).and_then(|found| found.get(1));
            found.is_none_or(|found| found.range() != group.range())
        };
        Some(whole(line, group.range(), percent, named).and_then(|()| number(group.as_str())))
    }
}

/// Makes the definition of a metric from the words of its declaration. Its name ends with its unit, as that of all
/// readings, so that one name has one unit.
fn parse_declaration(name: &str, unit: &str, direction: &str, over: &[&str]) -> Result<MetricSpec, String> {
    check_name(name)?;
    let unit = Unit::from_suffix(unit).ok_or_else(|| {
        format!("Unknown unit `{unit}`. Available: {}", Unit::suffixes().collect::<Vec<_>>().join(", "))
    })?;
    let direction: Direction = serde_json::from_value(direction.into())
        .map_err(|_| format!("Unknown direction `{direction}`. Available: lower, higher, neutral"))?;
    let metric = MetricSpec::new(unit.named(name), unit, direction, "printed by the command".into());
    parse_combination(metric, over)
}

/// Checks the name of a metric: lower-case letters, digits and `_`, beginning with a letter.
fn check_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase())
        || !name.chars().all(fits)
        || name.len() > MAX_NAME_BYTES
    {
        return Err(format!("a metric has a name of lower-case letters, digits and _, not `{name}`"));
    }
    Ok(())
}

/// Adds to a metric how its values combine, from the words after its direction: `over=sum`, `of=a/b`.
fn parse_combination(metric: MetricSpec, words: &[&str]) -> Result<MetricSpec, String> {
    const FORM: &str = "after the direction write over=sum|max|min|mean|none, the same for one of over_tasks, over_ranks and \
                        over_hosts, or of=NUMERATOR/DENOMINATOR";
    let mut given = BTreeMap::new();
    for word in words {
        let (key, value) =
            word.split_once('=').ok_or_else(|| format!("`{word}` declares nothing; {FORM}"))?;
        if given.insert(key, value).is_some() {
            return Err(format!("`{key}=` occurs twice"));
        }
    }
    let mut fold = |key: &str, rate: bool| {
        let Some(word) = given.remove(key) else { return Ok(None) };
        let known = Fold::ALL.into_iter().filter(|fold| rate || *fold != Fold::Rate);
        match known.clone().find(|fold| fold.word() == word) {
            Some(fold) => Ok(Some(fold)),
            None => {
                let known: Vec<&str> = known.map(Fold::word).collect();
                Err(format!("`{key}={word}` is not a way to combine values. Available: {}", known.join(", ")))
            }
        }
    };
    let all = fold("over", false)?.map_or(metric.over, Over::all);
    let over = Over {
        tasks: fold("over_tasks", false)?.unwrap_or(all.tasks),
        ranks: fold("over_ranks", true)?.unwrap_or(all.ranks),
        hosts: fold("over_hosts", true)?.unwrap_or(all.hosts),
    };
    let of = match given.remove("of") {
        None => None,
        Some(parts) => {
            let (above, below) = parts.split_once('/').ok_or_else(|| {
                format!("`of={parts}` is not of=NUMERATOR/DENOMINATOR, two names of readings")
            })?;
            check_name(above).and_then(|()| check_name(below))?;
            Some([above.to_string(), below.to_string()])
        }
    };
    match given.keys().next() {
        Some(key) => Err(format!("`{key}=` declares nothing; {FORM}")),
        None => Ok(MetricSpec { over, of, ..metric }),
    }
}

/// Collects the metrics in the output of one command, piece by piece.
#[derive(Debug, Default)]
pub struct Printed {
    rules: Vec<Rule>,
    /// The current line, as far as it has arrived.
    line: Vec<u8>,
    declared: Declared,
    values: BTreeMap<String, f64>,
    /// The indices of the rules that have found a value.
    matched: BTreeSet<usize>,
    /// The first fault.
    fault: Option<String>,
}

impl Printed {
    /// A collector with these rules.
    pub fn by(rules: &[Rule]) -> Printed {
        Printed { rules: rules.to_vec(), ..Printed::default() }
    }

    /// Adds a piece of the output.
    pub fn take(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            // One byte beyond the limit is kept, which shows that the line is longer.
            let room = (MAX_LINE_BYTES + 1).saturating_sub(self.line.len());
            self.line.extend(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    /// Searches the current line, and clears it.
    fn end_line(&mut self) {
        // The common case is fast: a build prints many lines without a metric.
        if self.rules.is_empty() && !self.line.trim_ascii_start().starts_with(MARK.as_bytes()) {
            return self.line.clear();
        }
        let mut bytes = std::mem::take(&mut self.line);
        if bytes.len() > MAX_LINE_BYTES && !bytes.ends_with(b"\n") {
            // Drops the last word, because the cut may have divided a number.
            bytes.truncate(MAX_LINE_BYTES);
            bytes.truncate(bytes.iter().rposition(u8::is_ascii_whitespace).unwrap_or(0));
        }
        let line = String::from_utf8_lossy(&bytes).trim_end().to_string();
        if let Err(fault) = self.read(&line) {
            self.fault.get_or_insert(fault);
        }
    }

    /// Searches a line for a declared metric, and for the values of all rules.
    fn read(&mut self, line: &str) -> Result<(), String> {
        let fault = |fault| format!("it printed `{line}`: {fault}");
        if let Some(text) = line.trim_start().strip_prefix(MARK) {
            let (metric, value) = parse_marked_line(text).map_err(fault)?;
            self.set(&metric, value, &format!("`{line}`"))?;
        }
        for at in 0..self.rules.len() {
            let Some(value) = self.rules[at].find(line) else { continue };
            let Rule { metric, regex } = self.rules[at].clone();
            self.set(&metric, value.map_err(fault)?, &format!("the rule `{}`", regex.as_str()))?;
            self.matched.insert(at);
        }
        Ok(())
    }

    /// Stores a value. A later value of the same metric replaces it: programs that report progress print the result last.
    fn set(&mut self, metric: &MetricSpec, value: f64, by: &str) -> Result<(), String> {
        let new = self.declared.declare(metric, by).map_err(|contradiction| contradiction.to_string())?;
        if new && self.values.len() == MAX_METRICS {
            return Err(format!("it printed more than {MAX_METRICS} metrics"));
        }
        self.values.insert(metric.id.clone(), value);
        Ok(())
    }

    /// Ends the output, and returns the metrics with their values.
    ///
    /// # Errors
    /// The first line with a fault, or the first rule that found no value.
    pub fn finish(mut self) -> Result<Vec<(MetricSpec, f64)>, String> {
        self.end_line();
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        for (at, rule) in self.rules.iter().enumerate() {
            if !self.matched.contains(&at) {
                return Err(format!("no line of its output matches `{}`", rule.regex.as_str()));
            }
        }
        Ok(self.declared.metrics().map(|metric| (metric.clone(), self.values[&metric.id])).collect())
    }
}

/// Parses the rest of a marked line: `tps 1234.5 per_s higher over=max`.
fn parse_marked_line(text: &str) -> Result<(MetricSpec, f64), String> {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        [name, value, unit, direction, ref over @ ..] => {
            Ok((parse_declaration(name, unit, direction, over)?, number(value)?))
        }
        _ => Err("write a name, a value, a unit, and `lower`, `higher` or `neutral`".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rules: &[&str], pieces: &[&str]) -> Result<Vec<(String, f64)>, String> {
        let rules: Vec<Rule> = rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
        let mut printed = Printed::by(&rules);
        pieces.iter().for_each(|piece| printed.take(piece.as_bytes()));
        Ok(printed.finish()?.into_iter().map(|(metric, value)| (metric.id, value)).collect())
    }

    #[test]
    fn metrics_are_found_in_any_piece_of_the_output() {
        let pieces = [
            "starting\nfsarena-me",
            "tric: tps 12",
            "34.5 per_s higher\n  fsarena-metric: lat_ns 7e3 ns lower",
        ];
        assert_eq!(read(&[], &pieces).unwrap(), [("lat_ns".into(), 7000.0), ("tps_per_s".into(), 1234.5)]);
        let rule = "tps per_s higher: tps = ([0-9.]+)";
        assert_eq!(
            read(&[rule], &["tps = 1\ntps = 2.5 (excluding)\n"]).unwrap(),
            [("tps_per_s".into(), 2.5)]
        );
        assert_eq!(read(&[], &["nothing\n"]).unwrap(), []);
    }

    #[test]
    fn faults_are_told() {
        let fault = |rules: &[&str], text: &str| read(rules, &[text]).unwrap_err();
        assert!(fault(&[], "fsarena-metric: tps 1\n").contains("write a name, a value"));
        assert!(fault(&[], "fsarena-metric: tps x per_s higher\n").contains("`x` is not a number"));
        assert!(fault(&[], "fsarena-metric: tps 1 tons higher\n").contains("Unknown unit `tons`"));
        assert!(fault(&[], "fsarena-metric: TPS 1 s higher\n").contains("lower-case"));
        assert!(fault(&["tps per_s higher: tps = (.+)"], "no").contains("no line of its output matches"));
        let many: String = (0..65).map(|n| format!("fsarena-metric: m{n} 1 count lower\n")).collect();
        assert!(fault(&[], &many).contains("more than 64"));
        for bad in ["tps", "tps per_s: x", "tps per_s higher: x", "tps per_s higher: (", "tps per_s up: (x)"]
        {
            assert!(Rule::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_long_line_is_cut_before_a_number_that_it_would_divide() {
        let long = format!("{}\nfsarena-metric: a 1 s lower\n", "x".repeat(1 << 20));
        assert_eq!(read(&[], &[&long]).unwrap(), [("a_s".into(), 1.0)]);
        let divided = format!("tps = 1 {} 12345 6789", "x".repeat(MAX_LINE_BYTES - 11));
        assert_eq!(read(&["tps per_s higher: ([0-9]+)"], &[&divided]).unwrap(), [("tps_per_s".into(), 1.0)]);
        assert!(read(&["tps per_s higher: x ([0-9]+)"], &[&divided]).unwrap_err().contains("no line"));
    }

    #[test]
    fn names_get_their_unit_unless_they_have_it() {
        let id = |text: &str| Rule::parse(&format!("{text} lower: (.)")).unwrap().metric.id;
        assert_eq!(
            [id("lat_ns s"), id("lat_s s"), id("lats s"), id("ops_count count")],
            ["lat_ns_s", "lat_s", "lats_s", "ops_count"]
        );
    }

    #[test]
    fn how_a_metric_combines_follows_its_direction_in_any_order() {
        let over = |words: &str| {
            let metric = parse_marked_line(&format!("m 1 s lower {words}"))?.0;
            Ok::<_, String>((metric.over, metric.of))
        };
        let (none, max) = (Fold::None, Fold::Max);
        assert_eq!(over("").unwrap(), (Over { tasks: none, ranks: max, hosts: max }, None));
        assert_eq!(over("over=sum").unwrap().0, Over::all(Fold::Sum));
        let mixed = Over { tasks: Fold::Sum, ranks: Fold::Rate, hosts: Fold::Sum };
        assert_eq!(over("over_ranks=rate over=sum").unwrap().0, mixed);
        let of = Some(["a_s".to_string(), "b_count".to_string()]);
        assert_eq!(over("of=a_s/b_count over=none").unwrap(), (Over::all(none), of));
        for (words, says) in [
            ("over=rate", "Available: sum, max, min, mean, none"),
            ("over_ranks=all", "Available: sum, max, min, mean, rate, none"),
            ("over=sum over=max", "`over=` occurs twice"),
            ("total", "`total` declares nothing; after the direction write over=sum"),
            ("across=sum", "`across=` declares nothing"),
            ("of=a_s", "two names of readings"),
            ("of=A/b", "lower-case"),
        ] {
            let said = over(words).unwrap_err();
            assert!(said.contains(says), "{words}: {said}");
        }
    }

    #[test]
    fn one_output_gives_a_name_one_meaning() {
        let text = "fsarena-metric: m 1 s lower\nfsarena-metric: m 2 s higher\n";
        let said = read(&[], &[text]).unwrap_err();
        assert!(said.contains("`m_s s lower` by `fsarena-metric: m 1 s lower`"), "{said}");
        assert!(said.contains("`m_s s higher` by `fsarena-metric: m 2 s higher`"), "{said}");
        let text = "fsarena-metric: m 1 s lower\nm is 5\n";
        assert!(
            read(&["m s higher: is ([0-9]+)"], &[text]).unwrap_err().contains("by the rule `is ([0-9]+)`")
        );
    }

    #[test]
    fn the_patterns_of_the_guide_fit_what_programs_print() {
        let guide = include_str!("../../../docs/guide/command.md");
        let value = |rule: &str, output: &str| {
            assert!(guide.contains(&format!("`{rule}`")), "{rule}");
            read(&[rule], &[output]).unwrap()[0].1
        };
        // pgbench 15, sysbench 1.0.20.
        let pgbench = "latency average = 0.810 ms\ninitial connection time = 3.914 ms\n\
                       tps = 1234.567890 (without initial connection time)\n";
        assert_eq!(value("tps per_s higher: ^tps = ([0-9.]+) \\(", pgbench), 1234.56789);
        assert_eq!(value("tps per_s higher: tps = ([0-9.]+)", pgbench), 1234.56789);
        let sysbench = "File operations:\n    reads/s:                      18756.27\n    \
                        writes/s:                     12504.18\nGeneral statistics:\n    \
                        total time:                          0.0009s\n";
        assert_eq!(value("writes per_s higher: writes/s: +([0-9.]+)", sysbench), 12504.18);
        assert_eq!(value("took s lower: total time: +([0-9.]+)s", sysbench), 0.0009);
        // fio 3.33 changes its units.
        let fio = "  write: IOPS=256k, BW=1000MiB/s (1049MB/s)(1024KiB/1msec); 0 zone resets\n";
        let said = read(&["iops per_s higher: IOPS=([0-9.]+)"], &[fio]).unwrap_err();
        assert!(said.contains("part of `256k`"), "{said}");
    }

    #[test]
    fn the_front_of_a_longer_number_is_no_value() {
        let rule = "tps per_s higher: tps = ([0-9.]+)";
        for rest in ["1.5e+06", "1.5E6", "1,234.5", "12.5k", "12.5M/s", "12.5%", "1'234", "12.5µ"] {
            let said = read(&[rule], &[&format!("tps = {rest}\n")]).unwrap_err();
            assert!(said.contains(&format!("`tps = {rest}`")) && said.contains("part of"), "{rest}: {said}");
        }
        for rest in ["12.5", "12.5,", "12.5, next 7", "12.5 k", "12.5)", "12.5/s"] {
            assert_eq!(read(&[rule], &[&format!("tps = {rest}\n")]).unwrap()[0].1, 12.5, "{rest}");
        }
        // The back of one.
        assert!(read(&["lat ns lower: ([0-9.]+) ms"], &["1,234.5 ms"]).unwrap_err().contains("part of"));
        assert!(read(&["lat ns lower: ([0-9.]+) ms"], &["lat -4.5 ms"]).unwrap_err().contains("part of"));
        // A pattern that names what follows.
        assert_eq!(read(&["lat s lower: ([0-9.]+)ms"], &["12.5ms"]).unwrap()[0].1, 12.5);
        assert!(read(&["lat s lower: ([0-9.]+).*"], &["12.5ms"]).is_err());
        assert!(read(&["lat s lower: ([0-9.]+)m?"], &["12.5ms"]).is_err());
        assert_eq!(read(&["hit percent higher: ([0-9.]+)"], &["12.5%"]).unwrap()[0].1, 12.5);
        assert_eq!(read(&["tps per_s higher: tps = ([0-9.e+]+)"], &["tps = 1.5e+06"]).unwrap()[0].1, 1.5e6);
    }
}
