//! Metrics that a command prints: `fsarena-metric: tps 1234.5 per_s higher`, or what a regular expression finds.

use fsarena_core::sample::{Direction, MetricSpec, Unit};
use regex::Regex;
use std::collections::BTreeMap;

/// How a line begins that has a metric.
const MARK: &str = "fsarena-metric:";
/// The longest line that is read for metrics, and the most metrics of one command.
const LONGEST: usize = 4096;
const MOST: usize = 64;

/// A metric to look for in every line: `tps per_s higher: tps = ([0-9.]+)`.
#[derive(Debug, Clone)]
pub struct Rule {
    info: MetricSpec,
    regex: Regex,
}

impl Rule {
    /// Reads a rule as a plan or a command line has it.
    ///
    /// # Errors
    /// The fault of the text, in words.
    pub fn parse(text: &str) -> Result<Rule, String> {
        let form = "write `NAME UNIT DIRECTION: REGEX`, such as `tps per_s higher: tps = ([0-9.]+)`";
        let (words, regex) = text.split_once(": ").ok_or_else(|| format!("`{text}` has no `: `; {form}"))?;
        let [name, unit, direction] = words.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err(format!("`{words}` is not a name, a unit and a direction; {form}"));
        };
        let regex = Regex::new(regex).map_err(|error| format!("{error}"))?;
        if regex.captures_len() != 2 {
            return Err(format!("`{}` needs one group in parentheses, the value", regex.as_str()));
        }
        Ok(Rule { info: info(name, unit, direction)?, regex })
    }
}

/// A metric by its words. Its name ends with its unit, as all readings do, so that one name has one unit.
fn info(name: &str, unit: &str, direction: &str) -> Result<MetricSpec, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(fits) || name.len() > MOST {
        return Err(format!("a metric has a name of lower-case letters, digits and _, not `{name}`"));
    }
    let unit = Unit::from_suffix(unit).ok_or_else(|| {
        format!("Unknown unit `{unit}`. Available: {}", Unit::suffixes().collect::<Vec<_>>().join(", "))
    })?;
    let direction: Direction = serde_json::from_value(direction.into())
        .map_err(|_| format!("Unknown direction `{direction}`. Available: lower, higher, neutral"))?;
    let suffix = unit.suffix();
    let id = if name.ends_with(suffix) { name.to_string() } else { format!("{name}_{suffix}") };
    Ok(MetricSpec::new(id, unit, direction, "printed by the command".into()))
}

/// Reads the output of one command as it comes.
#[derive(Debug, Default)]
pub struct Printed {
    rules: Vec<Rule>,
    line: Vec<u8>,
    found: BTreeMap<String, (MetricSpec, f64)>,
    fault: Option<String>,
}

impl Printed {
    /// A reader with these rules.
    pub fn by(rules: &[Rule]) -> Printed {
        Printed { rules: rules.to_vec(), ..Printed::default() }
    }

    /// Takes a piece of the output.
    pub fn take(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let room = LONGEST.saturating_sub(self.line.len());
            self.line.extend(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        // A build prints many lines that have no metric.
        if self.rules.is_empty() && !self.line.trim_ascii_start().starts_with(MARK.as_bytes()) {
            return self.line.clear();
        }
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).trim_end().to_string();
        let ruled = self.rules.iter().filter_map(|Rule { info, regex }| {
            let value = regex.captures(&line)?.get(1)?;
            Some(number(value.as_str()).map(|value| (info.clone(), value)))
        });
        let marked = line.trim_start().strip_prefix(MARK).map(marked);
        for found in marked.into_iter().chain(ruled).collect::<Vec<_>>() {
            match found {
                Ok((info, value)) if self.found.len() < MOST || self.found.contains_key(&info.id) => {
                    // A program that prints a figure as it goes prints the last one last.
                    self.found.insert(info.id.clone(), (info, value));
                }
                Ok(_) => self.fault = Some(format!("it printed more than {MOST} metrics")),
                Err(fault) => self.fault = Some(format!("it printed `{line}`: {fault}")),
            }
        }
    }

    /// The metrics with their values, once the output has ended.
    ///
    /// # Errors
    /// The last marked line that is not a metric, or the first rule that found none.
    pub fn finish(mut self) -> Result<Vec<(MetricSpec, f64)>, String> {
        self.end_line();
        let without = self.rules.iter().find(|rule| !self.found.contains_key(&rule.info.id));
        match (self.fault, without) {
            (Some(fault), _) => Err(fault),
            (None, Some(rule)) => Err(format!("no line of its output matches `{}`", rule.regex.as_str())),
            (None, None) => Ok(self.found.into_values().collect()),
        }
    }
}

/// `tps 1234.5 per_s higher`.
fn marked(text: &str) -> Result<(MetricSpec, f64), String> {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        [name, value, unit, direction] => Ok((info(name, unit, direction)?, number(value)?)),
        _ => Err("write a name, a value, a unit, and `lower`, `higher` or `neutral`".into()),
    }
}

fn number(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite());
    value.ok_or_else(|| format!("`{text}` is not a number"))
}

/// A figure that a benchmark prints: finite, and not below 0.
pub fn figure(text: &str) -> Option<f64> {
    number(text.trim()).ok().filter(|value| *value >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rules: &[&str], pieces: &[&str]) -> Result<Vec<(String, f64)>, String> {
        let rules: Vec<Rule> = rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
        let mut printed = Printed::by(&rules);
        pieces.iter().for_each(|piece| printed.take(piece.as_bytes()));
        Ok(printed.finish()?.into_iter().map(|(info, value)| (info.id, value)).collect())
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
    fn a_long_line_is_cut() {
        let long = format!("{}\nfsarena-metric: a 1 s lower\n", "x".repeat(1 << 20));
        assert_eq!(read(&[], &[&long]).unwrap(), [("a_s".into(), 1.0)]);
    }
}
