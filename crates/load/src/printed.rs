//! Finds metrics in the output of a command: lines such as `fsarena-metric: tps 1234.5 per_s higher`, or values that a
//! regular expression matches. A value that is only a part of a longer number is an error.

use fsarena_core::metric::DeclaredMetrics;
use fsarena_core::sample::{Direction, Fold, FoldRules, MetricSpec, Unit};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The start of a line with a metric.
const METRIC_PREFIX: &str = "fsarena-metric:";
/// Longest part of a line in which fsarena looks for metrics, in bytes. The rest of a longer line is ignored.
const MAX_LINE_BYTES: usize = 4096;
/// Largest number of metrics of one command.
const MAX_METRICS: usize = 64;
/// Longest name of a metric in bytes.
const MAX_NAME_BYTES: usize = 64;

/// A rule that finds a metric in lines of output, such as `tps per_s higher: tps = ([0-9.]+)`.
#[derive(Debug, Clone)]
pub struct MetricRule {
    /// The definition of the metric.
    pub metric: MetricSpec,
    /// The name of the metric without its unit.
    name: String,
    regex: Regex,
}

impl MetricRule {
    /// Parses a rule from a plan or a command line.
    ///
    /// # Errors
    /// Describes what is wrong with the text.
    pub fn parse(text: &str) -> Result<MetricRule, String> {
        let usage = "write `NAME UNIT DIRECTION: REGEX`, such as `tps per_s higher: tps = ([0-9.]+)`";
        let (definition, regex) = text.split_once(": ").ok_or_else(|| format!("`{text}` has no `: `; {usage}"))?;
        let words: Vec<&str> = definition.split_whitespace().collect();
        let [name, unit, direction, options @ ..] = &words[..] else {
            return Err(format!("`{}` is not a name, a unit and a direction; {usage}", words.join(" ")));
        };
        let regex = Regex::new(regex).map_err(|error| format!("{error}"))?;
        if regex.captures_len() != 2 {
            return Err(format!("`{}` needs one group in parentheses, the value", regex.as_str()));
        }
        Ok(MetricRule { metric: define_metric(name, unit, direction, options)?, name: (*name).into(), regex })
    }

    /// Finds the value in a line. Returns `None` if the line does not match, and an error if the value is not a number
    /// or is only a part of a longer number.
    fn find_value(&self, line: &str) -> Option<Result<f64, String>> {
        let group = self.regex.captures(line)?.get(1)?;
        let is_percent = self.metric.unit == Unit::Percent;
        // A pattern that requires the text after the number, such as `([0-9.]+)ms`, does not match without that text.
        let is_required = |changed_line: &str| {
            let changed_group = self.regex.captures(changed_line).and_then(|captures| captures.get(1));
            changed_group.is_none_or(|changed_group| changed_group.range() != group.range())
        };
        let checked = check_complete_number(line, group.range(), is_percent, is_required);
        Some(checked.and_then(|()| parse_number(group.as_str())))
    }
}

/// Makes a metric from the words of its definition. Its id is the name with the unit at its end, as in all readings, so
/// that one id has one unit.
fn define_metric(name: &str, unit: &str, direction: &str, options: &[&str]) -> Result<MetricSpec, String> {
    check_name(name)?;
    let unit = Unit::from_suffix(unit).ok_or_else(|| {
        format!("Unknown unit `{unit}`. Available: {}", Unit::suffixes().collect::<Vec<_>>().join(", "))
    })?;
    let direction: Direction = serde_json::from_value(direction.into())
        .map_err(|_| format!("Unknown direction `{direction}`. Available: lower, higher, neutral"))?;
    let metric = MetricSpec::new(unit.with_suffix(name), unit, direction, "printed by the command".into());
    apply_options(metric, options)
}

fn check_name(name: &str) -> Result<(), String> {
    let is_name_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase())
        || !name.chars().all(is_name_char)
        || name.len() > MAX_NAME_BYTES
    {
        return Err(format!(
            "invalid metric name `{name}`: use lower-case letters, digits and _, a letter first, at most \
             {MAX_NAME_BYTES} bytes"
        ));
    }
    Ok(())
}

