//! A metric of a Prometheus endpoint, in the text format of its exporters.

use super::http::Page;
use crate::counter::{Counter, Trouble};
use crate::error::Error;
use fsarena_core::names::unknown;
use std::time::Duration;

/// One metric of an endpoint; the sum of all its series with the labels that were asked for.
pub struct Prometheus {
    page: Page,
    written: String,
    name: String,
    labels: Vec<(String, String)>,
}

impl Prometheus {
    /// The metric `name` or `name{label="value",…}` of an endpoint.
    ///
    /// # Errors
    /// Where one of them is none.
    pub fn new(url: &str, metric: &str, patience: Duration) -> Result<Prometheus, Error> {
        let bad = || {
            Error::Usage(format!(
                "cannot read the metric {metric:?}; write one as `requests_total` or `requests_total{{code=\"200\"}}`"
            ))
        };
        let (name, labels) = name_and_labels(metric.trim()).ok_or_else(bad)?;
        let sound = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        if name.is_empty() || !name.chars().all(sound) {
            return Err(bad());
        }
        Ok(Prometheus {
            page: Page::new(url, patience)?,
            written: metric.trim().into(),
            name: name.into(),
            labels,
        })
    }

    /// The sum of the series that fit.
    fn sum(&self, body: &str) -> Option<f64> {
        let values = body.lines().filter_map(|line| self.series(line.trim()));
        values.reduce(|sum, value| sum + value).filter(|sum| sum.is_finite() && *sum >= 0.0)
    }

    fn series(&self, line: &str) -> Option<f64> {
        if line.starts_with('#') || !line.starts_with(&self.name) {
            return None;
        }
        let end = if line.contains('{') { line.rfind('}')? + 1 } else { line.find(' ')? };
        let (name, labels) = name_and_labels(&line[..end])?;
        let fits = name == self.name && self.labels.iter().all(|label| labels.contains(label));
        // A time stamp may follow.
        let value = line[end..].split_ascii_whitespace().next()?;
        fits.then(|| value.parse().ok()).flatten()
    }
}

/// The names of the metrics of a page: of its series, and of those that it describes and that have none yet.
fn names(body: &str) -> impl Iterator<Item = &str> {
    body.lines().filter_map(|line| {
        let described = ["# TYPE ", "# HELP "].iter().find_map(|head| line.strip_prefix(head));
        let line = described.or((!line.starts_with('#')).then_some(line))?;
        line.split(['{', ' ']).next().filter(|name| !name.is_empty())
    })
}

impl Counter for Prometheus {
    /// A metric that is described, or has series with other labels, can get the series later: with the first request.
    fn check(&self) -> Result<(), Error> {
        let Ok(body) = self.page.get() else { return Ok(()) };
        if names(&body).next().is_none() || names(&body).any(|name| name == self.name) {
            return Ok(());
        }
        Err(Error::Usage(format!("{}: {}", self.page.url(), unknown("series", &self.name, names(&body)))))
    }

    fn read(&mut self) -> Result<f64, Trouble> {
        let body = self.page.get()?;
        self.sum(&body).ok_or_else(|| self.page.lacks(&format!("metric {}", self.written), &body))
    }
}

/// `name{a="b",c="d"}`; values may hold commas and escaped quotes.
fn name_and_labels(text: &str) -> Option<(&str, Vec<(String, String)>)> {
    let Some((name, rest)) = text.split_once('{') else { return Some((text, vec![])) };
    let mut rest = rest.strip_suffix('}')?;
    let mut labels = vec![];
    while !rest.trim().is_empty() {
        let (label, behind) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = behind.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at + 1,
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.push((label.trim().to_string(), value));
        rest = behind[end..].trim_start().trim_start_matches(',').trim_start();
    }
    Some((name, labels))
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
        Prometheus::new("http://127.0.0.1:1/metrics", metric, Duration::ZERO).unwrap().sum(BODY)
    }

    #[test]
    fn series_are_summed_by_name_and_labels() {
        assert_eq!(sum("http_requests_total"), Some(1035.0));
        assert_eq!(sum("http_requests_total{code=\"200\"}"), Some(1030.0));
        assert_eq!(sum("http_requests_total{method=\"a,\\\"b\"}"), Some(5.0));
        assert_eq!(sum("plain"), Some(1700.0));
        assert_eq!((sum("http_requests"), sum("broken")), (None, None));
    }

    #[test]
    fn a_series_can_come_later_and_a_misspelt_name_cannot() {
        let check = |body: &'static [u8], metric: &str| {
            let url = super::super::http::tests::server(body, 1);
            let counter = Prometheus::new(&url, metric, Duration::from_millis(300)).unwrap();
            counter.check().map_err(|error| error.to_string())
        };
        let page = b"HTTP/1.0 200 OK\r\n\r\n# TYPE later counter\nrequests_total{code=\"200\"} 1\n";
        for metric in ["later", "requests_total", "requests_total{code=\"500\"}"] {
            assert_eq!(check(page, metric), Ok(()));
        }
        let said = check(page, "request_total").unwrap_err();
        assert!(said.contains("Unknown series `request_total`. Did you mean `requests_total`?"), "{said}");
        assert_eq!(check(b"HTTP/1.0 503 Busy\r\n\r\nlater", "x"), Ok(()));
    }

    #[test]
    fn what_is_no_metric_is_refused() {
        for metric in ["", "a b", "a{b}", "a{b=\"c}"] {
            assert!(Prometheus::new("http://127.0.0.1/", metric, Duration::ZERO).is_err(), "{metric}");
        }
    }
}
