//! A fake service on loopback that counts its requests.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{sync::Arc, time::Duration};

/// How the service answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKind {
    /// With a page of counters that is both squid's and Prometheus'. Each request for the page counts as one.
    Counting,
    /// Nobody listens.
    Closed,
    /// It accepts the connection and sends nothing.
    Hangs,
    /// It sends data without end.
    Endless,
    /// With a page of HTML instead of counters.
    Html,
}

/// The service. Its threads end with the test.
pub struct Service {
    pub address: String,
    count: Arc<AtomicU64>,
    silent: Arc<AtomicBool>,
}

impl Service {
    pub fn start(answer: AnswerKind) -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (count, silent) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        if answer != AnswerKind::Closed {
            let (count, silent) = (count.clone(), silent.clone());
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let (count, silent) = (count.clone(), silent.clone());
                    std::thread::spawn(move || serve(stream, answer, &count, &silent));
                }
            });
        }
        Service { address, count, silent }
    }

    /// Continues to count from another number, as after a restart.
    pub fn set_count(&self, count: u64) {
        self.count.store(count, Ordering::SeqCst);
    }

    /// Whether to close every connection without an answer.
    pub fn set_silent(&self, silent: bool) {
        self.silent.store(silent, Ordering::SeqCst);
    }
}

fn serve(mut stream: impl Read + Write, answer: AnswerKind, count: &AtomicU64, silent: &AtomicBool) {
    let _ = stream.read(&mut [0; 1024]);
    if silent.load(Ordering::SeqCst) {
        return;
    }
    let page = match answer {
        AnswerKind::Counting => {
            let count = count.fetch_add(1, Ordering::SeqCst) + 1;
            format!(
                "HTTP/1.0 200 OK\r\n\r\nsample_time = 1\nclient_http.requests = {count}\n\
                 requests_total{{code=\"200\"}} {count}\n"
            )
        }
        AnswerKind::Html => "HTTP/1.0 200 OK\r\n\r\n<html><body>Not here</body></html>".into(),
        AnswerKind::Endless => {
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
            let piece = [b'x'; 1 << 16];
            // It ends when the client closes the connection.
            while stream.write_all(&piece).is_ok() {}
            return;
        }
        AnswerKind::Hangs | AnswerKind::Closed => {
            std::thread::sleep(Duration::from_secs(20));
            return;
        }
    };
    let _ = stream.write_all(page.as_bytes());
}