/// Sets how the values of a metric combine, from the words after its direction, such as `over=sum` or `of=a_s/b_count`.
fn apply_options(metric: MetricSpec, option_words: &[&str]) -> Result<MetricSpec, String> {
    const OPTIONS_HELP: &str = "after the direction write over=sum|max|min|mean|none; over_tasks= with one of these; \
                        over_ranks= or over_hosts= with one of these or with rate; or of=NUMERATOR/DENOMINATOR";
    let mut options = BTreeMap::new();
    for word in option_words {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("`{word}` declares nothing; {OPTIONS_HELP}"))?;
        if options.insert(key, value).is_some() {
            return Err(format!("`{key}=` occurs twice"));
        }
    }
    let default_over = remove_fold_option(&mut options, "over", false)?.map_or(metric.over, FoldRules::all);
    let over = FoldRules {
        tasks: remove_fold_option(&mut options, "over_tasks", false)?.unwrap_or(default_over.tasks),
        ranks: remove_fold_option(&mut options, "over_ranks", true)?.unwrap_or(default_over.ranks),
        hosts: remove_fold_option(&mut options, "over_hosts", true)?.unwrap_or(default_over.hosts),
    };
    let mut quotient_of = None;
    if let Some(parts) = options.remove("of") {
        let form_error = || format!("`of={parts}` is not of=NUMERATOR/DENOMINATOR, two names of readings");
        let (numerator, denominator) = parts.split_once('/').ok_or_else(form_error)?;
        check_name(numerator).and_then(|()| check_name(denominator))?;
        quotient_of = Some([numerator.to_string(), denominator.to_string()]);
    }
    match options.keys().next() {
        Some(key) => Err(format!("`{key}=` declares nothing; {OPTIONS_HELP}")),
        None => Ok(MetricSpec { over, quotient_of, ..metric }),
    }
}

/// Removes an option such as `over=sum` and returns how it combines values, or `None` if the option is missing.
/// With `allows_rate`, it may be [`Fold::Rate`].
fn remove_fold_option(
    options: &mut BTreeMap<&str, &str>,
    key: &str,
    allows_rate: bool,
) -> Result<Option<Fold>, String> {
    let Some(fold_name) = options.remove(key) else { return Ok(None) };
    let allowed_folds = Fold::ALL.into_iter().filter(|fold| allows_rate || *fold != Fold::Rate);
    if let Some(fold) = allowed_folds.clone().find(|fold| fold.name() == fold_name) {
        return Ok(Some(fold));
    }
    let fold_names: Vec<&str> = allowed_folds.map(Fold::name).collect();
    Err(format!("`{key}={fold_name}` is not a way to combine values. Available: {}", fold_names.join(", ")))
}

/// The metrics in the output of one command, which it reads piece by piece.
#[derive(Debug, Default)]
pub struct PrintedMetrics {
    rules: Vec<MetricRule>,
    /// The bytes of the current line so far.
    line: Vec<u8>,
    /// Whether a carriage return ended the last line. A newline right after it belongs to that end.
    is_after_return: bool,
    declared: DeclaredMetrics,
    /// The unit of each printed name, and the line or rule that declared the unit.
    units: BTreeMap<String, (Unit, String)>,
    /// The last value of each metric, by its id.
    values: BTreeMap<String, f64>,
    /// The indices of the rules that found a value.
    matched_rules: BTreeSet<usize>,
    /// The error of the first invalid line.
    first_error: Option<String>,
}

impl PrintedMetrics {
    /// Prepares to read the output of a command. The rules find metrics in addition to the marked lines.
    pub fn with_rules(rules: &[MetricRule]) -> PrintedMetrics {
        PrintedMetrics { rules: rules.to_vec(), ..PrintedMetrics::default() }
    }

