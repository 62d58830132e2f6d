//! One page by HTTP, in bounded time and size.

use crate::counter::Trouble;
use crate::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// The longest answer that is read: metrics of a busy exporter take a few hundred KiB.
const MOST: usize = 4 << 20;

/// A page.
#[derive(Debug, Clone)]
pub struct Page {
    host: String,
    path: String,
    patience: Duration,
}

impl Page {
    /// The page of an address, `http://HOST[:PORT][/PATH]`.
    ///
    /// # Errors
    /// Fails if the address has another form.
    pub fn new(url: &str, patience: Duration) -> Result<Page, Error> {
        let bad = |why: &str| Error::Usage(format!("{url:?}: {why}; an address is http://HOST:PORT/PATH"));
        if url.starts_with("https:") {
            return Err(bad(
                "fsarena speaks plain http only; take a local port, or `-- curl -s …` as a command",
            ));
        }
        let rest = url.strip_prefix("http://").ok_or_else(|| bad("does not begin with http://"))?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if host.is_empty() || url.contains(|c: char| c.is_control() || c == ' ') {
            return Err(bad("lacks a host, or contains a blank"));
        }
        let named_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let host = if named_port { host.to_string() } else { format!("{host}:80") };
        let path = if path.is_empty() { "/" } else { path };
        Ok(Page { host, path: path.into(), patience })
    }

    /// What it says now. HTTP/1.0, so that it comes in one piece and the connection ends.
    ///
    /// # Errors
    /// Where no server answers in time, or the answer is too long, is not HTTP, or has a status other than 200.
    pub fn get(&self) -> Result<String, Trouble> {
        let until = Instant::now() + self.patience;
        let mut stream = self.connect(until)?;
        let ask = format!(
            "GET {} HTTP/1.0\r\nHost: {}\r\nUser-Agent: fsarena\r\nAccept: text/plain\r\nConnection: close\r\n\r\n",
            self.path, self.host
        );
        stream.set_write_timeout(Some(self.patience)).map_err(|error| self.trouble(&error))?;
        stream.write_all(ask.as_bytes()).map_err(|error| self.trouble(&error))?;
        let answer = self.read(&mut stream, until)?;
        self.body(&answer)
    }

    fn connect(&self, until: Instant) -> Result<TcpStream, Trouble> {
        let addresses = self.host.to_socket_addrs().map_err(|error| self.trouble(&error))?;
        let mut last = None;
        for address in addresses {
            match TcpStream::connect_timeout(&address, self.left(until)?) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        Err(last.map_or_else(|| self.say("the name has no address"), |error| self.trouble(&error)))
    }

    fn read(&self, stream: &mut TcpStream, until: Instant) -> Result<Vec<u8>, Trouble> {
        let mut answer = Vec::new();
        let mut piece = [0; 16 << 10];
        loop {
            stream.set_read_timeout(Some(self.left(until)?)).map_err(|error| self.trouble(&error))?;
            match stream.read(&mut piece) {
                Ok(0) => return Ok(answer),
                Ok(more) => answer.extend_from_slice(&piece[..more]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.trouble(&error)),
            }
            if answer.len() > MOST {
                return Err(self.say("the answer does not end within 4 MiB"));
            }
        }
    }

    fn body(&self, answer: &[u8]) -> Result<String, Trouble> {
        let text = String::from_utf8_lossy(answer);
        let (head, body) = text
            .split_once("\r\n\r\n")
            .filter(|(head, _)| head.starts_with("HTTP/"))
            .ok_or_else(|| self.say(&format!("the answer is no HTTP: {}", begins(&text))))?;
        let status = head.split_ascii_whitespace().nth(1).unwrap_or_default();
        if status != "200" {
            let shown: String = status.escape_debug().take(20).collect();
            return Err(self.say(&format!("the answer has status {shown}")));
        }
        Ok(body.to_string())
    }

    fn left(&self, until: Instant) -> Result<Duration, Trouble> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(self.late()) } else { Ok(left) }
    }

    fn late(&self) -> Trouble {
        self.say(&format!("no whole answer within {} ms", self.patience.as_millis()))
    }

    fn trouble(&self, error: &std::io::Error) -> Trouble {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => self.late(),
            _ => self.say(&error.to_string()),
        }
    }

    fn say(&self, what: &str) -> Trouble {
        Trouble::new(format!("http://{}{}: {what}", self.host, self.path))
    }

    /// That a page does not say what was looked for, and how it begins instead.
    pub fn lacks(&self, what: &str, body: &str) -> Trouble {
        self.say(&format!("there is no {what} in the answer, which begins {}", begins(body)))
    }
}

fn begins(text: &str) -> String {
    let start: String = text.trim_start().chars().take(40).collect();
    format!("{start:?}")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A server that sends `answer` to each client `times` times.
    pub fn server(answer: &'static [u8], times: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut stream = stream;
                let _ = stream.read(&mut [0; 1024]);
                // A caller that has had enough goes away.
                let _ = (0..times).try_for_each(|_| stream.write_all(answer));
                if times == 0 {
                    std::thread::sleep(Duration::from_secs(2));
                }
            }
        });
        format!("http://{at}")
    }

    fn get(url: &str) -> Result<String, Trouble> {
        Page::new(url, Duration::from_millis(300)).unwrap().get()
    }

    #[test]
    fn a_page_is_had() {
        let url = server(b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nrequests = 5\n", 1);
        assert_eq!(get(&url).unwrap(), "requests = 5\n");
    }

    #[test]
    fn every_bad_answer_is_told() {
        let said = |url: &str| get(url).unwrap_err().0;
        assert!(said(&server(b"HTTP/1.1 404 Not Found\r\n\r\n", 1)).contains("status 404"));
        assert!(said(&server(b"SSH-2.0-OpenSSH\r\n", 1)).contains("no HTTP"));
        assert!(said(&server(b"HTTP/1.1 \x1b[31m4\r\n\r\n", 1)).contains(r"status \u{1b}[31m4"));
        assert!(said(&server(b"", 0)).contains("within 300 ms"));
        // Ten gigabytes, were it let go on.
        let endless = server(&[b'x'; 1 << 16], 160_000);
        assert!(said(&endless).contains("4 MiB"));
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(said(&format!("http://{closed}")).contains("refused"));
    }

    #[test]
    fn addresses() {
        let page = |url: &str| Page::new(url, Duration::ZERO);
        assert_eq!(page("http://a").unwrap().host, "a:80");
        assert_eq!(page("http://[::1]:3128/x?y").unwrap().path, "/x?y");
        for url in ["https://a/", "a:3128", "http://", "http:///x", "http://a/x y"] {
            assert!(page(url).is_err(), "{url}");
        }
    }
}
