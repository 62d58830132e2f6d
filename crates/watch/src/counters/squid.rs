//! Squid's counters page: `client_http.requests`.

use super::http::{Page, http_only};
use crate::counter::{Counter, Trouble};
use crate::error::Error;
use std::time::Duration;

/// The counters page of a squid.
pub struct Squid(Page);

impl Squid {
    /// The counters of the squid at `HOST:PORT` or `http://HOST:PORT`.
    ///
    /// # Errors
    /// Fails if the address has another form.
    pub fn new(at: &str, patience: Duration) -> Result<Squid, Error> {
        if at.starts_with("https://") {
            return Err(http_only(at));
        }
        let at = at.strip_prefix("http://").unwrap_or(at).trim_end_matches('/');
        if at.contains('/') {
            return Err(Error::Usage(format!(
                "cannot read the address {at:?} of a squid; write HOST:PORT, for plain http"
            )));
        }
        let url = format!("http://{at}/squid-internal-mgr/counters");
        Page::new(&url, patience).map(Squid)
    }
}

impl Counter for Squid {
    fn read(&mut self) -> Result<f64, Trouble> {
        let body = self.0.get()?;
        value(&body, "client_http.requests").ok_or_else(|| self.0.lacks("client_http.requests", &body))
    }
}

/// The number behind a name: `client_http.requests = 17`.
pub fn value(page: &str, name: &str) -> Option<f64> {
    let behind = |line: &str| line.strip_prefix(name)?.trim_start().strip_prefix('=').map(str::to_string);
    let number = page.lines().find_map(behind)?;
    number.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Squid 5.7 prints it.
    const PAGE: &str = "sample_time = 1763768142.611 (Fri, 21 Nov 2025 23:35:42 GMT)\nclient_http.requests = 17\nclient_http.hits = 3\ncpu_time = 0.132\n";

    #[test]
    fn names_are_whole() {
        assert_eq!(value(PAGE, "client_http.requests"), Some(17.0));
        assert_eq!(value(PAGE, "cpu_time"), Some(0.132));
        assert_eq!(value(PAGE, "client_http"), None);
        assert_eq!(value("client_http.requests = many\n", "client_http.requests"), None);
        assert_eq!(value("client_http.requests = -1\n", "client_http.requests"), None);
    }

    #[test]
    fn a_page_of_something_else_is_told() {
        let url = super::super::http::tests::server(b"HTTP/1.0 200 OK\r\n\r\n<html><body>hello", 1);
        let said = Squid::new(&url, Duration::from_millis(300)).unwrap().read().unwrap_err().0;
        assert!(said.contains("no client_http.requests") && said.contains("<html>"), "{said}");
    }
}