    /// Reads a piece of the output. A carriage return ends a line too, because programs write their progress with it.
    pub fn read_piece(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| is_line_end(*byte)) {
            let is_rest_of_line_end = self.is_after_return && part == b"\n";
            let is_empty_progress = self.line.is_empty() && part == b"\r";
            self.is_after_return = part.ends_with(b"\r");
            if is_rest_of_line_end || is_empty_progress {
                continue;
            }
            // One byte more than the limit shows that the line is longer.
            let max_bytes = (MAX_LINE_BYTES + 1).saturating_sub(self.line.len());
            self.line.extend(&part[..part.len().min(max_bytes)]);
            if part.last().copied().is_some_and(is_line_end) {
                self.end_line();
            }
        }
    }

    /// Parses the current line and starts the next one.
    fn end_line(&mut self) {
        // A build prints many lines without a metric.
        if self.rules.is_empty() && !self.line.trim_ascii_start().starts_with(METRIC_PREFIX.as_bytes()) {
            return self.line.clear();
        }
        let mut bytes = std::mem::take(&mut self.line);
        if bytes.len() > MAX_LINE_BYTES && !bytes.last().copied().is_some_and(is_line_end) {
            // Cut before a word, because the first half of a number is another number.
            bytes.truncate(MAX_LINE_BYTES);
            bytes.truncate(bytes.iter().rposition(u8::is_ascii_whitespace).unwrap_or(0));
        }
        let line = String::from_utf8_lossy(&bytes).trim_end().to_string();
        if let Err(error) = self.parse_line(&line) {
            self.first_error.get_or_insert(error);
        }
    }

    fn parse_line(&mut self, line: &str) -> Result<(), String> {
        let line_error = |problem| format!("it printed `{line}`: {problem}");
        if let Some(text) = line.trim_start().strip_prefix(METRIC_PREFIX) {
            let (metric, value) = parse_metric_line(text).map_err(line_error)?;
            let name = text.split_whitespace().next().unwrap_or("");
            self.store_value(name, &metric, value, &format!("`{line}`"))?;
        }
        for index in 0..self.rules.len() {
            let Some(value) = self.rules[index].find_value(line) else { continue };
            let MetricRule { metric, name, regex } = self.rules[index].clone();
            self.store_value(&name, &metric, value.map_err(line_error)?, &format!("the rule `{}`", regex.as_str()))?;
            self.matched_rules.insert(index);
        }
        Ok(())
    }

    /// Stores a value and checks its definition. The last value of a metric counts, because programs print intermediate
    /// figures first.
    fn store_value(&mut self, name: &str, metric: &MetricSpec, value: f64, declared_by: &str) -> Result<(), String> {
        let (unit, first_declarer) = self.units.entry(name.into()).or_insert_with(|| (metric.unit, declared_by.into()));
        if *unit != metric.unit {
            return Err(format!(
                "{name} was declared in `{}` by {first_declarer} and in `{}` by {declared_by}; give both one unit, or two names",
                unit.suffix(),
                metric.unit.suffix()
            ));
        }
        let is_new =
            self.declared.declare_printed(metric, declared_by).map_err(|contradiction| contradiction.to_string())?;
        if is_new && self.values.len() == MAX_METRICS {
            return Err(format!("it printed more than {MAX_METRICS} metrics"));
        }
        self.values.insert(metric.id.clone(), value);
        Ok(())
    }

    /// Returns the metrics with their values after the end of the output.
    ///
    /// # Errors
    /// The first invalid line, or the first rule that found no value.
    pub fn finish(mut self) -> Result<Vec<(MetricSpec, f64)>, String> {
        // After a newline there is no further line, which a rule such as `(.*)` would match.
        if !self.line.is_empty() {
            self.end_line();
        }
        if let Some(error) = self.first_error {
            return Err(error);
        }
        for (index, rule) in self.rules.iter().enumerate() {
            if !self.matched_rules.contains(&index) {
                return Err(format!("no line of its output matches `{}`", rule.regex.as_str()));
            }
        }
        Ok(self.declared.metrics().map(|metric| (metric.clone(), self.values[&metric.id])).collect())
    }
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// Parses the words after [`METRIC_PREFIX`], such as `tps 1234.5 per_s higher over=max`.
fn parse_metric_line(text: &str) -> Result<(MetricSpec, f64), String> {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        [name, value, unit, direction, ref options @ ..] => {
            Ok((define_metric(name, unit, direction, options)?, parse_number(value)?))
        }
        _ => Err("write a name, a value, a unit, and `lower`, `higher` or `neutral`".into()),
    }
}

