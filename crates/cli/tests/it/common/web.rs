//! A running `fsarena serve`, and a client that can send any request.

use super::{Sandbox, text};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running server, killed when dropped.
pub struct WebServer {
    child: Child,
    pub url: String,
    pub address: SocketAddr,
}

/// The response to a request.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl WebServer {
    /// Serves the runs of a sandbox.
    pub fn start(sandbox: &Sandbox, args: &[&str]) -> WebServer {
        WebServer::spawn(sandbox.fsarena(&[&["serve"], args].concat()))
    }

    /// Starts the server by this command, and waits for its address.
    pub fn spawn(mut command: Command) -> WebServer {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let authority = url.trim().trim_start_matches("http://").split('/').next().unwrap_or_default();
        let port = authority.rsplit(':').next().and_then(|port| port.parse().ok());
        let address = SocketAddr::from(([127, 0, 0, 1], port.unwrap_or_else(|| panic!("{url:?}"))));
        WebServer { child, url: url.trim().to_string(), address }
    }

    /// Sends these bytes and reads until the server closes the connection.
    pub fn send(&self, request: &str) -> Response {
        let mut stream = self.connect();
        // The server may refuse before everything is sent.
        let _ = stream.write_all(request.as_bytes());
        let mut bytes = vec![];
        let _ = stream.read_to_end(&mut bytes);
        let response = text(&bytes);
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        assert!(!chunked, "only events come in chunks: {head}");
        Response { status, head: head.to_string(), body: body.to_string() }
    }

    /// Gets a page with further headers, each ended by `\r\n`.
    pub fn get_with(&self, path: &str, headers: &str) -> Response {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}\r\n", self.address))
    }

    /// Gets a page.
    pub fn get(&self, path: &str) -> Response {
        self.get_with(path, "")
    }

    /// Gets a page that must exist, and returns its body.
    #[track_caller]
    pub fn get_page(&self, path: &str) -> String {
        let response = self.get(path);
        assert_eq!(response.status, 200, "{path}: {response:?}");
        response.body
    }

    /// Connects to the events of a run, after the event with the id `last_id`.
    pub fn events(&self, run: &str, last_id: Option<&str>) -> EventSource {
        let mut stream = self.connect();
        let last_id = last_id.map_or(String::new(), |id| format!("Last-Event-ID: {id}\r\n"));
        let request = format!("GET /runs/{run}/events HTTP/1.1\r\nHost: {}\r\n{last_id}\r\n", self.address);
        stream.write_all(request.as_bytes()).unwrap();
        EventSource { reader: BufReader::new(stream) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends a signal to the server and waits until it ends.
    pub fn end_by(&mut self, signal: rustix::process::Signal) -> std::process::ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for WebServer {
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
            // The sizes of chunks are lines too; they have no name of a field.
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
