//! Reads pages over HTTP in limited time and size, and the counter of squid's requests.

use crate::watch::counter::{Counter, CounterError, WatchError};
use fsarena_sys::getent;
use std::net::{IpAddr, SocketAddr};
use std::{io::ErrorKind, time::Duration};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, config::Config, http::Uri};

/// The largest size of a response in bytes. The metrics of a busy exporter take a few hundred KiB.
const MAX_RESPONSE_BYTES: u64 = 4 << 20;

/// A page that is read over HTTP.
#[derive(Debug, Clone)]
pub struct HttpPage {
    url: String,
    timeout: Duration,
    agent: Agent,
}

impl HttpPage {
    /// The page at `http://HOST[:PORT][/PATH]`.
    ///
    /// # Errors
    /// The address is malformed or has the scheme https, or its host is unknown.
    pub fn new(url: &str, timeout: Duration) -> Result<HttpPage, WatchError> {
        let uri = url.parse::<Uri>().ok().filter(|uri| uri.host().is_some_and(|host| !host.is_empty()));
        match uri.as_ref().and_then(Uri::scheme_str) {
            Some("http") => {}
            Some("https") => return Err(http_only_error(url)),
            _ => {
                return Err(WatchError::Usage(format!("Malformed address {url:?}: write http://HOST:PORT/PATH")));
            }
        }
        // Do not follow redirects: `get` reports their status. Connect anew for each reading, so that a restarted server
        // answers.
        let mut config = Config::builder().timeout_global(Some(timeout)).http_status_as_error(false);
        config = config.max_redirects(0).max_idle_connections(0).proxy(None);
        config = config.user_agent("fsarena").accept("text/plain");
        let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
        let addresses =
            getent::host_addresses(host).map_err(|error| WatchError::Unavailable(format!("{url}: {error}")))?;
        let agent = Agent::with_parts(config.build(), DefaultConnector::default(), FixedAddresses(addresses));
        Ok(HttpPage { url: url.into(), timeout, agent })
    }

    /// The address of the page.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Requests the page, and returns its text.
    ///
    /// # Errors
    /// No server answers in time, or the response is too long, is not HTTP, or has a status other than 200.
    pub fn get(&self) -> Result<String, CounterError> {
        let mut response = self.agent.get(&self.url).call().map_err(|error| self.request_error(error))?;
        if response.status() != 200 {
            return Err(self.error(&format!("the answer has status {}", response.status().as_u16())));
        }
        let body = response.body_mut().with_config().limit(MAX_RESPONSE_BYTES).lossy_utf8(true);
        body.read_to_string().map_err(|error| self.request_error(error))
    }

    /// The error of a request, in words.
    fn request_error(&self, error: ureq::Error) -> CounterError {
        let timed_out = || format!("no whole answer within {} ms", self.timeout.as_millis());
        self.error(&match error {
            ureq::Error::Timeout(_) => timed_out(),
            ureq::Error::Io(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => timed_out(),
                _ => error.to_string(),
            },
            ureq::Error::BodyExceedsLimit(_) => "the answer does not end within 4 MiB".into(),
            ureq::Error::Protocol(error) => format!("the answer is not HTTP: {error}"),
            error => error.to_string(),
        })
    }

    /// An error with the address of the page before it.
    fn error(&self, why: &str) -> CounterError {
        CounterError(format!("{}: {why}", self.url))
    }

    /// The error for a page without a counter; it shows the beginning of the page.
    pub fn missing_counter_error(&self, name: &str, body: &str) -> CounterError {
        let start: String = body.trim_start().chars().take(40).collect();
        self.error(&format!("there is no {name} in the answer, which begins {start:?}"))
    }
}

/// The error for an address with the scheme https.
pub fn http_only_error(address: &str) -> WatchError {
    WatchError::Usage(format!(
        "{address:?}: fsarena reads exporters over http only. Name an http address of this machine, such as \
         http://localhost:9100/metrics; if the service has only https, let a command print the number: fsarena watch -- \
         COMMAND"
    ))
}

/// The IP addresses of the page's host, resolved only once: a look-up starts a process, whose CPU time would count in a window.
#[derive(Debug)]
struct FixedAddresses(Vec<IpAddr>);

impl Resolver for FixedAddresses {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let port = uri.port_u16().unwrap_or(80);
        let mut addresses = self.empty();
        // ureq accepts at most 16 addresses.
        for address in self.0.iter().take(16) {
            addresses.push(SocketAddr::new(*address, port));
        }
        Ok(addresses)
    }
}

/// A counter of the client requests of a squid, read from its counters page.
pub struct SquidCounter(HttpPage);

impl SquidCounter {
    /// The counter of the squid at `HOST:PORT` or `http://HOST:PORT`.
    ///
    /// # Errors
    /// The address has another form, or its host is unknown.
    pub fn new(address: &str, timeout: Duration) -> Result<SquidCounter, WatchError> {
        if address.starts_with("https://") {
            return Err(http_only_error(address));
        }
        let host = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
        if host.contains('/') {
            return Err(WatchError::Usage(format!(
                "cannot read the address {host:?} of a squid; write HOST:PORT, for plain http"
            )));
        }
        let url = format!("http://{host}/squid-internal-mgr/counters");
        HttpPage::new(&url, timeout).map(SquidCounter)
    }
}