/// Characters that may stand between the digits of a number. The last two are no-break spaces, which separate thousands
/// in some languages.
const DIGIT_SEPARATORS: [char; 7] = ['.', ',', '\'', '’', '_', '\u{a0}', '\u{202f}'];

/// Parses a finite number.
pub fn parse_number(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite());
    value.ok_or_else(|| format!("`{text}` is not a number"))
}

/// Parses a finite number that is not negative, as benchmarks print them. Returns `None` for other texts.
pub fn parse_nonnegative(text: &str) -> Option<f64> {
    parse_number(text.trim()).ok().filter(|value| *value >= 0.0)
}

/// Checks that a number in a line is complete, and not a part of a longer number, such as `1.5` of `1.5e+06`, `1` of
/// `1,234` or `12.5` of `12.5k`. `number_range` is its position in bytes.
///
/// A letter or per cent sign after the number, and digits, a sign or a decimal point before it, make it a part, unless the
/// pattern requires the character beside the number. `is_required` receives the line with this character replaced, and
/// returns whether the pattern then no longer finds the number at its position. With `is_percent`, a per cent sign may
/// follow.
///
/// # Errors
/// If the number is a part of a longer one; the text names the longer one.
pub fn check_complete_number(
    line: &str,
    number_range: Range<usize>,
    is_percent: bool,
    is_required: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let (before, after) = (&line[..number_range.start], &line[number_range.end..]);
    let number = &line[number_range.clone()];
    let has_unrequired_suffix = find_changing_suffix(after, is_percent).is_some_and(|suffix| {
        let rest = &after[suffix.len_utf8()..];
        !is_required(&format!("{before}{number}{}{rest}", placeholder(suffix)))
    });
    let last_before = before.chars().next_back().filter(|_| number_starts_before(before));
    let has_unrequired_prefix = last_before.is_some_and(|prefix| {
        let rest = &before[..before.len() - prefix.len_utf8()];
        !is_required(&format!("{rest}{}{number}{after}", placeholder(prefix)))
    });
    if number_continues(after) || has_unrequired_suffix || has_unrequired_prefix {
        return Err(partial_number_error(line, number_range));
    }
    Ok(())
}

/// The message that the number in this range of a line is only a part of a longer one.
fn partial_number_error(line: &str, number_range: Range<usize>) -> String {
    let (before, after) = (&line[..number_range.start], &line[number_range.end..]);
    let may_be_in_number = |c: char| c.is_alphanumeric() || ".,+-%:".contains(c) || DIGIT_SEPARATORS.contains(&c);
    let start = before.trim_end_matches(may_be_in_number).len();
    let end = number_range.end + after.find(|c: char| !may_be_in_number(c)).unwrap_or(after.len());
    let (part, whole) = (&line[number_range], line[start..end].trim_end_matches(['.', ',', '-', '\'']));
    format!("`{part}` is only part of `{whole}`; match the whole number, or name the unit behind it in the pattern")
}

/// Returns the first character after a number if it changes the value, such as the `k` of `12k`. With `is_percent`, a
/// per cent sign does not.
fn find_changing_suffix(after: &str, is_percent: bool) -> Option<char> {
    let next = after.chars().next()?;
    // `5:06` are minutes and seconds.
    let is_clock = next == ':' && starts_with_digit(&after[1..]);
    (next.is_alphabetic() || (next == '%' && !is_percent) || is_clock).then_some(next)
}

