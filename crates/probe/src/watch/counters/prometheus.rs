//! A counter that reads a metric of a Prometheus endpoint, in the text exposition format.

use super::http::HttpPage;
use crate::watch::counter::{Counter, CounterError, WatchError};
use fsarena_core::names::unknown_name;
use std::time::Duration;

/// A metric of an endpoint: the sum of all its series that have the given labels.
pub struct PrometheusCounter {
    page: HttpPage,
    /// The metric as the user wrote it.
    metric: String,
    name: String,
    labels: Vec<(String, String)>,
}

impl PrometheusCounter {
    /// A counter of the metric `name` or `name{label="value",…}` at the address `url`.
    ///
    /// # Errors
    /// The metric or the address cannot be parsed, or the host is unknown.
    pub fn new(url: &str, metric: &str, timeout: Duration) -> Result<PrometheusCounter, WatchError> {
        let malformed = || {
            WatchError::Usage(format!(
                "cannot read the metric {metric:?}; write one as `requests_total` or `requests_total{{code=\"200\"}}`"
            ))
        };
        let (Series { name, labels }, rest) = Series::parse(metric.trim()).ok_or_else(malformed)?;
        if !rest.is_empty() {
            return Err(malformed());
        }
        Ok(PrometheusCounter { page: HttpPage::new(url, timeout)?, metric: metric.trim().into(), name, labels })
    }

    /// The sum of the matching series. `None` if no series matches, if a line of this metric cannot be parsed, or if the sum is
    /// negative, infinite or not a number.
    fn sum_series(&self, body: &str) -> Option<f64> {
        let mut sum = None;
        for line in lines_before_end(body).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let Some((series, rest)) = Series::parse(line) else {
                // Ignore lines of other metrics that cannot be parsed.
                match line.strip_prefix(&self.name) {
                    Some(rest) if is_end_of_name(rest) => return None,
                    _ => continue,
                }
            };
            if series.name == self.name && self.labels.iter().all(|label| series.labels.contains(label)) {
                sum = Some(sum.unwrap_or(0.0) + parse_value(rest)?);
            }
        }
        sum.filter(|sum: &f64| sum.is_finite() && *sum >= 0.0)
    }
}

/// The lines of a page before the mark of its end.
fn lines_before_end(body: &str) -> impl Iterator<Item = &str> {
    body.lines().map(str::trim).take_while(|line| *line != "# EOF")
}

/// The names of the metrics of a page, from its series, and from `# TYPE` and `# HELP` lines, whose metrics may have no series
/// yet. If a series cannot be parsed, its first word counts as the name, as in [`PrometheusCounter::sum_series`].
fn metric_names(body: &str) -> Vec<String> {
    let mut names = vec![];
    for line in lines_before_end(body) {
        let description = ["# TYPE ", "# HELP "].iter().find_map(|prefix| line.strip_prefix(prefix));
        let parsed = match description {
            Some(description) => parse_quoted(description).map(|(name, _)| name),
            None if line.starts_with('#') => continue,
            None => Series::parse(line).map(|(series, _)| series.name),
        };
        let first_word = || description.unwrap_or(line).split(ends_name).next().map(String::from);
        names.extend(parsed.or_else(first_word).filter(|name| !name.is_empty()));
    }
    names
}

impl Counter for PrometheusCounter {
    /// Refuses a metric if the page has metrics, but none of this name. Accepts missing labels, because a series can appear
    /// later, with the first request that it counts.
    fn check_before_watch(&self) -> Result<(), WatchError> {
        // A service that is down now may answer later.
        let Ok(body) = self.page.get() else { return Ok(()) };
        let names = metric_names(&body);
        if names.is_empty() || names.contains(&self.name) {
            return Ok(());
        }
        Err(WatchError::Usage(format!(
            "{}: {}",
            self.page.url(),
            unknown_name("metric", &self.name, names.iter().map(String::as_str))
        )))
    }

    fn read(&mut self) -> Result<f64, CounterError> {
        let body = self.page.get()?;
        self.sum_series(&body).ok_or_else(|| self.page.missing_counter_error(&format!("metric {}", self.metric), &body))
    }
}

/// The name and the labels of a series: `name{a="b",c="d"}`, or with a quoted name `{"name",a="b"}`.
#[derive(Debug, PartialEq)]
struct Series {
    name: String,
    labels: Vec<(String, String)>,
}

impl Series {
    /// Parses a series at the beginning of a text. Returns it with the rest of the text; `None` if it cannot be parsed, such as
    /// `a.b 1`, whose name would require quotes.
    fn parse(text: &str) -> Option<(Series, &str)> {
        let end = text.find(|c| !is_name_char(c)).unwrap_or(text.len());
        let mut series = Series { name: text[..end].to_string(), labels: vec![] };
        let Some(mut rest) = text[end..].trim_start().strip_prefix('{') else {
            return (end > 0 && is_end_of_name(&text[end..])).then_some((series, &text[end..]));
        };
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix('}') {
                return (!series.name.is_empty()).then_some((series, after));
            }
            if rest.starts_with('"') && series.name.is_empty() {
                (series.name, rest) = parse_quoted(rest)?;
            } else {
                let (label, after) = rest.split_once('=')?;
                let label = label.trim_end();
                let (value, after) = parse_quoted(after.trim_start())?;
                if label.is_empty() || !label.chars().all(is_name_char) {
                    return None;
                }
                series.labels.push((label.into(), value));
                rest = after;
            }
            rest = rest.trim_start();
            // A comma may also follow the last label.
            rest = match rest.strip_prefix(',') {
                Some(after) => after,
                None if rest.starts_with('}') => rest,
                None => return None,
            };
        }
    }
}