impl Counter for SquidCounter {
    fn read(&mut self) -> Result<f64, CounterError> {
        let body = self.0.get()?;
        parse_squid_counter(&body, "client_http.requests")
            .ok_or_else(|| self.0.missing_counter_error("client_http.requests", &body))
    }
}

/// The value of a counter on squid's page, from its line: `client_http.requests = 17`. `None` if the page lacks the counter, or
/// its value is not a number from 0 on.
fn parse_squid_counter(page: &str, name: &str) -> Option<f64> {
    let value_of = |line: &str| line.strip_prefix(name)?.trim_start().strip_prefix('=').map(str::to_string);
    let number = page.lines().find_map(value_of)?;
    number.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// Starts a server that sends `response` to each client `times` times. Returns its URL.
    pub fn start_server(response: &'static [u8], times: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut stream = stream;
                let _ = stream.read(&mut [0; 1024]);
                // Ignore the error of a client that closes the connection early.
                let _ = (0..times).try_for_each(|_| stream.write_all(response));
                if times == 0 {
                    std::thread::sleep(Duration::from_secs(2));
                }
            }
        });
        format!("http://{address}")
    }

    fn get(url: &str) -> Result<String, CounterError> {
        HttpPage::new(url, Duration::from_millis(300)).unwrap().get()
    }

    #[test]
    fn a_page_is_read() {
        let url = start_server(b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nrequests = 5\n", 1);
        assert_eq!(get(&url).unwrap(), "requests = 5\n");
    }

    #[test]
    fn localhost_is_resolved() {
        let url = start_server(b"HTTP/1.1 200 OK\r\n\r\nrequests = 5\n", 1);
        assert_eq!(get(&url.replace("127.0.0.1", "LocalHost")).unwrap(), "requests = 5\n");
    }

    #[test]
    fn each_bad_response_has_its_error() {
        let error_of = |url: &str| get(url).unwrap_err().0;
        assert!(error_of(&start_server(b"HTTP/1.1 404 Not Found\r\n\r\n", 1)).contains("status 404"));
        assert!(error_of(&start_server(b"SSH-2.0-OpenSSH\r\n", 1)).contains("not HTTP"));
        let hostile = error_of(&start_server(b"HTTP/1.1 \x1b[31m4\r\n\r\n", 1));
        assert!(hostile.contains("not HTTP") && !hostile.contains('\x1b'), "{hostile}");
        assert!(error_of(&start_server(b"", 0)).contains("within 300 ms"));
        // The whole response would be 160 GB.
        let endless = format!("HTTP/1.0 200 OK\r\n\r\n{}", "x".repeat(1 << 20)).leak();
        let endless = start_server(endless.as_bytes(), 160_000);
        assert!(error_of(&endless).contains("4 MiB"));
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(error_of(&format!("http://{closed}")).contains("refused"));
    }

    #[test]
    fn redirects_are_refused() {
        let url = start_server(b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", 1);
        assert!(get(&url).unwrap_err().0.contains("status 302"));
    }

    #[test]
    fn malformed_addresses_and_other_schemes_are_refused() {
        let page = |url: &str| HttpPage::new(url, Duration::ZERO);
        assert!(page("http://127.0.0.1").is_ok() && page("http://[::1]:3128/x?y").is_ok());
        assert!(matches!(page("http://no-such-host.invalid/"), Err(WatchError::Unavailable(_))));
        for url in ["https://a/metrics", "ftp://a/", "a:3128", "http://", "http:///x", "http://a/x y", "http://a/\n"] {
            assert!(page(url).is_err(), "{url}");
        }
    }

    /// As Squid 5.7 prints it.
    const PAGE: &str = "sample_time = 1763768142.611 (Fri, 21 Nov 2025 23:35:42 GMT)\nclient_http.requests = 17\nclient_http.hits = 3\ncpu_time = 0.132\n";

    #[test]
    fn only_the_whole_name_of_a_counter_matches() {
        assert_eq!(parse_squid_counter(PAGE, "client_http.requests"), Some(17.0));
        assert_eq!(parse_squid_counter(PAGE, "cpu_time"), Some(0.132));
        assert_eq!(parse_squid_counter(PAGE, "client_http"), None);
        assert_eq!(parse_squid_counter("client_http.requests = many\n", "client_http.requests"), None);
        assert_eq!(parse_squid_counter("client_http.requests = -1\n", "client_http.requests"), None);
    }

    #[test]
    fn a_page_without_the_counter_is_an_error() {
        let url = super::super::http::tests::start_server(b"HTTP/1.0 200 OK\r\n\r\n<html><body>hello", 1);
        let error = SquidCounter::new(&url, Duration::from_millis(300)).unwrap().read().unwrap_err().0;
        assert!(error.contains("no client_http.requests") && error.contains("<html>"), "{error}");
    }
}
