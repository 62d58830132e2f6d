//! A stand-in for a service that counts its requests, on loopback.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{sync::Arc, time::Duration};

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// With a page of counters, squid's and Prometheus' alike; each asking counts as a request.
    Counting,
    /// Nobody listens.
    Closed,
    /// It takes the call and says nothing.
    Hangs,
    /// Ten gigabytes.
    Endless,
    /// A page of something else.
    Html,
}

/// The service. Its threads end with the test.
pub struct Service {
    pub address: String,
    count: Arc<AtomicU64>,
    silent: Arc<AtomicBool>,
}

impl Service {
    pub fn start(answer: Answer) -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (count, silent) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        if answer != Answer::Closed {
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

    /// Counts on from another number, as after a restart.
    pub fn set(&self, count: u64) {
        self.count.store(count, Ordering::SeqCst);
    }

    /// Hangs up on every call, or no longer.
    pub fn silence(&self, silent: bool) {
        self.silent.store(silent, Ordering::SeqCst);
    }
}

fn serve(mut stream: impl Read + Write, answer: Answer, count: &AtomicU64, silent: &AtomicBool) {
    let _ = stream.read(&mut [0; 1024]);
    if silent.load(Ordering::SeqCst) {
        return;
    }
    let page = match answer {
        Answer::Counting => {
            let count = count.fetch_add(1, Ordering::SeqCst) + 1;
            format!(
                "HTTP/1.0 200 OK\r\n\r\nsample_time = 1\nclient_http.requests = {count}\n\
                 requests_total{{code=\"200\"}} {count}\n"
            )
        }
        Answer::Html => "HTTP/1.0 200 OK\r\n\r\n<html><body>Not here</body></html>".into(),
        Answer::Endless => {
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
            let piece = [b'x'; 1 << 16];
            // A caller that has had enough goes away.
            while stream.write_all(&piece).is_ok() {}
            return;
        }
        Answer::Hangs | Answer::Closed => {
            std::thread::sleep(Duration::from_secs(20));
            return;
        }
    };
    let _ = stream.write_all(page.as_bytes());
}