/// Whether a character ends an unquoted name.
fn ends_name(c: char) -> bool {
    c == '{' || c.is_whitespace()
}

/// Whether a text, which follows the characters of a name, shows that the name is complete.
fn is_end_of_name(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(ends_name)
}

/// Whether a character can be part of an unquoted name.
fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// Parses a quoted text with escapes at the beginning of `text`. Returns it without quotes and escapes, with the rest of the
/// text.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix('"')?;
    let mut value = String::new();
    let mut characters = text.char_indices();
    loop {
        match characters.next()? {
            (index, '"') => return Some((value, &text[index + 1..])),
            (_, '\\') => match characters.next()?.1 {
                'n' => value.push('\n'),
                character => value.push(character),
            },
            (_, character) => value.push(character),
        }
    }
}

/// Parses the value after a series. A time stamp may follow, and then an exemplar: `# {trace_id="a"} 0.5`.
fn parse_value(rest: &str) -> Option<f64> {
    let mut words = rest.split_whitespace();
    let value = words.next().filter(|_| rest.starts_with(char::is_whitespace))?.parse().ok()?;
    let stamp = words.next().filter(|word| *word != "#");
    let rest_is_valid = match stamp {
        None => true,
        Some(stamp) => stamp.parse::<f64>().is_ok() && words.next().is_none_or(|word| word == "#"),
    };
    rest_is_valid.then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "# HELP http_requests_total The number.\n# TYPE http_requests_total counter\n\
        http_requests_total{method=\"post\",code=\"200\"} 1027 1395066363000\n\
        http_requests_total{method=\"get\",code=\"200\"} 3\n\
        http_requests_total{method=\"a,\\\"b\",code=\"400\"} 5\n\
        http_requests_total_bytes 99\nplain 1.7e3\nbroken NaN\n";

    fn sum(metric: &str) -> Option<f64> {
        sum_in(metric, BODY)
    }

    fn sum_in(metric: &str, body: &str) -> Option<f64> {
        PrometheusCounter::new("http://127.0.0.1:1/metrics", metric, Duration::ZERO).unwrap().sum_series(body)
    }

    #[test]
    fn matching_series_are_summed() {
        assert_eq!(sum("http_requests_total"), Some(1035.0));
        assert_eq!(sum("http_requests_total{code=\"200\"}"), Some(1030.0));
        assert_eq!(sum("http_requests_total{method=\"a,\\\"b\"}"), Some(5.0));
        assert_eq!(sum("plain"), Some(1700.0));
        assert_eq!((sum("http_requests"), sum("broken")), (None, None));
    }

    #[test]
    fn missing_labels_are_accepted_and_misspelt_names_refused() {
        let check = |body: &'static [u8], metric: &str| {
            let url = super::super::http::tests::start_server(body, 1);
            let counter = PrometheusCounter::new(&url, metric, Duration::from_millis(300)).unwrap();
            counter.check_before_watch().map_err(|error| error.to_string())
        };
        let page = b"HTTP/1.0 200 OK\r\n\r\n# TYPE later counter\nrequests_total{code=\"200\"} 1\n";
        for metric in ["later", "requests_total", "requests_total{code=\"500\"}"] {
            assert_eq!(check(page, metric), Ok(()));
        }
        let error = check(page, "request_total").unwrap_err();
        assert!(error.contains("Unknown metric `request_total`. Did you mean `requests_total`?"), "{error}");
        assert_eq!(check(b"HTTP/1.0 503 Busy\r\n\r\nlater", "x"), Ok(()));
    }

    #[test]
    fn exemplars_time_stamps_and_white_space_are_ignored() {
        let exemplar = include_str!("testdata/exemplar.prom");
        assert_eq!(
            (sum_in("req_total", exemplar), sum_in("req_total{code=\"500\"}", exemplar)),
            (Some(23.0), Some(3.0))
        );
        for line in [
            "a 7",
            "a\t7",
            "  a   7  ",
            "a\t7\t1395066363000",
            "a 7 1395066363.5 # {trace_id=\"x\"} 0.5 12",
            "a 7 # {} 0.5",
            "a{} 7",
            "a {b=\"c\"} 7",
            "a{ b = \"c\" , d=\"}\", } 7",
            "a{b=\"c # {x=\\\"1\\\"} 5\"}\t7 # {y=\"z\"} 3",
            "{\"a\",b=\"c\"} 7",
            "b{c=\"a 9\"} 1\na 7\n# EOF\na 100",
            "a_b{broken 1\na 7",
            "a.b 1\na 7",
        ] {
            assert_eq!(sum_in("a", line), Some(7.0), "{line}");
            assert!(metric_names(line).contains(&"a".to_string()), "{line}");
        }
        assert_eq!(metric_names("# TYPE \"a.b\" counter\n# HELP c\tThe number.\nd"), ["a.b", "c", "d"]);
        let escaped = r#"a{b="x\\\"\ny"} 7"#;
        assert_eq!(sum_in(r#"a{b="x\\\"\ny"}"#, escaped), Some(7.0));
    }

    #[test]
    fn an_invalid_line_of_the_metric_leaves_no_sum() {
        for line in ["a 1\na{b=\"c} 2", "a 1\na x", "a 1\na{b=\"c\"}2", "a 1\na 2 3 4", "a 1\na", "a 1\na{b} 2"] {
            assert_eq!(sum_in("a", line), None, "{line}");
        }
    }

    #[test]
    fn malformed_metrics_are_refused() {
        for metric in ["", "a b", "a{b}", "a{b=\"c}"] {
            assert!(PrometheusCounter::new("http://127.0.0.1/", metric, Duration::ZERO).is_err(), "{metric}");
        }
    }
}
