//! `fsarena serve` as a test starts it, and a client that sends just what it is told to.

use super::{Place, text};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server that ends with the test.
pub struct Web {
    child: Child,
    pub url: String,
    pub address: SocketAddr,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Web {
    /// Serves the runs of a place.
    pub fn start(place: &Place, args: &[&str]) -> Web {
        Web::of(place.fsarena(&[&["serve"], args].concat()))
    }

    /// What this command serves.
    pub fn of(mut command: Command) -> Web {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let authority = url.trim().trim_start_matches("http://").split('/').next().unwrap_or_default();
        let port = authority.rsplit(':').next().and_then(|port| port.parse().ok());
        let address = SocketAddr::from(([127, 0, 0, 1], port.unwrap_or_else(|| panic!("{url:?}"))));
        Web { child, url: url.trim().to_string(), address }
    }

    /// Sends these bytes and reads until the server hangs up.
    pub fn raw(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        // A refusal may come before all is sent.
        let _ = stream.write_all(request.as_bytes());
        let mut bytes = vec![];
        let _ = stream.read_to_end(&mut bytes);
        let all = text(&bytes);
        let (head, body) = all.split_once("\r\n\r\n").unwrap_or((&all, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        assert!(!chunked, "only events come in chunks: {head}");
        Answer { status, head: head.to_string(), body: body.to_string() }
    }

    /// Gets a page with further headers, each ended by `\r\n`.
    pub fn get_with(&self, path: &str, headers: &str) -> Answer {
        self.raw(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}\r\n", self.address))
    }

    /// Gets a page.
    pub fn get(&self, path: &str) -> Answer {
        self.get_with(path, "")
    }

    /// Gets a page that must be there.
    #[track_caller]
    pub fn page(&self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.body
    }

    /// The events of a run, as they come.
    pub fn events(&self, run: &str, last: Option<&str>) -> EventSource {
        let mut stream = self.connect();
        let last = last.map_or(String::new(), |id| format!("Last-Event-ID: {id}\r\n"));
        let request = format!("GET /runs/{run}/events HTTP/1.1\r\nHost: {}\r\n{last}\r\n", self.address);
        stream.write_all(request.as_bytes()).unwrap();
        EventSource { reader: BufReader::new(stream) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends a signal and gives how it ended.
    pub fn end(&mut self, signal: rustix::process::Signal) -> std::process::ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One message of a stream of events.
#[derive(Debug, Clone, Default)]
pub struct Message {
    pub id: String,
    pub event: String,
    pub data: String,
}

impl Message {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

/// A stream of events, as a browser reads it.
pub struct EventSource {
    reader: BufReader<TcpStream>,
}

impl Iterator for EventSource {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        let mut message = Message::default();
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // Between the lines stand the sizes of chunks, which begin with no field's name.
            match line.trim_end().split_once(": ") {
                Some(("id", id)) => message.id = id.into(),
                Some(("event", event)) => message.event = event.into(),
                Some(("data", data)) => message.data = data.into(),
                _ if line.trim_end() == "0" => return None,
                _ if line.trim_end().is_empty() && !message.event.is_empty() => return Some(message),
                _ => {}
            }
        }
    }
}