/// A text that replaces a character. It has the same length, so the rest of the line stays in its position.
fn placeholder(c: char) -> String {
    "\u{1}".repeat(c.len_utf8())
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether a number continues in the text after it, with digits, a separator and digits, or an exponent.
fn number_continues(after: &str) -> bool {
    if let Some(rest) = after.strip_prefix(['e', 'E']) {
        return starts_with_digit(rest.strip_prefix(['+', '-']).unwrap_or(rest));
    }
    starts_with_digit(after.strip_prefix(DIGIT_SEPARATORS).unwrap_or(after))
}

/// Whether a number starts in the text before it, with digits, a minus sign or a decimal point.
fn number_starts_before(before: &str) -> bool {
    let can_precede_number = |c: char| c.is_whitespace() || "=:([{,;|\"'<>".contains(c);
    if let Some(rest) = before.strip_suffix(['-', '.'])
        && (rest.is_empty() || rest.ends_with(can_precede_number))
    {
        return true;
    }
    before.strip_suffix(DIGIT_SEPARATORS).unwrap_or(before).ends_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_metrics(rules: &[&str], pieces: &[&str]) -> Result<Vec<(String, f64)>, String> {
        let rules: Vec<MetricRule> = rules.iter().map(|rule| MetricRule::parse(rule).unwrap()).collect();
        let mut printed = PrintedMetrics::with_rules(&rules);
        pieces.iter().for_each(|piece| printed.read_piece(piece.as_bytes()));
        Ok(printed.finish()?.into_iter().map(|(metric, value)| (metric.id, value)).collect())
    }

    #[test]
    fn metrics_are_found_in_any_piece_of_the_output() {
        let pieces =
            ["starting\nfsarena-me", "tric: tps 12", "34.5 per_s higher\n  fsarena-metric: lat_ns 7e3 ns lower"];
        assert_eq!(read_metrics(&[], &pieces).unwrap(), [("lat_ns".into(), 7000.0), ("tps_per_s".into(), 1234.5)]);
        let rule = "tps per_s higher: tps = ([0-9.]+)";
        assert_eq!(read_metrics(&[rule], &["tps = 1\ntps = 2.5 (excluding)\n"]).unwrap(), [("tps_per_s".into(), 2.5)]);
        assert_eq!(read_metrics(&[], &["nothing\n"]).unwrap(), []);
        // The output ends with the newline, not with an empty line.
        assert_eq!(read_metrics(&["tps per_s higher: ^(.*)$"], &["5\n"]).unwrap(), [("tps_per_s".into(), 5.0)]);
    }

    #[test]
    fn a_carriage_return_ends_a_line() {
        let progress = format!("{}fsarena-metric: a 1 s lower\r", "copied 10%\r".repeat(1000));
        assert_eq!(read_metrics(&[], &[&progress, "\nend\n"]).unwrap(), [("a_s".into(), 1.0)]);
        let rule = "share percent higher: ^([0-9]+)%$";
        assert_eq!(read_metrics(&[rule], &["\r1%\r\r2%\r", "\n"]).unwrap(), [("share_percent".into(), 2.0)]);
        assert_eq!(read_metrics(&["tps per_s higher: ^(.*)$"], &["5\r\n"]).unwrap(), [("tps_per_s".into(), 5.0)]);
    }

    #[test]
    fn invalid_lines_and_rules_are_errors() {
        let read_error = |rules: &[&str], text: &str| read_metrics(rules, &[text]).unwrap_err();
        assert!(read_error(&[], "fsarena-metric: tps 1\n").contains("write a name, a value"));
        assert!(read_error(&[], "fsarena-metric: tps x per_s higher\n").contains("`x` is not a number"));
        assert!(read_error(&[], "fsarena-metric: tps 1 tons higher\n").contains("Unknown unit `tons`"));
        assert!(read_error(&[], "fsarena-metric: TPS 1 s higher\n").contains("lower-case"));
        assert!(read_error(&["tps per_s higher: tps = (.+)"], "no").contains("no line of its output matches"));
        let many: String = (0..65).map(|n| format!("fsarena-metric: m{n} 1 count lower\n")).collect();
        assert!(read_error(&[], &many).contains("more than 64"));
        for invalid in ["tps", "tps per_s: x", "tps per_s higher: x", "tps per_s higher: (", "tps per_s up: (x)"] {
            assert!(MetricRule::parse(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn a_long_line_is_cut_before_a_number_that_it_would_divide() {
        let long = format!("{}\nfsarena-metric: a 1 s lower\n", "x".repeat(1 << 20));
        assert_eq!(read_metrics(&[], &[&long]).unwrap(), [("a_s".into(), 1.0)]);
        let divided = format!("tps = 1 {} 12345 6789", "x".repeat(MAX_LINE_BYTES - 11));
        assert_eq!(read_metrics(&["tps per_s higher: ([0-9]+)"], &[&divided]).unwrap(), [("tps_per_s".into(), 1.0)]);
        assert!(read_metrics(&["tps per_s higher: x ([0-9]+)"], &[&divided]).unwrap_err().contains("no line"));
    }

    #[test]
    fn names_get_their_unit_unless_they_have_it() {
        let id = |text: &str| MetricRule::parse(&format!("{text} lower: (.)")).unwrap().metric.id;
        assert_eq!(
            [id("lat_ns s"), id("lat_s s"), id("lats s"), id("ops_count count")],
            ["lat_ns_s", "lat_s", "lats_s", "ops_count"]
        );
    }

    #[test]
    fn options_after_the_direction_may_come_in_any_order() {
        let parse_options = |words: &str| {
            let metric = parse_metric_line(&format!("m 1 s lower {words}"))?.0;
            Ok::<_, String>((metric.over, metric.quotient_of))
        };
        let (none, max) = (Fold::None, Fold::Max);
        assert_eq!(parse_options("").unwrap(), (FoldRules { tasks: none, ranks: max, hosts: max }, None));
        assert_eq!(parse_options("over=sum").unwrap().0, FoldRules::all(Fold::Sum));
        let mixed = FoldRules { tasks: Fold::Sum, ranks: Fold::Rate, hosts: Fold::Sum };
        assert_eq!(parse_options("over_ranks=rate over=sum").unwrap().0, mixed);
        let quotient = Some(["a_s".to_string(), "b_count".to_string()]);
        assert_eq!(parse_options("of=a_s/b_count over=none").unwrap(), (FoldRules::all(none), quotient));
        for (words, expected) in [
            ("over=rate", "Available: sum, max, min, mean, none"),
            ("over_ranks=all", "Available: sum, max, min, mean, rate, none"),
            ("over=sum over=max", "`over=` occurs twice"),
            ("total", "`total` declares nothing; after the direction write over=sum"),
            ("across=sum", "`across=` declares nothing"),
            ("of=a_s", "two names of readings"),
            ("of=A/b", "lower-case"),
        ] {
            let error = parse_options(words).unwrap_err();
            assert!(error.contains(expected), "{words}: {error}");
        }
    }

    #[test]
    fn two_definitions_of_one_name_in_an_output_are_an_error() {
        let text = "fsarena-metric: m 1 s lower\nfsarena-metric: m 2 s higher\n";
        let error = read_metrics(&[], &[text]).unwrap_err();
        assert!(error.contains("`m_s s lower` by `fsarena-metric: m 1 s lower`"), "{error}");
        assert!(error.contains("`m_s s higher` by `fsarena-metric: m 2 s higher`"), "{error}");
        let text = "fsarena-metric: m 1 count lower\nfsarena-metric: m 2 bytes lower\n";
        let error = read_metrics(&[], &[text]).unwrap_err();
        let expected = "m was declared in `count` by `fsarena-metric: m 1 count lower` and in `bytes` by `fsarena-metric: m 2 bytes";
        assert!(error.contains(expected), "{error}");
        let two_names = "fsarena-metric: m_count 1 count lower\nfsarena-metric: m_bytes 2 bytes lower\n";
        assert_eq!(read_metrics(&[], &[two_names]).unwrap().len(), 2);
        let text = "fsarena-metric: m 1 s lower\nm is 5\n";
        assert!(read_metrics(&["m s higher: is ([0-9]+)"], &[text]).unwrap_err().contains("by the rule `is ([0-9]+)`"));
    }

    #[test]
    fn the_patterns_of_the_guide_match_the_output_of_the_programs() {
        let guide = include_str!("../../../docs/guide/command.md");
        let value = |rule: &str, output: &str| {
            assert!(guide.contains(&format!("`{rule}`")), "{rule}");
            read_metrics(&[rule], &[output]).unwrap()[0].1
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
        let error = read_metrics(&["iops per_s higher: IOPS=([0-9.]+)"], &[fio]).unwrap_err();
        assert!(error.contains("part of `256k`"), "{error}");
    }

    #[test]
    fn a_part_of_a_longer_number_is_an_error() {
        let rule = "tps per_s higher: tps = ([0-9.]+)";
        for rest in [
            "1.5e+06",
            "1.5E6",
            "1,234.5",
            "12.5k",
            "12.5M/s",
            "12.5%",
            "1'234",
            "12.5µ",
            "1’234",
            "1_000",
            "5:06",
            "1\u{202f}234",
            "1\u{a0}234",
        ] {
            let error = read_metrics(&[rule], &[&format!("tps = {rest}\n")]).unwrap_err();
            assert!(error.contains(&format!("`tps = {rest}`")) && error.contains("part of"), "{rest}: {error}");
        }
        for rest in ["12.5", "12.5,", "12.5, next 7", "12.5 k", "12.5)", "12.5/s"] {
            assert_eq!(read_metrics(&[rule], &[&format!("tps = {rest}\n")]).unwrap()[0].1, 12.5, "{rest}");
        }
        // The end of a longer number.
        assert!(read_metrics(&["lat ns lower: ([0-9.]+) ms"], &["1,234.5 ms"]).unwrap_err().contains("part of"));
        for line in ["lat -4.5 ms", "lat,-4.5 ms", "[-4.5 ms]"] {
            assert!(read_metrics(&["lat ns lower: ([0-9.]+) ms"], &[line]).unwrap_err().contains("part of"), "{line}");
        }
        assert!(read_metrics(&["lat s lower: ([0-9]+)"], &["lat .5"]).unwrap_err().contains("part of `.5`"));
        assert_eq!(read_metrics(&["lat s lower: ([0-9]+)"], &["lat ....5"]).unwrap()[0].1, 5.0);
        // A range, or a name with a number.
        assert_eq!(read_metrics(&["lat s lower: lat.*-([0-9]+)"], &["lat 4-5"]).unwrap()[0].1, 5.0);
        assert_eq!(read_metrics(&["lat s lower: ([0-9]+)"], &["node-5"]).unwrap()[0].1, 5.0);
        // A pattern that requires the text after the number.
        assert_eq!(read_metrics(&["lat s lower: ([0-9.]+)ms"], &["12.5ms"]).unwrap()[0].1, 12.5);
        assert!(read_metrics(&["lat s lower: ([0-9.]+).*"], &["12.5ms"]).is_err());
        assert!(read_metrics(&["lat s lower: ([0-9.]+)m?"], &["12.5ms"]).is_err());
        assert_eq!(read_metrics(&["hit percent higher: ([0-9.]+)"], &["12.5%"]).unwrap()[0].1, 12.5);
        assert_eq!(read_metrics(&["tps per_s higher: tps = ([0-9.e+]+)"], &["tps = 1.5e+06"]).unwrap()[0].1, 1.5e6);
    }
}
